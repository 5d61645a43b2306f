"""The density of the values x = a y + c, given that of the coordinates y, which is exp(-U).

With A, b, phi and the cells as in `potential.py`, log p(x) = -x'A x / 2 + b.x + sum_i log w_i(x_i). A cell with a != 0
adds exp(-phi(y)) / |a| to w_i, at the y that has the value. One with a = 0 stands for a value with a probability of its
own, w_i, the integral of exp(-phi) over the cell. Where several cells have a value, their contributions add up.
"""

from __future__ import annotations

from functools import cache
from math import exp, inf, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper

Array = NDArray[np.float64]

# A tail that begins with exp(-40) is below the last digit.
_NEGLIGIBLE = 40.0
# Nodes that integrate exp(-phi) on a stretch where phi rises by that much, to the last digits.
_NODES = 64


@helper
def log_density(view, rows, x, f):
    """Return log p(x) at values in the cells `rows`, both (d,), with f = A x - b."""
    total = -0.5 * quadratic_form(view, x, f)
    for i in range(x.size):
        total += log_weight(view, i, rows[i], x[i])
    return total


@helper
def quadratic_form(view, x, f):
    """Return x'A x - 2 b.x = x.(f - b), with f = A x - b."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * (f[i] - view.linear[i])
    return total


@helper
def log_weight(cells, i, row, x):
    """Return log w_i(x) for a value x that coordinate i has in the cell `row`; `cells` are Cells or a View.

    At an edge, which two cells share, the value is that of the given cell alone.
    """
    is_mass = cells.slope[row] == 0.0
    total = _log_part(cells, row, x)
    for other in range(cells.first[i], cells.first[i + 1]):
        if other != row and (cells.slope[other] == 0.0) == is_mass and _has(cells, other, x):
            total = _log_sum(total, _log_part(cells, other, x))
    return total


@helper
def _has(cells, row, x):
    """Say whether a cell has a value inside of it."""
    slope, distance = cells.slope[row], x - cells.shift[row]
    if slope == 0.0:
        return distance == 0.0
    return cells.lower[row] < distance / slope < cells.upper[row]


@helper
def _log_part(cells, row, x):
    """Return the logarithm of what one cell adds to the weight of its value x."""
    slope = cells.slope[row]
    if slope == 0.0:
        return cells.log_scale[row]
    y = (x - cells.shift[row]) / slope
    return cells.log_scale[row] - y * (cells.tilt[row] + 0.5 * cells.curvature[row] * y)


@helper
def _log_sum(a, b):
    """Return log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log1p(exp(low - high))


def log_masses(lower: Array, upper: Array, tilt: Array, curvature: Array) -> Array:
    """Return the logarithms of the integrals of exp(-tilt y - curvature y^2 / 2) from `lower` to `upper`, all (n,).

    They are +inf where there is no bound.

    Examples
    --------
    >>> one, zero = np.ones(1), np.zeros(1)
    >>> np.exp(log_masses(np.array([0.0]), np.array([np.inf]), tilt=2.0 * one, curvature=zero)).round(12)
    array([0.5])
    """
    if not lower.size:
        return np.zeros(0)
    rows, place = np.unique(np.stack([lower, upper, tilt, curvature], axis=1), axis=0, return_inverse=True)
    masses = np.array([_log_mass(*map(float, row)) for row in rows])
    return masses[place.ravel()]


def _log_mass(lower: float, upper: float, tilt: float, curvature: float) -> float:
    """Cut the interval at the vertex of phi, so that phi is monotone on each part, and add up both."""
    vertex = -tilt / curvature if curvature else lower
    middle = min(max(vertex, lower), upper)
    parts = [_log_monotone(a, b, tilt, curvature) for a, b in ((lower, middle), (middle, upper)) if a < b]
    return _log_sum(*parts) if len(parts) == 2 else parts[0]


def _log_monotone(a: float, b: float, tilt: float, curvature: float) -> float:
    """Return the logarithm of the integral from a to b, where phi is monotone, beginning where phi is lowest."""
    if a == -inf and b == inf:
        return inf
    ends = [(end, away) for end, away in ((a, 1.0), (b, -1.0)) if abs(end) < inf]
    phi, rise, length = min(
        (end * (tilt + 0.5 * curvature * end), max(away * (tilt + curvature * end), 0.0), b - a) for end, away in ends
    )
    square = rise * rise + 2.0 * _NEGLIGIBLE * curvature
    speed = rise + sqrt(square) if square >= 0.0 else 0.0
    length = min(length, 2.0 * _NEGLIGIBLE / speed if speed else inf)
    if length == inf:
        return inf
    nodes, weights = _rule()
    s = 0.5 * length * (1.0 + nodes)
    return float(log(0.5 * length * (weights @ np.exp(-s * (rise + 0.5 * curvature * s)))) - phi)


@cache
def _rule() -> tuple[Array, Array]:
    """Return nodes and weights of Gauss and Legendre on -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights
