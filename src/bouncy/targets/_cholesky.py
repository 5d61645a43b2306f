"""Cholesky factors that gain and lose variables: C = U'U with U upper triangular, O(k^2) for each change.

U lies in the first k rows and columns of a larger square array. Inner loops run along rows, over slices that begin at
entry 0: only of those does the compiler know that no index is negative, and makes use of vector registers.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from bouncy._compile import helper


@helper
def solve_transposed(U, first, k, x):
    """Solve U'z = x and write z into the first k entries of x, of which those before `first` are zero."""
    for i in range(first, k):
        z = x[i] / U[i, i]
        x[i] = z
        row, rest = U[i, i + 1 : k], x[i + 1 : k]
        for m in range(rest.size):
            rest[m] -= row[m] * z


@helper
def solve_lanes(U, k, X):
    """Solve U'Z = X for all columns of X, (k or more, lanes), and write Z into X.

    Columns side by side fill the vector registers, which a single right-hand side of few entries cannot.
    """
    for i in range(k):
        z, scale = X[i], 1.0 / U[i, i]
        for lane in range(z.size):
            z[lane] *= scale
        for m in range(i + 1, k):
            x, factor = X[m], U[i, m]
            for lane in range(z.size):
                x[lane] -= factor * z[lane]


@helper
def inverse_column(U, k, at, x):
    """Write column `at` of the inverse of U' into x and return its squared norm, entry (at, at) of C^-1."""
    for i in range(k):
        x[i] = 0.0
    x[at] = 1.0
    solve_transposed(U, at, k, x)
    total = 0.0
    for i in range(at, k):
        total += x[i] * x[i]
    return total


@helper
def norm_of_solution(U, k, x, w):
    """Return |w|^2 of the solution of Uw = x; w is written, x is kept."""
    total = 0.0
    for i in range(k - 1, -1, -1):
        row, known = U[i, i + 1 : k], w[i + 1 : k]
        rest = x[i]
        for m in range(known.size):
            rest -= row[m] * known[m]
        w[i] = rest / U[i, i]
        total += w[i] * w[i]
    return total


@helper
def append(U, k, x, pivot):
    """Add a variable behind k others: x solves U'x = c, c its entries of C, and pivot = C_kk - |x|^2 > 0."""
    for m in range(k):
        U[m, k] = x[m]
    U[k, k] = sqrt(pivot)


@helper
def delete(U, u, k, at):
    """Remove variable `at` of k from U, and from u, the solution of U'u = b.

    Without its column U has entries below the diagonal, which rotations of each two rows remove, one after the other.
    The same rotations lead from the old u to the new one.
    """
    for i in range(k):
        row = U[i, max(at, i - 1) : k]
        for m in range(row.size - 1):
            row[m] = row[m + 1]
    for i in range(at, k - 1):
        upper, lower = U[i, i : k - 1], U[i + 1, i : k - 1]
        length = np.hypot(upper[0], lower[0])
        c, s = upper[0] / length, lower[0] / length
        for m in range(upper.size):
            a, b = upper[m], lower[m]
            upper[m] = c * a + s * b
            lower[m] = c * b - s * a
        a, b = u[i], u[i + 1]
        u[i] = c * a + s * b
        u[i + 1] = c * b - s * a
