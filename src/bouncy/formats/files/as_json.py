"""JSON: models as text for people, exact to the last bit.

A document is an object with `"format": "bouncy-model"`, `"version": 1`, a `"kind"` and the fields of that kind:

- `mrf`: log p(s) = offset - sum_i fields[i] s_i - sum of value s_i s_j over the rows [i, j, value] of `couplings`, each
  pair once; `storage` is `"dense"` or `"sparse"`; `lattice`, if there is one, holds its sides.
- `polynomial`: log p = -E / temperature, E = sum of value times the product of the variables over the rows
  [[i, j, ...], value] of `terms`; `d` sites, `vartype` `"SPIN"` or `"BINARY"`.
- `factor-graph`: p = product over the rows [[i, j, ...], [values]] of `factors`, the last variable changing fastest,
  state -1 before +1; with `"log": true` the values are logarithms, and `null` is that of zero; `d` sites.
- `rbm`: log p(v, h) = v'Wh + b.v + c.h, a row of `W` for each visible unit; `units` `"binary"` (0/1) or `"spin"`.

Every kind may have `labels`, one for each site; a list means a tuple. A restricted target (`fixed_sum`, `one_hot`) is
that of its kind with two more fields: the sites of each of its `groups`, and the number of spins +1 in each, `ups`.
Unknown fields are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from bouncy._registry import modules
from bouncy.formats.files import _sites
from bouncy.formats.files._source import Source
from bouncy.formats.files.json_fields import Fields, listed, shown, sites
from bouncy.targets.constraints import Constraint, Restricted
from bouncy.targets.contract import Target

# Targets that say how they are written and read: those with a `json_kind`, by that.
KINDS: dict[str, type[Target]] = {
    item.json_kind: item
    for module in modules("bouncy.targets")
    for item in vars(module).values()
    if isinstance(item, type) and issubclass(item, Target) and item.__module__ == module.__name__ and item.json_kind
}

NAME = "json"
SUFFIXES = (".json",)
MAX_BYTES = 2**28  # the parsed document takes about ten times as much memory
TARGETS = (*KINDS.values(), Restricted)

_FORMAT = "bouncy-model"
_VERSION = 1
_ENCODE = json.JSONEncoder(allow_nan=False).encode


def load(source: Source) -> Target:
    """Read a model of any kind."""
    fields = Fields(source, _parse(source))
    fields.choice("format", (_FORMAT,))
    version = fields.take("version")
    if type(version) is not int or version != _VERSION:
        raise source.error(f"is {shown(version)}; this version of bouncy reads {_VERSION}", field="version")
    kind = KINDS[fields.choice("kind", tuple(KINDS))]
    with source.blamed():
        model = kind.from_json(fields)
        constraint = _constraint(fields, model.d)
        fields.finish()
    return model if constraint is None else Restricted(model, constraint)


def save(target: Target, file: BinaryIO) -> None:
    """Write a model, one field, or one row of a field, to a line."""
    inner, constraint = (target.relaxed, target.constraint) if isinstance(target, Restricted) else (target, None)
    if inner.json_kind is None:
        raise TypeError(f"{type(inner).__name__} cannot be written to JSON, and neither can what restricts it")
    content = {"format": _FORMAT, "version": _VERSION, "kind": inner.json_kind, **inner.to_json()}
    if constraint is not None:
        content |= constraint.description()
    if not _sites.are_numbers(target):
        content["labels"] = _sites.labels_to_json(target.labels)
    for k, (name, value) in enumerate(content.items()):
        file.write(b",\n" if k else b"{\n")
        file.writelines(piece.encode("ascii") for piece in _layout(name, value))
    file.write(b"\n}\n")


def _constraint(fields: Fields, d: int) -> Constraint | None:
    """Take the groups of a restricted target, if it is one."""
    source, rows = fields.source, fields.take("groups", None)
    if rows is None:
        return None
    groups = [sites(source, row, f"groups[{k}]", d) for k, row in enumerate(listed(source, rows, "groups"))]
    taken = [i for group in groups for i in group]
    if not all(groups) or len(set(taken)) < len(taken):
        raise source.error("must hold groups of sites, none of them empty and no site in two of them", field="groups")
    ups = listed(source, fields.take("ups"), "ups", len(groups))
    for k, (up, group) in enumerate(zip(ups, groups, strict=True)):
        if type(up) is not int or not 0 <= up <= len(group):
            raise source.error(f"must be an integer from 0 to {len(group)}, got {shown(up)}", field=f"ups[{k}]")
    return Constraint(d, tuple(np.array(group) for group in groups), tuple(ups))


def _parse(source: Source) -> dict[str, Any]:
    try:
        document = json.loads(source.text().decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise source.error(f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise source.error(f"is not JSON: {error.msg}, at column {error.colno}", line=error.lineno) from error
    except RecursionError as error:
        raise source.error("is nested too deeply") from error
    except ValueError as error:  # from the two functions below, or an integer of thousands of digits
        raise source.error(str(error)) from error
    if not isinstance(document, dict):
        raise source.error(f"must hold an object, {{...}}, got {shown(document)}")
    return document


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, or raise for equal keys, of which the parser alone would keep the last."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name[:40]!r} is there more than once")
        found[name] = value
    return found


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON; expected a finite number")


def _layout(name: str, value: Any) -> Iterator[str]:
    """Yield the text of a field: on one line, or, if it is a list of lists, one line for each of these."""
    yield f"  {json.dumps(name)}: "
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        yield _ENCODE(value)
        return
    for k, row in enumerate(value):
        yield f"{',' if k else '['}\n    {_ENCODE(row)}"
    yield "\n  ]"
