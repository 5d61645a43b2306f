"""Densities of functions: what users can pass, what is refused, what stops a chain and what it says."""

from __future__ import annotations

import functools
import pickle
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from scipy import stats

import bouncy
from bouncy import Density, TargetError
from bouncy.piecewise import BPS, Metropolis
from bouncy.workers.contract import Plan
from conftest import base_seed
from piecewise.densities import law_of
from storage.comparing import different

QUICK = {"chains": 4, "draws": 200, "warmup": 50, "progress": False}


def normal_log_prob(y):
    return -0.5 * (y * y).sum()


def normal_gradient(y, out):
    for i in range(y.size):
        out[i] = -y[i]


@functools.cache
def normal(d: int = 2) -> Density:
    return Density(d, normal_log_prob, normal_gradient, convex=True, scale=np.ones(d))


# --- failures ---------------------------------------------------------------------------------------------------------


def raising_log_prob(y):
    if y[0] > 1.0:
        raise ArithmeticError("not with me")
    return -0.5 * y[0] * y[0]


def nan_log_prob(y):
    return np.nan if y[0] > 1.0 else -0.5 * y[0] * y[0]


def infinite_log_prob(y):
    return np.inf if y[0] > 1.0 else -0.5 * y[0] * y[0]


def raising_gradient(y, out):
    if y[0] > 1.0:
        raise ArithmeticError("not with me")
    out[0] = -y[0]


def nan_gradient(y, out):
    out[0] = np.nan if y[0] > 1.0 else -y[0]


def infinite_gradient(y, out):
    out[0] = -np.inf if y[0] > 1.0 else -y[0]


def negative_bound(y, v, horizon):
    return -1.0 if y[0] > 1.0 else 10.0


FAILURES = {
    "log p raises": (
        {"log_prob": raising_log_prob},
        "log_prob",
        r"raising_log_prob\) raised ArithmeticError: not with",
    ),
    "log p is nan": ({"log_prob": nan_log_prob}, "log_prob", r"nan_log_prob\) returned nan \(expected a finite number"),
    "log p is inf": ({"log_prob": infinite_log_prob}, "log_prob", r"infinite_log_prob\) returned inf"),
    "gradient raises": ({"gradient": raising_gradient}, "gradient", r"raising_gradient\) raised ArithmeticError"),
    "gradient is nan": ({"gradient": nan_gradient}, "gradient", r"nan_gradient\) wrote out\[0\] = nan"),
    "gradient is inf": ({"gradient": infinite_gradient}, "gradient", r"infinite_gradient\) wrote out\[0\] = -inf"),
    "bound is negative": ({"bound": negative_bound}, "bound", r"negative_bound\) returned -1.0 \(expected a finite"),
}


COMPILED = ("log p raises", "log p is nan", "gradient raises", "gradient is nan", "bound is negative")
BY_PYTHON = ("log p raises", "log p is inf", "gradient raises", "gradient is inf")


@pytest.mark.parametrize(
    ("case", "compile"), [*((case, True) for case in COMPILED), *((case, False) for case in BY_PYTHON)]
)
def test_what_a_function_must_not_do_stops_the_chain(case, compile):
    """Catches a NaN that is taken for a refusal, an exception that is swallowed, an error that says not where."""
    changed, role, message = FAILURES[case]
    target = Density(
        1, **{"log_prob": normal_log_prob, "gradient": normal_gradient, **changed}, compile=compile, scale=[1.0],
        initial=[[0.0]],
    )  # fmt: skip
    with pytest.raises(TargetError, match=rf"^chain [01]: {role} \({message}.* at y = \[1\.") as caught:
        bouncy.sample(target, seed=0, **{**QUICK, "chains": 2})
    error = caught.value
    assert error.function == role
    assert error.state.shape == (1,)
    assert error.state[0] > 1.0
    assert isinstance(error.__cause__, ArithmeticError) == ("raises" in case)


def island_log_prob(y):
    if 0.0 < y[0] < 1.0:
        return -np.inf
    if y[0] > 2.0:
        raise ValueError("picky")
    return -0.5 * y[0] * y[0]


def test_other_chains_keep_their_results():
    """Catches a failure of one chain that costs the results of the others, or is blamed on another one."""
    target = Density(1, island_log_prob, normal_gradient, edges={0: [0.0, 1.0]}, scale=[1.0], initial=[[-1.0]])
    for warmup in (0, 30):
        options = {"chains": 3, "draws": 60, "seed": 5, "progress": False, "warmup": warmup}
        with pytest.raises(TargetError, match=r"chain 1: .*picky") as failure:
            bouncy.sample(target, initial=[[-1.0], [1.5], [-0.5]], **options)
        rest = failure.value.run
        assert rest.draws.shape == (2, 60, 1)
        assert (rest.draws < 0.0).all()
        assert rest.extend(10).draws.shape == (2, 70, 1)


def test_failures_of_log_prob_and_gradient_by_hand():
    """Catches a NaN that the methods of a density return as if it were a value."""
    target = Density(1, nan_log_prob, raising_gradient, initial=[0.0])
    for method in (target.log_prob, target.gradient):
        assert np.isfinite(method([0.5])).all()
        with pytest.raises(TargetError, match=r"y = \[2\.0\]"):
            method([[0.0], [2.0], [3.0]])
    with pytest.raises(AttributeError, match="no gradient"), pytest.warns(bouncy.SlowTargetWarning):
        Density(1, normal_log_prob).gradient([0.0])
    assert pickle.loads(pickle.dumps(_failure(target))).state.tolist() == [2.0]


def _failure(target: Density) -> TargetError:
    try:
        target.log_prob([2.0])
    except TargetError as error:
        return error
    raise AssertionError


# --- what does not fit together ---------------------------------------------------------------------------------------


def jump_log_prob(y):
    return -0.5 * (y[0] * y[0] + y[1] * y[1]) - (1.5 if y[0] > 0.5 else 0.0)


def cut_log_prob(y):
    return -0.5 * (y[0] * y[0] + y[1] * y[1]) if y[0] < 0.5 else -np.inf


def wrong_gradient(y, out):
    out[0], out[1] = -1.4 * y[0], -y[1]


def well_log_prob(y):
    return -2.0 * (y[0] * y[0] - 1.0) ** 2 - 0.5 * y[1] * y[1]


def well_gradient(y, out):
    out[0], out[1] = -8.0 * y[0] * (y[0] * y[0] - 1.0), -y[1]


def low_bound(y, v, horizon):
    return 0.3


MISTAKES = {
    "jump": (jump_log_prob, normal_gradient, {}, "jumps, or becomes -inf, where no edge or wall is named"),
    "forbidden region": (cut_log_prob, normal_gradient, {"initial": [[0.0, 0.0]]}, "jumps, or becomes -inf"),
    "forbidden region, convex": (
        cut_log_prob, normal_gradient, {"initial": [[0.0, 0.0]], "convex": True}, "jumps, or becomes -inf"
    ),
    "gradient": (normal_log_prob, wrong_gradient, {}, "log_prob and gradient do not agree|jumps"),
    "gradient, convex": (normal_log_prob, wrong_gradient, {"convex": True}, "not convex as convex=True says"),
    "not convex": (well_log_prob, well_gradient, {"convex": True}, "not convex as convex=True says"),
    "bound": (normal_log_prob, normal_gradient, {"bound": low_bound}, "bound returned less than"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_noticed(case):
    """Catches a wrong answer in silence: what is named wrongly, or not at all, stops chains that come by it."""
    log_prob, gradient, options, message = MISTAKES[case]
    target = Density(2, log_prob, gradient, scale=[1.0, 1.0], **options)
    with pytest.raises(TargetError, match=message) as failure:
        bouncy.sample(target, seed=base_seed(), **QUICK)
    assert failure.value.state.shape == (2,)
    if "jump" in case or "region" in case:
        assert failure.value.state[0] == pytest.approx(0.5, abs=1e-6)
        assert "at y = [0." in str(failure.value)


def test_an_edge_cures_a_jump():
    """Catches an error where nothing is wrong: the same functions with the edge named."""
    target = Density(2, jump_log_prob, normal_gradient, edges={0: [0.5]}, convex=True)
    run = bouncy.sample(target, seed=base_seed(), **QUICK)
    weight = stats.norm.cdf(0.5), np.exp(-1.5) * stats.norm.sf(0.5)
    share, error = run.probability(upper=0.5)
    assert abs(share[0] - weight[0] / sum(weight)) < 7 * error[0] < 0.2


# --- functions that are not compiled ----------------------------------------------------------------------------------


def test_what_numba_cannot_compile_is_called_by_python():
    """Catches a silent fallback, or a fallback that samples something else: bytes are compared."""

    def odd(y):
        import math  # which numba cannot compile

        return -0.5 * math.fsum(y * y)

    with pytest.warns(bouncy.SlowTargetWarning, match="numba cannot compile log_prob") as caught:
        slow = Density(1, odd, normal_gradient, scale=[1.0])
    assert len(caught) == 1
    options = {"chains": 2, "draws": 30, "warmup": 10, "seed": 1, "progress": False}
    found = bouncy.sample(slow, **options)
    plain = bouncy.sample(Density(1, normal_log_prob, normal_gradient, scale=[1.0]), **options)
    np.testing.assert_allclose(found.draws, plain.draws, rtol=1e-6, atol=1e-6)
    assert found.diagnostics["bounces"] == plain.diagnostics["bounces"]


def test_without_a_gradient_there_is_a_warning():
    """Catches differences that are taken in silence, and moments that they make wrong near walls."""
    law = law_of("oblique")
    with pytest.warns(bouncy.SlowTargetWarning, match="differences of log_prob"):
        target = Density(
            2, law.target._binding._functions["log_prob"].plain, walls=law.target.walls, convex=True,
            data=law.target._binding._data[0],
        )  # fmt: skip
    run = bouncy.sample(target, chains=8, draws=1500, seed=base_seed(), progress=False)
    assert (np.abs(run.mean - law.mean) < 7 * run.mean_se).all()
    assert (np.abs(run.covariance + np.outer(law.mean, law.mean) - law.product) < 7 * run.covariance_se + 0.02).all()
    assert run.diagnostics["evaluations"]["gradient"] == 0


@pytest.mark.slow
def test_control_c_in_a_slow_function():
    """Catches an interrupt that takes effect only after all the slow calls of a sweep."""
    calls = []

    def slow(y):
        calls.append(1)
        if len(calls) == 200:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.001)
        return -0.5 * float(y @ y)

    target = Density(40, slow, normal_gradient, compile=False, scale=np.ones(40), initial=np.zeros((1, 40)))
    with pytest.warns(bouncy.InterruptedWarning):
        run = bouncy.sample(target, draws=10_000, chains=2, seed=0, progress=False)
    assert not run.completed
    assert 200 <= len(calls) < 2_000


# --- inputs -----------------------------------------------------------------------------------------------------------

BAD = {
    "edges of an unknown variable": ({"edges": {2: [0.0]}}, ValueError, r"names the variable 2; expected one of 0, 1"),
    "edges are no mapping": ({"edges": [0.0]}, TypeError, r"must map variables to places"),
    "equal edges": ({"edges": {0: [1.0, 0.0, 1.0]}}, ValueError, r"edges\[0\] must be different numbers"),
    "an edge that is not finite": ({"edges": {0: [np.inf]}}, ValueError, r"edges\[0\]"),
    "edges of two dimensions": ({"edges": {0: [[0.0, 1.0]]}}, ValueError, r"edges\[0\]"),
    "a normal of zero": ({"walls": [([0.0, 0.0], 1.0)]}, ValueError, r"walls\[0\] must have shape \(2,\) and not be"),
    "a normal of another size": ({"walls": [([1.0], 1.0)]}, ValueError, r"walls\[0\] must have shape \(2,\)"),
    "a wall without an offset": ({"walls": [[1.0, 0.0, 1.0]]}, TypeError, r"walls\[0\] must be a pair"),
    "an infinite offset": ({"walls": [([1.0, 0.0], np.inf)]}, ValueError, r"offset of walls\[0\]"),
    "a start of another size": ({"initial": [0.0, 0.0, 0.0]}, ValueError, r"initial must have shape"),
    "a start of density zero": ({"initial": [5.0, 0.0], "log_prob": cut_log_prob}, ValueError, "non-zero density"),
    "starts in a box": ({"initial": np.zeros((1, 1, 2))}, ValueError, r"initial must have shape \(2,\) or \(n, 2\)"),
    "a scale of zero": ({"scale": [1.0, 0.0]}, ValueError, "scale must be positive"),
    "a negative scale": ({"scale": -1.0}, ValueError, "scale must be positive"),
    "a scale of another size": ({"scale": [1.0, 1.0, 1.0]}, ValueError, "broadcast|shape"),
    "a bound without a gradient": ({"bound": low_bound, "gradient": None}, TypeError, "bound needs a gradient"),
    "no function": ({"log_prob": 3.0}, TypeError, "log_prob"),
    "a function of nothing": ({"log_prob": lambda: 0.0}, TypeError, "log_prob"),
    "no variables": ({"d": 0}, ValueError, "d "),
    "labels of another number": ({"labels": ["a"]}, ValueError, "labels"),
    "convex as a word": ({"convex": "yes"}, TypeError, "convex"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_inputs_are_named(case):
    """Catches an input that is misread, or whose error comes later and says nothing."""
    changed, kind, message = BAD[case]
    inputs = {"d": 2, "log_prob": normal_log_prob, "gradient": normal_gradient, "compile": False, **changed}
    with pytest.raises(kind, match=message):
        Density(inputs.pop("d"), inputs.pop("log_prob"), inputs.pop("gradient"), **inputs)


def test_a_density_that_is_zero_everywhere_near_needs_a_start():
    """Catches a search for a start that does not end, or ends at a place of density zero."""

    def far(y):
        return -0.5 * (y[0] - 1000.0) ** 2 if y[0] > 990.0 else -np.inf

    def gradient(y, out):
        out[0] = 1000.0 - y[0]

    lost = Density(1, far, gradient, edges={0: [990.0]})
    with pytest.raises(ValueError, match=r"density zero .* pass a possible one as initial="):
        bouncy.sample(lost, seed=0, **QUICK)
    found = bouncy.sample(Density(1, far, gradient, edges={0: [990.0]}, initial=[1000.0]), seed=0, **QUICK)
    assert abs(found.mean[0] - 1000.0) < 7 * found.mean_se[0] < 1.0


def test_labels_name_the_edges():
    """Catches edges of another variable where variables have names."""
    target = Density(2, cut_log_prob, normal_gradient, labels=["a", "b"], edges={"a": [0.5]}, initial=[0.0, 0.0])
    assert target.cells.upper.tolist() == [0.5, np.inf, np.inf]
    run = bouncy.sample(target, seed=1, **QUICK)
    assert (run.draws[..., 0] < 0.5).all()
    assert run._best.average(lambda batch: batch["cell"]) == pytest.approx([1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"names the variable 0; expected one of 'a', 'b'"):
        Density(2, cut_log_prob, normal_gradient, labels=["a", "b"], edges={0: [0.5]})


def test_starts():
    """Catches starts that are all the same, that lie outside, or are not those that were asked for."""
    options = {"edges": {0: [0.5]}, "scale": [1.0, 2.0]}
    rng = np.random.default_rng(base_seed())
    around = Density(2, cut_log_prob, normal_gradient, initial=[-3.0, 2.0], **options)
    default = Density(2, cut_log_prob, normal_gradient, **options)
    places = np.array([[-1.0, 0.0], [0.4, 3.0]])
    some = Density(2, cut_log_prob, normal_gradient, initial=places, **options)
    drawn = Density(2, cut_log_prob, normal_gradient, initial=lambda g: [-g.random(), 7.0], **options)
    for target, middle in ((around, [-3.0, 2.0]), (default, [0.0, 0.0])):
        starts = np.array([target.start(rng) for _ in range(60)])
        assert np.isfinite(target.log_prob(starts)).all()
        assert (np.abs(np.median(starts, axis=0) - middle) < 2.0).all()
        assert (starts.std(axis=0) > 0.5).all()
    assert {tuple(some.start(rng)) for _ in range(30)} == {tuple(row) for row in places}
    starts = np.array([drawn.start(rng) for _ in range(30)])
    assert (starts[:, 1] == 7.0).all()
    assert len(np.unique(starts[:, 0])) == 30
    with pytest.raises(ValueError, match="what initial returned must be a state of non-zero density"):
        bouncy.sample(Density(2, cut_log_prob, normal_gradient, initial=lambda g: [3.0, 0.0]), **QUICK)


@pytest.mark.parametrize("start", [[0.5, 0.0], [0.2, 0.3], [-0.3, 0.8], [0.5, 0.5]])
def test_a_start_on_an_edge_or_a_wall(start):
    """Catches a density that is asked on a wall, where rounding tells on which side it is."""

    def log_prob(y):
        if y[0] > 0.5:
            return -np.inf
        return -0.5 * (y[0] * y[0] + y[1] * y[1]) + (1.0 if y[0] + y[1] > 0.5 else 0.0)

    target = Density(2, log_prob, normal_gradient, edges={0: [0.5]}, walls=[([1.0, 1.0], 0.5)], scale=1.0)
    run = bouncy.sample(target, initial=[start] * 4, seed=2, **QUICK)
    assert (run.draws[:, :, 0] < 0.5).all()
    assert np.isfinite(run.log_prob).all()


# --- the warm-up finds the scale --------------------------------------------------------------------------------------


def stretched_log_prob(y, widths):
    total = 0.0
    for i in range(y.size):
        total -= 0.5 * ((y[i] - widths[i]) / widths[i]) ** 2
    return total


def stretched_gradient(y, out, widths):
    for i in range(y.size):
        out[i] = -(y[i] - widths[i]) / widths[i] ** 2


@pytest.mark.parametrize("scale", [None, 1.0])
def test_the_warm_up_finds_lengths(scale):
    """Catches an adaptation that is lost or stops too early: lengths of 1e-3 to 1e3, from a start that knows nothing.

    Scores beyond 7 come up with probability 1e-7 each.
    """
    widths = np.array([1e-3, 1.0, 30.0, 1e3])
    target = Density(4, stretched_log_prob, stretched_gradient, data=widths, convex=True, scale=scale)
    run = bouncy.sample(target, chains=4, draws=500, seed=base_seed(), progress=False)
    assert (np.abs(run.mean - widths) < 7 * run.mean_se).all()
    assert (run.mean_se < 0.2 * widths).all()
    found = np.array([state["motion.scale"] for state in _states(run)])
    assert (found == found[0]).all()
    assert (found[0] < 2.0 * widths).all()
    assert (found[0] > 0.5 * widths).all()


def _states(run):
    from bouncy.run.driver import restored_workers

    return [worker.state() for worker in restored_workers(run._data)]


def test_the_scale_stays_while_results_are_recorded():
    """Catches a scale that adapts to what is recorded, by which averages are biased."""
    target = Density(2, normal_log_prob, normal_gradient, scale=[0.05, 20.0])
    for warmup in (0, 64):
        run = bouncy.sample(target, chains=2, draws=64, warmup=warmup, seed=3, progress=False)
        first = [state["motion.scale"] for state in _states(run)]
        later = [state["motion.scale"] for state in _states(run.extend(200))]
        assert np.array_equal(first, later)
        if warmup == 0:
            np.testing.assert_allclose(first[0], [0.05, 20.0], rtol=1e-12)


@pytest.mark.parametrize("sampler", [BPS(), Metropolis()])
def test_lengths_do_not_come_from_a_few_sweeps(sampler):
    """Catches a warm-up whose last lengths are those of what was left of a stage after they were last found."""
    (worker,) = sampler.workers(normal(), Plan(pairs="all"), [np.random.SeedSequence(1)], [None])
    for sweeps, is_found in ((64 + 3, False), (64 + 20, True)):
        worker.advance(sweeps)
        before = worker.scale
        type(worker).record_anew([worker])
        assert np.allclose(before, worker.scale, rtol=1e-12) != is_found


# --- runs -------------------------------------------------------------------------------------------------------------


def test_one_variable():
    """Catches a loop, a summary or a plot that needs two variables."""
    run = bouncy.sample(normal(1), seed=base_seed(), chains=8, draws=500, progress=False)
    assert abs(run.mean[0]) < 7 * run.mean_se[0] < 0.5
    assert abs(run.variance[0] - 1.0) < 7 * run.variance_se[0] < 0.7
    value, error = run.quantile(0.975)
    assert abs(value[0] - 1.96) < 7 * error[0] + 0.05
    share, error = run.probability(lower=1.0)
    assert abs(share[0] - stats.norm.sf(1.0)) < 7 * error[0]
    bouncy.plots.plot_run(run)


def test_evaluations_are_part_of_the_diagnostics(tmp_path):
    """Catches counts that are lost on the way to a run or a file, or count the warm-up or one chain only."""
    run = bouncy.sample(normal(), seed=4, **QUICK)
    counted = run.diagnostics["evaluations"]
    events = run.diagnostics["bounces"] + run.diagnostics["refreshments"]
    assert events < counted["log_prob"] < 40 * (events + run.draws[..., 0].size)
    assert counted["gradient"] == counted["log_prob"]
    assert counted["bound"] == 0
    run.save(tmp_path / "run.npz")
    assert bouncy.Run.load(tmp_path / "run.npz").diagnostics["evaluations"] == counted
    more = run.extend(200).diagnostics["evaluations"]["log_prob"]
    assert 1.5 < more / counted["log_prob"] < 2.5


def test_runs_can_be_saved_and_continued(tmp_path):
    """Catches a density whose fingerprint changes between two constructions, or a run that forgets its scale."""
    build = lambda: law_of("staircase").target  # noqa: E731
    run = bouncy.sample(build(), seed=6, **QUICK)
    run.save(tmp_path / "run.npz")
    loaded = bouncy.Run.load(tmp_path / "run.npz", build())
    assert different(run.extend(50), loaded.extend(50)) == []
    other = build().given((np.array([-1.0, 0.0, 0.5, 1.2]), np.array([0.5, 0.0, 1.0, -0.3, 0.9])))
    assert other.fingerprint != build().fingerprint
    with pytest.raises((ValueError, bouncy.RunFileError)):
        bouncy.Run.load(tmp_path / "run.npz", other)


def test_runs_go_to_arviz():
    """Catches draws under other names than those of the variables."""
    pytest.importorskip("xarray")
    target = Density(2, normal_log_prob, normal_gradient, labels=["a", "b"], scale=1.0)
    run = bouncy.sample(target, seed=7, **QUICK)
    tree = run.to_arviz()
    (name,) = tree["posterior"].data_vars
    np.testing.assert_array_equal(tree["posterior"][name].values, run.draws)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, run.log_prob)
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_a_density_within_a_gibbs_scheme():
    """Catches a block that goes on with the old data: y and its precision a ~ Gamma(2, 1), so that y is Student.

    E[a] = 2, y has 4 degrees of freedom and scale sqrt(1/2): P(y > 1) in closed form. Scores beyond 7: 1e-7 each.
    """

    def log_prob(y, a):
        return -0.5 * a * y[0] * y[0]

    def gradient(y, out, a):
        out[0] = -a * y[0]

    block = Density(1, log_prob, gradient, data=1.0, scale=[1.0], convex=True)

    def precision(x, parameters, generator):
        return float(generator.gamma(2.5) / (1.0 + 0.5 * x[0] ** 2))

    scheme = bouncy.Within(lambda a: block.given(a), {"a": precision}, {"a": 1.0}, sweeps=2)
    run = bouncy.sample(scheme, chains=32, draws=600, warmup=50, seed=base_seed(), progress=False)
    a = run.parameters["a"]
    assert abs(a.mean() - 2.0) < 7 * a.mean(axis=1).std(ddof=1) / np.sqrt(32) < 0.3
    above = (run.draws[:, :, 0] > 1.0).mean(axis=1)
    assert abs(above.mean() - stats.t(4).sf(np.sqrt(2.0))) < 7 * above.std(ddof=1) / np.sqrt(32) < 0.04


def test_data_must_keep_its_types():
    """Catches data of another type, which compiled functions would misread."""
    target = law_of("student-1").target
    assert target.given(np.array([2.0])).log_prob([1.0]) != target.log_prob([1.0])
    for data in (2.0, np.array([2.0], np.float32), (np.array([2.0]),)):
        with pytest.raises(TypeError, match="types of those that the density was built with"):
            target.given(data)
    with pytest.raises(ValueError, match="no data"):
        normal().given(1.0)


@pytest.mark.slow
def test_chains_run_in_other_processes():
    """Catches machine addresses, or a scale, that are not those of the process that they are sent to."""
    target = law_of("staircase").target
    options = {"chains": 2, "draws": 40, "warmup": 20, "seed": 8, "progress": False}
    here = bouncy.sample(target, **options)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = bouncy.sample(target, executor=pool, **options)
    assert different(here, there) == []
