"""Swaps and flips: every event against a literal twin, the law from exact starts, and who may be paired with whom."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import bouncy
from bouncy._random import new_state
from bouncy.samplers import as_sampler
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import pay
from bouncy.workers.contract import Keep, Plan
from bouncy.workers.spins import SpinWorker
from conftest import base_seed
from helpers.compiled_clocks import fill_compiled, shift_compiled
from helpers.replicates import exact_draws, replicate_sampler, state_counts
from helpers.statistics import chi_square_test, z_test

SEED = base_seed()


def colouring():
    """Return three colours on a path of two edges: d = 9, neighbours of the same colour cost 1."""
    M = np.zeros((9, 9))
    for a, b in ((0, 1), (1, 2)):
        for c in range(3):
            M[3 * a + c, 3 * b + c] = M[3 * b + c, 3 * a + c] = 0.25
    groups = np.arange(9).reshape(3, 3)
    return bouncy.MRF(M, np.linspace(-0.2, 0.3, 9)).one_hot(groups)


def assignment():
    """Return who does what: rows of a 3 x 3 table one-hot, columns by a penalty."""
    cost = np.random.default_rng(0).normal(size=(3, 3))
    M = np.zeros((9, 9))
    for column in range(3):
        for a in range(3):
            for b in range(3):
                if a != b:
                    M[3 * a + column, 3 * b + column] = 0.2
    return bouncy.MRF(M, 0.3 * cost.ravel()).one_hot(np.arange(9).reshape(3, 3))


def selection(p=6):
    """Return a regression on blocks of three correlated variables."""
    rng = np.random.default_rng(5)
    X = np.repeat(rng.standard_normal((30, p // 3)), 3, axis=1) + 0.5 * rng.standard_normal((30, p))
    return bouncy.VariableSelection(X, X[:, 0] + rng.standard_normal(30), g=30.0)


def walled():
    """Return a target on which every single flip is impossible, not merely not allowed."""
    fields = np.array([0.4, -0.3, 0.2, 0.1])
    possible = lambda s, f: (s * f).sum() + 0.5 * s[0] * s[1] if s.sum() == 0 else -np.inf  # noqa: E731
    return bouncy.Custom(4, log_prob=possible, data=fields).fixed_sum(2)


GAS = bouncy.MRF.ising((2, 3), coupling=0.4, field=0.0)
TABLE = bouncy.MetropolisMixed(swaps=0.7, partners=[(0, 1, 1.0), (2, 3, 5.0), (1, 3, 0.2)])
CASES = {
    "gas": (lambda: GAS.fixed_sum(3), "metropolis-swap"),
    "gas-on-edges": (lambda: GAS.fixed_sum(2), bouncy.MetropolisSwap(partners="edges")),
    "colouring": (colouring, "metropolis-swap"),
    "assignment": (assignment, "metropolis-swap"),
    "groups-and-free": (lambda: bouncy.MRF.random(5, sigma_M=0.5, seed=2).one_hot([[0, 1, 2]]), "metropolis-mixed"),
    "table": (lambda: bouncy.MRF.random(4, sigma_M=0.5, seed=2), TABLE),
    "selection": (selection, "metropolis-mixed"),
    "walls": (walled, "metropolis-swap"),
}
# Functions of these are compiled for nothing else, or they are like another one: left to the long tests.
LONG = ("gas", "assignment", "selection", "walls")
every_case = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in LONG else case for case in CASES]
)


@functools.cache
def target_of(case):
    return CASES[case][0]()


def sampler_of(case):
    return as_sampler(target_of(case), CASES[case][1])


@every_case
def test_every_event_is_that_of_a_literal_twin(case):
    """Catches a cost, a spin, a time or a random number that is not what the rule says, flip by flip.

    The twin knows log p and the rule alone: a pair that differs trades places if log p of now minus log p of then is
    below the budget. Clock and budget are those of the chain.
    """
    target, sampler = target_of(case), sampler_of(case)
    worker = SpinWorker(target, sampler, Plan(pairs="all"), np.random.SeedSequence([SEED, 3]), None)
    s, flips = worker.s.copy(), []
    _, sampler_seed = np.random.SeedSequence([SEED, 3]).spawn(2)
    clock_seed, toll_seed = sampler_seed.spawn(2)
    clock, toll = sampler.new_clock(target, new_state(clock_seed)), new_budget(new_state(toll_seed))
    purse, tried = toll.purse[0], 0
    times, sites = np.empty(1024), np.empty(1024, np.int32)
    for sweep in range(40):
        n, reached = fill_compiled(clock, worker.sweep_time, times, sites)
        assert reached
        for t, i, j in zip(times[:n:2], sites[:n:2], sites[1:n:2], strict=True):
            sites_tried = [i] if j < 0 else [i, j]
            tried += len(sites_tried)
            if j >= 0 and s[i] == s[j]:
                continue
            then = s.copy()
            then[sites_tried] *= -1
            with np.errstate(invalid="ignore", over="ignore"):
                passed, purse = pay(toll, purse, float(target.log_prob(s) - target.log_prob(then)), i)
            if passed:
                flips += [(sweep, t, site) for site in sorted(sites_tried, key=lambda site: -s[site])]
                s = then
        shift_compiled(clock, worker.sweep_time)
    found = worker.advance(40, Keep("path"))
    rows = found.rows[0]
    of_sweep = np.repeat(np.arange(40), rows["flip_count"])
    assert list(zip(of_sweep, rows["flip_time"], rows["flip_site"], strict=True)) == flips
    assert worker.s.tolist() == s.tolist()
    assert len(flips) > 10
    assert sum(batch["events"][0] for batch in [*found.batches[0], *worker.open_sums()]) == tried


@every_case
@pytest.mark.parametrize(
    ("replicates", "detect"), [(12_000, 0.08), pytest.param(120_000, 0.025, marks=pytest.mark.slow)]
)
def test_law_from_exact_starts(case, replicates, detect):
    """Catches a move that does not leave p as it is, and means that are not those of p.

    Chi-square of final states and z-tests over replicates, alpha 1e-6 each; sees biases of 0.08, and 0.025 in the long
    tests.
    """
    target = target_of(case)
    exact = bouncy.exact(target)
    starts = exact_draws(target, replicates, seed=SEED + 1)
    run = replicate_sampler(target, sampler_of(case), starts, n_sweeps=3, seed=SEED + 2, pairs="all")
    chi_square_test(state_counts(run.s), exact.probabilities, detect=detect).check()
    z_test(run.path, exact.mean, detect=detect).check()
    z_test(run.mean, exact.mean, detect=detect).check()
    i, j = np.triu_indices(target.d, 1)
    for pairs in (run.pair_path, run.pair_mean):
        z_test(pairs[:, i * target.d + j], exact.pair_mean[i, j], detect=detect).check()


@pytest.mark.parametrize(
    "case",
    ["assignment", *(pytest.param(case, marks=pytest.mark.slow) for case in ("gas-on-edges", "groups-and-free"))],
)
def test_every_allowed_state_is_reached(case):
    """Catches a part of the states that is never left: final states from one start, sees a variation of 0.1."""
    target = target_of(case)
    starts = np.repeat(target.start(np.random.default_rng(0))[None], 4000, axis=0)
    run = replicate_sampler(target, sampler_of(case), starts, n_sweeps=60, seed=SEED + 4, pairs="all")
    chi_square_test(state_counts(run.s), bouncy.exact(target).probabilities, detect=0.1).check()


@pytest.mark.parametrize(
    "build",
    [
        lambda: bouncy.MRF([[0.0]]).fixed_sum(0),
        lambda: bouncy.MRF([[0.0]]).one_hot([[0]]),
        lambda: GAS.fixed_sum(0),
        lambda: GAS.fixed_sum(6),
        lambda: GAS.one_hot([[k] for k in range(6)]),
    ],
)
def test_a_single_allowed_state_is_constant(build):
    """Catches a loop that hangs, or moves, where there is nowhere to go."""
    target = build()
    with pytest.warns(bouncy.NoFlipWarning):
        run = bouncy.sample(target, chains=2, draws=20, pairs="all", seed=0)
    assert run.sampler.name == "metropolis-swap"
    assert np.isfinite(target.log_prob(run.draws)).all()
    assert run.mean.tolist() == run.draws[0, 0].tolist()
    assert run.diagnostics["flips"] == 0
    assert run.diagnostics["hits"] > 0


@pytest.mark.parametrize(
    ("build", "sampler", "message"),
    [
        (lambda: GAS.fixed_sum(3), "gibbs", "gibbs flips one spin at a time.*can be sampled by: .*metropolis-swap"),
        (lambda: GAS.fixed_sum(3), bouncy.HMC(), "hmc flips one spin at a time"),
        (lambda: GAS.one_hot([[0, 1]]), "bps-gaussian", "can be sampled by: .*metropolis-mixed"),
        (lambda: GAS.one_hot([[0, 1]]), "metropolis-swap", "never moves the sites that are in no group"),
        (lambda: GAS, "metropolis-swap", "keeps the number of spins [+]1, which is not fixed here"),
        (lambda: bouncy.MRF(np.zeros((4, 4))).fixed_sum(2), bouncy.MetropolisSwap("edges"), "has no edges"),
        (lambda: bouncy.MRF(np.zeros((4, 4))), bouncy.MetropolisMixed("edges"), "has no edges"),
        (lambda: GAS.one_hot([[0, 5], [1, 2]]), bouncy.MetropolisMixed("edges"), "cannot reach all allowed"),
        (lambda: GAS.fixed_sum(2), bouncy.MetropolisSwap([(0, 1, 1.0)]), "cannot reach all allowed"),
        (lambda: GAS.fixed_sum(2), bouncy.MetropolisSwap([(0, 9, 1.0)]), "names the site 9"),
        (
            lambda: GAS.one_hot([[0, 1], [2, 3]]),
            bouncy.MetropolisMixed(partners=[(1, 2, 1.0)]),
            "not in the same group",
        ),
        (lambda: selection().fixed_sum(2), bouncy.MetropolisSwap("edges"), "has no edges"),
    ],
)
def test_samplers_that_cannot_move_are_refused(build, sampler, message):
    """Catches a chain that stands still, or leaves the allowed states, and a message that names no way out."""
    with pytest.raises(ValueError, match=message):
        as_sampler(build(), sampler)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"swaps": 0.0}, "swaps must be"),
        ({"swaps": 1.0}, "strictly between 0 and 1"),
        ({"partners": "friends"}, "expected 'all', 'edges', or rows"),
        ({"partners": [(0, 1)]}, "expected two sites and a weight"),
        ({"partners": [(0, 0, 1.0)]}, "two different sites"),
        ({"partners": [(0, 1, -1.0)]}, "expected a number > 0"),
        ({"partners": [(0, 1, 1.0), (1, 0, 2.0)]}, "twice"),
    ],
)
def test_bad_settings_are_refused(options, message):
    """Catches settings that would silently be others."""
    with pytest.raises(ValueError, match=message):
        bouncy.MetropolisMixed(**options)


def test_partners_may_be_an_array():
    """Catches rows that are compared with a name, entry by entry."""
    given = bouncy.MetropolisMixed(partners=np.array([[0, 1, 0.5], [2, 1, 2.0]]))
    assert given.partners == ((0, 1, 0.5), (1, 2, 2.0))


@pytest.mark.slow
def test_walls_without_log_prob_are_refused():
    """Catches a wall that is taken for the end of the world: what is behind it is not known from costs alone."""
    wall = bouncy.Custom(4, flip_cost=lambda s, i: np.inf).fixed_sum(2)
    with pytest.raises(bouncy.TargetError, match="give log_prob too"):
        bouncy.sample(wall, chains=1, draws=5, seed=0, initial=[1, 1, -1, -1], pairs="all")


def test_candidates_of_a_regression_are_its_correlations():
    """Catches partners that are not the most correlated ones, weights that are not symmetric, and lost wrappers."""
    target = selection(12)
    weights = target.candidates().toarray()
    assert np.array_equal(weights, weights.T)
    assert np.diagonal(weights).tolist() == [0.0] * 12
    r = np.abs(np.array(target._correlations))
    i, j = np.nonzero(weights)
    np.testing.assert_allclose(weights[i, j], r[i, j] ** 4)
    kept = target.clamp({3: 1}).tempered(0.5).candidates().toarray()
    assert np.array_equal(kept, np.delete(np.delete(weights, 3, 0), 3, 1))


def test_candidates_of_many_variables_need_no_matrix(monkeypatch):
    """Catches blocks of correlations that are put in other rows than theirs, and weights that are not symmetric."""
    from bouncy.targets import _regression

    columns = np.random.default_rng(0).standard_normal((40, 9))
    columns /= np.linalg.norm(columns, axis=1)[:, None]
    monkeypatch.setattr(_regression, "_PARTNERS", 5)
    expected = _regression.correlated_pairs(columns, columns @ columns.T).toarray()
    monkeypatch.setattr(_regression, "_ROWS", 7)
    np.testing.assert_allclose(_regression.correlated_pairs(columns, np.empty((0, 0))).toarray(), expected)
    assert (expected > 0).sum(axis=1).min() >= 5
    assert np.array_equal(expected, expected.T)


def test_paths_can_be_replayed():
    """Catches two flips at the same time of which a replay makes one."""
    run = bouncy.sample(GAS.fixed_sum(3), chains=2, draws=50, seed=SEED, keep="path", pairs="all")
    assert (run.draws.sum(axis=2) == 0).all()
    times = np.unique(np.concatenate([flips["time"] for flips in run.flips]))[:200]
    assert (np.asarray(run.replay(times)).sum(axis=-1) == 0).all()


def test_auto_takes_swaps_where_nothing_else_moves():
    """Catches a choice among samplers that all refuse the target, and a pilot of a single state."""
    free = GAS.one_hot([[0, 1, 2]])
    for target, chosen in ((GAS.fixed_sum(3), "metropolis-swap"), (free, "metropolis-mixed")):
        run = bouncy.sample(target, "auto", draws=20, chains=2, seed=0, pairs="all")
        assert run.sampler.name == chosen
    single, _ = as_sampler(GAS.fixed_sum(0), "auto").prepared(GAS.fixed_sum(0), np.random.SeedSequence(0))
    assert single.name == "metropolis-swap"


@pytest.mark.slow
def test_selection_of_twelve_against_enumeration():
    """Catches costs that are wrong after an exchange of columns: p = 12, sees a bias of 0.02 in inclusion."""
    target = selection(12)
    exact = bouncy.exact(target)
    starts = exact_draws(target, 20_000, seed=SEED + 5)
    run = replicate_sampler(target, as_sampler(target, "metropolis-mixed"), starts, n_sweeps=8, seed=SEED, pairs="all")
    z_test(run.mean, exact.mean, detect=0.02).check()
    z_test(run.s.astype(float), exact.mean, detect=0.1).check()
