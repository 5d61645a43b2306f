"""Restricted Boltzmann machines against their formula in 0/1 and in -1/+1, with the hidden units and without them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bouncy
from bouncy.targets.mrf import MRF
from bouncy.targets.rbm import RBM, VisibleRBM
from targets.walks import TOLERANCE, all_states, assert_log_prob, assert_walk, costs_along, random_spins

UNITS = ("binary", "spin")
few = settings(max_examples=40)


def values(s, units):
    """Return spins as what the formula means by a unit's state, in extended precision."""
    s = np.asarray(s, np.longdouble)
    return (1 + s) / 2 if units == "binary" else s


def joint(W, b, c, units):
    """Return log p(v, h) = v'Wh + b.v + c.h as a function of the spins of all units."""
    W, b, c = (np.asarray(array, np.longdouble) for array in (W, b, c))

    def log_p(s):
        v, h = values(s[: len(b)], units), values(s[len(b) :], units)
        return np.sum(v[:, None] * W * h) + np.sum(b * v) + np.sum(c * h)

    return log_p


def marginal(W, b, c, units):
    """Return log p(v) as a function of visible spins: the two states of each hidden unit added up."""
    W, b, c = (np.asarray(array, np.longdouble) for array in (W, b, c))

    def log_p(s):
        v = values(s, units)
        activation = c + np.sum(v[:, None] * W, axis=0)
        other = 0 * activation if units == "binary" else -activation
        return np.sum(b * v) + np.sum(np.logaddexp(activation, other))

    return log_p


def random_parameters(rng, n_visible, n_hidden, sigma=1.0):
    return (
        sigma * rng.standard_normal((n_visible, n_hidden)),
        sigma * rng.standard_normal(n_visible),
        sigma * rng.standard_normal(n_hidden),
    )


def scale_of(W, b, c):
    """Return the sum of all that is added up to log p."""
    return 4 * (np.sum(np.abs(W)) + np.sum(np.abs(b)) + np.sum(np.abs(c))) + c.size


@pytest.fixture(params=UNITS)
def units(request):
    return request.param


# Values


def test_the_joint_log_prob_is_the_formula(units, rng):
    """Would catch 0/1 and -1/+1 exchanged, visible and hidden exchanged, a sign, or a lost constant."""
    parameters = random_parameters(rng, 3, 2)
    assert_log_prob(RBM(*parameters, units=units), joint(*parameters, units), 10.0)


def test_the_marginal_is_the_joint_with_hidden_units_summed_out(units, rng):
    """Would catch a marginal of another model, or without the constant of the joint."""
    W, b, c = random_parameters(rng, 4, 3)
    rbm = RBM(W, b, c, units=units)
    visible = rbm.marginal()
    assert_log_prob(visible, marginal(W, b, c, units), 10.0)
    hidden = all_states(3)
    for s, log_p in zip(all_states(4), visible.log_prob(all_states(4)), strict=True):
        terms = rbm.log_prob(np.hstack([np.tile(s, (8, 1)), hidden]))
        assert log_p == pytest.approx(np.logaddexp.reduce(terms), rel=1e-13)


def test_exact_answers_of_both_views_agree(units, rng):
    """Would catch caches of one of the two going wrong along the walk over all states."""
    rbm = RBM(*random_parameters(rng, 4, 3), units=units)
    together, alone = bouncy.exact(rbm), bouncy.exact(rbm.marginal())
    np.testing.assert_allclose(alone.mean, together.mean[:4], atol=1e-13)
    np.testing.assert_allclose(alone.pair_mean, together.pair_mean[:4, :4], atol=1e-13)
    assert alone.log_z == pytest.approx(together.log_z, rel=1e-13)


@pytest.mark.parametrize(("n_visible", "n_hidden"), [(1, 1), (2, 3), (7, 1), (64, 20), (30, 500)])
def test_costs_and_caches_of_the_marginal_follow_a_walk(n_visible, n_hidden, units, rng):
    """Would catch a hidden unit that misses a flip, or a product of ratios that loses a factor."""
    parameters = random_parameters(rng, n_visible, n_hidden)
    t = RBM(*parameters, units=units).marginal()
    flips = rng.integers(n_visible, size=100)
    assert_walk(t, marginal(*parameters, units), random_spins(rng, n_visible), flips, scale_of(*parameters))


@pytest.mark.parametrize(("n_visible", "n_hidden"), [(1, 1), (3, 2), (60, 1), (15, 20)])
def test_costs_and_caches_of_the_joint_follow_a_walk(n_visible, n_hidden, units, rng):
    """Would catch a wrong block of the couplings, in either storage."""
    parameters = random_parameters(rng, n_visible, n_hidden)
    t = RBM(*parameters, units=units)
    assert t.to_mrf().is_sparse == (n_visible == 60)
    flips = rng.integers(t.d, size=100)
    assert_walk(t, joint(*parameters, units), random_spins(rng, t.d), flips, scale_of(*parameters))


@pytest.mark.parametrize("sigma", [1e-9, 1e-3, 10.0, 100.0, 1e3, 1e5])
def test_weights_of_any_size_lose_no_digits(sigma, units, rng):
    """Would catch overflow, underflow or cancellation: 1 - sigmoid(40), exp(800), a product of many small ratios."""
    parameters = random_parameters(rng, 6, 120, sigma)
    t = RBM(*parameters, units=units).marginal()
    flips = rng.integers(6, size=60)
    assert_walk(t, marginal(*parameters, units), random_spins(rng, 6), flips, scale_of(*parameters))


@pytest.mark.parametrize("weight", [-15.0, 15.0])
def test_a_product_of_many_ratios_on_one_side(weight, units):
    """Would catch a product that becomes zero or infinite because all hidden units push the same way."""
    W, b, c = np.full((3, 100), weight), np.zeros(3), np.full(100, 40.0)
    t = RBM(W, b, c, units=units).marginal()
    assert_walk(t, marginal(W, b, c, units), -np.ones(3, np.int8), [0, 1, 2, 1, 0, 2], scale_of(W, b, c))


def test_small_costs_are_exact_where_large_terms_cancel(units):
    """Would catch a cost that is the difference of two large logarithms: a weight of 30 against biases that undo it."""
    W, b, c = np.array([[30.0, 0.5], [0.3, -0.2]]), np.array([0.1, 0.2]), np.array([-500.0, 0.1])
    t = RBM(W, b, c, units=units).marginal()
    log_p = marginal(W, b, c, units)
    s = np.array([-1, 1], np.int8)
    for site, cost in zip([0, 1], [costs_along(t, s, [site])[0] for site in (0, 1)], strict=True):
        flipped = s.copy()
        flipped[site] *= -1
        # activations of order 500 are rounded to 1e-13
        assert cost == pytest.approx(float(log_p(s) - log_p(flipped)), abs=1e-13 * 30)


@st.composite
def machines(draw):
    """Draw weights and biases with zeros, ties and extremes."""
    n_visible, n_hidden = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    number = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 20.0, -25.0, 200.0, -750.0]), st.floats(-5, 5))
    W = [[draw(number) for _ in range(n_hidden)] for _ in range(n_visible)]
    b, c = [draw(number) for _ in range(n_visible)], [draw(number) for _ in range(n_hidden)]
    flips = draw(st.lists(st.integers(0, n_visible - 1), max_size=8))
    return np.array(W), np.array(b), np.array(c), flips


@few
@given(machine=machines(), units=st.sampled_from(UNITS))
def test_any_small_machine_means_its_formula(machine, units):
    """Would catch a special value that breaks the fast product, the slow one, or the switch between the two."""
    W, b, c, flips = machine
    rbm = RBM(np.where(np.abs(W) < 1e-6, 0.0, W), b, c, units=units)
    W = rbm.W
    scale = float(scale_of(W, b, c))
    assert_log_prob(rbm, joint(W, b, c, units), scale)
    assert_walk(rbm.marginal(), marginal(W, b, c, units), -np.ones(len(b), np.int8), flips, scale)


def test_probabilities_of_hidden_units_come_back_from_the_edge():
    """Would catch odds that are multiplied after they became zero, and stay zero for ever."""
    W = np.full((80, 1), 15.0)
    t = RBM(W, 0.0, -600.0, units="spin").marginal()
    there = list(range(80))
    log_p = marginal(W, np.zeros(80), [-600.0], "spin")
    assert_walk(t, log_p, -np.ones(80, np.int8), [*there, *reversed(there), *there[:45]], 1e4)


# Hidden units given visible ones


def test_hidden_means_are_the_conditional_means_of_the_joint(units, rng):
    """Would catch probabilities returned as means of spins, or the reverse, and batches reshaped wrongly."""
    rbm = RBM(*random_parameters(rng, 3, 2), units=units)
    v = np.array(list(itertools.product([-1, 1], repeat=3))).reshape(2, 4, 3)
    means = rbm.hidden_means(v)
    assert means.shape == (2, 4, 2)
    for index in np.ndindex(2, 4):
        given = rbm.clamp({f"v{i}": int(v[index][i]) for i in range(3)})
        assert given.labels == ("h0", "h1")
        np.testing.assert_allclose(means[index], bouncy.exact(given).mean, atol=1e-14)
    with pytest.raises(ValueError, match=r"v must have shape \(\.\.\., 3\)"):
        rbm.hidden_means([1, 1])


# Conditioning, temperature, labels


def test_clamping_the_marginal_keeps_log_prob_and_family(units, rng):
    """Would catch evidence that is not handed on to the activations, or a lost constant."""
    t = RBM(*random_parameters(rng, 5, 3), units=units).marginal()
    given = t.clamp({"v1": -1, "v3": +1})
    assert type(given) is VisibleRBM
    assert given.labels == ("v0", "v2", "v4")
    full = given.complete(all_states(3).astype(int))
    np.testing.assert_allclose(given.log_prob(all_states(3)), t.log_prob(full), rtol=1e-12)


def test_clamping_the_joint_keeps_log_prob(units, rng):
    """Would catch visible and hidden units exchanged when they are clamped."""
    t = RBM(*random_parameters(rng, 3, 2), units=units)
    given = t.clamp({"v1": -1, "h0": +1})
    assert given.labels == ("v0", "v2", "h1")
    full = given.complete(all_states(3).astype(int))
    np.testing.assert_allclose(given.log_prob(all_states(3)), t.log_prob(full), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.4, 2.0])
def test_tempering_multiplies_log_prob(beta, units, rng):
    """Would catch a marginal that is tempered before the hidden units are summed out, which is another law."""
    rbm = RBM(*random_parameters(rng, 3, 2), units=units)
    assert type(rbm.tempered(beta)) is RBM
    for t in (rbm, rbm.marginal()):
        hot = t.tempered(beta)
        assert hot.labels == t.labels
        np.testing.assert_allclose(
            hot.log_prob(all_states(t.d)), beta * t.log_prob(all_states(t.d)), rtol=TOLERANCE, atol=TOLERANCE
        )


def test_the_equivalent_markov_random_field(units, rng):
    """Would catch edges within a layer, or a conversion that is another distribution."""
    W, b, c = random_parameters(rng, 3, 2)
    W[1, 0] = 0.0
    rbm = RBM(W, b, c, units=units)
    mrf = rbm.to_mrf()
    assert isinstance(mrf, MRF)
    assert mrf.labels == rbm.labels == ("v0", "v1", "v2", "h0", "h1")
    np.testing.assert_allclose(mrf.log_prob(all_states(5)), rbm.log_prob(all_states(5)), rtol=1e-13, atol=1e-13)
    pattern = np.zeros((5, 5), bool)
    pattern[:3, 3:] = W != 0
    assert np.array_equal(rbm.edges().toarray(), pattern | pattern.T)


def test_parameters_are_copied_and_scalars_fill():
    """Would catch a model that changes with the caller's arrays."""
    W = np.ones((2, 3))
    rbm = RBM(W, 1.0, [1, 2, 3])
    W[:] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        rbm.W[:] = 8.0
    assert np.array_equal(rbm.W, np.ones((2, 3)))
    assert np.array_equal(rbm.b, [1.0, 1.0])
    assert np.array_equal(rbm.c, [1.0, 2.0, 3.0])
    assert (rbm.d, rbm.n_visible, rbm.n_hidden) == (5, 2, 3)
    assert repr(rbm) == "RBM(2 visible, 3 hidden, binary units)"
    assert repr(rbm.marginal()) == "VisibleRBM(2 visible, 3 hidden)"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0, 2.0],), {}, r"W must have shape \(n_visible, n_hidden\) .* got shape \(2,\)"),
        ((np.ones((2, 0)),), {}, r"at least one unit of each kind, got shape \(2, 0\)"),
        (([[1.0, math.nan]],), {}, r"W\[0, 1\] = nan"),
        ((np.ones((2, 3)), [1.0]), {}, r"b must be a scalar or have shape \(2,\), one per visible unit, got .*\(1,\)"),
        ((np.ones((2, 3)), 0.0, [1.0]), {}, r"c must be a scalar or have shape \(3,\), one per hidden unit"),
        ((np.ones((2, 3)), [0, math.inf]), {}, r"b\[1\] = inf"),
        ((np.ones((2, 3)),), {"units": "0/1"}, r"units must be 'binary' \(0/1\) or 'spin' \(-1/\+1\), got '0/1'"),
        ((np.full((2, 3), 1e308),), {}, r"overflows \(largest 1e\+308\); rescale"),
        (
            ([[1e10, 1e-5]],),
            {"units": "spin"},
            r"Markov random field of this RBM .*: M\[0, 2\] = -1e-05 is more than 2\^40",
        ),
    ],
)
def test_refusals_name_the_entry(arguments, options, message):
    """Would catch input that is taken for something else, or an error that does not say what was wrong."""
    with pytest.raises(ValueError, match=message):
        RBM(*arguments, **options)
