"""A worker without a chain, for tests of pools: it counts sweeps, waits, and fails where it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Keep, Plan, Slice, Worker

# What fakes do in a sweep, by their index; a fake that is pickled finds it here.
ACTIONS: dict[int, Callable[[FakeWorker], None]] = {}


class FakeWorker(Worker):
    """A worker whose rows are the numbers of its sweeps."""

    mean_per_sweep = 1.0

    def __init__(self, first: int) -> None:
        super().__init__(first, Plan(), 1.0)
        self.slices = 0  # that it has finished
        self.stopped = False

    @property
    def x(self) -> Any:
        return np.full((1, 1), self.sweeps)

    def compile(self, what: str = "nothing") -> None:
        pass

    def advance(self, sweeps: int, keep: Keep = Keep()) -> Slice:  # noqa: B008
        clock, begin = time.perf_counter(), self.sweeps
        for _ in range(sweeps):
            ACTIONS.get(self.first, lambda worker: None)(self)
            if self.stopped:
                raise TargetError("it was stopped", "none", None, np.ones(1, np.int8))
            self.sweeps += 1
        self.slices += 1
        rows = {"log_prob": np.arange(begin + 1.0, self.sweeps + 1.0)}
        return Slice([rows], [[]], [0], keep, 0.0, time.perf_counter() - clock)

    def stop(self) -> None:
        self.stopped = True

    def empty_rows(self, what: str) -> Any:
        return {"log_prob": np.empty(0), "draws": np.empty((0, 1))}

    def bytes_per_sweep(self, keep: Keep) -> float:
        return 0.0

    def open_sums(self) -> Any:
        return [{}]

    def mean_weight(self, batch, sweeps):
        return 1.0

    def totals(self) -> Any:
        return [{}]

    @classmethod
    def record_anew(cls, workers: Sequence[FakeWorker]) -> None:
        pass

    def state(self) -> Any:
        return {"sweeps": np.array(self.sweeps)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.sweeps, self.stopped = int(state["sweeps"]), False


def fail_at(sweep: int) -> Callable[[FakeWorker], None]:
    """Return an action that fails in a sweep."""

    def action(worker: FakeWorker) -> None:
        if worker.sweeps == sweep:
            error = TargetError(f"failed in sweep {sweep}", "none", None, np.ones(1, np.int8))
            error.chain = worker.first
            raise error

    return action


def wait_at(sweep: int, gate: threading.Event, seconds: float = 30.0) -> Callable[[FakeWorker], None]:
    """Return an action that waits in a sweep, until a gate opens or the worker is stopped."""

    def action(worker: FakeWorker) -> None:
        end = time.perf_counter() + seconds
        while worker.sweeps == sweep and not gate.is_set() and not worker.stopped and time.perf_counter() < end:
            time.sleep(0.002)

    return action
