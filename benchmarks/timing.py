"""Timing on a machine that is never quiet: CPU time, interleaved, as ratios within a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Runs a block of work and returns CPU seconds for one unit of it.
Job = Callable[[], float]


class Median(NamedTuple):
    """A median with its quartiles."""

    value: float
    low: float
    high: float


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that this thread spends on a piece of work."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def interleaved(jobs: Mapping[str, Job], rounds: int) -> dict[str, NDArray[np.float64]]:
    """Run the jobs in turn, `rounds` times, and return what each returned, shape (rounds,).

    One round in advance compiles everything and fills the caches. Every round starts with another job, so that none
    always runs after the same one.
    """
    for job in jobs.values():
        job()
    names = list(jobs)
    seconds = {name: np.empty(rounds) for name in names}
    for k in range(rounds):
        for name in names[k % len(names) :] + names[: k % len(names)]:
            seconds[name][k] = jobs[name]()
    return seconds


def median(values: ArrayLike) -> Median:
    """Return the median and the quartiles."""
    low, middle, high = np.quantile(np.asarray(values, np.float64), [0.25, 0.5, 0.75])
    return Median(float(middle), float(low), float(high))
