"""The Bayesian lasso: the potential against the model itself, the posterior in closed form and by another sampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bouncy
from conftest import base_seed
from helpers.statistics import z_test

SEED = base_seed()
P = 5
PENALTY = np.array([1.0, 2.0, 3.0, 5.0, 8.0])
NOISE = 0.8


def made_up(n=30, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P)) + 0.7 * rng.standard_normal((n, 1)) + rng.standard_normal(P)
    return X, 1.0 + X @ [0.6, -0.4, 0.0, 0.2, 0.0] + rng.standard_normal(n)


X, Y = made_up()


def build(**options):
    return bouncy.BayesianLasso(X, Y, **{"penalty": PENALTY, "noise_scale": NOISE, **options})


# Slow answers


def one_coefficient(a, b, penalty):
    """Return mean, variance and P(x < 0) of the density exp(-a x^2/2 + b x - penalty |x|): two truncated normals."""
    sd, centres = 1 / np.sqrt(a), np.array([b + penalty, b - penalty]) / a
    below = stats.truncnorm(-np.inf, -centres[0] / sd, centres[0], sd)
    above = stats.truncnorm(-centres[1] / sd, np.inf, centres[1], sd)
    log_weight = 0.5 * a * centres**2 + stats.norm.logcdf(np.array([-1, 1]) * centres / sd)
    share = 1 / (1 + np.exp(log_weight[1] - log_weight[0]))
    mean = share * below.mean() + (1 - share) * above.mean()
    square = share * below.moment(2) + (1 - share) * above.moment(2)
    return mean, square - mean**2, share


def scale_mixture_gibbs(X, y, penalty, noise, replicates, sweeps, rng):
    """Return the averages of beta and beta beta' over independent chains, (replicates, p + p^2).

    Park & Casella (2008): with tau_j^2 exponential of rate penalty_j^2/2 and beta_j ~ N(0, tau_j^2), beta is normal
    given tau, and 1/tau_j^2 is inverse Gaussian given beta, of mean penalty_j/|beta_j| and shape penalty_j^2.
    """
    X, y, p = X - X.mean(axis=0), y - y.mean(), X.shape[1]
    G, b = X.T @ X / noise**2, X.T @ y / noise**2
    inverse = np.ones((replicates, p))
    total, burn = np.zeros((replicates, p + p * p)), 20
    for sweep in range(burn + sweeps):
        A = G + inverse[:, :, None] * np.eye(p)
        L = np.linalg.cholesky(A)
        noise_part = np.linalg.solve(L.transpose(0, 2, 1), rng.standard_normal((replicates, p, 1)))[:, :, 0]
        beta = np.linalg.solve(A, np.broadcast_to(b[:, None], (replicates, p, 1)))[:, :, 0] + noise_part
        inverse = np.maximum(rng.wald(penalty / np.abs(beta), penalty**2), 1e-12)
        if sweep >= burn:
            total += np.column_stack([beta, (beta[:, :, None] * beta[:, None, :]).reshape(replicates, -1)])
    return total / sweeps


# The potential


def test_energy_is_that_of_the_model(rng):
    """Catches a wrong likelihood or prior, a penalty in the wrong units, and centring that is missing."""
    for intercept in (True, False):
        target = build(intercept=intercept)
        x = rng.standard_normal((30, P))
        residual = Y - x @ X.T
        if intercept:
            residual -= residual.mean(axis=1, keepdims=True)
        expected = stats.norm.logpdf(residual, scale=NOISE).sum(axis=1)
        expected += stats.laplace.logpdf(x, scale=1 / PENALTY).sum(axis=1)
        found = target.log_prob(x)
        np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-12, atol=1e-9)
        energy = np.array([target.potential.energy(row) for row in x])
        np.testing.assert_allclose(energy, -found, rtol=1e-12)


def test_zero_is_a_kink_without_a_jump():
    """Catches a toll at zero, and a slope that does not change there by twice the penalty."""
    potential = build().potential
    for i in range(P):
        above, below = np.full(P, 0.1), np.full(P, 0.1)
        above[i], below[i] = 1e-13, -1e-13
        assert potential.energy(above) == pytest.approx(potential.energy(below), abs=1e-10)
        step = potential.gradient(above) - potential.gradient(below)
        np.testing.assert_allclose(step, 2 * PENALTY * (np.arange(P) == i), atol=1e-9)


def test_given_changes_hyperparameters_and_nothing_else():
    """Catches stale potentials, units that move under a particle, and data that are copied each time."""
    base = build(penalty=1.0)
    assert base.potential is base.potential
    other = base.given(penalty=PENALTY, noise_scale=0.4)
    x = np.linspace(-1.0, 1.0, P)
    assert other.log_prob(x) == pytest.approx(build(noise_scale=0.4).log_prob(x), rel=1e-12)
    assert other._gram is base._gram
    assert (other.scale == base.scale).all()
    assert other.given(penalty=2.0).noise_scale == 0.4
    assert (base.penalty == 1.0).all()


def test_starts_are_possible_with_more_variables_than_observations(rng):
    """Catches a start that needs a design of full rank."""
    wide = bouncy.BayesianLasso(rng.standard_normal((4, 9)), rng.standard_normal(4), penalty=2.0, noise_scale=1.0)
    assert np.isfinite(wide.potential.energy(wide.start(rng)))


# The posterior


def test_orthogonal_design_in_closed_form():
    """Catches an error above 0.05 in means, variances and signs of independent coefficients."""
    rng = np.random.default_rng(5)
    design = np.linalg.qr(rng.standard_normal((40, P)))[0] * [1.0, 2.0, 3.0, 4.0, 5.0]
    response = design @ [0.5, -0.5, 0.1, 0.0, 0.3] + 0.5 * rng.standard_normal(40)
    target = bouncy.BayesianLasso(design, response, penalty=PENALTY, noise_scale=NOISE, intercept=False)
    a, b = (design**2).sum(axis=0) / NOISE**2, design.T @ response / NOISE**2
    mean, variance, negative = np.array([one_coefficient(*row) for row in zip(a, b, PENALTY, strict=True)]).T
    run = bouncy.sample(target, "bps", chains=16, draws=4000, warmup=300, seed=SEED, progress=False)
    options = {"degrees_of_freedom": run._sums.degrees_of_freedom, "detect": 0.05}
    z_test(run.path_mean, mean, run.path_mean_se, **options).check()
    z_test(run.path_variance, variance, run.path_variance_se, **options).check()
    correlated = run.path_covariance - np.diag(run.path_variance)
    z_test(correlated, 0.0, run.path_covariance_se, **options).check()
    share = (run.draws < 0.0).mean(axis=(0, 1))
    np.testing.assert_allclose(share, negative, atol=0.03)


def test_correlated_design_against_the_scale_mixture():
    """Catches an error above 0.03 in means and second moments, by the Gibbs sampler of Park & Casella."""
    run = bouncy.sample(build(), "bps", chains=16, draws=4000, warmup=300, seed=SEED + 1, progress=False)
    peer = scale_mixture_gibbs(X, Y, PENALTY, NOISE, 2000, 40, np.random.default_rng([SEED, 2]))
    second = run.path_covariance + np.outer(run.path_mean, run.path_mean)
    found = np.concatenate([run.path_mean, second.ravel()])
    # A second moment has the error of a covariance and that of the mean, at most added up.
    error = run.path_covariance_se + np.abs(np.add.outer(run.path_mean, run.path_mean)) * run.path_mean_se.max()
    error = np.hypot(np.concatenate([run.path_mean_se, error.ravel()]), peer.std(axis=0) / np.sqrt(len(peer)))
    z_test(found, peer.mean(axis=0), error, degrees_of_freedom=run._sums.degrees_of_freedom, detect=0.03).check()


# Input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be > 0, got penalty = 0.0"),
        ({"penalty": [1.0, 2.0, -3.0, 1.0, 1.0]}, r"penalty\[2\] = -3.0"),
        ({"penalty": [1.0, 2.0]}, r"shape \(5,\), one for each variable, got \(2,\)"),
        ({"noise_scale": -1.0}, "noise_scale must be a finite number > 0"),
    ],
)
def test_bad_values_are_named(options, message):
    """Catches a value that is accepted, or an error that does not say what was got."""
    with pytest.raises(ValueError, match=message):
        build(**options)
    with pytest.raises(ValueError, match=message):
        build().given(**options)
