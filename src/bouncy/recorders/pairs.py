"""Sums of s_i s_j over the path, for all pairs, for the pairs that interact, or for none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import generic, implements, part
from bouncy.recorders._batches import merge


@generic
def pairs_flip(pairs, path, s, i, t):
    """Account for a flip of site i at time t after the batch began; s and `path` are as before the flip."""


@generic
def pairs_sweep(pairs, s, conditional):
    """Add (s_i t_j + s_j t_i)/2, t the conditional means at the end of a sweep, to the open batch."""


@generic
def pairs_write(pairs, path, s, t, slot):
    """Write the sums of the open batch, of length t so far, into row `slot`."""


@generic
def pairs_clear(pairs):
    """Begin a new batch."""


@generic
def pairs_merge(pairs, n):
    """Add up the first n batches two by two."""


@part()
class NoPairs(NamedTuple):
    """Nothing is recorded."""

    nothing: NDArray[np.float64]


@part("open_path", "open_mean", "path", "mean")
class AllPairs(NamedTuple):
    """All d(d-1)/2 pairs, as d x d matrices: O(d) per flip and O(d^2) per sweep.

    The time integral of s_i s_j uses A_j(t), the integral of s_j since the batch began: integrating by parts, it is
    s_i A_j at the end plus the sum over flips of i of 2 s_i A_j(t) with s_i as before the flip, so a flip touches row
    i alone. With A_j(t) = path_j + s_j t nothing else has to be kept.
    """

    open_path: NDArray[np.float64]  # (d, d)
    open_mean: NDArray[np.float64]  # (d, d)
    path: NDArray[np.float64]  # (slots, d * d)
    mean: NDArray[np.float64]  # (slots, d * d)


@part("open_path", "open_mean", "path", "mean")
class EdgePairs(NamedTuple):
    """The pairs that interact, as one number per edge: O(degree) per flip and O(edges) per sweep."""

    indptr: NDArray[np.int64]  # (d + 1,) rows of the symmetric pattern
    indices: NDArray[np.int32]  # (2 E,)
    edge: NDArray[np.int32]  # (2 E,) number of the edge that an entry of the pattern belongs to
    open_path: NDArray[np.float64]  # (E,)
    open_mean: NDArray[np.float64]  # (E,)
    path: NDArray[np.float64]  # (slots, E)
    mean: NDArray[np.float64]  # (slots, E)


Pairs = NoPairs | AllPairs | EdgePairs


def no_pairs() -> NoPairs:
    return NoPairs(np.zeros(0))


def all_pairs(d: int, slots: int) -> AllPairs:
    return AllPairs(np.zeros((d, d)), np.zeros((d, d)), np.zeros((slots, d * d)), np.zeros((slots, d * d)))


def edge_pairs(pattern: scipy.sparse.csr_array, slots: int) -> EdgePairs:
    """Number the edges of a symmetric pattern by its upper triangle, row by row."""
    pattern = scipy.sparse.csr_array(pattern)
    d = pattern.shape[0]
    rows = np.repeat(np.arange(d), np.diff(pattern.indptr))
    columns = pattern.indices
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    _, edge = np.unique(low.astype(np.int64) * d + high, return_inverse=True)
    n = int(edge.max()) + 1 if edge.size else 0
    return EdgePairs(
        pattern.indptr.astype(np.int64),
        columns.astype(np.int32),
        edge.astype(np.int32),
        np.zeros(n),
        np.zeros(n),
        np.zeros((slots, n)),
        np.zeros((slots, n)),
    )


@implements(pairs_flip, NoPairs)
def _none_flip(pairs, path, s, i, t):
    pass


@implements(pairs_sweep, NoPairs)
def _none_sweep(pairs, s, conditional):
    pass


@implements(pairs_write, NoPairs)
def _none_write(pairs, path, s, t, slot):
    pass


@implements(pairs_clear, NoPairs)
def _none_clear(pairs):
    pass


@implements(pairs_merge, NoPairs)
def _none_merge(pairs, n):
    pass


@implements(pairs_flip, AllPairs)
def _all_flip(pairs, path, s, i, t):
    twice = 2.0 * s[i]
    row = pairs.open_path[i]
    for j in range(s.size):
        row[j] += twice * (path[j] + s[j] * t)


@implements(pairs_sweep, AllPairs)
def _all_sweep(pairs, s, conditional):
    d = s.size
    for i in range(d):
        row = pairs.open_mean[i]
        sign = float(s[i])
        for j in range(d):
            row[j] += sign * conditional[j]


@implements(pairs_write, AllPairs)
def _all_write(pairs, path, s, t, slot):
    d = s.size
    for i in range(d):
        for j in range(d):
            ends = s[i] * (path[j] + s[j] * t) + s[j] * (path[i] + s[i] * t)
            pairs.path[slot, i * d + j] = 0.5 * (pairs.open_path[i, j] + pairs.open_path[j, i] + ends)
            pairs.mean[slot, i * d + j] = 0.5 * (pairs.open_mean[i, j] + pairs.open_mean[j, i])


@implements(pairs_clear, AllPairs)
def _all_clear(pairs):
    d = pairs.open_path.shape[0]
    for i in range(d):
        for j in range(d):
            pairs.open_path[i, j] = 0.0
            pairs.open_mean[i, j] = 0.0


@implements(pairs_merge, AllPairs)
def _all_merge(pairs, n):
    merge(pairs.path, n)
    merge(pairs.mean, n)


@implements(pairs_flip, EdgePairs)
def _edge_flip(pairs, path, s, i, t):
    # s_i s_j is itself a variable with two values that changes sign now, so 2 s_i s_j t is its share of the integral.
    twice = 2.0 * s[i] * t
    for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
        pairs.open_path[pairs.edge[k]] += twice * s[pairs.indices[k]]


@implements(pairs_sweep, EdgePairs)
def _edge_sweep(pairs, s, conditional):
    # Each edge stands twice in the pattern, once for each of its two terms.
    for i in range(s.size):
        half = 0.5 * s[i]
        for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
            pairs.open_mean[pairs.edge[k]] += half * conditional[pairs.indices[k]]


@implements(pairs_write, EdgePairs)
def _edge_write(pairs, path, s, t, slot):
    for i in range(s.size):
        for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
            j, e = pairs.indices[k], pairs.edge[k]
            pairs.path[slot, e] = pairs.open_path[e] + s[i] * s[j] * t
            pairs.mean[slot, e] = pairs.open_mean[e]


@implements(pairs_clear, EdgePairs)
def _edge_clear(pairs):
    for e in range(pairs.open_path.size):
        pairs.open_path[e] = 0.0
        pairs.open_mean[e] = 0.0


@implements(pairs_merge, EdgePairs)
def _edge_merge(pairs, n):
    merge(pairs.path, n)
    merge(pairs.mean, n)
