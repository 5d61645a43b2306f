"""What all targets have in common: sites with names, and a kind of run that sampling them gives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

RunType = TypeVar("RunType", covariant=True)


class Samplable(Generic[RunType]):
    """Something with d sites that can be sampled.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        What the sites are called, in their order; 0, 1, ..., d - 1 where nobody said.
    """

    d: int
    _labels: tuple[Hashable, ...] | None = None

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return tuple(range(self.d)) if self._labels is None else self._labels

    @labels.setter
    def labels(self, labels: Sequence[Hashable] | None) -> None:
        self._labels = None if labels is None else check_labels(labels, self.d)


def check_labels(labels: Sequence[Hashable], d: int) -> tuple[Hashable, ...]:
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
