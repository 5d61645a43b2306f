"""Estimates of the least that a run takes, made before it starts: memory of its workers, bytes of its draws, time.

All are optimistic, so that what is refused could not have worked. What a machine does not report is not checked.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bouncy._memory import memory_left
from bouncy.piecewise.recorder import BINS
from bouncy.results.data import Setup
from bouncy.results.describe import counted
from bouncy.run.goal import Goal
from bouncy.storage.rows import MOST_POINTS, PER_SWEEP, RAGGED
from bouncy.workers.contract import row_bytes
from bouncy.workers.paths import path_rows
from bouncy.workers.spins import spin_rows

if TYPE_CHECKING:
    from bouncy.run.driver import Resources

# Objects and buffers of a chain of a single spin; measured: 27 kB, or 21 kB where it shares a clock.
_PER_WORKER = 20_480
# Numbers of 8 bytes that a worker has for each site at least, beside what is recorded.
_PER_SITE = 4
# Seconds of a sweep of a single spin and of an attempted flip, a third or less of what any sampler takes.
_PER_SWEEP, _PER_FLIP = 10e-9, 3e-9
# How many times faster chains are that share a clock, at most.
_FASTER = 5.0
# A longer run is taken for a mistake unless `seconds` says that it is none; and one that is worth a warning.
_LONGEST, _LONG = 100 * 86_400.0, 86_400.0
# Rows that there is one of per flip, which is anybody's guess, or per sweep.
_OTHER_ROWS = (*RAGGED, *PER_SWEEP)
# Share of the memory that workers may take without a warning.
_MUCH = 0.5


class LargeRunWarning(UserWarning):
    """A run will take days, or most of the memory."""


@dataclass(frozen=True)
class Estimate:
    """The least that a run takes.

    Attributes
    ----------
    workers, rows : float
        Bytes of all chains, and of what is kept of their draws.
    seconds : float
        By the clock, with all threads at work.
    memory, disk : int or None
        Bytes that are left, where that is known.
    """

    workers: float
    rows: float
    seconds: float
    memory: int | None
    disk: int | None

    @property
    def workers_fit(self) -> bool:
        return self.memory is None or self.workers <= self.memory

    @property
    def rows_fit(self) -> bool:
        """Rows are in memory or on disk, or partly in each."""
        if self.memory is None or self.disk is None:
            return True
        return self.rows <= max(self.memory - self.workers, 0.0) + self.disk

    @property
    def is_large(self) -> bool:
        return self.seconds > _LONG or (self.memory is not None and self.workers > _MUCH * self.memory)

    def __str__(self) -> str:
        parts = [_duration(self.seconds)] if self.seconds >= 1.0 else []
        parts.append(f"{_size(self.workers)} of memory for the chains{_left(self.memory)}")
        if self.rows:
            both = None if self.memory is None or self.disk is None else self.memory + self.disk
            parts.append(f"{_size(self.rows)} for their draws{_left(both, ' in memory and on disk')}")
        return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def estimate(
    setup: Setup, chains: int, goal: Goal, resources: Resources, folder: Path | None = None, drawn: int = 0
) -> Estimate:
    """Return the least that a run takes until it reaches its goal, after `drawn` draws that it has already.

    Where seconds or a standard error end it, nobody knows how many draws there will be, and workers alone count.
    `folder` is that of its checkpoint.
    """
    target, open_ended = setup.target, goal.seconds is not None or goal.until_se is not None
    draws = 0 if open_ended or goal.draws is None else max(goal.draws - drawn, 0)
    sweeps = draws * setup.per_draw
    rows = spin_rows if target.kind == "spins" else path_rows
    kept = min(draws, MOST_POINTS // 2) if setup.keep == "means" else draws
    per_draw = sum(row_bytes(like) for name, like in rows(target.d, setup.keep).items() if name not in _OTHER_ROWS)
    turns = 1.0 if resources.executor is not None else max(1.0, chains / (resources.threads or os.cpu_count() or 1))
    return Estimate(
        workers=chains * _worker_bytes(setup),
        rows=chains * (kept * per_draw + (4 * sweeps if setup.keep == "path" else 0)),
        seconds=sweeps * (_PER_SWEEP + target.d * _PER_FLIP) * turns / (_FASTER if setup.lanes > 1 else 1.0),
        memory=memory_left(),
        disk=_disk_left(Path(tempfile.gettempdir()) if folder is None else folder),
    )


def check_feasible(
    setup: Setup, chains: int, goal: Goal, resources: Resources, folder: Path | None = None, drawn: int = 0
) -> None:
    """Raise `ValueError` for a run that cannot work, and warn of one that is large, with an estimate of what it takes.

    The arguments are those of `estimate`.
    """
    found = estimate(setup, chains, goal, resources, folder, drawn)
    too_long, advice = found.seconds > _LONGEST, []
    if not found.workers_fit:
        fewer = "fewer chains or ladders" if setup.is_tempered and setup.sampler.ladders > 1 else "fewer chains"
        advice.append(fewer if setup.pairs == "none" else f"{fewer} or pairs='none'")
    if too_long or not found.rows_fit:
        advice.append("fewer draws, an end by seconds= or until_se=")
    if not found.rows_fit:
        advice.append("keep='means', or fewer draws with a larger thin=")
    asked = counted(chains, "chains")
    asked = asked if goal.draws is None else f"{counted(goal.draws, 'draws')} of {asked}"
    if advice:
        raise ValueError(f"{asked} take at least {found}, which is too much; ask for {', '.join(advice)}")
    if found.is_large:
        warnings.warn(
            f"{asked} take at least {found}", LargeRunWarning, stacklevel=4
        )  # the caller of sample, resume or extend


def _worker_bytes(setup: Setup) -> float:
    """Return the least memory of a chain: the worker, the open batch and the closed ones."""
    d: int = setup.target.d
    recorded = 2 * d if setup.target.kind == "spins" else (BINS + 4) * d
    if setup.pairs == "all":
        recorded += (2 if setup.target.kind == "spins" else 1) * d * d
    own = 8.0 * _PER_SITE * d if setup.lanes == 1 else d  # a byte for each spin
    if setup.is_tempered:
        own += setup.sampler.ladders * (setup.rungs + 8) * d  # and, of each ladder, means at b = 1
    return _PER_WORKER + own + 8.0 * (1 + setup.slots // 2) * recorded


def _disk_left(folder: Path) -> int | None:
    """Return the bytes that are free where a folder is, or is going to be."""
    for place in (folder, *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _left(size: int | None, where: str = "") -> str:
    return "" if size is None else f" ({_size(size)} left{where})"


def _size(size: float) -> str:
    """Return a number of bytes in a unit that makes it short."""
    step = min(max(int(math.log(max(size, 1.0), 1024)), 0), 4)
    return f"{_short(size / 1024**step)} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[step]}"


def _duration(seconds: float) -> str:
    """Return a time in a unit that makes it short."""
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{_short(seconds / length)} {unit}"
    return f"{seconds:.3g} seconds"


def _short(number: float) -> str:
    """Return three digits of a number, or all before the point."""
    return f"{number:,.0f}" if number >= 1000.0 else f"{number:.3g}"
