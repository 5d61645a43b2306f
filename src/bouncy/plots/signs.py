"""Spins in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bouncy.plots.style import EVENT_MARKS, LIGHT, axes_or_new, colour_of
from bouncy.plots.trajectory import Event, Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distance between the lines of two spins, each of height 2.
_SPACING = 3.2


def plot_signs(trajectory: Trajectory, sites: Sequence[int] = (0, 1), ax: Axes | None = None) -> Axes:
    """Draw s_i(t) of some sites as step lines, the first on top, and mark the attempts to flip them."""
    ax = axes_or_new(ax)
    levels = [_SPACING * (len(sites) - 1 - row) for row in range(len(sites))]
    for site, level in zip(sites, levels, strict=True):
        ax.axhline(level, color=LIGHT, linewidth=0.8, zorder=1)
        s = trajectory.s[:, site] + level
        ax.step(trajectory.time, s, where="post", color=colour_of(trajectory.sampler), linewidth=1.6, zorder=2)
        _mark_attempts(ax, trajectory, site, level)
    ax.set_yticks(
        [level + s for level in levels for s in (-1, 1)],
        [f"$s_{{{site}}}={s:+d}$" for site in sites for s in (-1, 1)],
    )
    ax.set_ylim(-1.6, levels[0] + 1.6)
    ax.set_xlim(0.0, trajectory.time[-1])
    ax.set_xlabel("time (units of the clock, speed 1)")
    return ax


def _mark_attempts(ax: Axes, trajectory: Trajectory, site: int, level: float) -> None:
    """Put crossings halfway up the step that they make, and refusals on the line that goes on."""
    for kind in (Event.CROSSING, Event.REFUSAL):
        at = (trajectory.kind == kind) & (trajectory.site == site)
        if at.any():
            height = trajectory.s[at, site] * (kind == Event.REFUSAL) + level
            ax.plot(trajectory.time[at], height, linestyle="", zorder=3, **EVENT_MARKS[kind])
