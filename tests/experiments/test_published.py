"""The samplers at their published cost: events and averages of the literal twins, the exact law, the cost itself."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from bouncy.enumeration import exact
from bouncy.experiments.particle import BUDGET, T, advance_bps, advance_hmc
from bouncy.experiments.published import NAMES, PublishedHMC, published
from bouncy.targets.mrf import MRF
from conftest import base_seed
from helpers import literal, literal_hmc
from helpers.literal import CROSSED, REFRESHED
from helpers.statistics import z_test

pytestmark = pytest.mark.slow

TRAVEL_TIME = 2.3 * math.pi

samplers = pytest.mark.parametrize("name", NAMES)


def new_chain(name, d=5, key=0, pairs=True, travel_time=TRAVEL_TIME):
    target = MRF.random(d, sigma_M=0.4, sigma_r=0.2, seed=2)
    seed = np.random.SeedSequence([base_seed(), 31, key])
    return published(name, target, travel_time=travel_time, seed=seed, pairs=pairs)


def literal_path(chain, events):
    """Return the events of the literal twin from the state of a chain, up to its last wall, and the spins before."""
    particle = copy.deepcopy(chain.particle)
    start = particle.s.copy()
    if isinstance(chain, PublishedHMC):
        path = literal.follow(literal_hmc.advance_compiled, particle, events, None)
    else:
        path = literal.follow(literal.advance_compiled, bps_twin(particle), events, None)
    last = np.flatnonzero(path.at_wall)[-1] + 1
    return path.kind[:last], path.time[:last], path.site[:last], start


def bps_twin(particle):
    """Return the literal twin of a published particle: one purse, no refreshment."""
    shared = {name: getattr(particle, name) for name in ("M", "r", "y", "v", "s", "rng", "gaussian")}
    now = np.array([particle.now[T], math.inf, particle.now[BUDGET], 0.0])
    scratch = np.empty(particle.s.size)
    return literal.Particle(
        **shared, now=now, toll_rng=particle.rng, field=scratch, refreshment_rate=0.0, two_purses=False
    )


def replay(name, kinds, times, sites, s):
    """Return sum of weights, weighted s and s s': holding times of states, or one for each end of a trajectory."""
    total, mean, pair_mean, then = 0.0, np.zeros(s.size), np.zeros((s.size, s.size)), 0.0
    s = s.astype(float)
    for kind, time, site in zip(kinds, times, sites, strict=True):
        weight = float(kind == REFRESHED) if name == "hmc" else time - then
        total, mean, pair_mean = total + weight, mean + weight * s, pair_mean + weight * np.outer(s, s)
        then = time
        if kind == CROSSED:
            s[site] *= -1
    return total, mean, pair_mean, s


@pytest.mark.parametrize("d", [7, *(pytest.param(d, marks=pytest.mark.slow) for d in (1, 2, 40))])
@samplers
def test_events_and_averages_are_those_of_the_literal_twin(name, d):
    """Catches a sampler that is not the published one, segments not weighted by time, and a state that is not recorded.

    Same random numbers, same events; the averages are replayed from the twin's event list. The twin computes log p in
    full: rounding errors differ, and grow by a factor of ten in some hundred events.
    """
    chain = new_chain(name, d)
    kinds, times, sites, start = literal_path(chain, 1000)
    total, mean, pair_mean, s = replay(name, kinds, times, sites, start)
    hits = int(np.count_nonzero(sites >= 0))
    for part in (hits // 3, 1, hits - hits // 3 - 1):  # where a chain stops must leave no trace
        chain.advance(part)
    assert chain.hits == hits
    assert chain.flips == np.count_nonzero(kinds == CROSSED)
    assert chain.time == pytest.approx(times[-1], rel=1e-7)
    np.testing.assert_array_equal(chain.s, s)
    np.testing.assert_allclose(chain.mean, mean / total, atol=1e-6)
    np.testing.assert_allclose(chain.pair_mean, pair_mean / total, atol=1e-6)
    np.testing.assert_allclose(np.diag(chain.pair_mean), 1.0, rtol=1e-12)


@pytest.mark.parametrize("travel_time", [0.5 * math.pi, 6.5 * math.pi])
def test_short_and_long_trajectories_are_those_of_the_literal_twin(travel_time):
    """Catches a wrong position at the end of a trajectory, of sites that met their wall and of those that did not."""
    chain = new_chain("hmc", 20, travel_time=travel_time)
    kinds, times, sites, start = literal_path(chain, 4000)
    chain.advance(int(np.count_nonzero(sites >= 0)))
    assert np.count_nonzero(kinds == REFRESHED) > 20
    assert chain.time == pytest.approx(times[-1], rel=1e-9)
    np.testing.assert_array_equal(chain.s, replay("hmc", kinds, times, sites, start)[-1])


@samplers
def test_means_are_exact(name):
    """Catches any bias of the estimates that the experiments compare.

    z-tests over 64 independent chains of 100 000 hits from uniform spins after 2000 hits that are forgotten; alpha
    1e-6 each, biases of 0.03 are seen.
    """
    chains = [new_chain(name, key=k) for k in range(64)]
    for chain in chains:
        chain.advance(2000)
        chain.forget()
        chain.advance(100_000)
    answer = exact(MRF.random(5, sigma_M=0.4, sigma_r=0.2, seed=2))
    upper = np.triu_indices(5, 1)
    z_test([chain.mean for chain in chains], answer.mean, detect=0.03).check()
    z_test([chain.pair_mean[upper] for chain in chains], answer.pair_mean[upper], detect=0.03).check()


@samplers
def test_sweep_time_is_that_of_d_hits(name):
    """Catches a clock time that cannot be compared between samplers.

    z-test over 200 chains of 200 hits, alpha 1e-6, sees an error of 18 % in the rate.
    """
    chains = [new_chain(name, d=10, key=k) for k in range(200)]
    for chain in chains:
        chain.advance(200)
    z_test([200 * chain.sweep_time / (10 * chain.time) for chain in chains], 1.0, detect=0.18).check()


def weight(name, chain):
    return math.floor(chain.time / TRAVEL_TIME) if name == "hmc" else chain.time


@samplers
def test_forget_drops_the_past_and_keeps_the_state(name):
    """Catches a warm-up that stays in the averages or the counters, and a forgetful chain that takes another path."""
    chain, whole = new_chain(name), new_chain(name)
    for c in (chain, whole):
        c.advance(777)
    before = [weight(name, whole), whole.mean, whole.pair_mean, whole.flips]
    chain.forget()
    assert chain.hits == chain.flips == 0
    for c in (chain, whole):
        c.advance(1500)
    assert chain.hits == 1500
    assert whole.hits == 2277
    assert chain.flips == whole.flips - before[3]
    np.testing.assert_array_equal(chain.s, whole.s)
    assert chain.time == whole.time
    after = weight(name, whole)
    for ours, total, past in ((chain.mean, whole.mean, before[1]), (chain.pair_mean, whole.pair_mean, before[2])):
        np.testing.assert_allclose(ours, (after * total - before[0] * past) / (after - before[0]), atol=1e-10)


@samplers
def test_seed_fixes_the_chain_and_compiling_leaves_it_alone(name):
    """Catches a seed that is used up by the first chain, chains that share a start, and work done while compiling."""
    seed = np.random.SeedSequence(5)
    target = MRF.random(30, seed=1)
    first, second = (published(name, target, travel_time=1.0, seed=seed, pairs=False) for _ in range(2))
    other = published(name, target, travel_time=1.0, seed=np.random.SeedSequence(6), pairs=False)
    np.testing.assert_array_equal(first.s, second.s)
    assert not np.array_equal(first.s, other.s)
    assert set(first.s) == {-1, 1}
    first.compile()
    assert first.time == first.hits == 0
    for chain in (first, second):
        chain.advance(500)
    np.testing.assert_array_equal(first.s, second.s)
    assert first.time == second.time
    np.testing.assert_array_equal(first.mean, second.mean)


@pytest.mark.slow
@samplers
def test_spins_start_uniformly(name):
    """Catches chains that all start in one corner; z-test, alpha 1e-6, sees a mean spin of 0.25."""
    starts = [new_chain(name, d=3, key=k).s for k in range(2000)]
    z_test(np.array(starts, float), 0.0, detect=0.25).check()


class Counted:
    """An array that counts how often its numbers are read and written."""

    def __init__(self, array, tally=None):
        self.array, self.shape, self.size = array, array.shape, array.size
        self.tally = {"read": 0, "written": 0} if tally is None else tally

    def __getitem__(self, key):
        found = self.array[key]
        if isinstance(found, np.ndarray):
            return Counted(found, self.tally)
        self.tally["read"] += 1
        return found

    def __setitem__(self, key, value):
        self.tally["written"] += 1
        self.array[key] = value


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("d", [4, 9])
@samplers
def test_an_event_costs_what_was_published(name, d, pairs):
    """Catches a published edition made faster or slower than its algorithm: a row of M per hit, d^2 sums per record.

    Counted in the interpreted source: BPS records every flip, HMC every trajectory, whether pairs are asked for or not.
    """
    chain = new_chain(name, d, pairs=pairs)
    M, y, sums = Counted(chain.particle.M), Counted(chain.particle.y), Counted(chain.record.pairs)
    particle, record = chain.particle._replace(M=M, y=y), chain.record._replace(pairs=sums)
    with np.errstate(over="ignore"):
        if name == "hmc":
            advance_hmc.py_func(particle, chain.schedule, record, 300)
        else:
            advance_bps.py_func(particle, record, 300)
    recorded = math.floor(chain.time / TRAVEL_TIME) if name == "hmc" else chain.flips
    assert chain.hits == 300
    assert recorded > 0
    assert M.tally["read"] == 300 * d
    assert sums.tally["written"] == recorded * d**2
    if name == "hmc":
        assert y.tally["written"] == recorded * d
    else:
        assert y.tally["written"] >= 300 * (d + 1)
    assert (chain.pair_mean is not None) == pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "gibbs"}, "'gibbs'; expected one of"),
        ({"target": MRF.ising((3, 3))}, "sparse.*expected a dense MRF"),
        ({"travel_time": 0.0}, "0.0; expected a finite number > 0"),
        ({"travel_time": math.inf}, "inf; expected a finite number > 0"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    """Catches an experiment that runs on something else than it was given."""
    arguments = {"name": "hmc", "target": MRF.random(3), "travel_time": 1.0, "pairs": True, **changes}
    with pytest.raises(ValueError, match=message):
        published(**arguments, seed=np.random.SeedSequence(0))


def test_averages_of_nothing_are_refused():
    """Catches NaN that enters a table of errors because a chain was too short for one trajectory."""
    chain = new_chain("hmc", travel_time=100.0)
    chain.advance(3)
    with pytest.raises(ValueError, match="nothing is recorded after 3 wall hits"):
        _ = chain.mean
    with pytest.raises(ValueError, match="events must be"):
        chain.advance(-1)
