"""A walk of single flips through any target, and what to expect of it: costs, log p, caches, conditional means."""

from __future__ import annotations

import itertools

import numpy as np
from numba import njit

from bouncy._dispatch import state_arrays
from bouncy.targets.contract import conditional_means, flip_cost, init, log_prob, on_flip

TOLERANCE = 1e-12


def all_states(d):
    """Return the 2^d states of d spins as floats."""
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d)))


def random_spins(rng, d):
    return rng.choice(np.array([-1, 1], np.int8), d)


def assert_log_prob(target, log_p, scale=1.0):
    """Compare the public log p of every state with the formula `log_p` of one state, in floats."""
    states = all_states(target.d)
    np.testing.assert_allclose(
        target.log_prob(states), [log_p(s) for s in states], rtol=TOLERANCE, atol=TOLERANCE * scale
    )


def assert_walk(target, log_p, s, sites, scale):
    """Compare costs, log p, conditional means and caches along a walk with the formula, within 1e-12 of `scale`."""
    view, s = target.view(), s.copy()
    costs, values = np.empty(len(sites)), np.empty(len(sites))
    before = s.copy()
    _walk(view, s, np.asarray(sites, np.int64), costs, values)
    for k, i in enumerate(sites):
        at = float(log_p(before.astype(float)))
        before[i] *= -1
        after = float(log_p(before.astype(float)))
        assert _agree(costs[k], at - after, scale), f"cost of flip {k}, of site {i}: {costs[k]} against {at - after}"
        assert _agree(values[k], after, scale), f"log p after flip {k}, of site {i}: {values[k]} against {after}"
    assert np.array_equal(s, before)
    _assert_caches(view, s, scale)
    assert_means(view, log_p, s, scale)


def costs_along(target, s, sites):
    """Return the cost of each flip of a walk."""
    costs = np.empty(len(sites))
    _walk(target.view(), s.copy(), np.asarray(sites, np.int64), costs, np.empty(len(sites)))
    return costs


def assert_means(view, log_p, s, scale):
    """Compare E[s_i | rest] with the formula, which is s_i tanh(cost / 2)."""
    means = np.zeros(s.size + 3)
    _means(view, s, means)
    here = log_p(s.astype(float))
    for i in range(s.size):
        flipped = s.astype(float)
        flipped[i] *= -1
        expected = s[i] * np.tanh(float(here - log_p(flipped)) / 2)
        assert abs(means[i] - expected) <= 1e-11 + TOLERANCE * scale, f"conditional mean of site {i}"


def _assert_caches(view, s, scale):
    """Compare the caches after many flips with those computed from the spins."""
    kept = [array.copy() for array in state_arrays(view)]
    _init(view, s)
    for old, new in zip(kept, state_arrays(view), strict=True):
        np.testing.assert_allclose(old, new, rtol=TOLERANCE * max(1.0, scale), atol=TOLERANCE * scale)


def _agree(got, expected, scale):
    return got == expected or abs(got - expected) <= TOLERANCE * scale


# Not the package's own decorator: its disk cache is for the package's sources, and tests must see every edit.


@njit(error_model="numpy")
def _walk(view, s, sites, costs, values):
    init(view, s)
    for k in range(sites.size):
        costs[k] = flip_cost(view, s, sites[k])
        s[sites[k]] = -s[sites[k]]
        on_flip(view, s, sites[k])
        values[k] = log_prob(view, s)


@njit(error_model="numpy")
def _means(view, s, out):
    init(view, s)
    conditional_means(view, s, out)


@njit(error_model="numpy")
def _init(view, s):
    init(view, s)
