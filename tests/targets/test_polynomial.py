"""Polynomials of any order, against their formula written out: every state of small ones, walks through large ones."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bouncy
from bouncy._dispatch import state_arrays
from bouncy.targets import incidence
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial
from targets.walks import TOLERANCE, all_states, assert_log_prob, assert_walk, costs_along, random_spins

VARTYPES = ("SPIN", "BINARY")
few = settings(max_examples=40)


def formula(terms, vartype, temperature=1.0, labels=None):
    """Return log p as a function of one state, term by term."""
    order = labels if labels is not None else list(dict.fromkeys(label for term in terms for label in term))

    def log_p(s):
        value = dict(zip(order, s if vartype == "SPIN" else (1 + s) / 2, strict=True))
        return -math.fsum(c * math.prod(value[label] for label in term) for term, c in terms.items()) / temperature

    return log_p


def random_terms(rng, d, n, largest):
    """Return n terms of 1 to `largest` different sites."""
    sizes = rng.integers(1, min(d, largest) + 1, n)
    return {tuple(rng.choice(d, size, replace=False).tolist()): float(rng.standard_normal()) for size in sizes}


def scale_of(terms):
    return 1.0 + sum(map(abs, terms.values()))


# Values


@pytest.mark.parametrize("vartype", VARTYPES)
def test_log_prob_is_the_formula(vartype, rng):
    """Would catch a wrong sign, a term that is lost or read in the wrong units, or a missing constant."""
    terms = {(): 0.7, **random_terms(rng, 6, 15, 6)}
    t = Polynomial(terms, vartype=vartype, d=6, temperature=0.5)
    assert_log_prob(t, formula(terms, vartype, 0.5, range(6)), scale_of(terms))


@pytest.mark.parametrize("vartype", VARTYPES)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 64, 300])
def test_costs_and_caches_follow_a_walk(vartype, d, rng):
    """Would catch a term that misses a flip, a factor 2, or a count of zeros that is off by one."""
    terms = random_terms(rng, d, 2 * d, 5)
    t = Polynomial(terms, vartype=vartype, d=d)
    assert_walk(
        t, formula(terms, vartype, 1.0, range(d)), random_spins(rng, d), rng.integers(d, size=100), scale_of(terms)
    )


def test_a_binary_term_of_any_order_is_one_term():
    """Would catch an expansion of x_0 x_1 ... into 2^order terms of spins."""
    d = 500
    t = Polynomial([tuple(range(d)), (0,)], [-3.0, 1.0], vartype="BINARY", d=d)
    s = np.ones(d, np.int8)
    assert t.log_prob(s) == 2.0
    assert_walk(t, lambda s: 3.0 * (s.min() > 0) - (s[0] > 0), s, [0, 0, 1, 0, 1, d - 1, 1, d - 1], 4.0)
    assert t.order == d


@pytest.mark.parametrize("vartype", VARTYPES)
def test_costs_keep_weak_terms_beside_strong_ones(vartype):
    """Would catch a cache that adds and subtracts terms, and so loses a coupling of 1e-3 after a flip worth 1e16."""
    weak = {(1, 2): 1e-3, (2,): 2e-3}
    strong = {(0, 1): 1e16, (0, 2): 1e16, **weak}
    flips = [0, 1, 0, 1, 0, 2, 1, 2]
    # x_0 = 0, or s_0 = +1 on both sides of the strong terms, leaves site 2 with what the weak terms say
    ask = [{(0, 1): 1e16, **weak}, weak] if vartype == "SPIN" else [strong, weak]
    start = np.array([1, 1, 1], np.int8)
    costs = [costs_along(Polynomial(terms, vartype=vartype, d=3), start, flips) for terms in ask]
    assert costs[0][[5, 7]] == pytest.approx(costs[1][[5, 7]], rel=TOLERANCE)
    assert np.all(costs[1][[5, 7]] != 0)


def test_pairs_agree_with_the_markov_random_field():
    """Would catch a convention of signs that differs from that of MRF."""
    mrf = MRF.random(5, sigma_M=0.5, seed=3)
    terms = {(i, j): mrf.M[i, j] for i in range(5) for j in range(i)} | {(i,): mrf.r[i] for i in range(5)}
    t = Polynomial(terms, d=5)
    np.testing.assert_allclose(t.log_prob(all_states(5)), mrf.log_prob(all_states(5)), rtol=TOLERANCE)
    np.testing.assert_allclose(bouncy.exact(t).pair_mean, bouncy.exact(mrf).pair_mean, atol=1e-13)


@st.composite
def polynomials(draw):
    """Draw lists of terms with repeated sites and terms, zeros and ties, and their coefficients."""
    d = draw(st.integers(1, 4))
    terms = draw(st.lists(st.lists(st.integers(0, d - 1), max_size=5), max_size=8))
    number = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-100, 100, allow_subnormal=False))
    return d, terms, [draw(number) for _ in terms]


@few
@given(model=polynomials(), vartype=st.sampled_from(VARTYPES), temperature=st.sampled_from([1.0, 0.1, 3.0]))
def test_any_list_of_terms_means_its_formula(model, vartype, temperature):
    """Would catch a repeated site or term that is not reduced by s^2 = 1 or x^2 = x, and a term lost when read back."""
    d, terms, coefficients = model
    t = Polynomial(terms, coefficients, d=d, vartype=vartype, temperature=temperature)
    scale = 1 + sum(map(abs, coefficients)) / temperature

    def log_p(s):
        value = s if vartype == "SPIN" else (1 + s) / 2
        pairs = zip(terms, coefficients, strict=True)
        return -math.fsum(c * math.prod(value[i] for i in term) for term, c in pairs) / temperature

    assert_log_prob(t, log_p, scale)
    again = Polynomial(t.to_dict(), vartype=vartype, d=d, temperature=temperature)
    assert_log_prob(again, log_p, scale)
    for term in t.to_dict():
        assert len(set(term)) == len(term)


# Conditioning and temperature


@pytest.mark.parametrize("vartype", VARTYPES)
@pytest.mark.parametrize("evidence", [{0: 1}, {0: -1, 3: 1}, {1: -1, 2: -1, 4: -1}])
def test_clamping_keeps_log_prob_and_family(vartype, evidence, rng):
    """Would catch a wrong sign of a shortened term, a term that should have vanished, or a lost constant."""
    terms = {(): -0.4, **random_terms(rng, 5, 12, 5)}
    t = Polynomial(terms, vartype=vartype, d=5, temperature=2.0)
    given = t.clamp(evidence)
    assert type(given) is Polynomial
    states = all_states(given.d)
    full = np.full((len(states), 5), np.nan)
    full[:, list(given.labels)] = states
    for site, spin in evidence.items():
        full[:, site] = spin
    np.testing.assert_allclose(given.log_prob(states), t.log_prob(full), rtol=TOLERANCE, atol=TOLERANCE)
    assert np.array_equal(given.complete(states), full)


def test_a_clamped_binary_term_vanishes_or_shrinks():
    """Would catch terms that stay in the way of the free sites although they are known to be zero."""
    t = Polynomial({("a", "b", "c"): 2.0, ("b", "c"): 1.0}, vartype="BINARY")
    assert t.clamp({"a": -1}).to_dict() == {("b", "c"): 1.0}
    assert t.clamp({"a": +1}).to_dict() == {("b", "c"): 3.0}
    assert t.clamp({"b": +1}).to_dict() == {("a", "c"): 2.0, ("c",): 1.0}
    assert t.clamp({"a": +1, "b": +1}).to_dict() == {("c",): 3.0}


@pytest.mark.parametrize("vartype", VARTYPES)
@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
def test_tempering_multiplies_log_prob(vartype, beta):
    """Would catch a constant or a temperature that is not scaled with the rest."""
    t = Polynomial({(): 1.0, ("x", "y", "z"): 0.7, ("z",): -0.2}, vartype=vartype, temperature=0.5)
    hot = t.tempered(beta)
    assert type(hot) is Polynomial
    assert hot.labels == t.labels
    np.testing.assert_allclose(hot.log_prob(all_states(3)), beta * t.log_prob(all_states(3)), rtol=1e-14)


# Labels and forms of input


def test_sites_are_in_the_order_of_first_appearance():
    """Would catch labels that are sorted, or that depend on the order in which a set is walked."""
    assert Polynomial({("b", "a"): 1.0, ("c",): 1.0}).labels == ("b", "a", "c")
    assert Polynomial({frozenset("dbca"): 1.0, frozenset({10, 9}): 1.0}).labels == ("a", "b", "c", "d", 9, 10)
    assert Polynomial({frozenset({"a", 1}): 1.0}).labels == ("a", 1)
    assert Polynomial({(2, 0): 1.0}, d=4).labels == (0, 1, 2, 3)
    assert Polynomial({("b", "a"): 1.0}, labels=["a", "b", "c"]).labels == ("a", "b", "c")


def test_a_site_without_terms_is_kept():
    """Would catch sites that get lost when their terms cancel."""
    t = Polynomial({(0, 1): 1.0, (1, 0): -1.0, (2, 2): 3.0})
    assert (t.d, t.to_dict(), t.order) == (3, {(): 3.0}, 0)
    assert np.array_equal(t.log_prob(all_states(3)), np.full(8, -3.0))


def test_mappings_lists_and_arrays_are_the_same_model(rng):
    """Would catch a form of input that reorders terms against their coefficients."""
    sites = np.array([[0, 1, 2], [2, 3, 1], [4, 0, 3]])
    c = rng.standard_normal(3)
    expected = {tuple(term.tolist()): float(value) for term, value in zip(sites, c, strict=True)}
    models = [Polynomial(expected), Polynomial(sites, c), Polynomial(sites.tolist(), list(c))]
    for t in models:
        assert t.labels == (0, 1, 2, 3, 4)
        assert t.to_dict() == {tuple(sorted(term)): value for term, value in expected.items()}


def test_the_vartype_of_a_dimod_polynomial_is_used():
    """Would catch a HUBO of dimod that is read as a polynomial of spins."""

    class Vartype(Enum):
        SPIN = 1
        BINARY = 2

    class BinaryPolynomial(dict):
        vartype = Vartype.BINARY

    t = Polynomial(BinaryPolynomial({frozenset("ab"): 1.0}))
    assert t.vartype == "BINARY"
    assert np.array_equal(t.log_prob(all_states(2)), [0.0, 0.0, 0.0, -1.0])
    assert Polynomial(BinaryPolynomial({frozenset("ab"): 1.0}), vartype=Vartype.SPIN).vartype == "SPIN"


def test_edges_join_what_shares_a_term(monkeypatch):
    """Would catch pairs within a term that are not recorded, and a pattern that takes all memory."""
    t = Polynomial({(0, 1, 2): 1.0, (2, 3): 1.0, (4,): 1.0, (1, 0): 2.0})
    expected = np.zeros((5, 5), bool)
    for i, j in [(0, 1), (0, 2), (1, 2), (2, 3)]:
        expected[i, j] = expected[j, i] = True
    assert np.array_equal(t.edges().toarray(), expected)
    assert t.edges().nnz == 8
    assert Polynomial({(0,): 1.0}).edges().nnz == 0
    monkeypatch.setattr(incidence, "_MAX_PAIRS", 4)
    assert t.edges() is None


def test_views_share_the_model_and_are_deterministic(rng):
    """Would catch chains that write to each other's caches."""
    t = Polynomial(random_terms(rng, 6, 10, 4), d=6)
    first, second = t.view(), t.view()
    assert not any(np.shares_memory(a, b) for a, b in zip(state_arrays(first), state_arrays(second), strict=True))


def test_repr_says_what_it_is():
    """Would catch a description with the wrong number of terms."""
    assert repr(Polynomial({(0, 1, 2): 1.0}, vartype="BINARY")) == "Polynomial(d=3, BINARY, 1 term, order 3)"


# Refusals


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3,), {}, TypeError, "terms must be a mapping"),
        (("ab",), {}, TypeError, "terms must be a mapping"),
        (([(0, 1)],), {}, TypeError, "coefficients must be given"),
        (({(0,): 1.0}, [1.0]), {}, TypeError, "coefficients must be left out"),
        (([(0, 1)], [1.0, 2.0]), {}, ValueError, r"coefficients must have shape \(1,\)"),
        (([(0, 1)], [math.nan]), {}, ValueError, r"coefficients\[0\] = nan"),
        (({(0, 1): math.inf},), {}, ValueError, r"coefficient of \(0, 1\) must be a finite number, got inf"),
        (({(0, 1): "x"},), {}, TypeError, r"coefficient of \(0, 1\)"),
        (({(0, 1): True},), {}, TypeError, r"coefficient of \(0, 1\)"),
        (({"ab": 1.0},), {}, TypeError, "a term must be a tuple, list or set of labels .* got 'ab'"),
        (({0: 1.0},), {}, TypeError, r"such as \(0, 1\), or \(0,\), got 0"),
        (([([1], 2)], [1.0]), {}, TypeError, r"labels must be hashable, got \[1\]"),
        (({},), {}, ValueError, "at least one site"),
        (({(0, 4): 1.0},), {"d": 4}, ValueError, r"terms\[0\] names the site 4, .* the 4 sites 0, 1, 2, 3"),
        (({("a",): 1.0},), {"labels": range(9)}, ValueError, "the 9 sites 0, 1, 2, ..., 8"),
        (({(0,): 1.0},), {"d": 0}, ValueError, "d must be an integer >= 1"),
        (({(0,): 1.0},), {"d": 3, "labels": [0, 1]}, ValueError, "labels must name each of the 3 sites"),
        (({(0,): 1.0},), {"labels": 3}, TypeError, "labels must be a sequence"),
        (({(0,): 1.0},), {"vartype": "QUBIT"}, ValueError, "vartype must be 'SPIN' .* got 'QUBIT'"),
        (({(0,): 1.0},), {"temperature": 0}, ValueError, "temperature must be a finite number > 0"),
        (({(0,): 1e308, (1,): 1e308},), {}, ValueError, "overflows"),
        (({(0,): 1.0},), {"temperature": 1e-320}, ValueError, "overflows"),
        (([(0,), (0,)], [1e308, 1e308]), {}, ValueError, "overflows"),
    ],
)
def test_refusals_name_the_entry(arguments, options, error, message):
    """Would catch input that is taken for something else, or an error that does not say what was wrong."""
    with pytest.raises(error, match=message):
        Polynomial(*arguments, **options)
