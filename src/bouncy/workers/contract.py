"""What a worker is: state that advances by sweeps, and returns what it recorded of the chains that it carries.

A worker keeps no results. What falls into a slice of its run (draws, closed batches) is returned by `advance`, so that
a worker can be sent elsewhere, put back to an earlier state, or written to a file, and stays small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.batches import Batch

# What is kept of some draws of one chain, by name, each of shape (draw, ...).
Rows = dict[str, NDArray[Any]]
State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Plan:
    """What workers record.

    Attributes
    ----------
    per_draw : int
        Sweeps from one draw to the next.
    slots : int
        Number of batches, even, at which they are added up two by two.
    pairs : {"all", "edges", "none"}
        Pairs of sites whose means are recorded.
    lanes : int
        Chains that a worker carries at most.
    """

    per_draw: int = 1
    slots: int = 8
    pairs: str = "none"
    lanes: int = 1


def flocks_of(chains: int, lanes: int) -> list[range]:
    """Return the chains of each worker, where one carries so many at most: as few workers as can be, alike in size."""
    n = -(-chains // lanes)
    ends = [chains * k // n for k in range(n + 1)]
    return [range(*pair) for pair in pairwise(ends)]


class Keep(NamedTuple):
    """What a slice returns of the draws that fall into it.

    `what` is "nothing", "means" (scalars), "draws" (states too) or "path" (flips in place of states). Of the draws,
    every `spacing`-th is taken.
    """

    what: str = "nothing"
    spacing: int = 1


class Slice(NamedTuple):
    """What a worker recorded in a slice: for each chain its rows, the batches it closed, and its accepted flips."""

    rows: list[Rows]
    batches: list[list[Batch]]
    flips: list[int]
    keep: Keep
    cpu_seconds: float
    seconds: float  # by the clock: a target that waits for something takes time, too


class Worker(ABC):
    """One or more chains that advance together.

    Attributes
    ----------
    first : int
        Index of its first chain.
    chains : int
        Number of chains it carries.
    plan : Plan
        What is recorded.
    sweeps : int
        Sweeps it has made, warm-up included.
    begun : int
        Sweep at which the present recording began.
    cpu_seconds : float
        CPU time spent in sweeps.
    sweep_time : float
        Length of a sweep.
    """

    chains = 1

    def __init__(self, first: int, plan: Plan, sweep_time: float) -> None:
        self.first, self.plan, self.sweep_time = first, plan, sweep_time
        self.sweeps = self.begun = 0
        self.cpu_seconds = 0.0

    @property
    @abstractmethod
    def x(self) -> NDArray[Any]:
        """The present state of each chain, (chain, d), as a copy."""

    @abstractmethod
    def compile(self, what: str = "nothing") -> None:
        """Compile the loop for what is kept, or load it from the cache, before any time is taken."""

    @abstractmethod
    def advance(self, sweeps: int, keep: Keep = Keep()) -> Slice:  # noqa: B008
        """Run for some sweeps, and return what was recorded. How a run is cut into slices leaves no trace in it."""

    @abstractmethod
    def empty_rows(self, what: str) -> Rows:
        """Return an array without rows, (0, ...), for each name that there are rows of, given what is kept."""

    @abstractmethod
    def open_sums(self) -> list[Batch]:
        """Return the sums over the open batch of each chain."""

    @abstractmethod
    def mean_weight(self, batch: Batch, sweeps: int) -> float:
        """Return the weight of the sums called "mean" of a batch of some sweeps: how many they are of, or its time."""

    @abstractmethod
    def totals(self) -> list[dict[str, NDArray[Any]]]:
        """Return copies of what each chain counts from the beginning of the recording on, by name."""

    def constants(self) -> dict[str, NDArray[Any]]:
        """Return arrays that describe the target as far as results need them, by name."""
        return {}

    @classmethod
    @abstractmethod
    def record_anew(cls, workers: Sequence[Self]) -> None:
        """Make workers that are level forget what they recorded, and begin a recording."""

    @abstractmethod
    def state(self, copy: bool = True) -> State:
        """Return all that the rest of the run depends on, by name; `copy=False` is for a worker that has ended."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go to a state that was copied before, in place; raise `ValueError` if it cannot be one of this worker."""

    def stop(self) -> None:  # noqa: B027  # most sweeps are short
        """Stop in the middle of a sweep if that may take long; the worker must be restored before it can go on."""

    def bytes_per_sweep(self, keep: Keep) -> float:
        """Return the expected size of what a slice returns, per sweep."""
        rows = self.empty_rows(keep.what).values()
        return self.chains * sum(map(row_bytes, rows)) / (self.plan.per_draw * keep.spacing)


def row_bytes(like: NDArray[Any]) -> int:
    """Return the size of one row of an array."""
    return int(np.prod(like.shape[1:])) * like.dtype.itemsize


def joined(slices: Sequence[Slice]) -> Slice:
    """Return consecutive slices of one worker as one."""
    chains = range(len(slices[0].rows))
    return Slice(
        [{name: np.concatenate([part.rows[k][name] for part in slices]) for name in slices[0].rows[k]} for k in chains],
        [[batch for part in slices for batch in part.batches[k]] for k in chains],
        [sum(part.flips[k] for part in slices) for k in chains],
        slices[0].keep,
        sum(part.cpu_seconds for part in slices),
        sum(part.seconds for part in slices),
    )


def check_like(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> None:
    """Raise `ValueError` unless two sets of arrays have the same names, shapes and dtypes."""
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())
        raise ValueError(f"{odd[0]!r} is {'missing' if odd[0] in expected else 'unknown'} in the state of a worker")
    for name, array in expected.items():
        if found[name].shape != array.shape or found[name].dtype != array.dtype:
            raise ValueError(
                f"{name!r} in the state of a worker is {found[name].dtype} of shape {found[name].shape}; expected "
                f"{array.dtype} of shape {array.shape}"
            )
