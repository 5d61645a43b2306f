"""Estimates of means and pair means, alone or against a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_real_array
from bouncy.enumeration import Exact
from bouncy.plots.scalars import half_width, has_spins
from bouncy.plots.style import BLACK, GREY, axes_or_new, colour_of, label_sites
from bouncy.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

MARKERS = {"$E[s_i]$": "o", "$E[s_i s_j]$": "s", "$E[x_i]$": "o"}

# Most sites with labels along the axis.
_NAMED = 20


class Comparison(NamedTuple):
    """Moments of one kind, each array of shape (n,)."""

    label: str
    exact: Array
    estimate: Array
    half_width: Array  # of the 95 % interval
    exact_half_width: Array | None = None  # of that of the reference, if it is an estimate too


def plot_marginals(
    run: Run, reference: Exact | Run | ArrayLike | None = None, ax: Axes | None = None, markersize: float = 5.0
) -> Axes:
    """Draw means, and pair means if both have them, over those of a reference, with 95 % bars and the diagonal.

    Without a reference the means are drawn over the sites. Call it again on the same axes to add another run, with a
    larger `markersize` to see one around the other.

    Parameters
    ----------
    run : Run
    reference : Exact, Run or array_like, optional
        Answers of `bouncy.exact`; another run on the same target, whose 95 % bars are drawn sideways; or means, of
        shape (d,), from elsewhere.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    markersize : float
        In points.
    """
    if reference is None:
        return _plot_means(run, ax, markersize)
    rows = compare(run, reference)
    ax = axes_or_new(ax)
    for label, truth, estimate, width, truth_width in rows:
        ax.errorbar(
            truth,
            estimate,
            xerr=truth_width,
            yerr=width,
            linestyle="",
            marker=MARKERS[label],
            markersize=markersize,
            markerfacecolor="none",
            color=colour_of(run.sampler.name),
            elinewidth=1.0,
            label=f"{label}, {run.sampler.name}",
        )
    ax.axline((0.0, 0.0), slope=1.0, color=BLACK, linewidth=0.8, zorder=0)
    ax.set_xlabel(_name_of(reference))
    ax.set_ylabel("estimate")
    return ax


def _plot_means(run: Any, ax: Axes | None, markersize: float) -> Axes:
    """Draw the means of the sites with 95 % bars, in their order."""
    ax = axes_or_new(ax)
    d, (label, mean, width) = run.target.d, _means_of(run)
    few = d <= _NAMED
    ax.errorbar(
        np.arange(d),
        mean,
        yerr=width,
        linestyle="",
        marker=MARKERS[label],
        markersize=markersize if few else 0.4 * markersize,
        markerfacecolor="none" if few else None,
        color=colour_of(run.sampler.name),
        elinewidth=1.0 if few else 0.5,
        alpha=1.0 if d <= 100 else 0.5,
        label=f"{label}, {run.sampler.name}",
    )
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    if few:
        label_sites(ax, run.target.labels)
    ax.set_xlabel("site" if has_spins(run) else "variable")
    ax.set_ylabel(f"{label}, 95 % bars")
    return ax


def compare(run: Any, reference: Exact | Run | ArrayLike) -> list[Comparison]:
    """Return the means of a run and, where both have them, its pair means, beside those of a reference."""
    label, mean, width = _means_of(run)
    truth = reference.mean if isinstance(reference, Exact | Run) else check_real_array("reference", reference)
    if truth.shape != mean.shape:
        raise ValueError(f"reference has means of shape {truth.shape}, the run {mean.shape}; expected the same target")
    bars = _means_of(reference)[2] if isinstance(reference, Run) else None
    found = [Comparison(label, truth, mean, width, bars)]
    pairs, others = _pairs_of(run), _pairs_of(reference)
    if pairs is None or others is None:
        return found
    # Of two runs, each may have recorded other pairs.
    _, here, there = np.intersect1d(pairs.place, others.place, return_indices=True)
    bars = others.half_width[there] if isinstance(reference, Run) else None
    found.append(Comparison("$E[s_i s_j]$", others.value[there], pairs.value[here], pairs.half_width[here], bars))
    return found


def _means_of(run: Any) -> tuple[str, Array, Array]:
    """Return the symbol of the means of a run, the means, and the half widths of their 95 % intervals."""
    return "$E[s_i]$" if has_spins(run) else "$E[x_i]$", run.mean, half_width(run, run.mean_se)


class _Pairs(NamedTuple):
    """Pair means, each array of shape (n,)."""

    place: NDArray[np.int64]  # i d + j, which grows from pair to pair
    value: Array
    half_width: Array  # of the 95 % interval


def _pairs_of(source: Any) -> _Pairs | None:
    """Return the pair means of a run or of exact answers, if there are some."""
    matrix = getattr(source, "pair_mean", None)
    if matrix is None:
        return None
    i, j, value = upper_triangle(matrix)
    place = i.astype(np.int64) * matrix.shape[0] + j
    if isinstance(source, Exact):
        return _Pairs(place, value, np.zeros(value.size))
    return _Pairs(place, value, half_width(source, upper_triangle(source.pair_mean_se)[2]))


def _name_of(reference: Exact | Run | ArrayLike) -> str:
    if isinstance(reference, Exact):
        return "exact"
    return f"reference run of {reference.sampler.name}" if isinstance(reference, Run) else "reference"


def upper_triangle(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return rows, columns and values above the diagonal; of a sparse matrix, of the entries it has."""
    if isinstance(matrix, np.ndarray):
        i, j = np.triu_indices(matrix.shape[0], k=1)
        return i, j, matrix[i, j]
    entries = matrix.tocoo()
    above = entries.row < entries.col
    return entries.row[above], entries.col[above], entries.data[above]
