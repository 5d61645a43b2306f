"""A walker moves the spins of a larger model: its clock and toll go on while the target changes between visits."""

import itertools
from math import exp

import numpy as np
import pytest

from bouncy.samplers import as_sampler
from bouncy.targets.contract import TargetError
from bouncy.targets.custom import Custom
from bouncy.workers.walker import Walker
from conftest import base_seed
from helpers.statistics import z_test

SAMPLERS = ["bps-gaussian", "hmc", "gibbs"]
every_sampler = pytest.mark.parametrize(
    "sampler", [name if name == "bps-gaussian" else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS]
)


class Joint:
    """log p(s, t) of two spins s and a third variable t = -1 or +1 that others move; t = 0 stands for none.

    As a function of s it is known up to a constant, which may be another one at each visit.
    """

    def __init__(self, t):
        self.t = t
        self.constant = 0.0

    def tilt(self, s):
        return 0.8 * s[0] - 0.5 * s[1] + 0.3

    def __call__(self, s):
        return self.t * self.tilt(s) + 0.4 * s[0] * s[1] + self.constant

    def move(self, s, rng):
        """Draw t from its law given s, and another constant."""
        self.t = 1 if rng.random() < 1.0 / (1.0 + exp(-2.0 * self.tilt(s))) else -1
        self.constant = 3.0 * rng.normal()


def new_walker(log_prob, sampler, d=2):
    target = Custom(d, log_prob=log_prob, compile=False)
    return Walker(target, as_sampler(target, sampler), np.random.SeedSequence(base_seed()))


def statistics(s, t):
    return [s[0], s[1], s[0] * s[1], t, t * s[0], t * s[1]]


def exact():
    states = list(itertools.product([-1, 1], repeat=3))
    weights = [exp(Joint(t)((s0, s1))) for s0, s1, t in states]
    return np.average([statistics((s0, s1), t) for s0, s1, t in states], axis=0, weights=weights)


@pytest.mark.slow
@every_sampler
def test_law_of_a_larger_model(sampler, rng):
    """Catches a clock or toll that must not go on when the target changes, and a log p kept from before it did.

    False alarms: 1e-6 per sampler; errors of 0.15 are seen.
    """
    joint = Joint(1)
    walker = new_walker(joint, sampler)
    s = np.ones(2, np.int8)
    rows = np.empty((20000, 6))
    for k in range(rows.shape[0]):
        walker.advance(s, sweeps=1)
        joint.move(s, rng)
        rows[k] = statistics(s, joint.t)
    z_test(rows.reshape(100, 200, 6).mean(axis=1), exact(), detect=0.15, name=sampler).check()


@every_sampler
def test_visits_leave_no_trace(sampler):
    """Catches a part of clock or toll that is lost between visits, or when the state is copied and restored."""
    whole, cut, resumed = (new_walker(Joint(0), sampler) for _ in range(3))
    s, r = np.ones(2, np.int8), np.ones(2, np.int8)
    counts = np.sum([cut.advance(s, sweeps=1) for _ in range(30)], axis=0)
    assert whole.advance(r, sweeps=30) == tuple(counts)
    np.testing.assert_array_equal(r, s)
    resumed.restore(cut.state())
    assert resumed.advance(r, sweeps=10) == cut.advance(s, sweeps=10)
    np.testing.assert_array_equal(r, s)


def test_failures():
    """Catches a visit that goes on from an impossible state or after its target failed."""

    def log_prob(s):
        if s[0] < 0:
            raise ZeroDivisionError("on the way")
        return 0.0 if s[1] > 0 else -np.inf

    with pytest.raises(TargetError, match=r"log p is -inf at s = \[1, -1\]"):
        new_walker(log_prob, "gibbs").advance(np.array([1, -1], np.int8), sweeps=1)
    with pytest.raises(TargetError, match="on the way") as caught:
        new_walker(log_prob, "gibbs").advance(np.array([1, 1], np.int8), sweeps=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
