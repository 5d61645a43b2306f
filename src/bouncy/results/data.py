"""Everything that a run is computed from: the same for a run in memory, in a file and in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.batches import Batch, Batches, batch_length
from bouncy.recorders.tracked import Tracked
from bouncy.results.moments import Sums
from bouncy.storage.rows import Rows
from bouncy.workers.contract import Keep, Plan, Slice, State, Worker

if TYPE_CHECKING:
    from bouncy.run.goal import Goal

# Stages of a run: two halves of the warm-up, of which the second shows how far states reach, and the recording.
RECORDING = 2


@dataclass(frozen=True)
class Setup:
    """What a run was asked to do.

    Attributes
    ----------
    target, sampler
        What to sample, and how.
    seed : int or SeedSequence
        Source of all randomness.
    thin : int
        Draws of the sampler from one kept draw to the next.
    keep : {"draws", "means", "path"}
        What is kept of the draws.
    pairs : {"all", "edges", "none"}
        Pairs whose means are recorded.
    slots : int
        Number of batches of a chain at which they are added up two by two.
    chooses_warmup : bool
        Whether the length of the warm-up is for the driver to choose.
    lanes : int
        Chains that share a clock at most.
    choice : str
        Why this sampler, where it was chosen by a pilot.
    """

    target: Any
    sampler: Any
    seed: int | np.random.SeedSequence
    thin: int = 1
    keep: str = "draws"
    pairs: str = "none"
    slots: int = 8
    chooses_warmup: bool = False
    lanes: int = 1
    choice: str = ""

    @property
    def per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        stride: int = self.sampler.stride
        return self.thin * stride

    @property
    def is_tempered(self) -> bool:
        """Whether chains are ladders."""
        return hasattr(self.sampler, "ladder")

    @property
    def is_clustered(self) -> bool:
        """Whether chains flip clusters."""
        return hasattr(self.sampler, "finds_all_clusters")

    @property
    def rungs(self) -> int:
        """Rungs of a ladder; 0 where there is none, or it is not known yet."""
        return len(self.sampler.ladder or ()) if self.is_tempered else 0

    def rates(self) -> tuple[float | None, float | None]:
        """Return the expected hits and bounces per unit time of a path, None where they are not known."""
        if self.target.kind == "spins" or self.target.sampled is not self.target:
            return None, None
        known: tuple[float | None, float | None] = self.sampler.rates(self.target)
        return known

    def refusal_of_lanes(self) -> str | None:
        """Return why chains cannot share a clock, or None if they can."""
        if self.keep == "path":
            return "keep='path' is for chains with clocks of their own, whose flips come at times of their own"
        refusal: str | None = self.sampler.refusal_of_lanes(self.target)
        return refusal

    def new_workers(self, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]) -> list[Worker]:
        """Return workers for as many chains as there are seeds; None as a start leaves it to the target."""
        plan = Plan(self.per_draw, self.slots, self.pairs, self.lanes)
        workers: list[Worker] = self.target.workers(self.sampler, plan, seeds, starts)
        return workers


class Records:
    """What chains have recorded: closed batches, rows of draws, and the mean of a function that is followed.

    Attributes
    ----------
    batches : list of Batches
        Closed batches of each chain.
    rows : Rows
        What is kept of the draws.
    tracked : Tracked or None
        Means of a function of states.
    start : list of ndarray
        States in which the recording began, if the path is kept; else empty.
    """

    def __init__(self, batches: list[Batches], rows: Rows, tracked: Tracked | None, start: list[NDArray[Any]]) -> None:
        self.batches, self.rows, self.tracked, self.start = batches, rows, tracked, start

    def append(self, slices: Sequence[Slice]) -> None:
        """Add what all workers returned for the same sweeps."""
        rows = [part for found in slices for part in found.rows]
        closed = [part for found in slices for part in found.batches]
        for batches, own in zip(self.batches, closed, strict=True):
            for batch in own:
                batches.append(batch)
        keep: Keep = slices[0].keep
        if keep.what == "nothing":
            return
        if self.tracked is not None:
            self.tracked.append([part["draws"] for part in rows])
        self.rows.append(rows, keep.spacing)

    def shared(self) -> Records:
        """Return the same records, which grow independently."""
        tracked = None if self.tracked is None else self.tracked.shared()
        return Records([batches.copy() for batches in self.batches], self.rows.shared(), tracked, self.start)

    def only(self, places: Sequence[int], suffix: str) -> Records:
        """Return the records of some chains, with files of rows under another suffix."""
        return Records(
            [self.batches[k].copy() for k in places],
            self.rows.moved(self.rows.folder, suffix, places),
            None if self.tracked is None else self.tracked.shared(places),
            [self.start[k] for k in places] if self.start else [],
        )


@dataclass(frozen=True)
class Data:
    """A run at rest.

    Attributes
    ----------
    setup : Setup
        What was asked.
    goal : Goal
        Where it was to stop.
    stopped_by : str
        Why it did, or "nothing" if it is still going on.
    chains : tuple of int
        Indices of its chains; those whose target failed are missing.
    stage, warmup_sweeps, recordings : int
        How far it is: 0 and 1 in the halves of the warm-up, `RECORDING` afterwards; sweeps of warm-up; recordings that
        were begun so far.
    sweeps, begun : int
        Sweeps of each chain, warm-up included, and the sweep at which the recording began.
    cpu_seconds, warmup_seconds : float
        CPU time of all chains, and its part before the recording.
    sweep_time : float
        Length of a sweep.
    rates : tuple
        Expected hits and bounces per unit time, None where they are not known.
    records : Records
        Closed batches and rows.
    open, totals : list of dict
        Of each chain: sums over the open batch, and counts from the beginning of the recording on.
    constants : dict
        Arrays that describe the target as far as results need them.
    states : list of dict
        States of the workers, from which the run can be continued.
    checkpoint : Place or None
        Folder that the run was written to.
    origin : dict
        When and by which versions the run was made.
    """

    setup: Setup
    goal: Goal
    stopped_by: str
    chains: tuple[int, ...]
    stage: int
    warmup_sweeps: int
    recordings: int
    sweeps: int
    begun: int
    cpu_seconds: float
    warmup_seconds: float
    sweep_time: float
    rates: tuple[float | None, float | None]
    records: Records
    open: Sequence[Batch]
    totals: list[dict[str, NDArray[Any]]]
    constants: Mapping[str, NDArray[Any]]
    states: list[State]
    checkpoint: Place | None = None
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def recorded(self) -> int:
        """Sweeps that are recorded of each chain."""
        return self.sweeps - self.begun if self.stage == RECORDING else 0

    @property
    def drawn(self) -> int:
        """Draws of each chain."""
        return self.recorded // self.setup.per_draw

    def sums(self) -> Sums:
        """Return the batches of all chains."""
        length = batch_length(self.recorded, self.setup.slots)
        return Sums([batches.closed for batches in self.records.batches], self.open, self.recorded, length)


@dataclass(frozen=True)
class Place:
    """A checkpoint that a run was written to: its folder, the seconds between two writings, the last generation."""

    folder: Path
    every: float
    generation: int
