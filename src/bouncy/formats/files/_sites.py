"""What files keep of sites: labels, as JSON (text, numbers, true, false, null, and tuples as lists), and a lattice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bouncy.formats.files._source import Source
from bouncy.targets.contract import Target

# Most levels of nested tuples in a label.
_DEPTH = 8
# More than any lattice has, and few enough for a quick product.
_MOST_SIDES = 64


def are_numbers(target: Target) -> bool:
    """Return whether the labels are 0, 1, ..., d - 1, which files leave out."""
    return all(type(label) is int and label == i for i, label in enumerate(target.labels))


def site_numbers(target: Target, renumber: bool, what: str) -> list[int]:
    """Return the labels, which must be integers >= 0, or 0, ..., d - 1 with `renumber`."""
    if renumber:
        return list(range(target.d))
    for i, label in enumerate(target.labels):
        if isinstance(label, bool | np.bool_) or not isinstance(label, int | np.integer) or label < 0:
            raise ValueError(
                f"{what} can only label sites by integers >= 0, got labels[{i}] = {label!r:.60}; pass renumber=True "
                "to write 0, 1, ... in their place, or save as .json or .npz"
            )
    return [int(label) for label in target.labels]  # type: ignore[call-overload]


def labels_to_json(labels: Sequence[Any]) -> list[Any]:
    """Return labels in a form that `json` can write and `labels_from_json` reverts."""
    return [_plain(label, f"labels[{i}]") for i, label in enumerate(labels)]


def labels_from_json(source: Source, value: Any, d: int) -> tuple[Any, ...] | None:
    """Return d labels from the form that `labels_to_json` returns, or None for null, which means 0, ..., d - 1."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise source.error(f"must be a list of {d} labels, got {value!r:.60}", field="labels")
    if len(value) != d:
        raise source.error(f"must name each of the {d} sites, got {len(value)} labels", field="labels")
    return tuple(_hashable(source, label, f"labels[{i}]") for i, label in enumerate(value))


def _plain(label: Any, name: str, depth: int = 0) -> Any:
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple) and depth < _DEPTH:
        return [_plain(part, name, depth + 1) for part in label]
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"{name} must be finite to be written to a file, got {label!r}")
    if label is None or type(label) in (str, int, float, bool):
        return label
    raise TypeError(
        f"{name} must be text, a number, True, False, None or a tuple of these (at most {_DEPTH} deep) to be written "
        f"to a file, got {label!r:.60} of type {type(label).__name__}"
    )


def _hashable(source: Source, label: Any, field: str, depth: int = 0) -> Any:
    if isinstance(label, list) and depth < _DEPTH:
        return tuple(_hashable(source, part, field, depth + 1) for part in label)
    if isinstance(label, float) and not math.isfinite(label):
        raise source.error(f"must be finite, got {label!r}", field=field)
    if isinstance(label, dict | list):
        raise source.error(f"must be text, a number or a list of these, got {label!r:.60}", field=field)
    return label


def is_lattice(sides: Sequence[int], d: int) -> bool:
    """Return whether `sides` are those of a lattice of d sites."""
    return 1 <= len(sides) <= _MOST_SIDES and min(sides) >= 1 and math.prod(sides) == d
