"""Started from the exact law of (s, z, w), a sampler keeps it (layer L2).

Every test compares means over independent replicates with closed forms or with enumeration. The false-alarm rate is
1e-6 per assertion, and each assertion states with `detect` the error that it sees with probability 0.999. A sampler
whose clock is wrong can leave the law of s exactly right, so the distances z, the speeds w and the rates of events
are tested as well as s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from scipy import special, stats

from bouncy.clocks.contract import Clock
from bouncy.clocks.exponential import EXPONENTIAL
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.clocks.harmonic import HARMONIC
from bouncy.clocks.parabolic import PARABOLIC
from bouncy.clocks.scans import RANDOM, SYSTEMATIC
from bouncy.enumeration import Exact, exact, states
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from bouncy.targets.mrf import MRF
from bouncy.tolls.budget import new_budget
from bouncy.tolls.heat_bath import new_heat_bath
from bouncy.tolls.kinetic import new_kinetic
from conftest import base_seed
from helpers.replicates import PairSet, Replicates, exact_draws, replicate, state_counts
from helpers.statistics import chi_square_test, distribution_test, z_test

SEED = base_seed()
REPLICATES = 150_000
SWEEP_TIME = 2.0
REFRESHMENT_RATE = 0.3


@dataclass(frozen=True)
class Rule:
    """A clock with a toll, and the share of hits at which a flip of cost c passes."""

    clock: Clock
    new_toll: Any
    acceptance: Any


def metropolis(clock: Clock) -> Rule:
    return Rule(clock, lambda running, state: new_budget(state), lambda cost: np.minimum(1.0, np.exp(-cost)))


def hmc(clock: Clock) -> Rule:
    """At a wall the kinetic energy is Exp(1), as a budget is: hits with speed v come at a rate proportional to v."""
    return Rule(clock, lambda running, state: new_kinetic(running.energy), lambda cost: np.minimum(1.0, np.exp(-cost)))


def gibbs(clock: Clock) -> Rule:
    return Rule(clock, lambda running, state: new_heat_bath(state), lambda cost: special.expit(-cost))


RULES = {
    "gaussian": metropolis(GAUSSIAN),
    "exponential": metropolis(EXPONENTIAL),
    "hmc-gaussian": hmc(HARMONIC),
    "hmc-exponential": hmc(PARABOLIC),
    "gibbs-systematic": gibbs(SYSTEMATIC),
    "gibbs-random": gibbs(RANDOM),
    "metropolis-systematic": metropolis(SYSTEMATIC),
    "metropolis-random": metropolis(RANDOM),
}
PARTICLES = [name for name, rule in RULES.items() if rule.clock.family != "scan"]
BOTH_STORAGES = ("gaussian", "exponential")
BILLIARD_CLOCKS = [rule.clock for rule in RULES.values() if rule.clock.family == "billiard"]
TRIANGLE = 0.4 * (1 - np.eye(3))
MODELS = {
    "one site": (MRF([[0.0]], 0.3), 5),
    "two sites": (MRF([[0.0, -0.4], [-0.4, 0.0]], [0.2, -0.5]), 5),
    "frustrated triangle": (MRF(TRIANGLE, [0.3, -0.2, 0.1]), 7),
    # Spins of a larger model move less often: it needs a longer path for time averages that show a bias of 0.01.
    "five sites": (MRF.random(5, sigma_M=0.4, sigma_r=0.3, seed=1), 11),
}


@dataclass(frozen=True)
class Case:
    """Replicates of a sampler on a target, and what they are compared with."""

    rule: Rule
    target: MRF
    rate: float  # refreshments per unit time
    duration: float
    exact: Exact | None
    starts: NDArray[np.int8]
    run: Replicates

    @property
    def d(self) -> int:
        return self.target.d

    @property
    def clock(self) -> Clock:
        return self.rule.clock

    @property
    def is_gaussian(self) -> bool:
        return self.clock.name == "gaussian"


def as_sparse(target: MRF) -> MRF:
    return MRF(scipy.sparse.csr_array(target.M), target.r)


def pairs_for(target: MRF) -> PairSet:
    return "edges" if target.is_sparse else "all"


def label(param: tuple[str, ...]) -> str:
    return "-".join(param).replace(",", "").replace(" ", "-")


def is_long(rule: str, model: str, storage: str) -> bool:
    """Say whether a case is similar to another one, and left to the long tests."""
    if storage == "sparse" or rule.endswith("-random"):
        return model != "frustrated triangle" or (storage == "sparse" and rule != "gaussian")
    return model in ("two sites", "five sites") and rule not in BOTH_STORAGES


def in_time(case: tuple[str, str, str]) -> Any:
    return pytest.param(case, marks=[pytest.mark.slow] if is_long(*case) else [])


# Dense and sparse storage are two targets: one sampler is enough for the second one.
SMALL = [(r, m, s) for m in MODELS for r in RULES for s in ("dense", "sparse") if s == "dense" or r in BOTH_STORAGES]
only_particles = pytest.mark.parametrize(
    "small", [in_time(case) for case in SMALL if case[0] in PARTICLES], indirect=True, ids=label
)


@pytest.fixture(scope="module", params=[in_time(case) for case in SMALL], ids=label)
def small(request: pytest.FixtureRequest) -> Case:
    """Replicates of small models from exact draws of s, with every recorder of pairs."""
    name, model, storage = request.param
    rule = RULES[name]
    target, n_sweeps = MODELS[model]
    starts = exact_draws(target, REPLICATES, seed=SEED)
    stored = as_sparse(target) if storage == "sparse" else target
    run = replicate(
        stored,
        rule.clock,
        starts,
        sweep_time=SWEEP_TIME,
        n_sweeps=n_sweeps,
        refreshment_rate=REFRESHMENT_RATE,
        seed=SEED + 1,
        pairs=pairs_for(stored),
        capacity=4,
        new_toll=rule.new_toll,
    )
    return Case(rule, stored, REFRESHMENT_RATE, n_sweeps * SWEEP_TIME, exact(target), starts, run)


# d, refreshment rate, sweep time, sweeps, replicates: long paths between refreshments; many refreshments and next to
# nothing else; and dimensions in which a clock keeps only part of its sites up to date.
BILLIARDS = {
    "never refreshed": (5, 0.0, 10.0, 4, 100_000),
    "refreshed all the time": (5, 1000.0, 0.01, 1, 100_000),
    "hundred sites": (100, 0.1, 15.0, 2, 40_000),
    "hundred sites, never refreshed": (100, 0.0, 15.0, 4, 40_000),
}


# Sites of a trajectory are independent, so that few are enough: many are left to the long tests.
BILLIARD_CASES = [
    pytest.param(
        (r, b),
        marks=[] if RULES[r].clock.family == "billiard" and "hundred" not in b else [pytest.mark.slow],
    )
    for b in BILLIARDS
    for r in PARTICLES
]


@pytest.fixture(scope="module", params=BILLIARD_CASES, ids=label)
def billiard(request: pytest.FixtureRequest) -> Case:
    """Replicates without couplings, where p(s) is known in any dimension and the clock is as on every other target."""
    rule_name, name = request.param
    rule = RULES[rule_name]
    d, rate, sweep_time, n_sweeps, n = BILLIARDS[name]
    r = np.linspace(-0.6, 0.6, d)
    target = MRF(scipy.sparse.csr_array((d, d)), r)
    p_up = special.expit(-2 * r)
    starts = np.where(np.random.default_rng(SEED).random((n, d)) < p_up, 1, -1).astype(np.int8)
    run = replicate(
        target,
        rule.clock,
        starts,
        sweep_time=sweep_time,
        n_sweeps=n_sweeps,
        refreshment_rate=rate,
        seed=SEED + 1,
        pairs="edges",
        new_toll=rule.new_toll,
    )
    return Case(rule, target, rate, n_sweeps * sweep_time, None, starts, run)


# --- A: averages over the path ----------------------------------------------------------------------------------------


def test_time_averages(small: Case) -> None:
    """Segments not weighted by time, a dropped last segment, a wrong toll or a stale field bias the mean of s."""
    assert small.exact is not None
    z_test(small.run.path, small.exact.mean, detect=0.015, name="time average of s").check()


def test_conditional_means(small: Case) -> None:
    """A wrong flip cost, a stale field or a recording at a moment that depends on s biases -tanh(h)."""
    assert small.exact is not None
    z_test(small.run.mean, small.exact.mean, detect=0.015, name="conditional mean").check()


def test_pair_averages(small: Case) -> None:
    """A flip or the end of a batch booked wrongly for a pair biases E[s_i s_j], of either form."""
    if small.d == 1:
        assert small.run.pair_path.shape[1] == (0 if small.target.is_sparse else 1)
        return
    assert small.exact is not None
    upper = np.triu_indices(small.d, 1)
    # Models are complete graphs, so that the edges are the pairs of the upper triangle, row by row.
    columns = np.arange(upper[0].size) if small.target.is_sparse else upper[0] * small.d + upper[1]
    expected = small.exact.pair_mean[upper]
    z_test(small.run.pair_path[:, columns], expected, detect=0.018, name="time average of pairs").check()
    z_test(small.run.pair_mean[:, columns], expected, detect=0.018, name="conditional mean of pairs").check()


@pytest.mark.slow
def test_time_averages_without_couplings(billiard: Case) -> None:
    """Hits lost or doubled by the clock in large dimensions bias the path of the sites that they belong to."""
    expected = -np.tanh(billiard.target.r)
    uphill = np.sign(expected) * (billiard.run.path - expected)
    z_test(uphill.mean(axis=1), 0.0, detect=0.02, name="time average of s").check()
    np.testing.assert_allclose(
        billiard.run.mean, np.broadcast_to(expected, billiard.run.mean.shape), rtol=0, atol=1e-12
    )


# --- B: the final state -----------------------------------------------------------------------------------------------


def test_final_state(small: Case) -> None:
    """A toll that lets too much or too little pass changes the law of s at the end, by 0.015 in total variation."""
    assert small.exact is not None
    assert small.exact.probabilities is not None
    chi_square_test(
        state_counts(small.run.s),
        small.exact.probabilities,
        detect=0.015,
        smallest_expected=50,
        name="final state",
    ).check()


# --- Y: distances to the walls ----------------------------------------------------------------------------------------


def check_distances(case: Case, ks: float, moment: float) -> None:
    """Compare z with independent half-normals or Exp(1): marginals, the law of their sum, products."""
    z, d = case.run.z, case.d
    assert z.min() >= -1e-12
    if case.is_gaussian:
        distribution_test(z, lambda x: special.erf(x / math.sqrt(2)), detect=ks, name="law of z").check()
        distribution_test((z**2).sum(axis=1), stats.chi2(d).cdf, detect=ks, name="law of sum z^2").check()
        mean, square = math.sqrt(2 / math.pi), 1.0
    else:
        distribution_test(z, lambda x: -np.expm1(-x), detect=ks, name="law of z").check()
        distribution_test(z.sum(axis=1), stats.gamma(d).cdf, detect=ks, name="law of sum z").check()
        mean, square = 1.0, 2.0
    z_test(z, mean, detect=moment, name="mean of z").check()
    z_test(z**2, square, detect=5 * moment, name="mean of z^2").check()
    i, j = np.triu_indices(min(d, 5), 1)
    if d > 1:
        z_test((z[:, i] - mean) * (z[:, j] - mean), 0.0, detect=moment, name="covariance of z").check()


@only_particles
def test_distances(small: Case) -> None:
    """A wrong reflection, bounce law or speed moves z away from its law although s stays right."""
    check_distances(small, ks=0.015, moment=0.03)


def test_distances_of_billiard(billiard: Case) -> None:
    """Rounding or bookkeeping that builds up between refreshments, or in large dimensions, moves z."""
    check_distances(billiard, ks=0.03, moment=0.06)


# --- V: speeds --------------------------------------------------------------------------------------------------------


def sphere_cdf(d: int) -> Any:
    """Return the distribution function of one coordinate of a uniform unit vector."""
    return lambda x: special.betainc((d - 1) / 2, (d - 1) / 2, np.clip((1 + x) / 2, 0.0, 1.0))


def mean_square_speed(case: Case) -> float:
    """Return E w_i^2: a billiard has speed 1 in all, a trajectory standard normal velocities."""
    return 1.0 if case.clock.family == "trajectory" else 1 / case.d


def check_speeds(case: Case, ks: float, relative: float) -> None:
    """Compare w with the uniform law on the unit sphere, or with independent normals, independent of z.

    Laws are compared for at most 20 sites, which takes as long as all the rest for 100.
    """
    z, w, d = case.run.z, case.run.w, case.d
    square = mean_square_speed(case)
    scale = math.sqrt(square)
    if case.clock.family == "billiard":
        np.testing.assert_allclose((w**2).sum(axis=1), 1.0, rtol=0, atol=1e-9)
        fourth, cdf = 3 / (d + 2), sphere_cdf(d)
    else:
        distribution_test((w**2).sum(axis=1), stats.chi2(d).cdf, detect=ks, name="law of sum w^2").check()
        fourth, cdf = 3.0 * d, special.ndtr
    # The fourth powers of normals vary more than those of a vector of length 1.
    several = 3 if case.clock.family == "trajectory" else 1
    z_test((w**4).sum(axis=1), fourth, detect=several * fourth * relative, name="mean of sum w^4").check()
    z_test(w, 0.0, detect=scale * relative, name="mean of w").check()
    z_test(w**3, 0.0, detect=4 * scale**3 * relative, name="mean of w^3").check()
    i, j = np.triu_indices(min(d, 5))
    z_test(w[:, i] * w[:, j], (i == j) * square, detect=1.5 * relative * square, name="covariance of w").check()
    products = (w[:, :5, None] * z[:, None, :5]).reshape(len(w), -1)
    z_test(products, 0.0, detect=2 * scale * relative, name="covariance of w and z").check()
    if case.clock.family == "trajectory" or d > 1:
        distribution_test(w[:, :20], cdf, detect=ks, name="law of w").check()


@only_particles
def test_speeds(small: Case) -> None:
    """A velocity off the sphere, or uniform on something else, is seen in its length and its fourth moment."""
    check_speeds(small, ks=0.015, relative=0.03)


@pytest.mark.slow
def test_speeds_of_billiard(billiard: Case) -> None:
    """A wrong law of refreshment, or a bounce that forgets the sites far from their walls, changes the law of w."""
    check_speeds(billiard, ks=0.03, relative=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("name", PARTICLES)
def test_refreshment_forgets_the_velocity(name: str, d: int) -> None:
    """A refreshment that keeps a component of v, or waits for a bounce, leaves w correlated with its start.

    With rate 1000 during 0.01 all but e^-10 of the replicates are refreshed, and next to none meets a wall.
    """
    target = MRF(np.zeros((d, d)))
    starts = np.ones((100_000, d), np.int8)
    rule = RULES[name]
    run = replicate(
        target, rule.clock, starts, sweep_time=0.01, n_sweeps=1, refreshment_rate=1000.0, seed=SEED, pairs="all",
        new_toll=rule.new_toll,
    )  # fmt: skip
    square = mean_square_speed(Case(rule, target, 1000.0, 0.01, None, starts, run))
    products = (run.start_w[:, :, None] * run.w[:, None, :]).reshape(len(starts), -1)
    z_test(products, 0.0, detect=0.04 * square, name="start w times final w").check()
    z_test((run.start_w * run.w) ** 2, square**2, detect=0.1 * square**2, name="their squares").check()


@pytest.mark.slow
@pytest.mark.parametrize("clock", BILLIARD_CLOCKS, ids=lambda clock: clock.name)
def test_refreshments_come_at_their_rate(clock: Clock) -> None:
    """Exponential variates made from a coarse uniform number have a mean that is 0.4 % too small."""
    rate, n = 1000.0, 10_000
    target = MRF(scipy.sparse.csr_array((2, 2)))
    starts = np.ones((n, 2), np.int8)
    run = replicate(target, clock, starts, sweep_time=1.0, n_sweeps=1, refreshment_rate=rate, seed=SEED, pairs="edges")
    z_test(run.events[:, REFRESHMENTS], rate, detect=0.003 * rate, name="refreshments").check()


# --- independence of s and the clock ----------------------------------------------------------------------------------


@only_particles
def test_spins_are_independent_of_the_clock(small: Case) -> None:
    """A clock that sees the target, or a flip that moves z, correlates s with (z, w) at a fixed time."""
    assert small.exact is not None
    s, run = small.run.s, small.run
    mean = math.sqrt(2 / math.pi) if small.is_gaussian else 1.0
    expected = np.repeat(small.exact.mean * mean, small.d)
    with_z = (s[:, :, None] * run.z[:, None, :]).reshape(len(s), -1)
    with_w = (s[:, :, None] * run.w[:, None, :]).reshape(len(s), -1)
    z_test(with_z, expected, detect=0.045, name="s times z").check()
    z_test(with_w, 0.0, detect=0.03 * math.sqrt(small.d * mean_square_speed(small)), name="s times w").check()


# --- R: rates of events -----------------------------------------------------------------------------------------------


def expected_rates(case: Case) -> tuple[float, float]:
    """Return hits and bounces per unit time; those of billiards from m1 = E|v_1| on the unit sphere.

    An oscillator meets its wall every pi. A falling particle is found at its wall with density 1 and meets it with the
    mean of the speeds towards it, 1 / sqrt(2 pi).
    """
    d = case.d
    if case.clock.family == "scan":
        return d, 0.0
    if case.clock.family == "trajectory":
        return (d / math.pi if case.is_gaussian else d / math.sqrt(2 * math.pi)), 0.0
    m1 = math.gamma(d / 2) / (math.sqrt(math.pi) * math.gamma((d + 1) / 2))
    if case.is_gaussian:
        return d * m1 / 2 * math.sqrt(2 / math.pi), 1 / math.sqrt(2 * math.pi)
    return d * m1 / 2, math.sqrt(d) * m1 / 2


def check_rates(case: Case, relative: float) -> None:
    hits, bounces = expected_rates(case)
    assert case.clock.hit_rate(case.d) == pytest.approx(hits, rel=1e-12)
    assert case.clock.bounce_rate(case.d) == pytest.approx(bounces, rel=1e-12)
    T, events = case.duration, case.run.events
    if case.clock is SYSTEMATIC:
        assert np.all(events[:, HITS] == hits * T)
    else:
        z_test(events[:, HITS], hits * T, detect=relative * hits * T, name="hits").check()
    if case.clock.family == "billiard":
        z_test(events[:, BOUNCES], bounces * T, detect=relative * bounces * T, name="bounces").check()
        check_refreshments(case)
    else:
        assert not events[:, BOUNCES].any()
        rate = case.rate if case.clock.family == "trajectory" else 0.0
        # A trajectory that ends with the run may or may not be counted.
        assert np.all(np.abs(events[:, REFRESHMENTS] - (rate * T - 0.5)) <= 0.5 + 1e-9)


def check_refreshments(case: Case) -> None:
    """Compare the number of refreshments with its Poisson law."""
    counts = case.run.events[:, REFRESHMENTS].astype(np.int64)
    if case.rate == 0.0:
        assert not counts.any()
        return
    law = stats.poisson(case.rate * case.duration)
    most = int(law.isf(1e-3))
    probabilities = np.append(law.pmf(np.arange(most)), law.sf(most - 1))
    observed = np.bincount(np.minimum(counts, most), minlength=most + 1)
    chi_square_test(
        observed, probabilities / probabilities.sum(), detect=0.03, smallest_expected=50, name="refreshments"
    ).check()


def test_rates(small: Case) -> None:
    """A wrong speed, bounce law or refreshment law changes the number of hits, bounces or refreshments by 1 %."""
    check_rates(small, relative=0.015)


@pytest.mark.parametrize(
    "billiard", [case for case in BILLIARD_CASES if "time" not in case.values[0][1]], indirect=True, ids=label
)
def test_rates_of_billiard(billiard: Case) -> None:
    """Hits or bounces lost in large dimensions, or between refreshments, change their number by 2 %."""
    check_rates(billiard, relative=0.02)


def test_flips(small: Case) -> None:
    """The share of hits that pass is the mean of the toll's probability: s has its law at every hit."""
    assert small.exact is not None
    assert small.exact.probabilities is not None
    s = states(small.d)
    acceptance = np.zeros(small.d)
    for i in range(small.d):
        flipped = s.copy()
        flipped[:, i] *= -1
        cost = small.target.log_prob(s) - small.target.log_prob(flipped)
        acceptance[i] = small.exact.probabilities @ small.rule.acceptance(cost)
    expected = expected_rates(small)[0] * small.duration * acceptance.mean()
    z_test(small.run.events[:, FLIPS], expected, detect=0.015 * expected, name="flips").check()


@pytest.mark.parametrize("duration", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("field", [0.0, 0.4])
def test_one_site_is_a_two_state_chain(field: float, duration: float) -> None:
    """Wrong waiting times of a single site change the law of (s at 0, s at T), which a stationary mean cannot show.

    With the exponential clock and no refreshment s is Markov with rates min(1, ratio) / 2.
    """
    target = MRF([[0.0]], field)
    starts = exact_draws(target, REPLICATES, seed=SEED)
    run = replicate(
        target,
        EXPONENTIAL,
        starts,
        sweep_time=duration,
        n_sweeps=1,
        refreshment_rate=0.0,
        seed=SEED + 1,
        pairs="all",
    )
    up = 1 / (1 + math.exp(2 * field))  # as log p = -field s
    leave_up, leave_down = 0.5 * min(1.0, math.exp(2 * field)), 0.5 * min(1.0, math.exp(-2 * field))
    kept = math.exp(-(leave_up + leave_down) * duration)
    stay_up, stay_down = up + (1 - up) * kept, (1 - up) + up * kept
    joint = [(1 - up) * stay_down, (1 - up) * (1 - stay_down), up * (1 - stay_up), up * stay_up]
    counts = np.bincount(2 * (starts[:, 0] > 0) + (run.s[:, 0] > 0), minlength=4)
    chi_square_test(counts, joint, detect=0.015, smallest_expected=50, name="two-state chain").check()
