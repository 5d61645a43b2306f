"""Markov random fields that are ferromagnets in a gauge: all couplings favour equal spins once some sites are flipped.

In the gauge g, s_i = g_i sigma_i, log p has the terms J_ij sigma_i sigma_j with J_ij = -g_i g_j M_ij. The gauge is a
colouring of the graph of couplings in which M_ij < 0 asks for equal colours and M_ij > 0 for different ones; a cycle
with an odd number of positive M_ij has none. What cluster samplers do in the gauge they do to s as well: flipping
sigma_i flips s_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from bouncy._compile import helper
from bouncy.targets.contract import costs_to_means, target_part
from bouncy.targets.mrf import MRF

# Bonds are drawn by 16 random bits; where these equal those of the probability, by 64 more.
_FIRST = 2.0**16
_REST = 2.0**64
# Sites of a frustrated cycle that an error names.
_NAMED = 12


class Bonds(NamedTuple):
    """Probabilities, to 80 bits, as thresholds of random bits: P(bond) = (first + rest / 2^64) / 2^16."""

    first: NDArray[np.uint16]
    rest: NDArray[np.uint64]


@target_part()
class Ferromagnet(NamedTuple):
    """A Markov random field in its gauge, for compiled loops. Couplings are those of s, not of sigma."""

    indptr: NDArray[np.uint32]  # (d + 1,) rows of the symmetric pattern of couplings that are not zero
    indices: NDArray[np.uint32]  # (2 E,)
    coupling: NDArray[np.float64]  # (2 E,) -M_ij
    low: NDArray[np.uint32]  # (E,) the sites of each pair
    high: NDArray[np.uint32]  # (E,)
    strength: NDArray[np.float64]  # (E,) -M_ij of each pair; (1,) where all are alike
    field: NDArray[np.float64]  # (d,) -r_i
    offset: float
    gauge: NDArray[np.int8]  # (d,)
    is_plain: bool  # whether the gauge is 1 everywhere
    bond: Bonds  # (2 E,), or (1,) if all are alike: aligned neighbours are joined with probability 1 - exp(-2 J_ij)
    pull: NDArray[np.int8]  # (d,) the sign of s that the field favours, 0 without a field; (0,) without any field
    ghost: Bonds  # like pull: a spin that follows its field is held by it with probability 1 - exp(-2 |r_i|)
    reads_fields: bool  # whether conditional means are computed

    def flip_cost(self, s, i):
        return 2.0 * s[i] * _local_field(self, s, i)

    def log_prob(self, s):
        total = self.offset
        if self.strength.size == 1:
            total += self.strength[0] * _alike(self, s)
        else:
            total += _bond_sum(self, s)
        for i in range(self.pull.size):
            total += self.field[i] * s[i]
        return total

    def conditional_means(self, s, out):
        if not self.reads_fields:
            return
        for i in range(s.size):
            out[i] = 2.0 * s[i] * _local_field(self, s, i)
        costs_to_means(out, s)


@helper
def _local_field(view, s, i):
    field = view.field[i]
    for k in range(view.indptr[i], view.indptr[i + 1]):
        field += view.coupling[k] * s[view.indices[k]]
    return field


@helper
def _alike(view, s):
    """Return the sum of s_i s_j over all pairs."""
    total = 0
    for k in range(view.low.size):
        total += s[view.low[k]] * s[view.high[k]]
    return total


@helper
def _bond_sum(view, s):
    """Return the sum of -M_ij s_i s_j over all pairs, as four sums, which do not wait for each other."""
    a = b = c = e = 0.0
    low, high, w = view.low, view.high, view.strength
    n = low.size
    for k in range(0, n - 3, 4):
        a += w[k] * (s[low[k]] * s[high[k]])
        b += w[k + 1] * (s[low[k + 1]] * s[high[k + 1]])
        c += w[k + 2] * (s[low[k + 2]] * s[high[k + 2]])
        e += w[k + 3] * (s[low[k + 3]] * s[high[k + 3]])
    for k in range(n - n % 4, n):
        a += w[k] * (s[low[k]] * s[high[k]])
    return (a + b) + (c + e)


def ferromagnet(target: MRF, pairs: str = "none", like: Ferromagnet | None = None) -> Ferromagnet:
    """Return a Markov random field in its gauge; raise `ValueError` with a frustrated cycle where it has none.

    Without any field all means are 0, so that conditional means are read only where `pairs` are recorded. The gauge of
    a field that is `like` it is tried first.
    """
    M = scipy.sparse.csr_array(target.M, copy=True)
    M.eliminate_zeros()
    M.sort_indices()
    rows = np.repeat(np.arange(target.d), np.diff(M.indptr))
    known = like is not None and bool((like.gauge[rows] * M.data * like.gauge[M.indices] < 0.0).all())
    gauge = like.gauge if like is not None and known else _gauge(M, target)
    upper = rows < M.indices
    strength = 0.0 - M.data[upper]
    field = 0.0 - target.r
    pulled = bool(field.any())
    return Ferromagnet(
        indptr=M.indptr.astype(np.uint32),
        indices=M.indices.astype(np.uint32),
        coupling=0.0 - M.data,
        low=rows[upper].astype(np.uint32),
        high=M.indices[upper].astype(np.uint32),
        strength=_one_if_alike(strength),
        field=field,
        offset=target.offset,
        gauge=gauge,
        is_plain=bool((gauge == 1).all()),
        bond=bonds(_one_if_alike(np.abs(M.data))),
        pull=np.sign(field).astype(np.int8) if pulled else np.zeros(0, np.int8),
        ghost=bonds(np.abs(field) if pulled else np.zeros(0)),
        reads_fields=pulled or pairs != "none",
    )


def bonds(J: NDArray[np.float64]) -> Bonds:
    """Return the probabilities 1 - exp(-2 J)."""
    p = -np.expm1(-2.0 * J)
    first = np.minimum(np.floor(p * _FIRST), _FIRST - 1.0)
    beyond = p * _FIRST - first  # 1 where p is
    rest = (np.where(beyond < 1.0, beyond, 0.0) * _REST).astype(np.uint64)
    rest = np.where(beyond < 1.0, rest, np.uint64(2**64 - 1))
    return Bonds(first.astype(np.uint16), rest)


def _one_if_alike(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first of some values if they are all the same, otherwise all of them."""
    return values[:1] if values.size and (values == values[0]).all() else values


def in_a_field(view: Ferromagnet) -> NDArray[np.bool_]:
    """Return which sites are tied to some field by couplings, (d,); all others have the mean 0, by symmetry."""
    d = view.field.size
    data = np.ones(view.indices.size, np.int8)
    index = view.indices.astype(np.int32), view.indptr.astype(np.int32)
    pattern = scipy.sparse.csr_array((data, *index), shape=(d, d))
    n, component = connected_components(pattern, directed=False)
    lit = np.bincount(component, weights=view.field != 0.0, minlength=n) > 0
    return np.asarray(lit[component])


def _gauge(M: scipy.sparse.csr_array, target: MRF) -> NDArray[np.int8]:
    """Return a gauge, (d,), by the components of two copies of the graph, joined crosswise by positive M_ij.

    In the copies, a walk from site i leads to the copy of j that has its colour. Where both copies of a site are in one
    component the walk between them goes round a frustrated cycle.
    """
    d = target.d
    copies = _two_copies(M)
    _, label = connected_components(copies, directed=False)
    first, second = label[:d], label[d:]
    if (first == second).any():
        cycle = _cycle(copies, int(np.argmax(first == second)), d)
        names = [repr(target.labels[i]) for i in cycle]
        shown = names if len(names) <= _NAMED else [*names[: _NAMED - 1], "...", names[-1]]
        raise ValueError(
            f"clusters need couplings that are ferromagnetic once some sites are flipped, but those along the cycle "
            f"{' - '.join([*shown, names[0]])} are frustrated (an odd number of M_ij > 0); use 'tempered' or 'auto'"
        )
    _, component = connected_components(M, directed=False)
    _, root = np.unique(component, return_index=True)  # the first site of each component
    return np.where(first == first[root][component], 1, -1).astype(np.int8)


def _two_copies(M: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    same, other = (scipy.sparse.csr_array(part) for part in (M < 0, M > 0))
    return scipy.sparse.csr_array(scipy.sparse.block_array([[same, other], [other, same]]))


def _cycle(copies: scipy.sparse.csr_array, site: int, d: int) -> list[int]:
    """Return the sites of a frustrated cycle, the shortest that walks from one copy of a site to the other find."""
    best: list[int] = []
    while True:
        _, before = breadth_first_order(copies, site, directed=False)
        walk, at = [], site + d
        while at != site:
            walk.append(int(at) % d)
            at = before[at]
        # A walk to the cycle and back the same way is no part of it.
        while len(walk) > 2 and walk[1] == walk[-1]:
            walk = walk[1:-1]
        if best and len(walk) >= len(best):
            return best
        best, site = walk, walk[0]
