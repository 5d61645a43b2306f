"""Gaussians: the smooth target of the bouncy particle, with an event rate in closed form."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy.clocks.contract import mean_speed
from bouncy.piecewise.targets._normal import Normal

Array = NDArray[np.float64]

# Eigenvalues of larger matrices take longer than a short run.
_MOST_EIGENVALUES = 1000


class Gaussian(Normal):
    """The Gaussian N(mean, cov).

    Parameters
    ----------
    mean : scalar or (d,) array-like
        Mean; a scalar is the same for every variable.
    cov : (d, d) array-like or scalar
        Covariance, symmetric and positive definite; a scalar is that multiple of the identity.
    precision : (d, d) array-like or scipy.sparse matrix or array, or scalar
        Inverse of the covariance, instead of `cov`. A sparse one stays sparse if that is cheaper.
    labels : sequence, optional
        Names of the variables, in their order; by default those of the first of the arguments that is a series or data
        frame, else 0, ..., d - 1. Series and data frames are matched by their labels.

    Attributes
    ----------
    d : int
        Number of variables.
    mean, precision, covariance : ndarray
        As given, or computed.

    Examples
    --------
    >>> from bouncy.piecewise.targets.gaussian import Gaussian
    >>> t = Gaussian([0.0, 1.0], cov=[[2.0, 1.0], [1.0, 2.0]])
    >>> t
    Gaussian(d=2, dense)
    >>> t.log_prob([[0.0, 1.0], [1.0, 1.0]]).round(3)
    array([-0.   , -0.333])
    """

    def __init__(
        self,
        mean: ArrayLike,
        cov: ArrayLike | None = None,
        precision: Any = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(mean, cov, precision, -np.inf, np.inf, labels)
        self.check_resolution(self._mean, self.scale)

    def start(self, generator: np.random.Generator) -> Array:
        """Return a draw from the Gaussian itself.

        A wider start would differ from it in |x|^2, which the particle takes long to forget in many dimensions.
        """
        return self._mean + self.draw_uncut(generator)

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """No walls, and E sqrt(v'Pv) / sqrt(2 pi) bounces per unit time, P being the precision of y / scale.

        In the metric of the covariance the root is 1.
        """
        return None, self._bounce_rate

    @cached_property
    def _bounce_rate(self) -> float | None:
        if self.moves_in_covariance:
            return 1.0 / sqrt(2.0 * pi)
        if self.d > _MOST_EIGENVALUES:
            return None
        P = self._precision.toarray() if scipy.sparse.issparse(self._precision) else self._precision
        eigenvalues = np.linalg.eigvalsh(P * self.scale * self.scale[:, None])
        return mean_root(np.asarray(eigenvalues, dtype=np.float64)) / sqrt(2.0 * pi)


def mean_root(eigenvalues: Array) -> float:
    """Return E sqrt(v'Pv) for v uniform on the unit sphere, from the eigenvalues of P, (d,).

    For z standard normal, |z| is independent of z / |z|, and Q = z'Pz has E exp(-sQ) = prod (1 + 2 s lambda)^-1/2, so

        E|z| E sqrt(v'Pv) = E sqrt(Q) = (1 / 2 sqrt(pi)) integral_0^inf (1 - E exp(-sQ)) s^-3/2 ds.

    In log s the integrand is bounded on a strip of half width pi/2 and falls off like exp(-|log s| / 2), so that the
    error of equal steps h is about exp(-pi^2 / h).

    Examples
    --------
    >>> round(mean_root(np.full(3, 4.0)), 12)
    2.0
    """
    step = 0.25
    log_s = np.arange(-80.0, 80.0, step) - np.log(eigenvalues.sum())
    s = np.exp(log_s)
    laplace = 0.5 * np.log1p(2.0 * s[:, None] * eigenvalues).sum(axis=1)
    root = step * np.sum(-np.expm1(-laplace) / np.sqrt(s)) / (2.0 * sqrt(pi))
    return float(root * mean_speed(eigenvalues.size) * sqrt(0.5 * pi))


def _chain() -> Gaussian:
    """Return a Gaussian with a banded precision, of so many variables that it is stored as a sparse matrix."""
    d = 40
    links = np.full(d - 1, -0.4)
    return Gaussian(0.0, precision=scipy.sparse.diags_array([links, np.ones(d), links], offsets=[-1, 0, 1]))


# Loops are compiled for these two kinds of couplings only.
SPECIALISED = {
    "paths-dense": lambda: Gaussian([0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]]),
    "paths-sparse": _chain,
}
EXAMPLES = {
    "gaussian": lambda: Gaussian([0.5, -1.0, 0.0], cov=[[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]]),
}
