"""Standard errors from batches, and quantiles of what they follow."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp, stdtr, stdtrit

Array = NDArray[np.float64]


def standard_error(batches: Array, weights: Array, total: float) -> Array:
    """Return the standard error of means over a whole run, (k,), from sums over n parts of it, (n, k).

    `weights`, (n,), and `total` are those of the parts and of the whole run, in sweeps, say: a mean is a sum divided by
    its weight.
    """
    n, whole = len(batches), weights.sum()
    residuals = batches - np.multiply.outer(weights, batches.sum(axis=0) / whole)
    return np.asarray(np.sqrt(np.square(residuals).sum(axis=0) * (n / (n - 1) / whole / total)))


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
