"""Updates of hyperparameters: against the joint density on a grid, and within a sampler against quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, log_ndtr, logsumexp

import bouncy
from bouncy import conjugate
from conftest import base_seed
from helpers.statistics import distribution_test, z_test

SEED = base_seed()
N = 25


def made_up(seed=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [1.0, -2.0]
    return X, 3.0 + X @ [0.7, 0.1] + 0.8 * rng.standard_normal(N)


X, Y = made_up()


# Each update against the joint density


def cdf_on(grid, log_density):
    """Return a distribution function from the logarithm of a density on a fine grid."""
    density = np.exp(log_density - log_density.max())
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    return lambda values: np.interp(values, grid, total / total[-1])


def check_law(update, x, grid, log_density):
    """Compare 5000 draws with the law on a grid: false alarms 1e-6, distances above 0.07 are seen."""
    rng = np.random.default_rng([SEED, 1])
    draws = np.array([update(x, {}, rng) for _ in range(5000)])
    distribution_test(draws, cdf_on(grid, log_density), detect=0.07).check()


def log_inverse_gamma(scale, shape, rate):
    """Return the log-density of a scale whose square is inverse gamma."""
    return stats.invgamma.logpdf(scale**2, shape, scale=rate) + np.log(2 * scale)


@pytest.mark.parametrize("intercept", [True, False])
def test_noise_scale(intercept):
    """Catches a wrong number of observations, a residual that is not centred, a variance taken for a scale."""
    x = np.array([0.6, 0.0])
    grid = np.geomspace(0.2, 12.0, 2001)
    residual = Y - X @ x
    alphas = np.linspace(-20.0, 20.0, 1001) if intercept else np.zeros(1)
    squares = ((residual[:, None] - alphas) ** 2).sum(axis=0)
    log_likelihood = logsumexp(-0.5 * squares / grid[:, None] ** 2, axis=1) - N * np.log(grid)
    update = conjugate.noise_scale(X, Y, shape=2.0, rate=1.5, intercept=intercept)
    check_law(update, x, grid, log_likelihood + log_inverse_gamma(grid, 2.0, 1.5))


@pytest.mark.parametrize("x", [np.zeros(4), np.array([0.5, 0.0, -1.3, 0.0])], ids=["empty model", "two variables"])
def test_slab_scale(x):
    """Catches zeros that count as draws from the slab, and a variance taken for a scale."""
    grid = np.linspace(0.02, 60.0, 100_001)
    slab = stats.norm.logpdf(x[x != 0.0][:, None], scale=grid).sum(axis=0)
    update = conjugate.slab_scale(shape=2.0, rate=0.8)
    check_law(update, x, grid, slab + log_inverse_gamma(grid, 2.0, 0.8))


def test_inclusion():
    """Catches probabilities of zero and of other values that are exchanged."""
    x = np.array([0.0, 0.0, 0.3, 0.0, -2.0])
    grid = np.linspace(1e-6, 1 - 1e-6, 20_001)
    log_density = 2 * np.log(grid) + 3 * np.log1p(-grid) + stats.beta.logpdf(grid, 1.5, 4.0)
    check_law(conjugate.inclusion(a=1.5, b=4.0), x, grid, log_density)


def test_penalty():
    """Catches a rate taken for a scale, and signs that cancel."""
    x = np.array([0.4, -1.0, 0.1])
    grid = np.linspace(1e-6, 60.0, 20_001)
    log_density = stats.laplace.logpdf(x[:, None], scale=1 / grid).sum(axis=0)
    check_law(conjugate.penalty(shape=2.0, rate=0.5), x, grid, log_density + stats.gamma.logpdf(grid, 2.0, scale=2.0))


def test_inclusion_never_reaches_its_ends():
    """Catches a probability of exactly 0 or 1, which no target accepts."""
    rng = np.random.default_rng(0)
    for x in (np.zeros(3), np.ones(3)):
        drawn = [conjugate.inclusion(a=1e-3, b=1e-3)(x, {}, rng) for _ in range(200)]
        assert 0.0 < min(drawn) <= max(drawn) < 1.0


# Within a sampler


@pytest.mark.slow
def test_spike_and_slab_with_unknown_hyperparameters():
    """Catches an error above 0.2 in the inclusion probability where noise and slab are updated too, by quadrature.

    Given noise and slab each model is normal, and a beta prior of the inclusion probability is summed in closed form.
    """
    noise, slab = np.linspace(0.3, 3.0, 300)[:, None], np.geomspace(0.05, 60.0, 600)
    log_prior = log_inverse_gamma(noise, 1.0, 0.5) + log_inverse_gamma(slab, 2.0, 0.5) + np.log(slab)  # d log slab
    design, response = X - X.mean(axis=0), Y - Y.mean()
    models = np.array(list(itertools.product([0, 1], repeat=2)))
    tables = [_log_evidence(design[:, model == 1], response, noise, slab) + log_prior for model in models]
    tables = np.array([t + betaln(2 + m.sum(), 3 + 2 - m.sum()) for t, m in zip(tables, models, strict=True)])
    weight = np.exp(tables - tables.max())
    weight /= weight.sum()
    by_model = weight.sum(axis=(1, 2))

    base = bouncy.SpikeSlab(X, Y, inclusion=0.5, slab_scale=0.7, noise_scale=1.0)
    updates = {
        "noise_scale": conjugate.noise_scale(X, Y, shape=1.0, rate=0.5),
        "slab_scale": conjugate.slab_scale(shape=2.0, rate=0.5),
        "inclusion": conjugate.inclusion(a=2.0, b=3.0),
    }
    start = {"noise_scale": 1.0, "slab_scale": 0.7, "inclusion": 0.5}
    within = bouncy.Within(base.given, updates, start, sweeps=5)
    run = bouncy.sample(within, "bps", chains=16, draws=400, warmup=60, thin=5, seed=SEED, progress=False)
    found = np.column_stack(
        [
            (run.draws != 0.0).mean(axis=1),
            run.parameters["noise_scale"].mean(axis=1),
            np.log(run.parameters["slab_scale"]).mean(axis=1),
            run.parameters["inclusion"].mean(axis=1),
        ]
    )
    expected = [
        *(by_model @ models),
        (weight * noise).sum(),
        (weight * np.log(slab)).sum(),
        by_model @ ((2 + models.sum(axis=1)) / 7),
    ]
    z_test(found, expected, detect=[0.2, 0.2, 0.1, 0.5, 0.15]).check()


def _log_evidence(design, response, noise, slab):
    """Return log p(y | model, noise, slab) on a grid, from the eigenvalues of the covariance of y."""
    size, m = design.shape[1], N - 1
    values, vectors = np.linalg.eigh(design.T @ design) if size else (np.zeros(0), np.zeros((0, 0)))
    projected = (vectors.T @ design.T @ response) ** 2 / np.where(values > 0, values, 1.0)
    log_density = -0.5 * (m - size) * np.log(noise**2) - 0.5 * (response @ response - projected.sum()) / noise**2
    log_density = log_density + np.zeros((noise.size, slab.size))
    for value, square in zip(values, projected, strict=True):
        variance = noise**2 + slab**2 * value
        log_density += -0.5 * np.log(variance) - 0.5 * square / variance
    return log_density


@pytest.mark.slow
def test_lasso_with_unknown_hyperparameters():
    """Catches an error above 0.15 in the noise where it and the penalty are updated in turn, by quadrature."""
    noise, penalty = np.linspace(0.3, 3.0, 300)[:, None], np.geomspace(1e-3, 60.0, 600)
    design, response = X[:, 0] - X[:, 0].mean(), Y - Y.mean()
    a, b = design @ design / noise**2, design @ response / noise**2
    halves = [0.5 * (b + s * penalty) ** 2 / a + log_ndtr(-s * (b + s * penalty) / np.sqrt(a)) for s in (1, -1)]
    log_density = np.logaddexp(*halves) - 0.5 * np.log(a) + 2 * np.log(penalty)  # d log penalty
    log_density = log_density - (N - 1) * np.log(noise) - 0.5 * response @ response / noise**2
    log_density += log_inverse_gamma(noise, 1.0, 0.5) + stats.gamma.logpdf(penalty, 2.0, scale=1.0)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()

    base = bouncy.BayesianLasso(X[:, :1], Y, penalty=1.0, noise_scale=1.0)
    updates = {
        "noise_scale": conjugate.noise_scale(X[:, :1], Y, shape=1.0, rate=0.5),
        "penalty": conjugate.penalty(shape=2.0, rate=1.0),
    }
    within = bouncy.Within(base.given, updates, {"noise_scale": 1.0, "penalty": 1.0})
    run = bouncy.sample(within, "bps", chains=16, draws=200, warmup=40, seed=SEED, progress=False)
    found = np.column_stack([run.parameters[name].mean(axis=1) for name in ("noise_scale", "penalty")])
    z_test(found, [(weight * noise).sum(), (weight * penalty).sum()], detect=[0.15, 0.7]).check()


# Input


def test_bad_input_is_refused():
    """Catches an improper prior that leaves no posterior, and numbers that no law has."""
    with pytest.raises(ValueError, match="rate must be > 0 where 2 variables can fit 2 observations"):
        conjugate.noise_scale(X[:3], Y[:3])
    with pytest.raises(ValueError, match="shape must be a finite number >= 0"):
        conjugate.noise_scale(X, Y, shape=-1.0)
    with pytest.raises(ValueError, match="rate must be a finite number > 0"):
        conjugate.slab_scale(shape=1.0, rate=0.0)
    with pytest.raises(ValueError, match="b must be a finite number > 0"):
        conjugate.inclusion(b=0.0)
    with pytest.raises(ValueError, match="shape must be a finite number > 0"):
        conjugate.penalty(shape=0.0, rate=1.0)
    with pytest.raises(ValueError, match=r"y must have shape \(25,\)"):
        conjugate.noise_scale(X, Y[1:])
