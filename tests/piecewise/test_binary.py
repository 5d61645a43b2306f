"""A binary Markov random field through the general engine: the same wall hits as the clocks made for it.

Without refreshment the motion of (|y|, sign(y) v) does not depend on the target, and clock and engine draw the same
random numbers in the same order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bouncy._random import fill_sphere
from bouncy.clocks.contract import Clock, fill, position, restart
from bouncy.clocks.exponential import EXPONENTIAL
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.experiments.particle import draw_position, flip_cost
from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.targets.mrf import MRF
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import pay
from piecewise.engine import Engine, launch, states

BILLIARDS = [GAUSSIAN, EXPONENTIAL]
HITS_COMPARED = 1000


def hits_of(clock: Clock, d: int, state: NDArray[np.uint64], n: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the first n hits of a clock without refreshment: times and sites."""
    running = start(clock, d, state)
    times, sites = np.empty(n), np.empty(n, np.int32)
    assert fill(running, math.inf, times, sites) == (n, False)
    return times, sites


def start(clock: Clock, d: int, state: NDArray[np.uint64]) -> Any:
    """Return a clock at time 0, by its interpreted functions, which need no compilation."""
    running = clock.allocate(d, 0.0, state)
    restart(running)
    return running


def where(clock: Any, d: int, t: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    z, w = np.empty(d), np.empty(d)
    position(clock, t, z, w)
    return z, w


def engine_like(clock: Clock, field: MRF, state: NDArray[np.uint64], toll_state: NDArray[np.uint64]) -> Engine:
    """Return the engine at the start of a clock, all spins +1, with its distances and speeds."""
    target = MixedBinaryGaussian(field.M, field.r, augmentation=clock.name)
    z, w = np.empty(field.d), np.empty(field.d)
    draw_position(state, clock is GAUSSIAN, np.ones(field.d, np.int8), z)
    fill_sphere(state, w)
    return launch(
        target.potential, z, w, scale=target.scale, refreshment_rate=0.0, path_state=state, toll_state=toll_state
    )


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5, 30])
@pytest.mark.parametrize("clock", BILLIARDS, ids=lambda clock: clock.name)
def test_wall_hits_are_those_of_the_clock(clock, d):
    """Catches an engine or a clock that meets another wall, at another time, or lets another flip pass."""
    field = MRF.random(d, sigma_M=0.5 / math.sqrt(d), sigma_r=0.3, seed=d)
    state, toll_state = states(clock.name, d)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        times, sites = hits_of(clock, d, state.copy(), HITS_COMPARED + 1)
        running = start(clock, d, state.copy())
        toll = new_budget(toll_state.copy())
        engine = engine_like(clock, field, state, toll_state)
        assert_same_hits(running, toll, field, engine, times, sites)


def assert_same_hits(running: Any, toll: Any, field: MRF, engine: Engine, times: Any, sites: Any) -> None:
    """Stop clock and engine after each hit, and compare spins, distances, speeds and what passed."""
    d, s, purse = field.d, np.ones(field.d, np.int8), toll.purse[0]
    one_time, one_site = np.empty(2), np.empty(2, np.int32)
    now, flips = 0.0, 0
    for k in range(HITS_COMPARED):
        passed, purse = pay(toll, purse, flip_cost(field.M, field.r, s, sites[k]), sites[k])
        s[sites[k]] *= -1 if passed else 1
        flips += passed
        stop = times[k] + 0.3 * (times[k + 1] - times[k])
        engine.run(stop - now)
        now = stop
        n, _ = fill(running, stop, one_time, one_site)
        assert (n, one_site[0]) == (1, sites[k])
        z, w = where(running, d, stop)
        events = engine.total("events")
        assert (events[HITS], events[FLIPS]) == (k + 1, flips)
        np.testing.assert_array_equal(engine.flight.p, s)
        np.testing.assert_allclose(engine.flight.y, s * z, atol=1e-8)
        np.testing.assert_allclose(engine.flight.v, s * w, atol=1e-8)
