"""How often coordinates that are normal or at a point are looked at in a sweep.

Most of the error of a run is that of coordinates that are neither nearly always at their points nor nearly never, and
of the few that these depend on. Any order of visits that does not depend on the state keeps the law, so that it is
chosen before the chain moves: from probabilities to be beside the point with all others at their means (mean field).
Where these are wrong, visits are spent on other coordinates than would be best, and nothing else.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy.piecewise.coupling import add_column, multiply

Array = NDArray[np.float64]

# Coordinates that are beside their points with a higher probability than this are looked at so often in a sweep, unless
# they are more than this share of all. The number is odd: one with equal masses goes to the other side at every visit,
# and would be where it was after an even number of them.
_RARE, OFTEN, _MOST_OFTEN = 0.03, 5, 0.5
# Rounds of the mean field, and changes of a mean, in standard deviations, that others need not know of.
_ROUNDS, _SMALL = 10, 1e-3


def expected_shares(coupling: Any, linear: Array, diagonal: Array, point: Array, odds: Array) -> Array:
    """Return the probability of each coordinate to be beside its point, (d,), in the mean field.

    `odds`, (d,), is the mass of the point over that of the normal where both have the same mean; 0 for coordinates
    without a point, which are taken for normal.
    """
    shares = np.ones(linear.size)
    _mean_field(coupling, linear, diagonal, point, odds, point.copy(), np.empty(linear.size), shares)
    return shares


@kernel
def _mean_field(coupling, linear, diagonal, point, odds, x, f, shares):
    """Move means x, with f = A x - b, to those given all others at theirs, in turn. Changes x, f and shares."""
    multiply(coupling, x, f)
    for i in range(x.size):
        f[i] -= linear[i]
    for _ in range(_ROUNDS):
        for i in range(x.size):
            A = diagonal[i]
            if A > 0.0:
                r = f[i] - A * (x[i] - point[i])
                shares[i] = 1.0 / (1.0 + odds[i] * exp(-0.5 * r * r / A))
                step = point[i] - shares[i] * r / A - x[i]
                if abs(step) * sqrt(A) > _SMALL:
                    x[i] += step
                    add_column(coupling, i, step, f)


def visits_of(shares: Array, window: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return an order of coordinates, the windows of it that are visited in turn, and how often each is.

    `shares`, (n,), are probabilities to be beside the point. Visits of each window are spread evenly over the sweep.
    """
    order = np.argsort(-shares, kind="stable")
    windows, often = -(-shares.size // window), -(-int(np.count_nonzero(shares > _RARE)) // window)
    if often > _MOST_OFTEN * windows:
        often = 0
    once = np.arange(often, windows)
    when = [(np.arange(OFTEN) + 0.5) / OFTEN] * often + [(once - often + 0.5) / once.size]
    visited = np.concatenate([np.repeat(np.arange(often), OFTEN), once])
    times = np.where(np.arange(windows) < often, float(OFTEN), 1.0)
    return order, visited[np.argsort(np.concatenate(when), kind="stable")], times
