"""Coefficients of a linear regression under a Laplace prior."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._memory import read_only
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets._regression import Regression, draw_normal, read_positive
from bouncy.targets._regression import read_data

Array = NDArray[np.float64]


class BayesianLasso(Regression):
    """Posterior of the coefficients of a linear regression under a Laplace prior.

    The model is y = alpha + X beta + noise with noise N(0, noise_scale^2 I), a flat prior of the intercept alpha, which
    is integrated out, and independent

        p(beta_j) = (penalty_j / 2) exp(-penalty_j |beta_j|).

    The penalty is thus in units of one over the coefficient, for any noise. The lasso with the objective
    |y - X beta|^2/2 + c |beta|_1 finds the mode of this posterior for penalty = c/noise_scale^2. Park & Casella write
    lambda |beta_j|/noise_scale: their posterior given both is that of penalty = lambda/noise_scale.

    Parameters
    ----------
    X : (n, p) array-like or data frame
        Variables in columns. The columns of a data frame (anything with `columns` and `to_numpy`) give the labels.
        Booleans count as 0 and 1.
    y : (n,) array-like or series
        Response. A series is matched to the rows of a data frame X by its labels. So are series of numbers for each
        variable to its columns.
    penalty : float or (p,) array-like
        Rate of the Laplace prior; a coefficient has the prior standard deviation sqrt(2)/penalty.
    noise_scale : float
        Standard deviation of the noise, in units of y.
    intercept : bool
        Whether there is an intercept. Without one, X and y are taken as they are.
    labels : sequence, optional
        Names of the variables, in the order of the columns, if X is not a data frame or should have others.

    Attributes
    ----------
    d, n : int
        Numbers of variables and of observations.
    penalty : (p,) array
    noise_scale : float
    intercept : bool

    Notes
    -----
    The potential has a kink at zero and no jump. No coefficient is ever exactly zero: see `SpikeSlab` for that.

    With an unknown noise_scale, the prior of Park & Casella makes the posterior unimodal, which ours does not promise;
    ours has conjugate updates without further variables (`bouncy.conjugate`).

    References
    ----------
    Park & Casella (2008), J. Amer. Statist. Assoc. 103, 681. Hans (2009), Biometrika 96, 835.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((50, 4))
    >>> y = X[:, 0] - X[:, 2] + generator.standard_normal(50)
    >>> bouncy.BayesianLasso(X, y, penalty=2.0, noise_scale=1.0, labels=["a", "b", "c", "d"])
    BayesianLasso(p=4, n=50, noise_scale=1)
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        penalty: ArrayLike,
        noise_scale: float,
        intercept: bool = True,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        data = read_data(X, y, penalty=penalty)
        super().__init__(data, noise_scale, intercept, labels)
        self.penalty = read_positive("penalty", data.per_variable[0], self.d)

    @cached_property
    def potential(self) -> Potential:
        """U(y), with the logarithm of the prior in the tilts and the constants."""
        tilt = np.stack([-self.penalty, self.penalty], axis=1).ravel()
        cells = replace(self.geometry, constant=np.repeat(-np.log(0.5 * self.penalty), 2), tilt=tilt)
        return Potential(self._gram / self.noise_scale**2, self._moment / self.noise_scale**2, cells)

    @cached_property
    def geometry(self) -> Cells:
        """The cells, without the parameters that depend on hyperparameters."""
        return Cells.alike(self.d, [-np.inf, 0.0, np.inf])

    @cached_property
    def scale(self) -> Array:
        """Standard deviation of each coefficient given the others under a normal prior of the same variance, (p,)."""
        return read_only(1.0 / np.sqrt(self._gram.diagonal() / self.noise_scale**2 + 0.5 * self.penalty**2))

    def given(self, *, penalty: ArrayLike | None = None, noise_scale: float | None = None) -> Self:
        """Return the posterior of the same data with other hyperparameters; those that are not named keep their values.

        The data are not read again, and a particle may continue from its position (`bouncy.Within`).

        Examples
        --------
        >>> import bouncy
        >>> target = bouncy.BayesianLasso([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], penalty=1.0, noise_scale=1.0)
        >>> target.given(penalty=3.0).penalty
        array([3.])
        """
        changes: dict[str, Any] = {}
        if penalty is not None:
            changes["penalty"] = self._read_positive("penalty", penalty)
        if noise_scale is not None:
            changes["noise_scale"] = self._read_noise(noise_scale)
        return self._changed(**changes)

    def start(self, generator: np.random.Generator) -> Array:
        """Return coefficients drawn from the posterior under a normal prior of the same variance, (d,)."""
        precision = self._gram / self.noise_scale**2 + np.diag(0.5 * self.penalty**2)
        return draw_normal(precision, self.potential.linear, generator)

    def __repr__(self) -> str:
        return f"BayesianLasso(p={self.d}, n={self.n}, noise_scale={self.noise_scale:g})"


def _example() -> BayesianLasso:
    """Return a model of three variables, two of them correlated."""
    t = np.arange(16.0)
    X = np.column_stack([np.sin(t), np.sin(t) + 0.4 * np.cos(3 * t), np.cos(2 * t)])
    y = 0.4 * X[:, 0] + 0.3 * X[:, 2] + 0.5 * np.sin(t * t)
    return BayesianLasso(X, y, penalty=[1.0, 2.0, 3.0], noise_scale=0.6)


EXAMPLES = {"lasso": _example}
