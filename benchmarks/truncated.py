"""Effective samples per CPU second on truncated Gaussians, against a compiled coordinate Gibbs sampler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from conditionals import Orthant
from continuous import (
    Batches,
    Moments,
    autoregressive,
    autoregressive_moments,
    check_exact,
    equicorrelated,
    equicorrelated_moments,
    loop_batches,
    path_batches,
)
from peers.protocol import missing, started
from report import Figure, Task
from timing import median

import bouncy

TITLE = "Effective samples per CPU second on truncated Gaussians / those of a coordinate sweep with plain averages"
NOTE = (
    "Of the means E[x_i] on positive orthants. Effective samples are the variance of x_i over the squared error of its "
    "mean; squared errors are those of 16 batches around the exact mean, averaged over coordinates. Median over runs. "
    "The coordinate sweep is a bare compiled loop that draws each variable given the others. Where variables are "
    "independent, conditional means are exact, for which 1e6 stands. tmg-hmc is a package in Python with the "
    "trajectories of `hmc`; its averages are plain, as those of 'hmc, plain averages' are. `bps, conditional "
    "deviations` is the particle that moves in these where `bps` moves in the metric of the covariance."
)
HEADER = "model | sampler"

_BATCHES = 16
_WARMUP = 100
_GIBBS_WARMUP = 20_000
_RIVAL, _CONDITIONAL = "bare sweep", "bare sweep, conditional means"
_OURS = ("gibbs", "hmc", "bps")
_IN_DEVIATIONS = "bps, conditional deviations"
# A package in an environment of its own, what of ours is like it, and its draws in a batch by d.
_TMG, _PLAIN, _TMG_DRAWS = "tmg-hmc", "hmc, plain averages", {10: 400, 100: 40}
_HAS_TMG = missing("tmg") is None
# Ratio that stands for estimates without error.
_EXACT = 1e6
# Goals of the sampler that is best for a model.
_GOALS = {
    ("d = 10, equicorrelation 0", "gibbs"): 20.0,
    ("d = 100, equicorrelation 0", "gibbs"): 20.0,
    ("d = 10, equicorrelation 0.5", "hmc"): 2.0,
    ("d = 100, equicorrelation 0.5", "hmc"): 3.0,
    ("d = 500, equicorrelation 0.5", "hmc"): 8.0,
    ("d = 10, equicorrelation 0.9", "hmc"): 7.0,
    ("d = 100, equicorrelation 0.9", "hmc"): 60.0,
    ("d = 1000, AR(1) 0.5, sparse", "gibbs"): 2.0,
    ("d = 1000, AR(1) 0.9, sparse", "gibbs"): 2.0,
}


class Problem(NamedTuple):
    """A model, its exact moments, and for each sampler how many sweeps make a batch: a tenth of a CPU second or so."""

    label: str
    model: Callable[[], bouncy.TruncatedGaussian]
    moments: Callable[[], Moments]
    sweeps: dict[str, int]

    @property
    def independent(self) -> bool:
        """Whether conditional means are exact, so that there is nothing to estimate."""
        return self.label.endswith("equicorrelation 0")


def _equicorrelated(d: int, rho: float, gibbs: int, hmc: int, bps: int) -> Problem:
    label = f"d = {d}, equicorrelation {rho:g}"
    sweeps = {"gibbs": gibbs, "hmc": hmc, "bps": bps} | ({_TMG: _TMG_DRAWS[d]} if d in _TMG_DRAWS else {})
    return Problem(label, partial(equicorrelated, d, rho), partial(equicorrelated_moments, d, rho), sweeps)


def _autoregressive(d: int, rho: float, gibbs: int, hmc: int, bps: int) -> Problem:
    label = f"d = {d}, AR(1) {rho:g}, sparse"
    sweeps = {"gibbs": gibbs, "hmc": hmc, "bps": bps}
    return Problem(label, partial(autoregressive, d, rho), partial(autoregressive_moments, d, rho), sweeps)


PROBLEMS = (
    *(_equicorrelated(10, rho, 80_000, 20_000, 10_000) for rho in (0.0, 0.5, 0.9)),
    *(_equicorrelated(100, rho, 10_000, 3_000, 1_000) for rho in (0.0, 0.5, 0.9)),
    _equicorrelated(500, 0.5, 1_000, 300, 100),
    _autoregressive(1000, 0.5, 1_000, 40, 50),
    _autoregressive(1000, 0.9, 1_000, 60, 150),
)


def tasks(quick: bool) -> list[Task]:
    if not _HAS_TMG:
        print(f"truncated goes without tmg-hmc: {missing('tmg')}", file=sys.stderr)
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    repeats, share = (3, 4) if quick else (8, 1)
    sweeps = {name: max(2, count // share) for name, count in problem.sweeps.items()}
    target, exact = problem.model(), problem.moments()
    with ExitStack() as stack:
        samplers = _samplers(problem, target, stack)
        for sampler in samplers.values():  # compiles
            sampler(target, dict.fromkeys(sweeps, 2), 0)
        found: dict[str, list[Batches]] = {name: [] for name in samplers}
        for seed in range(repeats):
            for name, sampler in samplers.items():
                found[name].append(sampler(target, sweeps, seed))
    for name, several in found.items():
        if not (problem.independent and name in _OURS):
            check_exact(several, "mean", exact.mean, f"{problem.label}, {name}")
    costs = {name: [b.cost("mean", exact.variance, exact.mean) for b in several] for name, several in found.items()}
    return [_figure(problem, name, costs) for name in samplers if name != _RIVAL]


def _samplers(
    problem: Problem, target: bouncy.TruncatedGaussian, stack: ExitStack
) -> dict[str, Callable[[Any, dict[str, int], int], Batches]]:
    samplers: dict[str, Callable[[Any, dict[str, int], int], Batches]] = {_RIVAL: partial(_gibbs, False)}
    if not problem.independent:
        samplers[_CONDITIONAL] = partial(_gibbs, True)
        if _HAS_TMG and _TMG in problem.sweeps:
            covariance = np.linalg.inv(target.potential.coupling)
            samplers[_TMG] = partial(_tmg, stack.enter_context(started("tmg", "tmg_peer.py", covariance=covariance)))
            samplers[_PLAIN] = partial(_ours, "hmc", "path_mean")
    samplers |= {name: partial(_ours, name, "mean") for name in _OURS}
    return samplers | ({_IN_DEVIATIONS: _in_deviations} if target.moves_in_covariance else {})


class _InDeviations(bouncy.TruncatedGaussian):
    """A target whose particle moves in conditional deviations, however long its axes are."""

    moves_in_covariance = False


def _in_deviations(target: bouncy.TruncatedGaussian, sweeps: dict[str, int], seed: int) -> Batches:
    same = _InDeviations(target.mean, cov=target.covariance, lower=target.lower, upper=target.upper)
    return _ours("bps", "mean", same, sweeps, seed)


def _warm(target: bouncy.TruncatedGaussian, seed: int, conditional: bool = False) -> Orthant:
    """Return a Gibbs sampler that has forgotten its start."""
    gibbs = Orthant(target.potential.coupling, seed, conditional)
    gibbs.average(max(200, _GIBBS_WARMUP * 10 // target.d))
    return gibbs


def _gibbs(conditional: bool, target: bouncy.TruncatedGaussian, sweeps: dict[str, int], seed: int) -> Batches:
    gibbs = _warm(target, seed, conditional)
    return loop_batches(lambda n: {"mean": gibbs.average(n)}, sweeps["gibbs"], _BATCHES)


def _ours(name: str, mean: str, target: bouncy.TruncatedGaussian, sweeps: dict[str, int], seed: int) -> Batches:
    start = _warm(target, seed).x
    read = {"mean": attrgetter(mean)}
    return path_batches(target, name, read, sweeps[name], _BATCHES, seed=seed, initial=start, warmup=_WARMUP)


def _tmg(ask: Any, target: bouncy.TruncatedGaussian, sweeps: dict[str, int], seed: int) -> Batches:
    ask(draws=_WARMUP, seed=seed, start=_warm(target, seed).x)
    answers = [ask(draws=sweeps[_TMG]) for _ in range(_BATCHES)]
    return Batches({"mean": np.array([one["mean"] for one in answers])}, sum(one["seconds"] for one in answers))


def _figure(problem: Problem, name: str, costs: dict[str, list[float]]) -> Figure:
    ratios = [rival / max(own, rival / _EXACT) for rival, own in zip(costs[_RIVAL], costs[name], strict=True)]
    details = {
        "model": problem.label,
        "sampler": name,
        "effective_samples_per_cpu_second": min(median([1.0 / cost for cost in costs[name]]).value, 1e15),
        "of_rival": median([1.0 / cost for cost in costs[_RIVAL]]).value,
    }
    goal = _GOALS.get((problem.label, name))
    return Figure(f"{problem.label} | {name}", median(ratios), goal, sense="at least", details=details)
