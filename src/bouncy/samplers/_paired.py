"""Base class of samplers that exchange two spins: who is paired with whom on a target."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from bouncy._samplable import Samplable
from bouncy.clocks.contract import Clock, started
from bouncy.clocks.pairs import PAIRS, Pairing, new_scan
from bouncy.samplers.contract import SpinSampler
from bouncy.targets.contract import Target
from bouncy.tolls.contract import METROPOLIS


class Table(NamedTuple):
    """Pairs of sites, each once, and their weights."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class PairedSampler(SpinSampler):
    """A Metropolis sampler whose clock tries pairs of sites."""

    partners: Any = None

    def __post_init__(self) -> None:
        known = self.partners is None or (isinstance(self.partners, str) and self.partners in ("all", "edges"))
        if not known:
            object.__setattr__(self, "partners", _read_table(self.partners))

    @property
    def clock(self) -> Clock:
        return PAIRS

    @property
    def lane_toll(self) -> float:
        return METROPOLIS

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        return f"{self.name} exchanges spins in one state at a time"

    def new_clock(self, target: Target, state: NDArray[np.uint64]) -> Any:
        return started(new_scan(target.d, self.pairing(target), state))

    @abstractmethod
    def pairing(self, target: Target) -> Pairing:
        """Return what is tried on a target."""

    def table(self, target: Target) -> Table | None:
        """Return the pairs that trade places, within groups where there are any; None stands for all of them."""
        if self.partners == "all":
            return None
        weights = target.candidates() if self.partners is None else target.edges()
        if isinstance(self.partners, tuple):
            i, j, weight = (np.array(column) for column in zip(*self.partners, strict=True))
            return Table(i.astype(np.int64), j.astype(np.int64), weight.astype(np.float64))
        if weights is None:
            return None
        upper = scipy.sparse.coo_array(scipy.sparse.triu(weights, 1))
        kept = np.ones(upper.nnz, np.bool_) if self.partners == "edges" else upper.data > 0
        if target.constraint is not None:
            group = target.constraint.group_of
            kept &= (group[upper.row] == group[upper.col]) & (group[upper.row] >= 0)
        weight = np.ones(upper.nnz) if self.partners == "edges" else upper.data
        return Table(upper.row[kept].astype(np.int64), upper.col[kept].astype(np.int64), weight[kept])

    def refusal_of_partners(self, target: Target) -> str | None:
        """Return why the partners that were asked for cannot be those on a target, or None if they can."""
        if self.partners == "edges":
            edges = target.edges()
            if edges is None or not edges.nnz:
                return f"partners is 'edges', but {target!r} has no edges; use partners='all'"
        for i, j, _ in self.partners if isinstance(self.partners, tuple) else ():
            if max(i, j) >= target.d:
                return f"partners names the site {max(i, j)}, but there are {target.d}"
            if target.constraint is not None:
                group = target.constraint.group_of
                if group[i] != group[j] or group[i] < 0:
                    return f"partners pairs the sites {i} and {j}, which are not in the same group"
        if target.constraint is not None and self.has_own_partners and not _is_connected(target, self.table(target)):
            return "exchanges of these partners cannot reach all allowed states; use partners='all'"
        return None

    @property
    def has_own_partners(self) -> bool:
        """Whether partners were asked for by name or by pairs, so that no others are tried."""
        return self.partners not in (None, "all")


def _is_connected(target: Target, table: Table | None) -> bool:
    """Say whether exchanges of the pairs of a table lead from each allowed state to all others."""
    assert target.constraint is not None
    assert table is not None
    graph = scipy.sparse.csr_array((np.ones(table.i.size), (table.i, table.j)), shape=(target.d, target.d))
    _, component = connected_components(graph, directed=False)
    return all(
        np.unique(component[group]).size == 1
        for group, up in zip(target.constraint.groups, target.constraint.ups, strict=True)
        if 0 < up < group.size
    )


def _read_table(partners: Any) -> tuple[tuple[int, int, float], ...]:
    """Return candidates (i, j, weight) as plain numbers, or raise."""
    if isinstance(partners, str) or not isinstance(partners, Sequence | np.ndarray) or not len(partners):
        raise ValueError(
            f"partners is {partners!r:.60}; expected 'all', 'edges', or rows (i, j, weight) of pairs of sites"
        )
    found, seen = [], set()
    for row in partners:
        if len(row) != 3 or not all(isinstance(value, Real) for value in row):
            raise ValueError(f"partners has the row {row!r:.60}; expected two sites and a weight, as in (0, 1, 1.0)")
        i, j, weight = row
        if not (float(i).is_integer() and float(j).is_integer() and i >= 0 and j >= 0 and i != j):
            raise ValueError(f"partners pairs {i!r} with {j!r}; expected two different sites, numbered from 0")
        if not (isfinite(weight) and weight > 0):
            raise ValueError(f"partners gives the pair {i!r}, {j!r} the weight {weight!r}; expected a number > 0")
        pair = (min(int(i), int(j)), max(int(i), int(j)))
        if pair in seen:
            raise ValueError(f"partners has the pair {pair} twice; pairs are unordered: give each of them once")
        seen.add(pair)
        found.append((*pair, float(weight)))
    return tuple(found)
