"""Trajectories of HMC in U = sum |y_i|: every site falls onto its wall and is thrown back, like a ball on the ground.

Between walls |y_i|'' = -1, so a site that leaves its wall with speed u is back after 2u. A toll paid at the wall
changes u, hence the order of the hits: the sites wait in a queue, O(log d) work per hit.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_normal
from bouncy.clocks._queue import arrange, sift_down
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, position, restart, shift

# Least energy that is accepted of a state: less would mean more than 10^7 hits per unit time.
_LEAST_ENERGY = 1e-15


def _leg_bounds(clock):
    return [-LONGEST, clock.leg[TRAVEL_TIME]], [inf, clock.leg[TRAVEL_TIME]]


@part(
    "due", "queue", "energy", "leg", "count", "rng",
    bounds={
        "due": lambda clock: (-LONGEST, LONGEST),
        "queue": lambda clock: (0, clock.queue.size - 1),
        "energy": lambda clock: (_LEAST_ENERGY, LONGEST),
        "leg": _leg_bounds,
        "count": lambda clock: (0, [MOST_EVENTS, MOST_EVENTS, 1]),
    },
)  # fmt: skip
class Balls(NamedTuple):
    """State of the clock."""

    due: NDArray[np.float64]  # (d,) when each site meets its wall next
    queue: NDArray[np.uint32]  # (d,) heap of the sites, the one that is due first at its top
    energy: NDArray[np.float64]  # (d,) u_i^2 / 2 by site; the toll changes it
    leg: NDArray[np.float64]  # (2,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (3,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    scratch: NDArray[np.float64]  # (2, d)


# Indices into `leg`.
T_REFRESH, TRAVEL_TIME = range(2)
# Indices into `count`. The first two are read by the recorder of every clock; AT_WALL is 1 if the first site in the
# queue is at its wall: its hit was returned by `fill`, and the time of its next one is not computed yet.
BOUNCES, REFRESHMENTS, AT_WALL = range(3)

# Least time between two hits of a site: without speed it would hit its wall endlessly while no time passes.
_SHORTEST = 1e-12


def _allocate(d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> Balls:
    clock = Balls(
        due=np.empty(d),
        queue=np.empty(d, np.uint32),
        energy=np.empty(d),
        leg=np.zeros(2),
        count=np.zeros(3, np.int64),
        rng=state,
        scratch=np.empty((2, d)),
    )
    clock.leg[TRAVEL_TIME] = 1.0 / refreshment_rate if refreshment_rate > 0.0 else inf
    return clock


PARABOLIC = Clock(
    family="trajectory",
    name="exponential",
    allocate=_allocate,
    # The density of z at the wall is 1 and the mean speed towards it E[w]_- = 1 / sqrt(2 pi).
    hit_rate=lambda d: d / sqrt(2 * pi),
    # Where no toll is paid a site keeps its energy, Gamma(3/2), and its rate 1 / (2u) until velocities are drawn anew.
    slow=lambda d: ((pi / 2 - 1) / d, 2.0),
)


@implements(restart, Balls)
def _restart(clock):
    z = clock.scratch[0]
    for i in range(z.size):
        z[i] = exponential(clock.rng)
    _set_off(clock, 0.0)


@helper
def _set_off(clock, t):
    """Start a trajectory at time t from the distances in `scratch[0]` with new velocities."""
    fill_normal(clock.rng, clock.scratch[1])
    launch(clock, t)


@helper
def launch(clock, t):
    """Start a trajectory at time t from the distances in `scratch[0]` with the velocities in `scratch[1]`."""
    z, w = clock.scratch[0], clock.scratch[1]
    for i in range(z.size):
        clock.energy[i] = z[i] + 0.5 * w[i] * w[i]
        u = sqrt(2.0 * clock.energy[i])
        # The positive root of z + w t - t^2/2, without cancellation.
        clock.due[i] = t + (w[i] + u if w[i] > 0.0 else 2.0 * z[i] / max(u - w[i], 1e-300))
        clock.queue[i] = i
    arrange(clock.queue, clock.due)
    clock.leg[T_REFRESH] = t + clock.leg[TRAVEL_TIME]
    clock.count[AT_WALL] = 0


@implements(fill, Balls)
def _fill(clock, t_stop, times, sites):
    leg, count, due, queue = clock.leg, clock.count, clock.due, clock.queue
    while True:
        if count[AT_WALL] == 1:
            i = queue[0]
            due[i] += max(2.0 * sqrt(2.0 * clock.energy[i]), _SHORTEST)
            sift_down(queue, due, 0)
            count[AT_WALL] = 0
        i = queue[0]
        if due[i] <= min(t_stop, leg[T_REFRESH]):
            # When this site is back, perhaps before any other, depends on the toll.
            times[0] = due[i]
            sites[0] = i
            count[AT_WALL] = 1
            return 1, False
        if t_stop < leg[T_REFRESH]:
            return 0, True
        t = leg[T_REFRESH]
        position(clock, t, clock.scratch[0], clock.scratch[1])
        _set_off(clock, t)
        count[REFRESHMENTS] += 1


@implements(shift, Balls)
def _shift(clock, elapsed):
    for i in range(clock.due.size):
        clock.due[i] -= elapsed
    clock.leg[T_REFRESH] -= elapsed


@implements(position, Balls)
def _position(clock, t, z, w):
    for i in range(z.size):
        # The path is the mirror image, in time, of a throw at the moment when the site is due.
        left = clock.due[i] - t
        u = sqrt(2.0 * clock.energy[i])
        z[i] = max(left * (u - 0.5 * left), 0.0)
        w[i] = left - u
