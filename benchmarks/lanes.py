"""What an attempted flip costs a chain that shares its clock, against a bare Metropolis loop on the same couplings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from problems import dense, flock_job, metropolis_job, regular_graph
from report import Figure, Task
from timing import interleaved, median

import bouncy

TITLE = "Time per attempted flip and chain, chains sharing a clock / bare systematic-scan Metropolis loop"
NOTE = "The bare loop moves one chain and records nothing. Means are conditional means and time averages, every sweep."
HEADER = "model | sampler | chains | recorded"

SAMPLERS = ("bps-gaussian", "bps-exponential", "metropolis", "gibbs")
# Goals are for these, with 64 chains.
_JUDGED = ("bps-gaussian", "metropolis")


class Problem(NamedTuple):
    """A model by seed, and its goals: with nothing recorded, and with means."""

    label: str
    build: Callable[[int], bouncy.MRF]
    goals: tuple[float, float]


def _torus(side: int, coupling: float) -> Problem:
    return Problem(
        f"torus {side}x{side}, {coupling}", lambda seed: bouncy.MRF.ising((side, side), coupling), (0.25, 0.4)
    )


PROBLEMS = (
    _torus(32, 0.3),
    _torus(32, 0.44),
    _torus(64, 0.3),
    _torus(64, 0.44),
    Problem("3-regular, d = 10^4", lambda seed: regular_graph(10_000, seed=seed), (0.35, 0.5)),
    Problem("3-regular, d = 10^5", lambda seed: regular_graph(100_000, seed=seed), (0.6, 0.8)),
    Problem("dense, d = 10", lambda seed: dense(10, seed), (0.35, 0.6)),
    Problem("dense, d = 100", lambda seed: dense(100, seed), (0.8, 0.9)),
    Problem("dense, d = 1000", lambda seed: dense(1000, seed), (0.5, 0.5)),
)


def tasks(quick: bool) -> list[Task]:
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    models, rounds, hits = (1, 3, 1_000_000) if quick else (3, 5, 4_000_000)
    kinds = [(sampler, chains, means) for sampler in SAMPLERS for chains in (32, 64) for means in (False, True)]
    ratios: dict[Any, list[float]] = {kind: [] for kind in kinds}
    for seed in range(models):
        target = problem.build(seed)
        jobs: dict[Any, Any] = {"bare": metropolis_job(target, min(hits, 1_000_000), seed=seed)}
        jobs |= {kind: flock_job(target, kind[0], kind[1], hits, means=kind[2], seed=seed) for kind in kinds}
        seconds = interleaved(jobs, rounds)
        for kind in kinds:
            ratios[kind].extend(seconds[kind] / seconds["bare"])
    return [_figure(problem, *kind, median(np.array(values))) for kind, values in ratios.items()]


def _figure(problem: Problem, sampler: str, chains: int, means: bool, ratio: float) -> Figure:
    return Figure(
        f"{problem.label} | {sampler} | {chains} | {'means' if means else 'nothing'}",
        ratio,
        problem.goals[means] if sampler in _JUDGED and chains == 64 else None,
        "at most",
        details={"model": problem.label, "sampler": sampler, "chains": chains, "means": means},
    )
