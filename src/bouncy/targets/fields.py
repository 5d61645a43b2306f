"""The compiled side of Markov random fields: couplings, dense or sparse, and the local fields h = r + Ms.

Of log p(s) = offset - s.r - s'Ms/2 everything but `init` and `on_flip` follows from s, r and h alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._memory import aligned_empty
from bouncy._vector import add_product, add_products, fetch, vectorised
from bouncy.targets.contract import target_part
from bouncy.targets.lanes import fetch_lanes, flip_lanes, init_lanes, lane_costs, lane_log_probs, settle_lanes

# A flip reads a row of a dense matrix in one vectorised pass, but goes through the entries of a sparse row one by one:
# an index, a coupling, a field to fetch and put back. Measured, a sparse entry takes as long as eight dense ones while
# the matrix fits in cache, and as long as four where rows come from memory. In a row of four cache lines it does not
# matter.
_ALWAYS_DENSE = 32
_IN_CACHE = 1024
_SHARE_IN_CACHE = 1 / 8
_SHARE_IN_MEMORY = 1 / 4
# Attempts in all lanes after which the fields of a dense model are brought up to date, by (largest d, attempts). More
# of them make better use of what is in cache, but each attempt has to look through those before it.
_PUT_OFF = ((16, 1), (48, 8), (1 << 62, 16))


def cheaper_storage(M: Any) -> Any:
    """Return symmetric couplings, dense or sparse, as the ndarray or `csr_array` in which a flip is cheaper."""
    d = M.shape[0]
    sparse = bool(scipy.sparse.issparse(M))
    entries = M.nnz if sparse else int(np.count_nonzero(M))
    share = _SHARE_IN_CACHE if d <= _IN_CACHE else _SHARE_IN_MEMORY
    if d <= _ALWAYS_DENSE or entries > share * d * d:
        return M.toarray() if sparse else M
    return scipy.sparse.csr_array(M)


@helper
def _flip_cost(view, s, i):
    return -2.0 * s[i] * view.h[i]


@helper
def _log_prob(view, s):
    total = 0.0
    for i in range(s.size):
        total += s[i] * (view.h[i] + view.r[i])
    return view.offset - 0.5 * total


@target_part("h")
class DenseFields(NamedTuple):
    """Dense couplings: a flip adds a row of M to the local fields, in one vectorised pass."""

    M: NDArray[np.float64]  # (d, d), symmetric, zero diagonal
    r: NDArray[np.float64]  # (d,)
    h: NDArray[np.float64]  # (d,)
    offset: float

    def flip_cost(self, s, i):
        return _flip_cost(self, s, i)

    def log_prob(self, s):
        return _log_prob(self, s)

    def init(self, s):
        h = self.h
        for j in range(h.size):
            h[j] = self.r[j]
        # M is symmetric: adding up its rows is a loop that can be vectorised, unlike sums along them.
        for i in range(s.size):
            spin = float(s[i])
            row = self.M[i]
            for j in range(h.size):
                h[j] += spin * row[j]

    def on_flip(self, s, i):
        change = 2.0 * s[i]
        row = self.M[i]
        h = self.h
        for j in range(h.size):
            h[j] += change * row[j]


@target_part("h")
class SparseFields(NamedTuple):
    """Couplings in CSR form: a flip changes the local fields of the neighbours."""

    indptr: NDArray[np.int64]  # (d + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.float64]  # (nnz,)
    r: NDArray[np.float64]  # (d,)
    h: NDArray[np.float64]  # (d,)
    offset: float

    def flip_cost(self, s, i):
        return _flip_cost(self, s, i)

    def log_prob(self, s):
        return _log_prob(self, s)

    def init(self, s):
        for i in range(s.size):
            field = self.r[i]
            for k in range(self.indptr[i], self.indptr[i + 1]):
                field += self.data[k] * s[self.indices[k]]
            self.h[i] = field

    def on_flip(self, s, i):
        change = 2.0 * s[i]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            self.h[self.indices[k]] += change * self.data[k]


# Lanes


@part("h")
class DenseLanes(NamedTuple):
    """Dense couplings and the fields of all lanes, which are brought up to date after several attempts.

    Changes that were put off are added to the field of a site when it is tried. Together they are a product of
    matrices, which needs a fraction of the time of one flip after the other.
    """

    M: NDArray[np.float64]  # (d, d)
    r: NDArray[np.float64]  # (d,)
    offset: float
    h: NDArray[np.float64]  # (d, lanes) but for what is put off
    change: NDArray[np.float64]  # (most, lanes) of the spins, put off
    who: NDArray[np.int32]  # (most,) the sites that these are of
    count: NDArray[np.int64]  # type: ignore[assignment]  # (1,) how many there are, shadows tuple.count


@part()
class SparseLanes(NamedTuple):
    """Couplings in CSR form: fields are added up from the neighbours whenever they are needed.

    With many lanes there is nearly always one that flips, and to read the spins of the neighbours, a byte each, takes
    less time than to keep their fields. What nobody keeps is always exact.
    """

    indptr: NDArray[np.int64]  # (d + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.float64]  # (nnz,)
    r: NDArray[np.float64]  # (d,)
    offset: float


def dense_lanes(M: NDArray[np.float64], r: NDArray[np.float64], offset: float, width: int) -> DenseLanes:
    """Return a view with room for the fields of some lanes."""
    d = r.size
    most = next(put_off for largest, put_off in _PUT_OFF if d <= largest)
    h, change = aligned_empty(d, width), aligned_empty(most, width)
    h[:] = np.nan
    return DenseLanes(M, r, offset, h, change, np.zeros(most, np.int32), np.zeros(1, np.int64))


@implements(init_lanes, DenseLanes)
def _init_dense(view, s):
    view.count[0] = 0
    for i in range(s.shape[0]):
        row = view.h[i]
        for k in range(row.size):
            row[k] = view.r[i]
    for i in range(s.shape[0]):
        _put_off(view, i, s[i])  # as if all spins had been 0
    settle_lanes(view)


@implements(lane_costs, DenseLanes)
def _dense_costs(view, s, i, out):
    row, spin, total = view.h[i], s[i], out[0]
    if view.count[0]:
        for k in range(row.size):
            total[k] = row[k]
        add_product(out, view.M, i, view.who, view.count[0], view.change)
        row = total
    for k in range(row.size):
        total[k] = -2.0 * spin[k] * row[k]


@implements(flip_lanes, DenseLanes)
def _flip_dense(view, s, i, change):
    if view.who.size > 1:
        _put_off(view, i, change)
    else:
        for j in range(s.shape[0]):
            _add(view.h[j], view.M[i, j], change)


@helper
def _put_off(view, i, change):
    n = view.count[0]
    row = view.change[n]
    for k in range(row.size):
        row[k] = change[k]
    view.who[n] = i
    view.count[0] = n + 1
    if n + 1 == view.who.size:
        settle_lanes(view)


@implements(settle_lanes, DenseLanes)
def _settle_dense(view):
    if view.count[0]:
        add_products(view.h, view.M, view.who, view.count[0], view.change)
        view.count[0] = 0


@implements(init_lanes, SparseLanes)
def _init_sparse(view, s):
    pass


@implements(lane_costs, SparseLanes)
def _sparse_costs(view, s, i, out):
    total = out[0]
    n, end = view.indptr[i], view.indptr[i + 1]
    if end - n <= 4:  # in one go
        _cost_of_four(view, s, i, n, end, total)
        return
    for k in range(total.size):
        total[k] = view.r[i]
    for m in range(n, end):
        _add(total, view.data[m], s[view.indices[m]])
    spin = s[i]
    for k in range(total.size):
        total[k] *= -2.0 * spin[k]


@vectorised
def _cost_of_four(view, s, i, n, end, out):
    """Write the cost of site i with four neighbours; those that are missing are itself, with the weight 0."""
    a, p = _neighbour(view, s, i, n, end)
    b, q = _neighbour(view, s, i, n + 1, end)
    c, t = _neighbour(view, s, i, n + 2, end)
    d, u = _neighbour(view, s, i, n + 3, end)
    spin, r = s[i], view.r[i]
    for k in range(out.size):
        out[k] = -2.0 * spin[k] * (r + ((a * p[k] + b * q[k]) + (c * t[k] + d * u[k])))


@vectorised
def _neighbour(view, s, i, n, end):
    """Return the weight of entry n of a row that ends before `end`, and the spins that it is for."""
    there = n < end
    return view.data[n] if there else 0.0, s[view.indices[n] if there else np.int64(i)]


@vectorised
def _add(total, weight, spin):
    for k in range(total.size):
        total[k] += weight * spin[k]


@implements(fetch_lanes, SparseLanes)
def _fetch_sparse(view, s, i):
    fetch(s[i])
    for n in range(view.indptr[i], view.indptr[i + 1]):
        fetch(s[view.indices[n]])


@implements(fetch_lanes, DenseLanes)
def _fetch_dense(view, s, i):
    fetch(s[i])
    fetch(view.h[i])


@implements(flip_lanes, SparseLanes)
def _flip_sparse(view, s, i, change):
    pass


@implements(settle_lanes, SparseLanes)
def _settle_sparse(view):
    pass


@implements(lane_log_probs, DenseLanes)
def _dense_log_probs(view, s, out):
    for k in range(out.size):
        out[k] = view.offset
    for i in range(s.shape[0]):
        _add_terms(out, s[i], view.h[i], view.r[i])


@implements(lane_log_probs, SparseLanes)
def _sparse_log_probs(view, s, out):
    for k in range(out.size):
        out[k] = view.offset
    for i in range(s.shape[0]):
        _add(out, -view.r[i], s[i])
        for n in range(view.indptr[i], view.indptr[i + 1]):
            _add_pair(out, -0.5 * view.data[n], s[i], s[view.indices[n]])


@vectorised
def _add_terms(total, spin, field, r):
    for k in range(total.size):
        total[k] -= 0.5 * spin[k] * (field[k] + r)


@vectorised
def _add_pair(total, weight, spin, other):
    for k in range(total.size):
        total[k] += weight * (spin[k] * other[k])
