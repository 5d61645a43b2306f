"""The result of a run on a continuous or mixed target: exact integrals over the path."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_real_array
from bouncy.piecewise.recorder import BINS, EVALUATED
from bouncy.recorders.batches import Batch
from bouncy.results.diagnostics import Rates, diagnose, disagreements, warnings_of
from bouncy.results.ess import rank_normalise
from bouncy.results.moments import Quantity
from bouncy.results.occupancy import Atom, Density, Occupancy, neighbours, share_of_bins
from bouncy.results.run import Run
from bouncy.results.summary import Summary, path_summary

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]


class PathRun(Run):
    """Chains of a sampler on a continuous or mixed target, and what they found.

    Attributes
    ----------
    draws : ndarray, shape (chain, draw, d)
        Values x on a regular grid of the sampler's time; no draws with `keep="means"`.
    log_prob : ndarray, shape (chain, draw)
        `target.log_prob` of each draw; kept even when the states are not.
    mean, mean_se : ndarray, shape (d,)
        E[x_i] and its standard error.
    variance, variance_se : ndarray, shape (d,)
        Var[x_i] and its standard error.
    covariance, covariance_se : ndarray, shape (d, d)
        Cov[x_i, x_j] and its standard error; recorded up to d = 32, or with `pairs="all"`.
    inclusion, inclusion_se : ndarray, shape (d,)
        Probability that x_i is not zero, on targets where zero has a probability of its own.

    All of them, and `quantile` and `probability`, are exact integrals over the path of "bps", or averages over the ends
    of the trajectories of "hmc" or the steps of "metropolis". Standard errors come from equal-time batches. Where these
    do not vary, as for a coefficient that was zero all the time, they are bounds and never 0: one more excursion may
    have been missed.
    """

    _estimates = ("mean", "variance", "covariance", "inclusion")
    _dtype = np.float64

    def _scalars(self) -> dict[str, Array]:
        return {"log_prob": self.log_prob}

    def _disagreement(self) -> Array:
        return self._sums.disagreement(_mean)

    def _average(self, quantity: Quantity) -> Array:
        """Return the time average of what was integrated over batches."""
        return self._data.sums().mean(quantity, self._data.sweep_time)

    def _error(self, quantity: Quantity, reach: Array | float = 0.0) -> Array:
        """Return the standard error of a time average, given how far the quantity may go from its mean.

        It is 0 where batches do not vary and the quantity can go nowhere.
        """
        return self._path_error(quantity, reach, jumps=False)

    @cached_property
    def _reach(self) -> Array:
        """How far each variable may be from its mean, (d,): to the far end of its bins or its last point mass."""
        first, shift, is_atom = self._cells("first"), self._cells("shift"), self._cells("slope") == 0.0
        low, high = self._ends()
        low = np.minimum(low, np.minimum.reduceat(np.where(is_atom, shift, np.inf), first[:-1]))
        high = np.maximum(high, np.maximum.reduceat(np.where(is_atom, shift, -np.inf), first[:-1]))
        return np.maximum(self.mean - low, high - self.mean)

    @cached_property
    def mean(self) -> Array:
        return self._average(_mean)

    @cached_property
    def mean_se(self) -> Array:
        return self._error(_mean, self._reach)

    @cached_property
    def variance(self) -> Array:
        return np.maximum(self._average(lambda batch: batch["square"]) - self.mean**2, 0.0)

    @cached_property
    def variance_se(self) -> Array:
        # Around the mean, x^2 - 2 E[x] x has the same fluctuations as (x - E[x])^2 but for those of second order.
        return self._error(lambda batch: batch["square"] - 2.0 * self.mean * batch["mean"], self._reach**2)

    @cached_property
    def covariance(self) -> Array:
        self._require_products()
        matrix = self._average(lambda batch: batch["products"]).reshape(self.target.d, self.target.d)
        return 0.5 * (matrix + matrix.T) - np.outer(self.mean, self.mean)

    @cached_property
    def covariance_se(self) -> Array:
        self._require_products()
        reach = np.outer(self._reach, self._reach).ravel()
        error = self._error(lambda batch: batch["products"] - _crossed(batch["mean"], self.mean), reach)
        error = error.reshape(self.target.d, self.target.d)
        return 0.5 * (error + error.T)

    def _require_products(self) -> None:
        if self._data.setup.pairs == "none":
            raise AttributeError(
                f"covariances were not recorded (d = {self.target.d}); sample again with pairs='all', which costs "
                "O(d^2) per bounce"
            )

    @cached_property
    def inclusion(self) -> Array:
        return 1.0 - self._average(self._excluded())

    @cached_property
    def inclusion_se(self) -> Array:
        can_be_zero = np.logical_or.reduceat(self._is_zero(), self._cells("first")[:-1])
        return self._path_error(self._excluded(), can_be_zero.astype(np.float64))

    def _inclusion(self) -> tuple[Array, Array] | None:
        return (self.inclusion, self.inclusion_se) if self._is_zero().any() else None

    def _excluded(self) -> Quantity:
        """Return the time that each variable spends at zero."""
        zero, first = self._is_zero(), self._cells("first")
        if not zero.any():
            raise AttributeError(f"no variable of {self.target!r} has a probability of being zero; see `probability`")
        return lambda batch: np.add.reduceat(np.where(zero, batch["cell"], 0.0), first[:-1])

    def _is_zero(self) -> NDArray[np.bool_]:
        """Say which cells stand for zero, (cells,)."""
        zero: NDArray[np.bool_] = (self._cells("slope") == 0.0) & (self._cells("shift") == 0.0)
        return zero

    def _cells(self, name: str) -> NDArray[Any]:
        """Return what describes the cells of the target: `first`, (d + 1,), `slope`, `shift` or `upper`, (cells,).

        Upper ends are in units of the coordinates, whatever the particle moves in.
        """
        return self._data.constants[f"cells.{name}"]

    @cached_property
    def _occupancies(self) -> list[Occupancy]:
        """The distribution of each coordinate."""
        first, slope, shift, upper = (self._cells(name) for name in ("first", "slope", "shift", "upper"))
        cells = self._average(lambda batch: batch["cell"])
        bins = self._average(lambda batch: batch["bin"]).reshape(self.target.d, BINS + 2)
        low, high = self._ends()
        found = []
        for i in range(self.target.d):
            rows = [row for row in range(first[i], first[i + 1]) if slope[row] == 0.0]
            atoms = [Atom(float(shift[row]), float(cells[row])) for row in rows]
            own = slice(first[i], first[i + 1])
            plain = (slope[own] == 1.0).all() and (shift[own] == 0.0).all()
            # Where values are the coordinates themselves, so are the ends of cells.
            ends = [upper[own], np.cumsum(cells[own])] if plain else [np.zeros(1), np.zeros(1)]
            found.append(Occupancy(low[i], high[i], bins[i], atoms, np.array(ends)[:, :-1]))
        return found

    def _ends(self) -> tuple[Array, Array]:
        """Return the lower end of the first bin and the upper end of the last, (d,) each."""
        low, width = self._data.totals[0]["low"], self._data.totals[0]["width"]
        return low, low + BINS * width

    def density(self, variable: Hashable) -> Density:
        """Return the law of a variable, given its label or place: ends of bins, density in them, point masses.

        The time that the path spends in a bin is exact, so that a bin has its probability and no shape is assumed.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.Gaussian([0.0, 1.0], cov=[[1.0, 0.5], [0.5, 1.0]]), draws=500, seed=0)
        >>> edges, density, atoms = run.density(1)
        >>> edges.shape, density.shape, atoms
        ((65,), (64,), [])
        """
        return self._occupancies[self.index(variable)].in_bins()

    def combination(self, weights: ArrayLike) -> tuple[Array, Array]:
        """Return E[W x] and its standard error, both (k,), for weights W of shape (k, d), or numbers for (d,).

        The error bar is that of the combination itself, which no error bars of its terms could give.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.Gaussian([0.0, 1.0], cov=[[1.0, -0.9], [-0.9, 1.0]]), draws=500, seed=0)
        >>> total, error = run.combination([1.0, 1.0])
        >>> bool(error < run.mean_se.min())
        True
        """
        W = check_real_array("weights", weights)
        if W.ndim not in (1, 2) or W.shape[-1] != self.target.d:
            raise ValueError(f"weights must have shape ({self.target.d},) or (k, {self.target.d}), got {W.shape}")
        rows = np.atleast_2d(W)
        value = self._average(lambda batch: rows @ batch["mean"])
        error = self._error(lambda batch: rows @ batch["mean"], np.abs(rows) @ self._reach)
        return (value, error) if W.ndim == 2 else (value[0], error[0])

    def probability(self, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> tuple[Array, Array]:
        """Return P(lower <= x_i <= upper) and its standard error, both (d,).

        Parameters
        ----------
        lower, upper : array_like
            Ends of the interval, which belong to it: numbers, or one for each variable. Point masses on them count.

        Notes
        -----
        The time that the path spends in each of 64 bins, and between edges, is exact; other ends are interpolated. The
        standard error of what was always or never seen is a bound and not 0, unless the interval is the whole line.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.Gaussian([0.0, 1.0], cov=[[1.0, 0.5], [0.5, 1.0]]), draws=500, seed=0)
        >>> positive, error = run.probability(lower=0.0)
        >>> bool(abs(positive[0] - 0.5) < 0.1)
        True
        """
        d = self.target.d
        ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), (d,)) for end in (lower, upper)]
        if not (ends[0] <= ends[1]).all():
            raise ValueError(f"lower must not exceed upper, got {lower!r:.60} and {upper!r:.60}")
        each = zip(self._occupancies, *ends, strict=True)
        value = np.array([occupancy.below(b, True) - occupancy.below(a, False) for occupancy, a, b in each])
        return np.clip(value, 0.0, 1.0), self._spread_between(*ends)

    def _spread_between(self, lower: Array, upper: Array) -> Array:
        """Return the standard error of P(lower <= x_i <= upper), (d,).

        Interpolation smooths what it interpolates, so that batches of interpolated probabilities differ too little. At
        the ends of bins nothing is smoothed: the variance is interpolated between those.
        """
        low, high = self._ends()
        lowers, uppers = neighbours(low, high, lower, BINS), neighbours(low, high, upper, BINS)
        variance = np.zeros(self.target.d)
        reach = np.where((lower == -np.inf) & (upper == np.inf), 0.0, 1.0)  # what is certain has no error
        if (lower == upper).all():  # point masses alone
            return self._path_error(self._time_between(np.zeros((lower.size, BINS + 2)), lower, upper), reach)
        for a, weight_a in lowers:
            for b, weight_b in uppers:
                share = share_of_bins(low, high, a, b, BINS)
                error = self._path_error(self._time_between(share, lower, upper), reach)
                variance += weight_a * weight_b * error**2
        return np.asarray(np.sqrt(variance))

    def _time_between(self, share: Array, lower: Array, upper: Array) -> Quantity:
        """Return the time in a share of each bin, (d, BINS + 2), and in point masses with lower <= x_i <= upper."""
        d, first, shift = self.target.d, self._cells("first"), self._cells("shift")
        site = np.repeat(np.arange(d), np.diff(first))
        inside = (self._cells("slope") == 0.0) & (lower[site] <= shift) & (shift <= upper[site])

        def time_inside(batch: Batch) -> Array:
            bins = (batch["bin"].reshape(d, BINS + 2) * share).sum(axis=1)
            return np.asarray(bins + np.add.reduceat(np.where(inside, batch["cell"], 0.0), first[:-1]))

        return time_inside

    def quantile(self, q: ArrayLike) -> tuple[Array, Array]:
        """Return the quantiles of each variable and their standard errors.

        Parameters
        ----------
        q : array_like
            Probabilities between 0 and 1: a number gives arrays of shape (d,), k of them give (k, d).

        Notes
        -----
        The standard error is that of the distribution function there, divided by the density. A quantile that is a
        point mass has the standard error 0. NaN where a quantile lies beyond the bins, which reach further than
        everything seen in the second half of the warm-up.
        """
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"q must be between 0 and 1, a number or a sequence of them, got {q!r:.60}")
        rows = [self._quantile(float(level)) for level in np.atleast_1d(levels)]
        values, errors = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
        return (values, errors) if levels.ndim else (values[0], errors[0])

    def _quantile(self, q: float) -> tuple[Array, Array]:
        found = [occupancy.quantile(q) for occupancy in self._occupancies]
        value = np.array([x for x, _ in found])
        at_atom = np.array([atom for _, atom in found])
        density = np.array([occupancy.density(x) for occupancy, x in zip(self._occupancies, value, strict=True)])
        everything = np.full(value.size, np.inf)
        spread = self._spread_between(-everything, np.where(np.isnan(value), everything, value))
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(at_atom, 0.0, spread / density)
        return value, np.where(np.isnan(value), np.nan, error)

    def _diagnose(self) -> dict[str, Any]:
        rates = Rates(*self._data.rates)
        report = diagnose(self, rates, self._scalars(), _normal_scores, self._frozen())
        # Without conditional means nothing tells a variable that is stuck from one that has but one value.
        calls = np.sum([totals["evaluations"] for totals in self._data.totals], axis=0)
        if calls.any():
            report["evaluations"] = dict(zip(EVALUATED, calls.tolist(), strict=True))
        report["warnings"] = warnings_of(self, report, np.ones(self.target.d, np.bool_))
        report["warnings"] += disagreements(self._disagreement())
        return report

    def _frozen(self) -> NDArray[np.bool_]:
        """Say which variables crossed nothing and had one value at the ends of all sweeps of a chain, (d,)."""
        extremes = np.stack([totals["extremes"] for totals in self._data.totals])
        still: NDArray[np.bool_] = (extremes[:, 0] == extremes[:, 1]).all(axis=0) & (self.flips_per_site == 0)
        return still

    def _summary(self) -> Summary:
        return path_summary(self)

    def _to_arviz(self) -> xarray.DataTree:
        from bouncy.results.arviz import to_datatree

        return to_datatree(self, "x", {})


def _mean(batch: Batch) -> Array:
    return batch["mean"]


def _crossed(integrals: Array, mean: Array) -> Array:
    """Return E[x_i] X_j + X_i E[x_j] for integrals X, (d,), as (d * d,)."""
    product = np.outer(integrals, mean)
    return np.asarray(product + product.T).ravel()


def _normal_scores(draws: Array) -> Array:
    """Return the normal scores of the ranks of each variable of (chain, draw, k)."""
    return np.stack([rank_normalise(draws[:, :, k]) for k in range(draws.shape[2])], axis=2)
