"""Overview of a run in six panels."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bouncy.enumeration import Exact
from bouncy.plots.autocorrelation import plot_autocorrelation
from bouncy.plots.forest import plot_forest
from bouncy.plots.ladder import plot_ladder
from bouncy.plots.marginals import plot_marginals
from bouncy.plots.overlaps import plot_overlap
from bouncy.plots.pairs import plot_pairs
from bouncy.plots.ranks import plot_rank
from bouncy.plots.scalars import has_spins
from bouncy.plots.style import GREY, SETTINGS, VERMILION, import_pyplot, shorten
from bouncy.plots.traces import plot_trace
from bouncy.results.run import Run
from bouncy.results.summary import show_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Rows of a forest that fit into a panel.
_ROWS = 20
# Characters of a line, and lines, that fit into a panel.
_WIDTH, _LINES = 46, 24
_TEXT: dict[str, Any] = {"va": "top", "family": "monospace", "fontsize": 9}


def plot_run(run: Run, reference: Exact | Run | ArrayLike | None = None) -> Figure:
    """Draw an overview of a run, six panels on a new figure, and return the figure.

    Traces of log_prob; the ranks and the autocorrelation of log_prob or magnetisation, whichever has the smaller
    effective sample size; the means with 95 % bars, against a reference if one is given; overlaps between chains; and
    the diagnostics in words. Of a continuous target there are the posteriors of its variables and their correlations
    instead of means and overlaps, of a tempered run the refused swaps of its ladder instead of overlaps. A panel that
    needs something the run has not recorded shows something else. A notebook shows the figure where it is the value of
    a cell, and once.

    Parameters
    ----------
    run : Run
        With at least four draws.
    reference : Exact, Run or array_like, optional
        What to compare the means with; see `plot_marginals`.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.plots import plot_run
    >>> figure = plot_run(bouncy.sample(bouncy.MRF.random(5, seed=0), draws=200, seed=0))
    >>> figure.savefig("run.png")  # doctest: +SKIP
    """
    pyplot = import_pyplot()
    with pyplot.rc_context(SETTINGS):
        figure: Figure = pyplot.figure(figsize=(15.0, 8.4), layout="constrained")
        axes = figure.subplots(2, 3)
        _draw_scalars(run, axes[0, 0], axes[0, 1], axes[1, 0])
        _draw_means(run, reference, axes[0, 2])
        _draw_together(run, axes[1, 1])
        _write_diagnostics(run, axes[1, 2])
        figure.suptitle(_headline(run), fontsize=12)
    if "inline" in pyplot.get_backend():  # a notebook would show it for being open, and again as the value of a cell
        pyplot.close(figure)
    return figure


def _draw_scalars(run: Run, trace: Axes, ranks: Axes, memory: Axes) -> None:
    """Draw the trace of log_prob, and ranks and autocorrelation of the slower of log_prob and magnetisation."""
    known = _known_scalars(run)
    if not known:
        for ax in (trace, ranks, memory):
            ax.set_axis_off()
            ax.text(0.0, 0.98, "neither log_prob nor magnetisation\nis known and changes", color=GREY, **_TEXT)
        return
    first, slowest = known[0], min(known, key=lambda what: run.diagnostics["ess"][what])
    plot_trace(run, first, trace).set_title(f"Trace of {first}")
    plot_rank(run, slowest, ranks).set_title(f"Ranks of {slowest}")
    plot_autocorrelation(run, slowest, memory).set_title(f"Autocorrelation of {slowest}")


def _known_scalars(run: Run) -> list[str]:
    """Return those of log_prob and magnetisation that are known and change."""
    return [what for what in ("log_prob", "magnetisation") if isinstance(run.diagnostics["ess"].get(what), float)]


def _draw_means(run: Any, reference: Any, ax: Axes) -> None:
    """Draw means, or posteriors of continuous variables."""
    if reference is None and not has_spins(run):
        places = list(range(run.target.d))
        if run.target.d > _ROWS:
            size = np.abs(run.mean) / np.sqrt(np.maximum(run.variance, 1e-300))
            places = sorted(np.argsort(-size, kind="stable")[:_ROWS].tolist())
        title = "Posteriors" if len(places) == run.target.d else f"Posteriors of {_ROWS}, furthest from 0"
        plot_forest(run, [run.target.labels[i] for i in places], ax).set_title(title)
        _shorten(ax)
        return
    plot_marginals(run, reference, ax).set_title("Means" if reference is None else "Means against the reference")


def _shorten(ax: Axes) -> None:
    """Make labels fit into a panel."""
    labels = [shorten(text.get_text()) for text in ax.get_yticklabels()]
    ax.set_yticks(ax.get_yticks(), labels, fontsize="small" if len(labels) > 12 else None)
    ax.locator_params(axis="x", nbins=6)


def _draw_together(run: Any, ax: Axes) -> None:
    """Draw the ladder, or overlaps of chains, or correlations, or else another trace."""
    chains, draws, _ = run.draws.shape
    if hasattr(run, "ladder"):
        plot_ladder(run, ax).set_title("Ladder")
    elif has_spins(run) and chains > 1 and draws >= 4:
        plot_overlap(run, ax).set_title("Overlap of chains")
    elif hasattr(run, "pair_mean") or hasattr(run, "covariance"):
        plot_pairs(run, ax).set_title("Correlations")
    elif has_spins(run):
        plot_trace(run, "magnetisation", ax).set_title("Trace of magnetisation")
    elif draws >= 4:
        slowest = run.target.labels[int(np.ma.argmin(run.diagnostics["ess"]["sites"]))]
        plot_trace(run, slowest, ax).set_title(f"Trace of the slowest variable, {shorten(slowest)}")
    else:
        plot_marginals(run, None, ax).set_title("Means")


def _headline(run: Any) -> str:
    chains, draws = run.log_prob.shape
    draws *= int(getattr(run, "trace_spacing", 1))
    text = f"{run.sampler.name} on {run.target!r:.80}: {chains} chain{'s' * (chains != 1)} × {draws} draws"
    return text if getattr(run, "completed", True) else f"{text} (interrupted)"


def _write_diagnostics(run: Run, ax: Axes) -> None:
    """Write effective sample sizes, R-hat, counts and warnings into a panel."""
    report = run.diagnostics
    lines = [f"{'':<14}{'ess':>10}{'R-hat':>10}"]
    for name in ("log_prob", "magnetisation", "worst_site", "median_site"):
        if name in report["ess"]:
            numbers = (show_number(report["ess"][name], ".0f"), show_number(report["rhat"][name], ".4f"))
            lines.append(f"{name.replace('_', ' '):<14}{numbers[0]:>10}{numbers[1]:>10}")
    hits, flips = ("attempted flips", "accepted") if has_spins(run) else ("wall hits", "crossed")
    lines += ["", f"{report['hits']:,} {hits}, {report['flips']:,} {flips}" if report["hits"] else f"no {hits}"]
    if "ladder" in report:
        ladder = report["ladder"]
        lines += [
            f"log Z {ladder['log_z']:.4f} +- {ladder['log_z_se']:.2g}",
            f"{ladder['round_trips'].sum():,} round trips",
        ]
    lines += [f"{report[kind]:,} {kind}" for kind in ("bounces", "refreshments") if report[kind]]
    lines += [f"{report['batches']} batches of {report['batch_sweeps']} sweeps, {report['sampling_seconds']:.2f} s CPU"]
    for name in ("hit_rate_z", "bounce_rate_z"):
        if not np.isnan(report[name]):
            lines.append(f"{name.replace('_', ' ').replace(' z', ''):<14}z = {report[name]:+.2f}")
    ax.set_title("Diagnostics")
    warnings = [
        line for text in report["warnings"] for line in textwrap.wrap(f"! {text}", _WIDTH, subsequent_indent="  ")
    ]
    ax.set_axis_off()
    written = ax.text(0.0, 0.98, "\n".join(lines), transform=ax.transAxes, **_TEXT)
    below = _fitting(warnings, _LINES - len(lines) - 1) or ["no warnings"]
    # Below what was written, however high its lines are.
    place: dict[str, Any] = {"xycoords": written, "xytext": (0.0, -9.0), "textcoords": "offset points"}
    ax.annotate("\n".join(below), (0.0, 0.0), color=VERMILION if warnings else GREY, **place, **_TEXT)


def _fitting(lines: list[str], room: int) -> list[str]:
    return lines if len(lines) <= room else [*lines[: room - 1], "  … more in run.diagnostics['warnings']"]
