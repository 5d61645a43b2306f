"""Points: which cells they are, how long coordinates stay, and that the length of their cells says nothing.

That the particle keeps its law among points, and its events, are tested in `test_law.py` and `test_flight.py`. The
false-alarm rate is 1e-6 for each statistical test.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

import bouncy
from bouncy.piecewise.flight import REFRESH_RATE, T_REFRESH
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.points import NoPoints, Points
from bouncy.piecewise.potential import Cells, Potential, new_view
from bouncy.recorders.contract import FLIPS, HITS
from conftest import base_seed
from helpers.replicates_piecewise import fly
from helpers.statistics import distribution_test, z_test
from piecewise.engine import launch, random_start, states
from piecewise.zoo import correlated, spike_slab

SEED = base_seed()
INF = np.inf
BESIDE = {"slope": [1.0, 0.0, 1.0], "shift": [0.4, 0.0, -0.4]}


def alone(edges, **phi):
    return Potential(np.eye(1), np.zeros(1), Cells.alike(1, edges, **phi))


@pytest.mark.parametrize(
    ("potential", "expected"),
    [
        (alone([-INF, -0.4, 0.4, INF], **BESIDE, constant=[0.3, 0.1, 0.9]), 0.2),
        (alone([-INF, -0.4, 0.4, INF], **BESIDE, constant=[0.9, 0.1, INF]), 0.8),
        (alone([-0.4, 0.4, INF], slope=[0.0, 1.0], shift=[0.0, -0.4], constant=[0.5, 0.2]), -0.3),
        (alone([-INF, -0.4, 0.4, INF], **BESIDE, tilt=[0.0, 0.1, 0.0]), None),
        (alone([-INF, -0.4, 0.4, INF], **BESIDE, curvature=[0.0, 0.1, 0.0]), None),
        (alone([-INF, -0.4, 0.4, INF], slope=[1.0, 0.0, 1.0], shift=[0.4, 0.1, -0.4]), None),
        (alone([-INF, -0.4, 0.4, INF], slope=[1.0, 0.0, 1.0], shift=[0.4, 0.0, -0.3]), None),
        (alone([-INF, -0.4, 0.4, INF], **BESIDE, constant=[0.0, INF, 0.0]), None),
        (alone([-INF, 0.0, INF], slope=[1.0, 0.0]), None),
        (alone([-1.0, 0.0, 1.0, INF], slope=[0.0, 0.0, 1.0], shift=[0.0, 0.0, -1.0]), None),
        (alone([-1.0, 1.0], slope=0.0), None),
        (alone([-1.0, 1.0, INF], slope=0.0, constant=[0.0, INF]), None),
    ],
)
def test_points_are_told_from_intervals(potential, expected):
    """Catches a point that is crossed, and an interval whose value jumps, bends or has no end that is taken for one.

    Scales make ends of cells round, so that values beside a point seem to jump.
    """
    for scale in np.random.default_rng(SEED).uniform(0.1, 10.0, 50):
        view = new_view(potential, np.array([scale]))
        found = view.way_out[~np.isnan(view.way_out)]
        np.testing.assert_allclose(found, [] if expected is None else [expected], atol=1e-12)


def test_only_targets_with_points_keep_lists():
    """Catches loops over lists where all coordinates always move, which cost time."""
    y, v = np.zeros(2), np.array([0.6, 0.8])
    options = {"scale": np.ones(2), "refreshment_rate": 0.5}
    for potential, kind in ((spike_slab(2), Points), (Potential(np.eye(2), v, Cells.alike(2, [-INF, INF])), NoPoints)):
        path_state, toll_state = states(kind.__name__)
        engine = launch(potential, y, v, path_state=path_state, toll_state=toll_state, **options)
        assert type(engine.flight.points) is kind


def test_lengths_of_points_have_no_influence():
    """Catches a coordinate that crosses its point, or a mass that is not that of the whole cell."""
    ends = []
    for c in (0.05, 0.4, 3.0):
        cells = Cells.alike(4, [-INF, -c, c, INF], slope=[1.0, 0.0, 1.0], shift=[c, 0.0, -c],
                            constant=[0.3, math.log(2 * c), 0.6])  # fmt: skip
        potential = Potential(correlated(4, 4), np.linspace(-1.0, 2.0, 4), cells)
        x = np.array([0.7, 0.0, 0.0, -0.4])
        y, _ = cells.coordinates(x)
        path_state, toll_state = states("length")
        engine = launch(potential, y, np.full(4, 0.5), scale=potential.natural_scale(), refreshment_rate=0.3,
                        path_state=path_state, toll_state=toll_state)  # fmt: skip
        engine.run(0.7, 40)
        assert engine.total("events")[FLIPS] > 8
        ends.append([*engine.flight.p, *engine.flight.v, *engine.total("mean"), *engine.total("cell")])
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-6, atol=1e-6)


def still(d, c=0.4):
    """Return points of equal sides and no other force, and the rate of leaving them per unit speed."""
    cells = Cells.alike(d, [-INF, -c, c, INF], slope=[1.0, 0.0, 1.0], shift=[c, 0.0, -c], constant=[0.9, -0.2, 0.9])
    return Potential(np.eye(d), np.zeros(d), cells), math.exp(-1.1) / (2.0 * c)


@pytest.mark.parametrize("d", [1, 2])
def test_rests_are_exponential(d):
    """Catches a particle that hangs where all coordinates rest, and a rate of leaving that is wrong by 2 %.

    With the speeds |v_i| of a uniform direction, none has left by a time t with probability E[exp(-rate t sum |v_i|)].
    """
    potential, rate = still(d)
    for time in (1.0, 4.0):
        starts = np.zeros((80_000, d))
        run = fly(potential, starts, scale=np.ones(d), sweep_time=time, n_sweeps=1, refreshment_rate=0.0, seed=SEED)
        if d == 1:
            expected = math.exp(-rate * time)
        else:
            share = lambda a: math.exp(-rate * time * (math.cos(a) + math.sin(a)))  # noqa: E731, B023
            expected = integrate.quad(share, 0.0, math.pi / 2)[0] / (math.pi / 2)
        z_test((run.events[:, HITS] == 0.0).astype(float), expected, detect=0.02, name=f"rests of {time}").check()
        np.testing.assert_allclose(run.cell.reshape(-1, d, 3).sum(axis=2), 1.0, rtol=1e-12)
        assert (run.cell[run.events[:, HITS] == 0.0].reshape(-1, d, 3)[:, :, 1] == 1.0).all()


def test_coordinates_leave_in_the_direction_of_their_velocity():
    """Catches one that turns between two equal sides, or leaves to the side that it came from."""
    potential, _ = still(2)
    for label in range(40):
        y, v = np.zeros(2), np.random.default_rng([SEED, label]).standard_normal(2)
        path_state, toll_state = states("direction", label)
        v /= np.linalg.norm(v)
        engine = launch(potential, y, v, scale=np.ones(2), refreshment_rate=0.0, path_state=path_state,
                        toll_state=toll_state)  # fmt: skip
        while not engine.total("events")[HITS]:
            engine.run(0.05)
        x, moved = engine.flight.p, engine.flight.p != 0.0
        assert moved.sum() <= engine.total("events")[HITS]
        if engine.total("events")[HITS] == 1:
            np.testing.assert_array_equal(np.sign(x[moved]), np.sign(v[moved]))
            np.testing.assert_array_equal(engine.flight.v, v)


def test_a_rest_follows_the_target():
    """Catches a time of leaving that was drawn for another target and is kept (`bouncy.Within`), a rate off by 8 %."""
    slow, _ = still(1)
    fast = Potential(slow.coupling, slow.linear, replace(slow.cells, constant=np.array([0.2, -0.2, 0.2])))
    rate, stayed = math.exp(-0.4) / 0.8, []
    path_state, toll_state = states("target")
    view = new_view(fast, np.ones(1))
    for _ in range(20_000):
        engine = launch(slow, np.zeros(1), np.ones(1), scale=np.ones(1), refreshment_rate=0.0, path_state=path_state,
                        toll_state=toll_state, products=False)  # fmt: skip
        prepare(engine.flight, view, engine.recorder.evaluations)
        advance(engine.flight, view, engine.recorder, 1.0, 1)
        stayed.append(engine.total("events")[HITS] == 0.0)
    z_test(np.array(stayed, float), math.exp(-rate), detect=0.03, name="rests").check()


def zero_between(tilt):
    """Return half-lines and between them a cell that stands for zero, a point if it has no tilt."""
    return alone([-INF, 0.0, 2.0, INF], slope=[1.0, 0.0, 1.0], shift=[0.0, 0.0, -2.0], tilt=[0.0, tilt, 0.0])


@pytest.mark.parametrize("tilts", [(0.0, 3.0), (3.0, -1.0)])
def test_a_place_in_a_cell_of_one_value_follows_the_target(tilts):
    """Catches a place that has the law of another target, or is where a coordinate rested (`bouncy.Within`)."""
    potentials = [zero_between(tilt) for tilt in tilts]
    views = [new_view(potential, np.ones(1)) for potential in potentials]
    path_state, toll_state = states("place", tilts)
    engine = launch(potentials[0], np.array([0.7]), np.ones(1), scale=np.ones(1), refreshment_rate=0.5,
                    path_state=path_state, toll_state=toll_state, products=False)  # fmt: skip
    places = []
    for view in views * 1500:
        prepare(engine.flight, view, engine.recorder.evaluations)
        places.append(engine.flight.y[0])
    rate = tilts[1]
    cdf = lambda y: np.expm1(-rate * y) / math.expm1(-2.0 * rate)  # noqa: E731
    distribution_test(np.array(places[1::2])[:, None], cdf, detect=0.2, name="place").check()


def test_what_has_no_speed_rests_until_it_is_refreshed():
    """Catches a time of leaving that is no number."""
    potential = spike_slab(3)
    path_state, toll_state = states("no speed")
    engine = launch(potential, np.zeros(3), np.array([1.0, 0.0, 0.0]), scale=np.ones(3), refreshment_rate=1.0,
                    path_state=path_state, toll_state=toll_state)  # fmt: skip
    assert np.isinf(engine.flight.points.due[1:]).all()
    engine.run(30.0)
    assert np.isfinite(engine.flight.points.due).all()
    assert (np.add.reduceat(engine.total("cell"), [0, 3, 6])[1:] > 0.0).all()
    assert engine.total("cell")[[3, 5, 6, 8]].sum() > 0.0


def test_lists_say_who_rests():
    """Catches a list that loses a coordinate, one that moves and is listed as at rest, a velocity that is not kept."""
    potential = spike_slab(12, 0.2)
    y, v = random_start(potential.cells, np.random.default_rng(SEED))
    path_state, toll_state = states("lists")
    engine = launch(potential, y, v, scale=potential.natural_scale(), refreshment_rate=0.2, path_state=path_state,
                    toll_state=toll_state)  # fmt: skip
    flight, cells = engine.flight, potential.cells
    for _ in range(200):
        engine.run(0.3)
        n = flight.points.number[0]
        np.testing.assert_array_equal(np.sort(flight.points.order), np.arange(12))
        rests = cells.slope[flight.row] == 0.0
        np.testing.assert_array_equal(np.sort(flight.points.order[n:]), np.flatnonzero(rests))
        assert (flight.points.due[rests] >= 0.0).all()
        assert (flight.u[rests] == 0.0).all()
        assert flight.v @ flight.v == pytest.approx(1.0, abs=1e-12)
        if flight.leg[T_REFRESH] < INF:
            assert flight.leg[REFRESH_RATE] == 0.2


@pytest.mark.parametrize("positive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_unknown_inclusion(positive):
    """Catches rates of leaving that do not follow hyperparameters, above 0.2 in inclusion: "gibbs" says the same."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 3))
    y = X @ [0.5, 0.0, 0.3] + rng.standard_normal(30)
    target = bouncy.SpikeSlab(X, y, inclusion=0.4, slab_scale=1.0, noise_scale=1.0, positive=positive)
    scheme = bouncy.Within(target.given, {"inclusion": two_values}, {"inclusion": 0.4}, sweeps=2)
    options = {"chains": 16, "draws": 1500, "warmup": 200, "seed": SEED, "progress": False}
    ours, theirs = (bouncy.sample(scheme, sampler, **options) for sampler in ("bps", "gibbs"))
    error = np.hypot(ours.path_inclusion_se, theirs.inclusion_se)
    freedom = {"degrees_of_freedom": ours._sums.degrees_of_freedom}
    z_test(ours.path_inclusion - theirs.inclusion, 0.0, error, **freedom, detect=0.2, name="inclusion").check()


def two_values(x, parameters, generator):
    """Draw whether coefficients are probably zero or probably not, given how many are."""
    values, n = np.array([0.2, 0.7]), np.count_nonzero(x)
    weights = values**n * (1.0 - values) ** (x.size - n)
    return float(values[int(generator.random() * weights.sum() > weights[0])])
