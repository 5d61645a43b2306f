"""Bare loops that the package is measured against, on plain arrays and with none of its targets, clocks or recorders.

They share its compiler flags, its random numbers and its kept local fields h = r + Ms, so that a ratio compares
algorithms. Metropolis here records nothing: it is the least work that a sampler of single flips can do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

import bouncy
from bouncy._compile import kernel
from bouncy._random import exponential, new_state, uniform

# A call with several arrays as arguments costs as much as a flip at d = 10: the loops would be half as fast.
inlined = register_jitable(forceinline=True)


class Spins(NamedTuple):
    """A state with its local fields, and what a toll keeps."""

    s: NDArray[np.int8]  # (d,)
    h: NDArray[np.float64]  # (d,)
    rng: NDArray[np.uint64]  # (4,)
    purse: NDArray[np.float64]  # (1,)


def new_spins(target: bouncy.MRF, seed: int) -> Spins:
    """Return uniformly random spins with their fields and an empty purse."""
    start_seed, loop_seed = np.random.SeedSequence(seed).spawn(2)
    s = np.random.default_rng(start_seed).choice(np.array([-1, 1], np.int8), target.d)
    h = _on_cache_line(target.d)
    h[:] = target.r + target.M @ s
    return Spins(s, h, new_state(loop_seed), np.zeros(1))


def _on_cache_line(n: int) -> NDArray[np.float64]:
    """Return n uninitialised numbers that begin at a multiple of 64 bytes.

    NumPy places arrays by chance, which changes the time of a loop by up to a fifth; the bare loops get the best case.
    """
    buffer = np.empty(n + 8)
    skipped = -buffer.ctypes.data % 64 // buffer.itemsize
    return buffer[skipped : skipped + n]


@kernel
def metropolis_dense(M, s, h, rng, purse_kept, sweeps):
    """Try to flip every site in turn, `sweeps` times, paying from one budget. Changes s, h, rng and the purse."""
    purse = purse_kept[0]
    for _ in range(sweeps):
        for i in range(s.size):
            cost = -2.0 * s[i] * h[i]
            if cost < purse:
                purse -= max(cost, 0.0)
                _flip_dense(M, s, h, i)
            else:
                purse = exponential(rng)
    purse_kept[0] = purse


@kernel
def metropolis_sparse(indptr, indices, data, s, h, rng, purse_kept, sweeps):
    """Do the same with couplings in CSR form."""
    purse = purse_kept[0]
    for _ in range(sweeps):
        for i in range(s.size):
            purse = _attempt_sparse(indptr, indices, data, s, h, rng, purse, i)
    purse_kept[0] = purse


@kernel
def metropolis_shuffled(order, indptr, indices, data, s, h, rng, purse_kept, sweeps):
    """Do the same in another order of the sites, for what it costs not to walk through memory in a straight line."""
    purse = purse_kept[0]
    for _ in range(sweeps):
        for k in range(s.size):
            purse = _attempt_sparse(indptr, indices, data, s, h, rng, purse, order[k])
    purse_kept[0] = purse


@inlined
def _attempt_sparse(indptr, indices, data, s, h, rng, purse, i):
    """Try to flip site i and return the purse after it."""
    cost = -2.0 * s[i] * h[i]
    if cost < purse:
        change = -2.0 * s[i]
        for k in range(indptr[i], indptr[i + 1]):
            h[indices[k]] += change * data[k]
        s[i] = -s[i]
        return purse - max(cost, 0.0)
    return exponential(rng)


@kernel
def gibbs(M, s, h, rng, sums, sweeps):
    """Draw every site in turn given the others, and add s to `sums` after each sweep. Changes all but M."""
    for _ in range(sweeps):
        _heat_bath_sweep(M, s, h, rng)
        for i in range(s.size):
            sums[i] += s[i]


@kernel
def gibbs_pairs(M, s, h, rng, sums, sweeps):
    """Do the same and add s_i s_j, i < j, to `sums` of shape (d, d) after each sweep."""
    for _ in range(sweeps):
        _heat_bath_sweep(M, s, h, rng)
        for i in range(s.size):
            row = sums[i]
            spin = float(s[i])
            for j in range(i + 1, s.size):
                row[j] += spin * s[j]


@inlined
def _heat_bath_sweep(M, s, h, rng):
    for i in range(s.size):
        # A flip of cost c happens with probability 1 / (1 + e^c).
        if uniform(rng) * (1.0 + math.exp(-2.0 * s[i] * h[i])) < 1.0:
            _flip_dense(M, s, h, i)


@inlined
def _flip_dense(M, s, h, i):
    change = -2.0 * s[i]
    row = M[i]
    for j in range(s.size):
        h[j] += change * row[j]
    s[i] = -s[i]
