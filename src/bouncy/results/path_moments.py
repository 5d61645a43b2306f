"""Moments of continuous variables, from expectations given the other variables or from integrals over the path."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.batches import Batch
from bouncy.results.moments import Quantity, Sums, recorded

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun

Array = NDArray[np.float64]

PATH = "path_"


def of_path(name: str) -> Quantity:
    """Return what reads an integral over the path; it has the plain name where no expectations were recorded."""
    return lambda batch: batch[PATH + name] if PATH + name in batch else batch[name]


class PathMoments:
    """Means, variances, covariances and probabilities of cells, with standard errors, all of one origin.

    Parameters
    ----------
    run : PathRun
        The run.
    sums : Sums
        Its batches.
    along_path : bool
        Whether they come from integrals over the path, also where expectations were recorded.
    """

    def __init__(self, run: PathRun, sums: Sums, along_path: bool = False) -> None:
        self._run, self._sums = run, sums
        self._read = of_path if along_path else recorded
        self._expected = not along_path and run.has_expectations

    def average(self, quantity: Quantity) -> Array:
        """Return the average of what was summed over batches."""
        return self._sums.mean(quantity, self._run._data.sweep_time)

    def error(self, quantity: Quantity, reach: Array | float = 0.0, jumps: bool = False) -> Array:
        """Return the standard error of an average, given how far the quantity may go from its mean.

        Integrals over a path that do not vary have a bound instead, as they tell nothing about what may have been
        missed. Expectations that do not vary are known.
        """
        if self._expected:
            return replace(self._sums, factor=self._run._sums.factor).error(quantity, self._run._data.sweep_time)
        return self._run._path_error(quantity, reach, jumps)

    def path_error(self, quantity: Quantity, reach: Array | float) -> Array:
        """Return the standard error of what the path has a part in: what does not vary has a bound."""
        return self._run._path_error(quantity, reach, sums=self._sums)

    @cached_property
    def mean(self) -> Array:
        return self.average(self._read("mean"))

    @cached_property
    def mean_se(self) -> Array:
        return self.error(self._read("mean"), self._reach)

    @property
    def _reach(self) -> Array:
        return self._run._reach

    @cached_property
    def variance(self) -> Array:
        return np.maximum(self.average(self._read("square")) - self.mean**2, 0.0)

    @cached_property
    def variance_se(self) -> Array:
        # Around the mean, x^2 - 2 E[x] x has the same fluctuations as (x - E[x])^2 but for those of second order.
        first, second = self._read("mean"), self._read("square")
        return self.error(lambda batch: second(batch) - 2.0 * self.mean * first(batch), self._reach**2)

    @cached_property
    def covariance(self) -> Array:
        """Covariances: of E[x_i | others] with x_j where that is known, so that the origin of x does not matter."""
        d = self.mean.size
        products = self.average(self._read("products")).reshape(d, d)
        return self._symmetric(products - np.outer(self.mean, self._path_mean), self.variance)

    @cached_property
    def covariance_se(self) -> Array:
        first, along, products = self._read("mean"), of_path("mean"), self._read("products")

        def fluctuation(batch: Batch) -> Array:
            crossed = np.outer(first(batch), self._path_mean) + np.outer(self.mean, along(batch))
            own = products(batch).reshape(crossed.shape) - crossed
            return np.asarray(0.5 * (own + own.T)).ravel()

        error = self.error(fluctuation, np.outer(self._reach, self._reach).ravel())
        return self._symmetric(error.reshape(self.mean.size, -1), self.variance_se)

    @cached_property
    def _path_mean(self) -> Array:
        return self.average(of_path("mean"))

    def _symmetric(self, matrix: Array, diagonal: Array) -> Array:
        found = 0.5 * (matrix + matrix.T)
        np.fill_diagonal(found, diagonal)
        return found

    def cells(self, inside: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the probability of each variable to be in one of some cells, (cells,), and its standard error."""
        first, time_in = self._run._cells("first")[:-1], self._read("cell")

        def time(batch: Batch) -> Array:
            return np.asarray(np.add.reduceat(np.where(inside, time_in(batch), 0.0), first))

        can_be = np.logical_or.reduceat(inside, first) & ~np.logical_and.reduceat(inside, first)
        return np.clip(self.average(time), 0.0, 1.0), self.error(time, can_be.astype(np.float64), jumps=True)
