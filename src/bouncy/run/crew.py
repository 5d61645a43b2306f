"""Advancing several chains at once, in slices: by threads, or by whoever an executor sends them to.

A slice is short, so that the caller can show progress, stop, or write a checkpoint between two of them. Whenever
`Crew.advance` returns, all chains have made the same number of sweeps.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from bouncy.run.contract import AnyChain, Rows
from bouncy.targets.contract import TargetError

# Seconds that a slice in a thread may last, and that a round of all chains may.
_SLICE, _ROUND = 0.1, 0.4
_SHORTEST = 1e-3
# A sweep of so many seconds is slow: the chain is remembered before it, so that it need not be waited for.
_SLOW = 0.25
# Seconds that an interrupt waits for slices to end, and that a look at them takes.
_GRACE, _LOOK = 0.3, 0.05

Flying = dict[Future[Any], AnyChain]


class Slice(NamedTuple):
    """What comes back from a slice."""

    rows: Rows
    seconds: float  # that it took


class Watcher(ABC):
    """What a crew reports to while it works."""

    @abstractmethod
    def pause(self) -> bool:
        """Return whether to stop as soon as all chains are level."""

    @abstractmethod
    def urgent(self) -> bool:
        """Return whether to stop at once, even where that means to go back."""

    @abstractmethod
    def keep(self, chain: AnyChain, rows: Rows) -> None:
        """Take what a slice returned. The chain is at rest."""

    @abstractmethod
    def interrupt(self) -> None:
        """Note an interrupt, so that `urgent` tells of it; a second one is raised."""

    def slice_seconds(self) -> float:
        """Return how long a slice may last at most."""
        return float("inf")


def _no_limit() -> float:
    return float("inf")


class Crew(ABC):
    """Workers that advance chains.

    Attributes
    ----------
    errors : list of TargetError
        What targets of chains failed with while they were last advanced.
    """

    # Bytes of rows that a slice may return, and how many times longer than the last one it may be.
    _most_bytes, _growth = 1 << 25, 64

    def __init__(self) -> None:
        # Of each chain, by its number: sweeps and seconds of its last slice, sweeps of the one that is under way, and
        # where it was before. A chain that has not run yet is taken to be as fast as the last one that has.
        self._paces: dict[int, tuple[int, float]] = {}
        self._last_pace = 0, 0.0
        self._under_way: dict[int, int] = {}
        self._before: dict[int, dict[str, Any]] = {}
        self._news = threading.Event()  # some slice is done
        self._longest = _no_limit
        self.errors: list[TargetError] = []

    @abstractmethod
    def _choose(self, chains: Sequence[AnyChain], flying: Flying, end: int) -> list[tuple[AnyChain, int]]:
        """Return which chains to advance next, and by how many sweeps."""

    @abstractmethod
    def _submit(self, chain: AnyChain, sweeps: int) -> Future[Any]:
        """Have a chain advanced by someone."""

    @abstractmethod
    def _collect(self, chain: AnyChain, future: Future[Any]) -> Slice | None:
        """Return what a slice gave, with the chain where it led to, or None if it must be done again.

        Raises what it failed with.
        """

    @abstractmethod
    def _abandon(self, flying: Flying) -> None:
        """Put chains back to before their slices, which take too long; those that cannot be are left flying."""

    @abstractmethod
    def _give_up(self, flying: Flying) -> None:
        """End all slices after an error, and return when no chain moves any more."""

    @abstractmethod
    def begin(self, chain: AnyChain) -> None:
        """Get ready for chains that are all like this one."""

    @abstractmethod
    def close(self) -> None:
        """Let the workers go."""

    def advance(self, chains: Sequence[AnyChain], end: int, watcher: Watcher) -> list[TargetError]:
        """Advance chains until each has made `end` sweeps, or as many as the most advanced when the watcher says so.

        Returns what the targets of some chains failed with; they stay behind. Any other error is raised.
        """
        self.errors = list[TargetError]()
        work = Work(list(chains), watcher, self.errors, {})
        halted = False
        self._longest = watcher.slice_seconds
        try:
            while work.chains:
                try:
                    if watcher.urgent():
                        self._hurry(work)
                        break
                    if not halted:  # and some slices are made in any case: who always wants a pause gets on, too
                        halted = watcher.pause()
                    elif not work.flying:
                        end = min(end, work.most_advanced)
                    if not halted or not work.flying:
                        self._hand_out(work, end)
                    if not work.flying:
                        break
                    self._take_in(work, _LOOK)
                except KeyboardInterrupt:
                    watcher.interrupt()
        except BaseException:
            self._give_up(work.flying)
            raise
        finally:
            self._longest = _no_limit  # a run that nobody needs should not wait for the garbage collector
        return work.errors

    def _hand_out(self, work: Work, end: int) -> None:
        for chain, sweeps in self._choose(work.chains, work.flying, end):
            future = self._submit(chain, sweeps)
            work.flying[future] = chain
            self._under_way[chain.number] = sweeps
            future.add_done_callback(lambda _: self._news.set())

    def _take_in(self, work: Work, timeout: float) -> None:
        """Wait a moment for slices that are done, and hand over what they gave."""
        self._news.wait(timeout)
        self._news.clear()
        for future in self._done(work.flying):
            chain = work.flying.pop(future)
            try:
                result = self._collect(chain, future)
            except TargetError as error:
                work.errors.append(error)
                work.chains.remove(chain)
                continue
            except KeyboardInterrupt as error:  # of something that a chain called, and not of this thread
                raise ChainInterrupt(error) from None
            if result is not None:
                self._last_pace = self._paces[chain.number] = self._under_way[chain.number], result.seconds
                work.watcher.keep(chain, result.rows)

    def _done(self, flying: Flying) -> Iterator[Future[Any]]:
        """Yield the slices that are done."""
        yield from [future for future in flying if future.done()]

    def _hurry(self, work: Work) -> None:
        """End what is under way within moments, and have all chains level, by going back if need be."""
        for future in [future for future in work.flying if future.cancel()]:  # not begun yet
            del work.flying[future]
        deadline = time.perf_counter() + _GRACE
        while work.flying and (left := deadline - time.perf_counter()) > 0.0:
            self._take_in(work, left)
        self._abandon(work.flying)
        while work.flying:
            self._take_in(work, _LOOK)
        if not self.go_back(work.chains):
            self._catch_up(work)

    def go_back(self, chains: Sequence[AnyChain]) -> bool:
        """Put chains that are ahead back to where the others are, and return whether that was possible."""
        low = min((chain.sweeps for chain in chains), default=0)
        ahead = [chain for chain in chains if chain.sweeps > low]
        if any(chain.number not in self._before or self._before[chain.number]["sweeps"] != low for chain in ahead):
            return False
        for chain in ahead:
            chain.restore(self._before[chain.number])
        return True

    def _catch_up(self, work: Work) -> None:
        """Have all chains go as far as the most advanced."""
        end = work.most_advanced
        while work.flying or any(chain.sweeps < end for chain in work.chains):
            self._hand_out(work, end)
            self._take_in(work, _LOOK)

    def _sweeps(self, chain: AnyChain, seconds: float) -> int:
        """Return how many sweeps the next slice of a chain should have to last so many seconds."""
        sweeps, took = self._paces.get(chain.number, self._last_pace)
        if not sweeps:
            return 1
        wanted = sweeps * min(seconds, self._longest()) / max(took, 1e-7)
        size = chain.bytes_per_sweep()
        most = self._most_bytes / size if size else wanted
        return max(1, int(min(wanted, most, self._growth * sweeps)))

    def _is_slow(self, chain: AnyChain) -> bool:
        """Return whether one sweep of a chain may take long."""
        sweeps, took = self._paces.get(chain.number, self._last_pace)
        return not sweeps or (sweeps == 1 and took > _SLOW)


class ChainInterrupt(Exception):
    """An interrupt that was raised in a chain, by something that it called, and is an error like others."""

    def __init__(self, error: KeyboardInterrupt) -> None:
        super().__init__()
        self.error = error


class Work(NamedTuple):
    """What a crew has to do, and what is under way."""

    chains: list[AnyChain]
    watcher: Watcher
    errors: list[TargetError]
    flying: Flying

    @property
    def most_advanced(self) -> int:
        return max(chain.sweeps for chain in self.chains)


class Threads(Crew):
    """Threads of this process: compiled loops let them run at the same time.

    Chains that are behind come first, so that none is ahead of the others by much more than a slice.

    Parameters
    ----------
    workers : int, optional
        Number of threads; as many as cores by default.
    pool : ThreadPoolExecutor, optional
        Threads of someone else.
    """

    def __init__(self, workers: int | None = None, pool: ThreadPoolExecutor | None = None) -> None:
        super().__init__()
        self._own = pool is None
        self._pool = ThreadPoolExecutor(workers or available_cores()) if pool is None else pool
        self._workers: int = self._pool._max_workers

    def begin(self, chain: AnyChain) -> None:
        chain.compile()

    def close(self) -> None:
        if self._own:
            self._pool.shutdown()

    def _choose(self, chains: Sequence[AnyChain], flying: Flying, end: int) -> list[tuple[AnyChain, int]]:
        busy = {chain.number for chain in flying.values()}
        behind = [chain for chain in chains if chain.sweeps < end and chain.number not in busy]
        # One more than there are threads, which then need not wait for us.
        next_ones = heapq.nsmallest(self._workers + 1 - len(flying), behind, key=lambda chain: chain.sweeps)
        seconds = max(_SHORTEST, min(_SLICE, _ROUND * self._workers / len(chains)))
        return [(chain, min(self._sweeps(chain, seconds), end - chain.sweeps)) for chain in next_ones]

    def _submit(self, chain: AnyChain, sweeps: int) -> Future[Any]:
        self._before.pop(chain.number, None)
        if self._is_slow(chain):
            self._before[chain.number] = chain.state()
        return self._pool.submit(_advance, chain, sweeps)

    def _collect(self, chain: AnyChain, future: Future[Any]) -> Slice:
        result: Slice = future.result()
        return result

    def _abandon(self, flying: Flying) -> None:
        slow = {future: chain for future, chain in flying.items() if chain.number in self._before}
        for chain in slow.values():
            chain.stop()
        wait(slow)
        for future, chain in slow.items():
            del flying[future]
            chain.restore(self._before[chain.number])

    def _give_up(self, flying: Flying) -> None:
        for chain in flying.values():
            chain.stop()
        wait(flying)


def _advance(chain: AnyChain, sweeps: int) -> Slice:
    before = time.perf_counter()  # a target that waits for something takes time too
    rows = chain.gather(sweeps)
    return Slice(rows, time.perf_counter() - before)


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
