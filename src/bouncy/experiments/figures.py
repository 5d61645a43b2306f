"""The figures of the paper, redrawn, and three views of single chains; needs matplotlib.

A sampler has its own colour everywhere. Estimators differ by filling: plain ones are solid, others hatched or pale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from bouncy.experiments.analysis import EDITIONS, SAMPLERS, Bar, Cell, Errors, Summary, group, summarise
from bouncy.plots.style import GREY, SETTINGS, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.experiments.ledger import Row
    from bouncy.experiments.settings import Settings
    from bouncy.experiments.views import View, Views

_WIDTH = 8.0  # inches; 1200 pixels at the resolution of style.SETTINGS
_TITLES = {"published": "As published", "ours": "Ours"}
_STYLE: dict[Any, Any] = {
    **SETTINGS,
    "hatch.linewidth": 1.0,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.axisbelow": True,
}

# Parameter of the groups of bars in a panel, and label of the axis.
_GROUPS = {
    "figure1": ("sigma_r", r"strength of the fields $\sigma_r$"),
    "figure2": ("sigma_M", r"strength of the couplings $\sigma_M$"),
}
_LEGEND: dict[str, Any] = {"handlelength": 1.4, "columnspacing": 1.5, "borderaxespad": 0.2}

Panel = Mapping[Cell, Mapping[Bar, Errors]]


def draw_errors(rows: Sequence[Row], settings: Settings) -> Figure:
    """Draw the errors of all bars: medians on a logarithmic axis, quartiles as whiskers, both editions.

    Figure 1 has a column of panels for each sigma_M and a group of bars for each sigma_r; figure 2 has a group for each
    sigma_M. The editions are above each other, on the same scale.
    """
    grouped = group(row for row in rows if row.figure == settings.figure)
    panels = _split(grouped, settings)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 6.8), layout="constrained")
        axes = figure.subplots(len(EDITIONS), len(panels), squeeze=False, sharex="col", sharey="col")
        for column, (title, panel) in enumerate(panels.items()):
            for ax, edition in zip(axes[:, column], EDITIONS, strict=True):
                _draw_panel(ax, panel, edition)
                ax.set_title(_TITLES[edition] + title)
            axes[-1, column].set_xlabel(_GROUPS[settings.figure][1])
            _set_decades(axes[0, column], panel)
        for ax in axes[:, 0]:
            ax.set_ylabel(_name_error(settings))
        _add_legends(figure, {bar for bars in grouped.values() for bar in bars}, _name_runs(grouped, settings))
    return figure


# --- panels of bars ---------------------------------------------------------------------------------------------------


def _split(grouped: Panel, settings: Settings) -> dict[str, Panel]:
    """Return the panels of one edition by the suffixes of their titles."""
    if settings.figure == "figure2":
        return {"": grouped}
    return {
        rf", $\sigma_M = {sigma_M:g}$": {cell: bars for cell, bars in grouped.items() if cell.sigma_M == sigma_M}
        for sigma_M in settings.sigma_M
    }


def _draw_panel(ax: Axes, panel: Panel, edition: str) -> None:
    """Draw one edition: a group of bars for each cell."""
    places = _place(_bars_of(panel, edition))
    for position, errors in enumerate(panel.values()):
        for bar, (shift, width) in places.items():
            if bar in errors:
                _draw_bar(ax, position + shift, width, summarise(errors[bar]), bar)
        if position:
            ax.axvline(position - 0.5, color="0.85", linewidth=0.8, zorder=0)
    ax.set_xticks(range(len(panel)), [f"{getattr(cell, _GROUPS[cell.figure][0]):g}" for cell in panel])
    ax.set_xlim(-0.5, len(panel) - 0.5)
    ax.tick_params(axis="x", length=0, labelbottom=True)
    ax.grid(axis="y", color="0.88", linewidth=0.8)


def _place(bars: Sequence[Bar]) -> dict[Bar, tuple[float, float]]:
    """Return the shift from the middle of its group and the width of each bar; samplers are set a little apart."""
    gaps = [0.35 * (before.sampler != bar.sampler) for before, bar in pairwise(bars)]
    left = np.cumsum([0.0, *(1 + gap for gap in gaps)])
    # Bars are not wider where there are few of them, so that both editions look alike.
    unit = min(0.9 / (left[-1] + 1), 0.18)
    middle = (left[-1] + 1) / 2
    return {bar: (unit * (x + 0.5 - middle), 0.94 * unit) for bar, x in zip(bars, left, strict=False)}


def _bars_of(panel: Panel, edition: str) -> list[Bar]:
    """Return the bars of an edition that occur anywhere in a panel, in their order."""
    found = dict.fromkeys(bar for errors in panel.values() for bar in errors if bar.edition == edition)
    return list(found)


def _draw_bar(ax: Axes, x: float, width: float, summary: Summary, bar: Bar) -> None:
    """Draw a median as a bar and the quartiles as a whisker; an error of 0 has no place on a logarithmic axis."""
    if not summary.median > 0:
        return
    filling, low = _filling(bar), max(summary.low, np.finfo(float).tiny)
    ax.bar(x, summary.median, width, **filling)
    ax.plot([x, x], [low, summary.high], color="0.15", linewidth=1.0, zorder=3)
    if max(to_rgb(filling["facecolor"])) < 0.2:  # the whisker would not be seen inside the bar
        ax.plot([x, x], [low, summary.median], color="0.9", linewidth=1.0, zorder=3)


def _filling(bar: Bar) -> dict[str, Any]:
    """Return the look of a bar: colour by sampler; solid if plain, hatched for a whole path, pale for conditionals."""
    colour = colour_of(bar.sampler)
    if bar.plain:
        return {"facecolor": colour, "edgecolor": colour, "linewidth": 0.8}
    if bar.estimator == "path":
        return {"facecolor": "white", "edgecolor": colour, "linewidth": 0.8, "hatch": "//////"}
    return {"facecolor": _paler(colour), "edgecolor": colour, "linewidth": 0.8}


def _paler(colour: str) -> tuple[float, ...]:
    return tuple(1 - 0.3 * (1 - part) for part in to_rgb(colour))


def _set_decades(ax: Axes, panel: Panel) -> None:
    """Put the foot of the bars at a power of ten, below all quartiles, and the top at one above them."""
    summaries = [summarise(errors) for bars in panel.values() for errors in bars.values()]
    lows = [summary.low for summary in summaries if summary.low > 0]
    ax.set_yscale("log")
    if lows:
        top = max(summary.high for summary in summaries)
        ax.set_ylim(10.0 ** math.floor(math.log10(min(lows)) - 0.1), 10.0 ** math.ceil(math.log10(top) - 1e-9))
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _name_error(settings: Settings) -> str:
    means = r"MSE of $E[s_i]$"
    return means + r" + MSE of $E[s_i s_j]$" if settings.pairs else means


def _name_runs(grouped: Panel, settings: Settings) -> str:
    """Return the explanation of a bar, with the number of runs that were measured."""
    counts = {len(errors) for bars in grouped.values() for errors in bars.values()}
    runs = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{max(counts, default=0)}"
    return f"Bars: median over {runs} runs of {settings.seconds:g} CPU s each. Whiskers: quartiles."


def _add_legends(figure: Figure, bars: set[Bar], title: str) -> None:
    """Add a legend of colours above the panels, one of fillings below them."""
    samplers = [sampler for sampler in SAMPLERS if any(bar.sampler == sampler for bar in bars)]
    _add_sampler_legend(figure, samplers)
    kinds = {"path" if bar.plain else f"other {bar.estimator}" for bar in bars}
    looks: dict[str, tuple[str, dict[str, Any]]] = {
        "path": ("HMC: ends of trajectories; others: whole path", {"facecolor": GREY}),
        "other path": ("HMC: whole path", {"facecolor": "white", "hatch": "//////"}),
        "other conditional": ("conditional means", {"facecolor": _paler(GREY)}),
    }
    handles = [Patch(label=label, edgecolor=GREY, **look) for kind, (label, look) in looks.items() if kind in kinds]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), title=title, title_fontsize=9.5, **_LEGEND
    )


def _add_sampler_legend(figure: Figure, samplers: Sequence[str]) -> None:
    handles = [Patch(color=colour_of(sampler), label=SAMPLERS[sampler]) for sampler in samplers]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), **{**_LEGEND, "fontsize": 10})


# --- views of single chains -------------------------------------------------------------------------------------------


def draw_views(views: Views) -> Figure:
    """Draw autocorrelation of log p, holding times and magnetisation, one row for each edition."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 6.4), layout="constrained")
        axes = figure.subplots(len(EDITIONS), 3, gridspec_kw={"width_ratios": [1, 1, 1.25]})
        for row, edition in zip(axes, EDITIONS, strict=True):
            curves = [view for view in views.curves if view.edition == edition]
            _draw_autocorrelation(row[0], curves)
            _draw_holding_times(row[1], curves, views.d)
            _draw_magnetisation(row[2], curves)
            row[0].set_title(_TITLES[edition])
        found = {view.sampler for view in views.curves}
        _add_sampler_legend(figure, [sampler for sampler in SAMPLERS if sampler in found])
    return figure


def _draw_autocorrelation(ax: Axes, curves: Sequence[View]) -> None:
    for view in curves:
        lags = 1e3 * view.lag_seconds * np.arange(len(view.autocorrelation))
        ax.plot(lags, view.autocorrelation, color=colour_of(view.sampler), linewidth=1.6, alpha=0.9)
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel("lag (CPU ms)")
    ax.set_ylabel(r"autocorrelation of $\log p$")
    ax.set_xlim(left=0)


def _draw_holding_times(ax: Axes, curves: Sequence[View], d: int) -> None:
    """Draw densities over a common range that holds all but the longest thousandth of each curve."""
    shown = [view for view in curves if len(view.holding_times)]
    if shown:
        edges = _bins(max(float(np.quantile(view.holding_times, 0.999)) for view in shown), d)
        densities = [
            np.histogram(view.holding_times, edges)[0] / (len(view.holding_times) * np.diff(edges)) for view in shown
        ]
        for view, density in zip(shown, densities, strict=True):
            ax.stairs(density, edges, color=colour_of(view.sampler), linewidth=1.4, alpha=0.9)
        seen = np.concatenate([density[density > 0] for density in densities])
        ax.set_ylim(0.5 * seen.min(), 2 * seen.max())
    ax.set_yscale("log")
    ax.set_xlabel("holding time (sweeps)")
    ax.set_ylabel("density")
    ax.set_xlim(left=0)


def _bins(longest: float, d: int) -> NDArray[np.float64]:
    """Return the edges of about 40 bins.

    A scan flips at multiples of 1/d sweeps: every bin but the first holds the same number of them.
    """
    step = max(1, round(longest * d / 40))
    edges: NDArray[np.float64] = (0.5 + step * np.arange(math.ceil(longest * d / step) + 1)) / d
    return np.concatenate([[0.0], edges])


def _draw_magnetisation(ax: Axes, curves: Sequence[View]) -> None:
    """Draw each trace in a band of its own, all bands on the same scale."""
    largest = max((float(np.abs(view.magnetisation).max()) for view in curves), default=0.0) or 1.0
    centres = [-2.2 * band for band in range(len(curves))]
    for centre, view in zip(centres, curves, strict=True):
        ax.axhline(centre, color="0.8", linewidth=0.8, zorder=0)
        trace = centre + np.asarray(view.magnetisation) / largest
        ax.plot(1e3 * np.asarray(view.magnetisation_seconds), trace, color=colour_of(view.sampler), linewidth=0.8)
    for edge in pairwise(centres):
        ax.axhline(sum(edge) / 2, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
    ax.set_yticks(centres, ["0" for _ in centres])
    ax.set_ylim(min(centres, default=0.0) - 1.1, 1.1)
    ax.set_xlabel("time (CPU ms)")
    ax.set_ylabel(f"magnetisation, bands of ±{largest:.2g}")
    ax.margins(x=0)
