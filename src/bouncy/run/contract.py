"""What a chain is to those who run it: something that advances by sweeps and can go back to where it was."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.recorder import CLOSED, DRAWN, SINCE_DRAW, THIN

Rows = dict[str, NDArray[Any]]


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
    mean_per_sweep : float
        What a sweep adds to what the sums for means are sums over: 1, or its time.
    recorder : NamedTuple
        What it keeps.
    keeps : {"nothing", "means", "draws", "path"}
        What `gather` returns: nothing, scalars of each draw, states too, or the flips in place of states.
    """

    recorder: Any
    sweep_time: float
    mean_per_sweep: float

    def __init__(self, number: int) -> None:
        self.number = number
        self.sweeps = 0
        self.cpu_seconds = 0.0
        self.keeps = "nothing"

    @abstractmethod
    def advance(self, sweeps: int) -> None:
        """Run for some sweeps. How a run is cut into calls leaves no trace in its results."""

    @abstractmethod
    def compile(self) -> None:
        """Have everything compiled, or loaded from the cache, before any time is taken."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that change while the chain runs, by name."""

    @abstractmethod
    def write_open_batch(self) -> None:
        """Write the sums of the open batch behind the closed ones, to be read; the chain can go on as it was."""

    @abstractmethod
    def new_rows(self, draws: int) -> Rows:
        """Return room for what is kept of so many draws, by name, each of shape (draws, ...); nothing for nothing.

        Those that the recorder has a field for are written by it.
        """

    def gather(self, sweeps: int) -> Rows:
        """Run for some sweeps, and return what is kept of the draws that fell into them, each of shape (draw, ...)."""
        tally = self.recorder.tally
        rows = self.new_rows(int((tally[SINCE_DRAW] + sweeps) // tally[THIN]))
        tally[DRAWN] = 0
        self._hand_out(rows)
        self.advance(sweeps)
        self._hand_out(self.new_rows(0))  # the recorder does not keep what others may drop
        return rows

    def _hand_out(self, rows: Rows) -> None:
        """Have the recorder write into these rows."""
        self.recorder = self.recorder._replace(**{k: row for k, row in rows.items() if k in self.recorder._fields})

    def draw_spacing(self, per_draw: int) -> int:
        """Return every how many draws one is taken, where they are so many sweeps apart."""
        return int(self.recorder.tally[THIN]) // per_draw

    def space_draws(self, per_draw: int, spacing: int, begun: int) -> None:
        """Take every so many-th draw alone from now on, of those that were counted from the sweep `begun` on."""
        tally = self.recorder.tally
        if tally[THIN] != per_draw * spacing:
            tally[THIN] = per_draw * spacing
            tally[SINCE_DRAW] = (self.sweeps - begun) % tally[THIN]

    def bytes_per_sweep(self) -> float:
        """Return the size of what `gather` returns for one sweep."""
        return sum(row.nbytes for row in self.new_rows(1).values()) / float(self.recorder.tally[THIN])

    def stop(self) -> None:  # noqa: B027  # most sweeps are short
        """Stop in the middle of a sweep if that may take long, after which the chain must be restored to go on."""

    def timed(self, before: float, sweeps: int) -> None:
        """Account for sweeps that were begun when the thread's clock said `before`."""
        self.cpu_seconds += time.thread_time() - before
        self.sweeps += sweeps

    def events(self) -> NDArray[np.int64]:
        """Return the numbers of hits, flips, bounces and refreshments since the recorder was new, shape (4,)."""
        closed = self.recorder.events[: self.recorder.tally[CLOSED]].sum(axis=0)
        totals: NDArray[np.int64] = np.rint(closed + self.recorder.open_events).astype(np.int64)
        return totals

    def state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of everything that the rest of the run depends on, by name."""
        copies = {name: array.copy() for name, array in self.arrays().items()}
        return copies | {"sweeps": np.array(self.sweeps), "cpu_seconds": np.array(self.cpu_seconds)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back, or ahead, to a state that was copied before, in place."""
        arrays = self.arrays()
        check_like(state, {**arrays, "sweeps": np.array(0), "cpu_seconds": np.array(0.0)})
        for name, array in arrays.items():
            array[...] = state[name]
        self.sweeps, self.cpu_seconds = int(state["sweeps"]), float(state["cpu_seconds"])


def check_like(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless two sets of arrays have the same names, shapes and dtypes."""
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())
        raise ValueError(f"{odd[0]!r} is {'missing' if odd[0] in expected else 'unknown'} in the state of a chain")
    for name, array in expected.items():
        if found[name].shape != array.shape or found[name].dtype != array.dtype:
            raise ValueError(
                f"{name!r} in the state of a chain is {found[name].dtype} of shape {found[name].shape}; expected "
                f"{array.dtype} of shape {array.shape}"
            )
