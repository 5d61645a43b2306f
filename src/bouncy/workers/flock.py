"""A worker that carries many chains of spins, which share one clock.

The clock never looks at the target, so that chains may share one. Given its path they are independent and each leaves
p invariant, so that at stationarity averages over different chains are uncorrelated (docs/lanes.md). All of them try
the same site at the same time, which is a loop over lanes that lie side by side in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import check_bounds, check_range
from bouncy._lane_loop import padded
from bouncy._memory import aligned_empty
from bouncy._random import new_state
from bouncy.clocks.by_address import linked
from bouncy.recorders.batches import Batch
from bouncy.recorders.lanes import clear_lanes, lane_rows, lane_sums, new_lane_recorder
from bouncy.targets.contract import Target
from bouncy.tolls.lanes import new_lane_toll
from bouncy.workers.contract import Plan, Rows, Worker, flocks_of
from bouncy.workers.flock_kernel import RESYNC, advance_lanes, settle_flock
from bouncy.workers.kernel import BUFFER
from bouncy.workers.spins import SpinLoopWorker, pair_pattern


class FlockWorker(SpinLoopWorker):
    """Chains of a sampler on a binary target that share a clock, as the lanes of one loop.

    Parameters
    ----------
    target, sampler
        What to sample, and how: a target with `lanes`, and a sampler with a `lane_toll`.
    plan : Plan
        What is recorded.
    seeds : sequence of SeedSequence
        Source of all randomness of each chain; the clock is that of the first.
    starts : sequence of ndarray or None
        Spins that each chain starts from, shape (d,); None takes those of the target.
    first : int
        Index of the first chain.
    width : int
        Length of a row of lanes; those beyond the chains run along, and nobody sees them.
    """

    def __init__(
        self,
        target: Target,
        sampler: Any,
        plan: Plan,
        seeds: Sequence[np.random.SeedSequence],
        starts: Sequence[NDArray[np.int8] | None],
        first: int,
        width: int,
    ) -> None:
        super().__init__(first, plan, sampler.sweep_time(target.d))
        children = [seed.spawn(2) for seed in seeds]
        streams = [sampler_seed.spawn(2) for _, sampler_seed in children]
        self.count = np.array([len(seeds)])
        self._lanes = (width,)
        self.view = target.lanes(width)
        self.s = aligned_empty(target.d, width, dtype=np.int8)
        self.rng = np.empty((4, width), np.uint64)
        for k in range(width):  # idle lanes begin like the first one, and go ways of their own
            lane = k if k < len(seeds) else 0
            start, (start_seed, _), (_, toll_seed) = starts[lane], children[lane], streams[lane]
            self.s[:, k] = target.start(np.random.default_rng(start_seed)) if start is None else start
            self.rng[:, k] = new_state(toll_seed if k == lane else toll_seed.spawn(1)[0])
        self.clock = sampler.new_clock(target, new_state(streams[0][0]))
        self._ticking = linked(self.clock)
        self.toll = new_lane_toll(sampler.lane_toll, self.rng, target.d)
        self.recorder = new_lane_recorder(
            target.d, width, pair_pattern(target, plan.pairs), sampler.clock.by_attempts, self._controls(target)
        )
        self.since_resync = np.zeros(1, np.int64)
        self._times = np.empty(BUFFER)
        self._sites = np.empty(BUFFER, np.int32)
        settle_flock(self.view, self.s)

    @property
    def chains(self) -> int:  # type: ignore[override]
        """Number of chains; part of the state, so that a worker can go on with that of a smaller flock."""
        return int(self.count[0])

    @property
    def x(self) -> NDArray[np.int8]:
        return np.ascontiguousarray(self.s[:, : self.chains].T)

    def _run(self, sweeps: int) -> None:
        advance_lanes(
            self._ticking, self.toll, self.view, self.recorder, self.s, self.chains, self.since_resync,
            self._times, self._sites, self.sweep_time, sweeps,
        )  # fmt: skip

    # What is recorded

    def _finished_rows(self, rows: Rows) -> list[Rows]:
        return lane_rows(rows, self.chains)

    def open_sums(self) -> list[Batch]:
        return lane_sums(self.recorder, self.s, self.chains, self.plan.pairs)

    def _take_batches(self) -> list[Batch]:
        batches = self.open_sums()
        clear_lanes(self.recorder)
        return batches

    def totals(self) -> list[dict[str, NDArray[Any]]]:
        """Return the flips of each site under the first chain: they are counted in all chains together."""
        rest = self.chains - 1
        return [{"flips": self.recorder.flips.copy()}, *({"flips": np.zeros_like(self.recorder.flips)},) * rest]

    def _parts(self) -> dict[str, Any]:
        return {
            "lanes": self.count,
            "s": self.s,
            "since_resync": self.since_resync,
            "clock": self.clock,
            "toll": self.toll,
            "view": self.view,
            "recorder": self.recorder,
        }

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check(state)
        check_bounds(state, "view", self.view)
        check_range("lanes", state["lanes"], 1, self.s.shape[1])
        check_range("since_resync", state["since_resync"], 0, RESYNC - 1)
        if not state["toll.rng"].any(axis=0).all():
            raise ValueError("toll.rng holds numbers that are out of range: the generator of a lane is all 0")


def new_flocks(
    target: Target,
    sampler: Any,
    plan: Plan,
    seeds: Sequence[np.random.SeedSequence],
    starts: Sequence[NDArray[np.int8] | None],
) -> list[Worker]:
    """Return workers for as many chains as there are seeds, whose states have the same shapes."""
    flocks = flocks_of(len(seeds), plan.lanes)
    width = padded(max(map(len, flocks)))
    return [
        FlockWorker(target, sampler, plan, [seeds[k] for k in flock], [starts[k] for k in flock], flock[0], width)
        for flock in flocks
    ]
