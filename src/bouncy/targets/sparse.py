"""Markov random field with a sparse coupling matrix: degree(i) updates per accepted flip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy.targets.contract import flip, resync
from bouncy.targets.fields import implement_by_fields


@part("h")
class SparseFields(NamedTuple):
    """log p(s) = offset - s.r - s'Ms/2 with M in CSR form and the local fields h = r + Ms kept up to date."""

    indptr: NDArray[np.int64]  # (d + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.float64]  # (nnz,)
    r: NDArray[np.float64]  # (d,)
    h: NDArray[np.float64]  # (d,)
    offset: float


implement_by_fields(SparseFields)


@implements(flip, SparseFields)
def _flip(view, s, i):
    change = -2.0 * s[i]
    for k in range(view.indptr[i], view.indptr[i + 1]):
        view.h[view.indices[k]] += change * view.data[k]
    s[i] = -s[i]


@implements(resync, SparseFields)
def _resync(view, s):
    for i in range(s.size):
        field = view.r[i]
        for k in range(view.indptr[i], view.indptr[i + 1]):
            field += view.data[k] * s[view.indices[k]]
        view.h[i] = field
