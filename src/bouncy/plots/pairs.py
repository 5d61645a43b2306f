"""Correlations of pairs of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.plots.marginals import upper_triangle
from bouncy.plots.scalars import has_spins
from bouncy.plots.style import LIGHT, axes_or_new, label_sites, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.run import Run

Array = NDArray[np.float64]

# Most variables with labels along the axes.
_NAMED = 30
# Beyond so many variables, recorded pairs are drawn as dots, because cells of the matrix would be too small to see.
_CELLS = 100
_KINDS = ("correlation", "mean")


def plot_pairs(run: Run, ax: Axes | None = None, kind: str = "correlation") -> Axes:
    """Draw a matrix of the correlations of all pairs of variables, with colours that are symmetric around 0.

    The colours end at the largest correlation between two variables that was found. The diagonal has none, and is grey
    as are pairs that were not recorded, and pairs with a variable that never moves, which has no correlation.

    Parameters
    ----------
    run : Run
        With `pairs="all"`, or of spins with `pairs="edges"`.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    kind : {"correlation", "mean"}
        (E[s_i s_j] - E[s_i] E[s_j]) / sqrt(Var[s_i] Var[s_j]), or E[s_i s_j] as it is; of continuous variables, x_i in
        the place of s_i.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; expected 'correlation' or 'mean'")
    i, j, value, complete = _pairs(run, kind)
    ax = axes_or_new(ax)
    d = run.target.d
    limit = float(np.max(np.abs(value), initial=0.0)) or 1.0
    colours: dict[str, Any] = {"cmap": _colour_map(), "vmin": -limit, "vmax": limit}
    if complete or d <= _CELLS:
        matrix = np.ma.masked_all((d, d))
        matrix[i, j] = matrix[j, i] = value
        image: Any = ax.imshow(matrix, interpolation="nearest" if d <= _CELLS else None, **colours)
    else:
        ax.set_facecolor(LIGHT)
        image = ax.scatter([*j, *i], [*i, *j], c=[*value, *value], s=3.0, linewidth=0, marker="s", **colours)
        ax.set(xlim=(-0.5, d - 0.5), ylim=(d - 0.5, -0.5), aspect="equal")
    _name(ax, run)
    symbol = "s" if has_spins(run) else "x"
    name = "correlation" if kind == "correlation" else f"$E[{symbol}_i {symbol}_j]$"
    ax.figure.colorbar(image, ax=ax, label=name, shrink=0.85)
    if value.size < d * (d - 1) // 2:
        _say_what_is_missing(ax, complete)
    return ax


def _pairs(run: Any, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, bool]:
    """Return places i < j and values of all pairs that have one, and whether all pairs were recorded."""
    spins = has_spins(run)
    try:
        second = run.pair_mean if spins else run.covariance
    except AttributeError as error:
        raise ValueError(f"nothing to draw: {error}") from error
    mean, complete = run.mean, isinstance(second, np.ndarray)
    i, j, value = upper_triangle(second)
    product, variance = mean[i] * mean[j], 1.0 - mean**2 if spins else np.diag(second)
    if kind == "mean":
        return i, j, value if spins else value + product, complete
    scale = np.sqrt(variance[i] * variance[j])
    moves = scale > 0.0
    covariance = value - product if spins else value
    return i[moves], j[moves], covariance[moves] / scale[moves], complete


def _colour_map() -> Any:
    from matplotlib import colormaps

    return colormaps["RdBu_r"].with_extremes(bad=LIGHT)


def _name(ax: Axes, run: Any) -> None:
    """Label rows and columns, if there are few."""
    d = run.target.d
    if d > _NAMED:
        what = "site" if has_spins(run) else "variable"
        ax.set(xlabel=what, ylabel=what)
        return
    size = 10 if d <= 15 else 7
    label_sites(ax, run.target.labels, fontsize=size)
    ax.set_yticks(range(d), [shorten(label) for label in run.target.labels], fontsize=size)


def _say_what_is_missing(ax: Axes, complete: bool) -> None:
    from matplotlib.patches import Patch

    text = "never moved" if complete else "pairs that were not recorded"
    patch = Patch(facecolor=LIGHT, label=f"grey: {text}")
    ax.legend(handles=[patch], loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.3, fontsize="small")
