"""The engine run by hand: one particle with a recorder, from a given start and given generator states."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._random import new_state
from bouncy.piecewise.box import Box
from bouncy.piecewise.flight import Flight, new_flight
from bouncy.piecewise.metric_flight import MetricFlight, new_metric_flight
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.points import new_points
from bouncy.piecewise.potential import Cells, Potential, View, new_view
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import PathRecorder, new_path_recorder, open_sums
from bouncy.tolls.budget import new_budget
from conftest import base_seed

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Engine:
    """A particle in the engine; positions are in y / scale."""

    flight: Flight | MetricFlight
    view: View
    recorder: PathRecorder

    def run(self, duration: float, sweeps: int = 1) -> None:
        advance(self.flight, self.view, self.recorder, duration, sweeps)

    def total(self, name: str) -> Array:
        """Return an integral over all that was recorded, which is in one batch."""
        return np.asarray(open_sums(self.recorder)[name])


def launch(
    potential: Potential,
    y: Array,
    v: Array,
    *,
    scale: Array,
    refreshment_rate: float,
    path_state: NDArray[np.uint64],
    toll_state: NDArray[np.uint64],
    metric_root: Array | None = None,
    products: bool = True,
    low: float = -2.0,
    high: float = 3.0,
) -> Engine:
    """Return a particle at y, (d,), in the engine; bins of the recorder reach from `low` to `high`.

    With the root of a covariance, (d, d), it is the one that moves in its metric.
    """
    d, cells, rows = y.size, potential.cells, potential.cells.locate(y)
    view = new_view(potential, scale)
    flight: Flight | MetricFlight
    if metric_root is None:
        points = new_points(d, not np.isnan(view.way_out).all())
        flight = new_flight(y / scale, v, rows, refreshment_rate, path_state, new_budget(toll_state), points)
    else:
        flight = new_metric_flight(box_of(potential, scale), y, v, rows, refreshment_rate, path_state)
    recorded = new_products(d if products else 0)
    recorder = new_path_recorder(d, cells.lower.size, np.full(d, low), np.full(d, high), recorded)
    prepare(flight, view, recorder.evaluations)
    return Engine(flight, view, recorder)


def box_of(potential: Potential, scale: Array) -> Box:
    """Return what a particle in the metric of the covariance knows of a Gaussian in a box."""
    covariance = np.linalg.inv(potential.coupling)
    mean = covariance @ potential.linear
    root = np.linalg.cholesky(covariance).T.copy()
    cells = potential.cells
    return Box(mean, scale, cells.lower - mean, cells.upper - mean, covariance, root)


def states(*label: Any, n: int = 2) -> list[NDArray[np.uint64]]:
    """Return n independent generator states for a label."""
    sequence = np.random.SeedSequence([base_seed(), zlib.crc32(repr(label).encode())])
    return [new_state(child) for child in sequence.spawn(n)]


def random_start(cells: Cells, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a point, (d,), inside of a random cell of each coordinate that may be entered, and a direction, (d,)."""
    y = np.empty(cells.d)
    for i in range(cells.d):
        rows = np.arange(cells.first[i], cells.first[i + 1])
        row = rng.choice(rows[cells.constant[rows] < np.inf])
        low, high = max(cells.lower[row], -5.0), min(cells.upper[row], 5.0)
        y[i] = rng.uniform(low + 0.05 * (high - low), high - 0.05 * (high - low))
    v = rng.standard_normal(cells.d)
    return y, v / np.sqrt(v @ v)
