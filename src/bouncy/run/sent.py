"""Chains that are sent to other processes or machines, a slice at a time, through any `concurrent.futures` executor.

What is sent is the state of a chain, and what comes back is its next state and the rows that it gathered. All else, the
same for all chains and slices, is a template: a worker keeps it, and says so when it does not have it. Nothing that a
run depends on stays with a worker, so that any of them can do any slice, and one that dies costs its slice.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, NamedTuple

import numpy as np

from bouncy.run.contract import AnyChain, Rows
from bouncy.run.crew import Crew, Flying, Slice, Work
from bouncy.targets.contract import TargetError

# CPU seconds of a slice: long beside what it takes to send a chain. Between these bounds they are what has a round of
# all chains last this long, so that checkpoints and interrupts need not wait, nor lose more. With very many workers
# they are longer, so that there are no more than so many per second, which a process can lead.
_SHORTEST, _LONGEST, _ROUND, _PER_SECOND = 0.1, 2.0, 10.0, 100.0
# Bytes of rows that a round may return.
_ROUND_BYTES = 1 << 30
# Times that a slice is sent again when it does not come back, in a row.
_ATTEMPTS = 4
# Bytes of a template that is sent with every slice, and of templates that may be under way otherwise.
_SMALL, _UNDER_WAY = 1 << 14, 1 << 27
# Templates that each thread of a worker keeps, and bytes of all but the last of them.
_KEPT, _KEPT_BYTES = 4, 1 << 28

ExecutorOrMaker = Executor | Callable[[], Executor]


class WorkerError(RuntimeError):
    """The workers of an executor are gone.

    Attributes
    ----------
    run : Run or None
        What was finished before; its attribute `completed` is False.
    """

    run: Any = None


class Sent(Crew):
    """Workers of an executor.

    Chains go in rounds: all are sent to the same sweep. Those that are there before others are sent on to the end of
    the next round, so that no worker waits for the slowest, but what they find is taken in when the others have
    arrived. So no chain is ahead by more than one slice, behind which it can go back.

    Parameters
    ----------
    executor : Executor or callable
        Who does the work, or a function that returns an executor: then a broken one is replaced.
    """

    def __init__(self, executor: ExecutorOrMaker) -> None:
        super().__init__()
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._owners: dict[Future[Any], Executor] = {}
        self._failures: dict[int, int] = {}
        self._broken: BaseException | None = None  # what ended the executor
        self._hopeless: BaseException | None = None  # why there is no point in going on
        self._left_behind = False  # slices whose end nobody waits for
        self._template, self._digest = b"", b""
        self._with_template: set[Future[Any]] = set()
        self._known = False  # some worker has had the template
        self._wanting: set[int] = set()  # chains that met a worker without it
        self._round = _Round()

    def close(self) -> None:
        if self._make is not None:
            self._executor.shutdown(wait=not self._left_behind)

    def begin(self, chain: AnyChain) -> None:
        """Take a chain as the template for all: they differ in their states alone."""
        self._template = _pickled(chain)
        self._digest = hashlib.blake2b(self._template, digest_size=16).digest()

    # Rounds

    def _choose(self, chains: Sequence[AnyChain], flying: Flying, end: int) -> list[tuple[AnyChain, int]]:
        if self._hopeless is not None:
            raise _given_up(self._hopeless)
        if len(flying) == len(chains):
            return []
        self._plan(chains, flying, end)
        busy = {chain.number for chain in flying.values()}
        idle = [chain for chain in chains if chain.number not in busy and chain.sweeps < self._stop(chain, chains, end)]
        return [(chain, self._stop(chain, chains, end) - chain.sweeps) for chain in self._served(idle)]

    def _plan(self, chains: Sequence[AnyChain], flying: Flying, end: int) -> None:
        """Begin the next round when all chains have made the last one."""
        low, high = min(chain.sweeps for chain in chains), max(chain.sweeps for chain in chains)
        this = self._round
        if not flying:
            self._round = this.next(high if low < high else self._after(low, chains, end))
        elif low >= this.end:
            self._round = this.next(this.next_end)
        self._round.behind = {chain.number for chain in chains if chain.sweeps < self._round.end}

    def _stop(self, chain: AnyChain, chains: Sequence[AnyChain], end: int) -> int:
        """Return the sweep to send a chain to."""
        this = self._round
        if chain.sweeps < this.end:
            return this.end
        if not this.next_end:
            this.next_end = self._after(this.end, chains, end)
        return this.next_end

    def _after(self, begin: int, chains: Sequence[AnyChain], end: int) -> int:
        """Return where a round ends that begins at a sweep."""
        self._most_bytes = min(type(self)._most_bytes, _ROUND_BYTES // len(chains))
        workers = self._round.workers
        seconds = max(min(max(_ROUND * workers / len(chains), _SHORTEST), _LONGEST), workers / _PER_SECOND)
        return min(end, begin + min(self._sweeps(chain, seconds) for chain in chains))

    def _done(self, flying: Flying) -> Iterator[Future[Any]]:
        """Yield the slices that are done, without those of chains that are ahead while others are behind."""
        for future in sorted(super()._done(flying), key=lambda future: flying[future].sweeps):
            if flying[future].sweeps < self._round.end or not self._round.behind:
                yield future

    def _take_in(self, work: Work, timeout: float) -> None:
        super()._take_in(work, timeout)
        ahead = (future.done() and chain.sweeps >= self._round.end for future, chain in work.flying.items())
        if self._round.behind and all(ahead):  # who is behind has to be sent again, and may wait for these
            self._abandon(work.flying)

    def _hurry(self, work: Work) -> None:
        """Have all chains level at once; a worker that an interrupt has reached too is no error."""
        self._abandon(work.flying)
        self.go_back(work.chains)

    def _abandon(self, flying: Flying) -> None:
        self._left_behind |= any([not future.cancel() and not future.done() for future in flying])
        flying.clear()
        self._owners.clear()
        self._with_template.clear()

    def _give_up(self, flying: Flying) -> None:
        self._abandon(flying)

    # Templates

    def _served(self, chains: Sequence[AnyChain]) -> Iterator[AnyChain]:
        """Yield the chains that can be sent now: few with a large template, the others when it has arrived."""
        room = max(1, _UNDER_WAY // len(self._template)) - len(self._with_template)
        for chain in chains:
            if len(self._template) > _SMALL and self._needs_template(chain):
                room -= 1
                if room < 0:
                    continue
            yield chain

    def _needs_template(self, chain: AnyChain) -> bool:
        return len(self._template) <= _SMALL or not self._known or chain.number in self._wanting

    # Slices

    def _submit(self, chain: AnyChain, sweeps: int) -> Future[Any]:
        order = _Order(self._digest, chain.number, chain.keeps, chain.state(), sweeps)
        data = pickle.dumps(order, pickle.HIGHEST_PROTOCOL)
        for _ in range(_ATTEMPTS):
            if self._broken is not None:
                self._replace(self._broken)
            template = self._template if self._needs_template(chain) else b""
            try:
                future = _submitted(self._executor, data, template)
            except Exception as error:  # shut down, broken, closed
                self._broken = error
                continue
            self._owners[future] = self._executor
            if len(template) > _SMALL:
                self._with_template.add(future)
            return future
        assert self._broken is not None
        raise _given_up(self._broken)

    def _replace(self, error: BaseException) -> None:
        """Get another executor, or raise where nobody can make one."""
        if self._make is None:
            raise _given_up(error)
        self._executor.shutdown(wait=False)
        self._executor, self._broken, self._known = self._make(), None, False

    def _collect(self, chain: AnyChain, future: Future[Any]) -> Slice | None:
        owner = self._owners.pop(future)
        brought = future in self._with_template
        self._with_template.discard(future)
        answer = _answer(future)
        if isinstance(answer, BaseException):
            self._fail(chain, answer, owner)
            return None
        self._failures.pop(chain.number, None)
        if not answer.knows:
            self._wanting.add(chain.number)
            return None
        if brought:  # to a worker that others may now meet
            self._known = True
            self._wanting.clear()
        self._round.behind.discard(chain.number)
        if answer.error is not None:
            raise _error_of(*answer.error)
        self._before[chain.number] = chain.state()
        chain.restore(answer.state)
        self._round.cpu += answer.seconds
        return Slice(_unpacked(answer.rows, chain), answer.seconds)

    def _fail(self, chain: AnyChain, error: BaseException, owner: Executor) -> None:
        """Note that a slice did not come back."""
        self._failures[chain.number] = self._failures.get(chain.number, 0) + 1
        if isinstance(error, BrokenExecutor) and owner is self._executor:
            self._broken = error
        if self._failures[chain.number] >= _ATTEMPTS:
            self._hopeless = error


def _given_up(error: BaseException) -> WorkerError:
    failure = WorkerError(
        f"the executor does not work any more ({type(error).__name__}: {error}). What was finished is in the attribute "
        "`run` of this error, and in the checkpoint if there is one. Pass a function that returns an executor to have "
        "a broken one replaced"
    )
    failure.__cause__ = error
    return failure


class _Round:
    """A round of all chains.

    Attributes
    ----------
    end, next_end : int
        The sweep at which it ends, and the next one; 0 where that is not known yet.
    behind : set of int
        Chains that are not there yet.
    cpu : float
        CPU seconds of all slices that were taken in.
    workers : float
        How many slices there were at the same time, in the round before.
    """

    def __init__(self, end: int = 0, workers: float = 1.0) -> None:
        self.end, self.next_end, self.workers = end, 0, workers
        self.behind: set[int] = set()
        self.cpu, self._began = 0.0, time.perf_counter()

    def next(self, end: int) -> _Round:
        """Return the next round."""
        spent = time.perf_counter() - self._began
        return _Round(end, self.cpu / spent if self.cpu and spent else self.workers)


class _Order(NamedTuple):
    """What a worker is asked to do."""

    digest: bytes  # of the template
    number: int
    keeps: str
    state: dict[str, Any]
    sweeps: int


class _Answer(NamedTuple):
    """What comes back from a worker."""

    knows: bool  # the template
    rows: Rows
    seconds: float
    state: dict[str, Any]
    error: tuple[bytes, str] | None  # what the chain failed with, pickled and in words


def work(order: bytes, template: bytes) -> bytes:
    """Advance a chain, as a worker does; orders and answers are pickled, so that executors need not look into them."""
    return pickle.dumps(_done(_Order(*pickle.loads(order)), template), pickle.HIGHEST_PROTOCOL)


def _done(order: _Order, template: bytes) -> _Answer:
    try:
        chain = _chain_of(order.digest, template)
        if chain is None:
            return _Answer(False, {}, 0.0, {}, None)
        chain.number, chain.keeps = order.number, order.keeps
        chain.restore(order.state)
        before = chain.cpu_seconds
        rows = chain.gather(order.sweeps)
    except Exception as error:
        _chains().pop(order.digest, None)
        return _Answer(True, {}, 0.0, {}, _packed_error(error, order.number))
    return _Answer(True, _packed(rows), chain.cpu_seconds - before, chain.state(), None)


def _chain_of(digest: bytes, template: bytes) -> AnyChain | None:
    """Return a chain to be put into any state, with everything compiled, or None where there is no template for it."""
    chains = _chains()
    if digest in chains:
        chains[digest] = chains.pop(digest)  # behind those that were of use longer ago
    elif template:
        while chains and (len(chains) >= _KEPT or sum(size for _, size in chains.values()) > _KEPT_BYTES):
            del chains[next(iter(chains))]
        chain = _unpickled(template)
        chain.compile()
        chains[digest] = chain, len(template)
    else:
        return None
    return chains[digest][0]


_own = threading.local()


def _chains() -> dict[bytes, tuple[AnyChain, int]]:
    """Return the chains of this thread, with the sizes of their templates, by digest."""
    chains: dict[bytes, tuple[AnyChain, int]] = _own.__dict__.setdefault("chains", {})
    return chains


def _submitted(executor: Executor, order: bytes, template: bytes) -> Future[Any]:
    with warnings.catch_warnings():
        # Dask's, about what is sent once to each worker.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return executor.submit(work, order, template)


def _answer(future: Future[Any]) -> _Answer | BaseException:
    """Return what came back from a worker, or why nothing did."""
    try:
        error = future.exception()
    except CancelledError as cancelled:
        return cancelled
    return _Answer(*pickle.loads(future.result())) if error is None else error


def _pickler() -> Any:
    """Return what pickles functions by value, where the package for that is installed."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle


def _pickled(chain: AnyChain) -> bytes:
    """Return a chain as bytes that a worker can read."""
    try:
        data: bytes = _pickler().dumps(chain)
    except Exception as error:
        raise TypeError(
            f"the target cannot be sent to other processes: {error}. Its functions must not refer to locks, open "
            "files and the like; without the package cloudpickle they must be defined in a module"
        ) from error
    return data


def _unpickled(template: bytes) -> AnyChain:
    try:
        chain: AnyChain = pickle.loads(template)
    except ImportError as error:
        error.add_note(
            "A worker has no such module, but the target refers to it: install it there, or have its functions travel "
            "with the target by cloudpickle.register_pickle_by_value(module)"
        )
        raise
    return chain


def _packed_error(error: Exception, number: int) -> tuple[bytes, str]:
    """Return an error pickled, empty where it cannot be, and in words."""
    words = "".join(traceback.format_exception(error))
    if isinstance(error, TargetError):
        error.chain = number
    else:
        error.add_note(f"This happened to chain {number}, in a worker:\n{words}")
    try:
        return _pickler().dumps(error), words
    except Exception:
        return b"", words


def _error_of(pickled: bytes, words: str) -> Exception:
    """Return the error that a chain failed with."""
    try:
        error = pickle.loads(pickled)
    except Exception:
        return RuntimeError(f"a chain failed in a worker:\n{words}")
    return error if isinstance(error, Exception) else RuntimeError(words)


def _packed(rows: Rows) -> Rows:
    """Return rows with spins as bits, an eighth of the size."""
    draws = rows.get("draws")
    if draws is None or draws.dtype != np.int8:
        return rows
    return {**rows, "draws": np.packbits(draws > 0, axis=1)}


def _unpacked(rows: Rows, chain: AnyChain) -> Rows:
    like = chain.new_rows(0).get("draws")
    if like is None or like.dtype != np.int8:
        return rows
    bits = np.unpackbits(rows["draws"], axis=1, count=like.shape[1])
    return {**rows, "draws": 2 * bits.astype(np.int8) - 1}
