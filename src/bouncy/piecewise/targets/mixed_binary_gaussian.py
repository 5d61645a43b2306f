"""Spins and Gaussian variables together, with pairwise couplings within and between the two."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import align, check_labels, join_labels
from bouncy._validation import check_real_array, check_real_dtype, entry, first_true
from bouncy.clocks.contract import mean_speed
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.coupling import Matrix
from bouncy.piecewise.potential import Cells, Potential
from bouncy.targets.fields import cheaper_storage
from bouncy.targets.mrf import MRF

Array = NDArray[np.float64]

_AUGMENTATIONS = ("gaussian", "exponential")
# Entries of a precision that differ from their mirror image by no more than this, relatively, differ by rounding.
_ROUNDING = 1e-12


class MixedBinaryGaussian(PiecewiseTarget):
    """The joint law p(s, x) ~ exp(-s.r - s'Ms/2 + s'Cx + h.x - x'Px/2) of k spins and m Gaussian variables.

    Given s the variables x are N(P^-1 (h + C's), P^-1), truncated to a box where one is given. Given x the spins are a
    Markov random field with fields r - Cx. The variables are the spins, as -1 and +1, then x.

    Parameters
    ----------
    M : (k, k) array_like or scipy.sparse
        Couplings between spins, symmetric with zero diagonal, as of `MRF`; of shape (0, 0) where there are no spins.
    r : scalar or (k,) array_like
        Fields on spins, as of `MRF`.
    precision : (m, m) array_like or scipy.sparse, optional
        P, symmetric and positive definite. Without it there are spins alone.
    linear : scalar or (m,) array_like
        h.
    coupling : scalar or (k, m) array_like or scipy.sparse
        C, between spins and x.
    lower, upper : scalar or (m,) array_like
        The box that x is truncated to; infinite where it is open.
    augmentation : {"gaussian", "exponential"}
        A spin is the sign of a coordinate y with potential y^2/2 or |y|; the law of (s, x) is the same.
    labels : sequence, optional
        Names of the k + m variables, spins first; by default those of series and data frames among the arguments, which
        are matched by their labels, else numbers.

    Attributes
    ----------
    spins : int
        k.
    gaussians : int
        m.

    References
    ----------
    Pakman, "Binary Bouncy Particle Sampler", arXiv:1711.00922 (2017), section 2.

    Examples
    --------
    A mixture of two Gaussians, of which the spin is the label:

    >>> from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
    >>> hills = MixedBinaryGaussian([[0.0]], 0.5, precision=[[1.0]], coupling=[[3.0]])
    >>> hills
    MixedBinaryGaussian(spins=1, gaussians=1)
    >>> hills.log_prob([[1, 3.0], [-1, -3.0]])
    array([4., 5.])
    >>> hills.marginal().r
    array([0.5])
    """

    def __init__(
        self,
        M: Any,
        r: ArrayLike = 0.0,
        precision: Any = None,
        linear: ArrayLike = 0.0,
        coupling: Any = 0.0,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        *,
        augmentation: str = "gaussian",
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        if augmentation not in _AUGMENTATIONS:
            raise ValueError(f"augmentation must be one of {', '.join(_AUGMENTATIONS)}, got {augmentation!r:.60}")
        self.augmentation = augmentation
        (M, r, precision, linear, coupling, lower, upper), named = align(
            ("M", M, "spin", "spin"),
            ("r", r, "spin"),
            ("precision", precision, "gaussian", "gaussian"),
            ("linear", linear, "gaussian"),
            ("coupling", coupling, "spin", "gaussian"),
            ("lower", lower, "gaussian"),
            ("upper", upper, "gaussian"),
        )
        self._M, self._r = _read_spins(M, r)
        self._P = _read_precision(precision)
        self.spins, self.gaussians = self._r.size, self._P.shape[0]
        self.d = self.spins + self.gaussians
        if self.d == 0:
            raise ValueError("M and precision must describe at least one variable, got no spins and no Gaussians")
        self._h = _read_vector("linear", linear, self.gaussians)
        self._C = _read_coupling(coupling, self.spins, self.gaussians)
        self._lower, self._upper = _read_box(lower, upper, self.gaussians)
        names = (named["spin"], range(self.spins)), (named["gaussian"], range(self.spins, self.d))
        self._labels = check_labels(join_labels(*names) if labels is None else labels, self.d)

    @property
    def is_truncated(self) -> bool:
        """Whether x is truncated."""
        return bool(np.isfinite(self._lower).any() or np.isfinite(self._upper).any())

    @cached_property
    def potential(self) -> Potential:
        """A = [[M, -C], [-C', P]] and b = (-r, h); a spin has two cells of constant value."""
        blocks = [[self._M, -self._C], [-self._C.T, self._P]]
        is_sparse = any(_is_sparse(block) for row in blocks for block in row)
        A: Matrix = scipy.sparse.csr_array(scipy.sparse.block_array(blocks)) if is_sparse else np.block(blocks)
        return Potential(A, np.concatenate([-self._r, self._h]), Cells.joined(self._groups()))

    def _groups(self) -> list[Cells]:
        # On either side of zero exp(-phi) has the integral 1: a spin adds no constant to log p.
        half_normal = {"curvature": 1.0, "constant": 0.5 * math.log(0.5 * math.pi)}
        phi: dict[str, Any] = half_normal if self.augmentation == "gaussian" else {"tilt": [-1.0, 1.0]}
        box = np.stack([self._lower, self._upper], axis=1)
        return [
            Cells.alike(self.spins, [-np.inf, 0.0, np.inf], slope=0.0, shift=[-1.0, 1.0], **phi),
            Cells.alike(self.gaussians, box),
        ]

    def start(self, generator: np.random.Generator) -> Array:
        """Return random spins, and x about its mean without them, moved into the box."""
        size = generator.standard_normal if self.augmentation == "gaussian" else generator.standard_exponential
        y = generator.choice([-1.0, 1.0], self.spins) * np.abs(size(self.spins))
        spread = generator.standard_normal(self.gaussians) / np.sqrt(self._P.diagonal())
        x = self._solve(self._h) + spread
        return np.concatenate([y, np.clip(x, self._lower, self._upper)])

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Wall hits in closed form if only spins have walls; bounces if the scaled potential is isotropic.

        A spin meets its wall at half the density of |y| there times the mean speed. The bounce rate is half the mean
        speed times E|grad U|.
        """
        is_gaussian = self.augmentation == "gaussian"
        speed, bounces = mean_speed(self.d), None
        hits = None if self.is_truncated else 0.5 * self.spins * speed * (math.sqrt(2 / math.pi) if is_gaussian else 1)
        if is_gaussian and not self.is_truncated and _is_diagonal(self._P):
            bounces = 1 / math.sqrt(2 * math.pi)
        elif not is_gaussian and self.gaussians == 0:
            bounces = 0.5 * math.sqrt(self.d) * speed
        return hits, bounces

    def marginal(self) -> MRF:
        """Return the law of the spins, with x integrated out: M - C P^-1 C' without its diagonal, and r - C P^-1 h.

        The offset makes `log_prob` of the result the logarithm of the integral of exp(`log_prob`) over x.
        """
        if self.spins == 0:
            raise ValueError("marginal needs spins, got a target of Gaussian variables alone")
        if self.is_truncated:
            raise ValueError(
                "marginal is in closed form only where x is not truncated, got a box with a finite end; sample the "
                "joint law instead"
            )
        C = _dense(self._C)
        solved = self._solve(np.column_stack([C.T, self._h]))
        gain, mean = C @ solved[:, :-1], solved[:, -1]
        offset = 0.5 * (self._h @ mean + np.trace(gain)) + 0.5 * self.gaussians * math.log(2 * math.pi)
        M = _dense(self._M) - 0.5 * (gain + gain.T)
        np.fill_diagonal(M, 0.0)
        offset -= 0.5 * self._log_determinant()
        return MRF(cheaper_storage(M), self._r - C @ mean, labels=self.labels[: self.spins], offset=float(offset))

    def _solve(self, b: Array) -> Array:
        """Return P^-1 b for b of shape (m,) or (m, n)."""
        if b.size == 0:
            return np.zeros_like(b)
        if _is_sparse(self._P):
            return np.asarray(_factor(self._P).solve(b))
        return np.linalg.solve(self._P, b)

    def _log_determinant(self) -> float:
        if self.gaussians == 0:
            return 0.0
        if _is_sparse(self._P):
            return float(np.log(_factor(self._P).U.diagonal()).sum())
        return float(np.linalg.slogdet(self._P)[1])

    def __repr__(self) -> str:
        box = ", truncated" if self.is_truncated else ""
        return f"MixedBinaryGaussian(spins={self.spins}, gaussians={self.gaussians}{box})"


def _read_spins(M: Any, r: ArrayLike) -> tuple[Any, Array]:
    """Return M and r after the checks of `MRF`."""
    if np.shape(M) == (0, 0):
        return np.zeros((0, 0)), _read_vector("r", r, 0)
    field = MRF(M, r)
    return field.M, field.r


def _read_precision(precision: Any) -> Any:
    P = _read_matrix("precision", np.zeros((0, 0)) if precision is None else precision)
    if P.ndim != 2 or P.shape[0] != P.shape[1]:
        raise ValueError(f"precision must be a square matrix of shape (m, m), got shape {P.shape}")
    if P.shape[0] == 0:
        return np.zeros((0, 0))
    skew = scipy.sparse.coo_array(abs(P - P.T) > _ROUNDING * abs(P).max())
    if skew.nnz:
        i, j = int(skew.row[0]), int(skew.col[0])
        raise ValueError(
            f"precision must be symmetric, got {entry('precision', (i, j), P[i, j])} but "
            f"{entry('precision', (j, i), P[j, i])}"
        )
    if not _is_positive(P):
        raise ValueError(
            "precision must be positive definite, got a matrix with an eigenvalue that is zero or negative: x would "
            "have no proper law given the spins"
        )
    return P


def _is_positive(P: Any) -> bool:
    try:
        if _is_sparse(P):
            return bool((_factor(P).U.diagonal() > 0.0).all())
        np.linalg.cholesky(P)
    except (np.linalg.LinAlgError, RuntimeError):  # the latter from a sparse matrix that is exactly singular
        return False
    return True


def _factor(P: Any) -> Any:
    """Return a sparse LU factorisation with pivots on the diagonal, all positive if the matrix is definite."""
    options = {"SymmetricMode": True}
    P = scipy.sparse.csc_array(P)
    return scipy.sparse.linalg.splu(P, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def _read_coupling(coupling: Any, k: int, m: int) -> Any:
    C = _read_matrix("coupling", coupling)
    if C.ndim == 0:
        return np.full((k, m), float(C))
    if C.shape != (k, m):
        raise ValueError(f"coupling must be a scalar or have shape ({k}, {m}), spins by Gaussians, got shape {C.shape}")
    return C


def _read_matrix(name: str, value: Any) -> Any:
    """Return a float64 copy of a dense or sparse array of finite numbers; a sparse one as `csr_array`."""
    if not _is_sparse(value):
        return check_real_array(name, value)
    check_real_dtype(name, value.dtype)
    matrix = scipy.sparse.csr_array(value, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    bad = first_true(~np.isfinite(matrix.data))
    if bad is not None:
        at = matrix.tocoo()
        raise ValueError(f"{name} must be finite, got {entry(name, (at.row[bad], at.col[bad]), at.data[bad])}")
    return matrix


def _read_vector(name: str, value: ArrayLike, size: int) -> Array:
    vector = check_real_array(name, value)
    if vector.ndim == 0:
        return np.full(size, float(vector))
    if vector.shape != (size,):
        raise ValueError(f"{name} must be a scalar or have shape ({size},), got shape {vector.shape}")
    return vector


def _read_box(lower: ArrayLike, upper: ArrayLike, m: int) -> tuple[Array, Array]:
    ends = []
    for name, value in (("lower", lower), ("upper", upper)):
        end = np.asarray(value)
        check_real_dtype(name, end.dtype)
        if end.shape not in ((), (m,)):
            raise ValueError(f"{name} must be a scalar or have shape ({m},), got shape {end.shape}")
        ends.append(np.broadcast_to(end.astype(np.float64), (m,)).copy())
    bad = first_true(~(ends[0] < ends[1]) | (ends[0] == np.inf) | (ends[1] == -np.inf))
    if bad is not None:
        raise ValueError(
            f"lower must be below upper, got {entry('lower', bad, ends[0][bad])} and "
            f"{entry('upper', bad, ends[1][bad])}: the box is empty"
        )
    return ends[0], ends[1]


def _is_diagonal(P: Any) -> bool:
    entries = P.count_nonzero() if _is_sparse(P) else np.count_nonzero(P)
    return bool(entries == np.count_nonzero(P.diagonal()))


def _dense(matrix: Any) -> Array:
    return np.array(matrix.toarray() if _is_sparse(matrix) else matrix)


def _is_sparse(matrix: Any) -> bool:
    return bool(scipy.sparse.issparse(matrix))


EXAMPLES = {
    "mixed-binary-gaussian": lambda: MixedBinaryGaussian(
        [[0.0, 0.3], [0.3, 0.0]],
        [0.2, -0.1],
        precision=[[1.0, 0.3], [0.3, 2.0]],
        linear=[0.2, -0.5],
        coupling=[[0.5, -0.4], [0.0, 0.6]],
    ),
    "mixed-binary-gaussian-truncated": lambda: MixedBinaryGaussian(
        [[0.0]],
        0.2,
        precision=scipy.sparse.csr_array([[1.0, 0.4], [0.4, 1.0]]),
        coupling=[[0.5, -0.4]],
        lower=[0.0, -1.0],
        upper=[np.inf, 1.5],
        augmentation="exponential",
    ),
    "mixed-binary-gaussian-spins": lambda: MixedBinaryGaussian([[0.0, 0.5], [0.5, 0.0]], [0.3, -0.2]),
}
