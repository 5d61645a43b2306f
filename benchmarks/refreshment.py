"""What the rate of refreshment costs and what it buys, relative to the default."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from problems import CLOCKS, chain_job, dense
from report import Figure, Task
from timing import interleaved, median

import bouncy
from bouncy.samplers.bps import DEFAULT_REFRESHMENT

TITLE = f"Rate of refreshment per sweep, against the default of {DEFAULT_REFRESHMENT:g}"
NOTE = "Time is per attempted flip. Error is mean squared error x CPU time of an estimator; below 1 is better."
HEADER = "figure | model | clock | refreshment"

RATES = (0.01, 0.05, 0.1, 0.3)
_THIN = 100


def tasks(quick: bool) -> list[Task]:
    times = [Task(f"time, {clock}", partial(_time, clock, quick)) for clock in CLOCKS]
    return [*times, *(Task(f"error, {clock}", partial(_error, clock, quick)) for clock in CLOCKS)]


def _rates() -> list[float]:
    return sorted({*RATES, DEFAULT_REFRESHMENT})


def _time(clock: str, quick: bool) -> list[Figure]:
    rounds, hits = (5, 100_000) if quick else (9, 1_000_000)
    models = {
        "dense, d = 10": dense(10),
        "dense, d = 100": dense(100),
        "torus 64x64": bouncy.MRF.ising((64, 64), coupling=0.3),
    }
    figures = []
    for label, target in models.items():
        jobs = {f"{rate:g}": chain_job(target, bouncy.BPS(clock, refreshment=rate), hits) for rate in _rates()}
        figures += _relative("time", label, clock, interleaved(jobs, rounds))
    return figures


def _error(clock: str, quick: bool) -> list[Figure]:
    """Estimate all pairs of the paper's model with d = 10, easy and not, where a fixed order of sites shows most."""
    models, sweeps = (5, 10_000) if quick else (40, 50_000)
    figures = []
    for sigma in (0.02, 0.2):
        merit = {f"{rate:g}": np.empty(models) for rate in _rates()}
        for model in range(models):
            target = bouncy.MRF.random(10, sigma, 0.1, seed=model)
            truth = bouncy.exact(target).pair_mean
            for rate in _rates():
                merit[f"{rate:g}"][model] = _merit(target, truth, clock, rate, sweeps, model)
        figures += _relative("error of pair_mean", f"d = 10, sigma_M = {sigma:g}", clock, merit)
    return figures


def _merit(target: bouncy.MRF, truth: NDArray[np.float64], clock: str, rate: float, sweeps: int, seed: int) -> float:
    run = bouncy.sample(
        target, bouncy.BPS(clock, refreshment=rate), chains=1, draws=sweeps // _THIN, thin=_THIN, seed=seed,
        keep="means", pairs="all", threads=1, progress=False,
    )  # fmt: skip
    return float(np.mean(np.square(run.pair_mean - truth)) * run.diagnostics["sampling_seconds"])


def _relative(what: str, label: str, clock: str, values: dict[str, NDArray[np.float64]]) -> list[Figure]:
    base = values[f"{DEFAULT_REFRESHMENT:g}"]
    return [
        Figure(
            f"{what} | {label} | {clock} | {rate}",
            median(value / base),
            details={"what": what, "model": label, "clock": clock, "refreshment": float(rate)},
        )
        for rate, value in values.items()
    ]
