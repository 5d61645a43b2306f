"""QUBOs in mappings and arrays are the same models inside, and come out as they went in."""

import math
import time

import dimod
import networkx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import bouncy
from bouncy.formats.qubo import from_qubo, to_qubo

values = st.floats(-3, 3).map(lambda value: round(value, 3))
temperatures = st.floats(0.1, 10)
labels = st.integers(-2, 2) | st.text(max_size=1) | st.tuples(st.integers(0, 1), st.text(max_size=1))
qubos = st.dictionaries(st.tuples(labels, labels), values, min_size=1, max_size=4)


def binary_energy(Q, offset, state):
    """Return E(x) term by term; `state` maps labels to 0 or 1."""
    return sum(value * state[u] * state[v] for (u, v), value in Q.items()) + offset


def assert_energies(model, Q, offset, temperature):
    """Compare log p of every state with -E/temperature, computed term by term."""
    spins = bouncy.states(model.d)
    energies = [binary_energy(Q, offset, dict(zip(model.labels, x, strict=True))) for x in ((spins + 1) // 2).tolist()]
    assert model.log_prob(spins) == pytest.approx(-np.array(energies) / temperature, rel=1e-12, abs=1e-12)


@given(qubos, values, temperatures)
def test_log_prob_is_the_energy_term_by_term(Q, offset, temperature):
    """Would catch a wrong factor between spins and bits, a lost constant, pairs that do not add up, or labels that
    are not in the order of first appearance."""
    model = from_qubo(Q, temperature, offset)
    assert model.labels == tuple(dict.fromkeys(label for pair in Q for label in pair))
    assert_energies(model, Q, offset, temperature)


@given(qubos, values, temperatures)
def test_round_trip(Q, offset, temperature):
    """Would catch terms lost or doubled on the way out, rounding errors as terms, or another order of labels."""
    model = from_qubo(Q, temperature, offset)
    terms, constant = to_qubo(model, temperature)
    bqm = dimod.BinaryQuadraticModel.from_qubo(Q, offset)
    assert [u for u, v in terms if u == v] == list(model.labels)
    assert {u: value for (u, v), value in terms.items() if u == v} == pytest.approx(dict(bqm.linear), abs=1e-12)
    assert {frozenset(pair): value for pair, value in terms.items() if pair[0] != pair[1]} == pytest.approx(
        {frozenset(pair): bias for pair, bias in bqm.quadratic.items() if abs(bias) > 1e-9}
    )
    assert constant == pytest.approx(offset, abs=1e-12)
    assert from_qubo(terms).labels == model.labels


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix, np.ndarray.tolist])
def test_every_entry_of_an_array_is_a_term(store):
    """Would catch x'Qx read from one triangle alone, or a diagonal that is counted twice or lost."""
    Q = np.random.default_rng(2).standard_normal((4, 4))
    model = from_qubo(store(Q), temperature=2.0, offset=0.5)
    assert model.labels == (0, 1, 2, 3)
    x = (bouncy.states(4) + 1) // 2
    assert model.log_prob(2 * x - 1) == pytest.approx(-(np.einsum("ni,ij,nj->n", x, Q, x) + 0.5) / 2, rel=1e-12)
    symmetric = from_qubo(store((Q + Q.T) / 2), temperature=2.0, offset=0.5)
    assert symmetric.log_prob(2 * x - 1) == pytest.approx(model.log_prob(2 * x - 1), rel=1e-12)


@pytest.mark.parametrize("weight", [1.0, 0.1, 1e8 / 3])
def test_maximum_cut_has_no_field(weight):
    """Would catch fields made of rounding, which break the symmetry of a cut and are refused in strong models, or a log
    p that is not the cut."""
    graph = networkx.petersen_graph()
    Q = {}
    for k, (u, v) in enumerate(graph.edges):
        w = weight * (1 + k / 7)  # E = -sum w (x_u - x_v)^2
        for key, value in (((u, u), -w), ((v, v), -w), ((u, v), 2 * w)):
            Q[key] = Q.get(key, 0.0) + value
    model = from_qubo(Q)
    assert not model.r.any()
    s = np.random.default_rng(3).choice([-1, 1], 10)
    state = dict(zip(model.labels, s, strict=True))
    cut = sum(weight * (1 + k / 7) for k, (u, v) in enumerate(graph.edges) if state[u] != state[v])
    assert model.log_prob(s) == pytest.approx(cut, rel=1e-12)


@pytest.mark.parametrize(
    ("Q", "error", "message"),
    [
        ({("a", "b"): math.nan}, ValueError, r"Q\[\('a', 'b'\)\] must be finite.*nan"),
        ({("a", "b"): [1.0]}, TypeError, r"Q\[\('a', 'b'\)\] must be a real number"),
        ({"ab": 1.0}, TypeError, r"keys of Q must be pairs.*got the key 'ab'"),
        ({}, ValueError, r"no variables"),
        ([[1.0, 2.0]], ValueError, r"Q must be a mapping .* or of shape \(d, d\), got shape \(1, 2\)"),
        ([[math.inf]], ValueError, r"Q\[0, 0\] = inf"),
        ([["a"]], TypeError, r"Q must hold real numbers"),
        (3.0, ValueError, r"got shape \(\)"),
        ({("a", "a"): 1e308, ("a", "b"): 1.0}, ValueError, r"the linear term of 'a'.*overflows"),
        ({("a", "b"): 1.7e308, ("b", "a"): 1.7e308}, ValueError, r"the coupling of 'a' and 'b'.*overflows"),
    ],
)
def test_faults_are_named(Q, error, message):
    """Would catch a bad entry that gets into a model, or an error that does not say which it is."""
    with pytest.raises(error, match=message):
        from_qubo(Q, temperature=0.1)


def test_overflow_in_to_qubo():
    """Would catch infinite coefficients."""
    with pytest.raises(ValueError, match=r"temperature 1e\+298 overflow"):
        to_qubo(bouncy.MRF([[0.0, 1e10], [1e10, 0.0]]), 1e298)


def test_large_models_are_converted_in_bulk(record_property):
    """Would catch an energy that is wrong only in a large, sparse model; the seconds go into the test report."""
    rng = np.random.default_rng(4)
    d, n = 20_000, 100_000
    i, j, value = rng.integers(0, d, n), rng.integers(0, d, n), rng.standard_normal(n)
    Q = {(f"x{a}", f"x{b}"): c for a, b, c in zip(i.tolist(), j.tolist(), value.tolist(), strict=True)}
    start = time.perf_counter()
    model = from_qubo(Q)
    record_property("from_qubo_seconds", time.perf_counter() - start)
    assert model.is_sparse
    s = rng.choice([-1, 1], model.d)
    state = dict(zip(model.labels, ((s + 1) // 2).tolist(), strict=True))
    assert model.log_prob(s) == pytest.approx(-binary_energy(Q, 0.0, state), rel=1e-9)
    start = time.perf_counter()
    terms, offset = to_qubo(model)
    record_property("to_qubo_seconds", time.perf_counter() - start)
    assert binary_energy(terms, offset, state) == pytest.approx(-model.log_prob(s), rel=1e-9)
