"""Any target restricted to states in which groups of sites have a fixed number of spins +1.

One group of all sites fixes the sum of the spins; groups with a single +1 each are one-hot. Samplers that exchange
spins within a group never leave the allowed states, so that costs are those of the target without the constraint.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from bouncy._compile import helper
from bouncy._labels import Labels
from bouncy._validation import check_count
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.conditioning import as_linked
from bouncy.targets.contract import (
    Target,
    costs_to_means,
    flip_cost,
    init,
    log_prob,
    on_flip,
    target_part,
)


@dataclass(frozen=True, eq=False)
class Constraint:
    """Groups of sites, and how many spins +1 each of them has.

    Attributes
    ----------
    d : int
        Number of sites.
    groups : tuple of arrays
        Sites of each group; no site is in two of them.
    ups : tuple of int
        Number of spins +1 in each group.
    """

    d: int
    groups: tuple[NDArray[np.int64], ...]
    ups: tuple[int, ...]

    @property
    def group_of(self) -> NDArray[np.int32]:
        """The group of each site, (d,), -1 where it is in none."""
        found = np.full(self.d, -1, np.int32)
        for k, group in enumerate(self.groups):
            found[group] = k
        return found

    @property
    def free(self) -> NDArray[np.int64]:
        """Sites in no group."""
        return np.flatnonzero(self.group_of < 0)

    @property
    def log_size(self) -> float:
        """Logarithm of the number of allowed states."""
        n = np.array([group.size for group in self.groups], np.float64)
        k = np.array(self.ups, np.float64)
        return float(np.sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) + self.free.size * np.log(2.0))

    def allows(self, s: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Return which states, (..., d), satisfy the constraint, (...)."""
        allowed = np.ones(s.shape[:-1], np.bool_)
        for group, up in zip(self.groups, self.ups, strict=True):
            allowed &= (s[..., group] > 0).sum(axis=-1) == up
        return allowed

    def draw(self, s: NDArray[np.int8], generator: np.random.Generator) -> NDArray[np.int8]:
        """Return s, (d,), with the spins of all groups replaced by uniformly random ones that are allowed."""
        found = s.copy()
        for group, up in zip(self.groups, self.ups, strict=True):
            found[group] = -1
            found[generator.permutation(group)[:up]] = 1
        return found

    def given(self, free: NDArray[np.intp], spins: NDArray[np.int8]) -> Constraint:
        """Return what is left of it for the sites `free` when the others have the spins, (d,), which are 0 there."""
        place = np.full(self.d, -1)
        place[free] = np.arange(free.size)
        groups, ups = [], []
        for group, up in zip(self.groups, self.ups, strict=True):
            fixed = int((spins[group] > 0).sum())
            left = place[group][place[group] >= 0]
            if not fixed <= up <= fixed + left.size:
                raise ValueError(
                    f"evidence leaves {left.size} of {group.size} sites of a group free and sets {fixed} to +1, but "
                    f"{up} of them must be"
                )
            if left.size:
                groups.append(left)
                ups.append(up - fixed)
        return Constraint(free.size, tuple(groups), tuple(ups))

    def description(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        return {"groups": [group.tolist() for group in self.groups], "ups": list(self.ups)}


def same_constraint(one: Constraint | None, other: Constraint | None) -> bool:
    """Say whether two targets have the same groups, or none."""
    return (one and one.description()) == (other and other.description())


class Restricted(Target):
    """A target restricted to the allowed states; made by `Target.fixed_sum` and `Target.one_hot`."""

    constraint: Constraint

    def __init__(self, target: Target, constraint: Constraint) -> None:
        if target.constraint is not None:
            raise ValueError(f"{target!r} is restricted already; pass all groups to one call of one_hot")
        self.d, self._labels = target.d, target._labels
        self.selects_variables = target.selects_variables
        self.constraint = constraint
        self._target = target
        self.shape = getattr(target, "shape", None)

    @property
    def relaxed(self) -> Target:
        """The target without the constraint."""
        return self._target

    def view(self) -> Linked:
        groups, ups = self.constraint.groups, self.constraint.ups
        view = RestrictedView(
            members=np.concatenate([*groups, []]).astype(np.int64),
            ends=np.cumsum([0, *(group.size for group in groups)]),
            ups=np.array(ups, np.int64),
            free=self.constraint.free,
            inner=as_linked(self._target.view(), self.d),
            turn=np.zeros(1, np.int64),
        )
        return linked(view, self.d)

    def log_prob(self, s: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log p(s) for spins (..., d), as shape (...): -inf where s is not allowed."""
        spins = super().check_states("s", s)
        return np.where(self.constraint.allows(spins), self._target.log_prob(spins), -np.inf)[()]

    def check_states(self, name: str, states: ArrayLike) -> NDArray[np.int8]:
        """Return spins of shape (..., d), or raise where they are not allowed."""
        spins = super().check_states(name, states)
        allowed = self.constraint.allows(spins)
        if not allowed.all():
            bad = spins.reshape(-1, self.d)[np.flatnonzero(~allowed.ravel())[0]]
            raise ValueError(
                f"{name} must be allowed states, {self.promise}; got {int((bad > 0).sum())} spins +1 in "
                f"{bad.tolist()!s:.200}"
            )
        return spins

    @property
    def promise(self) -> str:
        """The constraint in words."""
        sizes, ups = [group.size for group in self.constraint.groups], self.constraint.ups
        if len(ups) == 1 and sizes[0] == self.d:
            return f"with {ups[0]} of {self.d} spins +1"
        if set(ups) == {1}:
            return f"with one spin +1 in each of {len(ups)} groups"
        return f"with a fixed number of spins +1 in each of {len(ups)} groups"

    def edges(self) -> scipy.sparse.csr_array | None:
        return self._target.edges()

    def candidates(self) -> scipy.sparse.csr_array | None:
        return self._target.candidates()

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        """Return spins that are uniformly random in all groups, and start as those of the target elsewhere."""
        s = self._target.start(generator) if self.constraint.free.size else np.ones(self.d, np.int8)
        return self.constraint.draw(s, generator)

    def description(self) -> dict[str, Any]:
        return {**super().description(), "constraint": self.constraint.description()}

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> Target:
        constraint = self.constraint.given(free, spins)
        inner = self._target._given(free, spins, labels)
        if not constraint.groups:
            return inner
        return Restricted(inner, constraint)

    def _tempered(self, beta: float) -> Target:
        return Restricted(self._target._tempered(beta), self.constraint)

    def __repr__(self) -> str:
        ups = self.constraint.ups
        if len(ups) == 1 and self.constraint.groups[0].size == self.d:
            return f"{self._target!r}.fixed_sum({ups[0]})"
        return f"{self._target!r}.one_hot({len(ups)} groups)" if set(ups) == {1} else f"{self._target!r} {self.promise}"


def with_fixed_sum(target: Target, k: int) -> Restricted:
    """Return the target with exactly k spins +1."""
    k = check_count("k", k, minimum=0)
    if k > target.d:
        raise ValueError(f"k is {k}; expected a number of spins +1 from 0 to d = {target.d}")
    return Restricted(target, Constraint(target.d, (np.arange(target.d),), (k,)))


def with_one_hot(target: Target, groups: Iterable[Sequence[Hashable]]) -> Restricted:
    """Return the target with exactly one spin +1 in each group, given by labels."""
    site = {label: i for i, label in enumerate(target.labels)}
    found: list[NDArray[np.int64]] = []
    seen: dict[Hashable, int] = {}
    for g, group in enumerate(_listed(groups)):
        if not group:
            raise ValueError(f"groups[{g}] is empty; expected one site at least, of which one is +1")
        for label in group:
            if label not in site:
                raise ValueError(f"groups[{g}] names the site {label!r}, which is not a label of {target!r}")
            if label in seen:
                raise ValueError(f"the site {label!r} is in groups[{seen[label]}] and again in groups[{g}]")
            seen[label] = g
        found.append(np.array([site[label] for label in group]))
    if not found:
        raise ValueError("groups is empty; expected one group of sites at least")
    return Restricted(target, Constraint(target.d, tuple(found), (1,) * len(found)))


def _listed(groups: Any) -> list[list[Hashable]]:
    """Return the labels of each group; a data frame or an array may come as it is."""
    try:
        return [list(group.tolist() if isinstance(group, np.ndarray) else group) for group in groups]
    except TypeError:
        raise TypeError(f"groups must be lists of labels, such as [[0, 1, 2], [3, 4]], got {groups!r:.60}") from None


@target_part("turn", bounds={"turn": lambda view: (0, MOST_EVENTS)})
class RestrictedView(NamedTuple):
    """A target, and the groups within which its spins trade places."""

    members: NDArray[np.int64]  # sites of all groups, one group after the other
    ends: NDArray[np.int64]  # (groups + 1,) where each group begins in `members`, and the last one ends
    ups: NDArray[np.int64]  # (groups,) spins +1 in each
    free: NDArray[np.int64]  # sites in no group
    inner: Linked
    turn: NDArray[np.int64]  # (1,) how often conditional means were computed

    def flip_cost(self, s, i):
        return flip_cost(self.inner, s, i)

    def log_prob(self, s):
        return log_prob(self.inner, s)

    def init(self, s):
        init(self.inner, s)

    def on_flip(self, s, i):
        on_flip(self.inner, s, i)

    def conditional_means(self, s, out):
        """Write means given the spins of other groups, or of all but one pair of sites, or plain spins.

        A group with one spin +1 has the means of all places it could be at. In other groups sites are paired anew each
        time, whatever the spins are: E[s_i given all other pairs] = s_i tanh(c/2), c the cost of exchanging the pair.
        """
        for i in range(out.size):
            out[i] = np.inf  # what cannot move has its spin as mean
        for i in self.free:
            out[i] = flip_cost(self.inner, s, i)
        turn = _scrambled(self.turn[0])
        self.turn[0] += 1
        for g in range(self.ups.size):
            group = self.members[self.ends[g] : self.ends[g + 1]]
            if self.ups[g] != 1:
                _write_pair_costs(self.inner, s, group, np.int64(turn % np.uint64(group.size)), out)
        costs_to_means(out, s)
        for g in range(self.ups.size):
            if self.ups[g] == 1:
                _write_means_of_places(self.inner, s, self.members[self.ends[g] : self.ends[g + 1]], out)


@helper
def _scrambled(n):
    """Return 64 bits that look random (SplitMix64).

    Which pairs are looked at must not depend on the spins, and how often a lane of a ladder is asked does.
    """
    x = np.uint64(n) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@helper
def _write_pair_costs(target, s, group, turn, out):
    """Write the cost of exchanging each two sites whose places in the group add up to `turn`, where spins differ."""
    for m in range(group.size):
        n = turn - m if turn >= m else turn - m + group.size
        i, j = group[m], group[n]
        if m < n and s[i] != s[j]:
            up, down = (i, j) if s[i] > 0 else (j, i)
            cost = flip_cost(target, s, up)
            if cost < np.inf:
                s[up] = -1
                on_flip(target, s, up)
                cost += flip_cost(target, s, down)
                s[up] = 1
                on_flip(target, s, up)
            out[up] = cost
            out[down] = cost


@helper
def _write_means_of_places(target, s, group, out):
    """Write the means of a group with one spin +1, given all others, unless it cannot be without it."""
    up = group[0]
    for i in group:
        if s[i] > 0:
            up = i
    if not flip_cost(target, s, up) < np.inf:
        return
    s[up] = -1
    on_flip(target, s, up)
    least = np.inf
    for i in group:
        out[i] = flip_cost(target, s, i)
        least = min(least, out[i])
    total = 0.0
    for i in group:
        out[i] = exp(least - out[i])
        total += out[i]
    for i in group:
        out[i] = 2.0 * out[i] / total - 1.0
    s[up] = 1
    on_flip(target, s, up)
