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
from bouncy.recorders.controls import unpack_couplings
from bouncy.results.controls import controlled_cells, controlled_means
from bouncy.results.diagnostics import Rates, diagnose, disagreements, warnings_of
from bouncy.results.ess import rank_normalise
from bouncy.results.moments import Quantity, recorded, total
from bouncy.results.occupancy import Atom, Density, Occupancy, neighbours, share_of_bins
from bouncy.results.path_moments import PATH, PathMoments, of_path
from bouncy.results.run import Run
from bouncy.results.summary import Summary, path_summary

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]

# Jumps of values between cells that are smaller than this, relatively, are rounding.
_ROUNDING = 1e-9


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
    path_mean, path_variance, path_covariance, path_inclusion, and the same with _se
        The same from the path alone, where the others are averages of expectations.

    Moments and probabilities of whole cells are averages of the expectations of each variable given all others, at the
    ends of sweeps or trajectories; from means and from these probabilities, control variates take what is linear in the
    other variables. Where conditional laws are not known, as of a `bouncy.Density`, they are exact integrals over the
    path of "bps", or averages over the steps of "metropolis". What begins with path_, quantiles and other probabilities
    are such integrals on all targets, or with "gibbs" and "hmc" averages over the ends of sweeps and trajectories.
    Standard errors come from equal-time batches. Those of integrals over a path that do not vary, as for a coefficient
    that was zero all the time, are bounds and never 0: one more excursion may have been missed.
    """

    _estimates = (
        "mean",
        "variance",
        "covariance",
        "inclusion",
        "path_mean",
        "path_variance",
        "path_covariance",
        "path_inclusion",
    )
    _dtype = np.float64

    def _scalars(self) -> dict[str, Array]:
        return {"log_prob": self.log_prob}

    def _disagreement(self) -> Array:
        return self._sums.disagreement(of_path("mean"))

    @property
    def has_expectations(self) -> bool:
        """Whether expectations given the other variables were recorded: not of a `bouncy.Density`."""
        return PATH + "mean" in self._data.open[0]

    @cached_property
    def _best(self) -> PathMoments:
        """Estimates with control variates, as far as there are any: of means and probabilities."""
        A, sums = unpack_couplings(self._data.constants), self._data.sums()
        if A is not None:
            spread, response = map(self._given.average, map(recorded, ("spread", "response")))
            spread, site = np.maximum(spread, 0.0), np.repeat(np.arange(spread.size), np.diff(self._cells("first")))
            sums = controlled_means(sums, self._sums.factor, A, spread, recorded("pull"))
            sums = controlled_cells(sums, self._sums.factor, A, response, site, recorded("pull"))
        return PathMoments(self, sums)

    @cached_property
    def _given(self) -> PathMoments:
        """Estimates without control variates; of second moments, whose fluctuations go with those of the means."""
        return PathMoments(self, self._data.sums())

    @cached_property
    def _along_path(self) -> PathMoments:
        return PathMoments(self, self._data.sums(), along_path=True)

    @cached_property
    def _reach(self) -> Array:
        """How far each variable may be from its mean, (d,): to the far end of its bins or its last point mass."""
        first, shift, is_atom = self._cells("first"), self._cells("shift"), self._cells("slope") == 0.0
        low, high = self._ends()
        low = np.minimum(low, np.minimum.reduceat(np.where(is_atom, shift, np.inf), first[:-1]))
        high = np.maximum(high, np.maximum.reduceat(np.where(is_atom, shift, -np.inf), first[:-1]))
        return np.maximum(self.mean - low, high - self.mean)

    @property
    def mean(self) -> Array:
        return self._best.mean

    @property
    def mean_se(self) -> Array:
        return self._best.mean_se

    @property
    def path_mean(self) -> Array:
        return self._along_path.mean

    @property
    def path_mean_se(self) -> Array:
        return self._along_path.mean_se

    @property
    def variance(self) -> Array:
        return self._given.variance

    @property
    def variance_se(self) -> Array:
        return self._given.variance_se

    @property
    def path_variance(self) -> Array:
        return self._along_path.variance

    @property
    def path_variance_se(self) -> Array:
        return self._along_path.variance_se

    @property
    def covariance(self) -> Array:
        return self._with_products(self._given).covariance

    @property
    def covariance_se(self) -> Array:
        return self._with_products(self._given).covariance_se

    @property
    def path_covariance(self) -> Array:
        return self._with_products(self._along_path).covariance

    @property
    def path_covariance_se(self) -> Array:
        return self._with_products(self._along_path).covariance_se

    def _with_products(self, moments: PathMoments) -> PathMoments:
        if self._data.setup.pairs == "none":
            raise AttributeError(
                f"covariances were not recorded (d = {self.target.d}); sample again with pairs='all', which costs "
                "O(d^2) per bounce"
            )
        return moments

    @cached_property
    def inclusion(self) -> Array:
        return 1.0 - self._best.cells(self._can_be_zero())[0]

    @cached_property
    def inclusion_se(self) -> Array:
        return self._best.cells(self._can_be_zero())[1]

    @cached_property
    def path_inclusion(self) -> Array:
        return 1.0 - self._along_path.cells(self._can_be_zero())[0]

    @cached_property
    def path_inclusion_se(self) -> Array:
        return self._along_path.cells(self._can_be_zero())[1]

    def _inclusion(self) -> tuple[Array, Array] | None:
        return (self.inclusion, self.inclusion_se) if self._is_zero().any() else None

    def _can_be_zero(self) -> NDArray[np.bool_]:
        """Say which cells stand for zero, (cells,); raise if none does."""
        zero = self._is_zero()
        if not zero.any():
            raise AttributeError(f"no variable of {self.target!r} has a probability of being zero; see `probability`")
        return zero

    def _is_zero(self) -> NDArray[np.bool_]:
        zero: NDArray[np.bool_] = (self._cells("slope") == 0.0) & (self._cells("shift") == 0.0)
        return zero

    def _cells(self, name: str) -> NDArray[Any]:
        """Return what describes the cells of the target: `first`, (d + 1,), `slope`, `shift` or `upper`, (cells,).

        Upper ends are in units of the coordinates, whatever the particle moves in.
        """
        return self._data.constants[f"cells.{name}"]

    @cached_property
    def _occupancies(self) -> list[Occupancy]:
        """The distribution of each coordinate.

        Bins hold values at some times in each sweep. They are scaled to the time in which values moved, and stretched
        so that cells have the probabilities that are estimated best.
        """
        first = self._cells("first")
        given, seen = self._best.average(recorded("cell")), self._along_path.average(of_path("cell"))
        given = np.maximum(given, 0.0)  # which control variates do not see to
        bins = self._best.average(recorded("bin")).reshape(self.target.d, BINS + 2)
        low, high = self._ends()
        edges = np.linspace(low, high, BINS + 1, axis=1)
        found = []
        for i in range(self.target.d):
            own = slice(first[i], first[i + 1])
            moves = self._cells("slope")[own] != 0.0
            # Where in a cell that was never seen its mass lies is not known: the other cells share it.
            mass, moving = given[own].copy(), given[own][moves].sum()
            mass[moves & (seen[own] == 0.0)] = 0.0
            mass[moves] *= moving / mass[moves].sum() if mass[moves].any() else 0.0
            mass /= mass.sum()
            at = self._cells("shift")[own][~moves]
            atoms = [Atom(float(x), float(share)) for x, share in zip(at, mass[~moves], strict=True)]
            places, below = self._cuts(own)
            before, after = (
                np.concatenate([[0.0], np.cumsum(np.where(moves, part, 0.0))])[[0, *(below + 1), -1]]
                for part in (seen[own], mass)
            )
            below_end = np.cumsum(bins[i])
            below_end *= before[-1] / below_end[-1] if below_end[-1] > 0.0 else 0.0
            below_end = np.interp(below_end, before, after)
            # What was seen at some times must not contradict what is known of the cells.
            least, most = (np.searchsorted(places, edges[i], side) for side in ("right", "left"))
            below_end[:-1] = np.clip(below_end[:-1], after[least], after[most + 1])
            stretched = np.diff(below_end, prepend=0.0)
            found.append(Occupancy(low[i], high[i], stretched, atoms, np.array([places, after[1:-1]])))
        return found

    def _cuts(self, own: slice) -> tuple[Array, NDArray[np.intp]]:
        """Return the values at which cells of a coordinate end, and the cells below each, by their places.

        None where its values do not rise from cell to cell, so that cells are no intervals of values.
        """
        slope, shift, edges = self._cells("slope")[own], self._cells("shift")[own], self._cells("upper")[own][:-1]
        below, above = slope[:-1] * edges + shift[:-1], slope[1:] * edges + shift[1:]
        if (slope < 0.0).any() or not (below <= above + _ROUNDING * np.abs(above)).all():
            return np.zeros(0), np.zeros(0, np.intp)
        return np.where(slope[:-1] != 0.0, below, above), np.arange(edges.size)

    def _ends(self) -> tuple[Array, Array]:
        """Return the lower end of the first bin and the upper end of the last, (d,) each."""
        low, width = self._data.totals[0]["low"], self._data.totals[0]["width"]
        return low, low + BINS * width

    def density(self, variable: Hashable) -> Density:
        """Return the law of a variable, given its label or place: ends of bins, density in them, point masses.

        A bin has its probability, and no shape is assumed.

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
        >>> target = bouncy.TruncatedGaussian([0.0, 1.0], cov=[[1.0, -0.9], [-0.9, 1.0]], lower=-1.0)
        >>> run = bouncy.sample(target, draws=500, seed=0)
        >>> total, error = run.combination([1.0, 1.0])
        >>> bool(error < run.mean_se.min())
        True
        """
        W = check_real_array("weights", weights)
        if W.ndim not in (1, 2) or W.shape[-1] != self.target.d:
            raise ValueError(f"weights must have shape ({self.target.d},) or (k, {self.target.d}), got {W.shape}")
        rows = np.atleast_2d(W)
        value = self._best.average(lambda batch: rows @ batch["mean"])
        error = self._best.error(lambda batch: rows @ batch["mean"], np.abs(rows) @ self._reach)
        return (value, error) if W.ndim == 2 else (value[0], error[0])

    def probability(self, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> tuple[Array, Array]:
        """Return P(lower <= x_i <= upper) and its standard error, both (d,).

        Parameters
        ----------
        lower, upper : array_like
            Ends of the interval, which belong to it: numbers, or one for each variable. Point masses on them count.

        Notes
        -----
        The path is looked at eight times in a sweep, to see in which of 64 bins it is; the time between edges is exact.
        Ends inside of bins are interpolated. The standard error of what was always or never seen is a bound and not 0,
        unless the interval is the whole line.

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
        error = self._spread_between(*ends)
        inside, whole = self._cells_between(*ends)
        if self.has_expectations and whole.any():
            share, its_error = self._best.cells(inside)
            value, error = np.where(whole, share, value), np.where(whole, its_error, error)
        return np.clip(value, 0.0, 1.0), error

    def _cells_between(self, lower: Array, upper: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which cells lie between lower and upper, and which variables, (d,), have no cell partly there."""
        first, slope, shift, top = (self._cells(name) for name in ("first", "slope", "shift", "upper"))
        site = np.repeat(np.arange(self.target.d), np.diff(first))
        bottom = np.concatenate([[-np.inf], top[:-1]])
        bottom[first[:-1]] = -np.inf  # unknown, and at worst this
        with np.errstate(invalid="ignore"):
            values = np.sort([np.where(slope == 0.0, shift, slope * end + shift) for end in (bottom, top)], axis=0)
        inside = (lower[site] <= values[0]) & (values[1] <= upper[site])
        apart = (upper[site] < values[0]) | (values[1] < lower[site])
        touching = (slope != 0.0) & ((upper[site] == values[0]) | (values[1] == lower[site]))
        return inside, np.asarray(np.logical_and.reduceat(inside | apart | touching, first[:-1]))

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
        stretch = self._stretch_between(lower, upper)
        for a, weight_a in lowers:
            for b, weight_b in uppers:
                time = self._time_between(share_of_bins(low, high, a, b, BINS), lower, upper)
                error = self._best.path_error(total(time, stretch), reach)
                variance += weight_a * weight_b * error**2
        return np.asarray(np.sqrt(variance))

    def _stretch_between(self, lower: Array, upper: Array) -> Quantity:
        """Return what probabilities of cells add to the time of the path between lower and upper: see `_occupancies`.

        Each cell counts with its share in the interval. How that share varies is in the time of the path, up to what is
        of second order.
        """
        d, first, shift, still = self.target.d, self._cells("first"), self._cells("shift"), self._cells("slope") == 0.0
        site = np.repeat(np.arange(d), np.diff(first))
        share = np.where((lower[site] <= shift) & (shift <= upper[site]), 1.0, 0.0)
        for i, occupancy in enumerate(self._occupancies):
            own = slice(first[i], first[i + 1])
            share[own] = np.where(still[own], share[own], occupancy.shares(lower[i], upper[i]))
        best, path = recorded("cell"), of_path("cell")
        return lambda batch: np.add.reduceat(share * (best(batch) - path(batch)), first[:-1])

    def _time_between(self, share: Array, lower: Array, upper: Array) -> Quantity:
        """Return the time in a share of each bin, (d, BINS + 2), and in point masses with lower <= x_i <= upper."""
        d, first, shift = self.target.d, self._cells("first"), self._cells("shift")
        site = np.repeat(np.arange(d), np.diff(first))
        inside, time_in = (
            (self._cells("slope") == 0.0) & (lower[site] <= shift) & (shift <= upper[site]),
            of_path("cell"),
        )

        def time_inside(batch: Batch) -> Array:
            bins = (batch["bin"].reshape(d, BINS + 2) * share).sum(axis=1)
            return np.asarray(bins + np.add.reduceat(np.where(inside, time_in(batch), 0.0), first[:-1]))

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
        if self._data.setup.choice:
            report["auto"] = self._data.setup.choice
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


def _normal_scores(draws: Array) -> Array:
    """Return the normal scores of the ranks of each variable of (chain, draw, k)."""
    return np.stack([rank_normalise(draws[:, :, k]) for k in range(draws.shape[2])], axis=2)
