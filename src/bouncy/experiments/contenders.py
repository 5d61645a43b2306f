"""The samplers that are compared, each run for a given CPU time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from math import pi
from typing import NamedTuple, Protocol

import numpy as np

from bouncy.experiments.ours import EndsEntry, Moments, OurEntry, our_sampler
from bouncy.experiments.published import published
from bouncy.experiments.settings import Settings
from bouncy.samplers.hmc import HMC
from bouncy.targets.mrf import MRF

# Slices of the CPU time of a run; calling a kernel takes about a thousandth of one.
_SLICES = 50


class Entry(Protocol):
    """A chain of a contender on one model. A unit of its work is much shorter than the CPU time of a run."""

    def compile(self) -> None:
        """Compile everything, or load it from the cache, without doing any work."""

    def advance(self, units: int) -> None:
        """Do some units of work."""

    def forget(self) -> None:
        """Discard what was recorded; the chain stays where it is."""

    def has_recorded(self) -> bool:
        """Return whether every estimator has a value since `forget`."""

    def moments(self) -> dict[str, Moments]:
        """Return the moments since `forget`, by estimator."""

    def counts(self) -> tuple[int, int]:
        """Return the numbers of attempted and of accepted flips since `forget`."""


class Contender(NamedTuple):
    """A sampler in one edition, and the estimators that are read from one of its chains."""

    edition: str
    sampler: str
    estimators: tuple[str, ...]


CONTENDERS = (
    Contender("published", "bps-exponential", ("path",)),
    Contender("published", "bps-gaussian", ("path",)),
    Contender("published", "hmc", ("ends",)),
    Contender("ours", "bps-exponential", ("path", "conditional")),
    Contender("ours", "bps-gaussian", ("path", "conditional")),
    # The paper's estimator has a chain of its own, which spends no time on other recordings.
    Contender("ours", "hmc", ("ends",)),
    Contender("ours", "hmc", ("path", "conditional")),
    Contender("ours", "gibbs", ("path", "conditional")),
    Contender("ours", "metropolis", ("path", "conditional")),
    Contender("ours", "tempered", ("path", "conditional")),
)


@dataclass(frozen=True)
class Measurement:
    """The estimates of a contender on one model, and what they cost."""

    moments: dict[str, Moments]
    cpu_seconds: float
    hits: int
    flips: int


def run_contender(contender: Contender, target: MRF, seed: np.random.SeedSequence, settings: Settings) -> Measurement:
    """Run a contender on a model for the CPU seconds of the settings, in this process, which should have one thread.

    All that it takes to set up the chain, such as the pilot of a tempered one, and the warm-up are a part of these
    seconds. Compilation is not counted.
    """
    new_entry = partial(enter, contender, target, travel_time=settings.travel_time, pairs=settings.pairs)
    # Another chain goes first, so that everything is compiled when time begins to count, that of a pilot too.
    new_entry(np.random.SeedSequence(0)).compile()
    begin = time.process_time()
    entry = new_entry(seed)
    set_up = time.process_time() - begin
    spent = set_up + _spend(entry, settings.seconds - set_up, settings.warmup)
    hits, flips = entry.counts()
    return Measurement(entry.moments(), spent, hits, flips)


def enter(contender: Contender, target: MRF, seed: np.random.SeedSequence, *, travel_time: float, pairs: bool) -> Entry:
    """Return a new chain of a contender on a model; the travel time of HMC is in units of pi."""
    if contender.edition == "published":
        return published(contender.sampler, target, travel_time=travel_time * pi, seed=seed, pairs=pairs)
    sampler = our_sampler(target, contender.sampler, travel_time)
    if isinstance(sampler, HMC) and contender.estimators == ("ends",):
        return EndsEntry(target, sampler, seed, pairs)
    return OurEntry(target, sampler, seed, pairs)


def _spend(entry: Entry, seconds: float, warmup: float) -> float:
    """Run an entry for some CPU seconds, discard the warm-up, and return how long it took.

    It runs on until it has recorded something: with a coarse clock the warm-up may take all the time, and after a long
    pilot none may be left.
    """
    begin = time.process_time()
    rate = _advance_until(entry, begin + warmup * seconds, seconds / _SLICES, 0.0)
    entry.forget()
    _advance_until(entry, begin + seconds, seconds / _SLICES, rate)
    while not entry.has_recorded():
        entry.advance(1)
    return time.process_time() - begin


def _advance_until(entry: Entry, end: float, slice_seconds: float, rate: float) -> float:
    """Advance until the process's CPU clock reaches `end`; return the units of work per second of the last slice.

    The length of a slice follows from the rate of the one before. The first ones are too short, never too long, because
    the rate includes the cost of the call.
    """
    now = time.process_time()
    while now < end:
        units = max(1, int(rate * min(slice_seconds, end - now)))
        entry.advance(units)
        before, now = now, time.process_time()
        # A coarse clock may not have moved at all.
        rate = units / (now - before) if now > before else 2 * units / slice_seconds
    return rate
