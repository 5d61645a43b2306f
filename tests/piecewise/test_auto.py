"""The sampler that chooses itself, on continuous targets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import bouncy
from conftest import base_seed

QUICK = {"chains": 2, "draws": 50, "seed": base_seed(), "progress": False}


def chain(d: int, rho: float) -> scipy.sparse.csr_array:
    """Return the sparse precision of an AR(1) process."""
    beside, diagonal = np.full(d - 1, -rho), np.full(d, 1.0 + rho**2)
    return scipy.sparse.csr_array(scipy.sparse.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1]))


def correlated(d: int) -> bouncy.TruncatedGaussian:
    return bouncy.TruncatedGaussian(np.zeros(d), cov=0.05 * np.eye(d) + 0.95, lower=0.0)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: correlated(20), "hmc"),
        (lambda: bouncy.TruncatedGaussian(np.zeros(100), precision=chain(100, 0.3), lower=0.0), "gibbs"),
        (lambda: bouncy.TruncatedGaussian(np.zeros(5), cov=np.eye(5) + 0.2, lower=30.0), "gibbs"),
        (lambda: bouncy.SpikeSlab(np.eye(4), np.ones(4), inclusion=0.5, slab_scale=1.0, noise_scale=1.0), "gibbs"),
    ],
)
def test_the_better_sampler_is_chosen(build, expected):
    """Catches a pilot whose errors or work are not those of the sampler: on these one is ahead by five times."""
    run = bouncy.sample(build(), "auto", **QUICK)
    assert run.sampler.name == expected
    assert run.diagnostics["auto"].startswith(f"{expected}, ")


def smooth() -> bouncy.Density:
    """Return a standard normal of 20 variables."""

    def log_prob(y):
        return -0.5 * (y @ y)

    def gradient(y, out):
        out[:] = -y

    return bouncy.Density(20, log_prob, gradient)


def striped() -> bouncy.Density:
    """Return a normal of two variables that jumps by a factor of exp(2), or back, at every quarter of the first one."""

    def log_prob(y):
        return -0.5 * (y @ y) - 2.0 * (np.floor(4.0 * y[0]) % 2.0)

    def gradient(y, out):
        out[:] = -y

    return bouncy.Density(2, log_prob, gradient, edges={0: np.arange(-20, 21) / 4.0})


@pytest.mark.parametrize(("build", "expected"), [(smooth, "bps"), (striped, "metropolis")])
def test_a_density_is_tried_by_its_own_samplers(build, expected):
    """Catches a pilot that does not try both, or does not count evaluations: on these one is ahead by two times."""
    run = bouncy.sample(build(), "auto", **QUICK)
    assert run.sampler.name == expected
    assert run.diagnostics["auto"].startswith(f"{expected}, by a pilot; squared error times work: bps ")


def test_the_seed_fixes_choice_and_draws():
    """Catches a choice by the clock on the wall, or a pilot that takes random numbers from the run."""
    first, second = (bouncy.sample(correlated(6), "auto", **QUICK) for _ in range(2))
    plain = bouncy.sample(correlated(6), first.sampler, **QUICK)
    assert first.diagnostics["auto"] == second.diagnostics["auto"]
    assert (first.draws == second.draws).all()
    assert (first.draws == plain.draws).all()
