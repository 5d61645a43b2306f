"""The probit example: its posterior against quadrature, and a small version of all of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr

import bouncy
from conftest import base_seed
from helpers.statistics import z_test

PATH = Path(__file__).parents[2] / "examples" / "probit.py"
X = np.array([[0.5], [1.5], [-0.7], [2.0], [-1.2], [0.3], [0.9], [-0.4]])
ANSWER = np.array([1, 1, 1, -1, -1, 1, 1, -1])


@pytest.fixture(scope="module")
def probit():
    spec = importlib.util.spec_from_file_location("probit", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact_moments(prior_scale: float) -> tuple[float, float]:
    """Return mean and variance of one coefficient, by quadrature of prod_i Phi(answer_i x_i beta) times the prior."""
    beta = np.linspace(-12.0, 12.0, 20001)
    log_density = log_ndtr(np.outer(beta, ANSWER * X[:, 0])).sum(axis=1) - 0.5 * (beta / prior_scale) ** 2
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ beta
    return mean, weight @ (beta - mean) ** 2


@pytest.mark.parametrize("sampler", ["hmc", "gibbs"])
def test_coefficient_has_the_law_of_the_probit_likelihood(probit, sampler):
    """Catches a sign of the joint precision, a box on the wrong side, a lost prior (false alarms: 1e-6; sees 0.05)."""
    target = probit.posterior(X, ANSWER, ["slope"])
    run = bouncy.sample(target, sampler, chains=8, draws=8000, seed=base_seed(), progress=False)
    mean, variance = exact_moments(probit.PRIOR_SCALE)
    i, degrees = run.index("slope"), run.diagnostics["batches"] - 1
    for estimate, error, truth in (
        (run.mean, run.mean_se, mean),
        (run.variance, run.variance_se, variance),
    ):
        z_test(estimate[[i]], truth, error[[i]], degrees_of_freedom=degrees, detect=0.05, name=sampler).check()


def test_gibbs_sampler_agrees_too(probit):
    """Catches a reference that is wrong itself, by 0.08 or more (false alarms: 1e-6)."""
    draws = probit.gibbs(X, ANSWER, 40 * 500, base_seed())[2000:]
    found = probit.of_draws(draws, 1.0)
    mean, variance = exact_moments(probit.PRIOR_SCALE)
    z_test(found.mean, mean, found.error, degrees_of_freedom=39, detect=0.08, name="gibbs").check()
    assert found.deviation[0] ** 2 == pytest.approx(variance, rel=0.2)


@pytest.mark.slow
def test_example_runs_and_its_samplers_agree(probit, tmp_path, capsys):
    """Catches an example that no longer runs, and samplers that differ by eight errors (false alarms: 1e-6)."""
    out = tmp_path / "new" / "probit.png"
    hmc, gibbs, reference = probit.main(small=True, out=out, seed=base_seed())
    for other in (gibbs, reference):
        score = abs(hmc.mean - other.mean) / np.hypot(hmc.error, other.error)
        assert score.max() < 8.0, f"{hmc.sampler} and {other.sampler}"
    assert "effective draws per second" in capsys.readouterr().out
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 30_000
