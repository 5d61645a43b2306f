"""Workers that run in other processes or on other machines, through any `concurrent.futures` executor.

For each slice the state of a worker is sent, and its next state and what it recorded come back. Slices that are short
are sent several in one task. All else, the same for all workers and slices, is a template: a process keeps it, and says
so when it does not have it. Nothing that a run depends on stays in a process, so that any process can do any slice, and
one that dies costs its task.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import pickle
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bouncy.recorders.batches import Batch
from bouncy.run.interrupts import Interrupts
from bouncy.run.pool import Order, Pool
from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Keep, Rows, Slice, State, Worker, joined

# CPU seconds of a slice: long beside the time to send it; shorter ones share a task. Between these bounds a round of
# all workers is short enough for checkpoints and interrupts. With very many processes slices are longer, so that there
# are no more per second than one process can handle.
_SHORTEST, _LONGEST, _ROUND, _PER_SECOND = 0.1, 2.0, 10.0, 100.0
# Seconds that a process spends on a slice beside its sweeps.
_HANDLING = 5e-4
# Seconds after which the first slice of a run ends, from which the length of the others is worked out.
_FIRST = 0.02
# Bytes of rows that a round may return.
_ROUND_BYTES = 1 << 30
# Times that a slice is sent when it does not come back, in a row.
_ATTEMPTS = 4
# Bytes of a template that is sent with every slice, and of templates that may be under way otherwise.
_SMALL, _UNDER_WAY = 1 << 15, 1 << 27
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

    _first_sweeps = 1 << 12

    def __init__(self, interrupts: Interrupts, executor: ExecutorOrMaker) -> None:
        super().__init__(interrupts)
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._tasks: dict[Future[Any], _Task] = {}
        self._failures: dict[Worker, int] = {}
        self._broken: BaseException | None = None  # error that ended the executor
        self._hopeless: BaseException | None = None  # error of a slice that failed too often
        self._left_behind = False  # whether tasks are under way whose results are not awaited
        self._template, self._digest = b"", b""
        self._known = False  # some process has received the template
        self._wanting: set[Worker] = set()  # sent to a process without the template
        self._states: dict[Worker, dict[int, bytes]] = {}  # beyond the last common round, by the number of sweeps
        self._processes, self._cpu, self._since = 1.0, 0.0, time.perf_counter()

    def prepare(self, workers: Sequence[Worker], what: str) -> None:
        """Take a worker as the template for all: they differ in their states alone."""
        self._template, self._layout = _pickled(workers[0]), _layout(workers[0])
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
            worker.restore(_unpacked_state(self._states[worker].pop(level), self._layout))

    def _stop_now(self, workers: Sequence[Worker], level: int) -> bool:
        self._give_up()
        self._rounds, self._flying = [], {}
        return True

    def _give_up(self) -> None:
        """Leave all slices to themselves: workers are still where the last common round ended."""
        self._left_behind |= any([not future.cancel() and not future.done() for future in self._tasks])
        self._states.clear()
        self._tasks.clear()

    # Tasks

    def _submit(self, orders: Sequence[Order]) -> dict[Worker, Future[Any]]:
        begun: dict[Worker, Future[Any]] = {}
        for group in self._groups(orders):
            future = self._send(group)
            if future is not None:
                begun |= dict.fromkeys((order.worker for order in group), future)
        return begun

    def _groups(self, orders: Sequence[Order]) -> Iterator[Sequence[Order]]:
        """Yield the slices of each task, which together last long enough to be worth sending."""
        sweeps, took = self._pace
        if not sweeps:  # the others wait for the first slice, and end where it does
            if orders and not self._flying:
                yield orders[:1]
            return
        seconds = sum((order.end - self._sweeps_of(order.worker)) * took / sweeps + _HANDLING for order in orders)
        tasks = min(max(1, round(seconds / _SHORTEST)), len(orders))
        for k in range(tasks):
            yield orders[k * len(orders) // tasks : (k + 1) * len(orders) // tasks]

    def _sweeps_of(self, worker: Worker) -> int:
        """Return the sweeps of a worker, those beyond the last common round included."""
        return max(self._states.get(worker) or [worker.sweeps])

    def _send(self, group: Sequence[Order]) -> Future[Any] | None:
        """Send slices as one task, or return None if they have to wait."""
        large = len(self._template) > _SMALL
        needs_template = not large or not self._known or any(order.worker in self._wanting for order in group)
        # Few large templates are sent at a time, and the other workers when one has arrived.
        under_way = sum(task.brings_template for task in self._tasks.values())
        if large and needs_template and under_way >= max(1, _UNDER_WAY // len(self._template)):
            return None
        data = pickle.dumps((self._digest, [self._assignment(order) for order in group]), pickle.HIGHEST_PROTOCOL)
        for _ in range(_ATTEMPTS):
            if self._broken is not None:
                self._replace(self._broken)
                needs_template = True
            try:
                future = _submitted(self._executor, data, self._template if needs_template else b"")
            except Exception as error:  # shut down, broken, closed
                self._broken = error
                continue
            self._tasks[future] = _Task(self._executor, [order.worker for order in group], large and needs_template)
            return future
        assert self._broken is not None
        raise _given_up(self._broken)

    def _assignment(self, order: Order) -> _Assignment:
        worker, sweeps = order.worker, self._sweeps_of(order.worker)
        ahead = self._states.get(worker)
        state = ahead[sweeps] if ahead else _packed_state(worker)
        return _Assignment(worker.first, state, order.end - sweeps, order.keep, math.inf if self._pace[0] else _FIRST)

    def _replace(self, error: BaseException) -> None:
        """Get another executor, or raise where there is no function for that."""
        if self._make is None:
            raise _given_up(error)
        self._executor.shutdown(wait=False)
        self._executor, self._broken, self._known = self._make(), None, False

    def _collect(self, worker: Worker, future: Future[Any]) -> Slice | None:
        task = self._tasks[future]
        if task.answers is None:
            task.answers = _answers(future)
            if task.brings_template and not isinstance(task.answers, BaseException):
                self._known = True  # by a process that other tasks may reach
                self._wanting.clear()
        k = task.workers.index(worker)
        del task.workers[k]
        if not task.workers:
            del self._tasks[future]
        if isinstance(task.answers, BaseException):
            self._fail(worker, task.answers, task.owner)
            return None
        self._failures.pop(worker, None)
        answer = task.answers.pop(k)
        if answer is None:  # the process does not have the template
            self._wanting.add(worker)
            return None
        if answer.error is not None:
            raise _error_of(*answer.error)
        assert answer.found is not None
        if not self._pace[0]:
            self._rounds[0].end = answer.sweeps
        self._states.setdefault(worker, {})[answer.sweeps] = answer.state
        self._cpu += answer.found.cpu_seconds
        return _unpacked(answer.found, worker)

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


@dataclass
class _Task:
    """Slices that were sent together: of workers whose answers have not been taken yet, in this order."""

    owner: Executor
    workers: list[Worker]
    brings_template: bool  # a large one
    answers: list[_Answer | None] | BaseException | None = None  # None before they are read


class _Assignment(NamedTuple):
    """A slice that a process is asked for. It may end early, when it has lasted so many seconds."""

    first: int
    state: bytes
    sweeps: int
    keep: Keep
    seconds: float


class _Answer(NamedTuple):
    """What comes back from a process."""

    found: Slice | None
    state: bytes
    sweeps: int
    error: tuple[bytes, str] | None  # error of the worker, pickled and in words


def work(task: bytes, template: bytes) -> bytes:
    """Do the slices of a task. Tasks and answers are pickled, so that executors need not look into them."""
    digest, assignments = pickle.loads(task)
    answers = [_done(digest, _Assignment(*assignment), template) for assignment in assignments]
    return pickle.dumps(answers, pickle.HIGHEST_PROTOCOL)


def _done(digest: bytes, order: _Assignment, template: bytes) -> _Answer | None:
    """Return the answer to an assignment, or None where there is no template for it."""
    try:
        local = _local(digest, template)
        if local is None:
            return None
        worker = local.worker
        worker.first = order.first
        if order.keep.what not in local.compiled:
            worker.compile(order.keep.what)
            local.compiled.add(order.keep.what)
        worker.restore(_unpacked_state(order.state, local.layout))
        found = _advanced(worker, order)
    except Exception as error:
        _locals().pop(digest, None)
        return _Answer(None, b"", 0, _packed_error(error, order.first))
    return _Answer(_packed(found), _packed_state(worker), worker.sweeps, None)


def _advanced(worker: Worker, order: _Assignment) -> Slice:
    """Advance a worker to the end of a slice, or, if its seconds are limited, in longer and longer parts of it."""
    if order.seconds == math.inf:
        return worker.advance(order.sweeps, order.keep)
    parts, n, begin = [worker.advance(1, order.keep)], 1, time.perf_counter()
    while n < order.sweeps and time.perf_counter() - begin < order.seconds:
        parts.append(worker.advance(min(n, order.sweeps - n), order.keep))
        n = min(2 * n, order.sweeps)
    return joined(parts)


class _Local(NamedTuple):
    """A worker of a process, made from a template, that can be put into any state."""

    worker: Worker
    layout: _Layout
    size: int  # of the template
    compiled: set[str]  # what can be kept


def _local(digest: bytes, template: bytes) -> _Local | None:
    """Return the worker of a template, or None without a template for it."""
    known = _locals()
    if digest in known:
        known[digest] = known.pop(digest)  # the last one used is the last one dropped
    elif template:
        while known and (len(known) >= _KEPT or sum(local.size for local in known.values()) > _KEPT_BYTES):
            del known[next(iter(known))]
        worker = _unpickled(template)
        known[digest] = _Local(worker, _layout(worker), len(template), set())
    else:
        return None
    return known[digest]


_own = threading.local()


def _locals() -> dict[bytes, _Local]:
    """Return the workers of this thread, by the digests of their templates."""
    known: dict[bytes, _Local] = _own.__dict__.setdefault("workers", {})
    return known


# Name, dtype, shape and place of each array of a state in its bytes.
_Layout = list[tuple[str, np.dtype[Any], tuple[int, ...], slice]]


def _layout(worker: Worker) -> _Layout:
    layout: _Layout = []
    begin = 0
    for name, array in worker.state().items():
        layout.append((name, array.dtype, array.shape, slice(begin, begin + array.nbytes)))
        begin += array.nbytes
    return layout


def _packed_state(worker: Worker) -> bytes:
    """Return the state of a worker as bytes, which are made and read faster than a pickle of many small arrays."""
    return b"".join(array.tobytes() for array in worker.state().values())


def _unpacked_state(data: bytes, layout: _Layout) -> State:
    return {name: np.frombuffer(data[place], dtype).reshape(shape) for name, dtype, shape, place in layout}


def _submitted(executor: Executor, task: bytes, template: bytes) -> Future[Any]:
    with warnings.catch_warnings():
        # Dask's, about what is sent once to each process.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return executor.submit(work, task, template)


def _answers(future: Future[Any]) -> list[_Answer | None] | BaseException:
    """Return what came back from a process, or why nothing did."""
    try:
        error = future.exception()
    except CancelledError as cancelled:
        return cancelled
    if error is not None:
        return error
    return [None if answer is None else _Answer(*answer) for answer in pickle.loads(future.result())]


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


def _packed(found: Slice) -> Slice:
    """Return a slice that is small and has few arrays: spins as bits, and all batches of a chain stacked into one."""
    stacked: list[list[Batch]] = [
        [{name: np.stack([batch[name] for batch in own]) for name in own[0]}] if own else [] for own in found.batches
    ]
    return found._replace(rows=[_packed_rows(rows) for rows in found.rows], batches=stacked)


def _packed_rows(rows: Rows) -> Rows:
    draws = rows.get("draws")
    if draws is None or draws.dtype != np.int8:
        return rows
    return {**rows, "draws": np.packbits(draws > 0, axis=1)}


def _unpacked(found: Slice, worker: Worker) -> Slice:
    """Return the slice that was packed."""
    batches: list[list[Batch]] = [
        [dict(zip(stack, batch, strict=True)) for stack in own for batch in zip(*stack.values(), strict=True)]
        for own in found.batches
    ]
    return found._replace(rows=[_unpacked_rows(rows, worker) for rows in found.rows], batches=batches)


def _unpacked_rows(rows: Rows, worker: Worker) -> Rows:
    draws, like = rows.get("draws"), worker.empty_rows("draws")["draws"]
    if draws is None or like.dtype != np.int8:
        return rows
    bits = np.unpackbits(draws, axis=1, count=like.shape[1])
    return {**rows, "draws": 2 * bits.astype(np.int8) - 1}
