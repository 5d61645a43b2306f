"""Pairs: which two spins may trade places, or which one may flip, at the times of a Poisson process.

A pair is drawn whatever the spins are. The loop exchanges the two if they differ, and where they do not, nothing
happens. A swap is its own inverse, so that any law of unordered pairs, which never looks at the spins, leaves p
invariant under Metropolis tolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._dispatch import implements, part
from bouncy._random import exponential, next_bits
from bouncy.clocks.contract import LONGEST, MOST_EVENTS, Clock, fill, position, restart, shift

# Second site of an attempt to flip the first one alone.
ALONE = -1

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_UNIT = 2.0**-32


class Pairing(NamedTuple):
    """Which sites may flip alone, and which may trade places.

    An attempt is a flip with probability `shares[0]`, a pair of the table with probability `shares[1] - shares[0]`, and
    else a site of any block together with another one of the same block.
    """

    shares: NDArray[np.float64]  # (2,)
    single: NDArray[np.int32]  # (n,) sites that may flip alone
    ends: NDArray[np.int32]  # (2, E) pairs of the table
    cutoff: NDArray[np.float64]  # (E,) by the alias method: keep entry e with this probability,
    alias: NDArray[np.int32]  # (E,) or take this one
    members: NDArray[np.int32]  # (m,) sites of blocks, one block after the other
    begin: NDArray[np.int32]  # (m,) where in `members` the block of each begins
    size: NDArray[np.int32]  # (m,) number of sites of the block of each


@part(
    "now", "count", "rng",
    bounds={
        "now": lambda clock: (-LONGEST, LONGEST),
        "count": lambda clock: ([0, 0], [MOST_EVENTS, MOST_EVENTS]),
    },
)  # fmt: skip
class PairScan(NamedTuple):
    """Attempts at the times of a Poisson process. Their number in a sweep is random, as that of `RandomScan`."""

    now: NDArray[np.float64]  # (1,) time of the next attempt
    count: NDArray[np.int64]  # type: ignore[assignment]  # (2,) bounces and refreshments, of which there are none
    rng: NDArray[np.uint64]  # (4,)
    spacing: float  # mean time between attempts
    pairing: Pairing


PAIRS = Clock(
    family="pairs",
    name="random",
    allocate=lambda d, refreshment_rate, state: new_scan(d, one_block(d), state),
    hit_rate=float,
)


def new_scan(d: int, pairing: Pairing, state: NDArray[np.uint64]) -> PairScan:
    """Return a clock that still has to be started, with d spins tried per unit time: one in a flip, two in a swap."""
    spins = 2.0 - float(pairing.shares[0])
    return PairScan(np.zeros(1), np.zeros(2, np.int64), state, spins / d, pairing)


def one_block(d: int) -> Pairing:
    """Return the pairing in which any two sites may trade places."""
    return new_pairing((0.0, 0.0), blocks=[np.arange(d)])


def new_pairing(
    shares: tuple[float, float],
    *,
    single: ArrayLike = (),
    table: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    blocks: Sequence[NDArray[np.integer]] = (),
) -> Pairing:
    """Return a pairing.

    Parameters
    ----------
    shares : (float, float)
        Probabilities of a flip, and of a pair of the table; otherwise a pair of a block is tried.
    single : array_like
        Sites that may flip.
    table : (i, j, weight), optional
        Unordered pairs and how often they are tried, relative to each other.
    blocks : sequence of arrays
        Sites, each in one block at most.
    """
    none: tuple[ArrayLike, ...] = ((), (), ())
    i, j, weight = none if table is None else table
    cutoff, alias = alias_table(np.asarray(weight, np.float64))
    sizes = np.array([len(block) for block in blocks], np.int32)
    begins = np.cumsum(sizes, dtype=np.int32) - sizes
    flips, either = np.cumsum(shares)
    if not sizes.size:  # nothing else is left, whatever the rounding
        flips, either = 1.0 if table is None else flips, 1.0
    return Pairing(
        shares=np.array([flips, either]),
        single=np.asarray(single, np.int32),
        ends=np.array([i, j], np.int32).reshape(2, -1),
        cutoff=cutoff,
        alias=alias,
        members=np.concatenate([*blocks, []]).astype(np.int32),
        begin=np.repeat(begins, sizes),
        size=np.repeat(sizes, sizes),
    )


def alias_table(weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the cutoffs and aliases with which entries are drawn in proportion to their weights, in O(1).

    An entry e is chosen uniformly, and kept if a uniform number is below its cutoff; otherwise its alias is taken
    (Vose 1991).
    """
    n = weight.size
    cutoff, alias = np.ones(n), np.arange(n, dtype=np.int32)
    share = weight * (n / weight.sum()) if n else weight
    small = np.flatnonzero(share < 1.0).tolist()
    large = np.flatnonzero(share >= 1.0).tolist()
    left: list[float] = share.tolist()
    while small and large:
        less, more = small.pop(), large[-1]
        cutoff[less], alias[less] = left[less], more
        left[more] -= 1.0 - left[less]
        if left[more] < 1.0:
            small.append(large.pop())
    return cutoff, alias


@implements(restart, PairScan)
def _restart(clock):
    clock.now[0] = exponential(clock.rng) * clock.spacing


@implements(fill, PairScan)
def _fill(clock, t_stop, times, sites):
    """Write two entries, at the same time, for each attempt: its sites, or a site and `ALONE`."""
    pairing, rng = clock.pairing, clock.rng
    t = clock.now[0]
    n = 0
    while n + 1 < times.size and t <= t_stop:
        bits = next_bits(rng)
        which, place = (bits & _LOW) * _UNIT, bits >> _HALF  # products with `place` as in `RandomScan`
        if which < pairing.shares[0]:
            i = pairing.single[(place * np.uint64(pairing.single.size)) >> _HALF]
            j = ALONE
        elif which < pairing.shares[1]:
            e = np.int64((place * np.uint64(pairing.cutoff.size)) >> _HALF)
            if (next_bits(rng) >> _HALF) * _UNIT >= pairing.cutoff[e]:
                e = np.int64(pairing.alias[e])
            i, j = pairing.ends[0, e], pairing.ends[1, e]
        else:
            m = np.int64((place * np.uint64(pairing.members.size)) >> _HALF)
            begin, size = pairing.begin[m], pairing.size[m]
            # One of the others, or a site that is alone in its block together with itself, which nothing comes of.
            step = 1 + np.int64(((next_bits(rng) >> _HALF) * np.uint64(max(size - 1, 1))) >> _HALF)
            other = m - begin + step
            other = other - size if other >= size else other
            i, j = pairing.members[m], pairing.members[begin + other]
        times[n], times[n + 1] = t, t
        sites[n], sites[n + 1] = i, j
        n += 2
        t += exponential(rng) * clock.spacing
    clock.now[0] = t
    return n, t > t_stop


@implements(shift, PairScan)
def _shift(clock, elapsed):
    clock.now[0] -= elapsed


@implements(position, PairScan)
def _position(clock, t, z, w):
    for i in range(z.size):
        z[i] = nan
        w[i] = nan
