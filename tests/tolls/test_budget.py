"""A budget lets a flip of cost c pass with probability min(1, e^-c), independent of earlier payments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bouncy._compile import kernel
from bouncy._random import new_state
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import pay
from helpers.statistics import chi_square_test, distribution_test, z_test

COSTS = [0.0, 1e-3, 0.05, 0.3, 1.0, 2.5, 6.0]
N = 400_000


@kernel
def pay_again_and_again(toll, costs, passed, left):
    """Pay row after row of `costs`; write what passed, shape (n, k), and the purse after each row, shape (n,)."""
    purse = toll.purse[0]
    for n in range(costs.shape[0]):
        for k in range(costs.shape[1]):
            passed[n, k], purse = pay(toll, purse, costs[n, k], 0)
        left[n] = purse
    toll.purse[0] = purse


@pytest.fixture
def toll(seed):
    return new_budget(new_state(np.random.SeedSequence([seed, 1])))


def paid(toll, costs):
    passed, left = np.empty(costs.shape, np.bool_), np.empty(costs.shape[0])
    pay_again_and_again(toll, costs, passed, left)
    return passed, left


@pytest.mark.parametrize("cost", [-3.0, *COSTS])
def test_acceptance_probability(toll, cost):
    """Catches a tolerance in the comparison, a toll that is not subtracted, a budget that is not renewed.

    z-test, alpha 1e-6; sees an acceptance wrong by 0.007.
    """
    passed, _ = paid(toll, np.full((N, 1), cost))
    p = min(1.0, math.exp(-cost))
    z_test(passed.mean(), p, standard_error=math.sqrt(p * (1 - p) / N), detect=0.007).check()


def test_decisions_are_independent(toll):
    """Catches a payment that is remembered: three decisions in a row have the product of their probabilities.

    Chi-square, alpha 1e-6; sees a total variation of 0.006. Without the subtraction it would be above 0.1.
    """
    costs = np.array([0.3, 0.7, 0.3])
    passed, _ = paid(toll, np.tile(costs, (N, 1)))
    p = np.exp(-costs)
    cells = np.array([math.prod(np.where([k & 4, k & 2, k & 1], p, 1 - p)) for k in range(8)])
    chi_square_test(np.bincount(passed @ [4, 2, 1], minlength=8), cells, detect=0.008).check()


def test_successive_decisions_are_uncorrelated(toll):
    """Catches memory over longer lags, with costs of both signs. z-test, alpha 1e-6; sees a covariance of 0.005."""
    passed, _ = paid(toll, np.tile([0.5, -1.0, 0.0, 0.5], (N // 2, 1)))
    chain = passed[:, [0, 3]].ravel() - math.exp(-0.5)
    products = np.stack([chain[:-8] * chain[lag : chain.size - 8 + lag] for lag in range(1, 9)], axis=1)
    z_test(products, 0.0, detect=0.005).check()


@pytest.mark.parametrize("outcome", [True, False])
def test_what_is_left_is_again_exponential(toll, outcome):
    """Catches a refund of downhill flips or a left-over that is too large after a payment or a refusal.

    Kolmogorov-Smirnov, alpha 1e-6, on rows that end with a new budget and are therefore independent; sees 0.02.
    """
    rows = np.tile([np.inf, 0.4, -2.0, 0.2], (N, 1))
    passed, left = paid(toll, rows)
    chosen = np.all(passed[:, 1:], axis=1) if outcome else ~passed[:, -1]
    distribution_test(left[chosen], lambda x: -np.expm1(-x), detect=0.02).check()


@pytest.mark.parametrize("cost", [0.0, -1e-300, -5.0, -np.inf])
def test_downhill_is_free_and_refunds_nothing(toll, cost):
    """Catches a purse that grows when energy is released, or infinite energy that makes it infinite."""
    for purse in (1e-300, 1.0, 40.0):
        assert pay(toll, purse, cost, 0) == (True, purse)


@pytest.mark.parametrize("cost", [np.inf, np.nan, 50.0, 1.0])
def test_what_the_purse_does_not_cover_is_refused(toll, cost):
    """Catches a forbidden flip that passes, a cost of NaN that counts as 0, and a purse that is not renewed."""
    with np.errstate(over="ignore"):
        passed, purse = pay(toll, 1.0, cost, 0)
    assert not passed
    assert purse > 0
    assert purse != 1.0


def test_a_payment_is_subtracted(toll):
    """Catches a paid toll that stays in the purse, and a draw of random numbers where none is needed."""
    before = toll.rng.copy()
    assert pay(toll, 1.0, 0.25, 0) == (True, 0.75)
    np.testing.assert_array_equal(toll.rng, before)


def test_the_first_budget_is_exponential(seed):
    """Catches a chain that starts with an empty or fixed purse. Kolmogorov-Smirnov, alpha 1e-6, sees 0.1."""
    children = np.random.SeedSequence([seed, 2]).spawn(2000)
    purses = np.array([new_budget(new_state(child)).purse[0] for child in children])
    distribution_test(purses, lambda x: -np.expm1(-x), detect=0.11).check()
