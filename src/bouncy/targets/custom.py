"""A distribution of your own: p(s) given by Python functions, which are compiled and called by address."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import FINITE
from bouncy._labels import read_labels
from bouncy._validation import check_count, check_flag
from bouncy.functions.data import read_cache, read_data
from bouncy.targets._binding import SpinBinding
from bouncy.targets._roles import ROLES
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import Target, log_prob, target_part


class Custom(Target):
    """A distribution given by functions of your own.

    The functions are those of every target. Give `flip_cost`, or only `log_prob`. Each is compiled once by numba,
    without the samplers, and can write neither to `s` nor to `data`. A function that numba cannot compile is called as
    plain Python, at some microseconds a call, with one warning that says why.

    Parameters
    ----------
    d : int
        Number of sites.
    flip_cost : callable, optional
        `flip_cost(s, i, data)` returns log p(s) - log p(s with site i flipped): the cost of a flip, +inf where the
        flipped state is impossible. `s` is int8, shape (d,), with entries -1 and +1.
    log_prob : callable, optional
        `log_prob(s, data)` returns log p(s) up to a constant, -inf where p(s) = 0. Without `flip_cost` every attempted
        flip evaluates it once, and the conditional means behind `Run.mean` once more: two evaluations of all of log p,
        where a cost often takes O(1). With `flip_cost` it is used for `Run.log_prob` and `exact` alone. Without it, log
        p is the sum of costs on the way from the state of all -1, so give it where a state on the way is impossible.
    data : array, number, or tuple of these, optional
        Parameters of the model, copied, shared between chains. Pass large arrays here: as globals of a function they
        are compiled into its code.
    cache : array, or tuple of arrays, optional
        Shape and type of memory that each chain has of its own, which makes costs cheap. With it functions are called
        as `flip_cost(s, i, cache, data)` and `conditional_means(s, out, cache, data)`; `log_prob` does not see it.
    init : callable, with a cache
        `init(s, cache, data)` fills the cache for the state s: when a chain starts, and later from time to time against
        rounding.
    on_flip : callable, with a cache
        `on_flip(s, i, cache, data)` updates the cache after s[i] has changed sign: s is the state after the flip.
    conditional_means : callable, optional
        `conditional_means(s, out, data)` writes E[s_i given the other spins] into `out`, shape (d,). Without it they
        are s_i tanh(flip_cost / 2).
    labels : sequence, optional
        Names of the sites.
    compile : bool
        Whether to compile at all.

    Functions are called without `data` where none is given, unless they require it: then it is None. Plain Python gets
    spins as int64, so that sums and products do not overflow where compiled ones would not.

    See Also
    --------
    bouncy.testing.check_target : checks that the functions agree with each other.

    Examples
    --------
    >>> import numpy as np, bouncy
    >>> def cost(s, i, J):  # a chain of spins with couplings J
    ...     field = 0.0
    ...     if i > 0:
    ...         field += J[i - 1] * s[i - 1]
    ...     if i < s.size - 1:
    ...         field += J[i] * s[i + 1]
    ...     return 2.0 * s[i] * field
    >>> target = bouncy.Custom(4, flip_cost=cost, data=np.array([0.5, -0.2, 0.3]))
    >>> run = bouncy.sample(target, draws=2000, seed=0)
    >>> bool(abs(run.pair_mean[0, 1] - np.tanh(0.5)) < 0.02)
    True

    With the local fields in a cache, a cost takes O(1):

    >>> def init(s, h, M):
    ...     h[:] = M @ s.astype(np.float64)
    >>> def on_flip(s, i, h, M):
    ...     h += 2.0 * s[i] * M[i]
    >>> def cost(s, i, h, M):
    ...     return -2.0 * s[i] * h[i]
    >>> M = bouncy.MRF.random(6).M
    >>> target = bouncy.Custom(6, flip_cost=cost, data=M, cache=np.zeros(6), init=init, on_flip=on_flip)
    >>> bouncy.testing.check_target(target)
    """

    def __init__(
        self,
        d: int,
        flip_cost: Callable[..., Any] | None = None,
        log_prob: Callable[..., Any] | None = None,
        *,
        data: Any = None,
        cache: Any = None,
        init: Callable[..., Any] | None = None,
        on_flip: Callable[..., Any] | None = None,
        conditional_means: Callable[..., Any] | None = None,
        labels: Sequence[Hashable] | None = None,
        compile: bool = True,
    ) -> None:
        given = {
            "flip_cost": flip_cost,
            "log_prob": log_prob,
            "init": init,
            "on_flip": on_flip,
            "conditional_means": conditional_means,
        }
        self.d = check_count("d", d)
        self._labels = read_labels(labels, self.d)
        self._check_roles({role for role, function in given.items() if function is not None}, cache is not None)
        arrays = () if cache is None else (read_cache(cache),)
        known = () if data is None else (read_data(data),)
        self._binding = SpinBinding(ROLES, given, arrays, known, check_flag("compile", compile))
        self._by_cost = flip_cost is not None
        self.view()  # compiles, so that errors in a function are raised here

    def _check_roles(self, roles: set[str], has_cache: bool) -> None:
        if not roles & {"flip_cost", "log_prob"}:
            raise TypeError("Custom needs flip_cost(s, i, data) or log_prob(s, data), got neither")
        if "flip_cost" not in roles and (extra := roles & {"init", "on_flip", "conditional_means"}):
            raise TypeError(f"{sorted(extra)[0]} is of use beside flip_cost only; give flip_cost too, or leave it out")
        if has_cache and not {"init", "on_flip"} <= roles:
            missing = sorted({"init", "on_flip"} - roles)[0]
            raise TypeError(f"a cache needs init(s, cache, data) and on_flip(s, i, cache, data), got no {missing}")
        if not has_cache and (extra := roles & {"init", "on_flip"}):
            raise TypeError(
                f"{sorted(extra)[0]} needs a cache to work on: pass an array of its shape and type, such as "
                f"cache=np.zeros({self.d})"
            )

    @property
    def roles(self) -> frozenset[str]:
        """Names of the functions that were given."""
        return frozenset(self._binding.roles)

    def run_by_python(self, role: str, s: NDArray[np.int8], i: int) -> Any:
        """Return the result of a function called as plain Python; `i` is the site, for functions that take one."""
        return self._binding.run_at(role, s, i)

    def view(self) -> Linked:
        functions = self._binding.view(self.d)
        if self._by_cost:
            return functions
        return linked(ByLogProb(functions, np.zeros(self.d, np.int8), np.zeros(2), np.full(1, -1)), self.d)

    def __repr__(self) -> str:
        return f"Custom(d={self.d}, {', '.join(self._binding.roles)})"


@target_part(
    "trial", "values", "site",
    bounds={
        "trial": lambda view: (view.trial, view.trial),
        "values": lambda view: ([-FINITE, -np.inf], FINITE),  # the state evaluated last may be impossible
        "site": lambda view: (-1, view.trial.size - 1),
    },
)  # fmt: skip
class ByLogProb(NamedTuple):
    """A target given by log p alone: a flip costs the difference of two values.

    The value of the current state is kept, so that an attempted flip evaluates log p once.
    """

    inner: Linked
    trial: NDArray[np.int8]  # (d,) the current state, except during an evaluation
    values: NDArray[np.float64]  # (2,) log p of the current state, and of the state evaluated last
    site: NDArray[np.int64]  # (1,) the site in which these two differ, or -1

    def flip_cost(self, s, i):
        trial = self.trial
        trial[i] = -trial[i]
        self.values[1] = log_prob(self.inner, trial)
        self.site[0] = i
        trial[i] = -trial[i]
        return self.values[0] - self.values[1]

    def log_prob(self, s):
        return self.values[0]

    def init(self, s):
        for i in range(s.size):
            self.trial[i] = s[i]
        self.values[0] = log_prob(self.inner, self.trial)
        self.site[0] = -1

    def on_flip(self, s, i):
        self.trial[i] = s[i]
        self.values[0] = self.values[1] if self.site[0] == i else log_prob(self.inner, self.trial)
        self.site[0] = -1


def _chain_cost(s, i, J):
    """Return the cost in an open chain of spins with log p = sum_i J_i s_i s_(i+1)."""
    field = 0.0
    if i > 0:
        field += J[i - 1] * s[i - 1]
    if i < s.size - 1:
        field += J[i] * s[i + 1]
    return 2.0 * s[i] * field


def _chain_log_prob(s, J):
    total = 0.0
    for i in range(J.size):
        total += J[i] * s[i] * s[i + 1]
    return total


_J = np.array([0.5, -0.3, 0.8])
EXAMPLES = {
    "custom-flip-cost": lambda: Custom(4, flip_cost=_chain_cost, data=_J),
    "custom-log-prob": lambda: Custom(4, log_prob=_chain_log_prob, data=_J),
}
