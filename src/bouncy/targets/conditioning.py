"""Any target given some of its spins, and at another temperature.

Both wrap the view of a target by address, so that no loop is compiled for them. A family that is closed under one of
the two (a Markov random field given some spins is another one) overrides `Target._given` or `Target._tempered`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._labels import Labels
from bouncy._validation import check_nonnegative
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import (
    Target,
    conditional_means,
    costs_to_means,
    flip_cost,
    init,
    log_prob,
    on_flip,
    target_part,
)


class Clamped(Target):
    """The distribution of the free spins of a target given the others; made by `Target.clamp`."""

    def __init__(self, target: Target, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> None:
        self.d, self._labels = free.size, labels
        self._target = target
        self.selects_variables = target.selects_variables
        self._free = free.astype(np.int64)
        self._spins = spins

    def view(self) -> Linked:
        d = self._target.d
        view = ClampedView(self._free, as_linked(self._target.view(), d), self._spins.copy(), np.zeros(-(-d // 4) * 4))
        return linked(view, self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        pattern = self._target.edges()
        return None if pattern is None else scipy.sparse.csr_array(pattern[self._free][:, self._free])

    def candidates(self) -> scipy.sparse.csr_array | None:
        weights = self._target.candidates()
        return None if weights is None else scipy.sparse.csr_array(weights[self._free][:, self._free])

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        return self._target.start(generator)[self._free]

    def __repr__(self) -> str:
        return f"{self._target!r}.clamp({self._target.d - self.d} of {self._target.d} sites)"


class Powered(Target):
    """The distribution proportional to p(s)^beta; made by `Target.tempered`."""

    def __init__(self, target: Target, beta: float) -> None:
        self.d, self._labels = target.d, target._labels
        self.selects_variables = target.selects_variables
        self._target = target
        self._beta = beta

    def view(self) -> Linked:
        return linked(PoweredView(self._beta, as_linked(self._target.view(), self.d)), self.d)

    def edges(self) -> scipy.sparse.csr_array | None:
        return self._target.edges()

    def candidates(self) -> scipy.sparse.csr_array | None:
        return self._target.candidates()

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        return self._target.start(generator)

    def _tempered(self, beta: float) -> Target:
        return Powered(self._target, check_nonnegative("the product of both beta", self._beta * beta))

    def __repr__(self) -> str:
        return f"{self._target!r}.tempered({self._beta:g})"


@target_part("full", bounds={"full": lambda view: (view.full, view.full)})
class ClampedView(NamedTuple):
    """A target, all of its spins, and which of them are free."""

    free: NDArray[np.int64]  # (d,) sites of the target
    inner: Linked
    full: NDArray[np.int8]  # (d of the target,)
    means: NDArray[np.float64]  # (d of the target or a little more,) scratch

    def flip_cost(self, s, i):
        return flip_cost(self.inner, self.full, self.free[i])

    def log_prob(self, s):
        return log_prob(self.inner, self.full)

    def init(self, s):
        for i in range(s.size):
            self.full[self.free[i]] = s[i]
        init(self.inner, self.full)

    def on_flip(self, s, i):
        self.full[self.free[i]] = s[i]
        on_flip(self.inner, self.full, self.free[i])

    def conditional_means(self, s, out):
        if 2 * s.size < self.full.size:
            for i in range(s.size):
                out[i] = flip_cost(self.inner, self.full, self.free[i])
            costs_to_means(out, s)
        else:  # all at once may be cheaper than one by one
            conditional_means(self.inner, self.full, self.means)
            for i in range(s.size):
                out[i] = self.means[self.free[i]]


@target_part()
class PoweredView(NamedTuple):
    """A target and the factor of its log p."""

    beta: float
    inner: Linked

    def flip_cost(self, s, i):
        cost = flip_cost(self.inner, s, i)
        # A wall stays one at beta = 0, where 0 times infinity would be NaN.
        return cost if cost == np.inf else self.beta * cost

    def log_prob(self, s):
        value = log_prob(self.inner, s)
        return value if value == -np.inf else self.beta * value

    def init(self, s):
        init(self.inner, s)

    def on_flip(self, s, i):
        on_flip(self.inner, s, i)


def as_linked(view: Any, d: int) -> Linked:
    """Return a linked view of any view, itself if it is one."""
    return view if isinstance(view, Linked) else linked(view, d)
