"""Any target given some of its spins, and at another temperature.

Both wrap the view of a target by address, so that neither has a loop compiled. A family that is closed under one of
the two (a Markov random field given some spins is another one) overrides `Target._given` or `Target._tempered`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy._validation import check_nonnegative
from bouncy.targets.conditional import implement_by_costs, means_from_costs
from bouncy.targets.contract import Target, conditional_means, flip, flip_cost, log_prob, resync
from bouncy.targets.linked import Linked, linked


class Clamped(Target):
    """The distribution of the free spins of a target given the others; made by `Target.clamp`."""

    def __init__(self, target: Target, free: NDArray[np.intp], spins: NDArray[np.int8]) -> None:
        self.d = free.size
        self._target = target
        self._free = free.astype(np.int64)
        self._spins = spins

    def view(self) -> Linked:
        d = self._target.d
        padded = -(-d // 4) * 4
        inner = as_linked(self._target.view(), d)
        view = ClampedView(self._free, inner, self._spins.copy(), np.zeros(padded), np.zeros(padded))
        return linked(view, self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        pattern = self._target.edges()
        return None if pattern is None else scipy.sparse.csr_array(pattern[self._free][:, self._free])

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        return self._target.start(generator)[self._free]

    def __repr__(self) -> str:
        return f"{self._target!r}.clamp({self._target.d - self.d} of {self._target.d} sites)"


class Tempered(Target):
    """The distribution proportional to p(s)^beta; made by `Target.tempered`."""

    def __init__(self, target: Target, beta: float) -> None:
        self.d = target.d
        self._target = target
        self._beta = beta

    def view(self) -> Linked:
        return linked(TemperedView(self._beta, as_linked(self._target.view(), self.d)), self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        return self._target.edges()

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        return self._target.start(generator)

    def _tempered(self, beta: float) -> Target:
        return Tempered(self._target, check_nonnegative("the product of both beta", self._beta * beta))

    def __repr__(self) -> str:
        return f"{self._target!r}.tempered({self._beta:g})"


@part("full")
class ClampedView(NamedTuple):
    """A target, all of its spins, and which of them are free."""

    free: NDArray[np.int64]  # (d,) sites of the target
    inner: Linked
    full: NDArray[np.int8]  # (d of the target,)
    costs: NDArray[np.float64]  # scratch
    means: NDArray[np.float64]  # scratch


@implements(flip_cost, ClampedView)
def _clamped_cost(view, s, i):
    return flip_cost(view.inner, view.full, view.free[i])


@implements(flip, ClampedView)
def _clamped_flip(view, s, i):
    flip(view.inner, view.full, view.free[i])
    s[i] = -s[i]


@implements(conditional_means, ClampedView)
def _clamped_means(view, s, costs, out):
    if 2 * s.size < view.full.size:
        for i in range(s.size):
            costs[i] = flip_cost(view.inner, view.full, view.free[i])
        means_from_costs(costs, s, out)
    else:  # all at once may be cheaper than one by one
        conditional_means(view.inner, view.full, view.costs, view.means)
        for i in range(s.size):
            out[i] = view.means[view.free[i]]


@implements(log_prob, ClampedView)
def _clamped_log_prob(view, s):
    return log_prob(view.inner, view.full)


@implements(resync, ClampedView)
def _clamped_resync(view, s):
    for i in range(s.size):
        view.full[view.free[i]] = s[i]
    resync(view.inner, view.full)


@part()
class TemperedView(NamedTuple):
    """A target and what its log p is multiplied by."""

    beta: float
    inner: Linked


implement_by_costs(TemperedView)


@implements(flip_cost, TemperedView)
def _tempered_cost(view, s, i):
    cost = flip_cost(view.inner, s, i)
    # A wall stays one at beta = 0, where 0 times infinity would not be a number.
    return cost if cost == np.inf else view.beta * cost


@implements(flip, TemperedView)
def _tempered_flip(view, s, i):
    flip(view.inner, s, i)


@implements(log_prob, TemperedView)
def _tempered_log_prob(view, s):
    value = log_prob(view.inner, s)
    return value if value == -np.inf else view.beta * value


@implements(resync, TemperedView)
def _tempered_resync(view, s):
    resync(view.inner, s)


def as_linked(view: Any, d: int) -> Linked:
    """Return a linked view of any view, itself if it is one."""
    return view if isinstance(view, Linked) else linked(view, d)
