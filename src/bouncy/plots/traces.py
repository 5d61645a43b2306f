"""Traces: a scalar against the draw number."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.scalars import scalar_of
from bouncy.plots.style import axes_or_new, chain_colours, name_chains

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.run import Run

Array = NDArray[np.float64]

# Segments of a long trace whose extremes are drawn: more than there are pixels.
_STRETCHES = 1000
# Segments whose means make the bold line.
_MEANS = 40


def plot_trace(run: Run, what: Hashable = "log_prob", ax: Axes | None = None) -> Axes:
    """Draw a number against the number of the draw, in a colour for each chain.

    The pale line of a chain goes through every draw or, of more than 2000 draws, through the least and the greatest of
    each of a thousand stretches, so that nothing that sticks out is lost. The bold line goes through the means of forty
    stretches: chains that sample the same law have bold lines that cross each other again and again.

    Parameters
    ----------
    run : Run
    what : hashable
        "log_prob"; of spins, "magnetisation" or "|magnetisation|"; or the label or place of a site.
    ax : Axes, optional
        Where to draw; a new figure otherwise.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.plots import plot_trace
    >>> run = bouncy.sample(bouncy.MRF.random(5, seed=0), draws=200, seed=0)
    >>> plot_trace(run, "magnetisation").get_ylabel()
    'magnetisation'
    """
    name, values, spacing = scalar_of(run, what)
    ax = axes_or_new(ax)
    draw = spacing * np.arange(values.shape[1])
    colours = chain_colours(values.shape[0])
    paleness = max(0.3 / max(1.0, len(colours) / 4), 0.05)  # paler with many chains, to keep the bold lines visible
    for trace, colour in zip(values, colours, strict=True):
        ax.plot(*_envelope(draw, trace), color=colour, linewidth=0.5, alpha=paleness, zorder=2)
    for k, (trace, colour) in enumerate(zip(values, colours, strict=True)):
        middles, means = _means(draw, trace)
        ax.plot(middles, means, color=colour, linewidth=1.5, zorder=3, label=f"chain {k}")
    ax.set_xlim(0, draw[-1])
    ax.set_xlabel("draw")
    ax.set_ylabel(name)
    name_chains(ax)
    return ax


def _envelope(x: NDArray[np.int64], y: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the points of a line that looks the same: of long ones, the extremes of each segment in order."""
    if y.size <= 2 * _STRETCHES:
        return x, y
    starts = np.linspace(0, y.size, _STRETCHES, endpoint=False).astype(np.int64)
    ends = np.append(starts[1:], y.size)
    kept = [sorted((a + int(y[a:b].argmin()), a + int(y[a:b].argmax()))) for a, b in zip(starts, ends, strict=True)]
    points = np.array(kept).ravel()
    return x[points], y[points]


def _means(x: NDArray[np.int64], y: Array) -> tuple[Array, Array]:
    """Return the middles and the means of segments of equal length, each of several draws."""
    starts = np.linspace(0, y.size, min(_MEANS, max(y.size // 4, 1)), endpoint=False).astype(np.int64)
    lengths = np.diff(np.append(starts, y.size))
    return np.add.reduceat(x, starts) / lengths, np.add.reduceat(y, starts) / lengths
