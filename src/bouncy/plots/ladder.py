"""Refused swaps along the ladder of a tempered run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bouncy.plots.scalars import check_tempered
from bouncy.plots.style import BLACK, BLUE, axes_or_new, colour_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.tempered import TemperedRun


def plot_ladder(run: TemperedRun, ax: Axes | None = None) -> Axes:
    """Draw the share of swaps that are refused between neighbouring rungs, and the barrier that it adds up to.

    Bars reach from rung to rung; a high one is where the ladder is tight. The line is the sum of all shares up to each
    rung, on an axis of its own to the right. It ends at `run.ladder.barrier`, and is steep where rungs must be close.

    Parameters
    ----------
    run : TemperedRun
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    """
    check_tempered(run)
    ax = axes_or_new(ax)
    b, refused = run.ladder["b"], 1.0 - run.ladder["acceptance"][:-1]
    ax.stairs(refused, b, fill=True, color=BLUE, alpha=0.3)
    ax.vlines(b[1:-1], 0.0, np.maximum(refused[1:], refused[:-1]), color="white", linewidth=1.0)
    ax.stairs(refused, b, color=BLUE, linewidth=1.3)
    # Bars of rungs that are very close are too narrow to see.
    ax.plot(0.5 * (b[1:] + b[:-1]), refused, linestyle="", marker="_", markersize=6, color=BLUE)
    ax.set(xlim=(-0.02, 1.02), ylim=(0.0, 1.05), xlabel="inverse temperature b", ylabel="share of swaps refused")
    barrier = ax.twinx()
    barrier.plot(b, np.append(0.0, np.cumsum(refused)), color=BLACK, marker="o", markersize=3.5, linewidth=1.2,
                 clip_on=False)  # fmt: skip
    barrier.set_ylim(0.0, max(1.05 * run.ladder.barrier, 0.05))
    barrier.set_ylabel(f"barrier up to b, {run.ladder.barrier:.1f} in all")
    colour_axis(ax, BLUE, "left")
    colour_axis(barrier, BLACK, "right")
    return ax
