"""Densities that are measured, as functions a user would write, and their exact means and variances.

`peers.py` has the same densities under the same names for JAX, and gets the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from continuous import Array, Moments
from scipy.special import expit


class Density(NamedTuple):
    """A density of d variables; `options` are those of `bouncy.Density`."""

    name: str
    label: str
    log_prob: Callable[..., float]
    gradient: Callable[..., None]
    data: tuple[Any, ...]
    start: Array
    moments: Callable[[], Moments]
    options: dict[str, Any]

    @property
    def d(self) -> int:
        return self.start.size


def correlated(d: int, rho: float) -> Array:
    """Return the covariance of the stationary AR(1) process with variance 1."""
    return rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


# Gaussian and Student t


def _gaussian(y, data):
    mean, precision = data
    r = y - mean
    return -0.5 * np.dot(r, np.dot(precision, r))


def _gaussian_gradient(y, out, data):
    mean, precision = data
    out[:] = np.dot(precision, mean - y)


def gaussian(d: int = 20, rho: float = 0.9) -> Density:
    mean, cov = np.linspace(-1.0, 1.0, d), correlated(d, rho)
    return Density(
        "gaussian", f"Gaussian, d = {d}, AR(1) {rho:g}", _gaussian, _gaussian_gradient, (mean, np.linalg.inv(cov)),
        mean, lambda: Moments(mean, np.ones(d)), {"convex": True},
    )  # fmt: skip


def _student(y, data):
    mean, precision, freedom = data
    r = y - mean
    return -0.5 * (freedom + y.size) * math.log1p(np.dot(r, np.dot(precision, r)) / freedom)


def _student_gradient(y, out, data):
    mean, precision, freedom = data
    r = y - mean
    pull = np.dot(precision, r)
    out[:] = -(freedom + y.size) / (freedom + np.dot(r, pull)) * pull


def student(d: int = 10, rho: float = 0.5, freedom: float = 5.0) -> Density:
    mean, cov = np.linspace(-1.0, 1.0, d), correlated(d, rho)
    return Density(
        "student", f"Student t({freedom:g}), d = {d}, AR(1) {rho:g}", _student, _student_gradient,
        (mean, np.linalg.inv(cov), freedom), mean, lambda: Moments(mean, np.full(d, freedom / (freedom - 2.0))), {},
    )  # fmt: skip


# Logistic regression with a N(0, 4) prior of each coefficient


def _logistic(y, data):
    (rows,) = data
    return -np.sum(np.logaddexp(0.0, -np.dot(rows, y))) - np.dot(y, y) / 8.0


def _logistic_gradient(y, out, data):
    (rows,) = data
    out[:] = np.dot(rows.T, 1.0 / (1.0 + np.exp(np.dot(rows, y)))) - y / 4.0


def logistic(d: int = 20, n: int = 500) -> Density:
    rng = np.random.default_rng(0)
    X, beta = rng.standard_normal((n, d)), np.linspace(-1.0, 1.0, d)
    sign = np.where(rng.random(n) < expit(X @ beta), 1.0, -1.0)
    rows = sign[:, None] * X
    return Density(
        "logistic", f"logistic regression, d = {d}, n = {n}", _logistic, _logistic_gradient, (rows,), _mode(rows)[0],
        lambda: _logistic_moments(rows), {"convex": True},
    )  # fmt: skip


def _mode(rows: Array) -> tuple[Array, Array]:
    """Return the mode of the posterior by Newton's method, and the precision there."""
    y, precision = np.zeros(rows.shape[1]), np.empty(0)
    for _ in range(20):
        p = expit(-(rows @ y))
        precision = (rows.T * (p * (1.0 - p))) @ rows + np.eye(y.size) / 4.0
        y = y + np.linalg.solve(precision, rows.T @ p - y / 4.0)
    return y, precision


def _logistic_moments(rows: Array) -> Moments:
    """Weigh draws around the mode, and then around the mean that these give: its error is then about 0.001 sd."""
    centre, precision = _mode(rows)
    y, weight = _weighed(rows, centre, precision, 5_000)
    y, weight = _weighed(rows, weight @ y, precision, 100_000)
    mean = weight @ y
    return Moments(mean, weight @ np.square(y - mean))


def _weighed(rows: Array, centre: Array, precision: Array, pairs: int, freedom: float = 20.0) -> tuple[Array, Array]:
    """Return antithetic pairs of draws of a Student t, (2 pairs, d), and their normalised importance weights."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((pairs, centre.size)) * np.sqrt(freedom / rng.chisquare(freedom, pairs))[:, None]
    proposal = -0.5 * (freedom + centre.size) * np.log1p(np.square(z).sum(axis=1) / freedom)
    step = z @ np.linalg.cholesky(np.linalg.inv(precision)).T
    y = np.concatenate([centre + step, centre - step])
    blocks = np.array_split(y, 200)  # of the margins, (2 pairs, n), one fits in memory
    likelihood = np.concatenate([-np.logaddexp(0.0, -block @ rows.T).sum(axis=1) for block in blocks])
    log_weight = likelihood - np.square(y).sum(axis=1) / 8.0 - np.tile(proposal, 2)
    weight = np.exp(log_weight - log_weight.max())
    return y, weight / weight.sum()


# A double well with a bent valley: y_1 given y_0 is normal around (y_0^2 - 3) / 2 with variance 1/4


def _wells(y, data):
    (barrier,) = data
    bend = y[0] * y[0] - 3.0
    return -barrier * bend * bend / 9.0 - 2.0 * (y[1] - 0.5 * bend) ** 2


def _wells_gradient(y, out, data):
    (barrier,) = data
    bend = y[0] * y[0] - 3.0
    pull = 4.0 * (y[1] - 0.5 * bend)
    out[0] = y[0] * (pull - 4.0 * barrier * bend / 9.0)
    out[1] = -pull


def wells(barrier: float = 2.0) -> Density:
    return Density(
        "wells", f"bent double well, d = 2, barrier {barrier:g}", _wells, _wells_gradient, (barrier,),
        np.array([1.7, 0.0]), lambda: _wells_moments(barrier), {},
    )  # fmt: skip


def _wells_moments(barrier: float) -> Moments:
    x = np.linspace(-6.0, 6.0, 100_001)
    weight = np.exp(-barrier * np.square(x * x - 3.0) / 9.0)
    weight /= weight.sum()
    second = weight @ x**2
    bend = 0.25 * (weight @ np.square(x * x - second))
    return Moments(np.array([0.0, 0.5 * (second - 3.0)]), np.array([second, bend + 0.25]))
