"""Overlaps of states: how alike the chains are, site by site.

log p, and pair means of a model that is the same with all spins turned, cannot tell a state from its mirror image or
from another of the same log p. The overlap q = (1/d) sum_i s_i s'_i of two states does: between chains that visit the
same states it has the same law as within one chain, at times that are far apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from bouncy.results.ess import effective_sample_size

if TYPE_CHECKING:
    from bouncy.results.spins import SpinRun

Array = NDArray[np.float64]

# Draws and sites that are looked at, equally spaced where there are more: bounds time and memory.
_MOST_DRAWS = 2048
_MOST_SITES = 256
# Autocorrelation times between two draws of a chain that are compared.
_TIMES = 3.0
# Chains and draws that are compared, equally spaced where there are more: the time is that of 28 pairs at most.
_MODES_CHAINS, _MODES_DRAWS = 8, 512
# Two chains are said to be in different modes below this probability, divided by the number of pairs of chains, ...
_CHANCE = 1e-5
# ... and if their states are less alike than those of one chain by this much, and by more than overlaps fluctuate from
# draw to draw: a few free spins that flip in step have noise that autocorrelation times do not show.
_CLEARLY = 0.1
# Largest difference between the overlaps of mirror images.
_MIRRORED = 0.1


@dataclass(frozen=True)
class Overlap:
    """Overlaps between chains, and of each chain with itself later on.

    Attributes
    ----------
    pairs : ndarray of int, shape (pairs, 2)
        The chains a < b that are compared.
    between : ndarray, shape (pairs, draws)
        q_ab at equal draws.
    within : ndarray, shape (chain, draws - lag)
        q of a chain with itself, `lag` draws later.
    mean : ndarray, shape (chain, chain)
        Mean overlap of each pair of chains; on the diagonal that within a chain.
    lag : int
        Draws of the run between the two states that `within` compares: three autocorrelation times of a slow site or of
        the magnetisation, or half of the run where it is too short for that.
    spacing : int
        Draws of the run from one overlap to the next; more than 1 in long runs.
    """

    pairs: NDArray[np.int64]
    between: Array
    within: Array
    mean: Array
    lag: int
    spacing: int

    @property
    def mean_between(self) -> float:
        """Mean over draws and pairs of chains."""
        return float(self.between.mean())

    @property
    def mean_within(self) -> float:
        """Mean over draws and chains."""
        return float(self.within.mean())


def overlap(run: SpinRun) -> Overlap:
    """Return the overlaps between the chains of a run and within each of them.

    The two have the same law where chains have visited the same states. Where they are stuck in different ones, draws
    of one chain are more alike than those of two.

    Parameters
    ----------
    run : SpinRun
        With its draws, at least four of them, and two chains.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.results.overlap import overlap
    >>> run = bouncy.sample(bouncy.MRF.random(10, sigma_r=1.0, seed=0), chains=3, draws=500, seed=0)
    >>> found = overlap(run)
    >>> found.between.shape, found.mean.shape
    ((3, 500), (3, 3))
    >>> abs(found.mean_between - found.mean_within) < 0.1
    True
    """
    return overlap_of(_checked(run.draws))


def overlap_of(draws: NDArray[np.int8]) -> Overlap:
    """Return the overlaps of spins of shape (chain, draw, d); see `overlap`."""
    spacing = -(-draws.shape[1] // _MOST_DRAWS)
    s = draws[:, ::spacing]
    chains, n, d = s.shape
    lag = _lag(s)
    pairs = np.array([(a, b) for a in range(chains) for b in range(a + 1, chains)], dtype=np.int64).reshape(-1, 2)
    between = np.array([_dot(s[a], s[b]) for a, b in pairs]).reshape(-1, n) / d
    within = np.array([_dot(chain[:-lag], chain[lag:]) for chain in s]) / d
    mean = np.diag(within.mean(axis=1))
    mean[pairs[:, 0], pairs[:, 1]] = mean[pairs[:, 1], pairs[:, 0]] = between.mean(axis=1)
    return Overlap(pairs, between, within, mean, lag * spacing, spacing)


def _checked(draws: NDArray[Any]) -> NDArray[np.int8]:
    """Return the draws if they can be compared."""
    if draws.dtype != np.int8:
        raise ValueError(
            "overlaps are of spins, but the run is on a continuous target; compare its means and densities"
        )
    if draws.shape[1] < 4:
        raise ValueError(
            f"the run has kept {draws.shape[1]} draws per chain, and overlaps need at least 4; sample with keep='draws'"
        )
    if draws.shape[0] < 2:
        raise ValueError("the run has 1 chain; expected at least 2 to compare; sample with chains=4")
    return draws


def _dot(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return sum_i a_i b_i of each draw; a product of spins is a spin, but their sum needs more than a byte."""
    return np.asarray((a * b).sum(axis=1, dtype=np.int64))


def _lag(s: NDArray[np.int8]) -> int:
    """Return three autocorrelation times, up to half the length of a chain.

    Of the magnetisation, or of the site that is slower than nine in ten: the slowest of many is mostly one whose time
    was estimated badly. Times are taken in each chain by itself and averaged; with the distance between the chains in
    them, those of chains that are stuck apart would never end. What never moves has none.

    Where nearly every attempt flips its spin, states turn to and fro: their averages converge at once, but two draws
    later a state is nearly what it was. So the same is asked of every other state with its spins turned.
    """
    n = s.shape[1]
    some = s[:, :, :: -(-s.shape[2] // _MOST_SITES)]
    followed = np.concatenate([s.mean(axis=2, keepdims=True), some], axis=2)
    slow = 0.0
    for trace in (followed, followed * (1.0 - 2.0 * (np.arange(n) % 2))[:, None]):
        sizes = np.array([effective_sample_size(chain[None]) for chain in trace])
        times = np.where(np.isnan(sizes), 0.0, n / np.where(np.isnan(sizes), 1.0, sizes)).mean(axis=0)
        slow = max(slow, times[0], np.quantile(times[1:], 0.9))
    return int(np.clip(np.ceil(_TIMES * slow), 1, n // 2))


# Modes: states of one chain are alike, those of two chains are not


@dataclass(frozen=True)
class Modes:
    """Result of comparing the overlaps of chains.

    Attributes
    ----------
    within, between : float
        Mean overlap of two states of one chain that are far apart in time, and of two chains.
    apart : list of (int, int)
        Chains that sit in different modes.
    mirrored : bool
        Whether all of these are mirror images of each other, as far as overlaps tell.
    """

    within: float
    between: float
    apart: list[tuple[int, int]]
    mirrored: bool

    def remarks(self) -> list[str]:
        """Return a sentence if chains sit in different modes."""
        if not self.apart:
            return []
        a, b = self.apart[0]
        head = (
            f"chains sit in different modes, {a} and {b} for example: states of one chain have an overlap of "
            f"{self.within:.2g}, those of different ones {self.between:.2g} on average"
        )
        if self.mirrored:
            return [f"{head}; they are mirror images of each other, which log_prob and pair means cannot tell apart"]
        return [f"{head}, so that each knows a part of the states only"]


def modes_of(draws: NDArray[np.int8]) -> Modes | None:
    """Compare the overlaps between chains with those within them, given spins (chain, draw, d).

    Two chains are in different modes if their mean overlap is below that within both of them by more than its noise,
    which is estimated from the autocorrelation of the overlaps. Chains that move between modes, however slowly, have
    overlaps with much noise and are not accused here; R-hat tells of them.

    Returns None for a single chain, or fewer than eight draws.
    """
    if draws.shape[0] < 2 or draws.shape[1] < 8:
        return None
    chosen = np.unique(np.linspace(0, draws.shape[0] - 1, min(draws.shape[0], _MODES_CHAINS)).round().astype(int))
    found = overlap_of(draws[chosen][:, :: -(-draws.shape[1] // _MODES_DRAWS)])
    apart = np.flatnonzero(_are_apart(found))
    a, b = found.pairs.T
    own = 0.5 * (found.mean[a, a] + found.mean[b, b])
    mirrored = bool((np.abs(found.mean[a, b] + own)[apart] < _MIRRORED).all())
    pairs = [(int(chosen[i]), int(chosen[j])) for i, j in found.pairs[apart]]
    return Modes(found.mean_within, found.mean_between, pairs, mirrored)


def _are_apart(found: Overlap) -> NDArray[np.bool_]:
    """Return, for each pair of chains, whether their states are less alike than those within one, beyond chance.

    The noise of a mean is itself known from a few excursions only where those are few, so that the quantile is
    Student's, of as many degrees of freedom as the least effective sample size.
    """
    a, b = found.pairs.T
    own = np.diag(found.mean)
    (within, size), (between, size_between) = _noise(found.within), _noise(found.between)
    degrees = np.maximum(np.minimum.reduce([size_between, size[a], size[b]]) - 1.0, 1.0)
    noise = np.sqrt(between + 0.25 * (within[a] + within[b]))
    gap = 0.5 * (own[a] + own[b]) - found.between.mean(axis=1)
    spread = np.maximum(found.between.std(axis=1), _CLEARLY)
    return np.asarray(gap > np.maximum(-stdtrit(degrees, _CHANCE / len(a)) * noise, spread))


def _noise(series: Array) -> tuple[Array, Array]:
    """Return the variance of the mean of each row, by its autocorrelation, and the effective sample size, both (k,)."""
    sizes = effective_sample_size(series.T[None])
    sizes = np.where(np.isnan(sizes), series.shape[1], sizes)  # of what is constant
    return series.var(axis=1) / sizes, sizes
