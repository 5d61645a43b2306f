"""Trajectories of HMC in U = |y|^2 / 2: every site swings through its wall once in a time pi.

Between walls y_i'' = -y_i, so z_i = |y_i| = A_i |sin(t - t_i)| with A_i^2 / 2 the kinetic energy of the site at its
wall. A toll paid at the wall changes A_i but not the times t_i + k pi at which the wall is met: the order of the sites
is fixed for the whole trajectory. One sort per trajectory; after that, hits are read from a list.
"""

from __future__ import annotations

from math import cos, inf, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import fill_normal
from bouncy.clocks._angles import fill_angles
from bouncy.clocks._sorting import sort_order
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, position, restart, shift


def _leg_bounds(clock):
    travel_time = clock.leg[TRAVEL_TIME]
    return [-LONGEST, -LONGEST, travel_time], [LONGEST, inf, travel_time]


@part(
    "site", "phase", "cosine", "sine", "energy", "leg", "count", "rng",
    bounds={
        "site": lambda clock: (0, clock.site.size - 1),
        "phase": lambda clock: (0.0, pi),
        "energy": lambda clock: (0.0, LONGEST),
        "leg": _leg_bounds,
        "count": lambda clock: (0, [MOST_EVENTS, MOST_EVENTS, clock.site.size]),
    },
)  # fmt: skip
class Oscillators(NamedTuple):
    """State of the clock. Site `site[k]` meets its wall at `phase[k]` after each start of a turn."""

    site: NDArray[np.uint32]  # (d,) sites in the order in which their walls are met
    phase: NDArray[np.float64]  # (d,) in [0, pi], same order, increasing
    cosine: NDArray[np.float64]  # (d,) of the phase, by site
    sine: NDArray[np.float64]  # (d,) of the phase, by site
    energy: NDArray[np.float64]  # (d,) A_i^2 / 2 by site; the toll changes it
    leg: NDArray[np.float64]  # (3,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (3,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    scratch: NDArray[np.float64]  # (3, d)
    buckets: NDArray[np.int32]  # (d + 1,)


# Indices into `leg`. A turn is the time pi in which every site meets its wall once.
T_TURN, T_REFRESH, TRAVEL_TIME = range(3)
# Indices into `count`. The first two are read by the recorder of every clock.
BOUNCES, REFRESHMENTS, NEXT = range(3)


def _allocate(d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> Oscillators:
    clock = Oscillators(
        site=np.empty(d, np.uint32),
        phase=np.empty(d),
        cosine=np.empty(d),
        sine=np.empty(d),
        energy=np.empty(d),
        leg=np.zeros(3),
        count=np.zeros(3, np.int64),
        rng=state,
        scratch=np.empty((3, d)),
        buckets=np.empty(d + 1, np.int32),
    )
    clock.leg[TRAVEL_TIME] = 1.0 / refreshment_rate if refreshment_rate > 0.0 else inf
    return clock


HARMONIC = Clock(family="trajectory", name="gaussian", allocate=_allocate, hit_rate=lambda d: d / pi)


@implements(restart, Oscillators)
def _restart(clock):
    z = clock.scratch[0]
    fill_normal(clock.rng, z)
    for i in range(z.size):
        z[i] = abs(z[i])
    _set_off(clock, 0.0)


@helper
def _set_off(clock, t):
    """Start a trajectory at time t from the distances in `scratch[0]` with new velocities."""
    fill_normal(clock.rng, clock.scratch[1])
    launch(clock, t)


@helper
def launch(clock, t):
    """Start a trajectory at time t from the distances in `scratch[0]` with the velocities in `scratch[1]`."""
    z, w, phase = clock.scratch[0], clock.scratch[1], clock.scratch[2]
    energy, cosine, sine = clock.energy, clock.cosine, clock.sine
    for i in range(z.size):
        # z cos t + w sin t = A sin(phase - t)
        square = z[i] * z[i] + w[i] * w[i]
        scale = 1.0 / sqrt(square) if square > 0.0 else 0.0
        energy[i] = 0.5 * square
        cosine[i] = -w[i] * scale
        sine[i] = z[i] * scale
    fill_angles(cosine, sine, phase)
    for i in range(z.size):
        w[i] = phase[i] * (2.0 / pi) - 1.0
    sort_order(w, clock.site, clock.buckets)
    for k in range(z.size):
        clock.phase[k] = phase[clock.site[k]]
    clock.leg[T_TURN] = t
    clock.leg[T_REFRESH] = t + clock.leg[TRAVEL_TIME]
    clock.count[NEXT] = 0


@implements(fill, Oscillators)
def _fill(clock, t_stop, times, sites):
    leg, count, phase, site = clock.leg, clock.count, clock.phase, clock.site
    d, capacity = phase.size, times.size
    n = 0
    while True:
        t_end = min(t_stop, leg[T_REFRESH])
        turn = leg[T_TURN]
        k = count[NEXT]
        while n < capacity and turn + phase[np.uint64(k)] <= t_end:
            times[np.uint64(n)] = turn + phase[np.uint64(k)]
            sites[np.uint64(n)] = site[np.uint64(k)]
            n += 1
            k += 1
            if k == d:
                k = 0
                turn += pi
        leg[T_TURN] = turn
        count[NEXT] = k
        if n == capacity:
            return n, False
        if t_stop < leg[T_REFRESH]:
            return n, True
        if n > 0:
            # Where the sites are at the end of the trajectory depends on the tolls of these hits.
            return n, False
        _distances(clock, t_end, clock.scratch[0])
        _set_off(clock, t_end)
        count[REFRESHMENTS] += 1


@implements(shift, Oscillators)
def _shift(clock, elapsed):
    clock.leg[T_TURN] -= elapsed
    clock.leg[T_REFRESH] -= elapsed


@helper
def _distances(clock, t, z):
    """Write the distances at time t: A |sin(t - phase)|, whichever turn it is."""
    angle = t - clock.leg[T_TURN]
    c, s = cos(angle), sin(angle)
    for i in range(z.size):
        z[i] = sqrt(2.0 * clock.energy[i]) * abs(s * clock.cosine[i] - c * clock.sine[i])


@implements(position, Oscillators)
def _position(clock, t, z, w):
    _distances(clock, t, z)
    angle = t - clock.leg[T_TURN]
    c, s = cos(angle), sin(angle)
    for k in range(z.size):
        i = clock.site[k]
        speed = sqrt(2.0 * clock.energy[i]) * (c * clock.cosine[i] + s * clock.sine[i])
        # Whether the site has met its wall in this turn; the sign of the sine is lost at the wall itself.
        w[i] = speed if k < clock.count[NEXT] else -speed
