"""Errors of the estimates of E[s_i] and E[s_i s_j]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bouncy.plots.marginals import MARKERS, compare
from bouncy.plots.style import BLACK, axes_or_new, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.enumeration import Exact
    from bouncy.results.spins import SpinRun


def plot_errors(run: SpinRun, exact: Exact, ax: Axes | None = None, shift: float = 0.0) -> Axes:
    """Draw estimate - exact over the exact values, with 95 % bars: about one bar in twenty misses the zero line.

    Call it again on the same axes to add another run, moved sideways by a small `shift` to keep the bars apart.
    """
    ax = axes_or_new(ax)
    for label, truth, estimate, half_width, _ in compare(run, exact):
        ax.errorbar(
            truth + shift,
            estimate - truth,
            yerr=half_width,
            linestyle="",
            marker=MARKERS[label],
            markersize=3,
            color=colour_of(run.sampler.name),
            elinewidth=0.8,
            alpha=0.8,
            label=f"{label}, {run.sampler.name}",
        )
    ax.axhline(0.0, color=BLACK, linewidth=0.8, zorder=0)
    ax.set_xlabel("exact")
    ax.set_ylabel("estimate − exact")
    return ax
