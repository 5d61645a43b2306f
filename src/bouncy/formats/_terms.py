"""Terms of an energy, read from mappings and arrays, the model they make, and the terms of a model.

Every input becomes a vector of linear terms and a (d, d) matrix K, each entry of which is *one* term K_ij s_i s_j, so
that K_ij and K_ji add up. Mappings give a sparse K; arrays stay dense or sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain, islice
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._validation import check_positive, check_real_array, check_real_dtype, entry, first_true
from bouncy.targets.fields import cheaper_storage
from bouncy.targets.mrf import MRF


def check_pairs(name: str, terms: Mapping[Any, Any]) -> None:
    """Raise unless every key is a pair of labels, given as a tuple."""
    for key in terms:
        if not isinstance(key, tuple) or len(key) != 2:
            hint = "; a string is not taken for two labels" if isinstance(key, str) else ""
            raise TypeError(f"keys of {name} must be pairs of labels (u, v), got the key {key!r:.60}{hint}")


def index_of(labels: Iterable[Hashable]) -> dict[Any, int]:
    """Return the number of each label, in the order of first appearance."""
    return {label: i for i, label in enumerate(dict.fromkeys(labels))}


def read_values(values: Collection[Any], name_of: Callable[[int], str]) -> NDArray[np.float64]:
    """Return finite real numbers as a float64 array; `name_of(k)` names the k-th in errors."""
    kinds = set(map(type, values))
    wrong = {kind for kind in kinds if kind is bool or not issubclass(kind, Real)}
    if wrong:
        k, value = next((k, value) for k, value in enumerate(values) if type(value) in wrong)
        raise TypeError(f"{name_of(k)} must be a real number, got {value!r:.60} of type {type(value).__name__}")
    try:
        with np.errstate(over="ignore"):
            array = np.fromiter(values, np.float64, len(values))
    except OverflowError:  # an int beyond the range of float64
        array = np.array([_or_inf(value) for value in values])
    at = first_true(~np.isfinite(array))
    if at is not None:
        raise ValueError(f"{name_of(at[0])} must be finite and fit in a float64, got {array[at]}")
    return array


def read_mapping(name: str, terms: Mapping[Any, Any]) -> NDArray[np.float64]:
    """Return the values of a mapping as a float64 array, in its order."""
    return read_values(terms.values(), lambda k: f"{name}[{next(islice(terms, k, None))!r}]")


def read_pairs(name: str, terms: Mapping[Any, Any], index: Mapping[Any, int]) -> scipy.sparse.csr_array:
    """Return terms {(u, v): value} as a sparse (d, d) matrix over the labels of `index`."""
    ends = np.fromiter(map(index.__getitem__, chain.from_iterable(terms)), np.int64, 2 * len(terms))
    return term_matrix(ends[::2], ends[1::2], read_mapping(name, terms), len(index))


def term_matrix(
    i: NDArray[np.integer], j: NDArray[np.integer], values: NDArray[np.float64], d: int
) -> scipy.sparse.csr_array:
    """Return terms on the pairs (i, j) as a sparse (d, d) matrix; equal pairs add up."""
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = scipy.sparse.csr_array((values, (i, j)), shape=(d, d))
    matrix.eliminate_zeros()
    return matrix


def read_matrix(name: str, value: Any) -> Any:
    """Return a square array of finite numbers as a float64 copy, an ndarray or a `csr_array`."""
    matrix = _read_sparse(name, value) if _is_sparse(value) else check_real_array(name, value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be a mapping {{(u, v): value}} or of shape (d, d), got shape {matrix.shape}")
    return matrix


def off_diagonal(matrix: Any) -> Any:
    """Return a copy of an ndarray or `csr_array` with zeros on its diagonal."""
    if not _is_sparse(matrix):
        copy = matrix.copy()
        np.fill_diagonal(copy, 0.0)
        return copy
    terms = matrix.tocoo()
    apart = terms.row != terms.col
    return term_matrix(terms.row[apart], terms.col[apart], terms.data[apart], matrix.shape[0])


def assemble(
    labels: Collection[Hashable], K: Any, linear: NDArray[np.float64], offset: float, temperature: float
) -> MRF:
    """Return the MRF with log p(s) = -E(s)/temperature, E(s) = sum_i linear_i s_i + sum_ij K_ij s_i s_j + offset.

    K is an ndarray or `csr_array` with zero diagonal; the model is stored densely or sparsely as its couplings suggest.
    """
    if not labels:
        raise ValueError("the model has no variables; give at least one label, if only with a linear term of 0")
    names = tuple(labels)
    with np.errstate(over="ignore", invalid="ignore"):
        M, r, constant = cheaper_storage((K + K.T) / temperature), linear / temperature, 0.0 - offset / temperature
    _check_fits(names, M, r, constant)
    return MRF(M, r, labels=names, offset=constant)


class EnergyTerms(NamedTuple):
    """h_i for every site, J for each pair i < j, and a constant."""

    h: NDArray[np.float64]
    i: NDArray[np.integer]
    j: NDArray[np.integer]
    J: NDArray[np.float64]
    offset: float


def energy_terms(mrf: MRF, temperature: float) -> EnergyTerms:
    """Return the terms of E(s) = -temperature log p(s)."""
    temperature = check_positive("temperature", temperature)
    upper = scipy.sparse.triu(scipy.sparse.coo_array(mrf.M), 1, format="coo")
    with np.errstate(over="ignore"):
        h, J, offset = temperature * mrf.r, temperature * upper.data, 0.0 - temperature * mrf.offset
    if not (np.isfinite(h).all() and np.isfinite(J).all() and np.isfinite(offset)):
        raise ValueError(f"energies at temperature {temperature:g} overflow a float64; use a lower temperature")
    return EnergyTerms(h, upper.row, upper.col, J, offset)


def label_pairs(
    labels: tuple[Hashable, ...], i: NDArray[np.integer], j: NDArray[np.integer]
) -> Iterator[tuple[Hashable, Hashable]]:
    """Return an iterator over the pairs of labels of sites i and j."""
    return zip(map(labels.__getitem__, i.tolist()), map(labels.__getitem__, j.tolist()), strict=True)


def _check_fits(labels: tuple[Hashable, ...], M: Any, r: NDArray[np.float64], constant: float) -> None:
    """Raise if a sum of terms, or its ratio to the temperature, has overflowed."""
    what = None
    values = M.data if _is_sparse(M) else M
    if not np.isfinite(values).all():
        terms = scipy.sparse.coo_array(M)
        at = int(np.argmin(np.isfinite(terms.data)))
        what = f"the coupling of {labels[terms.row[at]]!r} and {labels[terms.col[at]]!r}"
    elif not np.isfinite(r).all():
        what = f"the linear term of {labels[int(np.argmin(np.isfinite(r)))]!r}"
    elif not np.isfinite(constant):
        what = "the constant term"
    if what is not None:
        raise ValueError(f"{what}, divided by the temperature, overflows a float64; rescale the model")


def _read_sparse(name: str, value: Any) -> Any:
    check_real_dtype(name, value.dtype)
    if value.ndim != 2:
        raise ValueError(f"{name} must be a mapping {{(u, v): value}} or of shape (d, d), got shape {value.shape}")
    terms = value.tocoo()
    with np.errstate(over="ignore"):
        data = terms.data.astype(np.float64)
    at = first_true(~np.isfinite(data))
    if at is not None:
        raise ValueError(f"{name} must be finite, got {entry(name, (terms.row[at], terms.col[at]), data[at])}")
    return scipy.sparse.csr_array((data, (terms.row, terms.col)), shape=value.shape)


def _or_inf(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_sparse(value: Any) -> bool:
    return bool(scipy.sparse.issparse(value))
