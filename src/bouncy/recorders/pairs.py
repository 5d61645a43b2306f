"""Sums of s_i s_j over the path, for all pairs, for the pairs that interact, or for none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import generic, implements, part
from bouncy.recorders.batches import Batch


@generic
def pairs_flip(pairs, path, s, i, t):
    """Account for a flip of site i at time t after the batch began; s and `path` are as before the flip."""


@generic
def pairs_means(pairs, s, conditional):
    """Add (s_i t_j + s_j t_i)/2, t the conditional means, to the open batch."""


@generic
def pairs_within(pairs, group, s, conditional):
    """Put s_i s_j in place of (s_i t_j + s_j t_i)/2 for sites of the same group, (d,), or of none, < 0.

    t_j may be a mean over s_i as well there, so that s_i t_j has another mean than s_i s_j.
    """


@generic
def follows_flips(pairs):
    """Return whether flips are accounted for."""


@part()
class NoPairs(NamedTuple):
    """Nothing is recorded."""

    nothing: NDArray[np.float64]

    def sums(self, s: NDArray[np.int8], integral: NDArray[np.float64], t: float) -> Batch:
        """Return nothing."""
        return {}

    def clear(self) -> None:
        """Do nothing."""


@part("open_path", "open_mean")
class AllPairs(NamedTuple):
    """All d(d-1)/2 pairs, as d x d matrices: O(d) per flip and O(d^2) whenever means are recorded.

    The time integral of s_i s_j uses A_j(t), the integral of s_j since the batch began: integrating by parts, it is
    s_i A_j at the end plus the sum over flips of i of 2 s_i A_j(t) with s_i as before the flip, so a flip touches row
    i alone. With A_j(t) = path_j + s_j t nothing else has to be kept.
    """

    open_path: NDArray[np.float64]  # (d, d)
    open_mean: NDArray[np.float64]  # (d, d)

    def sums(self, s: NDArray[np.int8], integral: NDArray[np.float64], t: float) -> Batch:
        """Return the sums over the open batch; `integral`, (d,), is that of s since the batch began, a time t ago."""
        path = self.open_path + np.multiply.outer(s, integral)
        return {"pair_path": _symmetric(path), "pair_mean": _symmetric(self.open_mean)}

    def clear(self) -> None:
        """Begin a new batch."""
        self.open_path[:] = 0.0
        self.open_mean[:] = 0.0


@part("open_path", "open_mean")
class EdgePairs(NamedTuple):
    """The pairs that interact, as one number per edge: O(degree) per flip and O(edges) whenever means are."""

    indptr: NDArray[np.int64]  # (d + 1,) rows of the symmetric pattern
    indices: NDArray[np.int32]  # (2 E,)
    edge: NDArray[np.int32]  # (2 E,) number of the edge that an entry of the pattern belongs to
    ends: NDArray[np.int32]  # (2, E) the sites of each edge
    open_path: NDArray[np.float64]  # (E,)
    open_mean: NDArray[np.float64]  # (E,)

    def sums(self, s: NDArray[np.int8], integral: NDArray[np.float64], t: float) -> Batch:
        """Return the sums over the open batch, which began a time t ago."""
        low, high = self.ends
        return {"pair_path": self.open_path + (s[low] * s[high]) * t, "pair_mean": self.open_mean.copy()}

    def clear(self) -> None:
        """Begin a new batch."""
        self.open_path[:] = 0.0
        self.open_mean[:] = 0.0


Pairs = NoPairs | AllPairs | EdgePairs


def no_pairs() -> NoPairs:
    """Return a recorder of pairs that records nothing."""
    return NoPairs(np.zeros(0))


def all_pairs(d: int) -> AllPairs:
    """Return an empty recorder of all pairs."""
    return AllPairs(np.zeros((d, d)), np.zeros((d, d)))


def edge_pairs(pattern: scipy.sparse.csr_array, lanes: tuple[int, ...] = ()) -> EdgePairs:
    """Return an empty recorder of the pairs of a symmetric pattern, numbered by its upper triangle, row by row.

    The sums of several lanes have one more axis.
    """
    pattern = scipy.sparse.csr_array(pattern)
    d = pattern.shape[0]
    rows = np.repeat(np.arange(d), np.diff(pattern.indptr))
    columns = pattern.indices
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    keys, edge = np.unique(low.astype(np.int64) * d + high, return_inverse=True)
    n = keys.size
    indptr, indices = pattern.indptr.astype(np.int64), columns.astype(np.int32)
    ends = np.array(np.divmod(keys, d), np.int32).reshape(2, n)
    return EdgePairs(indptr, indices, edge.astype(np.int32), ends, np.zeros((n, *lanes)), np.zeros((n, *lanes)))


def _symmetric(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric part of a matrix, (d * d,)."""
    half: NDArray[np.float64] = 0.5 * (matrix + matrix.T)
    return half.ravel()


@implements(pairs_flip, NoPairs)
def _none_flip(pairs, path, s, i, t):
    pass


@implements(follows_flips, NoPairs)
def _none_follow(pairs):
    return False


@implements(pairs_means, NoPairs)
def _none_means(pairs, s, conditional):
    pass


@implements(pairs_within, NoPairs)
def _none_within(pairs, group, s, conditional):
    pass


@implements(pairs_flip, AllPairs)
def _all_flip(pairs, path, s, i, t):
    twice = 2.0 * s[i]
    row = pairs.open_path[i]
    for j in range(s.size):
        row[j] += twice * (path[j] + s[j] * t)


@implements(follows_flips, AllPairs)
def _all_follow(pairs):
    return True


@implements(pairs_means, AllPairs)
def _all_means(pairs, s, conditional):
    d = s.size
    for i in range(d):
        row = pairs.open_mean[i]
        sign = float(s[i])
        for j in range(d):
            row[j] += sign * conditional[j]


@implements(pairs_within, AllPairs)
def _all_within(pairs, group, s, conditional):
    for i in range(group.size):
        if group[i] >= 0:
            row = pairs.open_mean[i]
            for j in range(group.size):
                if group[j] == group[i]:
                    row[j] += s[i] * (s[j] - conditional[j])


@implements(pairs_flip, EdgePairs)
def _edge_flip(pairs, path, s, i, t):
    # s_i s_j is itself a variable with two values that changes sign now, so 2 s_i s_j t is its share of the integral.
    twice = 2.0 * s[i] * t
    for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
        pairs.open_path[pairs.edge[k]] += twice * s[pairs.indices[k]]


@implements(follows_flips, EdgePairs)
def _edges_follow(pairs):
    return True


@implements(pairs_means, EdgePairs)
def _edge_means(pairs, s, conditional):
    # Each edge stands twice in the pattern, once for each of its two terms.
    for i in range(s.size):
        half = 0.5 * s[i]
        for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
            pairs.open_mean[pairs.edge[k]] += half * conditional[pairs.indices[k]]


@implements(pairs_within, EdgePairs)
def _edge_within(pairs, group, s, conditional):
    for i in range(group.size):
        if group[i] >= 0:
            for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
                j = pairs.indices[k]
                if group[j] == group[i]:
                    pairs.open_mean[pairs.edge[k]] += 0.5 * s[i] * (s[j] - conditional[j])
