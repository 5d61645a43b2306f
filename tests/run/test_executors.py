"""`executor=`: the same bytes on every executor, and what happens when processes die, fail or are interrupted."""

import contextlib
import multiprocessing
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

import bouncy
from bouncy.run import remote
from conftest import base_seed

SPAWN = multiprocessing.get_context("spawn")
PARENT = os.getpid()


class Inline(Executor):
    """Runs a task when it is submitted, as another process would: from its pickle alone.

    Parameters
    ----------
    workers : int
        Pretended processes that take turns, each with its own memory.
    interfere : callable, optional
        Called with the index of each task; an exception that it raises is the result of the task.
    """

    def __init__(self, workers=1, interfere=lambda task: None):
        self.memories = [{} for _ in range(workers)]
        self.interfere = interfere
        self.orders, self.sweeps, self.templates, self.closed = [], [], [], False

    def submit(self, function, *arguments):
        assert not self.closed
        future = Future()
        self.do(future, len(self.orders), function, pickle.dumps(arguments))
        return future

    def do(self, future, task, function, arguments):
        order, template = pickle.loads(arguments)
        self.orders.append(len(order))
        self.sweeps.append([assignment.sweeps for assignment in pickle.loads(order)[1]])
        self.templates.append(len(template))
        remote._own.workers = self.memories[task % len(self.memories)]
        try:
            self.interfere(task)
            result = function(order, template)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait=True):
        self.closed = True


class Shuffled(Inline):
    """Runs tasks later, in random order."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._random, self._waiting, self._tasks = random.Random(base_seed()), [], 0
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def submit(self, function, *arguments):
        future = Future()
        self._waiting.append((future, self._tasks, function, pickle.dumps(arguments)))
        self._tasks += 1
        return future

    def _go_on(self):
        while not self.closed:
            if not self._waiting:
                time.sleep(1e-4)
                continue
            future, *task = self._waiting.pop(self._random.randrange(len(self._waiting)))
            if future.set_running_or_notify_cancel():
                self.do(future, *task)

    def shutdown(self, wait=True):
        super().shutdown()
        self._thread.join()


@pytest.fixture(autouse=True)
def own_memory():
    """Clear the templates that another test has left in this thread."""
    remote._own.__dict__.clear()


@pytest.fixture(scope="module")
def pool():
    """Return two processes."""
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        yield pool


@pytest.fixture(scope="module")
def dask():
    """Return the executor of a Dask cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


@pytest.fixture(scope="module")
def loky():
    """Return the reusable executor of loky, of two processes."""
    executor = pytest.importorskip("loky").get_reusable_executor(2, timeout=60)
    yield executor
    executor.shutdown(kill_workers=True)


@pytest.fixture(scope="module")
def threads():
    """Return threads that the caller owns."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture(scope="module")
def shuffled():
    with contextlib.closing(_Closing(Shuffled(2))) as closing:
        yield closing.executor


class _Closing:
    def __init__(self, executor):
        self.executor, self.close = executor, executor.shutdown


def scheme(disturb=lambda: None):
    """Return a Gibbs scheme with functions that no other process can import."""

    def build(scale):
        return bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2))

    def update(x, parameters, generator):
        disturb()
        return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))

    return bouncy.Within(build, {"scale": update}, {"scale": 1.0})


SPINS = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
POSITIVE = bouncy.TruncatedGaussian([0.0, 0.5], cov=np.eye(2), lower=0.0)
CASES = {
    "draws": (SPINS, "bps-gaussian", {"draws": 300}),
    "means": (SPINS, "bps-gaussian", {"draws": 300, "keep": "means"}),
    "path": (SPINS, "bps-gaussian", {"draws": 60, "keep": "path"}),
    "hmc": (SPINS, "hmc", {"draws": 50, "warmup": 20}),
    "precision": (SPINS, "bps-gaussian", {"until_se": 0.02}),
    "function": (SPINS, "bps-gaussian", {"until_se": 0.05, "se_of": lambda s: s[:, 0] * s[:, 1], "keep": "means"}),
    "tempered": (SPINS, "tempered", {"draws": 50, "warmup": 20, "pairs": "none"}),
    "continuous": (POSITIVE, "bps", {"draws": 200}),
    "within": (scheme(), "bps", {"draws": 50, "warmup": 20}),
}


def sample(case, **options):
    target, sampler, own = CASES[case]
    return bouncy.sample(target, sampler, chains=3, seed=base_seed(), **own, **options)


def have_slices_of(seconds, monkeypatch):
    for name, value in {"_SHORTEST": seconds, "_LONGEST": seconds, "_PER_SECOND": 1e9}.items():
        monkeypatch.setattr(remote, name, value)


def everything(run):
    """Return all bytes of a run that a user can see."""
    parts = [run.draws, run.log_prob, run.mean, run.mean_se, run.flips_per_site, run.events(), *run.parameters.values()]
    if run._data.setup.keep == "path":
        parts += [*run.flips, run.start]
    return [run.stopped_by, *(np.ascontiguousarray(part).tobytes() for part in parts)]


def level(run):
    """Return whether all workers of a run have made the same number of sweeps."""
    return len({tuple(state["sweeps"]) for state in run._data.states}) == 1


@pytest.fixture(scope="module")
def expected():
    """Return the runs of all cases by one thread."""
    return {case: everything(sample(case, threads=1)) for case in CASES}


# Executors


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_threads_give_the_same_bytes(case, workers, expected):
    """Catches chains that share anything, and rows that are kept in the order in which they arrive."""
    assert everything(sample(case, threads=workers)) == expected[case]


# Cases on which processes are tested always; the others take longer, and each is tested on `shuffled`.
FAST = ("draws", "within")
COMBINATIONS = [
    pytest.param(name, case, marks=[] if name == "shuffled" or (name == "pool" and case in FAST) else pytest.mark.slow)
    for name in ("threads", "shuffled", "pool", "loky", "dask")
    for case in CASES
]


@pytest.mark.parametrize(("name", "case"), COMBINATIONS)
def test_executors_give_the_same_bytes(case, name, expected, request):
    """Catches state that is not sent along, and anything that depends on the process or the order of slices."""
    assert everything(sample(case, executor=request.getfixturevalue(name))) == expected[case]


@pytest.mark.parametrize(
    "case", ["within", *(pytest.param(c, marks=pytest.mark.slow) for c in ("draws", "path", "function"))]
)
def test_short_slices_give_the_same_bytes(case, expected, monkeypatch):
    """Catches rounds that are mixed up: with many of them, chains are ahead of others all the time."""
    have_slices_of(1e-5, monkeypatch)
    with contextlib.closing(_Closing(Shuffled(3))) as closing:
        assert everything(sample(case, executor=closing.executor)) == expected[case]


@pytest.mark.slow
def test_traces_of_bounded_size_give_the_same_bytes(monkeypatch):
    """Catches slices of one round that keep draws at different spacings, because it doubled while they were sent."""
    have_slices_of(2e-4, monkeypatch)
    monkeypatch.setattr("bouncy.storage.rows.MOST_POINTS", 8)
    options = {"chains": 3, "draws": 1000, "warmup": 100, "keep": "means", "seed": base_seed()}
    whole = bouncy.sample(SPINS, **options, threads=1)
    assert whole.trace_spacing == 128
    for _ in range(2):
        with contextlib.closing(_Closing(Shuffled(3))) as closing:
            assert everything(bouncy.sample(SPINS, executor=closing.executor, **options)) == everything(whole)


def test_short_work_takes_few_tasks(monkeypatch):
    """Catches a task for each slice of each chain, and rounds that are spent to learn how long a sweep takes."""
    executor, options = Inline(2), {"chains": 50, "lanes": 1, "draws": 200, "warmup": 100, "seed": base_seed()}
    monkeypatch.setattr(remote, "_SHORTEST", 10.0)  # whatever the speed of the machine
    monkeypatch.setattr(remote, "_FIRST", 10.0)
    run = bouncy.sample(SPINS, executor=executor, **options)
    assert everything(run) == everything(bouncy.sample(SPINS, **options))
    assert list(map(len, executor.sweeps)) == [1, 49, 50, 50]  # two halves of the warm-up, and the recording


def test_first_slice_of_a_slow_target_is_one_sweep(monkeypatch):
    """Catches a first slice that is as long for slow targets as for fast ones, while all other chains wait."""
    executor, options = Inline(1), {"chains": 3, "draws": 20, "warmup": 10, "seed": base_seed()}
    monkeypatch.setattr(remote, "_SHORTEST", 10.0)
    monkeypatch.setattr(remote, "_FIRST", 0.0)
    run = bouncy.sample(SPINS, executor=executor, **options)
    assert everything(run) == everything(bouncy.sample(SPINS, **options))
    assert executor.sweeps[0] == [5], "as many as the stage has, of which the process did one"
    assert executor.sweeps[1] == [1, 1, 4], "the same sweep of the other chains, and what is left of the first"


def test_mpi_gives_the_same_bytes(expected, tmp_path):
    """Catches what works with processes of this machine alone: MPI has ways of its own to start and to send."""
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, bouncy
            from mpi4py.futures import MPIPoolExecutor

            if __name__ == "__main__":
                target = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
                with MPIPoolExecutor() as executor:
                    run = bouncy.sample(target, chains=3, seed=int(sys.argv[1]), draws=300, executor=executor)
                sys.stdout.buffer.write(run.draws.tobytes())
            """
        )
    )
    as_root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script), str(base_seed())]
    done = subprocess.run(command, env=os.environ | as_root, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == expected["draws"][1]


# Checkpoints


def test_another_executor_resumes(expected, tmp_path):
    """Catches what a checkpoint of an executor's run lacks, and a run that depends on its former executor."""
    target = CASES["draws"][0]
    options = {"draws": 100, "warmup": 200, "chains": 3, "seed": base_seed()}
    bouncy.sample(target, checkpoint=tmp_path / "run", executor=Inline(2), **options)
    assert everything(bouncy.resume(tmp_path / "run", target, total_draws=200, threads=2))
    run = bouncy.resume(tmp_path / "run", target, total_draws=300, executor=Inline(3))
    assert everything(run) == expected["draws"]


# Processes that die


class Killer:
    """Ends a process as soon as all chains have draws."""

    def __init__(self, kill):
        self._kill, self.done = kill, []

    def __call__(self, progress):
        if not self.done and min(chain.draws for chain in progress.chains) > 0:
            self._kill()
            self.done.append(progress.done)


@pytest.fixture
def short(monkeypatch):
    """Have slices of some milliseconds, so that a run of less than a second has many."""
    have_slices_of(4e-3, monkeypatch)


LONG = {"draws": 400_000, "chains": 3, "warmup": 200, "seed": base_seed()}


@pytest.fixture(scope="module")
def long_run():
    return everything(bouncy.sample(SPINS, **LONG))


@pytest.mark.slow
def test_killed_dask_worker_changes_nothing(dask, short, long_run):
    """Catches a slice that is lost with its worker, or taken in twice."""
    killer = Killer(lambda: os.kill(min(dask._client.run(os.getpid).values()), signal.SIGKILL))
    run = bouncy.sample(SPINS, executor=dask, progress=killer, **LONG)
    assert everything(run) == long_run
    assert 0.0 < killer.done[0] < 1.0


def _end_process(pool):
    """Let a process end itself between two slices.

    One that is killed while it sends a result leaves a pool waiting for the rest: Python does not notice.
    """
    pool.submit(os._exit, 1)


@pytest.mark.slow
def test_broken_pool_is_replaced(short, long_run):
    """Catches a run that ends with its pool although it was told how to get another one."""
    pools = []

    def make():
        pools.append(ProcessPoolExecutor(1, mp_context=SPAWN))
        return pools[-1]

    run = bouncy.sample(SPINS, executor=make, progress=Killer(lambda: _end_process(pools[0])), **LONG)
    assert everything(run) == long_run
    assert len(pools) == 2
    with pytest.raises(RuntimeError, match="shutdown"):
        pools[1].submit(os.getpid)


def test_broken_pool_leaves_a_run_that_can_be_resumed(short, long_run, tmp_path):
    """Catches a broken pool that takes what was finished with it, and chains that are left at different sweeps."""
    pool = ProcessPoolExecutor(1, mp_context=SPAWN)
    killer = Killer(lambda: _end_process(pool))
    with pool, pytest.raises(bouncy.WorkerError) as caught:
        bouncy.sample(SPINS, executor=pool, progress=killer, checkpoint=tmp_path / "run", **LONG)
    partial = caught.value.run
    assert not partial.completed
    assert isinstance(caught.value.__cause__, BrokenProcessPool)
    assert level(partial)
    drawn = partial.draws_per_chain
    assert 0 < drawn < LONG["draws"]
    assert everything(partial)[1:] == everything(bouncy.sample(SPINS, **LONG | {"draws": drawn}))[1:]
    del partial, caught
    assert everything(bouncy.resume(tmp_path / "run", SPINS, threads=2)) == long_run


@pytest.mark.slow
def test_target_that_kills_its_process_is_given_up():
    """Catches pools that are replaced for ever because of a target that no worker survives."""
    parent, pools = PARENT, []

    def disturb():
        if os.getpid() != parent:
            os._exit(1)

    def make():
        pools.append(ProcessPoolExecutor(1, mp_context=SPAWN))
        return pools[-1]

    with pytest.raises(bouncy.WorkerError, match="does not work any more") as caught:
        bouncy.sample(scheme(disturb), chains=2, draws=20, warmup=10, seed=0, executor=make)
    assert len(pools) == remote._ATTEMPTS
    assert not caught.value.run.completed


@pytest.mark.slow
def test_slices_that_are_lost_now_and_then_are_sent_again(expected, monkeypatch):
    """Catches attempts that are counted over a whole run instead of in a row, and a slice that is not done again."""

    def lose(task):
        raise [OSError("connection lost"), KeyboardInterrupt(), SystemExit(1)][task % 3]

    in_turn = Inline(1, lambda task: lose(task) if task % 4 == 1 else None)
    have_slices_of(1e-5, monkeypatch)
    assert everything(sample("draws", executor=in_turn)) == expected["draws"]
    assert len(in_turn.orders) > 4 * 3 * remote._ATTEMPTS
    with contextlib.closing(_Closing(Shuffled(2, lambda task: lose(task) if task in (2, 9, 16) else None))) as closing:
        assert everything(sample("draws", executor=closing.executor)) == expected["draws"]


def test_slices_that_are_always_lost_end_the_run(short):
    """Catches a run that sends the same slice for ever, and what was finished being lost with it."""

    def interfere(task):
        if task >= 20:
            raise OSError("connection lost")

    executor = Inline(1, interfere)
    with pytest.raises(bouncy.WorkerError, match="OSError: connection lost") as caught:
        bouncy.sample(SPINS, executor=executor, **LONG)
    assert len(executor.orders) <= 20 + 3 * remote._ATTEMPTS
    assert level(caught.value.run)


def test_executor_that_is_shut_down_is_a_worker_error(pool):
    """Catches the bare RuntimeError of an executor in place of an error that carries the run."""
    closed = ProcessPoolExecutor(1, mp_context=SPAWN)
    closed.shutdown()
    with pytest.raises(bouncy.WorkerError, match="cannot schedule new futures") as caught:
        sample("draws", executor=closed)
    assert caught.value.run is not None


# Targets that fail


def test_failure_of_a_target_comes_back_with_its_chain(pool):
    """Catches an error that loses its chain or its cause on the way, and other chains that stop with it."""
    parent = PARENT

    def cost(s, i):
        if s[0] == 1 and os.getpid() != parent:
            raise ArithmeticError("no cost here")
        return np.inf if i == 0 else 0.5 * s[i]

    target = bouncy.Custom(4, flip_cost=cost, compile=False)
    initial = -np.ones((3, 4))
    initial[1, 0] = 1
    options = {"chains": 3, "initial": initial, "draws": 50, "warmup": 20, "seed": base_seed()}
    expected = bouncy.sample(target, **options).draws
    with pytest.raises(bouncy.TargetError, match="chain 1") as caught:
        bouncy.sample(target, executor=pool, **options)
    assert caught.value.chain == 1
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert np.array_equal(caught.value.run.draws, expected[[0, 2]])


def test_other_errors_come_back_too(pool):
    """Catches errors that do not survive pickling, which would look like workers that die."""
    parent = PARENT

    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} {two}")

    def disturb():
        if os.getpid() != parent:
            raise Odd("odd", "error")

    with pytest.raises(RuntimeError, match=r"(?s)failed in a worker.*odd error"):
        bouncy.sample(scheme(disturb), chains=2, draws=20, seed=0, executor=pool)

    def fail():
        if os.getpid() != parent:
            raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(ZeroDivisionError, match="nothing to divide by") as caught:
        bouncy.sample(scheme(fail), chains=2, draws=20, seed=0, executor=pool)
    assert "in a worker" in "".join(caught.value.__notes__)


def test_target_that_cannot_be_sent_is_refused_before_anything_is():
    """Catches an unpicklable target that fails in the middle of an executor, far from what caused it."""
    lock, executor = threading.Lock(), Inline()

    def disturb():
        with lock:
            pass

    with pytest.raises(TypeError, match=r"cannot be sent to other processes.*must not refer to locks"):
        bouncy.sample(scheme(disturb), draws=10, executor=executor)
    assert not executor.orders


# Interrupts and progress


def _interrupted(**options):
    """Return a run that is interrupted at its fifth report of progress, and the seconds it then takes to return."""
    reports = []

    def report(progress):
        reports.append(time.perf_counter())
        if len(reports) == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(bouncy.InterruptedWarning):
        run = bouncy.sample(SPINS, **LONG | {"draws": 10**9, "keep": "means"}, progress=report, **options)
    return run, time.perf_counter() - reports[4]


def _of_equal_length(run):
    return bouncy.sample(SPINS, **LONG | {"draws": run.draws_per_chain, "keep": "means"})


def test_interrupt_returns_what_there_is_and_leaves_the_executor_to_its_owner(pool, short):
    """Catches an interrupt that waits for slices, and one that shuts down what belongs to the user."""
    run, seconds = _interrupted(executor=pool)
    assert seconds < 10.0, "an interrupt must not wait; a second is usual, even on a busy machine"
    assert not run.completed
    assert everything(run)[1:] == everything(_of_equal_length(run))[1:]
    for future in [pool.submit(os.getpid) for _ in range(4)]:
        assert future.result(timeout=60) != PARENT


def test_interrupt_goes_back_to_where_all_chains_have_been(short):
    """Catches chains that are left ahead of others by an interrupt."""
    with contextlib.closing(_Closing(Shuffled(2))) as closing:
        run, _ = _interrupted(executor=closing.executor)
        assert level(run)
        assert everything(run)[1:] == everything(_of_equal_length(run))[1:]


def test_interrupt_that_reaches_processes_too_is_no_error(short):
    """Catches a Ctrl-C that is reported as a broken executor, because a terminal sends it to the processes as well."""

    def interfere(task):
        if task == 30:
            signal.raise_signal(signal.SIGINT)
        if task >= 30:
            raise BrokenProcessPool("a process was terminated")

    with pytest.warns(bouncy.InterruptedWarning):
        run = bouncy.sample(SPINS, executor=Inline(1, interfere), **LONG)
    assert not run.completed


@pytest.mark.slow
def test_progress_is_reported_for_all_chains(short):
    """Catches progress that executors do not report."""
    reports = []
    bouncy.sample(SPINS, executor=Inline(2), progress=reports.append, **LONG)
    assert [chain.number for chain in reports[-1].chains] == [0, 1, 2]
    assert reports[-1].stage == "sampling"
    assert all(chain.flips_per_second > 0.0 for chain in reports[-1].chains)


# Traffic


@pytest.mark.slow
def test_large_model_is_sent_once_to_each_process(monkeypatch):
    """Catches a model that travels with every slice, and one that is sent to all chains at once."""
    target = bouncy.MRF.random(64, seed=1)
    executor = Inline(3)
    options = {"chains": 10, "lanes": 1, "draws": 100, "warmup": 50, "seed": base_seed(), "keep": "means"}
    have_slices_of(1e-5, monkeypatch)
    monkeypatch.setattr(remote, "_UNDER_WAY", 1)
    run = bouncy.sample(target, executor=executor, **options)
    assert everything(run) == everything(bouncy.sample(target, **options))
    sent_along = [size for size in executor.templates if size]
    assert min(sent_along) > target.M.nbytes
    assert 3 <= len(sent_along) <= 6
    assert len(executor.orders) > 3 * 10


def test_process_without_the_model_is_sent_it_again():
    """Catches a run that hangs, or fails, when workers are replaced by new ones behind the executor's back."""
    target = bouncy.MRF.random(64, seed=1)

    def interfere(task):
        if task % 7 == 0:
            for memory in executor.memories:
                memory.clear()

    options = {"chains": 5, "draws": 200, "seed": base_seed(), "keep": "means"}
    with contextlib.closing(_Closing(Shuffled(2, interfere))) as closing:
        executor = closing.executor
        run = bouncy.sample(target, executor=executor, **options)
    assert everything(run) == everything(bouncy.sample(target, **options))


def test_process_keeps_few_models(monkeypatch):
    """Catches a process that keeps the template of every run."""
    executor = Inline(1)
    for seed in range(6):
        bouncy.sample(bouncy.MRF.random(4, seed=seed), chains=1, draws=5, warmup=0, executor=executor)
    assert len(executor.memories[0]) == remote._KEPT
    monkeypatch.setattr(remote, "_KEPT_BYTES", 1)
    for seed in (7, 8):
        bouncy.sample(bouncy.MRF.random(4, seed=seed), chains=1, draws=5, warmup=0, executor=executor)
    assert len(executor.memories[0]) == 1


@pytest.mark.slow
def test_dask_does_not_warn_of_a_large_model(dask):
    """Catches the warning that Dask has for graphs of more than 10 MB, which tests take for an error."""
    target = bouncy.MRF.random(1200, seed=1)
    assert target.M.nbytes > 10_000_000
    run = bouncy.sample(target, chains=2, draws=3, warmup=1, seed=0, executor=dask)
    assert run.draws.shape == (2, 3, 1200)


@pytest.mark.slow
def test_page_about_clusters(capsys):
    """Catches a page whose code fails for a newcomer; what needs a cluster is not run."""
    pytest.importorskip("loky")
    pytest.importorskip("distributed")
    page = Path(__file__).parents[2] / "docs" / "cluster.md"
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)
    assert capsys.readouterr().out == "True\n"
    assert namespace["run"].completed
    namespace["get_reusable_executor"]().shutdown(kill_workers=True)
