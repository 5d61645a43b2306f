"""Event times along a ray through any differentiable density, from values of U and of its slope.

Along the ray y + v t the budget pays for the positive variation of U(t) = -log p(y + v t). Where U is monotone, its
variation is the difference of two values, so that nothing has to be integrated: it is enough to know where U turns.

The ray is taken in steps. A step is trusted if the cubic through values and slopes at its ends also has the value and
the slope of U in its middle; otherwise it is halved. A trusted step has no turning points other than those that its
slopes show. These are then found by iteration, and so is the point at which the budget is spent: both up to rounding,
whatever the cubic's error was. Where U is convex (`view.convex`) there is one turning point at most, a minimum, and
steps need no middle; that values and slopes are those of a convex function is checked.

With a bound on the rate given by the user there are no steps: events are thinned.
"""

from __future__ import annotations

from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import FINITE, part
from bouncy._native import keep_apart
from bouncy._random import exponential, uniform
from bouncy.piecewise.by_address import (
    BOUND_TOO_LOW,
    GRADIENT,
    JUMP,
    MISMATCH,
    NOT_CONVEX,
    ROUGH,
    failed,
    gradient,
    potential,
    rate_bound,
    report,
)
from bouncy.piecewise.events import time_to_spend

Array = NDArray[np.float64]

# A step is trusted if its middle is as expected up to this share of what U varies by, or of so many budgets.
_TRUST, _BUDGETS = 0.02, 4.0
# Event times, and turning points, spend the budget up to this share of it.
_CLOSE = 1e-10
# A step on which all slopes together could change U by less than this share of the budget does not matter.
_NEGLIGIBLE = 1e-8
# Steps that are not trusted, and do not matter, come from kinks. More of them than this come from a wrong gradient.
_KINKS = 20
# A step this short on which U changes by more than its slopes allow is a jump. Times are in natural lengths.
_SHORTEST = 1e-11
# Rounding of U, relative to its size; slopes and values that differ by less than this agree.
_ROUNDING = 1e-14
# Evaluations between two events, beyond which a run would not come to an end.
_MOST = 20_000
# Distance of the points of which differences are taken, in natural lengths: the third root of rounding.
DIFFERENCE = 6e-6


@part(
    "leg", "g",
    bounds={"leg": lambda ray: ([-FINITE, -FINITE, 0.0, 1e-12, 1e-12], [FINITE, FINITE, 1e3, 1e12, 1e6])},
)  # fmt: skip
class Ray(NamedTuple):
    """Where the particle is on its present ray, and scratch for points ahead."""

    leg: Array  # (5,) see the indices below
    g: Array  # (d,) gradient of log p at the point that was looked at last
    point: Array  # (d,) that point
    room: Array  # (1,) the time until which the ray stays in its cell


# Indices into `leg`: U and dU/dt where the particle is, the budget for climbing, a guess of the second derivative of U,
# and the time over which a bound is asked for.
U, SLOPE, BUDGET, CURVE, HORIZON = range(5)


def new_ray(d: int) -> Ray:
    """Return a ray whose potential is not known yet."""
    return Ray(np.array([0.0, 0.0, np.nan, 1.0, 1.0]), np.zeros(d), np.zeros(d), np.zeros(1))


@helper
def find_bounce(ray, y, v, view, rng, end, turns, evaluations):
    """Return the time at which the particle at y with velocity v bounces, and True; `end` and False if it does not.

    The budget pays for the climb. The ray then has U and its slope at that time; the gradient too where it bounces or
    `turns` says that it will change its direction. If something fails, that is reported to the view.
    """
    ray.room[0] = end
    if view.bound != 0:
        return _thin(ray, y, v, view, rng, end, evaluations)
    t, bounces = _follow(ray, y, v, view, end, turns, evaluations)
    if bounces:
        ray.leg[BUDGET] = exponential(rng)
    return t, bounces


# Looking at a point of the ray


@kernel
def look(ray, y, v, view, t, evaluations):
    """Return U and its slope at time t; slopes are 0 where U is infinite."""
    keep_apart()
    point = ray.point
    for i in range(y.size):
        point[i] = y[i] + v[i] * t
    u = potential(view, point, evaluations)
    if not u < inf:
        return u, 0.0
    if view.gradient == 0:
        return u, _slope_by_differences(ray, y, v, view, t, u, evaluations)
    return u, _slope_by_gradient(ray, v, view, evaluations)


@helper
def _slope_by_gradient(ray, v, view, evaluations):
    """Return the slope of U at the point, and leave the gradient of log p in `ray.g`."""
    gradient(view, ray.point, ray.g, evaluations)
    s = 0.0
    for i in range(v.size):
        s -= v[i] * ray.g[i]
    if not abs(s) < inf:
        report(view.fault, view.where, GRADIENT, ray.point)
    return s


@helper
def _slope_by_differences(ray, y, v, view, t, u, evaluations):
    """Return the slope of U at time t, by a parabola through points of the ray that lie in its cell."""
    end = ray.room[0]
    e = min(DIFFERENCE, 0.25 * end) if end > 0.0 else DIFFERENCE
    if t >= e and t + e <= end:
        return (_at(ray, y, v, view, t + e, evaluations) - _at(ray, y, v, view, t - e, evaluations)) / (2.0 * e)
    if t >= e:
        e = -e
    return (
        4.0 * _at(ray, y, v, view, t + e, evaluations) - _at(ray, y, v, view, t + 2.0 * e, evaluations) - 3.0 * u
    ) / (2.0 * e)


@helper
def _at(ray, y, v, view, t, evaluations):
    point = ray.point
    for i in range(y.size):
        point[i] = y[i] + v[i] * t
    return potential(view, point, evaluations)


# Steps


@helper
def _follow(ray, y, v, view, end, turns, evaluations):
    """Follow the ray in steps until the budget is spent, or to its end."""
    leg = ray.leg
    ta, ua, sa = 0.0, leg[U], leg[SLOPE]
    budget, looked, kinks, first = leg[BUDGET], -1.0, 0, evaluations[0]
    step = 1.05 * time_to_spend(sa, leg[CURVE], budget)
    while ta < end:
        tb = ta + step if ta + step < end else end
        tm, um, sm, tb, ub, sb, looked, is_kink = _trusted_step(ray, y, v, view, ta, ua, sa, tb, budget, evaluations)
        kinks += is_kink
        if kinks > _KINKS:
            report(view.fault, view.where, MISMATCH, ray.point)
        elif evaluations[0] - first > _MOST:
            report(view.fault, view.where, ROUGH, ray.point)
        for half in range(2):
            if failed(view):
                return ta, False
            if half == 0:
                tl, ul, sl, tr, ur, sr = ta, ua, sa, tm, um, sm
            else:
                tl, ul, sl, tr, ur, sr = tm, um, sm, tb, ub, sb
            t, u, s, budget, is_spent, iterated = _climb(
                ray, y, v, view, tl, ul, sl, tr, ur, sr, budget, leg[BUDGET], evaluations
            )
            if iterated:
                looked = -1.0
            if is_spent:
                _learn(leg, t, s)
                leg[U], leg[SLOPE] = u, s
                return t, True
        step = 2.0 * (tb - ta)
        ta, ua, sa = tb, ub, sb
    if turns and looked != end and not failed(view):
        ua, sa = look(ray, y, v, view, end, evaluations)
    _learn(leg, end, sa)
    leg[U], leg[SLOPE], leg[BUDGET] = ua, sa, budget
    return end, False


@helper
def _trusted_step(ray, y, v, view, ta, ua, sa, tb, budget, evaluations):
    """Shorten a step from ta to tb until it can be trusted, or does not matter.

    Returns time, U and slope in its middle and at its end, the time looked at last, and 1 if it does not matter. Convex
    steps need no middle: it is where they begin.
    """
    tm, um, sm = ta, ua, sa
    if not view.convex:
        tm = 0.5 * (ta + tb)
        um, sm = look(ray, y, v, view, tm, evaluations)
    ub, sb = look(ray, y, v, view, tb, evaluations)
    looked = tb
    while not failed(view):
        if _is_trusted(view.convex, tb - ta, ua, sa, um, sm, ub, sb, ray.leg[BUDGET]):
            return tm, um, sm, tb, ub, sb, looked, 0
        if _does_not_matter(tb - ta, ua, sa, sm, ub, sb, budget):
            return tm, um, sm, tb, ub, sb, looked, 1
        if view.convex and ub < inf:
            report(view.fault, view.where, NOT_CONVEX, ray.point)
        elif tb - ta < _SHORTEST:
            report(view.fault, view.where, JUMP, ray.point)
        elif view.convex:
            tb = 0.5 * (ta + tb)
            ub, sb = look(ray, y, v, view, tb, evaluations)
            looked = tb
        else:
            tb, ub, sb = tm, um, sm
            tm = 0.5 * (ta + tb)
            um, sm = look(ray, y, v, view, tm, evaluations)
            looked = tm
    return tm, um, sm, tb, ub, sb, looked, 0


@helper
def _learn(leg, t, s):
    """Improve the guess of the second derivative by that of a path of time t whose slope ends as s."""
    if t > 1e-6:
        curve = (s - leg[SLOPE]) / t
        leg[CURVE] = min(max(0.8 * leg[CURVE] + 0.2 * curve, 1e-6), 1e9)


@helper
def _is_trusted(convex, h, ua, sa, um, sm, ub, sb, whole):
    """Return whether U has no turning points on a step of length h but those that its slopes show.

    What is not resolved must be small for the budget as well as for the step: a step that falls or rises by a hundred
    budgets may hide wells that are some deep.
    """
    if not (ua < inf and um < inf and ub < inf):
        return False
    noise = _ROUNDING * (abs(ua) + abs(ub) + 1e-300)
    if convex:
        rise, slack = ub - ua, noise + 1e-9 * h * (abs(sa) + abs(sb))
        return h * sa <= rise + slack and rise <= h * sb + slack
    steep = h * max(abs(sa), abs(sm), abs(sb))
    size = max(ua, um, ub) - min(ua, um, ub) + 0.1 * steep
    value = 0.5 * (ua + ub) + 0.125 * h * (sa - sb)
    slope = 1.5 * (ub - ua) - 0.25 * h * (sa + sb)
    most = _TRUST * _BUDGETS * whole
    if abs(um - value) > min(_TRUST * size, most) + noise:
        return False
    if abs(h * sm - slope) > min(_TRUST * steep, most) + 8.0 * noise:
        return False
    return not (_dips(0.5 * h, ua, sa, um, sm, most, noise) or _dips(0.5 * h, um, sm, ub, sb, most, noise))


@helper
def _dips(h, ul, sl, ur, sr, most, noise):
    """Return whether a cubic whose slopes do not differ in sign at its ends turns in between all the same."""
    if sl * sr < 0.0:
        return False
    rise = ur - ul
    if rise * (sl + sr) < 0.0:
        return abs(rise) > noise
    # Derivative a x^2 + b x + c on 0 <= x <= 1.
    c = sl * h
    a = 3.0 * (c + sr * h) - 6.0 * rise
    b = 6.0 * rise - 4.0 * c - 2.0 * sr * h
    D = b * b - 4.0 * a * c
    if D <= 0.0 or a * c < 0.0 or a * b >= 0.0 or abs(b) >= 2.0 * abs(a):
        return False
    return sqrt(D) * D / (6.0 * a * a) > min(_TRUST * abs(rise), most) + noise


@helper
def _does_not_matter(h, ua, sa, sm, ub, sb, budget):
    """Return whether a step is so short that nothing on it can matter, unless it is a jump."""
    most = h * max(abs(sa), abs(sm), abs(sb)) + 4.0 * _ROUNDING * (abs(ua) + abs(ub))
    return (most <= _NEGLIGIBLE * budget or h < _SHORTEST) and ub < inf and abs(ub - ua) <= 10.0 * most


@helper
def _climb(ray, y, v, view, tl, ul, sl, tr, ur, sr, budget, whole, evaluations):
    """Pay for the climb from tl to tr, where U turns once at most.

    Returns time, U and slope where the budget is spent, the budget that is left, whether it is spent, and whether
    other points than the ends were looked at. `whole` is the budget of which times are to be exact to a share.
    """
    iterated = False
    if tl == tr or (sl <= 0.0 and sr <= 0.0):
        return tr, ur, sr, budget, False, iterated
    if sl < 0.0 < sr:
        iterated = True
        tl, ul = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, 1.0, whole, evaluations)
        sl = 0.0
    elif sr < 0.0 < sl:
        iterated = True
        tr, ur = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, -1.0, whole, evaluations)
        sr = 0.0
    rise = max(ur - ul, 0.0)
    if rise < budget or failed(view):
        return tr, ur, sr, budget - min(rise, budget), False, iterated
    t, u, s = _spend(ray, y, v, view, tl, ul, sl, tr, ur, sr, ul + budget, whole, evaluations)
    return t, u, s, 0.0, True, True


@helper
def _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, sign, whole, evaluations):
    """Return time and value of the minimum (sign 1) or maximum (sign -1) of U between tl and tr."""
    t, u = tl, ul
    width = 2.0 * (tr - tl)
    for k in range(200):
        # The minimum of the cubic, or the middle where brackets shrink slowly or the cubic is of no use.
        h = tr - tl
        d1 = sign * (sl + sr) - 3.0 * sign * (ur - ul) / h
        d2 = sqrt(max(d1 * d1 - sl * sr, 0.0))
        x = 1.0 - (sign * sr + d2 - d1) / (sign * (sr - sl) + 2.0 * d2)
        if not 0.0 < x < 1.0 or (k % 3 == 2 and h > 0.25 * width):
            x = 0.5
        elif k > 0 and x < 0.1:  # beyond it, so that the bracket becomes short on both sides
            x *= 3.0
        elif k > 0 and x > 0.9:
            x = 1.0 - 3.0 * (1.0 - x)
        if k % 3 == 2:
            width = h
        t = tl + x * h
        u, s = look(ray, y, v, view, t, evaluations)
        if failed(view) or not u < inf:
            report(view.fault, view.where, JUMP, ray.point)
            break
        # U would have to keep this slope as far as the end beyond to fall by more.
        missing = sign * s * (t - tl) if sign * s > 0.0 else -sign * s * (tr - t)
        if missing <= 5.0 * _CLOSE * whole or h < 1e-15 * (1.0 + tr):
            break
        if sign * s < 0.0:
            tl, ul, sl = t, u, s
        else:
            tr, ur, sr = t, u, s
    return t, u


@helper
def _spend(ray, y, v, view, tl, ul, sl, tr, ur, sr, goal, whole, evaluations):
    """Return the time between tl and tr at which the rising U reaches a goal, and U and its slope there."""
    near = _CLOSE * whole + _ROUNDING * abs(goal)
    t, u, s = tr, ur, sr
    width = 2.0 * (tr - tl)
    for k in range(200):
        h = tr - tl
        x = _inverse_cubic(h, ul - goal, sl, ur - goal, sr)
        if k % 3 == 2:
            if h > 0.25 * width:
                x = 0.5
            width = h
        t = tl + x * h
        u, s = look(ray, y, v, view, t, evaluations)
        if failed(view) or abs(u - goal) <= near or h < 1e-15 * (1.0 + tr):
            return t, u, s
        if u < goal:
            tl, ul, sl = t, u, s
        else:
            tr, ur, sr = t, u, s
    return t, u, s


@helper
def _inverse_cubic(h, ul, sl, ur, sr):
    """Return the x in (0, 1) at which the cubic from ul <= 0 to ur >= 0 is zero, with slopes over a length h."""
    c = sl * h
    rise = ur - ul
    a = c + sr * h - 2.0 * rise
    b = 3.0 * rise - 2.0 * c - sr * h
    low, high = 0.0, 1.0
    x = -ul / rise if rise > 0.0 else 0.5
    for _ in range(12):
        p = ul + x * (c + x * (b + x * a))
        if p < 0.0:
            low = x
        else:
            high = x
        slope = c + x * (2.0 * b + x * 3.0 * a)
        new = x - p / slope if slope > 0.0 else 0.5 * (low + high)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - x) < 1e-12:
            return new
        x = new
    return x


# Thinning


@helper
def _thin(ray, y, v, view, rng, end, evaluations):
    """Propose events at the rate of a bound, and accept each with the share that the true rate has of it."""
    leg, point = ray.leg, ray.point
    t = 0.0
    first = evaluations[0] + evaluations[1]
    while t < end and not failed(view):
        window = min(leg[HORIZON], end - t)
        for i in range(y.size):
            point[i] = y[i] + v[i] * t
        bound = rate_bound(view, point, v, window, evaluations)
        wait = exponential(rng) / bound if bound > 0.0 else inf
        if wait >= window:
            t = t + window if t + window < end else end
            if bound * window < 0.5 and leg[HORIZON] < 1e5:
                leg[HORIZON] *= 2.0
            continue
        t += wait
        for i in range(y.size):
            point[i] = y[i] + v[i] * t
        s = _slope_by_gradient(ray, v, view, evaluations)
        if s > bound * (1.0 + 1e-9) + 1e-12:
            report(view.fault, view.where, BOUND_TOO_LOW, point)
        elif uniform(rng) * bound < s:
            leg[U], leg[SLOPE] = nan, s  # U is not asked for where nobody needs it
            return t, True
        if bound * window > 4.0 and leg[HORIZON] > 1e-9:
            leg[HORIZON] *= 0.5
        if evaluations[0] + evaluations[1] - first > _MOST:
            report(view.fault, view.where, ROUGH, point)
    leg[U], leg[SLOPE] = look(ray, y, v, view, end, evaluations)
    return end, False
