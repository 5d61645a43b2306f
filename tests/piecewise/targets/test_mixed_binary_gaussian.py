"""Spins with Gaussian variables: the law of the spins against enumeration, that of x given s against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy import integrate

import bouncy
from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
from conftest import base_seed
from helpers.statistics import z_test

M = np.array([[0.0, 0.4, -0.2], [0.4, 0.0, 0.5], [-0.2, 0.5, 0.0]])
r = np.array([0.3, -0.2, 0.1])
P = np.array([[1.0, 0.3], [0.3, 2.0]])
h = np.array([0.2, -0.5])
C = np.array([[0.5, -0.4], [0.0, 0.6], [0.3, 0.0]])
STATES = bouncy.states(3)


def joint(**options) -> MixedBinaryGaussian:
    return MixedBinaryGaussian(M, r, P, h, C, **options)


@pytest.mark.parametrize("augmentation", ["gaussian", "exponential"])
def test_log_prob_is_the_formula(augmentation):
    """Catches a block of the coupling with the wrong sign, place or factor."""
    target, rng = joint(augmentation=augmentation), np.random.default_rng(base_seed())
    values = []
    for s in STATES:
        x = rng.standard_normal(2)
        formula = -s @ r - s @ M @ s / 2 + s @ C @ x + h @ x - x @ P @ x / 2
        values.append(target.log_prob([*s, *x]) - formula)
    np.testing.assert_allclose(values, 0.0, atol=1e-12)
    assert target.log_prob([1, 1, 0.5, 0.0, 0.0]) == -np.inf


def test_marginal_is_the_integral_over_x():
    """Catches a lost factor of the Gaussian integral, against quadrature, or a term of the marginal, state by state."""
    one = MixedBinaryGaussian([[0.0]], 0.3, [[2.0]], 0.7, [[0.5]])
    for s in (-1, 1):
        total, _ = integrate.quad(lambda x, s=s: np.exp(one.log_prob([s, x])), -12, 12, epsabs=1e-12)
        assert one.marginal().log_prob([s]) == pytest.approx(np.log(total), abs=1e-9)
    target = joint()
    field = target.marginal()
    for s in STATES:
        # The joint law at the mean of x given s is the marginal times the height of the Gaussian.
        mean = np.linalg.solve(P, h + C.T @ s)
        height = 0.5 * np.linalg.slogdet(P / (2 * np.pi))[1]
        assert field.log_prob(s) == pytest.approx(target.log_prob([*s, *mean]) - height, abs=1e-12)


def test_sparse_blocks_give_the_same_target():
    """Catches a block that is dropped or transposed when some are sparse."""
    dense = joint()
    for blocks in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]:
        parts = [
            scipy.sparse.csr_array(part) if sparse else part for part, sparse in zip((M, P, C), blocks, strict=True)
        ]
        target = MixedBinaryGaussian(parts[0], r, parts[1], h, parts[2])
        assert scipy.sparse.issparse(target.potential.coupling)
        np.testing.assert_allclose(target.potential.coupling.toarray(), dense.potential.coupling)
        np.testing.assert_allclose(target.marginal().M, dense.marginal().M, atol=1e-12)
        np.testing.assert_allclose(target.marginal().r, dense.marginal().r, atol=1e-12)
        assert target.marginal().offset == pytest.approx(dense.marginal().offset)


@pytest.mark.parametrize("augmentation", ["gaussian", "exponential"])
def test_sampled_spins_have_the_law_of_the_marginal(augmentation):
    """Catches a wrong law of s, or of x given s, through the front door; an error of 0.4 is seen."""
    target = joint(augmentation=augmentation)
    run = bouncy.sample(target, "bps", chains=4, draws=8000, seed=base_seed(), progress=False)
    e = bouncy.exact(target.marginal())
    s = STATES.astype(float)
    mean = e.probabilities @ np.linalg.solve(P, (h + s @ C).T).T
    expected = np.concatenate([e.mean, mean])
    degrees = run.diagnostics["batches"] - 4
    z_test(run.path_mean, expected, run.path_mean_se, degrees_of_freedom=degrees, detect=0.4, name="means").check()
    assert set(np.unique(run.draws[..., :3])) == {-1.0, 1.0}


def test_x_given_s_is_gaussian():
    """Catches a wrong conditional mean or precision: along x the potential is that of N(P^-1 (h + C's), P^-1)."""
    target = joint()
    for s in STATES:
        y = np.array([*s.astype(float), 0.3, -0.7])
        gradient = target.potential.gradient(y)[3:]
        np.testing.assert_allclose(gradient, P @ (y[3:] - np.linalg.solve(P, h + C.T @ s)), atol=1e-12)


def test_spins_alone_and_gaussians_alone():
    """Catches an empty block that breaks the target, or changes its law."""
    spins = MixedBinaryGaussian(M, r)
    assert (spins.spins, spins.gaussians, spins.d) == (3, 0, 3)
    field = bouncy.MRF(M, r)
    np.testing.assert_allclose(spins.log_prob(STATES), field.log_prob(STATES))
    np.testing.assert_array_equal(spins.marginal().M, M)
    assert spins.marginal().offset == 0.0
    gaussians = MixedBinaryGaussian(np.zeros((0, 0)), precision=P, linear=h)
    assert gaussians.log_prob([1.0, 2.0]) == pytest.approx(h @ [1, 2] - 0.5 * np.array([1, 2]) @ P @ [1, 2])
    assert gaussians.rates == (0.0, None)
    assert gaussians.start(np.random.default_rng(0)).shape == (2,)
    with pytest.raises(ValueError, match="marginal needs spins"):
        gaussians.marginal()
    with pytest.raises(ValueError, match="at least one variable"):
        MixedBinaryGaussian(np.zeros((0, 0)))


def test_truncated():
    """Catches a box on the wrong variable, a start outside of it, or a marginal that forgets it."""
    target = joint(lower=[0.5, -np.inf], upper=[0.6, 1.0])
    assert target.is_truncated
    assert target.rates == (None, None)
    for label in range(20):
        y = target.start(np.random.default_rng(label))
        assert np.isfinite(target.potential.energy(y))
    assert target.log_prob([1, 1, 1, 0.7, 0.0]) == -np.inf
    assert np.isfinite(target.log_prob([1, 1, 1, 0.55, 0.0]))
    with pytest.raises(ValueError, match="not truncated"):
        target.marginal()


def test_labels():
    """Catches names that are lost on the way to the marginal."""
    target = MixedBinaryGaussian(M, r, P, labels=["a", "b", "c", "x", "y"])
    assert target.marginal().labels == ("a", "b", "c")
    assert joint().labels == (0, 1, 2, 3, 4)
    assert repr(joint(lower=0.0)) == "MixedBinaryGaussian(spins=3, gaussians=2, truncated)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"M": np.triu(M)}, ValueError, r"M must be symmetric, got M\[0, 1\] = 0.4"),
        ({"precision": [[1.0, 0.5], [0.0, 1.0]]}, ValueError, r"must be symmetric, got precision\[0, 1\] = 0.5"),
        ({"precision": [[1.0, 2.0], [2.0, 1.0]]}, ValueError, "precision must be positive definite"),
        ({"precision": scipy.sparse.csr_array([[1.0, 2.0], [2.0, 1.0]])}, ValueError, "must be positive definite"),
        ({"precision": scipy.sparse.csr_array([[0.0, 0.0], [0.0, 1.0]])}, ValueError, "must be positive definite"),
        ({"precision": [1.0, 2.0]}, ValueError, r"square matrix of shape \(m, m\), got shape \(2,\)"),
        ({"precision": scipy.sparse.csr_array([[np.nan, 0.0], [0.0, 1.0]])}, ValueError, r"precision\[0, 0\] = nan"),
        ({"linear": [1.0]}, ValueError, r"linear must be a scalar or have shape \(2,\), got shape \(1,\)"),
        ({"coupling": np.ones((2, 3))}, ValueError, r"shape \(3, 2\), spins by Gaussians, got shape \(2, 3\)"),
        ({"coupling": [["a"]]}, TypeError, "coupling must hold real numbers"),
        ({"lower": [0.0, 1.0], "upper": [1.0, 1.0]}, ValueError, r"got lower\[1\] = 1.0 and upper\[1\] = 1.0"),
        ({"upper": np.nan}, ValueError, "the box is empty"),
        ({"lower": [0.0, 0.0, 0.0]}, ValueError, r"lower must be a scalar or have shape \(2,\), got shape \(3,\)"),
        ({"augmentation": "cauchy"}, ValueError, "augmentation must be one of gaussian, exponential, got 'cauchy'"),
        ({"labels": ["a"]}, ValueError, "labels must name each of the 5 sites"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, error, message):
    """Catches a wrong argument that is taken as it is, or an error that does not name it."""
    with pytest.raises(error, match=message):
        MixedBinaryGaussian(**{"M": M, "r": r, "precision": P, "linear": h, "coupling": C, **arguments})
