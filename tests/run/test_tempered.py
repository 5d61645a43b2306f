"""Tempered runs: right where single chains are stuck, with honest errors of log Z, and runs like any other.

Exact answers are those of enumeration, of transfer over a front of spins (`helpers/slabs.py`), and of the determinant
of Kac and Ward for planar glasses.
"""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.special import gammaln, logsumexp

import bouncy
from bouncy import enumeration
from bouncy.results.batches import student_quantile
from bouncy.targets import examples
from conftest import base_seed
from helpers.lattices import planar_log_z
from helpers.slabs import slab, solved
from helpers.statistics import coverage_test

ALPHA = 1e-6


def tempered(target, sampler="tempered", **options):
    """Sample without pairs unless they are asked for: a loop for all tests of one kind of target."""
    return bouncy.sample(
        target, sampler, **{"chains": 4, "draws": 1000, "seed": base_seed(), "pairs": "none", **options}
    )


def check_means(run, expected, largest):
    """Check all means by the Student quantile of a false-alarm rate of 1e-6, and their largest error."""
    d = expected.size
    half = student_quantile(1.0 - ALPHA / d, run._sums.degrees_of_freedom) * run.mean_se
    # Modes of weight 1e-5 and less are not visited in a run, and nothing in its batches tells of them.
    assert (np.abs(run.mean - expected) <= half + 1e-5).all()
    assert np.abs(run.mean - expected).max() < largest


# --- The paper's hard ensemble ----------------------------------------------------------------------------------------


def hard_model(k, sigma_r):
    return bouncy.MRF.random(10, sigma_M=2.0, sigma_r=sigma_r, seed=k)


def check_hard(k, sigma_r, draws):
    target = hard_model(k, sigma_r)
    run = tempered(target, draws=draws, keep="means")
    check_means(run, bouncy.exact(target).mean, 0.02)
    assert run._data.cpu_seconds / run.chains < 2.0
    assert abs(run.log_z - bouncy.exact(target).log_z) < 6 * run.log_z_se


@pytest.mark.parametrize(("k", "sigma_r"), [(3, 0.1)])
def test_hard_models(k, sigma_r):
    """Catches modes with wrong weights: single chains are wrong by 0.1 and more on most of these models."""
    check_hard(k, sigma_r, 40_000)


@pytest.mark.slow
@pytest.mark.parametrize("sigma_r", [0.0, 0.1, 0.5, 1.0])
def test_all_hard_models(sigma_r):
    """Catches the same in all 30 models of the ensemble."""
    for k in range(30):
        check_hard(k, sigma_r, 80_000)


# --- log Z ------------------------------------------------------------------------------------------------------------


def covered_log_z(models, seeds):
    """Return which intervals of log Z cover, (model, seed), and how far both bounds are off."""
    covered, forward, reverse = np.empty((models, seeds), bool), [], []
    spread = np.random.default_rng(1).uniform(0.2, 3.0, models)
    for k in range(models):
        target = bouncy.MRF.random(12, sigma_M=spread[k], sigma_r=0.3, seed=k)
        log_z = bouncy.exact(target).log_z
        for seed in range(seeds):
            run = tempered(target, seed=1000 * k + seed, draws=500, threads=1, keep="means", progress=False)
            half = student_quantile(0.95, run._sums.degrees_of_freedom) * run.log_z_se
            covered[k, seed] = abs(run.log_z - log_z) <= half
            forward.append(run.log_z_bounds[0] - log_z)
            reverse.append(run.log_z_bounds[1] - log_z)
    return covered, np.array(forward), np.array(reverse)


def check_bounds(forward, reverse):
    """Check that estimates are on their sides of log Z on average, up to five standard errors."""
    n = math.sqrt(forward.size)
    assert forward.mean() < 5 * forward.std() / n
    assert reverse.mean() > -5 * reverse.std() / n
    assert max(abs(forward.mean()), abs(reverse.mean())) < 0.05


@pytest.mark.slow
def test_log_z_is_covered():
    """Catches a standard error of log Z that is wrong by a third.

    80 models: correct intervals cover less than 86 or all 80 with probability below 2e-2; the seed is fixed.
    """
    covered, forward, reverse = covered_log_z(80, 1)
    assert 0.86 <= covered.mean() < 1.0
    check_bounds(forward, reverse)


@pytest.mark.slow
def test_log_z_is_covered_closely():
    """Catches a standard error of log Z that is off by a tenth: 200 models, ten seeds each."""
    covered, forward, reverse = covered_log_z(200, 10)
    coverage_test(covered, 0.95, 0.93, 0.97, alpha=2e-3, name="log Z").check()
    check_bounds(forward, reverse)


@pytest.mark.slow
def test_the_bounds_are_two_estimates():
    """Catches one estimate that is returned for both bounds: with few rungs they are far apart, and enclose log Z."""
    target = bouncy.MRF.random(12, sigma_M=1.5, sigma_r=0.3, seed=4)
    log_z = bouncy.exact(target).log_z
    found = np.array([tempered(target, bouncy.Tempered(rungs=2), seed=k, draws=50).log_z_bounds for k in range(16)])
    low, high = found.mean(axis=0)
    assert low < log_z < high
    assert high - low > 1.0


def test_a_run_stops_at_an_error_of_log_z():
    """Catches a bound that looks at the means instead."""
    target = bouncy.MRF.random(8, sigma_M=1.0, sigma_r=0.2, seed=2)
    run = tempered(target, draws=None, until_se=0.01, se_of="log_z")
    assert run.stopped_by == "until_se"
    assert run.log_z_se < 0.01
    assert run.interval("log_z")[0] < bouncy.exact(target).log_z < run.interval("log_z")[1]


@pytest.mark.parametrize(
    "reference", ["uniform", pytest.param((0.3, -0.2, 0.0, 0.1, 0.5, -0.5), marks=pytest.mark.slow)]
)
def test_curves_are_those_of_enumeration(reference):
    """Catches weights of the wrong rung, and errors that are too small: log Z, mean and variance of log p at any b."""
    target = bouncy.MRF.random(6, sigma_M=0.8, sigma_r=0.8, seed=5)
    run = tempered(target, bouncy.Tempered(reference=reference), draws=4000)
    fields = run.sampler.fields
    b = np.linspace(0.0, 1.0, 7)
    curve = run.curve(b)
    s = enumeration.states(6)
    log_p = target.log_prob(s)
    log_q = np.zeros(64) if fields is None else -s @ fields - np.logaddexp(fields, np.negative(fields)).sum()
    for k, x in enumerate(b):
        weight = (1.0 - x) * log_q + x * log_p
        p = np.exp(weight - logsumexp(weight))
        v = log_p - log_q
        truth = {"log_z": logsumexp(weight), "mean": p @ v, "variance": p @ (v - p @ v) ** 2}
        for name, value in truth.items():
            error = max(getattr(curve, f"{name}_se")[k], 1e-9)
            assert abs(getattr(curve, name)[k] - value) < 7 * error, (name, x)
    assert run.ladder["log_z"][-1] == pytest.approx(run.log_z)
    assert curve.log_z[-1] == pytest.approx(run.log_z, abs=4 * run.log_z_se + 1e-9)


# --- Exact answers in large systems -----------------------------------------------------------------------------------


def check_glass(glass, draws, rms, se=0.1):
    run = tempered(glass.target, draws=draws, keep="means")
    assert run.log_z_se < se
    assert abs(run.log_z - glass.log_z) < 4 * run.log_z_se
    assert np.sqrt(np.mean((run.mean - glass.mean) ** 2)) < rms
    assert run._data.cpu_seconds / run.chains < 20.0
    assert run.ladder.round_trips.min() > 20
    return run


@pytest.mark.slow
def test_a_slab():
    """Catches a ladder that stays in one valley: 3-D glass of 256 spins, on which single chains are wrong by 0.7."""
    check_glass(slab(4, 16, 1.2, 0), 8000, 0.04)


@pytest.mark.slow
@pytest.mark.parametrize("couplings", ["signs", "gaussian"])
@pytest.mark.parametrize(("length", "coupling", "draws"), [(16, 2.0, 20_000), (32, 1.2, 20_000), (32, 2.0, 40_000)])
def test_slabs(length, coupling, draws, couplings):
    """Catches the same in larger glasses, and stronger ones."""
    check_glass(slab(4, length, coupling, 1, couplings), draws, 0.04)


@pytest.mark.slow
def test_a_planar_glass():
    """Catches a log Z that is wrong by more than its error on a glass of 1024 spins in the plane, without fields."""
    rng = np.random.default_rng(5)
    site = np.arange(1024).reshape(32, 32)
    pairs = np.concatenate([np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], 1),
                            np.stack([site[:-1].ravel(), site[1:].ravel()], 1)])  # fmt: skip
    J = 0.8 * rng.choice([-1.0, 1.0], len(pairs))
    A = scipy.sparse.coo_array((J, pairs.T), (1024, 1024))
    run = tempered(bouncy.MRF(-(A + A.T).tocsr()), draws=10_000, keep="means")
    assert run.log_z_se < 0.2
    assert abs(run.log_z - planar_log_z(32, J)) < 4 * run.log_z_se


@pytest.mark.slow
def test_a_graph_of_treewidth_ten():
    """Catches the same on a random graph of 1000 spins, each coupled to four of the ten before it."""
    rng, d, front = np.random.default_rng(6), 1000, 10
    pairs = np.array([(i - k, i) for i in range(1, d) for k in rng.permutation(min(i, front))[:4] + 1])
    J, h = rng.normal(size=len(pairs)) * 1.0, rng.normal(size=d) * 0.1
    log_z, mean = solved(front, pairs, J, h)
    A = scipy.sparse.coo_array((J, pairs.T), (d, d))
    run = tempered(bouncy.MRF(-(A + A.T).tocsr(), -h), draws=30_000, keep="means")
    assert run.log_z_se < 0.3
    assert abs(run.log_z - log_z) < 4 * run.log_z_se
    assert np.sqrt(np.mean((run.mean - mean) ** 2)) < 0.05


@pytest.mark.slow
def test_both_phases_of_a_magnet():
    """Catches phases with wrong weights: Curie-Weiss of 100 spins at coupling 1.2 with a small field."""
    d, coupling, field = 100, 1.2, 0.004
    M = -coupling / d * (np.ones((d, d)) - np.eye(d))
    up = np.arange(d + 1)
    m = 2 * up - d
    log_p = gammaln(d + 1) - gammaln(up + 1) - gammaln(d - up + 1) + coupling / (2 * d) * (m**2 - d) + field * m
    p = np.exp(log_p - logsumexp(log_p))
    run = tempered(bouncy.MRF(M, -field * np.ones(d)), draws=8000)
    positive = run.expect(lambda s: (s.sum(axis=1) > 0).astype(float))
    truth = p[m > 0].sum()
    assert 0.55 < truth < 0.8
    assert abs(positive[0] - truth) < 6 * positive[1] < 0.2
    assert abs(run.log_z - logsumexp(log_p)) < 6 * run.log_z_se


def correlated_design(n, p, seed):
    """Return regressors in blocks of three that are nearly alike, and a response to one of each of the first blocks."""
    rng = np.random.default_rng(seed)
    blocks = np.repeat(rng.normal(size=(n, -(-p // 3))), 3, axis=1)[:, :p]
    X = blocks + 0.1 * rng.normal(size=(n, p))
    return X, X[:, 0] + X[:, 4] + 0.7 * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize("name", examples())
def test_every_target(name):
    """Catches a target whose functions are not what lanes of a ladder take them for."""
    target = examples()[name]()
    exact = bouncy.exact(target)
    run = tempered(target, draws=4000, pairs="all")
    check_means(run, exact.mean, 0.05)
    assert abs(run.log_z - exact.log_z) < 6 * run.log_z_se + 1e-9
    i, j = np.triu_indices(target.d, 1)
    assert (np.abs(run.pair_mean - exact.pair_mean)[i, j] < 7 * run.pair_mean_se[i, j] + 1e-3).all()


@pytest.mark.slow
def test_correlated_regressors():
    """Catches chains that keep to one of several regressors that stand for each other."""
    X, y = correlated_design(60, 20, 3)
    target = bouncy.VariableSelection(X, y)
    check_means(tempered(target, draws=8000), bouncy.exact(target).mean, 0.1)


@pytest.mark.slow
def test_five_hundred_regressors():
    """Catches a ladder from a reference at which half of all variables are in: slow, and beyond what n allows.

    Chains alone disagree on which of three regressors stands for the others; those of ladders agree with each other.
    """
    target = bouncy.VariableSelection(*correlated_design(200, 500, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = bouncy.sample(target, chains=4, draws=300, seed=base_seed())
    assert any("chains disagree" in text for text in single.diagnostics["warnings"])
    run = tempered(target, draws=2000)
    assert np.mean(run.sampler.fields) > 1.0
    assert not any("disagree" in text for text in run.diagnostics["warnings"])
    assert np.ptp(run.draws[:, :, :6].mean(axis=1), axis=0).max() < 0.3
    other = tempered(target, bouncy.Tempered(reference=np.full(500, 2.3)), draws=1000)
    assert abs(run.log_z - other.log_z) < 5.0 * np.hypot(run.log_z_se, other.log_z_se)


# --- A run like any other ---------------------------------------------------------------------------------------------


@functools.cache
def model(kind):
    if kind == "dense":
        return bouncy.MRF.random(6, sigma_M=1.5, sigma_r=0.2, seed=3)
    if kind == "sparse":
        return bouncy.MRF.ising((4, 4), 0.6)
    return examples()[kind]()


QUICK = {"chains": 3, "draws": 200, "warmup": 40, "seed": 5}
every_model = pytest.mark.parametrize(
    "kind", ["dense", pytest.param("sparse", marks=pytest.mark.slow), "custom-log-prob"]
)


def same(one, other):
    """Say whether two runs have the same bytes."""
    names = ("draws", "log_prob", "values", "mean", "mean_se", "flips_per_site")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names) and (
        one.log_z, one.log_z_se, one.log_z_bounds, one.best.log_prob, one.sampler
    ) == (other.log_z, other.log_z_se, other.log_z_bounds, other.best.log_prob, other.sampler)  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["dense", *(pytest.param(k, marks=pytest.mark.slow) for k in ("sparse", "custom-log-prob"))]
)
def test_a_run_is_a_function_of_its_seed(kind, tmp_path):
    """Catches a pilot that is made again, or differently, and a part of a ladder that is not kept in files."""
    target = model(kind)
    run = tempered(target, **QUICK)
    assert same(run, tempered(target, **QUICK, threads=1))
    assert not same(run, tempered(target, **{**QUICK, "seed": 6}))
    half = tempered(target, **{**QUICK, "draws": 100}, checkpoint=tmp_path / "checkpoint")
    assert same(run, half.extend(draws=100))
    assert same(run, bouncy.resume(tmp_path / "checkpoint", target, total_draws=200))
    for suffix in ("npz", "nc"):
        run.save(tmp_path / f"run.{suffix}")
        loaded = bouncy.Run.load(tmp_path / f"run.{suffix}", target)
        assert same(run, loaded)
        assert same(run.extend(draws=50), loaded.extend(draws=50))


@every_model
def test_what_is_kept_does_not_change_a_run(kind):
    """Catches a path that does not follow the chain from lane to lane."""
    target = model(kind)
    run = tempered(target, **QUICK)
    path = tempered(target, **QUICK, keep="path")
    assert (path.draws == run.draws).all()
    assert np.allclose(path.path_mean, run.path_mean)
    assert np.allclose(run.path_mean, [path.replay(np.linspace(0, path.duration, 40_001)).mean(axis=(0, 1))], atol=0.01)
    means = tempered(target, **QUICK, keep="means")
    assert (means.mean == run.mean).all()
    assert means.log_z == run.log_z


def test_answers_fit_together():
    """Catches a table, a summary and a warning that do not belong to the run."""
    target = model("dense")
    run = tempered(target, draws=2000)
    ladder = run.ladder
    assert len(ladder) == run.sampler.rungs == ladder.to_frame().shape[0]
    assert ladder["b"].tolist() == list(run.sampler.ladder)
    assert 0.9 * ladder.round_trips.mean() < ladder.expected_round_trips * 1.2
    assert ladder.barrier == pytest.approx((1.0 - ladder["acceptance"][:-1]).sum())
    assert str(ladder).count("\n") == len(ladder) + 1
    assert ladder["flow"][[0, -1]].tolist() == [1.0, 0.0]
    assert ((ladder["flow"][1:-1] > 0.0) & (ladder["flow"][1:-1] < 1.0)).all()
    text = str(run.summary())
    assert f"log Z: {run.log_z:.4f}" in text
    assert "round trips" in text
    assert run.diagnostics["warnings"] == []
    assert run.diagnostics["ladder"]["rungs"] == len(ladder)
    states = enumeration.states(6)
    assert run.best.log_prob == pytest.approx(target.log_prob(states).max())
    assert target.log_prob(run.best.state) == pytest.approx(run.best.log_prob)


def test_other_runs_have_a_best_state_and_no_log_z():
    """Catches a best state that is not the best of the draws, and an error that does not name the way to log Z."""
    run = bouncy.sample(model("dense"), draws=100, seed=0)
    assert run.best.log_prob == run.log_prob.max()
    assert model("dense").log_prob(run.best.state) == pytest.approx(run.best.log_prob)
    with pytest.raises(AttributeError, match="sample again with 'tempered'"):
        _ = run.log_z
    with pytest.raises(ValueError, match="se_of is 'log_z'"):
        bouncy.sample(model("dense"), until_se=0.1, se_of="log_z")


def test_ladders_that_did_not_work_are_named():
    """Catches silence about a ladder that is cut: four rungs over a barrier of twelve."""
    glass = slab(3, 10, 3.0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tempered(glass.target, bouncy.Tempered(rungs=3), draws=200)
    text = " ".join(run.diagnostics["warnings"])
    assert "no state went from the reference to the target and back" in text
    assert "use more" in text


def test_batches_are_as_long_as_round_trips():
    """Catches error bars of batches in which no state comes from one mode to another, and silence about them."""
    run = tempered(model("dense"), bouncy.Tempered(rungs=48), draws=None, until_se=0.5)
    each = 48 * 4 * run.draws_per_chain / int(run.ladder.round_trips.sum())
    assert run._sums.batches * 4 >= 16
    assert run._sums.length >= 2.0 * each
    glass = slab(3, 10, 2.0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = tempered(glass.target, draws=2000, chains=1)
    assert 10 <= short.ladder.round_trips[0] < 16 * len(short.ladder)
    assert any("round trips between reference and target on average" in text for text in short.diagnostics["warnings"])


def test_log_z_of_a_wall_is_unknown():
    """Catches a step of log Z that is whatever the warm-up took it for, with an error of 0; and overflow."""
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tempered(bouncy.MRF(1e20 * pair, [0.0, 0.0]), draws=100)
    assert np.isnan(run.log_z)
    assert np.isnan(run.log_z_se)
    assert any(text.startswith("log Z is not known") for text in run.diagnostics["warnings"])
    assert (np.abs(run.draws.sum(axis=2)) == 0).all()
    with pytest.raises(ValueError, match=r"log p of random states is as large as 1e\+300"):
        tempered(bouncy.MRF(1e300 * pair, [0.0, 0.0]))


def test_a_pilot_is_seen(capsys):
    """Catches a terminal in which nothing moves while a ladder is found, and a bar where none was asked for."""
    tempered(model("dense"), draws=20, progress=True)
    assert "finding a ladder, 0 of 8 steps" in capsys.readouterr().err
    tempered(model("dense"), draws=20, progress=False)
    assert capsys.readouterr().err == ""


def test_the_pilot_finds_rungs_for_the_barrier():
    """Catches a ladder that is much too short or long, and swaps that are refused unevenly."""
    glass = slab(3, 8, 1.5, 2)
    ladder = tempered(glass.target, draws=2000).ladder
    assert 1.6 * ladder.barrier < len(ladder) < 2.0 * ladder.barrier + 10
    assert np.ptp(ladder["acceptance"][:-1]) < 0.25
    single = tempered(bouncy.Custom(4, log_prob=lambda s: 0.1 * s[0]), draws=200)
    assert len(single.ladder) <= 4


def test_a_fitted_reference_lowers_the_barrier():
    """Catches a reference that is fitted to nothing: on independent spins it is the target itself."""
    target = bouncy.MRF(np.zeros((6, 6)), [1.0, -1.0, 0.5, 1.5, 0.0, -0.7])
    plain, fitted = (tempered(target, bouncy.Tempered(reference=kind)) for kind in ("uniform", "fitted"))
    assert fitted.sampler.fields is not None
    assert np.allclose(fitted.sampler.fields, [1.0, -1.0, 0.5, 1.5, 0.0, -0.7], atol=0.15)
    assert fitted.ladder.barrier < 0.2 * plain.ladder.barrier
    assert abs(fitted.log_z - bouncy.exact(target).log_z) < 6 * fitted.log_z_se + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "hmc"}, "whose clock cannot drive a ladder"),
        ({"base": "nothing"}, "expected one of: bps-exponential, bps-gaussian"),
        ({"base": 3}, "base must be a name or a sampler"),
        ({"base": "tempered"}, "expected one of|cannot drive a ladder"),
        ({"rungs": 1}, "expected 2 at least"),
        ({"sweeps_per_swap": 0}, "sweeps_per_swap"),
        ({"ladders": 10**9}, "ladders is 1e.09; expected 1,048,576 at most"),
        ({"scans_per_exchange": 2**63}, "scans_per_exchange is .*; expected"),
        ({"rungs": 10**30}, "rungs is 1e.30; expected"),
        ({"ladder": [0.0, 0.5]}, "must rise from 0 to 1"),
        ({"ladder": [0.0, 0.5, 0.5, 1.0]}, "must rise from 0 to 1"),
        ({"ladder": [0.0, 1.0], "rungs": 3}, "leave one of them out"),
        ({"reference": "flat"}, "expected 'uniform', 'fitted' or fields"),
        ({"reference": [[1.0]]}, "expected fields of the sites"),
    ],
)
def test_bad_settings_are_refused(options, message):
    """Catches settings that fail later, in compiled code, or not at all."""
    with pytest.raises((ValueError, TypeError), match=message):
        bouncy.Tempered(**options)


def test_what_cannot_be_tempered_is_refused():
    """Catches a ladder over a scheme, fields of other sites, and lanes of ladders."""
    with pytest.raises(ValueError, match="expected 6, one for each site"):
        tempered(model("dense"), bouncy.Tempered(reference=[0.1, 0.2]))
    with pytest.raises(ValueError, match="a ladder with a clock of its own"):
        tempered(model("dense"), chains=8, lanes=4)
    scheme = bouncy.Within(
        lambda h: bouncy.MRF(np.zeros((2, 2)), -h * np.ones(2)), {"h": lambda x, p, rng: 0.1}, {"h": 0.0}
    )
    with pytest.raises((ValueError, TypeError), match="tempered"):
        tempered(scheme)
