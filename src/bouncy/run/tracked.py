"""A function of states whose mean is followed while a run grows, in batches of draws, even if states are not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Tracked:
    """Sums of f(states) over batches of draws, whose length doubles when all slots are taken.

    Parameters
    ----------
    function : callable
        f(states) of states (n, d) returns numbers (n,), or (n, k).
    chains, slots : int
        Number of chains, and of batches of each, which is even.
    """

    def __init__(self, function: Callable[[NDArray[Any]], Any], chains: int, slots: int) -> None:
        self.function, self._slots = function, slots
        self.length = np.ones(chains, np.int64)
        self.closed = np.zeros(chains, np.int64)
        self.inside = np.zeros(chains, np.int64)  # draws in the open batch
        self.sums = np.zeros((chains, slots, 0))
        self.open = np.zeros((chains, 0))
        self._before: dict[int, dict[str, NDArray[Any]]] = {}

    def count(self, chain: int) -> int:
        """Return how many states of a chain were accounted for."""
        return int(self.closed[chain] * self.length[chain] + self.inside[chain])

    def cut(self, n: int) -> None:
        """Go back behind the last states of the chains that have more than n."""
        for chain in range(len(self.length)):
            if self.count(chain) > n:
                for name, array in self._before.pop(chain).items():
                    getattr(self, name)[chain] = array if array.size else 0.0

    def append(self, chain: int, states: NDArray[Any]) -> None:
        """Account for states, (n, d), of a chain."""
        values = self._values(states)
        self._before[chain] = {name: array[chain].copy() for name, array in self.arrays().items()}
        if not self.open.shape[1]:
            self.sums = np.zeros((len(self.length), self._slots, values.shape[1]))
            self.open = np.zeros((len(self.length), values.shape[1]))
        while len(values):
            n = min(len(values), int(self.length[chain] - self.inside[chain]))
            self.open[chain] += values[:n].sum(axis=0)
            self.inside[chain] += n
            values = values[n:]
            if self.inside[chain] == self.length[chain]:
                self._close(chain)

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

    def _close(self, chain: int) -> None:
        self.sums[chain, self.closed[chain]] = self.open[chain]
        self.open[chain], self.inside[chain] = 0.0, 0
        self.closed[chain] += 1
        if self.closed[chain] == self._slots:
            half = self._slots // 2
            self.sums[chain, :half] = self.sums[chain, 0::2] + self.sums[chain, 1::2]
            self.closed[chain], self.length[chain] = half, 2 * self.length[chain]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that changes, by name."""
        return {name: getattr(self, name) for name in ("length", "closed", "inside", "sums", "open")}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go back, or ahead, to such arrays."""
        for name, array in arrays.items():
            setattr(self, name, array.copy())

    def only(self, places: list[int]) -> Tracked:
        """Return the same of the chains at some places."""
        left = Tracked(self.function, len(places), self._slots)
        left.restore({name: array[places] for name, array in self.arrays().items()})
        return left
