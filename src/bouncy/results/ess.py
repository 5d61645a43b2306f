"""Effective sample size and R-hat of draws, for many variables at once.

Both follow Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021): chains are split in halves, autocovariances are
averaged over chains and summed by Geyer's initial monotone sequence. On a variable with two values rank normalisation
changes nothing, so spins go without it; log_prob is rank normalised first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from bouncy._compile import kernel

Array = NDArray[np.float64]

# Variables that are transformed together: bounds the memory.
_CHUNK = 256


def is_constant(x: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which variables of (chain, draw, k) never change, (k,)."""
    return np.asarray((x == x[:1, :1]).all(axis=(0, 1)))


def effective_sample_size(x: NDArray[np.generic]) -> Array:
    """Return the effective sample size of the mean of each variable.

    Parameters
    ----------
    x : ndarray, shape (chain, draw, k)
        At least four draws. Constant variables give NaN: there is nothing to estimate it from.

    Returns
    -------
    ndarray, shape (k,)
    """
    ess = np.empty(x.shape[2])
    for begin in range(0, x.shape[2], _CHUNK):
        chunk = _split(x[:, :, begin : begin + _CHUNK])
        ess[begin : begin + _CHUNK] = _ess_of_chunk(chunk)
    return ess


def r_hat(x: NDArray[np.generic]) -> Array:
    """Return split R-hat of each variable of (chain, draw, k).

    Infinity where the chains are stuck at values of their own, NaN where all have the same value.
    """
    rhat = np.empty(x.shape[2])
    for begin in range(0, x.shape[2], _CHUNK):
        chunk = _split(x[:, :, begin : begin + _CHUNK])
        n = chunk.shape[1]
        within = chunk.var(axis=1, ddof=1).mean(axis=0)
        between = chunk.mean(axis=1).var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.sqrt((n - 1) / n + between / within)
        # Rounding gives the mean of equal numbers a little variance, and would turn infinity into 1e16.
        still = (chunk == chunk[:, :1]).all(axis=(0, 1))
        alike = (chunk[:, 0] == chunk[0, 0]).all(axis=0)
        rhat[begin : begin + _CHUNK] = np.where(still, np.where(alike, np.nan, np.inf), values)
    return rhat


def rank_normalise(x: NDArray[np.generic]) -> Array:
    """Replace the values of (chain, draw) by normal scores of their ranks; ties share the mean rank."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - 0.5 * (counts - 1)
    score: Array = ndtri((rank - 0.375) / (x.size + 0.25))
    return score[inverse].reshape(x.shape)


def _split(x: NDArray[np.generic]) -> Array:
    """Cut each chain of (chain, draw, k) into two halves; an odd draw in the middle is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]]).astype(np.float64)


def _ess_of_chunk(x: Array) -> Array:
    m, n, k = x.shape
    means = x.mean(axis=1)
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(x - means[:, None], size, axis=1)
    covariance = irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n
    average = np.ascontiguousarray(covariance.mean(axis=0).T)
    within = average[:, 0] * n / (n - 1)
    total = average[:, 0] + (means.var(axis=0, ddof=1) if m > 1 else 0.0)
    ess = np.full(k, np.nan)
    varies = np.flatnonzero(total > 1e-14)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1.0 - (within[:, None] - average) / total[:, None]
    for j in varies:
        ess[j] = m * n / max(_geyer(correlation[j]), 1.0 / np.log10(m * n))
    return ess


@kernel
def _geyer(rho):
    """Return the integrated autocorrelation time, from Geyer's initial monotone sequence. Overwrites `rho`."""
    n = rho.size
    rho[0] = 1.0
    even, odd = 1.0, rho[1]
    t = 1
    while t < n - 3 and even + odd > 0.0:
        even, odd = rho[t + 1], rho[t + 2]
        if even + odd < 0.0:
            rho[t + 1] = 0.0
            rho[t + 2] = 0.0
        t += 2
    last = t - 2
    extra = even if even > 0.0 or even + odd >= 0.0 else 0.0
    t = 1
    while t <= last - 2:
        if rho[t + 1] + rho[t + 2] > rho[t - 1] + rho[t]:
            rho[t + 1] = 0.5 * (rho[t - 1] + rho[t])
            rho[t + 2] = rho[t + 1]
        t += 2
    total = 0.0
    for k in range(last + 1):
        total += rho[k]
    return -1.0 + 2.0 * total + extra
