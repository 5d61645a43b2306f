"""Standard errors of plain time averages: never zero, though batches of a site that hardly ever moves are alike."""

from __future__ import annotations

import numpy as np
import pytest

import bouncy
from bouncy.results.moments import Sums


def sums_of(closed, last, length=4):
    """Return batches of one chain, given time integrals over closed batches and over the open one, half as long."""
    steps = length * len(closed) + length // 2
    return Sums([[{"path": np.array(row)} for row in closed]], [{"path": np.array(last)}], steps, length)


def path(batch):
    return batch["path"]


def test_what_was_seen_after_the_last_batch_counts():
    """Catches an error of zero beside a mean that is not one: the site flipped in the open batch alone."""
    sums = sums_of([[4.0, 4.0]] * 16, [2.0, 0.0])
    mean, error = sums.mean(path, 1.0), sums.path_error(path, 1.0, 2.0, 1.0, 3.0)
    assert mean[0] == 1.0
    assert mean[1] == pytest.approx(64.0 / 66.0)
    assert error[0] == pytest.approx(2.0 * 3.0 / 66.0)
    assert error[1] == pytest.approx(2.0 / 66.0 + 2.0 * 3.0 / 66.0)


def test_batches_that_vary_are_left_alone():
    """Catches a bound that replaces an error which is known, or a missing one."""
    generator = np.random.default_rng(0)
    rows = [[value, 4.0 + 1e-12 * value] for value in generator.uniform(-4.0, 4.0, 16)]
    sums = sums_of(rows, [0.0, 2.0])
    error = sums.path_error(path, 1.0, 2.0, 0.0, 1.0)
    assert error[0] == sums.error(path, 1.0)[0]
    assert error[1] == pytest.approx(2.0 / 66.0)  # these differ by rounding
    assert np.isnan(sums_of([], [1.0, 1.0]).path_error(path, 1.0, 2.0, 0.0, 1.0)).all()
    assert np.isnan(sums_of([[4.0, 4.0]], [1.0, 1.0]).path_error(path, 1.0, 2.0, 0.0, 1.0)).all()
    certain = sums_of([[4.0, 4.0]] * 16, [2.0, 2.0]).path_error(path, 1.0, np.array([0.0, 1.0]), 1.0, 1.0)
    assert certain.tolist() == [0.0, pytest.approx(1.0 / 66.0)]


def test_one_moment_is_known_no_better_than_none():
    """Catches an error that is next to nothing because the one excursion that was seen was short."""
    sums = sums_of([[3.998]] + [[4.0]] * 15, [2.0])
    assert sums.error(path, 1.0)[0] < 1e-3
    assert sums.path_error(path, 1.0, 2.0, 1.0, 1.0)[0] == pytest.approx(2.0 / 66.0)
    assert sums.path_error(path, 1.0, 2.0, 0.0, 1.0)[0] == sums.error(path, 1.0)[0]


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
@pytest.mark.parametrize("sampler", ["bps-gaussian", "hmc", "gibbs"])
def test_spins_that_never_flip_have_an_error(sampler, keep, seed):
    """Catches zeros in the errors of means and of pairs, but for the diagonal, and errors that never become smaller."""
    target = bouncy.MRF(np.zeros((3, 3)), [0.1, 40.0, -40.0])
    short, long = (
        bouncy.sample(target, sampler, draws=draws, chains=2, seed=seed, keep=keep, pairs="all")
        for draws in (200, 2000)
    )
    for run in (short, long):
        assert run.flips_per_site[1:].tolist() == [0, 0]
        assert run.path_mean[1:] == pytest.approx([-1.0, 1.0], abs=1e-12)
        assert (run.path_mean_se > 0.0).all()
        assert (run.path_pair_mean_se + np.eye(3) > 0.0).all()
        assert (np.diagonal(run.path_pair_mean_se) == 0.0).all()
        assert (run.path_mean_se[1:] >= 2.0 / (2 * run.draws_per_chain * run.sweeps_per_draw)).all()
        low, high = run.interval("path_mean")
        assert (low < run.path_mean).all()
        assert (high > run.path_mean).all()
        assert "nan" not in str(run.summary())
        assert run.to_arviz()["sample_stats"]["lp"].shape[0] == 2
    assert (long.path_mean_se[1:] < 0.4 * short.path_mean_se[1:]).all()


def test_pairs_that_interact_have_an_error(seed):
    """Catches zeros among the entries of a sparse array."""
    field = np.full((3, 3), 40.0)
    field[0, 0] = 0.0
    lattice = bouncy.MRF.ising((3, 3), 0.1, field=field)
    run = bouncy.sample(lattice, draws=100, pairs="edges", seed=seed, initial=np.ones(9))
    assert (run.path_pair_mean_se.data > 0.0).all()


def test_rare_flips_are_covered(seed):
    """Catches errors that are too small by far where a spin flips about once in a run, or never.

    Excursions from -1 come as a Poisson process, one in a run on average, and last about a sweep. With the errors of
    batches alone a run without any would be infinitely many of them away from the truth; here no run is beyond 8, and
    those without a flip, a third, are within 3.
    """
    field = 2.3
    target, truth = bouncy.MRF(np.zeros((2, 2)), [0.0, field]), -np.tanh(field)
    scores, unseen = [], 0
    for k in range(60):
        run = bouncy.sample(target, chains=1, draws=64, warmup=20, seed=1000 * seed + k, keep="means")
        assert run.path_mean_se[1] > 0.0
        score = abs(run.path_mean[1] - truth) / run.path_mean_se[1]
        if run.flips_per_site[1] == 0:
            unseen += 1
            assert score < 3.0
        scores.append(score)
    assert unseen > 3
    assert max(scores) < 8.0


def test_coefficients_that_are_always_zero_have_an_error(seed):
    """Catches zeros in the errors of inclusion, means, variances, covariances, sums and probabilities."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = 10.0 * X[:, 0] + np.random.default_rng(1).standard_normal(60)
    target = bouncy.SpikeSlab(X, y, inclusion=1e-6, slab_scale=5.0, noise_scale=1.0)
    run = bouncy.sample(target, "bps", draws=200, chains=2, seed=seed, initial=[10.0, 0.0, 0.0])
    assert run.flips_per_site[1:].tolist() == [0, 0]
    assert run.path_mean[1:].tolist() == [0.0, 0.0]
    for error in (run.path_inclusion_se, run.path_mean_se, run.path_variance_se, run.path_covariance_se):
        assert (error > 0.0).all()
    assert run.combination([0.0, 1.0, 1.0])[1] > 0.0
    for interval in ({"lower": 1.0}, {"upper": -1e3}):
        assert (run.probability(**interval)[1] > 0.0).all()
    assert (run.probability(0.0, 0.0)[1][1:] > 0.0).all()  # that the first one is zero has no probability, given others
    assert (run.probability()[1] < 1e-12).all()  # the whole line is certain
    assert "nan" not in str(run.summary())
    run.inclusion_table()


def test_spins_of_mixed_targets_have_an_error(seed):
    """Catches zeros for a spin of a mixed target that never flips, alone and beside a variable that moves."""
    target = bouncy.MixedBinaryGaussian(np.zeros((1, 1)), [40.0], precision=[[1.0]])
    run = bouncy.sample(target, "bps", draws=200, chains=2, seed=seed, initial=[-1.0, 0.0])
    assert run.path_mean[0] == pytest.approx(-1.0, abs=1e-12)
    assert 0.0 < run.path_mean_se[0] < 0.2
    assert (run.path_covariance_se > 0.0).all()
