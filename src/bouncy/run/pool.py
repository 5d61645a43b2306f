"""Advancing workers in slices, on threads of this process or elsewhere.

Workers go in rounds: in a round all of them make the same sweeps. A worker that has finished a round may begin the next
one before the others are done, so that no thread is idle, but what it recorded is handed over only when all have
finished the round. So whenever a pool hands something over, it is the same sweeps of all chains.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from bouncy.run.interrupts import Interrupts
from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Keep, Slice, State, Worker

# Seconds that a slice on a thread may last, and that a round of all workers may.
_SLICE, _ROUND = 0.1, 0.25
_SHORTEST = 1e-3
# A sweep of so many seconds is slow: the state before it is kept, so that an interrupt need not wait for its end.
_SLOW = 0.25
# Seconds between two looks for an interrupt.
_LOOK = 0.05
# Rounds that may be under way at the same time.
_MOST_ROUNDS = 2


class Done(NamedTuple):
    """A round that all workers have finished, without those whose target failed."""

    end: int  # sweep
    slices: dict[Worker, Slice]  # empty if workers failed and no round was finished since
    errors: dict[Worker, TargetError]  # of the workers that failed


class Round:
    """Sweeps that all workers make, from `begin` to `end`, and what those recorded that have finished it.

    What is kept of the draws is the same for all workers, also if another round is handed over in the meantime.
    """

    def __init__(self, begin: int, end: int, keep: Keep) -> None:
        self.begin, self.end, self.keep = begin, end, keep
        self.slices: dict[Worker, Slice] = {}


class Order(NamedTuple):
    """A slice to be done: a worker, the sweep at which the slice ends, and what to keep of the draws."""

    worker: Worker
    end: int
    keep: Keep


class Pool(ABC):
    """Threads, processes or machines that advance workers.

    Parameters
    ----------
    interrupts : Interrupts
        Whether there was a Ctrl-C.
    """

    # Bytes of rows that a slice may return, sweeps of the first slice, and how many times longer than the last a
    # slice may be.
    _most_bytes, _first_sweeps, _growth = 1 << 25, 1, 64

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._pace = 0, 0.0  # sweeps and seconds of the last slice
        self._news = threading.Event()  # set when a slice is done
        self._rounds: list[Round] = []
        self._flying: dict[Worker, Future[Any]] = {}  # slices under way

    @abstractmethod
    def prepare(self, workers: Sequence[Worker], what: str) -> None:
        """Get ready for workers, which differ in their states alone, given what is kept of their draws."""

    @abstractmethod
    def close(self) -> None:
        """Release threads and processes."""

    @abstractmethod
    def _room(self, workers: Sequence[Worker]) -> int:
        """Return how many slices may be under way."""

    @abstractmethod
    def _seconds(self, workers: Sequence[Worker]) -> float:
        """Return how long a slice should last."""

    @abstractmethod
    def _submit(self, orders: Sequence[Order]) -> dict[Worker, Future[Any]]:
        """Begin slices, and return their futures; workers that are left out have to wait."""

    @abstractmethod
    def _collect(self, worker: Worker, future: Future[Any]) -> Slice | None:
        """Return what a slice recorded, or None if it has to be done again.

        Raises the error of a slice that failed.
        """

    def _commit(self, workers: Sequence[Worker], level: int) -> None:  # noqa: B027
        """Take notice that all workers have finished a round that ends at sweep `level`."""

    @abstractmethod
    def _stop_now(self, workers: Sequence[Worker], level: int) -> bool:
        """Put all workers back to sweep `level` within moments, and return whether that was possible."""

    @abstractmethod
    def _give_up(self) -> None:
        """End all slices after an error, and return when no worker moves any more."""

    def advance(
        self,
        workers: Sequence[Worker],
        end: int,
        keep: Callable[[], Keep],
        pause: Callable[[], bool],
        longest: Callable[[], float],
    ) -> Iterator[Done]:
        """Advance workers that are level to a sweep, and yield what they recorded, round by round.

        Ends early, with all workers level, after a Ctrl-C and when `pause` returns True, but not before the first
        round. `keep` says what to return of draws, `longest` how many seconds a slice may last. A worker whose target
        fails is left out from then on.
        """
        active, level, paused, stopping, fresh = list(workers), workers[0].sweeps, False, False, True
        errors: dict[Worker, TargetError] = {}
        try:
            while active:
                try:
                    if self._interrupts.seen and not stopping:
                        stopping = True
                        if self._stop_now(active, level):
                            break
                    paused = paused or stopping or (not fresh and pause())
                    orders = self._plan(active, level, end, keep, longest, may_begin_a_round=not paused or fresh)
                    begun = self._submit(orders) if orders else {}
                    self._flying |= begun
                    for future in set(begun.values()):
                        future.add_done_callback(lambda _: self._news.set())
                    if not self._rounds:
                        break
                    self._take_in(active, errors)
                except KeyboardInterrupt:
                    self._interrupts.note()
                while active and self._rounds and all(worker in self._rounds[0].slices for worker in active):
                    done, fresh = self._rounds.pop(0), False
                    level = done.end
                    self._commit(active, level)
                    yield Done(level, {worker: done.slices[worker] for worker in active}, errors)
                    errors = {}
            if errors:
                yield Done(level, {}, errors)
        finally:
            if self._rounds or self._flying:
                self._give_up()
                self._rounds, self._flying = [], {}

    def _plan(
        self,
        workers: Sequence[Worker],
        level: int,
        end: int,
        keep: Callable[[], Keep],
        longest: Callable[[], float],
        may_begin_a_round: bool,
    ) -> list[Order]:
        """Return the next slices of idle workers, those that are furthest behind first."""
        room, orders = self._room(workers) - len(self._flying), list[Order]()
        if room <= 0:
            return orders
        for worker in sorted((w for w in workers if w not in self._flying), key=self._rounds_done):
            if len(orders) == room:
                break
            k = self._rounds_done(worker)
            last = self._rounds[-1].end if self._rounds else level
            if k == len(self._rounds):
                if not may_begin_a_round or last >= end or k == _MOST_ROUNDS:
                    continue
                kept = keep()
                self._rounds.append(Round(last, min(end, last + self._sweeps(workers, kept, longest())), kept))
            orders.append(Order(worker, self._rounds[k].end, self._rounds[k].keep))
        return orders

    def _rounds_done(self, worker: Worker) -> int:
        """Return how many of the present rounds a worker has finished."""
        return sum(worker in done.slices for done in self._rounds)

    def _sweeps(self, workers: Sequence[Worker], keep: Keep, longest: float) -> int:
        """Return how many sweeps the next round should have."""
        sweeps, took = self._pace
        wanted: float = self._first_sweeps
        if sweeps:
            wanted = sweeps * min(min(self._seconds(workers), longest) / max(took, 1e-7), self._growth)
        size = workers[0].bytes_per_sweep(keep)
        most = self._most_bytes / size if size else wanted
        return max(1, int(min(wanted, most)))

    def _take_in(self, workers: list[Worker], errors: dict[Worker, TargetError]) -> None:
        """Wait a moment for slices that are done, and put what they recorded to their rounds."""
        self._news.wait(_LOOK)
        self._news.clear()
        for worker in [worker for worker, future in self._flying.items() if future.done()]:
            future = self._flying.pop(worker)
            try:
                found = self._collect(worker, future)
            except TargetError as error:
                errors[worker] = error
                workers.remove(worker)
                continue
            except KeyboardInterrupt as error:  # raised by a function that the worker called, not in this thread
                raise WorkerInterrupt(error) from None
            if found is not None:
                done = self._rounds[self._rounds_done(worker)]
                self._pace = done.end - done.begin, found.seconds
                done.slices[worker] = found


class WorkerInterrupt(Exception):
    """A `KeyboardInterrupt` that a function of a target raised, which is an error like others."""

    def __init__(self, error: KeyboardInterrupt) -> None:
        super().__init__()
        self.error = error


class Threads(Pool):
    """Threads of this process: compiled loops run on them at the same time.

    Parameters
    ----------
    interrupts : Interrupts
        Whether there was a Ctrl-C.
    threads : int, optional
        Number of threads; as many as cores by default.
    executor : ThreadPoolExecutor, optional
        Threads that the caller owns.
    """

    def __init__(
        self, interrupts: Interrupts, threads: int | None = None, executor: ThreadPoolExecutor | None = None
    ) -> None:
        super().__init__(interrupts)
        self._owned = executor is None
        self._executor = ThreadPoolExecutor(threads or available_cores()) if executor is None else executor
        self._threads: int = self._executor._max_workers
        self._states: dict[Worker, dict[int, State]] = {}  # of slow workers, by the number of sweeps

    def prepare(self, workers: Sequence[Worker], what: str) -> None:
        workers[0].compile(what)

    def close(self) -> None:
        if self._owned:
            self._executor.shutdown()

    def _room(self, workers: Sequence[Worker]) -> int:
        return self._threads + 1  # one more than can run, so that no thread has to wait

    def _seconds(self, workers: Sequence[Worker]) -> float:
        return max(_SHORTEST, min(_SLICE, _ROUND * self._threads / len(workers)))

    def _submit(self, orders: Sequence[Order]) -> dict[Worker, Future[Any]]:
        sweeps, took = self._pace
        if not sweeps or (sweeps == 1 and took > _SLOW):
            for worker, _, _ in orders:
                self._states.setdefault(worker, {})[worker.sweeps] = worker.state()
        return {
            worker: self._executor.submit(worker.advance, end - worker.sweeps, keep) for worker, end, keep in orders
        }

    def _collect(self, worker: Worker, future: Future[Any]) -> Slice:
        found: Slice = future.result()
        return found

    def _commit(self, workers: Sequence[Worker], level: int) -> None:
        for states in self._states.values():
            for sweeps in [sweeps for sweeps in states if sweeps < level]:
                del states[sweeps]

    def _stop_now(self, workers: Sequence[Worker], level: int) -> bool:
        """Put workers back to their last common states, if those were kept; else slices are short, and soon done."""
        for worker in [worker for worker, future in self._flying.items() if future.cancel()]:  # not begun yet
            del self._flying[worker]
        moved = [worker for worker in workers if worker in self._flying or self._rounds_done(worker)]
        if not all(level in self._states.get(worker, {}) for worker in moved):
            return False
        self._give_up()
        for worker in moved:
            worker.restore(self._states[worker][level])
        self._rounds, self._flying = [], {}
        return True

    def _give_up(self) -> None:
        for worker, future in self._flying.items():
            if not future.cancel():
                worker.stop()
        wait(self._flying.values())


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
