"""Samplers of spins and of continuous targets, and the entry that gives one a name.

To add a sampler of spins, add a file here with a subclass of `SpinSampler`; to add one of continuous targets, add a
file to `piecewise/samplers/` with a subclass of `PathSampler`. Samplers that flip clusters, and have no clock, are
subclasses of `ClusterSampler` (`_clusters.py`). A module-level `NAMED` lists the entries that users can
ask for by name; everything else (messages, the command line, plots, tests) reads them by `bouncy.samplers.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import config
from numpy.typing import NDArray

from bouncy._random import new_state
from bouncy._samplable import Samplable
from bouncy.clocks.contract import Clock
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.targets.contract import Target
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import HEAT_BATH
from bouncy.tolls.heat_bath import new_heat_bath
from bouncy.workers.contract import Plan, Worker
from bouncy.workers.spins import SpinWorker

if TYPE_CHECKING:
    from bouncy.piecewise.contract import PathTarget

Array = NDArray[np.float64]

# Shortest default warm-up, in sweeps; on continuous targets also in sweeps per sqrt(d).
_WARMUP = 200
_WARMUP_PER_ROOT = 10


class NotErgodicWarning(UserWarning):
    """The sampler as configured, or on this target, cannot reach every state."""


class Sampler(ABC):
    """A sampler with its settings, which never change. Subclass `SpinSampler` or `PathSampler` to write one."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables and plots."""

    @property
    def stride(self) -> int:
        """Sweeps from one draw to the next, unless a run is thinned further."""
        return 1

    @property
    def unit(self) -> str:
        """What lies between two draws, which `thin` and `warmup` count, in the plural: sweeps, or trajectories."""
        return "sweeps"

    @abstractmethod
    def accepts(self, target: Samplable[Any]) -> bool:
        """Return whether this sampler can sample a target."""

    @abstractmethod
    def sweep_time(self, d: int) -> float:
        """Return the length of a sweep in units of the sampler's time."""

    @abstractmethod
    def default_warmup(self, target: Samplable[Any], draws: int) -> int:
        """Return the default length of the warm-up before a number of draws, in the same unit as these."""

    def prepared(
        self, target: Samplable[Any], seed: np.random.SeedSequence, pairs: str = "none"
    ) -> tuple[Sampler, str]:
        """Return the sampler of a run, with all settings, and why it was chosen, if there was a choice.

        A pilot on the target may find settings, or another sampler, as a function of the seed. It records the same
        pairs as the run, so that loops are compiled once.
        """
        return self, ""

    @abstractmethod
    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        """Return workers that carry as many chains as there are seeds.

        `starts` holds a state, (d,), for each chain, or None for a state of the target's choice.
        """

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        """Return why chains on a target cannot share a clock, or None if they can."""
        return f"{type(target).__name__} is sampled by chains with clocks of their own"

    def remarks(self, hits: int, flips: int) -> list[str]:
        """Return warnings about a run with these numbers of wall hits (attempted flips) and crossings (flips)."""
        return []


class SpinSampler(Sampler):
    """A sampler of spins: a clock and a toll."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """Clock that decides when which site may flip."""

    @property
    def refreshment(self) -> float:
        """Expected refreshments per sweep."""
        return 0.0

    @property
    def lane_toll(self) -> float | None:
        """Rule by which lanes decide (`tolls/contract.py`), or None where a clock cannot be shared."""
        return None

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        if self.lane_toll is None:
            return f"the clock of {self.name} depends on what flips cost, so that no two chains can share one"
        if target.sampled is not target:
            return "a block of a scheme has another target in each chain"
        if not isinstance(target, Target) or target.lanes(1) is None:
            return f"{type(target).__name__} computes the cost of one state at a time (bouncy.MRF that of many)"
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return "there is no compiled code (NUMBA_DISABLE_JIT is set)"
        return None

    def new_clock(self, target: Target, state: NDArray[np.uint64]) -> Any:
        """Return the arrays of a clock that draws from the state of a generator.

        Of the target it may know what never changes: its size, and which sites may trade places.
        """
        return self.clock.start(target.d, self.refreshment / self.clock.sweep_time(target.d), state)

    def start(self, target: Target, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        """Return the arrays of a clock and of a toll for one chain, each with its own stream of random numbers."""
        clock_seed, toll_seed = seed.spawn(2)
        new_toll = new_heat_bath if self.lane_toll == HEAT_BATH else new_budget
        return self.new_clock(target, new_state(clock_seed)), new_toll(new_state(toll_seed))

    def refusal(self, target: Target) -> str | None:
        """Return why this sampler cannot sample a target of spins, or None if it can."""
        if target.constraint is None:
            return None
        return f"{self.name} flips one spin at a time, and no single flip leads from one allowed state to another"

    def event_rates(self, d: int, time: float) -> tuple[float | None, float | None, float]:
        """Return the expected hits and bounces per unit time, and the relative variance of the hit rate beyond batches.

        The last is that of a chain of some length, due to what changes only by refreshment. None is unknown.
        """
        sweeps = time / self.clock.sweep_time(d)
        slow = self.clock.slow_variance(d, self.refreshment * sweeps)
        return self.clock.hit_rate(d), self.clock.bounce_rate(d), slow

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, Target) and self.refusal(target) is None

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        if plan.lanes == 1:
            each = enumerate(zip(seeds, starts, strict=True))
            return [SpinWorker(target, self, plan, seed, start, k) for k, (seed, start) in each]
        from bouncy.workers.flock import new_flocks  # which few runs need

        return new_flocks(target, self, plan, seeds, starts)

    def sweep_time(self, d: int) -> float:
        """Return the time between two recordings of the conditional means, about d hits."""
        return self.clock.sweep_time(d)

    def default_warmup(self, target: Samplable[Any], draws: int) -> int:
        """Return what has 200 d expected attempts, or a quarter of the draws that follow if that is more."""
        share = self.sweep_time(target.d) / self.clock.sweep_time(target.d)
        sweeps = max(round(_WARMUP / share), draws * self.stride // 4)
        return -(-sweeps // self.stride)


class PathSampler(Sampler):
    """A sampler of continuous targets."""

    @abstractmethod
    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Any:
        """Return a motion for one chain that starts at the coordinates y, (d,), in the cells `row`, (d,)."""

    def retarget(self, motion: Any, target: PathTarget) -> Any:
        """Return the motion continued from the same place on a changed target with the same cells."""
        return motion

    def adapt(self, motions: Sequence[Any], scale: Array, stages: int) -> None:
        """Have motions go on with other lengths, (d,), with so many stages of the warm-up to come.

        Called in the warm-up of a target that does not know its scale, for the motion of each chain, and for all of
        them together at the end of a stage. They are settled afterwards.
        """
        for motion in motions:
            motion.scale[:] = scale
            motion.v[:] = 0.0  # to be drawn anew

    def records_expectations(self, target: Samplable[Any]) -> bool:
        """Return whether expectations of each variable of a target given the others are recorded."""
        return False

    @property
    def events(self) -> tuple[str, str]:
        """What a summary calls hits and flips, in the plural."""
        return "wall hits", "crossings"

    def rates(self, target: PathTarget) -> tuple[float | None, float | None]:
        """Return the expected wall hits and bounces per unit time on a target, None where they are unknown."""
        return None, None

    def accepts(self, target: Samplable[Any]) -> bool:
        from bouncy.piecewise.contract import PathTarget  # bouncy.piecewise imports its samplers, and they this

        return isinstance(target, PathTarget)

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        from bouncy.workers.paths import PathWorker  # which imports bouncy.piecewise, as above

        each = enumerate(zip(seeds, starts, strict=True))
        return [PathWorker(target, self, plan, seed, start, k) for k, (seed, start) in each]

    def sweep_time(self, d: int) -> float:
        """Return the time in which a particle on N(0, I) is expected to cross d medians, about pi sqrt(d)."""
        return GAUSSIAN.sweep_time(d)

    def default_warmup(self, target: Samplable[Any], draws: int) -> int:
        """Return 200, 10 sqrt(d), or a quarter of the draws that follow, whichever is most.

        What only refreshments change is forgotten after d of them, by default 3 sqrt(d) sweeps of "bps".
        """
        return max(_WARMUP, round(_WARMUP_PER_ROOT * sqrt(target.d)), draws // 4)


class Named(NamedTuple):
    """A sampler that users can ask for by its name.

    Attributes
    ----------
    sampler : Sampler
        The sampler with default settings.
    summary : str
        What it is and when to use it: its row in the table of samplers, in Markdown.
    colour : str
        Its colour in all plots, "#rrggbb".
    """

    sampler: Sampler
    summary: str
    colour: str

    @property
    def name(self) -> str:
        return self.sampler.name
