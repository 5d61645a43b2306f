"""What a target is: its Python face, and the five things a compiled loop may ask of it.

To add a target, add a file here with a `Target` subclass whose `view` returns a `NamedTuple` of arrays, and give the
five functions below for that tuple with `implements`. Nothing else has to change: samplers, recorders, `exact` and
the conformance tests reach a target only through them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._dispatch import generic


class Target(ABC):
    """A distribution p(s) over s in {-1, +1}^d, known up to a constant."""

    d: int

    @abstractmethod
    def log_prob(self, s: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log p(s) for spins of shape (..., d)."""

    @abstractmethod
    def view(self) -> Any:
        """Return a `NamedTuple` of arrays for compiled loops.

        Arrays that describe the model are shared between views; those that the tuple's `part` declaration names are
        caches that belong to one chain and are valid after `resync`.
        """

    def edges(self) -> scipy.sparse.csr_array | None:
        """Return the symmetric pattern of interacting pairs, or None where the target has none to speak of."""
        return None


@generic
def flip_cost(view, s, i):  # type: ignore[no-untyped-def]
    """Return U(s with site i flipped) - U(s), where U = -log p."""


@generic
def flip(view, s, i):  # type: ignore[no-untyped-def]
    """Flip s[i] in place and bring the view's caches up to date."""


@generic
def flip_costs(view, s, out):  # type: ignore[no-untyped-def]
    """Write the cost of flipping each site into `out`, shape (d,)."""


@generic
def log_prob(view, s):  # type: ignore[no-untyped-def]
    """Return the unnormalised log p(s), using the caches."""


@generic
def resync(view, s):  # type: ignore[no-untyped-def]
    """Recompute the view's caches from s, undoing the rounding of many incremental updates."""
