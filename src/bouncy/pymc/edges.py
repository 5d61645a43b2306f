"""Where the density of a PyMC model may jump: places of its variables as edges of the value variables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transforms import CircularTransform, IntervalTransform, LogOddsTransform, LogTransform
from pytensor.graph.traversal import ancestors

from bouncy._validation import check_real_array
from bouncy.pymc.variables import Point, entries

Array = NDArray[np.float64]
Edges = Mapping[Hashable, ArrayLike]

# Transforms of single numbers, which take an edge to an edge.
_ELEMENTWISE = (LogTransform, LogOddsTransform, IntervalTransform)


def read_edges(model: pm.Model, point: Point, edges: Edges) -> dict[Hashable, Any]:
    """Return the edges of each label: the given ones, and ends of the support of variables without a transform.

    A name of a variable in `edges` stands for all its entries, with places in its own space; a label for one entry of a
    value variable.
    """
    if not isinstance(edges, Mapping):
        raise TypeError(f"edges must map variables to places, as in {{'tau': [1.0, 2.0]}}, got {type(edges).__name__}")
    found: dict[Hashable, Any] = dict(edges)
    for rv in model.free_RVs:
        name = model.rvs_to_values[rv].name
        places = _ends_of_support(model, rv, point[name].shape)
        if rv.name in found:
            given = np.atleast_1d(check_real_array(f"edges[{rv.name!r}]", found.pop(rv.name)))
            places = np.concatenate([places, _translated(model, rv, given, point[name].shape)])
        for label, column in zip(entries(name, point), places.reshape(len(places), point[name].size).T, strict=True):
            column = np.append(column[np.isfinite(column)], found.pop(label, ()))
            if column.size:
                found[label] = np.unique(column)
    return found


def _ends_of_support(model: pm.Model, rv: Any, shape: tuple[int, ...]) -> Array:
    """Return the fixed ends of the support of a variable without a transform, (n, *shape)."""
    ends: tuple[Any, ...] = ()
    support = None if model.rvs_to_transforms[rv] is not None else _default_transform(rv.owner.op, rv)
    if isinstance(support, LogTransform):
        ends = (0.0,)
    elif isinstance(support, LogOddsTransform):
        ends = (0.0, 1.0)
    elif isinstance(support, CircularTransform):
        ends = (-np.pi, np.pi)
    elif isinstance(support, IntervalTransform):
        ends = support.get_a_and_b(rv.owner.inputs)[:2]
    elif support is not None:
        raise ValueError(
            f"{rv.name} has no transform, and no density on all of its {np.prod(shape):.0f} entries: build it without "
            "default_transform=None"
        )
    # An end that depends on other variables is no edge: the user may know it as a wall.
    known = [end for end in map(pt.as_tensor, ends) if not _depends_on_variables(model, end)]
    values = [np.broadcast_to(end.eval(mode="FAST_COMPILE"), shape) for end in known]
    return np.array(values, np.float64).reshape(len(known), *shape)


def _translated(model: pm.Model, rv: Any, places: Array, shape: tuple[int, ...]) -> Array:
    """Return places of a variable as places of its value variable, (n, *shape); not finite outside of the support."""
    transform = model.rvs_to_transforms[rv]
    everywhere = np.multiply.outer(places, np.ones(shape))
    if transform is None:
        return everywhere
    value = model.rvs_to_values[rv].name
    if not isinstance(transform, _ELEMENTWISE):
        raise ValueError(
            f"the entries of {rv.name} are transformed together, so that its edges are no edges of {value}: name "
            f"places of {value}, or walls"
        )
    graph = transform.forward(pt.constant(everywhere), *rv.owner.inputs)
    if _depends_on_variables(model, graph):
        raise ValueError(
            f"the support of {rv.name}, and so the edges of {value}, depend on other variables: build {rv.name} with "
            "default_transform=None"
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(graph.eval(mode="FAST_COMPILE"))


def _depends_on_variables(model: pm.Model, graph: Any) -> bool:
    return not set(model.basic_RVs).isdisjoint(ancestors([graph]))
