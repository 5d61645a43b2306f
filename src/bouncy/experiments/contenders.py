"""The samplers that are compared, each of them as something that runs for a given CPU time and then estimates."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import pi
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bouncy.experiments.published import Published, published
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.recorders.pairs import Pairs, all_pairs, no_pairs
from bouncy.recorders.recorder import CLOSED, DRAWN, OPEN, Recorder, new_recorder
from bouncy.results.moments import (
    Sums,
    event_totals,
    pair_means,
    pair_path_means,
    spin_means,
    spin_path_means,
)
from bouncy.run.chain import Chain
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import SpinSampler
from bouncy.samplers.hmc import HMC
from bouncy.targets.mrf import MRF

Array = NDArray[np.float64]
# E[s_i], shape (d,), and E[s_i s_j], shape (d, d), or None where pairs do not count.
Moments = tuple[Array, Array | None]

# Batches of a recorder: the fewest, as no error bars are asked for.
_SLOTS = 4
# Ends of trajectories that are stored before they are added up.
_BLOCK = 2048
# Parts into which the CPU time of a run is cut; calling a kernel takes about a thousandth of one.
_SLICES = 50


class Entry(Protocol):
    """A chain of a contender on one model. A unit of its work is short beside any CPU time that it is given."""

    def compile(self) -> None:
        """Have everything compiled, or loaded from the cache, without doing any work."""

    def advance(self, units: int) -> None:
        """Do some units of work."""

    def forget(self) -> None:
        """Drop all that was recorded; the chain stays where it is."""

    def has_recorded(self) -> bool:
        """Return whether every estimator has found something since `forget`."""

    def moments(self) -> dict[str, Moments]:
        """Return what each estimator has found since `forget`."""

    def counts(self) -> tuple[int, int]:
        """Return the numbers of attempted and of accepted flips since `forget`."""


class Contender(NamedTuple):
    """A sampler in one edition, and the estimators that one of its chains yields."""

    edition: str
    sampler: str
    estimators: tuple[str, ...]


CONTENDERS = (
    Contender("published", "bps-exponential", ("path",)),
    Contender("published", "bps-gaussian", ("path",)),
    Contender("published", "hmc", ("ends",)),
    Contender("ours", "bps-exponential", ("path", "conditional")),
    Contender("ours", "bps-gaussian", ("path", "conditional")),
    # The paper's estimator has a chain of its own: it is not charged for what it does not use.
    Contender("ours", "hmc", ("ends",)),
    Contender("ours", "hmc", ("path", "conditional")),
    Contender("ours", "gibbs", ("path", "conditional")),
    Contender("ours", "metropolis", ("path", "conditional")),
)


@dataclass(frozen=True)
class Measurement:
    """What a contender found on one model in the CPU time that it was given."""

    moments: dict[str, Moments]
    cpu_seconds: float
    hits: int
    flips: int


def run_contender(
    contender: Contender,
    target: MRF,
    seed: np.random.SeedSequence,
    *,
    seconds: float,
    warmup: float,
    travel_time: float,
    pairs: bool,
) -> Measurement:
    """Run a contender on a model for some CPU seconds of this process, which should have one thread.

    The first part of them, a fraction `warmup`, is discarded. Nothing is compiled while the time is taken. The
    `travel_time` of HMC is in units of pi.
    """
    entry = enter(contender, target, seed, travel_time=travel_time, pairs=pairs)
    entry.compile()
    spent = _spend(entry, seconds, warmup)
    hits, flips = entry.counts()
    return Measurement(entry.moments(), spent, hits, flips)


def enter(contender: Contender, target: MRF, seed: np.random.SeedSequence, *, travel_time: float, pairs: bool) -> Entry:
    """Return a new chain of a contender on a model."""
    if contender.edition == "published":
        chain = published(contender.sampler, target, travel_time=travel_time * pi, seed=seed, pairs=pairs)
        return PublishedEntry(chain, contender.estimators[0])
    sampler = our_sampler(target, contender.sampler, travel_time)
    if isinstance(sampler, HMC) and contender.estimators == ("ends",):
        return EndsEntry(target, sampler, seed, pairs)
    return OurEntry(target, sampler, seed, pairs)


def our_sampler(target: MRF, name: str, travel_time: float) -> SpinSampler:
    """Return a sampler of this package with its default settings, but for the travel time of HMC, in units of pi."""
    sampler: SpinSampler = as_sampler(target, HMC(travel_time=travel_time * pi) if name == "hmc" else name)
    return sampler


class PublishedEntry:
    """A literal implementation at its published cost. A unit of work is an attempted flip."""

    def __init__(self, chain: Published, estimator: str) -> None:
        self.chain = chain
        self._estimator = estimator

    def compile(self) -> None:
        self.chain.compile()

    def advance(self, units: int) -> None:
        self.chain.advance(units)

    def forget(self) -> None:
        self.chain.forget()

    def has_recorded(self) -> bool:
        try:
            return self.chain.mean.size > 0
        except ValueError:  # no trajectory has ended yet
            return False

    def moments(self) -> dict[str, Moments]:
        return {self._estimator: (self.chain.mean, self.chain.pair_mean)}

    def counts(self) -> tuple[int, int]:
        return self.chain.hits, self.chain.flips


class OurEntry:
    """A chain of this package. A unit of work leads from one draw to the next: a sweep, or a trajectory of HMC."""

    def __init__(self, target: MRF, sampler: SpinSampler, seed: np.random.SeedSequence, pairs: bool) -> None:
        self._d, self._pairs, self._stride = target.d, pairs, sampler.stride
        self.chain = Chain(target, sampler, seed, None, _SLOTS, 1, self._new_pairs())

    def compile(self) -> None:
        self.chain.compile()

    def advance(self, units: int) -> None:
        self.chain.advance(units * self._stride)

    def forget(self) -> None:
        self.chain.recorder = self._new_recorder()

    def has_recorded(self) -> bool:
        tally = self.chain.recorder.tally
        return bool(tally[OPEN] + tally[CLOSED] > 0)

    def moments(self) -> dict[str, Moments]:
        sums = Sums.of([self.chain])
        path, conditional = spin_path_means(sums).mean, spin_means(sums).mean
        if not self._pairs:
            return {"path": (path, None), "conditional": (conditional, None)}
        return {
            "path": (path, np.asarray(pair_path_means(sums)[0])),
            "conditional": (conditional, np.asarray(pair_means(sums)[0])),
        }

    def counts(self) -> tuple[int, int]:
        totals = event_totals(Sums.of([self.chain]))
        return int(totals[HITS]), int(totals[FLIPS])

    def _new_pairs(self) -> Pairs:
        return all_pairs(self._d, _SLOTS) if self._pairs else no_pairs()

    def _new_recorder(self) -> Recorder:
        return new_recorder(self._d, _SLOTS, self._stride, self._new_pairs())


class EndsEntry(OurEntry):
    """A chain of our HMC that adds up the ends of its trajectories, and records as little else as the loop allows."""

    def __init__(self, target: MRF, sampler: HMC, seed: np.random.SeedSequence, pairs: bool) -> None:
        super().__init__(target, sampler, seed, pairs=False)
        # What the chain takes for a sweep is a whole trajectory: it records at the ends of them alone.
        self._stride = 1
        self.chain.sweep_time = sampler.travel_time
        self._end_pairs = pairs
        self.forget()

    def advance(self, units: int) -> None:
        for begin in range(0, units, _BLOCK):
            self.chain.recorder.tally[DRAWN] = 0
            super().advance(min(_BLOCK, units - begin))
            self._add(self.chain.recorder.draws[: self.chain.recorder.tally[DRAWN]])

    def forget(self) -> None:
        self._ends = 0
        self._sum = np.zeros(self._d)
        self._pair_sum = np.zeros((self._d, self._d)) if self._end_pairs else None
        self.chain.recorder = self._new_recorder()._replace(
            draws=np.empty((_BLOCK, self._d), np.int8), log_prob=np.empty(_BLOCK), magnetisation=np.empty(_BLOCK)
        )

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


def _spend(entry: Entry, seconds: float, warmup: float) -> float:
    """Let an entry run for some CPU seconds, of which it forgets the first part, and return how long it took.

    It goes on until it has recorded something: where the clock is coarse, the first part may take all the time.
    """
    begin = time.process_time()
    rate = _advance_until(entry, begin + warmup * seconds, seconds / _SLICES, 0.0)
    entry.forget()
    _advance_until(entry, begin + seconds, seconds / _SLICES, rate)
    while not entry.has_recorded():
        entry.advance(1)
    return time.process_time() - begin


def _advance_until(entry: Entry, end: float, slice_seconds: float, rate: float) -> float:
    """Advance up to a moment of the process's CPU clock; take and return the units of work done per second.

    A slice is as long as the one before promises. The first ones are too short, never too long, because the cost of
    the call is counted with that of the work.
    """
    now = time.process_time()
    while now < end:
        units = max(1, int(rate * min(slice_seconds, end - now)))
        entry.advance(units)
        before, now = now, time.process_time()
        # A coarse clock may not have moved at all.
        rate = units / (now - before) if now > before else 2 * units / slice_seconds
    return rate
