"""Plots of paths and results. Each takes the axes to draw on, or makes some, and returns them; needs matplotlib."""

from __future__ import annotations

from bouncy.plots.density import plot_density
from bouncy.plots.errors import plot_errors
from bouncy.plots.flight import plot_flight, trace_flight
from bouncy.plots.forest import plot_forest
from bouncy.plots.inclusion import plot_inclusion
from bouncy.plots.lattice import plot_lattice
from bouncy.plots.marginals import plot_marginals
from bouncy.plots.path import plot_path
from bouncy.plots.signs import plot_signs
from bouncy.plots.trajectory import Trajectory, trace

__all__ = [
    "Trajectory",
    "plot_density",
    "plot_errors",
    "plot_flight",
    "plot_forest",
    "plot_inclusion",
    "plot_lattice",
    "plot_marginals",
    "plot_path",
    "plot_signs",
    "trace",
    "trace_flight",
]
