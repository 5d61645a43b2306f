"""Gaussian billiard, U = |y|^2 / 2: constant work per hit.

Undo the flips at the walls and the path is that of plain BPS on N(0, I), which stays in the plane spanned by y and v
and keeps its angular momentum. In that plane every wall y_i = 0 is a line through the origin, so the walls are hit in
a fixed cyclic order until the velocity is refreshed: one sort per refreshment, then a few multiplications and one
division per hit.

A leg is the straight path between two bounces. With x = v.y measured from the foot of the perpendicular from the
origin, and rho the length of that perpendicular, y = x e_v + rho e_p for an orthonormal pair (e_v, e_p) that turns
at each bounce. The potential is (x^2 + rho^2)/2: a leg goes down to x = 0, up again until its budget E ~ Exp(1) is
spent at x_bounce = sqrt(max(x_start, 0)^2 + 2E), and the next one starts at -x_bounce.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, gammaincinv

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_normal, fill_sphere
from bouncy.clocks._sorting import sort_order
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, mean_speed, position, restart, shift


def _leg_bounds(clock):
    low, high = np.full(9, -LONGEST), np.full(9, LONGEST)
    low[RHO], high[T_REFRESH] = 0.0, inf
    low[[COS, SIN]], high[[COS, SIN]] = -1.001, 1.001
    low[REFRESH_RATE] = high[REFRESH_RATE] = clock.leg[REFRESH_RATE]
    return low, high


@part(
    "site", "V", "P", "leg", "count", "rng",
    bounds={
        "site": lambda clock: (0, clock.site.size - 1),
        "V": lambda clock: (-2.0, 2.0),
        "P": lambda clock: (-2.0, 2.0),
        "leg": _leg_bounds,
        "count": lambda clock: (0, [MOST_EVENTS, MOST_EVENTS, clock.site.size - 1, clock.site.size]),
    },
)  # fmt: skip
class GaussianBilliard(NamedTuple):
    """State of the Gaussian clock. Along the axes e_v, e_p the line of site k is (cos, sin)-rotated (V[k], P[k])."""

    site: NDArray[np.uint32]  # (d,) sites in the order in which their walls are hit
    V: NDArray[np.float64]  # (d,) v of those sites when the plane was derived
    P: NDArray[np.float64]  # (d,) unit vector along the perpendicular, same order
    leg: NDArray[np.float64]  # (9,) see the indices below
    count: NDArray[np.int64]  # type: ignore[assignment]  # (4,) see the indices below, shadows tuple.count
    rng: NDArray[np.uint64]  # (4,)
    scratch: NDArray[np.float64]  # (3, d)
    buckets: NDArray[np.int32]  # (d + 1,)


# Indices into `leg`.
T_START, X_START, X_BOUNCE, RHO, COS, SIN, T_REFRESH, T_LAST, REFRESH_RATE = range(9)
# Indices into `count`. The first two are read by the recorder of every clock.
BOUNCES, REFRESHMENTS, NEXT_LINE, HITS_IN_LEG = range(4)

# A wall that lies behind the particle by less than this was missed by rounding and is hit now.
_ROUNDING = 1e-9


def _allocate(d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> GaussianBilliard:
    clock = GaussianBilliard(
        site=np.empty(d, np.uint32),
        V=np.empty(d),
        P=np.empty(d),
        leg=np.zeros(9),
        count=np.zeros(4, np.int64),
        rng=state,
        scratch=np.empty((3, d)),
        buckets=np.empty(d + 1, np.int32),
    )
    clock.leg[REFRESH_RATE] = refreshment_rate
    return clock


def _variance_over_planes(d: int) -> float:
    """Return the relative variance of the hit rate over planes.

    Given rho the rate is proportional to E[rho / (x^2 + rho^2)] = sqrt(pi/2) erfcx(rho / sqrt 2), x ~ N(0, 1), and
    rho^2 ~ chi^2 with d - 1 degrees of freedom; a refreshment leaves 1 - 1/d of what rho^2 differs from its mean.
    """
    if d == 1:
        return 0.0
    middles = (np.arange(256) + 0.5) / 256
    rate = erfcx(np.sqrt(gammaincinv((d - 1) / 2, middles)))
    return float(rate.var() / rate.mean() ** 2)


GAUSSIAN = Clock(
    family="billiard",
    name="gaussian",
    allocate=_allocate,
    hit_rate=lambda d: d * mean_speed(d) / 2 * sqrt(2 / pi),
    bounce_rate=lambda d: 1 / sqrt(2 * pi),
    by_attempts=True,
    slow=lambda d: (_variance_over_planes(d), d),
)


@helper
def _derive_plane(clock, t, z, w):
    """Find the plane of (z, w), sort its lines, and start a leg at time t. Overwrites z."""
    d = z.size
    leg = clock.leg
    x = 0.0
    for i in range(d):
        x += z[i] * w[i]
    square = 0.0
    for i in range(d):
        z[i] -= x * w[i]
        square += z[i] * z[i]
    rho = np.sqrt(square)
    scale = 1.0 / rho if rho > 0.0 else 0.0
    # The lines are hit in the order of cot(angle) = -P/V; g is an increasing function of it with values in (-1, 1).
    g = clock.scratch[2]
    for i in range(d):
        z[i] *= scale
        size = abs(w[i]) + abs(z[i])
        g[i] = (-z[i] if w[i] > 0.0 else z[i]) / size if size > 0.0 else 0.0
    sort_order(g, clock.site, clock.buckets)
    for k in range(d):
        i = clock.site[k]
        clock.V[k] = w[i]
        clock.P[k] = z[i]
    # The first line ahead of the particle is the first with -rho P/V > x.
    here = x / (rho + abs(x)) if rho + abs(x) > 0.0 else 0.0
    first = 0
    while first < d and g[clock.site[first]] <= here:
        first += 1
    clock.count[NEXT_LINE] = first if first < d else 0
    clock.count[HITS_IN_LEG] = 0
    climbed = max(x, 0.0)
    leg[T_START] = t
    leg[X_START] = x
    leg[X_BOUNCE] = np.sqrt(climbed * climbed + 2.0 * exponential(clock.rng))
    leg[RHO] = rho
    leg[COS] = 1.0
    leg[SIN] = 0.0


@helper
def _schedule_refreshment(clock, t):
    rate = clock.leg[REFRESH_RATE]
    clock.leg[T_REFRESH] = t + exponential(clock.rng) / rate if rate > 0.0 else inf


@implements(restart, GaussianBilliard)
def _restart(clock):
    z, w = clock.scratch[0], clock.scratch[1]
    fill_normal(clock.rng, z)
    for i in range(z.size):
        z[i] = abs(z[i])
    clock.leg[T_LAST] = 0.0
    fill_sphere(clock.rng, w)
    _schedule_refreshment(clock, 0.0)
    _derive_plane(clock, 0.0, z, w)


@helper
def _refresh(clock, t):
    z, w = clock.scratch[0], clock.scratch[1]
    position(clock, t, z, w)
    fill_sphere(clock.rng, w)
    _schedule_refreshment(clock, t)
    _derive_plane(clock, t, z, w)
    clock.count[REFRESHMENTS] += 1


@implements(fill, GaussianBilliard)
def _fill(clock, t_stop, times, sites):
    leg = clock.leg
    n = 0
    while True:
        t_end = min(t_stop, leg[T_REFRESH])
        n = _fill_in_plane(clock, t_end, times, sites, n)
        if n == times.size or t_end == t_stop:
            return n, n < times.size
        _refresh(clock, t_end)


@helper
def _fill_in_plane(clock, t_end, times, sites, n):
    """Write the hits up to t_end from index n on and return how many the buffers hold then. No refreshment is due."""
    leg, count = clock.leg, clock.count
    site, V, P = clock.site, clock.V, clock.P
    d, capacity = site.size, times.size
    t_start, x_start, x_bounce, t_last = leg[T_START], leg[X_START], leg[X_BOUNCE], leg[T_LAST]
    cos, sin, rho = leg[COS], leg[SIN], leg[RHO]
    k, hits = count[NEXT_LINE], count[HITS_IN_LEG]
    bounces = 0
    while True:
        offset = t_start - x_start
        x_end = min(x_bounce, t_end - offset)
        x_behind = x_start - _ROUNDING
        # The turn at the end of the leg, v' = v - 2 (v.y) y / |y|^2, is known already; computing it here lets the
        # processor do it while the hits are found.
        square = x_bounce * x_bounce + rho * rho
        scale = 1.0 / square if square > 0.0 else 0.0
        c = (rho * rho - x_bounce * x_bounce) * scale
        s = -2.0 * x_bounce * rho * scale
        cos_next, sin_next = cos * c - sin * s, sin * c + cos * s
        # In a leg the angle of y grows by less than pi: no line is met twice.
        last = min(n + d - hits, capacity)
        first = n
        while n < last:
            V_k, P_k = V[np.uint64(k)], P[np.uint64(k)]
            x = rho * (sin * V_k - cos * P_k) / (cos * V_k + sin * P_k)
            if not (x_behind <= x <= x_end):
                break
            t_last = max(t_last, offset + x)
            times[np.uint64(n)] = t_last
            sites[np.uint64(n)] = site[np.uint64(k)]
            n += 1
            k = k + 1 if k + 1 < d else 0
        hits += n - first
        if n == capacity or x_end < x_bounce:
            break
        # One Newton step towards length 1 keeps rounding from building up over 10^9 turns.
        scale = 1.5 - 0.5 * (cos_next * cos_next + sin_next * sin_next)
        cos, sin = cos_next * scale, sin_next * scale
        t_start += x_bounce - x_start
        x_start = -x_bounce
        x_bounce = np.sqrt(2.0 * exponential(clock.rng))
        hits = 0
        bounces += 1
    leg[T_START], leg[X_START], leg[X_BOUNCE], leg[T_LAST] = t_start, x_start, x_bounce, t_last
    leg[COS], leg[SIN] = cos, sin
    count[NEXT_LINE], count[HITS_IN_LEG] = k, hits
    count[BOUNCES] += bounces
    return n


@implements(shift, GaussianBilliard)
def _shift(clock, elapsed):
    clock.leg[T_START] -= elapsed
    clock.leg[T_REFRESH] -= elapsed
    clock.leg[T_LAST] -= elapsed


@implements(position, GaussianBilliard)
def _position(clock, t, z, w):
    leg = clock.leg
    x = leg[X_START] + (t - leg[T_START])
    for k in range(z.size):
        i = clock.site[k]
        v = leg[COS] * clock.V[k] + leg[SIN] * clock.P[k]
        p = leg[COS] * clock.P[k] - leg[SIN] * clock.V[k]
        y = x * v + leg[RHO] * p
        z[i] = abs(y)
        w[i] = v if y > 0.0 else -v
