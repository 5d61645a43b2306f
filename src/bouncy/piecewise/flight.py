"""The bouncy particle on a piecewise-quadratic potential: exact event times, no step size, no bounds.

A *leg* is the path from one bounce, refreshment or end of a sweep to the next; all times below count from its
beginning. In a leg, with f = A x - b and u = dx/dt,

    y = y(0) + v t,    x = p + u t,    f = F + Q t,    Q = A u,

and dU/dt = slope + curve t. When coordinate i meets a wall at time t, its x_i may jump by dx and its u_i changes by du.
The updates are F += (dx - t du) A[:, i], Q += du A[:, i] and O(1) work for slope and curve. A bounce costs one product
with A.

Coordinates at points (`points.py`) rest: they are left out of loops over those that move, and x, u and Q are as if they
had no velocity.

Two budgets, each Exp(1), pay for climbing and for the walls. As an exponential budget is memoryless, this has the law
of the paper's single one, and events at the walls of a spin do not change the motion.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import FINITE, implements, part
from bouncy._random import exponential, fill_sphere
from bouncy.clocks.contract import LONGEST, MOST_EVENTS
from bouncy.piecewise.coupling import add_columns, diagonal, multiply
from bouncy.piecewise.events import climbed, time_to_spend
from bouncy.piecewise.expectations import record_laws
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.points import (
    NoPoints,
    Points,
    change_speeds,
    end_time,
    find_first,
    first_to_leave,
    is_point,
    leave,
    mover,
    moving,
    place_points,
    stay,
)
from bouncy.piecewise.products import products_leg, products_wall
from bouncy.piecewise.recorder import (
    begin_sweep,
    draw_is_due,
    end_sweep,
    leave_cells,
    record_crossing,
    record_leg,
    record_wall,
)
from bouncy.piecewise.truncated import draw, moments
from bouncy.piecewise.weights import log_density
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from bouncy.tolls.budget import Budget
from bouncy.tolls.contract import pay

Array = NDArray[np.float64]
# Largest numbers that are accepted of a state: their squares do not overflow.
_LARGEST = 1e100


def _leg_bounds(flight: Any) -> tuple[Any, Any]:
    """Return bounds between two sweeps, when a leg has just begun."""
    low, high = np.full(9, -_LARGEST), np.full(9, _LARGEST)
    low[[T, BUDGET, T_REFRESH, WINDOW_END, STALE]] = high[[T, WINDOW_END]] = 0.0
    low[WINDOW], high[[BUDGET, WINDOW]], high[T_REFRESH] = 1e-9, LONGEST, inf
    low[REFRESH_RATE] = high[REFRESH_RATE] = flight.leg[REFRESH_RATE]
    return low, high


def _moderate(flight: Any) -> tuple[float, float]:
    return -_LARGEST, _LARGEST


@part(
    "y", "v", "p", "u", "F", "Q", "row", "slope", "shift", "tilt", "curvature", "lower", "upper", "near", "due", "leg",
    "count", "rng",
    bounds={
        "lower": lambda flight: (-np.inf, _LARGEST),
        "upper": lambda flight: (-_LARGEST, np.inf),
        "near": lambda flight: (0, flight.y.size - 1),
        "due": lambda flight: (-LONGEST, FINITE),
        "leg": _leg_bounds,
        "count": lambda flight: (0, [0, MOST_EVENTS]),
        "v": lambda flight: (-2.0, 2.0),
        **dict.fromkeys(("y", "p", "u", "F", "Q"), _moderate),
    },
)  # fmt: skip
class Flight(NamedTuple):
    """State of the particle, in scaled coordinates; the six arrays from `slope` on copy the present cells."""

    y: Array  # (d,) where the leg began
    v: Array  # (d,) of length 1
    p: Array  # (d,) x at the beginning of the leg, extrapolated from the present cell
    u: Array  # (d,)
    F: Array  # (d,)
    Q: Array  # (d,)
    row: NDArray[np.int64]  # (d,) the cell of each coordinate
    slope: Array  # (d,)
    shift: Array  # (d,)
    tilt: Array  # (d,)
    curvature: Array  # (d,)
    lower: Array  # (d,)
    upper: Array  # (d,)
    near: NDArray[np.int64]  # (d,) coordinates that meet a wall before the end of the window
    due: Array  # (d,) the times of these hits
    leg: Array  # (9,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (2,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    toll: Budget
    points: NoPoints | Points  # which coordinates rest at points
    scratch: Array  # (d,)


# Indices into `leg`: the present time, dU/dt = SLOPE + CURVE t, the budget for climbing, the next refreshment and
# their rate, the end and the length of the window, and the legs since F was last computed in full.
T, SLOPE, CURVE, BUDGET, T_REFRESH, REFRESH_RATE, WINDOW_END, WINDOW, STALE = range(9)
# Index into `count`: coordinates in the list of hits.
N_NEAR = 0

# A window is the time in which about this many coordinates meet a wall. More make each search longer, fewer make
# windows, which are O(d), more frequent.
_FEW, _MANY = 6, 24
# F is computed in full after so many legs; a wall counts as 1/d of a leg.
_STALE_LEGS = 64.0


def new_flight(
    y: Array,
    v: Array,
    row: NDArray[np.int64],
    rate: float,
    rng: NDArray[np.uint64],
    toll: Budget,
    points: NoPoints | Points,
) -> Flight:
    """Return a particle at y with velocity v that is refreshed at a rate; `settle` has to be called before it moves."""
    d = y.size
    leg = np.zeros(9)
    leg[REFRESH_RATE] = rate
    leg[WINDOW] = 1.0
    leg[BUDGET] = leg[T_REFRESH] = np.nan
    names = ("p", "u", "F", "Q", "slope", "shift", "tilt", "curvature", "lower", "upper", "due", "scratch")
    return Flight(
        y=y.copy(),
        v=v.copy(),
        row=row.astype(np.int64),
        near=np.zeros(d, np.int64),
        leg=leg,
        count=np.zeros(2, np.int64),
        rng=rng,
        toll=toll,
        points=points,
        **{name: np.zeros(d) for name in names},
    )


@implements(settle, Flight)
def _settle(flight, view, evaluations):
    leg = flight.leg
    has_moved = not np.isnan(leg[BUDGET])
    for i in range(flight.y.size):
        _enter(flight, view, i, flight.row[i])
        flight.y[i] = min(max(flight.y[i], flight.lower[i]), flight.upper[i])
        if is_point(flight.points, view, flight.row[i]):
            flight.y[i], flight.u[i] = _middle(flight, i), 0.0
        elif has_moved and flight.slope[i] == 0.0:
            flight.y[i] = _draw_place(flight, view, i)
        flight.p[i] = flight.slope[i] * flight.y[i] + flight.shift[i]
    place_points(flight.points, view, flight.row, flight.v, flight.rng)
    if not has_moved:
        leg[T_REFRESH] = _time_to_refresh(flight)
        leg[BUDGET] = exponential(flight.rng)
    leg[STALE] = inf
    _start_leg(flight, view)


@helper
def _enter(flight, view, i, row):
    """Copy the parameters of the cell of coordinate i."""
    flight.row[i] = row
    flight.slope[i] = view.slope[row]
    flight.shift[i] = view.shift[row]
    flight.tilt[i] = view.tilt[row]
    flight.curvature[i] = view.curvature[row]
    flight.lower[i] = view.lower[row]
    flight.upper[i] = view.upper[row]


@helper
def _draw_place(flight, view, i):
    """Draw y of coordinate i within a cell that stands for one value: given that value, it had the old target's law."""
    row = flight.row[i]
    law = flight.tilt[i], flight.curvature[i], view.root[row], view.deviation[row], flight.lower[i], flight.upper[i]
    _, integral, _, _ = moments(*law)
    return draw(flight.rng, *law, integral)


@helper
def _middle(flight, i):
    """Return where coordinate i is drawn while it is at a point."""
    return 0.5 * (flight.lower[i] + flight.upper[i])


@helper
def _pace(flight):
    """Return the speed of the particle relative to one all of whose coordinates move: so often it is refreshed."""
    d = flight.y.size
    return sqrt(max(moving(flight.points, d), 1) / d)


@helper
def _time_to_refresh(flight):
    """Draw the time until the next refreshment."""
    rate = flight.leg[REFRESH_RATE] * _pace(flight)
    return exponential(flight.rng) / rate if rate > 0.0 else inf


@helper
def _start_leg(flight, view):
    """Begin a leg at y; v may be new, and F is known up to the rounding of many legs."""
    y, v, p, u, F, leg = flight.y, flight.v, flight.p, flight.u, flight.F, flight.leg
    if leg[STALE] > _STALE_LEGS:
        multiply(view.coupling, p, F)
        for i in range(y.size):
            F[i] -= view.linear[i]
        leg[STALE] = 0.0
    for k in range(moving(flight.points, y.size)):
        i = mover(flight.points, k)
        u[i] = flight.slope[i] * v[i]
    multiply(view.coupling, u, flight.Q)
    slope = curve = 0.0
    for k in range(moving(flight.points, y.size)):
        i = mover(flight.points, k)
        slope += u[i] * F[i] + v[i] * (flight.tilt[i] + flight.curvature[i] * y[i])
        curve += u[i] * flight.Q[i] + v[i] * v[i] * flight.curvature[i]
    leg[SLOPE] = slope
    leg[CURVE] = curve
    leg[T] = 0.0
    leg[STALE] += 1.0
    # The window has ended, so that the loop opens the next one first.
    leg[WINDOW_END] = 0.0
    flight.count[N_NEAR] = 0


@helper
def _open_window(flight):
    """List the coordinates that meet a wall soon."""
    leg, near, due = flight.leg, flight.near, flight.due
    y, v, hit = flight.y, flight.v, flight.scratch
    end = leg[T] + leg[WINDOW]
    for k in range(moving(flight.points, y.size)):
        i = mover(flight.points, k)
        ahead = flight.upper[i] if v[i] > 0.0 else flight.lower[i]
        hit[i] = (ahead - y[i]) / v[i] if v[i] != 0.0 else inf
    n = 0
    for k in range(moving(flight.points, y.size)):
        i = mover(flight.points, k)
        # No branch, which nothing could predict: one that meets no wall is overwritten, or behind the end of the list.
        near[n], due[n] = i, min(max(hit[i], leg[T]), end)
        n += hit[i] < end
    flight.count[N_NEAR] = n
    leg[WINDOW_END] = end
    if n > _MANY:
        leg[WINDOW] *= 0.5
    elif n < _FEW and leg[WINDOW] < 1e6:
        leg[WINDOW] *= 2.0


@helper
def _next_wall(flight):
    """Return the index in the list of the first hit, and its time; -1 and inf if the list is empty."""
    place, time = -1, inf
    for k in range(flight.count[N_NEAR]):
        if flight.due[k] < time:
            place, time = k, flight.due[k]
    return place, time


@implements(sweep, Flight)
def _sweep(flight, view, recorder, sweep_time):
    leg, events = flight.leg, recorder.open_events
    remaining = sweep_time
    begin_sweep(recorder, flight.slope, sweep_time)
    find_first(flight.points)
    while remaining > 0.0:
        t = leg[T]
        begun = sweep_time - remaining
        if leg[WINDOW_END] <= t:
            _open_window(flight)
        place, t_wall = _next_wall(flight)
        resting, t_leave = first_to_leave(flight.points)
        t_leave = max(t_leave - begun, t)
        b, c = leg[SLOPE] + leg[CURVE] * t, leg[CURVE]
        t_bounce = t + time_to_spend(b, c, leg[BUDGET])
        t_leg = min(t_bounce, remaining, leg[T_REFRESH])
        if min(t_wall, t_leave) <= min(t_leg, leg[WINDOW_END]):
            if t_leave < t_wall:
                place, t_wall = -1, t_leave
            i = resting if place < 0 else flight.near[place]
            _pass_time(leg, b, c, t_wall)
            events[HITS] += 1.0
            events[FLIPS] += _meet_wall(flight, view, recorder, i, place, t_wall)
            _rest_or_move(flight, view, i, place, t_wall, begun + t_wall)
        elif t_leg > leg[WINDOW_END]:
            _pass_time(leg, b, c, leg[WINDOW_END])
        else:
            _pass_time(leg, b, c, t_leg)
            _finish_leg(flight, recorder, t_leg)
            if t_leg == t_bounce:
                _reflect(flight)
                leg[BUDGET] = exponential(flight.rng)
                events[BOUNCES] += 1.0
            elif t_leg == leg[T_REFRESH]:
                _refresh(flight, view, begun + t_leg)
                leg[T_REFRESH] = t_leg + _time_to_refresh(flight)
                leg[BUDGET] = exponential(flight.rng)
                events[REFRESHMENTS] += 1.0
            remaining -= t_leg
            leg[T_REFRESH] -= t_leg
            _start_leg(flight, view)
    end_time(flight.points, sweep_time)
    leave_cells(recorder, flight.row)
    # The last leg begins here, where p is x and F is A x - b.
    has_laws = record_laws(recorder.expectations, recorder, view, flight.p, flight.F, sweep_time)
    log_prob = log_density(view, flight.row, flight.p, flight.F) if draw_is_due(recorder) else 0.0
    end_sweep(recorder, flight.p, log_prob)
    return has_laws


@helper
def _pass_time(leg, b, c, t):
    """Advance the time to t, and pay for the climb."""
    leg[BUDGET] = max(leg[BUDGET] - climbed(b, c, t - leg[T]), 0.0)
    leg[T] = t


@helper
def _meet_wall(flight, view, recorder, i, place, t):
    """Let coordinate i, at a place of the list, cross its wall and return 1, or reflect it and return 0.

    One that leaves a point is in no place of the list, -1.
    """
    leg = flight.leg
    v, u = flight.v[i], flight.u[i]
    wall = flight.upper[i] if v > 0.0 else flight.lower[i]
    row = flight.row[i]
    other = row + 1 if v > 0.0 else row - 1
    tilt = flight.tilt[i] + flight.curvature[i] * wall
    bend = flight.curvature[i]
    f, Q, A = flight.F[i] + flight.Q[i] * t, flight.Q[i], diagonal(view.coupling, i)
    record_wall(recorder, i, flight.p[i], u, t)
    passed, dx = False, 0.0
    if view.first[i] <= other < view.first[i + 1]:
        sign, edge = (1.0, row) if v > 0.0 else (-1.0, other)
        dx = sign * view.x_jump[edge]
        jump = sign * view.phi_jump[edge] + dx * (f + 0.5 * A * dx)
        if place < 0:
            jump -= view.way_out[row]
        elif is_point(flight.points, view, other):
            jump = 0.0
        if jump <= 0.0:
            passed = True
        else:
            passed, flight.toll.purse[0] = pay(flight.toll, flight.toll.purse[0], jump, i)
    if passed:
        _enter(flight, view, i, other)
    else:
        dx = 0.0
        flight.v[i] = -v
    v_new = flight.v[i]
    u_new = flight.slope[i] * v_new
    p_new = flight.slope[i] * wall + flight.shift[i] - u_new * t
    if passed:
        record_crossing(recorder, i, row, flight.slope[i], t)
    products_wall(recorder.products, flight.p, flight.u, i, t, p_new, u_new)
    flight.y[i] = wall - v_new * t
    flight.p[i], flight.u[i] = p_new, u_new
    # Changes of dU/dt and of its derivative, in O(1): the terms of i itself, and those of the others through f.
    du = u_new - u
    slope = leg[SLOPE] + leg[CURVE] * t + (Q - A * u) * dx + u_new * (f + A * dx) - u * f
    slope += v_new * (flight.tilt[i] + flight.curvature[i] * wall) - v * tilt
    curve = leg[CURVE] + du * (2.0 * Q + A * du) + v * v * (flight.curvature[i] - bend)
    leg[SLOPE], leg[CURVE] = slope - curve * t, curve
    leg[STALE] += 1.0 / flight.y.size
    if du != 0.0 or dx != 0.0:
        add_columns(view.coupling, i, dx - t * du, flight.F, du, flight.Q)
    _reschedule(flight, place, i, is_point(flight.points, view, flight.row[i]))
    return 1.0 if passed else 0.0


@helper
def _rest_or_move(flight, view, i, place, t, now):
    """Let coordinate i, which met a wall at leg time t, stay at a point that it came to, or move if it has left one."""
    leg, pace = flight.leg, _pace(flight)
    if is_point(flight.points, view, flight.row[i]):
        flight.y[i] = _middle(flight, i)
        stay(flight.points, view, i, flight.row[i], flight.v[i], now, flight.rng)
    elif place < 0:
        leave(flight.points)
    leg[T_REFRESH] = t + (leg[T_REFRESH] - t) * (pace / _pace(flight))


@helper
def _reschedule(flight, place, i, stays):
    """Write the next hit of coordinate i, which has just met a wall, at a place of the list, if it was there."""
    near, due, count = flight.near, flight.due, flight.count
    ahead = flight.upper[i] if flight.v[i] > 0.0 else flight.lower[i]
    hit = inf if stays else (ahead - flight.y[i]) / flight.v[i]
    if hit < flight.leg[WINDOW_END]:
        if place < 0:
            place = count[N_NEAR]
            count[N_NEAR] += 1
        near[place], due[place] = i, max(hit, flight.leg[T])
    elif place >= 0:
        count[N_NEAR] -= 1
        last = count[N_NEAR]
        near[place], due[place] = near[last], due[last]


@helper
def _refresh(flight, view, now):
    """Draw the velocity anew."""
    v, old = flight.v, flight.scratch
    for i in range(v.size):
        old[i] = v[i]
    fill_sphere(flight.rng, v)
    change_speeds(flight.points, view, flight.row, old, v, now, flight.rng)


@helper
def _finish_leg(flight, recorder, t):
    """Record all paths up to time t, and move y, p and F there."""
    y, v, p, u = flight.y, flight.v, flight.p, flight.u
    products_leg(recorder.products, p, u, t)
    record_leg(recorder, p, u, t)
    for i in range(y.size):
        flight.F[i] += flight.Q[i] * t
    for k in range(moving(flight.points, y.size)):
        i = mover(flight.points, k)
        # Rounding must not carry a coordinate beyond its cell.
        y[i] = min(max(y[i] + v[i] * t, flight.lower[i]), flight.upper[i])
        p[i] = flight.slope[i] * y[i] + flight.shift[i]


@helper
def _reflect(flight):
    """Reflect the velocity off the gradient at y: v -= 2 (v.g) g / |g|^2."""
    y, v, g = flight.y, flight.v, flight.scratch
    n, along, square, before, after = moving(flight.points, y.size), 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        i = mover(flight.points, k)
        g[i] = flight.slope[i] * flight.F[i] + flight.tilt[i] + flight.curvature[i] * y[i]
        along += v[i] * g[i]
        square += g[i] * g[i]
        before += v[i] * v[i]
    factor = 2.0 * along / square if square > 0.0 else 0.0
    for k in range(n):
        i = mover(flight.points, k)
        v[i] -= factor * g[i]
        after += v[i] * v[i]
    # One Newton step towards the length before keeps rounding from building up.
    scale = 1.5 - 0.5 * after / (before if n < y.size else 1.0)
    for k in range(n):
        v[mover(flight.points, k)] *= scale
