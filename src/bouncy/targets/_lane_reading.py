"""Log p of all lanes of a sparse Markov random field, and conditional means of some, as ladders need them.

Nearly always the couplings of a site differ by signs alone. Then it is counted how many pairs differ, and how many
neighbours favour a spin.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._lane_loop import FLOAT64, INT8, lane_loop
from bouncy._vector import vectorised

# Pairs of which so many can be added up as bytes: each adds 0 where its spins agree, and -2 where they differ.
_BLOCK = 64
# Bits that count the neighbours of a site in one lane: two lanes share a number of 32 bits.
_BITS = 16


class LaneReading(NamedTuple):
    """Couplings in a form that is fast to read, of sites that have few neighbours and couplings of one size."""

    constant: float  # log p where all spins are -1 and no pair counts
    sites: NDArray[np.int32]  # (k,) those in a field, whatever their couplings
    twice: NDArray[np.float64]  # (k,) 2 r_i of each
    low: NDArray[np.int32]  # (n,) first sites of pairs, ordered by their couplings
    high: NDArray[np.int32]  # (n,) second ones
    ends: NDArray[np.int64]  # (m + 1,) where blocks of pairs with the same coupling begin
    coupling: NDArray[np.float64]  # (m,) which it is
    near: NDArray[np.int32]  # (d, most) neighbours of each site; d for none
    turn: NDArray[np.int32]  # (d, most) the bits that turn an up spin into a down one where a coupling is negative
    alone: NDArray[np.float64]  # (d,) log p(s_i = 1) - log p(s_i = -1) given neighbours that all favour +1
    each: NDArray[np.float64]  # (d,) what each that favours -1 adds
    ups: NDArray[np.int32]  # (d + 1,) scratch: which spins are +1, a number for all lanes that are read
    counts: NDArray[np.int32]  # (d,) scratch: how many neighbours favour -1, in the same way


def new_lane_reading(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    r: NDArray[np.float64],
    offset: float,
    size: NDArray[np.float64],
) -> LaneReading:
    """Return log p = offset - r.s - s'Ms/2 for a symmetric M in CSR form.

    Where `size`, (d,), is not 0 it is that of all couplings of a site, which are few.
    """
    d, degree = r.size, np.diff(indptr)
    most = int(degree[size > 0.0].max(initial=0))
    rows = np.repeat(np.arange(d, dtype=np.int32), degree)
    near, turn = np.full((d, most), d, np.int32), np.zeros((d, most), np.int32)
    own = size[rows] > 0.0
    place = rows[own], (np.arange(rows.size) - indptr[rows])[own]
    near[place] = indices[own]
    turn[place] = np.where(data[own] < 0.0, 1 | 1 << _BITS, 0)
    pairs = own & (indices > rows)
    low, high, coupling = rows[pairs], indices[pairs], data[pairs]
    order = np.argsort(coupling, kind="stable")
    value = coupling[order]
    new = np.flatnonzero(value[1:] != value[:-1]) + 1
    blocks = [np.arange(a, b, _BLOCK) for a, b in pairwise([0, *new, value.size])]
    ends = np.append(np.concatenate(blocks), value.size)
    sites = np.flatnonzero(r).astype(np.int32)
    return LaneReading(
        offset + r.sum(), sites, 2.0 * r[sites], low[order], high[order], ends, value[ends[:-1]], near, turn,
        2.0 * (size * degree - r), -4.0 * size, np.zeros(d + 1, np.int32), np.zeros(d, np.int32),
    )  # fmt: skip


def nothing_to_read() -> LaneReading:
    """Return what lanes have that are not read."""
    nothing, empty = np.empty(0), np.empty(0, np.int32)
    return new_lane_reading(np.zeros(1, np.int64), empty, nothing, nothing, 0.0, nothing)


@helper
def write_log_probs(reading, s, out):
    """Write log p of each lane into `out`, (lanes,), but for pairs of sites that are not alike."""
    _write_fields(out, reading.constant, (s, reading.sites, reading.twice, 0, reading.sites.size))
    for k in range(reading.coupling.size):
        n, end = reading.ends[k], reading.ends[k + 1]
        coupling = reading.coupling[k]
        _add_pairs(out, -coupling, -coupling * (end - n), (s, reading.low, reading.high, n, end))


@lane_loop()
def _write_fields(out, constant, fields):
    """Write the constant - r.s - r.1: each spin that is +1 takes 2 r off."""
    out.write(constant - fields.total(FLOAT64, lambda spin, twice: (spin.read() < 0).choose(0.0, twice)))


@lane_loop()
def _add_pairs(out, weight, alone, pairs):
    """Add pairs of one coupling: the product of two spins is 1 plus the bits in which they differ, 0 or -2."""
    differ = pairs.total(INT8, lambda one, other: one.read() ^ other.read())
    out.write(out.read() + (weight * differ.to(FLOAT64) + alone))


@helper
def write_log_odds(reading, spins, out):
    """Write log p(s_i = 1) - log p(s_i = -1) given all others, of some states (n, d), into `out`, (n, d or more).

    What is written is right for sites that are alike.
    """
    for n in range(0, spins.shape[0], 2):
        _write_two(reading, spins[n : n + 2], out[n : n + 2])


@helper
def _write_two(reading, spins, out):
    """Do so for two states at most."""
    d, ups, counts = spins.shape[1], reading.ups, reading.counts
    for i in range(d):
        ups[i] = 0
    for n in range(spins.shape[0]):
        for i in range(d):
            ups[i] |= np.int32(spins[n, i] > 0) << np.int32(_BITS * n)
    for i in range(d):
        total, near, turn = 0, reading.near[i], reading.turn[i]
        for m in range(near.size):
            total += ups[np.uint32(near[m])] ^ turn[m]
        counts[i] = total
    for n in range(spins.shape[0]):
        _odds_of_counts(out[n, :d], counts, reading.alone, reading.each, _BITS * n)


@vectorised
def _odds_of_counts(out, counts, alone, each, shift):
    for i in range(out.size):
        out[i] = alone[i] + each[i] * (counts[i] >> np.int32(shift) & np.int32((1 << _BITS) - 1))
