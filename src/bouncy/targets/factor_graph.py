"""Factor graphs: products of small tables over binary variables, Bayesian networks among them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import Labels
from bouncy._memory import read_only
from bouncy._validation import check_flag, check_real_array, entry, first_true
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import Target, target_part
from bouncy.targets.fields import cheaper_storage
from bouncy.targets.incidence import BYTES_PER_SITE, by_label, by_site, number_sites, pairs_in
from bouncy.targets.mrf import MRF

if TYPE_CHECKING:
    from bouncy.formats.files.json_fields import Fields

_MAX_VARIABLES = 20
# How far the probabilities of a conditional table may be from a sum of 1.
_NORMALISED = 1e-6
# Spins set, per site, before the search for a state of non-zero probability is given up.
_SEARCH = 1000


class FactorGraph(Target):
    """The distribution p(s) ~ prod_f table_f(s_f), each table over a few variables.

    Parameters
    ----------
    factors : sequence of (variables, table)
        `variables` is a tuple of up to 20 labels, any hashable things; `table` has shape (2,) * len(variables), the
        first variable on the first axis, with index 0 for the state -1 and index 1 for +1, and holds potentials >= 0.
        No variables and a single number are a constant.
    d : int, optional
        The sites are 0, ..., d - 1, whether or not they occur in a factor.
    labels : sequence, optional
        The sites in their order. With neither `d` nor `labels` it is that of first appearance.
    log : bool
        The tables hold logarithms of potentials, -inf for zero.

    Notes
    -----
    Zeros are walls that are never crossed: chains start from a state of non-zero probability, which is searched for,
    and every sampler here flips one spin at a time. If zeros cut the states into parts that single flips do not
    connect (two variables that must be equal, say) a chain stays in the part it started in. Merge such variables, or
    give them small potentials instead of zeros.

    Examples
    --------
    >>> import bouncy
    >>> t = bouncy.FactorGraph([(("a",), [1, 3]), (("a", "b"), [[2, 1], [1, 2]])])
    >>> t
    FactorGraph(d=2, 2 factors of up to 2 variables)
    >>> bouncy.exact(t).mean.round(6)  # E[a] = (3 - 1) / 4
    array([0.5     , 0.166667])
    """

    json_kind = "factor-graph"

    def __init__(
        self,
        factors: Iterable[tuple[Sequence[Hashable], ArrayLike]],
        *,
        d: int | None = None,
        labels: Sequence[Hashable] | None = None,
        log: bool = False,
    ) -> None:
        read = [_read_factor(k, factor, check_flag("log", log)) for k, factor in enumerate(_as_list(factors))]
        names, groups = number_sites((variables for variables, _ in read), d, labels, "factors")
        self.d: int = len(names)
        self._labels = names
        self._offset = float(sum(table for _, table in read if table.ndim == 0))
        self._tables = [table for _, table in read if table.ndim]
        self._groups = [group for group in groups if group]
        self._has_zeros = [bool(np.isneginf(table).any()) for table in self._tables]
        self._check_overflow()
        sizes = [table.size for table in self._tables]
        self._first = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        self._entries = np.concatenate([np.empty(0), *(table.ravel() for table in self._tables)])
        self._indptr, self._factor_of, place = by_site(self._groups, self.d)
        ranks = np.array([table.ndim for table in self._tables], dtype=np.int64)
        self._stride = 1 << (ranks[self._factor_of] - 1 - place)

    @classmethod
    def from_bayesian_network(cls, tables: Mapping[Hashable, tuple[Sequence[Hashable], ArrayLike]]) -> FactorGraph:
        """Make a Bayesian network: p(s) = prod_node P(node | parents), which is normalised.

        Parameters
        ----------
        tables : mapping
            {node: (parents, table)} with table[..., 0] and table[..., 1] the probabilities that the node is -1 and +1
            given its parents, which are on the axes before, in their order. Each pair must sum to 1.

        Examples
        --------
        >>> import bouncy
        >>> t = bouncy.FactorGraph.from_bayesian_network({
        ...     "rain": ((), [0.8, 0.2]),
        ...     "wet": (("rain",), [[0.9, 0.1], [0.01, 0.99]]),
        ... })
        >>> float(bouncy.exact(t.clamp({"wet": +1})).mean[0].round(6))  # E[rain | wet]
        0.42446
        """
        if not isinstance(tables, Mapping):
            raise TypeError(f"tables must be a mapping {{node: (parents, table)}}, got {type(tables).__name__}")
        factors = [_read_conditional(node, content, tables) for node, content in tables.items()]
        _check_acyclic({node: content[0] for node, content in tables.items()})
        return cls(factors, labels=tuple(tables))

    @classmethod
    def from_mrf(cls, mrf: MRF) -> FactorGraph:
        """Return the same distribution as a factor per non-zero field and coupling, and one for the offset."""
        if not isinstance(mrf, MRF):
            raise TypeError(f"mrf must be a bouncy.MRF, got {type(mrf).__name__}")
        spin, names = np.array([-1.0, 1.0]), mrf.labels
        couplings = scipy.sparse.coo_array(scipy.sparse.triu(scipy.sparse.coo_array(mrf.M)))
        factors: list[Any] = [((), mrf.offset)] if mrf.offset else []
        factors += [((names[i],), -mrf.r[i] * spin) for i in np.flatnonzero(mrf.r)]
        for i, j, value in zip(couplings.row, couplings.col, couplings.data, strict=True):
            factors.append(((names[i], names[j]), -value * np.outer(spin, spin)))
        return cls(factors, labels=names, log=True)

    @property
    def factors(self) -> list[tuple[tuple[Hashable, ...], NDArray[np.float64]]]:
        """The factors as (variables, table of log-potentials); `FactorGraph(t.factors, log=True)` is the same again."""
        names = self.labels
        constant: list[Any] = [((), np.array(self._offset))] if self._offset else []
        pairs = zip(self._groups, self._tables, strict=True)
        return constant + [(tuple(names[i] for i in group), read_only(table)) for group, table in pairs]

    def to_mrf(self) -> MRF:
        """Return the same distribution as a Markov random field, constant and labels included.

        Every factor must have at most two variables and no zeros.

        Examples
        --------
        >>> import bouncy
        >>> t = bouncy.FactorGraph([(("a",), [1, 3]), (("a", "b"), [[2, 1], [1, 2]])])
        >>> t.to_mrf()
        MRF(d=2, dense, 1 pair)
        """
        for group, table in zip(self._groups, self._tables, strict=True):
            self._check_pairwise(group, table)
        i, ones = self._of_size(1)
        (a, b), pairs = self._of_size(2)
        # A table is the sum over subsets of its variables: their product, times its mean with that product
        offset = self._offset + np.sum(ones.mean(axis=1)) + np.sum(pairs.mean(axis=(1, 2)))
        r = np.zeros(self.d)
        np.subtract.at(r, i[0], (ones[:, 1] - ones[:, 0]) / 2)
        np.subtract.at(r, a, (pairs[:, 1] - pairs[:, 0]).mean(axis=1) / 2)
        np.subtract.at(r, b, (pairs[:, :, 1] - pairs[:, :, 0]).mean(axis=1) / 2)
        J = (pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]) / 4
        M = scipy.sparse.csr_array((np.r_[-J, -J], (np.r_[a, b], np.r_[b, a])), shape=(self.d, self.d))
        return MRF(cheaper_storage(M), r, labels=self.labels, offset=float(offset))

    def view(self) -> Linked:
        """Return the arrays for compiled loops: the model's own, shared, and places in tables, valid after `init`."""
        model = self._indptr, self._factor_of, self._stride, self._first, self._entries
        return linked(Tables(*model, np.full(self._first.size, -1, np.int64), self._offset), self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        """Return the pattern of pairs that share a factor, (d, d) of bool, or None beyond 2^24 pairs."""
        return pairs_in(self._groups, self.d)

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        """Return random spins of non-zero probability, (d,), found by a depth-first search if tables have zeros."""
        preferred = super().start(generator)
        return self._search(preferred) if any(self._has_zeros) else preferred

    def to_json(self) -> dict[str, Any]:
        rows: list[Any] = [[[], [self._offset]]] if self._offset else []
        for group, table in zip(self._groups, self._tables, strict=True):
            rows.append([list(group), [None if value == -np.inf else value for value in table.ravel().tolist()]])
        return {"d": self.d, "log": True, "factors": rows}

    @classmethod
    def from_json(cls, fields: Fields) -> FactorGraph:
        d = fields.count("d", BYTES_PER_SITE)
        log = fields.choice("log", (True, False))
        rows = enumerate(fields.rows("factors"))
        factors = [_factor_from_json(fields, row, f"factors[{k}]", d, log) for k, row in rows]
        return cls._numbered(factors, fields.labels(d) or range(d), log)

    @classmethod
    def _numbered(cls, factors: Sequence[Any], labels: Sequence[Hashable], log: bool = True) -> FactorGraph:
        """Return the graph of some factors of numbered sites, given the labels of these."""
        groups = by_label((group for group, _ in factors), labels)
        return cls(zip(groups, (table for _, table in factors), strict=True), labels=labels, log=log)

    def __repr__(self) -> str:
        n, largest = len(self._groups), max(map(len, self._groups), default=0)
        return f"FactorGraph(d={self.d}, {_count(n, 'factor')} of up to {_count(largest, 'variable')})"

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> FactorGraph:
        number = {int(site): k for k, site in enumerate(free)}
        left: list[Any] = [((), self._offset)]
        for group, table in zip(self._groups, self._tables, strict=True):
            part = _slice(table, group, spins)
            if np.isneginf(part).all():
                known = {self.labels[i]: int(spins[i]) for i in group if spins[i]}
                raise ValueError(f"evidence has probability zero: a factor rules out {known!r}")
            left.append((tuple(number[i] for i in group if i in number), part))
        return self._numbered(left, labels)

    def _tempered(self, beta: float) -> FactorGraph:
        """Multiply the log-potentials; zeros stay zeros, at beta = 0 as well."""
        tables = [np.multiply(table, beta, out=table.copy(), where=np.isfinite(table)) for table in self._tables]
        factors: list[Any] = [((), beta * self._offset), *zip(self._groups, tables, strict=True)]
        return self._numbered(factors, self.labels)

    def _check_overflow(self) -> None:
        """Raise unless any difference of two values of log p fits in a float64."""
        with np.errstate(over="ignore"):
            largest = [float(np.max(np.abs(table[np.isfinite(table)]))) for table in self._tables]
            total = 2 * (abs(self._offset) + np.sum(largest))
        if not np.isfinite(total):
            raise ValueError(
                "the sum of the largest log-potentials must fit in a float64 but overflows (largest "
                f"{max(largest, default=self._offset):g}); rescale the tables"
            )

    def _of_size(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the sites, (n, factors), and tables, (factors, 2, ...), of the factors of n variables."""
        which = [f for f, group in enumerate(self._groups) if len(group) == n]
        sites = np.array([self._groups[f] for f in which], dtype=np.int64).reshape(-1, n)
        return sites.T, np.array([self._tables[f] for f in which]).reshape(-1, *(2,) * n)

    def _check_pairwise(self, group: tuple[int, ...], table: NDArray[np.float64]) -> None:
        names = tuple(self.labels[i] for i in group)
        if len(group) > 2:
            raise ValueError(f"an MRF has pairs only, got a factor of {len(group)} variables, {names!r:.80}")
        if np.isneginf(table).any():
            raise ValueError(
                f"an MRF gives every state a positive probability, got a factor with zeros, over {names!r}"
            )

    def _search(self, preferred: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return spins whose probability is not zero, as preferred where the search does not backtrack.

        Sites are set in their order; a site is set again when a factor has no entry left that agrees with it.
        """
        s = np.zeros(self.d, np.int8)
        tried = [0] * self.d
        i, steps = 0, 0
        while 0 <= i < self.d:
            if tried[i] == 2:
                s[i], tried[i] = 0, 0
                i -= 1
                continue
            s[i] = -preferred[i] if tried[i] else preferred[i]
            tried[i] += 1
            steps += 1
            if steps > _SEARCH * self.d:
                raise ValueError(f"no state of non-zero probability was found in {steps} steps; pass one as initial=")
            if all(np.isfinite(_slice(self._tables[f], self._groups[f], s)).any() for f in self._walls_at(i)):
                i += 1
        if i < 0:
            raise ValueError("every state has probability zero: the zeros of the factors contradict each other")
        return s

    def _walls_at(self, i: int) -> Iterator[int]:
        """Return the factors of site i that have zeros."""
        return (f for f in self._factor_of[self._indptr[i] : self._indptr[i + 1]] if self._has_zeros[f])


# Validation


def _as_list(factors: Any) -> list[Any]:
    if isinstance(factors, str | Mapping) or not isinstance(factors, Iterable):
        raise TypeError(f"factors must be a sequence of (variables, table), got {type(factors).__name__}")
    return list(factors)


def _read_factor(k: int, factor: Any, log: bool) -> tuple[tuple[Hashable, ...], NDArray[np.float64]]:
    """Return the variables and the table of log-potentials of factor k."""
    if not isinstance(factor, tuple | list) or len(factor) != 2:
        raise TypeError(f"factors[{k}] must be a pair (variables, table), got {factor!r:.60}")
    variables = _read_variables(factor[0], f"the variables of factors[{k}]")
    if len(variables) > _MAX_VARIABLES:
        raise ValueError(
            f"factors[{k}] has {len(variables)} variables, at most {_MAX_VARIABLES} are allowed (a table of 2^20 "
            "entries); split it into smaller factors, or write the model as a bouncy.Polynomial or bouncy.Custom"
        )
    name = f"factors[{k}][1]"
    table = _read_table(factor[1], len(variables), name, log)
    if np.isneginf(table).all():
        raise ValueError(f"{name} gives every state the potential zero, so there is no distribution")
    return variables, table


def _factor_from_json(
    fields: Fields, row: Any, name: str, d: int, log: bool
) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    from bouncy.formats.files.json_fields import listed, number, sites

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


def _read_variables(variables: Any, name: str) -> tuple[Hashable, ...]:
    if isinstance(variables, np.ndarray) and variables.ndim == 1:
        variables = variables.tolist()
    if not isinstance(variables, tuple | list):
        raise TypeError(f"{name} must be a tuple of labels such as ('a', 'b'), or ('a',), got {variables!r:.60}")
    for at, label in enumerate(variables):
        if not isinstance(label, Hashable):
            raise TypeError(f"{name} must be hashable, got {label!r:.60}")
        if label in variables[:at]:
            raise ValueError(f"{name} must be different from each other, got {label!r} more than once")
    return tuple(variables)


def _read_table(table: ArrayLike, n: int, name: str, log: bool) -> NDArray[np.float64]:
    """Return a table of shape (2,) * n as log-potentials, finite or -inf."""
    if log:
        given = np.asarray(table)
        zero = np.isneginf(given) if given.dtype.kind == "f" else np.zeros(given.shape, bool)
        values = check_real_array(name, np.where(zero, 0, given))
        values[zero] = -np.inf
    else:
        values = check_real_array(name, table)
    if values.shape != (2,) * n:
        raise ValueError(f"{name} must have shape {(2,) * n}, an axis of 2 per variable, got shape {values.shape}")
    return values if log else _logarithm(values, name)


def _logarithm(potentials: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    at = first_true(potentials < 0)
    if at is not None:
        raise ValueError(
            f"{name} must hold potentials >= 0, got {entry(name, at, potentials[at])}; pass log=True if these are "
            "logarithms"
        )
    with np.errstate(divide="ignore"):
        return np.log(potentials)


def _read_conditional(
    node: Hashable, content: Any, nodes: Mapping[Hashable, Any]
) -> tuple[tuple[Hashable, ...], NDArray[np.float64]]:
    """Return the factor P(node | parents) of a Bayesian network, the node last."""
    if not isinstance(content, tuple | list) or len(content) != 2:
        raise TypeError(f"tables[{node!r}] must be a pair (parents, table), got {content!r:.60}")
    parents = _read_variables(content[0], f"the parents of {node!r}")
    for parent in parents:
        if parent not in nodes:
            raise ValueError(f"{node!r} has the parent {parent!r}, which has no table of its own")
    name = f"tables[{node!r}][1]"
    table = check_real_array(name, content[1])
    shape = (2,) * (len(parents) + 1)
    if table.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, the parents' axes before the node's, got {table.shape}")
    at = first_true(table < 0)
    if at is not None:
        raise ValueError(f"{name} must hold probabilities, got {entry(name, at, table[at])}")
    total = table.sum(axis=-1)
    at = first_true(np.abs(total - 1) > _NORMALISED)
    if at is not None:
        where = entry(f"the sum of {name}", at, total[at])
        raise ValueError(f"{name} must sum to 1 over its last axis, that of {node!r}, got {where}")
    return (*parents, node), table


def _check_acyclic(parents: Mapping[Hashable, Sequence[Hashable]]) -> None:
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        cycle = " -> ".join(repr(node) for node in error.args[1])
        raise ValueError(f"a Bayesian network has no cycles, got {cycle}; use FactorGraph(factors) for one") from None


def _slice(table: NDArray[np.float64], group: tuple[int, ...], spins: NDArray[np.int8]) -> Any:
    """Return the entries that agree with the spins; a spin of zero is unknown."""
    return table[tuple(slice(None) if spins[i] == 0 else int(spins[i] > 0) for i in group)]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


# Compiled bodies


@target_part("at", bounds={"at": lambda view: (view.at, view.at)})
class Tables(NamedTuple):
    """log p(s) = offset + sum_f entries[at_f], with the places at which the tables are read kept up to date."""

    indptr: NDArray[np.uint64]  # (d + 1,)
    factor: NDArray[np.uint32]  # (sum of sizes,) those of site i are factor[indptr[i]:indptr[i + 1]]
    stride: NDArray[np.int64]  # (sum of sizes,) entries between -1 and +1 of the site in that factor's table
    first: NDArray[np.int64]  # (factors,) where each table begins, all of its spins -1
    entries: NDArray[np.float64]  # log-potentials, one table after the other
    at: NDArray[np.int64]  # (factors,)
    offset: float

    def flip_cost(self, s, i):
        cost = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            now = self.at[self.factor[k]]
            then = now - s[i] * self.stride[k]
            cost += self.entries[np.uint64(now)] - self.entries[np.uint64(then)]
        return cost

    def log_prob(self, s):
        total = self.offset
        for f in range(self.at.size):
            total += self.entries[np.uint64(self.at[f])]
        return total

    def init(self, s):
        for f in range(self.at.size):
            self.at[f] = self.first[f]
        for i in range(s.size):
            if s[i] > 0:
                for k in range(self.indptr[i], self.indptr[i + 1]):
                    self.at[self.factor[k]] += self.stride[k]

    def on_flip(self, s, i):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            self.at[self.factor[k]] += s[i] * self.stride[k]


def _example_network() -> FactorGraph:
    return FactorGraph.from_bayesian_network(
        {
            "rain": ((), [0.7, 0.3]),
            "sprinkler": (("rain",), [[0.6, 0.4], [0.85, 0.15]]),
            "wet": (("rain", "sprinkler"), [[[0.9, 0.1], [0.3, 0.7]], [[0.25, 0.75], [0.1, 0.9]]]),
        }
    )


def _example_walls() -> FactorGraph:
    """Return a graph whose zeros leave all possible states connected by single flips."""
    not_all = [[[1.0, 2.0], [1.5, 1.0]], [[1.0, 0.5], [1.0, 0.0]]]
    return FactorGraph([(("a", "b", "c"), not_all), (("c", "d"), [[1.0, 0.0], [2.0, 1.0]]), (("b",), [1.0, 2.0])])


EXAMPLES = {"factor-graph": _example_network, "factor-graph-walls": _example_walls}
