"""Polynomials of spins or of 0/1 variables, of any order: p-spin models, HUBO without reduction to pairs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import Labels
from bouncy._validation import check_finite, check_positive, check_real_array
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import Target, target_part
from bouncy.targets.incidence import BYTES_PER_SITE, by_label, by_site, number_sites, pairs_in

if TYPE_CHECKING:
    from bouncy.formats.files.json_fields import Fields

_VARTYPES = ("SPIN", "BINARY")


class Polynomial(Target):
    """The distribution p(s) ~ exp(-E(s) / temperature) whose energy E is a polynomial of any order.

    E(s) = sum_k c_k prod_{i in term k} s_i over spins s_i = -1/+1, or, with `vartype="BINARY"`, the same with x_i =
    (1 + s_i)/2 = 0/1 in place of s_i. Positive coefficients make a product less probable, as in `MRF`, dimod's
    `BinaryPolynomial` and HUBO. Sampling is in spins either way. A flip costs O(number of terms with that site), and a
    term of 0/1 variables is never expanded into terms of spins.

    Parameters
    ----------
    terms : mapping or sequence
        Terms to coefficients, {(i, j, k): c, ...}: a term is a tuple, list or (frozen)set of labels, any hashable
        things. Or a sequence of terms, for instance an integer array (n, order), with their `coefficients`. The
        empty term is a constant. Terms that occur more than once are added up; a label that is repeated within a term
        is reduced by s_i^2 = 1 or x_i^2 = x_i.
    coefficients : (n,) array-like, optional
        Energies of the terms, if `terms` is a sequence.
    vartype : "SPIN" or "BINARY", optional
        Whether variables are -1/+1 or 0/1. By default `terms.vartype` if there is one (dimod's), else "SPIN".
    d : int, optional
        The sites are 0, ..., d - 1, whether or not they occur in a term.
    labels : sequence, optional
        The sites in their order. With neither `d` nor `labels` it is that of first appearance.
    temperature : float
        Divides the energies.

    Notes
    -----
    For terms of at most two spins `MRF` describes the same model, at O(1) for the cost of a flip.

    Examples
    --------
    >>> import bouncy
    >>> t = bouncy.Polynomial({("a", "b", "c"): -1.0, ("a",): 0.5})
    >>> t
    Polynomial(d=3, SPIN, 2 terms, order 3)
    >>> t.labels, t.log_prob([[1, 1, 1], [-1, 1, 1]])
    (('a', 'b', 'c'), array([ 0.5, -0.5]))

    A HUBO, 3 x_0 x_1 x_2 - 2 x_1:

    >>> h = bouncy.Polynomial([(0, 1, 2), (1,)], [3.0, -2.0], vartype="BINARY", d=3)
    >>> h.log_prob([[1, 1, 1], [-1, 1, 1]])
    array([-1.,  2.])
    """

    json_kind = "polynomial"

    def __init__(
        self,
        terms: Mapping[Any, float] | Sequence[Any] | NDArray[Any],
        coefficients: ArrayLike | None = None,
        *,
        vartype: Any = None,
        d: int | None = None,
        labels: Sequence[Hashable] | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.vartype = _read_vartype(vartype, terms)
        self.temperature = check_positive("temperature", temperature)
        products, energies = _read_terms(terms, coefficients)
        names, groups = number_sites(products, d, labels, "terms")
        self.d: int = len(names)
        self._labels = names
        merged = _merge(groups, energies, self.vartype)
        self._constant = merged.pop((), 0.0)
        self._terms = [term for term, energy in merged.items() if energy != 0]
        self._energies = np.array([energy for energy in merged.values() if energy != 0])
        self._coefficients, self._offset = self._scaled()
        self._indptr, self._term_of, _ = by_site(self._terms, self.d)

    @property
    def order(self) -> int:
        """The size of the largest term."""
        return max(map(len, self._terms), default=0)

    def to_dict(self) -> dict[tuple[Hashable, ...], float]:
        """Return the energies as {tuple of labels: coefficient}: terms reduced and added up, zeros left out.

        Examples
        --------
        >>> import bouncy
        >>> bouncy.Polynomial({(0, 1, 1, 2): 0.5, (0,): 1.0, (): 3.0}).to_dict()
        {(): 3.0, (0, 2): 0.5, (0,): 1.0}
        """
        labels = self.labels
        named = {tuple(labels[i] for i in term): float(c) for term, c in zip(self._terms, self._energies, strict=True)}
        return {(): self._constant, **named} if self._constant else named

    def view(self) -> Linked:
        """Return the arrays for compiled loops: the model's own, shared, and a cache per term, valid after `init`."""
        model = self._indptr, self._term_of, self._coefficients
        if self.vartype == "SPIN":
            return linked(SpinTerms(*model, np.full(len(self._terms), np.nan), self._offset), self.d)
        return linked(BinaryTerms(*model, np.full(len(self._terms), -1, np.int32), self._offset), self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        """Return the pattern of pairs that share a term, (d, d) of bool, or None beyond 2^24 pairs."""
        return pairs_in(self._terms, self.d)

    def to_json(self) -> dict[str, Any]:
        energies = [self._constant, *self._energies.tolist()] if self._constant else self._energies.tolist()
        terms = [(), *self._terms] if self._constant else self._terms
        rows = [[list(term), energy] for term, energy in zip(terms, energies, strict=True)]
        return {"vartype": self.vartype, "temperature": self.temperature, "d": self.d, "terms": rows}

    @classmethod
    def from_json(cls, fields: Fields) -> Polynomial:
        from bouncy.formats.files.json_fields import listed, number, sites

        vartype = fields.choice("vartype", _VARTYPES)
        temperature = fields.number("temperature", 1.0)
        d = fields.count("d", BYTES_PER_SITE)
        terms, values = [], []
        for k, row in enumerate(fields.rows("terms")):
            term, value = listed(fields.source, row, f"terms[{k}]", 2)
            terms.append(sites(fields.source, term, f"terms[{k}][0]", d))
            values.append(number(fields.source, value, f"terms[{k}][1]"))
        labels = fields.labels(d)
        named = terms if labels is None else by_label(terms, labels)
        return cls(named, np.array(values), vartype=vartype, temperature=temperature, d=d, labels=labels)

    def __repr__(self) -> str:
        n = len(self._terms)
        return f"Polynomial(d={self.d}, {self.vartype}, {n} term{'s' * (n != 1)}, order {self.order})"

    def _scaled(self) -> tuple[NDArray[np.float64], float]:
        """Return the energies, and minus the constant, over the temperature; raise if a sum of them can overflow."""
        with np.errstate(over="ignore"):
            coefficients = self._energies / self.temperature
            bound = 2 * (np.sum(np.abs(coefficients)) + abs(self._constant) / self.temperature)
        if not np.isfinite(bound):
            raise ValueError(
                "the sum of the absolute coefficients over the temperature must fit in a float64 but overflows "
                f"(largest coefficient {np.max(np.abs(self._energies), initial=abs(self._constant)):g}, temperature "
                f"{self.temperature:g}); rescale them"
            )
        return coefficients, 0.0 - self._constant / self.temperature

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> Polynomial:
        products = [(), *self._terms]
        energies = [self._constant, *self._energies]
        left = _substitute(zip(products, energies, strict=True), free, spins, self.vartype)
        return self._like(*left, labels)

    def _tempered(self, beta: float) -> Polynomial:
        return self._like([(), *self._terms], beta * np.r_[self._constant, self._energies], self.labels)

    def _like(self, terms: Sequence[tuple[int, ...]], energies: ArrayLike, labels: Labels) -> Polynomial:
        """Return a polynomial of the same kind, given terms of numbered sites and the labels of these."""
        products = by_label(terms, labels)
        return Polynomial(products, energies, vartype=self.vartype, labels=labels, temperature=self.temperature)


# Validation


def _read_vartype(vartype: Any, terms: Any) -> str:
    """Return "SPIN" or "BINARY"; dimod's members of that name will do."""
    given = getattr(terms, "vartype", "SPIN") if vartype is None else vartype
    name = getattr(given, "name", given)
    if not isinstance(name, str) or name not in _VARTYPES:
        raise ValueError(f"vartype must be 'SPIN' (-1/+1) or 'BINARY' (0/1), got {given!r:.60}")
    return name


def _read_terms(terms: Any, coefficients: Any) -> tuple[list[tuple[Hashable, ...]], list[float]]:
    """Return the terms as tuples of labels, and their coefficients."""
    if isinstance(terms, Mapping):
        if coefficients is not None:
            raise TypeError("coefficients must be left out if terms is a mapping, which holds them already")
        products = [_read_product(term, repr(term)) for term in terms]
        return products, [check_finite(f"the coefficient of {term!r:.60}", c) for term, c in terms.items()]
    if isinstance(terms, str) or not isinstance(terms, Sequence | np.ndarray):
        raise TypeError(f"terms must be a mapping {{(i, j): c}} or a sequence of terms, got {type(terms).__name__}")
    if coefficients is None:
        raise TypeError("coefficients must be given if terms is a sequence; or pass a mapping {(i, j): c}")
    energies = check_real_array("coefficients", coefficients)
    if energies.shape != (len(terms),):
        raise ValueError(f"coefficients must have shape ({len(terms)},), one per term, got shape {energies.shape}")
    products = [_read_product(term, f"terms[{k}]") for k, term in enumerate(terms)]
    return products, energies.tolist()


def _read_product(term: Any, name: str) -> tuple[Hashable, ...]:
    if isinstance(term, np.ndarray) and term.ndim == 1:
        return tuple(term.tolist())
    if isinstance(term, set | frozenset):  # their order changes from one process to the next
        return tuple(_sorted(term))
    if not isinstance(term, tuple | list):
        raise TypeError(f"a term must be a tuple, list or set of labels such as (0, 1), or (0,), got {name:.60}")
    for label in term:
        if not isinstance(label, Hashable):
            raise TypeError(f"labels must be hashable, got {label!r:.60} in the term {term!r:.60}")
    return tuple(term)


def _sorted(labels: Iterable[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=repr)


# Arithmetic of terms


def _merge(terms: Iterable[tuple[int, ...]], energies: Iterable[float], vartype: str) -> dict[tuple[int, ...], float]:
    """Return {reduced term: sum of its energies}, in the order of first appearance."""
    merged: dict[tuple[int, ...], float] = {}
    for term, energy in zip(terms, energies, strict=True):
        reduced = _reduce(term, vartype)
        merged[reduced] = merged.get(reduced, 0.0) + energy
    return merged


def _reduce(term: tuple[int, ...], vartype: str) -> tuple[int, ...]:
    """Return the sites of a product in ascending order, with s^2 = 1 or x^2 = x."""
    sites = set(term)
    if vartype == "SPIN" and len(sites) < len(term):
        sites = {i for i in sites if term.count(i) % 2}
    return tuple(sorted(sites))


def _substitute(
    terms: Iterable[tuple[tuple[int, ...], float]], free: NDArray[np.intp], spins: NDArray[np.int8], vartype: str
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Return terms and energies with the spins that are not zero put in and the free sites numbered anew."""
    number = {int(site): k for k, site in enumerate(free)}
    fixed = spins.astype(int) if vartype == "SPIN" else (1 + spins.astype(int)) // 2
    values = fixed.tolist()
    left, energies = [], []
    for term, energy in terms:
        factor = math.prod(values[i] for i in term if i not in number)
        if factor:
            left.append(tuple(number[i] for i in term if i in number))
            energies.append(factor * energy)
    return left, energies


# Compiled bodies


@target_part("value")
class SpinTerms(NamedTuple):
    """log p(s) = offset - sum_k c_k prod_{i in k} s_i, with each summand kept up to date."""

    indptr: NDArray[np.uint64]  # (d + 1,)
    term: NDArray[np.uint32]  # (sum of sizes,) those of site i are term[indptr[i]:indptr[i + 1]]
    c: NDArray[np.float64]  # (terms,)
    value: NDArray[np.float64]  # (terms,) c_k times the product: a flip changes its sign, without rounding
    offset: float

    def flip_cost(self, s, i):
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.value[self.term[k]]
        return -2.0 * total

    def log_prob(self, s):
        total = 0.0
        for k in range(self.value.size):
            total += self.value[k]
        return self.offset - total

    def init(self, s):
        for k in range(self.c.size):
            self.value[k] = self.c[k]
        for i in range(s.size):
            if s[i] < 0:
                for k in range(self.indptr[i], self.indptr[i + 1]):
                    self.value[self.term[k]] = -self.value[self.term[k]]

    def on_flip(self, s, i):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            self.value[self.term[k]] = -self.value[self.term[k]]


@target_part("zeros", bounds={"zeros": lambda view: (view.zeros, view.zeros)})
class BinaryTerms(NamedTuple):
    """log p(s) = offset - sum_k c_k [x_i = 1 for all i in k], with the number of x_i = 0 in each term kept."""

    indptr: NDArray[np.uint64]  # (d + 1,)
    term: NDArray[np.uint32]  # (sum of sizes,) those of site i are term[indptr[i]:indptr[i + 1]]
    c: NDArray[np.float64]  # (terms,)
    zeros: NDArray[np.int32]  # (terms,)
    offset: float

    def flip_cost(self, s, i):
        # A term depends on x_i only where no other variable of it is 0.
        own = 1 if s[i] < 0 else 0
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            if self.zeros[self.term[k]] == own:
                total += self.c[self.term[k]]
        return -s[i] * total

    def log_prob(self, s):
        total = 0.0
        for k in range(self.c.size):
            if self.zeros[k] == 0:
                total += self.c[k]
        return self.offset - total

    def init(self, s):
        for k in range(self.zeros.size):
            self.zeros[k] = 0
        for i in range(s.size):
            if s[i] < 0:
                for k in range(self.indptr[i], self.indptr[i + 1]):
                    self.zeros[self.term[k]] += 1

    def on_flip(self, s, i):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            self.zeros[self.term[k]] -= s[i]


EXAMPLES = {
    "polynomial-spin": lambda: Polynomial(
        {(0, 1, 2): 0.4, (1, 2, 3): -0.3, (0, 3): 0.25, (1,): -0.3, (2,): 0.2, (): 1.0}
    ),
    "polynomial-binary": lambda: Polynomial(
        {(0, 1, 2): 1.2, (1, 2, 3): -0.9, (0, 3): 0.7, (2,): -0.4}, vartype="BINARY"
    ),
}
