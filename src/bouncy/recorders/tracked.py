"""The mean of a function of states, followed in batches of draws while a run grows, even if states are not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.batches import Batches, batch_length

Array = NDArray[np.float64]
Function = Callable[[NDArray[Any]], Any]


class Tracked:
    """Sums of f(states) over batches of draws.

    Parameters
    ----------
    function : callable
        f(states) of states (n, d) returns numbers (n,), or (n, k).
    chains, slots : int
        Number of chains, and the number of batches at which they are added up two by two.

    Attributes
    ----------
    count : int
        Draws of each chain so far.
    batches : list of Batches
        Closed batches of each chain, with the one entry "f".
    open : ndarray, shape (chain, k)
        Sums over the open batch.
    """

    def __init__(self, function: Function, chains: int, slots: int) -> None:
        self.function, self._slots = function, slots
        self.count = 0
        self.batches = [Batches(slots) for _ in range(chains)]
        self.open: Array = np.zeros((chains, 0))

    def append(self, states: Sequence[NDArray[Any]]) -> None:
        """Account for states, (n, d), of each chain."""
        values = np.stack([self._values(part) for part in states])
        if not self.open.shape[1]:
            self.open = np.zeros((len(states), values.shape[2]))
        while values.shape[1]:
            length = batch_length(self.count, self._slots)
            n = min(values.shape[1], length - self.count % length)
            self.open = self.open + values[:, :n].sum(axis=1)
            self.count += n
            values = values[:, n:]
            if self.count % length == 0:
                for batches, total in zip(self.batches, self.open, strict=True):
                    batches.append({"f": total})
                self.open = np.zeros_like(self.open)

    def _values(self, states: NDArray[Any]) -> Array:
        values = np.asarray(self.function(states), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(states):
            raise ValueError(
                f"se_of returned an array of shape {values.shape} for {len(states)} states; expected ({len(states)},) "
                f"or ({len(states)}, k), one row for each state"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"se_of must return finite numbers, got {values[~np.isfinite(values)][0]}")
        return values.reshape(len(values), -1)

    def shared(self, places: Sequence[int] | None = None) -> Tracked:
        """Return the same of some chains, all by default, which grows independently."""
        chosen = list(range(len(self.batches)) if places is None else places)
        twin = Tracked(self.function, 0, self._slots)
        twin.count, twin.open = self.count, self.open[chosen]
        twin.batches = [self.batches[k].copy() for k in chosen]
        return twin
