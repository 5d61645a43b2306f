"""Exact enumeration against a naive sum over all states, against closed forms, and at its edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from bouncy import enumeration
from bouncy.enumeration import exact, states
from bouncy.targets.by_address import linked
from bouncy.targets.contract import Target, TargetError, target_part
from bouncy.targets.mrf import MRF

RELATIVE = 1e-12


def naive(M, r):
    """Return mean, pair mean, log Z, mean and variance of log p, and probabilities, in extended precision."""
    s = states(len(r)).astype(np.longdouble)
    M, r = np.asarray(M, np.longdouble), np.asarray(r, np.longdouble)
    log_p = -s @ r - np.sum((s @ M) * s, axis=1) / 2
    w = np.exp(log_p - log_p.max())
    p = w / w.sum()
    log_p_mean = p @ log_p
    return (
        p @ s,
        s.T @ (s * p[:, None]),
        log_p.max() + np.log(w.sum()),
        log_p_mean,
        p @ (log_p - log_p_mean) ** 2,
        p,
    )


def assert_equal_to_naive(e, M, r):
    mean, pair_mean, log_z, log_prob_mean, log_prob_var, p = (np.asarray(x, np.float64) for x in naive(M, r))
    # an expectation of +-1 may be zero by cancellation: its error is relative to E|s| = 1
    np.testing.assert_allclose(e.mean, mean, rtol=RELATIVE, atol=RELATIVE)
    np.testing.assert_allclose(e.pair_mean, pair_mean, rtol=RELATIVE, atol=RELATIVE)
    np.testing.assert_allclose(e.log_z, log_z, rtol=RELATIVE)
    np.testing.assert_allclose(e.log_prob_mean, log_prob_mean, rtol=RELATIVE, atol=RELATIVE)
    np.testing.assert_allclose(e.log_prob_var, log_prob_var, rtol=RELATIVE, atol=RELATIVE)
    np.testing.assert_allclose(e.probabilities, p, rtol=RELATIVE, atol=0)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 10, 12])
@pytest.mark.parametrize("sigma_M", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_small_models_equal_the_naive_sum(d, sigma_M, storage, monkeypatch):
    """Would catch a state visited twice or never, a wrong index, or rounding left to grow along the walk."""
    t = MRF.random(d, sigma_M, sigma_r=0.5, seed=d)
    assert_equal_to_naive(exact(MRF(storage(t.M), t.r)), t.M, t.r)
    monkeypatch.setattr(enumeration, "_BLOCK_SITES", 4)
    assert_equal_to_naive(exact(MRF(storage(t.M), t.r)), t.M, t.r)


def test_the_interpreted_walk_is_the_compiled_one(monkeypatch):
    """Would catch a kernel whose compiled integers or branches behave otherwise than the source reads."""
    t = MRF.random(6, seed=4)
    compiled = exact(t)
    monkeypatch.setattr(enumeration, "_walk", enumeration._walk.py_func)
    np.testing.assert_allclose(exact(t).probabilities, compiled.probabilities, rtol=1e-14)


def test_state_k_has_the_bits_of_k():
    """Would catch probabilities in another order than `states` and the docstring say."""
    assert states(3)[5].tolist() == [1, -1, 1]
    r = np.array([1.0, -0.3, 0.2])
    e = exact(MRF(np.zeros((3, 3)), r))
    assert np.log(e.probabilities[5]) + e.log_z == pytest.approx(-1.0 - 0.3 - 0.2)
    assert states(0).shape == (1, 0)


def test_independent_spins():
    """Would catch a wrong sign of r, log Z or mean: E[s] = -tanh(r), Z = prod 2 cosh(r)."""
    r = np.linspace(-3, 2, 16)
    e = exact(MRF(sp.csr_array((16, 16)), r))
    expected = np.outer(np.tanh(r), np.tanh(r))
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(e.mean, -np.tanh(r), rtol=RELATIVE, atol=1e-14)
    np.testing.assert_allclose(e.pair_mean, expected, rtol=RELATIVE, atol=1e-14)
    assert e.log_z == pytest.approx(np.sum(np.log(2 * np.cosh(r))), rel=RELATIVE)
    assert e.log_prob_mean == pytest.approx(np.sum(r * np.tanh(r)), rel=RELATIVE)
    assert e.log_prob_var == pytest.approx(np.sum(r**2 / np.cosh(r) ** 2), rel=RELATIVE)


def test_two_spins():
    """Would catch a wrong sign or factor of M: E[s_0 s_1] = -tanh(M_01) at r = 0."""
    e = exact(MRF([[0.0, 0.8], [0.8, 0.0]]))
    assert e.pair_mean[0, 1] == pytest.approx(-np.tanh(0.8), rel=RELATIVE)
    assert e.log_z == pytest.approx(np.log(4 * np.cosh(0.8)), rel=RELATIVE)
    assert e.mean.tolist() == pytest.approx([0.0, 0.0], abs=1e-15)


@pytest.mark.parametrize("n", [5, 17, 21])
def test_ring_against_its_transfer_matrix(n):
    """Would catch errors that only show beyond one block of states, or beyond the stored probabilities."""
    K, B = 0.6, 0.3
    e = exact(MRF.ising(n, coupling=K, field=B))
    T = np.exp([[K * a * b + B * (a + b) / 2 for b in (-1, 1)] for a in (-1, 1)])
    sign = np.diag([-1.0, 1.0])
    power = np.linalg.matrix_power
    Z = np.trace(power(T, n))
    assert e.log_z == pytest.approx(np.log(Z), rel=RELATIVE)
    np.testing.assert_allclose(e.mean, np.trace(sign @ power(T, n)) / Z, rtol=RELATIVE)
    for k in range(1, n):
        pair = np.trace(sign @ power(T, k) @ sign @ power(T, n - k)) / Z
        np.testing.assert_allclose(e.pair_mean[0, k], pair, rtol=RELATIVE)
        np.testing.assert_allclose(e.pair_mean[n - 1, k - 1], e.pair_mean[0, n - k], rtol=RELATIVE)
    assert (e.probabilities is None) == (n > 20)


@pytest.mark.parametrize("coupling", [1e4, 1e300])
def test_extreme_energies_neither_overflow_nor_drift(coupling):
    """Would catch exp overflow, inf - inf, or states s and -s whose equal energies differ by accumulated rounding."""
    rng = np.random.default_rng(8)
    M = coupling * rng.standard_normal((17, 17))
    M = M + M.T
    np.fill_diagonal(M, 0.0)
    e = exact(MRF(M))
    assert e.mean.tolist() == [0.0] * 17
    assert set(np.abs(e.pair_mean).ravel()) == {1.0}
    assert sorted(e.probabilities)[-3:] == [0.0, 0.5, 0.5]
    assert e.log_z == pytest.approx(MRF(M).log_prob(states(17)).max() + np.log(2), rel=1e-14)
    assert e.log_prob_var == 0.0


def test_strong_fields_at_one_site():
    """Would catch d = 1 or a certain spin that gives NaN."""
    e = exact(MRF([[0.0]], 1e300))
    assert e.mean.tolist() == [-1.0]
    assert e.probabilities.tolist() == [1.0, 0.0]
    assert (e.log_z, e.log_prob_mean, e.log_prob_var) == (1e300, 1e300, 0.0)


@target_part()
class PathView(NamedTuple):
    neighbours_allowed: float  # log p of a state where two neighbours are +1, else 0

    def flip_cost(self, s, i):
        return 0.0

    def log_prob(self, s):
        for i in range(s.size - 1):
            if s[i] == 1 and s[i + 1] == 1:
                return self.neighbours_allowed
        return 0.0


class HardCore(Target):
    """Spins on a path where no two neighbours may be +1, or `value` becomes log p."""

    def __init__(self, d, value=-np.inf):
        self.d, self.value = d, value

    def log_prob(self, s):
        s = np.asarray(s)
        return np.where(np.any((s[..., 1:] == 1) & (s[..., :-1] == 1), axis=-1), self.value, 0.0)

    def view(self):
        return linked(PathView(self.value), self.d)


def test_any_target_with_forbidden_states():
    """Would catch enumeration that knows only MRFs, or that turns log p = -inf into NaN."""
    e = exact(HardCore(17))
    fibonacci = [1, 1]
    while len(fibonacci) < 20:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    assert e.log_z == pytest.approx(np.log(fibonacci[18]), rel=RELATIVE)
    assert np.count_nonzero(e.probabilities) == fibonacci[18]
    assert e.mean[0] == pytest.approx(2 * fibonacci[16] / fibonacci[18] - 1, rel=RELATIVE)
    assert (e.log_prob_mean, e.log_prob_var) == (0.0, 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_impossible_log_prob_is_named(value):
    """Would catch NaN in every expectation from one bad state, without saying which."""
    with pytest.raises(TargetError, match=r"log_prob of PathView returned an impossible value at s = \[.?1, 1, .?1\]"):
        exact(HardCore(3, value))


class Nowhere(HardCore):
    def view(self):
        return linked(NowhereView(0.0), self.d)


@target_part()
class NowhereView(NamedTuple):
    unused: float

    def flip_cost(self, s, i):
        return 0.0

    def log_prob(self, s):
        return -np.inf


def test_a_target_without_any_state_is_refused():
    """Would catch 0/0 where no state is possible."""
    with pytest.raises(ValueError, match="-inf for every state"):
        exact(Nowhere(2))


def test_too_many_sites_are_refused():
    """Would catch a call that takes hours or all memory without warning."""
    with pytest.raises(ValueError, match=r"2\^d states.*d <= 25.*got d = 26; use bouncy.sample"):
        exact(MRF.ising(26))
    with pytest.raises(ValueError, match="d <= 20, got d = 21"):
        states(21)
    with pytest.raises(TypeError, match="got ndarray"):
        exact(np.zeros((2, 2)))
