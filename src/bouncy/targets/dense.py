"""Markov random field with a dense coupling matrix: one vectorised pass over a row per accepted flip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy.targets.contract import flip, flip_cost, flip_costs, log_prob, resync


@part("h")
class DenseFields(NamedTuple):
    """log p(s) = -s.r - s'Ms/2 with the local fields h = r + Ms kept up to date."""

    M: NDArray[np.float64]  # (d, d), symmetric, zero diagonal
    r: NDArray[np.float64]  # (d,)
    h: NDArray[np.float64]  # (d,)


@implements(flip_cost, DenseFields)
def _flip_cost(view, s, i):  # type: ignore[no-untyped-def]
    return -2.0 * s[i] * view.h[i]


@implements(flip, DenseFields)
def _flip(view, s, i):  # type: ignore[no-untyped-def]
    change = -2.0 * s[i]
    row = view.M[i]
    h = view.h
    for j in range(h.size):
        h[j] += change * row[j]
    s[i] = -s[i]


@implements(flip_costs, DenseFields)
def _flip_costs(view, s, out):  # type: ignore[no-untyped-def]
    for i in range(s.size):
        out[i] = -2.0 * s[i] * view.h[i]


@implements(log_prob, DenseFields)
def _log_prob(view, s):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(s.size):
        total += s[i] * (view.h[i] + view.r[i])
    return -0.5 * total


@implements(resync, DenseFields)
def _resync(view, s):  # type: ignore[no-untyped-def]
    for i in range(s.size):
        field = view.r[i]
        row = view.M[i]
        for j in range(s.size):
            field += row[j] * s[j]
        view.h[i] = field
