"""Integrals of x_i x_j over the path, for covariances: none, all pairs, or all with expectations.

Within a leg x_i = p_i + u_i t, and p_i and u_i change only at the walls that i meets. With X_j and T_j the integrals of
x_j and of t x_j since the leg began, the integral of x_i x_j is p_i X_j + u_i T_j at the end of the leg, and at each
change of (p_i, u_i) gains (old p_i - new p_i) X_j + (old u_i - new u_i) T_j: O(d) at a wall, O(d^2) once a leg.

Where the expectation of x_i given the others is known, E[x_i | others] x_j has the same expectation as x_i x_j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy.recorders.batches import Batch

Array = NDArray[np.float64]


@part("open", "given", "X", "T", "since")
class Products(NamedTuple):
    """Sums over the open batch; arrays of what is not kept are empty, so that one compiled loop serves all three."""

    open: Array  # (d, d) integrals of x_i x_j
    given: Array  # (d, d) sums of E[x_i | others] x_j; on the diagonal, of E[x_i^2 | others]
    X: Array  # (d,) integral of x_j in this leg, up to `since`
    T: Array  # (d,) integral of t x_j in this leg, up to `since`
    since: Array  # (d,) leg time of the last change of x_j's path
    now: Array  # (2, d) scratch

    def sums(self) -> Batch:
        """Return the sums over the open batch; what is of the path has another name beside expectations."""
        if self.given.size:
            return {"products": self.given.flatten(), "path_products": self.open.flatten()}
        return {"products": self.open.flatten()} if self.open.size else {}

    def clear(self) -> None:
        """Begin a new batch."""
        self.open[:] = 0.0
        self.given[:] = 0.0


def new_products(d: int, given: bool = False) -> Products:
    """Return empty sums of the products of all pairs, and of their expectations if these are known; none for d = 0."""
    expected = d if given else 0
    return Products(
        np.zeros((d, d)), np.zeros((expected, expected)), np.zeros(d), np.zeros(d), np.zeros(d), np.empty((2, d))
    )


@helper
def _integrals(products, p, u, j, t):
    """Return the integrals of x_j and t x_j from the beginning of the leg to t."""
    s = products.since[j]
    half = 0.5 * (t * t - s * s)
    X = products.X[j] + p[j] * (t - s) + u[j] * half
    T = products.T[j] + p[j] * half + u[j] * (t * t * t - s * s * s) / 3.0
    return X, T


@helper
def products_wall(products, p, u, i, t, p_new, u_new):
    """Account for the path of i, which changes at leg time t from p[i] + u[i] t to p_new + u_new t.

    p and u, (d,), are those of all coordinates before the change.
    """
    if products.open.size == 0:
        return
    dp, du = p[i] - p_new, u[i] - u_new
    row = products.open[i]
    for j in range(p.size):
        X, T = _integrals(products, p, u, j, t)
        row[j] += dp * X + du * T
    X, T = _integrals(products, p, u, i, t)
    products.X[i] = X
    products.T[i] = T
    products.since[i] = t


@helper
def products_leg(products, p, u, t):
    """Account for a leg that ends at leg time t; the next one begins there."""
    if products.open.size == 0:
        return
    X, T = products.now[0], products.now[1]
    for j in range(p.size):
        X[j], T[j] = _integrals(products, p, u, j, t)
        products.X[j] = 0.0
        products.T[j] = 0.0
        products.since[j] = 0.0
    for i in range(p.size):
        row = products.open[i]
        for j in range(p.size):
            row[j] += p[i] * X[j] + u[i] * T[j]


@helper
def products_point(products, x, weight):
    """Account for a state x, (d,), that stands for some time."""
    if products.open.size == 0:
        return
    for i in range(x.size):
        for j in range(x.size):
            products.open[i, j] += weight * x[i] * x[j]


@helper
def products_given(products, i, mean, square, x, weight):
    """Account for E[x_i] and E[x_i^2] given the others, which are at the values x, (d,), and stand for some time."""
    if products.given.size == 0:
        return
    row, scaled = products.given[i], weight * mean
    kept = row[i]
    for j in range(x.size):
        row[j] += scaled * x[j]
    row[i] = kept + weight * square
