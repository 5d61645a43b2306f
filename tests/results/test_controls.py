"""Control variates: what is recorded for them, and what they leave of the errors."""

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.recorders.controls import can_control, pack_couplings, unpack_couplings
from bouncy.results.controls import _approach, _solve
from bouncy.results.moments import means_recorded
from conftest import base_seed
from helpers.statistics import coverage_test, z_test

WEAK = bouncy.MRF.random(10, sigma_M=0.2, sigma_r=0.3, seed=1)


def _total(run, name):
    """Return the sum of what was recorded under a name over all batches of all chains."""
    sums = run._data.sums()
    return np.sum([batch[name] for chain in (*sums.closed, sums.open) for batch in chain], axis=0)


def _plain_error(run):
    """Return the standard errors of the conditional means without control variates."""
    return run._sums.error(lambda batch: batch["mean"], means_recorded)


@pytest.mark.parametrize("chains", [2, 8])
def test_spins_and_variances_are_those_where_means_are_recorded(chains):
    """Catches spins of another moment or lane, and variances without the square."""
    run = bouncy.sample(WEAK, "metropolis", chains=chains, draws=200, warmup=10, seed=base_seed())
    s = run.draws.astype(float)
    mean = -np.tanh(WEAK.r + s @ WEAK.M)
    for k, (closed, last) in enumerate(zip(run._data.sums().closed, run._data.sums().open, strict=True)):
        assert np.array_equal(sum(batch["state"] for batch in (*closed, last)), s[k].sum(axis=0))
    np.testing.assert_allclose(_total(run, "mean"), mean.sum(axis=(0, 1)), rtol=1e-5, atol=1e-4)
    if chains == 2:  # lanes record variances where a batch begins
        np.testing.assert_allclose(_total(run, "spread"), [*np.sum(1.0 - mean**2, axis=(0, 1)), 400], rtol=1e-12)


def test_lanes_record_variances_at_every_sixteenth_time():
    """Catches variances of other lanes or moments, and a number of them that is not theirs."""
    run = bouncy.sample(WEAK, "metropolis", chains=8, draws=200, warmup=16, seed=base_seed())
    mean = -np.tanh(WEAK.r + run.draws[:, ::16] @ WEAK.M)
    expected = np.sum(np.mean(1.0 - mean**2, axis=0), axis=0)
    np.testing.assert_allclose(_total(run, "spread") / 8, [*expected, 13], rtol=1e-5)


def test_both_ladders_of_a_pair_are_recorded():
    """Catches means of the second ladder that go with spins of the first."""
    target = bouncy.MRF.ising((4, 4), coupling=0.3, field=0.1, periodic=False)
    sampler = bouncy.Tempered(ladder=(0.0, 0.5, 1.0), sweeps_per_swap=1, clusters=(1,))
    run = bouncy.sample(target, sampler, chains=2, draws=300, seed=base_seed())
    assert _total(run, "events")[4] == 2 * 2 * 300  # two ladders of each chain
    gain = np.sum(_plain_error(run) ** 2) / np.sum(run.mean_se**2)
    assert gain > 3.0


def test_a_gaussian_is_known_after_a_few_sweeps():
    """Catches a wrong pull, a wrong variance, or a wrong sign of either: nothing but rounding may be left."""
    rng = np.random.default_rng(base_seed())
    factor = rng.standard_normal((12, 6))
    center = rng.standard_normal(6)
    dense = bouncy.Gaussian(center, precision=factor.T @ factor)
    chain = scipy.sparse.diags_array([[-0.4] * 19, [1.0] * 20, [-0.4] * 19], offsets=[-1, 0, 1]).tocsr()
    for target in (dense, bouncy.Gaussian(np.arange(20.0), precision=chain)):
        for sampler in ("gibbs", "gibbs-random"):
            run = bouncy.sample(target, sampler, chains=2, draws=20, warmup=5, seed=base_seed())
            exact = center if target is dense else np.arange(20.0)
            np.testing.assert_allclose(run.mean, exact, rtol=1e-9, atol=1e-9)
            assert (run._given.mean_se > 1e-3).all()


@pytest.mark.parametrize(("sampler", "chains"), [("bps-gaussian", 4), ("metropolis", 8), ("tempered", 4)])
def test_errors_of_weakly_coupled_spins_are_far_smaller_and_honest(sampler, chains):
    """False-alarm rate 1e-6; sees a bias of a sixth of what is taken out, which a wrong coefficient would leave."""
    run = bouncy.sample(WEAK, sampler, chains=chains, draws=200_000 // chains, keep="means", seed=base_seed())
    assert np.sum(_plain_error(run) ** 2) > 5.0 * np.sum(run.mean_se**2)
    freedom = run._sums.degrees_of_freedom
    exact = bouncy.exact(WEAK).mean
    z_test(run.mean, exact, run.mean_se, degrees_of_freedom=freedom, detect=4e-3, name=sampler).check()


@pytest.mark.slow
@pytest.mark.parametrize("chains", [4, 8])
@pytest.mark.parametrize("sigma_M", [0.05, 0.2, 0.6])
def test_intervals_of_controlled_means_cover(chains, sigma_M):
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 400 runs."""
    target = bouncy.MRF.random(8, sigma_M=sigma_M, sigma_r=0.3, seed=3)
    exact, covered = bouncy.exact(target).mean, []
    for k in range(400):
        run = bouncy.sample(target, chains=chains, draws=400, warmup=100, seed=base_seed() + k, threads=1)
        low, high = run.interval("mean")
        covered.append((low <= exact) & (exact <= high))
    coverage_test(np.array(covered), 0.95, 0.915, 0.98, alpha=5e-3, name=f"sigma_M = {sigma_M}").check()


@pytest.mark.slow
def test_intervals_of_coefficients_cover():
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 400 runs."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6))
    target = bouncy.SpikeSlab(
        X, X[:, 0] * 0.4 + rng.standard_normal(40), inclusion=0.4, slab_scale=1.0, noise_scale=1.0
    )
    long = bouncy.sample(target, "gibbs", chains=8, draws=100_000, keep="means", seed=base_seed())
    covered = {"mean": [], "inclusion": []}
    for k in range(400):
        run = bouncy.sample(target, "gibbs-random", draws=1000, warmup=100, seed=base_seed() + k, threads=1)
        for name, rows in covered.items():
            low, high = run.interval(name)
            rows.append((low <= getattr(long, name)) & (getattr(long, name) <= high))
    for name, rows in covered.items():
        coverage_test(np.array(rows), 0.95, 0.915, 0.98, alpha=5e-3, name=name).check()


def test_no_more_is_taken_out_than_makes_errors_smaller(monkeypatch):
    """Catches a share that is not fitted: coefficients of correlated columns are far from linear in each other."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 50))
    for j in range(1, 50):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    y = X[:, ::10] @ [1.0, -0.7, 0.5, -0.35, 0.25] + rng.standard_normal(100)
    target = bouncy.SpikeSlab(X, y, inclusion=0.1, slab_scale=1.0, noise_scale=1.0)
    run = bouncy.sample(target, "gibbs-random", chains=4, draws=4000, keep="means", seed=base_seed())
    fitted, none = np.sum(run.mean_se**2), np.sum(run._given.mean_se**2)
    monkeypatch.setattr("bouncy.results.moments.Sums.best_share", lambda *_: 1.0)
    assert fitted < 0.97 * min(np.sum(type(run)(run._data).mean_se ** 2), none)


@pytest.mark.parametrize("sampler", ["gibbs", "gibbs-random"])
def test_spike_and_slab_gains_and_its_cells_add_up_to_one(sampler):
    """Catches responses of cells with a wrong sign, and those that do not cancel."""
    rng = np.random.default_rng(base_seed())
    X = rng.standard_normal((60, 40))
    y = X[:, 0] + 0.3 * X[:, 1] + rng.standard_normal(60)
    target = bouncy.SpikeSlab(X - X.mean(axis=0), y - y.mean(), inclusion=0.3, slab_scale=1.0, noise_scale=1.0)
    run = bouncy.sample(target, sampler, chains=4, draws=1000, seed=base_seed())
    zero = run._can_be_zero()
    plain, best = run._given.cells(zero)[1], run._best.cells(zero)[1]
    assert np.sum(run._given.mean_se**2) > 2.0 * np.sum(run.mean_se**2)
    assert np.sum(plain**2) > 2.0 * np.sum(best**2)
    positive = np.arange(zero.size) % 3 == 2
    plain, best = run._given.cells(positive)[1], run._best.cells(positive)[1]
    assert (plain > 0.8 * best).all()  # a response of the wrong sign makes errors up to three times as large
    assert np.sum(plain**2) > 2.0 * np.sum(best**2)
    cells = run._best.average(lambda batch: batch["cell"])
    np.testing.assert_allclose(np.add.reduceat(cells, run._cells("first")[:-1]), 1.0, rtol=1e-12)


def test_steps_approach_the_solution_of_sparse_equations():
    """Catches a wrong recurrence: sixteen steps leave some millionths of the right-hand side on a lattice."""
    A = bouncy.MRF.ising((24, 24), coupling=0.3).M
    V = np.full(A.shape[0], 0.6)
    right = np.random.default_rng(base_seed()).standard_normal((3, V.size))
    exact = np.linalg.solve(np.eye(V.size) + V[:, None] * A.toarray(), right.T).T
    np.testing.assert_allclose(_approach(A, V, right), exact, atol=1e-5)
    np.testing.assert_allclose(_solve(A, V, right), exact, atol=1e-5)


def test_singular_equations_leave_means_as_they_are():
    A = scipy.sparse.csr_array([[0.0, -1.0], [-1.0, 0.0]])
    assert _solve(A, np.ones(2), np.ones((1, 2))) is None


def test_couplings_are_kept_where_equations_are_small():
    """Catches a run on a large target that would keep, and solve, equations of all its variables."""
    assert not can_control(None)
    assert can_control(np.zeros((1024, 1024)))
    assert not can_control(np.zeros((1025, 1025)))
    assert can_control(bouncy.MRF.ising((64, 64)).M)
    assert not can_control(bouncy.MRF.ising((65, 64)).M)
    packed = pack_couplings(np.array([[3.0, 1.0], [1.0, 5.0]]))
    assert np.array_equal(unpack_couplings(packed).toarray(), [[0.0, 1.0], [1.0, 0.0]])
    assert unpack_couplings({}) is None
    large = bouncy.sample(bouncy.MRF.ising((65, 64), coupling=0.2), draws=5, seed=0, keep="means")
    assert np.array_equal(large.mean_se, _plain_error(large))


def test_a_target_that_changes_has_no_controls():
    """Catches couplings of the first target that are used for all later ones."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    target = bouncy.SpikeSlab(X, X[:, 0], inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    scheme = bouncy.Within(
        lambda sigma: target, {"sigma": lambda x, values, rng: np.asarray(1.0)}, initial={"sigma": 1.0}
    )
    run = bouncy.sample(scheme, "gibbs", draws=20, seed=0)
    assert not any(name.startswith("couplings") for name in run._data.constants)
