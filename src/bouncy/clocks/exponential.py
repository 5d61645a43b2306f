"""Exponential billiard, U = sum |y_i|: about d^(1/4) work per hit.

In z = |y| and w = sign(y) v the slope of the potential is W = sum w_i, constant between hits. A hit of wall i turns
w_i into -w_i; once the budget is spent by climbing, a bounce takes 2 W / d from every w_i, which turns W into -W.

Between two bounces each site meets its wall at most once, and about sqrt(d) of the sites do, so a leg (the path
between two bounces) needs one pass over the sites to select and sort those. The pass is kept short in turn: because a
bounce changes all w_i by the same small amount, a site whose wall is far away can be left alone for a window of many
legs. Only the sites near their walls are passed over in each leg. Others keep what they had when an era of several
windows began, and each window looks through all of them for those that have come near.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_sphere
from bouncy.clocks._selecting import select
from bouncy.clocks._sorting import sort_order
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, mean_speed, position, restart, shift


def _leg_bounds(clock):
    low, high = np.full(12, -LONGEST), np.full(12, LONGEST)
    high[T_REFRESH] = inf
    low[REFRESH_RATE] = high[REFRESH_RATE] = clock.leg[REFRESH_RATE]
    return low, high


@part(
    "z", "w", "near", "near_z", "near_w", "due", "due_time", "leg", "count", "rng",
    bounds={
        "near": lambda clock: (0, clock.z.size - 1),
        "due": lambda clock: (0, clock.z.size - 1),
        **dict.fromkeys(("z", "near_z", "due_time"), lambda clock: (-LONGEST, LONGEST)),
        "w": lambda clock: (-8.0, 8.0),  # less the drift, which may come to -2 in an era
        "near_w": lambda clock: (-2.0, 2.0),
        "leg": _leg_bounds,
        "count": lambda clock: (0, [MOST_EVENTS, MOST_EVENTS, clock.z.size, clock.z.size, clock.z.size]),
    },
)  # fmt: skip
class ExponentialBilliard(NamedTuple):
    """State of the exponential clock."""

    z: NDArray[np.float64]  # (d,) distances when the era began
    w: NDArray[np.float64]  # (d,) speeds when the era began
    near: NDArray[np.uint32]  # (d,) sites near their walls
    near_z: NDArray[np.float64]  # (d,) their distances when the leg began
    near_w: NDArray[np.float64]  # (d,) their speeds
    due: NDArray[np.uint32]  # (d,) positions in `near` of the sites that hit in this leg, in the order of their times
    due_time: NDArray[np.float64]  # (d,) those times, measured from the beginning of the leg
    leg: NDArray[np.float64]  # (12,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (5,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    scratch: NDArray[np.float64]  # (2, d)
    chosen: NDArray[np.int8]  # (d,) scratch, like the rest
    selected: NDArray[np.int32]  # (d,)
    buckets: NDArray[np.int32]  # (d + 1,)


# Indices into `leg`. DRIFT is the sum that bounces have added to every speed since the era began, LAG its integral
# over time; together they give the positions of the sites that were left alone. LEAST_DRIFT is what the window allows.
(
    T_LEG, T_KNOWN, T_EVENT, T_REFRESH, REFRESH_RATE, SLOPE, BUDGET, T_ERA, T_WINDOW_END, DRIFT, LAG, LEAST_DRIFT,
) = range(12)  # fmt: skip
# Indices into `count`. The first two are read by the recorder of every clock.
BOUNCES, REFRESHMENTS, N_NEAR, N_DUE, NEXT_DUE = range(5)

# Up to this dimension all sites count as near.
_SMALL = 64
# Length of a window then.
_SMALL_WINDOW = 100.0
# Length of a window in units of d^(1/4), and how much drift is allowed for in it in units of 1/d per unit time (the
# mean drift is one): longer windows make fewer passes over all sites and more sites near.
_WINDOW = 2.0
_DRIFT = 1.5
# Windows in an era; up to the dimension above, where no site is left alone, it is one. In each era the slope is summed
# anew: its rounding, carried from bounce to bounce, would change the speed of the particle by 1e-5 within 10^8 hits.
_ERA = 16
# Time beyond the expected end of a leg up to which hits are listed.
_MARGIN = 0.5


def _allocate(d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> ExponentialBilliard:
    clock = ExponentialBilliard(
        z=np.zeros(d),
        w=np.zeros(d),
        near=np.zeros(d, np.uint32),
        near_z=np.zeros(d),
        near_w=np.zeros(d),
        due=np.zeros(d, np.uint32),
        due_time=np.zeros(d),
        leg=np.zeros(12),
        count=np.zeros(5, np.int64),
        rng=state,
        scratch=np.empty((2, d)),
        chosen=np.empty(d, np.int8),
        selected=np.empty(d, np.int32),
        buckets=np.empty(d + 1, np.int32),
    )
    clock.leg[REFRESH_RATE] = refreshment_rate
    return clock


EXPONENTIAL = Clock(
    family="billiard",
    name="exponential",
    allocate=_allocate,
    hit_rate=lambda d: d * mean_speed(d) / 2,
    bounce_rate=lambda d: sqrt(d) * mean_speed(d) / 2,
    by_attempts=True,
    # The rate follows sum |w_i|, which a refreshment draws anew.
    slow=lambda d: ((pi / 2 - 1) / d, 1.0),
)


@helper
def _total(w):
    """Return the sum of w, as four independent partial sums that the processor computes in parallel."""
    a = b = c = e = 0.0
    whole = w.size // 4 * 4
    for i in range(0, whole, 4):
        a += w[i]
        b += w[i + 1]
        c += w[i + 2]
        e += w[i + 3]
    for i in range(whole, w.size):
        a += w[i]
    return (a + b) + (c + e)


@implements(restart, ExponentialBilliard)
def _restart(clock):
    for i in range(clock.z.size):
        clock.z[i] = exponential(clock.rng)
    _new_velocity(clock, 0.0)


@helper
def _new_velocity(clock, t):
    """Draw w, the next refreshment and a budget at time t, where z holds all distances."""
    leg = clock.leg
    fill_sphere(clock.rng, clock.w)
    leg[T_REFRESH] = t + exponential(clock.rng) / leg[REFRESH_RATE] if leg[REFRESH_RATE] > 0.0 else inf
    leg[BUDGET] = exponential(clock.rng)
    leg[T_EVENT] = t
    _open_era(clock, t)


@helper
def _window(d):
    return _SMALL_WINDOW if d <= _SMALL else _WINDOW * d**0.25


@helper
def _open_era(clock, t):
    """Open an era and its first window at time t, where z and w hold all distances and speeds."""
    leg = clock.leg
    leg[T_ERA] = t
    leg[T_LEG] = t
    leg[DRIFT] = 0.0
    leg[LAG] = 0.0
    leg[SLOPE] = _total(clock.w)
    clock.count[N_NEAR] = 0
    _open_window(clock, t)


@helper
def _open_window(clock, t):
    """Gather the sites that may hit their walls in a window from time t on, and start a leg."""
    leg, count = clock.leg, clock.count
    z, w, near, chosen = clock.z, clock.w, clock.near, clock.chosen
    d, dt, elapsed, drift = z.size, t - leg[T_LEG], t - leg[T_ERA], leg[DRIFT]
    lag = leg[LAG] + drift * dt
    for j in range(count[N_NEAR]):
        i = near[j]
        w[i] = clock.near_w[j] - drift
        z[i] = max(clock.near_z[j] + clock.near_w[j] * dt, 0.0) - (w[i] * elapsed + lag)
    length = _window(d)
    leg[LEAST_DRIFT] = drift - _DRIFT * length / d
    lowest = -inf if d <= _SMALL else lag + leg[LEAST_DRIFT] * length
    for i in range(d):
        chosen[i] = z[i] + w[i] * (elapsed + length) + lowest < 0.0
    n = select(chosen, d, near)
    for j in range(n):
        i = near[j]
        clock.near_z[j] = z[i] + w[i] * elapsed + lag
        clock.near_w[j] = w[i] + drift
    leg[T_WINDOW_END] = t + length
    leg[LAG] = lag
    leg[T_LEG] = t
    count[N_NEAR] = n
    _start_leg(clock, t, 0.0)


@helper
def _next_window(clock, t):
    """Open a window at time t, if it is time in a new era."""
    d = clock.z.size
    if d > _SMALL and t - clock.leg[T_ERA] < _ERA * _window(d):
        _open_window(clock, t)
    else:
        position(clock, t, clock.z, clock.w)
        _open_era(clock, t)


@helper
def _start_leg(clock, t, kick):
    """Move the sites near their walls to time t, add `kick` to their speeds, and list those that hit soon."""
    leg, count = clock.leg, clock.count
    near_z, near_w, chosen = clock.near_z, clock.near_w, clock.chosen
    dt = t - leg[T_LEG]
    # The slope grows by about 1 per unit time, and spends the budget while it is positive.
    slope = leg[SLOPE]
    climbed = max(slope, 0.0)
    horizon = min(np.sqrt(climbed * climbed + 2.0 * leg[BUDGET]) - slope + _MARGIN, leg[T_WINDOW_END] - t)
    for j in range(count[N_NEAR]):
        # Rounding may leave a site behind its wall by the last bit.
        z = max(near_z[j] + near_w[j] * dt, 0.0)
        w = near_w[j] + kick
        near_z[j] = z
        near_w[j] = w
        chosen[j] = z + w * horizon < 0.0
    n = select(chosen, count[N_NEAR], clock.selected)
    leg[LAG] += leg[DRIFT] * dt
    leg[DRIFT] += kick
    leg[T_LEG] = t
    leg[T_KNOWN] = t + horizon
    count[N_DUE] = n
    count[NEXT_DUE] = 0
    _sort_due(clock, n, horizon)


@helper
def _sort_due(clock, n, horizon):
    """Write the n selected sites into `due` in the order of their times."""
    due, due_time, selected = clock.due, clock.due_time, clock.selected
    if n <= 12:
        for k in range(n):
            j = np.uint32(selected[k])
            time = -clock.near_z[j] / clock.near_w[j]
            m = k
            while m > 0 and due_time[m - 1] > time:
                due_time[m] = due_time[m - 1]
                due[m] = due[m - 1]
                m -= 1
            due_time[m] = time
            due[m] = j
    else:
        keys, times = clock.scratch[0, :n], clock.scratch[1]
        for k in range(n):
            j = np.uint32(selected[k])
            times[k] = -clock.near_z[j] / clock.near_w[j]
            keys[k] = 2.0 * times[k] / horizon - 1.0
        sort_order(keys, due, clock.buckets)
        for m in range(n):
            k = due[m]
            due[m] = selected[k]
            due_time[m] = times[k]


@helper
def _bounce(clock, t):
    leg = clock.leg
    kick = -2.0 * leg[SLOPE] / clock.z.size
    leg[SLOPE] = -leg[SLOPE]
    leg[BUDGET] = exponential(clock.rng)
    leg[T_EVENT] = t
    clock.count[BOUNCES] += 1
    _start_leg(clock, t, kick)
    if leg[DRIFT] < leg[LEAST_DRIFT]:
        _next_window(clock, t)


@implements(fill, ExponentialBilliard)
def _fill(clock, t_stop, times, sites):
    leg, count = clock.leg, clock.count
    near, near_z, near_w, due, due_time = clock.near, clock.near_z, clock.near_w, clock.due, clock.due_time
    capacity = times.size
    n = 0
    while True:
        t_end = min(t_stop, leg[T_REFRESH], leg[T_KNOWN])
        t_leg, t_event = leg[T_LEG], leg[T_EVENT]
        slope, budget = leg[SLOPE], leg[BUDGET]
        k, n_due = count[NEXT_DUE], count[N_DUE]
        while k < n_due and n < capacity:
            t_hit = max(t_leg + due_time[k], t_event)
            spent = max(slope, 0.0) * (t_hit - t_event)
            if t_hit > t_end or spent > budget:
                break
            j = due[k]
            times[n] = t_hit
            sites[n] = near[j]
            n += 1
            k += 1
            budget -= spent
            t_event = t_hit
            w = near_w[j]
            slope -= 2.0 * w
            # The mirror image of the path meets the wall at the same time and leaves it with the new speed.
            near_z[j] = -near_z[j]
            near_w[j] = -w
        leg[T_EVENT], leg[SLOPE], leg[BUDGET] = t_event, slope, budget
        count[NEXT_DUE] = k
        if n == capacity:
            return n, False
        t_bounce = t_event + budget / slope if slope > 0.0 else inf
        if t_bounce <= t_end:
            _bounce(clock, t_bounce)
        elif t_end == t_stop:
            return n, True
        elif t_end == leg[T_REFRESH]:
            position(clock, t_end, clock.z, clock.w)
            _new_velocity(clock, t_end)
            count[REFRESHMENTS] += 1
        elif t_end == leg[T_WINDOW_END]:
            _next_window(clock, t_end)
        else:
            _start_leg(clock, t_end, 0.0)


@implements(shift, ExponentialBilliard)
def _shift(clock, elapsed):
    leg = clock.leg
    leg[T_LEG] -= elapsed
    leg[T_KNOWN] -= elapsed
    leg[T_EVENT] -= elapsed
    leg[T_REFRESH] -= elapsed
    leg[T_ERA] -= elapsed
    leg[T_WINDOW_END] -= elapsed


@implements(position, ExponentialBilliard)
def _position(clock, t, z, w):
    leg = clock.leg
    dt = t - leg[T_LEG]
    lag = leg[LAG] + leg[DRIFT] * dt
    elapsed = t - leg[T_ERA]
    for i in range(z.size):
        z[i] = max(clock.z[i] + clock.w[i] * elapsed + lag, 0.0)
        w[i] = clock.w[i] + leg[DRIFT]
    for j in range(clock.count[N_NEAR]):
        i = clock.near[j]
        z[i] = max(clock.near_z[j] + clock.near_w[j] * dt, 0.0)
        w[i] = clock.near_w[j]
