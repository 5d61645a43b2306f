"""Exact answers for spin glasses on strips and slabs: two or three dimensions, all but one of them small.

Sites are added one by one. What is left of those before is a function of a front of spins, the last one of each column,
which a new site updates: the partition function and all means follow from one pass forward and one back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import logsumexp

import bouncy

Array = NDArray[np.float64]


class Slab(NamedTuple):
    """A glass of spins on a slab, log p = sum J_ij s_i s_j + sum h_i s_i, with its exact log Z and means."""

    target: bouncy.MRF
    log_z: float
    mean: Array


def slab(width: int, length: int, coupling: float, seed: int, couplings: str = "signs") -> Slab:
    """Return a glass of width x width x length spins with couplings of random signs, or Gaussian ones, and fields."""
    return glass((length, width, width), coupling, seed, couplings)


def glass(shape: tuple[int, ...], coupling: float, seed: int, couplings: str = "signs") -> Slab:
    """Return a glass on a lattice with open ends; what is behind its first axis must be small."""
    rng = np.random.default_rng(seed)
    site = np.arange(math.prod(shape)).reshape(shape)
    pairs = np.concatenate(
        [np.stack([np.delete(site, -1, k).ravel(), np.delete(site, 0, k).ravel()], 1) for k in range(site.ndim)]
    )
    strength = rng.choice([-1.0, 1.0], len(pairs)) if couplings == "signs" else rng.normal(size=len(pairs))
    J, h = coupling * strength, coupling * rng.normal(0.0, 0.1, site.size)
    A = scipy.sparse.coo_array((J, pairs.T), (site.size, site.size))
    log_z, mean = solved(math.prod(shape[1:]), pairs, J, h)
    return Slab(bouncy.MRF(-(A + A.T).tocsr(), -h), log_z, mean)


def solved(front: int, pairs: NDArray[np.int64], J: Array, h: Array) -> tuple[float, Array]:
    """Return log Z and all means, where a site is coupled to no site further back than `front` others."""
    d, states = h.size, np.arange(1 << front)
    spin = [1.0 - 2.0 * ((states >> k) & 1) for k in range(front)]
    before, others = np.zeros(d), [[] for _ in range(d)]  # the site whose place it takes, and the rest
    for (first, last), strength in zip(pairs, J, strict=True):
        if last - first == front:
            before[last] = strength
        else:
            others[last].append((first % front, strength))

    def own(t: int) -> Array:
        return spin[t % front] * (h[t] + sum(strength * spin[k] for k, strength in others[t]))

    def replaced(log_weight: Array, t: int) -> Array:
        """Sum over the spin whose place site t takes; the same back and forth."""
        old = log_weight.reshape(-1, 2, 1 << (t % front))
        up, down = old[:, 0], old[:, 1]
        J = before[t]
        new = [np.logaddexp(up + J, down - J), np.logaddexp(up - J, down + J)]
        return np.stack(new, axis=1).ravel()

    forward = [np.where(states == 0, 0.0, -np.inf)]  # nothing is in its place before the first sites come
    for t in range(d):
        forward.append(replaced(forward[-1], t) + own(t))
    log_z = float(logsumexp(forward[-1]))
    mean, back = np.empty(d), np.zeros(states.size)
    for t in reversed(range(d)):
        weight = np.exp(forward[t + 1] + back - log_z)
        mean[t] = weight @ spin[t % front] / weight.sum()
        back = replaced(own(t) + back, t)
    return log_z, mean
