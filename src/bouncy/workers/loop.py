"""A worker that runs one compiled loop, cut where batches end."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import check_bounds, check_range, named_state
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.batches import Batch, batch_length
from bouncy.recorders.contract import FLIPS
from bouncy.recorders.recorder import DRAWN, SINCE_DRAW, THIN
from bouncy.targets.contract import TargetError, raise_failure
from bouncy.workers.contract import Keep, Rows, Slice, State, Worker, check_like


class LoopWorker(Worker):
    """A worker whose loop is compiled.

    Attributes
    ----------
    recorder : NamedTuple
        Sums over the open batch, and room for draws.
    view : NamedTuple
        The target as the loop sees it.
    """

    recorder: Any
    view: Any
    # Last axes of the rows that the loop writes, where it carries several chains.
    _lanes: tuple[int, ...] = ()

    @abstractmethod
    def _run(self, sweeps: int) -> None:
        """Run the compiled loop for some sweeps, which end at the end of a batch or before."""

    @abstractmethod
    def _parts(self) -> dict[str, Any]:
        """Return the parts and arrays that change while the worker runs, by name."""

    @abstractmethod
    def _take_batches(self) -> list[Batch]:
        """Return the sums over the open batch of each chain, and begin a new one."""

    def compile(self, what: str = "nothing") -> None:
        for kept in {"nothing", what}:
            self._new_rows(Keep(kept), 0)
            self._run(0)

    def advance(self, sweeps: int, keep: Keep = Keep()) -> Slice:  # noqa: B008
        cpu, clock = time.thread_time(), time.perf_counter()
        flips = -self._open_flips
        rows = self._new_rows(keep, sweeps)
        batches: list[list[Batch]] = [[] for _ in range(self.chains)]
        end = self.sweeps + sweeps
        while self.sweeps < end:
            recorded = self.sweeps - self.begun
            length = batch_length(recorded, self.plan.slots)
            n = min(end - self.sweeps, length - recorded % length)
            self._run(n)
            self.sweeps += n
            if (recorded + n) % length == 0:
                flips += self._open_flips
                for closed, batch in zip(batches, self._take_batches(), strict=True):
                    closed.append(batch)
        flips += self._open_flips
        found = self._finished_rows(rows)
        cpu = time.thread_time() - cpu
        self.cpu_seconds += cpu
        return Slice(found, batches, flips.tolist(), keep, cpu, time.perf_counter() - clock)

    @property
    def _open_flips(self) -> NDArray[np.int64]:
        """Accepted flips of each chain in the open batch."""
        return np.atleast_1d(self.recorder.open_events[FLIPS])[: self.chains].astype(np.int64)

    def _raise_failure(self) -> None:
        try:
            raise_failure(self.view)
        except TargetError as error:
            error.chain = self.first
            raise

    def stop(self) -> None:
        if hasattr(self.view, "stop"):
            self.view.stop()

    def _new_rows(self, keep: Keep, sweeps: int) -> Rows:
        """Return room for the draws of the next sweeps, and let the recorder write into it."""
        tally, thin = self.recorder.tally, self.plan.per_draw * keep.spacing
        tally[DRAWN], tally[SINCE_DRAW], tally[THIN] = 0, (self.sweeps - self.begun) % thin, thin
        draws = int((tally[SINCE_DRAW] + sweeps) // thin)
        kept = self.empty_rows(keep.what)
        rows = {
            name: np.empty((draws if name in kept else 0, *like.shape[1:], *self._lanes), like.dtype)
            for name, like in self.empty_rows("draws").items()
            if name in self.recorder._fields
        }
        self.recorder = self.recorder._replace(**rows)
        return {name: array for name, array in rows.items() if name in kept}

    def _finished_rows(self, rows: Rows) -> list[Rows]:
        """Return the rows of each chain when a slice is done."""
        return [rows]

    # State

    def arrays(self) -> State:
        """Return all arrays that change while the worker runs, by name."""
        arrays: State = {}
        for name, part in self._parts().items():
            arrays |= {name: part} if isinstance(part, np.ndarray) else named_state(name, part)
        return arrays

    def state(self, copy: bool = True) -> State:
        arrays = self.arrays()
        return {name: array.copy() if copy else array for name, array in arrays.items()} | {
            "sweeps": np.array([self.sweeps, self.begun]),
            "cpu_seconds": np.array(self.cpu_seconds),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        arrays = self.arrays()
        check_like(state, {**arrays, "sweeps": np.zeros(2, np.int64), "cpu_seconds": np.array(0.0)})
        self._check(state)
        for name, array in arrays.items():
            array[...] = state[name]
        self.sweeps, self.begun = map(int, state["sweeps"])
        self.cpu_seconds = float(state["cpu_seconds"])

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Raise `ValueError` if a state holds numbers that it cannot have."""
        for name, part in self._parts().items():
            if isinstance(part, np.ndarray):
                check_range(name, state[name])
            elif name != "view":
                check_bounds(state, name, part)
        check_range("cpu_seconds", state["cpu_seconds"], 0.0)
        sweeps, begun = state["sweeps"]
        if not 0 <= begun <= sweeps <= MOST_EVENTS:
            raise ValueError(f"a worker has made {sweeps} sweeps, recorded from {begun} on")
