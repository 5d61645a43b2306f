"""Flow of states between reference and target along the ladder of a tempered run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bouncy.plots.scalars import check_tempered
from bouncy.plots.style import GREY, axes_or_new, colour_of
from bouncy.results.describe import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.tempered import TemperedRun


def plot_flow(run: TemperedRun, ax: Axes | None = None) -> Axes:
    """Draw the share of states at each rung that were at the reference last, and not at the target.

    It falls from 1 at the reference to 0 at the target, evenly where states move freely: a sudden fall is where few of
    them get through. The dashed line is the ideal: swaps are refused evenly, and states forget themselves in between.
    With t round trips per scan it goes from 1 - t to t, not from 1 to 0: where no swap is refused, as many states go up
    as down at every rung.

    Parameters
    ----------
    run : TemperedRun
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    """
    check_tempered(run)
    ladder = run.ladder
    if np.isnan(ladder["flow"]).all():
        raise ValueError("no state was at the reference yet; expected a longer run: use run.extend(draws=...)")
    ax = axes_or_new(ax)
    top, rate = len(ladder) - 1, ladder.expected_round_trips / (ladder.scans * ladder.ladders)
    trips, expected = int(ladder.round_trips.sum()), ladder.expected_round_trips * ladder.round_trips.size
    ax.plot([0, top], [1.0 - rate, rate], color=GREY, linewidth=1.3, linestyle="--",
            label=f"ideal, {counted(round(expected), 'round trips')}")  # fmt: skip
    ax.plot(np.arange(top + 1), ladder["flow"], color=colour_of(run.sampler.name), linewidth=1.3, marker="o",
            markersize=4.5, label=f"run, {counted(trips, 'round trips')}")  # fmt: skip
    ax.set(ylim=(-0.03, 1.03), xlabel="rung", ylabel="share of states from the reference")
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="best", fontsize="small")
    return ax
