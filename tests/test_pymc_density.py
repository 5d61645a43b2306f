"""`Density.from_pymc` has the density of the model in its value variables, and `to_model` takes draws back."""

import itertools
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from scipy import stats

import bouncy
from conftest import base_seed
from helpers.statistics import z_test

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version once a day
    pm = pytest.importorskip("pymc")

    import pytensor
    import pytensor.tensor as pt
    from pytensor.graph.op import Op

    from bouncy.pymc import to_model

Y = np.array([-0.4, 0.9, 2.1, 0.3, 1.4, 2.6])


@pytest.fixture(autouse=True)
def _no_compiler():
    """Have everything that is not given a mode run as Python: it is called a few times only."""
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
        yield


@pytest.fixture(scope="module")
def rich():
    """A model with most of what a model can have."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        x = pm.Data("x", np.linspace(-1.0, 1.0, Y.size))
        mu = pm.Normal("mu", 0.0, 2.0)
        sigma = pm.HalfNormal("sigma", 1.5)
        beta = pm.Laplace("beta", 0.0, 1.0, dims="group")
        Z = pm.Uniform("Z", -1.0, [[1.0], [2.0]], shape=(2, 2))
        w = pm.Dirichlet("w", np.ones(3))
        pm.Deterministic("scaled", sigma * beta, dims="group")
        pm.Potential("tie", -0.5 * (beta.sum() - Z.sum() * mu) ** 2)
        pm.StudentT("y", nu=4.0, mu=mu + x * pm.math.dot(w, beta), sigma=sigma, observed=Y)
    return model


@pytest.fixture(scope="module")
def density(rich):
    return bouncy.Density.from_pymc(rich, edges={"beta": [0.0]})


def as_point(model, y):
    """Return y as a dictionary of value variables."""
    point, start = {}, 0
    for name, value in model.initial_point().items():
        point[name] = y[start : start + value.size].reshape(value.shape)
        start += value.size
    return point


def test_labels(density):
    """Catches entries that are named after others."""
    beta = [f"beta[{k}]" for k in range(3)]
    Z = [f"Z_interval__[{i}, {j}]" for i, j in itertools.product(range(2), repeat=2)]
    assert list(density.labels) == ["mu", "sigma_log__", *beta, *Z, "w_simplex__[0]", "w_simplex__[1]"]


def test_values_and_gradients(rich, density):
    """Catches a term, a Jacobian or a variable that is missing or mixed up."""
    log_prob, gradient = rich.compile_logp(), rich.compile_dlogp()
    rows = np.random.default_rng(base_seed()).normal(size=(10, density.d))
    points = [as_point(rich, row) for row in rows]
    np.testing.assert_allclose(density.log_prob(rows), [log_prob(point) for point in points], rtol=1e-12)
    np.testing.assert_allclose(density.gradient(rows), [gradient(point) for point in points], rtol=1e-10, atol=1e-12)
    bouncy.testing.check_target(density, states=3)


def test_posterior():
    """Catches a wrong law: mean, second moment and covariance of a conjugate regression.

    False alarms: 1e-6; errors of 0.1 are seen.
    """
    X = np.stack([np.ones(Y.size), np.linspace(-1.0, 1.0, Y.size)], axis=1)
    with pm.Model() as model:
        b = pm.Normal("b", 0.5, 2.0, shape=2)
        pm.Normal("y", pm.math.dot(X, b), 1.0, observed=Y)
    precision = X.T @ X + np.eye(2) / 4.0
    mean = np.linalg.solve(precision, X.T @ Y + 0.5 / 4.0)
    run = bouncy.sample(
        bouncy.Density.from_pymc(model, convex=True), draws=4000, chains=4, seed=base_seed(), progress=False
    )
    draws = to_model(run, model)["posterior"]["b"].values
    np.testing.assert_array_equal(draws, run.draws)
    products = np.einsum("cdi,cdj->cdij", draws - mean, draws - mean).reshape(4, 4000, 4)
    rows = np.concatenate([draws, products], axis=2).reshape(80, 200, 6).mean(axis=1)
    exact = np.concatenate([mean, np.linalg.inv(precision).ravel()])
    z_test(rows, exact, detect=0.1, name="regression").check()
    z_test(run.mean, mean, run.mean_se, detect=0.1, name="means with their errors").check()


TIMES = np.arange(1.0, 6.0)
JUMPS = np.array([0.2, -0.3, 1.4, 2.3, 1.6])


@pytest.mark.parametrize("transform", ["interval", None])
def test_jumps(transform):
    """Catches edges that are not where the density of the value variable jumps, and draws that are taken back wrong.

    A level of 0 becomes one of 2 at time tau in [0.5, 7]: given the data, tau is uniform between times. Without a
    transform, the ends of the support are edges. False alarms: 1e-6; errors of 0.05 in probabilities are seen.
    """
    without = {} if transform else {"default_transform": None}
    with pm.Model() as model:
        tau = pm.Uniform("tau", 0.5, 7.0, **without)
        pm.Deterministic("half", tau / 2.0)
        pm.Normal("y", pm.math.where(tau > TIMES, 0.0, 2.0), 1.0, observed=JUMPS)
    target = bouncy.Density.from_pymc(model, edges={"tau": TIMES})
    assert target.labels == ("tau_interval__" if transform else "tau",)
    run = bouncy.sample(target, draws=20_000, chains=2, seed=base_seed(), progress=False)
    posterior = to_model(run, model)["posterior"]
    tau = posterior["tau"].values
    np.testing.assert_allclose(posterior["half"].values, tau / 2.0)
    ends = np.array([0.5, *TIMES, 7.0])
    likelihood = [np.exp(stats.norm.logpdf(JUMPS, np.where(t > TIMES, 0.0, 2.0)).sum()) for t in ends[1:] - 0.25]
    weights = likelihood * np.diff(ends)
    exact = [*(weights / weights.sum()), np.average((ends[1:] + ends[:-1]) / 2.0, weights=weights)]
    seen = np.stack([*((tau > a) & (tau < b) for a, b in itertools.pairwise(ends)), tau], axis=-1)
    z_test(seen.reshape(100, 400, -1).mean(axis=1), exact, detect=[*[0.05] * 6, 0.2], name="change point").check()


def test_edges():
    """Catches ends of supports that are lost, and places that are not translated."""
    with pm.Model() as model:
        pm.HalfNormal("raw", 1.0, shape=2, default_transform=None)
        pm.Beta("share", 2.0, 2.0, default_transform=None)
        pm.TruncatedNormal("low", 0.0, 1.0, lower=-1.0, default_transform=None)
        pm.VonMises("angle", 0.0, 1.0, default_transform=None)
        pm.Gamma("rate", 2.0, 1.0)
        pm.Uniform("shift", 0.0, [1.0, 4.0], shape=2)
        pm.Normal("free")
    edges = {"raw": [0.5], "raw[1]": [2.0], "rate": [-1.0, 3.0], "rate_log__": [7.0], "shift": [0.5, 2.0]}
    target = bouncy.Density.from_pymc(model, edges=edges)
    first = target.cells.first
    inner = [target.cells.upper[a : b - 1].tolist() for a, b in itertools.pairwise(first)]
    found = dict(zip(target.labels, inner, strict=True))
    assert found == {
        "raw[0]": [0.0, 0.5],
        "raw[1]": [0.0, 0.5, 2.0],
        "share": [0.0, 1.0],
        "low": [-1.0],
        "angle": [-np.pi, np.pi],
        "rate_log__": pytest.approx([np.log(3.0), 7.0]),
        "shift_interval__[0]": pytest.approx([0.0], abs=1e-12),
        "shift_interval__[1]": pytest.approx([np.log(0.5 / 3.5), 0.0], abs=1e-12),
        "free": [],
    }


@pytest.fixture(scope="module")
def small():
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 1.0, 2.0), pm.HalfNormal("sigma", 2.0)
        pm.Normal("y", mu, sigma, observed=Y)
    return model


def test_initial(small):
    """Catches chains that start elsewhere than asked for."""

    def middle(**options):
        return bouncy.Density.from_pymc(small, **options)._middle.tolist()

    assert middle() == [1.0, np.log(2.0)]
    assert middle(initial={"sigma": 3.0}) == pytest.approx([1.0, np.log(3.0)])
    assert middle(initial=[-1.0, 0.5]) == [-1.0, 0.5]


def test_same_bytes_in_other_processes(small):
    """Catches a density that does not arrive in another process, or is another one there."""
    options = {"draws": 50, "warmup": 20, "chains": 2, "seed": base_seed(), "progress": False}
    targets = [bouncy.Density.from_pymc(small) for _ in range(2)]
    runs = [bouncy.sample(target, **options) for target in targets]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        runs.append(bouncy.sample(targets[0], executor=executor, **options))
    assert len({run.draws.tobytes() for run in runs}) == 1
    assert len({run.fingerprint for run in runs}) == 1


def test_back_to_the_model(rich, density):
    """Catches variables in unconstrained space, names of dimensions that are lost, and draws that are mixed up."""
    run = bouncy.sample(density, draws=20, warmup=10, chains=2, seed=base_seed(), progress=False)
    tree = to_model(run, rich)
    posterior = tree["posterior"]
    assert set(posterior.data_vars) == {"mu", "sigma", "beta", "Z", "w", "scaled"}
    assert posterior["beta"].dims == posterior["scaled"].dims == ("chain", "draw", "group")
    assert posterior["group"].values.tolist() == ["a", "b", "c"]
    y = {label: run.draws[:, :, k] for k, label in enumerate(density.labels)}
    np.testing.assert_allclose(posterior["sigma"].values, np.exp(y["sigma_log__"]))
    np.testing.assert_allclose(posterior["Z"].values[..., 1, 0], -1.0 + 3.0 / (1.0 + np.exp(-y["Z_interval__[1, 0]"])))
    np.testing.assert_allclose(posterior["w"].values.sum(axis=-1), 1.0)
    np.testing.assert_allclose(posterior["scaled"].values[..., 2], np.exp(y["sigma_log__"]) * y["beta[2]"])
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, run.log_prob)


def test_no_draws_of_the_model(rich, density):
    """Catches a run that is read as one of another model, or as one without draws."""
    options = {"draws": 10, "warmup": 10, "chains": 1, "seed": base_seed(), "progress": False}
    with pm.Model() as other:
        pm.Normal("mu")
    with pytest.raises(ValueError, match=r"the run is of mu, sigma_log__, .* but the model has mu$"):
        to_model(bouncy.sample(density, **options), other)
    with pytest.raises(ValueError, match="kept no draws"):
        to_model(bouncy.sample(density, keep="means", **options), rich)


def test_data_are_copied():
    """Catches a density that changes with the data of its model, and one that does not take them."""
    with pm.Model() as model:
        y, spread = pm.Data("y", Y), pytensor.shared(2.0)
        pm.Normal("seen", pm.Normal("mu"), spread, observed=y)
    old = bouncy.Density.from_pymc(model)
    before = old.log_prob([0.3])
    spread.set_value(1.0)
    with model:
        pm.set_data({"y": Y[:3] + 1.0})
    assert old.log_prob([0.3]) == before
    new = bouncy.Density.from_pymc(model).log_prob([0.3])
    expected = stats.norm.logpdf(0.3) + stats.norm.logpdf(Y[:3] + 1.0, 0.3).sum()
    np.testing.assert_allclose(new, expected)


class BlackBox(Op):
    """An operation that only Python knows, without a gradient."""

    itypes, otypes = [pt.dvector], [pt.dscalar]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.array(-0.5 * ((inputs[0] - np.array([1.0, -1.0])) ** 2).sum())


@pytest.mark.filterwarnings("ignore::bouncy.SlowTargetWarning")
def test_black_box():
    """Catches an operation without gradient and machine code that is called wrongly, or by two threads at once.

    False alarms: 1e-6; errors of 0.5 are seen.
    """
    with pm.Model() as model:
        pm.Potential("likelihood", BlackBox()(pm.Normal("x", shape=2)))
    with pytest.warns(bouncy.SlowTargetWarning, match="cannot compile it with numba: Numba will use object mode"):
        target = bouncy.Density.from_pymc(model)
    assert target.roles == {"log_prob"}
    runs = [bouncy.sample(target, draws=800, chains=2, seed=base_seed(), progress=False) for _ in range(2)]
    assert runs[0].draws.tobytes() == runs[1].draws.tobytes()
    z_test(runs[0].mean, [0.5, -0.5], runs[0].mean_se, detect=0.5, name="black box").check()


def test_no_number():
    """Catches overflow far out that stops a chain, and an infinite density that does not."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("far", pt.switch(x < -5.0, np.nan, pt.switch(x > 1.0, np.inf, 0.0)))
    target = bouncy.Density.from_pymc(model)
    assert target.log_prob([-6.0]) == -np.inf
    with pytest.raises(bouncy.TargetError, match=r"log_prob returned inf .* at y = \[2.0\]"):
        target.log_prob([2.0])


def _discrete():
    pm.Normal("mu")
    pm.Poisson("count", 2.0)
    pm.Bernoulli("switch", 0.5)


def _angle():
    pm.VonMises("angle", 0.0, 1.0)


def _surface():
    pm.Dirichlet("w", np.ones(3), default_transform=None)


def _single():
    with pytensor.config.change_flags(floatX="float32", warn_float64="ignore"):
        pm.Normal("short")


def _minibatch():
    pm.Normal("y", pm.Normal("mu"), 1.0, observed=pm.Minibatch(Y, batch_size=2), total_size=Y.size)


def _seen():
    pm.Normal("y", observed=Y)


def _dependent():
    pm.Uniform("tau", 0.0, pm.HalfNormal("end"))


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (_discrete, {}, r"discrete ones: count, switch\. .*bouncy\.pymc\.BouncyBinary"),
        (_angle, {}, "angle to the whole line.*default_transform=None"),
        (_surface, {}, "w has no transform"),
        (_single, {}, "short is of type float32"),
        (_minibatch, {}, "pymc.Minibatch"),
        (_seen, {}, "no free variables"),
        (_dependent, {"edges": {"tau": [1.0]}}, "tau, and so the edges of tau_interval__, depend on other variables"),
        (lambda: pm.Dirichlet("w", np.ones(3)), {"edges": {"w": [0.5]}}, "entries of w are transformed together"),
        (lambda: pm.Normal("mu"), {"edges": {"nu": [0.5]}}, "edges names the variable 'nu'; expected one of 'mu'"),
    ],
)
def test_refusals(build, options, message):
    """Catches a model that is taken although it cannot be sampled, or refused without saying which variable is why."""
    with pm.Model() as model:
        build()
    with pytest.raises(ValueError, match=message):
        bouncy.Density.from_pymc(model, **options)


def test_other_objects():
    """Catches an error that does not say what is expected."""
    with pytest.raises(TypeError, match=r"must be a pymc\.Model, got int"):
        bouncy.Density.from_pymc(3)
