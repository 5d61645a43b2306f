"""Batches of equal length whose number stays bounded: when there are too many they are added up two by two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Sums over one batch, by name.
Batch = Mapping[str, Array]


def batch_length(n: int, most: int) -> int:
    """Return the length of a batch after n steps, where fewer than `most` closed batches are kept.

    Batches are 1 step long at first. Whenever there are `most` of them they are added up two by two. So n steps make
    n // length closed batches, and n % length steps are in the open one. `most` is even.
    """
    length = 1
    while n >= most * length:
        length *= 2
    return length


class Batches:
    """Closed batches of one chain.

    The arrays of a closed batch are never changed, so that a run and the longer one that continues it share them.

    Parameters
    ----------
    most : int
        Number of batches, even, at which they are added up two by two.
    closed : sequence of Batch
        Batches that there are already.
    """

    def __init__(self, most: int, closed: Sequence[Batch] = ()) -> None:
        self.most = most
        self.closed = list(closed)

    def append(self, batch: Batch) -> None:
        """Add a batch of the present length."""
        self.closed.append(batch)
        if len(self.closed) == self.most:
            pairs = zip(self.closed[0::2], self.closed[1::2], strict=True)
            self.closed = [{name: first[name] + second[name] for name in first} for first, second in pairs]

    def copy(self) -> Batches:
        """Return batches that grow independently."""
        return Batches(self.most, self.closed)
