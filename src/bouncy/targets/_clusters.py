"""Exchanges of clusters between two ladders, at many rungs at once.

A lane of the first ladder and its partner, the lane of the second at the same rung, exchange the spins of a connected
component of the sites at which they differ. A bit of a word stands for a lane of the first ladder. Clusters grow in
passes over the sites, up and down, in which each site joins those of its neighbours. Few passes are needed as sites are
put in an order in which neighbours are near each other (that of reverse Cuthill-McKee).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from bouncy._compile import helper
from bouncy._lane_bits import WORD, read_word, turn_word
from bouncy._random import uniform
from bouncy._vector import vectorised

# Neighbours of a site that are looked at together, and the longest rows that are all made equally long.
_TOGETHER, _SHORT = 4, 8
_NONE, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
# The partner of a lane that has none.
ALONE = -1


class Joints(NamedTuple):
    """Which sites share a coupling, a factor or a term: a symmetric pattern of their places in an order, in CSR form.

    The places before and after one are not in its row, so that a pass need not wait for what it has just written. Rows
    are filled up with d: how long the next one is no processor foresees, which takes longer than a few entries more.
    """

    order: NDArray[np.int32]  # (d,) the site of each place
    ends: NDArray[np.int64]  # (d + 1,)
    near: NDArray[np.int32]
    beside: NDArray[np.uint64]  # (d + 1,) all bits 1 where a place and the one before it are neighbours


class Partners(NamedTuple):
    """Lanes that exchange clusters, and scratch."""

    lane: NDArray[np.int64]  # (rungs,) the partner of each lane, counted from the first of its ladder, or ALONE
    traded: NDArray[np.uint64]  # (words,) which lanes of the first ladder differed from their partners
    passes: NDArray[np.int64]  # (1,) how many there were, to tune by
    apart: NDArray[np.uint64]  # (d,) which do at the site of a place
    joined: NDArray[np.uint64]  # (d + 1,) those whose cluster has it, none at the end
    second: NDArray[np.uint64]  # (words, d) spins of the second ladder that are -1
    turned: NDArray[np.uint64]  # (words, d) and those that are turned


def new_joints(pattern: scipy.sparse.csr_array | None) -> Joints:
    """Return a symmetric pattern of sites; None where nobody exchanges clusters."""
    given = scipy.sparse.csr_array((0, 0)) if pattern is None else scipy.sparse.csr_array(pattern)
    d, order = given.shape[0], np.empty(0, np.int32)
    if d:
        order = reverse_cuthill_mckee(given, symmetric_mode=True).astype(np.int32)
    place = np.argsort(order)
    row, near = (place[sites] for sites in given.nonzero())
    beside = np.zeros(d + 1, np.uint64)
    beside[near[near - row == 1]] = _ALL
    far = np.abs(near - row) > 1
    row, near = row[far], near[far]
    degree = np.bincount(row, minlength=d)
    most = degree.max(initial=0)
    width = -(-max(most, 1) // _TOGETHER) * _TOGETHER if most <= _SHORT else _SHORT
    ends = np.append(0, np.cumsum(np.maximum(-(-degree // width), 1) * width))
    filled, rank = np.full(ends[-1], d, np.int32), np.argsort(row, kind="stable")
    row, near = row[rank], near[rank]
    filled[ends[row] + np.arange(row.size) - np.append(0, np.cumsum(degree))[row]] = near
    return Joints(order, ends, filled, beside)


def new_partners(d: int, rungs: int) -> Partners:
    """Return room for the lanes of ladders of so many rungs."""
    words = -(-rungs // WORD)
    zeros = [np.zeros(shape, np.uint64) for shape in (words, d, d + 1, (words, d), (words, d))]
    return Partners(np.full(rungs, ALONE), zeros[0], np.zeros(1, np.int64), *zeros[1:])


@helper
def trade_spins(joints, s, begin, partners, rng):
    """Exchange a cluster between each lane and its partner: that of a site at which they differ.

    Of these sites it is the first one from a random place on. They are the same after an exchange, so that the way back
    has the same probability. The first of both ladders has its lanes from `begin` on, the second next to them.
    """
    rungs, order, second, turned = partners.lane.size, joints.order, partners.second, partners.turned
    next_ladder = begin + rungs
    for v in range(second.shape[0]):
        first, end = WORD * v, min(WORD * (v + 1), rungs)
        for i in range(order.size):
            second[v, i] = read_word(s, np.int64(order[i]), next_ladder + first, next_ladder + end)
            turned[v, i] = _NONE
    for v in range(second.shape[0]):
        first, end = WORD * v, min(WORD * (v + 1), rungs)
        for i in range(order.size):
            partners.apart[i] = read_word(s, np.int64(order[i]), begin + first, begin + end)
        partners.traded[v] = _tell_apart(partners, first, end)
        _begin(partners, first, end, partners.traded[v], rng)
        partners.passes[0] += _grow(joints, partners.apart, partners.joined)
        for i in range(order.size):
            turn_word(s, np.int64(order[i]), begin + first, begin + end, partners.joined[i])
        for k in range(first, end):
            other = partners.lane[k]
            if other != ALONE:
                _take_bits(turned[other // WORD], other % WORD, partners.joined, k - first)
    for v in range(second.shape[0]):
        first, end = WORD * v, min(WORD * (v + 1), rungs)
        for i in range(order.size):
            turn_word(s, np.int64(order[i]), next_ladder + first, next_ladder + end, turned[v, i])


@helper
def _tell_apart(partners, first, end):
    """Find where lanes of a word, whose spins are in `apart`, differ from their partners; return which do anywhere."""
    apart, joined, with_partner = partners.apart, partners.joined, _NONE
    for i in range(apart.size):
        joined[i] = _NONE
    for k in range(first, end):
        other = partners.lane[k]
        if other != ALONE:
            with_partner |= _ONE << np.uint64(k - first)
            _take_bits(joined, k - first, partners.second[other // WORD], other % WORD)
    found = _NONE
    for i in range(apart.size):
        apart[i] = (apart[i] ^ joined[i]) & with_partner
        joined[i] = _NONE
        found |= apart[i]
    return found


@vectorised
def _take_bits(words, place, others, other_place):
    """Set the bit at a place of each word where that of another one, at its own place, is set."""
    place, other_place = np.uint64(place), np.uint64(other_place)
    for i in range(min(words.size, others.size)):
        words[i] |= ((others[i] >> other_place) & _ONE) << place


@helper
def _begin(partners, first, end, differing, rng):
    """Draw the place with which the cluster of each lane that differs from its partner begins."""
    apart, d = partners.apart, partners.apart.size
    for k in range(first, end):
        bit = _ONE << np.uint64(k - first)
        if differing & bit:
            i = min(np.int64(uniform(rng) * d), d - 1)
            while not apart[i] & bit:
                i = i + 1 if i + 1 < d else 0
            partners.joined[i] |= bit


@helper
def _grow(joints, apart, joined):
    """Let clusters grow until no place can join any more, and return the number of passes."""
    passes, growing = 0, True
    while growing:
        growing = _up(joints, apart, joined)
        passes += 1
        if growing:
            growing = _down(joints, apart, joined)
            passes += 1
    return passes


@helper
def _up(joints, apart, joined):
    """Let places join in their order, and return whether any did."""
    ends, beside, d = joints.ends, joints.beside, np.uint64(apart.size)
    news, last, link, own, m = _NONE, _NONE, _NONE, joined[0], _NONE
    for i in range(d):
        ahead, next_link = joined[i + _ONE], beside[i + _ONE]
        found = own | (ahead & next_link)
        end = np.uint64(ends[i + _ONE])
        while m < end:
            found |= _joined_by(joints.near, joined, m)
            m += np.uint64(_TOGETHER)
        last = (found | (last & link)) & apart[i]  # what it waits for comes last
        joined[i] = last
        news |= last ^ own
        own, link = ahead, next_link
    return news != _NONE


@helper
def _down(joints, apart, joined):
    """Let places join, the last one first, and return whether any did."""
    ends, beside, d = joints.ends, joints.beside, np.uint64(apart.size)
    news, last, link, own, m = _NONE, _NONE, _NONE, joined[d - _ONE], np.uint64(ends[d])
    for n in range(d):
        i = d - _ONE - n
        ahead, next_link = joined[max(i, _ONE) - _ONE], beside[i]
        found = own | (ahead & next_link)
        begin = np.uint64(ends[i])
        while m > begin:
            m -= np.uint64(_TOGETHER)
            found |= _joined_by(joints.near, joined, m)
        last = (found | (last & link)) & apart[i]
        joined[i] = last
        news |= last ^ own
        own, link = ahead, next_link
    return news != _NONE


@vectorised
def _joined_by(near, joined, m):
    """Return the clusters that four neighbours belong to."""
    two, three = np.uint64(2), np.uint64(3)
    return (joined[np.uint32(near[m])] | joined[np.uint32(near[m + _ONE])]) | (
        joined[np.uint32(near[m + two])] | joined[np.uint32(near[m + three])]
    )
