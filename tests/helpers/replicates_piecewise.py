"""Many short independent flights of the general engine, for tests on its law.

As `replicates` does for spins: each flight starts at given coordinates with a fresh velocity and fresh budgets, and is
run by the same `advance` and read from the same `PathRecorder` as a chain of a user.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import generic, implements
from bouncy._random import fill_sphere, new_state
from bouncy._validation import as_seed_sequence, check_count
from bouncy.piecewise import metric_flight
from bouncy.piecewise.box import Box
from bouncy.piecewise.flight import BUDGET, WINDOW, Flight, new_flight
from bouncy.piecewise.metric_flight import MetricFlight, new_metric_flight
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.points import new_points
from bouncy.piecewise.potential import Cells, Potential, new_view
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import new_path_recorder
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import renew

Array = NDArray[np.float64]


class Flights(NamedTuple):
    """Averages and final states of R flights in d coordinates with n cells."""

    mean: Array  # (R, d) time averages of x
    square: Array  # (R, d) of x^2
    product: Array  # (R, d * d) of x_i x_j
    cell: Array  # (R, n) fraction of time in each cell
    y: Array  # (R, d) final positions, not scaled
    row: NDArray[np.int64]  # (R, d) final cells
    v: Array  # (R, d) final velocities
    events: Array  # (R, 4) hits, flips, bounces, refreshments


def fly(
    potential: Potential,
    starts: Array,
    *,
    scale: Array,
    sweep_time: float,
    n_sweeps: int,
    refreshment_rate: float,
    seed: Any,
    box: Box | None = None,
) -> Flights:
    """Run one flight per row of `starts`, (R, d), for the time `n_sweeps * sweep_time`.

    With the `box` of a Gaussian (`piecewise.engine.box_of`) it is in the metric of the covariance.
    """
    n, d = starts.shape
    cells = potential.cells
    path_state, toll_state = (new_state(child) for child in as_seed_sequence(seed).spawn(2))
    rows = locate(cells, starts)
    view = new_view(potential, scale)
    flight: Flight | MetricFlight
    if box is None:
        toll, points = new_budget(toll_state), new_points(d, not np.isnan(view.way_out).all())
        flight = new_flight(starts[0], np.zeros(d), rows[0], refreshment_rate, path_state, toll, points)
    else:
        flight = new_metric_flight(box, starts[0], np.zeros(d), rows[0], refreshment_rate, path_state)
    size = cells.lower.size
    recorder = new_path_recorder(d, size, np.zeros(d), np.zeros(d), new_products(d))
    out = Flights(
        mean=np.empty((n, d)),
        square=np.empty((n, d)),
        product=np.empty((n, d * d)),
        cell=np.empty((n, size)),
        y=np.empty((n, d)),
        row=np.empty((n, d), np.int64),
        v=np.empty((n, d)),
        events=np.empty((n, 4)),
    )
    n_sweeps = check_count("n_sweeps", n_sweeps)
    _run(flight, view, recorder, starts / scale, rows, sweep_time, n_sweeps, out)
    return out._replace(y=out.y * scale)


def locate(cells: Cells, y: Array) -> NDArray[np.int64]:
    """Return the rows of the cells of many points, (R, d), as `Cells.locate` does for one."""
    columns = []
    for i, (begin, end) in enumerate(zip(cells.first[:-1], cells.first[1:], strict=True)):
        columns.append(begin + np.searchsorted(cells.upper[begin : end - 1], y[:, i], side="right"))
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int64)


@generic
def begin_anew(flight):
    """Draw the velocity and the budgets anew, here or in `prepare`."""


@implements(begin_anew, Flight)
def _begin_anew(flight):
    fill_sphere(flight.rng, flight.v)
    renew(flight.toll)
    flight.leg[BUDGET] = np.nan
    flight.leg[WINDOW] = 1.0


@implements(begin_anew, MetricFlight)
def _begin_in_metric(flight):
    flight.v[0] = np.nan
    flight.leg[metric_flight.BUDGET] = np.nan


@kernel
def _run(flight, view, recorder, starts, rows, sweep_time, n_sweeps, out):
    """Run all flights one after the other. Everything but the view, the times and the starts is changed in place."""
    for k in range(starts.shape[0]):
        for i in range(starts.shape[1]):
            flight.y[i] = starts[k, i]
            flight.row[i] = rows[k, i]
        begin_anew(flight)
        prepare(flight, view, recorder.evaluations)
        advance(flight, view, recorder, sweep_time, n_sweeps)
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
        out.v[k, i] = flight.v[i]


@helper
def _take(sums, scale, out):
    for j in range(out.size):
        out[j] = sums[j] * scale
        sums[j] = 0.0
