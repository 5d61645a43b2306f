"""Are the rivals that benchmarks divide by right? A ratio to a wrong one says nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from math import asin, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.stats

import bouncy
from bouncy._compile import kernel
from bouncy._random import fill_normal, new_state
from conftest import base_seed
from helpers.statistics import z_test

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
BATCHES = 50


class Modules(NamedTuple):
    """The benchmark modules of these names."""

    conditionals: Any
    continuous: Any


@pytest.fixture(scope="module")
def modules() -> Iterator[Modules]:
    """Return modules that are no package and lie beside each other."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import conditionals
        import continuous

        yield Modules(conditionals, continuous)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_exact_moments(modules, rho):
    """Catches a wrong quadrature: two variables have a closed form, with either kind of correlation."""
    mean = (1.0 + rho) / (2.0 * sqrt(2.0 * pi)) / (0.25 + asin(rho) / (2.0 * pi))
    assert modules.continuous.equicorrelated_moments(2, rho).mean == pytest.approx([mean, mean], rel=1e-8)
    assert modules.continuous.autoregressive_moments(2, rho).mean == pytest.approx([mean, mean], rel=1e-8)


def test_exact_variances(modules):
    """Catches wrong second moments: independent variables are half-normal, far along a chain as well."""
    expected = np.full(40, 1.0 - 2.0 / pi)
    assert modules.continuous.equicorrelated_moments(40, 0.0).variance == pytest.approx(expected, rel=1e-8)
    assert modules.continuous.autoregressive_moments(40, 0.0).variance == pytest.approx(expected, rel=1e-8)


def test_hazard(modules):
    """Catches a hazard that loses its digits in a tail, or at the change from one formula to the other."""
    for a in (-30.0, -3.0, 0.0, 2.0, 5.999, 6.0, 30.0):
        expected = np.exp(scipy.stats.norm.logpdf(a) - scipy.stats.norm.logsf(a))
        assert modules.conditionals.hazard(a) == pytest.approx(expected, rel=1e-9)


def test_normal_above(modules):
    """Catches a wrong law beyond a bound, in each of the three ways to draw from it and where they meet."""
    normal_above = modules.conditionals.normal_above

    @kernel
    def draw(bound, out, spare, rng):
        for k in range(out.size):
            fill_normal(rng, spare)
            out[k] = normal_above(bound, spare[0], spare, rng)

    rng = new_state(np.random.SeedSequence(base_seed()))
    bounds = np.array([-2.0, -0.5, 0.2, 0.44, 0.46, 3.0, 20.0])
    draws = np.empty((bounds.size, 20_000))
    for bound, row in zip(bounds, draws, strict=True):
        draw(bound, row, np.empty(1), rng)
    hazard = np.array([modules.conditionals.hazard(bound) for bound in bounds])
    assert (draws > bounds[:, None]).all()
    assert z_test(draws.T, hazard, detect=0.06).passed
    assert z_test(np.square(draws).T, 1.0 + bounds * hazard, detect=0.2).passed


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("kind", ["equicorrelated", "autoregressive"])
def test_orthant(modules, kind, conditional):
    """Catches a Gibbs sampler of another law: a stale product with the precision, a wrong conditional mean."""
    target = getattr(modules.continuous, kind)(5, 0.6)
    gibbs = modules.conditionals.Orthant(target.potential.coupling, base_seed(), conditional)
    gibbs.average(100)
    batches = [gibbs.average(2_000) for _ in range(BATCHES)]
    exact = getattr(modules.continuous, f"{kind}_moments")(5, 0.6).mean
    assert z_test(batches, exact, detect=0.04).passed


def test_indicators(modules):
    """Catches a Gibbs sampler of another posterior: wrong odds, a wrong coefficient, residuals that are not kept."""
    rng = np.random.default_rng(base_seed())
    X = rng.standard_normal((20, 3))
    X[:, 1] += X[:, 0]
    X -= X.mean(axis=0)
    y = 0.4 * X[:, 0] + rng.standard_normal(20)
    y -= y.mean()
    prior = {"inclusion": 0.3, "slab_scale": 0.8, "noise_scale": 1.2}
    gibbs = modules.conditionals.Indicators(X, y, **prior, seed=base_seed())
    gibbs.average(100)
    batches = np.array([gibbs.average(2_000) for _ in range(BATCHES)])
    inclusion, coefficients = _enumerated(X, y, **prior)
    for rows in (batches[:, :2], batches[:, 2:]):
        assert z_test(rows, [inclusion, coefficients], detect=0.03).passed


def _enumerated(X, y, inclusion, slab_scale, noise_scale):
    """Return inclusion probabilities and E[beta], (p,) each, by a sum over all models."""
    scales = {"slab_scale": slab_scale, "noise_scale": noise_scale}
    target = bouncy.VariableSelection(X, y, prior="independent", inclusion=inclusion, **scales)
    models = np.array(list(product([-1, 1], repeat=X.shape[1])))
    log_p = target.log_prob(models)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    beta = np.zeros(models.shape)
    for row, model in zip(beta, models, strict=True):
        Z = X[:, model > 0]
        row[model > 0] = np.linalg.solve(Z.T @ Z + (noise_scale / slab_scale) ** 2 * np.eye(Z.shape[1]), Z.T @ y)
    return weight @ (models > 0), weight @ beta
