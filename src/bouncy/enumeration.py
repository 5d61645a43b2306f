"""Exact expectations of a small target, by visiting all of its 2^d states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._validation import check_count
from bouncy.targets.contract import Target, failed, init, log_prob, on_flip, raise_failure

if TYPE_CHECKING:
    from bouncy.targets.constraints import Constraint

_MAX_SITES = 25
_MAX_SITES_STORED = 20
# The walk is compiled; NumPy sums over it, one block of 2^_BLOCK_SITES states at a time.
_BLOCK_SITES = 16
# Rounding grows along the walk: caches are recomputed this often, and at every state if |log p| exceeds the limit,
# which keeps, for instance, log p(s) = log p(-s) to the last bit when energies are of order 1e300.
_STEPS_BETWEEN_RESYNCS = 64
_LARGE_LOG_PROB = 1e3


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact expectations under p(s).

    Attributes
    ----------
    mean : (d,) array
        E[s_i].
    pair_mean : (d, d) array
        E[s_i s_j], with ones on the diagonal.
    log_z : float
        Logarithm of the sum of exp(log_prob) over all states.
    log_prob_mean, log_prob_var : float
        Mean and variance of the unnormalised log p(s).
    probabilities : (2^d,) array or None
        p(s) of state k, which has s_i = +1 where bit i of k is set (see `states`); None for d > 20.
    """

    mean: NDArray[np.float64]
    pair_mean: NDArray[np.float64]
    log_z: float
    log_prob_mean: float
    log_prob_var: float
    probabilities: NDArray[np.float64] | None


def exact(target: Target) -> Exact:
    """Return the exact expectations of any target with d <= 25 sites, by a Gray-code walk over its 2^d states.

    Of a restricted target (`fixed_sum`, `one_hot`) only the allowed states are visited, of which there may be 2^25.

    States may have probability zero (log p = -inf). Relative accuracy is about 1e-13 while |log p| < 1e3; beyond, the
    rounding of log p itself limits it.

    Examples
    --------
    >>> import bouncy
    >>> e = bouncy.exact(bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]]))
    >>> float(e.pair_mean[0, 1].round(6))
    0.761594
    """
    if not isinstance(target, Target):
        raise TypeError(f"target must be a target of spins, such as bouncy.MRF, got {type(target).__name__}")
    if target.constraint is not None:
        return _exact_allowed(target, target.constraint)
    if target.d > _MAX_SITES:
        raise ValueError(
            f"exact visits all 2^d states and is limited to d <= {_MAX_SITES} (2^25 states take seconds, and each "
            f"further site doubles that), got d = {target.d}; use bouncy.sample to estimate the same expectations"
        )
    d, low = target.d, min(target.d, _BLOCK_SITES)
    high_spins = states(d - low).astype(np.float64)
    keep = np.empty(2**d) if d <= _MAX_SITES_STORED else None
    blocks = []
    view = target.view()
    for k, high in enumerate(high_spins):
        log_p = _block_log_probs(view, low, high)
        if keep is not None:
            keep[k * 2**low : (k + 1) * 2**low] = log_p
        blocks.append(_summarise(log_p, low))
    return _combine(blocks, high_spins, keep)


def _exact_allowed(target: Target, constraint: Constraint) -> Exact:
    """Return the exact expectations of a restricted target, summed over its allowed states."""
    from bouncy._allowed import allowed_log_probs

    if constraint.log_size > _MAX_SITES * np.log(2.0) + 1e-6:
        raise ValueError(
            f"exact visits all allowed states and is limited to 2^{_MAX_SITES} of them, got "
            f"2^{constraint.log_size / np.log(2.0):.1f}; use bouncy.sample to estimate the same expectations"
        )
    d = target.d
    keep = np.full(2**d, -np.inf) if d <= _MAX_SITES_STORED else None
    blocks = []
    for rows, log_p in allowed_log_probs(target.view(), constraint, _STEPS_BETWEEN_RESYNCS, _LARGE_LOG_PROB):
        _check_log_probs(log_p, rows.__getitem__)
        if keep is not None:
            keep[(rows > 0) @ (1 << np.arange(d))] = log_p
        blocks.append(_summarise(log_p, d, rows.astype(np.float64)))
    return _combine(blocks, np.empty((len(blocks), 0)), keep)


def states(d: int) -> NDArray[np.int8]:
    """Return all spin states, shape (2^d, d), for d <= 20: row k has s_i = +1 where bit i of k is set, else -1.

    Examples
    --------
    >>> from bouncy.enumeration import states
    >>> states(2).tolist()
    [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    """
    d = check_count("d", d, minimum=0)
    if d > _MAX_SITES_STORED:
        raise ValueError(f"states(d) holds 2^d rows and is limited to d <= {_MAX_SITES_STORED}, got d = {d}")
    index = np.arange(2**d, dtype=np.int32)
    out = np.empty((2**d, d), dtype=np.int8)
    for i in range(d):
        out[:, i] = 2 * ((index >> i) & 1) - 1
    return out


@dataclass(frozen=True)
class _Block:
    """Moments over one block of states that share their high spins, under p(s) normalised in it.

    The block's share of Z is z exp(top), kept as two numbers because log z is lost beside a top of order 1e300.
    """

    top: float  # largest log p
    z: float
    mean: NDArray[np.float64]  # of the low spins
    pair_mean: NDArray[np.float64]
    log_prob_mean: float
    log_prob_var: float


def _block_log_probs(view: Any, low: int, high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p of the 2^low states with the given high spins, state k having the bits of k as low spins."""
    s = np.concatenate([np.full(low, -1), high]).astype(np.int8)
    log_p = np.empty(2**low)
    if _walk(view, s, low, _STEPS_BETWEEN_RESYNCS, log_p) > _LARGE_LOG_PROB:
        s[:low] = -1
        _walk(view, s, low, 1, log_p)
    raise_failure(view)
    _check_log_probs(log_p, lambda k: np.concatenate([states(low)[k], s[low:]]))
    return log_p


def _check_log_probs(log_p: NDArray[np.float64], state: Callable[[int], NDArray[np.int8]]) -> None:
    """Raise where log p is no logarithm of a probability; `state` returns the spins of an entry."""
    bad = np.isnan(log_p) | (log_p == np.inf)
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"log p must be finite or -inf for every state, got {log_p[k]} at s = {state(k).tolist()}; flip costs "
            "alone do not determine log p if states have probability zero: give log_prob too"
        )


def _summarise(log_p: NDArray[np.float64], low: int, rows: NDArray[np.float64] | None = None) -> _Block:
    """Return the moments of a block: of all states of `low` spins, or of the states in `rows`, (n, low)."""
    top = log_p.max()
    if top == -np.inf:
        return _Block(-np.inf, 0.0, np.zeros(low), np.zeros((low, low)), 0.0, 0.0)
    w = np.exp(log_p - top)
    z = w.sum()
    w /= z
    # states of weight zero may have log p = -inf
    away = np.where(w > 0, log_p - top, 0.0)
    away_mean = np.sum(w * away)
    mean, pair_mean = _moments(w, low) if rows is None else (w @ rows, (rows * w[:, None]).T @ rows)
    return _Block(
        top=top,
        z=z,
        mean=mean,
        pair_mean=pair_mean,
        log_prob_mean=top + away_mean,
        log_prob_var=np.sum(w * (away - away_mean) ** 2),
    )


def _moments(w: NDArray[np.float64], n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return E[s_i], (n,), and E[s_i s_j], (n, n), under the weights w of the states of n spins, (2^n,).

    Spins are summed out from the last: the weights of s_i = -1 and s_i = +1 are the two halves of what is left. Their
    difference is E[s_i; first i spins], from which each pair (i, j) follows in the same way. O(2^n) in all.
    """
    mean, pair_mean = np.empty(n), np.eye(n)
    for i in reversed(range(n)):
        minus, plus = w.reshape(2, -1)
        w, signed = minus + plus, plus - minus
        mean[i] = signed.sum()
        for j in reversed(range(i)):
            minus, plus = signed.reshape(2, -1)
            pair_mean[i, j] = pair_mean[j, i] = (plus - minus).sum()
            signed = minus + plus
    return mean, pair_mean


def _combine(blocks: list[_Block], high_spins: NDArray[np.float64], log_p: NDArray[np.float64] | None) -> Exact:
    """Merge the blocks, block k having the high spins `high_spins[k]`: laws of total expectation and variance."""
    tops = np.array([block.top for block in blocks])
    top = tops.max()
    if top == -np.inf:
        raise ValueError("log p is -inf for every state, so there is no distribution")
    w = np.exp(tops - top) * np.array([block.z for block in blocks])
    z = w.sum()
    w /= z

    low_mean = np.array([block.mean for block in blocks])
    low_pair_mean = np.einsum("k,kij->ij", w, np.array([block.pair_mean for block in blocks]))
    weighted = high_spins * w[:, None]
    cross = low_mean.T @ weighted
    high_pair_mean = np.einsum("ki,kj->ij", high_spins, weighted)
    pair_mean = np.block([[low_pair_mean, cross], [cross.T, high_pair_mean]])
    np.fill_diagonal(pair_mean, 1.0)  # exactly, whatever the rounding of the weights

    # relative to the block of largest weight: energies may be much larger than their differences
    reference = blocks[int(np.argmax(w))].log_prob_mean
    away = np.array([block.log_prob_mean - reference if p > 0 else 0.0 for block, p in zip(blocks, w, strict=True)])
    away_mean = np.sum(w * away)
    within = np.array([block.log_prob_var for block in blocks])
    return Exact(
        mean=np.concatenate([w @ low_mean, weighted.sum(axis=0)]),
        pair_mean=pair_mean,
        log_z=float(top + np.log(z)),
        log_prob_mean=float(reference + away_mean),
        log_prob_var=float(np.sum(w * (within + (away - away_mean) ** 2))),
        probabilities=None if log_p is None else np.exp(log_p - top) / z,
    )


@kernel
def _walk(view, s, low, steps_between_inits, log_p):
    """Write log p of the states of the first `low` spins into `log_p`, (2^low,), and return the largest finite |log p|.

    The low spins of `s` start at -1 and are changed in place, one flip a state in the order of the binary reflected
    Gray code. O(d) a state, besides one `init` every `steps_between_inits`.
    """
    largest = 0.0
    gray = 0
    for step in range(log_p.size):
        if step > 0:
            i = 0
            while (step >> i) & 1 == 0:
                i += 1
            s[i] = -s[i]
            on_flip(view, s, i)
            gray ^= 1 << i
        if step % steps_between_inits == 0:
            init(view, s)
        value = log_prob(view, s)
        log_p[gray] = value
        if np.isfinite(value):
            largest = max(largest, abs(value))
        if failed(view):
            break
    return largest
