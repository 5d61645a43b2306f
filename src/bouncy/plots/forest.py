"""Forest plot: posteriors of many variables, one row for each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.inclusion import name_rows, places
from bouncy.plots.scalars import check_continuous
from bouncy.plots.style import GREY, axes_or_new, label_and_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.paths import PathRun

# Intervals that are drawn, as widths of lines and probabilities.
_INTERVALS = ((1.0, 0.95), (3.5, 0.5))
# Area in points^2 of the disc of a value that is certain to be zero.
_CERTAIN = 120.0


def plot_forest(
    run: PathRun,
    variables: Sequence[Hashable] | None = None,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    color: str | None = None,
    shift: float = 0.0,
) -> Axes:
    """Draw the posterior of each variable as a row: mean, central 50 % and 95 %, and a disc for its mass at zero.

    The area of the disc is in proportion to the probability of being exactly zero, and intervals are of the whole law,
    that mass included. Call it again on the same axes to add another run, with the same `variables` and a small
    `shift` downwards.

    Parameters
    ----------
    run : PathRun
        Of any continuous target; those without mass at zero have no discs.
    variables : sequence, optional
        Labels or places of the variables to show, from the top; all of them otherwise.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    label, color : str, optional
        Name in the legend, and colour; those of the sampler otherwise.
    shift : float
        By how much of a row the lines lie below its middle.
    """
    check_continuous(run)
    label, color = label_and_colour(run, label, color)
    rows = places(run, variables)
    ax = axes_or_new(ax)
    height = np.arange(rows.size) + shift
    ax.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for width, level in _INTERVALS:
        ends = run.quantile([(1.0 - level) / 2.0, (1.0 + level) / 2.0])[0][:, rows]
        ax.hlines(height, ends[0], ends[1], color=color, linewidth=width)
    ax.plot(
        run.mean[rows],
        height,
        linestyle="",
        marker="o",
        markersize=5,
        markerfacecolor="white",
        color=color,
        label=label,
        zorder=4,
    )
    at_zero = _mass_at_zero(run)[rows]
    if at_zero.any():
        discs = ax.scatter(np.zeros(rows.size), height, s=_CERTAIN * at_zero, color=color, alpha=0.35, linewidth=0)
        discs.set(zorder=3, label=f"{label}: mass at zero")
    name_rows(ax, run, rows)
    ax.set_xlabel("posterior: mean, central 50 % and 95 %")
    return ax


def _mass_at_zero(run: PathRun) -> NDArray[np.float64]:
    """Return P(x_i = 0), (d,)."""
    laws = [run.density(label) for label in run.target.labels]
    return np.array([sum(atom.mass for atom in law.atoms if atom.value == 0.0) for law in laws])
