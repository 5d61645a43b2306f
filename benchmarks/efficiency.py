"""Accuracy for the money: mean squared error times CPU time, against a compiled Gibbs sampler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import baselines
import numpy as np
from numpy.typing import NDArray
from report import Figure, Task
from timing import cpu_seconds, median

import bouncy
from bouncy.results.moments import means_recorded
from bouncy.samplers import as_sampler

TITLE = "Squared error x CPU time of a Gibbs sweep with plain averages / the same of bouncy"
NOTE = (
    "Median over models; errors of a model averaged over sites (pairs) and seeds. 64 chains share clocks if they can. "
    "Behind the best: what the default needs more than the best sampler in the same setting. Warm-ups are not counted, "
    'nor is the pilot of "auto"; solving the equations of control variates is.'
)
HEADER = "model | chains | sampler | estimator"

SAMPLERS = ("bps-gaussian", "bps-exponential", "hmc", "gibbs", "metropolis", "auto")

_RIVAL = "plain Gibbs"
_WARMUP = 500
_THIN = 100
# Chains, and sweeps of all of them together in those of the rival.
_CHAINS = {1: 1, 64: 8}
_DEFAULT = "bps-gaussian"


class Problem(NamedTuple):
    """An ensemble of models, what is estimated, and what `mean` or `pair_mean` of BPS should reach.

    `behind` is how much more than the best sampler the default may need with 64 chains.
    """

    d: int
    sigma_M: float
    sigma_r: float
    pairs: bool
    goal: float
    sweeps: int
    behind: float
    chains: int = 1

    @property
    def label(self) -> str:
        return f"d = {self.d}, sigma_M = {self.sigma_M:g}"


PROBLEMS = (
    Problem(100, 0.02, 0.0, False, 100.0, 10_000, 1.5),
    Problem(100, 0.05, 0.0, False, 10.0, 10_000, 1.5),
    Problem(100, 0.1, 0.0, False, 2.0, 10_000, 1.5),
    Problem(10, 0.02, 0.1, True, 50.0, 100_000, 2.2),
    Problem(10, 0.2, 0.1, True, 5.0, 100_000, 2.2),
)


class Outcome(NamedTuple):
    """Squared errors by name of the estimator, and CPU seconds."""

    errors: dict[str, float]
    seconds: float


def tasks(quick: bool) -> list[Task]:
    return [
        Task(f"{problem.label}, {chains} chains", partial(_measure, problem._replace(chains=chains), quick))
        for problem in PROBLEMS
        for chains in _CHAINS
    ]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    models, seeds = (10, 1) if quick else (20, 4)
    samplers: dict[str, Callable[[Any, Problem, int], Outcome]] = {_RIVAL: gibbs}
    samplers |= {name: partial(ours, name) for name in SAMPLERS}
    for sampler in samplers.values():  # compiles
        sampler(_model(problem, 0), problem._replace(sweeps=_THIN), 0)
    merits = [_on_model(problem, samplers, model, seeds) for model in range(models)]
    names = [name for name in merits[0] if name[0] != _RIVAL]
    figures = [_figure(problem, name, [merit[_RIVAL, "plain"] / merit[name] for merit in merits]) for name in names]
    if problem.chains > 1:
        main = "pair_mean" if problem.pairs else "mean"
        best = max(figure.median.value for figure in figures if figure.details["estimator"] == main)
        ratios = [best / (merit[_RIVAL, "plain"] / merit[_DEFAULT, main]) for merit in merits]
        figures.append(_figure(problem, (_DEFAULT, "behind the best"), ratios))
    return figures


def _model(problem: Problem, seed: int) -> bouncy.MRF:
    return bouncy.MRF.random(problem.d, problem.sigma_M, problem.sigma_r, seed=seed)


def _on_model(
    problem: Problem, samplers: dict[str, Callable[[Any, Problem, int], Outcome]], model: int, seeds: int
) -> dict[tuple[str, str], float]:
    """Return squared error times CPU seconds on one model, by sampler and estimator, both averaged over seeds."""
    target = _model(problem, model)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in samplers}
    for seed in range(seeds):
        for name, sampler in samplers.items():
            outcomes[name].append(sampler(target, problem, 1000 * model + seed))
    return {
        (name, estimator): float(
            np.mean([o.errors[estimator] for o in several]) * np.mean([o.seconds for o in several])
        )
        for name, several in outcomes.items()
        for estimator in several[0].errors
    }


def ours(name: str, target: bouncy.MRF, problem: Problem, seed: int) -> Outcome:
    """Sample as a user would."""
    stride = as_sampler(target, name).stride  # of HMC, a draw is a whole trajectory
    thin, warmup = max(1, round(_THIN / stride)), -(-_WARMUP // stride)
    sweeps = problem.sweeps * _CHAINS[problem.chains] // problem.chains
    run = bouncy.sample(
        target, name, chains=problem.chains, draws=max(1, sweeps // _THIN), thin=thin, warmup=warmup, seed=seed,
        keep="means", pairs="all" if problem.pairs else "none", threads=1, progress=False,
    )  # fmt: skip
    solving = cpu_seconds(lambda: run.mean)  # equations, for control variates
    if problem.pairs:
        estimates = {"pair_mean": run.pair_mean, "path_pair_mean": run.path_pair_mean}
    else:
        conditional = run._data.sums().mean(lambda batch: batch["mean"], means_recorded)
        estimates = {"mean": run.mean, "without controls": conditional, "path_mean": run.path_mean}
    errors = {name: squared_error(target, problem, value) for name, value in estimates.items()}
    return Outcome(errors, run.sampling_seconds + solving)


def gibbs(target: bouncy.MRF, problem: Problem, seed: int) -> Outcome:
    """Run the compiled Gibbs sampler, warm-up not counted."""
    spins = baselines.new_spins(target, seed)
    M = np.array(target.M)
    sums = np.zeros((target.d, target.d) if problem.pairs else target.d)
    loop = baselines.gibbs_pairs if problem.pairs else baselines.gibbs
    loop(M, spins.s, spins.h, spins.rng, np.zeros_like(sums), _WARMUP)
    seconds = cpu_seconds(lambda: loop(M, spins.s, spins.h, spins.rng, sums, problem.sweeps))
    return Outcome({"plain": squared_error(target, problem, sums / problem.sweeps)}, seconds)


def squared_error(target: bouncy.MRF, problem: Problem, estimate: Any) -> float:
    """Return the mean squared error over sites, or over pairs i < j."""
    if not problem.pairs:
        return float(np.mean(np.square(estimate)))  # E[s_i] = 0 by symmetry, as r = 0
    i, j = np.triu_indices(target.d, 1)
    truth: NDArray[np.float64] = bouncy.exact(target).pair_mean
    return float(np.mean(np.square((estimate - truth)[i, j])))


def _figure(problem: Problem, name: tuple[str, str], ratios: list[float]) -> Figure:
    sampler, estimator = name
    details = {"d": problem.d, "sigma_M": problem.sigma_M, "sampler": sampler, "estimator": estimator}
    details["chains"] = problem.chains
    what = f"{problem.label} | {problem.chains} | {sampler} | {estimator}"
    if estimator == "behind the best":
        return Figure(what, median(ratios), problem.behind, "at most", details=details)
    goal = problem.goal if sampler.startswith("bps") and estimator in ("mean", "pair_mean") else None
    return Figure(what, median(ratios), goal, "at least", details=details)
