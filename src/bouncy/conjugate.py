"""Gibbs updates of the hyperparameters of a regression, for `bouncy.Within`.

Each function here takes the parameters of a prior and returns an update: a function of the coefficients x, (p,), of
the current hyperparameters (a mapping) and of a numpy generator, which draws a new value from the law of the
hyperparameter given all else. Scales are standard deviations; their priors are those of the variances. Inverse gamma
means the density proportional to z^(-shape - 1) exp(-rate/z) of a variance z, gamma the density proportional to
z^(shape - 1) exp(-rate z). An update returns one value for all variables.

An update is exact if the rest of the joint density is that of `SpikeSlab` or `BayesianLasso` and no other prior depends
on the same hyperparameter. In particular, slabs and penalties are in units of y there and not of the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_flag, check_nonnegative, check_positive
from bouncy.targets._regression import read_data

Array = NDArray[np.float64]
Update = Callable[[Array, Mapping[str, Any], np.random.Generator], float]


def noise_scale(X: Any, y: ArrayLike, *, shape: float = 0.0, rate: float = 0.0, intercept: bool = True) -> Update:
    """Return the update of noise_scale, whose square has an inverse gamma prior.

    With m = n - 1 and X and y centred (without an intercept m = n, X and y as they are),

        noise_scale^2 | x ~ inverse gamma(shape + m/2, rate + |y - X x|^2/2),

    for spike and slab as for the lasso.

    Parameters
    ----------
    X, y : as of the target
    shape, rate : float
        Of the prior; zeros, the default, are p(noise_scale^2) = 1/noise_scale^2. A rate of zero is refused where there
        are as many variables as observations: they could fit without noise, and the posterior would be improper.
    intercept : bool
        As of the target.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> update = bouncy.conjugate.noise_scale([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], shape=2.0, rate=0.5)
    >>> update(np.array([0.7]), {}, np.random.default_rng(0)) > 0.0
    True
    """
    _, design, response, _ = read_data(X, y)
    n, p = design.shape
    shape, rate = check_nonnegative("shape", shape), check_nonnegative("rate", rate)
    if check_flag("intercept", intercept):
        design -= design.mean(axis=0)
        response -= response.mean()
    observations = n - intercept
    if rate == 0.0 and p >= observations:
        raise ValueError(
            f"rate must be > 0 where {p} variables can fit {observations} observations (an intercept takes one) "
            "without noise, or the posterior cannot be normalised; got rate = 0. With a guess s of the noise, try "
            "shape=1 and rate=s**2"
        )

    def update(x: Array, parameters: Mapping[str, Any], generator: np.random.Generator) -> float:
        residual = response - design @ x
        return _root_of_inverse_gamma(shape + 0.5 * observations, rate + 0.5 * float(residual @ residual), generator)

    return update


def slab_scale(*, shape: float, rate: float) -> Update:
    """Return the update of the slab_scale of `SpikeSlab`, one for all variables, whose square is inverse gamma.

    With k coefficients different from zero,

        slab_scale^2 | x ~ inverse gamma(shape + k/2, rate + |x|^2/2),

    for coefficients of either sign as for positive ones. As k may be zero, the prior must be proper.

    Parameters
    ----------
    shape, rate : float > 0
        Of the prior, which has the mean rate/(shape - 1) for shape > 1; shape=2 and rate=s**2 is vague, around s.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> update = bouncy.conjugate.slab_scale(shape=2.0, rate=1.0)
    >>> update(np.array([0.7, 0.0, -1.2]), {}, np.random.default_rng(0)) > 0.0
    True
    """
    shape, rate = check_positive("shape", shape), check_positive("rate", rate)

    def update(x: Array, parameters: Mapping[str, Any], generator: np.random.Generator) -> float:
        return _root_of_inverse_gamma(shape + 0.5 * np.count_nonzero(x), rate + 0.5 * float(x @ x), generator)

    return update


def inclusion(*, a: float = 1.0, b: float = 1.0) -> Update:
    """Return the update of the inclusion probability of `SpikeSlab`, one for all variables, with a beta prior.

    With k of p coefficients different from zero,

        inclusion | x ~ beta(a + k, b + p - k).

    Parameters
    ----------
    a, b : float > 0
        Of the prior, which has the mean a/(a + b).

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> update = bouncy.conjugate.inclusion(a=1.0, b=4.0)
    >>> 0.0 < update(np.array([0.7, 0.0, -1.2]), {}, np.random.default_rng(0)) < 1.0
    True
    """
    a, b = check_positive("a", a), check_positive("b", b)

    def update(x: Array, parameters: Mapping[str, Any], generator: np.random.Generator) -> float:
        k = np.count_nonzero(x)
        drawn = generator.beta(a + k, b + x.size - k)
        # A beta law with a small parameter may round to its ends, where there is no spike or no slab.
        return float(min(max(drawn, np.finfo(np.float64).tiny), 1.0 - np.finfo(np.float64).epsneg))

    return update


def penalty(*, shape: float, rate: float) -> Update:
    """Return the update of the penalty of `BayesianLasso`, one for all variables, with a gamma prior.

    With p coefficients,

        penalty | x ~ gamma(shape + p, rate + sum_j |x_j|).

    Parameters
    ----------
    shape, rate : float > 0
        Of the prior, which has the mean shape/rate.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> update = bouncy.conjugate.penalty(shape=1.0, rate=0.1)
    >>> update(np.array([0.7, 0.1, -1.2]), {}, np.random.default_rng(0)) > 0.0
    True
    """
    shape, rate = check_positive("shape", shape), check_positive("rate", rate)

    def update(x: Array, parameters: Mapping[str, Any], generator: np.random.Generator) -> float:
        return float(generator.gamma(shape + x.size) / (rate + np.abs(x).sum()))

    return update


def _root_of_inverse_gamma(shape: float, rate: float, generator: np.random.Generator) -> float:
    return float(np.sqrt(rate / generator.gamma(shape)))
