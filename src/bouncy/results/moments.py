"""From the sums that recorders keep to estimates over all chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import fdtrc

from bouncy.recorders.pairs import AllPairs, EdgePairs, NoPairs
from bouncy.recorders.recorder import CLOSED, LENGTH, OPEN
from bouncy.results.batches import Estimate, estimate
from bouncy.run.contract import AnyChain

# Columns that are worked on together: bounds the memory beside that of the sums themselves.
_CHUNK = 1 << 16

Matrix = NDArray[np.float64] | scipy.sparse.csr_array


@dataclass(frozen=True)
class Sums:
    """The batches of all chains, read without disturbing the chains.

    Batches of which some were added up (`factor`) are longer, and there are fewer of them.
    """

    recorders: list[Any]
    sweep_time: float
    closed: int  # full batches of each chain
    length: int  # sweeps of a full batch
    sweeps: int  # sweeps of each chain
    factor: int = 1  # recorded batches that make one of these

    @classmethod
    def of(cls, chains: Sequence[AnyChain]) -> Sums:
        """Let each recorder write its open batch behind the closed ones."""
        tally = chains[0].recorder.tally
        closed, length = int(tally[CLOSED]), int(tally[LENGTH])
        for chain in chains:
            chain.write_open_batch()
        sweeps = closed * length + int(tally[OPEN])
        return cls([chain.recorder for chain in chains], chains[0].sweep_time, closed, length, sweeps)

    def coarser(self, sweeps: float, fewest: int) -> Sums:
        """Return batches of at least so many sweeps, as far as enough of all chains together are left."""
        factor = 1
        while self.length * factor < sweeps and self.closed // (2 * factor) * len(self.recorders) >= fewest:
            factor *= 2
        return replace(self, closed=self.closed // factor, length=self.length * factor, factor=factor)

    def batches(self, rows: NDArray[np.float64], columns: slice) -> NDArray[np.float64]:
        """Return full batches, (batch, k), given some columns of those that one recorder has."""
        full = rows[: self.closed * self.factor, columns]
        return full if self.factor == 1 else full.reshape(self.closed, self.factor, -1).sum(axis=1)

    def rest(self, rows: NDArray[np.float64], columns: slice) -> NDArray[np.float64]:
        """Return what follows the last full batch, (k,)."""
        recorded = self.closed * self.factor
        # The open batch stands behind those that are recorded.
        end = (self.sweeps * self.factor) // self.length + 1
        tail: NDArray[np.float64] = rows[recorded:end, columns].sum(axis=0)
        return tail

    def estimate(self, columns: list[NDArray[np.float64]], per_sweep: float) -> Estimate:
        """Return an estimate from sums of shape (slots, k), one array for each chain."""
        batch, total = per_sweep * self.length, per_sweep * self.sweeps * len(columns)
        width = columns[0].shape[1]
        mean, error, degrees_of_freedom = np.empty(width), np.empty(width), 0
        if not self.sweeps:
            return Estimate(np.full(width, np.nan), np.full(width, np.nan), 0)
        for begin in range(0, width, _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            closed = np.stack([self.batches(rows, chunk) for rows in columns])
            part = estimate(closed, np.stack([self.rest(rows, chunk) for rows in columns]), batch, total)
            mean[chunk], error[chunk] = part.mean, part.standard_error
            degrees_of_freedom = part.degrees_of_freedom
        return Estimate(mean, error, degrees_of_freedom)


def spin_means(sums: Sums) -> Estimate:
    """Return E[s_i] by conditional means at the ends of sweeps."""
    return _clipped(sums.estimate([r.mean for r in sums.recorders], 1.0))


def spin_path_means(sums: Sums) -> Estimate:
    """Return E[s_i] by the plain time average."""
    return _clipped(sums.estimate([r.path for r in sums.recorders], sums.sweep_time))


def event_rates(sums: Sums) -> Estimate:
    """Return hits, flips, bounces and refreshments per unit time."""
    return sums.estimate([r.events for r in sums.recorders], sums.sweep_time)


def disagreement(
    sums: Sums, paths: Callable[[Any], NDArray[np.float64]] = lambda recorder: recorder.path
) -> NDArray[np.float64]:
    """Return, for each site, the probability that chains which agree differ as much as these do.

    One-way analysis of variance of the path means of batches, which `paths` returns of a recorder, with the chains as
    groups. It needs no draws, and sees chains that are stuck in different states.
    """
    n, chains = sums.closed, len(sums.recorders)
    columns = [paths(recorder) for recorder in sums.recorders]
    width = columns[0].shape[1]
    tail = np.ones(width)
    if n < 2 or chains < 2:
        return tail
    for begin in range(0, width, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        batches = np.stack([sums.batches(rows, chunk) for rows in columns])
        within = batches.var(axis=1, ddof=1).mean(axis=0)
        between = n * batches.mean(axis=1).var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(between > 0.0, between / within, 0.0)
        tail[chunk] = fdtrc(chains - 1, chains * (n - 1), ratio)
    return tail


def event_totals(sums: Sums) -> NDArray[np.int64]:
    """Return the numbers of hits, flips, bounces and refreshments of all chains together."""
    everything = slice(None)
    found = [sums.batches(r.events, everything).sum(axis=0) + sums.rest(r.events, everything) for r in sums.recorders]
    totals: NDArray[np.int64] = np.rint(np.sum(found, axis=0)).astype(np.int64)
    return totals


def pair_means(sums: Sums) -> tuple[Matrix, Matrix]:
    """Return E[s_i s_j] by (s_i t_j + s_j t_i)/2, t the conditional means, and its standard error."""
    return _as_matrices(sums, sums.estimate([pairs.mean for pairs in _recorded_pairs(sums)], 1.0))


def pair_path_means(sums: Sums) -> tuple[Matrix, Matrix]:
    """Return E[s_i s_j] by the plain time average, and its standard error."""
    return _as_matrices(sums, sums.estimate([pairs.path for pairs in _recorded_pairs(sums)], sums.sweep_time))


def _recorded_pairs(sums: Sums) -> list[AllPairs | EdgePairs]:
    return [recorder.pairs for recorder in sums.recorders if not isinstance(recorder.pairs, NoPairs)]


def _clipped(result: Estimate) -> Estimate:
    """Return an estimate with means in [-1, 1], in arrays that nobody can change by accident."""
    mean = np.clip(result.mean, -1.0, 1.0)
    mean.flags.writeable = result.standard_error.flags.writeable = False
    return replace(result, mean=mean)


def _as_matrices(sums: Sums, result: Estimate) -> tuple[Matrix, Matrix]:
    pairs = _recorded_pairs(sums)[0]
    if isinstance(pairs, AllPairs):
        d = pairs.open_path.shape[0]
        np.fill_diagonal(result.mean.reshape(d, d), 1.0)
        np.fill_diagonal(result.standard_error.reshape(d, d), 0.0)
        result = _clipped(result)
        return result.mean.reshape(d, d), result.standard_error.reshape(d, d)
    result = _clipped(result)
    return _on_pattern(pairs, result.mean), _on_pattern(pairs, result.standard_error)


def _on_pattern(pairs: EdgePairs, values: NDArray[np.float64]) -> scipy.sparse.csr_array:
    d = pairs.indptr.size - 1
    return scipy.sparse.csr_array((values[pairs.edge], pairs.indices.copy(), pairs.indptr.copy()), shape=(d, d))
