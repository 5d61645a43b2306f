"""`check_target`: do the functions of a target agree with each other, on states that a chain might visit?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import kernel
from bouncy._validation import as_seed_sequence, check_count, check_positive, check_spins
from bouncy.piecewise.targets.density import Density
from bouncy.targets.constraints import Restricted
from bouncy.targets.contract import (
    Target,
    TargetError,
    conditional_means,
    flip_cost,
    init,
    log_prob,
    on_flip,
    raise_failure,
    shown,
)
from bouncy.targets.custom import Custom
from bouncy.testing.check_density import check_density

# Starts that are tried to find a state of non-zero probability.
_STARTS = 1000
# Sites checked, and flipped, in each state: not all sites of a large target.
_SITES = 32
# Rounding of a difference of two large values of log p, relative to these.
_ROUNDING = 1e-12


def check_target(
    target: Target | Density,
    *,
    initial: ArrayLike | None = None,
    states: int = 20,
    tolerance: float = 1e-8,
    seed: Any = 0,
) -> None:
    """Raise `TargetError` if the functions of a target contradict each other.

    For spins, walks over random states and compares, in each of them, the cost of flips with the difference of log p,
    caches after `on_flip` with caches after `init`, conditional means with costs, and each function with itself called
    twice; checks that no function changes the spins, that flipping twice costs nothing and that two flips cost the same
    in either order. For a `bouncy.Custom` the compiled functions are compared with the same functions run by Python,
    which also finds indices out of range.

    Of a target restricted by `fixed_sum` or `one_hot`, the target without the constraint is checked.

    For a `bouncy.Density`, looks at random rays: compares the gradient with differences of log_prob and compiled
    functions with plain Python, looks for jumps that no edge or wall names, checks `convex` and `bound`. Kinks that are
    not named, and coordinates with very different natural lengths, get a warning.

    Parameters
    ----------
    target : Target or Density
        Any target of spins, one of this package or your own, or a density of your own.
    initial : array_like, optional
        State to start from, shape (d,); otherwise that of `target.start`.
    states : int
        Number of states, or rays, to check.
    tolerance : float
        Largest difference of numbers that should be equal, relative to 1 plus their size. The rounding of a large log
        p, and the error of differences, is added to it.
    seed : int, optional
        Fixes the states.

    Raises
    ------
    TargetError
        Names the function, the site and the state; they are in its attributes too.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.testing.check_target(bouncy.MRF.random(10))
    >>> wrong = bouncy.Custom(3, flip_cost=lambda s, i: 1.0 * s[i], log_prob=lambda s: s.sum())
    >>> bouncy.testing.check_target(wrong)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    bouncy.targets.contract.TargetError: flip_cost gives ... where the difference of log_prob is ...
    """
    if not isinstance(target, Target | Density):
        raise TypeError(
            f"target must be a target of spins, such as bouncy.MRF, or a bouncy.Density, got {type(target).__name__}"
        )
    states = check_count("states", states)
    generator = np.random.default_rng(as_seed_sequence(seed))
    if isinstance(target, Density):
        check_density(target, initial, states, check_positive("tolerance", tolerance), generator)
        return
    walk = _Walk(
        target.relaxed if isinstance(target, Restricted) else target,
        initial,
        check_positive("tolerance", tolerance),
        generator,
    )
    for _ in range(states):
        walk.move()
        walk.check_state()


class _Walk:
    """A walk over states of a target with two views: one whose caches follow the flips, one with new caches."""

    def __init__(
        self, target: Target, initial: ArrayLike | None, tolerance: float, generator: np.random.Generator
    ) -> None:
        self.target = target
        self.tolerance = tolerance
        self.generator = generator
        # Without a function for it, log p is computed from costs, and cannot be compared with them.
        self.knows_log_prob = not isinstance(target, Custom) or "log_prob" in target.roles
        self.view, self.fresh = target.view(), target.view()
        self.edges = target.edges()
        self.s = self._start() if initial is None else check_spins(initial, target.d, "initial").ravel().copy()
        self._ask(_init, self.view, self.s)

    def _start(self) -> NDArray[np.int8]:
        for _ in range(_STARTS):
            s = self.target.start(self.generator)
            if self.log_prob(s) > -np.inf:
                return s
        raise ValueError(f"of {_STARTS} random starts none is known to be possible; pass a possible state as initial=")

    # Calls

    def _ask(self, function: Any, view: Any, s: NDArray[np.int8], *arguments: Any) -> Any:
        """Call a function that must not change the spins."""
        before = s.copy()
        result = function(view, s, *arguments)
        raise_failure(view)
        self._require(np.array_equal(s, before), function, f"changes s to {shown(s)}", state=before)
        return result

    def log_prob(self, s: NDArray[np.int8]) -> float:
        """Return log p(s) with caches computed anew."""
        self._ask(_init, self.fresh, s)
        return float(self._ask(_log_prob, self.fresh, s))

    def cost(self, s: NDArray[np.int8], i: int) -> float:
        """Return the cost of a flip with caches computed anew."""
        self._ask(_init, self.fresh, s)
        return float(self._ask(_flip_cost, self.fresh, s, i))

    # Checks

    def check_state(self) -> None:
        """Check everything that can be checked without moving."""
        sites = [int(i) for i in self.generator.permutation(self.target.d)[:_SITES]]
        for i in sites:
            self._check_caches(i)
        value = self.log_prob(self.s)
        kept = float(self._ask(_log_prob, self.view, self.s))
        self._compare(_log_prob, kept, value, "gives {0} with the caches as flips left them, {1} with new ones")
        for i in sites:
            self._check_cost(i, value)
        self._check_means()
        self._check_two_flips(sites[0], sites[-1])
        if isinstance(self.target, Custom):
            self._check_plain(self.target, sites[0])

    def _check_caches(self, i: int) -> None:
        cost = float(self._ask(_flip_cost, self.view, self.s, i))
        again = float(self._ask(_flip_cost, self.view, self.s, i))
        self._require(cost == again, _flip_cost, f"gives {cost} and, called again, {again}", i)
        text = "gives {0} with the caches as flips left them (on_flip), {1} with new ones (init)"
        self._compare(_flip_cost, cost, self.cost(self.s, i), text, i)

    def _check_cost(self, i: int, value: float) -> None:
        cost = float(self._ask(_flip_cost, self.view, self.s, i))
        flipped = _flipped(self.s, i)
        other = self.log_prob(flipped)
        if self.knows_log_prob:
            text = "gives {0} where the difference of log_prob is {1}"
            self._compare(_flip_cost, cost, value - other, text, i, value)
        if cost < np.inf:
            text = "gives {0} for flipping back, where minus the cost of the flip is {1}"
            self._compare(_flip_cost, self.cost(flipped, i), -cost, text, i, value)

    def _check_two_flips(self, i: int, j: int) -> None:
        """Check that two flips cost the same in either order, as differences of one function do, and together.

        Of sites that do not interact each costs what it does alone.
        """
        first, second = self.cost(self.s, i), self.cost(self.s, j)
        if i == j or np.inf in (first, second):
            return
        after = self.cost(_flipped(self.s, i), j)
        if self.edges is not None and not self.edges[i, j]:
            text = f"gives {{0}} after a flip of site {i} and {{1}} before, but edges() has no pair ({i}, {j})"
            self._compare(_flip_cost, after, second, text, j, abs(first) + abs(second))
        forth = first + after
        back = second + self.cost(_flipped(self.s, j), i)
        text = f"gives {{0}} in all for flipping {i} and then {j}, but {{1}} for the other order"
        self._compare(_flip_cost, forth, back, text, i, abs(first) + abs(second))

    def _check_means(self) -> None:
        n = -(-self.target.d // 4) * 4
        means, again = np.zeros(n), np.zeros(n)
        self._ask(_conditional_means, self.view, self.s, means)
        self._ask(_conditional_means, self.view, self.s, again)
        for i in range(self.target.d):
            text = f"gives {means[i]} and, called again, {again[i]}"
            self._require(means[i] == again[i], _conditional_means, text, i)
        for i in self.generator.permutation(self.target.d)[:_SITES]:
            cost = float(self._ask(_flip_cost, self.view, self.s, i))
            expected = float(self.s[i] * np.tanh(cost / 2))
            text = "gives {0} where s_i tanh(flip_cost / 2) is {1}"
            self._compare(_conditional_means, means[i], expected, text, int(i))

    def _check_plain(self, target: Custom, i: int) -> None:
        """Compare the compiled functions of a user with the same functions run by Python."""
        answers = {"flip_cost": lambda: self.cost(self.s, i), "log_prob": lambda: self.log_prob(self.s)}
        for role in target.roles & set(answers):
            compiled = answers[role]()
            try:
                plain = float(target.run_by_python(role, self.s.copy(), i))
            except Exception as error:
                text = f"gives {compiled} when compiled, but raises {type(error).__name__}: {error} when run by Python"
                raise self._error(role, text, i, self.s) from error
            self._compare(role, compiled, plain, "gives {0} when compiled, but {1} when run by Python", i)

    def move(self) -> None:
        """Flip some spins, none of them into a state of probability zero."""
        for i in self.generator.integers(self.target.d, size=min(1 + self.target.d // 2, _SITES)):
            if self._ask(_flip_cost, self.view, self.s, i) < np.inf:
                self.s[i] = -self.s[i]
                self._ask(_on_flip, self.view, self.s, i)

    # Errors

    def _compare(
        self, function: Any, got: float, expected: float, text: str, site: int | None = None, scale: float = 0.0
    ) -> None:
        """Require two numbers to be equal, up to the tolerance and the rounding of numbers of size `scale`."""
        equal = got == expected or (np.isnan(got) and np.isnan(expected))
        rounding = _ROUNDING * (abs(scale) if np.isfinite(scale) else 0.0)
        allowed = self.tolerance * (1.0 + abs(expected)) + rounding
        close = equal or (np.isfinite(got) and abs(got - expected) <= allowed)
        self._require(bool(close), function, text.format(got, expected), site)

    def _require(
        self, holds: bool, function: Any, text: str, site: int | None = None, state: NDArray[np.int8] | None = None
    ) -> None:
        if not holds:
            name = function if isinstance(function, str) else function.__name__.lstrip("_")
            raise self._error(name, text, site, self.s if state is None else state)

    def _error(self, name: str, text: str, site: int | None, s: NDArray[np.int8]) -> TargetError:
        about = "" if site is None else f", site {site}"
        return TargetError(f"{name} {text}{about}, at s = {shown(s)}", name, site, s.copy())


def _flipped(s: NDArray[np.int8], i: int) -> NDArray[np.int8]:
    flipped = s.copy()
    flipped[i] *= -1
    return flipped


@kernel
def _flip_cost(view, s, i):
    return flip_cost(view, s, i)


@kernel
def _log_prob(view, s):
    return log_prob(view, s)


@kernel
def _init(view, s):
    init(view, s)


@kernel
def _on_flip(view, s, i):
    on_flip(view, s, i)


@kernel
def _conditional_means(view, s, out):
    conditional_means(view, s, out)
