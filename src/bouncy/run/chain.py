"""One chain: everything that changes while it runs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._dispatch import state_arrays
from bouncy.recorders.pairs import Pairs
from bouncy.recorders.recorder import CLOSED, new_recorder
from bouncy.run.kernel import advance
from bouncy.samplers.contract import Sampler
from bouncy.targets.contract import Target, resync

# Hits that the clock hands over at a time: small enough for the fastest cache.
_BUFFER = 1024


class Chain:
    """A chain of a sampler on a target.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    seed : SeedSequence
        Source of all randomness of this chain.
    start : ndarray or None
        Spins to start from, shape (d,); None draws them uniformly.
    slots, thin, pairs
        As for the recorder.
    """

    def __init__(
        self,
        target: Target,
        sampler: Sampler,
        seed: np.random.SeedSequence,
        start: NDArray[np.int8] | None,
        slots: int,
        thin: int,
        pairs: Pairs,
    ) -> None:
        start_seed, sampler_seed = seed.spawn(2)
        self.s = _random_spins(target.d, start_seed) if start is None else start.copy()
        self.clock, self.toll = sampler.start(target.d, sampler_seed)
        self.sweep_time = sampler.sweep_time(target.d)
        self.view = target.view()
        _resync(self.view, self.s)
        self.recorder = new_recorder(target.d, slots, thin * sampler.stride, pairs)
        self.flips_since_resync = np.zeros(1, np.int64)
        self.cpu_seconds = 0.0
        self.sweeps = 0
        self._times = np.empty(_BUFFER)
        self._sites = np.empty(_BUFFER, np.int32)

    def compile(self) -> None:
        """Have the kernel compiled, or loaded from the cache, before any time is taken."""
        self._call(0)

    def advance(self, sweeps: int) -> None:
        """Run for some sweeps. How a run is cut into calls leaves no trace in its results."""
        before = time.thread_time()
        self._call(sweeps)
        self.cpu_seconds += time.thread_time() - before
        self.sweeps += sweeps

    def _call(self, sweeps: int) -> None:
        advance(
            self.clock, self.toll, self.view, self.recorder, self.s, self.flips_since_resync,
            self._times, self._sites, self.sweep_time, sweeps,
        )  # fmt: skip

    def events(self) -> NDArray[np.int64]:
        """Return the numbers of hits, flips, bounces and refreshments since the recorder was new, shape (4,)."""
        closed = self.recorder.events[: self.recorder.tally[CLOSED]].sum(axis=0)
        totals: NDArray[np.int64] = np.rint(closed + self.recorder.open_events).astype(np.int64)
        return totals

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the rest of the run depends on."""
        arrays = self._arrays()
        return {"arrays": [a.copy() for a in arrays], "cpu_seconds": self.cpu_seconds, "sweeps": self.sweeps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state that was copied before, in place."""
        for array, copy in zip(self._arrays(), state["arrays"], strict=True):
            array[...] = copy
        self.cpu_seconds, self.sweeps = state["cpu_seconds"], state["sweeps"]

    def _arrays(self) -> list[NDArray[Any]]:
        return [self.s, self.flips_since_resync, *state_arrays(self.clock, self.toll, self.view, self.recorder)]


def _random_spins(d: int, seed: np.random.SeedSequence) -> NDArray[np.int8]:
    bits = np.random.default_rng(seed).integers(0, 2, d, dtype=np.int8)
    return (2 * bits - 1).astype(np.int8)


@kernel
def _resync(view, s):  # type: ignore[no-untyped-def]
    resync(view, s)
