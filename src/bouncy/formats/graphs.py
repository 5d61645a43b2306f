"""Conversion from networkx graphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_finite, check_positive
from bouncy.formats._terms import assemble, index_of, read_values, term_matrix
from bouncy.targets.mrf import MRF


def from_networkx(
    graph: Any,
    coupling: str | float = "weight",
    field: str | float = 0.0,
    temperature: float = 1.0,
    *,
    default_coupling: float | None = None,
    default_field: float | None = None,
) -> MRF:
    """Return the MRF p(s) ~ exp((sum_uv coupling_uv s_u s_v + sum_u field_u s_u)/temperature) on a graph.

    The sign is that of `MRF.ising`, opposite to that of `from_ising`: a *positive* coupling favours equal spins.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        The sum runs over its edges, so parallel and opposite edges add up. Loops are refused.
    coupling : str or float
        Name of the edge attribute, or one number for all edges.
    field : str or float
        Name of the node attribute, or one number for all nodes.
    temperature : float
        Finite, > 0.
    default_coupling, default_field : float, optional
        Value for edges and nodes without the attribute, which are an error otherwise.

    Returns
    -------
    MRF
        Its `labels` are the nodes, in the order of the graph.

    Examples
    --------
    >>> import networkx
    >>> from bouncy.formats.graphs import from_networkx
    >>> model = from_networkx(networkx.path_graph("abc"), coupling=0.5, field=0.1)
    >>> model.labels
    ('a', 'b', 'c')
    >>> round(float(model.log_prob([1, 1, -1])), 12)
    0.1
    """
    temperature = check_positive("temperature", temperature)
    nodes, edges = _read(graph)
    index = index_of(node for node, _ in nodes)
    fields = _attribute("field", field, default_field, [data for _, data in nodes], lambda k: f"node {nodes[k][0]!r}")
    couplings = _attribute(
        "coupling", coupling, default_coupling, [data for *_, data in edges], lambda k: f"edge {edges[k][:2]!r}"
    )
    ends = np.fromiter((index[node] for u, v, _ in edges for node in (u, v)), np.int64, 2 * len(edges))
    K = term_matrix(ends[::2], ends[1::2], 0.0 - couplings, len(index))
    return assemble(index, K, 0.0 - fields, 0.0, temperature)


def _read(graph: Any) -> tuple[list[tuple[Hashable, Any]], list[tuple[Hashable, Hashable, Any]]]:
    """Return nodes and edges with their attributes."""
    if not (callable(getattr(graph, "nodes", None)) and callable(getattr(graph, "edges", None))):
        raise TypeError(f"graph must be a networkx graph, got {type(graph).__name__}")
    edges = list(iter(graph.edges(data=True)))  # list() alone would walk the graph twice, to count the edges first
    for u, v, _ in edges:
        if u == v:
            raise ValueError(
                f"edge {(u, v)!r} is a loop: as s^2 = 1 it is a constant; remove it, for example with "
                "graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
            )
    return list(graph.nodes(data=True)), edges


def _attribute(
    name: str, value: Any, default: Any, attributes: list[Any], owner: Callable[[int], str]
) -> NDArray[np.float64]:
    """Return one number per edge or node: an attribute of each, or the same number for all."""
    if not isinstance(value, str):
        return np.full(len(attributes), check_finite(name, value))
    if default is not None:
        default = check_finite(f"default_{name}", default)
    values = [data.get(value, default) for data in attributes]
    missing = [k for k, found in enumerate(values) if found is None]
    if missing:
        raise ValueError(
            f"{owner(missing[0])} has no attribute {value!r}: set it, or pass default_{name}=, or {name}= a number "
            "for all"
        )
    return read_values(values, lambda k: f"attribute {value!r} of {owner(k)}")
