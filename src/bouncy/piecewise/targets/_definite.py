"""Symmetric positive definite matrices: read from a user, factored, inverted, drawn from.

A matrix M is factored in the form S R S with S diagonal and R of unit diagonal, so that variables measured in very
different units do not look like a singular matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bouncy._validation import check_real_array, check_real_dtype, entry, first_true
from bouncy.piecewise.coupling import Matrix

Array = NDArray[np.float64]

# M_ij and M_ji that differ by no more than this, relative to sqrt(M_ii M_jj), differ by rounding: M may be an inverse.
_ROUNDING = 1e-10


def read_definite(name: str, value: Any, d: int) -> tuple[Matrix, DenseFactor | SparseFactor]:
    """Return a positive definite matrix as float64, dense or sparse as it came, and its factor.

    A scalar stands for that multiple of the d x d identity. Errors name the first bad entry or row.
    """
    matrix = _read_sparse(name, value) if scipy.sparse.issparse(value) else check_real_array(name, value)
    if matrix.ndim == 0:
        matrix = float(matrix) * np.eye(d)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix of shape (d, d) or a scalar, got shape {matrix.shape}")
    _check_diagonal(name, matrix)
    matrix = _symmetric(name, matrix)
    return matrix, _factor(name, matrix)


def _read_sparse(name: str, value: Any) -> Any:
    check_real_dtype(name, value.dtype)
    matrix = scipy.sparse.csr_array(value.astype(np.float64), copy=True)
    matrix.sum_duplicates()
    at = matrix.tocoo()
    bad = first_true(~np.isfinite(at.data))
    if bad is not None:
        raise ValueError(f"{name} must be finite, got {entry(name, (at.row[bad], at.col[bad]), at.data[bad])}")
    return matrix


def _check_diagonal(name: str, M: Any) -> None:
    diagonal = np.asarray(M.diagonal())
    bad = first_true(diagonal <= 0.0)
    if bad is not None:
        raise ValueError(f"{name} must be positive definite, got {entry(name, bad * 2, diagonal[bad])} on its diagonal")


def _symmetric(name: str, M: Any) -> Any:
    """Return the symmetric part of a matrix that is asymmetric by no more than rounding."""
    root = np.sqrt(M.diagonal())
    difference = scipy.sparse.coo_array(M - M.T)
    large = np.abs(difference.data) > _ROUNDING * root[difference.row] * root[difference.col]
    if large.any():
        rows, columns = difference.row[large], difference.col[large]
        k = np.lexsort((columns, rows))[0]
        i, j = int(rows[k]), int(columns[k])
        raise ValueError(
            f"{name} must be symmetric, got {entry(name, (i, j), M[i, j])} but {entry(name, (j, i), M[j, i])}; "
            f"symmetrise it with ({name} + {name}.T) / 2 if the difference is rounding"
        )
    return M if difference.nnz == 0 else scipy.sparse.csr_array((M + M.T) / 2) if _is_sparse(M) else (M + M.T) / 2


def _is_sparse(M: Any) -> bool:
    return bool(scipy.sparse.issparse(M))


def _factor(name: str, M: Any) -> DenseFactor | SparseFactor:
    """Return the factor of a symmetric matrix with a positive diagonal, after checking that it is positive definite."""
    units = np.sqrt(np.asarray(M.diagonal()))
    if _is_sparse(M):
        inverse_units = scipy.sparse.diags_array(1.0 / units)
        sparse = SparseFactor(units, scipy.sparse.csc_array(inverse_units @ M @ inverse_units))
        _check_pivots(name, sparse.pivots())
        return sparse
    L, info = scipy.linalg.lapack.dpotrf(M / units / units[:, None], lower=1, clean=1)
    pivots = np.diagonal(L) ** 2
    _check_pivots(name, pivots if info == 0 else np.where(np.arange(units.size) < info - 1, pivots, 0.0))
    return DenseFactor(units, np.ascontiguousarray(L))


def _check_pivots(name: str, pivots: Array) -> None:
    """Raise unless each variable has a variance given those before it: pivots, (d,), of a unit diagonal."""
    bad = first_true(~(pivots > 4.0 * pivots.size * np.finfo(np.float64).eps))
    if bad is not None:
        raise ValueError(
            f"{name} must be positive definite, but elimination finds it singular or indefinite at row {bad[0]}: "
            "leave out variables that are sums of others, or add a small number to its diagonal"
        )


@dataclass(frozen=True)
class DenseFactor:
    """M = S L L' S."""

    units: Array  # (d,) S
    L: Array  # (d, d) lower triangular

    def draw(self, z: Array) -> Array:
        """Return a draw from N(0, M), made of d independent standard normals."""
        return np.asarray(self.units * (self.L @ z))

    def draw_inverse(self, z: Array) -> Array:
        """Return a draw from N(0, M^-1), made of d independent standard normals."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, z, lower=True, trans="T") / self.units)

    def inverse(self) -> Array:
        """Return the inverse of M, symmetric to the last bit."""
        upper, _ = scipy.linalg.lapack.dpotri(self.L, lower=1)
        lower = np.tril(upper) / self.units / self.units[:, None]
        return np.asarray(lower + np.tril(lower, -1).T)


@dataclass(frozen=True)
class SparseFactor:
    """M = S R S, with R factored at each use: the object that SuperLU returns can be neither copied nor pickled."""

    units: Array  # (d,) S
    R: scipy.sparse.csc_array  # (d, d)

    def pivots(self) -> Array:
        """Return the pivots of R, (d,), in the order of its rows; zeros where elimination has to change that order."""
        try:
            lu = self._eliminate()
        except RuntimeError:  # a pivot that is exactly zero
            return np.zeros(self.units.size)
        if (lu.perm_r != lu.perm_c).any():
            return np.where(lu.perm_r == lu.perm_c, 1.0, 0.0)
        return np.asarray(lu.U.diagonal()[lu.perm_c])

    def draw(self, z: Array) -> Array:
        """Return a draw from N(0, M), made of d independent standard normals."""
        return np.asarray(self.units * self._draw(self._eliminate(), z))

    def draw_inverse(self, z: Array) -> Array:
        """Return a draw from N(0, M^-1), made of d independent standard normals: R^-1 w, with w from N(0, R)."""
        lu = self._eliminate()
        return np.asarray(lu.solve(self._draw(lu, z)) / self.units)

    def _draw(self, lu: Any, z: Array) -> Array:
        root = lu.L @ (np.sqrt(lu.U.diagonal()) * z)
        return np.asarray(root[lu.perm_c])

    def inverse(self) -> Array:
        """Return the inverse of M, dense."""
        half = self._eliminate().solve(np.eye(self.units.size)) / self.units / self.units[:, None]
        return np.asarray((half + half.T) / 2)

    def _eliminate(self) -> Any:
        """Return L D L' = R with rows and columns in an order that keeps L sparse; R is positive definite if D is."""
        return scipy.sparse.linalg.splu(
            self.R, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
