"""Rank histograms: ranks of the draws of each chain among those of all chains."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bouncy._validation import check_count
from bouncy.plots.scalars import chains_or_halves, scalar_of
from bouncy.plots.style import BLACK, LIGHT, axes_or_new, chain_colours
from bouncy.results.ess import effective_sample_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.run import Run

Array = NDArray[np.float64]

# Height of the tallest bar, as a share of the distance between two chains.
_HEIGHT = 0.9
# Bars of up to this many times the expected height always fit.
_LEAST = 1.6


class RankHistogram(NamedTuple):
    """Histogram of the ranks of each chain, with the range expected of chains that sample the same law.

    Attributes
    ----------
    edges : ndarray, shape (bins + 1,)
        Ranks, from 0 to the number of all draws.
    ratio : ndarray, shape (chain, bins)
        Draws in a bin divided by those expected, so that 1 is expected everywhere.
    half_width : ndarray, shape (bins,)
        Of the range around 1 in which a ratio lies with a probability of 95 %.
    """

    edges: Array
    ratio: Array
    half_width: Array


def plot_rank(run: Run, what: Hashable = "log_prob", ax: Axes | None = None, *, bins: int = 20) -> Axes:
    """Draw a histogram of the ranks of each chain's draws among all draws (Vehtari et al. 2021), chain by chain.

    Chains that sample the same law have flat histograms, at the height of the black line. One that leans to a side is
    higher or lower than the others; one that is hollow or humped is wider or narrower. A single chain is cut into
    halves that are compared with each other.

    The grey band holds 95 % of the bars of chains that agree, so that about one bar in twenty leaves it by chance.
    Draws of a chain depend on each other, and a band for independent ones would be too narrow. Here the variance of the
    time in a bin is divided by its effective sample size, taken in each chain by itself: with the distance between
    the chains in it, chains that are stuck apart would widen the band that is to show them. It is as reliable as that
    effective sample size, and too narrow where a chain has not moved often enough to know it.

    Equal values share their ranks evenly: each of g draws that are equal counts as 1/g of a draw at each of the g ranks
    that they hold together, which is the mean over all ways to break the ties.

    Parameters
    ----------
    run : Run
    what : hashable
        "log_prob"; of spins, "magnetisation" or "|magnetisation|"; or the label or place of a site.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    bins : int
        Number of bars of each chain.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021). Rank-normalization, folding, and localization: an improved
    R-hat for assessing convergence of MCMC. Bayesian Analysis 16, 667-718.
    """
    name, values, _ = scalar_of(run, what)
    values, names = chains_or_halves(values)
    edges, ratio, half_width = rank_histogram(values, bins)
    ax = axes_or_new(ax)
    unit = _HEIGHT / max(ratio.max(), 1.0 + half_width.max(), _LEAST)
    for k, colour in enumerate(chain_colours(len(names))):
        bottom = len(names) - 1.0 - k
        low, high = (bottom + unit * np.maximum(1.0 + side * half_width, 0.0) for side in (-1.0, 1.0))
        ax.stairs(bottom + unit * ratio[k], edges, baseline=bottom, fill=True, color=colour, alpha=0.55, zorder=2)
        ax.stairs(high, edges, baseline=low, fill=True, color=LIGHT, alpha=0.6, zorder=1)
        ax.stairs(high, edges, baseline=None, color=BLACK, alpha=0.35, linewidth=0.6, zorder=3)
        ax.stairs(low, edges, baseline=None, color=BLACK, alpha=0.35, linewidth=0.6, zorder=3)
        ax.axhline(bottom + unit, color=BLACK, linewidth=0.8, zorder=3)
    ax.set_yticks(len(names) - 1.0 - np.arange(len(names)) + unit, names)
    ax.set_xlim(edges[0], edges[-1])
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylim(0.0, len(names))
    ax.set_xlabel(f"rank of {name} among all draws")
    return ax


def rank_histogram(values: Array, bins: int = 20) -> RankHistogram:
    """Return the histogram of the ranks of a trace, (chain, draw), in bins of equal length."""
    bins = check_count("bins", bins, 2)
    chains = values.shape[0]
    edges = np.linspace(0.0, values.size, bins + 1)
    first, last = _rank_spans(values)
    ratio, variance = np.empty((chains, bins)), np.zeros(bins)
    for k in range(chains):
        inside = _share_of_bins(first[k], last[k], edges)
        ratio[k] = bins * inside.mean(axis=0)
        variance += _variance_of_mean(inside) / chains
    # The mean over chains is 1 by construction, which takes its share from the spread around it.
    spread = bins * np.sqrt(variance * (1.0 - 1.0 / chains))
    return RankHistogram(edges, ratio, ndtri(0.975) * spread)


def _rank_spans(values: Array) -> tuple[Array, Array]:
    """Return the ends of the span of ranks, from 0 to the number of values, that each value shares with its equals."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts).astype(np.float64)
    inverse = inverse.reshape(values.shape)
    return (ends - counts)[inverse], ends[inverse]


def _share_of_bins(first: Array, last: Array, edges: Array) -> Array:
    """Return which share of each span of ranks, (draw,), lies in each bin, (draw, bins)."""
    overlap = np.minimum(last[:, None], edges[1:]) - np.maximum(first[:, None], edges[:-1])
    share: Array = np.maximum(overlap, 0.0) / (last - first)[:, None]
    return share


def _variance_of_mean(x: Array) -> Array:
    """Return the variance of the mean of each column of one chain, (draw, k); 0 where nothing changes."""
    size = effective_sample_size(x[None])
    return np.where(np.isnan(size), 0.0, x.var(axis=0, ddof=1) / np.where(np.isnan(size), 1.0, size))
