"""Three views of single chains on one model: how they forget, how long they rest, where they go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import pi
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from bouncy._compile import kernel
from bouncy.clocks.contract import fill, shift
from bouncy.experiments.contenders import CONTENDERS, our_sampler
from bouncy.experiments.pool import collect, progress_bar, single_threaded_pool
from bouncy.experiments.published import published
from bouncy.experiments.settings import ViewSettings
from bouncy.recorders.pairs import no_pairs
from bouncy.recorders.recorder import new_recorder
from bouncy.run.chain import Chain
from bouncy.targets.contract import flip_cost, on_flip
from bouncy.targets.mrf import MRF
from bouncy.tolls.contract import pay

Array = NDArray[np.float64]

# Edition and sampler of each chain; a sampler is looked at once, however many of its estimators are compared.
CHAINS = tuple(dict.fromkeys((contender.edition, contender.sampler) for contender in CONTENDERS))

# CPU seconds in which the pace of a chain is taken, and how often; the quickest is what the others were kept from.
_PACE_SECONDS = 0.02
_PACE_REPEATS = 5
# States that are discarded, as a fraction of those that are kept.
_WARMUP = 0.1
# Batches of a recorder whose sums are not read, and hits that a clock hands over at a time.
_SLOTS = 2
_BUFFER = 256
# A chain that has not flipped as often as it should in this many sweeps for each flip asked for is stuck.
_PATIENCE = 1000


@dataclass(frozen=True, eq=False)
class View:
    """What one chain looks like.

    Attributes
    ----------
    edition, sampler : str
    lag_seconds : float
        CPU seconds from one state to the next, the same for all chains of an edition.
    autocorrelation : (lags,) array
        Of log p(s), at 0, 1, ... lags; NaN where log p never changed.
    holding_times : (n,) array
        Times between successive flips of any spin, in sweeps (the time in which d attempted flips are expected).
    magnetisation, magnetisation_seconds : (k,) arrays
        Mean spin of successive states, and the CPU seconds at which they were reached.
    """

    edition: str
    sampler: str
    lag_seconds: float
    autocorrelation: Array
    holding_times: Array
    magnetisation: Array
    magnetisation_seconds: Array


@dataclass(frozen=True, eq=False)
class Views:
    """The chains of all samplers of both editions on one random model, drawn with `seed`."""

    d: int
    sigma_M: float
    sigma_r: float
    seed: int
    curves: list[View]


def measure_views(settings: ViewSettings, seed: int, workers: int | None = None, progress: bool | None = None) -> Views:
    """Run a chain of each sampler of both editions on one random model and return the views of all of them.

    The lag of an edition is the CPU time in which its quickest sampler makes `lag_sweeps` sweeps. The pace of each
    sampler is taken first; its states then follow each other at the distance, in the time of its own clock, that this
    pace covers in one lag.
    """
    numbers = range(len(CHAINS))
    with single_threaded_pool(workers) as pool:
        with progress_bar("views, pace", "chain", progress) as bar:
            paces = dict(collect(pool, take_pace, [(k, settings, seed) for k in numbers], bar))
        lags = [_lag(CHAINS[k][0], paces, settings) for k in numbers]
        calls = [(k, settings, seed, lags[k], paces[k]) for k in numbers]
        with progress_bar("views", "chain", progress) as bar:
            views = dict(collect(pool, take_view, calls, bar))
    return Views(settings.d, settings.sigma_M, settings.sigma_r, seed, [views[k] for k in numbers])


def _lag(edition: str, paces: dict[int, float], settings: ViewSettings) -> float:
    return settings.lag_sweeps * min(pace for k, pace in paces.items() if CHAINS[k][0] == edition)


def take_pace(k: int, settings: ViewSettings, seed: int) -> tuple[int, float]:
    """Return the number of a chain and its CPU seconds per sweep."""
    walker = _new_walker(k, settings, seed)
    walker.compile()
    sweeps = 1
    while (seconds := _time(walker, sweeps)) < _PACE_SECONDS:
        sweeps *= 2
    return k, min(seconds, *(_time(walker, sweeps) for _ in range(_PACE_REPEATS))) / sweeps


def _time(walker: _Walker, sweeps: int) -> float:
    begin = time.process_time()
    walker.advance(sweeps)
    return time.process_time() - begin


def take_view(k: int, settings: ViewSettings, seed: int, lag_seconds: float, sweep_seconds: float) -> tuple[int, View]:
    """Return the number of a chain and its view."""
    walker = _new_walker(k, settings, seed)
    discarded = round(_WARMUP * settings.states)
    log_prob, magnetisation = walker.trace(discarded + settings.states, lag_seconds / sweep_seconds)
    trace = magnetisation[discarded:][: settings.trace]
    edition, sampler = CHAINS[k]
    return k, View(
        edition=edition,
        sampler=sampler,
        lag_seconds=lag_seconds,
        autocorrelation=autocorrelation(log_prob[discarded:], settings.lags),
        holding_times=walker.holding_times(settings.flips),
        magnetisation=trace,
        magnetisation_seconds=lag_seconds * np.arange(1.0, trace.size + 1.0),
    )


def autocorrelation(x: Array, lags: int) -> Array:
    """Return the autocorrelation of a series at 0, 1, ..., lags - 1, shape (lags,); NaN if it is constant."""
    n = x.size
    size = next_fast_len(2 * n, real=True)
    covariance = irfft(np.abs(rfft(x - x.mean(), size)) ** 2, size)[:lags] / n
    if np.ptp(x) == 0.0:
        return np.full(lags, np.nan)
    result: Array = covariance / covariance[0]
    return result


class _Walker(Protocol):
    """A chain that can be looked at while it runs."""

    def compile(self) -> None:
        """Have everything compiled, or loaded from the cache."""

    def advance(self, sweeps: int) -> None:
        """Run for some sweeps."""

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        """Return log p(s) and the magnetisation, (n,) each, of states that are some sweeps apart."""

    def holding_times(self, n: int) -> Array:
        """Return the times between n successive flips, in sweeps, shape (n - 1,), or fewer if the chain is stuck."""


def _new_walker(k: int, settings: ViewSettings, seed: int) -> _Walker:
    """Return a chain of `CHAINS` on the model of the views."""
    model_seed, *seeds = np.random.SeedSequence(seed).spawn(1 + len(CHAINS))
    target = MRF.random(settings.d, settings.sigma_M, settings.sigma_r, seed=model_seed)
    edition, sampler = CHAINS[k]
    walker = _PublishedWalker if edition == "published" else _OurWalker
    return walker(sampler, target, settings.travel_time, seeds[k])


class _PublishedWalker:
    """A literal implementation. It moves from one attempted flip to the next, d of which are a sweep on average."""

    def __init__(self, name: str, target: MRF, travel_time: float, seed: np.random.SeedSequence) -> None:
        self._target = target
        self._chain = published(name, target, travel_time=travel_time * pi, seed=seed, pairs=False)

    def compile(self) -> None:
        self._chain.compile()

    def advance(self, sweeps: int) -> None:
        self._chain.advance(sweeps * self._target.d)

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        states = np.empty((n, self._target.d), np.int8)
        # Rounded sums, not rounded steps: the states are as far apart on average as they should be.
        stops = np.rint(sweeps * self._target.d * np.arange(n + 1)).astype(np.int64)
        for k, hits in enumerate(np.diff(stops)):
            self._chain.advance(int(hits))
            states[k] = self._chain.s
        return self._target.log_prob(states), states.mean(axis=1)

    def holding_times(self, n: int) -> Array:
        times: list[float] = []
        for _ in range(_PATIENCE * n):
            before = self._chain.flips
            self._chain.advance(1)
            if self._chain.flips > before:
                times.append(self._chain.time)
            if len(times) == n:
                break
        return np.diff(times) / self._chain.sweep_time


class _OurWalker:
    """A chain of this package."""

    def __init__(self, name: str, target: MRF, travel_time: float, seed: np.random.SeedSequence) -> None:
        sampler = our_sampler(target, name, travel_time)
        self._chain = Chain(target, sampler, seed, None, _SLOTS, 1, no_pairs())
        self._sweep_time = sampler.clock.sweep_time(target.d)
        self._chain.sweep_time = self._sweep_time

    def compile(self) -> None:
        self._chain.compile()

    def advance(self, sweeps: int) -> None:
        self._chain.advance(sweeps)

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        chain = self._chain
        log_prob, magnetisation = np.empty(n), np.empty(n)
        chain.recorder = new_recorder(chain.s.size, _SLOTS, 1, no_pairs())._replace(
            log_prob=log_prob, magnetisation=magnetisation
        )
        # What the chain takes for a sweep is just the time after which it records.
        chain.sweep_time = sweeps * self._sweep_time
        chain.advance(n)
        chain.sweep_time = self._sweep_time
        return log_prob, magnetisation

    def holding_times(self, n: int) -> Array:
        chain = self._chain
        times, sites, flips = np.empty(_BUFFER), np.empty(_BUFFER, np.int32), np.empty(n)
        found = _run_to_flips(
            chain.clock, chain.toll, chain.view, chain.s, times, sites, self._sweep_time, _PATIENCE * n, flips
        )
        return np.diff(flips[:found]) / self._sweep_time


@kernel
def _run_to_flips(clock, toll, target, s, times, sites, sweep_time, most_sweeps, flips):
    """Run until `flips`, (n,), is filled with the times of accepted flips, and return how many there are.

    Everything but the numbers is changed in place; `times` and `sites` are a buffer for hits. The chain is left in the
    middle of a sweep and cannot be used any more.
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
