"""A sampler as one block of a Gibbs scheme.

The joint law of a scale and normal variables is known: scale^2 ~ inverse gamma(3, 2) has the mean 1, and x is Student
with 6 degrees of freedom, of variance 1. A score beyond 7 comes up with probability 1e-7 under Student's law with 31
degrees of freedom, one beyond 6.5 with 1e-7 under that with 39.
"""

from __future__ import annotations

import numpy as np
import pytest

import bouncy
from conftest import base_seed


def build(scale):
    return bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2))


def draw_scale(x, parameters, generator):
    assert parameters["scale"] > 0.0
    return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))


def scheme(update=draw_scale, **options):
    return bouncy.Within(build, {"scale": update}, {"scale": 1.0}, **options)


def error_of(trace):
    """Return the standard error of the mean of a trace, (chain, draw), from the means of chains."""
    return trace.mean(axis=1).std(ddof=1) / np.sqrt(trace.shape[0])


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "sweeps"), [("bps", 1), ("bps", 3), ("hmc", 1)])
def test_joint_law_is_kept(sampler, sweeps):
    """Catches a block that goes on with the old target, whose scale never leaves 1."""
    run = bouncy.sample(
        scheme(sweeps=sweeps), sampler, chains=32, draws=100, warmup=30, seed=base_seed(), progress=False
    )
    variance = run.parameters["scale"] ** 2
    assert variance.shape == (32, 100)
    assert abs(variance.mean() - 1.0) < 6.5 * error_of(variance) < 0.5
    assert (np.abs(run.variance - 1.0) < 7 * run.variance_se).all()
    # |x|^2 / scale^2 is chi-square with 2 degrees of freedom; on a target that stays as it was its mean is above 2.5.
    ratio = np.sum(run.draws**2, axis=2) / variance
    assert abs(ratio.mean() - 2.0) < 6.5 * error_of(ratio) < 0.45
    assert (np.abs(run.mean) <= 7 * run.mean_se).all()  # both are 0 where a variable has mean 0 given the others


@pytest.mark.slow
def test_spins_can_be_the_block():
    """Catches a scheme that works for particles alone: s and a field h with p(s, h) = N(h; 0, 1) exp(h s) / norm."""

    def field(x, parameters, generator):
        return generator.normal(x.sum(), 1.0)

    def target(h):
        return bouncy.MRF(np.zeros((2, 2)), -h * np.ones(2))

    run = bouncy.sample(
        bouncy.Within(target, {"h": field}, {"h": 0.0}), "gibbs", chains=8, draws=600, seed=base_seed(), progress=False
    )
    # Summing out h: p(s) is proportional to exp((s_1 + s_2)^2 / 2).
    truth = (np.exp(2.0) - 1.0) / (np.exp(2.0) + 1.0)
    assert abs(run.pair_mean[0, 1] - truth) < 7 * run.pair_mean_se[0, 1] + 1e-12
    assert run.pair_mean_se[0, 1] < 0.03
    assert np.mean(run.parameters["h"] ** 2) == pytest.approx(1.0 + 2.0 + 2.0 * truth, rel=0.15)


@pytest.mark.parametrize("sampler", ["bps", "hmc"])
def test_bytes_do_not_depend_on_how_a_run_is_cut(sampler):
    """Catches parameters, generators or targets that are not part of the state of a chain."""
    options = {"chains": 2, "warmup": 11, "seed": 3, "progress": False}
    whole = bouncy.sample(scheme(sweeps=2), sampler, draws=50, threads=2, **options)
    parts = bouncy.sample(scheme(sweeps=2), sampler, draws=21, threads=1, **options).extend(29)
    assert (whole.draws == parts.draws).all()
    assert (whole.parameters["scale"] == parts.parameters["scale"]).all()
    assert (whole.mean == parts.mean).all()


def test_a_run_that_fails_while_it_is_extended_stays_as_it_was():
    """Catches a chain that is half moved when an update raises."""
    broken = []

    def update(x, parameters, generator):
        scale = draw_scale(x, parameters, generator)
        if broken:
            raise RuntimeError("no luck")
        return scale

    run = bouncy.sample(scheme(update), chains=2, draws=20, warmup=5, seed=0, progress=False)
    before, draws = run.mean.copy(), run.draws.copy()
    broken.append(True)
    with pytest.raises(RuntimeError, match="no luck") as caught:
        run.extend(10)
    assert (
        caught.value.__notes__ == ["This was the update of 'scale' in chain 0."]
        or "chain 1" in caught.value.__notes__[0]
    )
    broken.clear()
    assert (run.mean == before).all()
    whole = bouncy.sample(scheme(), chains=2, draws=30, warmup=5, seed=0, progress=False)
    assert (run.extend(10).draws == whole.draws).all()
    assert (draws == whole.draws[:, :20]).all()


def test_parameters_go_to_arviz():
    """Catches parameters that are left behind, and arrays of them without names of dimensions."""

    def update(x, parameters, generator):
        return np.abs(x) + 0.5

    def target(scales):
        return bouncy.Gaussian([0.0, 0.0], cov=np.diag(scales**2))

    within = bouncy.Within(target, {"scales": update}, {"scales": [1.0, 2.0]})
    run = bouncy.sample(within, chains=2, draws=20, warmup=5, seed=0, progress=False)
    assert run.parameters["scales"].shape == (2, 20, 2)
    assert run.to_arviz()["posterior"]["scales"].dims == ("chain", "draw", "scales_dim_0")
    assert repr(run).startswith("<Run of hmc on Gaussian(d=2, dense) within scales")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"build": 3}, TypeError, "build must be a function that returns a target, got 3"),
        ({"build": lambda scale: scale}, TypeError, "build must return a bouncy target, got float"),
        ({"updates": {}}, TypeError, "updates must map names of parameters to functions"),
        (
            {"updates": {"scale": 1.0}},
            TypeError,
            r"updates\['scale'\] must be a function of \(x, parameters, generator\)",
        ),
        ({"initial": {}}, ValueError, "initial has no value for scale, which updates change"),
        ({"initial": {"scale": np.nan}}, ValueError, r"initial\['scale'\] must be finite"),
        ({"sweeps": 0}, ValueError, "sweeps must be an integer >= 1"),
    ],
)
def test_wrong_schemes_are_refused(change, error, message):
    """Catches a scheme that is noticed to be wrong only in the middle of a run."""
    arguments = {"build": build, "updates": {"scale": draw_scale}, "initial": {"scale": 1.0}, **change}
    with pytest.raises(error, match=message):
        bouncy.Within(**arguments)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda x, parameters, generator: np.nan, "must be finite"),
        (lambda x, parameters, generator: [1.0, 2.0], r"returned an array of shape \(2,\); expected \(\)"),
    ],
)
def test_updates_that_return_nonsense_are_refused(update, message):
    """Catches a value that would poison everything after it."""
    with pytest.raises(ValueError, match=message):
        bouncy.sample(scheme(update), chains=1, draws=5, warmup=2, seed=0, progress=False)


def test_cells_must_stay():
    """Catches a particle that goes on in cells which have moved under it."""

    def moving(end):
        return bouncy.TruncatedGaussian([0.0], cov=1.0, lower=end)

    within = bouncy.Within(moving, {"end": lambda x, parameters, generator: -2.0}, {"end": -1.0})
    with pytest.raises(ValueError, match="the lower of the target's cells has changed between two visits"):
        bouncy.sample(within, chains=1, draws=5, warmup=2, seed=0, progress=False)
