"""A worker that carries one chain together with the ladder of temperatures on which it moves.

Rungs are lanes of the loop of `workers/flock_kernel.py`. The chain is whichever lane is at b = 1; what is recorded of
it is recorded as of a chain alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import check_bounds, check_range
from bouncy._lane_loop import padded
from bouncy._memory import aligned_empty
from bouncy._random import new_state
from bouncy.clocks.by_address import linked
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import BOUNCES, HITS, REFRESHMENTS, SWEEP_END
from bouncy.recorders.ladder import FINITE, ROWS, VALUE, LadderRecorder, new_cold_view
from bouncy.recorders.recorder import new_recorder
from bouncy.targets.address_lanes import LinkedLanes, address_lanes
from bouncy.targets.constraints import Constraint
from bouncy.targets.contract import Target
from bouncy.tolls.ladder import new_ladder_toll
from bouncy.workers.contract import Keep, Plan, Rows
from bouncy.workers.flock_kernel import RESYNC, advance_lanes, settle_flock
from bouncy.workers.kernel import BUFFER
from bouncy.workers.spins import OneChainWorker, new_pairs, random_start
from bouncy.workers.swap_ladder_kernel import Reference, advance_pair_lanes

# What the clock counts, the same for all lanes.
_OF_THE_CLOCK = [HITS, BOUNCES, REFRESHMENTS]


class LadderWorker(OneChainWorker):
    """One tempered chain.

    Parameters
    ----------
    target, sampler
        What to sample, and how: a `Tempered` whose ladder is known.
    plan : Plan
        What is recorded.
    seed : SeedSequence
        Source of all randomness.
    start : ndarray or None
        Spins that all rungs start from, shape (d,), or of each of all ladders, (ladders * rungs, d); None takes those
        of the target.
    first : int
        Index of the chain.
    """

    def __init__(
        self,
        target: Target,
        sampler: Any,
        plan: Plan,
        seed: np.random.SeedSequence,
        start: NDArray[np.int8] | None,
        first: int = 0,
    ) -> None:
        super().__init__(first, plan, sampler.sweep_time(target.d))
        d, b = target.d, np.array(sampler.ladder)
        start_seed, sampler_seed = seed.spawn(2)
        clock_seed, toll_seed, swap_seed = sampler_seed.spawn(3)
        self._in_pairs = sampler.clock.family == "pairs"
        ladders = sampler.ladders or 1
        lanes = ladders * b.size
        view = None if self._in_pairs else target.lanes(padded(lanes), ladder=True)
        width = lanes if view is None else padded(lanes)
        self.view = address_lanes(target, width, ladders) if view is None else view
        self.lanes = aligned_empty(d, width, dtype=np.int8)
        rows = random_starts(target, start_seed, lanes) if start is None else np.broadcast_to(start, (lanes, d))
        for k in range(width):
            self.lanes[:, k] = rows[min(k, lanes - 1)]
        rng = np.stack([new_state(lane_seed) for lane_seed in toll_seed.spawn(width)], axis=1)
        self.clock = sampler.base_sampler.new_clock(target, new_state(clock_seed))
        self._ticking = linked(self.clock)
        reference = np.zeros(d) if sampler.fields is None else np.array(sampler.fields)
        log_size = None if target.constraint is None else target.constraint.log_size
        self.toll = new_ladder_toll(
            sampler.base_sampler.lane_toll, b, reference, rng, new_state(swap_seed), log_size, ladders,
            sampler.clusters or (), sampler.scans_per_exchange or 1,
        )  # fmt: skip
        self._reference = new_reference(d, target.constraint)
        self.s = self.lanes[:, lanes - 1].copy()
        self.recorder = new_recorder(d, new_pairs(target, plan.pairs), False, target.constraint, self._controls(target))
        self.offset, self.sums = np.zeros(b.size), np.zeros((ROWS, b.size))
        self.seen = np.zeros((ROWS, b.size))  # sums since the present stage began, but for the open batch
        self.best, self.best_log_prob = self.s.copy(), np.full(1, -np.inf)
        self.begun_trips = np.zeros(1, np.int64)
        self.since_resync = np.zeros(1, np.int64)
        self._cold = new_cold_view(ladders, d)
        self._events = np.zeros((5, width))
        self._values = np.empty((0, b.size))
        self._times = np.empty(BUFFER)
        self._sites = np.empty(BUFFER, np.int32)
        settle_flock(self.view, self.lanes)
        self._raise_failure()

    @property
    def rungs(self) -> int:
        """Number of rungs."""
        return int(self.toll.swaps.b.size)

    def _ladder_recorder(self) -> LadderRecorder:
        return LadderRecorder(
            self.recorder.open_mean, self._events, np.array([SWEEP_END]), self.recorder, self._cold, self.s,
            self.offset, self.sums, self.best, self.best_log_prob, self._values,
        )  # fmt: skip

    def _run(self, sweeps: int) -> None:
        while True:
            self._events[:] = 0.0
            recorder, buffer = self._ladder_recorder(), (self._times, self._sites)
            if self._in_pairs:
                sweeps = advance_pair_lanes(
                    self._ticking, self.toll, self.view, recorder, self.lanes, self._reference,
                    self.since_resync, *buffer, self.sweep_time, sweeps,
                )  # fmt: skip
            else:
                sweeps = advance_lanes(
                    self._ticking, self.toll, self.view, recorder, self.lanes, self.lanes.shape[1],
                    self.since_resync, *buffer, self.sweep_time, sweeps,
                )  # fmt: skip
            self.recorder.open_events[_OF_THE_CLOCK] += self._events[_OF_THE_CLOCK, 0]
            if not sweeps:
                return
            self._make_room()

    # What is recorded

    def empty_rows(self, what: str) -> Rows:
        rows = super().empty_rows(what)
        return rows | {"ladder": np.empty((0, self.rungs))} if rows else rows

    def _new_rows(self, keep: Keep, sweeps: int) -> Rows:
        rows = super()._new_rows(keep, sweeps)
        n = len(rows["log_prob"]) if rows else 0
        self._values = np.empty((n, self.rungs))
        return rows | {"ladder": self._values} if rows else rows

    def open_sums(self) -> list[Batch]:
        (batch,) = super().open_sums()
        return [{**batch, "ladder": self.sums.ravel().copy()}]

    def _take_batches(self) -> list[Batch]:
        (batch,) = super()._take_batches()
        found = {**batch, "ladder": self.sums.ravel().copy()}
        self.seen += self.sums
        self.sums[:] = 0.0
        return [found]

    def totals(self) -> list[dict[str, NDArray[Any]]]:
        (totals,) = super().totals()
        return [
            {
                **totals,
                "trips": self.toll.swaps.trips - self.begun_trips,
                "best": self.best.copy(),
                "best_log_prob": self.best_log_prob.copy(),
            }
        ]

    def constants(self) -> dict[str, NDArray[Any]]:
        return {**super().constants(), "ladder.b": self.toll.swaps.b.copy(), "ladder.offset": self.offset.copy()}

    @classmethod
    def record_anew(cls, workers: Sequence[Self]) -> None:
        """Begin a recording, with the increments of log Z that all workers have seen as its offsets."""
        seen = np.sum([worker.seen + worker.sums for worker in workers], axis=0)
        super().record_anew(workers)
        found = increments(seen, workers[0].toll.swaps.b)
        for worker in workers:
            worker.offset[:] = np.where(np.isfinite(found), found, worker.offset)
            worker.seen[:] = 0.0
            worker.begun_trips[:] = worker.toll.swaps.trips

    # State

    def _parts(self) -> dict[str, Any]:
        return {
            "s": self.s,
            "replicas": self.lanes,
            "since_resync": self.since_resync,
            "clock": self.clock,
            "toll": self.toll,
            "view": self.view,
            "recorder": self.recorder,
            "offset": self.offset,
            "sums": self.sums,
            "seen": self.seen,
            "best": self.best,
            "best_log_prob": self.best_log_prob,
            "begun_trips": self.begun_trips,
            **({"reference": self._reference.members} if self._in_pairs else {}),
        }

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check({**state, "best_log_prob": np.maximum(state["best_log_prob"], -np.finfo(float).max)})
        check_range("since_resync", state["since_resync"], 0, RESYNC - 1)
        for name in ("replicas", "best"):
            if not (np.abs(state[name]) == 1).all():
                raise ValueError("the state of a worker must hold spins, -1 or 1")
        check_range("begun_trips", state["begun_trips"], 0, state["toll.swaps.trips"])
        check_bounds(state, "view", self.view)
        if isinstance(self.view, LinkedLanes):
            check_range("view.spins", state["view.spins"], state["replicas"].T, state["replicas"].T)
            if np.array_equal(state["replicas"], self.lanes):  # as in a worker that was made to be restored
                self.view.check(state, "view")
        if self._in_pairs and not same_members(state["reference"], self._reference):
            raise ValueError("reference does not hold the sites of each group in some order")
        lanes = np.sort(state["toll.swaps.lane"].reshape(-1, self.rungs), axis=1)
        if not np.array_equal(lanes.ravel(), np.arange(lanes.size)):
            raise ValueError("toll.swaps.lane does not give each rung a lane of its own among those of its ladder")
        if not state["toll.rng"].any(axis=0).all():
            raise ValueError("toll.rng holds numbers that are out of range: the generator of a lane is all 0")


def increments(seen: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return estimates of log Z_{k+1} / Z_k from the means of V at both ends, (rungs,); NaN where nothing was seen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = seen[VALUE] / seen[FINITE]
    mean[0] = mean[0] if np.isfinite(mean[0]) else mean[1]
    return np.append(0.5 * np.diff(b) * (mean[1:] + mean[:-1]), 0.0)


def random_starts(target: Target, seed: np.random.SeedSequence, rungs: int) -> NDArray[np.int8]:
    """Return possible spins for each rung, (rungs, d)."""
    view = target.view()
    return np.array([random_start(target, view, child) for child in seed.spawn(rungs)])


def new_reference(d: int, constraint: Constraint | None) -> Reference:
    """Return the states that a reference is drawn from: all of them, or those that are allowed."""
    groups = () if constraint is None else constraint.groups
    return Reference(
        members=np.concatenate([*groups, []]).astype(np.int64),
        ends=np.cumsum([0, *(group.size for group in groups)]),
        ups=np.array(() if constraint is None else constraint.ups, np.int64),
        free=np.arange(d) if constraint is None else constraint.free,
    )


def same_members(members: NDArray[np.int64], reference: Reference) -> bool:
    """Say whether an array holds the sites of each group, in any order."""
    ends = [*pairwise(reference.ends)]
    return all(np.array_equal(np.sort(members[a:b]), np.sort(reference.members[a:b])) for a, b in ends)
