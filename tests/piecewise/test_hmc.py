"""Exact Hamiltonian Monte Carlo in a box: energy, reversibility, a literal twin, stationary laws, errors."""

from __future__ import annotations

from functools import cached_property, partial
from math import acos, atan2, cos, pi, sin, sqrt
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.special import ndtr

import bouncy
from bouncy.piecewise import BPS, HMC
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import new_path_recorder
from bouncy.piecewise.samplers.hmc import Trajectory, travel
from bouncy.piecewise.targets._normal import Normal
from bouncy.piecewise.targets.gaussian import Gaussian
from bouncy.piecewise.targets.truncated_gaussian import TruncatedGaussian
from bouncy.samplers.contract import NotErgodicWarning
from conftest import base_seed
from helpers.statistics import distribution_test, z_test

Array = NDArray[np.float64]


def random_box(seed: int, d: int) -> TruncatedGaussian:
    """Return a box of all kinds of intervals, some of them far from the mean."""
    generator = np.random.default_rng([base_seed(), seed])
    root = generator.standard_normal((d, 2 * d))
    center = generator.standard_normal(d)
    lower, upper = center - generator.exponential(size=d), center + generator.exponential(size=d)
    kind = generator.integers(4, size=d)
    lower, upper = np.where(kind == 0, -np.inf, lower), np.where(kind == 1, np.inf, upper)
    return TruncatedGaussian(generator.standard_normal(d), cov=root @ root.T / (2 * d), lower=lower, upper=upper)


def particle(target: Normal, seed: int) -> Trajectory:
    """Return a particle with a velocity, at a start of the target."""
    generator = np.random.default_rng([base_seed(), seed, 1])
    y = target.start(generator)
    motion = HMC().start(target, y, target.potential.cells.locate(y), np.random.SeedSequence(0))
    motion.x[:] = y - target.mean
    motion.v[:] = target.covariance_root.T @ generator.standard_normal(target.d)
    return motion


def energy(target: Normal, motion: Trajectory) -> float:
    """Return kinetic and potential energy."""
    P = target.precision
    return float(0.5 * motion.x @ (P @ motion.x) + 0.5 * motion.v @ (P @ motion.v))


def literal_travel(target: Normal, x: Array, v: Array, time: float) -> tuple[Array, Array, int]:
    """Follow a particle as the paper has it: amplitude and phase of each coordinate, times by arc cosines."""
    lower, upper, cov = target.lower - target.mean, target.upper - target.mean, target.covariance
    hits, last = 0, (-1, 0)
    while True:
        first, found = time, (-1, 0)
        for i in range(x.size):
            amplitude, phase = sqrt(x[i] ** 2 + v[i] ** 2), atan2(v[i], x[i])
            for side, wall in ((-1, lower[i]), (1, upper[i])):
                if abs(wall) >= amplitude:
                    continue
                # amplitude cos(t - phase) falls through the lower wall and rises through the upper one
                t = (phase - side * acos(wall / amplitude)) % (2 * pi)
                if (i, side) == last and min(t, 2 * pi - t) < 1e-9:
                    t = 2 * pi  # it is there now
                if t < first:
                    first, found = t, (i, side)
        x, v = x * cos(first) + v * sin(first), v * cos(first) - x * sin(first)
        if found[0] < 0:
            return x, v, hits
        time -= first
        hits += 1
        last = found
        v = v - 2.0 * v[found[0]] / cov[found[0], found[0]] * cov[:, found[0]]


@pytest.mark.parametrize("d", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("time", [0.7, pi / 2, 9.0])
def test_energy_and_reversal(d: int, time: float) -> None:
    """Would catch a reflection that does not keep the energy, and walls that are missed on one of the two ways."""
    for seed in range(3):
        target = random_box(seed, d)
        motion = particle(target, seed)
        x, v, before = motion.x.copy(), motion.v.copy(), energy(target, motion)
        there = travel(motion, time)
        assert energy(target, motion) == pytest.approx(before, rel=1e-10)
        assert (motion.x >= motion.box.lower).all()
        assert (motion.x <= motion.box.upper).all()
        motion.v[:] *= -1.0
        assert travel(motion, time) == there
        np.testing.assert_allclose(motion.x, x, atol=1e-8)
        np.testing.assert_allclose(motion.v, -v, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_literal_twin(d: int) -> None:
    """Would catch a wall met at a wrong time, the wrong wall of two, and one that is met again when it should not."""
    walls = 0
    for seed in range(6):
        target = random_box(100 + seed, d)
        motion = particle(target, seed)
        x, v, hits = literal_travel(target, motion.x.copy(), motion.v.copy(), 4.0)
        assert travel(motion, 4.0) == hits
        np.testing.assert_allclose(motion.x, x, atol=1e-8)
        np.testing.assert_allclose(motion.v, v, atol=1e-8)
        walls += hits
    assert walls > 0


def test_start_on_a_wall() -> None:
    """Would catch a particle that begins on a wall and leaves the box, or never leaves the wall."""
    target = TruncatedGaussian([0.0, 0.0], cov=[[1.0, 0.3], [0.3, 1.0]], lower=[0.0, 0.5], upper=[1.0, np.inf])
    for corner in ([0.0, 0.5], [1.0, 0.5], [1.0, 2.0]):
        for v in ([1.1, 0.7], [-1.1, -0.7], [1.1, -0.7], [-1.1, 0.7]):
            motion = particle(target, 0)
            motion.x[:], motion.v[:] = corner, v
            before = energy(target, motion)
            for _ in range(20):
                with np.errstate(divide="ignore"):  # interpreted, a distance of zero warns
                    travel(motion, 0.3)
                assert (motion.x >= target.lower).all()
                assert (motion.x <= target.upper).all()
            assert energy(target, motion) == pytest.approx(before, rel=1e-10)


def test_far_tail_keeps_its_energy() -> None:
    """Would catch cancellation at walls that are met a thousand times in a trajectory."""
    target = TruncatedGaussian(0.0, cov=np.eye(2), lower=[1000.0, -np.inf], upper=[np.inf, -20.0])
    motion = particle(target, 3)
    before = energy(target, motion)
    assert travel(motion, pi / 2) > 200
    assert energy(target, motion) == pytest.approx(before, rel=1e-10)


def test_no_walls_in_reach() -> None:
    """Would catch a search for walls that does not end where there are none, for more than a period."""
    box = TruncatedGaussian(0.0, cov=np.eye(2), lower=-100.0, upper=100.0)
    for target in (Gaussian([1.0, 2.0], cov=np.eye(2)), box):
        motion = particle(target, 0)
        x, v = motion.x.copy(), motion.v.copy()
        assert travel(motion, 20.0) == 0
        np.testing.assert_allclose(motion.x, x * cos(20.0) + v * sin(20.0), rtol=1e-12)


def test_dense_and_sparse_are_the_same() -> None:
    """Would catch a covariance or a root that is wrong for one way of giving the precision."""
    P = np.eye(40) + 0.4 * (np.eye(40, k=1) + np.eye(40, k=-1))
    dense = TruncatedGaussian(0.5, cov=np.linalg.inv(P), lower=0.0)
    sparse = TruncatedGaussian(0.5, precision=scipy.sparse.csr_array(P), lower=0.0)
    ends = []
    for target in (dense, sparse):
        motion = particle(target, 0)
        travel(motion, pi / 2)
        ends.append(motion.x.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)
    np.testing.assert_allclose(dense.covariance_root.T @ dense.covariance_root, dense.covariance, atol=1e-13)


def marginal(target: TruncatedGaussian, i: int) -> tuple[Array, Array, Array]:
    """Return a grid, the distribution function of x_i on it and E[x_j | x_i] there, for two variables."""
    j, cov = 1 - i, target.covariance
    x = np.linspace(max(target.lower[i], -7.0), min(target.upper[i], 7.0), 20001)
    center = target.mean[j] + cov[i, j] / cov[i, i] * (x - target.mean[i])
    sd = sqrt(cov[j, j] - cov[i, j] ** 2 / cov[i, i])
    a, b = (target.lower[j] - center) / sd, (target.upper[j] - center) / sd
    inside = ndtr(b) - ndtr(a)
    other = center + sd * (np.exp(-0.5 * a**2) - np.exp(-0.5 * b**2)) / (sqrt(2.0 * pi) * inside)
    density = np.exp(-0.5 * (x - target.mean[i]) ** 2 / cov[i, i]) * inside
    law = cumulative_trapezoid(density, x, initial=0.0)
    return x, law / law[-1], other


def test_stationary_start() -> None:
    """Would catch a sampler that does not keep its law: exact starts by rejection, three trajectories each.

    Alpha 1e-6; sees biases of 0.05 in moments averaged over the trajectories, and a distance of 0.08 in the laws of
    where the last one ends and of the velocity that follows.
    """
    n, sweeps = 4000, 3
    generator = np.random.default_rng([base_seed(), 5])
    cov = np.array([[1.0, 0.7], [0.7, 1.0]])
    target = TruncatedGaussian([0.3, -0.2], cov=cov, lower=[0.0, -1.0], upper=[np.inf, 0.8])
    free = generator.multivariate_normal([0.3, -0.2], cov, size=4 * n)
    starts = free[((free >= target.lower) & (free <= target.upper)).all(axis=1)][:n]
    sampler, view = HMC(), target.view()
    motion = sampler.start(target, starts[0], np.arange(2), np.random.SeedSequence([base_seed(), 6]))
    averages, ends, velocities = np.empty((n, 3)), np.empty((n, 2)), np.empty((n, 2))
    for k, start in enumerate(starts):
        recorder = new_path_recorder(2, 2, np.zeros(2), np.zeros(2), new_products(2))
        motion.y[:] = start / target.scale
        motion.v[:] = np.nan
        prepare(motion, view, np.zeros(3, np.int64))
        advance(motion, view, recorder, sampler.travel_time, sweeps)
        sums = np.r_[recorder.open_mean, recorder.products.open[0, 1]]
        averages[k] = sums / (sweeps * sampler.travel_time)
        ends[k], velocities[k] = motion.x + target.mean, motion.v
    laws = [marginal(target, i) for i in range(2)]
    exact = [np.trapezoid(x, law) for x, law, _ in laws]
    product = np.trapezoid(laws[0][0] * laws[0][2], laws[0][1])
    assert len(starts) == n
    assert z_test(averages, [*exact, product], detect=0.05).passed
    for i, (x, law, _) in enumerate(laws):
        assert distribution_test(ends[:, i], partial(np.interp, xp=x, fp=law), detect=0.08).passed
    assert distribution_test(velocities, ndtr, detect=0.08).passed


def test_gaussian_draws_are_independent() -> None:
    """Would catch velocities of the wrong law: after a quarter of a period a draw is the velocity, and all are new.

    Alpha 1e-6, sees a distance of 0.06 in the law of a draw and errors of 0.3 in covariances and in lagged products.
    """
    cov = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]])
    run = bouncy.sample(Gaussian(0.0, cov=cov), "hmc", chains=4, draws=2000, seed=base_seed(), progress=False)
    draws = run.draws.reshape(-1, 3)
    assert distribution_test(draws / np.sqrt(np.diagonal(cov)), ndtr, detect=0.06).passed
    assert z_test(draws[:, :, None] * draws[:, None, :], cov, detect=0.3).passed
    lagged = (run.draws[:, 1:, :, None] * run.draws[:, :-1, None, :]).reshape(-1, 3, 3)
    assert z_test(lagged, 0.0, detect=0.3).passed
    np.testing.assert_allclose(run.log_prob.ravel(), run.target.log_prob(draws), rtol=1e-10)
    assert run.diagnostics["hits"] == 0


def test_hit_rate_of_independent_variables() -> None:
    """Would catch walls that are missed or met twice: |z| < 6 for a rate in closed form, to 3 %."""
    target = TruncatedGaussian([0.0, 1.0, 0.0], cov=np.diag([1.0, 4.0, 0.25]), lower=[0.0, -np.inf, -0.2], upper=2.0)
    run = bouncy.sample(target, "hmc", chains=8, draws=2000, seed=base_seed() + 1, progress=False)
    expected = HMC().rates(target)[0]
    assert expected is not None
    assert abs(run.diagnostics["hit_rate_z"]) < 6
    assert run.diagnostics["hits"] / (8 * 2000 * HMC().travel_time) == pytest.approx(expected, rel=0.03)


def equicorrelated_mean(d: int, rho: float) -> float:
    """Return E[x_i] on the positive orthant: given a common factor f, all x are independent and half-line normal."""
    f = np.linspace(-9.0, 9.0, 4001)
    sd, center = sqrt(1.0 - rho), sqrt(rho) * f
    inside = ndtr(center / sd)
    density = np.exp(-0.5 * f**2)
    single = center * inside + sd * np.exp(-0.5 * (center / sd) ** 2) / sqrt(2.0 * pi)
    return float(np.sum(density * inside ** (d - 1) * single) / np.sum(density * inside**d))


def test_agrees_with_bps_on_an_orthant() -> None:
    """Would catch errors that only many correlated walls bring out.

    Alpha 1e-6, sees errors of 0.06 in means of 1.24 and of 0.15 in the difference of covariances.
    """
    d, rho = 10, 0.5
    target = TruncatedGaussian(0.0, cov=(1 - rho) * np.eye(d) + rho, lower=0.0)
    sample = partial(bouncy.sample, target, chains=40, draws=1200, seed=base_seed() + 2, progress=False)
    hmc, bps = sample("hmc"), sample("bps")
    mean, freedom = equicorrelated_mean(d, rho), min(int(run.diagnostics["batches"]) for run in (hmc, bps)) - 1
    for found, error in ((hmc.mean, hmc.mean_se), (bps.path_mean, bps.path_mean_se)):
        assert z_test(found, mean, error, degrees_of_freedom=freedom, detect=0.06).passed
    difference = hmc.covariance - bps.path_covariance
    error = np.hypot(hmc.covariance_se, bps.path_covariance_se)
    assert z_test(difference, 0.0, error, degrees_of_freedom=freedom, detect=0.15).passed


@pytest.mark.parametrize("turns", [1.0, 2.0])
def test_whole_periods_are_warned_of(turns: float) -> None:
    """Would catch a sampler that can only mirror its state, without a warning."""
    with pytest.warns(NotErgodicWarning, match=f"travel_time={turns - 0.5}"):
        HMC(travel_time=turns * pi)


@pytest.mark.parametrize(
    ("travel_time", "error"), [(0.0, ValueError), (-1.0, ValueError), (np.inf, ValueError), ("1", TypeError)]
)
def test_bad_travel_times(travel_time: Any, error: type[Exception]) -> None:
    """Would catch a trajectory that has no end or no length."""
    with pytest.raises(error, match="travel_time"):
        HMC(travel_time=travel_time)


class Laplace(PiecewiseTarget):
    """A target with a kink, which is no Gaussian."""

    d = 1

    @cached_property
    def potential(self) -> Potential:
        return Potential(np.zeros((1, 1)), np.zeros(1), Cells.alike(1, [-np.inf, 0.0, np.inf], tilt=[-1.0, 1.0]))

    def start(self, generator: np.random.Generator) -> Array:
        return generator.standard_normal(1)


def test_other_targets_are_refused() -> None:
    """Would catch a sampler that moves a target as if it were a Gaussian."""
    with pytest.raises(
        ValueError, match="sampler is 'hmc'; Laplace is continuous and can be sampled by: auto, bps, gibbs"
    ):
        bouncy.sample(Laplace(), "hmc", draws=10, progress=False)
    with pytest.raises(
        TypeError, match="Laplace is continuous: sampler must be one of auto, bps, gibbs, gibbs-random, or a"
    ):
        bouncy.sample(Laplace(), HMC(), draws=10, progress=False)
    assert HMC().rates(Laplace()) == (None, None)
    assert BPS().rates(Laplace()) == (None, None)


def test_endless_trajectories_are_refused() -> None:
    """Would catch a run that hangs because a variable meets its walls millions of times in a trajectory."""
    narrow = TruncatedGaussian([0.0, 0.0], cov=np.eye(2), lower=[-1.0, 0.0], upper=[1.0, 1e-7])
    with pytest.raises(ValueError, match="variable 1 would meet its walls"):
        particle(narrow, 0)
