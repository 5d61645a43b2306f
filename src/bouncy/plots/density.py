"""The law of one variable of a continuous or mixed target."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from bouncy.plots.scalars import check_continuous
from bouncy.plots.style import axes_or_new, label_and_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.occupancy import Atom
    from bouncy.results.paths import PathRun

# Bins with less than this share of the probability at either end are not shown.
_NEGLIGIBLE = 1e-4


def plot_density(
    run: PathRun, variable: Hashable = 0, ax: Axes | None = None, *, label: str | None = None, color: str | None = None
) -> Axes:
    """Draw the density of a variable, from the time in bins, and its point masses as bars.

    A probability and a density have no common scale. A bar fills the share of the height of the axes that is its
    probability: a certain value has a bar from bottom to top. Call it again on the same axes to add another run.

    Parameters
    ----------
    run : PathRun
        Of any sampler of continuous targets.
    variable : hashable
        Label of the variable, or its place; the first otherwise.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    label, color : str, optional
        Name in the legend, and colour; those of the sampler otherwise. A bar has its probability in the legend.
    """
    check_continuous(run)
    name, color = label_and_colour(run, label, color)
    edges, density, atoms = run.density(variable)
    ax = axes_or_new(ax)
    if density.size:
        shown = _visible(density * np.diff(edges))
        ends = edges[shown.start : shown.stop + 1]
        ax.stairs(density[shown], ends, fill=True, color=color, alpha=0.25)
        ax.stairs(density[shown], ends, color=color, linewidth=1.4, label=name, baseline=None)
    for atom in atoms:
        _draw_bar(ax, atom, color, name)
    ax.set_xlabel(str(run.target.labels[run.index(variable)]))
    ax.set_ylabel("density" if density.size else "probability")
    return ax


def _visible(probability: np.ndarray) -> slice:
    """Return which bins hold all but a negligible share of the probability in bins, (bins,)."""
    below = np.cumsum(probability) / probability.sum()
    first = int(np.searchsorted(below, _NEGLIGIBLE))
    last = int(np.searchsorted(below, 1.0 - _NEGLIGIBLE))
    return slice(first, min(last, probability.size - 1) + 1)


def _draw_bar(ax: Axes, atom: Atom, color: str, name: str) -> None:
    """Draw a point mass over its value, with its height as a share of that of the axes."""
    ax.plot(
        [atom.value, atom.value],
        [0.0, atom.mass],
        transform=ax.get_xaxis_transform(),
        color=color,
        linewidth=5.0,
        solid_capstyle="butt",
        label=f"P({atom.value:g}) = {atom.mass:.3g}, {name}",
    )
