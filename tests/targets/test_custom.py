"""Targets given by functions of a user: compiled or not, their results and their errors."""

from __future__ import annotations

import functools
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, objmode

import bouncy
from bouncy.recorders.contract import MEANS
from bouncy.results.moments import means_recorded, recorded
from bouncy.samplers import names
from bouncy.targets.contract import conditional_means
from bouncy.testing import check_target
from bouncy.workers.contract import Plan
from bouncy.workers.kernel import advance, settle
from bouncy.workers.spins import SpinWorker

RANDOM = bouncy.MRF.random(6, sigma_M=0.5, sigma_r=0.3, seed=2)
# Couplings in sixteenths: sums of them are exact, whatever their order.
MODEL = bouncy.MRF(np.round(16 * RANDOM.M) / 16, np.round(16 * RANDOM.r) / 16)
DATA = (MODEL.M, MODEL.r)


def cost(s, i, data):
    M, r = data
    field = r[i]
    for j in range(s.size):
        field += M[i, j] * s[j]
    return -2.0 * s[i] * field


def log_prob(s, data):
    M, r = data
    x = s.astype(np.float64)
    return -x @ r - 0.5 * (x @ (M @ x))


def init(s, h, data):
    h[:] = data[0] @ s.astype(np.float64) + data[1]


def on_flip(s, i, h, data):
    h += 2.0 * s[i] * data[0][i]


def cached_cost(s, i, h, data):
    return -2.0 * s[i] * h[i]


def means(s, out, h, data):
    for i in range(s.size):
        out[i] = -np.tanh(h[i])


CACHED = {"flip_cost": cached_cost, "cache": np.zeros(6), "init": init, "on_flip": on_flip}
WAYS = {
    "cost": {"flip_cost": cost},
    "log p": {"log_prob": log_prob},
    "both": {"flip_cost": cost, "log_prob": log_prob},
    "cache": CACHED,
    "everything": {**CACHED, "log_prob": log_prob, "conditional_means": means},
}
both_ways = pytest.mark.parametrize("compile", [True, False], ids=["compiled", "python"])


# "everything" has all functions; the other ways are those of tests below.
@both_ways
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] if way != "everything" else []) for way in WAYS]
)
def test_a_model_is_the_same_however_it_is_given(way, compile):
    """Would catch an argument in the wrong place, a cache that does not follow, a lost factor: bytes are compared."""
    target = bouncy.Custom(6, data=DATA, compile=compile, **WAYS[way])
    check_target(target, states=5)
    assert np.allclose(bouncy.exact(target).probabilities, bouncy.exact(MODEL).probabilities, rtol=1e-12)
    mine, theirs = (bouncy.sample(t, draws=40, chains=2, warmup=10, seed=3) for t in (target, MODEL))
    assert np.array_equal(mine.draws, theirs.draws)
    conditional = (run._data.sums().mean(recorded("mean"), means_recorded) for run in (mine, theirs))
    assert np.allclose(*conditional, rtol=0, atol=1e-12)  # `mean` has control variates where couplings are known
    difference = mine.log_prob - theirs.log_prob
    assert np.ptp(difference) < 1e-12  # a cost alone knows log p up to a constant
    assert way == "cost" or way == "cache" or abs(difference).max() < 1e-12


# A target meets a sampler where its costs are paid: one sampler, and the others in the long tests.
every_sampler = pytest.mark.parametrize(
    "sampler",
    [
        name if name == "bps-gaussian" else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted({*names()} - {"auto", "tempered", "metropolis-swap"})
    ],
)


@functools.cache
def with_cache():
    return bouncy.Custom(6, data=DATA, **CACHED)


@pytest.mark.slow
@every_sampler
def test_every_sampler_walks_as_on_the_same_built_in_model(sampler):
    """Would catch a sampler that treats targets called by address differently."""
    mine, theirs = (bouncy.sample(t, sampler, draws=20, chains=1, warmup=5, seed=4) for t in (with_cache(), MODEL))
    assert np.array_equal(mine.draws, theirs.draws)


def test_a_new_function_compiles_nothing_but_itself():
    """Would catch user code in the types of the main loop, which would be compiled again for them."""
    bouncy.sample(bouncy.Custom(3, lambda s, i: 0.1 * s[i]), draws=5, chains=1, seed=0)
    before = list(advance.signatures)
    data = (np.zeros((2, 2)), 3, np.arange(4))
    bouncy.sample(bouncy.Custom(3, lambda s, i, x: 0.2 * s[i] + x[1], data=data), draws=5, chains=1, seed=0)
    bouncy.sample(bouncy.Custom(3, log_prob=lambda s: 0.2 * s[0]), draws=5, chains=1, seed=0)
    assert advance.signatures == before


def test_an_edited_function_is_not_served_stale(tmp_path, monkeypatch):
    """Would catch compiled code that is found again by the name of a function, of its file or of a global."""
    monkeypatch.syspath_prepend(tmp_path)
    for field in (0.5, -0.5):
        (tmp_path / "my_model.py").write_text(f"FIELD = {field}\ndef cost(s, i):\n    return 2 * FIELD * s[i]\n")
        sys.modules.pop("my_model", None)
        import my_model

        target = bouncy.Custom(1, my_model.cost)
        assert bouncy.exact(target).mean[0] == pytest.approx(np.tanh(field))
        my_model.FIELD = 2 * field  # as in the next cell of a notebook
        assert bouncy.exact(bouncy.Custom(1, my_model.cost)).mean[0] == pytest.approx(np.tanh(2 * field))


@pytest.mark.slow
def test_functions_of_a_script_work(tmp_path):
    """Would catch functions of `__main__`, with and without a file, that cannot be found again."""
    code = textwrap.dedent(
        """
        import bouncy
        def cost(s, i, J):
            return 2.0 * J * s[0] * s[1]
        target = bouncy.Custom(2, cost, data=0.5)
        print(round(float(bouncy.exact(target).pair_mean[0, 1]), 6))
        """
    )
    (tmp_path / "script.py").write_text(code)
    for arguments in (["-c", code], [str(tmp_path / "script.py")]):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)
        assert (done.stdout, done.stderr) == ("0.462117\n", "")


class Pair(NamedTuple):
    M: np.ndarray
    r: np.ndarray


class Twins(NamedTuple):
    one: np.ndarray
    other: np.ndarray


@pytest.mark.slow
def test_data_may_be_nested_and_functions_compiled_before():
    """Would catch data that is passed in another shape, and compiled functions that are refused."""

    @njit
    def field(s, i, model):
        return model.r[i] + (model.M[i] * s).sum()

    @njit
    def compiled_cost(s, i, data):
        return -data[0] * s[i] * field(s, i, data[1])

    target = bouncy.Custom(6, compiled_cost, data=(2, Pair(MODEL.M, MODEL.r)))
    assert np.allclose(bouncy.exact(target).mean, bouncy.exact(MODEL).mean)
    twins = Twins(np.zeros(2), np.ones(2))  # of one type, which numba lays out in another way
    target = bouncy.Custom(2, lambda s, i, data: data.other[i] * s[i] + data.one[i], data=twins)
    assert bouncy.exact(target).mean == pytest.approx(np.tanh([0.5, 0.5]))
    explicit = njit("float64(int8[:], int64)")(lambda s, i: 1.0 * s[i])
    assert bouncy.exact(bouncy.Custom(1, explicit)).mean[0] == pytest.approx(np.tanh(0.5))


@both_ways
def test_functions_may_have_defaults_and_insist_on_data(compile):
    """Would catch a function of (s, i, data) that is of no use without data, and a default that is overwritten."""
    functions = [
        lambda s, i: 1.0 * s[i],
        lambda s, i, data: 1.0 * s[i],
        lambda s, i, k=1.0: k * s[i],
        lambda *a: 1.0 * a[0][a[1]],
    ]
    for function in functions:
        target = bouncy.Custom(1, function, compile=compile)
        assert bouncy.exact(target).mean[0] == pytest.approx(np.tanh(0.5))
    target = bouncy.Custom(1, lambda s, i, x, k=0.5: k * x * s[i], data=2.0, compile=compile)
    assert bouncy.exact(target).mean[0] == pytest.approx(np.tanh(0.5))


def test_what_numba_cannot_compile_is_called_by_python():
    """Would catch a silent fallback, more than one warning, or a fallback that samples something else."""
    table = {"a": 0.4}

    def odd_cost(s, i):
        return 2.0 * table["a"] * s[i]

    with pytest.warns(bouncy.SlowTargetWarning, match=r"flip_cost \(odd_cost\).*table") as found:
        target = bouncy.Custom(2, odd_cost)
    bouncy.sample(target, draws=10, chains=2, seed=0)  # without another warning, which would be an error
    assert len(found) == 1
    assert found[0].filename == __file__
    assert bouncy.exact(target).mean == pytest.approx(np.tanh([0.4, 0.4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bouncy.Custom(2, odd_cost, compile=False)


def test_a_callable_object_is_called_by_python():
    """Would catch a callable without a signature or code, which numba cannot inspect."""

    class Cost:
        def __call__(self, s, i):
            return 0.8 * s[i]

    with pytest.warns(bouncy.SlowTargetWarning, match="of type Cost"):
        target = bouncy.Custom(1, Cost())
    assert bouncy.exact(target).mean[0] == pytest.approx(np.tanh(0.4))


def test_log_prob_is_evaluated_once_for_a_flip_and_once_for_a_mean():
    """Would catch a second evaluation per attempted flip: the value of the current state is known."""
    calls = []

    def counted(s):
        calls.append(1)
        return 0.3 * s[0] * s[1] - 0.2 * s[2]

    target = bouncy.Custom(3, log_prob=counted, compile=False)
    calls.clear()
    run = bouncy.sample(target, draws=100, chains=1, warmup=0, seed=0)
    resyncs, means = run.diagnostics["flips"] // (64 * 3) + 1, run._data.sums().totals("events")[MEANS]
    assert abs(means - 100) < 40
    assert len(calls) == run.diagnostics["hits"] + means * 3 + resyncs


# Failures


@both_ways
def test_what_a_function_raises_comes_back(compile):
    """Would catch an exception that is swallowed by compiled code, or loses its message, the state or the chain."""

    def angry(s, i, data):
        if s.sum() == 2:
            raise ArithmeticError("not with me")
        return 0.0

    target = bouncy.Custom(4, angry, data=np.zeros(1), compile=compile)
    message = r"^chain [01]: flip_cost \(angry\) raised ArithmeticError: not with me"
    with pytest.raises(bouncy.TargetError, match=message) as caught:
        bouncy.sample(target, draws=50, chains=2, seed=0)
    error = caught.value
    assert isinstance(error.__cause__, ArithmeticError)
    assert error.state.sum() == 2
    assert str(error.state.tolist()) in str(error)
    assert (error.function, error.chain in (0, 1), 0 <= error.site < 4) == ("flip_cost", True, True)


def nan_cost(s, i):
    return np.nan if s.sum() == 2 else 0.0


def gain_cost(s, i):
    return -np.inf if s.sum() == 2 else 0.0


def nan_log_prob(s):
    return np.nan if s.sum() == 2 else 0.0


def inf_log_prob(s):
    return np.inf if s.sum() == 2 else 0.0


def bad_means(s, out):
    out[:] = 0.0
    out[2] = 7.0


def bad_init(s, cache):
    if s.size > 0:
        raise ValueError("no start")


def no_cost(s, i, cache):
    return 0.0


def bad_on_flip(s, i, cache):
    if i == 2:
        raise ValueError("cannot follow")


def fill(s, cache):
    cache[:] = 0.0


FAILURES = {
    "nan cost": ({"flip_cost": nan_cost}, r"flip_cost \(nan_cost\) returned nan \(expected a finite cost"),
    "infinite gain": ({"flip_cost": gain_cost}, r"flip_cost \(gain_cost\) returned -inf"),
    "nan log p": ({"log_prob": nan_log_prob}, r"log_prob \(nan_log_prob\) returned nan \(expected a finite number, or"),
    "infinite log p": ({"log_prob": inf_log_prob}, r"log_prob \(inf_log_prob\) returned inf"),
    "means": (
        {"flip_cost": lambda s, i: 0.0, "conditional_means": bad_means},
        r"conditional_means \(bad_means\) wrote out\[2\] = 7.0",
    ),
    "init": (
        {"flip_cost": no_cost, "cache": np.zeros(1), "init": bad_init, "on_flip": no_cost},
        r"init \(bad_init\) raised ValueError: no start",
    ),
    "on_flip": (
        {"flip_cost": no_cost, "cache": np.zeros(1), "init": fill, "on_flip": bad_on_flip},
        r"on_flip \(bad_on_flip\) raised ValueError: cannot follow for site 2",
    ),
}


@both_ways
@pytest.mark.parametrize("case", FAILURES)
def test_what_cannot_be_a_cost_stops_the_chain(case, compile):
    """Would catch a NaN that is taken for a refusal, or a failure in a function that is called less often."""
    functions, message = FAILURES[case]
    with pytest.raises(bouncy.TargetError, match=message):
        bouncy.sample(bouncy.Custom(4, compile=compile, **functions), draws=200, chains=1, seed=0)


def picky(s, i):
    """Stay where s[1] is, and fail where that is up and s[0] goes down."""
    if i == 1:
        return np.inf
    if s[1] > 0 and s[0] > 0:
        raise ValueError("picky")
    return 0.5 * s[0]


def flat(s):
    return 0.0


def test_other_chains_keep_their_results():
    """Would catch a failure of one chain that costs the results of the others."""
    target = bouncy.Custom(2, picky, flat)
    starts = [[-1, -1], [-1, 1], [1, -1]]
    options = {"draws": 50, "warmup": 0, "seed": 5}
    with pytest.raises(bouncy.TargetError, match=r"chain 1: .*picky") as failure:
        bouncy.sample(target, chains=3, initial=starts, **options)
    rest = failure.value.run
    assert rest.draws.shape == (2, 50, 2)
    whole = bouncy.sample(target, chains=3, initial=[[-1, -1], [-1, -1], [1, -1]], **options)
    assert np.array_equal(rest.draws, whole.draws[[0, 2]])
    assert np.array_equal(rest.log_prob, whole.log_prob[[0, 2]])
    assert rest.extend(10).draws.shape == (2, 60, 2)
    assert rest.sampling_seconds > 0


def test_a_run_that_fails_while_it_is_extended_stays_as_it_was():
    """Would catch draws of a broken chain, or a lost run, after extend() failed."""
    armed = []

    def trap(s, i):
        if armed:
            raise ValueError("trapped")
        return 0.3 * s[i]

    run = bouncy.sample(bouncy.Custom(2, trap, compile=False), draws=10, chains=2, seed=0)
    draws, mean = run.draws.copy(), run.mean.copy()
    armed.append(1)
    with pytest.raises(bouncy.TargetError, match="trapped"):
        run.extend(10)
    armed.clear()
    assert np.array_equal(run.draws, draws)
    assert np.array_equal(run.mean, mean)
    fresh = bouncy.sample(bouncy.Custom(2, trap, compile=False), draws=20, chains=2, seed=0)
    assert np.array_equal(run.extend(10).draws, fresh.draws)


def test_failures_are_seen_through_wrappers_and_by_log_prob():
    """Would catch a wrapper that hides the failure of its target, or reports it with the spins of another one."""
    target = bouncy.Custom(4, log_prob=nan_log_prob)
    for wrapped in (target.clamp({3: 1}), target.tempered(0.5), target.tempered(0.5).clamp({3: 1}).clamp({0: 1})):
        with pytest.raises(bouncy.TargetError, match=r"nan_log_prob\) returned nan") as failure:
            bouncy.sample(wrapped, draws=50, chains=1, seed=0)
        assert failure.value.state.shape == (4,)
        assert failure.value.state.sum() == 2
    with pytest.raises(bouncy.TargetError, match="returned nan"):
        target.log_prob([1, 1, 1, -1])
    with pytest.raises(bouncy.TargetError, match="returned nan"):
        bouncy.exact(target)


def test_control_c_in_a_function_is_control_c():
    """Would catch an interrupt that is turned into an error of the target."""

    def interrupted(s):
        raise KeyboardInterrupt

    target = bouncy.Custom(2, log_prob=interrupted, compile=False)
    with pytest.raises(KeyboardInterrupt):
        target.log_prob([1, 1])


@both_ways
def test_a_failure_that_depends_on_the_past_is_a_failure(compile):
    """Would catch a failure that cannot be repeated, and so turns into another error that stops all chains."""

    def fifth(s, i, cache):
        cache[0] += 1
        if cache[0] == 5:
            raise ValueError("five flips")

    target = bouncy.Custom(4, no_cost, flat, cache=np.zeros(1), init=fill, on_flip=fifth, compile=compile)
    message = "on_flip .fifth. failed when compiled" if compile else "five flips"
    with pytest.raises(bouncy.TargetError, match=message):
        bouncy.sample(target, draws=50, chains=1, seed=0)


@both_ways
def test_failures_on_the_way_to_log_p_are_told(compile):
    """Would catch an exception, or Ctrl-C, that is lost where log p is added up from costs."""

    def cost(s, i):
        if s.sum() == -4:
            raise ValueError("boom")
        return 0.2 * s[i]

    with pytest.raises(bouncy.TargetError, match=r"boom for site 0 at s = \[-1, -1, -1, -1\]"):
        bouncy.Custom(4, cost, compile=compile).log_prob([1] * 4)


def test_the_first_failure_is_told_and_then_forgotten():
    """Would catch the message of another failure than the one that stopped the chain."""
    mood = ["fine"]

    def cost(s, i):
        if mood[0] == "raise":
            raise ValueError(f"site {i}")
        return np.nan if mood[0] == "nan" else 0.0

    run = bouncy.sample(bouncy.Custom(3, cost, flat, compile=False), draws=5, chains=1, seed=0)
    mood[0] = "raise"
    with pytest.raises(bouncy.TargetError, match=r"raised ValueError: site (\d) for site \1"):
        run.extend(5)
    mood[0] = "nan"
    with pytest.raises(bouncy.TargetError, match="returned nan"):
        run.extend(5)


def count(s, i, seen):
    """Count the costs that are asked for after a flip that failed, and all of them."""
    seen[1] += seen[0]
    seen[2] += 1.0
    return 0.0


def count_and_fail(s, i, seen):
    seen[2] += 1.0
    return -np.inf


def break_down(s, i, seen):
    seen[0] = 1.0
    raise ValueError("down")


def worker_that_counts(cost, compile):
    """Return a worker on a target that keeps (whether a flip failed, costs asked for since, all costs)."""
    target = bouncy.Custom(50, cost, flat, cache=np.zeros(3), init=fill, on_flip=break_down, compile=compile)
    worker = SpinWorker(target, bouncy.Metropolis(), Plan(), np.random.SeedSequence(0), None)
    (seen,) = worker.view.memory.caches
    return worker, seen


@both_ways
def test_no_cost_is_asked_for_after_a_flip_that_failed(compile):
    """Would catch a loop that goes on with a cache of unknown content."""
    worker, seen = worker_that_counts(count, compile)
    with pytest.raises(bouncy.TargetError, match=r"on_flip \(break_down\) raised ValueError: down"):
        worker.advance(2)
    assert seen.tolist() == [1.0, 0.0, 1.0]


@both_ways
def test_no_flip_is_made_at_what_is_no_cost(compile):
    """Would catch a failure that is noticed only after the flip, in a state that the error does not show."""
    worker, seen = worker_that_counts(count_and_fail, compile)
    before = worker.s.copy()
    with pytest.raises(bouncy.TargetError, match="returned -inf") as failure:
        worker.advance(2)
    assert seen.tolist() == [0.0, 0.0, 1.0]
    assert np.array_equal(worker.s, before)
    assert np.array_equal(failure.value.state, before)


@both_ways
def test_a_worker_that_was_stopped_stays_so(compile):
    """Would catch a stop between two calls of the loop that the second ignores."""
    worker, seen = worker_that_counts(count, compile)
    worker.stop()
    for _ in range(2):
        with pytest.raises(bouncy.TargetError, match="was stopped"):
            worker.advance(2)
    assert seen.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("role", ["flip_cost", "log_prob", "on_flip"])
def test_python_is_not_called_after_a_stop(role):
    """Would catch an interrupt that has to wait for many calls of a slow function, refused flips among them."""
    calls = []

    def stop(s, *arguments):
        calls.append(s)
        if len(calls) == 5:
            worker.stop()
        return refusal if len(calls) > 1 else 0.0

    refusal = {"flip_cost": 1e9, "log_prob": -1e9, "on_flip": 0.0}[role]
    functions = {role: stop}
    if role == "on_flip":
        functions |= {"flip_cost": lambda s, i, c: 0.0, "init": lambda s, c: None, "cache": np.zeros(1)}
    target = bouncy.Custom(50, **({"log_prob": flat} | functions), compile=False)
    worker = SpinWorker(target, bouncy.Metropolis(), Plan(), np.random.SeedSequence(0), np.ones(50, np.int8))
    with pytest.raises(bouncy.TargetError, match="was stopped"):
        worker.advance(2)
    assert len(calls) == 5


def test_other_chains_survive_a_failure_in_warm_up():
    """Would catch a failure before anything is recorded that costs the results of the other chains."""
    target = bouncy.Custom(2, picky, flat)
    with pytest.raises(bouncy.TargetError, match=r"chain 1: .*picky") as failure:
        bouncy.sample(target, chains=3, initial=[[-1, -1], [-1, 1], [1, -1]], draws=20, seed=5)
    assert failure.value.chain == 1
    assert failure.value.run.draws.shape == (2, 20, 2)


def test_spins_can_be_kept_by_a_python_function():
    """Would catch a function that can write to the sampler's memory, and int8 sums that overflow in Python only."""
    seen = []

    def log_prob(s):
        seen.append(s)
        return 0.01 * (64 * s[0] + 64 * s[1])

    target = bouncy.Custom(2, log_prob=log_prob, compile=False)
    assert bouncy.exact(target).mean == pytest.approx(np.tanh([0.64, 0.64]))
    assert all(set(s.tolist()) <= {-1, 1} for s in seen)
    assert not seen[0].flags.writeable


@pytest.mark.slow
def test_a_run_can_be_extended_in_another_process():
    """Would catch machine addresses that are sent to another process."""
    model = bouncy.FactorGraph.from_mrf(MODEL)
    run = bouncy.sample(model, draws=10, chains=2, seed=3)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        elsewhere = pool.submit(bouncy.Run.extend, run, 10).result()
    assert np.array_equal(elsewhere.draws, run.extend(10).draws)
    assert np.array_equal(elsewhere.extend(5).draws, run.extend(15).draws)


def test_an_error_can_be_pickled():
    """Would catch an error that breaks the pool it is raised in."""
    with pytest.raises(bouncy.TargetError) as failure:
        bouncy.sample(bouncy.Custom(4, nan_cost), draws=50, chains=1, seed=0)
    twin = pickle.loads(pickle.dumps(failure.value))
    assert str(twin) == str(failure.value)
    assert np.array_equal(twin.state, failure.value.state)


def test_what_numba_says_of_readonly_arrays_need_not_be_about_writing():
    """Would catch a function that numba cannot compile for another reason, reported as one that writes to s."""
    with pytest.warns(bouncy.SlowTargetWarning, match="roll"):
        target = bouncy.Custom(3, log_prob=lambda s: 0.3 * (s * np.roll(s, 1, 0)).sum())
    assert bouncy.exact(target).pair_mean[0, 1] > 0.2


def test_unknown_bytecode_is_left_to_python():
    """Would catch an error of numba that is not among its own kind of errors."""

    def log_prob(s):
        import math

        return math.sqrt(2.0) * s[0]

    with pytest.warns(bouncy.SlowTargetWarning, match="IMPORT_NAME"):
        bouncy.Custom(2, log_prob=log_prob)


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaWarning")
def test_object_mode_is_left_to_python():
    """Would catch an exception that compiled code cannot pass on."""

    def log_prob(s):
        with objmode(y="float64"):
            y = 0.5 * s[0]
        return y

    with pytest.warns(bouncy.SlowTargetWarning, match="objmode"):
        bouncy.Custom(2, log_prob=log_prob)


def test_control_c_does_not_wait_for_a_sweep():
    """Would catch an interrupt that takes effect only after all the slow calls of a sweep.

    Calls are counted, not seconds: a busy machine makes fewer of them until the interrupt arrives.
    """
    calls = []

    def slow(s, i):
        calls.append(i)
        if len(calls) == 10:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.01)
        return 0.0

    target = bouncy.Custom(1000, slow, flat, compile=False)
    with pytest.warns(bouncy.InterruptedWarning, match="in its warm-up"):
        run = bouncy.sample(target, draws=100, chains=2, seed=0)
    assert 10 <= len(calls) < 1000
    assert not run.completed
    assert run.draws.shape == (2, 0, 1000)


# Walls


def hard_core(s, i):
    """Occupied sites (+1) of a ring have no occupied neighbours; each is worth 0.75, of which sums are exact."""
    d = s.size
    if s[i] > 0:
        return 0.75
    return np.inf if s[(i + 1) % d] > 0 or s[i - 1] > 0 else -0.75


def hard_core_log_prob(s):
    total = 0.0
    for i in range(s.size):
        if s[i] > 0:
            total += 0.75
            if s[i - 1] > 0:
                return -np.inf
    return total


@functools.cache
def walled():
    return bouncy.Custom(6, hard_core, hard_core_log_prob), bouncy.Custom(6, log_prob=hard_core_log_prob)


@every_sampler
def test_walls_are_never_crossed(sampler):
    """Would catch a wall that lets something through, a start behind one, and an infinite cost that becomes a NaN."""
    target, by_log_prob = walled()
    run = bouncy.sample(target, sampler, draws=2000, chains=2, seed=1)
    occupied = run.draws > 0
    assert not np.any(occupied & np.roll(occupied, 1, axis=2))
    assert np.all(np.abs(run.mean - bouncy.exact(target).mean) < 6 * run.mean_se)
    alone = bouncy.sample(by_log_prob, sampler, draws=2000, chains=2, seed=1)
    assert np.array_equal(alone.draws, run.draws)


def test_walls_can_be_clamped_without_log_prob():
    """Would catch a wrapper that takes an unknown log p for a failure."""
    given = bouncy.Custom(6, hard_core).clamp({2: 1})
    run = bouncy.sample(given, draws=500, chains=2, initial=[-1] * 5, seed=0)
    whole = bouncy.exact(bouncy.Custom(6, hard_core, hard_core_log_prob).clamp({2: 1}))
    assert np.all(np.abs(run.mean - whole.mean) < 6 * run.mean_se + 1e-9)


def test_a_start_must_be_possible():
    """Would catch a chain that starts where p(s) = 0, and moves by differences of infinities."""
    target = bouncy.Custom(6, hard_core, hard_core_log_prob)
    with pytest.raises(ValueError, match=r"initial must be a state of non-zero probability.*1, 1, -1"):
        bouncy.sample(target, initial=[1, 1, -1, -1, -1, -1])
    with pytest.raises(ValueError, match=r"none is known to be possible: flip costs of .inf are walls"):
        bouncy.sample(bouncy.Custom(200, hard_core))
    nowhere = bouncy.Custom(2, log_prob=lambda s: -np.inf)
    with pytest.raises(ValueError, match="random starts all have probability zero"):
        bouncy.sample(nowhere)


def test_log_p_behind_a_wall_is_unknown_without_log_prob():
    """Would catch a trace of log p that is wrong, instead of unknown, where costs alone do not determine it."""

    def swap(s, i):  # +-, ++ and -+ are possible, -- is not
        if s[0] + s[1] < 0:
            return -np.inf
        return np.inf if s[0] + s[1] == 0 and s[i] > 0 else 0.0

    run = bouncy.sample(bouncy.Custom(2, swap), draws=50, chains=1, initial=[1, 1], seed=0)
    assert np.isnan(run.log_prob).all()
    assert run.diagnostics["ess"]["log_prob"] == "unknown"
    assert "unknown" in str(run.summary())


# What is refused

MISTAKES = {
    "nothing": ({}, TypeError, "flip_cost.*or log_prob.*neither"),
    "not a function": ({"flip_cost": 3}, TypeError, "flip_cost must be a function, got 3"),
    "too few arguments": (
        {"flip_cost": lambda s: 0.0},
        TypeError,
        r"flip_cost will be called as flip_cost\(s, i\), but its signature is <lambda>\(s\)",
    ),
    "cache without functions": ({"flip_cost": no_cost, "cache": np.zeros(2)}, TypeError, "a cache needs init"),
    "functions without cache": ({"flip_cost": cost, "init": init}, TypeError, r"init needs a cache.*np.zeros\(6\)"),
    "cache without cost": ({"log_prob": log_prob, "init": init}, TypeError, "init is of use beside flip_cost only"),
    "number as cache": (
        {"flip_cost": no_cost, "cache": (np.zeros(2), 1), "init": fill, "on_flip": bad_on_flip},
        TypeError,
        "cache must be an array or a tuple of arrays, got 1 as its element 1",
    ),
    "text as data": ({"flip_cost": cost, "data": np.array(["a"])}, TypeError, "data must hold numbers.*got <U1"),
    "half precision": ({"flip_cost": cost, "data": np.zeros(2, "f2")}, TypeError, "data must hold numbers.*float16"),
    "large number": ({"flip_cost": cost, "data": (1.0, 2**70)}, TypeError, r"data\[1\] must be a number that 64 bits"),
    "masked": ({"flip_cost": cost, "data": np.ma.masked_less(np.zeros(2), 1)}, TypeError, "got a masked array"),
    "ragged": ({"flip_cost": cost, "data": [[1], [1, 2]]}, TypeError, "data must be a rectangular array"),
    "sparse data": (
        {"flip_cost": cost, "data": (bouncy.MRF.ising(4).M,)},
        TypeError,
        r"data\[0\] must be an array.*csr_array; pass \(M.indptr",
    ),
    "writes to s": ({"flip_cost": on_flip, "data": 1.0}, TypeError, "flip_cost .on_flip. will be called as"),
    "no return": ({"flip_cost": lambda s, i: None}, TypeError, "flip_cost must return a number.*return statement"),
    "bad flag": ({"flip_cost": cost, "compile": 1}, TypeError, "compile must be True or False"),
    "bad labels": ({"flip_cost": cost, "data": DATA, "labels": "abcdef"}, TypeError, "labels must be a sequence of 6"),
    "too few labels": ({"flip_cost": cost, "data": DATA, "labels": ["a"]}, ValueError, "6 sites, got 1 labels"),
    "same labels": ({"flip_cost": cost, "data": DATA, "labels": ["a"] * 6}, ValueError, "'a' more than once"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case):
    """Would catch a mistake that surfaces as an unreadable error of numba, or not at all."""
    arguments, error, message = MISTAKES[case]
    with pytest.raises(error, match=message):
        bouncy.Custom(6, **arguments)


def test_functions_cannot_write_to_their_arguments():
    """Would catch a function that changes the state of the sampler."""

    def writes_s(s, i, data):
        s[i] = 1
        return 0.0

    def writes_data(s, i, data):
        data[0] = 1.0
        return 0.0

    for function in (writes_s, writes_data):
        with pytest.raises(TypeError, match=f"{function.__name__}.* must not write to s or data.*readonly"):
            bouncy.Custom(2, function, data=np.zeros(2))
        with pytest.raises(bouncy.TargetError, match="read-only"):
            bouncy.sample(bouncy.Custom(2, function, data=np.zeros(2), compile=False), draws=5, chains=1, seed=0)


# check_target


def test_check_target_names_what_is_wrong():
    """Would catch a check that passes everything, or blames the wrong function."""

    def half_on_flip(s, i, h, data):
        h += s[i] * data[0][i]

    def no_function(s, i, data):
        return 0.1 * i * s[i] * (s[0] if i else 1)

    def double(s, out, h, data):
        means(s, out, 2 * h, data)

    wrong = {
        r"flip_cost gives .* where the difference of log_prob is": {"flip_cost": no_function, "log_prob": log_prob},
        r"flip_cost gives .* as flips left them \(on_flip\)": {**CACHED, "on_flip": half_on_flip},
        r"flip_cost gives .* for flipping \d and then": {"flip_cost": no_function},
        r"conditional_means gives .* where s_i tanh": {**CACHED, "conditional_means": double},
    }
    for message, functions in wrong.items():
        with pytest.raises(bouncy.TargetError, match=message) as failure:
            check_target(bouncy.Custom(6, data=DATA, compile=False, **functions))
        assert failure.value.state.shape == (6,)
    with pytest.raises(bouncy.TargetError, match=r"raises IndexError.*when run by Python"):
        check_target(bouncy.Custom(6, beyond, data=DATA))


def beyond(s, i, data):
    """Read one entry too many, which compiled code does not notice."""
    return 0.5 * s[i] if data[1][i + 1] > -9.0 else 0.6 * s[i]


def test_check_target_sees_small_errors_beside_a_large_log_p():
    """Would catch a tolerance relative to log p, whose constant means nothing."""

    def log_prob(s):
        return 0.1 * s[0] * s[1] - 1e6

    def cost(s, i):
        return 0.2 * s[0] * s[1] + 1e-3 * s[i]

    with pytest.raises(bouncy.TargetError, match="difference of log_prob"):
        check_target(bouncy.Custom(2, cost, log_prob))


def test_check_target_sees_functions_that_are_not_functions_of_s():
    """Would catch randomness in a cost, which makes every sampler wrong."""
    calls = []

    def moody(s, i):
        calls.append(1)
        return 0.1 * len(calls) * s[i]

    with pytest.raises(bouncy.TargetError, match="called again"):
        check_target(bouncy.Custom(2, moody, compile=False))


@pytest.mark.slow
def test_conditional_means_write_one_entry_per_site():
    """Would catch an `out` that is longer than the spins and is passed to a user's function as it is."""
    target = bouncy.Custom(6, data=DATA, **WAYS["everything"])
    view, s = target.view(), np.ones(6, np.int8)

    @njit
    def ask(view, s, out):
        conditional_means(view, s, out)

    settle(view, s)
    out = np.full(8, 9.0)
    ask(view, s, out)
    assert out[6:].tolist() == [9.0, 9.0]
    assert np.allclose(out[:6], -np.tanh(MODEL.M @ s + MODEL.r))
