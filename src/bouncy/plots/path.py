"""The particle's path across the walls, in two of its coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.style import EVENT_MARKS, GREY, LIGHT, axes_or_new, colour_of
from bouncy.plots.trajectory import Event, Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


def plot_path(trajectory: Trajectory, i: int = 0, j: int = 1, ax: Axes | None = None) -> Axes:
    """Draw the path in the plane of y_i and y_j with its two walls, and mark the events at its corners.

    Walls of other sites are met too, but cannot be seen from this plane.
    """
    ax = axes_or_new(ax)
    x, y = trajectory.y[:, i], trajectory.y[:, j]
    for draw_wall in (ax.axvline, ax.axhline):
        draw_wall(0.0, color=GREY, linewidth=1.2, zorder=1)
    draw_path(ax, x, y, trajectory.sampler, {kind: _visible(trajectory, kind, i, j) for kind in EVENT_MARKS})
    _name_orthants(ax, x, y)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel(f"$y_{{{i}}}$")
    ax.set_ylabel(f"$y_{{{j}}}$")
    return ax


def draw_path(ax: Axes, x: Array, y: Array, sampler: str, corners: Mapping[Event, NDArray[np.bool_]]) -> None:
    """Draw the line through (x, y), its start, and a mark at the corners of each kind, all of shape (n,)."""
    ax.plot(x, y, color=colour_of(sampler), linewidth=1.0, alpha=0.8, zorder=3, label=sampler)
    ax.plot(x[:1], y[:1], linestyle="", marker="s", markersize=6, color="black", zorder=5, label="start")
    for kind, at in corners.items():
        if at.any():
            ax.plot(x[at], y[at], linestyle="", zorder=4, **EVENT_MARKS[kind])


def _visible(trajectory: Trajectory, kind: Event, i: int, j: int) -> NDArray[np.bool_]:
    """Return which corners, (n,), are of a kind and, if they are at a wall, at that of i or j."""
    visible: NDArray[np.bool_] = (trajectory.kind == kind) & np.isin(trajectory.site, (-1, i, j))
    return visible


def _name_orthants(ax: Axes, x: Array, y: Array) -> None:
    """Centre the walls and write the signs of the two spins into the corners."""
    reach = 1.15 * max(abs(x).max(), abs(y).max())
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    for sign_x, across in ((-1, 0.03), (1, 0.97)):
        for sign_y, up in ((-1, 0.03), (1, 0.97)):
            ax.text(
                across,
                up,
                f"({'−+'[sign_x > 0]}, {'−+'[sign_y > 0]})",
                transform=ax.transAxes,
                ha="left" if sign_x < 0 else "right",
                va="bottom" if sign_y < 0 else "top",
                color=GREY,
                bbox={"facecolor": "white", "edgecolor": LIGHT, "boxstyle": "round,pad=0.2"},
                zorder=5,
            )
