"""The kinds of models in JSON documents: targets that say themselves how they are written and read.

Such a target has a `json_kind`, the name in documents, and the methods `to_json` and `from_json` for the fields of that
kind (`bouncy.targets.contract.Target`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bouncy._registry import modules
from bouncy.formats.files import _labels
from bouncy.formats.files._json_fields import Fields
from bouncy.targets.contract import Target


class Kind(NamedTuple):
    """The name of a kind of target in documents, and how it is written and read."""

    name: str
    target: type[Target]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Fields], Target]


def _kind_of(target: type[Target], name: str) -> Kind:
    def read(fields: Fields) -> Target:
        with fields.source.blamed():
            model = target.from_json(fields)
            labels = _labels.from_json(fields.source, fields.take("labels", None), model.d)
            fields.finish()
            if labels is not None:
                model.labels = labels
        return model

    return Kind(name, target, target.to_json, read)


KINDS = tuple(
    _kind_of(item, item.json_kind)
    for module in modules("bouncy.targets")
    for item in vars(module).values()
    if isinstance(item, type) and issubclass(item, Target) and item.__module__ == module.__name__ and item.json_kind
)
