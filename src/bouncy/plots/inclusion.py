"""Inclusion probabilities of variables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.scalars import half_width, has_spins
from bouncy.plots.style import LIGHT, axes_or_new, label_and_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.paths import PathRun
    from bouncy.results.run import Run
    from bouncy.results.spins import SpinRun

# Most rows with readable labels.
_MOST = 40


def plot_inclusion(
    run: PathRun | SpinRun,
    variables: Sequence[Hashable] | None = None,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    color: str | None = None,
    shift: float = 0.0,
) -> Axes:
    """Draw the probability of each variable that its coefficient is not zero, with 95 % bars, a row for each.

    Call it again on the same axes to add another run, with the same `variables` and a small `shift` downwards.

    Parameters
    ----------
    run : PathRun or SpinRun
        Of `bouncy.SpikeSlab` or another target with a point mass at zero, or of `bouncy.VariableSelection`.
    variables : sequence, optional
        Labels or places of the variables to show, from the top; the most probable forty otherwise.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    label, color : str, optional
        Name in the legend, and colour; those of the sampler otherwise.
    shift : float
        By how much of a row the points lie below its middle.
    """
    probability, error = _inclusion(run)
    rows = np.argsort(-probability, kind="stable")[:_MOST] if variables is None else places(run, variables)
    ax = axes_or_new(ax)
    height = np.arange(rows.size) + shift
    label, color = label_and_colour(run, label, color)
    ax.barh(height, probability[rows], height=0.12, color=LIGHT, zorder=1)
    ax.errorbar(
        probability[rows],
        height,
        xerr=half_width(run, error[rows]),
        linestyle="",
        marker="o",
        markersize=4,
        elinewidth=1.2,
        color=color,
        label=label,
    )
    name_rows(ax, run, rows)
    ax.set_xlim(0.0, 1.02)
    ax.set_xlabel("probability that the coefficient is not zero")
    return ax


def _inclusion(run: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the inclusion probabilities and their standard errors, (d,): those of a spin are of its being up."""
    if has_spins(run):
        return (1.0 + run.mean) / 2.0, run.mean_se / 2.0
    return run.inclusion, run.inclusion_se


def places(run: Run, variables: Sequence[Hashable] | None) -> NDArray[np.int64]:
    """Return the indices of variables, by default of all."""
    named = run.target.labels if variables is None else variables
    return np.array([run.index(variable) for variable in named], dtype=np.int64)


def name_rows(ax: Axes, run: Run, rows: NDArray[np.int64]) -> None:
    """Label the rows of a chart, the first on top."""
    ax.set_yticks(np.arange(rows.size), [str(run.target.labels[i]) for i in rows])
    ax.set_ylim(rows.size - 0.4, -0.6)
