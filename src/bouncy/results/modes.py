"""Whether chains sit in different modes: states of one chain are alike, those of two are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from bouncy.results.ess import effective_sample_size
from bouncy.results.overlap import Overlap, overlap_of

Array = NDArray[np.float64]

# Chains and draws that are compared, equally spaced where there are more: the time is that of 28 pairs at most.
_MOST_CHAINS, _MOST_DRAWS = 8, 512
# Two chains are said to be in different modes below this probability, divided by the number of pairs of chains, ...
_CHANCE = 1e-5
# ... and if their states are less alike than those of one chain by this much, and by more than overlaps fluctuate from
# draw to draw: a few free spins that flip to and fro in step have noise that no autocorrelation time tells of.
_CLEARLY = 0.1
# Overlaps of mirror images are so far from one another at most.
_MIRRORED = 0.1


@dataclass(frozen=True)
class Modes:
    """What the overlaps of chains tell.

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
            return [f"{head}; they are mirror images of each other, which energies and pair means cannot tell apart"]
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
    chosen = np.unique(np.linspace(0, draws.shape[0] - 1, min(draws.shape[0], _MOST_CHAINS)).round().astype(int))
    found = overlap_of(draws[chosen][:, :: -(-draws.shape[1] // _MOST_DRAWS)])
    apart = np.flatnonzero(_are_apart(found))
    a, b = found.pairs.T
    own = 0.5 * (found.mean[a, a] + found.mean[b, b])
    mirrored = bool((np.abs(found.mean[a, b] + own)[apart] < _MIRRORED).all())
    pairs = [(int(chosen[i]), int(chosen[j])) for i, j in found.pairs[apart]]
    return Modes(found.mean_within, found.mean_between, pairs, mirrored)


def _are_apart(found: Overlap) -> NDArray[np.bool_]:
    """Return of which pairs of chains states are less alike than those of one of them, by more than chance allows.

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
