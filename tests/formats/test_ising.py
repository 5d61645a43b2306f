"""Ising models in mappings, arrays and dimod models are the same models inside, and come out as they went in."""

import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import dimod
import dimod.testing
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import bouncy
from bouncy.formats.ising import from_bqm, from_ising, to_bqm, to_ising

values = st.floats(-3, 3).map(lambda value: round(value, 3))
temperatures = st.floats(0.1, 10)
simple_labels = st.integers(-3, 3) | st.text(max_size=2)
labels = simple_labels | st.tuples(simple_labels, simple_labels)
pairs = st.tuples(labels, labels).filter(lambda pair: pair[0] != pair[1])
linear_terms = st.dictionaries(labels, values, max_size=3)
pair_terms = st.dictionaries(pairs, values, min_size=1, max_size=3)


def spin_energy(h, J, offset, state):
    """Return E(s) term by term; `state` maps labels to spins."""
    return (
        sum(bias * state[u] for u, bias in h.items())
        + sum(bias * state[u] * state[v] for (u, v), bias in J.items())
        + offset
    )


def assert_energies(model, h, J, offset, temperature):
    """Compare log p of every state with -E/temperature, computed term by term."""
    spins = bouncy.states(model.d)
    energies = [spin_energy(h, J, offset, dict(zip(model.labels, s, strict=True))) for s in spins.tolist()]
    assert model.log_prob(spins) == pytest.approx(-np.array(energies) / temperature, rel=1e-12, abs=1e-12)


@given(linear_terms, pair_terms, values, temperatures)
def test_log_prob_is_the_energy_term_by_term(h, J, offset, temperature):
    """Would catch a wrong sign, factor, temperature or constant, pairs (u, v) and (v, u) that do not add up, and labels
    that are mixed up, lost, or not in the order of first appearance."""
    model = from_ising(h, J, temperature, offset)
    assert model.labels == tuple(dict.fromkeys([*h, *(label for pair in J for label in pair)]))
    assert_energies(model, h, J, offset, temperature)


@given(linear_terms, pair_terms, values, temperatures, temperatures)
def test_round_trip(h, J, offset, temperature, other):
    """Would catch terms that are lost or doubled on the way out, another order of labels, or an energy scale that
    does not follow the temperature."""
    model = from_ising(h, J, temperature, offset)
    fields, couplings, constant = to_ising(model, temperature)
    assert tuple(fields) == model.labels
    assert fields == pytest.approx({label: h.get(label, 0.0) for label in model.labels})
    assert all(couplings.values())
    assert {frozenset(pair): bias for pair, bias in couplings.items()} == pytest.approx(
        {
            frozenset((u, v)): bias + J.get((v, u), 0.0)
            for (u, v), bias in J.items()
            if abs(bias + J.get((v, u), 0.0)) > 1e-9
        }
    )
    assert constant == pytest.approx(offset)
    again = from_ising(*to_ising(model, other)[:2], temperature=other)
    assert again.labels == model.labels
    spins = bouncy.states(model.d)
    assert again.log_prob(spins) == pytest.approx(model.log_prob(spins) - model.offset, abs=1e-9)


@pytest.mark.parametrize("kind", ["upper", "lower", "mixed", "csr", "coo", "list"])
def test_arrays_hold_each_pair_once(kind):
    """Would catch a triangle that is dropped or counted twice, in any kind of array."""
    rng = np.random.default_rng(1)
    h, J = rng.standard_normal(4), np.triu(rng.standard_normal((4, 4)), 1)
    terms = {(i, j): J[i, j] for i in range(4) for j in range(i + 1, 4)}
    flipped = J.copy()
    flipped[0, 1], flipped[1, 0] = 0.0, J[0, 1]
    given_as = {
        "upper": J,
        "lower": J.T,
        "mixed": flipped,
        "csr": scipy.sparse.csr_array(J),
        "coo": scipy.sparse.coo_matrix(J.T),
        "list": J.tolist(),
    }[kind]
    model = from_ising(h, given_as, temperature=0.7)
    assert model.labels == (0, 1, 2, 3)
    assert_energies(model, dict(enumerate(h)), terms, 0.0, 0.7)
    assert from_ising(None, given_as).r.tolist() == [0.0] * 4
    assert from_ising({2: 0.5}, given_as).r.tolist() == [0.0, 0.0, 0.5, 0.0]


def test_sequences_and_missing_parts():
    """Would catch a sequence h whose places are not its labels, and parts that may not be left out."""
    model = from_ising([1, -2], {("a", 1): 0.5})
    assert model.labels == (0, 1, "a")
    assert_energies(model, {0: 1, 1: -2}, {("a", 1): 0.5}, 0.0, 1.0)
    assert from_ising({"a": 1.0}, None).labels == ("a",)
    assert from_ising(None, {("a", "b"): Fraction(1, 4)}).log_prob([1, 1]) == -0.25
    assert from_ising({}, {("a", "b"): np.float32(0.5)}).labels == ("a", "b")
    assert from_ising({}, {("a", "b"): 0.0}).labels == ("a", "b")


def test_storage_follows_the_number_of_pairs():
    """Would catch a large sparse model made dense, or a complete one that pays for an index at every coupling."""
    ring = from_ising(None, {(i, (i + 1) % 200): -1.0 for i in range(200)})
    complete = from_ising(None, np.triu(np.ones((200, 200)), 1))
    complete_by_name = from_ising(None, {(i, j): 1.0 for i in range(40) for j in range(i)})
    few_in_array = from_ising(None, np.diag(np.ones(199), 1))
    assert [m.is_sparse for m in (ring, complete, complete_by_name, few_in_array)] == [True, False, False, True]
    assert not from_ising({"a": 1.0}, {}).is_sparse
    assert ring.log_prob(np.ones(200)) == 200.0
    assert complete.log_prob(np.ones(200)) == -19900.0


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("h", "J", "error", "message"),
    [
        ({"a": NAN}, {}, ValueError, r"h\['a'\] must be finite.*nan"),
        ({"a": 10**400}, {}, ValueError, r"h\['a'\] must be finite.*inf"),
        ({"a": "1"}, {}, TypeError, r"h\['a'\] must be a real number, got '1' of type str"),
        ({"a": True}, {}, TypeError, r"h\['a'\] must be a real number, got True"),
        ({"a": 1j}, {}, TypeError, r"h\['a'\] must be a real number"),
        ({"a": None}, {}, TypeError, r"h\['a'\] must be a real number, got None"),
        ([1.0, INF], {}, ValueError, r"h\[1\] = inf"),
        (1.0, {}, ValueError, r"h must be a mapping \{label: bias\} or of shape \(d,\)"),
        ({}, {("a", "b"): 1.0, ("b", "c"): -INF}, ValueError, r"J\[\('b', 'c'\)\] must be finite.*-inf"),
        ({}, {"ab": 1.0}, TypeError, r"pairs of labels \(u, v\), got the key 'ab'; a string is not"),
        ({}, {"a": 1.0}, TypeError, r"got the key 'a'"),
        ({}, {3: 1.0}, TypeError, r"got the key 3"),
        ({}, {("a", "b", "c"): 1.0}, TypeError, r"got the key \('a', 'b', 'c'\)"),
        ({}, {("a", "a"): 1.0}, ValueError, r"couples a spin to itself.*add it to offset"),
        ({}, {}, ValueError, r"no variables"),
        ({}, np.zeros((0, 0)), ValueError, r"no variables"),
        ({}, [1.0, 2.0], ValueError, r"J must be a mapping .* or of shape \(d, d\), got shape \(2,\)"),
        ({}, scipy.sparse.csr_array((2, 3)), ValueError, r"got shape \(2, 3\)"),
        ({}, scipy.sparse.coo_array(([1.0, NAN], ([0, 0], [1, 2])), (3, 3)), ValueError, r"J\[0, 2\] = nan"),
        ({}, scipy.sparse.csr_array(np.eye(2, dtype=bool)), TypeError, r"J must hold real numbers.*bool"),
        ({}, "ab", TypeError, r"J must hold real numbers"),
        ({}, [[0.0, NAN], [0.0, 0.0]], ValueError, r"J\[0, 1\] = nan"),
        ({}, [[0.0, 1.0], [1.0, 0.0]], ValueError, r"each pair once, got J\[0, 1\] = 1.0 and J\[1, 0\] = 1.0.*np.triu"),
        ({}, [[0.0, 1.0], [0.0, 2.0]], ValueError, r"zero diagonal, got J\[1, 1\] = 2.0"),
        ({"a": 1.0}, [[0.0, 1.0], [0.0, 0.0]], ValueError, r"h has the label 'a', but J.*0 to 1"),
        ([1.0], [[0.0, 1.0], [0.0, 0.0]], ValueError, r"one entry per row of J, 2, got 1"),
        ([1.0] * 3, [[0.0, 1.0], [0.0, 0.0]], ValueError, r"h has the label 2, but J"),
        ({"a": 1e308}, {}, ValueError, r"the linear term of 'a'.*overflows"),
        ({}, {("a", "b"): 1e308}, ValueError, r"the coupling of 'a' and 'b'.*overflows"),
        ({}, {("a", "b"): 1e307, ("b", "a"): 9e307}, ValueError, r"the coupling of 'a' and 'b'.*overflows"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_faults_are_named(h, J, error, message):
    """Would catch a bad entry that gets into a model, or an error that does not say which it is."""
    with pytest.raises(error, match=message):
        from_ising(h, J, temperature=0.5)


@pytest.mark.parametrize(
    ("temperature", "error"), [(0, ValueError), (-1, ValueError), (NAN, ValueError), ("1", TypeError)]
)
def test_temperature_is_checked(temperature, error):
    """Would catch a model divided or multiplied by an invalid temperature."""
    with pytest.raises(error, match="temperature must be a finite number"):
        from_ising({"a": 1.0}, {}, temperature)
    with pytest.raises(error, match="temperature must be a finite number"):
        to_ising(bouncy.MRF([[0.0]]), temperature)


def test_overflow_of_constants_and_energies():
    """Would catch infinite constants and energies."""
    with pytest.raises(ValueError, match=r"the constant term.*overflows"):
        from_ising({"a": 1.0}, {}, 0.5, offset=1e308)
    with pytest.raises(ValueError, match="offset must be a finite number, got inf"):
        from_ising({"a": 1.0}, {}, offset=INF)
    with pytest.raises(ValueError, match=r"temperature 1e\+300 overflow"):
        to_ising(bouncy.MRF([[0.0]], 1e10), 1e300)


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
@pytest.mark.parametrize("kind", [dimod.Float64BQM, dimod.Float32BQM, dimod.DictBQM])
@pytest.mark.parametrize("names", ["zyxa", ("z", (1, "a"), 7, "b")])
def test_bqm_energies_are_those_of_dimod(names, kind, vartype):
    """Would catch labels sorted on the way in, a BINARY model read as SPIN, or float32 sums."""
    t, u, v, w = names
    h, J = {t: 0.5, u: -1.25}, {(t, v): 2.0, (v, u): -0.75, (w, t): 1.5}
    bqm = kind(h, J, 0.125, vartype)
    model = from_bqm(bqm, temperature=0.5)
    assert model.labels == tuple(bqm.variables)
    spins = bouncy.states(model.d)
    states = spins if vartype == "SPIN" else (spins + 1) // 2
    energies = bqm.energies((states, list(model.labels)))
    assert model.log_prob(spins) == pytest.approx(-energies / 0.5, rel=1e-12)


@given(linear_terms, pair_terms, values, st.sampled_from(["SPIN", "BINARY"]), temperatures)
def test_bqm_round_trip(h, J, offset, vartype, temperature):
    """Would catch a model that dimod and bouncy do not agree on, over either kind of variable."""
    bqm = dimod.BinaryQuadraticModel(h, J, offset, vartype)
    again = to_bqm(from_bqm(bqm, temperature), temperature)
    assert list(again.variables) == list(bqm.variables)
    dimod.testing.assert_bqm_almost_equal(again, bqm.spin, ignore_zero_interactions=True)


def test_bqm_faults_are_named():
    """Would catch a bad bias that gets into a model, or an object of another kind that is taken for one."""
    with pytest.raises(ValueError, match=r"the linear bias of 'a' must be finite, got nan"):
        from_bqm(dimod.BinaryQuadraticModel({"a": NAN}, {}, "SPIN"))
    with pytest.raises(ValueError, match=r"the quadratic bias of \('.', '.'\) must be finite, got inf"):
        from_bqm(dimod.BinaryQuadraticModel({}, {("a", "b"): INF}, "SPIN"))
    with pytest.raises(ValueError, match="the offset of bqm must be a finite number"):
        from_bqm(dimod.BinaryQuadraticModel({"a": 1.0}, {}, INF, "SPIN"))
    with pytest.raises(ValueError, match="no variables"):
        from_bqm(dimod.BinaryQuadraticModel("SPIN"))
    discrete = SimpleNamespace(to_numpy_vectors=None, vartype=SimpleNamespace(name="DISCRETE"))
    for other in (3, {}, dimod.ConstrainedQuadraticModel(), discrete):
        with pytest.raises(TypeError, match=r"must be a dimod.BinaryQuadraticModel"):
            from_bqm(other)


def test_without_dimod_the_extra_is_named(monkeypatch):
    """Would catch an error that does not say what to install."""
    monkeypatch.setitem(sys.modules, "dimod", None)
    with pytest.raises(ImportError, match=r"bouncy\[dimod\]"):
        to_bqm(bouncy.MRF([[0.0]]))
