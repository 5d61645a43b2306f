"""Gaussians truncated to a box: orthants, one-sided and two-sided bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from bouncy._memory import read_only
from bouncy._validation import entry, first_true
from bouncy.clocks.contract import mean_speed
from bouncy.piecewise.targets._normal import Normal

Array = NDArray[np.float64]

# A chain starts no nearer to a wall than this fraction of the length `scale`.
_OFF_THE_WALL = 1e-3


class TruncatedGaussian(Normal):
    """The Gaussian N(mean, cov) given that lower <= x <= upper.

    Parameters
    ----------
    mean : scalar or (d,) array-like
        Mean before truncation; a scalar is the same for every variable.
    cov : (d, d) array-like or scalar
        Covariance before truncation, symmetric and positive definite; a scalar is that multiple of the identity.
    precision : (d, d) array-like or scipy.sparse matrix or array, or scalar
        Inverse of the covariance, instead of `cov`. A sparse one stays sparse if that is cheaper.
    lower, upper : scalar or (d,) array-like
        Ends of the box, which may be infinite.
    labels : sequence, optional
        Names of the variables, in their order; by default those of the first of the arguments that is a series or data
        frame, else 0, ..., d - 1. Series and data frames are matched by their labels.

    Attributes
    ----------
    d : int
        Number of variables.
    mean, precision, covariance, lower, upper : ndarray
        As given, or computed.
    mode : ndarray
        Where the density is highest.

    Examples
    --------
    >>> from bouncy.piecewise.targets.truncated_gaussian import TruncatedGaussian
    >>> t = TruncatedGaussian([0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]], lower=0.0)
    >>> t
    TruncatedGaussian(d=2, dense, 2 walls)
    >>> t.log_prob([[1.0, 1.0], [1.0, -1.0]]).round(3)
    array([-0.667,   -inf])
    """

    def __init__(
        self,
        mean: ArrayLike,
        cov: ArrayLike | None = None,
        precision: Any = None,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(mean, cov, precision, lower, upper, labels)
        bad = first_true(~(self._lower < self._upper))
        if bad is not None:
            raise ValueError(
                f"the box is empty: {entry('lower', bad, self._lower[bad])} is not below "
                f"{entry('upper', bad, self._upper[bad])}"
            )
        self.check_resolution(self._mode, self.scale)

    @property
    def mode(self) -> Array:
        """Where the density is highest, (d,), to about six digits; read-only."""
        return read_only(self._mode)

    @cached_property
    def _mode(self) -> Array:
        """The solution of a quadratic programme in a box, in units in which the precision has a unit diagonal."""
        nearest = np.clip(self._mean, self._lower, self._upper)
        if (nearest == self._mean).all():
            return nearest
        units = 1.0 / np.sqrt(self._precision.diagonal())
        low, high = (self._lower - self._mean) / units, (self._upper - self._mean) / units
        found = scipy.optimize.minimize(
            self._uncut_potential,
            (nearest - self._mean) / units,
            args=(units,),
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(low, high),
            options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 20},
        )
        inside = np.clip(self._mean + found.x * units, self._lower, self._upper)
        # A coordinate on a wall in these units is put on the wall exactly.
        return np.where(found.x <= low, self._lower, np.where(found.x >= high, self._upper, inside))

    def _uncut_potential(self, z: Array, units: Array) -> tuple[float, Array]:
        """Return U and its gradient, (d,), at mean + z units."""
        gradient = units * (self._precision @ (units * z))
        return 0.5 * float(z @ gradient), gradient

    @cached_property
    def scale(self) -> Array:
        """The length, (d,), on which each variable moves while the others stay at the mode.

        Inside the box that is the conditional standard deviation P_ii^-1/2, in a narrow box width / sqrt(12), at a wall
        that the mode is pressed against 1 / |gradient|. Inverse squares are added, which gives the smallest of them.
        """
        gradient = self._precision @ (self._mode - self._mean)
        at_lower, at_upper = self._mode <= self._lower, self._mode >= self._upper
        pressure = np.where(at_lower, np.maximum(gradient, 0.0), np.where(at_upper, np.minimum(gradient, 0.0), 0.0))
        width = self._upper - self._lower
        return read_only(1.0 / np.sqrt(self._precision.diagonal() + pressure**2 + 12.0 / width**2))

    def start(self, generator: np.random.Generator) -> Array:
        """Return a point near the mode, as widely spread as the density is there and folded into the box."""
        x = self._mode + self.scale * generator.standard_normal(self.d)
        margin = _OFF_THE_WALL * self.scale
        return fold(x, self._lower + margin, self._upper - margin)

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Wall hits per unit time of independent variables: E|v_1| / 2 times their densities at the walls."""
        if self.wall_densities is None:
            return None, None
        return 0.5 * mean_speed(self.d) * float(self.wall_densities @ self.scale), None


def fold(x: Array, lower: Array, upper: Array) -> Array:
    """Return x, (d,), reflected at the ends of the box until it lies inside."""
    width = upper - lower
    with np.errstate(invalid="ignore"):  # of infinite ends, where the other formula holds
        turns = np.mod(x - lower, 2.0 * width)
        between = lower + np.minimum(turns, 2.0 * width - turns)
        beside = np.where(lower > -np.inf, lower + np.abs(x - lower), upper - np.abs(upper - x))
    folded = np.where(width < np.inf, between, np.where((lower > -np.inf) | (upper < np.inf), beside, x))
    return np.clip(folded, lower, upper)


def _narrow() -> TruncatedGaussian:
    """Return a Gaussian that is so narrow that the particle moves in the metric of its covariance."""
    return TruncatedGaussian([0.5, 0.2], cov=[[1.0, 0.97], [0.97, 1.0]], lower=[0.0, -np.inf], upper=[np.inf, 1.5])


SPECIALISED = {"paths-in-covariance": _narrow}
EXAMPLES = {
    "truncated gaussian, narrow": _narrow,
    "truncated gaussian": lambda: TruncatedGaussian(
        [0.5, -1.0, 0.0],
        cov=[[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]],
        lower=[0.0, -np.inf, -0.5],
        upper=[np.inf, 0.5, 0.7],
    ),
}
