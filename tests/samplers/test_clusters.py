"""Swendsen-Wang and Wolff: gauges, bonds, clusters, what they estimate, and the targets that they refuse."""

from __future__ import annotations

import itertools
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.enumeration import states
from bouncy.samplers import ClusterSampler, names
from bouncy.targets.gauge import bonds, ferromagnet, in_a_field
from bouncy.testing import kaufman_torus
from bouncy.workers.contract import Plan
from conftest import base_seed
from helpers.literal_clusters import Chain
from helpers.replicates import exact_draws, state_counts
from helpers.statistics import chi_square_test, coverage_test, z_test

SEED = base_seed()
SAMPLERS = {"swendsen-wang": bouncy.SwendsenWang(), "wolff": bouncy.Wolff(clusters=3)}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


def magnet(d, seed, strength=0.5, share=0.6, field=0.0, gauge=True):
    """Return a random ferromagnet behind a random gauge, in random fields."""
    rng = np.random.default_rng(seed)
    J = np.triu(np.abs(rng.normal(size=(d, d))) * (rng.random((d, d)) < share), 1) * strength
    g = rng.choice([-1, 1], d) if gauge else np.ones(d)
    return bouncy.MRF(-(J + J.T) * np.outer(g, g), field * rng.normal(size=d))


def without(target, i, j):
    """Return a target in which two sites are not coupled, but the zero is stored."""
    M = scipy.sparse.lil_array(target.M)
    M[i, j] = M[j, i] = 0.0
    return bouncy.MRF(scipy.sparse.csr_array(M), target.r)


TARGETS = {
    "gauge": magnet(4, 1, field=0.0),
    "gauge in fields": magnet(4, 2, field=0.5),
    "strong in fields": magnet(4, 3, strength=1.5, field=0.3),
    "lattice": bouncy.MRF.ising((2, 3), coupling=0.3, field=-0.2),
    "one": bouncy.MRF(np.zeros((1, 1)), [0.4]),
    "one without field": bouncy.MRF(np.zeros((1, 1))),
    "two": bouncy.MRF([[0.0, 0.7], [0.7, 0.0]], [0.3, 0.1]),
    "one zero": without(magnet(3, 5, share=1.0, field=0.2), 0, 1),
    "nothing coupled": bouncy.MRF(np.zeros((3, 3)), [0.5, -0.3, 0.0]),
    "apart": bouncy.MRF(np.kron(np.eye(2), [[0.0, -0.6], [-0.6, 0.0]]), [0.4, 0.0, 0.0, 0.0]),
}
every_target = pytest.mark.parametrize("target", TARGETS)


def worker_of(sampler, target, start=None, seed=SEED):
    (worker,) = SAMPLERS[sampler].workers(target, Plan(pairs="all"), [np.random.SeedSequence(seed)], [start])
    return worker


# Gauges


@pytest.mark.parametrize("d", [1, 2, 3, 7, 64])
def test_gauge_makes_all_couplings_ferromagnetic(d):
    """Catches a colouring of the wrong sign, and storage that makes a difference."""
    for seed, share in itertools.product(range(4), (0.0, 2.0 / d, 1.0)):
        target = magnet(d, seed, share=share, field=1.0)
        view = ferromagnet(target)
        assert (view.gauge[:, None] * target.M * view.gauge <= 0).all()
        sparse = ferromagnet(bouncy.MRF(scipy.sparse.csr_array(target.M), target.r))
        for ours, theirs in zip((*view, *view.bond, *view.ghost), (*sparse, *sparse.bond, *sparse.ghost), strict=True):
            assert isinstance(ours, tuple) or np.array_equal(ours, theirs)
        s = np.random.default_rng(seed).choice([-1, 1], (5, d)).astype(np.int8)
        np.testing.assert_allclose([view.log_prob(row) for row in s], target.log_prob(s), rtol=1e-12, atol=1e-12)


def test_zeros_are_no_couplings():
    """Catches a stored zero that closes a cycle, or joins a field to sites that it cannot reach."""
    view = ferromagnet(TARGETS["one zero"])
    assert view.low.size == 2
    assert in_a_field(ferromagnet(TARGETS["apart"])).tolist() == [True, True, False, False]
    assert in_a_field(ferromagnet(TARGETS["nothing coupled"])).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("target", "length"),
    [
        (bouncy.MRF.random(6, seed=1), 3),
        (bouncy.MRF.ising((5, 4), coupling=-0.2), 5),
        (bouncy.MRF.ising((4, 4), coupling=0.3, periodic=False).clamp({5: 1}), None),
        (bouncy.MRF(np.array([[0, -1, 0, 1], [-1, 0, -1, 0], [0, -1, 0, -1], [1, 0, -1, 0.0]]), labels=[*"wxyz"]), 4),
    ],
)
def test_frustrated_cycles_are_named(target, length):
    """Catches a refusal without a cycle, a cycle that is none or is not frustrated, and one of a magnet."""
    if length is None:
        assert (ferromagnet(target).gauge == 1).all()
        return
    with pytest.raises(ValueError, match="are frustrated") as error:
        bouncy.sample(target, "swendsen-wang", draws=10)
    cycle = str(error.value).partition("along the cycle ")[2].partition(" are ")[0].split(" - ")
    sites = [[repr(label) for label in target.labels].index(name) for name in cycle]
    M = target.M if isinstance(target.M, np.ndarray) else target.M.toarray()
    signs = [np.sign(M[i, j]) for i, j in itertools.pairwise(sites)]
    assert sites[0] == sites[-1]
    assert len(set(sites)) == len(sites) - 1 == length
    assert np.prod([-sign for sign in signs]) == -1


def test_bond_probabilities():
    """Catches 1 - exp(-J) for 1 - exp(-2 J), and thresholds that are off by one of their bits."""
    J = np.array([0.0, 1e-300, 1e-12, 0.1, 0.44, 3.0, 18.0, 400.0])
    found = bonds(J)
    for k, value in enumerate(J):
        p = (int(found.first[k]) + Fraction(int(found.rest[k]), 2**64)) / 2**16
        assert abs(p - Fraction(-np.expm1(-2.0 * value))) < Fraction(1, 2**79)
    assert ferromagnet(bouncy.MRF.ising((4, 4), coupling=[0.3, -0.3])).bond.first.size == 1
    assert ferromagnet(bouncy.MRF.ising((4, 4), coupling=[0.3, -0.4])).bond.first.size == 64


# The same events as the literal twin


@every_sampler
@every_target
def test_states_are_those_of_the_literal_twin(sampler, target):
    """Catches every difference in bonds, clusters, held sites and turns, even one that leaves the law alone."""
    target = TARGETS[target]
    worker = worker_of(sampler, target)
    growth = worker.growth
    twin = Chain.of(target, worker.s, growth.rng, growth.words.size)
    for sweep in range(60):
        clusters = twin.swendsen_wang() if sampler == "swendsen-wang" else twin.wolff(3)
        before = worker.sums.mean.copy(), worker.sums.pair_mean.copy()
        s = worker.s.copy()
        worker._run(1)
        assert worker.s.tolist() == twin.s, sweep
        assert [int(x) for x in worker.growth.rng] == twin.bits.state
        if sampler == "swendsen-wang":
            same = np.zeros((target.d, target.d))
            for cluster in clusters:
                same[np.ix_(cluster, cluster)] = 1.0
            held = np.isin(np.arange(target.d), clusters[0])
            np.testing.assert_array_equal(worker.sums.mean - before[0], s * held)
            np.testing.assert_array_equal(worker.sums.pair_mean - before[1], np.outer(s, s) * same)


# The law


def replicated(sampler, target, replicates, sweeps=2):
    """Return final states from exact starts, (replicate, d), and what each replicate estimates, by name."""
    worker = worker_of(sampler, target)
    starts = exact_draws(target, replicates, seed=SEED + 1)
    final, rows = np.empty_like(starts), []
    for k, start in enumerate(starts):
        worker.s[:] = start
        worker._run(sweeps)
        final[k] = worker.s
        (batch,) = worker._take_batches()
        rows.append({name: batch[name] / sweeps for name in batch})
    return final, {name: np.array([row[name] for row in rows]) for name in rows[0]}


def check_law(sampler, target, replicates, detect):
    exact = bouncy.exact(target)
    mean, pair_mean = (
        np.where(np.abs(x) < 1e-12, 0.0, x) for x in (exact.mean, exact.pair_mean)
    )  # clusters know zeros
    final, found = replicated(sampler, target, replicates)
    chi_square_test(state_counts(final), exact.probabilities, detect=detect, name="states").check()
    z_test(found["path"], mean, detect=3 * detect, name="path means").check()
    m = states(target.d).mean(axis=1)
    moments = [exact.probabilities @ m**2, exact.probabilities @ m**4]
    z_test(found["moments"], moments, detect=3 * detect, name="moments").check()
    i, j = np.triu_indices(target.d, 1)
    apart = i * target.d + j
    if target.d > 1:
        z_test(found["pair_mean"][:, apart], pair_mean[i, j], detect=3 * detect, name="pairs").check()
    if sampler == "swendsen-wang":
        z_test(found["cluster_mean"], mean, detect=3 * detect, name="means of clusters").check()
        if target.d > 1:
            pairs = found["cluster_pair_mean"][:, apart]
            z_test(pairs, pair_mean[i, j], detect=3 * detect, name="pairs of clusters").check()


@every_sampler
@pytest.mark.parametrize("target", ["gauge in fields", "strong in fields"])
def test_law_is_kept(sampler, target):
    """Catches wrong bonds, a ghost of the wrong sign, clusters turned with another probability than 1/2.

    Chi-square of the final state and z-tests of all estimates from exact starts, alpha = 1e-6 each; see a total
    variation of 0.08 and biases of 0.24.
    """
    check_law(sampler, TARGETS[target], 4_000, 0.08)


@pytest.mark.slow
@every_sampler
@every_target
def test_law_is_kept_closely(sampler, target):
    """The same with more replicates, on all targets: sees a total variation of 0.03."""
    check_law(sampler, TARGETS[target], 40_000, 0.03)


@every_sampler
@pytest.mark.parametrize("case", ["gauge", "gauge in fields", "one", "one without field", "apart"])
def test_estimates_of_runs(sampler, case):
    """Catches an estimate of the wrong sign, weight or share, and means that are not exactly 0 where they are.

    z-tests by the standard errors of the run itself, alpha = 1e-6.
    """
    target = TARGETS[case]
    run = bouncy.sample(target, sampler, chains=8, draws=4000, seed=SEED)
    exact, degrees = bouncy.exact(target), run._sums.degrees_of_freedom
    lit = in_a_field(ferromagnet(target))
    assert np.abs(exact.mean[~lit]).max(initial=0.0) < 1e-12
    assert (run.mean[~lit] == 0.0).all()
    assert (run.mean_se[~lit] == 0.0).all()
    assert (run.mean_se[lit] > 0.0).all() or target.d == 1
    options = {"degrees_of_freedom": degrees}
    z_test(run.mean, np.where(lit, exact.mean, 0.0), run.mean_se, **options, detect=0.1).check()
    z_test(run.path_mean, exact.mean, run.path_mean_se, **options, detect=0.3).check()
    m = states(target.d).mean(axis=1)
    m2, m4 = exact.probabilities @ m**2, exact.probabilities @ m**4
    found = run.magnetisation_moments
    values, errors = [found.m2, found.m4, found.binder], [found.m2_se, found.m4_se, found.binder_se]
    z_test(values, [m2, m4, 1.0 - m4 / (3.0 * m2**2)], errors, **options, detect=0.4).check()
    if target.d > 1:
        i, j = np.triu_indices(target.d, 1)
        z_test(run.pair_mean[i, j], exact.pair_mean[i, j], run.pair_mean_se[i, j], **options, detect=0.15).check()
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(run.magnetisation, run.draws.mean(axis=2))


TORI = ((16, 250, 0.08), (32, 3000, 0.02), (64, 6000, 0.015))


@pytest.mark.parametrize(
    ("sampler", "side", "draws", "detect"),
    [
        pytest.param(sampler, *torus, marks=[pytest.mark.slow] * ((sampler, torus[0]) != ("swendsen-wang", 16)))
        for sampler in SAMPLERS
        for torus in TORI
    ],
)
def test_torus_at_its_transition_against_kaufman(sampler, side, draws, detect):
    """Catches errors that show in large systems alone: the energy of 12 chains, alpha = 1e-6."""
    coupling = np.log(1.0 + np.sqrt(2.0)) / 2.0
    target = bouncy.MRF.ising((side, side), coupling)
    run = bouncy.sample(target, sampler, chains=12, draws=draws, seed=SEED)
    expected = kaufman_torus(side, side, coupling).bond_mean
    z_test(run.log_prob.mean(axis=1)[:, None] / (2.0 * coupling * side**2), [expected], detect=detect).check()
    assert (run.mean == 0.0).all()
    plain = run.magnetisation**2
    z_test(plain.mean(axis=1)[:, None], [run.magnetisation_moments.m2], detect=0.3, name="m^2").check()


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [*SAMPLERS])
def test_intervals_cover(sampler):
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 400 runs."""
    target = magnet(6, 7, strength=0.4, field=0.3)
    exact, m = bouncy.exact(target), states(6).mean(axis=1)
    m2 = exact.probabilities @ m**2
    i, j = np.triu_indices(6, 1)
    covered = {"mean": [], "pair_mean": [], "m2": []}
    for k in range(400):
        run = bouncy.sample(target, sampler, chains=4, draws=500, warmup=100, seed=SEED + k, threads=1)
        low, high = run.interval("mean")
        covered["mean"].append((low <= exact.mean) & (exact.mean <= high))
        low, high = (end[i, j] for end in run.interval("pair_mean"))
        covered["pair_mean"].append((low <= exact.pair_mean[i, j]) & (exact.pair_mean[i, j] <= high))
        found = run.magnetisation_moments
        covered["m2"].append([abs(found.m2 - m2) <= 2.0 * found.m2_se])  # the quantile of 60 degrees of freedom
    for name, rows in covered.items():
        coverage_test(np.array(rows), 0.95, 0.915, 0.98, alpha=5e-3, name=name).check()


# Runs


@every_sampler
def test_runs_are_like_those_of_other_samplers(sampler, tmp_path):
    """Catches a run whose bytes depend on threads, slices, files or how often it was extended."""
    target = TARGETS["gauge in fields"]
    options = {"chains": 3, "seed": 5, "warmup": 30}
    whole = bouncy.sample(target, sampler, draws=60, threads=1, **options)
    parts = bouncy.sample(target, sampler, draws=17, threads=3, **options).extend(43)
    path = bouncy.sample(target, sampler, draws=60, keep="path", **options)
    whole.save(tmp_path / "run.npz")
    loaded = bouncy.Run.load(tmp_path / "run.npz", target)
    for other in (parts, path, loaded):
        for name in ("draws", "log_prob", "mean", "mean_se", "pair_mean", "path_mean", "magnetisation"):
            assert getattr(other, name).tobytes() == getattr(whole, name).tobytes(), name
        assert other.magnetisation_moments == whole.magnetisation_moments
    assert (path.replay(np.arange(1.0, 61.0)) == whole.draws).all()
    assert loaded.extend(10).draws.shape[1] == 70
    worker = worker_of(sampler, target)
    twin = pickle.loads(pickle.dumps(worker))  # as executors send it
    for one in (worker, twin):
        one.advance(7)
    assert worker.s.tobytes() == twin.s.tobytes()
    assert whole.sampler.name == sampler
    assert "Binder cumulant" in str(whole.summary())
    assert whole.diagnostics["magnetisation_moments"]["m2"] == whole.magnetisation_moments.m2
    assert json.dumps(whole.summary().to_dict())
    assert whole.to_arviz()["posterior"]["s"].shape == (3, 60, 4)


def test_wolff_finds_the_number_of_its_clusters():
    """Catches sweeps that are far too short or too long, and a number that is not a function of the seed."""
    cold, hot = bouncy.MRF.ising((8, 8), coupling=1.0), bouncy.MRF.ising((8, 8), coupling=0.05)
    (few, _), (many, _), (again, _) = (
        bouncy.Wolff().prepared(target, np.random.SeedSequence(seed), "all")
        for target, seed in ((cold, 0), (hot, 0), (hot, 0))
    )
    assert few.clusters == 1
    assert 30 < many.clusters < 64
    assert many == again
    with pytest.raises(ValueError, match="clusters"):
        bouncy.Wolff(clusters=0)


def test_what_is_no_magnet_is_refused():
    """Catches a sampler that starts on a target it is not for, and messages without a way out."""
    rbm = bouncy.RBM([[0.5, -0.3]]).marginal()
    for asked in ("wolff", bouncy.SwendsenWang()):
        with pytest.raises(ValueError, match=r"flips clusters of a bouncy.MRF; .* can be sampled by: auto, bps"):
            bouncy.sample(rbm, asked)
    with pytest.raises(ValueError, match="base is 'wolff'; expected one of"):
        bouncy.Tempered("wolff")
    with pytest.raises(ValueError, match="no clock to share"):
        bouncy.sample(TARGETS["lattice"], "wolff", chains=8, lanes=4)
    with pytest.raises(AttributeError, match="sample again with 'swendsen-wang'"):
        _ = bouncy.SpinRun.magnetisation_moments
    assert names(ClusterSampler) == ["swendsen-wang", "wolff"]


@every_sampler
def test_workers_go_on_with_another_target(sampler):
    """Catches a block of a scheme that keeps the bonds, the gauge or the fields of the target before."""
    worker = worker_of(sampler, TARGETS["gauge"])
    worker._run(5)
    for name in ("strong in fields", "gauge in fields", "gauge"):
        worker.retarget(TARGETS[name])
        growth = worker.growth
        twin = Chain.of(TARGETS[name], worker.s, growth.rng, growth.words.size)
        for _ in range(20):
            worker._run(1)
            _ = twin.swendsen_wang() if sampler == "swendsen-wang" else twin.wolff(3)
            assert worker.s.tolist() == twin.s
    with pytest.raises(ValueError, match="changed from 4 sites to 2"):
        worker.retarget(TARGETS["two"])


@pytest.mark.slow
def test_blocks_of_schemes():
    """Catches a block that goes on with the bonds of another target: a coupling that is drawn anew in turn."""
    J = np.array([[0.0, -1.0], [-1.0, 0.0]])

    def draw(s, parameters, generator):
        p = [np.exp(b * s[0] * s[1]) / np.cosh(b) for b in (0.0, 1.0)]
        return float(generator.random() * sum(p) < p[1])

    scheme = bouncy.Within(lambda b: bouncy.MRF(b * J), {"b": draw}, {"b": 1.0})
    run = bouncy.sample(scheme, "swendsen-wang", chains=4, draws=400, seed=SEED)
    # p(s, b) ~ exp(b s_0 s_1) / cosh b: b is 0 or 1 alike, and E[s_0 s_1] = tanh(1) / 2.
    b, product = (x.reshape(80, -1).mean(axis=1)[:, None] for x in (run.parameters["b"], run.draws.prod(axis=2)))
    z_test(b, [0.5], detect=0.15, name="coupling").check()
    z_test(product, [np.tanh(1.0) / 2], detect=0.3, name="pair").check()
    with pytest.raises(ValueError, match="clusters must be given"):
        bouncy.sample(scheme, "wolff", draws=10)
