"""How lanes decide: single precision wherever it can tell, double precision where it cannot."""

import numpy as np
import pytest

from bouncy._random import new_state
from bouncy._vector import DRAWN, STEP
from bouncy.tolls.contract import HEAT_BATH, METROPOLIS
from bouncy.tolls.lanes import new_lane_toll
from helpers.lanes import GivenCosts, beginnings, pay_in_lanes
from helpers.statistics import z_test

WIDTH = 4096


@pytest.fixture
def states(seed):
    return np.array([new_state(child) for child in np.random.SeedSequence(seed).spawn(WIDTH)]).T.copy()


def tried(rule, states, costs, uniform, spin, wrong=0.0, field=0.0, b=1.0):
    """Return a toll after an attempt in all lanes at the temperature b, and the spins.

    In single precision costs are `wrong` by so much, and `field` is that of the site in q.
    """
    width = states.shape[1]
    toll, spin = new_lane_toll(rule, states, 1), np.full((1, width), spin, np.int8)
    toll.weight[:], toll.rest[:], toll.reference[:] = b, 1.0 - b, field
    view = GivenCosts(np.full(width, costs), np.full(width, wrong), float(np.abs(wrong).max()))
    flipped, counted = pay_in_lanes(toll, view, spin, np.full(width, uniform, np.float32), width // 2)
    assert flipped == np.count_nonzero(toll.attempt.change) == toll.attempt.flips.sum()
    assert counted == np.count_nonzero(toll.attempt.change[: width // 2])
    return toll, spin[0]


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
        # Single precision knows small probabilities to less than STEP.
        drawn.extend(passed[(uniform < most) & (most < uniform + STEP) & (most > 4 * STEP) & (most < 1e-3)])
    assert len(drawn) > 50
    assert 0.2 < np.mean(drawn) < 0.8


@pytest.mark.parametrize("rule", [METROPOLIS, HEAT_BATH])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 10.0, 1e30, np.inf])
@pytest.mark.parametrize("field", [0.0, 1.5, -400.0])
def test_costs_that_single_precision_has_wrong_are_seen_through(rule, size, field, states, rng):
    """Catches a lane that decides by a cost that is wrong by no more than is admitted, or by fields that cancel it.

    Random numbers are next to the probability that the cost has in double precision, and so tell as soon as it is off.
    One lane at a time: where one is in doubt, those beside it are decided in double precision as well.
    """
    for trial in range(600):
        b, exponent = rng.choice([0.1, 0.7, 1.0]), rng.normal(0.0, 4.0)
        cost = (exponent + (1.0 - b) * 2.0 * field) / b
        most = 1.0 / (rule + np.exp(b * cost - (1.0 - b) * 2.0 * field))
        uniform = np.floor(np.clip(most / STEP + rng.choice([-1.5, 1.5]), 0, 2**23 - 1)) * STEP
        one = states[:, trial : trial + 1].copy()
        _, spins = tried(rule, one, cost, uniform, 1, size * rng.choice([-1.0, 1.0]), field, b)
        assert spins[0] < 0 or uniform + STEP > most
        assert spins[0] > 0 or uniform < most


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
