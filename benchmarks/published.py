"""How much faster than the algorithm as published, compiled by numba: O(d) hit times, O(d^2) per attempted flip."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
from problems import CLOCKS, chain_job, dense, new_worker
from report import Figure, Task
from timing import Job, cpu_seconds, interleaved, median

import bouncy
from bouncy._random import new_state

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from helpers.literal import CROSSED, REFUSED, advance_compiled, new_particle

TITLE = "Speed per attempted flip / the paper's algorithm, literally, compiled"
NOTE = "Dense models. The literal sampler computes all hit times at each event and log p in full at each wall."
HEADER = "model | clock"

GOALS = {10: 8.0, 100: 80.0, 1000: 1000.0}


def tasks(quick: bool) -> list[Task]:
    return [Task(f"{clock}, d = {d}", partial(_measure, clock, d, quick)) for d in GOALS for clock in CLOCKS]


def _measure(clock: str, d: int, quick: bool) -> list[Figure]:
    models, rounds, hits, work = (3, 2, 200_000, 10_000_000) if quick else (5, 3, 1_000_000, 30_000_000)
    ratios = []
    for seed in range(models):
        target = dense(d, seed)
        jobs = {
            "literal": literal_job(target, clock, max(20, work // d**2)),
            "bouncy": chain_job(target, f"bps-{clock}", hits),
        }
        seconds = interleaved(jobs, rounds)
        ratios += list(seconds["literal"] / seconds["bouncy"])
    details = {"d": d, "clock": clock}
    return [Figure(f"dense, d = {d} | {clock}", median(ratios), GOALS[d], "at least", details=details)]


def literal_job(target: bouncy.MRF, clock: str, events: int) -> Job:
    """Return a job that runs the literal sampler for some events and returns CPU seconds per attempted flip."""
    s = new_worker(target, f"bps-{clock}").s
    particle = new_particle(target.M, target.r, clock, clock_state=new_state(np.random.SeedSequence(0)))
    particle.y[:] = s * np.abs(particle.y)
    particle.v[:] = s * particle.v
    particle.s[:] = s
    kinds, times, sites = np.empty(events, np.int8), np.empty(events), np.empty(events, np.int32)

    def block() -> float:
        seconds = cpu_seconds(lambda: advance_compiled(particle, np.inf, kinds, times, sites))
        return seconds / int(np.isin(kinds, (CROSSED, REFUSED)).sum())

    return block
