"""The exact answers agree with plain enumeration where both exist, and with each other and known limits beyond."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from helpers.lattices import random_tree, ring, tree

Array = NDArray[np.float64]


class Enumerated(NamedTuple):
    log_z: float
    mean: Array
    pair_mean: Array


def enumerate_states(couplings: Array, fields: Array) -> Enumerated:
    """Sum over all 2^d states of exp(sum_{i<j} J_ij s_i s_j + f.s), J symmetric with zero diagonal."""
    states = np.array(list(itertools.product([1.0, -1.0], repeat=fields.size)))
    log_weight = np.sum((states @ couplings) * states, axis=1) / 2 + states @ fields
    log_z = float(logsumexp(log_weight))
    p = np.exp(log_weight - log_z)
    return Enumerated(log_z, p @ states, (states * p[:, None]).T @ states)


def coupling_matrix(d: int, bonds: list[tuple[int, int]], couplings: list[float]) -> Array:
    J = np.zeros((d, d))
    for (i, j), coupling in zip(bonds, couplings, strict=True):
        J[i, j] += coupling
        J[j, i] += coupling
    return J


def means_of(exact: Enumerated, bonds: list[tuple[int, int]]) -> Array:
    return np.array([exact.pair_mean[i, j] for i, j in bonds])


# --- ring -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 4, 7, 10])
def test_ring_equals_enumeration(d: int) -> None:
    """Catches a coupling or field attached to the wrong site, and the long way round forgotten."""
    rng = np.random.default_rng(d)
    J, f = rng.normal(size=d), rng.normal(size=d)
    exact = enumerate_states(coupling_matrix(d, [(i, (i + 1) % d) for i in range(d)], J.tolist()), f)
    result = ring(J, f)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(result.mean, exact.mean, atol=1e-13)
    np.testing.assert_allclose(result.pair_mean, exact.pair_mean, atol=1e-13)
    np.testing.assert_allclose(result.neighbour_mean, exact.pair_mean[range(d), np.roll(range(d), -1)], atol=1e-13)


def test_long_ring_has_the_closed_form() -> None:
    """Catches overflow at d = 1000: E[s_i s_{i+k}] = (t^k + t^(d-k)) / (1 + t^d), t = tanh J."""
    d, J = 1000, 2.5
    t = math.tanh(J)
    result = ring(np.full(d, J), 0.0)
    lag = np.arange(d)
    np.testing.assert_allclose(result.pair_mean[0], (t**lag + t ** (d - lag)) / (1 + t**d), rtol=1e-10)
    np.testing.assert_allclose(result.mean, 0, atol=1e-13)
    assert result.log_z == pytest.approx(d * math.log(2 * math.cosh(J)) + math.log1p(t**d), rel=1e-13)


def test_ring_survives_strong_frustration() -> None:
    """Catches underflow: with one negative bond among huge ones, each bond is broken one time in three."""
    result = ring([400.0, 400.0, -400.0], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(result.neighbour_mean, [1 / 3, 1 / 3, -1 / 3], atol=1e-12)
    assert result.log_z == pytest.approx(400 + math.log(6), rel=1e-13)


# --- tree -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 6, 10])
def test_tree_equals_enumeration(d: int) -> None:
    """Catches a message sent twice, a cavity field that keeps it, an edge joined to the wrong parent."""
    rng = np.random.default_rng(d)
    parent = random_tree(d, seed=d)
    J, f = rng.normal(size=d - 1), rng.normal(size=d)
    bonds = [(i, int(parent[i])) for i in range(1, d)]
    exact = enumerate_states(coupling_matrix(d, bonds, J.tolist()), f)
    result = tree(parent, J, f)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(result.mean, exact.mean, atol=1e-13)
    np.testing.assert_allclose(result.edge_mean, means_of(exact, bonds), atol=1e-13)


def test_deep_tree_needs_no_recursion() -> None:
    """Catches recursion or overflow on a path of 10^5 sites, where fieldless answers are products."""
    d, J = 100_000, 1.5
    result = tree(np.arange(d) - 1, J, 0.0)
    np.testing.assert_allclose(result.edge_mean, math.tanh(J), rtol=1e-12)
    assert result.log_z == pytest.approx(d * math.log(2) + (d - 1) * math.log(math.cosh(J)), rel=1e-11)


def test_cut_ring_is_a_path() -> None:
    """Catches a disagreement of belief propagation and transfer matrices on the same chain with fields."""
    d = 200
    rng = np.random.default_rng(5)
    J, f = rng.normal(size=d), rng.normal(size=d)
    J[-1] = 0.0
    round_way, path = ring(J, f), tree(np.arange(d) - 1, J[:-1], f)
    np.testing.assert_allclose(path.mean, round_way.mean, atol=1e-12)
    np.testing.assert_allclose(path.edge_mean, round_way.neighbour_mean[:-1], atol=1e-12)
    assert path.log_z == pytest.approx(round_way.log_z, rel=1e-12)


def test_tree_survives_strong_couplings() -> None:
    """Catches overflow of cosh: a rigid tree follows the sum of its fields."""
    result = tree([-1, 0, 0, 2], [1000.0, -1000.0, 1000.0], [0.3, 0.2, 0.1, 0.05])
    m = math.tanh(0.3 + 0.2 - 0.1 - 0.05)
    np.testing.assert_allclose(result.mean, [m, m, -m, -m], rtol=1e-10)
    np.testing.assert_allclose(result.edge_mean, [1, -1, 1])


def test_random_tree_is_uniform_over_earlier_sites() -> None:
    """Catches parents out of range, a seed without effect, and the last admissible parent never chosen."""
    parent = random_tree(2000, seed=1)
    assert parent[0] == -1
    assert np.all((parent[1:] >= 0) & (parent[1:] < np.arange(1, 2000)))
    np.testing.assert_array_equal(parent, random_tree(2000, seed=1))
    assert np.any(parent != random_tree(2000, seed=2))
    assert {int(random_tree(3, seed=k)[2]) for k in range(60)} == {0, 1}
