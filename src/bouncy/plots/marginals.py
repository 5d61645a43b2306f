"""Estimates of E[s_i] and E[s_i s_j] against their exact values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.style import BLACK, axes_or_new, colour_of
from bouncy.results.batches import student_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.enumeration import Exact
    from bouncy.results.spins import SpinRun

MARKERS = {"$E[s_i]$": "o", "$E[s_i s_j]$": "s"}


class Comparison(NamedTuple):
    """Moments of one kind, each array of shape (n,)."""

    label: str
    exact: NDArray[np.float64]
    estimate: NDArray[np.float64]
    half_width: NDArray[np.float64]  # of the 95 % interval


def plot_marginals(run: SpinRun, exact: Exact, ax: Axes | None = None, markersize: float = 5.0) -> Axes:
    """Draw means, and pair means if they were recorded, over their exact values, with 95 % bars and the diagonal.

    Call it again on the same axes to add another run, with a larger `markersize` to see one around the other.
    """
    ax = axes_or_new(ax)
    for label, truth, estimate, half_width in compare(run, exact):
        ax.errorbar(
            truth,
            estimate,
            yerr=half_width,
            linestyle="",
            marker=MARKERS[label],
            markersize=markersize,
            markerfacecolor="none",
            color=colour_of(run.sampler.name),
            elinewidth=1.0,
            label=f"{label}, {run.sampler.name}",
        )
    ax.axline((0.0, 0.0), slope=1.0, color=BLACK, linewidth=0.8, zorder=0)
    ax.set_xlabel("exact")
    ax.set_ylabel("estimate")
    return ax


def compare(run: SpinRun, exact: Exact) -> list[Comparison]:
    """Return the means of a run and, if they were recorded, its pair means beside their exact values."""
    quantile = student_quantile(0.95, run.diagnostics["batches"] - 1)
    mean_label, pair_label = MARKERS
    found = [Comparison(mean_label, exact.mean, run.mean, quantile * run.mean_se)]
    pair_mean = getattr(run, "pair_mean", None)
    if pair_mean is not None:
        i, j, estimate = _upper_triangle(pair_mean)
        half_width = quantile * _upper_triangle(run.pair_mean_se)[2]
        found.append(Comparison(pair_label, exact.pair_mean[i, j], estimate, half_width))
    return found


def _upper_triangle(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return rows, columns and values above the diagonal; of a sparse matrix, of the entries it has."""
    if isinstance(matrix, np.ndarray):
        i, j = np.triu_indices(matrix.shape[0], k=1)
        return i, j, matrix[i, j]
    entries = matrix.tocoo()
    above = entries.row < entries.col
    return entries.row[above], entries.col[above], entries.data[above]
