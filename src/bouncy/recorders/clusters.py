"""What clusters tell beside the path: their sums over the open batch.

Given the bonds, every cluster of free spins is turned one way or the other with equal probability, and the cluster that
fields hold stays. Averaged over these turns, s_i is what it is in the held cluster and 0 elsewhere, s_i s_j is what
it is within a cluster and 0 between two of them, and moments of the magnetisation follow from the sums of s over
clusters. These averages have the same means as s itself, and smaller variances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy.recorders.batches import Batch


@part("moments", "mean", "pair_mean")
class ClusterSums(NamedTuple):
    """Sums over the open batch; without room for what is not recorded."""

    moments: NDArray[np.float64]  # (2,) the squares and fourth powers of the magnetisation
    mean: NDArray[np.float64]  # (d or 0,)
    pair_mean: NDArray[np.float64]  # (d, d) or (0, 0)

    def sums(self) -> Batch:
        """Return the sums over the open batch, by name."""
        named = {"moments": self.moments, "cluster_mean": self.mean, "cluster_pair_mean": self.pair_mean}
        return {name: array.ravel().copy() for name, array in named.items() if array.size}

    def clear(self) -> None:
        """Begin a new batch."""
        for array in self:
            array[...] = 0.0


def new_cluster_sums(d: int, of_all_clusters: bool, pairs: str) -> ClusterSums:
    """Return empty sums. Means and pairs are recorded where all clusters are known; pairs if all of them are asked for.

    On pairs that interact the conditional means have the smaller errors.
    """
    sites = d if of_all_clusters else 0
    side = sites if pairs == "all" else 0
    return ClusterSums(np.zeros(2), np.zeros(sites), np.zeros((side, side)))


@helper
def record_held(sums, s, members):
    """Account for the cluster that fields hold, and return its sum of spins."""
    total = 0.0
    for i in members:
        sums.mean[i] += s[i]
        total += s[i]
    return total


@helper
def record_pairs(sums, s, members):
    """Account for the pairs within a cluster."""
    if sums.pair_mean.shape[0] > 0:
        for i in members:
            for j in members:
                sums.pair_mean[i, j] += s[i] * s[j]


@helper
def record_moments(sums, held, squares, fourths, d):
    """Account for the magnetisation, given the sum of the held cluster, and sums of (sum of a cluster)^2 and ^4.

    With independent signs e_c = +-1, E[(h + sum_c e_c n_c)^2] = h^2 + S2, and the fourth moment is
    h^4 + 6 h^2 S2 + 3 S2^2 - 2 S4.
    """
    h2 = held * held
    size = float(d) * d
    sums.moments[0] += (h2 + squares) / size
    sums.moments[1] += (h2 * h2 + 6.0 * h2 * squares + 3.0 * squares * squares - 2.0 * fourths) / (size * size)
