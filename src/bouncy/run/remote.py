"""Workers that run in other processes or on other machines, through any `concurrent.futures` executor.

For each slice the state of a worker is sent, and its next state and what it recorded come back. All else, the same for
all workers and slices, is a template: a process keeps it, and says so when it does not have it. Nothing that a run
depends on stays in a process, so that any process can do any slice, and one that dies costs its slice.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, NamedTuple

import numpy as np

from bouncy.run.interrupts import Interrupts
from bouncy.run.pool import Pool
from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Keep, Rows, Slice, State, Worker

# CPU seconds of a slice: long beside the time to send a worker. Between these bounds a round of all workers lasts so
# long that checkpoints and interrupts need not wait, nor lose more. With very many processes slices are longer, so that
# there are no more per second than one process can handle.
_SHORTEST, _LONGEST, _ROUND, _PER_SECOND = 0.1, 2.0, 10.0, 100.0
# Bytes of rows that a round may return.
_ROUND_BYTES = 1 << 30
# Times that a slice is sent again when it does not come back, in a row.
_ATTEMPTS = 4
# Bytes of a template that is sent with every slice, and of templates that may be under way otherwise.
_SMALL, _UNDER_WAY = 1 << 14, 1 << 27
# Templates that each thread of a process keeps, and bytes of all but the last of them.
_KEPT, _KEPT_BYTES = 4, 1 << 28

ExecutorOrMaker = Executor | Callable[[], Executor]


class WorkerError(RuntimeError):
    """The processes of an executor are gone.

    Attributes
    ----------
    run : Run or None
        What was finished before; its attribute `completed` is False.
    """

    run: Any = None


class Remote(Pool):
    """Processes of an executor.

    Parameters
    ----------
    interrupts : Interrupts
        Whether there was a Ctrl-C.
    executor : Executor or callable
        The executor, or a function that returns one: then a broken one is replaced.
    """

    def __init__(self, interrupts: Interrupts, executor: ExecutorOrMaker) -> None:
        super().__init__(interrupts)
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._owners: dict[Future[Any], Executor] = {}
        self._failures: dict[Worker, int] = {}
        self._broken: BaseException | None = None  # error that ended the executor
        self._hopeless: BaseException | None = None  # error of a slice that failed too often
        self._left_behind = False  # whether slices are under way that nobody waits for
        self._template, self._digest = b"", b""
        self._with_template: set[Future[Any]] = set()
        self._known = False  # some process has received the template
        self._wanting: set[Worker] = set()  # sent to a process without the template
        self._states: dict[Worker, dict[int, State]] = {}  # beyond the last common round, by the number of sweeps
        self._processes, self._cpu, self._since = 1.0, 0.0, time.perf_counter()

    def prepare(self, workers: Sequence[Worker], what: str) -> None:
        """Take a worker as the template for all: they differ in their states alone."""
        self._template = _pickled(workers[0])
        self._digest = hashlib.blake2b(self._template, digest_size=16).digest()
        self._most_bytes = min(type(self)._most_bytes, _ROUND_BYTES // len(workers))

    def close(self) -> None:
        if self._make is not None:
            self._executor.shutdown(wait=not self._left_behind)

    def _room(self, workers: Sequence[Worker]) -> int:
        if self._hopeless is not None:
            raise _given_up(self._hopeless)
        return len(workers)

    def _seconds(self, workers: Sequence[Worker]) -> float:
        wanted = min(max(_ROUND * self._processes / len(workers), _SHORTEST), _LONGEST)
        return max(wanted, self._processes / _PER_SECOND)

    def _commit(self, workers: Sequence[Worker], level: int) -> None:
        spent = time.perf_counter() - self._since
        if self._cpu and spent:
            self._processes = self._cpu / spent
        self._cpu, self._since = 0.0, time.perf_counter()
        for worker in workers:
            worker.restore(self._states[worker].pop(level))

    def _stop_now(self, workers: Sequence[Worker], level: int) -> bool:
        self._give_up()
        self._rounds, self._flying = [], {}
        return True

    def _give_up(self) -> None:
        """Leave all slices to themselves: workers are still where the last common round ended."""
        self._left_behind |= any([not future.cancel() and not future.done() for future in self._flying])
        self._states.clear()
        self._owners.clear()
        self._with_template.clear()

    # Slices

    def _submit(self, worker: Worker, end: int, keep: Keep) -> Future[Any] | None:
        large = len(self._template) > _SMALL
        needs_template = not large or not self._known or worker in self._wanting
        # Few large templates are sent at a time, and the other workers when one has arrived.
        if large and needs_template and len(self._with_template) >= max(1, _UNDER_WAY // len(self._template)):
            return None
        ahead = self._states.get(worker)
        state = ahead[max(ahead)] if ahead else worker.state()
        sweeps = end - (max(ahead) if ahead else worker.sweeps)
        data = pickle.dumps(_Order(self._digest, worker.first, state, sweeps, keep), pickle.HIGHEST_PROTOCOL)
        for _ in range(_ATTEMPTS):
            if self._broken is not None:
                self._replace(self._broken)
                needs_template = True
            try:
                future = _submitted(self._executor, data, self._template if needs_template else b"")
            except Exception as error:  # shut down, broken, closed
                self._broken = error
                continue
            self._owners[future] = self._executor
            if large and needs_template:
                self._with_template.add(future)
            return future
        assert self._broken is not None
        raise _given_up(self._broken)

    def _replace(self, error: BaseException) -> None:
        """Get another executor, or raise where there is no function for that."""
        if self._make is None:
            raise _given_up(error)
        self._executor.shutdown(wait=False)
        self._executor, self._broken, self._known = self._make(), None, False

    def _collect(self, worker: Worker, future: Future[Any]) -> Slice | None:
        owner = self._owners.pop(future)
        brought = future in self._with_template
        self._with_template.discard(future)
        answer = _answer(future)
        if isinstance(answer, BaseException):
            self._fail(worker, answer, owner)
            return None
        self._failures.pop(worker, None)
        if answer is None:  # the process does not have the template
            self._wanting.add(worker)
            return None
        if brought:  # to a process that others may now meet
            self._known = True
            self._wanting.clear()
        if answer.error is not None:
            raise _error_of(*answer.error)
        assert answer.found is not None
        self._states.setdefault(worker, {})[int(answer.sweeps)] = answer.state
        self._cpu += answer.found.cpu_seconds
        return answer.found._replace(rows=[_unpacked(rows, worker) for rows in answer.found.rows])

    def _fail(self, worker: Worker, error: BaseException, owner: Executor) -> None:
        """Note that a slice did not come back."""
        self._failures[worker] = self._failures.get(worker, 0) + 1
        if isinstance(error, BrokenExecutor) and owner is self._executor:
            self._broken = error
        if self._failures[worker] >= _ATTEMPTS:
            self._hopeless = error


def _given_up(error: BaseException) -> WorkerError:
    failure = WorkerError(
        f"the executor does not work any more ({type(error).__name__}: {error}). What was finished is in the attribute "
        "`run` of this error, and in the checkpoint if there is one. Pass a function that returns an executor to have "
        "a broken one replaced"
    )
    failure.__cause__ = error
    return failure


class _Order(NamedTuple):
    """A slice that a process is asked for."""

    digest: bytes  # of the template
    first: int
    state: State
    sweeps: int
    keep: Keep


class _Answer(NamedTuple):
    """What comes back from a process."""

    found: Slice | None
    state: State
    sweeps: int
    error: tuple[bytes, str] | None  # error of the worker, pickled and in words


def work(order: bytes, template: bytes) -> bytes:
    """Advance a worker. Orders and answers are pickled, so that executors need not look into them."""
    return pickle.dumps(_done(_Order(*pickle.loads(order)), template), pickle.HIGHEST_PROTOCOL)


def _done(order: _Order, template: bytes) -> _Answer | None:
    """Return the answer to an order, or None where there is no template for it."""
    try:
        worker = _worker_of(order.digest, template)
        if worker is None:
            return None
        worker.first = order.first
        worker.compile(order.keep.what)
        worker.restore(order.state)
        found = worker.advance(order.sweeps, order.keep)
    except Exception as error:
        _workers().pop(order.digest, None)
        return _Answer(None, {}, 0, _packed_error(error, order.first))
    return _Answer(found._replace(rows=[_packed(rows) for rows in found.rows]), worker.state(), worker.sweeps, None)


def _worker_of(digest: bytes, template: bytes) -> Worker | None:
    """Return a worker that can be put into any state, or None without a template for it."""
    workers = _workers()
    if digest in workers:
        workers[digest] = workers.pop(digest)  # the last one used is the last one dropped
    elif template:
        while workers and (len(workers) >= _KEPT or sum(size for _, size in workers.values()) > _KEPT_BYTES):
            del workers[next(iter(workers))]
        workers[digest] = _unpickled(template), len(template)
    else:
        return None
    return workers[digest][0]


_own = threading.local()


def _workers() -> dict[bytes, tuple[Worker, int]]:
    """Return the workers of this thread, with the sizes of their templates, by digest."""
    workers: dict[bytes, tuple[Worker, int]] = _own.__dict__.setdefault("workers", {})
    return workers


def _submitted(executor: Executor, order: bytes, template: bytes) -> Future[Any]:
    with warnings.catch_warnings():
        # Dask's, about what is sent once to each process.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return executor.submit(work, order, template)


def _answer(future: Future[Any]) -> _Answer | BaseException | None:
    """Return what came back from a process, or why nothing did."""
    try:
        error = future.exception()
    except CancelledError as cancelled:
        return cancelled
    if error is not None:
        return error
    found = pickle.loads(future.result())
    return None if found is None else _Answer(*found)


def _pickler() -> Any:
    """Return cloudpickle, which pickles functions by value, where it is installed."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle


def _pickled(worker: Worker) -> bytes:
    """Return a worker as bytes that another process can read."""
    try:
        data: bytes = _pickler().dumps(worker)
    except Exception as error:
        raise TypeError(
            f"the target cannot be sent to other processes: {error}. Its functions must not refer to locks, open "
            "files and the like; without the package cloudpickle they must be defined in a module"
        ) from error
    return data


def _unpickled(template: bytes) -> Worker:
    try:
        worker: Worker = pickle.loads(template)
    except ImportError as error:
        error.add_note(
            "A worker process has no such module, but the target refers to it: install it there, or have its functions "
            "travel with the target by cloudpickle.register_pickle_by_value(module)"
        )
        raise
    return worker


def _packed_error(error: Exception, chain: int) -> tuple[bytes, str]:
    """Return an error pickled, empty where it cannot be, and in words."""
    words = "".join(traceback.format_exception(error))
    if isinstance(error, TargetError):
        error.chain = chain
    else:
        error.add_note(f"This happened to chain {chain}, in a worker process:\n{words}")
    try:
        return _pickler().dumps(error), words
    except Exception:
        return b"", words


def _error_of(pickled: bytes, words: str) -> Exception:
    """Return the error of a worker."""
    try:
        error = pickle.loads(pickled)
    except Exception:
        return RuntimeError(f"a chain failed in a worker process:\n{words}")
    return error if isinstance(error, Exception) else RuntimeError(words)


def _packed(rows: Rows) -> Rows:
    """Return rows with spins as bits, an eighth of the size."""
    draws = rows.get("draws")
    if draws is None or draws.dtype != np.int8:
        return rows
    return {**rows, "draws": np.packbits(draws > 0, axis=1)}


def _unpacked(rows: Rows, worker: Worker) -> Rows:
    draws, like = rows.get("draws"), worker.empty_rows("draws")["draws"]
    if draws is None or like.dtype != np.int8:
        return rows
    bits = np.unpackbits(draws, axis=1, count=like.shape[1])
    return {**rows, "draws": 2 * bits.astype(np.int8) - 1}
