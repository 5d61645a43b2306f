"""The compiled loops of the published samplers, event by event.

The particle y moves in the potential U(y) - log p(sign y), with U = |y|^2 / 2 (Gaussian augmentation) or
U = sum |y_i| (exponential) and log p(s) = -s.r - s'Ms/2. The walls are y_i = 0.
"""

from __future__ import annotations

from math import atan2, inf, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._random import exponential, fill_normal
from bouncy.clocks._sorting import sort_order

# Indices into `Particle.now`: time, end of the trajectory of HMC, and budget of BPS.
T, T_REFRESH, BUDGET = range(3)
# Indices into `Record.counts`, `Record.sums` and `Schedule.place`.
HITS, FLIPS = range(2)
WEIGHT, LAST_FLIP = range(2)
NEXT, ROUND = range(2)


class Particle(NamedTuple):
    """State of a particle and its model."""

    M: NDArray[np.float64]  # (d, d)
    r: NDArray[np.float64]  # (d,)
    y: NDArray[np.float64]  # (d,)
    v: NDArray[np.float64]  # (d,), of length 1 for BPS
    s: NDArray[np.int8]  # (d,) the side of each wall on which y is, also where y is on the wall
    now: NDArray[np.float64]  # (3,) see the indices above
    rng: NDArray[np.uint64]  # (4,)
    travel_time: float  # of HMC
    gaussian: bool


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
    place: NDArray[np.int64]  # (2,) index in `order` of the next hit, and completed rounds of the order
    keys: NDArray[np.float64]  # (d,) scratch of the sort
    buckets: NDArray[np.int32]  # (d + 1,) scratch of the sort


def draw_position(state: NDArray[np.uint64], gaussian: bool, s: NDArray[np.int8], y: NDArray[np.float64]) -> None:
    """Fill y, (d,), with |y_i| from the half-normal or exponential law, on the side s_i."""
    if gaussian:
        fill_normal(state, y)
    else:
        for i in range(y.size):
            y[i] = exponential(state)
    y[:] = s * abs(y)


# --- recording --------------------------------------------------------------------------------------------------------


@helper
def _add_state(record, s, weight):
    """Add a state to the sums with a weight, O(d^2)."""
    for i in range(s.size):
        weighted, row = weight * s[i], record.pairs[i]
        record.s[i] += weighted
        for j in range(s.size):
            row[j] += weighted * s[j]
    record.sums[WEIGHT] += weight


# --- BPS --------------------------------------------------------------------------------------------------------------


@kernel
def advance_bps(particle, record, events):
    """Move the particle in place through a number of walls. O(d) per event, O(d^2) more per accepted flip."""
    now = particle.now
    hits = 0
    while hits < events:
        wall, until_wall = next_wall(particle.y, particle.v, particle.s)
        slope = slope_of_potential(particle)
        until_bounce = time_to_spend(now[BUDGET], slope, particle.gaussian)
        move(particle, min(until_wall, until_bounce), slope)
        if until_wall <= until_bounce:
            _meet_wall(particle, record, wall)
            hits += 1
        else:
            bounce(particle)
    record.counts[HITS] += hits


@helper
def _meet_wall(particle, record, i):
    """Record the state that ends and flip site i, if the budget pays for it; else invert v_i."""
    s, v, now, sums = particle.s, particle.v, particle.now, record.sums
    particle.y[i] = 0.0
    cost = flip_cost(particle.M, particle.r, s, i)
    if cost < now[BUDGET]:
        now[BUDGET] -= max(cost, 0.0)
        _add_state(record, s, now[T] - sums[LAST_FLIP])
        sums[LAST_FLIP] = now[T]
        s[i] = -s[i]
        record.counts[FLIPS] += 1
    else:
        v[i] = -v[i]
        now[BUDGET] = exponential(particle.rng)


@helper
def next_wall(y, v, s):
    """Return the wall that is met first, t_i = -y_i / v_i, and the time until then; -1 and inf without any."""
    wall, until_wall = -1, inf
    for i in range(y.size):
        if s[i] * v[i] < 0.0:
            t = -y[i] / v[i]
            if t < until_wall:
                wall, until_wall = i, t
    # Rounding may have put the particle behind a wall by the last bit.
    return wall, max(until_wall, 0.0)


@helper
def time_to_spend(budget, slope, gaussian):
    """Return the time t at which climbing has spent the budget: the integral of [v.grad U]_+ over (0, t) equals it.

    In the Gaussian case v.grad U = v.y grows at rate |v|^2 = 1: the budget is spent where it is sqrt([v.y]_+^2 + 2E).
    In the exponential case it is constant. Both are continuous in the slope: nothing is decided by the sign of a slope
    that vanishes in exact arithmetic.
    """
    if gaussian:
        if slope > 0.0:
            return 2.0 * budget / (sqrt(slope * slope + 2.0 * budget) + slope)
        return sqrt(2.0 * budget) - slope
    return budget / slope if slope > 0.0 else inf


@helper
def _climb(dt, slope, gaussian):
    """Return the integral of [v.grad U]_+ over (0, dt)."""
    if gaussian:
        start, end = max(slope, 0.0), max(slope + dt, 0.0)
        return 0.5 * (end - start) * (end + start)
    return max(slope, 0.0) * dt


@helper
def move(particle, dt, slope):
    """Move along the ray for a time dt and pay for the climb."""
    y, v, now = particle.y, particle.v, particle.now
    for i in range(y.size):
        y[i] += v[i] * dt
    now[BUDGET] = max(now[BUDGET] - _climb(dt, slope, particle.gaussian), 0.0)
    now[T] += dt


@helper
def flip_cost(M, r, s, i):
    """Return log p(s) - log p(s flipped at i) = -2 s_i (r_i + M_i.s) by one row of M, O(d); M may be (0, 0)."""
    field = r[i]
    for j in range(M.shape[1]):
        field += M[i, j] * s[j]
    return -2.0 * s[i] * field


@helper
def bounce(particle):
    """Reflect off the gradient, v_r = v - 2 (v.g) g / |g|^2, and draw a new budget."""
    v = particle.v
    slope = slope_of_potential(particle)
    square = 0.0
    for i in range(v.size):
        square += _gradient(particle, i) ** 2
    for i in range(v.size):
        v[i] -= 2.0 * slope * _gradient(particle, i) / square
    particle.now[BUDGET] = exponential(particle.rng)


@helper
def _gradient(particle, i):
    """Return the derivative of the smooth part of the potential with respect to y_i: y_i or sign(y_i)."""
    return particle.y[i] if particle.gaussian else float(particle.s[i])


@helper
def slope_of_potential(particle):
    """Return v.grad U."""
    slope = 0.0
    for i in range(particle.v.size):
        slope += particle.v[i] * _gradient(particle, i)
    return slope


# --- HMC --------------------------------------------------------------------------------------------------------------


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
            _meet_wall_by_speed(particle, schedule, record, i)
            _go_on(place, schedule.order.size)
            hits += 1
        else:
            _end_trajectory(particle, schedule)
            _add_state(record, particle.s, 1.0)
            draw_velocity(particle)
            plan(particle, schedule)
    record.counts[HITS] += hits


@helper
def _meet_wall_by_speed(particle, schedule, record, i):
    """Flip site i if it is fast enough at its wall, and pay for it."""
    s = particle.s
    crosses, schedule.speed[i] = pay_by_speed(schedule.speed[i], flip_cost(particle.M, particle.r, s, i))
    if crosses:
        s[i] = -s[i]
        record.counts[FLIPS] += 1


@helper
def _go_on(place, d):
    """Go to the next wall; after all d of them the order repeats, pi later."""
    place[NEXT] += 1
    if place[NEXT] == d:
        place[NEXT] = 0
        place[ROUND] += 1


@helper
def plan(particle, schedule):
    """Compute the first hits of a trajectory from its start, the speeds there, |(y_i, v_i)|, and their order."""
    y, v, s, first = particle.y, particle.v, particle.s, schedule.first
    for i in range(y.size):
        first[i] = until_wall(s[i] * y[i], s[i] * v[i], True)
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


@helper
def until_wall(z, w, gaussian):
    """Return the time after which a site at distance z from its wall, with speed w away from it, is back at the wall.

    Gaussian: z cos t + w sin t = 0, at pi - atan2(z, w). Exponential: z + w t - t^2 / 2 = 0, by the root without
    cancellation. From the wall itself, z = 0 and w > 0, this is exactly pi and 2w: a wall is not met twice at once.
    """
    if not z > 0.0:
        # Rounding may have put the site behind its wall by the last bit; no negative zero may reach atan2.
        z = 0.0
    if gaussian:
        return pi - atan2(z, w)
    root = sqrt(w * w + 2.0 * z)
    return w + root if w >= 0.0 else 2.0 * z / (root - w)


@helper
def pay_by_speed(speed, cost):
    """Return whether a site that reaches its wall at this speed crosses it, and the speed at which it leaves."""
    if cost < 0.5 * speed * speed:
        return True, sqrt(speed * speed - 2.0 * cost)
    return False, speed


@helper
def draw_velocity(particle):
    """Draw v from N(0, I), as speed away from the walls: v = s w is normal for any s."""
    fill_normal(particle.rng, particle.v)
    for i in range(particle.v.size):
        particle.v[i] *= particle.s[i]
