"""How lanes decide: single precision wherever it can tell, double precision where it cannot."""

import numpy as np
import pytest

from bouncy._random import new_state
from bouncy._vector import DRAWN, STEP
from bouncy.tolls.contract import HEAT_BATH, METROPOLIS
from bouncy.tolls.lanes import new_lane_toll
from helpers.lanes import beginnings, pay_in_lanes
from helpers.statistics import z_test

WIDTH = 4096


@pytest.fixture
def states(seed):
    return np.array([new_state(child) for child in np.random.SeedSequence(seed).spawn(WIDTH)]).T.copy()


def tried(rule, states, costs, uniform, spin):
    """Return a toll after an attempt in all lanes, and the spins."""
    toll, spin = new_lane_toll(rule, states, 1), np.full(WIDTH, spin, np.int8)
    toll.attempt.cost[0] = costs
    flipped, counted = pay_in_lanes(toll, spin, np.asarray(uniform, np.float32), 0.0, WIDTH // 2)
    assert flipped == np.count_nonzero(toll.attempt.change) == toll.attempt.flips.sum()
    assert counted == np.count_nonzero(toll.attempt.change[: WIDTH // 2])
    return toll, spin


@pytest.mark.parametrize("rule", [METROPOLIS, HEAT_BATH])
@pytest.mark.parametrize("spin", [1, -1])
def test_what_is_certain_is_right_and_the_rest_is_drawn(rule, spin, states, rng):
    """Catches a lane that passes, or is refused, although the rest of its number could tell otherwise.

    Nor may a doubt move a generator: where there is one depends on how a machine rounds.
    """
    before, drawn = states.copy(), []
    for scale in (0.01, 1.0, 5.0, 20.0, 1e3):
        costs, uniform = rng.normal(0.0, scale, WIDTH), rng.integers(0, 2**23, WIDTH) * STEP
        most = 1.0 / (rule + np.exp(np.clip(costs, -500.0, 500.0)))
        near = rng.random(WIDTH) < 0.5
        uniform[near] = np.floor(np.clip(most[near] / STEP + rng.integers(-2, 3, near.sum()), 0, 2**23 - 1)) * STEP
        toll, spins = tried(rule, states, costs, uniform, spin)
        assert (states == before).all()
        passed = spins == -spin
        assert ((spins == spin) | passed).all()
        assert (toll.attempt.change == np.where(passed, -2.0 * spin, 0.0)).all()
        assert passed[uniform + STEP <= most].all()
        assert not passed[uniform >= most].any()
        drawn.extend(passed[(uniform < most) & (most < uniform + STEP)])
    assert 100 < sum(drawn) < len(drawn) - 100


@pytest.mark.parametrize("rule", [METROPOLIS, HEAT_BATH])
@pytest.mark.parametrize("cost", [0.3, 4.0, 15.0, 17.5])
def test_doubts_are_removed_by_the_rest_of_the_number(rule, cost, states):
    """Catches a rest that is not uniform, or compared with another cost: sees 0.06 of a probability."""
    share = 1.0 / (rule + np.exp(cost)) / STEP  # of lanes that pass, in units of STEP
    begin, expected = np.floor(share), share % 1.0
    passes = []
    for _ in range(16):
        beginnings(states, np.empty((DRAWN, WIDTH), np.float32))
        passes.append(tried(rule, states, cost, np.full(WIDTH, begin * STEP), 1)[1] < 0)
    assert z_test(np.mean(passes, axis=1), expected, detect=0.06).passed
