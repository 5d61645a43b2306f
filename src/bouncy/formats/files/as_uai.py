"""UAI: the text format of the UAI inference competitions, for networks of binary variables.

A file holds the word MARKOV or BAYES, the number of variables, their numbers of states (2 each), the number of
functions, the variables of each function, and the tables: the number of entries, then the entries, >= 0, with the last
variable changing fastest. In a BAYES file the table of each variable given others has that variable last. State 0 is
the spin -1, state 1 the spin +1. Lines may end anywhere; those that start with `c` are comments.

The last table that we write is `1 1`, of variable 0. It changes no probability, and a file truncated anywhere lacks a
word of it or has the same numbers. The reader leaves it out.

A network of positive tables of one or two variables becomes an `MRF`, any other a `FactorGraph`.

An evidence file is the number of observed variables, then each with its state; a `1`, for one set of evidence, may
precede them.

References: http://www.hlt.utdallas.edu/~vgogate/uai16-evaluation/uaiformat.html
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_flag, first_true
from bouncy.formats._terms import energy_terms
from bouncy.formats.files import _sites
from bouncy.formats.files._source import Source, opened
from bouncy.formats.files._tokens import Tokens, show
from bouncy.targets.contract import Target
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF

NAME = "uai"
SUFFIXES = (".uai",)
MAX_BYTES = 2**30
TARGETS = (MRF, FactorGraph)

_KINDS = (b"MARKOV", b"BAYES")
_MOST_VARIABLES = 20  # of one table: a million entries
_SMALLEST = float(np.finfo(np.float64).tiny)  # smaller numbers have fewer digits
_SUM_TOLERANCE = 1e-2  # for sums of conditional probabilities, which are often given to three digits


class _Factor(NamedTuple):
    variables: tuple[int, ...]
    table: NDArray[np.float64]  # (2,) * number of variables


_END = _Factor((0,), np.ones(2))


def load(source: Source, *, evidence: str | os.PathLike[str] | None = None) -> Target:
    """Read a network, and clamp it to the evidence of another file if one is given."""
    d, factors = _read_network(Tokens(source))
    with source.blamed():
        graph = FactorGraph(factors, d=d)
        target: Target = graph.to_mrf() if all(map(_is_simple, factors)) else graph
    return target if evidence is None else _clamped(target, evidence, source.max_bytes)


def save(target: MRF | FactorGraph, file: BinaryIO, *, renumber: bool = False) -> None:
    """Write a MARKOV network; the constant of log p of an `MRF` is spread over the tables of single variables."""
    if not check_flag("renumber", renumber) and not _sites.are_numbers(target):
        raise ValueError(
            f"a UAI file numbers variables from 0 and cannot keep the labels {target.labels!s:.60}; pass "
            "renumber=True to write 0, 1, ... in their place, or save as .json"
        )
    factors = [*(_factors_of_mrf(target) if isinstance(target, MRF) else _factors_of_graph(target)), _END]
    file.write(f"MARKOV\n{target.d}\n{' '.join(['2'] * target.d)}\n{len(factors)}\n".encode())
    for variables, _ in factors:
        file.write(f"{' '.join(map(str, (len(variables), *variables)))}\n".encode())
    for _, table in factors:
        file.write(f"\n{table.size}\n{' '.join(map(repr, table.ravel().tolist()))}\n".encode())


def _read_network(tokens: Tokens) -> tuple[int, list[_Factor]]:
    kind = tokens.word("MARKOV or BAYES")
    if kind not in _KINDS:
        raise tokens.error(f"expected MARKOV or BAYES, got {show(kind)}")
    d = tokens.index("the number of variables")
    if d == 0:
        raise tokens.error("the number of variables: expected at least 1, got 0")
    _read_states(tokens, d)
    scopes = _read_scopes(tokens, d) if kind == b"MARKOV" else _read_families(tokens, d)
    factors = [_Factor(scope, _read_table(tokens, k, scope, kind)) for k, scope in enumerate(scopes)]
    tokens.finish(f"the last of {len(factors)} tables")
    ends = bool(factors) and factors[-1].variables == _END.variables and np.array_equal(factors[-1].table, _END.table)
    return d, factors[:-1] if ends and kind == b"MARKOV" else factors


def _read_states(tokens: Tokens, d: int) -> None:
    for i in range(d):
        states = tokens.index(f"the number of states of variable {i}")
        if states != 2:
            raise tokens.error(f"variable {i} has {states} states; only binary variables, of 2 states, can be read")


def _read_scopes(tokens: Tokens, d: int) -> list[tuple[int, ...]]:
    count = tokens.index("the number of functions")
    return [_read_scope(tokens, k, d) for k in range(count)]


def _read_scope(tokens: Tokens, k: int, d: int) -> tuple[int, ...]:
    size = tokens.index(f"the number of variables of function {k}")
    if size > _MOST_VARIABLES:
        raise tokens.error(f"function {k} has {size} variables; at most {_MOST_VARIABLES} can be read")
    scope: list[int] = []
    for _ in range(size):
        scope.append(tokens.index(f"a variable of function {k}", below=d))
        if scope[-1] in scope[:-1]:
            raise tokens.error(f"function {k} has the variable {scope[-1]} more than once")
    return tuple(scope)


def _read_families(tokens: Tokens, d: int) -> list[tuple[int, ...]]:
    """Return the scopes of a BAYES network; each variable must be the last one of exactly one scope."""
    scopes: list[tuple[int, ...]] = []
    about: dict[int, int] = {}
    for k in range(tokens.index("the number of functions")):
        scope = _read_scope(tokens, k, d)
        if not scope:
            raise tokens.error(f"function {k} of a BAYES network has no variables; expected the one it is about, last")
        if scope[-1] in about:
            raise tokens.error(
                f"functions {about[scope[-1]]} and {k} of a BAYES network are about variable {scope[-1]}"
            )
        about[scope[-1]] = k
        scopes.append(scope)
    if len(about) < d:
        missing = next(i for i in range(d) if i not in about)
        raise tokens.error(f"no function of the BAYES network is about variable {missing}, as its last one")
    return scopes


def _read_table(tokens: Tokens, k: int, scope: tuple[int, ...], kind: bytes) -> NDArray[np.float64]:
    what = f"the table of function {k}"
    count = tokens.index(f"the number of entries of {what}")
    if count != 2 ** len(scope):
        raise tokens.error(f"{what} has {count} entries; expected {2 ** len(scope)}, for {len(scope)} binary variables")
    values = tokens.potentials(count, what)
    if max(values) == 0:
        raise tokens.error(f"{what} is all zeros, which leaves no state possible")
    table = np.array(values).reshape((2,) * len(scope))
    if kind == b"BAYES":
        _check_sums(tokens, what, table)
    return table


def _check_sums(tokens: Tokens, what: str, table: NDArray[np.float64]) -> None:
    sums = table.sum(axis=-1).ravel()
    wrong = np.abs(sums - 1) > _SUM_TOLERANCE
    if wrong.any():
        at = int(np.argmax(wrong))
        raise tokens.error(
            f"entries {2 * at} and {2 * at + 1} of {what} of a BAYES network are conditional probabilities and "
            f"should add up to 1, got {sums[at]:g}"
        )


def _is_simple(factor: _Factor) -> bool:
    """Return whether a factor can be part of an `MRF`: at most two variables, and positive."""
    return len(factor.variables) <= 2 and bool(factor.table.min() > 0)


def _clamped(target: Target, path: Any, max_bytes: int) -> Target:
    with opened(os.fspath(path), max_bytes) as source:
        tokens = Tokens(source)
        evidence = _read_evidence(tokens, target.d)
        with source.blamed():
            return target.clamp(evidence) if evidence else target


def _read_evidence(tokens: Tokens, d: int) -> dict[int, int]:
    """Return the observed spins of an evidence file."""
    # the number of words is even only if the number of sets of evidence precedes the one set
    if tokens.count() % 2 == 0:
        sets = tokens.index("the number of sets of evidence")
        if sets != 1:
            raise tokens.error(f"expected 1 set of evidence, got {sets}")
    count = tokens.index("the number of observed variables")
    evidence: dict[int, int] = {}
    for _ in range(count):
        variable = tokens.index("an observed variable", below=d)
        if variable in evidence:
            raise tokens.error(f"variable {variable} is observed more than once")
        evidence[variable] = 2 * tokens.index(f"the state of variable {variable}", below=2) - 1
    tokens.finish("the last observed variable")
    return evidence


def _factors_of_mrf(target: MRF) -> list[_Factor]:
    """Return a table for each site and each pair: p(s) = prod_i e^{offset/d - r_i s_i} prod_ij e^{-M_ij s_i s_j}."""
    spin = np.array([-1.0, 1.0])
    upper = energy_terms(target, 1.0)
    pairs = list(zip(upper.i.tolist(), upper.j.tolist(), strict=True))
    fields = _potentials([(i,) for i in range(target.d)], target.offset / target.d - np.outer(target.r, spin))
    return fields + _potentials(pairs, -upper.J[:, None, None] * np.outer(spin, spin))


def _factors_of_graph(target: FactorGraph) -> list[_Factor]:
    """Return the tables of a graph with its constant spread over them: not all readers accept functions of nothing."""
    site = {label: i for i, label in enumerate(target.labels)}
    factors = [(tuple(site[label] for label in variables), table) for variables, table in target.factors]
    constant = sum(float(table) for scope, table in factors if not scope)
    tables = [(scope, table) for scope, table in factors if scope] or [((0,), np.zeros(2))]
    return [_potentials([scope], table[None] + constant / len(tables))[0] for scope, table in tables]


def _potentials(scopes: Sequence[tuple[int, ...]], logarithms: NDArray[np.float64]) -> list[_Factor]:
    """Return factors from log-potentials, (n, 2, ...), after checking that they can be written as potentials."""
    with np.errstate(over="ignore", under="ignore"):
        tables = np.exp(logarithms)
    lost = first_true(np.isfinite(logarithms) & ~((tables >= _SMALLEST) & np.isfinite(tables)))
    if lost is not None:
        raise ValueError(
            f"a UAI file holds potentials, and one of the sites {scopes[lost[0]]} is exp({logarithms[lost]:g}), which "
            "does not fit in a float64; save as .json instead"
        )
    return [_Factor(scope, table) for scope, table in zip(scopes, tables, strict=True)]
