"""Coefficients of a linear regression of which any may be exactly zero."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import match
from bouncy._memory import read_only
from bouncy._validation import check_flag
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets._regression import Regression, draw_normal, read_positive
from bouncy.targets._regression import read_data, read_probabilities

Array = NDArray[np.float64]

# Length of the interval that stands for zero, in units of the standard deviation of a coefficient given the others. No
# sampler depends on it.
_WIDTH = 2.0


class SpikeSlab(Regression):
    """Posterior of the coefficients of a linear regression under a spike-and-slab prior.

    The model is y = alpha + X beta + noise with noise N(0, noise_scale^2 I), a flat prior of the intercept alpha, which
    is integrated out, and independent

        beta_j = 0 with probability 1 - inclusion_j,    else beta_j ~ N(0, slab_scale_j^2),

    or |N(0, slab_scale_j^2)| if `positive`. The values x that are sampled are the coefficients beta themselves, with
    zeros that are exact; `run.inclusion` is the probability of being different from zero.

    Parameters
    ----------
    X : (n, p) array-like or data frame
        Variables in columns. The columns of a data frame (anything with `columns` and `to_numpy`) give the labels.
        Booleans count as 0 and 1.
    y : (n,) array-like or series
        Response. A series is matched to the rows of a data frame X by its labels. So are series of numbers for each
        variable to its columns.
    inclusion : float or (p,) array-like
        Prior probability that a coefficient is not zero, strictly between 0 and 1.
    slab_scale : float or (p,) array-like
        Standard deviation of a coefficient that is not zero, in units of y over those of its column (if `positive`,
        the standard deviation before the sign is dropped).
    noise_scale : float
        Standard deviation of the noise, in units of y.
    positive : bool
        Whether coefficients are zero or positive, instead of zero or of either sign.
    intercept : bool
        Whether there is an intercept. Without one, X and y are taken as they are.
    labels : sequence, optional
        Names of the variables, in the order of the columns, if X is not a data frame or should have others.

    Attributes
    ----------
    d, n : int
        Numbers of variables and of observations.
    inclusion, slab_scale : (p,) array
    noise_scale : float
    positive, intercept : bool

    Notes
    -----
    Each coefficient is a function of a coordinate y: zero on an interval around y = 0, and the distance from it with a
    sign beside it (if `positive`, zero below y = 0 down to a wall, and y above). The particle of "bps" does not cross
    the interval. A coefficient with the velocity v_i that comes to zero stays there for an exponential time of mean
    m / |v_i|, where m = (1 - inclusion) / (inclusion times the density of the slab at zero), and goes on in its
    direction; if `positive`, it turns after such a time and leaves after another. While it is zero it takes part in no
    reflection and costs next to nothing.

    Where coefficients are of no interest and the slab is normal, `VariableSelection` integrates them out, which mixes
    better; here they, and their products, come with their own error bars, and signs may be restricted.

    References
    ----------
    Bierkens, Grazzi, van der Meulen & Schauer, "Sticky PDMP samplers for sparse and local inference problems",
    arXiv:2103.08478 (2023). Pakman, "Binary Bouncy Particle Sampler", arXiv:1711.00922 (2017). George & McCulloch
    (1993), J. Amer. Statist. Assoc. 88, 881.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((50, 4))
    >>> y = X[:, 0] - X[:, 2] + generator.standard_normal(50)
    >>> target = bouncy.SpikeSlab(X, y, inclusion=0.5, slab_scale=1.0, noise_scale=1.0, labels=["a", "b", "c", "d"])
    >>> target
    SpikeSlab(p=4, n=50, noise_scale=1)
    >>> float(target.log_prob([1.0, 0.0, -1.0, 0.0]) - target.log_prob([1.0, 0.1, -1.0, 0.0])) > 0
    True
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        inclusion: ArrayLike,
        slab_scale: ArrayLike,
        noise_scale: float,
        positive: bool = False,
        intercept: bool = True,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        data = read_data(X, y, inclusion=inclusion, slab_scale=slab_scale)
        inclusion, slab_scale = data.per_variable
        super().__init__(data, noise_scale, intercept, labels)
        self.positive = check_flag("positive", positive)
        self.inclusion = _read_inclusion(inclusion, self.d)
        self.slab_scale = read_positive("slab_scale", slab_scale, self.d)

    @property
    def _width(self) -> Array:
        """Length of the interval that stands for zero, (p,), which stays as it is with other hyperparameters."""
        return _WIDTH * self.scale

    @property
    def _slab_density(self) -> Array:
        """Prior density at zero of a coefficient that is not zero, (p,)."""
        signs = 2.0 if self.positive else 1.0
        density: Array = signs / (np.sqrt(2.0 * np.pi) * self.slab_scale)
        return density

    @cached_property
    def scale(self) -> Array:
        """Standard deviation of each coefficient in the slab given all others, (p,)."""
        return read_only(1.0 / np.sqrt(self._precision().diagonal()))

    def _precision(self) -> Array:
        """Return A = X'X/noise_scale^2 + diag(1/slab_scale^2), (p, p)."""
        A: Array = self._gram / self.noise_scale**2
        A[np.diag_indices(self.d)] += self.slab_scale**-2.0
        return A

    @cached_property
    def potential(self) -> Potential:
        """U(y): the likelihood and the slab are in the quadratic form, the rest of the prior in the constants."""
        spike = np.log(self._width) - np.log1p(-self.inclusion)
        slab = -np.log(self.inclusion) - np.log(self._slab_density)
        constant = np.stack([spike, slab] if self.positive else [slab, spike, slab], axis=1)
        cells = replace(self.geometry, constant=constant.ravel())
        return Potential(self._precision(), self._moment / self.noise_scale**2, cells)

    @cached_property
    def geometry(self) -> Cells:
        """The cells, without the parameters that depend on hyperparameters."""
        zero, end = np.zeros(self.d), np.full(self.d, np.inf)
        if self.positive:
            return Cells.alike(self.d, np.stack([-self._width, zero, end], axis=1), slope=[0.0, 1.0])
        half = 0.5 * self._width
        return Cells.alike(
            self.d,
            np.stack([-end, -half, half, end], axis=1),
            slope=[1.0, 0.0, 1.0],
            shift=np.stack([half, zero, -half], axis=1),
        )

    def given(
        self,
        *,
        inclusion: ArrayLike | None = None,
        slab_scale: ArrayLike | None = None,
        noise_scale: float | None = None,
    ) -> Self:
        """Return the posterior of the same data with other hyperparameters; those that are not named keep their values.

        The data are not read again, and the intervals that stand for zero keep their length, so that a particle may
        continue from its position (`bouncy.Within`).

        Examples
        --------
        >>> import bouncy
        >>> X, y = [[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0]
        >>> target = bouncy.SpikeSlab(X, y, inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
        >>> target.given(noise_scale=2.0)
        SpikeSlab(p=1, n=3, noise_scale=2)
        """
        changes: dict[str, Any] = {}
        if inclusion is not None:
            changes["inclusion"] = _read_inclusion(match("inclusion", inclusion, self), self.d)
        if slab_scale is not None:
            changes["slab_scale"] = self._read_positive("slab_scale", slab_scale)
        if noise_scale is not None:
            changes["noise_scale"] = self._read_noise(noise_scale)
        return self._changed(**changes)

    def start(self, generator: np.random.Generator) -> Array:
        """Return coordinates of coefficients drawn from their law given that none is zero, (d,).

        A coefficient that should be zero soon meets zero and stays there, while one that should not be takes long to
        leave it where the slab is wide. Positive coefficients are drawn without regard to their sign and are zero where
        they come out negative.
        """
        beta = draw_normal(self._precision(), self.potential.linear, generator)
        if self.positive:
            return np.where(beta > 0.0, beta, -self._width * generator.random(self.d))
        return beta + np.copysign(0.5 * self._width, beta)

    def __repr__(self) -> str:
        kind = ", positive" if self.positive else ""
        return f"SpikeSlab(p={self.d}, n={self.n}, noise_scale={self.noise_scale:g}{kind})"


def _read_inclusion(inclusion: ArrayLike, p: int) -> Array:
    return read_probabilities(inclusion, p, "one that always is can have a probability close to 1")


def _example(**options: Any) -> SpikeSlab:
    """Return a model of three variables, two of them correlated."""
    t = np.arange(16.0)
    X = np.column_stack([np.sin(t), np.sin(t) + 0.4 * np.cos(3 * t), np.cos(2 * t)])
    y = 0.4 * X[:, 0] + 0.3 * X[:, 2] + 0.5 * np.sin(t * t)
    return SpikeSlab(X, y, slab_scale=[0.5, 0.7, 1.0], noise_scale=0.6, **options)


EXAMPLES = {
    "spike-slab": lambda: _example(inclusion=[0.3, 0.5, 0.6]),
    "spike-slab-positive": lambda: _example(inclusion=0.4, positive=True),
}
