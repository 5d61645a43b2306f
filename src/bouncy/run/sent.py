"""Chains that are sent to other processes or machines, a slice at a time, through any `concurrent.futures` executor.

What is sent is a template, the same for all chains and slices, and the state of a chain; what comes back is its next
state and the rows that it gathered. Nothing stays with a worker, so that any of them can do any slice, and one that
dies costs its slice.
"""

from __future__ import annotations

import importlib
import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

import numpy as np

from bouncy.run.contract import AnyChain, Rows
from bouncy.run.crew import Crew, Flying, Slice
from bouncy.targets.contract import TargetError

# CPU seconds of a slice: long beside what it takes to send a chain.
_SLICE = 2.0
# Times that a slice is sent again when it does not come back.
_ATTEMPTS = 4

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

    All chains are sent at once and waited for, so that they are level again after each round.

    Parameters
    ----------
    executor : Executor or callable
        Who does the work, or a function that returns an executor: then a broken one is replaced.
    """

    def __init__(self, executor: ExecutorOrMaker) -> None:
        super().__init__()
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._template = b""
        self._broken: BaseException | None = None
        self._failures: dict[int, int] = {}

    def close(self) -> None:
        if self._make is not None:
            self._executor.shutdown()

    def begin(self, chain: AnyChain) -> None:
        """Take a chain as the template for all: they differ in their states alone."""
        self._template = _pickled(chain)

    def _choose(self, chains: Sequence[AnyChain], flying: Flying, end: int) -> list[tuple[AnyChain, int]]:
        if flying:
            return []
        low = min(chain.sweeps for chain in chains)
        end = min(end, low + min(self._sweeps(chain, _SLICE) for chain in chains))
        if low == end:  # some had to be done again
            end = max(chain.sweeps for chain in chains)
        return [(chain, end - chain.sweeps) for chain in chains if chain.sweeps < end]

    def _submit(self, chain: AnyChain, sweeps: int) -> Future[Any]:
        state = self._before[chain.number] = chain.state()
        arguments = self._template, chain.number, chain.keeps, state, sweeps
        if self._broken is None:
            try:
                return self._executor.submit(work, *arguments)
            except RuntimeError as error:  # shut down, or broken
                self._broken = error
        self._replace()
        return self._executor.submit(work, *arguments)

    def _replace(self) -> None:
        """Get another executor, or raise where nobody can make one."""
        if self._make is None:
            raise self._given_up(self._broken)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor, self._broken = self._make(), None

    def _given_up(self, error: BaseException | None) -> WorkerError:
        failure = WorkerError(
            f"the executor does not work any more ({type(error).__name__}: {error}). What was finished is in the "
            "attribute `run` of this error, and in the checkpoint if there is one. Pass a function that returns an "
            "executor to have a broken one replaced"
        )
        failure.__cause__ = error
        return failure

    def _collect(self, chain: AnyChain, future: Future[Any]) -> Slice | None:
        try:
            result: Slice = future.result()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # not of the chain, whose errors come back as results
            self._failures[chain.number] = self._failures.get(chain.number, 0) + 1
            if isinstance(error, BrokenExecutor):
                self._broken = error
            if self._failures[chain.number] >= _ATTEMPTS or (self._broken is not None and self._make is None):
                raise self._given_up(error) from error
            return None
        self._failures.pop(chain.number, None)
        if result.error is not None:
            raise result.error
        assert result.state is not None
        chain.restore(result.state)
        return result._replace(rows=_unpacked(result.rows, chain))

    def _abandon(self, flying: Flying) -> None:
        for future in flying:
            future.cancel()
        flying.clear()

    def _give_up(self, flying: Flying) -> None:
        self._abandon(flying)


def work(template: bytes, number: int, keeps: str, state: dict[str, Any], sweeps: int) -> Slice:
    """Advance a chain, as a worker does."""
    chain = _chain_of(template)
    chain.number, chain.keeps = number, keeps
    try:
        chain.restore(state)
        before = chain.cpu_seconds
        rows = chain.gather(sweeps)
    except Exception as error:
        if isinstance(error, TargetError):
            error.chain = number
        return Slice({}, 0.0, None, error)
    return Slice(_packed(rows), chain.cpu_seconds - before, chain.state())


def _chain_of(template: bytes) -> AnyChain:
    """Return a chain to be put into any state, with everything compiled. Each thread has its own."""
    if getattr(_last, "template", None) != template:
        _last.chain = pickle.loads(template)
        _last.template = template
        _last.chain.compile()
    chain: AnyChain = _last.chain
    return chain


_last = threading.local()


def _pickled(chain: AnyChain) -> bytes:
    """Return a chain as bytes that a worker can read; by value, where the package for that is installed."""
    try:
        pickler = importlib.import_module("cloudpickle")
    except ImportError:
        pickler = pickle
    try:
        data: bytes = pickler.dumps(chain)
    except Exception as error:
        raise TypeError(
            f"the target cannot be sent to other processes: {error}. Define its functions in a module, or install "
            "cloudpickle"
        ) from error
    return data


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
