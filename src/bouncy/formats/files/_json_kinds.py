"""The kinds of models in JSON documents: for each, what writes its fields and what reads them back, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._validation import first_true
from bouncy.formats._terms import energy_terms
from bouncy.formats.files import _labels
from bouncy.formats.files._json_fields import Fields, listed, number, shown, site, sites
from bouncy.formats.files._lattice import is_lattice
from bouncy.targets.contract import Target
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial
from bouncy.targets.rbm import RBM

# What a site takes, about, in a model that gives a number of sites without a field for each.
_BYTES_PER_SITE = 64


class Kind(NamedTuple):
    """What a document calls a kind of target, and how it is written and read."""

    name: str
    target: type[Target]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Fields], Target]


def _write_mrf(target: MRF) -> dict[str, Any]:
    upper = energy_terms(target, 1.0)
    content = {
        "storage": "sparse" if target.is_sparse else "dense",
        "offset": target.offset,
        "fields": target.r.tolist(),
        "couplings": [list(row) for row in zip(upper.i.tolist(), upper.j.tolist(), upper.J.tolist(), strict=True)],
    }
    return content if target.shape is None else content | {"lattice": list(target.shape)}


def _read_mrf(fields: Fields) -> MRF:
    sparse = fields.choice("storage", ("dense", "sparse")) == "sparse"
    offset = fields.number("offset", 0.0)
    r = fields.numbers("fields")
    d = len(r)
    M = _read_couplings(fields, d)
    if not sparse:
        fields.check_memory(8 * d * d, "fields")
    shape = _read_lattice(fields, d)
    labels = _read_labels(fields, d)
    with fields.source.blamed():
        target = MRF(M if sparse else M.toarray(), r, offset=offset, labels=labels)
    target.shape = shape
    return target


def _read_couplings(fields: Fields, d: int) -> scipy.sparse.csr_array:
    rows = fields.rows("couplings")
    first, second, values = [], [], []
    for k, row in enumerate(rows):
        name = f"couplings[{k}]"
        i, j, value = listed(fields.source, row, name, 3)
        first.append(site(fields.source, i, f"{name}[0]", d))
        second.append(site(fields.source, j, f"{name}[1]", d))
        values.append(number(fields.source, value, f"{name}[2]"))
    a, b = np.array(first, np.int64), np.array(second, np.int64)
    _check_pairs(fields, a, b)
    return scipy.sparse.csr_array((np.r_[values, values], (np.r_[a, b], np.r_[b, a])), shape=(d, d), dtype=np.float64)


def _check_pairs(fields: Fields, i: NDArray[np.int64], j: NDArray[np.int64]) -> None:
    """Raise unless each row couples two sites, and no other row couples the same two."""
    same = first_true(i == j)
    if same is not None:
        k = same[0]
        raise fields.source.error(f"couples site {i[k]} to itself", field=f"couplings[{k}]")
    pairs = np.minimum(i, j) * (1 + max(i.max(initial=0), j.max(initial=0))) + np.maximum(i, j)
    _, places = np.unique(pairs, return_index=True)
    if places.size < i.size:
        k = int(np.setdiff1d(np.arange(i.size), places)[0])
        raise fields.source.error(f"couples sites {i[k]} and {j[k]} again", field=f"couplings[{k}]")


def _read_lattice(fields: Fields, d: int) -> tuple[int, ...] | None:
    value = fields.take("lattice", None)
    if value is None:
        return None
    sides = tuple(listed(fields.source, value, "lattice"))
    if any(type(side) is not int for side in sides) or not is_lattice(sides, d):
        raise fields.source.error(f"must hold the sides of a lattice of {d} sites, got {shown(value)}", field="lattice")
    return sides


def _write_polynomial(target: Polynomial) -> dict[str, Any]:
    number_of = {label: i for i, label in enumerate(target.labels)}
    terms = [[[number_of[label] for label in term], value] for term, value in target.to_dict().items()]
    return {"vartype": target.vartype, "temperature": target.temperature, "d": target.d, "terms": terms}


def _read_polynomial(fields: Fields) -> Polynomial:
    vartype = fields.choice("vartype", ("SPIN", "BINARY"))
    temperature = fields.number("temperature", 1.0)
    d = fields.count("d", _BYTES_PER_SITE)
    terms, values = [], []
    for k, row in enumerate(fields.rows("terms")):
        term, value = listed(fields.source, row, f"terms[{k}]", 2)
        terms.append(sites(fields.source, term, f"terms[{k}][0]", d))
        values.append(number(fields.source, value, f"terms[{k}][1]"))
    labels = _read_labels(fields, d)
    with fields.source.blamed():
        target = Polynomial(terms, np.array(values), vartype=vartype, temperature=temperature, d=d)
        target.labels = labels
    return target


def _write_factor_graph(target: FactorGraph) -> dict[str, Any]:
    number_of = {label: i for i, label in enumerate(target.labels)}
    rows = []
    for variables, table in target.factors:
        values = [None if value == -np.inf else value for value in table.ravel().tolist()]
        rows.append([[number_of[label] for label in variables], values])
    return {"d": target.d, "log": True, "factors": rows}


def _read_factor_graph(fields: Fields) -> FactorGraph:
    d = fields.count("d", _BYTES_PER_SITE)
    log = fields.choice("log", (True, False))
    rows = enumerate(fields.rows("factors"))
    factors = [_read_factor(fields, row, f"factors[{k}]", d, log) for k, row in rows]
    labels = _read_labels(fields, d)
    with fields.source.blamed():
        target = FactorGraph(factors, d=d, log=log)
        target.labels = labels
    return target


def _read_factor(fields: Fields, row: Any, name: str, d: int, log: bool) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    first, second = listed(fields.source, row, name, 2)
    variables = sites(fields.source, first, f"{name}[0]", d)
    values = listed(fields.source, second, f"{name}[1]")
    if len(values) != 2 ** min(len(variables), 64):
        raise fields.source.error(
            f"must have 2^{len(variables)} entries, for {len(variables)} variables, got {len(values)}",
            field=f"{name}[1]",
        )
    table = [
        -np.inf if log and value is None else number(fields.source, value, f"{name}[1][{k}]")
        for k, value in enumerate(values)
    ]
    return variables, np.array(table).reshape((2,) * len(variables))


def _write_rbm(target: RBM) -> dict[str, Any]:
    return {"units": target.units, "b": target.b.tolist(), "c": target.c.tolist(), "W": target.W.tolist()}


def _read_rbm(fields: Fields) -> RBM:
    units = fields.choice("units", ("binary", "spin"))
    b, c = fields.numbers("b"), fields.numbers("c")
    rows = listed(fields.source, fields.take("W"), "W", len(b))
    W = [_read_row(fields, row, f"W[{i}]", len(c)) for i, row in enumerate(rows)]
    labels = _read_labels(fields, len(b) + len(c))
    with fields.source.blamed():
        target = RBM(np.array(W).reshape(len(b), len(c)), b, c, units=units)
        if labels is not None:
            target.labels = labels
    return target


def _read_row(fields: Fields, row: Any, name: str, length: int) -> list[float]:
    values = listed(fields.source, row, name, length)
    return [number(fields.source, value, f"{name}[{j}]") for j, value in enumerate(values)]


def _read_labels(fields: Fields, d: int) -> tuple[Any, ...] | None:
    """Take the labels, which end every kind, and raise if another field is left."""
    labels = _labels.from_json(fields.source, fields.take("labels", None), d)
    fields.finish()
    return labels


KINDS = (
    Kind("mrf", MRF, _write_mrf, _read_mrf),
    Kind("polynomial", Polynomial, _write_polynomial, _read_polynomial),
    Kind("factor-graph", FactorGraph, _write_factor_graph, _read_factor_graph),
    Kind("rbm", RBM, _write_rbm, _read_rbm),
)
