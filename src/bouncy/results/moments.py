"""From the sums that chains have recorded to estimates over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import fdtrc

from bouncy.recorders.batches import Batch, batch_length
from bouncy.recorders.contract import MEANS
from bouncy.recorders.tracked import Tracked
from bouncy.results.batches import standard_error

# Columns that are worked on together: bounds the memory beside that of the sums themselves.
_CHUNK = 1 << 16
# Batches that differ by no more than this, relative to what they could, differ by rounding.
_STILL = 1e-9

Array = NDArray[np.float64]
Matrix = Array | scipy.sparse.csr_array
# What is estimated: the sums over a batch, (k,), given all that it recorded.
Quantity = Callable[[Batch], Array]
# What a mean is a sum over: so much for each step, or what a batch says itself, (1,).
Weight = float | Quantity


def recorded(name: str) -> Quantity:
    """Return what reads the sums of a name."""
    return lambda batch: batch[name]


def total(first: Quantity, second: Quantity) -> Quantity:
    """Return what reads the sum of two quantities."""
    return lambda batch: first(batch) + second(batch)


def means_recorded(batch: Batch) -> Array:
    """Return how many times the conditional means of spins were recorded in a batch, (1,)."""
    return batch["events"][MEANS:]


@dataclass(frozen=True)
class Sums:
    """Batches of equal length of all chains, and what follows the last of them.

    Attributes
    ----------
    closed : list of sequences
        Closed batches of each chain, as they were recorded.
    open : list of Batch
        Sums over the open batch of each chain.
    steps : int
        Sweeps, or draws, of each chain.
    recorded_length : int
        Steps of a closed batch.
    factor : int
        Closed batches that make one batch of the estimates.
    """

    closed: Sequence[Sequence[Batch]]
    open: Sequence[Batch]
    steps: int
    recorded_length: int
    factor: int = 1

    @classmethod
    def of_tracked(cls, tracked: Tracked, factor: int = 1) -> Sums:
        """Return the sums of a function that was followed."""
        closed = [batches.closed for batches in tracked.batches]
        length = batch_length(tracked.count, tracked.batches[0].most)
        return cls(closed, [{"f": row} for row in tracked.open], tracked.count, length, factor)

    @property
    def chains(self) -> int:
        return len(self.closed)

    @property
    def batches(self) -> int:
        """Batches of each chain."""
        return len(self.closed[0]) // self.factor

    @property
    def length(self) -> int:
        """Steps of a batch."""
        return self.recorded_length * self.factor

    def of(self, chains: Sequence[int]) -> Sums:
        """Return the batches of some chains, by their places."""
        return replace(self, closed=[self.closed[k] for k in chains], open=[self.open[k] for k in chains])

    def coarser(self, steps: float, fewest: int) -> Sums:
        """Return batches of at least so many steps, as far as enough of all chains together are left."""
        found = self
        while found.length < steps and found.batches // 2 * self.chains >= fewest:
            found = replace(found, factor=2 * found.factor)
        return found

    @property
    def degrees_of_freedom(self) -> int:
        """Of the Student distribution that (mean - truth) / standard error follows when batches are long enough."""
        return max(self.batches * self.chains - 1, 0)

    def mean(self, quantity: Quantity, weight: Weight) -> Array:
        """Return the mean of a quantity over all steps; NaN where there are none."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._total(quantity) / self._whole(weight))

    def _total(self, quantity: Quantity) -> Array:
        return np.asarray(sum(quantity(batch) for chain in (*self.closed, self.open) for batch in chain))

    def _whole(self, weight: Weight) -> float:
        """Return the weight of all steps."""
        return float(self._total(weight)[0]) if callable(weight) else weight * self.steps * self.chains

    def of_chains(self, quantity: Quantity) -> Array:
        """Return the sums of a quantity over all steps of each chain, (chain, k)."""
        each = zip(self.closed, self.open, strict=True)
        return np.array([np.sum([quantity(batch) for batch in (*closed, last)], axis=0) for closed, last in each])

    def error(self, quantity: Quantity, weight: Weight) -> Array:
        """Return the standard error of the mean of a quantity; NaN where there are fewer than two batches."""
        width = quantity(self.open[0]).size
        error = np.full(width, np.nan)
        if self.degrees_of_freedom > 0:
            rows, total = self._rows(quantity), self._whole(weight)
            if callable(weight):
                weights = self._full(self._rows(weight), slice(None)).ravel()
            else:
                weights = np.full(self.batches * self.chains, weight * self.length)
            for begin in range(0, width, _CHUNK):
                chunk = slice(begin, begin + _CHUNK)
                error[chunk] = standard_error(self._full(rows, chunk).reshape(-1, error[chunk].size), weights, total)
        return error

    def path_error(
        self, quantity: Quantity, per_step: float, reach: Array | float, shortest: float, excursion: float
    ) -> Array:
        """Return the standard error of a time average, which is positive even where batches do not vary.

        Batches of a site that never moved, or moved only after the last of them, are all alike and would give an error
        of zero; those of one that moved once for a moment, little more. But the number of excursions from its usual
        value is that of rare events, and k of them are known up to one, at best: under a flat prior the standard
        deviation of their rate is sqrt(k + 1) / steps. So the error is never less than that of one more excursion and,
        where batches are alike, includes all that was seen after the last of them.

        Parameters
        ----------
        quantity, per_step
            As of `error`.
        reach : ndarray or float
            How far the quantity may go from its mean; 0 where it is known to have one value.
        shortest : float
            Steps that an excursion lasts at least.
        excursion : float
            Steps that it may last for all we know, where none was seen.
        """
        error, total = self.error(quantity, per_step), self.steps * self.chains
        far = np.broadcast_to(np.asarray(reach, dtype=np.float64), error.shape)
        still = (error <= _STILL * far) & (far > 0.0)
        error = np.maximum(error, far * min(shortest / total, 1.0)) if total else error
        if still.any():
            n = self.batches * self.factor
            inside = sum(quantity(batch) for chain in self.closed for batch in chain[:n])
            typical = inside / (per_step * self.recorded_length * n * self.chains)
            bound = np.abs(self.mean(quantity, per_step) - typical) + far * min(excursion / total, 1.0)
            error[still] = bound[still]
        return error

    def _rows(self, quantity: Quantity) -> list[list[Array]]:
        return [[quantity(batch) for batch in batches] for batches in self.closed]

    def _full(self, rows: list[list[Array]], columns: slice) -> Array:
        """Return full batches of some columns, (chain, batch, k)."""
        closed = np.array([[row[columns] for row in chain[: self.batches * self.factor]] for chain in rows])
        if self.factor == 1:
            return closed
        return np.asarray(closed.reshape(self.chains, self.batches, self.factor, -1).sum(axis=2))

    def full(self, quantity: Quantity) -> Array:
        """Return the sums of a quantity over full batches, (chain, batch, k)."""
        return self._full(self._rows(quantity), slice(None))

    def best_share(self, first: str, second: str, where: NDArray[np.bool_]) -> float:
        """Return the share a in [0, 1] for which (1 - a) first + a second has the smallest squared error.

        Both are sums with the same mean, by name, and `where`, (k,), says which of their entries count. One share for
        all of them, by least squares over all batches: many entries leave it little freedom, and next to no bias.
        """
        rows = [self._rows(lambda batch, name=name: batch[name]) for name in (first, second)]  # type: ignore[misc]
        product = square = 0.0
        if self.degrees_of_freedom == 0:
            return 0.0
        for begin in range(0, where.size, _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            one, other = (self._full(row, chunk).reshape(-1, where[chunk].size)[:, where[chunk]] for row in rows)
            difference = other - one
            difference = difference - difference.mean(axis=0)
            product -= float(np.sum(difference * (one - one.mean(axis=0))))
            square += float(np.sum(difference**2))
        return float(np.clip(product / square, 0.0, 1.0)) if square > 0.0 else 0.0

    def disagreement(self, quantity: Quantity) -> Array:
        """Return, for each entry of a quantity, the probability that chains which agree differ as much as these do.

        One-way analysis of variance of its batches, with the chains as groups. It needs no draws, and sees chains that
        are stuck in different states.
        """
        width = quantity(self.open[0]).size
        tail = np.ones(width)
        if self.batches < 2 or self.chains < 2:
            return tail
        rows = self._rows(quantity)
        for begin in range(0, width, _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            batches = self._full(rows, chunk)
            within = batches.var(axis=1, ddof=1).mean(axis=0)
            between = self.batches * batches.mean(axis=1).var(axis=0, ddof=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(between > 0.0, between / within, 0.0)
            tail[chunk] = fdtrc(self.chains - 1, self.chains * (self.batches - 1), ratio)
        return tail

    def totals(self, name: str) -> NDArray[np.int64]:
        """Return counts of all chains together, by the name of what was counted."""
        counts = [batch[name] for chain in self.closed for batch in chain] + [batch[name] for batch in self.open]
        found: NDArray[np.int64] = np.rint(np.sum(counts, axis=0)).astype(np.int64)
        return found


def spread(without: Array) -> Array:
    """Return the standard error by the jackknife, given estimates without each of n batches, (n, ...)."""
    n = len(without)
    return np.asarray(np.sqrt((n - 1) * np.var(without, axis=0)))


def as_matrix(values: Array, pattern: Mapping[str, NDArray[Any]], diagonal: float) -> Matrix:
    """Return numbers of pairs as a read-only matrix, sparse where `pattern` says which pairs there are."""
    if "pairs.indptr" not in pattern:
        d = round(np.sqrt(values.size))
        np.fill_diagonal(values.reshape(d, d), diagonal)
        values.flags.writeable = False
        return values.reshape(d, d)
    indptr, indices = pattern["pairs.indptr"], pattern["pairs.indices"]
    d = indptr.size - 1
    return scipy.sparse.csr_array((values[pattern["pairs.edge"]], indices.copy(), indptr.copy()), shape=(d, d))
