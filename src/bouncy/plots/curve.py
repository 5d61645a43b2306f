"""Energy and heat capacity along the ladder of a tempered run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bouncy.plots.scalars import check_tempered, half_width
from bouncy.plots.style import BLUE, VERMILION, axes_or_new, colour_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.tempered import Array, TemperedRun

# Values of b that a curve is drawn through.
_POINTS = 61


def plot_curve(run: TemperedRun, ax: Axes | None = None, b: ArrayLike | None = None) -> Axes:
    """Draw energy, -E[log p], and heat capacity, b^2 Var[log p], under p^b against b, with 95 % bands.

    The energy has the left axis and the heat capacity the right one. Lines are those of `run.curve`; dots are the
    averages of each rung by itself. With another reference q than the uniform one, log p - log q takes the place of
    log p, and q^(1 - b) p^b that of p^b, as the axes say.

    Parameters
    ----------
    run : TemperedRun
        With the draws that `run.curve` needs.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    b : array_like, optional
        Where the curves are computed, rising from 0 to 1 at most; at 61 even places otherwise.
    """
    check_tempered(run)
    curve = run.curve(np.linspace(0.0, 1.0, _POINTS) if b is None else b)
    ladder = run.ladder
    fitted = run.sampler.fields is not None
    what, law = (r"\log p - \log q", r"q^{1-b}\,p^{\,b}") if fitted else (r"\log p", r"p^{\,b}")
    ax = axes_or_new(ax)
    heat = ax.twinx()
    _draw(ax, run, BLUE, "o", curve.b, -curve.mean, curve.mean_se, (ladder["b"], -ladder["mean"]))
    _draw(heat, run, VERMILION, "s", curve.b, curve.b**2 * curve.variance, curve.b**2 * curve.variance_se,
          (ladder["b"], ladder["b"] ** 2 * ladder["variance"]))  # fmt: skip
    heat.set_ylim(0.0, max(heat.get_ylim()[1], 1e-3))
    ax.set(xlim=(-0.02, 1.02), xlabel=f"inverse temperature b of ${law}$")
    ax.set_ylabel(f"energy, $-E[{what}]$")
    heat.set_ylabel(rf"heat capacity, $b^2\,\mathrm{{Var}}[{what}]$")
    colour_axis(ax, BLUE, "left")
    colour_axis(heat, VERMILION, "right")
    return ax


def _draw(
    ax: Axes, run: Any, colour: str, marker: str, x: Array, y: Array, error: Array, rungs: tuple[Array, Array]
) -> None:
    """Draw a curve with its band, and the averages of the rungs."""
    half = half_width(run, error)
    ax.fill_between(x, y - half, y + half, color=colour, alpha=0.25, linewidth=0)
    ax.plot(x, y, color=colour, linewidth=1.5)
    ax.plot(*rungs, linestyle="", marker=marker, markersize=3.5, color=colour, markeredgecolor="white",
            markeredgewidth=0.5, clip_on=False)  # fmt: skip
