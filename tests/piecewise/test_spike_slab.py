"""Spike and slab: the potential against the model itself, the posterior against all models, input that is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bouncy
from bouncy.piecewise.samplers.bps import BPS
from bouncy.workers.contract import Plan
from bouncy.workers.paths import PathWorker
from conftest import base_seed
from helpers.statistics import z_test

SEED = base_seed()
P = 10
INCLUSION = np.linspace(0.2, 0.6, P)
SLAB = np.linspace(0.5, 1.5, P)
NOISE = 0.9


def made_up(n=30, p=P, effects=(0.4, -0.3, 0.2), seed=3):
    """Return X, (n, p), with correlated columns of some mean, and y that the first few of them explain in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.4 * rng.standard_normal((n, 1)) + rng.standard_normal(p)
    return X, 2.0 + X[:, : len(effects)] @ effects + rng.standard_normal(n)


X, Y = made_up()


def build(positive=False, **options):
    options = {"inclusion": INCLUSION, "slab_scale": SLAB, "noise_scale": NOISE, **options}
    return bouncy.SpikeSlab(X, Y, positive=positive, **options)


either_kind = pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])


# Slow answers


def log_posterior(x, positive, intercept=True):
    """Return log p(y, beta) up to a constant, by the model itself: probabilities of zeros times other densities."""
    residual = Y - X @ x
    if intercept:  # a flat prior, integrated out
        residual = residual - residual.mean()
    zero = x == 0.0
    slab = stats.halfnorm if positive else stats.norm
    prior = np.where(zero, np.log1p(-INCLUSION), np.log(INCLUSION) + slab.logpdf(x, scale=SLAB))
    return float(stats.norm.logpdf(residual, scale=NOISE).sum() + prior.sum())


def width_of(target):
    """Return the lengths of the intervals that stand for zero, (p,)."""
    cells = target.potential.cells
    return (cells.upper - cells.lower)[cells.slope == 0.0]


def enumerate_models(inclusion, slab, noise, X, y):
    """Return inclusion probabilities, means and covariances from all 2^p models, each normal given the model."""
    p = X.shape[1]
    X, y = X - X.mean(axis=0), y - y.mean()
    G, b = X.T @ X / noise**2, X.T @ y / noise**2
    models = np.array(list(itertools.product([False, True], repeat=p)))
    log_weight, means, squares = np.empty(2**p), np.zeros((2**p, p)), np.zeros((2**p, p, p))
    for k, model in enumerate(models):
        at = np.flatnonzero(model)
        A = G[np.ix_(at, at)] + np.diag(slab[at] ** -2.0)
        mean = np.linalg.solve(A, b[at])
        means[k, at] = mean
        squares[k][np.ix_(at, at)] = np.linalg.inv(A) + np.outer(mean, mean)
        log_weight[k] = np.log(np.where(model, inclusion, 1 - inclusion)).sum() - np.log(slab[at]).sum()
        log_weight[k] += 0.5 * b[at] @ mean - 0.5 * np.linalg.slogdet(A)[1]
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ means
    return weight @ models, mean, np.tensordot(weight, squares, 1) - np.outer(mean, mean)


def quadrature(inclusion, slab, noise, X, y, nodes=60, reach=3.0):
    """Return the same for positive coefficients, by a grid of zero and Gauss-Legendre nodes on each axis."""
    X, y = X - X.mean(axis=0), y - y.mean()
    t, w = np.polynomial.legendre.leggauss(nodes)
    axis = np.concatenate([[0.0], 0.5 * reach * (t + 1)])
    masses = []
    for pi, scale in zip(inclusion, slab, strict=True):
        density = stats.halfnorm.pdf(axis[1:], scale=scale)
        masses.append(np.concatenate([[1 - pi], pi * 0.5 * reach * w * density]))
    x = np.stack(np.meshgrid(*[axis] * len(slab), indexing="ij"), axis=-1).reshape(-1, len(slab))
    prior = np.prod(np.meshgrid(*masses, indexing="ij"), axis=0).ravel()
    weight = prior * np.exp(-0.5 * ((y[:, None] - X @ x.T) ** 2).sum(axis=0) / noise**2)
    weight /= weight.sum()
    mean = weight @ x
    return weight @ (x > 0.0), mean, (x.T * weight) @ x - np.outer(mean, mean)


# The potential


@either_kind
@pytest.mark.parametrize("intercept", [True, False])
def test_log_prob_is_that_of_the_model(positive, intercept, rng):
    """Catches a wrong likelihood, slab or probability of zero, centring that is missing or not asked for."""
    target = build(positive, intercept=intercept)
    x = np.where(rng.random((40, P)) < 0.5, 0.0, rng.standard_normal((40, P)))
    x = np.abs(x) if positive else x
    found = target.log_prob(x)
    expected = np.array([log_posterior(row, positive, intercept) for row in x])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-12, atol=1e-9)
    if positive:
        assert target.log_prob(-np.eye(P)[0]) == -np.inf


@either_kind
def test_energy_is_that_of_the_model(positive, rng):
    """Catches cells whose values or constants differ from the model: density of y = density of x, spread in a spike."""
    target = build(positive)
    width = width_of(target)
    low = -width if positive else -2.0 * np.ones(P)
    y = low + (2.0 - low) * rng.random((50, P))
    x = np.array([target.potential.cells.values(row) for row in y])
    if positive:
        np.testing.assert_array_equal(x, np.maximum(y, 0.0))
    else:
        np.testing.assert_allclose(x, np.sign(y) * np.maximum(np.abs(y) - width / 2, 0.0), atol=1e-15)
    found = -np.array([target.potential.energy(row) for row in y])
    spread = np.where(x == 0.0, np.log(width), 0.0).sum(axis=1)
    np.testing.assert_allclose(found + spread, target.log_prob(x), rtol=1e-12)


@either_kind
def test_jump_at_the_edge_is_the_ratio_of_the_priors(positive, rng):
    """Catches a jump that depends on the data, or has the wrong width, sign or density of the slab at zero."""
    target = build(positive)
    width = width_of(target)
    edges = [np.zeros(P)] if positive else [width / 2, -width / 2]
    density = (2.0 if positive else 1.0) * INCLUSION * stats.norm.pdf(0.0, scale=SLAB)
    expected = np.log((1.0 - INCLUSION) / width) - np.log(density)
    y = target.start(rng)
    for edge, i in itertools.product(edges, range(P)):
        inside, outside = y.copy(), y.copy()
        inside[i] = edge[i] - math.copysign(1e-11, edge[i])
        outside[i] = edge[i] + math.copysign(1e-11, edge[i])
        jump = target.potential.energy(outside) - target.potential.energy(inside)
        assert jump == pytest.approx(expected[i], abs=1e-8)


@either_kind
def test_zeros_are_points(positive):
    """Catches an interval of zeros that the particle crosses, or a mass that is not the odds of a zero at the edge."""
    target = build(positive)
    view = target.view()
    zero = view.slope == 0.0
    np.testing.assert_array_equal(np.isfinite(view.way_out), zero)
    lengths = target.scale * (view.upper - view.lower)[zero] * np.exp(view.way_out[zero])
    density = (1 + positive) * INCLUSION * stats.norm.pdf(0.0, scale=SLAB)
    np.testing.assert_allclose(lengths, (1.0 - INCLUSION) / density, rtol=1e-12)


@either_kind
def test_given_changes_hyperparameters_and_nothing_else(positive):
    """Catches a geometry that moves under a particle, stale potentials, and data that are copied each time."""
    base = build(positive, inclusion=0.5, slab_scale=1.0)
    assert base.potential is base.potential
    other = base.given(inclusion=INCLUSION, slab_scale=SLAB, noise_scale=0.4)
    fresh = build(positive, noise_scale=0.4)
    x = np.where(np.arange(P) % 2, 0.3, 0.0)
    assert other.log_prob(x) == pytest.approx(fresh.log_prob(x), rel=1e-12)
    assert other._gram is base._gram
    assert (other.scale == base.scale).all()
    for name in ("first", "lower", "upper", "slope", "shift"):
        np.testing.assert_array_equal(getattr(other.potential.cells, name), getattr(base.potential.cells, name))
    same = other.given()
    assert (same.inclusion == INCLUSION).all()
    assert same.noise_scale == 0.4
    assert base.noise_scale == NOISE


@either_kind
def test_starts_are_possible_and_differ(positive):
    """Catches a start outside the support, in the wrong cell, or at the same place each time."""
    target = build(positive)
    starts = [target.start(np.random.default_rng([SEED, k])) for k in range(20)]
    assert all(np.isfinite(target.potential.energy(y)) for y in starts)
    models = {tuple(target.potential.cells.values(y)) for y in starts}
    assert len(models) > 10


def test_laws_of_many_coefficients():
    """Catches laws of "bps" that count a window of coefficients too often, or stand for another sweep."""
    rng = np.random.default_rng(SEED)
    data = rng.standard_normal((60, 70))
    target = bouncy.SpikeSlab(
        data, data[:, 0] + rng.standard_normal(60), inclusion=0.05, slab_scale=1.0, noise_scale=1.0
    )
    assert set(target.view().spikes.times) == {1.0, 5.0}
    worker = PathWorker(target, BPS(), Plan(), np.random.SeedSequence(SEED), None)
    A, b = np.asarray(target.potential.coupling), target.potential.linear
    variance = 1.0 / A.diagonal()
    odds = 19.0 / np.sqrt(variance)  # of zero, against a normal whose mean is zero
    mean, square = np.zeros(70), np.zeros(70)
    for _ in range(100):
        worker._run(1)
        x = worker.x[0]
        center = (b - A @ x) * variance + x
        share = 1.0 / (1.0 + odds * np.exp(-0.5 * center**2 / variance))
        mean += share * center
        square += share * (center**2 + variance)
    sums = worker.open_sums()[0]
    np.testing.assert_allclose(sums["mean"], worker.sweep_time * mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sums["square"], worker.sweep_time * square, rtol=1e-9)


# The posterior


def check(target, inclusion, mean, covariance, detect, seed, draws=10_000):
    """Compare a run with exact answers: false alarms 1e-6 for each of the three."""
    run = bouncy.sample(target, "bps", chains=32, draws=draws, warmup=300, seed=seed, keep="means", progress=False)
    options = {"degrees_of_freedom": run._sums.degrees_of_freedom, "detect": detect}
    z_test(run.path_inclusion, inclusion, run.path_inclusion_se, **options, name="inclusion").check()
    z_test(run.path_mean, mean, run.path_mean_se, **options, name="mean").check()
    z_test(run.path_covariance, covariance, run.path_covariance_se, **options, name="covariance").check()


def test_against_all_models():
    """Catches an error above 0.1 in inclusion probabilities, means or covariances of ten signed coefficients."""
    check(build(), *enumerate_models(INCLUSION, SLAB, NOISE, X, Y), detect=0.1, seed=SEED)


def test_against_variable_selection():
    """Catches a prior or a likelihood that differs from that of VariableSelection, coefficients integrated out."""
    same = {"inclusion": INCLUSION, "slab_scale": SLAB, "noise_scale": NOISE}
    exact = bouncy.exact(bouncy.VariableSelection(X, Y, prior="independent", **same))
    inclusion, *_ = enumerate_models(INCLUSION, SLAB, NOISE, X, Y)
    np.testing.assert_allclose((1 + exact.mean) / 2, inclusion, rtol=1e-9)


def test_positive_coefficients_against_quadrature():
    """Catches an error above 0.06 in the posterior of coefficients that are zero or positive, one pushed to zero."""
    inclusion, slab = np.array([0.3, 0.5, 0.6]), np.array([0.5, 0.8, 1.2])
    data, response = made_up(n=20, p=3, effects=(0.3, -0.3, 0.5))
    target = bouncy.SpikeSlab(data, response, inclusion=inclusion, slab_scale=slab, noise_scale=1.0, positive=True)
    exact = quadrature(inclusion, slab, 1.0, data, response)
    check(target, *exact, detect=0.06, seed=SEED + 1, draws=5000)


@pytest.mark.parametrize("inclusion", [1e-6, 1 - 1e-6])
def test_extreme_inclusion(inclusion):
    """Catches a particle that hangs, or loses its way, where all coefficients rest, or none does for long."""
    target = build(inclusion=inclusion)
    run = bouncy.sample(target, "bps", chains=4, draws=500, warmup=200, seed=SEED, progress=False)
    expected, *_ = enumerate_models(np.full(P, inclusion), SLAB, NOISE, X, Y)
    np.testing.assert_allclose(run.inclusion, expected, rtol=0.2, atol=1e-9)
    assert (np.abs(run.path_inclusion - expected) < 0.01).all()
    if inclusion < 0.5:
        assert (run.draws[:, -100:] == 0.0).all()


# Input


def test_names_come_from_a_data_frame():
    """Catches columns that lose their names, and booleans that are refused."""
    frame = pd.DataFrame({"age": [1.0, 2.0, 4.0, 3.0], "smokes": [True, False, False, True]})
    target = bouncy.SpikeSlab(frame, [1.0, 2.0, 3.0, 5.0], inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    assert target.labels == ("age", "smokes")
    assert repr(target) == "SpikeSlab(p=2, n=4, noise_scale=1)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inclusion": 0.0}, r"strictly between 0 and 1, got inclusion = 0.0; a var"),
        ({"inclusion": np.where(np.arange(P) == 4, 1.0, 0.5)}, r"inclusion\[4\] = 1.0"),
        ({"inclusion": [0.5, 0.5]}, r"shape \(10,\), got shape \(2,\)"),
        ({"slab_scale": -1.0}, r"slab_scale must be > 0, got slab_scale = -1.0"),
        ({"slab_scale": np.ones((2, P))}, r"slab_scale must be a number or have shape \(10,\)"),
        ({"slab_scale": 1e-200}, "use other units"),
        ({"noise_scale": 0.0}, "noise_scale must be a finite number > 0"),
        ({"noise_scale": 1e-170}, "must fit in a float64"),
        ({"labels": ["a"]}, "labels must name each of the 10"),
    ],
)
def test_bad_values_are_named(options, message):
    """Catches a value that is accepted, or an error that does not say what was got."""
    with pytest.raises(ValueError, match=message):
        build(**options)


@pytest.mark.parametrize("options", [{"positive": 1}, {"noise_scale": "1"}, {"intercept": None}, {"inclusion": "half"}])
def test_wrong_kinds_are_refused(options):
    """Catches something that is merely convertible and taken for what it is not."""
    with pytest.raises(TypeError, match="must"):
        build(**options)


def test_bad_data_are_named():
    """Catches data that cannot belong together, or a column that can explain nothing."""
    options = {"inclusion": 0.5, "slab_scale": 1.0, "noise_scale": 1.0}
    with pytest.raises(ValueError, match=r"y must have shape \(30,\)"):
        bouncy.SpikeSlab(X, Y[:-1], **options)
    with pytest.raises(ValueError, match="column 1 of X is constant"):
        bouncy.SpikeSlab(np.column_stack([X[:, 0], np.ones(30)]), Y, **options)
    with pytest.raises(ValueError, match="at least 2 rows"):
        bouncy.SpikeSlab([[1.0]], [1.0], **options)
    with pytest.raises(ValueError, match="inclusion"):
        build().given(inclusion=2.0)
