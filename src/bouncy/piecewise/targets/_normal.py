"""Common base of Gaussians, whole or truncated to a box: arguments, potential, log-density."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from bouncy._labels import align, read_labels
from bouncy._memory import read_only
from bouncy._validation import check_real_array, check_real_dtype, entry, first_true
from bouncy.piecewise.box import Box
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.coupling import Matrix
from bouncy.piecewise.metric_flight import new_metric_flight
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets._definite import read_definite
from bouncy.targets.fields import cheaper_storage
from bouncy.tolls.budget import Budget

Array = NDArray[np.float64]

# With a smaller standard deviation, relative to its value, a variable has too few digits to move in.
_RESOLUTION = 1e-10
# Conditional deviations in the longest axis, and standard deviations in the width of each box, from which on a particle
# is better off in the metric of the covariance.
_LONG, _WIDE = 5.0, 3.0
# Refreshments per unit time of a particle in the metric of the covariance.
_REFRESHMENT_RATE = 0.2
# A variable that meets its walls more often in a trajectory of "hmc" is moved faster by "gibbs".
_MANY_HITS = 10.0


class Normal(PiecewiseTarget):
    """The density exp(-(x - mean)'P(x - mean)/2) on the box lower <= x <= upper, up to a constant.

    Users build `Gaussian` and `TruncatedGaussian`.
    """

    def __init__(
        self,
        mean: ArrayLike,
        cov: Any,
        precision: Any,
        lower: ArrayLike,
        upper: ArrayLike,
        labels: Sequence[Hashable] | None,
    ) -> None:
        if (cov is None) == (precision is None):
            got = "neither" if cov is None else "both"
            raise TypeError(f"a Gaussian is given by its covariance or by its precision matrix: pass one, got {got}")
        (mean, cov, precision, lower, upper), named = align(
            ("mean", mean, "variable"),
            ("cov", cov, "variable", "variable"),
            ("precision", precision, "variable", "variable"),
            ("lower", lower, "variable"),
            ("upper", upper, "variable"),
        )
        center = check_real_array("mean", mean)
        if center.ndim > 1 or center.size == 0:
            raise ValueError(f"mean must be a scalar or have shape (d,), got shape {center.shape}")
        self._given_covariance = cov is not None
        name, value = ("cov", cov) if self._given_covariance else ("precision", precision)
        self._given, self._factor = read_definite(name, value, center.size)
        self.d: int = self._given.shape[0]
        self._mean = per_variable("mean", center, self.d, name)
        self._lower = per_variable("lower", check_bounds("lower", lower), self.d, name)
        self._upper = per_variable("upper", check_bounds("upper", upper), self.d, name)
        self._precision: Matrix = cheaper_storage(self._factor.inverse() if self._given_covariance else self._given)
        self._labels = read_labels(named["variable"] if labels is None else labels, self.d)

    @property
    def mean(self) -> Array:
        """Mean before truncation, (d,), read-only."""
        return read_only(self._mean)

    @property
    def precision(self) -> Matrix:
        """Inverse of the covariance before truncation, (d, d), an ndarray or a csr_array; read-only."""
        return read_only(self._precision)

    @property
    def covariance(self) -> Array:
        """Covariance before truncation, (d, d), read-only."""
        return read_only(self._covariance)

    @cached_property
    def covariance_root(self) -> Array:
        """The upper triangular matrix, (d, d), whose root'root is the covariance; read-only."""
        units = np.sqrt(np.diagonal(self._covariance))
        lower = np.linalg.cholesky(self._covariance / units / units[:, None])
        return read_only(np.ascontiguousarray(lower.T * units, dtype=np.float64))

    @property
    def lower(self) -> Array:
        """Lower ends of the box, (d,), read-only."""
        return read_only(self._lower)

    @property
    def upper(self) -> Array:
        """Upper ends of the box, (d,), read-only."""
        return read_only(self._upper)

    @cached_property
    def moves_in_covariance(self) -> bool:
        """Whether the particle of "bps" moves in the metric of the covariance instead of conditional deviations.

        It does if the longest axis has many of these, unless it would meet both walls of a narrow box all the time. A
        sparse precision stays sparse.
        """
        if scipy.sparse.issparse(self._precision):
            return False
        if (self._upper - self._lower < _WIDE * np.sqrt(np.diagonal(self._covariance))).any():
            return False
        units = np.sqrt(self._precision.diagonal())
        scaled, last = self._covariance * units * units[:, None], [self.d - 1, self.d - 1]
        return bool(scipy.linalg.eigvalsh(scaled, subset_by_index=last)[0] > _LONG**2)

    @property
    def metric_root(self) -> Array | None:
        return self.covariance_root if self.moves_in_covariance else None

    @property
    def refreshment_rate(self) -> float:
        return _REFRESHMENT_RATE if self.moves_in_covariance else super().refreshment_rate

    def particle(
        self, y: Array, v: Array, row: NDArray[np.int64], rate: float, rng: NDArray[np.uint64], toll: Budget
    ) -> Any:
        if self.moves_in_covariance:
            return new_metric_flight(self.box(), y, v, row, rate, rng)
        return super().particle(y, v, row, rate, rng, toll)

    def box(self) -> Box:
        """Return what a particle knows that moves by the covariance."""
        ends = self._lower - self._mean, self._upper - self._mean
        return Box(self._mean.copy(), self.scale.copy(), *ends, self.covariance, self.covariance_root)

    @cached_property
    def _covariance(self) -> Array:
        if not self._given_covariance:
            return self._factor.inverse()
        return np.asarray(self._given.toarray() if scipy.sparse.issparse(self._given) else self._given)

    @cached_property
    def wall_densities(self) -> Array | None:
        """Sum of the densities of independent variables at their two walls, (d,); None if they are dependent."""
        P = self._precision
        if (P.count_nonzero() if scipy.sparse.issparse(P) else np.count_nonzero(P)) > self.d:
            return None
        return read_only(densities_at_ends(self._mean, 1.0 / np.sqrt(P.diagonal()), self._lower, self._upper))

    @cached_property
    def wall_hits(self) -> Array:
        """How often about each variable meets a wall in the time in which a Gaussian is drawn anew, (d,)."""
        sd = np.sqrt(np.diagonal(self._covariance))
        beyond = np.maximum(np.maximum(self._lower - self._mean, self._mean - self._upper), 0.0) / sd
        return read_only(np.maximum(beyond, sd / (self._upper - self._lower)))

    @cached_property
    def default_sampler(self) -> str:
        """The one that follows correlations, unless it would give up a sparse precision or meet walls all the time."""
        return "gibbs" if scipy.sparse.issparse(self._precision) or self.wall_hits.max() > _MANY_HITS else "hmc"

    @cached_property
    def potential(self) -> Potential:
        """U(x) = (x - mean)'P(x - mean)/2, with the constant spread over the variables."""
        pull = self._precision @ self._mean
        edges = np.column_stack([self._lower, self._upper])
        return Potential(self._precision, pull, Cells.alike(self.d, edges, constant=0.5 * (self._mean * pull)[:, None]))

    def log_prob(self, x: ArrayLike) -> Array:
        """Return -(x - mean)'P(x - mean)/2 for values of shape (..., d), as shape (...); -inf outside the box."""
        values = self.check_values("x", x)
        rows = values.reshape(-1, self.d) - self._mean
        inside = ((values >= self._lower) & (values <= self._upper)).all(axis=-1)
        quadratic = np.sum(rows * (self._precision @ rows.T).T, axis=-1).reshape(inside.shape)
        return np.where(inside, -0.5 * quadratic, -np.inf)[()]

    def draw_uncut(self, generator: np.random.Generator) -> Array:
        """Return a draw from N(0, covariance), (d,), without the box."""
        z = generator.standard_normal(self.d)
        return self._factor.draw(z) if self._given_covariance else self._factor.draw_inverse(z)

    def check_resolution(self, x: Array, scale: Array) -> None:
        """Raise if the lengths `scale`, (d,), of variables near x, (d,), are in the last digits of x."""
        bad = first_true(scale < _RESOLUTION * np.abs(x))
        if bad is not None:
            raise ValueError(
                f"variable {bad[0]} lives near {x[bad]:g} and moves by about {scale[bad]:.3g}, which is lost in "
                f"rounding: put the origin there, by subtracting {x[bad]:g} from its mean and from the box"
            )

    def __repr__(self) -> str:
        storage = "sparse" if scipy.sparse.issparse(self._precision) else "dense"
        walls = int(np.isfinite(self._lower).sum() + np.isfinite(self._upper).sum())
        cut = f", {walls} wall{'' if walls == 1 else 's'}" if walls else ""
        return f"{type(self).__name__}(d={self.d}, {storage}{cut})"


def densities_at_ends(mean: Array, sd: Array, lower: Array, upper: Array) -> Array:
    """Return the sum of the densities of truncated normals, all (d,), at the two ends of their intervals.

    In the tail where both ends lie on one side of the mean, they are reflected to the left, where the logarithm of the
    distribution function keeps all its digits.
    """
    a, b = (lower - mean) / sd, (upper - mean) / sd
    a, b = np.where(a > 0.0, -b, a), np.where(a > 0.0, -a, b)
    log_mass = log_ndtr(b) + np.log(-np.expm1(log_ndtr(a) - log_ndtr(b)))
    ends = np.exp(-0.5 * np.stack([a, b]) ** 2 - log_mass)
    return np.asarray(ends.sum(axis=0) / (sd * np.sqrt(2.0 * np.pi)))


def per_variable(name: str, value: Array, d: int, like: str) -> Array:
    """Return a scalar or an array of shape (d,) as a new array of shape (d,)."""
    if value.ndim > 1 or value.size not in (1, d):
        raise ValueError(f"{name} must be a scalar or have shape ({d},) to match {like}, got shape {value.shape}")
    return np.array(np.broadcast_to(value, (d,)))


def check_bounds(name: str, value: ArrayLike) -> Array:
    """Return ends of a box as floats, which may be infinite but not NaN."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name} must be a number or an array of numbers, got {value!r:.60}") from None
    check_real_dtype(name, array.dtype)
    bad = first_true(np.isnan(array))
    if bad is not None:
        raise ValueError(f"{name} must hold numbers or infinities, got {entry(name, bad, array[bad])}")
    return array.astype(np.float64)
