"""Plots of paths and results. Each takes the axes to draw on, or makes some, and returns them; needs matplotlib.

`KINDS` has, by the name that a user asks for, everything that can be drawn of a run alone. Each of its functions

- is called as `function(run, ax=None, **options)`, with all options by keyword, and every option has a default;
- draws on the given axes, or on those of a new figure, and returns the axes (`ax.figure.savefig(...)` writes the file);
- leaves the run as it is;
- raises `ValueError`, `TypeError` or `AttributeError` with a sentence for the user where a run has not what it draws,
  such as flips without `keep="path"`, before it makes a figure.

`plot_run` puts six of them on one figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bouncy.plots.autocorrelation import plot_autocorrelation
from bouncy.plots.curve import plot_curve
from bouncy.plots.density import plot_density
from bouncy.plots.errors import plot_errors
from bouncy.plots.flight import plot_flight, trace_flight
from bouncy.plots.flow import plot_flow
from bouncy.plots.forest import plot_forest
from bouncy.plots.holding_times import plot_holding_times
from bouncy.plots.inclusion import plot_inclusion
from bouncy.plots.ladder import plot_ladder
from bouncy.plots.lattice import plot_lattice
from bouncy.plots.marginals import plot_marginals
from bouncy.plots.overlaps import plot_overlap
from bouncy.plots.overview import plot_run
from bouncy.plots.pairs import plot_pairs
from bouncy.plots.path import plot_path
from bouncy.plots.ranks import plot_rank
from bouncy.plots.signs import plot_signs
from bouncy.plots.traces import plot_trace
from bouncy.plots.trajectory import Trajectory, trace

__all__ = [
    "KINDS",
    "Trajectory",
    "plot_autocorrelation",
    "plot_curve",
    "plot_density",
    "plot_errors",
    "plot_flight",
    "plot_flow",
    "plot_forest",
    "plot_holding_times",
    "plot_inclusion",
    "plot_ladder",
    "plot_lattice",
    "plot_marginals",
    "plot_overlap",
    "plot_pairs",
    "plot_path",
    "plot_rank",
    "plot_run",
    "plot_signs",
    "plot_trace",
    "trace",
    "trace_flight",
]

KINDS: dict[str, Callable[..., Any]] = {
    "trace": plot_trace,
    "rank": plot_rank,
    "marginals": plot_marginals,
    "pairs": plot_pairs,
    "autocorrelation": plot_autocorrelation,
    "holding-times": plot_holding_times,
    "lattice": plot_lattice,
    "overlap": plot_overlap,
    "density": plot_density,
    "inclusion": plot_inclusion,
    "forest": plot_forest,
    "ladder": plot_ladder,
    "curve": plot_curve,
    "flow": plot_flow,
}
