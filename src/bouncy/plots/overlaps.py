"""Overlaps of states between chains and within a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.style import BLACK, GREY, axes_or_new, colour_of
from bouncy.results.overlap import Overlap, overlap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.spins import SpinRun

# Bars over the range of overlaps that were seen; fewer where there are not so many different values.
_BINS = 40


def plot_overlap(run: SpinRun, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the overlap q = (1/d) sum_i s_i s'_i between chains, and within a chain.

    Filled, the overlaps of all pairs of chains, draw by draw; as a line, those of each chain with itself several
    autocorrelation times later. Where chains visit the same states the two have the same shape. Where each is stuck
    in a state of its own, the line stands at the overlap of a state with itself, the filled bars elsewhere, and a
    mirror image at its negative: nothing that is the same for a state and its mirror image could show that. The dots
    on top are the means of the pairs of chains: in several groups they tell which chains differ.

    A picture of one number for each pair would hide that chains which change places between two modes have a mean
    overlap near 0, just as those that know no modes at all; the distributions of the two differ.

    Parameters
    ----------
    run : SpinRun
        With its draws and at least two chains.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    """
    found = overlap(run)
    ax = axes_or_new(ax)
    edges = _edges(found, run.target.d)
    colour = colour_of(run.sampler.name)
    heights = [np.histogram(q, edges, density=True)[0] for q in (found.between, found.within)]
    ax.stairs(heights[0], edges, fill=True, color=colour, alpha=0.45,
              label=f"between chains, mean {_rounded(found.mean_between)}")  # fmt: skip
    ax.stairs(heights[1], edges, color=BLACK, linewidth=1.3,
              label=f"within a chain, mean {_rounded(found.mean_within)}\n({found.lag} draws apart)")  # fmt: skip
    top = 1.12 * max(height.max() for height in heights)
    means = found.between.mean(axis=1)
    ax.plot(means, np.full(means.size, top), linestyle="", marker="o", markersize=5, color=colour,
            markeredgecolor="white", markeredgewidth=0.5, clip_on=False, label="mean of a pair of chains")  # fmt: skip
    ax.plot([0.0, 0.0], [0.0, top], color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylim(0.0, 1.45 * top)
    ax.set_xlim(*_limits(edges))
    ax.set_xlabel("overlap q of two states")
    ax.set_ylabel("density")
    ax.legend(loc="upper left", fontsize="small")
    return ax


def _rounded(q: float) -> str:
    return f"{round(q, 2) + 0.0:.2f}"  # without the sign of a zero


def _edges(found: Overlap, d: int) -> NDArray[np.float64]:
    """Return the ends of bins over all overlaps: they are multiples of 2/d, and every bin has as many of those."""
    seen = np.concatenate([found.between.ravel(), found.within.ravel()])
    first, last = round((1.0 + seen.min()) * d / 2.0), round((1.0 + seen.max()) * d / 2.0)
    values = -(-(last - first + 1) // _BINS)
    bins = -(-(last - first + 1) // values)
    edges: NDArray[np.float64] = -1.0 + (2.0 * (first + values * np.arange(bins + 1)) - 1.0) / d
    return edges


def _limits(edges: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the axis: somewhat more than the bins, and no narrower than half of what there may be."""
    room = max(0.05 * (edges[-1] - edges[0]), 0.5 - 0.5 * (edges[-1] - edges[0]))
    return max(edges[0] - room, min(-1.05, edges[0])), min(edges[-1] + room, max(1.05, edges[-1]))
