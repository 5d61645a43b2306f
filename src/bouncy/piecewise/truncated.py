"""The density exp(-tau y - kappa y^2 / 2) on an interval: its integral, mean, variance and draws.

It is a truncated normal (kappa > 0), an exponential or a uniform density (kappa = 0), or one that bends up from its
ends (kappa < 0, on a bounded interval). All of it is measured from the *peak*, the place in the interval where the
density is highest, so that nothing under- or overflows however far out the interval is.

On a half-line, with slope rho of -log density at its end, integral, mean and variance come from a table of polynomials:
for rho >= 0 in u = sqrt(kappa) / (sqrt(kappa) + rho), where u = 0 is an exponential density and u = 1 half of a normal;
for rho < 0, with the peak inside, in rho / sqrt(kappa). Intervals are differences of half-lines; short ones, in which
such a difference would lose digits, and those with kappa < 0 are integrated by Gauss and Legendre's rule.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, nan, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._random import exponential, normal, uniform

Array = NDArray[np.float64]

# Polynomials of this degree have a relative error of 2e-15, in panels of 1 / 64 for u and of 1 / 8 for the distance of
# the peak from the end of a half-line. Further inside than this many standard deviations, the end does not matter.
_DEGREE, _PANELS, _FURTHEST = 7, 64, 8.0
# From this rho / sqrt(kappa) on, the variance has a table of its own.
_CANCELS = 4.0
# A tail that begins with exp(-45) is below the last digit.
_NEGLIGIBLE = 45.0
# An interval over which -log density rises by less than this from its peak is short; with the peak inside, one of fewer
# standard deviations.
_SHORT_RISE, _SHORT_WIDTH = 1.0, 1.5
# Nodes of a panel, and how much -log density changes over one at most.
_NODES, _PANEL_RISE = 12, 2.0
# Proposals are accepted with a probability above 0.3: so many are never refused.
_MOST_PROPOSALS = 1000
# Share of a normal that lies in an interval above which normals are drawn until one does.
_LIKELY = 0.3
# Largest rho / sqrt(kappa) at which halves of normals are proposed.
_NEARLY_HALF = 0.5

# Integral of exp(-z^2 / 2).
FULL = sqrt(2.0 * pi)


def _half_lines(place: Array) -> Array:
    """Return integral, mean and variance of exp(-rho t - kappa t^2 / 2) over t > 0, (3, n), at places in the table.

    Up to 1, kappa = 1 and rho is from -8 to 0, and the integral is relative to the peak. From 1 to 2, kappa = u^2 and
    rho = 1 - u, for u from 1 down to 0. At 1 both are half of a normal, so that rounding may lead to either side.
    """
    inside, u = np.minimum(_FURTHEST * (place - 1.0), 0.0), np.where(place < 1.0, 1.0, 2.0 - place)
    rho, kappa = np.where(place < 1.0, inside, 1.0 - u), u * u
    reach = np.maximum(rho, 0.0)
    end = 2.0 * _NEGLIGIBLE / (reach + np.sqrt(reach * reach + 2.0 * _NEGLIGIBLE * kappa)) - inside
    nodes, weights = _rule(16, 30)
    t = end[:, None] * nodes
    density = np.exp(-t * (rho[:, None] + 0.5 * kappa[:, None] * t) - 0.5 * inside[:, None] ** 2) * weights
    total = density.sum(axis=1)
    mean = (density * t).sum(axis=1) / total
    variance = (density * (t - mean[:, None]) ** 2).sum(axis=1) / total
    return np.stack([end * total, mean, variance])


def _rule(panels: int, n: int) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss and Legendre on 0 to 1, n in each of so many panels."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    places = (np.arange(panels)[:, None] + 0.5 * (1.0 + nodes)) / panels
    return places.ravel(), np.tile(0.5 * weights / panels, panels)


def _polynomials() -> Array:
    """Return the coefficients of `_half_lines` in the distance from the middle of a panel, (3, 2 panels, power)."""
    s = 0.5 * np.cos(pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    place = (np.arange(2 * _PANELS)[:, None] + 0.5 + s) / _PANELS
    values = _half_lines(place.ravel()).reshape(3, 2 * _PANELS, _DEGREE + 1)
    powers = np.vander(s, increasing=True)
    return np.ascontiguousarray(np.linalg.solve(powers, values.transpose(1, 2, 0)).transpose(2, 0, 1))


# One table for each: what is not asked for does not fill the caches.
_INTEGRALS, _MEANS, _VARIANCES = (table.copy() for table in _polynomials())
_PLACES, _WEIGHTS = _rule(1, _NODES)


@helper
def half_line(rho, root, deviation):
    """Return the integral of exp(-rho t - kappa t^2 / 2) over t > 0 relative to its peak, and mean and variance of t.

    `root` is the square root of kappa >= 0 and `deviation` one over it.
    """
    if rho <= -_FURTHEST * root:
        return FULL * deviation, -rho * deviation * deviation, deviation * deviation
    k, s, unit = _panel(rho, root, deviation)
    mean, variance = _mean_and_variance(rho, root, deviation, k, s, unit)
    return _value(_INTEGRALS, k, s) * unit, mean, variance


@helper
def spread_of_half_line(rho, root, deviation):
    """Return mean and variance of t, as `half_line` does; NaN or inf where there is no proper density."""
    if rho <= -_FURTHEST * root:
        return -rho * deviation * deviation, deviation * deviation
    k, s, unit = _panel(rho, root, deviation)
    return _mean_and_variance(rho, root, deviation, k, s, unit)


@helper
def _panel(rho, root, deviation):
    """Return the panel of the table, the distance from its middle, and the length in which the table measures t."""
    unit = deviation if rho < 0.0 else 1.0 / (rho + root)
    place = _PANELS * (1.0 + rho * unit * (1.0 if rho >= 0.0 else 1.0 / _FURTHEST))
    k = max(min(int(place), 2 * _PANELS - 1), 0)  # 0 for a place that is no number
    return np.uint64(k), place - k - 0.5, unit  # unsigned, which skips the wraparound check


@helper
def _value(table, k, s):
    """Return a polynomial of the table. Even and odd powers have not to wait for each other."""
    row, square = table[k], s * s
    even, odd = row[_DEGREE - 1], row[_DEGREE]
    for j in range(_DEGREE - 3, -1, -2):
        even = even * square + row[j]
        odd = odd * square + row[j + 1]
    return even + s * odd


@helper
def _mean_and_variance(rho, root, deviation, k, s, unit):
    """Return mean and variance of t; kappa E[t^2] = 1 - rho E[t], unless that cancels."""
    mean = _value(_MEANS, k, s) * unit
    if rho <= _CANCELS * root and root > 0.0:
        return mean, deviation * deviation * (1.0 - rho * mean) - mean * mean
    return mean, _value(_VARIANCES, k, s) * unit * unit


@helper
def slope_at(tau, kappa, y):
    """Return tau + kappa y, also at an infinite y."""
    return tau + kappa * y if kappa != 0.0 else tau


@helper
def peak_of(tau, kappa, lower, upper):
    """Return where the density is highest in an interval."""
    if kappa > 0.0:
        return min(max(-tau / kappa, lower), upper)
    if kappa == 0.0:
        return upper if tau < 0.0 else lower
    at_lower = slope_at(tau, kappa, 0.5 * (lower + upper)) >= 0.0  # the slope of the chord
    return lower if at_lower else upper


@helper
def moments(tau, kappa, root, deviation, lower, upper):
    """Return the peak, the integral over an interval relative to the density there, and mean and variance.

    `root` is the square root of kappa, where that is positive, and `deviation` one over it. NaN or inf where there is
    no proper density.
    """
    if kappa < 0.0:
        return _bent_up(tau, kappa, lower, upper)
    peak = min(max(-tau * deviation * deviation, lower), upper) if kappa > 0.0 else peak_of(tau, kappa, lower, upper)
    if lower == -inf and upper == inf:
        return peak, FULL * deviation, peak, deviation * deviation
    away = _way(tau, kappa, lower, upper)
    start = lower if away > 0.0 else upper
    slope = away * slope_at(tau, kappa, start)
    if lower > -inf and upper < inf:
        integral, mean, variance = _bounded(slope, kappa, root, deviation, upper - lower)
    else:
        integral, mean, variance = half_line(slope, root, deviation)
    return peak, integral, start + away * mean, variance


@helper
def _way(tau, kappa, lower, upper):
    """Return the direction into an interval from its end, for kappa >= 0: from the one that is nearer to the peak."""
    if lower == -inf or upper == inf:
        return 1.0 if upper == inf else -1.0
    return 1.0 if slope_at(tau, kappa, 0.5 * (lower + upper)) >= 0.0 else -1.0


@helper
def _bounded(slope, kappa, root, deviation, length):
    """Return integral, mean distance from an end and variance, with this slope of -log density at the end.

    It is a half-line less the one that begins at the other end.
    """
    next_slope = slope_at(slope, kappa, length)
    rise = 0.5 * length * (slope + next_slope)
    inside = 0.5 * slope * slope * deviation * deviation if slope < 0.0 else 0.0  # from the peak to the end
    if (not rise >= _SHORT_RISE) if slope >= 0.0 else length * root < _SHORT_WIDTH:
        return _short(length, slope, kappa, inside)
    integral, mean, variance = half_line(slope, root, deviation)
    rise += inside
    if rise < _NEGLIGIBLE:
        beyond, off, spread = half_line(next_slope, root, deviation)
        beyond *= exp(-rise)
        off += length
        first, second = integral * mean - beyond * off, integral * (variance + mean * mean)
        second -= beyond * (spread + off * off)
        integral -= beyond
        scale = 1.0 / integral
        mean = first * scale
        variance = second * scale - mean * mean
    return integral, mean, variance


@helper
def _short(length, slope, kappa, rise):
    """Return integral, mean distance and variance from 0 to a length over which -log density changes little.

    At a distance t it is rise + slope t + kappa t^2 / 2 above that of the peak.
    """
    total = first = second = 0.0
    for k in range(_NODES):
        t = length * _PLACES[k]
        density = _WEIGHTS[k] * exp(-(rise + t * (slope + 0.5 * kappa * t)))
        total += density
        first += density * _PLACES[k]
        second += density * _PLACES[k] * _PLACES[k]
    mean = first / total
    return total * length, length * mean, length * length * (second / total - mean * mean)


@helper
def _bent_up(tau, kappa, lower, upper):
    """Return peak, integral, mean and variance where kappa < 0, from each end that is a peak of its own, inwards."""
    peak = peak_of(tau, kappa, lower, upper)
    total = first = second = 0.0
    for end in range(2):
        away, start = (1.0, lower) if end == 0 else (-1.0, upper)
        slope = away * (tau + kappa * start)
        if not slope > 0.0:
            continue
        length, rise = _inwards(slope, kappa, upper - lower)
        base = (start - peak) * (tau + 0.5 * kappa * (start + peak))
        panels = np.int64(rise / _PANEL_RISE) + 1
        step = length / panels
        for k in range(panels):
            for j in range(_NODES):
                t = step * (k + _PLACES[j])
                density = step * _WEIGHTS[j] * exp(-(base + t * (slope + 0.5 * kappa * t)))
                place = start + away * t - peak
                total += density
                first += density * place
                second += density * place * place
    mean = first / total
    return peak, total, peak + mean, max(second / total - mean * mean, 0.0)


@helper
def _inwards(slope, kappa, width):
    """Return how far the density falls from an end, where kappa < 0 and it has this slope, and by how much in all.

    That is to the place where it is lowest, to the other end, or to where it is negligible.
    """
    length = min(-slope / kappa, width)
    square = slope * slope + 2.0 * kappa * _NEGLIGIBLE
    if square > 0.0:
        length = min(length, 2.0 * _NEGLIGIBLE / (slope + sqrt(square)))
    return length, length * (slope + 0.5 * kappa * length)


@helper
def draw(state, tau, kappa, root, deviation, lower, upper, integral):
    """Return a draw, given the integral that `moments` returned; NaN where there is no proper density."""
    if kappa < 0.0:
        return _draw_bent_up(state, tau, kappa, lower, upper)
    if lower == -inf and upper == inf:
        return (normal(state) - tau * deviation) * deviation
    away = _way(tau, kappa, lower, upper)
    start = lower if away > 0.0 else upper
    slope = away * slope_at(tau, kappa, start)
    if lower == -inf or upper == inf:
        return start + away * draw_half_line(state, slope, kappa, root, deviation)
    likely = integral > _LIKELY * FULL * deviation
    far = _draw_away(state, slope, kappa, root, deviation, upper - lower, likely)
    return min(max(start + away * far, lower), upper)


@helper
def draw_half_line(state, slope, kappa, root, deviation):
    """Return the distance of a draw from the end of a half-line with this slope of -log density there, kappa >= 0.

    Proposals are normal where the peak is inside or near, else exponential at the best rate (Robert 1995).
    """
    if slope < _NEARLY_HALF * root:
        for _ in range(_MOST_PROPOSALS):
            t = _near_the_end(state, slope, deviation)
            if t >= 0.0:
                return t
        return nan
    rate = 0.5 * (slope + sqrt(slope * slope + 4.0 * kappa))
    per_rate = 1.0 / rate
    for _ in range(_MOST_PROPOSALS):
        t = exponential(state) * per_rate
        if passes(state, 0.5 * kappa * (t - per_rate) * (t - per_rate)):
            return t
    return nan


@helper
def exchange_half_line(state, slope, kappa, t):
    """Return a distance from the end of a half-line, far for a near one t and near for a far one, of the same law.

    With the rate of `draw_half_line`, exp(-rate t) and one minus that are exchanged, which keeps an exponential law.
    The ratio to that law decides whether it is done; else the distance stays.
    """
    rate = 0.5 * (slope + sqrt(slope * slope + 4.0 * kappa))
    depth = rate * t
    if not depth > 0.0:
        return t
    new = -(log(-np.expm1(-depth)) if depth < 0.5 else log1p(-exp(-depth))) / rate
    return new if passes(state, (new - t) * (slope - rate + 0.5 * kappa * (new + t))) else t


@helper
def _near_the_end(state, slope, deviation):
    """Return the distance of a normal from the end of an interval: of half a normal where its peak is outside."""
    z = normal(state)
    return ((abs(z) if slope > 0.0 else z) - slope * deviation) * deviation


@helper
def _draw_away(state, slope, kappa, root, deviation, length, likely):
    """Return the distance of a draw from an end of a bounded interval with this slope of -log density, for kappa >= 0.

    Proposals are normal where the peak is inside or near, and a normal is likely to be in the interval; uniform in a
    short interval; else exponential as on a half-line.
    """
    is_near = slope < _NEARLY_HALF * root
    by_normals = is_near and likely
    by_uniforms = is_near or not 0.5 * length * (slope + slope_at(slope, kappa, length)) >= _SHORT_RISE
    for _ in range(_MOST_PROPOSALS):
        if by_normals:
            t = _near_the_end(state, slope, deviation)
            accepted = 0.0 <= t <= length
        elif by_uniforms:
            t = length * uniform(state)
            inside = 0.5 * slope * slope * deviation * deviation if slope < 0.0 else 0.0
            accepted = passes(state, inside + t * (slope + 0.5 * kappa * t))
        else:
            rate = 0.5 * (slope + sqrt(slope * slope + 4.0 * kappa))
            if rate * length < _NEGLIGIBLE:
                t = -log1p(np.expm1(-rate * length) * uniform(state)) / rate
            else:
                t = exponential(state) / rate
            accepted = passes(state, 0.5 * kappa * (t - 1.0 / rate) * (t - 1.0 / rate))
        if accepted:
            return min(t, length)
    return nan


@helper
def _draw_bent_up(state, tau, kappa, lower, upper):
    """Return a draw for kappa < 0: from each end inwards, proposals fall along the chord of -log density, below it."""
    at_lower, at_upper, width = tau + kappa * lower, tau + kappa * upper, upper - lower
    below = min(-max(at_lower, 0.0) / kappa, width)
    above = min(min(at_upper, 0.0) / kappa, width)
    rise_below = below * (at_lower + 0.5 * kappa * below)
    rise_above = above * (-at_upper + 0.5 * kappa * above)
    gap = width * (tau + 0.5 * kappa * (lower + upper))  # of -log density, from the lower end to the upper one
    mass_below = below * _mean_of_exponential(rise_below) * exp(min(gap, 0.0))
    mass_above = above * _mean_of_exponential(rise_above) * exp(-max(gap, 0.0))
    for _ in range(_MOST_PROPOSALS):
        from_below = uniform(state) * (mass_below + mass_above) <= mass_below
        length, rise, slope = (below, rise_below, at_lower) if from_below else (above, rise_above, -at_upper)
        t = -log1p(np.expm1(-rise) * uniform(state)) * (length / rise) if rise > 0.0 else length * uniform(state)
        t = min(t, length)
        if passes(state, t * (slope + 0.5 * kappa * t) - rise * (t / length)):
            return min(max(lower + t if from_below else upper - t, lower), upper)
    return nan


@helper
def _mean_of_exponential(rise):
    """Return the integral of exp(-rise t) over 0 < t < 1."""
    return -np.expm1(-rise) / rise if rise > 0.0 else 1.0


@helper
def passes(state, cost):
    """Return True with probability exp(-cost); exp is asked only where its lower bound 1 - cost leaves it open."""
    u = uniform(state)
    return u <= 1.0 - cost or log(u) <= -cost
