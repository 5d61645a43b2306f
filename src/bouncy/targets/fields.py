"""The compiled side of Markov random fields: couplings, dense or sparse, and the local fields h = r + Ms.

Of log p(s) = offset - s.r - s'Ms/2 everything but `init` and `on_flip` follows from s, r and h alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy.targets.contract import target_part

# A flip reads a row of a dense matrix in one vectorised pass, but goes through the entries of a sparse row one by one:
# an index, a coupling, a field to fetch and put back. Measured, a sparse entry takes as long as eight dense ones while
# the matrix fits in cache, and as long as four where rows come from memory. In a row of four cache lines it does not
# matter.
_ALWAYS_DENSE = 32
_IN_CACHE = 1024
_SHARE_IN_CACHE = 1 / 8
_SHARE_IN_MEMORY = 1 / 4


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
