"""Many short independent flights on a density of functions, and single rays through it, for tests on its law.

As `replicates_piecewise` does for quadratic potentials: each flight starts at given coordinates with a fresh velocity
and fresh budgets, and is run by the same `advance` and read from the same `PathRecorder` as a chain of a user.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy import Density
from bouncy._compile import helper, kernel
from bouncy._random import new_state
from bouncy._validation import as_seed_sequence
from bouncy.piecewise.by_address import failed
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.products import new_products
from bouncy.piecewise.rays import BUDGET, SLOPE, U, find_bounce, look, new_ray
from bouncy.piecewise.recorder import new_path_recorder
from bouncy.targets.contract import raise_failure
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import renew
from helpers.replicates_piecewise import locate

Array = NDArray[np.float64]


class Flights(NamedTuple):
    """Averages and final states of R flights in d coordinates with n cells."""

    mean: Array  # (R, d) time averages of y
    square: Array  # (R, d) of y^2
    product: Array  # (R, d * d) of y_i y_j
    cell: Array  # (R, n) fraction of time in each cell
    y: Array  # (R, d) final positions
    row: NDArray[np.int64]  # (R, d) final cells
    w: Array  # (R, d) final velocities, in y / scale
    side: Array  # (R, m) final sides of the walls
    events: Array  # (R, 4) hits, flips, bounces, refreshments


def fly(
    target: Density, starts: Array, *, sweep_time: float, n_sweeps: int, refreshment_rate: float, seed: Any
) -> Flights:
    """Run one flight per row of `starts`, (R, d), for the time `n_sweeps * sweep_time`; raise if the density fails."""
    n, d = starts.shape
    cells, m = target.cells, len(target.walls)
    path_state, toll_state = (new_state(child) for child in as_seed_sequence(seed).spawn(2))
    rows = locate(cells, starts)
    normals, offsets = (target.layout[name] for name in ("normals", "offsets"))
    sides = np.where(starts @ normals.T >= offsets, 1.0, -1.0)
    flight = target.particle(starts[0], np.zeros(d), rows[0], refreshment_rate, path_state, new_budget(toll_state))
    size = cells.lower.size
    recorder = new_path_recorder(d, size, np.zeros(d), np.zeros(d), new_products(d))
    out = Flights(
        mean=np.empty((n, d)),
        square=np.empty((n, d)),
        product=np.empty((n, d * d)),
        cell=np.empty((n, size)),
        y=np.empty((n, d)),
        row=np.empty((n, d), np.int64),
        w=np.empty((n, d)),
        side=np.empty((n, m)),
        events=np.empty((n, 4)),
    )
    view = target.view()
    _run(flight, view, recorder, starts, rows, sides, sweep_time, n_sweeps, out)
    raise_failure(view)
    return out


@kernel
def _run(flight, view, recorder, starts, rows, sides, sweep_time, n_sweeps, out):
    """Run all flights one after the other. Everything but the view, the times and the starts is changed in place."""
    for k in range(starts.shape[0]):
        for i in range(starts.shape[1]):
            flight.y[i] = starts[k, i]
            flight.row[i] = rows[k, i]
            flight.v[i] = 0.0  # to be drawn
        for j in range(sides.shape[1]):
            flight.side[j] = sides[k, j]
        renew(flight.toll)
        flight.ray.leg[BUDGET] = np.nan
        prepare(flight, view, recorder.evaluations)
        advance(flight, view, recorder, sweep_time, n_sweeps)
        if failed(view):
            break
        _read(flight, recorder, 1.0 / (n_sweeps * sweep_time), out, k)


@helper
def _read(flight, recorder, scale, out, k):
    """Write the averages over the open batch and the state of the particle into row k of `out`; begin a new batch."""
    _take(recorder.open_mean, scale, out.mean[k])
    _take(recorder.open_square, scale, out.square[k])
    _take(recorder.products.open.reshape(out.product.shape[1]), scale, out.product[k])
    _take(recorder.open_cell, scale, out.cell[k])
    _take(recorder.open_events, 1.0, out.events[k])
    for i in range(flight.y.size):
        out.y[k, i] = flight.y[i]
        out.row[k, i] = flight.row[i]
        out.w[k, i] = flight.v[i] / flight.scale[i]
    for j in range(flight.side.size):
        out.side[k, j] = flight.side[j]


@helper
def _take(sums, scale, out):
    for j in range(out.size):
        out[j] = sums[j] * scale
        sums[j] = 0.0


# Single rays


class Bounces(NamedTuple):
    """The ends of R rays."""

    time: Array  # (R,) at which the budget is spent, or the end of the ray
    bounced: NDArray[np.bool_]  # (R,)
    U: Array  # (R,) there
    slope: Array  # (R,) there
    left: Array  # (R,) of the budget, where the ray ended first
    evaluations: NDArray[np.int64]  # (R, 3)


def first_bounces(
    target: Density, starts: Array, v: Array, budgets: Array, *, end: float = np.inf, seed: Any = 0, turns: bool = False
) -> Bounces:
    """Follow a ray for each budget, (R,), from `starts` along v, both (R, d), to its bounce or its end."""
    n, d = starts.shape
    out = Bounces(np.empty(n), np.zeros(n, np.bool_), np.empty(n), np.empty(n), np.empty(n), np.zeros((n, 3), np.int64))
    view, ray = target.view(), new_ray(d)
    starts, v, budgets = (np.ascontiguousarray(array, np.float64) for array in (starts, v, budgets))
    _bounce(ray, view, new_state(as_seed_sequence(seed)), starts, v, budgets, end, turns, out)
    raise_failure(view)
    return out


@kernel
def _bounce(ray, view, rng, starts, v, budgets, end, turns, out):
    """Follow all rays one after the other."""
    for k in range(starts.shape[0]):
        ray.room[0] = end
        ray.leg[U], ray.leg[SLOPE] = look(ray, starts[k], v[k], view, 0.0, out.evaluations[k])
        ray.leg[BUDGET] = budgets[k]
        out.time[k], out.bounced[k] = find_bounce(ray, starts[k], v[k], view, rng, end, turns, out.evaluations[k])
        out.U[k], out.slope[k] = ray.leg[U], ray.leg[SLOPE]
        out.left[k] = 0.0 if out.bounced[k] else ray.leg[BUDGET]
        if failed(view):
            break
