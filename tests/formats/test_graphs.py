"""Graphs of networkx become the models that their attributes say."""

import math

import networkx
import numpy as np
import pytest

import bouncy
from bouncy.formats.graphs import from_networkx


def literal_log_prob(model, edges, fields, s):
    """Return sum coupling s s' + sum field s over lists of (u, v, coupling) and (u, field)."""
    state = dict(zip(model.labels, s, strict=True))
    return sum(c * state[u] * state[v] for u, v, c in edges) + sum(f * state[u] for u, f in fields)


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph])
def test_log_prob_is_the_sum_over_edges_and_nodes(kind):
    """Would catch the sign of an energy instead of a coupling, parallel or opposite edges that do not add up, a lost
    temperature, or labels in another order than the nodes."""
    graph = kind()
    graph.add_nodes_from([("z", {"bias": 0.5}), (1, {"bias": -1.0}), ((0, "a"), {"bias": 0.25})])
    graph.add_edge(1, "z", weight=0.75)
    graph.add_edge("z", (0, "a"), weight=-0.5)
    graph.add_edge("z", 1, weight=2.0)
    graph.add_edge("z", 1, weight=1.5)
    model = from_networkx(graph, field="bias", temperature=0.5)
    assert model.labels == ("z", 1, (0, "a"))
    edges, fields = list(graph.edges(data="weight")), list(graph.nodes(data="bias"))
    expected = [literal_log_prob(model, edges, fields, s) / 0.5 for s in bouncy.states(3)]
    assert model.log_prob(bouncy.states(3)) == pytest.approx(expected, rel=1e-12)


def test_numbers_give_the_lattice_of_mrf_ising():
    """Would catch a sign that differs from that of MRF.ising, or a number that misses an edge or a node."""
    grid = networkx.grid_2d_graph(3, 4)
    model = from_networkx(grid, coupling=0.3, field=0.1)
    lattice = bouncy.MRF.ising((3, 4), coupling=0.3, field=0.1, periodic=False)
    assert model.labels == tuple((i, j) for i in range(3) for j in range(4))
    s = np.random.default_rng(1).choice([-1, 1], (20, 12))
    assert model.log_prob(s) == pytest.approx(lattice.log_prob(s), rel=1e-12)


def test_defaults_fill_in_for_missing_attributes():
    """Would catch a default that replaces attributes which are there, or is not used."""
    graph = networkx.Graph()
    graph.add_node("a", bias=1.0)
    graph.add_edge("a", "b", weight=0.5)
    graph.add_edge("b", "c")
    model = from_networkx(graph, field="bias", default_coupling=2.0, default_field=0.0)
    assert model.r.tolist() == [-1.0, 0.0, 0.0]
    assert model.M.tolist() == [[0.0, -0.5, 0.0], [-0.5, 0.0, -2.0], [0.0, -2.0, 0.0]]
    with pytest.raises(ValueError, match=r"edge \('b', 'c'\) has no attribute 'weight'.*default_coupling="):
        from_networkx(graph, field="bias", default_field=0.0)
    with pytest.raises(ValueError, match=r"node 'b' has no attribute 'bias'.*default_field="):
        from_networkx(graph, field="bias", default_coupling=2.0)


def test_nodes_without_edges():
    """Would catch a graph of lone nodes that is refused, or a graph of none that is not."""
    graph = networkx.empty_graph(3)
    assert from_networkx(graph, field=0.5).log_prob([1, 1, -1]) == 0.5
    with pytest.raises(ValueError, match="no variables"):
        from_networkx(networkx.Graph())


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (math.nan, ValueError, r"attribute 'weight' of edge \('a', 'b'\) must be finite.*nan"),
        ("1", TypeError, r"attribute 'weight' of edge \('a', 'b'\) must be a real number, got '1'"),
        (None, ValueError, r"edge \('a', 'b'\) has no attribute 'weight'"),
        (1e308, ValueError, r"the coupling of 'a' and 'b'.*overflows"),
    ],
)
def test_bad_weights_are_named(weight, error, message):
    """Would catch a bad weight that gets into a model, or an error that does not say which it is."""
    graph = networkx.Graph()
    graph.add_edge("a", "b", weight=weight)
    with pytest.raises(error, match=message):
        from_networkx(graph, temperature=0.1)


def test_other_faults_are_named():
    """Would catch a loop that is counted or dropped in silence, and arguments of the wrong kind."""
    graph = networkx.path_graph("ab")
    with pytest.raises(TypeError, match="coupling must be a finite number, got None"):
        from_networkx(graph, coupling=None)
    with pytest.raises(ValueError, match="field must be a finite number, got nan"):
        from_networkx(graph, coupling=1.0, field=math.nan)
    with pytest.raises(ValueError, match="temperature must be"):
        from_networkx(graph, coupling=1.0, temperature=0.0)
    with pytest.raises(ValueError, match="default_coupling must be"):
        from_networkx(graph, default_coupling=math.inf)
    with pytest.raises(TypeError, match="must be a networkx graph, got dict"):
        from_networkx({})
    graph.add_edge("b", "b")
    with pytest.raises(ValueError, match=r"edge \('b', 'b'\) is a loop"):
        from_networkx(graph, coupling=1.0)
