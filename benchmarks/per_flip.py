"""What an attempted flip costs, against a bare Metropolis loop over the same couplings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from problems import chain_job, dense, metropolis_job
from report import Figure, Task
from timing import Job, interleaved, median

import bouncy

TITLE = "Time per attempted flip / bare systematic-scan Metropolis loop"
NOTE = "The bare loop records nothing. Judged is a chain as bouncy.sample runs it: means recorded, no pairs."
HEADER = "model | sampler | recorded"

# Up to this dimension a row with all pairs recorded is added.
_PAIRS_UP_TO = 100


class Problem(NamedTuple):
    """A model by seed, and the goals of the samplers that have one."""

    label: str
    build: Callable[[int], bouncy.MRF]
    goals: dict[str, float]


_ANYWHERE = {"bps-exponential": 3.0, "gibbs": 1.2, "metropolis": 1.2}
PROBLEMS = (
    Problem("dense, d = 10", lambda seed: dense(10, seed), {**_ANYWHERE, "bps-gaussian": 1.8, "hmc": 2.5}),
    Problem("dense, d = 100", lambda seed: dense(100, seed), {**_ANYWHERE, "bps-gaussian": 1.3, "hmc": 1.6}),
    Problem("dense, d = 1000", lambda seed: dense(1000, seed), {**_ANYWHERE, "bps-gaussian": 1.3, "hmc": 1.6}),
    Problem("torus 64x64", lambda seed: bouncy.MRF.ising((64, 64), coupling=0.3), {**_ANYWHERE, "bps-gaussian": 1.5}),
)
SAMPLERS = ("bps-gaussian", "bps-exponential", "hmc", "hmc-exponential", "gibbs", "metropolis")


def tasks(quick: bool) -> list[Task]:
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    """Time several models, each in arrays of its own: where fields lie in memory changes a time by a tenth."""
    models, rounds, hits = (4, 2, 300_000) if quick else (9, 3, 1_000_000)
    seconds = [interleaved(_jobs(problem.build(seed), hits, seed), rounds) for seed in range(models)]
    ratios = {name: np.concatenate([s[name] / s["bare"] for s in seconds]) for name in seconds[0] if name != "bare"}
    return [_figure(problem, name, values) for name, values in ratios.items()]


def _jobs(target: bouncy.MRF, hits: int, seed: int) -> dict[str, Job]:
    jobs = {"bare": metropolis_job(target, hits, seed=seed)}
    for sampler in SAMPLERS:
        jobs[f"{sampler} means"] = chain_job(target, sampler, hits, seed=seed)
        if target.d <= _PAIRS_UP_TO:
            jobs[f"{sampler} pairs"] = chain_job(target, sampler, hits, pairs=True, seed=seed)
    return jobs


def _figure(problem: Problem, name: str, ratios: NDArray[np.float64]) -> Figure:
    sampler, recorded = name.split()
    return Figure(
        f"{problem.label} | {sampler} | {'means' if recorded == 'means' else 'means, all pairs'}",
        median(ratios),
        problem.goals.get(sampler) if recorded == "means" else None,
        "at most",
        details={"model": problem.label, "sampler": sampler, "recorded": recorded},
    )
