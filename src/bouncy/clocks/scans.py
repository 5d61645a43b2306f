"""Scans: no particle, just d attempts per unit time, site after site or at random."""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy._random import exponential, next_bits
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, position, restart, shift


def _counts(clock: Any) -> tuple[Any, Any]:
    d = int(clock.count[DIMENSION])
    return [0, 0, 0, d], [MOST_EVENTS, MOST_EVENTS, d - 1, d]


_BOUNDS = {"now": lambda clock: (-LONGEST, LONGEST), "count": _counts}


@part("now", "count", bounds=_BOUNDS)
class SystematicScan(NamedTuple):
    """Sites 0, 1, ..., d - 1 in turn, equally spaced in time."""

    now: NDArray[np.float64]  # (1,) time at which the sweep began
    count: NDArray[np.int64]  # type: ignore[assignment]  # (4,) see the indices below, shadows tuple.count


@part("now", "count", "rng", bounds=_BOUNDS)
class RandomScan(NamedTuple):
    """Every site at the times of a Poisson process of rate 1.

    Their number in a sweep is random. With exactly d attempts in each sweep, a Metropolis chain that accepts all of
    them would see every other state only.
    """

    now: NDArray[np.float64]  # (1,) time of the next attempt
    count: NDArray[np.int64]  # type: ignore[assignment]  # (4,) see the indices below
    rng: NDArray[np.uint64]  # (4,)


# Indices into `count`. The first two are read by the recorder of every clock.
BOUNCES, REFRESHMENTS, NEXT, DIMENSION = range(4)


def _new_count(d: int) -> NDArray[np.int64]:
    return np.array([0, 0, 0, d])


SYSTEMATIC = Clock(
    family="scan",
    name="systematic",
    allocate=lambda d, refreshment_rate, state: SystematicScan(np.zeros(1), _new_count(d)),
    hit_rate=float,
)
RANDOM = Clock(
    family="scan",
    name="random",
    allocate=lambda d, refreshment_rate, state: RandomScan(np.zeros(1), _new_count(d), state),
    hit_rate=float,
)


@implements(restart, SystematicScan)
def _restart_in_turn(clock):
    clock.now[0] = 0.0
    clock.count[NEXT] = 0


@implements(restart, RandomScan)
def _restart_at_random(clock):
    clock.now[0] = exponential(clock.rng) / clock.count[DIMENSION]


@implements(fill, SystematicScan)
def _fill_in_turn(clock, t_stop, times, sites):
    d, k, begin = clock.count[DIMENSION], clock.count[NEXT], clock.now[0]
    spacing = 1.0 / d
    n = 0
    while n < times.size:
        # Attempt j of a sweep lies in the middle of its share of the time, at (j + 1/2) / d.
        due = int(max(0.0, min((t_stop - begin) * d + 0.5, float(d))))
        m = max(0, min(due - k, times.size - n))
        for j in range(m):
            times[n + j] = begin + (k + j + 0.5) * spacing
            sites[n + j] = k + j
        n += m
        k += m
        if k < d:
            break
        k = 0
        begin += 1.0
    clock.count[NEXT] = k
    clock.now[0] = begin
    return n, n < times.size


@implements(fill, RandomScan)
def _fill_at_random(clock, t_stop, times, sites):
    d = np.uint64(clock.count[DIMENSION])
    spacing = 1.0 / clock.count[DIMENSION]
    t = clock.now[0]
    n = 0
    while n < times.size and t <= t_stop:
        times[n] = t
        # 32 random bits times d, divided by 2^32. Sites differ in probability by at most d / 2^32, which changes how
        # often they are tried and nothing else.
        sites[n] = ((next_bits(clock.rng) >> np.uint64(32)) * d) >> np.uint64(32)
        n += 1
        t += exponential(clock.rng) * spacing
    clock.now[0] = t
    return n, n < times.size


@implements(shift, RandomScan)
@implements(shift, SystematicScan)
def _shift(clock, elapsed):
    clock.now[0] -= elapsed


@implements(position, RandomScan)
@implements(position, SystematicScan)
def _position(clock, t, z, w):
    for i in range(z.size):
        z[i] = nan
        w[i] = nan
