"""Means and standard errors from equal-time batches over all chains."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp, stdtr, stdtrit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over the whole path and its standard error.

    Attributes
    ----------
    mean, standard_error : ndarray
        Same shape. The standard error is NaN where there are fewer than two batches.
    degrees_of_freedom : int
        Of the Student distribution that (mean - truth) / standard_error follows when batches are long enough.
    """

    mean: Array
    standard_error: Array
    degrees_of_freedom: int


def estimate(closed: Array, rest: Array, batch: float, total: float) -> Estimate:
    """Return the mean and standard error of a quantity from its sums over batches.

    Parameters
    ----------
    closed : ndarray, shape (chains, batches, k)
        Sums over full batches.
    rest : ndarray, shape (chains, k)
        Sums over what follows the last full batch of each chain.
    batch, total : float
        What a full batch and the whole run of all chains were summed over: sweeps, or time.
    """
    mean = (closed.sum(axis=(0, 1)) + rest.sum(axis=0)) / total
    n = closed.shape[0] * closed.shape[1]
    if n < 2:
        return Estimate(mean, np.full_like(mean, np.nan), 0)
    spread = (closed / batch).reshape(n, -1).std(axis=0, ddof=1)
    return Estimate(mean, spread * np.sqrt(batch / total), n - 1)


def normal_score(t: Array | float, degrees_of_freedom: int) -> Array:
    """Return the standard normal quantile with the same tail probability as a Student quantile."""
    t = np.asarray(t, dtype=np.float64)
    tail = stdtr(max(degrees_of_freedom, 1), -np.abs(t))
    with np.errstate(divide="ignore"):
        return np.copysign(ndtri_exp(np.log(tail)), t)


def student_quantile(level: float, degrees_of_freedom: int) -> float:
    """Return how many standard errors a two-sided confidence interval of a level reaches to each side."""
    if not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise ValueError(f"level is {level!r}; expected a number between 0 and 1, such as 0.95")
    return float(stdtrit(max(degrees_of_freedom, 1), 0.5 + level / 2))
