"""Holding times: from one flip of a spin to its next."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.style import GREY, axes_or_new, chain_colours, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.spins import SpinRun

Array = NDArray[np.float64]

# Most points of a curve; a longer one is drawn on a grid of so many times.
_POINTS = 2000


class HoldingTimes(NamedTuple):
    """Times from a flip of a site to its next one, in sweeps.

    Attributes
    ----------
    ended : ndarray, shape (n,)
        Those that were seen from flip to flip.
    running : ndarray, shape (m,)
        From the last flip of a site to the end of the recording: the holding time is at least as long.
    silent : int
        Sites of chains that never flipped, of which nothing is known.
    """

    ended: Array
    running: Array
    silent: int


def plot_holding_times(run: SpinRun, ax: Axes | None = None, sites: Sequence[Hashable] | None = None) -> Axes:
    """Draw the probability that a spin has not flipped again after a time: P(T > t), on a logarithmic scale.

    A straight line is a site that flips at a constant rate; the dashed one has the rate of the drawn curve, flips
    divided by time. A curve that bends upwards has spins that stay for long.

    The times are exact, from the flips themselves. A recording cuts two of them for each site: the one it begins in,
    whose start is not known, is left out; the one it ends in counts for as long as it was seen (the estimate of Kaplan
    and Meier, which is consistent for holding times that follow each other: Gill 1980). To leave out the second, too,
    would favour short times. A site that never flips in a chain has no holding time that begins in the recording; the
    legend says how many there are, and then the curve is of the others.

    Parameters
    ----------
    run : SpinRun
        Sampled with `keep="path"`.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    sites : sequence, optional
        Labels or places of the sites to draw a curve of each; otherwise one curve of all sites together.

    References
    ----------
    Gill (1980). Nonparametric estimation based on censored observations of a Markov renewal process. Zeitschrift fuer
    Wahrscheinlichkeitstheorie und verwandte Gebiete 53, 97-116.
    """
    curves = _curves(run, sites)
    ax = axes_or_new(ax)
    for label, colour, times in curves:
        t, survival = _drawn(*survival_of(times))
        ax.step(t, survival, where="post", color=colour, linewidth=1.5, label=label)
        rate = times.ended.size / (times.ended.sum() + times.running.sum())
        end = min(t[-1], -np.log(0.5 * survival[-1]) / rate)
        ax.plot([0.0, end], [1.0, np.exp(-rate * end)], color=GREY if sites is None else colour, linestyle="--",
                linewidth=1.0, label="constant rate" if sites is None else None)  # fmt: skip
    ax.set_yscale("log")
    ax.set_xlim(left=0.0)
    ax.set_xlabel("t in sweeps")
    ax.set_ylabel("P(T > t), T from flip to flip")
    ax.legend()
    return ax


def _curves(run: Any, sites: Sequence[Hashable] | None) -> list[tuple[str, Any, HoldingTimes]]:
    """Return name, colour and times of each curve."""
    if sites is None:
        times = holding_times(run)
        label = f"all {run.target.d} sites, {times.ended.size:,} holding times"
        label += f"\n(no flip in {times.silent} of {run.target.d * len(run.flips)} sites × chains)" * (times.silent > 0)
        return [(label, colour_of(run.sampler.name), _some(times, "any site"))]
    places = [run.index(site) for site in sites]
    if not places:
        raise ValueError("sites is empty; expected labels or places of sites, or None for all of them together")
    found = []
    for i, colour in zip(places, chain_colours(len(places)), strict=True):
        times = _some(holding_times(run, i), repr(run.target.labels[i]))
        found.append((f"{run.target.labels[i]}, {times.ended.size:,} holding times", colour, times))
    return found


def _some(times: HoldingTimes, name: str) -> HoldingTimes:
    if times.ended.size == 0:
        raise ValueError(f"no chain has two flips of {name}, and so no holding time; run longer")
    return times


def holding_times(run: Any, site: int | None = None) -> HoldingTimes:
    """Return the holding times of one site, given its place, or of all together; of a run with `keep="path"`."""
    flips = getattr(run, "flips", None)
    if flips is None:
        raise ValueError("the run has no flips, which holding times are read from; sample again with keep='path'")
    sites = np.arange(run.target.d) if site is None else np.array([site])
    sweep = run.sampler.sweep_time(run.target.d)
    ended, running, silent = [], [], 0
    for events in flips:
        events = events if site is None else events[events["site"] == site]
        order = np.argsort(events["site"], kind="stable")
        flipped, time = events["site"][order], events["time"][order]
        again = flipped[1:] == flipped[:-1]
        ended.append(np.diff(time)[again] / sweep)
        last = np.append(~again, True)[: flipped.size]
        running.append((run.duration - time[last]) / sweep)
        silent += sites.size - int(last.sum())
    return HoldingTimes(np.concatenate(ended), np.concatenate(running), silent)


def survival_of(times: HoldingTimes) -> tuple[Array, Array]:
    """Return the times t at which P(T > t) falls, and its values from there on, by the estimate of Kaplan and Meier."""
    t, deaths = np.unique(times.ended, return_counts=True)
    both = np.sort(np.concatenate([times.ended, times.running]))
    at_risk = both.size - np.searchsorted(both, t, side="left")
    with np.errstate(divide="ignore"):
        return t, np.exp(np.cumsum(np.log1p(-deaths / at_risk)))


def _drawn(t: Array, survival: Array) -> tuple[Array, Array]:
    """Return the steps of a curve from (0, 1) on, as many as can be seen; the last one down to 0 has no logarithm."""
    positive = survival > 0.0
    end = t[-1]
    t, survival = np.append(0.0, t[positive]), np.append(1.0, survival[positive])
    if t.size > _POINTS:
        # All of the tail, where steps are tall, and the rest on a grid.
        grid = np.linspace(0.0, t[-_POINTS // 4], 3 * _POINTS // 4, endpoint=False)
        kept = np.append(np.searchsorted(t, grid, side="right") - 1, np.arange(t.size - _POINTS // 4, t.size))
        t, survival = np.append(grid, t[kept[grid.size :]]), survival[kept]
    return np.append(t, end), np.append(survival, survival[-1])
