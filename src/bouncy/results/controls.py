"""Control variates: the part of an average that is linear in the other variables is known, and is taken out.

Given all others, the expectation m_i of x_i is a function of the pull g_i = sum_j A_ij x_j (j != i) alone, whose
derivative is -Var[x_i | others]. On average m is x, and g is A x, so that for any numbers V

    E[x] = E[m] + V (E[g] - A E[x]).

An estimate x that solves x = m + V (g - A x), with averages m and g over the same states and V those of the
variances, has no error where m is linear in g, as of a Gaussian, and elsewhere that of what is not linear. For other
expectations, such as the probability of a cell, which has a covariance K with x_i, the estimate is p + K (g - A x).

Dellaportas & Kontoyiannis (2012), J. R. Statist. Soc. B 74, 133, use the same identities; the coefficients here follow
from the couplings, so that none has to be fitted but one for all variables, the share that is taken out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy.recorders.batches import Batch
from bouncy.results.moments import Quantity, Sums, recorded

Array = NDArray[np.float64]

# Equations of more variables than this with a smaller share of couplings are solved by so many steps, for eigenvalues
# of at least so much.
_DENSE, _SPARSE, _STEPS, _LEAST = 512, 0.1, 16, 0.1


def controlled_means(sums: Sums, factor: int, A: scipy.sparse.csr_array, V: Array, pull: Quantity) -> Sums:
    """Return batches whose sums "mean" have the linear part taken out.

    Parameters
    ----------
    sums : Sums
        Batches with the sums of m under this name.
    factor : int
        Batches that are added up where errors are estimated; the share that is taken out makes these the smallest.
    A : csr_array, shape (d, d)
        Couplings, with zeros on the diagonal.
    V : ndarray, shape (d,)
        Averages of the variances; 0 leaves the mean of a variable as it is.
    pull : Quantity
        Sums of g.
    """
    m = _rows(sums, recorded("mean"))
    step = _solve(A, V, V * (_rows(sums, pull) - m @ A)) if np.isfinite(V).all() else None
    return sums if step is None else _mixed(sums, factor, "mean", m, step, V > 0.0)


def controlled_cells(
    sums: Sums, factor: int, A: scipy.sparse.csr_array, K: Array, site: NDArray[np.intp], pull: Quantity
) -> Sums:
    """Do the same for the sums "cell", of probabilities of cells of the variables `site`, with averages K, (cells,).

    Means should have their linear part taken out before.
    """
    p, m = (_rows(sums, recorded(name)) for name in ("cell", "mean"))
    return _mixed(sums, factor, "cell", p, K * (_rows(sums, pull) - m @ A)[:, site], K != 0.0)


def _solve(A: scipy.sparse.csr_array, V: Array, right: Array) -> Array | None:
    """Return solutions x of x + V A x = b for rows b, (n, d), or what comes near them; None where there are none."""
    if V.size > _DENSE and A.nnz < _SPARSE * V.size**2:
        return _approach(A, V, right)
    rows = np.concatenate([np.eye(V.size) + V[:, None] * A.toarray(), right.T], axis=1)
    with np.errstate(all="ignore"):
        _eliminate(rows)
    found = rows[:, V.size :].T
    return found if np.isfinite(found).all() else None


def _approach(A: scipy.sparse.csr_array, V: Array, right: Array) -> Array:
    """Return some steps of Chebyshev's iteration towards the solutions.

    They are the same linear function of each row, so that any number of them leaves estimates unbiased.
    """
    reach = max(float((abs(A) @ np.ones(V.size) * V).max()), _LEAST)  # no eigenvalue of V A is larger
    low, high = max(1.0 - reach, _LEAST), 1.0 + reach
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    step = right / middle
    found, residual, ratio = step, right, half / middle
    for _ in range(_STEPS):
        residual = residual - step - V * (step @ A)
        before, ratio = ratio, 1.0 / (2.0 * middle / half - ratio)
        step = ratio * (before * step + 2.0 / half * residual)
        found = found + step
    return found


@kernel
def _eliminate(rows):
    """Replace b by x in rows of equations A x = b, (d, d + n), by Gauss's elimination; not finite where A is singular.

    Libraries use as many threads as there are cores, and round differently with each number of them.
    """
    d = rows.shape[0]
    for k in range(d):
        pivot = k
        for i in range(k + 1, d):
            if abs(rows[i, k]) > abs(rows[pivot, k]):
                pivot = i
        own, other = rows[k], rows[pivot]
        if pivot != k:
            for j in range(own.size):
                own[j], other[j] = other[j], own[j]
        for i in range(k + 1, d):
            _subtract(rows[i], rows[i, k] / own[k], own, k)
    for k in range(d - 1, -1, -1):
        own = rows[k]
        for j in range(d, own.size):
            own[j] /= own[k]
        for i in range(k):
            _subtract(rows[i], rows[i, k], own, d)


@helper
def _subtract(row, factor, own, begin):
    """Subtract a multiple of a row from another, from an entry on."""
    if factor != 0.0:
        for j in range(begin, row.size):
            row[j] -= factor * own[j]


def _mixed(sums: Sums, factor: int, name: str, plain: Array, step: Array, where: NDArray[np.bool_]) -> Sums:
    """Return batches with steps added to the sums of a name, rows of both, in the share with the smallest errors."""
    both = replace(_with(sums, plain=plain, other=plain + step), factor=factor)
    return _with(sums, **{name: plain + both.best_share("plain", "other", where) * step})


def _rows(sums: Sums, quantity: Quantity) -> Array:
    """Return a quantity of all batches, closed and open, as rows."""
    return np.array([quantity(batch) for chain in (*sums.closed, sums.open) for batch in chain])


def _with(sums: Sums, **rows: Array) -> Sums:
    """Return the batches with other sums, by name, one row for each as `_rows` returns them."""
    each = iter(zip(*rows.values(), strict=True))

    def changed(batch: Batch) -> Batch:
        return {**batch, **dict(zip(rows, next(each), strict=True))}

    closed = [[changed(batch) for batch in chain] for chain in sums.closed]
    return replace(sums, closed=closed, open=[changed(batch) for batch in sums.open])
