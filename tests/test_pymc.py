"""`BouncyBinary` keeps the law of a PyMC model while other methods move its other variables, in one process or more.

The model is a mixture with two kinds of binary variables, the labels s, and a continuous one, the mean mu of the second
component: y_i ~ N(mu s_i, 1), mu ~ N(M0, T0^2). Given s it is Gaussian, so that the 64 states of s, summed one by one,
give everything exactly.
"""

import functools
import importlib
import itertools
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bouncy
from conftest import base_seed
from helpers.statistics import z_test

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version once a day
    pm = pytest.importorskip("pymc")

    import cloudpickle
    import pytensor
    from pymc.exceptions import SamplingError
    from pymc.sampling.mcmc import assign_step_methods
    from pymc.step_methods import STEP_METHODS

    from bouncy.pymc import BouncyBinary

Y = np.array([-0.4, 0.9, 2.1, 0.3, 1.4, 2.6])
PRIOR = np.array([0.4, 0.4, 0.4, 0.4, 0.7, 0.7])
M0, T0 = 1.5, 0.8
# C code needs a compiler, which not every machine has, and plain Python is a hundred times slower.
COMPILED = {"mode": "NUMBA"}
QUIET = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}


@pytest.fixture(autouse=True)
def _no_compiler():
    """Have everything that is not given a mode run as Python: it is called a few times only."""
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
        yield


@pytest.fixture(scope="module")
def model():
    with pm.Model() as mixture:
        first = pm.Bernoulli("first", 0.4, shape=(2, 2))
        second = pm.Categorical("second", [0.3, 0.7], shape=2)
        mu = pm.Normal("mu", M0, T0)
        pm.Normal("y", mu * pm.math.concatenate([first.ravel(), second]), 1.0, observed=Y)
    return mixture


def binary_variables(model):
    """Return them in the other order than the model has them."""
    return [model["second"], model["first"]]


def labels(point):
    return np.concatenate([point["first"].ravel(), point["second"]])


def statistics(s, mu):
    """Return what is compared: labels, mean, a pair across the variables, and the mean where a label is on."""
    return np.array([*s, mu, s[0] * s[5], mu * s[3]])


def mean_given(s):
    """Return mean and variance of mu given s."""
    variance = 1.0 / (1.0 / T0**2 + s.sum())
    return variance * (M0 / T0**2 + (Y * s).sum()), variance


def exact():
    """Return the expectations of the statistics, by the sum over all s."""
    weights, values = [], []
    for bits in itertools.product([0, 1], repeat=Y.size):
        s = np.array(bits)
        law = stats.multivariate_normal(M0 * s, np.eye(Y.size) + T0**2 * np.outer(s, s))
        weights.append(np.prod(np.where(s, PRIOR, 1 - PRIOR)) * law.pdf(Y))
        values.append(statistics(s, mean_given(s)[0]))
    return np.average(values, axis=0, weights=weights)


def gibbs_chain(step, model, draws, seed):
    """Alternate a step with draws of mu from its conditional law; return the means of 100 batches of statistics."""
    rng = np.random.default_rng(seed)
    step.rng = rng.spawn(1)[0]
    point = model.initial_point()
    rows = np.empty((draws, Y.size + 3))
    for k in range(draws):
        point, _ = step.step(point)
        mean, variance = mean_given(labels(point))
        point["mu"] = np.array(rng.normal(mean, np.sqrt(variance)))
        rows[k] = statistics(labels(point), point["mu"])
    return rows.reshape(100, -1, rows.shape[1]).mean(axis=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda vars: BouncyBinary(vars, compile_kwargs=COMPILED),
        lambda vars: BouncyBinary(vars, sampler="hmc", compile_kwargs=COMPILED),
        lambda vars: BouncyBinary(vars, sampler=bouncy.Gibbs(), sweeps=2, compile_kwargs=COMPILED),
        lambda vars: pm.BinaryGibbsMetropolis(vars, compile_kwargs=COMPILED),
    ],
    ids=["bps-gaussian", "hmc", "gibbs", "pymc"],
)
def test_law(model, make):
    """Catches a term of the model left out, a value of mu that does not arrive, variables that are mixed up.

    PyMC's own method must pass the same test. False alarms: 1e-6 per sampler; errors of 0.2 are seen.
    """
    with model:
        step = make(binary_variables(model))
    z_test(gibbs_chain(step, model, 5000, base_seed()), exact(), detect=0.2, name="mixture").check()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # PyMC forks, which Python is going to discourage
def test_beside_nuts_in_two_processes(model):
    """Catches a step that does not work in a compound, in another process, or with other numbers there.

    False alarms: 1e-6; errors of 0.5 are seen.
    """
    with model:
        step = BouncyBinary(binary_variables(model), compile_kwargs=COMPILED)
        alone, shared = (
            pm.sample(400, tune=200, chains=2, cores=cores, step=[step], random_seed=base_seed(), **QUIET)
            for cores in (1, 2)
        )
    draws = {name: alone.posterior[name].values for name in ("first", "second", "mu")}
    for name, values in draws.items():
        np.testing.assert_array_equal(shared.posterior[name].values, values)
    points = [{name: values[chain, k] for name, values in draws.items()} for chain in range(2) for k in range(400)]
    rows = np.array([statistics(labels(point), point["mu"]) for point in points])
    z_test(rows.reshape(20, 40, -1).mean(axis=1), exact(), detect=0.5, name="with NUTS").check()
    hits, flips, accept = (alone.sample_stats[name].values for name in ("hits", "flips", "accept"))
    np.testing.assert_allclose(accept[hits > 0], flips[hits > 0] / hits[hits > 0])


def walk(step, point, steps):
    """Return the labels at the points that a step visits, (steps, ...), and the last point."""
    visited = []
    for _ in range(steps):
        point, _ = step.step(point)
        visited.append(np.concatenate([value.ravel() for value in point.values()]))
    return np.array(visited), point


@pytest.mark.parametrize("sampler", ["bps-gaussian", "hmc"])
def test_state_travels(model, sampler):
    """Catches a part of the particle that is lost when a step is sent to another process or PyMC restores its state."""
    with model:
        step = BouncyBinary(binary_variables(model), sampler=sampler, rng=base_seed(), compile_kwargs=COMPILED)
    _, point = walk(step, model.initial_point(), 3)
    state, sent = step.sampling_state, cloudpickle.loads(cloudpickle.dumps(step))
    expected, _ = walk(step, point, 30)
    assert np.unique(expected, axis=0).shape[0] > 3
    np.testing.assert_array_equal(walk(sent, point, 30)[0], expected)
    step.sampling_state = state
    np.testing.assert_array_equal(walk(step, point, 30)[0], expected)


def test_without_other_variables():
    """Catches values that come back to another variable, or in another shape or type, than they were taken from.

    All states but one have probabilities below e^-40.
    """
    with pm.Model() as model:
        wide = pm.Bernoulli("wide", 0.5, shape=(1, 3))
        single = pm.Bernoulli("single", 0.5)
        pm.Potential("pattern", 40.0 * (wide[0, 0] - wide[0, 1] + wide[0, 2] + single))
        step = BouncyBinary([single, wide], rng=base_seed())
    _, point = walk(step, model.initial_point(), 50)
    np.testing.assert_array_equal(point["wide"], [[1, 0, 1]])
    np.testing.assert_array_equal(point["single"], 1)
    assert point["wide"].dtype == point["single"].dtype == np.int64


def test_assigned_by_competence(model):
    """Catches a step that PyMC would not choose when asked to, or that changes PyMC's choice by being imported."""
    _, chosen = assign_step_methods(model, methods=[BouncyBinary, *STEP_METHODS])
    assert {var.name for var in chosen[BouncyBinary]} == {"first", "second"}
    assert [var.name for var in chosen[pm.NUTS]] == ["mu"]
    assert BouncyBinary not in STEP_METHODS


@pytest.fixture(scope="module")
def odd():
    """A model of variables that are not binary, and of one whose log p is not always a number."""
    with pm.Model() as model:
        pm.Normal("slope")
        pm.Binomial("count", 1, 0.5)
        pm.Categorical("colour", [0.2, 0.3, 0.5], shape=4)
        pm.Bernoulli("nothing", 0.5, shape=0)
        pm.Bernoulli("seen", 0.5, observed=1)
        switch = pm.Bernoulli("switch", [0.5, 0.5, 1.0])
        pm.Potential("rule", pm.math.log(switch.sum() - 1.5))
    return model


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("slope", {}, "slope is Normal"),
        ("count", {}, "count is Binomial"),
        ("colour", {}, "colour has 3"),
        ("nothing", {}, "there is none in nothing"),
        ("seen", {}, r"not random variables in the model: \['seen'\]"),
        ("switch", {"sampler": "nuts"}, "sampler is 'nuts'; known names"),
        ("switch", {"sweeps": 0}, "sweeps must be an integer >= 1, got 0"),
    ],
)
def test_refusals(odd, name, options, message):
    """Catches a variable or an option that is taken although it cannot work, or refused without saying which."""
    with odd, pytest.raises(ValueError, match=message):
        BouncyBinary([odd[name]], **options)


@pytest.mark.parametrize(
    ("start", "message"),
    [([1, 1, 1], r"is nan at switch = \[. . .\]: expected"), ([1, 1, 0], r"-inf at switch = \[1 1 0\]: start from")],
)
def test_no_number(odd, start, message):
    """Catches a log p that is no number, which Metropolis would take for a refusal, and a start that is impossible."""
    with odd:
        step = BouncyBinary([odd["switch"]], rng=base_seed())
    with pytest.raises(SamplingError, match=message):
        walk(step, odd.initial_point() | {"switch": np.array(start)}, 1000)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_errors_arrive(odd, error, monkeypatch):
    """Catches an error of the model, or an interrupt, that compiled code swallows or that comes out as another."""

    def fail(_):
        raise error("on the way")

    with odd:
        step = BouncyBinary([odd["switch"]], rng=base_seed())
    monkeypatch.setattr(step._log_prob, "_function", fail)
    with pytest.raises(error, match="on the way"):
        step.step(odd.initial_point())


def test_missing_pymc(monkeypatch):
    """Catches an import error that does not say what to install."""
    monkeypatch.setitem(sys.modules, "pymc", None)
    monkeypatch.delitem(sys.modules, "bouncy.pymc")
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[pymc\]'"):
        importlib.import_module("bouncy.pymc")


def test_gallery(tmp_path):
    """Catches a script of the gallery that fails, or whose numbers are off by five standard errors."""
    script = Path(__file__).parents[1] / "docs" / "gallery" / "plot_pymc.py"
    found = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTENSOR_FLAGS": "cxx="},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    scores = [float(number) for number in re.findall(r"-?\d+\.\d*", found.stdout.split("standard error:")[1])]
    assert len(scores) >= 7
    assert max(map(abs, scores)) < 5.0


@pytest.mark.parametrize(("page", "found"), [("targets.md", "trace"), ("density.md", "posterior")])
def test_pages_with_pymc(page, found, monkeypatch):
    """Catches a page whose PyMC model fails for a newcomer. Data are given to it, and its runs of PyMC are short."""
    short = {"draws": 50, "tune": 50, "chains": 2, "cores": 1, "compile_kwargs": COMPILED, **QUIET}
    monkeypatch.setattr(pm, "sample", functools.partial(pm.sample, **short))
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    (block,) = (block for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL) if "import pymc" in block)
    rng = np.random.default_rng(0)
    times = np.linspace(0.5, 9.5, 10)
    namespace = {
        "bouncy": bouncy,
        "X": rng.normal(size=(10, 3)),
        "y": rng.normal(size=10) + (times > 5),
        "times": times,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyMC says of short runs
        exec(compile(block, page, "exec"), namespace)
    assert namespace[found] is not None
