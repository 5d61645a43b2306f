"""The three samplers of the paper at their published cost per event, compiled, each with its bookkeeping in the loop.

- BPS (Pakman 2017, arXiv 1711.00922), exponential and Gaussian: every event computes the times to all walls, O(d), a
  wall costs one row of M, O(d), and every accepted flip adds the state that ends to the time-weighted sums of s and
  s s', O(d^2). The velocity is never refreshed.
- HMC (Pakman & Paninski 2013, arXiv 1311.2166), Gaussian: a wall costs one row of M, O(d). The order of the walls is
  sorted once per trajectory, and the state at its end is added to the sums, O(d^2) per trajectory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf, pi

import numpy as np
from numpy.typing import NDArray

from bouncy._random import exponential, fill_sphere, new_state, uniform
from bouncy._validation import check_count, check_flag
from bouncy.clocks.contract import Clock
from bouncy.clocks.exponential import EXPONENTIAL
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.experiments.particle import (
    BUDGET,
    FLIPS,
    HITS,
    LAST_FLIP,
    WEIGHT,
    Particle,
    Record,
    Schedule,
    T,
    advance_bps,
    advance_hmc,
    draw_position,
    draw_velocity,
    plan,
)
from bouncy.targets.mrf import MRF

_CLOCKS = {"bps-exponential": EXPONENTIAL, "bps-gaussian": GAUSSIAN}
NAMES = (*_CLOCKS, "hmc")


def published(name: str, target: MRF, *, travel_time: float, seed: np.random.SeedSequence, pairs: bool) -> Published:
    """Return a chain of a sampler as published, at time 0, with s uniform and y and v from their stationary law.

    Parameters
    ----------
    name : "bps-exponential", "bps-gaussian" or "hmc".
    target : a dense MRF.
    travel_time : length of a trajectory of HMC in units of its clock, such as 6.5 * pi. BPS has no trajectories.
    seed : fixes the chain. It is not spawned from: the same object gives the same chain again.
    pairs : whether to return `pair_mean`. The sums of s s' are kept either way, because their O(d^2) is part of the
        published cost.

    Examples
    --------
    >>> target = MRF.random(5, seed=1)
    >>> chain = published("hmc", target, travel_time=6.5 * np.pi, seed=np.random.SeedSequence(0), pairs=True)
    >>> chain.advance(10_000)
    >>> chain.hits, chain.mean.shape, chain.pair_mean.shape
    (10000, (5,), (5, 5))
    """
    if name not in NAMES:
        raise ValueError(f"got the sampler {name!r}; expected one of {NAMES}")
    if not isinstance(target, MRF) or target.is_sparse:
        raise ValueError(f"got the target {target!r}; expected a dense MRF, such as MRF.random(10)")
    if not 0 < travel_time < inf:
        raise ValueError(f"travel_time is {travel_time}; expected a finite number > 0, such as 6.5 * pi")
    check_flag("pairs", pairs)
    state = new_state(seed)
    with np.errstate(over="ignore"):
        s = np.array([1 if uniform(state) <= 0.5 else -1 for _ in range(target.d)], np.int8)
        particle = Particle(
            M=np.array(target.M),
            r=np.array(target.r),
            y=np.empty(target.d),
            v=np.empty(target.d),
            s=s,
            now=np.array([0.0, travel_time, 0.0]),
            rng=state,
            travel_time=float(travel_time),
            gaussian=name != "bps-exponential",
        )
        draw_position(state, particle.gaussian, s, particle.y)
        return PublishedHMC(particle, pairs) if name == "hmc" else PublishedBPS(particle, _CLOCKS[name], pairs)


class Published(ABC):
    """A chain of one of the paper's samplers.

    Attributes
    ----------
    sweep_time : the time in units of the clock in which d wall hits are expected.
    particle, record : the arrays that the compiled loop changes in place.
    """

    estimator: str

    def __init__(self, particle: Particle, sweep_time: float, pairs: bool) -> None:
        d = particle.s.size
        self.particle = particle
        self.sweep_time = sweep_time
        self.record = Record(np.zeros(d), np.zeros((d, d)), np.zeros(2), np.zeros(2, np.int64))
        self._pairs = pairs

    def compile(self) -> None:
        """Compile the loop, or load it from disk, without moving the chain."""
        self._advance(0)

    def advance(self, events: int) -> None:
        """Move the chain on by a number of wall hits."""
        self._advance(check_count("events", events, minimum=0))

    def forget(self) -> None:
        """Discard all sums and counts, and continue from the present state."""
        record = self.record
        for column in record:
            column[...] = 0
        record.sums[LAST_FLIP] = self.particle.now[T]

    @property
    def mean(self) -> NDArray[np.float64]:
        """E[s_i], (d,)."""
        weight = self._unrecorded()
        return (self.record.s + weight * self.particle.s) / self._total(weight)

    @property
    def pair_mean(self) -> NDArray[np.float64] | None:
        """E[s_i s_j], (d, d), or None without `pairs`."""
        if not self._pairs:
            return None
        weight = self._unrecorded()
        s = self.particle.s
        return (self.record.pairs + weight * np.multiply.outer(s, s)) / self._total(weight)

    @property
    def hits(self) -> int:
        """Wall hits since the last `forget`."""
        return int(self.record.counts[HITS])

    @property
    def flips(self) -> int:
        """Flips since the last `forget`."""
        return int(self.record.counts[FLIPS])

    def has_recorded(self) -> bool:
        """Return whether there is anything to average since `forget`."""
        return bool(self.record.sums[WEIGHT] + self._unrecorded() > 0.0)

    def moments(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
        """Return the means and pair means since `forget`, by the name of the estimator."""
        return {self.estimator: (self.mean, self.pair_mean)}

    def counts(self) -> tuple[int, int]:
        """Return wall hits and flips since `forget`."""
        return self.hits, self.flips

    @property
    def s(self) -> NDArray[np.int8]:
        """The present spins, a copy, (d,)."""
        return self.particle.s.copy()

    @property
    def time(self) -> float:
        """Time of the clock since the chain was made; `forget` does not reset it."""
        return float(self.particle.now[T])

    def _total(self, weight: float) -> float:
        total = float(self.record.sums[WEIGHT]) + weight
        if total == 0.0:
            raise ValueError(f"nothing is recorded after {self.hits} wall hits; advance the chain further first")
        return total

    @abstractmethod
    def _advance(self, events: int) -> None:
        """Run the compiled loop."""

    @abstractmethod
    def _unrecorded(self) -> float:
        """Return the weight of the present state that is not yet in the sums."""


class PublishedBPS(Published):
    """The binary bouncy particle sampler of the paper. Its averages are over time, up to the last event."""

    estimator = "path"

    def __init__(self, particle: Particle, clock: Clock, pairs: bool) -> None:
        super().__init__(particle, clock.sweep_time(particle.s.size), pairs)
        fill_sphere(particle.rng, particle.v)
        particle.v[:] *= particle.s
        particle.now[BUDGET] = exponential(particle.rng)

    def _advance(self, events: int) -> None:
        advance_bps(self.particle, self.record, events)

    def _unrecorded(self) -> float:
        return float(self.particle.now[T] - self.record.sums[LAST_FLIP])


class PublishedHMC(Published):
    """Exact binary HMC with the Gaussian augmentation. Its averages are over the ends of trajectories."""

    estimator = "ends"

    def __init__(self, particle: Particle, pairs: bool) -> None:
        super().__init__(particle, pi, pairs)
        draw_velocity(particle)
        d = particle.s.size
        self.schedule = Schedule(
            first=np.empty(d),
            speed=np.empty(d),
            order=np.empty(d, np.uint32),
            place=np.zeros(2, np.int64),
            keys=np.empty(d),
            buckets=np.empty(d + 1, np.int32),
        )
        plan(particle, self.schedule)

    def _advance(self, events: int) -> None:
        advance_hmc(self.particle, self.schedule, self.record, events)

    def _unrecorded(self) -> float:
        return 0.0
