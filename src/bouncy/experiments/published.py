"""The three samplers of the paper at their published cost per event, compiled, each with its bookkeeping in the loop.

- BPS (Pakman 2017, arXiv 1711.00922), exponential and Gaussian: every event computes the times to all walls, O(d), a
  wall costs one row of M, O(d), and every accepted flip adds the state that ends to the time-weighted sums of s and
  s s', O(d^2). The velocity is never refreshed.
- HMC (Pakman & Paninski 2013, arXiv 1311.2166), Gaussian: a wall costs one row of M, O(d). The order of the walls is
  sorted once per trajectory, and the state at its end is added to the sums, O(d^2) per trajectory.

The mathematics is that of `bouncy.testing.literal` and `literal_hmc`; their random numbers give the same events here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._random import new_state, uniform
from bouncy._validation import check_count, check_flag
from bouncy.clocks._sorting import sort_order
from bouncy.clocks.exponential import EXPONENTIAL
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.targets.mrf import MRF
from bouncy.testing import literal, literal_hmc
from bouncy.testing.literal import BUDGET, T_REFRESH, T, flip_cost

_CLOCKS = {"bps-exponential": EXPONENTIAL, "bps-gaussian": GAUSSIAN}
NAMES = (*_CLOCKS, "hmc")

# Indices into `Record.counts`, `Record.sums` and `Schedule.place`.
HITS, FLIPS = range(2)
WEIGHT, LAST_FLIP = range(2)
NEXT, ROUND = range(2)


class Record(NamedTuple):
    """Sums over the states seen since the last `forget`."""

    s: NDArray[np.float64]  # (d,) sum of weight * s
    pairs: NDArray[np.float64]  # (d, d) sum of weight * s s'
    sums: NDArray[np.float64]  # (2,) sum of the weights, and the time at which the present state of BPS began to count
    counts: NDArray[np.int64]  # (2,) wall hits and flips


class Schedule(NamedTuple):
    """The walls of one trajectory of HMC. Site `order[k]` meets its wall at `first[order[k]]` and then every pi."""

    first: NDArray[np.float64]  # (d,) time of each site's first hit since the start of the trajectory
    speed: NDArray[np.float64]  # (d,) speed of each site at its wall
    order: NDArray[np.uint32]  # (d,) sites by their first hits
    place: NDArray[np.int64]  # (2,) index in `order` of the next hit, and how many times the order was gone through
    keys: NDArray[np.float64]  # (d,) scratch of the sort
    buckets: NDArray[np.int32]  # (d + 1,) scratch of the sort


def published(name: str, target: MRF, *, travel_time: float, seed: np.random.SeedSequence, pairs: bool) -> Published:
    """Return a chain of a sampler as published, at time 0, with s uniform and y and v from their stationary law.

    Parameters
    ----------
    name : "bps-exponential", "bps-gaussian" or "hmc".
    target : a dense MRF.
    travel_time : length of a trajectory of HMC in units of its clock, such as 6.5 * pi. BPS has no trajectories.
    seed : fixes the chain. It is read, not spawned from: the same seed gives the same chain again.
    pairs : whether `pair_mean` is wanted. The sums of s s' are kept either way, because their O(d^2) is part of the
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
        if name == "hmc":
            return PublishedHMC(target, s, travel_time, state, pairs)
        return PublishedBPS(target, s, name, state, pairs)


class Published(ABC):
    """A chain of one of the paper's samplers.

    Attributes
    ----------
    sweep_time : the time in units of the clock in which d wall hits are expected.
    particle, record : the arrays that the compiled loop changes in place.
    """

    sweep_time: float

    def __init__(self, particle: literal.Particle | literal_hmc.Particle, s: NDArray[np.int8], pairs: bool) -> None:
        d = s.size
        # y and v were drawn as distance from the wall and speed away from it, on the side +1.
        particle.s[:] = s
        particle.y[:] *= s
        particle.v[:] *= s
        self.particle = particle
        self.record = Record(np.zeros(d), np.zeros((d, d)), np.zeros(2), np.zeros(2, np.int64))
        self._pairs = pairs

    def compile(self) -> None:
        """Compile the loop, or load it from disk, without moving the chain."""
        self._advance(0)

    def advance(self, events: int) -> None:
        """Move the chain on by a number of wall hits."""
        self._advance(check_count("events", events, minimum=0))

    def forget(self) -> None:
        """Drop all that was recorded and counted, and go on from the present state."""
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
        """E[s_i s_j], (d, d), or None if it was not asked for."""
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
        """Return the weight that the present state has and the sums do not contain yet."""


class PublishedBPS(Published):
    """The binary bouncy particle sampler of the paper. Its averages are over time, up to the last event."""

    def __init__(self, target: MRF, s: NDArray[np.int8], name: str, state: NDArray[np.uint64], pairs: bool) -> None:
        clock = _CLOCKS[name]
        super().__init__(literal.new_particle(target.M, target.r, clock.name, clock_state=state), s, pairs)
        self.sweep_time = clock.sweep_time(target.d)

    def _advance(self, events: int) -> None:
        advance_bps(self.particle, self.record, events)

    def _unrecorded(self) -> float:
        return float(self.particle.now[T] - self.record.sums[LAST_FLIP])


class PublishedHMC(Published):
    """Exact binary HMC with the Gaussian augmentation. Its averages are over the ends of trajectories."""

    def __init__(
        self, target: MRF, s: NDArray[np.int8], travel_time: float, state: NDArray[np.uint64], pairs: bool
    ) -> None:
        particle = literal_hmc.new_particle(target.M, target.r, "gaussian", travel_time=travel_time, state=state)
        super().__init__(particle, s, pairs)
        d = target.d
        self.schedule = Schedule(
            first=np.empty(d),
            speed=np.empty(d),
            order=np.empty(d, np.uint32),
            place=np.zeros(2, np.int64),
            keys=np.empty(d),
            buckets=np.empty(d + 1, np.int32),
        )
        _plan(particle, self.schedule)
        self.sweep_time = pi

    def _advance(self, events: int) -> None:
        advance_hmc(self.particle, self.schedule, self.record, events)

    def _unrecorded(self) -> float:
        return 0.0


@helper
def _add_state(record, s, weight):
    """Add a state to the sums with a weight, O(d^2)."""
    for i in range(s.size):
        weighted, row = weight * s[i], record.pairs[i]
        record.s[i] += weighted
        for j in range(s.size):
            row[j] += weighted * s[j]
    record.sums[WEIGHT] += weight


@kernel
def advance_bps(particle, record, events):
    """Move the particle in place through a number of walls. O(d) per event, O(d^2) more per accepted flip."""
    now = particle.now
    hits = 0
    while hits < events:
        wall, until_wall = literal.next_wall(particle.y, particle.v, particle.s)
        slope = literal.slope_of_potential(particle)
        until_bounce = literal.time_to_spend(now[BUDGET], slope, particle.gaussian)
        literal.move(particle, min(until_wall, until_bounce), slope)
        if until_wall <= until_bounce:
            _meet_wall(particle, record, wall)
            hits += 1
        else:
            literal.bounce(particle)
    record.counts[HITS] += hits


@helper
def _meet_wall(particle, record, i):
    """Record the state that ends and flip site i, if the budget pays for it; else invert v_i."""
    s, v, now, sums = particle.s, particle.v, particle.now, record.sums
    particle.y[i] = 0.0
    if literal.pay(particle, flip_cost(particle.M, particle.r, s, i)):
        _add_state(record, s, now[T] - sums[LAST_FLIP])
        sums[LAST_FLIP] = now[T]
        s[i] = -s[i]
        record.counts[FLIPS] += 1
    else:
        v[i] = -v[i]


@kernel
def advance_hmc(particle, schedule, record, events):
    """Move the particle in place through a number of walls. O(d) per hit, O(d^2) per trajectory.

    Within a trajectory only s, the speeds at the walls and the time are kept up to date; y is found at its end.
    """
    now, place = particle.now, schedule.place
    hits = 0
    while hits < events:
        i = schedule.order[place[NEXT]]
        t = schedule.first[i] + pi * place[ROUND]
        if t < particle.travel_time:
            now[T] = now[T_REFRESH] - particle.travel_time + t
            _pay_by_speed(particle, schedule, record, i)
            _go_on(place, schedule.order.size)
            hits += 1
        else:
            _end_trajectory(particle, schedule)
            _add_state(record, particle.s, 1.0)
            literal_hmc.draw_velocity(particle)
            _plan(particle, schedule)
    record.counts[HITS] += hits


@helper
def _pay_by_speed(particle, schedule, record, i):
    """Flip site i if it is fast enough at its wall, and pay for it."""
    s = particle.s
    crosses, schedule.speed[i] = literal_hmc.pay(schedule.speed[i], flip_cost(particle.M, particle.r, s, i))
    if crosses:
        s[i] = -s[i]
        record.counts[FLIPS] += 1


@helper
def _go_on(place, d):
    """Go to the next wall; after all d of them the order begins anew, pi later."""
    place[NEXT] += 1
    if place[NEXT] == d:
        place[NEXT] = 0
        place[ROUND] += 1


@helper
def _plan(particle, schedule):
    """Find the first hits of a trajectory from its start y and v, the speeds there, |(y_i, v_i)|, and their order."""
    y, v, s, first = particle.y, particle.v, particle.s, schedule.first
    for i in range(y.size):
        first[i] = literal_hmc.until_wall(s[i] * y[i], s[i] * v[i], True)
        schedule.speed[i] = sqrt(y[i] * y[i] + v[i] * v[i])
        schedule.keys[i] = 2.0 / pi * first[i] - 1.0
    sort_order(schedule.keys, schedule.order, schedule.buckets)
    schedule.place[NEXT] = 0
    schedule.place[ROUND] = 0


@helper
def _end_trajectory(particle, schedule):
    """Move y to the end of the trajectory and the time to the end of the next one.

    A site that left its wall a time t ago at speed u is at distance u sin t. One that has not met it yet moves as if
    it had left it pi before it will.
    """
    y, s, now, place = particle.y, particle.s, particle.now, schedule.place
    for k in range(y.size):
        i = schedule.order[k]
        hits = place[ROUND] + (1 if k < place[NEXT] else 0)
        since = particle.travel_time - schedule.first[i] - pi * (hits - 1)
        y[i] = s[i] * schedule.speed[i] * max(sin(since), 0.0)
    now[T] = now[T_REFRESH]
    now[T_REFRESH] = now[T] + particle.travel_time
