"""Densities with jumps that are measured, and their exact means and variances; see `densities.py`."""

from __future__ import annotations

import math

import numpy as np
from continuous import Array, Moments
from densities import Density, correlated
from scipy.stats import norm, truncnorm

# Points of the grid on which the sum over a simplex is integrated.
_POINTS = 2001


# A threshold in regression: z = y_0 + y_1 (x - 1/2) + y_2 1{x > y_3} + noise, with y_0..2 ~ N(0, 4), y_3 ~ N(1/2, 1/16)


def _threshold(y, data):
    x, z = data
    r = z - y[0] - y[1] * (x - 0.5) - y[2] * (x > y[3])
    return -0.5 * np.dot(r, r) - 0.125 * np.dot(y[:3], y[:3]) - 8.0 * (y[3] - 0.5) ** 2


def _threshold_gradient(y, out, data):
    x, z = data
    r = z - y[0] - y[1] * (x - 0.5) - y[2] * (x > y[3])
    out[0] = np.sum(r) - 0.25 * y[0]
    out[1] = np.dot(r, x - 0.5) - 0.25 * y[1]
    out[2] = np.sum(r * (x > y[3])) - 0.25 * y[2]
    out[3] = -16.0 * (y[3] - 0.5)


def threshold(n: int = 80) -> Density:
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(n))
    z = 0.5 - (x - 0.5) + 1.5 * (x > 0.6) + rng.standard_normal(n)
    return Density(
        "threshold", f"regression with a threshold, d = 4, n = {n}", _threshold, _threshold_gradient, (x, z),
        np.array([0.5, -1.0, 1.5, 0.6]), lambda: _threshold_moments(x, z), {"edges": {3: x}, "convex": True},
    )  # fmt: skip


def _threshold_moments(x: Array, z: Array) -> Moments:
    """Mix the cells of the threshold: given its cell, y_0..2 are normal and y_3 is a truncated normal."""
    ends = np.concatenate([[-np.inf], x, [np.inf]])
    log_weight, mean, variance = np.empty(x.size + 1), np.empty((x.size + 1, 4)), np.empty((x.size + 1, 4))
    for k, (low, high) in enumerate(zip(4.0 * (ends[:-1] - 0.5), 4.0 * (ends[1:] - 0.5), strict=True)):
        design = np.column_stack([np.ones_like(x), x - 0.5, np.arange(x.size) >= k])
        precision = design.T @ design + 0.25 * np.eye(3)
        mean[k, :3], variance[k, :3] = np.linalg.solve(precision, design.T @ z), np.linalg.inv(precision).diagonal()
        cell = truncnorm(low, high, 0.5, 0.25)
        mean[k, 3], variance[k, 3] = cell.mean(), cell.var()
        evidence = 0.5 * (mean[k, :3] @ precision @ mean[k, :3] - np.linalg.slogdet(precision).logabsdet)
        log_weight[k] = evidence + math.log(norm.cdf(high) - norm.cdf(low))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    centre = weight @ mean
    return Moments(centre, weight @ (variance + np.square(mean - centre)))


# A Gaussian that is e^J times as dense on one side of a plane


def _step(y, data):
    mean, precision, normal, offset, J = data
    r = y - mean
    return -0.5 * np.dot(r, np.dot(precision, r)) + (J if np.dot(normal, y) > offset else 0.0)


def _step_gradient(y, out, data):
    mean, precision, _, _, _ = data
    out[:] = np.dot(precision, mean - y)


def step(d: int = 5, rho: float = 0.5, J: float = 2.0, offset: float = 1.0) -> Density:
    mean, cov, normal = np.zeros(d), correlated(d, rho), np.linspace(1.0, 0.2, d)
    data = mean, np.linalg.inv(cov), normal, offset, J
    return Density(
        "step", f"Gaussian with a step of {J:g}, d = {d}", _step, _step_gradient, data, mean,
        lambda: _step_moments(mean, cov, normal, offset, J), {"walls": [(normal, offset)], "convex": True},
    )  # fmt: skip


def _step_moments(mean: Array, cov: Array, normal: Array, offset: float, J: float) -> Moments:
    """Tilt z, the standardised distance from the plane; what is orthogonal to it keeps its law."""
    along = cov @ normal / math.sqrt(normal @ cov @ normal)
    a = (offset - normal @ mean) / math.sqrt(normal @ cov @ normal)
    first = norm.pdf(a) * math.expm1(J) / (norm.cdf(a) + math.exp(J) * norm.sf(a))
    second = 1.0 + a * first
    return Moments(mean + along * first, cov.diagonal() + along**2 * (second - first**2 - 1.0))


# Independent normals on the simplex y >= 0, sum y <= 1


def _simplex(y, data):
    mean, sd = data
    if np.min(y) < 0.0 or np.sum(y) > 1.0:
        return -np.inf
    return -0.5 * np.sum(((y - mean) / sd) ** 2)


def _simplex_gradient(y, out, data):
    mean, sd = data
    out[:] = (mean - y) / sd**2


def simplex(d: int = 10) -> Density:
    mean, sd = np.linspace(0.0, 0.3, d), np.full(d, 0.15)
    options = {"edges": {i: [0.0] for i in range(d)}, "walls": [(np.ones(d), 1.0)], "convex": True}
    return Density(
        "simplex", f"Gaussian on a simplex, d = {d}", _simplex, _simplex_gradient, (mean, sd), np.full(d, 0.5 / d),
        lambda: _simplex_moments(mean, sd), options,
    )  # fmt: skip


def _simplex_moments(mean: Array, sd: Array) -> Moments:
    """Convolve the others' densities on a grid by the trapezoidal rule: P(their sum <= 1 - y_i)."""
    y = np.linspace(0.0, 1.0, _POINTS)
    density = norm.pdf(y, mean[:, None], sd[:, None])
    density[:, 0] *= 0.5
    before, after = _sums(density), _sums(density[::-1])[::-1]
    others = np.array([np.convolve(one, other)[:_POINTS] for one, other in zip(before, after, strict=True)])
    room = (np.cumsum(others, axis=1) - 0.5 * others)[:, ::-1]
    weight = density * room / np.sum(density * room, axis=1, keepdims=True)
    return Moments(weight @ y, weight @ y**2 - np.square(weight @ y))


def _sums(density: Array) -> Array:
    """Return the densities of the sums of the variables before each, (d, points), up to factors."""
    sums = np.zeros_like(density)
    sums[0, 0] = 1.0
    for i in range(1, len(density)):
        sums[i] = np.convolve(sums[i - 1], density[i - 1])[:_POINTS]
        sums[i] /= sums[i].max()
    return sums
