"""Layer L5: a run that stops at a bound on its standard errors meets the bound, and its intervals cover the truth.

A run that stops as soon as an estimate of its error happens to be small has error bars that are too small. These tests
look at the errors themselves, of many runs, when each of them has stopped.
"""

from functools import cache

import numpy as np
import pytest
from scipy.special import chdtri

import bouncy
from bouncy.results.batches import student_quantile
from bouncy.run.goal import Goal
from bouncy.run.precision import look
from conftest import base_seed
from helpers.statistics import coverage_test


def size_of_magnetisation(s):
    return np.abs(s.mean(axis=1, dtype=float))


@cache
def _covariance():
    A = np.random.default_rng(5).normal(size=(5, 5))
    return A @ A.T + 0.3 * np.eye(5)


def _expectation(target, function):
    """Return the exact mean of a function of spins."""
    s = 1 - 2 * (np.arange(2**target.d)[:, None] >> np.arange(target.d) & 1).astype(np.int8)
    p = np.exp(target.log_prob(s) - target.log_prob(s).max())
    return np.atleast_1d(p @ function(s) / p.sum())


def _case(name):
    """Return target, sampler, the bounded quantity, the bound, and the truth."""
    kind, _, what = name.partition("-")
    if kind == "hard":
        target = bouncy.MRF.random(10, sigma_M=0.6, sigma_r=0.2, seed=1)
        exact = bouncy.exact(target)
        if what == "pairs":
            return target, None, "pair_mean", 0.02, exact.pair_mean[np.triu_indices(10, 1)]
        return target, None, "mean", 0.02, exact.mean
    if name == "critical":
        return bouncy.MRF.ising((8, 8), coupling=0.42), None, "mean", 0.08, np.zeros(64)
    return bouncy.Gaussian(np.zeros(5), cov=_covariance()), name, "path_mean", 0.03, np.zeros(5)


CASES = ["hard", "hard-pairs", "critical", "bps"]
# A chain alone is tried where there is most to learn; the others take minutes.
ALONE = ("hard",)


def _values(run, what):
    if callable(what):
        return tuple(np.atleast_1d(x) for x in run.expect(what))
    found = getattr(run, what), getattr(run, f"{what}_se")
    return tuple(x[np.triu_indices(len(x), 1)] if x.ndim == 2 else x for x in found)


def _study(name, chains, replications):
    """Return errors in units of the bound, (replication, k), which intervals cover, and draws of each run."""
    target, sampler, what, bound, truth = _case(name)
    errors, covered, draws = [], [], []
    for k in range(replications):
        run = bouncy.sample(
            target, sampler, chains=chains, until_se=bound, se_of=what, keep="means", seed=base_seed() + k, threads=1
        )
        assert run.stopped_by == "until_se"
        value, error = _values(run, what)
        assert error.max() < bound
        half = student_quantile(0.95, run._sums.degrees_of_freedom) * error
        errors.append((value - truth) / bound)
        covered.append(np.abs(value - truth) <= half)
        draws.append(run.draws_per_chain)
    return np.array(errors), np.array(covered), np.array(draws)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chains"), [(name, n) for name in CASES for n in (1, 4) if n == 4 or name in ALONE])
def test_precise_runs_are_precise_closely(name, chains):
    """Catches error bars at the end of a run that are off by 20 %, and errors above the bound: 240 runs of each.

    Coverage between 90.5 and 99 %, with alpha = 0.01 by the design effect of the sites; the true standard error, from
    the errors of all runs and the length of each, is below 1.03 of the bound in nine of ten runs; runs are at most
    twice as long as they have to be, unless the batches of slow targets have to be longer than that.
    """
    errors, covered, draws = _study(name, chains, 240)
    coverage_test(covered, 0.95, 0.905, 0.99, alpha=0.01, name=name).check()
    needed = (errors**2 * draws[:, None]).mean(axis=0).max()
    assert np.quantile(np.sqrt(needed / draws), 0.9) < 1.03
    if name in ("hard", "bps"):
        assert np.median(draws) < 2.0 * needed


@pytest.mark.slow
def test_intervals_of_functions_cover():
    """Catches error bars of `expect` that are wrong by a third: 150 runs, two functions of states.

    Correct intervals cover less than 89 % or more than 99.5 % of 300 with probability below 1e-3.
    """
    target = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
    both = lambda s: np.stack([s[:, 0] * s[:, 1], size_of_magnetisation(s)], axis=1)  # noqa: E731
    truth = _expectation(target, both)
    covered = []
    for k in range(150):
        run = bouncy.sample(target, chains=4, draws=400, warmup=100, seed=base_seed() + k, threads=1)
        value, error = run.expect(both)
        covered.append(np.abs(value - truth) <= student_quantile(0.95, run._sums.degrees_of_freedom) * error)
    assert 0.89 < np.mean(covered) < 0.995


def test_a_bound_needs_its_margin():
    """Catches a bound that is compared with the noisy estimate itself."""
    run = bouncy.sample(bouncy.MRF.random(6, seed=3), chains=4, draws=4000, warmup=100, keep="means", seed=base_seed())
    degrees = run._sums.degrees_of_freedom
    margin = np.sqrt(degrees / chdtri(degrees, 0.9))
    assert margin > 1.1
    worst = run.mean_se.max()
    assert look(run, Goal(until_se=1.001 * margin * worst)).reached
    verdict = look(run, Goal(until_se=0.5 * margin * worst))
    assert not verdict.reached
    assert verdict.needed == pytest.approx(4.0)
    assert not look(run, Goal(until_se=0.999 * margin * worst)).reached


@pytest.mark.slow
def test_short_batches_are_not_trusted():
    """Catches a stop while batches are shorter than the autocorrelation time."""
    slow = bouncy.MRF.ising((8, 8), coupling=0.42)
    run = bouncy.sample(slow, chains=4, draws=1000, warmup=200, keep="means", seed=base_seed())
    verdict = look(run, Goal(until_se=10.0))
    assert not verdict.reached
    assert verdict.needed > 1.5
