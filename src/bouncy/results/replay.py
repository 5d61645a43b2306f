"""A path of spins from its flips."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Path(NamedTuple):
    """The recorded path of a chain."""

    start: NDArray[np.int8]  # (d,) spins at time 0
    site: NDArray[np.int32]  # (flip,)
    time: NDArray[np.float64]  # (flip,) since the beginning of the sweep
    counts: NDArray[np.int32]  # (sweep,) flips in each sweep

    def flips(self, sweep_time: float) -> NDArray[Any]:
        """Return all flips with their times since the beginning of the path."""
        flips = np.empty(self.site.size, [("time", np.float64), ("site", np.int32)])
        flips["site"] = self.site
        flips["time"] = np.repeat(np.arange(self.counts.size) * sweep_time, self.counts) + self.time
        return flips

    def after_sweeps(self, sweeps: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the spins after some numbers of sweeps, which increase, (k, d)."""
        ends = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return self._after_flips(ends[sweeps])

    def at(self, times: NDArray[np.float64], sweep_time: float) -> NDArray[np.int8]:
        """Return the spins at some times, (k, d)."""
        order = np.argsort(times, kind="stable")
        numbers = np.searchsorted(self.flips(sweep_time)["time"], times[order], side="right")
        found = np.empty((times.size, self.start.size), np.int8)
        found[order] = self._after_flips(numbers)
        return found

    def _after_flips(self, numbers: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the spins after some numbers of flips, which increase, (k, d)."""
        states = np.empty((len(numbers), self.start.size), np.int8)
        s, done = self.start.copy(), 0
        for row, n in zip(states, numbers, strict=True):
            np.multiply.at(s, self.site[done:n], np.int8(-1))
            row[:] = s
            done = n
        return states
