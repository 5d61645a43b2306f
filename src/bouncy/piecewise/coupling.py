"""Symmetric matrices A as compiled loops use them: dense rows, or compressed sparse rows.

A new kind of coupling is a `NamedTuple` of arrays with the six functions below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import generic, implements, part

Matrix = NDArray[np.float64] | scipy.sparse.csr_array


@part()
class Dense(NamedTuple):
    """A symmetric matrix as an array."""

    A: NDArray[np.float64]  # (d, d)


@part()
class Sparse(NamedTuple):
    """A symmetric matrix in compressed sparse rows."""

    indptr: NDArray[np.int64]  # (d + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.float64]  # (nnz,)
    diagonal: NDArray[np.float64]  # (d,)


def as_coupling(A: Matrix) -> Dense | Sparse:
    """Return a matrix in the form that compiled loops use; entries of a sparse one are put in order."""
    if not scipy.sparse.issparse(A):
        return Dense(np.require(A, np.float64, ["C", "W"]))  # another array type would be compiled again
    rows = scipy.sparse.csr_array(A, copy=True)
    rows.sum_duplicates()
    return Sparse(
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float64),
        np.asarray(rows.diagonal(), dtype=np.float64),
    )


@generic
def diagonal(coupling, i):
    """Return A_ii."""


@generic
def entry(coupling, i, j):
    """Return A_ij."""


@generic
def add_columns(coupling, i, alpha, f, beta, q):
    """Add alpha A[:, i] to `f` and beta A[:, i] to `q`, in place."""


@generic
def add_column(coupling, i, alpha, f):
    """Add alpha A[:, i] to `f`, in place."""


@generic
def multiply(coupling, u, out):
    """Write A u into `out`."""


@generic
def subtract_columns(coupling, i, who, factors, n, out):
    """Write A[:, i] minus the sum of factors[k] A[:, who[k]] for k < n into `out`."""


@implements(diagonal, Dense)
def _diagonal(coupling, i):
    return coupling.A[i, i]


@implements(entry, Dense)
def _entry(coupling, i, j):
    return coupling.A[i, j]


@implements(add_columns, Dense)
def _add_columns(coupling, i, alpha, f, beta, q):
    row = coupling.A[i]
    for j in range(f.size):
        f[j] += alpha * row[j]
        q[j] += beta * row[j]


@implements(add_column, Dense)
def _add_column(coupling, i, alpha, f):
    row = coupling.A[i]
    for j in range(f.size):
        f[j] += alpha * row[j]


@implements(multiply, Dense)
def _multiply(coupling, u, out):
    # Four rows are added at a time, instead of taking dot products: this loop vectorises without fastmath, and rows
    # with u = 0 (variables that are not in the model) are skipped.
    A = coupling.A
    d = u.size
    for j in range(d):
        out[j] = 0.0
    k = 0
    while k < d:
        k, i0, u0 = _next_row(u, k)
        k, i1, u1 = _next_row(u, k)
        k, i2, u2 = _next_row(u, k)
        k, i3, u3 = _next_row(u, k)
        a0, a1, a2, a3 = A[i0], A[i1], A[i2], A[i3]
        for j in range(d):
            out[j] += (u0 * a0[j] + u1 * a1[j]) + (u2 * a2[j] + u3 * a3[j])


@implements(subtract_columns, Dense)
def _subtract_columns(coupling, i, who, factors, n, out):
    A, own, d = coupling.A, coupling.A[i], out.size
    for j in range(d):
        out[j] = own[j]
    for k in range(0, n - n % 4, 4):
        u0, u1, u2, u3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        a0, a1, a2, a3 = A[who[k]], A[who[k + 1]], A[who[k + 2]], A[who[k + 3]]
        for j in range(d):
            out[j] -= (u0 * a0[j] + u1 * a1[j]) + (u2 * a2[j] + u3 * a3[j])
    for k in range(n - n % 4, n):
        u, a = factors[k], A[who[k]]
        for j in range(d):
            out[j] -= u * a[j]


@helper
def _next_row(u, k):
    """Return the next k, and the first row from k on with u != 0 and its factor; row 0 with factor 0 after the last."""
    while k < u.size and u[k] == 0.0:
        k += 1
    return (k + 1, k, u[k]) if k < u.size else (k, 0, 0.0)


@implements(diagonal, Sparse)
def _sparse_diagonal(coupling, i):
    return coupling.diagonal[i]


@implements(entry, Sparse)
def _sparse_entry(coupling, i, j):
    for k in range(coupling.indptr[i], coupling.indptr[i + 1]):
        if coupling.indices[k] == j:
            return coupling.data[k]
    return 0.0


@implements(add_columns, Sparse)
def _add_sparse_columns(coupling, i, alpha, f, beta, q):
    for k in range(coupling.indptr[i], coupling.indptr[i + 1]):
        j = np.uint32(coupling.indices[np.uint64(k)])
        f[j] += alpha * coupling.data[np.uint64(k)]
        q[j] += beta * coupling.data[np.uint64(k)]


@implements(add_column, Sparse)
def _add_sparse_column(coupling, i, alpha, f):
    for k in range(coupling.indptr[i], coupling.indptr[i + 1]):
        f[np.uint32(coupling.indices[np.uint64(k)])] += alpha * coupling.data[np.uint64(k)]


@implements(multiply, Sparse)
def _multiply_sparse(coupling, u, out):
    for i in range(u.size):
        total = 0.0
        for k in range(coupling.indptr[i], coupling.indptr[i + 1]):
            total += coupling.data[np.uint64(k)] * u[np.uint32(coupling.indices[np.uint64(k)])]
        out[i] = total


@implements(subtract_columns, Sparse)
def _subtract_sparse_columns(coupling, i, who, factors, n, out):
    for j in range(out.size):
        out[j] = 0.0
    add_column(coupling, i, 1.0, out)
    for k in range(n):
        add_column(coupling, who[k], -factors[k], out)
