"""Exact answers for models too large to enumerate: ring and tree.

Every function uses the sign convention of `MRF.ising`: p(s) ~ exp(sum coupling s_i s_j + sum field s_i), so a positive
coupling is ferromagnetic and `MRF(M, r)` has M = -coupling and r = -field. Sums are carried in log space or rescaled at
each step, so that neither a large model nor a strong coupling overflows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RingMoments:
    """Exact answers on a ring of d sites.

    Attributes
    ----------
    mean : E[s_i], shape (d,).
    neighbour_mean : E[s_i s_{i+1}] with indices modulo d, shape (d,).
    pair_mean : E[s_i s_j], ones on the diagonal, shape (d, d).
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: Array
    neighbour_mean: Array
    pair_mean: Array
    log_z: float


@dataclass(frozen=True)
class TreeMoments:
    """Exact answers on a tree of d sites.

    Attributes
    ----------
    mean : E[s_i], shape (d,).
    edge_mean : E[s_i s_parent(i)] for i = 1 ... d-1, shape (d-1,).
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: Array
    edge_mean: Array
    log_z: float


# --- ring -------------------------------------------------------------------------------------------------------------


def ring(couplings: ArrayLike, fields: ArrayLike) -> RingMoments:
    """Return the exact moments of p(s) ~ exp(sum_i J_i s_i s_{i+1} + sum_i f_i s_i) on a ring.

    Transfer matrices T_i[a, b] = exp(J_i a b + f_i a), multiplied in log space: with B_k[i] = T_i ... T_{i+k-1},
    P(s_i = a, s_{i+k} = b) is proportional to B_k[i][a, b] B_{d-k}[i+k][b, a]. Time and memory are O(d^2).

    Parameters
    ----------
    couplings : J_i between sites i and i+1 modulo d, shape (d,) with d >= 3, or a number.
    fields : f_i, shape (d,), or a number; at least one of them has shape (d,).
    """
    J, f = np.broadcast_arrays(np.asarray(couplings, float), np.asarray(fields, float))
    d = J.size
    blocks, log_scale = _ring_blocks(J, f)
    once_round = np.stack([blocks[d, :, 0, 0], blocks[d, :, 1, 1]])
    pair_mean = np.eye(d)
    site = np.arange(d)
    for lag in range(1, d):
        other = (site + lag) % d
        joint = blocks[lag] + blocks[d - lag, other].transpose(0, 2, 1)
        pair_mean[site, other] = _pair_mean_of(joint)
    pair_mean = (pair_mean + pair_mean.T) / 2
    return RingMoments(
        mean=np.tanh((once_round[0] - once_round[1]) / 2),
        neighbour_mean=pair_mean[site, (site + 1) % d],
        pair_mean=pair_mean,
        log_z=float(np.logaddexp(once_round[0, 0], once_round[1, 0]) + log_scale[0]),
    )


def _ring_blocks(J: Array, f: Array) -> tuple[Array, Array]:
    """Return log B_k[i] less a constant, shape (d+1, d, 2, 2), and the constant left out of B_d[i], shape (d,)."""
    d = J.size
    spin = np.array([1.0, -1.0])
    step = J[:, None, None] * np.outer(spin, spin) + f[:, None, None] * spin[:, None]
    blocks = np.empty((d + 1, d, 2, 2))
    blocks[0] = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    log_scale = np.zeros(d)
    for k in range(d):
        following = step[(np.arange(d) + k) % d]
        product = np.logaddexp(
            blocks[k, :, :, :1] + following[:, :1, :],
            blocks[k, :, :, 1:] + following[:, 1:, :],
        )
        largest = product.max(axis=(1, 2))
        blocks[k + 1] = product - largest[:, None, None]
        log_scale += largest
    return blocks, log_scale


def _pair_mean_of(log_joint: Array) -> Array:
    """Return E[ab] for tables log P(a, b) of shape (n, 2, 2), unnormalised."""
    equal = np.logaddexp(log_joint[:, 0, 0], log_joint[:, 1, 1])
    different = np.logaddexp(log_joint[:, 0, 1], log_joint[:, 1, 0])
    return np.tanh((equal - different) / 2)


# --- tree -------------------------------------------------------------------------------------------------------------


def random_tree(d: int, seed: int | np.random.SeedSequence | np.random.Generator) -> NDArray[np.int64]:
    """Return the parents of a random recursive tree: parent[i] uniform on 0 ... i-1, parent[0] = -1, shape (d,)."""
    parent = np.full(d, -1, dtype=np.int64)
    parent[1:] = np.random.default_rng(seed).integers(0, np.arange(1, d))
    return parent


def tree(parent: ArrayLike, couplings: ArrayLike, fields: ArrayLike) -> TreeMoments:
    """Return the exact moments of p(s) ~ exp(sum_i J_i s_i s_parent(i) + sum_i f_i s_i) on a tree.

    Belief propagation, leaves to root and back. With u the field on a site from below, summing it out gives its parent
    the field m = atanh(tanh J tanh u). Time and memory are O(d).

    Parameters
    ----------
    parent : shape (d,), parent[0] = -1 and 0 <= parent[i] < i.
    couplings : shape (d-1,), entry i-1 for the edge between i and parent[i], or a number.
    fields : f_i, shape (d,), or a number.
    """
    above = np.asarray(parent).tolist()
    d = len(above)
    J = [0.0, *np.broadcast_to(couplings, d - 1).tolist()]
    below = np.broadcast_to(fields, d).tolist()
    message = [0.0] * d
    log_z = 0.0
    for i in range(d - 1, 0, -1):
        plus, minus = _log_2cosh(J[i] + below[i]), _log_2cosh(J[i] - below[i])
        message[i] = (plus - minus) / 2
        below[above[i]] += message[i]
        log_z += (plus + minus) / 2
    total = list(below)
    edge_mean = np.empty(d - 1)
    for i in range(1, d):
        rest = total[above[i]] - message[i]
        total[i] += _passed_on(J[i], rest)
        edge_mean[i - 1] = math.tanh(J[i] + _passed_on(below[i], rest))
    return TreeMoments(mean=np.tanh(total), edge_mean=edge_mean, log_z=log_z + _log_2cosh(below[0]))


def _log_2cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x)))


def _passed_on(J: float, u: float) -> float:
    """Return atanh(tanh J tanh u) without overflow."""
    return (_log_2cosh(J + u) - _log_2cosh(J - u)) / 2


def planar_log_z(side: int, J: ArrayLike) -> float:
    """Return log Z of a square of side x side spins without fields, open at its sides, after Kac and Ward.

    `J` holds the couplings of all horizontal pairs, row by row, then of all vertical ones. Z^2 is (2^d prod cosh J)^2
    det(1 - W), with W over directed edges: tanh J times e^(i a/2), a the angle of the turn from one edge to the next.
    """
    J = np.asarray(J, dtype=float)
    site = np.arange(side * side).reshape(side, side)
    horizontal = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], 1)
    vertical = np.stack([site[:-1].ravel(), site[1:].ravel()], 1)
    n = len(horizontal)
    strength = np.tanh(np.concatenate([J[:n], J[:n], J[n:], J[n:]]))
    tail = np.concatenate([horizontal[:, 0], horizontal[:, 1], vertical[:, 0], vertical[:, 1]])
    head = np.concatenate([horizontal[:, 1], horizontal[:, 0], vertical[:, 1], vertical[:, 0]])
    quarter = np.repeat([0, 2, 1, 3], n)  # quarter turns from the direction of the first
    leaving: dict[int, list[int]] = {}
    for edge, place in enumerate(tail.tolist()):
        leaving.setdefault(place, []).append(edge)
    rows, columns, entries = [], [], []
    for edge, place in enumerate(head.tolist()):
        for following in leaving[place]:
            turn = (quarter[following] - quarter[edge] + 1) % 4 - 1
            if turn != 2:  # not back
                rows.append(edge)
                columns.append(following)
                entries.append(strength[following] * np.exp(0.25j * np.pi * turn))
    size = tail.size
    W = scipy.sparse.csc_array((entries, (rows, columns)), (size, size))
    factors = scipy.sparse.linalg.splu((scipy.sparse.eye_array(size, format="csc") - W).tocsc())
    log_det = np.log(np.abs(factors.U.diagonal())).sum() + np.log(np.abs(factors.L.diagonal())).sum()
    return float(side**2 * np.log(2.0) + np.log(np.cosh(J)).sum() + 0.5 * log_det)
