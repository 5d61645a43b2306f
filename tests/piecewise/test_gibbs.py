"""Gibbs sampling of continuous and mixed targets: its law from exact starts, its expectations, its tails and limits.

The conformance tests compare every target with quadrature; here are laws that it must leave as they are, larger models
whose answers are known, and cells in which digits are few.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from math import inf

import numpy as np
import pytest
from scipy.special import ndtr

import bouncy
from bouncy._random import new_state
from bouncy.piecewise.expectations import new_expectations
from bouncy.piecewise.marginals import new_marginals, pays
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.potential import SPIKED, Cells, Potential, new_view
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import new_path_recorder, open_sums
from bouncy.piecewise.samplers.gibbs import new_scan
from bouncy.piecewise.spike_moves import partners_of
from bouncy.piecewise.spikes import settle_windows
from bouncy.recorders.contract import HITS
from bouncy.targets.contract import TargetError
from conftest import base_seed
from helpers.replicates_piecewise import locate
from helpers.statistics import z_test
from piecewise.laws import LAWS

SEED = base_seed()
QUICK = {"chains": 4, "seed": SEED, "progress": False, "pairs": "all"}
# What says where inside of a cell a coordinate is that stands for one value: to which the sampler pays no attention.
OF_PLACES = {"inside the spike", "distances"}


@pytest.fixture(params=["given all others", "jointly"])
def jointly(request, monkeypatch):
    """Have coefficients that may be zero flip given all others, or with those that are not zero integrated out."""
    used = request.param == "jointly"
    monkeypatch.setattr("bouncy.piecewise.samplers.gibbs.pays", lambda *_: used)
    return used


@pytest.mark.parametrize("name", ["correlated", "quadrant", "jump-kink-flat", "spike-slab", "mixed-exponential"])
@pytest.mark.parametrize("random", [False, True])
def test_law_is_kept_from_exact_starts(name, random):
    check_law_is_kept(name, random)


def test_law_is_kept_by_joint_flips():
    """L2: catches flips whose mass or compensation is wrong, with power as below."""
    check_law_is_kept("spike-slab", False, jointly=True)


def check_law_is_kept(name, random, jointly=False):
    """L2: a wrong weight of a cell, side of a truncated normal or stale A x - b moves the law away from its start.

    Alpha 1e-6 for each assertion; sees errors of 0.15 standard deviations in averages and distances of 0.1 to 0.3 in
    the law of the final states.
    """
    law, n, sweeps = LAWS[name](), 3000, 3
    cells, d = law.potential.cells, law.d
    starts = law.draw(np.random.default_rng([SEED, 1]), n)
    rows, view = locate(cells, starts), new_view(law.potential, law.scale)
    scan = new_scan(
        starts[0] / law.scale, rows[0], random, new_state(np.random.SeedSequence([SEED, 2])),
        marginals=new_marginals(d if jointly else 0),
    )  # fmt: skip
    found: dict[str, list[np.ndarray]] = {"mean": [], "square": [], "products": [], "path_mean": []}
    y, row, x = np.empty((n, d)), np.empty((n, d), np.int64), np.empty((n, d))
    for k in range(n):
        size = cells.lower.size
        recorder = new_path_recorder(
            d, size, np.zeros(d), np.zeros(d), new_products(d, given=True), new_expectations(d, size)
        )
        scan.y[:], scan.row[:] = starts[k] / law.scale, rows[k]
        prepare(scan, view, recorder.evaluations)
        assert advance(scan, view, recorder, 1.0, sweeps) == 0
        if view.spikes.order.size:
            settle_windows(recorder, view, 1.0)
        sums = open_sums(recorder)
        for key, several in found.items():
            several.append(sums[key] / sweeps)
        y[k], row[k], x[k] = scan.y * law.scale, scan.row, scan.x
    np.testing.assert_allclose(x, cells.slope[row] * y + cells.shift[row], rtol=1e-12, atol=1e-12)
    spread = np.sqrt(np.diag(law.product))
    z_test(found["mean"], law.mean, detect=0.15 * spread, name="expectations").check()
    z_test(found["square"], np.diag(law.product), detect=0.3 * spread**2, name="squares").check()
    products = np.array(found["products"]).reshape(n, d, d)
    sizes = np.outer(spread, spread)
    z_test(0.5 * (products + products.transpose(0, 2, 1)), law.product, detect=0.3 * sizes, name="products").check()
    z_test(found["path_mean"], law.mean, detect=0.15 * spread, name="values").check()
    tested = [outcome for outcome in law.final(y, x, 0.1) if outcome.test not in OF_PLACES]
    assert tested
    for outcome in tested:
        outcome.check()


def models_of(target: bouncy.SpikeSlab) -> tuple[np.ndarray, np.ndarray]:
    """Return inclusion probabilities and posterior means, (p,) each, by enumeration of all models."""
    A, b, p = target._precision(), target.potential.linear, target.d
    log_weight, kept, mean = [], [], []
    for model in itertools.product([False, True], repeat=p):
        m = np.array(model)
        root = np.linalg.cholesky(A[np.ix_(m, m)]) if m.any() else np.zeros((0, 0))
        half = np.linalg.solve(root, b[m])
        prior = np.log(target.inclusion[m] / target.slab_scale[m]).sum() + np.log1p(-target.inclusion[~m]).sum()
        log_weight.append(prior + 0.5 * half @ half - np.log(np.diag(root)).sum())
        kept.append(m)
        mean.append(np.zeros(p))
        mean[-1][m] = np.linalg.solve(root.T, half)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    weight /= weight.sum()
    return weight @ np.array(kept), weight @ np.array(mean)


def test_spike_and_slab_is_that_of_all_models(jointly):
    """Catches weights that only ten correlated variables bring out: enumeration of 1024 models.

    A score beyond 7 comes up with probability 1e-7; errors are below 0.01, so that one of 0.07 is seen.
    """
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 10)) + 0.5 * rng.standard_normal((40, 1))
    y = X @ np.r_[0.6, -0.3, 0.2, np.zeros(7)] + rng.standard_normal(40)
    target = bouncy.SpikeSlab(X, y, inclusion=0.3, slab_scale=1.0, noise_scale=1.0)
    run = bouncy.sample(target, "gibbs", draws=4000, **QUICK)
    inclusion, mean = models_of(target)
    assert max(run.inclusion_se.max(), run.mean_se.max()) < 0.01
    assert (np.abs(run.inclusion - inclusion) < 7 * run.inclusion_se).all()
    assert (np.abs(run.mean - mean) < 7 * run.mean_se).all()
    assert (np.abs(run.path_inclusion - inclusion) < 7 * run.path_inclusion_se).all()
    positive, error = run.probability(lower=0.0)
    negative = run.probability(upper=-1e-300)[0]
    assert (np.abs(positive + negative - 1.0) < 7 * error + 1e-9).all()


def test_repeated_visits_keep_the_law(jointly, monkeypatch):
    """Catches visits of the same coefficients in one sweep that count too often or too rarely, also in products.

    A score beyond 7 comes up with probability 1e-7; errors are below 0.02, and a count that is wrong is so by a third.
    """
    thrice = np.zeros(3, np.int64), np.array([3.0])
    monkeypatch.setattr("bouncy.piecewise.potential.visits_of", lambda shares, _: (np.arange(shares.size), *thrice))
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 8)) + 0.5 * rng.standard_normal((40, 1))
    y = X @ np.r_[0.6, -0.3, 0.2, np.zeros(5)] + rng.standard_normal(40)
    target = bouncy.SpikeSlab(X, y, inclusion=0.3, slab_scale=1.0, noise_scale=1.0)
    run = bouncy.sample(target, "gibbs", draws=2000, **QUICK)
    for name, exact in zip(("inclusion", "mean"), models_of(target), strict=True):
        assert (np.abs(getattr(run, name) - exact) < 7 * getattr(run, f"{name}_se") + 1e-6).all()
    error = np.hypot(run.covariance_se, run.path_covariance_se)
    assert error.max() < 0.02
    assert (np.abs(run.covariance - run.path_covariance) < 7 * error).all()


@pytest.mark.parametrize("often", [False, True])
def test_independent_coefficients_have_exact_inclusions(jointly, often):
    """Catches coefficients that are looked at as one of another window, too often or not at all: 40 of them, in three.

    With most of them rarely in the model, the window of the others is visited five times in a sweep. A score beyond 7
    comes up with probability 1e-10; errors of averages over the path are below 0.01.
    """
    rng = np.random.default_rng(7)
    X = np.linalg.qr(rng.standard_normal((50, 40)))[0] * rng.uniform(2.0, 6.0, 40)
    y = X @ (rng.standard_normal(40) * (rng.random(40) < 0.5)) + rng.standard_normal(50)
    inclusion, slab = rng.uniform(0.1, 0.6, 40), rng.uniform(0.5, 2.0, 40)
    if often:
        inclusion[rng.permutation(40)[:28]] = 1e-9
    target = bouncy.SpikeSlab(X, y, inclusion=inclusion, slab_scale=slab, noise_scale=1.0, intercept=False)
    run = bouncy.sample(target, "gibbs", draws=2000, **QUICK)
    np.testing.assert_array_equal(target.view().spikes.times, [5.0 if often else 1.0, 1.0, 1.0])
    looked_at = 104 if often and not jointly else 40
    assert run.events()[HITS] == 4 * 2000 * run.sweeps_per_draw * looked_at
    A = np.sum(X * X, axis=0) + slab**-2.0
    m = X.T @ y / A
    odds = (1.0 - inclusion) / inclusion * slab * np.sqrt(A) * np.exp(-0.5 * A * m * m)
    share = 1.0 / (1.0 + odds)
    np.testing.assert_allclose(run.inclusion, share, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run.mean, share * m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run.variance, share * (m * m + 1.0 / A) - (share * m) ** 2, rtol=1e-9, atol=1e-12)
    below, seen = share * ndtr(-m * np.sqrt(A)), (share > 0.02) & (np.abs(m) * np.sqrt(A) < 2.0)
    assert seen.sum() > (3 if often else 10)  # a side that was never visited has no place for its mass
    np.testing.assert_allclose(run.probability(upper=-1e-300)[0][seen], below[seen], rtol=1e-9, atol=1e-12)
    assert run.path_inclusion_se.max() < 0.01
    for name, exact in (("path_inclusion", share), ("path_mean", share * m)):
        assert (np.abs(getattr(run, name) - exact) < 7 * getattr(run, f"{name}_se") + 1e-3).all()


def test_errors_of_intervals_are_those_of_the_best_estimate():
    """Catches error bars of the path beside probabilities in which cells have exact ones.

    Forty independent coefficients, of which inclusions are known, and P(beta_j >= 0.1) where that is not rare: squared
    scores of eight runs average to 1, up to a factor of 1.6 at 1e-6. With error bars of the path it is 0.3.
    """
    rng = np.random.default_rng(8)
    X = np.linalg.qr(rng.standard_normal((50, 40)))[0] * 4.0
    y = X @ (0.5 * rng.standard_normal(40)) + rng.standard_normal(50)
    target = bouncy.SpikeSlab(X, y, inclusion=0.5, slab_scale=1.0, noise_scale=1.0, intercept=False)
    A = 17.0
    m = X.T @ y / A
    beyond, squares = ndtr((m - 0.1) * np.sqrt(A)), []
    for k in range(8):
        run = bouncy.sample(target, "gibbs", draws=1000, **QUICK | {"seed": base_seed() + k})
        value, error = run.probability(lower=0.1)
        squares.append(((value - run.inclusion * beyond)[beyond > 0.02] / error[beyond > 0.02]) ** 2)
    assert np.size(squares) > 200
    assert 1 / 1.6 < np.mean(squares) < 1.6


class Points(bouncy.PiecewiseTarget):
    """Twenty variables: normal ones, and between them such that are normal or at a point other than zero."""

    d = 20

    @cached_property
    def potential(self) -> Potential:
        groups = [
            Cells.alike(1, [-inf, inf])
            if i % 3 == 1
            else Cells.alike(
                1, [-inf, 0.0, 1.0, inf], slope=[1.0, 0.0, 1.0], shift=[p, p, p - 1.0], constant=[0.5, 0.1 * i, 0.5]
            )
            for i, p in enumerate(self.points)
        ]
        return Potential(self.coupling, np.cos(np.arange(20.0)), Cells.joined(groups))

    @property
    def points(self) -> np.ndarray:
        return np.round(4.0 * np.sin(np.arange(20.0))) / 8.0  # exact, so that both sides of the normal meet there

    @property
    def coupling(self) -> np.ndarray:
        """Return the precision: five variables are coupled to each other, in both windows, the others to none."""
        u = np.zeros(20)
        u[[1, 2, 5, 17, 18]] = [1.0, -0.8, 0.9, 0.7, -1.0]
        return np.diag(1.0 + 0.1 * np.arange(20.0)) + np.outer(u, u)

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return np.full(20, 2.0)


@pytest.mark.parametrize("sampler", ["gibbs", "gibbs-random"])
def test_points_other_than_zero_among_normal_variables(sampler):
    """Catches coordinates of one kind that are taken for another, points that are taken for zero, path and law alike.

    Exact answers by a sum over which variables are at their points. A score beyond 7 comes up with probability 1e-10.
    """
    target = Points()
    A, b, points = target.coupling, target.potential.linear, target.points
    assert (target.view().kind == SPIKED).sum() == 13
    mean, square, at_point = np.zeros(20), np.zeros(20), np.zeros(20)
    for group in ([1, 2, 5, 17, 18], *([i] for i in range(20) if i not in (1, 2, 5, 17, 18))):
        spiked = [i for i in group if i % 3 != 1]
        weights, found = [], []
        for model in itertools.product([False, True], repeat=len(spiked)):
            fixed = [i for i, still in zip(spiked, model, strict=True) if still]
            free = [i for i in group if i not in fixed]
            h = b[free] - A[np.ix_(free, fixed)] @ points[fixed]
            V = np.linalg.inv(A[np.ix_(free, free)])
            energy = 0.5 * points[fixed] @ A[np.ix_(fixed, fixed)] @ points[fixed] - b[fixed] @ points[fixed]
            energy += 0.1 * sum(fixed) + 0.5 * (len(spiked) - len(fixed)) - 0.5 * h @ V @ h
            weights.append(np.exp(-energy) * np.sqrt(np.linalg.det(2.0 * np.pi * V)))
            x, xx = points.copy(), points**2
            x[free], xx[free] = V @ h, (V @ h) ** 2 + np.diag(V)
            found.append((x, xx, np.isin(np.arange(20), fixed)))
        share = np.array(weights) / sum(weights)
        for exact, values in zip((mean, square, at_point), zip(*found, strict=True), strict=True):
            exact[group] = (share @ np.array(values, float))[group]
    run = bouncy.sample(target, sampler, draws=4000, thin=2, **QUICK)
    for found, error, exact in (
        (run.mean, run.mean_se, mean),
        (run.path_mean, run.path_mean_se, mean),
        (run.variance, run.variance_se, square - mean**2),
        (run.path_variance, run.path_variance_se, square - mean**2),
    ):
        assert (np.abs(found - exact) < 7 * error + 1e-9).all()
        assert error.max() < 0.03
    still = (run.draws.reshape(-1, 20) == points).mean(axis=0)
    np.testing.assert_allclose(still, at_point, atol=0.07)


def test_exchanges_keep_the_law(jointly):
    """Catches exchanges of coefficients whose ratio misses a mass, a coupling or the number of partners.

    A chain of columns with correlation 0.9 in different units, slabs and inclusions, so that no two are alike. A score
    beyond 7 comes up with probability 1e-7; errors are below 0.002, so that one of 0.014 is seen.
    """
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 6))
    for j in range(1, 6):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    y = 0.7 * X[:, 2] + rng.standard_normal(30)
    scales = {"slab_scale": [1.0, 0.5, 2.0, 0.2, 1.0, 3.0], "inclusion": [0.1, 0.3, 0.2, 0.4, 0.2, 0.3]}
    target = bouncy.SpikeSlab(X * [1.0, 3.0, 0.5, 1.0, 2.0, 1.0], y, noise_scale=1.0, **scales)
    partners = partners_of(target.potential)
    assert len(set(partners.total)) == 6
    run = bouncy.sample(target, "gibbs", draws=80_000, keep="means", **QUICK)
    inclusion, mean = models_of(target)
    assert max(run.inclusion_se.max(), run.mean_se.max()) < 0.002
    for name in ("inclusion", "path_inclusion"):
        assert (np.abs(getattr(run, name) - inclusion) < 7 * getattr(run, f"{name}_se")).all()
    for name in ("mean", "path_mean"):
        assert (np.abs(getattr(run, name) - mean) < 7 * getattr(run, f"{name}_se")).all()
    positive, error = run.probability(lower=0.0)  # zero counts
    assert (np.abs(positive + run.probability(upper=-1e-300)[0] - 1.0) < 7 * error + 1e-9).all()


def test_independent_variables_have_exact_expectations():
    """Catches expectations that are not those of the law, and errors that are made up where there are none.

    Walls 40 standard deviations out, a cell of width 1e-12, a cell that a wall is far inside of.
    """
    lower, upper = np.array([40.0, 0.0, -inf, 1.0]), np.array([inf, 1e-12, -38.0, 2.0])
    target = bouncy.TruncatedGaussian(np.zeros(4), cov=1.0, lower=lower, upper=upper)
    run = bouncy.sample(target, "gibbs", draws=200, **QUICK)
    # E[z | z > a] = a + 1/a - 2/a^3 + 10/a^5 - 74/a^7 + ..., and Var = 1/a^2 - 6/a^4 + 50/a^6 - ...
    tail = lambda a: a + 1 / a - 2 / a**3 + 10 / a**5 - 74 / a**7  # noqa: E731
    grid = np.linspace(1.0, 2.0, 200_001)
    weight = np.exp(-0.5 * grid**2)
    np.testing.assert_allclose(
        run.mean, [tail(40.0), 0.5e-12, -tail(38.0), np.average(grid, weights=weight)], rtol=1e-6, atol=0.0
    )
    assert run.mean[0] - 40.0 == pytest.approx(tail(40.0) - 40.0, rel=1e-6)
    assert (run.mean_se <= 1e-12 * np.abs(run.mean)).all()
    draws = run.draws.reshape(-1, 4)
    assert ((draws >= lower) & (draws <= upper)).all()
    assert draws[:, 0].std() == pytest.approx(1 / 40.0, rel=0.3)
    assert draws[:, 1].std() == pytest.approx(1e-12 / np.sqrt(12.0), rel=0.3)
    assert run.path_mean[3] == pytest.approx(run.mean[3], abs=7 * run.path_mean_se[3])
    half = bouncy.TruncatedGaussian(np.zeros(3), cov=np.eye(3), lower=0.0)  # walls at the peaks, but for rounding
    for sampler in ("gibbs", "hmc"):
        run = bouncy.sample(half, sampler, draws=200, **QUICK)
        np.testing.assert_allclose(run.mean, np.sqrt(2 / np.pi), rtol=1e-12)
        np.testing.assert_allclose(run.variance, 1 - 2 / np.pi, rtol=1e-12)


class Bent(bouncy.PiecewiseTarget):
    """Independent variables with a kink, a jump of the density, walls, another unit, and on a half-line."""

    d = 5
    _labels = None

    @cached_property
    def potential(self) -> Potential:
        groups = [
            Cells.alike(1, [-inf, 0.0, inf], tilt=[-1.0, 2.0]),
            Cells.alike(1, [-inf, 0.5, inf], constant=[0.0, 1.0]),
            Cells.alike(1, [-1.0, 2.0]),
            Cells.alike(1, [-inf, 0.3, inf], slope=-2.0, shift=0.5, tilt=[0.0, 1.0]),
            Cells.alike(1, [-inf, 1.0], tilt=-1.5),
        ]
        return Potential(np.eye(5), np.array([0.5, 0.3, 0.4, 0.4, 0.2]), Cells.joined(groups))

    def start(self, generator):
        return generator.uniform(0.0, 0.9, size=5)


@pytest.mark.parametrize("name", ["bent", "half-lines"])
def test_reflections_keep_the_law(name):
    """Catches a reflection that takes no account of the densities, by means and variances of states.

    Expectations of independent variables are exact. A score beyond 7 comes up with probability 1e-10; errors are below
    0.02, so that one of 0.14 is seen. Every other state is on the other side of the mean than the last, most times.
    """
    half_lines = bouncy.TruncatedGaussian(np.array([0.5, 1.0, 2.0]), cov=1.0, lower=0.0)
    run = bouncy.sample(Bent() if name == "bent" else half_lines, "gibbs", draws=8000, **QUICK)
    assert run.mean_se.max() < 1e-9
    assert max(run.path_mean_se.max(), run.path_variance_se.max()) < 0.02
    assert (np.abs(run.path_mean - run.mean) < 7 * run.path_mean_se).all()
    assert (np.abs(run.path_variance - run.variance) < 7 * run.path_variance_se).all()
    deviation = run.draws - run.mean
    lagged = (deviation[:, 1:] * deviation[:, :-1]).mean(axis=(0, 1))
    assert (lagged < -0.1 * run.variance).all()


def test_products_are_kept_up_to_date():
    """Catches A x - b that drifts, or misses the change of a variable, dense and over many sweeps."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 12))
    target = bouncy.BayesianLasso(X, X[:, 0] + rng.standard_normal(30), penalty=1.0, noise_scale=1.0)
    (worker,) = target.workers(bouncy.piecewise.Gibbs(), _plan(), [np.random.SeedSequence(SEED)], [None])
    for sweeps in (1, 30, 40, 500):
        worker.advance(sweeps)
        expected = target.potential.coupling @ worker.motion.x - target.potential.linear
        np.testing.assert_allclose(worker.motion.F, expected, rtol=1e-10, atol=1e-10)


def test_marginals_are_kept_up_to_date():
    """Catches slopes, precisions and covariances with others integrated out, or A x - b, that miss a flip."""
    target = correlated_slab(20)
    (worker,) = target.workers(bouncy.piecewise.Gibbs(), _plan(), [np.random.SeedSequence(SEED)], [None])
    A, b, marginals = target.potential.coupling, target.potential.linear, worker.motion.marginals
    assert marginals.active.size == 20
    for sweeps in (1, 1, 60, 40, 500):
        worker.advance(sweeps)
        x = worker.motion.x
        active = marginals.active[: np.count_nonzero(x)]
        assert sorted(active) == np.flatnonzero(x).tolist()
        k = active.size
        M = np.linalg.inv(A[np.ix_(active, active)])
        np.testing.assert_allclose(marginals.covariance[:k, :k], M, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(worker.motion.F, A @ x - b, rtol=1e-10, atol=1e-9)
        for i in range(20):
            others = active[active != i]
            W = np.linalg.solve(A[np.ix_(others, others)], A[others, i])
            assert marginals.slope[i] == pytest.approx(W @ b[others] - b[i], rel=1e-8, abs=1e-8)
            assert marginals.precision[i] == pytest.approx(A[i, i] - W @ A[others, i], rel=1e-8)


@pytest.mark.parametrize(("apart", "used"), [(0.03, True), (0.003, False), (0.001, False)])
def test_joint_flips_keep_their_digits(apart, used):
    """Catches joint flips of columns so similar that what is kept up to date is lost in rounding.

    With the smallest distance slopes go wrong by 0.4 standard deviations in 64 sweeps.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))[:, np.arange(12) % 3] + apart * rng.standard_normal((30, 12))
    y = X[:, 0] + rng.standard_normal(30)
    target = bouncy.SpikeSlab(X, y, inclusion=0.5, slab_scale=100.0, noise_scale=1.0)
    (worker,) = target.workers(bouncy.piecewise.Gibbs(), _plan(), [np.random.SeedSequence(SEED)], [None])
    A, b, marginals = target.potential.coupling, target.potential.linear, worker.motion.marginals
    assert (marginals.active.size > 0) == used
    for _ in range(10 if used else 0):
        worker.advance(64)
        active = np.flatnonzero(worker.motion.x)
        for i in range(12):
            others = active[active != i]
            W = np.linalg.solve(A[np.ix_(others, others)], A[others, i])
            error = abs(marginals.slope[i] - W @ b[others] + b[i]) / np.sqrt(A[i, i] - W @ A[others, i])
            assert error < 1e-3


def correlated_slab(d: int, **options) -> bouncy.SpikeSlab:
    """Return a model whose neighbouring columns are correlated by 0.9."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, d))
    for j in range(1, d):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    settings = {"inclusion": 0.2, "slab_scale": 1.0, "noise_scale": 1.0, **options}
    return bouncy.SpikeSlab(X, X[:, 3] - 0.5 * X[:, 7] + rng.standard_normal(60), **settings)


def test_where_flips_are_joint():
    """Catches models that flip otherwise than the docstring says."""
    target = correlated_slab(20)
    assert pays(target.potential, True)
    assert not pays(target.potential, False)
    large = correlated_slab(120).potential
    assert pays(large, True)
    assert not pays(correlated_slab(120, inclusion=0.9).potential, True)
    assert not pays(correlated_slab(20, positive=True).potential, True)
    assert not pays(Points().potential, True)
    for sampler, size in (("systematic", 20), ("random", 0)):
        scan = bouncy.piecewise.Gibbs(sampler).start(
            target, target.start(np.random.default_rng(0)), np.arange(20) * 3, np.random.SeedSequence(SEED)
        )
        assert scan.marginals.active.size == size


@pytest.mark.parametrize(
    ("name", "value", "used"),
    [
        ("noise_scale", 0.5, True),
        ("noise_scale", 1e-4, False),
        ("slab_scale", 1e4, False),
        ("inclusion", np.r_[1e-140, np.full(11, 0.3)], False),
    ],
)
def test_new_targets_where_flips_cannot_be_joint(name, value, used):
    """Catches joint flips on a target where rounding, or a law that is not of their kind, would end the run.

    With more columns than rows, each is explained by others but for the prior.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 12))
    y = X[:, 0] + 0.1 * rng.standard_normal(8)
    one = bouncy.SpikeSlab(X, y, inclusion=0.3, slab_scale=1.0, noise_scale=1.0)
    (worker,) = one.workers(bouncy.piecewise.Gibbs(), _plan(), [np.random.SeedSequence(SEED)], [None])
    assert worker.motion.marginals.used[0]
    for target, expected in ((one.given(**{name: value}), used), (one, True)):
        worker.retarget(target)
        assert worker.motion.marginals.used[0] == expected
        worker.advance(200)
        x, A, b = worker.motion.x, target.potential.coupling, target.potential.linear
        np.testing.assert_allclose(worker.motion.F, A @ x - b, atol=1e-10 * np.abs(A).max() * (1.0 + np.abs(x).max()))
        np.testing.assert_array_equal(target.cells.slope[worker.motion.row] == 0.0, x == 0.0)


def test_places_are_in_their_cells(jointly):
    """Catches a value whose cell is not the one that it lies in, as on the other side of a spike."""
    t = np.arange(20.0)
    X = np.column_stack([np.sin(t), np.cos(t), np.sin(t) + 0.3 * np.cos(3.0 * t)])
    target = bouncy.SpikeSlab(X, 0.3 * np.sin(t), inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    view, scan = (
        target.view(),
        bouncy.piecewise.Gibbs().start(target, np.zeros(3), np.array([1, 4, 7]), np.random.SeedSequence(SEED)),
    )
    assert (view.kind == SPIKED).all()
    recorder = new_path_recorder(3, 9, np.zeros(3), np.zeros(3), new_products(3, given=True), new_expectations(3, 9))
    prepare(scan, view, recorder.evaluations)
    seen = set()
    for _ in range(200):
        assert advance(scan, view, recorder, 1.0, 1) == 0
        assert ((view.lower[scan.row] <= scan.y) & (scan.y <= view.upper[scan.row])).all()
        np.testing.assert_allclose(view.slope[scan.row] * scan.y + view.shift[scan.row], scan.x, atol=1e-12)
        seen.update(scan.row.tolist())
    assert seen == set(range(9))


def test_a_new_target_leaves_what_was_recorded():
    """Catches sums that were put off on one target and are settled with the precisions of the next."""
    t = np.linspace(0.0, 3.0, 40)
    X = np.column_stack([np.sin(t), np.cos(t)])
    one = bouncy.SpikeSlab(X, np.sin(t), inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    (worker,) = one.workers(bouncy.piecewise.Gibbs(), _plan(), [np.random.SeedSequence(SEED)], [None])
    worker.advance(103)
    (before,) = worker.open_sums()
    assert before["mean"].any(), "there must be an open batch"
    worker.retarget(one.given(noise_scale=0.3))
    (after,) = worker.open_sums()
    for name, sums in before.items():
        np.testing.assert_allclose(after[name], sums, rtol=1e-13, atol=1e-13, err_msg=name)


def test_bins_hold_all_time():
    """Catches states that are noted and never put into bins when a call of the loop ends, or before the next."""
    target = bouncy.TruncatedGaussian(np.zeros(3), cov=np.eye(3) + 0.5, lower=0.0)
    view, scan = (
        target.view(),
        bouncy.piecewise.Gibbs().start(target, np.ones(3), np.arange(3), np.random.SeedSequence(SEED)),
    )
    recorder = new_path_recorder(
        3, 3, np.zeros(3), np.full(3, 4.0), new_products(3, given=True), new_expectations(3, 3)
    )
    prepare(scan, view, recorder.evaluations)
    done = 0
    for sweeps in (7, 32, 45):
        assert advance(scan, view, recorder, 1.0, sweeps) == 0
        done += sweeps
        assert recorder.open_bin.sum(axis=1).tolist() == [done] * 3


def _plan():
    from bouncy.workers.contract import Plan

    return Plan(1, 32, "all", 1)


class Open(bouncy.PiecewiseTarget):
    """A flat density on a half-line, which has no integral."""

    d = 1

    @cached_property
    def potential(self) -> Potential:
        return Potential(np.zeros((1, 1)), np.zeros(1), Cells.alike(1, [0.0, inf]))

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return np.ones(1)


@pytest.mark.parametrize("sampler", ["gibbs", "bps"])
def test_a_density_without_an_integral_is_refused(sampler):
    """Catches draws from a law that does not exist."""
    with pytest.raises(TargetError, match="no law given the others whose integral is finite"):
        bouncy.sample(Open(), sampler, draws=10, **QUICK)


class Forbidden(bouncy.PiecewiseTarget):
    """A uniform density on (0, 1) and (2, 3), with an interval between them that is never entered."""

    d = 1

    @cached_property
    def potential(self) -> Potential:
        cells = Cells.alike(1, [0.0, 1.0, 2.0, 3.0], constant=[0.0, inf, np.log(3.0)])
        return Potential(np.zeros((1, 1)), np.zeros(1), cells)

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return np.full(1, 0.5)


def test_forbidden_intervals_are_jumped_over():
    """Catches a cell that is entered though it has no mass: probabilities 3/4, 0 and 1/4, exactly."""
    run = bouncy.sample(Forbidden(), "gibbs", draws=500, **QUICK)
    assert run.mean == pytest.approx([0.75 * 0.5 + 0.25 * 2.5], rel=1e-12)
    assert run.probability(1.0, 2.0)[0] == pytest.approx([0.0], abs=1e-12)
    assert run.probability(2.0, 3.0)[0] == pytest.approx([0.25], rel=1e-12)
    assert not ((run.draws > 1.0) & (run.draws < 2.0)).any()
    assert (run.draws > 2.0).mean() == pytest.approx(0.25, abs=0.07)
    middle, error = run.probability(upper=0.5)
    assert abs(middle[0] - 0.375) < 7 * error[0]


def test_bad_scans_are_refused():
    """Catches a scan that stands for another one in silence."""
    with pytest.raises(ValueError, match="scan is 'diagonal'; expected one of: systematic, random"):
        bouncy.piecewise.Gibbs("diagonal")
