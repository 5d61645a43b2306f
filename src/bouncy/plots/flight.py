"""The particle's path on a continuous target, in two of its coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._random import new_state
from bouncy._validation import as_seed_sequence, check_count, check_nonnegative
from bouncy.piecewise import literal
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.literal import FlightPath, literal_flight
from bouncy.piecewise.samplers.bps import refreshment_rate
from bouncy.plots.path import draw_path
from bouncy.plots.style import GREY, LIGHT, axes_or_new
from bouncy.plots.trajectory import Event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_KINDS = {
    literal.CROSSED: Event.CROSSING,
    literal.REFUSED: Event.REFUSAL,
    literal.BOUNCED: Event.BOUNCE,
    literal.REFRESHED: Event.REFRESHMENT,
}
# Points of the grid on which the density is shown, to each side.
_GRID = 120


def trace_flight(
    target: PiecewiseTarget,
    *,
    events: int,
    refreshment: float | None = None,
    seed: int | np.random.SeedSequence | None = None,
    initial: ArrayLike | None = None,
) -> FlightPath:
    """Follow the particle of "bps" for a number of events and return its path, corner by corner.

    Made for pictures: the literal algorithm, interpreted, in O(d^2) steps for each event.

    Parameters
    ----------
    target : PiecewiseTarget
    events : int
        Bounces, walls met and refreshments.
    refreshment : float, optional
        Expected number of times per sweep at which the velocity is drawn anew, as of `bouncy.piecewise.BPS`.
    seed : int or SeedSequence, optional
    initial : array_like, shape (d,), optional
        Values x to start from; otherwise those of `target.start`.

    Examples
    --------
    >>> import bouncy
    >>> path = bouncy.plots.trace_flight(bouncy.Gaussian([0.0, 0.0], cov=1.0), events=10, seed=0)
    >>> path.y.shape
    (11, 2)
    """
    per_sweep = None if refreshment is None else check_nonnegative("refreshment", refreshment)
    start_seed, path_seed, toll_seed = as_seed_sequence(seed).spawn(3)
    generator = np.random.default_rng(start_seed)
    if initial is None:
        y = target.start(generator)
    else:
        y, _ = target.potential.cells.coordinates(target.check_values("initial", initial).reshape(target.d))
    v = generator.standard_normal(target.d)
    return literal_flight(
        target.potential,
        y,
        v / np.sqrt(v @ v),
        scale=target.scale,
        refreshment_rate=refreshment_rate(per_sweep, target),
        path_state=new_state(path_seed),
        toll_state=new_state(toll_seed),
        metric_root=target.metric_root,
        events=check_count("events", events),
    )


def plot_flight(target: PiecewiseTarget, path: FlightPath, i: int = 0, j: int = 1, ax: Axes | None = None) -> Axes:
    """Draw a path in the plane of y_i and y_j, with the edges of their cells, and mark the events at its corners.

    What lies beyond a wall is hatched, intervals that stand for one value are shaded, and of a target of two
    variables the density is drawn below. A coordinate at a point, as a coefficient that is zero, jumps to the middle of
    its interval, rests there, and leaves from an end. Walls of other coordinates are met too, but cannot be seen from
    this plane.
    """
    ax = axes_or_new(ax)
    before = path.y[:-1] + path.speed[:-1] * np.diff(path.time)[:, None]
    jumps = np.flatnonzero((np.abs(before - path.y[1:]) > 1e-9 * target.scale).any(axis=1))
    x, y = np.insert(path.y, jumps + 1, before[jumps], axis=0)[:, [i, j]].T
    kinds, coordinates = (np.insert(row, jumps + 1, -1) for row in (path.kind, path.coordinate))
    visible = np.isin(coordinates, (-1, i, j))
    draw_path(ax, x, y, "bps", {event: (kinds == kind) & visible for kind, event in _KINDS.items()})
    limits = [_limits(target, path, k) for k in (i, j)]
    _draw_cells(ax, target, i, limits[0], vertical=True)
    _draw_cells(ax, target, j, limits[1], vertical=False)
    if target.d == 2:
        _draw_density(ax, target, (i, j), limits)
    ax.set(xlim=limits[0], ylim=limits[1], xlabel=f"$y_{{{i}}}$", ylabel=f"$y_{{{j}}}$")
    return ax


def _limits(target: PiecewiseTarget, path: FlightPath, k: int) -> tuple[float, float]:
    """Return the ends of the axis of a coordinate: all of the path, and some room."""
    low, high = float(path.y[:, k].min()), float(path.y[:, k].max())
    room = 0.08 * (high - low) + 1e-3 * float(target.scale[k])
    return low - room, high + room


def _draw_cells(ax: Axes, target: PiecewiseTarget, k: int, limits: tuple[float, float], *, vertical: bool) -> None:
    """Draw the edges of the cells of one coordinate; `vertical` says whether it is the horizontal one."""
    cells = target.potential.cells
    rows = range(cells.first[k], cells.first[k + 1])
    span, line = (ax.axvspan, ax.axvline) if vertical else (ax.axhspan, ax.axhline)
    for end, outside in ((cells.lower[rows[0]], limits[0]), (cells.upper[rows[-1]], limits[1])):
        if np.isfinite(end):
            span(min(end, outside), max(end, outside), facecolor="white", edgecolor=LIGHT, hatch="///", zorder=1)
            line(end, color=GREY, linewidth=2.0, zorder=2)
    for row in rows:
        if cells.slope[row] == 0.0 and np.isfinite(cells.upper[row] - cells.lower[row]):
            span(cells.lower[row], cells.upper[row], color=LIGHT, alpha=0.5, linewidth=0, zorder=1)
        if row > rows[0]:
            line(cells.lower[row], color=GREY, linewidth=0.9, zorder=2)


def _draw_density(ax: Axes, target: PiecewiseTarget, sites: tuple[int, int], limits: list[tuple[float, float]]) -> None:
    """Shade the plane by exp(-U)."""
    grids = [np.linspace(low, high, _GRID + 1) for low, high in limits]
    middles = [0.5 * (grid[1:] + grid[:-1]) for grid in grids]
    point, energy = np.empty(2), np.empty((_GRID, _GRID))
    for column, point[sites[0]] in enumerate(middles[0]):
        for row, point[sites[1]] in enumerate(middles[1]):
            energy[row, column] = target.potential.energy(point)
    ax.pcolormesh(*grids, np.exp(energy.min() - energy), cmap="Greys", vmax=2.5, zorder=0, rasterized=True)
