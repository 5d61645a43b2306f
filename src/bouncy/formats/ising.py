"""Conversion from and to Ising models, E(s) = sum_i h_i s_i + sum_ij J_ij s_i s_j + offset, s_i = -1/+1.

The sign is that of annealers and of dimod: a *negative* J_ij favours equal spins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._labels import Labels, align, check_labels
from bouncy._validation import check_finite, check_positive, check_real_array, entry, first_true
from bouncy.formats._terms import (
    assemble,
    check_pairs,
    energy_terms,
    index_of,
    label_pairs,
    read_mapping,
    read_matrix,
    read_pairs,
    term_matrix,
)
from bouncy.formats.qubo import spin_form
from bouncy.targets.mrf import MRF


def from_ising(h: Any, J: Any, temperature: float = 1.0, offset: float = 0.0) -> MRF:
    """Return the MRF p(s) ~ exp(-E(s)/temperature) of an Ising model.

    E(s) = sum_i h_i s_i + sum_ij J_ij s_i s_j + offset, with each entry of J counted once. The constant is kept, so
    that `log_prob` is -E(s)/temperature.

    Parameters
    ----------
    h : mapping {label: bias}, (d,) array-like, or None
        Linear biases. Entries of an array have the labels 0, 1, ..., or those of its index if it is a series.
    J : mapping {(u, v): bias}, (d, d) array-like, data frame or scipy.sparse, or None
        Couplings. In a mapping (u, v) and (v, u) are the same pair and add up. An array must hold each pair once, in
        the upper or in the lower triangle: a symmetric one is refused, as sum_{i<j} and sum_{ij} differ by a factor 2
        and both are in use. Its labels are 0 to d - 1; a series and a data frame are matched by theirs. A self-coupling
        is a constant and is refused; use `offset`.
    temperature : float
        Finite, > 0.
    offset : float
        Constant part of the energy.

    Returns
    -------
    MRF
        Its `labels` are in the order of first appearance, those of h before those of J. Couplings are stored sparsely
        where a flip is then cheaper: below about an eighth of all pairs, a quarter beyond a thousand variables.

    Examples
    --------
    >>> from bouncy.formats.ising import from_ising
    >>> model = from_ising({"a": 0.5}, {("a", "b"): -1.0}, temperature=2.0)
    >>> model.labels
    ('a', 'b')
    >>> float(model.log_prob([1, 1]))  # -(0.5 - 1)/2
    0.25
    """
    temperature, constant = check_positive("temperature", temperature), check_finite("offset", offset)
    (h, J), named = align(("h", {} if h is None else h, "site"), ("J", {} if J is None else J, "site", "site"))
    names, biases = _read_linear(h, named["site"])
    index, K = _read_couplings(J, names, named["site"])
    linear = np.zeros(len(index))
    linear[np.fromiter(map(index.__getitem__, names), np.int64, len(names))] = biases
    return assemble(index, K, linear, constant, temperature)


def to_ising(
    mrf: MRF, temperature: float = 1.0
) -> tuple[dict[Hashable, float], dict[tuple[Hashable, Hashable], float], float]:
    """Return (h, J, offset) with log p(s) = -E(s)/temperature, E(s) = sum_i h_i s_i + sum_ij J_ij s_i s_j + offset.

    Every label is in h, in the order of the model; J holds each pair with a coupling other than 0 once.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.formats.ising import to_ising
    >>> to_ising(bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]], r=0.5))
    ({0: 0.5, 1: 0.5}, {(0, 1): -1.0}, 0.0)
    """
    terms = energy_terms(mrf, temperature)
    h = dict(zip(mrf.labels, terms.h.tolist(), strict=True))
    J = dict(zip(label_pairs(mrf.labels, terms.i, terms.j), terms.J.tolist(), strict=True))
    return h, J, terms.offset


def from_bqm(bqm: Any, temperature: float = 1.0) -> MRF:
    """Return the MRF p ~ exp(-E/temperature) of a dimod `BinaryQuadraticModel`, with its labels in its order.

    Variables of a BINARY model are x = (1 + s)/2.

    Examples
    --------
    >>> import dimod
    >>> from bouncy.formats.ising import from_bqm
    >>> model = from_bqm(dimod.BinaryQuadraticModel({"b": 1.0}, {("b", "a"): -2.0}, 0.5, "BINARY"))
    >>> model.labels
    ('b', 'a')
    >>> float(model.log_prob([1, 1]))  # -(1 - 2 + 0.5)
    0.5
    """
    temperature = check_positive("temperature", temperature)
    linear, (i, j, biases), offset, labels = _read_bqm(bqm)
    K = term_matrix(i, j, biases, len(labels))
    if bqm.vartype.name == "BINARY":
        K, linear, offset = spin_form(K, linear, offset)
    return assemble(labels, K, linear, offset, temperature)


def to_bqm(mrf: MRF, temperature: float = 1.0) -> Any:
    """Return the SPIN `dimod.BinaryQuadraticModel` with log p(s) = -E(s)/temperature; needs the extra `dimod`.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.formats.ising import to_bqm
    >>> to_bqm(bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]], r=0.5)).num_interactions
    1
    """
    try:
        import dimod
    except ImportError as error:
        raise ImportError("to_bqm needs dimod: install it with  pip install 'bouncy[dimod]'") from error
    terms = energy_terms(mrf, temperature)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        terms.h, (terms.i, terms.j, terms.J), terms.offset, dimod.SPIN, variable_order=list(mrf.labels)
    )


def _read_linear(h: Any, labels: Labels | None) -> tuple[Any, NDArray[np.float64]]:
    """Return the labels of h and its values; an array has the labels of the model, if there are any."""
    if isinstance(h, Mapping):
        return tuple(h), read_mapping("h", h)
    values = check_real_array("h", h)
    if values.ndim != 1:
        raise ValueError(f"h must be a mapping {{label: bias}} or of shape (d,), got shape {values.shape}")
    if labels is not None and len(labels) != values.size:
        raise ValueError(f"h must have one entry per row of J, {len(labels)}, got {values.size}")
    return range(values.size) if labels is None else labels, values


def _read_couplings(J: Any, names: Any, labels: Labels | None) -> tuple[dict[Any, int], Any]:
    """Return the number of each label, those of h (`names`) first, and the matrix of terms."""
    if isinstance(J, Mapping):
        check_pairs("J", J)
        _refuse_loops(J)
        index = index_of(chain(names, chain.from_iterable(J)))
        return index, read_pairs("J", J, index)
    K = read_matrix("J", J)
    index = index_of(range(K.shape[0]) if labels is None else check_labels(labels, K.shape[0]))
    unknown = [name for name in names if name not in index]
    if unknown:
        first, *_, last = (*index, *index)
        raise ValueError(f"h has the label {unknown[0]!r}, but J, an array, has the labels {first!r} to {last!r}")
    if isinstance(names, range) and 0 < len(names) < len(index):
        raise ValueError(f"h must have one entry per row of J, {len(index)}, got {len(names)}")
    _check_once(K)
    return index, K


def _refuse_loops(J: Mapping[Any, Any]) -> None:
    for u, v in J:
        if u == v:
            raise ValueError(
                f"J[{(u, v)!r}] couples a spin to itself: as s^2 = 1 it is a constant; add it to offset instead"
            )


def _check_once(K: Any) -> None:
    """Raise if an array has a self-coupling or holds a pair twice."""
    present = scipy.sparse.csr_array(K != 0)
    loops = np.flatnonzero(present.diagonal())
    if loops.size:
        i = int(loops[0])
        raise ValueError(
            f"J must have a zero diagonal, got {entry('J', (i, i), K[i, i])}: as s_i^2 = 1 it is a constant; add it "
            "to offset instead"
        )
    both = present.multiply(present.T).tocoo()
    if both.nnz:
        i, j = int(both.row[0]), int(both.col[0])
        raise ValueError(
            f"an array J must hold each pair once, got {entry('J', (i, j), K[i, j])} and {entry('J', (j, i), K[j, i])}"
            ": pass np.triu(J, 1) if the energy of a symmetric J is sum_{i<j} J_ij s_i s_j, np.triu(J + J.T, 1) if "
            "every entry is a term"
        )


def check_bqm(bqm: Any) -> None:
    """Raise unless `bqm` is a binary quadratic model of dimod; dimod itself is not needed."""
    if not hasattr(bqm, "to_numpy_vectors") or getattr(bqm.vartype, "name", None) not in ("SPIN", "BINARY"):
        raise TypeError(f"bqm must be a dimod.BinaryQuadraticModel, SPIN or BINARY, got {type(bqm).__name__}")


def _read_bqm(bqm: Any) -> tuple[NDArray[np.float64], Any, float, list[Hashable]]:
    """Return linear biases, (rows, columns, biases), offset and labels of a dimod model, in its order."""
    check_bqm(bqm)
    labels = list(bqm.variables)
    vectors = bqm.to_numpy_vectors(variable_order=labels)
    i, j, biases = vectors.quadratic
    linear, quadratic = np.array(vectors.linear_biases, np.float64), np.array(biases, np.float64)
    bad = first_true(~np.isfinite(linear))
    if bad is not None:
        raise ValueError(f"the linear bias of {labels[bad[0]]!r} must be finite, got {linear[bad]}")
    bad = first_true(~np.isfinite(quadratic))
    if bad is not None:
        pair = labels[i[bad]], labels[j[bad]]
        raise ValueError(f"the quadratic bias of {pair!r} must be finite, got {quadratic[bad]}")
    return linear, (i, j, quadratic), check_finite("the offset of bqm", vectors.offset), labels
