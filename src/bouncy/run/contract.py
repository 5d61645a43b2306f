"""What a chain is to those who run it: something that advances by sweeps and can go back to where it was."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.recorder import CLOSED


class AnyChain(ABC):
    """A chain of any sampler on any target.

    Attributes
    ----------
    number : int
        What the chain is called.
    sweeps : int
        Sweeps it has made, warm-up included.
    sweep_time : float
        Length of a sweep.
    cpu_seconds : float
        CPU time it has spent in compiled code.
    recorder : NamedTuple
        What it keeps.
    """

    recorder: Any
    sweep_time: float

    def __init__(self, number: int) -> None:
        self.number = number
        self.sweeps = 0
        self.cpu_seconds = 0.0

    @abstractmethod
    def advance(self, sweeps: int) -> None:
        """Run for some sweeps. How a run is cut into calls leaves no trace in its results."""

    @abstractmethod
    def compile(self) -> None:
        """Have everything compiled, or loaded from the cache, before any time is taken."""

    @abstractmethod
    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays that change while the chain runs."""

    @abstractmethod
    def write_open_batch(self) -> None:
        """Write the sums of the open batch behind the closed ones, to be read; the chain can go on as it was."""

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what is updated beside the target, by name: nothing, unless a chain knows better."""
        return {}

    def hand_parameters(self, traces: dict[str, NDArray[Any]]) -> None:  # noqa: B027  # most chains have none
        """Take the arrays, (draw, ...), into which parameters go."""

    def stop(self) -> None:  # noqa: B027  # most sweeps are short
        """Stop in the middle of a sweep if that may take long, after which the chain cannot go on."""

    def timed(self, before: float, sweeps: int) -> None:
        """Account for sweeps that were begun when the thread's clock said `before`."""
        self.cpu_seconds += time.thread_time() - before
        self.sweeps += sweeps

    def events(self) -> NDArray[np.int64]:
        """Return the numbers of hits, flips, bounces and refreshments since the recorder was new, shape (4,)."""
        closed = self.recorder.events[: self.recorder.tally[CLOSED]].sum(axis=0)
        totals: NDArray[np.int64] = np.rint(closed + self.recorder.open_events).astype(np.int64)
        return totals

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the rest of the run depends on."""
        arrays = [array.copy() for array in self.arrays()]
        return {"arrays": arrays, "cpu_seconds": self.cpu_seconds, "sweeps": self.sweeps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state that was copied before, in place."""
        for array, copy in zip(self.arrays(), state["arrays"], strict=True):
            array[...] = copy
        self.cpu_seconds, self.sweeps = state["cpu_seconds"], state["sweeps"]
