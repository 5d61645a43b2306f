"""Laws of coordinates that are normal or at a point, with those that are not at their points integrated out.

Given which coordinates S are not at their points, these are normal with the covariance M = (A_SS)^-1. With c the column
of A of another coordinate i, less what S explains of it,

    w = M A_Si,    c = A_i - A_S w,

coordinate i has the precision Q_i = c_i beside its point, and R_i, the slope of the quadratic form at its point, is
taken at the means of S. If i leaves its point by delta, S moves by -w delta: the law of S around its mean given i stays
as it was, and so does the density of S, whatever delta is. Then R, Q and A x - b of all coordinates change by multiples
of c and c^2, in O(|S| d).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy.piecewise.coupling import diagonal, entry, subtract_columns
from bouncy.piecewise.potential import SPIKED, Potential, kinds_of, log_odds

Array = NDArray[np.float64]

# Marginals are used up to so many variables, of which so many are expected not to be zero, if each has at least this
# share that the others do not explain: beyond, a change would take too long, or lose too many digits. What is lost goes
# as one over the square of that share: here 10^-5 standard deviations, until everything is computed anew.
_MOST_VARIABLES, _MOST_APART, _LEAST_UNEXPLAINED = 512, 32.0, 1e-4


@part(
    "slope", "precision", "covariance", "active", "number",
    bounds={
        "active": lambda marginals: (0, marginals.active.size - 1),
        "number": lambda marginals: (0, marginals.active.size),
    },
)  # fmt: skip
class Marginals(NamedTuple):
    """R, Q, M and S as above; arrays are empty where laws given all others are used for every target."""

    slope: Array  # (d,) R, of a coordinate in S as if it were not
    precision: Array  # (d,) Q, likewise
    covariance: Array  # (d, d) M, in its first rows and columns
    active: NDArray[np.int64]  # (d,) S, in the order of M
    number: NDArray[np.int64]  # (1,) the size of S
    # Scratch: where a coordinate is in S; w and c.
    place: NDArray[np.int64]  # (d,)
    weight: Array  # (d,)
    column: Array  # (d,)
    used: NDArray[np.bool_]  # (1,) whether they are, on the present target; else the rest means nothing


def new_marginals(d: int) -> Marginals:
    """Return marginals of d coordinates, to be renewed; none for d = 0."""
    return Marginals(
        slope=np.zeros(d),
        precision=np.zeros(d),
        covariance=np.zeros((d, d)),
        active=np.zeros(d, np.int64),
        number=np.zeros(1, np.int64),
        place=np.zeros(d, np.int64),
        weight=np.zeros(d),
        column=np.zeros(d),
        used=np.full(1, d > 0),
    )


def pays(potential: Potential, correlated: bool) -> bool:
    """Return whether marginals are used: all coordinates are normal or zero, few are not zero, two strongly correlated.

    How many are not zero is estimated from the law of each coordinate given that no other is. If no two of them are
    `correlated`, laws given all others are nearly as good, and faster, and they have control variates.
    """
    A, d = potential.coupling, potential.cells.d
    if not correlated or scipy.sparse.issparse(A) or d > _MOST_VARIABLES or (kinds_of(potential) != SPIKED).any():
        return False
    if potential.cells.shift[potential.cells.first[:-1] + 1].any():  # where a value beside its point could round to it
        return False
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    M = np.linalg.inv(A)
    variance, mean = M.diagonal(), M @ potential.linear
    unexplained = 1.0 / (potential.diagonal() * variance)
    log_ratio = log_odds(potential, np.arange(d)) + 0.5 * np.log(unexplained) - 0.5 * mean**2 / variance
    expected = np.sum(1.0 / (1.0 + np.exp(np.minimum(log_ratio, 700.0))))
    return bool(expected <= _MOST_APART and unexplained.min() >= _LEAST_UNEXPLAINED)


@helper
def renew(marginals, coupling, linear, x, F):
    """Compute everything in full, for coordinates at x whose points are zero; F is kept."""
    for i in range(x.size):
        marginals.slope[i] = -linear[i]
        marginals.precision[i] = diagonal(coupling, i)
    marginals.number[0] = 0
    for i in range(x.size):
        if x[i] != 0.0:
            change(marginals, coupling, F, i, 0.0, True)


@helper
def locate_active(marginals):
    """Find where the coordinates of S are."""
    for a in range(marginals.number[0]):
        marginals.place[marginals.active[a]] = a


@helper
def change(marginals, coupling, F, i, delta, enters):
    """Let coordinate i, by delta away from its point, enter S or leave it, and bring F = A x - b up to date.

    Then w is in `marginals.weight`, and the caller moves the others of S by -w delta, or back by w delta.
    """
    M, active, w = marginals.covariance, marginals.active, marginals.weight
    R, Q, c = marginals.slope, marginals.precision, marginals.column
    slope, precision, k = R[i], Q[i], marginals.number[0]
    if enters:
        _project(marginals, coupling, i, k)
    else:
        k -= 1
        _put_last(marginals, marginals.place[i], k)
        for a in range(k):
            w[a] = -M[k, a] * precision
    subtract_columns(coupling, i, active, w, k, c)
    sign = 1.0 if enters else -1.0
    variance = sign / precision
    shift, moved = -variance * slope, sign * delta
    for j in range(c.size):
        R[j] += shift * c[j]
        Q[j] -= variance * c[j] * c[j]
        F[j] += moved * c[j]
    for a in range(k):
        s = active[a]
        mean = -R[s] / Q[s] - shift * w[a]
        row, others, factor = M[a, :k], w[:k], variance * w[a]
        for b in range(others.size):
            row[b] += factor * others[b]
        Q[s] = 1.0 / M[a, a]
        R[s] = -mean * Q[s]
    if enters:
        for a in range(k):
            M[a, k] = M[k, a] = -w[a] * variance
        M[k, k] = variance
        active[k], marginals.place[i] = i, k
        k += 1
    R[i], Q[i], marginals.number[0] = slope, precision, k


@helper
def _project(marginals, coupling, i, k):
    """Write w of coordinate i, for the first k of S."""
    w = marginals.weight[:k]
    for a in range(w.size):
        w[a] = 0.0
    for b in range(k):
        a_ib, row = entry(coupling, i, marginals.active[b]), marginals.covariance[b, :k]
        for a in range(w.size):
            w[a] += a_ib * row[a]


@helper
def _put_last(marginals, at, last):
    """Exchange two places of S."""
    M, active = marginals.covariance, marginals.active
    for a in range(last + 1):
        M[at, a], M[last, a] = M[last, a], M[at, a]
    for a in range(last + 1):
        M[a, at], M[a, last] = M[a, last], M[a, at]
    active[at], active[last] = active[last], active[at]
    marginals.place[active[at]] = at


@helper
def without(marginals, coupling, i, j):
    """Return R and Q of coordinate j, which is not in S, as they would be if i were not in S either."""
    at, precision = marginals.place[i], marginals.precision[i]
    c = entry(coupling, i, j)
    for a in range(marginals.number[0]):
        if a != at:
            c += marginals.covariance[at, a] * precision * entry(coupling, marginals.active[a], j)
    share = c / precision
    return marginals.slope[j] + share * marginals.slope[i], marginals.precision[j] + share * c
