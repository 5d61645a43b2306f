"""Runs on continuous targets: what they estimate, and what they refuse.

A score beyond 7 comes up with probability 1e-7 under Student's law with 31 degrees of freedom.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bouncy
from bouncy.results.paths import PathRun
from conftest import base_seed

BOX = (-0.5, 1.5)
LARGEST_SCORE = 7.0


@pytest.fixture(scope="module")
def run() -> PathRun:
    """Two independent variables: one in a box, one without walls."""
    target = bouncy.TruncatedGaussian([0.0, 2.0], cov=1.0, lower=[BOX[0], -np.inf], upper=[BOX[1], np.inf])
    return bouncy.sample(target, "bps", chains=8, draws=1500, seed=base_seed(), progress=False)


@pytest.fixture(scope="module")
def laws():
    return stats.truncnorm(*BOX), stats.norm(2.0)


@pytest.fixture(scope="module")
def spiked() -> PathRun:
    """A coefficient that is zero with a probability of about one half."""
    X = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    target = bouncy.SpikeSlab(X, [0.5, -0.2, 0.4, -0.7], inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    return bouncy.sample(target, chains=8, draws=1500, seed=base_seed(), progress=False)


@pytest.mark.parametrize("q", [0.01, 0.05, 0.5, 0.9, 0.99])
def test_quantiles_are_those_of_the_law(run, laws, q):
    """Catches bins that are shifted or lost: errors of 0.4 standard deviations are seen everywhere."""
    value, error = run.quantile(q)
    truth = np.array([law.ppf(q) for law in laws])
    assert (np.abs(value - truth) < LARGEST_SCORE * error).all()
    if 0.05 <= q <= 0.9:
        assert (error < 0.06).all()


@pytest.mark.parametrize("ends", [(-np.inf, 0.3), (0.1, 0.2), (-0.5, 1.5), (0.7, np.inf), (1.0, 1.0)])
def test_probabilities_are_those_of_the_law(run, laws, ends):
    """Catches bins that are counted twice, or an end that is taken for the other."""
    value, error = run.probability(*ends)
    truth = np.array([law.cdf(ends[1]) - law.cdf(ends[0]) for law in laws])
    assert (np.abs(value - truth) <= LARGEST_SCORE * error + 1e-6).all()
    assert (error < 0.02).all()


def test_a_zero_that_has_a_probability_of_its_own(spiked):
    """Catches a point mass that is smeared over a bin, lost between two, or left out of an interval that ends on it."""
    at_zero, error = spiked.probability(0.0, 0.0)
    assert spiked.inclusion == pytest.approx(1.0 - at_zero, abs=1e-12)
    assert 0.2 < at_zero[0] < 0.8
    assert error == pytest.approx(spiked.inclusion_se, rel=1e-6)
    below, positive = spiked.probability(upper=0.0)[0], spiked.probability(lower=0.0)[0]
    assert below + positive - at_zero == pytest.approx(1.0, abs=1e-9)
    share = (spiked.draws == 0.0).mean()
    assert share == pytest.approx(at_zero[0], abs=0.05)
    beneath = spiked.probability(upper=-1e-12)[0][0]
    value, uncertainty = spiked.quantile([beneath + 0.5 * at_zero[0], 0.5 * beneath])
    assert value[0, 0] == 0.0
    assert uncertainty[0, 0] == 0.0
    assert value[1, 0] < 0.0 < uncertainty[1, 0]


def test_intervals_and_shapes(run):
    """Catches estimates of the wrong shape, and intervals that do not hold their estimate."""
    for name, shape in (("path_mean", (2,)), ("path_variance", (2,)), ("path_covariance", (2, 2))):
        low, high = run.interval(name, 0.9)
        assert getattr(run, name).shape == shape
        assert (low < getattr(run, name)).all()
        assert (getattr(run, name) < high).all()
    with pytest.raises(
        ValueError, match="name is 'median'; expected one of: mean, variance, covariance, inclusion, path_mean"
    ):
        run.interval("median")
    assert run.quantile([0.1, 0.2, 0.3])[0].shape == (3, 2)


def test_events_and_rates_are_reported(run):
    """Catches events that are not counted, or rates compared with those of another target."""
    report = run.diagnostics
    assert report["flips"] == 0
    assert min(report["hits"], report["bounces"], report["refreshments"]) > 1000
    assert abs(report["hit_rate_z"]) < 6
    gaussian = bouncy.sample(bouncy.Gaussian(np.zeros(3), cov=1.0), "bps", chains=8, draws=400, seed=1, progress=False)
    assert gaussian.diagnostics["hits"] == 0
    assert np.isnan(gaussian.diagnostics["hit_rate_z"])
    assert abs(gaussian.diagnostics["bounce_rate_z"]) < 6
    assert report["warnings"] == []


def test_summary_names_what_there_is(run, spiked, capsys):
    """Catches a column that is missing, or one for a mass at zero where there is none."""
    print(run.summary())
    plain = capsys.readouterr().out
    assert "bps on TruncatedGaussian(d=2, dense, 2 walls)" in plain
    assert "95%" in plain
    assert "not 0" not in plain
    assert "crossings" in plain
    print(spiked.summary())
    assert "not 0" in capsys.readouterr().out


def test_tree_for_arviz(run):
    """Catches draws under a wrong name or dimension."""
    tree = run.to_arviz()
    assert tree["posterior"]["x"].dims == ("chain", "draw", "site")
    assert set(tree["sample_stats"].data_vars) == {"lp"}


def test_means_alone_need_no_draws(run):
    """Catches estimates that come from draws instead of the path."""
    options = {"chains": 8, "draws": 1500, "seed": base_seed(), "progress": False}
    means = bouncy.sample(run.target, "bps", keep="means", **options)
    assert means.draws.shape == (8, 0, 2)
    assert (means.mean == run.mean).all()
    assert (means.quantile(0.5)[0] == run.quantile(0.5)[0]).all()


@pytest.mark.slow  # these pairs have a loop of their own
def test_pairs_are_recorded_when_asked_for(run):
    """Catches a matrix that is recorded in silence, or missing without a word."""
    with pytest.raises(AttributeError, match="sample again with pairs='all'"):
        _ = bouncy.sample(run.target, pairs="none", draws=20, warmup=5, progress=False).covariance


def test_what_a_target_does_not_have_is_refused(run):
    """Catches a matrix of edges that is recorded without any, and zeros of variables that are never zero."""
    with pytest.raises(ValueError, match="pairs is 'edges', which TruncatedGaussian does not have"):
        bouncy.sample(run.target, pairs="edges", draws=20, warmup=5, progress=False)
    with pytest.raises(AttributeError, match=r"no variable of TruncatedGaussian.* has a probability of being zero"):
        _ = run.inclusion


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sampler": "tempered"},
            ValueError,
            "sampler is 'tempered'; TruncatedGaussian is continuous and can be sampled by",
        ),
        ({"sampler": bouncy.Gibbs()}, TypeError, "sampler must be one of auto, bps, gibbs, gibbs-random, hmc"),
        ({"initial": [2.0, 0.0]}, ValueError, "initial must be a state of non-zero density, got"),
        ({"initial": [0.0]}, ValueError, r"initial must have shape \(\.\.\., 2\)"),
        ({"initial": [[0.0, np.nan]]}, ValueError, "initial must be finite"),
    ],
)
def test_wrong_arguments_are_refused(run, options, error, message):
    """Catches what would otherwise fail in a compiled loop, or not at all."""
    with pytest.raises(error, match=message):
        bouncy.sample(run.target, draws=10, **options)


@pytest.mark.parametrize(
    ("q", "what"), [(0.0, "between 0 and 1"), (1.5, "between 0 and 1"), ([[0.5]], "between 0 and 1")]
)
def test_wrong_quantiles_are_refused(run, q, what):
    """Catches probabilities that are no probabilities."""
    with pytest.raises(ValueError, match=what):
        run.quantile(q)
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        run.probability(1.0, 0.0)


def test_without_warmup_bins_still_hold_everything():
    """Catches a run whose quantiles are lost because nothing was known when it began."""
    run = bouncy.sample(bouncy.Gaussian([5.0], cov=4.0), chains=2, draws=400, warmup=0, seed=0, progress=False)
    assert np.isfinite(run.quantile([0.05, 0.95])[0]).all()
