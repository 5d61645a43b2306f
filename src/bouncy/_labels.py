"""Labels: checked where they are given, and read from the data frames and series that several arguments may be.

A data frame is anything with `to_numpy` and `columns`, and mostly an `index`; a series has `to_numpy` and an `index`.
So no library of data frames is needed here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

Labels = tuple[Hashable, ...]

# Characters of a label that fit a column.
_WIDTH = 24


def check_labels(labels: Sequence[Hashable], d: int) -> Labels:
    """Return labels as a tuple, after checking that there are d different ones."""
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
        raise TypeError(f"labels must be a sequence of {d} labels, got {labels!r:.60}")
    labels = tuple(labels.tolist()) if isinstance(labels, np.ndarray) else tuple(labels)
    if len(labels) != d:
        raise ValueError(f"labels must name each of the {d} sites, got {len(labels)} labels")
    seen = set()
    for i, label in enumerate(labels):
        try:
            known = label in seen
        except TypeError:
            raise TypeError(f"labels must be hashable, got labels[{i}] = {label!r:.60}") from None
        if known:
            raise ValueError(f"labels must be different from each other, got {label!r} more than once")
        seen.add(label)
    return labels


def read_labels(labels: Sequence[Hashable] | None, d: int) -> Labels | None:
    """Return d labels that may be left out, checked."""
    return None if labels is None else check_labels(labels, d)


def short_label(label: Hashable) -> str:
    """Return a label as text on one line, shortened to the width of a column."""
    text = str(label)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


class Aligned(NamedTuple):
    """Arguments whose entries belong together in their order, and the labels of each axis that they share."""

    values: list[Any]
    labels: dict[str, Labels | None]


class _Axis(NamedTuple):
    """An axis of an argument that has labels."""

    argument: int
    axis: int
    what: str  # in errors
    labels: Labels

    @property
    def is_default(self) -> bool:
        """Whether entries are merely numbered, which is how a frame without an index of its own looks."""
        return self.labels == tuple(range(len(self.labels)))


def align(*arguments: tuple[Any, ...]) -> Aligned:
    """Bring arguments that share axes into one order of their labels.

    The order of an axis is that of the first argument with labels on it. All others must have the same labels and are
    put into that order. Plain arrays, and frames whose index is 0, 1, ..., n - 1, have no labels and are taken by
    position; such an index counts as labels only beside one that holds the same numbers in another order. Arguments
    that have no labels or are in order already are returned as they are.

    Parameters
    ----------
    *arguments : tuple
        Name and value of an argument, then the names of its axes: ("M", M, "site", "site").

    Raises
    ------
    ValueError
        Two arguments have different labels on an axis, or the same one twice in different places. Indices that are
        equal entry by entry match in any case.

    Examples
    --------
    >>> import pandas
    >>> M = pandas.DataFrame([[0, 1], [1, 0]], ["a", "b"], ["a", "b"])
    >>> values, labels = align(("M", M, "site", "site"), ("r", pandas.Series({"b": 2, "a": 1}), "site"))
    >>> values[1].tolist(), labels
    ([1, 2], {'site': ('a', 'b')})
    """
    values = [value for _, value, *_ in arguments]
    axes: dict[str, list[_Axis]] = {}
    for k, (name, value, *kinds) in enumerate(arguments):
        for axis, kind in enumerate(kinds):
            axes.setdefault(kind, [])
            if (labels := _read(value, axis)) is not None:
                axes[kind].append(_Axis(k, axis, _what(name, axis), labels))
    shared = {kind: _first(named) for kind, named in axes.items()}
    for kind, first in shared.items():
        for other in axes[kind]:
            if (order := _order(first, other)) is not None:
                values[other.argument] = np.take(np.asarray(values[other.argument]), order, axis=other.axis)
    return Aligned(values, {kind: _names(first) for kind, first in shared.items()})


def match(name: str, value: Any, target: Any) -> Any:
    """Return a series, or the columns of a data frame, in the order of a target's labels; other values as they are."""
    axis = int(hasattr(value, "columns"))
    labels = _read(value, axis)
    if labels is None:
        return value
    own = _Axis(0, axis, _what(name, axis), labels)
    order = _order(_first([_Axis(0, 0, "the target", target.labels), own]), own)
    return value if order is None else np.take(np.asarray(value), order, axis=axis)


def join_labels(*groups: tuple[Labels | None, Sequence[Hashable]]) -> Labels:
    """Return the labels of several groups of sites, given (labels or None, default labels) of each."""
    return tuple(label for labels, default in groups for label in (default if labels is None else labels))


def _read(value: Any, axis: int) -> Labels | None:
    """Return the labels on an axis of a series or data frame; None where there are none."""
    labels = getattr(value, ("index", "columns")[axis], None)
    if labels is None or not hasattr(value, "to_numpy") or callable(labels):
        return None
    return tuple(labels.tolist() if hasattr(labels, "tolist") else labels)


def _first(axes: list[_Axis]) -> _Axis | None:
    """Return the axis that sets the order, if any has labels."""
    named = [axis for axis in axes if not axis.is_default]
    if not named:
        return None
    numbers = set(named[0].labels)
    return next((axis for axis in axes if axis.is_default and numbers == set(axis.labels)), named[0])


def _names(first: _Axis | None) -> Labels | None:
    return None if first is None or first.is_default else first.labels


def _what(name: str, axis: int) -> str:
    return f"the {'columns' if axis else 'index'} of {name}"


def _order(first: _Axis | None, other: _Axis) -> list[int] | None:
    """Return where the labels of one axis are in another, or raise for the first that does not match.

    None where the other one is in order, or merely numbered.
    """
    if first is None or other.labels == first.labels or (other.is_default and not first.is_default):
        return None
    for axis in (first, other):
        if (twice := _repeated(axis.labels)) is not None:
            raise ValueError(
                f"labels to match must be different from each other, got {twice[0]!r} more than once in {axis.what}"
            )
    place = {label: k for k, label in enumerate(other.labels)}
    for label in first.labels:
        if label not in place:
            raise ValueError(f"{other.what} must have the same labels as {first.what}: {label!r} is missing")
    known = set(first.labels)
    for label in other.labels:
        if label not in known:
            raise ValueError(f"{other.what} must have the same labels as {first.what}, got {label!r} as well")
    return [place[label] for label in first.labels]


def _repeated(labels: Labels) -> tuple[Hashable] | None:
    """Return the first label that was there before, in a tuple as it may be None."""
    seen = set()
    for label in labels:
        if label in seen:
            return (label,)
        seen.add(label)
    return None
