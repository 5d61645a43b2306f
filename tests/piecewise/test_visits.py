"""How often coefficients that may be zero are visited in a sweep, and by which guess."""

from __future__ import annotations

import numpy as np
import pytest

import bouncy
from bouncy.piecewise.coupling import as_coupling
from bouncy.piecewise.spikes import POINT, PRECISION, VARIANCE, place_of
from bouncy.piecewise.visits import OFTEN, expected_shares, visits_of
from conftest import base_seed


@pytest.mark.parametrize("n", [0, 1, 16, 17, 33, 90])
@pytest.mark.parametrize("likely", [0, 1, 16, 20, 90])
def test_every_window_is_visited_as_often_as_it_counts(n, likely):
    """Catches windows that are left out, and coefficients that are in two windows or in none."""
    shares = np.full(n, 0.01)
    shares[np.random.default_rng(base_seed()).permutation(n)[:likely]] = 0.5
    order, visits, times = visits_of(shares, 16)
    often = -(-min(likely, n) // 16)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(np.bincount(visits, minlength=times.size), times)
    assert (times == OFTEN).sum() == (often if often <= 0.5 * times.size else 0)
    assert (shares[order[:likely]] == 0.5).all()


def test_visits_are_spread_over_the_sweep():
    """Catches visits of a window one after the other, of which the later would find next to nothing new."""
    _, visits, _ = visits_of(np.r_[np.full(20, 0.5), np.zeros(180)], 16)
    for window in range(2):
        gaps = np.diff(np.flatnonzero(visits == window))
        assert gaps.min() >= 3
        assert gaps.max() <= 5


def test_independent_coefficients_are_guessed_exactly():
    """Catches a mean field with another mass of the point, its mean or a coefficient without a point."""
    A, b = np.array([2.0, 5.0, 1.0, 3.0]), np.array([1.0, -4.0, 0.5, 2.0])
    point, odds = np.array([0.0, 0.3, -1.0, 0.0]), np.array([2.0, 8.0, 0.5, 0.0])
    r = A * point - b
    exact = 1.0 / (1.0 + odds * np.exp(-0.5 * r * r / A))
    np.testing.assert_allclose(expected_shares(as_coupling(np.diag(A)), b, A, point, odds), exact, rtol=1e-12)


def test_the_guess_comes_near_inclusion_probabilities():
    """Catches a mean field that does not see other coefficients: two are in the model, correlated."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 40)) + 0.5 * rng.standard_normal((200, 1))
    y = X[:, 5] - X[:, 30] + rng.standard_normal(200)
    target = bouncy.SpikeSlab(X, y, inclusion=0.1, slab_scale=1.0, noise_scale=1.0)
    run = bouncy.sample(target, "gibbs", draws=1000, chains=2, seed=base_seed(), progress=False)
    place = target.view().spikes.place
    assert set(np.argsort(place)[:2]) == {5, 30}
    guess = shares_of(target)
    np.testing.assert_allclose(guess, run.inclusion, atol=0.1)


def shares_of(target: bouncy.SpikeSlab) -> np.ndarray:
    view, d = target.view(), target.d
    inclusion, slab = np.broadcast_to(target.inclusion, d), np.broadcast_to(target.slab_scale, d)
    odds = (1.0 - inclusion) / inclusion * slab * np.sqrt(view.diagonal)
    return expected_shares(view.coupling, view.linear, view.diagonal, np.zeros(d), odds)


def test_those_that_may_be_in_the_model_come_first():
    """Catches constants, and places, of other coefficients than those that a window stands for."""
    rng = np.random.default_rng(4)
    X, strong = rng.standard_normal((300, 70)) * rng.uniform(1.0, 2.0, 70), [11, 40, 69]
    y = X[:, strong].sum(axis=1) + rng.standard_normal(300)
    target = bouncy.SpikeSlab(X, y, inclusion=0.01, slab_scale=1.0, noise_scale=1.0)
    view = target.view()
    spikes = view.spikes
    assert set(spikes.order[:3]) == set(strong)
    np.testing.assert_array_equal(spikes.order[spikes.place], np.arange(70))
    np.testing.assert_array_equal(spikes.times, [OFTEN, 1.0, 1.0, 1.0, 1.0])
    for i in range(70):
        at, _ = place_of(spikes.place[i])
        assert spikes.constants[at + PRECISION] == view.diagonal[i]
        assert spikes.constants[at + VARIANCE] == 1.0 / view.diagonal[i]
        assert spikes.constants[at + POINT] == 0.0
