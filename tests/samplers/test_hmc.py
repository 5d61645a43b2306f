"""The fast HMC against its literal twin, and the two facts it rests on: energy is kept, time can be reversed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import bouncy
from bouncy._compile import kernel
from bouncy._random import new_state
from bouncy.clocks import clocks, harmonic, parabolic
from bouncy.clocks.by_address import linked
from bouncy.clocks.contract import fill
from bouncy.samplers.contract import NotErgodicWarning
from bouncy.targets.contract import flip_cost, init, on_flip
from bouncy.tolls.contract import pay
from bouncy.tolls.kinetic import new_kinetic
from conftest import base_seed
from helpers.compiled_clocks import position_compiled
from helpers.literal import CROSSED, REFRESHED
from helpers.literal_hmc import energy, literal_hmc

SEED = base_seed()
CLOCKS = clocks("trajectory")
LAUNCH = {"gaussian": kernel(harmonic.launch), "exponential": kernel(parabolic.launch)}
every_augmentation = pytest.mark.parametrize("augmentation", CLOCKS)


@kernel
def follow(clock, toll, view, s, t_stop, times, sites, passed, buffer_t, buffer_i):
    """Run until t_stop or until the outputs are full; write all hits and whether they passed, and return how many."""
    purse = 0.0
    n = 0
    reached = False
    while not reached and n < times.size:
        m, reached = fill(clock, t_stop, buffer_t, buffer_i)
        for k in range(m):
            i = buffer_i[k]
            passed[n], purse = pay(toll, purse, flip_cost(view, s, i), i)
            if passed[n]:
                s[i] = -s[i]
                on_flip(view, s, i)
            times[n], sites[n] = buffer_t[k], i
            n += 1
    return n


@kernel
def start_fields(view, s):
    init(view, s)


class Chain(NamedTuple):
    clock: Any
    toll: Any
    view: Any
    s: NDArray[np.int8]

    def run(self, t_stop: float, capacity: int = 200_000) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return times, sites and whether the flip passed, of all hits up to t_stop."""
        times, sites, passed = np.empty(capacity), np.empty(capacity, np.int32), np.empty(capacity, np.bool_)
        n = follow(linked(self.clock), *self[1:], t_stop, times, sites, passed, np.empty(1), np.empty(1, np.int32))
        assert n < capacity
        return times[:n], sites[:n], passed[:n]

    def where(self, t: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        z, w = np.empty(self.s.size), np.empty(self.s.size)
        position_compiled(self.clock, t, z, w)
        return z, w


def new_chain(target: bouncy.MRF, augmentation: str, travel_time: float, state: NDArray[np.uint64]) -> Chain:
    clock = CLOCKS[augmentation].start(target.d, 0.0 if travel_time == math.inf else 1.0 / travel_time, state)
    s, view = np.ones(target.d, np.int8), target.view()
    start_fields(view, s)
    return Chain(clock, new_kinetic(clock.energy), view, s)


def state_for(*label: int) -> NDArray[np.uint64]:
    return new_state(np.random.SeedSequence([SEED, *label]))


def model(d: int) -> bouncy.MRF:
    return bouncy.MRF.random(d, sigma_M=0.7 / math.sqrt(d), sigma_r=0.3, seed=d)


@pytest.mark.parametrize(
    "travel_time", [pytest.param(0.5 * math.pi, marks=pytest.mark.slow), 2.0, 6.5 * math.pi, math.inf]
)
@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow), 3, 7, 64])
@every_augmentation
def test_events_are_those_of_the_literal_twin(augmentation, d, travel_time):
    """Catches any wrong hit time, order, payment or reflection, a velocity kept or a position lost at a refreshment.

    16000 events in each dimension, in runs of 40: each refreshment multiplies differences of rounding.
    """
    target = model(d)
    for label in range(100):
        state = state_for(d, label)
        twin = literal_hmc(
            target.M, target.r, augmentation, travel_time=travel_time, state=state.copy(), events=40, compiled=d > 3
        )
        t_stop = 0.5 * (twin.time[-2] + twin.time[-1])
        kept = twin.time < t_stop
        at_wall = kept & twin.at_wall
        chain = new_chain(target, augmentation, travel_time, state)
        times, sites, passed = chain.run(t_stop)
        np.testing.assert_array_equal(sites, twin.site[at_wall])
        np.testing.assert_allclose(times, twin.time[at_wall], rtol=0, atol=1e-5)
        np.testing.assert_array_equal(passed, twin.kind[at_wall] == CROSSED)
        assert chain.clock.count[1] == np.sum(twin.kind[kept] == REFRESHED)


@pytest.mark.parametrize("d", [1, 3, 64, 1000])
@every_augmentation
def test_energy_is_kept(augmentation, d):
    """Catches a cost without its factor or with the wrong sign, and speed lost at a reflection: exact to 1e-10."""
    target = model(d)
    chain = new_chain(target, augmentation, math.inf, state_for(d))
    moments = np.linspace(0.0, 60.0, 7)
    energies = []
    for t in moments:
        chain.run(t)
        z, w = chain.where(t)
        energies.append(energy(target.M, target.r, augmentation, chain.s * z, chain.s * w, chain.s))
    assert np.ptp(energies) < 1e-10 * max(1.0, abs(energies[0]))
    assert chain.clock.count[1] == 0


@pytest.mark.parametrize("d", [1, 3, 64])
@every_augmentation
def test_time_can_be_reversed(augmentation, d):
    """Catches a flow that loses information: run, negate the velocity, run as long, and be back at the start."""
    target, duration = model(d), 12.0
    chain = new_chain(target, augmentation, math.inf, state_for(d, 1))
    z_start, w_start = chain.where(0.0)
    flips = chain.run(duration)[2].sum()
    z, w = chain.where(duration)
    back = new_chain(target, augmentation, math.inf, state_for(d, 2))
    back.s[:] = chain.s
    start_fields(back.view, back.s)
    back.clock.scratch[0], back.clock.scratch[1] = z, -w
    LAUNCH[augmentation](back.clock, 0.0)
    assert back.run(duration)[2].sum() == flips > 0
    z_end, w_end = back.where(duration)
    np.testing.assert_array_equal(back.s, np.ones(d))
    np.testing.assert_allclose(z_end, z_start, atol=1e-7)
    np.testing.assert_allclose(w_end, -w_start, atol=1e-7)


@every_augmentation
def test_sites_on_their_walls_do_not_hang(augmentation):
    """Catches endless loops and NaN where a trajectory starts on walls, at rest or both."""
    target = bouncy.MRF(np.zeros((5, 5)), [0.0, 0.5, -0.5, 2.0, 0.0])
    chain = new_chain(target, augmentation, math.inf, state_for(5))
    chain.clock.scratch[0] = [0.0, 0.0, 0.0, 0.0, 1.0]
    chain.clock.scratch[1] = [0.0, 0.0, 1.0, -1.0, 0.0]
    LAUNCH[augmentation](chain.clock, 0.0)
    # A falling site at rest on its wall meets it again and again, at steps that are small but never zero.
    times, sites, _ = chain.run(1e-9 if augmentation == "exponential" else 20.0)
    assert np.all(np.diff(times) >= 0)
    assert np.isfinite(times).all()
    assert sites.size > 0


@pytest.mark.parametrize(("travel_time", "sweeps"), [(0.5, 1), (1.5, 2), (6.5, 7), (2.2, 3)])
def test_draws_lie_at_the_ends_of_trajectories(travel_time, sweeps):
    """Catches draws that slip against the trajectories: each must come with exactly one refreshment per chain."""
    sampler = bouncy.HMC(travel_time=travel_time * math.pi)
    assert sampler.stride == sweeps
    run = bouncy.sample(model(4), sampler, chains=2, draws=50, thin=3, warmup=10, seed=SEED)
    assert run.warmup == 10
    assert run._data.begun == 10 * sweeps
    assert ", 3 trajectories apart, after 10 trajectories of warm-up; " in str(run.summary())
    assert run.sweeps_per_draw == 3 * sweeps
    assert abs(run.diagnostics["refreshments"] - 2 * 3 * 50) <= 2
    hits = 2 * 3 * 50 * travel_time * 4
    assert abs(run.diagnostics["hits"] - hits) < 6 * math.sqrt(2 * 3 * 50)


@pytest.mark.parametrize("turns", [1, 2, 7])
def test_whole_turns_warn(turns):
    """Catches a travel time that tries every spin equally often going unnoticed, with either side of the multiple."""
    for near in (0.0, 1e-6, -1e-6):
        with pytest.warns(NotErgodicWarning, match=rf"travel_time={turns}.5 \* math.pi"):
            bouncy.HMC(travel_time=turns * math.pi + near)
    bouncy.HMC("exponential", travel_time=turns * math.pi)
    bouncy.HMC(travel_time=(turns - 0.5) * math.pi)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"travel_time": 0.0}, "expected a number from 0.01 to 100000"),
        ({"travel_time": 1e-300}, "expected a number from 0.01 to 100000"),
        ({"travel_time": 1e9}, "expected a number from 0.01 to 100000"),
        ({"travel_time": math.inf}, "travel_time"),
        ({"travel_time": -1.0}, "travel_time"),
        ({"travel_time": math.nan}, "travel_time"),
        ({"augmentation": "cauchy"}, "exponential, gaussian"),
        ({"augmentation": None}, "exponential, gaussian"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    """Catches settings that would hang or fail deep inside compiled code."""
    with pytest.raises((ValueError, TypeError), match=message):
        bouncy.HMC(**arguments)


def test_long_trajectories_are_not_called_a_bug():
    """Catches a false alarm: without tolls a falling site keeps its rate until the velocity is drawn anew.

    Each score has |z| > 5 with probability 6e-7 if the variance between trajectories is allowed for; else it is ~100.
    """
    flat = bouncy.MRF(np.zeros((10, 10)))
    for seed in range(20):
        run = bouncy.sample(flat, bouncy.HMC("exponential", travel_time=1000.5), chains=1, draws=1, warmup=0, seed=seed)
        assert abs(run.diagnostics["hit_rate_z"]) < 5


@every_augmentation
def test_huge_costs_leave_numbers(augmentation):
    """Catches an overflow of the kinetic energy, after which a site would be lost without a word."""
    target = bouncy.MRF([[0.0, 4e307], [4e307, 0.0]])
    chain = new_chain(target, augmentation, math.inf, state_for(2))
    chain.run(2.0 if augmentation == "gaussian" else 1e-3)
    assert np.isfinite(chain.clock.energy).all()
    assert np.isfinite(np.array(chain.where(2.0))).all()


@pytest.mark.parametrize("travel_time", [0.1, 0.5 * math.pi])
def test_short_trajectories_warm_up_as_long(travel_time):
    """Catches a default warm-up that counts sweeps of a few attempts as whole ones."""
    run = bouncy.sample(model(4), bouncy.HMC(travel_time=travel_time), chains=2, draws=10, seed=SEED)
    assert run.warmup * travel_time == pytest.approx(200 * math.pi, rel=0.01)


def test_no_attempt_is_not_called_a_refusal():
    """Catches a warning with the wrong reason: a run so short that no wall is met says nothing about the target."""
    with pytest.warns(bouncy.NoFlipWarning, match="no flip was attempted"):
        run = bouncy.sample(model(1), bouncy.HMC(travel_time=0.01), chains=1, draws=1, warmup=0, seed=3)
    assert any("no flip was attempted" in text for text in run.diagnostics["warnings"])
