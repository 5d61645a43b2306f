"""Chains of this package as contenders, and as single chains whose states are followed."""

from __future__ import annotations

from math import ceil, pi

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy.clocks.by_address import linked
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.batches import Batches, batch_length
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.results.moments import Sums, Weight, as_matrix, means_recorded
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import SpinSampler
from bouncy.samplers.hmc import HMC
from bouncy.samplers.tempered import Tempered
from bouncy.targets.contract import flip_cost, on_flip
from bouncy.targets.mrf import MRF
from bouncy.tolls.contract import pay
from bouncy.workers.contract import Keep, Plan
from bouncy.workers.spins import SpinWorker

Array = NDArray[np.float64]
# E[s_i], shape (d,), and E[s_i s_j], shape (d, d), or None if pairs are not measured.
Moments = tuple[Array, Array | None]

# Batches of a chain: few, as no error bars are needed.
_SLOTS = 4
# Ends of trajectories that are stored before they are added up.
_BLOCK = 2048
# Hits that a clock hands over at a time.
_BUFFER = 256


def our_sampler(target: MRF, name: str, travel_time: float) -> SpinSampler:
    """Return a sampler with its default settings, but for the travel time of HMC, in units of pi.

    A ladder is moved by the paper's sampler.
    """
    other = {"hmc": HMC(travel_time=travel_time * pi), "tempered": Tempered("bps-gaussian")}
    sampler: SpinSampler = as_sampler(target, other.get(name, name))
    return sampler


class OurEntry:
    """A chain of this package, made after the pilot of its sampler, if that has one.

    A unit of work leads from one draw to the next: a sweep, a trajectory of HMC, or a scan of a ladder.
    """

    def __init__(self, target: MRF, sampler: SpinSampler, seed: np.random.SeedSequence, pairs: bool) -> None:
        plan = Plan(sampler.stride, _SLOTS, "all" if pairs else "none")
        used, _ = sampler.prepared(target, seed, plan.pairs)
        self._d, self._pairs, self._stride = target.d, pairs, plan.per_draw
        (self.worker,) = used.workers(target, plan, [seed], [None])
        self._batches = Batches(_SLOTS)

    def compile(self) -> None:
        self.worker.compile()

    def advance(self, units: int) -> None:
        for batch in self.worker.advance(units * self._stride).batches[0]:
            self._batches.append(batch)

    def forget(self) -> None:
        type(self.worker).record_anew([self.worker])
        self._batches = Batches(_SLOTS)

    def has_recorded(self) -> bool:
        return self.worker.sweeps > self.worker.begun

    def moments(self) -> dict[str, Moments]:
        sums = self._sums()

        def moments(name: str, weight: Weight) -> Moments:
            mean = sums.mean(lambda batch: batch[name], weight)
            pairs = sums.mean(lambda batch: batch[f"pair_{name}"], weight) if self._pairs else None
            return mean, None if pairs is None else np.asarray(as_matrix(pairs, {}, 1.0))

        return {"path": moments("path", self.worker.sweep_time), "conditional": moments("mean", means_recorded)}

    def counts(self) -> tuple[int, int]:
        totals = self._sums().totals("events")
        return int(totals[HITS]), int(totals[FLIPS])

    def _sums(self) -> Sums:
        recorded = self.worker.sweeps - self.worker.begun
        length = batch_length(recorded, _SLOTS)
        return Sums([self._batches.closed], self.worker.open_sums(), recorded, length)


class EndsEntry(OurEntry):
    """A chain of our HMC that adds up the ends of its trajectories, and records as little else as the loop allows."""

    def __init__(self, target: MRF, sampler: HMC, seed: np.random.SeedSequence, pairs: bool) -> None:
        super().__init__(target, sampler, seed, pairs=False)
        # The chain records once per sweep; one sweep is a whole trajectory here.
        self._stride, self.worker.plan = 1, Plan(1, _SLOTS)
        self.worker.sweep_time = sampler.travel_time
        self._end_pairs = pairs
        self.forget()

    def advance(self, units: int) -> None:
        for begin in range(0, units, _BLOCK):
            found = self.worker.advance(min(_BLOCK, units - begin), Keep("draws"))
            for batch in found.batches[0]:
                self._batches.append(batch)
            self._add(found.rows[0]["draws"])

    def forget(self) -> None:
        super().forget()
        self._ends = 0
        self._sum = np.zeros(self._d)
        self._pair_sum = np.zeros((self._d, self._d)) if self._end_pairs else None

    def has_recorded(self) -> bool:
        return self._ends > 0

    def moments(self) -> dict[str, Moments]:
        pair_mean = None if self._pair_sum is None else self._pair_sum / self._ends
        return {"ends": (self._sum / self._ends, pair_mean)}

    def _add(self, draws: NDArray[np.int8]) -> None:
        # Sums of so few spins are exact in single precision.
        spins = draws.astype(np.float32)
        self._ends += len(spins)
        self._sum += spins.sum(axis=0)
        if self._pair_sum is not None:
            self._pair_sum += spins.T @ spins


class OurWalker:
    """A chain of this package whose states are followed; a sweep is the expected time of d attempted flips."""

    def __init__(self, name: str, target: MRF, travel_time: float, seed: np.random.SeedSequence) -> None:
        sampler = our_sampler(target, name, travel_time)
        self._worker = SpinWorker(target, sampler, Plan(1, _SLOTS), seed, None)
        self._sweep_time = sampler.clock.sweep_time(target.d)
        self._worker.sweep_time = self._sweep_time
        self.hits = 0  # attempted flips

    def compile(self) -> None:
        self._worker.compile()

    def advance(self, sweeps: int) -> None:
        self._follow(sweeps, Keep())

    def _follow(self, sweeps: int, keep: Keep) -> dict[str, NDArray[np.float64]]:
        SpinWorker.record_anew([self._worker])
        found = self._worker.advance(sweeps, keep)
        events = [*found.batches[0], *self._worker.open_sums()]
        self.hits += round(sum(float(batch["events"][HITS]) for batch in events))
        return found.rows[0]

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        # The chain records once per sweep.
        self._worker.sweep_time = sweeps * self._sweep_time
        rows = self._follow(n, Keep("means"))
        self._worker.sweep_time = self._sweep_time
        return rows["log_prob"], rows["magnetisation"]

    def holding_times(self, n: int, attempts: int) -> Array:
        worker = self._worker
        most_sweeps = ceil(attempts / worker.s.size)
        times, sites, flips = np.empty(_BUFFER), np.empty(_BUFFER, np.int32), np.empty(n)
        found = _run_to_flips(
            linked(worker.clock), worker.toll, worker.view, worker.s, times, sites, self._sweep_time, most_sweeps, flips
        )
        return np.diff(flips[:found]) / self._sweep_time


@kernel
def _run_to_flips(clock, toll, target, s, times, sites, sweep_time, most_sweeps, flips):
    """Run until `flips`, (n,), is filled with the times of accepted flips, and return how many there are.

    All arrays are changed in place; `times` and `sites` are a buffer for hits. The chain is left in the middle of a
    sweep and cannot be used any more.
    """
    purse = toll.purse[0]
    n = 0
    for sweep in range(most_sweeps):
        reached = False
        while not reached:
            m, reached = fill(clock, sweep_time, times, sites)
            for k in range(m):
                passed, purse = pay(toll, purse, flip_cost(target, s, sites[k]), sites[k])
                if passed:
                    s[sites[k]] = -s[sites[k]]
                    on_flip(target, s, sites[k])
                    flips[n] = sweep * sweep_time + times[k]
                    n += 1
                    if n == flips.size:
                        return n
        shift(clock, sweep_time)
    return n
