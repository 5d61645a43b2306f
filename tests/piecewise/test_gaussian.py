"""Gaussians: how they are given, and the classical facts about a bouncy particle on them."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.integrate import quad
from scipy.special import ellipe
from scipy.stats import multivariate_normal

import bouncy
from bouncy.piecewise import BPS
from bouncy.piecewise.flight import REFRESH_RATE
from bouncy.piecewise.targets.gaussian import Gaussian, mean_root
from bouncy.recorders.batches import Batches
from bouncy.samplers.contract import NotErgodicWarning
from bouncy.workers.contract import Plan
from bouncy.workers.paths import PathWorker
from conftest import base_seed
from helpers.statistics import z_test

COV = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]])
MEAN = np.array([0.5, -1.0, 3.0])


def arrow(d: int) -> scipy.sparse.csr_array:
    """Return a precision matrix whose first variable is tied to all others: elimination has to change its order."""
    P = np.diag(np.linspace(1.0, 2.0, d))
    P[0, 1:] = P[1:, 0] = 0.8 / sqrt(d)
    return scipy.sparse.csr_array(P)


def degrees(run: bouncy.Run) -> int:
    """Return the degrees of freedom of a standard error that comes from all batches."""
    return int(run.diagnostics["batches"]) - 1


def test_log_density_from_covariance_and_precision() -> None:
    """Would catch an inverse, a storage or a reshape that changes the density."""
    x = np.random.default_rng(base_seed()).standard_normal((2, 4, 3))
    exact = multivariate_normal(MEAN, COV).logpdf(x) - multivariate_normal(MEAN, COV).logpdf(MEAN)
    P = np.linalg.inv(COV)
    for target in (Gaussian(MEAN, COV), Gaussian(MEAN, precision=P), Gaussian(MEAN, cov=scipy.sparse.csc_array(COV))):
        np.testing.assert_allclose(target.log_prob(x), exact, rtol=1e-12)
        np.testing.assert_allclose(target.covariance, COV, rtol=1e-12)
        np.testing.assert_allclose(target.precision, P, rtol=1e-11)
        energies = [target.potential.energy(row) for row in x.reshape(-1, 3)]
        np.testing.assert_allclose(energies, -exact.ravel(), rtol=1e-11)


def test_sparse_precision_stays_sparse() -> None:
    """Would catch a sparse matrix made dense, and a factor whose permutation is undone the wrong way round."""
    P = arrow(60)
    sparse, dense = Gaussian(1.0, precision=P), Gaussian(1.0, precision=P.toarray() + 1e-18)
    assert scipy.sparse.issparse(sparse.precision)
    np.testing.assert_allclose(sparse.covariance, np.linalg.inv(P.toarray()), rtol=1e-10)
    x = np.random.default_rng(base_seed()).standard_normal((5, 60))
    np.testing.assert_allclose(sparse.log_prob(x), dense.log_prob(x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["cov", "precision", "sparse"])
def test_starts_are_draws(kind: str) -> None:
    """Would catch starts from the wrong factor: alpha 1e-6, sees errors of 0.33 in covariances of about 1.3."""
    d, n = 4, 4000
    P = arrow(d)
    target = {
        "cov": lambda: Gaussian(1.0, cov=np.linalg.inv(P.toarray())),
        "precision": lambda: Gaussian(1.0, precision=P.toarray()),
        "sparse": lambda: Gaussian(1.0, precision=arrow(d)),
    }[kind]()
    generator = np.random.default_rng([base_seed(), 1])
    deviations = np.array([target.start(generator) for _ in range(n)]) - 1.0
    products = deviations[:, :, None] * deviations[:, None, :]
    assert z_test(products, np.linalg.inv(P.toarray()), detect=0.33).passed


def test_scalars() -> None:
    """Would catch a scalar mean or covariance that is not spread over the variables."""
    assert Gaussian(2.0, cov=4.0).covariance.tolist() == [[4.0]]
    assert Gaussian([1.0, 2.0], precision=4.0).covariance.tolist() == [[0.25, 0.0], [0.0, 0.25]]
    assert Gaussian(3.0, cov=np.eye(2)).mean.tolist() == [3.0, 3.0]
    assert Gaussian(0.0, cov=np.eye(2), labels=["a", "b"]).labels == ("a", "b")


def test_cannot_be_changed() -> None:
    """Would catch a matrix that a user can change under a running chain."""
    target = Gaussian(MEAN, COV)
    for array in (target.mean, target.precision, target.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"mean": 0.0}, TypeError, "got neither"),
    ({"mean": 0.0, "cov": 1.0, "precision": 1.0}, TypeError, "got both"),
    ({"mean": [0.0, np.nan], "cov": np.eye(2)}, ValueError, r"mean\[1\] = nan"),
    ({"mean": [[0.0]], "cov": 1.0}, ValueError, r"shape \(1, 1\)"),
    ({"mean": [0.0, 1.0, 2.0], "cov": np.eye(2)}, ValueError, r"mean must be a scalar or have shape \(2,\)"),
    ({"mean": 0.0, "cov": [1.0, 2.0]}, ValueError, "square matrix"),
    ({"mean": 0.0, "cov": np.ones((2, 3))}, ValueError, "square matrix"),
    ({"mean": 0.0, "cov": [["a"]]}, TypeError, "real numbers"),
    ({"mean": 0.0, "cov": [[1.0, np.inf], [np.inf, 1.0]]}, ValueError, r"cov\[0, 1\] = inf"),
    ({"mean": 0.0, "cov": [[1.0, 0.5], [0.4, 1.0]]}, ValueError, r"cov\[0, 1\] = 0.5 but cov\[1, 0\] = 0.4"),
    ({"mean": 0.0, "cov": [[1.0, 0.0], [0.0, -2.0]]}, ValueError, r"cov\[1, 1\] = -2.0"),
    ({"mean": 0.0, "cov": [[1.0, 2.0], [2.0, 1.0]]}, ValueError, "indefinite at row 1"),
    ({"mean": 0.0, "precision": np.ones((3, 3))}, ValueError, "at row 1"),
    ({"mean": 0.0, "precision": scipy.sparse.csr_array([[1.0, 2.0], [2.0, 1.0]])}, ValueError, "at row"),
    ({"mean": 0.0, "precision": scipy.sparse.csr_array([[1.0, np.nan], [0.0, 1.0]])}, ValueError, r"\[0, 1\] = nan"),
    ({"mean": 0.0, "precision": scipy.sparse.csr_array([[1.0, 0.0], [0.0, 0.0]])}, ValueError, r"\[1, 1\] = 0.0"),
    ({"mean": 1e12, "cov": 1.0}, ValueError, "lost in rounding"),
    ({"mean": 0.0, "cov": np.eye(2), "labels": ["a"]}, ValueError, "2 sites"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_bad_input(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Would catch input that is accepted, or refused without naming what is wrong with it."""
    with pytest.raises(error, match=message):
        Gaussian(**arguments)


def test_mean_root() -> None:
    """Would catch a wrong bounce rate: closed forms for equal eigenvalues and d = 2, a double integral for d = 3."""
    for d in (1, 2, 7, 500):
        assert mean_root(np.full(d, 9.0)) == pytest.approx(3.0, rel=1e-13)
    assert mean_root(np.array([3.0, 1.0])) == pytest.approx(2 / pi * sqrt(3.0) * ellipe(2 / 3), rel=1e-13)
    a, b, c = 5.0, 0.3, 1.0

    def ring(u: float) -> float:  # E over the angle around the third axis, by the elliptic integral
        across = 1 - u * u
        low, high = c * u * u + across * b, c * u * u + across * a
        return 2 / pi * sqrt(high) * float(ellipe(1 - low / high))

    assert mean_root(np.array([a, b, c])) == pytest.approx(quad(ring, 0, 1, epsabs=1e-13)[0], rel=1e-11)


def test_bounce_rate_and_moments() -> None:
    """Would catch wrong event times or reflections: alpha 1e-6, sees errors of 0.15 and 0.2 in moments."""
    assert Gaussian(np.zeros(5), cov=1.0).rates[1] == pytest.approx(1 / sqrt(2 * pi), rel=1e-13)
    target = Gaussian(MEAN, COV)
    run = bouncy.sample(target, "bps", chains=40, draws=2000, seed=base_seed(), progress=False)
    assert abs(run.diagnostics["bounce_rate_z"]) < 6
    assert np.isnan(run.diagnostics["hit_rate_z"])
    assert z_test(run.path_mean, MEAN, run.path_mean_se, degrees_of_freedom=degrees(run), detect=0.15).passed
    assert z_test(run.path_covariance, COV, run.path_covariance_se, degrees_of_freedom=degrees(run), detect=0.2).passed
    expected = target.rates[1]
    assert expected is not None
    total = run.diagnostics["bounces"] / (40 * 2000 * BPS().sweep_time(3))
    assert total == pytest.approx(expected, rel=0.02)


def test_without_refreshment_it_stays_in_a_plane() -> None:
    """Would catch hidden refreshment, and reflections that do not keep the distance h of the path from the centre.

    On N(0, I) the path stays in a plane, at E|y|^2 = 1 + h^2 instead of d: legs reach from -X to X' with X^2 / 2 and
    X'^2 / 2 from Exp(1), so that the mean of (v.y)^2 is E[X^3] / 3E[X] = 1. Alpha 1e-6, sees errors of 0.15.
    """
    d = 5
    with pytest.warns(NotErgodicWarning):
        sampler = BPS(refreshment=0.0)
    run = bouncy.sample(
        Gaussian(np.zeros(d), cov=1.0), sampler, chains=40, draws=600, seed=base_seed() + 1, progress=False
    )
    squares = []
    for state, draws in zip(run._data.states, run.draws, strict=True):
        singular = np.linalg.svd(draws, compute_uv=False)
        assert singular[2] < 1e-6 * singular[1]
        y, v = state["motion.y"], state["motion.v"]
        squares.append(np.sum(draws**2, axis=1).mean() - (y @ y - (v @ y) ** 2))
    assert z_test(np.array(squares)[:, None], 1.0, detect=0.15).passed


@pytest.mark.slow
def test_variance_of_the_sample_mean() -> None:
    """Would catch time averages that forget segments, and error bars from the wrong batches.

    On N(0, 1) without refreshment, the path goes to and fro between turning points of which X^2 / 2 is Exp(1). The
    integral of x is the alternating sum of X^2, of variance 4 each, and a leg takes 2 E[X] = sqrt(2 pi): the mean over
    a time T has variance 4 / (sqrt(2 pi) T). Alpha 1e-6, sees that T times the variance is off by 0.6.
    """
    with pytest.warns(NotErgodicWarning):
        sampler = BPS(refreshment=0.0)
    n, sweeps = 2000, 64
    seed, batches = np.random.SeedSequence([base_seed(), 2]), Batches(2 * n)
    worker = PathWorker(Gaussian(0.0, cov=1.0), sampler, Plan(slots=batches.most), seed, None)
    for batch in worker.advance(n * sweeps).batches[0]:
        batches.append(batch)
    T = sweeps * worker.sweep_time
    means = np.array([batch["path_mean"] for batch in batches.closed]) / T
    assert means.shape == (n, 1)
    assert z_test(means**2 * T, 4.0 / sqrt(2.0 * pi), detect=0.6).passed
    assert z_test(means, 0.0, detect=0.05).passed


@pytest.mark.parametrize(
    ("d", "refreshment", "per_sweep"),
    [(3, None, 0.50), pytest.param(100, None, 3.13, marks=pytest.mark.slow), (3, 2.0, 2.0)],
)
def test_refreshments_are_counted_per_sweep(d: int, refreshment: float | None, per_sweep: float) -> None:
    """Would catch refreshments per unit time, as of no other sampler, and another default than 0.1 of these.

    Their number in n sweeps is a Poisson variable; six deviations are passed with probability 2e-9.
    """
    sampler = BPS(refreshment=refreshment)
    run = bouncy.sample(Gaussian(np.zeros(d), cov=1.0), sampler, chains=2, draws=4000, warmup=10, seed=base_seed())
    expected = 2 * 4000 * per_sweep
    assert abs(run.diagnostics["refreshments"] - expected) < 0.005 * expected + 6.0 * sqrt(expected)
    rate = run._data.states[0]["motion.leg"][REFRESH_RATE]
    assert rate == (0.1 if refreshment is None else refreshment / sampler.sweep_time(d))


@pytest.mark.parametrize("refreshment", [-0.1, float("nan"), float("inf"), 1e9])
def test_bad_refreshment_is_refused(refreshment: float) -> None:
    """Would catch a particle that never reaches its next refreshment, or never leaves it."""
    with pytest.raises(ValueError, match="refreshment"):
        BPS(refreshment=refreshment)
