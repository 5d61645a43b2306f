"""A chain that moves spins of another sampler, as a block of it, and keeps nothing but counts of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import state_arrays
from bouncy.clocks.by_address import linked
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.recorders.counter import new_counter
from bouncy.targets.conditioning import as_linked
from bouncy.targets.contract import Target, TargetError, raise_failure
from bouncy.workers.kernel import BUFFER, advance, settle
from bouncy.workers.spins import unknown_swap
from bouncy.workers.swap_kernel import UNKNOWN, advance_pairs

if TYPE_CHECKING:
    from bouncy.samplers.contract import SpinSampler


class Walker:
    """The clock and the toll of a sampler, which last from one visit to the next while the target may change.

    This is what a sampler of a larger model needs that moves s by bouncy and other variables by other means: at each
    visit the target is p(s | others), and the others have moved since the last one.

    Parameters
    ----------
    target, sampler
        What to sample, and how. What the functions of the target return may change between visits, not during one.
    seed : SeedSequence
        Source of all randomness of this walker.

    Notes
    -----
    At stationarity the state of clock and toll is independent of s, and its law is the same for every target. A visit
    preserves p(s | others) times that law. Whatever moves the others preserves p(others | s) and does not see clock and
    toll. So both preserve p(s, others) times that law, although clock and toll are never drawn anew.

    Examples
    --------
    >>> import numpy as np, bouncy
    >>> walker = Walker(bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]]), bouncy.Gibbs(), np.random.SeedSequence(0))
    >>> s = np.array([1, 1], np.int8)
    >>> hits, flips = walker.advance(s, sweeps=100)
    >>> hits
    200
    """

    def __init__(self, target: Target, sampler: SpinSampler, seed: np.random.SeedSequence) -> None:
        self._target = target
        self._in_pairs = sampler.clock.family == "pairs"
        self._view = self._new_view()
        self._clock, self._toll = sampler.start(target, seed)
        self._ticking = linked(self._clock)
        self._sweep_time = sampler.sweep_time(target.d)
        self._counter = new_counter()
        self._flips_since_resync = np.zeros(1, np.int64)
        self._times = np.empty(BUFFER)
        self._sites = np.empty(BUFFER, np.int32)

    def advance(self, s: NDArray[np.int8], sweeps: int) -> tuple[int, int]:
        """Move the spins s, shape (d,), in place, and return how many flips were attempted and how many were made.

        The caches of the target are computed from s first. A target that fails ends the visit, and what it failed with
        is raised; so does an s of probability zero.
        """
        self._settle(s)
        self._flips_since_resync[:] = 0
        self._counter.open_events[:] = 0.0
        if self._call(s, sweeps):
            raise_failure(self._view)
        events = self._counter.open_events
        return int(events[HITS]), int(events[FLIPS])

    def _settle(self, s: NDArray[np.int8]) -> None:
        """Compute the caches of the target from s, and raise where s is impossible."""
        if s.dtype != np.int8 or not s.flags.c_contiguous:
            raise TypeError(f"s must be a contiguous array of int8, got dtype {s.dtype}")
        if hasattr(self._view, "forgive"):  # what failed at the last visit may be well now
            self._view.forgive()
        log_prob = settle(self._view, s)
        raise_failure(self._view)
        if log_prob == -np.inf:
            raise TargetError(
                f"log p is -inf at s = {s.tolist()}; expected a state of non-zero probability", "log_prob", None, s
            )

    def compile(self, s: NDArray[np.int8]) -> None:
        """Compile everything, or load it from the cache; what the target returns for s is ignored."""
        settle(self._new_view(), s)
        self._call(s, 0)

    def _new_view(self) -> Any:
        """Return the target as the loop sees it: that of pairs is compiled once for all targets."""
        view = self._target.view()
        return as_linked(view, self._target.d) if self._in_pairs else view

    def _call(self, s: NDArray[np.int8], sweeps: int) -> bool:
        loop = advance_pairs if self._in_pairs else advance
        left = loop(
            self._ticking, self._toll, self._view, self._counter, s, self._flips_since_resync,
            self._times, self._sites, self._sweep_time, sweeps,
        )  # fmt: skip
        if left == UNKNOWN:
            raise unknown_swap(s)
        return bool(left)

    def state(self) -> list[NDArray[Any]]:
        """Return a copy of the state that is kept from one visit to the next."""
        return [array.copy() for array in state_arrays(self._clock, self._toll)]

    def restore(self, state: list[NDArray[Any]]) -> None:
        """Go back to a state that was copied before, in place."""
        for array, copy in zip(state_arrays(self._clock, self._toll), state, strict=True):
            array[...] = copy
