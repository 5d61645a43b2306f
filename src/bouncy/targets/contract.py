"""What a target is: its Python face, and the six things a compiled loop may ask of it.

To add a target, add a file here with a `Target` subclass whose `view` returns `linked(YourTuple(...), d)`, a
`NamedTuple` of arrays, and give the first five functions below for that tuple with `implements`. Nothing else has to
change: samplers, recorders, `exact`, `clamp`, `tempered` and the conformance tests reach a target only through them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import kernel
from bouncy._dispatch import generic
from bouncy._fingerprint import PROBES, described, fixed_spins, probe_generator
from bouncy._samplable import Samplable
from bouncy._validation import check_nonnegative, check_spins

if TYPE_CHECKING:
    from bouncy.results.spins import SpinRun

    _Base = Samplable[SpinRun]
else:
    _Base = Samplable

# Spins shown in an error; all of them are in its attribute `state`.
# Starts of a target among the states that its fingerprint looks at.
_STARTS = 4
_SHOWN = 64


class TargetError(RuntimeError):
    """A function of a target raised, or returned what cannot be a cost or a log-probability.

    What it raised, if it did, is the cause of this error (`__cause__`).

    Attributes
    ----------
    function : str
        The function that failed.
    site : int or None
        The site that it was asked about.
    state : ndarray of int8, shape (d,)
        The spins it was called with.
    chain : int or None
        The chain that was stopped by it.
    run : Run or None
        The chains that were not, once they were done.
    """

    def __init__(self, message: str, function: str, site: int | None, state: NDArray[np.int8]) -> None:
        super().__init__(message)
        self.function = function
        self.site = site
        self.state = state
        self.chain: int | None = None
        self.run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the run: its chains belong to one process."""
        state = {"chain": self.chain, "__cause__": self.__cause__}
        return type(self), (self.args[0], self.function, self.site, self.state), state

    def __str__(self) -> str:
        where = "" if self.chain is None else f"chain {self.chain}: "
        return where + super().__str__()


def shown(s: NDArray[np.int8]) -> str:
    """Return spins as text, the first of them where there are many."""
    if s.size <= _SHOWN:
        return str(s.tolist())
    return f"{str(s[:_SHOWN].tolist())[:-1]}, ...] ({s.size} spins)"


class Target(_Base, ABC):
    """A distribution p(s) over s in {-1, +1}^d, known up to a constant. A target never changes.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        What the sites are called, in their order; 0, 1, ..., d - 1 where nobody said.
    """

    kind = "spins"
    _parent: tuple[Target, NDArray[np.intp], NDArray[np.int8]] | None = None

    @abstractmethod
    def view(self) -> Any:
        """Return a `NamedTuple` of arrays for compiled loops.

        Arrays that describe the model are shared between views; those that the tuple's `part` declaration names are
        caches that belong to one chain and are valid after `resync`.
        """

    def log_prob(self, s: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log p(s) for spins -1/+1 of shape (..., d), as shape (...)."""
        spins = check_spins(s, self.d)
        rows = spins.reshape(-1, self.d).copy()
        out = np.empty(rows.shape[0])
        view = self.view()
        _log_probs(view, rows, out)
        raise_failure(view)
        return out.reshape(spins.shape[:-1])[()]

    def edges(self) -> scipy.sparse.csr_array | None:
        """Return the symmetric pattern of interacting pairs, or None where the target has none to speak of."""
        return None

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        """Return spins for a chain to start from, shape (d,): uniformly random ones, unless a target knows better."""
        bits = generator.integers(0, 2, self.d, dtype=np.int8)
        return (2 * bits - 1).astype(np.int8)

    def check_states(self, name: str, states: ArrayLike) -> NDArray[np.int8]:
        """Return spins of shape (..., d), or raise."""
        return check_spins(states, self.d, name)

    def description(self) -> dict[str, Any]:
        """Return class, size, labels and log p at sixteen states: fixed ones, and starts of the target."""
        # Where some states are impossible, random ones say little.
        generator = probe_generator()
        starts = [self.start(generator) for _ in range(_STARTS)]
        return described(self, np.concatenate([fixed_spins(PROBES - _STARTS, self.d), np.array(starts, np.int8)]))

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
        given = self._given(free, spins)
        given.labels = tuple(self.labels[i] for i in free)
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
        tempered._labels, tempered._parent = self._labels, self._parent
        return tempered

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8]) -> Target:
        """Return the target over the `free` sites; `spins`, (d,), holds the evidence and zeros at the free sites."""
        from bouncy.targets.conditioning import Clamped

        return Clamped(self, free, spins)

    def _tempered(self, beta: float) -> Target:
        from bouncy.targets.conditioning import Tempered

        return Tempered(self, beta)

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


@generic
def flip_cost(view, s, i):
    """Return U(s with site i flipped) - U(s), where U = -log p; +inf where the flipped state has probability zero.

    What is no cost, NaN or -inf, has the loop ask whether the target `failed`.
    """


@generic
def flip(view, s, i):
    """Flip s[i] in place and bring the view's caches up to date."""


@generic
def conditional_means(view, s, costs, out):
    """Write E[s_i | the other spins] into `out`; `costs` is scratch of the same length, d or a little more."""


@generic
def log_prob(view, s):
    """Return the unnormalised log p(s), using the caches."""


@generic
def resync(view, s):
    """Recompute the view's caches from s, undoing the rounding of many incremental updates."""


@generic
def failed(view):
    """Return whether a function of the target failed, so that the loop must stop. `linked` gives this for all."""


def failure(view: Any) -> TargetError | None:
    """Return what went wrong when `failed(view)` is true, or None. For Python, not for compiled loops."""
    explain = getattr(view, "failure", None)
    return None if explain is None else explain()


def raise_failure(view: Any) -> None:
    """Raise what went wrong, if anything did."""
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
        resync(view, rows[k])
        out[k] = log_prob(view, rows[k])
        if failed(view):
            break
