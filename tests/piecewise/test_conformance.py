"""Every continuous target with every sampler, found in their folders: a new file is tested without editing tests.

Means, variances, covariances and probabilities of cells are compared with quadrature. A score beyond 7 comes up with
probability 4e-7 per number under Student's law with 23 degrees of freedom, and there are about 300 of them.
"""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

import bouncy
from bouncy.piecewise.targets import examples
from bouncy.results.path_moments import of_path, recorded
from bouncy.results.paths import PathRun
from bouncy.samplers import registry
from bouncy.samplers.contract import PathSampler
from conftest import base_seed
from piecewise.quadrature import Exact, integrate

CHAINS = 8
DRAWS = 1000
LARGEST_SCORE = 7.0


@cache
def target(name: str):
    return examples()[name]()


@cache
def exact(name: str) -> Exact:
    return integrate(target(name))


@cache
def run_of(name: str, sampler: str) -> PathRun:
    return bouncy.sample(target(name), sampler, chains=CHAINS, draws=DRAWS, seed=base_seed(), progress=False)


def _pairs() -> list[tuple[str, str]]:
    kinds = [kind for kind in registry(PathSampler) if kind.name != "auto"]  # which uses the others
    return [(name, kind.name) for name in examples() for kind in kinds if kind.sampler.accepts(target(name))]


PAIRS = _pairs()


def test_every_target_has_a_sampler():
    """Catches a target that is left out because its sampler refuses it."""
    assert {name for name, _ in PAIRS} == set(examples())
    assert ("gaussian", "hmc") in PAIRS
    assert ("spike-slab", "hmc") not in PAIRS


def score(estimate, error, truth):
    """Return the largest score; what must be exact has no error."""
    estimate, error, truth = np.broadcast_arrays(estimate, error, truth)
    off = np.abs(estimate - truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.max(np.where(off < 1e-6, 0.0, off / error))


@pytest.mark.parametrize(("name", "sampler"), PAIRS)
def test_moments_are_those_of_quadrature(name, sampler):
    """Catches a wrong potential, jump or integral: the means are known to a tenth of a standard deviation or better."""
    run, truth = run_of(name, sampler), exact(name)
    spread = np.sqrt(np.diagonal(truth.covariance))
    assert (run.mean_se < 0.1 * spread).all()
    assert score(run.mean, run.mean_se, truth.mean) < LARGEST_SCORE
    assert score(run.variance, run.variance_se, np.diagonal(truth.covariance)) < LARGEST_SCORE
    assert score(run.covariance, run.covariance_se, truth.covariance) < LARGEST_SCORE
    cells, error = (estimate(recorded("cell")) for estimate in (run._best.average, run._best.error))
    assert score(cells, error, truth.cell) < LARGEST_SCORE
    assert score(run.path_mean, run.path_mean_se, truth.mean) < LARGEST_SCORE
    assert score(run.path_covariance, run.path_covariance_se, truth.covariance) < LARGEST_SCORE
    np.testing.assert_array_equal(np.diagonal(run.covariance), run.variance)
    np.testing.assert_array_equal(np.diagonal(run.covariance_se), run.variance_se)
    assert run.log_prob.mean() == pytest.approx(truth.log_prob, abs=0.5)


@pytest.mark.parametrize(("name", "sampler"), PAIRS)
def test_expectations_are_recorded_where_laws_are_known(name, sampler):
    """Catches moments of the path where those given the others have smaller errors, and controls that are lost."""
    run = run_of(name, sampler)
    assert run.has_expectations == isinstance(target(name), bouncy.PiecewiseTarget)
    if run.has_expectations and run.target.quadratic_part() is not None:
        assert "couplings.data" in run._data.constants


@pytest.mark.parametrize(("name", "sampler"), PAIRS)
def test_times_in_cells_and_bins_add_up(name, sampler):
    """Catches pieces of a path that are lost or counted twice: each coordinate is in one cell, and in a bin or none."""
    run = run_of(name, sampler)
    view, d = run.target.view(), run.target.d
    assert np.add.reduceat(run._best.average(recorded("cell")), view.first[:-1]) == pytest.approx(np.ones(d), rel=1e-9)
    cells = run._best.average(of_path("cell"))
    assert np.add.reduceat(cells, view.first[:-1]) == pytest.approx(np.ones(d), rel=1e-9)
    whole, error = run.probability()
    assert whole == pytest.approx(np.ones(d), rel=1e-9)
    assert (error < 1e-9).all()
    moving = np.add.reduceat(np.where(view.slope != 0.0, cells, 0.0), view.first[:-1])
    bins = run._best.average(recorded("bin")).reshape(d, -1).sum(axis=1)
    # Paths are looked at some times in a sweep, when values that rest at times may happen to rest more or less often.
    looked_at = (sampler == "bps") & (np.minimum.reduceat(np.abs(view.slope), view.first[:-1]) == 0.0) & (moving > 0.0)
    assert (np.abs(bins - moving) <= np.where(looked_at, 0.01, 1e-9 * moving)).all()


@pytest.mark.parametrize(("name", "sampler"), PAIRS)
def test_draws_have_finite_density_and_can_be_started_from(name, sampler):
    """Catches values that are not those of the coordinates, and densities that disagree between loop and target."""
    run = run_of(name, sampler)
    last = run.draws[:, -1]
    assert np.isfinite(run.target.log_prob(last)).all()
    again = bouncy.sample(run.target, sampler, chains=CHAINS, draws=5, warmup=0, initial=last, seed=1, progress=False)
    assert again.draws.shape == (CHAINS, 5, run.target.d)


@pytest.mark.parametrize(("name", "sampler"), PAIRS)
def test_results_are_the_same_bytes_for_any_way_to_run(name, sampler):
    """Catches state that is lost between calls, shared between chains, or left out of a copy."""
    options = {"chains": 2, "warmup": 20, "seed": 5, "progress": False}
    whole = bouncy.sample(target(name), sampler, draws=60, threads=2, **options)
    parts = bouncy.sample(target(name), sampler, draws=25, threads=1, **options)
    pickled = pickle.loads(pickle.dumps(parts))
    for run in (parts.extend(35), parts.extend(20).extend(15), pickled.extend(35)):
        assert (run.draws == whole.draws).all()
        assert (run.log_prob == whole.log_prob).all()
        assert (run.mean == whole.mean).all()
        assert (run.covariance == whole.covariance).all()
        assert (run.quantile(0.5)[0] == whole.quantile(0.5)[0]).all()
