"""The contract of a target: what its class offers, and the five functions that compiled loops call.

The functions are the same for every target, whether it is part of this package or a user's (`bouncy.Custom`):

| function | what it does | default |
|---|---|---|
| `flip_cost(s, i)` | returns log p(s) - log p(s with site i flipped) | `Custom`: from two values of log p |
| `log_prob(s)` | returns log p(s) up to a constant | the sum of costs on the way from the state of all -1 |
| `init(s)` | fills the cache for the state s | no cache |
| `on_flip(s, i)` | updates the cache after s[i] has changed sign | no cache |
| `conditional_means(s, out)` | writes E[s_i given the other spins] into `out` | s_i tanh(flip_cost / 2) |

`s` is int8, shape (d,), with entries -1 and +1. Only the loop flips spins: `s[i] = -s[i]`, then `on_flip`. A function
works with the `data` of the model, which chains share, and with the `cache` of one chain. `Custom` passes both as the
last arguments, `flip_cost(s, i, cache, data)`. In this package they are the fields of a `NamedTuple` whose methods are
the functions:

    @target_part("h")  # names the fields that are the cache
    class Fields(NamedTuple):
        M: NDArray[np.float64]
        h: NDArray[np.float64]

        def flip_cost(self, s, i):
            return -2.0 * s[i] * self.h[i]

To add a target, add a file to this folder with such a tuple, a `Target` named after the file whose `view` returns
`linked(tuple, d)`, and an entry in `EXAMPLES`. Samplers, recorders, `exact`, `clamp`, `tempered` and the conformance
tests use only the functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import log
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import Bounds, generic, implements, part
from bouncy._fingerprint import PROBES, described, fixed_spins, probe_generator
from bouncy._labels import Labels, match
from bouncy._samplable import Samplable
from bouncy._validation import check_nonnegative, check_spins

if TYPE_CHECKING:
    from bouncy.formats.files.json_fields import Fields
    from bouncy.results.spins import SpinRun
    from bouncy.targets.constraints import Constraint, Restricted

    _Base = Samplable[SpinRun]
else:
    _Base = Samplable

# Spins shown in an error; all of them are in its attribute `state`.
# Starts of a target among the states that its fingerprint looks at.
_STARTS = 4
_SHOWN = 64


class TargetError(RuntimeError):
    """A function of a target raised an exception, or returned an impossible cost or log-probability.

    The exception, if there is one, is the cause of this error (`__cause__`).

    Attributes
    ----------
    function : str
        The function that failed.
    site : int or None
        The site that it was called for.
    state : ndarray, shape (d,)
        The spins, or the values of continuous variables, it was called with.
    chain : int or None
        Index of the chain that stopped.
    run : Run or None
        The other chains, once they were done.
    """

    def __init__(self, message: str, function: str, site: int | None, state: NDArray[Any]) -> None:
        super().__init__(message)
        self.function = function
        self.site = site
        self.state = state
        self.chain: int | None = None
        self.run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the run: its chains belong to one process."""
        state = {"chain": self.chain, "__cause__": self.__cause__}
        return type(self), (self.args[0], self.function, self.site, self.state), state

    def __str__(self) -> str:
        where = "" if self.chain is None else f"chain {self.chain}: "
        return where + super().__str__()


def shown(s: NDArray[Any]) -> str:
    """Return a state as text, its first sites where there are many."""
    if s.size <= _SHOWN:
        return str(s.tolist())
    return f"{str(s[:_SHOWN].tolist())[:-1]}, ...] ({s.size} {'spins' if s.dtype == np.int8 else 'variables'})"


class Target(_Base, ABC):
    """A distribution p(s) over s in {-1, +1}^d, known up to a constant. A target never changes.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        Names of the sites, in their order; 0, 1, ..., d - 1 by default.
    """

    kind = "spins"
    # Name of this kind of target in JSON documents, or None if it has no `to_json` and `from_json`.
    json_kind: ClassVar[str | None] = None
    # Distribution that a ladder of temperatures begins with: "uniform", or "fitted" where most states are too unlike.
    tempered_from: ClassVar[str] = "uniform"
    # Groups of sites with a fixed number of spins +1, outside of which p(s) = 0; None where every site may flip alone.
    constraint: Constraint | None = None
    _parent: tuple[Target, NDArray[np.intp], NDArray[np.int8]] | None = None

    @property
    def log_size(self) -> float:
        """Logarithm of the number of states, or of those that a constraint allows."""
        return self.d * log(2.0) if self.constraint is None else self.constraint.log_size

    @abstractmethod
    def view(self) -> Any:
        """Return a `NamedTuple` of arrays for compiled loops.

        Arrays that describe the model are shared between views. The cache belongs to one chain, and is valid after
        `init`.
        """

    def log_prob(self, s: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log p(s) for spins -1/+1 of shape (..., d), as shape (...).

        A series, or the columns of a data frame, are matched to the sites by their labels.
        """
        spins = check_spins(match("s", s, self), self.d)
        rows = spins.reshape(-1, self.d).copy()
        out = np.empty(rows.shape[0])
        view = self.view()
        _log_probs(view, rows, out)
        raise_failure(view)
        return out.reshape(spins.shape[:-1])[()]

    def lanes(self, width: int, ladder: bool = False) -> Any:
        """Return a `NamedTuple` for loops over lanes of this width (see `targets/lanes.py`), or None without any.

        Lanes of a `ladder` are read at the end of each scan (`read_lanes`), which may need arrays of its own.
        """
        return None

    def edges(self) -> scipy.sparse.csr_array | None:
        """Return the symmetric pattern of all interacting pairs, or None if the target has no useful one.

        Clusters that ladders exchange rely on it: p must be a product of functions of sites that are all pairs.
        """
        return None

    def _couplings(self) -> tuple[str, Any] | None:
        pattern = self.edges()
        return None if pattern is None else ("pairs that interact", pattern)

    def candidates(self) -> scipy.sparse.csr_array | None:
        """Return how often two sites should be tried to trade places, a symmetric matrix; None where all are alike."""
        return None

    @property
    def default_sampler(self) -> str:
        """Name of the sampler that is used where none is asked for."""
        if self.constraint is None:
            return "bps-gaussian"
        return "metropolis-mixed" if self.constraint.free.size else "metropolis-swap"

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        """Return spins for a chain to start from, shape (d,): uniformly random ones by default."""
        bits = generator.integers(0, 2, self.d, dtype=np.int8)
        return (2 * bits - 1).astype(np.int8)

    def check_states(self, name: str, states: ArrayLike) -> NDArray[np.int8]:
        """Return spins of shape (..., d), or raise."""
        return check_spins(match(name, states, self), self.d, name)

    def description(self) -> dict[str, Any]:
        """Return class, size, labels and log p at sixteen states: fixed ones, and starts of the target."""
        # Where some states are impossible, random ones say little.
        generator = probe_generator()
        starts = [self.start(generator) for _ in range(_STARTS)]
        return described(self, np.concatenate([fixed_spins(PROBES - _STARTS, self.d), np.array(starts, np.int8)]))

    # Files

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a JSON document, without labels: numbers, text, None, and lists of these."""
        raise NotImplementedError(f"{type(self).__name__} cannot be written to JSON")

    @classmethod
    def from_json(cls, fields: Fields) -> Target:
        """Return the target of a JSON document, taking its fields, `fields.labels(d)` too; errors name the field."""
        raise NotImplementedError(f"{cls.__name__} cannot be read from JSON")

    # Conditioning and temperature

    def clamp(self, evidence: Mapping[Any, int]) -> Target:
        """Return the distribution of the other spins given some of them.

        Parameters
        ----------
        evidence : mapping
            Labels of sites to their spins, -1 or +1.

        Returns
        -------
        Target
            Over the sites that are left, in their order; its `labels` say which they are, its `complete` puts the
            clamped spins back into draws. log p keeps its constant, so that the difference of the `log_z` of both
            targets (`bouncy.exact`) is the logarithm of the probability of the evidence.

        Examples
        --------
        >>> import bouncy
        >>> given = bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]]).clamp({0: +1})
        >>> given.labels, given.complete([[1], [-1]]).tolist()
        ((1,), [[1, 1], [1, -1]])
        """
        spins = self._read_evidence(evidence)
        free = np.flatnonzero(spins == 0)
        if free.size == 0:
            raise ValueError(f"evidence clamps all {self.d} sites; leave at least one free (log_prob needs no sampler)")
        given = self._given(free, spins, tuple(self.labels[i] for i in free))
        given._parent = (self, free, spins)
        return given

    def complete(self, s: ArrayLike) -> NDArray[np.int8]:
        """Return spins (..., d) of a clamped target with the clamped ones put back, (..., d of the original)."""
        spins = check_spins(s, self.d)
        if self._parent is None:
            return spins
        parent, free, evidence = self._parent
        full = np.empty((*spins.shape[:-1], parent.d), np.int8)
        full[...] = evidence
        full[..., free] = spins
        return parent.complete(full)

    def tempered(self, beta: float) -> Target:
        """Return the distribution proportional to p(s)^beta, 0 <= beta: flatter below 1, sharper above.

        Examples
        --------
        >>> import bouncy
        >>> hot = bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]]).tempered(0.5)
        >>> float(hot.log_prob([1, 1]))
        0.5
        """
        tempered = self._tempered(check_nonnegative("beta", beta))
        tempered._parent = self._parent
        return tempered

    def fixed_sum(self, k: int) -> Restricted:
        """Return the target restricted to states with exactly k spins +1, so that sum(s) = 2k - d.

        Samplers that exchange two spins move there, "metropolis-swap" by default (docs/constraints.md).

        Examples
        --------
        >>> import numpy as np, bouncy
        >>> gas = bouncy.MRF.ising((4, 4), coupling=0.3).fixed_sum(6)
        >>> int(gas.start(np.random.default_rng(0)).sum())
        -4
        """
        from bouncy.targets.constraints import with_fixed_sum

        return with_fixed_sum(self, k)

    def one_hot(self, groups: Iterable[Sequence[Hashable]]) -> Restricted:
        """Return the target restricted to states with exactly one spin +1 in each group of sites.

        Parameters
        ----------
        groups : sequence of sequences
            Labels of the sites of each group. Sites in no group are as free as before.

        Examples
        --------
        >>> import bouncy
        >>> pair = bouncy.MRF([[0.0, 1.0], [1.0, 0.0]]).one_hot([[0, 1]])
        >>> pair.log_prob([[1, -1], [1, 1]]).tolist()
        [1.0, -inf]
        """
        from bouncy.targets.constraints import with_one_hot

        return with_one_hot(self, groups)

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> Target:
        """Return the target over the `free` sites, which have these labels.

        `spins`, (d,), holds the evidence and zeros at the free sites.
        """
        from bouncy.targets.conditioning import Clamped

        return Clamped(self, free, spins, labels)

    def _tempered(self, beta: float) -> Target:
        """Return the target at another temperature, with the same labels."""
        from bouncy.targets.conditioning import Powered

        return Powered(self, beta)

    def _read_evidence(self, evidence: Mapping[Any, int]) -> NDArray[np.int8]:
        """Return the clamped spins, with zeros at the free sites, (d,)."""
        if not isinstance(evidence, Mapping):
            raise TypeError(f"evidence must map labels to spins, as in {{0: +1}}, got {type(evidence).__name__}")
        site = {label: i for i, label in enumerate(self.labels)}
        spins = np.zeros(self.d, np.int8)
        for label, spin in evidence.items():
            if label not in site:
                known = ", ".join([repr(name) for name in self.labels[:3]] + (["..."] if self.d > 3 else []))
                raise ValueError(f"evidence names the site {label!r}, which is not a label of {self!r}: {known}")
            if isinstance(spin, bool | np.bool_) or not isinstance(spin, Real) or spin not in (-1, 1):
                raise ValueError(f"evidence[{label!r}] must be a spin, -1 or +1, got {spin!r}")
            spins[site[label]] = spin
        return spins

    def __copy__(self) -> Target:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Target:
        """Return the target itself: it never changes, and may be large."""
        return self


# The functions of a target, declared


@generic
def flip_cost(view, s, i):
    """Return log p(s) - log p(s with site i flipped): the cost of a flip, +inf where the flipped state is impossible.

    NaN and -inf are no costs: the loop then checks whether the target `failed`.
    """


@generic
def log_prob(view, s):
    """Return log p(s) up to a constant, -inf where p(s) = 0. The cache is that of s."""


@generic
def init(view, s):
    """Fill the cache for the state s: when a chain starts, and later from time to time against rounding."""


@generic
def on_flip(view, s, i):
    """Update the cache after s[i] has changed sign: s is the state after the flip."""


@generic
def conditional_means(view, s, out):
    """Write E[s_i given the other spins] into `out`.

    `out` has d entries or a few more. Those beyond d must be finite, and stay so.
    """


@generic
def failed(view):
    """Return whether a function failed, so that the loop must stop. Only targets called by address can fail."""


FUNCTIONS = (flip_cost, log_prob, init, on_flip, conditional_means)


def target_part(*cache: str, bounds: Mapping[str, Bounds] = MappingProxyType({})) -> Callable[[type], Any]:
    """Declare a `NamedTuple` whose methods are the functions of a target, and name the fields that are its cache.

    Functions without a method get their defaults; that of `log_prob` needs a target that is called by address. `bounds`
    are those of `part`, for a view whose caches are those of the spins in the state that is restored.
    """

    def register(part_type: type) -> Any:
        for function in FUNCTIONS:
            name = function.__name__
            body = part_type.__dict__.get(name, _DEFAULTS.get(name))
            if body is not None:
                implements(function, part_type)(body)
        implements(failed, part_type)(_never)
        return part(*cache, bounds=bounds)(part_type)

    return register


# Default implementations


def _no_cache_to_fill(view, s):
    pass


def _no_cache_to_update(view, s, i):
    pass


def _never(view):
    return False


@helper
def means_by_costs(view, s, out):
    """Write E[s_i given the other spins] = s_i tanh(c_i / 2) into `out`, c_i the cost of flipping site i."""
    for i in range(s.size):
        out[i] = flip_cost(view, s, i)
    costs_to_means(out, s)


_DEFAULTS = {"init": _no_cache_to_fill, "on_flip": _no_cache_to_update, "conditional_means": means_by_costs}

# tanh(40 / 2) equals 1 to the last bit.
_SATURATED = 40.0


@helper
def costs_to_means(out, s):
    """Replace the costs c_i in `out` by the conditional means s_i tanh(c_i / 2), in place."""
    log_odds_to_means(out)
    for i in range(s.size):
        out[i] *= s[i]


@helper
def log_odds_to_means(out):
    """Replace log p(s_i = 1) - log p(s_i = -1) given all other spins by conditional means, in place.

    tanh(c/2) is (e^c - 1)/(e^c + 1), with e^c as the 16th power of the Pade approximant P(x)/P(-x) of e^x, x = c/16.
    Unlike a call of the mathematical library this is plain arithmetic, so the loop is vectorised; its absolute error is
    below 1e-12.
    """
    for i in range(out.size):
        x = max(-_SATURATED, min(_SATURATED, out[i])) * (1.0 / 16.0)
        x2 = x * x
        even = 1680.0 + x2 * (180.0 + x2)
        odd = x * (840.0 + 20.0 * x2)
        up, down = even + odd, even - odd
        up *= up
        down *= down
        up *= up
        down *= down
        up *= up
        down *= down
        up *= up
        down *= down
        out[i] = (up - down) / (up + down)


# Failures


def failure(view: Any) -> TargetError | None:
    """Return the error if `failed(view)`, or None. For Python, not for compiled loops."""
    explain = getattr(view, "failure", None)
    return None if explain is None else explain()


def raise_failure(view: Any) -> None:
    """Raise the error of a view that failed."""
    error = failure(view)
    if error is None:
        return
    if isinstance(error.__cause__, Exception | None):
        raise error
    raise error.__cause__  # Ctrl-C and the like


@kernel
def _log_probs(view, rows, out):
    """Write log p of each row of spins, (n, d), into `out`, (n,), until the target fails."""
    for k in range(rows.shape[0]):
        init(view, rows[k])
        out[k] = log_prob(view, rows[k])
        if failed(view):
            break
