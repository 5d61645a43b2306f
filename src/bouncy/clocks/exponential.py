"""Exponential billiard, U = sum |y_i|: about d^(1/4) work per hit.

In z = |y| and w = sign(y) v the slope of the potential is W = sum w_i, constant between hits. A hit of wall i turns
w_i into -w_i; once the budget is spent by climbing, a bounce takes 2 W / d from every w_i, which turns W into -W.

Between two bounces each site meets its wall at most once, and about sqrt(d) of the sites do, so a leg (the path
between two bounces) needs one pass over the sites to select and sort those. Its hits tell where it ends, so that it is
found as a whole when it begins, and `fill` only hands it over.

The pass is kept short in turn: because a bounce changes all w_i by the same small amount, a site whose wall is far
away can be left alone for many legs. Time is divided into windows, and only the sites that may meet their walls within
a window are passed over in its legs. In which one that is, is noted when a site is left alone.

Nothing moves: in an era of several windows the distance of site i is (z_i + offset) + (w_i + drift) (t - t_era), and a
bounce changes offset and drift, which all sites share.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._inlining import INLINED
from bouncy._lane_loop import INT8, lane_loop
from bouncy._random import exponential, fill_sphere
from bouncy._vector import fetch_number
from bouncy.clocks._ranking import MOST_RANKED, rank_pairs
from bouncy.clocks._selecting import select
from bouncy.clocks._sorting import sort_pairs
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, mean_speed, position, restart, shift


def _leg_bounds(clock):
    low, high = np.full(11, -LONGEST), np.full(11, LONGEST)
    high[T_REFRESH] = high[T_BOUNCE] = inf
    low[REFRESH_RATE] = high[REFRESH_RATE] = clock.leg[REFRESH_RATE]
    return low, high


@part(
    "line", "wake", "near", "near_z", "near_w", "due", "due_time", "leg", "count", "rng",
    bounds={
        "wake": lambda _: (0, _ERA),
        "near": lambda clock: (0, clock.near.size - 1),
        "due": lambda clock: (0, clock.near.size - 1),
        "line": lambda clock: ([-LONGEST, -_FASTEST], [LONGEST, _FASTEST]),
        **dict.fromkeys(("near_z", "due_time"), lambda clock: (-LONGEST, LONGEST)),
        "near_w": lambda clock: (-_FASTEST, _FASTEST),
        "leg": _leg_bounds,
        "count": lambda clock: (0, [MOST_EVENTS, MOST_EVENTS, *3 * [clock.near.size], _ERA - 1]),
    },
)  # fmt: skip
class ExponentialBilliard(NamedTuple):
    """State of the exponential clock."""

    line: NDArray[np.float64]  # (d, 2) z_i and w_i, distance and speed of a site but for offset and drift of the era
    wake: NDArray[np.int8]  # (whole,) the first window of the era in which a site may meet its wall
    near: NDArray[np.uint32]  # (d,) sites that may in this window
    near_z: NDArray[np.float64]  # (whole,) their z_i, for which `line` has old ones
    near_w: NDArray[np.float64]  # (whole,) their w_i
    due: NDArray[np.uint32]  # (d,) sites that hit in this leg, in the order of their times
    due_time: NDArray[np.float64]  # (d,) those times, measured from the beginning of the leg
    leg: NDArray[np.float64]  # (11,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (6,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    scratch: NDArray[np.float64]  # (2, d)
    chosen: NDArray[np.int8]  # (whole,) scratch, like the rest
    selected: NDArray[np.int32]  # (more,) positions in `near` of the sites that hit soon
    hit_z: NDArray[np.float64]  # (more,) their z_i
    hit_w: NDArray[np.float64]  # (more,) their w_i
    hit_time: NDArray[np.float64]  # (more,) times at which they hit
    next: NDArray[np.int32]  # (more,) positions in `near` in the order of these times
    next_time: NDArray[np.float64]  # (more,) the times in order
    buckets: NDArray[np.int32]  # (3 d + 1,)


# Indices into `leg`.
(
    T_LEG, T_KNOWN, T_BOUNCE, T_REFRESH, REFRESH_RATE, SLOPE, BUDGET, T_ERA, T_WINDOW_END, DRIFT, OFFSET,
) = range(11)  # fmt: skip
# Indices into `count`. The first two are read by the recorder of every clock.
BOUNCES, REFRESHMENTS, N_NEAR, N_DUE, NEXT_DUE, WINDOW = range(6)

# Loops over sites near their walls go on to a multiple of this, so that all of it is vector code.
_TOGETHER = 16
# Length of a window in units of d^(1/4): longer ones make fewer passes over all sites, and more sites near. Up to
# _SMALL sites they are passed over in each leg anyway.
_WINDOW, _SMALL, _SMALL_WINDOW = 3.0, 512, 100.0
# Up to so many sites near their walls are all sorted in each leg, whether they hit in it or not.
_FEW = 32
_ALL = np.arange(_FEW, dtype=np.int32)
# When a site hits its wall that moves away from it.
_NEVER = 1e300
# The slope grows by 1 per unit time and is at most a few units, so that the drift is -t / d but for a few 1 / d. Sites
# are left alone for as long as -(t + _SLACK) / d allows; an era ends at once where the drift falls below that.
_SLACK = 6.0
# Windows in an era, unless its drift gets so large before that digits are lost in it. In each era the slope is summed
# anew: its rounding, carried from bounce to bounce, would change the speed of the particle by 1e-5 within 10^8 hits.
_ERA: int = 32
_LOWEST_DRIFT = -4.0
# Speeds are at most 1 and, but for the drift, less than this.
_FASTEST = 20.0
# What rounding may add to a time in units of windows.
_ROUNDING = 1e-6
# How many sites ahead memory is asked for where a window ends: chains have driven it out of the caches by then.
_AHEAD = 24
# Time beyond the expected end of a leg up to which hits are listed.
_MARGIN = 0.5


@helper
def _whole(n):
    return -(-n // _TOGETHER) * _TOGETHER


def _allocate(d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> ExponentialBilliard:
    whole = int(_whole(d))
    more = whole + _TOGETHER
    clock = ExponentialBilliard(
        line=np.zeros((d, 2)),
        wake=np.full(whole, _ERA, np.int8),
        near=np.zeros(d, np.uint32),
        near_z=np.zeros(whole),
        near_w=np.zeros(whole),
        due=np.zeros(d, np.uint32),
        due_time=np.zeros(d),
        leg=np.zeros(11),
        count=np.zeros(6, np.int64),
        rng=state,
        scratch=np.empty((2, d)),
        chosen=np.empty(whole, np.int8),
        selected=np.empty(more, np.int32),
        hit_z=np.empty(more),
        hit_w=np.empty(more),
        hit_time=np.empty(more),
        next=np.empty(more, np.int32),
        next_time=np.empty(more),
        buckets=np.empty(3 * d + 1, np.int32),
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
    z = clock.scratch[0]
    for i in range(z.size):
        z[i] = exponential(clock.rng)
    _new_velocity(clock, 0.0)


@helper
def _new_velocity(clock, t):
    """Draw w, the next refreshment and a budget at time t, where `scratch` holds all distances."""
    leg = clock.leg
    fill_sphere(clock.rng, clock.scratch[1])
    leg[T_REFRESH] = t + exponential(clock.rng) / leg[REFRESH_RATE] if leg[REFRESH_RATE] > 0.0 else inf
    leg[BUDGET] = exponential(clock.rng)
    _open_era(clock, t)


@helper
def _window(d):
    return _SMALL_WINDOW if d <= _SMALL else _WINDOW * d**0.25


@helper
def _open_era(clock, t):
    """Open an era and its first window at time t, where `scratch` holds all distances and speeds."""
    leg = clock.leg
    z, w = clock.scratch[0], clock.scratch[1]
    leg[T_ERA] = t
    leg[OFFSET] = 0.0
    leg[DRIFT] = 0.0
    leg[SLOPE] = _total(w)
    clock.count[WINDOW] = 0
    _schedule(clock, 0.0, z, w, z.size, clock.wake)
    for i in range(z.size):
        clock.line[i, 0] = z[i]
        clock.line[i, 1] = w[i]
    _open_window(clock, t)


@helper
def _schedule(clock, elapsed, z, w, n, wake):
    """Write the first windows in which n sites may meet their walls, at the time `elapsed` of the era, into `wake`."""
    d, drift, offset = clock.line.shape[0], clock.leg[DRIFT], clock.leg[OFFSET]
    windows = 1.0 / _window(d)
    for j in range(n):
        # No sooner than if the drift were -(t + _SLACK) / d from now on. Multiplied by d, distance and speed are such
        # that the speed falls by 1 per unit time.
        distance = d * max(z[j] + offset + (w[j] + drift) * elapsed, 0.0)
        speed = d * w[j] - (elapsed + _SLACK)
        first = elapsed + speed + np.sqrt(speed * speed + 2.0 * distance)
        wake[j] = np.int8(np.int32(min(max(first * windows - _ROUNDING, 0.0), _ERA)))


@helper
def _open_window(clock, t):
    """Gather the sites that may hit their walls in this window, and start a leg at time t."""
    leg, count = clock.leg, clock.count
    line, wake, near, chosen = clock.line, clock.wake, clock.near, clock.chosen
    d, window = line.shape[0], np.int8(count[WINDOW])
    for i in range(wake.size):
        chosen[i] = wake[i] <= window
    n = select(chosen, d, near)
    for j in range(n):
        i = near[j]
        clock.near_z[j] = line[i, 0]
        clock.near_w[j] = line[i, 1]
    for j in range(n, _whole(n)):
        clock.near_w[j] = _FASTEST
    leg[T_WINDOW_END] = leg[T_ERA] + (count[WINDOW] + 1) * _window(d)
    count[N_NEAR] = n
    _start_leg(clock, t)


@helper
def _next_era(clock, t):
    """Open an era at time t."""
    position(clock, t, clock.scratch[0], clock.scratch[1])
    _open_era(clock, t)


@helper
def _next_window(clock, t):
    """Open a window at time t, if it is time in a new era."""
    leg, count, near, n = clock.leg, clock.count, clock.near, clock.count[N_NEAR]
    if count[WINDOW] + 1 == _ERA:
        _next_era(clock, t)
        return
    _schedule(clock, t - leg[T_ERA], clock.near_z, clock.near_w, n, clock.chosen)
    for j in range(n):
        i, later = near[j], near[min(j + _AHEAD, n - 1)]
        fetch_number(clock.line, 2 * later)
        fetch_number(clock.wake, later)
        clock.line[i, 0] = clock.near_z[j]
        clock.line[i, 1] = clock.near_w[j]
        clock.wake[i] = clock.chosen[j]
    count[WINDOW] += 1
    _open_window(clock, t)


def _mark(z, w, chosen, end, behind):
    """Write 1 for sites that are behind their walls at the time `end` of the era, and 0 for others."""
    chosen[:] = z + w * end < behind


@lane_loop()
def _mark_vectors(z, w, chosen, end, behind):
    chosen.write((z.read() + w.read() * end < behind).to(INT8))


@overload(_mark, strict=False, jit_options=INLINED)
def _mark_compiled(z, w, chosen, end, behind):
    return lambda z, w, chosen, end, behind: _mark_vectors(z, w, chosen, end, behind)


def _hit_times(times, z, w, offset, drift, elapsed):
    """Write when sites hit their walls, measured from the time `elapsed` of the era.

    Rounding may leave a site behind its wall by the last bit: it hits now, unless it is on its way from it.
    """
    speed = w + drift
    away = np.maximum(z + offset + speed * elapsed, 0.0)
    times[:] = _NEVER
    np.divide(away, -speed, out=times, where=speed < 0.0)


@lane_loop()
def _hit_times_vectors(times, z, w, offset, drift, elapsed):
    speed = w.read() + drift
    away = z.read() + offset + speed * elapsed
    times.write((speed < 0.0).choose((away < 0.0).choose(0.0, away) / (0.0 - speed), _NEVER))


@overload(_hit_times, strict=False, jit_options=INLINED)
def _hit_times_compiled(times, z, w, offset, drift, elapsed):
    return lambda times, z, w, offset, drift, elapsed: _hit_times_vectors(times, z, w, offset, drift, elapsed)


@helper
def _start_leg(clock, t):
    """List the hits of the leg that begins at time t: up to its bounce, or as far as they are known."""
    leg = clock.leg
    elapsed, horizon = t - leg[T_ERA], leg[T_WINDOW_END] - t
    n = clock.count[N_NEAR]
    if n <= _FEW:
        whole = _whole(n)
        times = clock.hit_time[:whole]
        _hit_times(times, clock.near_z[:whole], clock.near_w[:whole], leg[OFFSET], leg[DRIFT], elapsed)
        rank_pairs(times, _ALL, n, clock.next_time, clock.next)
    else:
        # The slope grows by about 1 per unit time, and spends the budget while it is positive.
        climbed = max(leg[SLOPE], 0.0)
        horizon = min(np.sqrt(climbed * climbed + 2.0 * leg[BUDGET]) - leg[SLOPE] + _MARGIN, horizon)
        n = _sort_soon(clock, elapsed, horizon)
    leg[T_LEG] = t
    leg[T_KNOWN] = t + horizon
    _spend_budget(clock, n, horizon)


@helper
def _sort_soon(clock, elapsed, horizon):
    """Sort the sites that hit their walls up to the horizon by their times, and return how many they are."""
    near_z, near_w, selected, times = clock.near_z, clock.near_w, clock.selected, clock.hit_time
    offset, drift, n_near = clock.leg[OFFSET], clock.leg[DRIFT], clock.count[N_NEAR]
    # Those that are behind their walls at the horizon.
    end = elapsed + horizon
    whole = _whole(n_near)
    _mark(near_z[:whole], near_w[:whole], clock.chosen[:whole], end, -(offset + drift * end))
    n = select(clock.chosen, n_near, selected)
    # A processor foresees the ends of loops over whole vectors. What fills up the last one never hits.
    whole = _whole(n)
    for k in range(_TOGETHER):
        selected[n + k] = 0
    for k in range(whole):
        j = np.uint32(selected[k])
        clock.hit_z[k] = near_z[j]
        clock.hit_w[k] = near_w[j]
    for k in range(_TOGETHER):
        clock.hit_w[n + k] = _FASTEST
    _hit_times(times[:whole], clock.hit_z[:whole], clock.hit_w[:whole], offset, drift, elapsed)
    if n <= MOST_RANKED:
        rank_pairs(times[:whole], selected, n, clock.next_time, clock.next)
    else:
        sort_pairs(times[:n], selected, horizon, clock.next_time, clock.next, clock.buckets)
    return n


@helper
def _spend_budget(clock, n, horizon):
    """Follow the leg along the next n hits to its bounce or to the horizon, and reflect the sites that hit on the way.

    The mirror image of the path of a site meets the wall at the same time and leaves it with the new speed.
    """
    leg, count, near_z, near_w = clock.leg, clock.count, clock.near_z, clock.near_w
    slope, budget, twice_drift, twice_offset = leg[SLOPE], leg[BUDGET], 2.0 * leg[DRIFT], 2.0 * leg[OFFSET]
    last = 0.0
    hits = 0
    for k in range(n):
        time = clock.next_time[k]
        spent = max(slope, 0.0) * (time - last)
        if time > horizon or spent > budget:
            break
        j = np.uint32(clock.next[k])
        budget -= spent
        last = time
        w = near_w[j]
        slope -= 2.0 * w + twice_drift
        near_z[j] = -near_z[j] - twice_offset
        near_w[j] = -w - twice_drift
        clock.due[k] = clock.near[j]
        clock.due_time[k] = time
        hits += 1
    wait = last + budget / slope if slope > 0.0 else inf
    leg[T_BOUNCE] = leg[T_LEG] + wait if wait <= horizon else inf
    leg[SLOPE] = slope
    leg[BUDGET] = max(budget - max(slope, 0.0) * (horizon - last), 0.0)
    count[N_DUE] = hits
    count[NEXT_DUE] = 0


@helper
def _bounce(clock, t):
    leg = clock.leg
    kick = -2.0 * leg[SLOPE] / clock.line.shape[0]
    leg[SLOPE] = -leg[SLOPE]
    leg[BUDGET] = exponential(clock.rng)
    clock.count[BOUNCES] += 1
    # Distances are the same before and after.
    leg[DRIFT] += kick
    leg[OFFSET] -= kick * (t - leg[T_ERA])
    if leg[DRIFT] < max(-(t - leg[T_ERA] + _SLACK) / clock.line.shape[0], _LOWEST_DRIFT):
        _next_era(clock, t)
    else:
        _start_leg(clock, t)


@implements(fill, ExponentialBilliard)
def _fill(clock, t_stop, times, sites):
    leg, count = clock.leg, clock.count
    n = 0
    while True:
        t_end = min(t_stop, leg[T_REFRESH], leg[T_KNOWN])
        n = _hand_over(clock, t_end, times, sites, n)
        if n == times.size:
            return n, False
        if leg[T_BOUNCE] <= t_end:
            _bounce(clock, leg[T_BOUNCE])
        elif t_end == t_stop:
            return n, True
        elif t_end == leg[T_REFRESH]:
            position(clock, t_end, clock.scratch[0], clock.scratch[1])
            _new_velocity(clock, t_end)
            count[REFRESHMENTS] += 1
        elif t_end == leg[T_WINDOW_END]:
            _next_window(clock, t_end)
        else:
            _start_leg(clock, t_end)


@helper
def _hand_over(clock, t_end, times, sites, n):
    """Write the hits of this leg up to t_end from index n on, and return how many the buffers hold then."""
    leg, count, due_time = clock.leg, clock.count, clock.due_time
    t_leg, first = leg[T_LEG], count[NEXT_DUE]
    last = max(min(count[N_DUE], first + times.size - n), first)
    if t_end < min(leg[T_BOUNCE], leg[T_KNOWN]):
        k = first
        while k < last and t_leg + due_time[k] <= t_end:
            k += 1
        last = k
    # Indices of slices are never negative, which makes this vector code.
    due, due_time, times, sites = clock.due[first:last], due_time[first:last], times[n:], sites[n:]
    for k in range(last - first):
        times[k] = t_leg + due_time[k]
        sites[k] = due[k]
    count[NEXT_DUE] = last
    return n + last - first


@implements(shift, ExponentialBilliard)
def _shift(clock, elapsed):
    leg = clock.leg
    leg[T_LEG] -= elapsed
    leg[T_KNOWN] -= elapsed
    leg[T_BOUNCE] -= elapsed
    leg[T_REFRESH] -= elapsed
    leg[T_ERA] -= elapsed
    leg[T_WINDOW_END] -= elapsed


@implements(position, ExponentialBilliard)
def _position(clock, t, z, w):
    drift, offset, elapsed = clock.leg[DRIFT], clock.leg[OFFSET], t - clock.leg[T_ERA]
    for i in range(z.size):
        w[i] = clock.line[i, 1] + drift
        z[i] = max(clock.line[i, 0] + offset + w[i] * elapsed, 0.0)
    for j in range(clock.count[N_NEAR]):
        i = clock.near[j]
        w[i] = clock.near_w[j] + drift
        z[i] = max(clock.near_z[j] + offset + w[i] * elapsed, 0.0)
    # What hits in the rest of the leg has been reflected already.
    for k in range(clock.count[NEXT_DUE], clock.count[N_DUE]):
        i = clock.due[k]
        z[i] = max(w[i] * (clock.leg[T_LEG] + clock.due_time[k] - t), 0.0)
        w[i] = -w[i]
