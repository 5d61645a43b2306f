"""The loops of cluster samplers: bonds -> clusters -> flips -> recorder.

Clusters are grown site by site from a seed, in the gauge in which all couplings favour equal spins. When a site leaves
the queue, bonds to all neighbours are drawn that have not left it, so that each is drawn once; a site that is bound to
several others is in the queue several times, and counts when it leaves it first. Whether a neighbour enters the queue
is a number that is added to its length, not a branch: a processor would guess every other one wrongly. Sites are marked
when they leave the queue, not when they enter it: each mark would have to wait for the one before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import part
from bouncy._random import next_bits, uniform
from bouncy.recorders.clusters import record_held, record_moments, record_pairs
from bouncy.recorders.contract import FLIPS, HITS, has_room, record_sweep
from bouncy.recorders.recorder import record_flips

# Flips of a sweep are made at this time of it.
_MIDDLE = 0.5
_NONE, _ONE = np.uint64(0), np.uint64(1)


@part("rng")
class Growth(NamedTuple):
    """The generator of a chain, and scratch. Random bits that a sweep leaves over are not used in the next one."""

    rng: NDArray[np.uint64]  # (4,)
    words: NDArray[np.uint64]  # (n,) random bits
    bits: NDArray[np.uint16]  # (4 n,) the same memory
    drawn: NDArray[np.uint8]  # (4 n,) whether bits draw a bond, where all bonds are alike
    queue: NDArray[np.uint32]  # (2 E + d + 1,) sites that are bound to a cluster, and room for one that is not
    member: NDArray[np.uint32]  # (d,) sites of the clusters so far
    free: NDArray[np.int8]  # (d,) spins in the gauge, with 0 for sites that are in a cluster
    turned: NDArray[np.int8]  # (d,) spins in the gauge after the sweep, of sites that are in a cluster; then in s


@helper
def _refill(growth, view):
    """Draw new random bits, and decide with them all bonds that are alike: in a row they take little time."""
    bits, drawn, bond = growth.bits, growth.drawn, view.bond
    for k in range(growth.words.size):
        growth.words[k] = next_bits(growth.rng)
    if bond.first.size == 1:
        first = bond.first[0]
        ties = 0
        for k in range(bits.size):
            drawn[k] = bits[k] < first
            ties += bits[k] == first
        for k in range(bits.size if ties else 0):
            if bits[k] == first:
                drawn[k] = next_bits(growth.rng) < bond.rest[0]


@helper
def _start(growth, view, s):
    for i in range(s.size):
        growth.free[i] = view.gauge[i] * s[i]


@helper
def _is_bond(growth, bonds, k, bits):
    """Return, as 0 or 1, whether 16 random bits draw the bond k."""
    first = bonds.first[k]
    drawn = bits < first
    if bits == first:
        drawn = next_bits(growth.rng) < bonds.rest[k]
    return np.uint64(drawn)


@helper
def _join(growth, view, at, i, tail, turn):
    """Put the neighbours of a site that are bound to it into the queue; its cluster keeps its spins or turns (1 or -1).

    Returns the new end of the queue. `at` is the first of the random bits that are left, and is returned as well.
    """
    queue, free, bits = growth.queue, growth.free, growth.bits
    sigma = free[i]
    free[i] = 0
    growth.turned[i] = sigma * turn
    k, end = np.uint64(view.indptr[i]), np.uint64(view.indptr[i + np.uint32(1)])
    if at + (end - k) > np.uint64(bits.size):
        _refill(growth, view)
        at = _NONE
    alike = view.bond.first.size == 1
    while k < end:
        j = view.indices[k]
        bond = np.uint64(growth.drawn[at]) if alike else _is_bond(growth, view.bond, k, bits[at])
        queue[tail] = j
        tail += bond & np.uint64(free[j] == sigma)
        k += _ONE
        at += _ONE
    return tail, at


@helper
def _grow(growth, view, at, tail, n, turn):
    """Let all sites in the queue, and those that are bound to them, be members of a cluster, from the n-th on.

    Returns how many members there are then, and the first of the random bits that are left.
    """
    head = _NONE
    while head < tail:
        i = growth.queue[head]
        head += _ONE
        if growth.free[i] != 0:
            growth.member[n] = i
            n += _ONE
            tail, at = _join(growth, view, at, i, tail, turn)
    return n, at


@helper
def _hold(growth, view, at, s):
    """Put the sites that their fields hold into the queue, and return its end and the first bits that are left."""
    tail = _NONE
    for i in range(view.pull.size):
        if at == np.uint64(growth.bits.size):
            _refill(growth, view)
            at = _NONE
        growth.queue[tail] = i
        tail += _is_bond(growth, view.ghost, i, growth.bits[at]) & np.uint64(s[i] == view.pull[i])
        at += _ONE
    return tail, at


@helper
def _turn(recorder, view, growth, s):
    """Flip the sites that were turned, and return how many."""
    for i in range(s.size):
        growth.turned[i] *= view.gauge[i]
    return record_flips(recorder, s, growth.turned, _MIDDLE)


@kernel
def advance_all_clusters(view, recorder, sums, growth, s, n_sweeps):
    """Run a chain of Swendsen and Wang for n sweeps, and return how many are left because its recorder is full.

    Everything but `view` is changed in place. A sweep turns every cluster over with probability 1/2, but for those that
    fields hold. Cost: O(d + edges) per sweep.
    """
    events = recorder.open_events
    for sweep in range(n_sweeps):
        _start(growth, view, s)
        tail, at = _hold(growth, view, np.uint64(growth.bits.size), s)
        begin = _NONE
        held = squares = fourths = 0.0
        coins = _ONE
        for seed in range(-1, s.size):  # the sites that fields hold come first
            turn = np.int8(1)
            if seed >= 0:
                if growth.free[seed] == 0:
                    continue
                if coins == _ONE:  # the last of its bits is a mark
                    coins = next_bits(growth.rng) | np.uint64(1 << 63)
                turn = np.int8(1 - 2 * np.int64(coins & _ONE))
                coins >>= _ONE
                growth.queue[0] = seed
                tail = _ONE
            n, at = _grow(growth, view, at, tail, begin, turn)
            members = growth.member[begin:n]
            begin = n
            record_pairs(sums, s, members)
            if seed < 0:
                held = record_held(sums, s, members)
                continue
            total = float(members.size)
            if not view.is_plain:
                total = 0.0
                for i in members:
                    total += view.gauge[i]
            squares += total * total
            fourths += total * total * total * total
        record_moments(sums, held, squares, fourths, s.size)
        events[HITS] += s.size
        events[FLIPS] += _turn(recorder, view, growth, s)
        record_sweep(recorder, view, s, 1.0)
        if not has_room(recorder):
            return n_sweeps - sweep - 1
    return 0


@helper
def _grow_one(growth, view, at, seed):
    """Grow the cluster of a site until it ends or a field holds it; return its size, and whether a field does.

    As soon as a field holds a cluster it cannot turn, so that the rest of it need not be known.
    """
    growth.queue[0] = seed
    n, head, tail = _NONE, _NONE, _ONE
    while head < tail:
        i = growth.queue[head]
        head += _ONE
        if growth.free[i] == 0:
            continue
        growth.member[n] = i
        n += _ONE
        if view.pull.size > 0:
            if at == np.uint64(growth.bits.size):
                _refill(growth, view)
                at = _NONE
            holds = _is_bond(growth, view.ghost, i, growth.bits[at])
            at += _ONE
            if holds and growth.free[i] == view.gauge[i] * view.pull[i]:
                return n, at, True
        tail, at = _join(growth, view, at, i, tail, np.int8(-1))
    return n, at, False


@kernel
def advance_single_clusters(view, recorder, sums, growth, s, clusters, n_sweeps):
    """Run a chain of Wolff for n sweeps, and return how many are left because its recorder is full.

    Everything but `view` is changed in place. A sweep turns the clusters of so many random sites over, but for those
    that fields hold; its flips are the sites that differ at its end. Without fields (sum of a cluster)^2 / size has the
    mean m^2 d. Cost: O(d), and O(degree) for each site of a cluster.
    """
    d = s.size
    for sweep in range(n_sweeps):
        _start(growth, view, s)
        at = np.uint64(growth.bits.size)
        squares = 0.0
        hits = _NONE
        for _ in range(clusters):
            seed = min(np.int64(uniform(growth.rng) * d), d - 1)
            sigma = growth.free[seed]
            size, at, held = _grow_one(growth, view, at, seed)
            turned = sigma if held else -sigma
            total = 0
            for q in range(size):
                i = growth.member[q]
                total += view.gauge[i]
                growth.free[i] = turned
            squares += float(total) * total / size
            hits += size
        for i in range(d):
            growth.turned[i] = growth.free[i]
        recorder.open_events[HITS] += hits
        recorder.open_events[FLIPS] += _turn(recorder, view, growth, s)
        total = 0
        for i in range(d):
            total += s[i]
        m2 = float(total) * total / (float(d) * d)
        sums.moments[0] += m2 if view.pull.size > 0 else squares / (float(clusters) * d)
        sums.moments[1] += m2 * m2
        record_sweep(recorder, view, s, 1.0)
        if not has_room(recorder):
            return n_sweeps - sweep - 1
    return 0
