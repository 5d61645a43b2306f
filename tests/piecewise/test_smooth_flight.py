"""The particle on a density of functions against its twins, event by event, with the same random numbers (layer L1).

On quadratic potentials it meets the events of `flight.py`, whose event times are in closed form; on all others, oblique
walls among them, those of the literal twin. A difference in the last digit grows at each bounce off a curved potential,
so thousands of events are cut into runs of some tens.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from bouncy import Density
from bouncy._dispatch import state_arrays
from bouncy.piecewise.literal import BOUNCED, CROSSED, REFRESHED, REFUSED, FlightPath, literal_flight
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import PathRecorder, new_path_recorder
from bouncy.piecewise.smooth_flight import SmoothFlight
from bouncy.piecewise.targets import examples
from bouncy.targets.contract import raise_failure
from bouncy.tolls.budget import new_budget
from conftest import base_seed
from helpers.literal_density import literal_density_flight
from piecewise.densities import law_of
from piecewise.engine import launch, random_start, states
from piecewise.zoo import correlated

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
INF = np.inf
EVENTS = 60
# What one event of each kind adds to hits, flips, bounces and refreshments.
COUNTS = {
    -1: (0, 0, 0, 0),
    CROSSED: (1, 1, 0, 0),
    REFUSED: (1, 0, 0, 0),
    BOUNCED: (0, 0, 1, 0),
    REFRESHED: (0, 0, 0, 1),
}


class SmoothEngine(NamedTuple):
    """A particle, its density and its recorder."""

    flight: SmoothFlight
    view: Any
    recorder: PathRecorder

    def run(self, duration: float, sweeps: int = 1) -> None:
        advance(self.flight, self.view, self.recorder, duration, sweeps)
        assert self.view.failure() is None, self.view.failure()


def launch_smooth(
    target: Density, y: Array, v: Array, rate: float, path_state: NDArray[np.uint64], toll_state: NDArray[np.uint64]
) -> SmoothEngine:
    """Return a particle at y, (d,), with a velocity of length 1."""
    view = target.view()
    flight = target.particle(y, v, target.cells.locate(y), rate, path_state, new_budget(toll_state))
    d = target.d
    recorder = new_path_recorder(d, target.cells.lower.size, np.full(d, -2.0), np.full(d, 3.0), new_products(d))
    prepare(flight, view, recorder.evaluations)
    raise_failure(view)
    return SmoothEngine(flight, view, recorder)


# --- quadratic potentials ---------------------------------------------------------------------------------------------


def quadratic_log_prob(y, data):
    A, b, first, upper, constant, tilt, curvature = data
    total = 0.0
    for i in range(y.size):
        row = first[i]
        while row < first[i + 1] - 1 and y[i] > upper[row]:
            row += 1
        total -= constant[row] + y[i] * (tilt[row] + 0.5 * curvature[row] * y[i]) - b[i] * y[i]
        for j in range(y.size):
            total -= 0.5 * y[i] * A[i, j] * y[j]
    return total


def quadratic_gradient(y, out, data):
    A, b, first, upper, _, tilt, curvature = data
    for i in range(y.size):
        row = first[i]
        while row < first[i + 1] - 1 and y[i] > upper[row]:
            row += 1
        out[i] = b[i] - tilt[row] - curvature[row] * y[i]
        for j in range(y.size):
            out[i] -= A[i, j] * y[j]


def boxed() -> Potential:
    """Walls on both sides, on one side and on none; they cost a purse, as forbidden cells do."""
    edges = [[-INF, -0.5, 1.0, INF], [-INF, 0.3, INF], [-INF, INF]]
    constants = [[INF, 0.0, INF], [INF, 0.0], [0.0]]
    cells = [Cells.alike(1, edge, constant=constant) for edge, constant in zip(edges, constants, strict=True)]
    return Potential(correlated(3, 2), np.array([1.0, -0.5, 0.0]), Cells.joined(cells))


def everything() -> Potential:
    """Jumps, kinks, a forbidden cell, a flat one, and one in which the potential bends down."""
    cells = [
        Cells.alike(1, [-INF, -0.6, 0.2, 1.1, INF], constant=[0.4, 0.0, 0.9, -0.5], tilt=[-1.0, 0.0, 0.5, 0.0]),
        Cells.alike(1, [-INF, -1.5, 0.0, 0.8, INF], constant=[INF, 0.3, 0.0, 0.2], curvature=[0.0, -0.8, 0.0, 1.0]),
        Cells.alike(1, [-INF, 0.0, INF], tilt=[-1.5, 1.5]),
    ]
    return Potential(correlated(3, 5), np.array([0.5, -0.2, 0.3]), Cells.joined(cells))


POTENTIALS = {
    "gaussian": lambda: Potential(correlated(3, 1), np.array([0.5, -1.0, 0.2]), Cells.alike(3, [-INF, INF])),
    "boxed": boxed,
    "everything": everything,
}
SCALE = np.array([0.7, 1.2, 0.9])


@cache
def quadratic(name: str) -> tuple[Potential, Density]:
    """Return a potential, and the density of functions that has it."""
    potential = POTENTIALS[name]()
    cells = potential.cells
    edges = {i: cells.upper[cells.first[i] : cells.first[i + 1] - 1] for i in range(3)}
    data = (
        potential.coupling, potential.linear, cells.first, cells.upper, cells.constant, cells.tilt, cells.curvature
    )  # fmt: skip
    places = {i: edge for i, edge in edges.items() if edge.size}
    target = Density(3, quadratic_log_prob, quadratic_gradient, edges=places, data=data, scale=SCALE)
    return potential, target


@pytest.mark.parametrize("rate", [0.3, 0.0])
@pytest.mark.parametrize("name", POTENTIALS)
def test_events_are_those_of_the_quadratic_engine(name, rate):
    """Catches a wrong jump, event time, wall, margin, reflection or order of random numbers at its first event."""
    potential, target = quadratic(name)
    kinds = np.zeros(4)
    for label in range(4):
        rng = np.random.default_rng([base_seed(), label])
        y, v = random_start(potential.cells, rng)
        path_state, toll_state = states("quadratic", name, label)
        common = {"scale": SCALE, "refreshment_rate": rate}
        copies = lambda: {"path_state": path_state.copy(), "toll_state": toll_state.copy()}  # noqa: B023, E731
        path = literal_flight(potential, y, v, events=EVENTS, **common, **copies())
        engine = launch(potential, y, v, **common, **copies())
        smooth = launch_smooth(target, y, v, rate, *copies().values())
        now = 0.0
        for k in range(EVENTS):
            stop = 0.5 * (path.time[k] + path.time[k + 1])
            for each in (engine, smooth):
                each.run(stop - now)
            now = stop
            where = f"{name}, run {label}, event {k} of kind {path.kind[k]} at {path.time[k]}"
            np.testing.assert_array_equal(smooth.recorder.open_events, engine.total("events"), err_msg=where)
            close = {"rtol": 1e-4, "atol": 1e-4, "err_msg": where}
            np.testing.assert_allclose(smooth.flight.y, engine.flight.y * SCALE, **close)
            np.testing.assert_allclose(smooth.flight.v, engine.flight.v * SCALE, **close)
            np.testing.assert_array_equal(smooth.flight.row, engine.flight.row, err_msg=where)
        for field in ("mean", "square", "cell"):
            found = getattr(smooth.recorder, f"open_{field}")
            np.testing.assert_allclose(found, engine.total(field), rtol=1e-4, atol=1e-4, err_msg=field)
        # A value that is on the edge of a bin by chance may be on either side.
        bins, theirs = smooth.recorder.open_bin.ravel(), engine.total("bin")
        assert np.abs(bins - theirs).sum() < 0.02 * theirs.sum()
        np.testing.assert_allclose(smooth.recorder.products.open, engine.recorder.products.open, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(smooth.recorder.flips, engine.recorder.flips)
        kinds += smooth.recorder.open_events
    assert kinds[2] > 0
    assert (kinds[0] > 0) == (name != "gaussian")


# --- all densities ----------------------------------------------------------------------------------------------------

SMOOTH = {
    "well": lambda: (examples()["density-well"](), np.array([[0.9, 0.4], [-1.0, -0.5], [0.3, -0.6]])),
    **{
        name: (lambda name=name: (law_of(name).target, law_of(name).draw(np.random.default_rng(base_seed()), 3)))
        for name in ("oblique", "polytope", "staircase", "mixture", "double-well", "student-2")
    },
}


def hyperplanes(target: Density) -> list[tuple[Array, float]]:
    """Return edges and walls as hyperplanes n.y = c."""
    cells, unit = target.cells, np.eye(target.d)
    edges = [
        (unit[i], float(edge)) for i in range(target.d) for edge in cells.upper[cells.first[i] : cells.first[i + 1] - 1]
    ]
    return [*edges, *target.walls]


def literal_path(target: Density, y: Array, v: Array, rate: float, events: int, *generators: Any) -> FlightPath:
    walls = hyperplanes(target)
    state = (target.log_prob, target.gradient, walls, target.scale, y.copy(), v.copy(), rate, *generators)
    return literal_density_flight(*state, events=events)


@pytest.mark.parametrize("name", SMOOTH)
def test_events_are_those_of_the_paper(name):
    """Catches a wrong metric, jump, side of a wall or budget on any density at the first event where it shows."""
    target, starts = SMOOTH[name]()
    kinds, events = np.zeros(4), 25
    for label, y in enumerate(starts):
        v = np.random.default_rng([base_seed(), label]).standard_normal(target.d)
        v /= np.sqrt(v @ v)
        path_state, toll_state = states("smooth", name, label)
        path = literal_path(target, y, v, 0.2, events, path_state.copy(), toll_state.copy())
        smooth = launch_smooth(target, y, v, 0.2, path_state, toll_state)
        now, counts = 0.0, np.zeros(4)
        for k in range(events):
            stop = 0.5 * (path.time[k] + path.time[k + 1])
            smooth.run(stop - now)
            now = stop
            counts += COUNTS[int(path.kind[k])]
            where = f"{name}, run {label}, event {k} of kind {path.kind[k]} at {path.time[k]}"
            np.testing.assert_array_equal(smooth.recorder.open_events, counts, err_msg=where)
            y = path.position(k, stop)
            np.testing.assert_allclose(smooth.flight.y, y, rtol=1e-5, atol=1e-5, err_msg=where)
            np.testing.assert_allclose(smooth.flight.v, path.speed[k], rtol=1e-5, atol=1e-5, err_msg=where)
            for (n, c), side in zip(target.walls, smooth.flight.side, strict=True):
                assert side * (n @ smooth.flight.y - c) > 0.0, where
        kinds += counts
    assert kinds[2] > 0
    assert (kinds[0] > 0) == bool(hyperplanes(target))


@pytest.mark.parametrize("name", ["well", "polytope", "staircase"])
def test_a_restored_state_continues_with_the_same_bytes(name):
    """Catches an array that changes while the particle moves and is not named as state: all others are overwritten."""
    target, starts = SMOOTH[name]()
    smooth = launch_smooth(target, starts[0], np.eye(target.d)[0], 0.4, *states("restored", name))
    smooth.run(0.7, 20)
    kept = state_arrays(smooth.flight, smooth.recorder)
    saved = [array.copy() for array in kept]
    smooth.run(0.9, 30)
    first = [array.copy() for array in kept]
    for array, content in zip(kept, saved, strict=True):
        array[...] = content
    for scratch in (smooth.flight.ray.point, smooth.flight.ray.room, smooth.recorder.products.now):
        scratch[...] = np.nan
    smooth.run(0.9, 30)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(kept, first, strict=True))


def test_draws_are_states_and_their_log_prob():
    """Catches a log-density of a sweep that ends elsewhere, or of the other side of a wall."""
    for name in ("well", "polytope", "staircase"):
        target, starts = SMOOTH[name]()
        smooth = launch_smooth(target, starts[0], np.eye(target.d)[0], 0.4, *states("draws", name))
        recorder = smooth.recorder._replace(draws=np.zeros((200, target.d)), log_prob=np.zeros(200))
        advance(smooth.flight, smooth.view, recorder, 0.31, 200)
        np.testing.assert_allclose(target.log_prob(recorder.draws), recorder.log_prob, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(recorder.draws[-1], smooth.flight.y)


def test_starts_on_edges_and_walls():
    """Catches a loop that hangs, loses time or fails where a wall is met at once, or a speed along it is zero."""
    well, _ = SMOOTH["well"]()
    stairs = law_of("staircase").target
    polytope = law_of("polytope").target
    n, c = polytope.walls[0]
    corner = np.linalg.solve(
        np.array([wall[0] for wall in polytope.walls[:3]]), [wall[1] for wall in polytope.walls[:3]]
    )
    cases = [
        (well, np.array([0.3, 0.0])),  # where edge and wall meet
        (well, np.array([0.1, 0.2])),
        (well, np.array([0.5, 0.0])),
        (stairs, np.array([0.5, 0.0])),
        (polytope, c * n / (n @ n) * (1 - 1e-15)),
        (polytope, corner * (1 - 1e-13)),
    ]
    for target, y in cases:
        for direction in (*np.eye(target.d), *-np.eye(target.d)):
            smooth = launch_smooth(target, y, direction, 0.5, *states("edges", direction))
            smooth.run(0.5, 40)
            assert smooth.recorder.clock[0] == pytest.approx(0.5)
            whole = np.add.reduceat(smooth.recorder.open_cell, target.cells.first[:-1])
            np.testing.assert_allclose(whole, 20.0, rtol=1e-9)
            assert np.isfinite(target.log_prob(smooth.flight.y))


def test_evaluations_are_counted():
    """Catches calls that are not counted: each function counts its own."""
    calls = {"log_prob": 0, "gradient": 0, "bound": 0}

    def log_prob(y):
        calls["log_prob"] += 1
        return -0.5 * y[0] * y[0] - (0.5 if y[0] > 0.4 else 0.0)

    def gradient(y, out):
        calls["gradient"] += 1
        out[0] = -y[0]

    def bound(y, v, horizon):
        calls["bound"] += 1
        return abs(v[0]) * (abs(y[0]) + abs(v[0]) * horizon)

    for options in ({}, {"convex": True}, {"bound": bound}):
        target = Density(1, log_prob, gradient, edges={0: [0.4]}, scale=[1.0], compile=False, **options)
        calls.update(dict.fromkeys(calls, 0))
        smooth = launch_smooth(target, np.array([0.1]), np.ones(1), 0.3, *states("counted"))
        smooth.run(1.0, 50)
        assert smooth.recorder.evaluations.tolist() == list(calls.values())
        assert min(calls["log_prob"], calls["gradient"]) > 50
