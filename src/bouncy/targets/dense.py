"""Markov random field with a dense coupling matrix: one vectorised pass over a row per accepted flip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy.targets.contract import flip, resync
from bouncy.targets.fields import implement_by_fields


@part("h")
class DenseFields(NamedTuple):
    """log p(s) = offset - s.r - s'Ms/2 with the local fields h = r + Ms kept up to date."""

    M: NDArray[np.float64]  # (d, d), symmetric, zero diagonal
    r: NDArray[np.float64]  # (d,)
    h: NDArray[np.float64]  # (d,)
    offset: float


implement_by_fields(DenseFields)


@implements(flip, DenseFields)
def _flip(view, s, i):
    change = -2.0 * s[i]
    row = view.M[i]
    h = view.h
    for j in range(h.size):
        h[j] += change * row[j]
    s[i] = -s[i]


@implements(resync, DenseFields)
def _resync(view, s):
    h = view.h
    for j in range(h.size):
        h[j] = view.r[j]
    # M is symmetric: adding up its rows is a loop that can be vectorised, unlike sums along them.
    for i in range(s.size):
        spin = float(s[i])
        row = view.M[i]
        for j in range(h.size):
            h[j] += spin * row[j]
