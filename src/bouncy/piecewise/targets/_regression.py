"""Common base of the posteriors of a linear regression: data, noise, other hyperparameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import match, read_labels
from bouncy._samplable import close
from bouncy._validation import check_flag, check_positive, check_real_array, entry, first_true
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.potential import Cells
from bouncy.targets._regression import Data, normalise

Array = NDArray[np.float64]

# The square of a scale, and one over it, must fit in a float64.
_SMALLEST = 1e-150


class Regression(PiecewiseTarget):
    """Posterior of the coefficients beta of y = alpha + X beta + noise, with noise N(0, noise_scale^2 I).

    An intercept alpha has the flat prior p(alpha) = 1 and is integrated out, which is the same as centring X and y.
    """

    def __init__(self, data: Data, noise_scale: Any, intercept: Any, labels: Sequence[Hashable] | None) -> None:
        names, design, response, _ = data
        self.n, self.d = design.shape
        self._labels = read_labels(names if labels is None else labels, self.d)
        self.intercept = check_flag("intercept", intercept)
        if self.n < 1 + self.intercept:
            raise ValueError(f"X must have at least {1 + self.intercept} rows, got {self.n}")
        if self.intercept:
            response = response - response.mean()
        shown = [f"column {label!r} of X" for label in self.labels]
        rows, norms = normalise(design, self.intercept, shown, "it can explain nothing: leave it out")
        with np.errstate(over="ignore"):
            self._gram = (rows @ rows.T) * norms[:, None] * norms  # X'X
            self._moment = norms * (rows @ response)  # X'y
        self.noise_scale = self._read_noise(noise_scale)

    @cached_property
    @abstractmethod
    def geometry(self) -> Cells:
        """The cells, without the parameters that depend on hyperparameters."""

    def _read_noise(self, noise_scale: Any) -> float:
        """Return the standard deviation of the noise; in units of it the data must fit in a float64."""
        scale = check_positive("noise_scale", noise_scale)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            largest = max(self._gram.diagonal().max(), np.abs(self._moment).max()) / np.float64(scale) ** 2
        if not np.isfinite(largest):
            raise ValueError(
                f"X'X/noise_scale^2 and X'y/noise_scale^2 must fit in a float64, got noise_scale = {scale}; use other "
                "units"
            )
        return scale

    def _read_positive(self, name: str, value: ArrayLike) -> Array:
        """Return a number > 0 for each variable, (p,); a series is matched by its labels."""
        return read_positive(name, match(name, value, self), self.d)

    def _changed(self, **attributes: Any) -> Self:
        """Return the same posterior with other hyperparameters, which shares the data, the cells and the scale."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, scale=self.scale, geometry=self.geometry, **attributes)
        other.__dict__.pop("potential", None)
        other.__dict__.pop("fingerprint", None)
        close(other)
        return other


def read_positive(name: str, value: ArrayLike, p: int) -> Array:
    """Return one number > 0 for each variable, (p,), from an array or from a number for all."""
    array = check_real_array(name, value)
    if array.shape not in ((), (p,)):
        raise ValueError(f"{name} must be a number or have shape ({p},), one for each variable, got {array.shape}")
    at = first_true((array < _SMALLEST) | (array > 1.0 / _SMALLEST))
    if at is not None:
        unless_tiny = "" if array[at] <= 0 else f" and between {_SMALLEST} and {1.0 / _SMALLEST}: use other units"
        raise ValueError(f"{name} must be > 0{unless_tiny}, got {entry(name, at, array[at])}")
    return np.broadcast_to(array, (p,)).copy()


def draw_normal(precision: Array, linear: Array, generator: np.random.Generator) -> Array:
    """Return a draw from the density exp(-x'A x/2 + b.x), (k,), for a positive definite A, (k, k), and b, (k,)."""
    if not linear.size:
        return linear.copy()
    factor = scipy.linalg.cholesky(precision, lower=True)
    half = scipy.linalg.solve_triangular(factor, linear, lower=True) + generator.standard_normal(linear.size)
    draw: Array = scipy.linalg.solve_triangular(factor, half, lower=True, trans="T")
    return draw
