"""Pools advance workers in rounds: whatever they hand over is the same sweeps of all workers."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bouncy.run import pool as pools
from bouncy.run.interrupts import Interrupts
from bouncy.run.pool import Threads, WorkerInterrupt
from bouncy.run.remote import Remote
from bouncy.workers.contract import Keep
from conftest import base_seed
from run.fake_worker import ACTIONS, FakeWorker, fail_at, wait_at


@pytest.fixture(autouse=True)
def _forget_actions():
    yield
    ACTIONS.clear()


@pytest.fixture(params=["threads", "executor"])
def new_pool(request):
    """Return a function that returns a pool of so many threads, or of an executor as if it had processes."""
    opened = []

    def new(threads):
        interrupts = Interrupts()
        if request.param == "threads":
            opened.append((Threads(interrupts, threads), None))
        else:
            executor = ThreadPoolExecutor(threads)
            opened.append((Remote(interrupts, executor), executor))
        return opened[-1][0]

    yield new
    for pool, executor in opened:
        pool.close()
        if executor is not None:
            executor.shutdown()


@pytest.fixture
def threads():
    """Return a pool of three threads."""
    pool = Threads(Interrupts(), 3)
    yield pool
    pool.close()


def rounds(pool, workers, end, *, keep=Keep, pause=lambda: False, longest=lambda: 2e-3):
    """Advance workers, and yield what is handed over, after looking at whether it is whole."""
    pool.prepare(workers, "draws")
    level, left = workers[0].sweeps, list(workers)
    for done in pool.advance(workers, end, keep, pause, longest):
        left = [worker for worker in left if worker not in done.errors]
        assert set(done.slices) in (set(left), set())
        for found in done.slices.values():
            np.testing.assert_array_equal(found.rows[0]["log_prob"], np.arange(level + 1, done.end + 1))
        assert done.end > level if done.slices else done.end == level
        level = done.end
        yield done
    assert all(worker.sweeps == level for worker in left), "workers must be level when a pool has returned"


def jitter(worker):
    """Take a time that differs from sweep to sweep."""
    time.sleep(random.Random(97 * worker.first + worker.sweeps + base_seed()).choice([0.0, 0.0, 0.0005, 0.002]))


@pytest.mark.parametrize("chains", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 8])
def test_rounds_are_the_same_sweeps_of_all_workers(new_pool, n, chains):
    """Catches a worker whose sweeps are handed over twice, not at all, or beside other sweeps of the others."""
    ACTIONS.update(dict.fromkeys(range(chains), jitter))
    workers = [FakeWorker(k) for k in range(chains)]
    ends = [done.end for done in rounds(new_pool(n), workers, 80)]
    assert ends[-1] == 80
    assert len(ends) > 3
    assert all(worker.sweeps == 80 for worker in workers)


def test_what_is_kept_is_the_same_for_all_workers_of_a_round(new_pool):
    """Catches rows of different lengths: what is to be kept changes at every call, as when rows are thinned."""
    ACTIONS.update(dict.fromkeys(range(3), jitter))
    asked = []

    def keep():
        asked.append(Keep("means", 1 + len(asked)))
        return asked[-1]

    for done in rounds(new_pool(2), [FakeWorker(k) for k in range(3)], 60, keep=keep, longest=lambda: 1e-9):
        assert len({found.keep for found in done.slices.values()}) == 1
    assert len(asked) > 3


def test_workers_are_ahead_by_one_round_at_most(threads):
    """Catches workers that run away from a slow one, whose results would fill the memory, and threads that idle."""
    gate, workers = threading.Event(), [FakeWorker(k) for k in range(3)]
    ACTIONS[0] = wait_at(40, gate)
    ahead = []

    def watch():
        begin = time.perf_counter()
        while len(ahead) < 100 and time.perf_counter() < begin + 20.0:
            time.sleep(0.003)
            if workers[0].sweeps == 40:
                ahead.append([worker.slices - workers[0].slices for worker in workers[1:]])
        gate.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in rounds(threads, workers, 2000, longest=lambda: 1e-9):
        pass
    watcher.join()
    assert ahead[-1] == [2, 2], "they finish the round that the slow one is in, and the next one"


def test_a_pause_leaves_workers_level(new_pool):
    """Catches a pool that pauses with workers a round ahead, or hands over nothing at all."""
    ACTIONS.update(dict.fromkeys(range(4), jitter))
    workers, pool = [FakeWorker(k) for k in range(4)], new_pool(2)
    for wait in (0, 0, 3, 5):
        taken, before = [], workers[0].sweeps
        taken.extend(rounds(pool, workers, 10**9, pause=lambda taken=taken, wait=wait: len(taken) >= wait))
        assert max(wait, 1) <= len(taken) <= wait + 2
        assert workers[0].sweeps > before


@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_interrupt_leaves_workers_level(new_pool, after):
    """Catches an interrupt that leaves a worker ahead of the others, or goes on to the end."""
    ACTIONS.update(dict.fromkeys(range(4), jitter))
    workers, pool = [FakeWorker(k) for k in range(4)], new_pool(2)
    if not after:
        pool._interrupts.note()
    taken = 0
    for _ in rounds(pool, workers, 10**9):
        taken += 1
        if taken == after:
            pool._interrupts.note()
    assert taken <= after + 2
    assert not pool._rounds
    assert not pool._flying


def test_a_worker_that_fails_is_dropped(new_pool):
    """Catches a failure that stops the others, is lost, or hands over sweeps that were not finished."""
    workers, pool = [FakeWorker(k) for k in range(4)], new_pool(2)
    ACTIONS.update(dict.fromkeys(range(4), jitter))
    ACTIONS[1], ACTIONS[3] = fail_at(20), fail_at(31)
    errors, seen = {}, {worker: 0 for worker in workers}
    for done in rounds(pool, workers, 100):
        errors |= done.errors
        seen |= dict.fromkeys(done.slices, done.end)
    assert {worker.first: str(error) for worker, error in errors.items()} == {
        1: "chain 1: failed in sweep 20",
        3: "chain 3: failed in sweep 31",
    }
    assert seen[workers[0]] == seen[workers[2]] == 100
    assert seen[workers[1]] <= 20
    assert seen[workers[3]] <= 31


def test_when_all_workers_fail_their_errors_are_handed_over(new_pool):
    """Catches a pool that waits for workers of which none is left."""
    workers = [FakeWorker(k) for k in range(3)]
    ACTIONS.update({k: fail_at(5 + k) for k in range(3)})
    errors = {}
    for done in rounds(new_pool(2), workers, 100):
        errors |= done.errors
    assert set(errors) == set(workers)


def interrupt_soon(pool, seconds=0.3):
    timer = threading.Timer(seconds, pool._interrupts.note)
    timer.start()
    return timer


def test_slow_workers_go_back_on_an_interrupt(threads, monkeypatch):
    """Catches an interrupt that waits for the end of a sweep which takes half a minute, or leaves it half done."""
    monkeypatch.setattr(pools, "_SLOW", 0.005)
    gate, workers = threading.Event(), [FakeWorker(k) for k in range(4)]
    ACTIONS.update({k: lambda worker: time.sleep(0.01) for k in (0, 2, 3)})
    ACTIONS[1] = lambda worker: time.sleep(0.01) or wait_at(6, gate)(worker)
    timer, begin = interrupt_soon(threads, 1.0), time.perf_counter()
    ends = [done.end for done in rounds(threads, workers, 10**6, longest=lambda: 1e-9)]
    timer.join()
    assert time.perf_counter() - begin < 10.0
    assert ends[-1] == 6
    assert not any(worker.stopped for worker in workers)


def test_a_failure_just_before_an_interrupt_is_told(threads):
    """Catches a worker that failed in the middle of a sweep, and stays in the run because a round was not finished."""
    workers = [FakeWorker(k) for k in range(2)]
    ACTIONS[0], ACTIONS[1] = wait_at(0, threading.Event()), fail_at(0)
    timer = interrupt_soon(threads)
    (done,) = rounds(threads, workers, 100)
    timer.join()
    assert done.end == 0
    assert not done.slices
    assert list(done.errors) == [workers[1]]


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt()])
def test_other_errors_end_all_slices(threads, error):
    """Catches threads that go on after an error, and an interrupt in a function that is taken for a Ctrl-C."""
    workers = [FakeWorker(k) for k in range(3)]

    def fail(worker):
        if worker.sweeps == 10:
            raise error

    ACTIONS.update({0: jitter, 1: fail, 2: wait_at(10, threading.Event())})
    with pytest.raises(WorkerInterrupt if isinstance(error, KeyboardInterrupt) else ValueError) as caught:
        for _ in rounds(threads, workers, 10**6):
            pass
    assert getattr(caught.value, "error", caught.value) is error
    before = [worker.sweeps for worker in workers]
    time.sleep(0.05)
    assert [worker.sweeps for worker in workers] == before
    assert not threads._interrupts.seen


def test_rounds_are_short_beside_what_slices_return(threads, monkeypatch):
    """Catches rounds whose rows do not fit into the memory."""
    monkeypatch.setattr(FakeWorker, "bytes_per_sweep", lambda self, keep: threads._most_bytes / 3)
    ends = [0, *(done.end for done in rounds(threads, [FakeWorker(0)], 50))]
    assert max(np.diff(ends)) == 3


def test_rounds_are_short_beside_the_time_that_is_left(threads):
    """Catches a last slice that takes longer than a run may, when sweeps take ten milliseconds."""
    ACTIONS[0] = lambda worker: time.sleep(0.01)
    ends = [0, *(done.end for done in rounds(threads, [FakeWorker(0)], 30, longest=lambda: 0.03))]
    assert max(np.diff(ends)) <= 3
