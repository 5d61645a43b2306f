"""Standard errors from batches of equal length, and quantiles of what they follow."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp, stdtr, stdtrit

Array = NDArray[np.float64]


def standard_error(batches: Array, batch: float, total: float) -> Array:
    """Return the standard error of means over a whole run, (k,), from sums over n equal parts of it, (n, k).

    `batch` and `total` are the weights of such a part and of the whole run: sweeps, or time.
    """
    return np.asarray((batches / batch).std(axis=0, ddof=1) * np.sqrt(batch / total))


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
