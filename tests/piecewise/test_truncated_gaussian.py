"""Gaussians truncated to a box: closed forms in one and two dimensions, quadrature along a chain, starts and scales."""

from __future__ import annotations

from math import asin, pi, sqrt
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from scipy.stats import truncnorm

import bouncy
from bouncy.piecewise import BPS
from bouncy.piecewise.targets.truncated_gaussian import TruncatedGaussian, fold
from conftest import base_seed
from helpers.statistics import z_test

Array = NDArray[np.float64]


def chain_precision(d: int, rho: float) -> scipy.sparse.csr_array:
    """Return the precision of a stationary AR(1) chain of unit variances."""
    diagonal = np.r_[1.0, np.full(d - 2, 1.0 + rho**2), 1.0]
    beside = np.full(d - 1, -rho)
    return scipy.sparse.csr_array(
        scipy.sparse.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1]) / (1.0 - rho**2)
    )


def chain_moments(d: int, rho: float) -> tuple[Array, Array]:
    """Return mean and variance, (d,), of such a chain on the positive orthant, by Gauss-Legendre along the chain.

    Messages from the left and from the right end of the chain are functions of one variable, and those that the
    transition density exp(-(x' - rho x)^2 / 2(1 - rho^2)) carries on are integrals over [0, 9].
    """
    nodes, weights = np.polynomial.legendre.leggauss(160)
    x, w = 4.5 * (nodes + 1.0), 4.5 * weights
    step = np.exp(-0.5 * (x[None, :] - rho * x[:, None]) ** 2 / (1.0 - rho**2)) * w
    left = [np.exp(-0.5 * x**2)]
    right = [np.ones_like(x)]
    for _ in range(d - 1):
        left.append((left[-1] * w) @ (step / w))
        right.append(step @ right[-1])
        left[-1] /= left[-1].max()
        right[-1] /= right[-1].max()
    density = np.array(left) * np.array(right[::-1]) * w
    density /= density.sum(axis=1, keepdims=True)
    mean = density @ x
    return mean, density @ x**2 - mean**2


def box_moments(mean: Array, sd: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return mean and variance of independent truncated normals, (d,)."""
    law = truncnorm((lower - mean) / sd, (upper - mean) / sd, mean, sd)
    return law.mean(), law.var()


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": [0.0, 1.0], "upper": [1.0, 1.0]}, ValueError, r"empty: lower\[1\] = 1.0 is not below upper\[1\] = 1.0"),
    ({"lower": np.inf}, ValueError, r"lower\[0\] = inf"),
    ({"upper": [0.0, -np.inf]}, ValueError, r"upper\[1\] = -inf"),
    ({"lower": [0.0, np.nan]}, ValueError, r"lower\[1\] = nan"),
    ({"lower": "a"}, TypeError, "real numbers"),
    ({"upper": [1.0, 1.0, 1.0]}, ValueError, r"upper must be a scalar or have shape \(2,\)"),
    ({"lower": 1e9}, ValueError, "variable 0 lives near 1e\\+09 .* lost in rounding"),
    ({"lower": 1.0, "upper": 1.0 + 1e-12}, ValueError, "lost in rounding"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_bad_boxes(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Would catch a box that is accepted though nothing can move in it, or refused without naming the coordinate."""
    with pytest.raises(error, match=message):
        TruncatedGaussian([0.0, 0.0], cov=np.eye(2), **arguments)


def test_fold() -> None:
    """Would catch points that are reflected to the wrong place, in intervals with two ends, one or none."""
    x = np.array([2.3, -0.4, 5.0, 5.0, -7.0, 0.5])
    lower = np.array([0.0, 0.0, 0.0, -np.inf, -np.inf, 0.0])
    upper = np.array([1.0, np.inf, 1.0, 3.0, np.inf, 1.0])
    np.testing.assert_allclose(fold(x, lower, upper), [0.3, 0.4, 1.0, 1.0, -7.0, 0.5], atol=1e-15)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.0, np.inf), (-np.inf, -3.0), (-0.5, 0.5), (30.0, np.inf), (1e3, 1e3 + 1e-4), (-1e-3, np.inf), (-np.inf, 40.0)],
)
def test_starts_inside(lower: float, upper: float) -> None:
    """Would catch a start outside of the box or on a wall, and chains that all start at one place."""
    d = 200
    target = TruncatedGaussian(0.0, precision=chain_precision(d, 0.9), lower=lower, upper=upper)
    generator = np.random.default_rng(base_seed())
    starts = np.array([target.start(generator) for _ in range(20)])
    assert (starts > lower).all()
    assert (starts < upper).all()
    assert np.isfinite(target.log_prob(starts)).all()
    assert (starts.std(axis=0) > 0.05 * target.scale).all()


def test_starts_in_thousands_of_dimensions() -> None:
    """Would catch a search for the mode that does not come to an end, and a sparse matrix that is made dense."""
    target = TruncatedGaussian(-1.0, precision=chain_precision(5000, 0.95), lower=0.0)
    assert (target.start(np.random.default_rng(base_seed())) > 0.0).all()
    assert "sparse" in repr(target)


def test_mode_is_where_no_step_helps() -> None:
    """Would catch a wrong mode: at each variable the slope is zero, or points out of the box at its wall."""
    generator = np.random.default_rng(base_seed())
    root = generator.standard_normal((30, 60))
    target = TruncatedGaussian(generator.standard_normal(30), cov=root @ root.T / 60, lower=0.3, upper=2.0)
    slope = (target.precision @ (target.mode - target.mean)) / np.sqrt(target.precision.diagonal())
    at_lower, at_upper = target.mode == 0.3, target.mode == 2.0
    assert at_lower.any()
    assert (slope[at_lower] > -1e-5).all()
    assert (slope[at_upper] < 1e-5).all()
    assert np.abs(slope[~at_lower & ~at_upper]).max() < 1e-5


def test_scale() -> None:
    """Would catch a particle that moves in units which do not fit a narrow box or a far tail."""
    target = TruncatedGaussian(0.0, cov=np.eye(4), lower=[-50, 0.1, 100.0, -np.inf], upper=[50, 0.101, np.inf, -100.0])
    np.testing.assert_allclose(target.scale, [1.0, 1e-3 / sqrt(12.0), 0.01, 0.01], rtol=1e-2)


def test_wall_densities() -> None:
    """Would catch a wrong closed form of the hit rate, in the bulk and far out in both tails."""
    mean, sd = np.array([0.0, 1.0, 0.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    lower = np.array([0.0, -np.inf, 20.0, 1.5, -np.inf])
    upper = np.array([np.inf, 0.0, 21.0, 2.5, np.inf])
    law = truncnorm((lower - mean) / sd, (upper - mean) / sd, mean, sd)
    expected = np.where(np.isfinite(lower), law.pdf(lower), 0.0) + np.where(np.isfinite(upper), law.pdf(upper), 0.0)
    target = TruncatedGaussian(mean, cov=np.diag(sd**2), lower=lower, upper=upper)
    assert target.wall_densities is not None
    np.testing.assert_allclose(target.wall_densities, expected, rtol=1e-8)
    mirrored = TruncatedGaussian(-mean, cov=np.diag(sd**2), lower=-upper, upper=-lower)
    assert mirrored.wall_densities is not None
    np.testing.assert_allclose(mirrored.wall_densities, target.wall_densities, rtol=1e-12)
    assert TruncatedGaussian(0.0, cov=[[1.0, 0.5], [0.5, 1.0]], lower=0.0).wall_densities is None


def test_one_dimensional_closed_forms() -> None:
    """Would catch walls in the wrong place or passed, and a wrong hit rate: one- and two-sided, far tail, narrow.

    Alpha 1e-6; sees errors of 0.15 standard deviations in means and of two fifths of a variance.
    """
    mean, sd = np.array([0.0, 1.0, 0.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    lower, upper = np.array([0.0, -np.inf, 12.0, 1.9, -0.5]), np.array([np.inf, 0.0, np.inf, 2.2, 3.0])
    target = TruncatedGaussian(mean, cov=np.diag(sd**2), lower=lower, upper=upper)
    run = bouncy.sample(target, "bps", chains=40, draws=1200, seed=base_seed(), progress=False)
    exact_mean, exact_variance = box_moments(mean, sd, lower, upper)
    freedom = int(run.diagnostics["batches"]) - 1
    assert z_test(
        run.path_mean, exact_mean, run.path_mean_se, degrees_of_freedom=freedom, detect=0.15 * exact_variance**0.5
    ).passed
    assert z_test(
        run.path_variance, exact_variance, run.path_variance_se, degrees_of_freedom=freedom, detect=0.4 * exact_variance
    ).passed
    assert abs(run.diagnostics["hit_rate_z"]) < 6
    hits = target.rates[0]
    assert hits is not None
    assert run.diagnostics["hits"] / (40 * 1200 * BPS().sweep_time(5)) == pytest.approx(hits, rel=0.03)
    assert (run.draws >= lower).all()
    assert (run.draws <= upper).all()


@pytest.mark.parametrize("rho", [-0.5, 0.8])
def test_bivariate_orthant(rho: float) -> None:
    """Would catch a wrong change of the slope at a wall: E[x], E[x^2] and E[x y] of Rosenbaum (1961) with P(orthant).

    Alpha 1e-6, sees errors of 0.07.
    """
    target = TruncatedGaussian(0.0, cov=[[1.0, rho], [rho, 1.0]], lower=0.0)
    run = bouncy.sample(target, "bps", chains=40, draws=2000, seed=base_seed() + 1, progress=False)
    probability = 0.25 + asin(rho) / (2.0 * pi)
    mean = (1.0 + rho) / (2.0 * sqrt(2.0 * pi) * probability)
    bend = sqrt(1.0 - rho**2) / (2.0 * pi * probability)
    second = np.array([[1.0 + rho * bend, rho + bend], [rho + bend, 1.0 + rho * bend]])
    freedom = int(run.diagnostics["batches"]) - 1
    assert z_test(run.path_mean, mean, run.path_mean_se, degrees_of_freedom=freedom, detect=0.07).passed
    assert z_test(
        run.path_covariance, second - mean**2, run.path_covariance_se, degrees_of_freedom=freedom, detect=0.07
    ).passed


def test_chain_on_the_positive_orthant() -> None:
    """Would catch errors in sparse updates at walls: alpha 1e-6, sees errors of 0.25 in means and variances."""
    d, rho = 40, 0.7
    target = TruncatedGaussian(0.0, precision=chain_precision(d, rho), lower=0.0)
    assert "sparse" in repr(target)
    run = bouncy.sample(target, "bps", chains=40, draws=400, pairs="all", seed=base_seed() + 2, progress=False)
    mean, variance = chain_moments(d, rho)
    freedom = int(run.diagnostics["batches"]) - 1
    assert z_test(run.path_mean, mean, run.path_mean_se, degrees_of_freedom=freedom, detect=0.25).passed
    assert z_test(run.path_variance, variance, run.path_variance_se, degrees_of_freedom=freedom, detect=0.25).passed
