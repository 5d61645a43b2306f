"""Sums of s_i s_j over the path, for all pairs, for the pairs that interact, or for none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy.recorders.batches import Batch


@part("open_path", "open_mean")
class Pairs(NamedTuple):
    """Sums over the open batch, of all pairs or of those of a pattern; one compiled loop serves both.

    All d(d-1)/2 pairs are d x d matrices: O(d) per flip and O(d^2) whenever means are recorded. The time integral of
    s_i s_j uses A_j(t), the integral of s_j since the batch began: integrating by parts, it is s_i A_j at the end plus
    the sum over flips of i of 2 s_i A_j(t) with s_i as before the flip, so a flip touches row i alone. With
    A_j(t) = path_j + s_j t nothing else has to be kept.

    The pairs of a pattern are one number per edge and lane: O(degree) per flip and O(edges) whenever means are.
    """

    indptr: NDArray[np.int64]  # (d + 1,) rows of the symmetric pattern; (0,) where there is none
    indices: NDArray[np.int32]  # (2 E,)
    edge: NDArray[np.int32]  # (2 E,) number of the edge that an entry of the pattern belongs to
    ends: NDArray[np.int32]  # (2, E) the sites of each edge
    open_path: NDArray[np.float64]  # (d, d), or (E, lanes) with a pattern
    open_mean: NDArray[np.float64]  # like open_path

    def sums(self, s: NDArray[np.int8], integral: NDArray[np.float64], t: float) -> Batch:
        """Return the sums over the open batch; `integral`, like s, is that of s since the batch began, a time t ago."""
        if self.indptr.size:
            product = s[self.ends[0]] * s[self.ends[1]]
            path, mean = (sums.reshape(product.shape) for sums in (self.open_path, self.open_mean))
            return {"pair_path": path + product * t, "pair_mean": mean.copy()}
        if self.open_path.size:
            path = self.open_path + np.multiply.outer(s, integral)
            return {"pair_path": _symmetric(path), "pair_mean": _symmetric(self.open_mean)}
        return {}

    def clear(self) -> None:
        """Begin a new batch."""
        self.open_path[:] = 0.0
        self.open_mean[:] = 0.0


def all_pairs(d: int) -> Pairs:
    """Return an empty recorder of all pairs; for d = 0 it records nothing, whatever the number of sites."""
    ends = np.zeros((2, 0), np.int32)
    return Pairs(np.zeros(0, np.int64), ends[0], ends[1], ends, np.zeros((d, d)), np.zeros((d, d)))


def edge_pairs(pattern: scipy.sparse.csr_array, lanes: int = 1) -> Pairs:
    """Return an empty recorder of the pairs of a symmetric pattern, numbered by its upper triangle, row by row."""
    pattern = scipy.sparse.csr_array(pattern)
    d = pattern.shape[0]
    rows = np.repeat(np.arange(d), np.diff(pattern.indptr))
    columns = pattern.indices
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    keys, edge = np.unique(low.astype(np.int64) * d + high, return_inverse=True)
    n = keys.size
    indptr, indices = pattern.indptr.astype(np.int64), columns.astype(np.int32)
    ends = np.array(np.divmod(keys, d), np.int32).reshape(2, n)
    return Pairs(indptr, indices, edge.astype(np.int32), ends, np.zeros((n, lanes)), np.zeros((n, lanes)))


def _symmetric(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric part of a matrix, (d * d,)."""
    half: NDArray[np.float64] = 0.5 * (matrix + matrix.T)
    return half.ravel()


@helper
def has_pairs(pairs):
    """Return whether any pair is recorded, and so flips have to be accounted for."""
    return pairs.open_path.size > 0


@helper
def pairs_flip(pairs, path, s, i, t):
    """Account for a flip of site i at time t after the batch began; s and `path` are as before the flip."""
    if not has_pairs(pairs):
        return
    twice = 2.0 * s[i]
    if pairs.indptr.size == 0:
        row = pairs.open_path[i]
        for j in range(s.size):
            row[j] += twice * (path[j] + s[j] * t)
        return
    # s_i s_j is itself a variable with two values that changes sign now, so 2 s_i s_j t is its share of the integral.
    twice *= t
    for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
        pairs.open_path[pairs.edge[k], 0] += twice * s[pairs.indices[k]]


@helper
def pairs_means(pairs, s, conditional):
    """Add (s_i t_j + s_j t_i)/2, t the conditional means, to the open batch."""
    if not has_pairs(pairs):
        return
    for i in range(s.size):
        sign = float(s[i])
        if pairs.indptr.size == 0:
            row = pairs.open_mean[i]
            for j in range(s.size):
                row[j] += sign * conditional[j]
        else:
            # Each edge stands twice in the pattern, once for each of its two terms.
            for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
                pairs.open_mean[pairs.edge[k], 0] += 0.5 * sign * conditional[pairs.indices[k]]


@helper
def pairs_within(pairs, group, s, conditional):
    """Put s_i s_j in place of (s_i t_j + s_j t_i)/2 for sites of the same group, (d,), or of none, < 0.

    t_j may be a mean over s_i as well there, so that s_i t_j has another mean than s_i s_j.
    """
    if not has_pairs(pairs):
        return
    for i in range(group.size):
        if group[i] < 0:
            continue
        if pairs.indptr.size == 0:
            row = pairs.open_mean[i]
            for j in range(group.size):
                if group[j] == group[i]:
                    row[j] += s[i] * (s[j] - conditional[j])
        else:
            for k in range(pairs.indptr[i], pairs.indptr[i + 1]):
                j = pairs.indices[k]
                if group[j] == group[i]:
                    pairs.open_mean[pairs.edge[k], 0] += 0.5 * s[i] * (s[j] - conditional[j])
