"""What the rate of refreshment of the bouncy particle buys on continuous targets, relative to the default."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import spike_slab
from continuous import Batches, autoregressive, equicorrelated, path_batches
from numpy.typing import NDArray
from report import Figure, Task
from timing import median

import bouncy

Array = NDArray[np.float64]

TITLE = "Refreshments of the bouncy particle, against the default"
NOTE = (
    "In units of the default, which is 0.1 per unit time, or about 0.31 sqrt(d) per sweep, and twice that in the "
    "metric of a covariance (orthants with equicorrelation). Squared error x CPU time of E[x_i], averaged over "
    "variables, and of E[sum_i x_i^2], integrals over the path; below 1 is better. From 16 batches of a run; median "
    "over runs."
)
HEADER = "model | estimate | refreshment"

TIMES = (0.1, 0.3, 1.0, 3.0, 10.0)
_BATCHES = 16
_WARMUP = 200


class Problem(NamedTuple):
    """A model, and how many sweeps make a batch."""

    label: str
    model: Callable[[], Any]
    sweeps: int


def _normal(d: int) -> bouncy.Gaussian:
    return bouncy.Gaussian(np.zeros(d), cov=1.0)


PROBLEMS = (
    Problem("N(0, I), d = 10", partial(_normal, 10), 4_000),
    Problem("N(0, I), d = 100", partial(_normal, 100), 400),
    Problem("orthant, d = 100, equicorrelation 0.5", partial(equicorrelated, 100, 0.5), 400),
    Problem("orthant, d = 1000, AR(1) 0.9, sparse", partial(autoregressive, 1000, 0.9), 40),
    Problem(f"SpikeSlab, {spike_slab.PROBLEMS[0].label}", partial(spike_slab.model, spike_slab.PROBLEMS[0]), 4_000),
)


def tasks(quick: bool) -> list[Task]:
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    repeats, share = (3, 4) if quick else (8, 1)
    target, sweeps = problem.model(), problem.sweeps // share
    _run(target, 1.0, 2, 0)  # compiles
    found: dict[float, list[Batches]] = {times: [] for times in TIMES}
    for seed in range(repeats):
        for times, several in found.items():
            several.append(_run(target, times, sweeps, seed))
    return [figure for estimate in READ for figure in _figures(problem, estimate, found)]


def _square(run: Any) -> Array:
    """Return E[sum_i x_i^2], (1,)."""
    square: Array = (run.path_variance + run.path_mean**2).sum(keepdims=True)
    return square


READ: dict[str, Callable[[Any], Array]] = {
    "E[x_i]": lambda run: run.path_mean,
    "E[sum x_i^2]": _square,
}


def _run(target: Any, times: float, sweeps: int, seed: int) -> Batches:
    """Sample with a multiple of the default refreshments."""
    default = target.refreshment_rate * bouncy.piecewise.BPS().sweep_time(target.d)
    sampler = bouncy.piecewise.BPS(refreshment=times * default)
    return path_batches(target, sampler, READ, sweeps, _BATCHES, seed=seed, warmup=_WARMUP)


def _figures(problem: Problem, estimate: str, found: dict[float, list[Batches]]) -> list[Figure]:
    costs = {times: np.array([batches.cost(estimate) for batches in several]) for times, several in found.items()}
    return [
        Figure(
            f"{problem.label} | {estimate} | {times:g}",
            median(costs[times] / costs[1.0]),
            details={"model": problem.label, "estimate": estimate, "refreshment": times},
        )
        for times in TIMES
    ]
