"""Which variables belong in a linear regression: the posterior over inclusion indicators."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from bouncy._labels import read_labels
from bouncy._memory import aligned_copy, read_only
from bouncy._validation import check_count, check_flag, check_positive, check_spins, entry, first_true
from bouncy.targets._factored import FactoredModel, new_factored_model
from bouncy.targets._regression import (
    correlated_pairs,
    normalise,
    read_data,
    read_inclusion,
    read_slab_scale,
)
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import Target

Array = NDArray[np.float64]

# Correlations of all pairs are stored up to this size, which is reached at p = 5792, and computed when needed beyond.
_CORRELATIONS_BYTES = 2**28
# The factor of a model of this size takes 32 MB in each chain, and a flip about a millisecond.
_LARGEST_MODEL = 2000
# A model that a chain starts from is this much smaller than the number of observations.
_OBSERVATIONS_PER_VARIABLE = 4


class VariableSelection(Target):
    """Posterior of the variables in a linear regression, coefficients and noise variance integrated out.

    The model is y = alpha + sum_j gamma_j x_j beta_j + noise with inclusion indicators gamma_j = (1 + s_j)/2: spin +1
    is a variable in the model, -1 one that is left out. The noise is N(0, sigma^2 I), the intercept has the flat prior
    p(alpha) = 1, and p(sigma^2) = 1/sigma^2 unless `noise_scale` gives sigma. Both improper densities are used
    literally: `log_prob` is log p(y, gamma) with nothing left out, and `bouncy.exact(target).log_z` is log p(y).

    With m = n - 1, X and y centred (without an intercept m = n, X and y as they are), k variables in the model, and
    R^2 the share of y'y that least squares on these explains,

    - `prior="g"`: beta ~ N(0, g sigma^2 (X'X)^-1) and

          log p(y | gamma) = -(k/2) log(1 + g) - (m/2) log(1 - R^2 g/(1 + g)) + constant;

    - `prior="independent"`: beta_j ~ N(0, (slab_scale_j sigma)^2), on the columns as given, and with
      A = X'X + diag(1/slab_scale_j^2), b = X'y,

          log p(y | gamma) = -sum_j log slab_scale_j - log|A|/2 - (m/2) log(y'y - b'A^-1 b) + constant.

    If `noise_scale` is given, -Q/(2 sigma^2) stands for -(m/2) log Q, where Q = y'y (1 - R^2 g/(1 + g)) or
    y'y - b'A^-1 b, and the independent prior is N(0, slab_scale_j^2), in units of y and not of sigma, so that
    slab_scale_j/sigma stands for slab_scale_j in the formula.

    Parameters
    ----------
    X : (n, p) array-like or data frame
        Variables in columns; copied. The columns of a data frame (anything with `columns` and `to_numpy`) give the
        labels. Booleans count as 0 and 1.
    y : (n,) array-like or series
        Response; copied. A series is matched to the rows of a data frame X by its labels. So are series of numbers for
        each variable (`slab_scale`, `inclusion`) to its columns.
    prior : {"g", "independent"}
        Prior of the coefficients.
    g : float, optional
        By default max(n, p^2), the benchmark of Fernandez, Ley & Steel: a prior worth one observation, or less if
        there are so many variables that some fit by chance.
    slab_scale : float or (p,) array-like
        Standard deviation of the coefficients under the independent prior; see above for its units.
    noise_scale : float, optional
        Standard deviation sigma of the noise, where it is known.
    inclusion : float, (p,) array-like or "beta-binomial", optional
        Prior inclusion probability of each variable, strictly between 0 and 1; by default 0.5, which makes all models
        equally probable. "beta-binomial" is one unknown probability for all variables with a Beta(1, b) prior, b such
        that models have the expected size (Ley & Steel); by default b = 1, which makes all sizes equally probable.
    expected_size : float, optional
        Expected number of variables under the prior: instead of a number as `inclusion`, or with "beta-binomial".
    intercept : bool
        Whether there is an intercept.
    max_size : int, optional
        Larger models have probability zero. By default the most there can be, but at most 2000. The factor of a model
        takes 8 max_size^2 bytes in each chain.
    labels : sequence, optional
        Names of the variables, in the order of the columns, if X is not a data frame or should have others.

    Attributes
    ----------
    d, n : int
        Numbers of variables and of observations.
    g, slab_scale, noise_scale
        As used; None where there is none.
    inclusion : (p,) array
        Prior inclusion probabilities.
    max_size : int

    Notes
    -----
    The g-prior is not defined where columns of the model are linearly dependent, as more than m always are: such models
    have probability zero. So have, with both priors, those so close to it that rounding would decide, where the
    variance inflation factors (diagonal entries of the inverse of X'X or A with its diagonal scaled to 1) add up to
    more than 10^10. With the independent prior they stay below that if slab_scale_j |x_j| is below 10^5/sqrt(p) for
    all columns.

    A flip takes O(k^2), by an update of the Cholesky factor of the model (Smith & Kohn). Correlations of all pairs of
    variables are stored up to p = 5792; beyond, the k that a flip needs are computed in O(nk).

    References
    ----------
    Zellner (1986), in Bayesian Inference and Decision Techniques, 233. Smith & Kohn (1996), J. Econometrics 75, 317.
    Fernandez, Ley & Steel (2001), J. Econometrics 100, 381. Ley & Steel (2009), J. Appl. Econometrics 24, 651.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((50, 4))
    >>> y = X[:, 0] - X[:, 2] + generator.standard_normal(50)
    >>> target = bouncy.VariableSelection(X, y, labels=["a", "b", "c", "d"])
    >>> target
    VariableSelection(p=4, n=50, g=50)
    >>> ((1 + bouncy.exact(target).mean) / 2).round(2).tolist()
    [1.0, 0.13, 1.0, 0.29]
    """

    selects_variables = True

    tempered_from = "fitted"

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        prior: Literal["g", "independent"] = "g",
        g: float | None = None,
        slab_scale: ArrayLike | None = None,
        noise_scale: float | None = None,
        inclusion: ArrayLike | None = None,
        expected_size: float | None = None,
        intercept: bool = True,
        max_size: int | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        names, design, response, (slab_scale, inclusion) = read_data(X, y, slab_scale=slab_scale, inclusion=inclusion)
        self.n, self.d = design.shape
        self._labels = read_labels(names if labels is None else labels, self.d)
        self.intercept = check_flag("intercept", intercept)
        self._rank = self.n - self.intercept
        if self._rank < 2:
            raise ValueError(f"X must have at least {2 + self.intercept} rows, got {self.n}")
        self.g, self.slab_scale = self._read_prior(prior, g, slab_scale)
        self.noise_scale = None if noise_scale is None else check_positive("noise_scale", noise_scale)
        self._inclusion = read_inclusion(inclusion, expected_size, self.d)
        self.max_size = self._read_max_size(max_size)

        names_shown = [f"column {label!r} of X" for label in self.labels]
        columns, norms = normalise(design, self.intercept, names_shown, "it can explain nothing: leave it out")
        (direction,), (self._y_norm,) = normalise(
            response[:, None], self.intercept, ["y"], "there is nothing to explain"
        )
        # A = X'X + ridge^2 with its diagonal scaled to 1, so that neither units nor a small ridge cost digits.
        ridge = self._ridge()
        self._scale = np.hypot(norms, ridge)
        self._columns = aligned_copy(columns * (norms / self._scale)[:, None])
        self._b = self._columns @ direction
        self._weight = self._inclusion.log_odds + self._log_penalty(ridge)
        self._correlations = self._correlate()
        self._precision = self._read_precision()

    def _read_prior(self, prior: str, g: Any, slab_scale: Any) -> tuple[float | None, Array | None]:
        """Return g or the scales of the slabs, and None for the other."""
        if prior not in ("g", "independent"):
            raise ValueError(f"prior must be 'g' or 'independent', got {prior!r:.60}")
        if prior == "independent":
            if g is not None:
                raise ValueError(f"g belongs to prior='g', got g = {g!r:.60} with prior='independent'")
            return None, read_slab_scale(slab_scale, self.d)
        if slab_scale is not None:
            raise ValueError(f"slab_scale belongs to prior='independent', got {slab_scale!r:.60} with prior='g'")
        return float(max(self.n, self.d**2)) if g is None else check_positive("g", g), None

    def _read_max_size(self, max_size: Any) -> int:
        most = self.d if self.g is None else min(self.d, self._rank)
        return min(most, _LARGEST_MODEL if max_size is None else check_count("max_size", max_size))

    def _ridge(self) -> Array:
        """Return the square roots of the prior's part of the diagonal of A, (p,)."""
        if self.slab_scale is None:
            return np.zeros(self.d)
        with np.errstate(over="ignore", under="ignore"):
            ridge: Array = (1.0 if self.noise_scale is None else self.noise_scale) / self.slab_scale
        at = first_true(~np.isfinite(ridge) | (ridge == 0.0))
        if at is not None:
            scale = entry("slab_scale", at, self.slab_scale[at])
            raise ValueError(f"the noise over the slab must fit in a float64, got {scale}; use other units")
        return ridge

    def _log_penalty(self, ridge: Array) -> Array:
        """Return the part of log p(y | gamma) that each variable adds independently of the others and of y, (p,)."""
        if self.g is not None:
            return np.full(self.d, -0.5 * np.log1p(self.g))
        penalty: Array = np.log(ridge) - np.log(self._scale)
        return penalty

    def _correlate(self) -> Array:
        """Return the scaled X'X or A, (p, p), or no entries where they would be too many."""
        if 8 * self.d**2 > _CORRELATIONS_BYTES:
            return np.empty((0, 0))
        C = aligned_copy(self._columns @ self._columns.T)
        np.fill_diagonal(C, 1.0)
        return C

    def _read_precision(self) -> float:
        """Return y'y/(2 sigma^2), or 0 if sigma is unknown."""
        if self.noise_scale is None:
            return 0.0
        with np.errstate(over="ignore"):
            precision = float(0.5 * (self._y_norm / np.float64(self.noise_scale)) ** 2)
        if not np.isfinite(precision):
            raise ValueError(f"y'y/noise_scale^2 must fit in a float64, got noise_scale = {self.noise_scale}")
        return precision

    def _log_constant(self) -> float:
        """Return log p(y | gamma) of the model without variables."""
        constant = -0.5 * np.log(self.n) if self.intercept else 0.0
        if self.noise_scale is None:
            half = 0.5 * self._rank
            return float(constant + gammaln(half) - half * np.log(np.pi) - self._rank * np.log(self._y_norm))
        constant -= self._rank * (0.5 * np.log(2.0 * np.pi) + np.log(self.noise_scale))
        return float(constant - self._precision)

    def view(self) -> Linked:
        return linked(self._factored(), self.d)

    def _factored(self) -> FactoredModel:
        """Return the arrays that `view` links to."""
        return new_factored_model(
            self.max_size,
            correlations=self._correlations,
            columns=np.empty((0, 0)) if self._correlations.size else self._columns,
            b=self._b,
            weight=self._weight,
            by_size=self._inclusion.by_size,
            constant=self._log_constant(),
            determinant=0.5 if self.g is None else 0.0,
            shrinkage=1.0 if self.g is None else self.g / (1.0 + self.g),
            floor=0.0 if self.g is None else 1.0 / (1.0 + self.g),
            exponent=0.5 * self._rank if self.noise_scale is None else 0.0,
            precision=self._precision,
        )

    def candidates(self) -> scipy.sparse.csr_array:
        """Return how often two variables should be tried to replace each other: those that are correlated."""
        return self._candidates

    @cached_property
    def _candidates(self) -> scipy.sparse.csr_array:
        return correlated_pairs(self._columns, self._correlations)

    def start(self, generator: np.random.Generator) -> NDArray[np.int8]:
        """Return a model drawn from the prior, (d,), without variables that are too many or depend on others."""
        drawn = generator.permutation(np.flatnonzero(self._inclusion.draw(generator)))
        drawn = drawn[: min(self.max_size, max(1, self.n // _OBSERVATIONS_PER_VARIABLE))]
        s = np.full(self.d, -1, np.int8)
        if drawn.size:
            R, order = scipy.linalg.qr(self._columns[drawn].T, mode="r", pivoting=True)
            s[drawn[order[np.abs(np.diagonal(R)) > 1e-3]]] = 1
        if not np.isfinite(self.log_prob(s)):
            s[:] = -1
        return s

    def coefficients(self, s: ArrayLike) -> Array:
        """Return the posterior means of all coefficients given the model s, (d,): zero for variables left out.

        That of the intercept is `y.mean() - X.mean(axis=0) @ coefficients`.
        """
        spins = check_spins(s, self.d)
        if spins.ndim != 1:
            raise ValueError(f"s must be one model of shape ({self.d},), got shape {spins.shape}")
        if not np.isfinite(self.log_prob(spins)):
            raise ValueError("s must be a model of positive probability, got one that is too large or rank-deficient")
        model = np.flatnonzero(spins > 0)
        C = self._columns[model] @ self._columns[model].T
        np.fill_diagonal(C, 1.0)
        shrinkage = 1.0 if self.g is None else self.g / (1.0 + self.g)
        out = np.zeros(self.d)
        out[model] = shrinkage * self._y_norm * np.linalg.solve(C, self._b[model]) / self._scale[model]
        return out

    @property
    def inclusion(self) -> Array:
        """Prior inclusion probabilities, (p,), read-only."""
        return read_only(self._inclusion.probabilities)

    def __repr__(self) -> str:
        prior = "independent" if self.g is None else f"g={self.g:g}"
        noise = "" if self.noise_scale is None else f", noise_scale={self.noise_scale:g}"
        return f"VariableSelection(p={self.d}, n={self.n}, {prior}{noise})"


def _example(**options: Any) -> VariableSelection:
    """Return a model of four variables, two of them much alike."""
    t = np.arange(16.0)
    X = np.column_stack([np.sin(t), np.sin(t) + 0.4 * np.cos(3 * t), np.cos(2 * t), t % 3])
    return VariableSelection(X, 0.4 * X[:, 0] + 0.3 * X[:, 2] + 0.5 * np.sin(t * t), **options)


def _collinear_example() -> VariableSelection:
    """Return a model whose last column is the sum of the first two: all three together are impossible."""
    t = np.arange(12.0)
    X = np.column_stack([np.sin(t), np.cos(t), np.sin(t) + np.cos(t)])
    return VariableSelection(X, 0.4 * X[:, 2] + 0.6 * np.sin(t * t), g=4.0)


EXAMPLES = {
    "selection-g": _example,
    "selection-independent": lambda: _example(prior="independent", slab_scale=1.0, expected_size=1.5),
    "selection-known-noise": lambda: _example(
        prior="independent", slab_scale=0.7, noise_scale=0.5, inclusion="beta-binomial"
    ),
    "selection-collinear": _collinear_example,
}
