"""The particle of dense Gaussians that moves in the metric of the covariance, as users meet it.

Its events are compared with those of the literal twin in `test_flight.py`, its law in `test_law.py`.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest
import scipy.sparse
from scipy.special import log_ndtr
from scipy.stats import norm

import bouncy
from bouncy.piecewise import BPS
from bouncy.piecewise.metric_flight import REFRESH_RATE, MetricFlight
from bouncy.plots import trace_flight
from bouncy.samplers.contract import NotErgodicWarning
from bouncy.workers.contract import Plan
from bouncy.workers.paths import PathWorker
from conftest import base_seed
from helpers.statistics import z_test


def equal(d: int, rho: float) -> np.ndarray:
    return (1.0 - rho) * np.eye(d) + rho


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (bouncy.Gaussian(np.zeros(10), cov=equal(10, 0.9)), True),
        (bouncy.Gaussian(np.zeros(10), precision=np.linalg.inv(equal(10, 0.9))), True),
        (bouncy.Gaussian(np.zeros(10), cov=1e6 * equal(10, 0.9)), True),
        (bouncy.TruncatedGaussian(np.full(10, -4.0), cov=equal(10, 0.9), lower=0.0), True),
        (bouncy.TruncatedGaussian(np.zeros(10), cov=equal(10, 0.9), lower=-2.0, upper=2.0), True),
        (bouncy.TruncatedGaussian(np.zeros(10), cov=equal(10, 0.9), lower=-1.0, upper=1.0), False),
        (bouncy.TruncatedGaussian(np.zeros(10), cov=equal(10, 0.5), lower=0.0), False),
        (bouncy.TruncatedGaussian(np.zeros(100), cov=equal(100, 0.5), lower=0.0), True),
        (bouncy.Gaussian(0.0, cov=1.0), False),
    ],
)
def test_who_moves_in_the_covariance(target, expected):
    """Catches a particle that crawls along a long axis, or meets the walls of a narrow box all the time."""
    worker = PathWorker(target, BPS(), Plan(), np.random.SeedSequence(0), None)
    assert target.moves_in_covariance == isinstance(worker.motion, MetricFlight) == expected
    assert worker.motion.leg[REFRESH_RATE] == 0.2 if expected else target.refreshment_rate == 0.1


def test_a_sparse_precision_stays_sparse():
    """Catches a covariance of 10^10 numbers that nobody asked for."""
    d = 100_000
    chain = scipy.sparse.diags_array([np.full(d - 1, -0.499), np.ones(d), np.full(d - 1, -0.499)], offsets=[-1, 0, 1])
    assert not bouncy.Gaussian(0.0, precision=chain).moves_in_covariance


def test_moments_on_an_orthant():
    """Catches a wrong reflection off a wall. Given a common factor the variables are independent.

    Alpha 1e-6, sees errors of 0.04 in means and of 0.06 in covariances, of standard deviations of 0.7.
    """
    d, rho = 8, 0.9
    w = np.linspace(-12.0, 12.0, 20_001)
    mean, sd = sqrt(rho) * w, sqrt(1.0 - rho)
    log_weight = norm.logpdf(w) + d * log_ndtr(mean / sd)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    hazard = np.exp(norm.logpdf(mean / sd) - log_ndtr(mean / sd))
    one = mean + sd * hazard
    first, square = weight @ one, weight @ (mean**2 + sd**2 + mean * sd * hazard)
    second = np.where(np.eye(d), square, weight @ one**2)
    target = bouncy.TruncatedGaussian(np.zeros(d), cov=equal(d, rho), lower=0.0)
    assert target.moves_in_covariance
    run = bouncy.sample(target, "bps", chains=40, draws=2000, seed=base_seed(), progress=False)
    options = {"degrees_of_freedom": int(run.diagnostics["batches"]) - 1}
    assert z_test(run.path_mean, first, run.path_mean_se, detect=0.04, **options).passed
    assert z_test(run.mean, first, run.mean_se, detect=0.04, **options).passed
    for covariance, error in ((run.path_covariance, run.path_covariance_se), (run.covariance, run.covariance_se)):
        assert z_test(covariance, second - first**2, error, detect=0.06, **options).passed
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=1e-9)


def test_bounce_rate():
    """Catches velocities of another length: 1 / sqrt(2 pi) bounces per unit time for every covariance."""
    target = bouncy.Gaussian(np.arange(6.0), cov=equal(6, 0.95))
    assert target.rates == (None, 1.0 / sqrt(2.0 * pi))
    run = bouncy.sample(target, "bps", chains=20, draws=2000, seed=base_seed(), progress=False)
    assert abs(run.diagnostics["bounce_rate_z"]) < 6
    time = 20 * 2000 * BPS().sweep_time(6)
    assert run.diagnostics["bounces"] / time == pytest.approx(target.rates[1], rel=0.02)
    assert run.diagnostics["refreshments"] / time == pytest.approx(0.2, rel=0.03)


def test_pictures_show_the_path_in_the_metric():
    """Catches a picture of another particle than the one that samples: velocities of length 1 in the wrong metric."""
    target = bouncy.TruncatedGaussian(np.zeros(2), cov=equal(2, 0.99), lower=0.0)
    path = trace_flight(target, events=50, seed=base_seed())
    length = np.einsum("ni,ij,nj->n", path.speed, target.precision, path.speed)
    np.testing.assert_allclose(length, 1.0, rtol=1e-9)


def test_without_refreshment_rounding_does_not_build_up():
    """Catches velocities whose length drifts over many bounces: v'P v is 1."""
    with pytest.warns(NotErgodicWarning):
        sampler = BPS(refreshment=0.0)
    target = bouncy.TruncatedGaussian(np.zeros(6), cov=equal(6, 0.95), lower=0.0)
    worker = PathWorker(target, sampler, Plan(), np.random.SeedSequence(base_seed()), None)
    worker.advance(20_000)
    flight = worker.motion
    assert worker.recorder.open_events.sum() > 0
    assert flight.v @ target.precision @ flight.v == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(flight.g, target.precision @ flight.x, atol=1e-9)
    np.testing.assert_allclose(flight.Q, target.precision @ flight.v, atol=1e-9)


def test_the_covariance_may_change_between_visits():
    """Catches a particle that goes on in an old metric: the sign of the correlation of two variables is unknown.

    A score beyond 6.5 has probability 2e-7 under Student's law with 31 degrees of freedom.
    """
    precision = {sign: np.linalg.inv(equal(2, 0.97 * sign)) for sign in (-1.0, 1.0)}

    def build(sign):
        return bouncy.Gaussian(np.zeros(2), precision=precision[float(sign)])

    def draw_sign(x, parameters, generator):
        odds = 0.5 * x @ (precision[1.0] - precision[-1.0]) @ x
        return 1.0 if generator.random() < 1.0 / (1.0 + np.exp(odds)) else -1.0

    assert build(1.0).moves_in_covariance
    scheme = bouncy.Within(build, {"sign": draw_sign}, {"sign": 1.0})
    options = {"warmup": 30, "seed": base_seed(), "progress": False}
    run = bouncy.sample(scheme, "bps", chains=32, draws=200, **options)
    sign = run.parameters["sign"]
    square = [np.einsum("cni,ij,cnj->cn", run.draws, precision[s], run.draws) for s in (-1.0, 1.0)]
    for trace, truth, size in ((sign, 0.0, 0.3), (np.where(sign > 0.0, square[1], square[0]), 2.0, 0.4)):
        error = trace.mean(axis=1).std(ddof=1) / sqrt(32)
        assert abs(trace.mean() - truth) < 6.5 * error < size
    whole, parts = (bouncy.sample(scheme, "bps", chains=2, draws=n, **options) for n in (30, 12))
    assert parts.extend(18).draws.tobytes() == whole.draws.tobytes()


def test_velocities_are_drawn_where_the_covariance_changes():
    """Catches a velocity of the old metric, which is not uniform in the new one. Alpha 1e-6, sees errors of 0.06."""
    old, new = (bouncy.Gaussian(np.zeros(2), cov=cov) for cov in (equal(2, 0.99), np.array([[1.0, 1.0], [1.0, 25.0]])))
    worker = PathWorker(old, BPS(), Plan(), np.random.SeedSequence(base_seed()), None)
    found = []
    for _ in range(3000):
        worker.retarget(new)
        found.append(np.linalg.solve(new.covariance_root.T, worker.motion.v))
    z = np.array(found)
    np.testing.assert_allclose((z * z).sum(axis=1), 1.0, rtol=1e-9)
    assert z_test(np.einsum("ni,nj->nij", z, z), np.eye(2) / 2, detect=0.06).passed


def test_a_gaussian_must_stay_one_between_visits():
    """Catches a particle that goes on with the covariance of another target."""

    def build(scale):
        if scale == 1.0:
            return bouncy.Gaussian(np.zeros(2), cov=equal(2, 0.99))
        return bouncy.MixedBinaryGaussian(np.zeros((0, 0)), precision=np.linalg.inv(equal(2, 0.99)))

    scheme = bouncy.Within(build, {"scale": lambda x, parameters, generator: 2.0}, {"scale": 1.0})
    with pytest.raises(ValueError, match="became a MixedBinaryGaussian between two visits"):
        bouncy.sample(scheme, "bps", chains=1, draws=5, seed=0, progress=False)
