"""The engines against their literal twin, event by event, and their recorder against the integrals of the twin's path.

One moves in conditional deviations, the other in the metric of the covariance of a Gaussian.

A rounding of the twin is multiplied at each bounce off a curved potential, so thousands of events are cut into runs
of fifty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bouncy._dispatch import state_arrays
from bouncy._registry import modules
from bouncy.piecewise.literal import BOUNCED, CROSSED, REFRESHED, REFUSED, FlightPath, literal_flight
from bouncy.piecewise.metric_flight import MetricFlight
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.recorder import BINS, LOOKS
from bouncy.recorders.recorder import THIN
from conftest import base_seed
from piecewise.engine import Engine, box_of, launch, random_start, states
from piecewise.quadrature import literal_log_prob
from piecewise.zoo import ZOO, as_sparse, spike_slab

EVENTS = 50
# What one event of each kind adds to hits, flips, bounces and refreshments.
COUNTS = {CROSSED: (1, 1, 0, 0), REFUSED: (1, 0, 0, 0), BOUNCED: (0, 0, 1, 0), REFRESHED: (0, 0, 0, 1)}

EXAMPLES = {
    f"target-{name}": lambda build=build: build().potential
    for module in modules("bouncy.piecewise.targets")
    for name, build in getattr(module, "EXAMPLES", {}).items()
    if not name.startswith("density")  # which has no such potential
}
# Potentials of targets, which consist of what the zoo has, and most of the random ones, are left to the long tests.
LONG = [*EXAMPLES, *(name for name in ZOO if name.startswith("random") and name != "random-3-3")]
BUILDERS = {**ZOO, **EXAMPLES}
# Gaussians, whole and in a box, whose particle may move in the metric of the covariance.
NORMAL = ["gaussian", "boxed", "target-gaussian", "target-truncated gaussian"]
every_name = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in BUILDERS]
)
every_potential = pytest.mark.parametrize(
    "build",
    [pytest.param(build, id=name, marks=[pytest.mark.slow] * (name in LONG)) for name, build in BUILDERS.items()],
)


def as_dense(potential: Potential) -> Potential:
    A = potential.coupling
    return Potential(A.toarray() if scipy.sparse.issparse(A) else A, potential.linear, potential.cells)


def twins(potential: Potential, label: Any, rate: float = 0.4, **options: Any) -> tuple[FlightPath, Engine, np.ndarray]:
    """Return a path of the twin, the engine at its start, and the scale of both."""
    rng = np.random.default_rng([base_seed(), *np.atleast_1d(label)])
    scale = potential.natural_scale() * rng.uniform(0.7, 1.4, potential.cells.d)
    y, v = random_start(potential.cells, rng)
    path_state, toll_state = states(label)
    common: dict[str, Any] = {"scale": scale, "refreshment_rate": rate}
    if options.pop("in_metric", False):
        common["metric_root"] = box_of(potential, scale).root
    events = options.pop("events", EVENTS)
    path = literal_flight(
        potential, y, v, path_state=path_state.copy(), toll_state=toll_state.copy(), events=events, **common
    )
    return path, launch(potential, y, v, path_state=path_state, toll_state=toll_state, **common, **options), scale


def assert_same_events(potential: Potential, label: Any, every: int = 1, **options: Any) -> FlightPath:
    """Stop the engine half-way between events of its twin, and compare its position and the events since."""
    path, engine, scale = twins(potential, label, **options)
    unit = scale if isinstance(engine.flight, MetricFlight) else 1.0
    now, counts = 0.0, np.zeros(4)
    for k in range(0, path.time.size - 1, every):
        stop = 0.5 * (path.time[k] + path.time[k + 1])
        y = path.position(k, stop)
        engine.run(stop - now)
        now = stop
        counts += sum((np.array(COUNTS[kind]) for kind in path.kind[max(k - every + 1, 1) : k + 1]), np.zeros(4))
        where = f"{label}, event {k} of kind {path.kind[k]} at {path.time[k]}"
        np.testing.assert_array_equal(engine.total("events"), counts, err_msg=where)
        np.testing.assert_allclose(engine.flight.y, y / scale, rtol=1e-5, atol=1e-5, err_msg=where)
        np.testing.assert_allclose(engine.flight.v / unit, path.v[k], rtol=1e-5, atol=1e-5, err_msg=where)
        np.testing.assert_array_equal(engine.flight.row, potential.cells.locate(y), err_msg=where)
    return path


@every_potential
def test_events_are_those_of_the_paper(build):
    """Catches a wrong jump, kink, climbing root, crossing update or reflection, at the event where it first shows."""
    kinds = np.zeros(4, np.int64)
    for label in range(10):
        path = assert_same_events(as_dense(build()), label)
        kinds += np.bincount(path.kind[1:], minlength=4)
    assert kinds[REFRESHED] > 0


@every_potential
def test_long_legs_have_the_same_events(build):
    """Catches fields and slopes that are right after one wall and wrong after several of them in a leg."""
    for label in range(10, 20):
        assert_same_events(as_dense(build()), label, every=17, rate=0.1)


@pytest.mark.parametrize("name", NORMAL)
def test_events_in_the_metric_of_the_covariance(name):
    """Catches a reflection or a refreshment in another metric, and a gradient or P v that is not kept up to date."""
    kinds = np.zeros(4, np.int64)
    for label in range(30, 40):
        path = assert_same_events(BUILDERS[name](), label, every=1 + label % 7, in_metric=True)
        kinds += np.bincount(path.kind[1:], minlength=4)
    assert kinds[REFRESHED] > 0
    assert kinds[BOUNCED] > 0
    assert (kinds[REFUSED] > 0) == (name in ("boxed", NORMAL[-1]))
    assert_same_events(BUILDERS[name](), 41, rate=0.0, in_metric=True)


@pytest.mark.slow
@every_potential
def test_sparse_couplings_have_the_same_events(build):
    """Catches a crossing or a bounce that reads other entries of a sparse matrix than of a dense one."""
    for label in range(20, 24):
        assert_same_events(as_sparse(as_dense(build())), label, products=False, every=3)


def test_events_without_refreshment():
    """Catches a random number that is drawn where no refreshment is due."""
    for label, build in enumerate(ZOO.values()):
        assert_same_events(build(), 100 + label, rate=0.0)


def test_many_coordinates():
    """Catches a coordinate that the windows leave out: with 40 coordinates a window holds only some."""
    potential = spike_slab(40, 0.2)
    for label in range(3):
        assert_same_events(potential, 200 + label, events=300, every=7)


def test_fields_are_computed_anew_in_time():
    """Catches rounding that builds up in F, or a renewal that forgets the linear part."""
    potential = spike_slab(8)
    rng = np.random.default_rng(base_seed())
    y, v = random_start(potential.cells, rng)
    path_state, toll_state = states("long")
    scale = potential.natural_scale()
    engine = launch(potential, y, v, scale=scale, refreshment_rate=0.5, path_state=path_state, toll_state=toll_state)
    for _ in range(20):
        engine.run(5.0, 100)
        flight = engine.flight
        y = flight.y * scale
        x = potential.cells.values(y)
        np.testing.assert_allclose(flight.p, x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(flight.F, potential.coupling @ x - potential.linear, rtol=1e-9, atol=1e-9)
        assert np.sqrt(flight.v @ flight.v) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_array_equal(flight.row, potential.cells.locate(y))


@every_potential
def test_a_restored_state_continues_with_the_same_bytes(build):
    """Catches an array that changes while the engine runs and is not named as state: all others are overwritten."""
    assert_restored_state_continues(as_dense(build()), "scratch")


@pytest.mark.parametrize("name", NORMAL)
def test_a_restored_state_in_the_metric_continues_with_the_same_bytes(name):
    """Catches the same in the other engine."""
    assert_restored_state_continues(BUILDERS[name](), "values", "hit", in_metric=True)


def assert_restored_state_continues(potential: Potential, *scratch: str, in_metric: bool = False) -> None:
    _, engine, _ = twins(potential, 400, events=1, in_metric=in_metric)
    engine.run(0.7, 20)
    kept = state_arrays(engine.flight, engine.recorder)
    saved = [array.copy() for array in kept]
    engine.run(0.9, 30)
    first = [array.copy() for array in kept]
    for array, content in zip(kept, saved, strict=True):
        array[...] = content
    for name in scratch:
        getattr(engine.flight, name)[...] = np.nan
    engine.recorder.products.now[...] = np.nan
    engine.run(0.9, 30)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(kept, first, strict=True))


@every_potential
def test_starts_on_walls_and_along_axes(build):
    """Catches a loop that hangs, loses time or leaves its cell where a hit is due at once, or a speed is zero."""
    potential = as_dense(build())
    cells = potential.cells
    for side in (-1.0, 1.0):
        edge = np.where(side > 0, cells.upper, cells.lower)
        rows = np.array([_enterable(cells, i, side) for i in range(cells.d)])
        y = np.where(np.isfinite(edge[rows]), edge[rows], 0.5 * side)
        for direction in (side, -side):
            v = direction * np.eye(cells.d)[0]
            path_state, toll_state = states(side, direction)
            engine = launch(potential, y, v, scale=np.ones(cells.d), refreshment_rate=0.5, path_state=path_state,
                            toll_state=toll_state)  # fmt: skip
            engine.flight.row[:] = rows
            prepare(engine.flight, engine.view, engine.recorder.evaluations)
            engine.run(0.5, 40)
            where, own = engine.flight.y, engine.flight.row
            assert ((cells.lower[own] <= where) & (where <= cells.upper[own])).all()
            np.testing.assert_allclose(np.add.reduceat(engine.total("cell"), cells.first[:-1]), 20.0, rtol=1e-9)


def _enterable(cells: Cells, i: int, side: float) -> int:
    """Return the outermost cell of coordinate i on a side among those that may be entered."""
    rows = [row for row in range(cells.first[i], cells.first[i + 1]) if cells.constant[row] < np.inf]
    return rows[-1] if side > 0 else rows[0]


# --- the recorder -----------------------------------------------------------------------------------------------------


def pieces(path: FlightPath, cells: Cells, duration: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the length, (n,), of each straight piece of a path, its first and last values and its cells, (n, d)."""
    ends = np.append(path.time[1:], np.inf).clip(max=duration)
    keep = path.time < duration
    length = (ends - path.time)[keep]
    y, speed = path.y[keep], path.speed[keep]
    rows = np.array([cells.locate(row) for row in y + 0.5 * length[:, None] * speed])
    values = [cells.slope[rows] * end + cells.shift[rows] for end in (y, y + length[:, None] * speed)]
    return length, values[0], values[1], rows


@every_name
def test_the_recorder_integrates_the_path(name):
    """Catches pieces that are dropped, counted twice, weighted wrongly, or put into the wrong cell, bin or pair."""
    assert_integrates(as_dense(BUILDERS[name]()))


@pytest.mark.parametrize("name", NORMAL)
def test_the_recorder_integrates_the_path_in_the_metric(name):
    """Catches the same in the other engine."""
    assert_integrates(BUILDERS[name](), in_metric=True)


def assert_integrates(potential: Potential, in_metric: bool = False) -> None:
    d, cells = potential.cells.d, potential.cells
    path, engine, _ = twins(potential, 300, rate=0.3, events=30, in_metric=in_metric)
    sweeps = 13  # closes batches, merges them and leaves one open
    duration = 0.5 * (path.time[-1] + path.time[-2])
    engine.run(duration / sweeps, sweeps)
    length, first, last, rows = pieces(path, cells, duration)
    weight = length[:, None]
    close = {"rtol": 1e-10, "atol": 1e-10 * duration}
    np.testing.assert_allclose(engine.total("mean"), (weight * (first + last) / 2).sum(axis=0), **close)
    product = np.einsum("n,ni,nj->ij", length, first, first) + np.einsum("n,ni,nj->ij", length, last, last)
    product = (product + np.einsum("n,ni,nj->ij", length, first + last, first + last)) / 6
    np.testing.assert_allclose(engine.total("square"), np.diag(product), **close)
    np.testing.assert_allclose(engine.total("products").reshape(d, d), product, **close)
    in_cell = np.bincount(rows.ravel(), weights=np.repeat(length, d), minlength=cells.lower.size)
    np.testing.assert_allclose(engine.total("cell"), in_cell, **close)

    def at(times):
        """Return the values at some times, (n, d), and the pieces that they are in."""
        piece = np.minimum(np.searchsorted(path.time, times) - 1, length.size - 1)
        share = ((times - path.time[piece]) / length[piece])[:, None]
        return first[piece] + share * (last[piece] - first[piece]), piece

    values, _ = at(np.arange(1, sweeps + 1) * (duration / sweeps))
    np.testing.assert_allclose(engine.recorder.extremes, [values.min(axis=0), values.max(axis=0)], **close)
    bins, span = engine.total("bin").reshape(d, BINS + 2), duration / (sweeps * LOOKS)
    values, piece = at((np.arange(sweeps * LOOKS) + 0.5) * span)
    for i in range(d):
        moves = cells.slope[rows[piece, i]] != 0.0  # what stands for a whole cell is in no bin
        place = np.searchsorted(np.linspace(-2.0, 3.0, BINS + 1), values[moves, i], side="right")
        np.testing.assert_allclose(bins[i], span * np.bincount(place, minlength=BINS + 2), **close)


@every_potential
def test_draws_are_states_and_their_log_prob(build):
    """Catches a draw that is taken at another time, or a log-density that misses a term, a slope or a mass."""
    potential = as_dense(build())
    path, engine, scale = twins(potential, 500, rate=0.3, events=1)
    recorder = engine.recorder._replace(draws=np.zeros((10, path.y.shape[1])), log_prob=np.zeros(10))
    recorder.tally[THIN] = 3
    for k in range(10):
        advance(engine.flight, engine.view, recorder, 0.4, 3)
        y = engine.flight.y * scale
        rows = engine.flight.row
        np.testing.assert_allclose(recorder.draws[k], potential.cells.slope[rows] * y + potential.cells.shift[rows])
        expected = literal_log_prob(potential, recorder.draws[k])
        assert recorder.log_prob[k] == pytest.approx(expected, rel=1e-9, abs=1e-9)
