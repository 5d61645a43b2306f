"""Accuracy for evaluations and CPU time on densities of a user, against samplers of other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from continuous import Array, Batches, Moments, check_exact
from densities import Density, gaussian, logistic, student, wells
from density_samplers import PEERS, Result, Sampler, ours, peer, peers, random_walks
from jumps import simplex, step, threshold
from report import Figure, Task
from timing import median

TITLE = "Effective samples of bouncy.Density, per evaluation and per CPU second / those of other samplers"
NOTE = (
    "Of the coordinate that a sampler estimates worst: effective samples are its variance over the squared error of "
    "chains around the exact value. An evaluation is one of log p or of its gradient. Warm-up, adaptation and "
    "compilation are not counted. Errors are those of the mean of 16 chains, in standard deviations. Median over "
    "rounds."
)
HEADER = "density | against | estimate | per"

CHAINS = 16


class Problem(NamedTuple):
    """A density, the length of our chains in draws, and by label what the rivals are told."""

    density: Callable[[], Density]
    draws: int
    rivals: dict[str, dict[str, Any]]

    @property
    def jumps(self) -> bool:
        return _WALK in self.rivals


_NUTS, _EAGER, _BPS, _WALK = "NUTS", "NUTS, acceptance 0.4", "BPS of pdmp-jax", "random walk"


def _smooth(density: Callable[[], Density], draws: int, nuts: int, events: int, tmax: float, rate: float) -> Problem:
    bps = {"sampler": "bps", "draws": events, "grid_size": 3, "tmax": tmax, "refresh_rate": rate}
    return Problem(density, draws, {_NUTS: {"sampler": "nuts", "draws": nuts, "acceptance": 0.8}, _BPS: bps})


def _with_jumps(density: Callable[[], Density], draws: int, nuts: int, eager: int, steps: int) -> Problem:
    rivals = {
        _NUTS: {"sampler": "nuts", "draws": nuts, "acceptance": 0.8},
        _EAGER: {"sampler": "nuts", "draws": eager, "acceptance": 0.4},
        _WALK: {"draws": steps},
    }
    return Problem(density, draws, rivals)


# The grid and horizon of pdmp-jax are those with the fewest evaluations in pilot runs. It refreshes as often as bouncy
# does by default, 0.1 sqrt(d) times in the time of a standard deviation: less serves means, more serves variances. NUTS
# adapts to an acceptance of 0.8 by default, which no step size can give where jumps refuse more than that.
PROBLEMS = (
    _smooth(gaussian, 500, nuts=500, events=2500, tmax=0.3, rate=0.45),
    _smooth(logistic, 200, nuts=300, events=1000, tmax=0.1, rate=3.2),
    _smooth(student, 1000, nuts=1000, events=3000, tmax=0.9, rate=0.25),
    _smooth(wells, 2000, nuts=1000, events=3000, tmax=0.6, rate=0.1),
    _with_jumps(threshold, 2000, nuts=200, eager=1000, steps=50_000),
    _with_jumps(step, 500, nuts=200, eager=1000, steps=50_000),
    _with_jumps(simplex, 1000, nuts=1000, eager=1000, steps=50_000),
    _with_jumps(partial(simplex, 50), 500, nuts=500, eager=1000, steps=500_000),
)


def tasks(quick: bool) -> list[Task]:
    if not PEERS.exists():
        print(
            "density is left out: `make .venv-peer-blackjax/.ready` installs the samplers to compare with",
            file=sys.stderr,
        )
        return []
    problems = PROBLEMS[::3] if quick else PROBLEMS
    return [Task(problem.density().label, partial(_measure, problem, quick)) for problem in problems]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    rounds, share = (3, 4) if quick else (10, 1)
    density = problem.density()
    exact = density.moments()
    with peers(density) as ask:
        samplers = {"bouncy": ours(density, CHAINS, problem.draws // share)}
        for name, settings in problem.rivals.items():
            told = settings | {"chains": CHAINS, "draws": settings["draws"] // share}
            samplers[name] = random_walks(density, **told) if name == _WALK else peer(ask, **told)
        found = in_turn(samplers, rounds)
    for name, results in found.items():
        if not (problem.jumps and name in (_NUTS, _EAGER)):  # which may not get anywhere
            check(results, exact, f"{density.label}, {name}")
    figures = [figure for name in problem.rivals for figure in ratios(density, found, exact, "bouncy", name)]
    return figures + [_error(density, name, found[name], exact) for name in (_NUTS, _EAGER) if problem.jumps]


def in_turn(samplers: dict[str, Sampler], rounds: int) -> dict[str, list[Result]]:
    """Run the samplers in turn, after one round that compiles; every round starts with another one."""
    names = list(samplers)
    found: dict[str, list[Result]] = {name: [] for name in names}
    for k in range(rounds + 1):
        for name in names[k % len(names) :] + names[: k % len(names)]:
            found[name].append(samplers[name](k))
    return {name: results[1:] for name, results in found.items()}


def ratios(density: Density, found: dict[str, list[Result]], exact: Moments, ours: str, other: str) -> list[Figure]:
    """Return the effective samples of one of our samplers, divided by those of another one."""
    figures = []
    for estimate in ("mean", "variance"):
        for label, spent in (("evaluation", "evaluations"), ("CPU second", "seconds")):
            own, rival = (_costs(found[one], estimate, spent, exact) for one in (ours, other))
            what = f"{density.label} | {other} | {estimate} | {label}"
            details = {"density": density.label, "against": other, "estimate": estimate, "per": label}
            if estimate == "mean":
                details |= {"effective_samples": 1.0 / np.mean(own), "of_the_other": 1.0 / np.mean(rival)}
            figures.append(Figure(what, median(rival / own), sense="at least", details=details))
    return figures


def _costs(results: Sequence[Result], estimate: str, spent: str, exact: Moments) -> Array:
    """Return squared error x what was spent in each round, (rounds,), at the coordinate that is worst over all."""
    squares = np.array([np.square(one.errors(exact)[estimate]).mean(axis=0) for one in results]) / CHAINS
    return squares[:, np.argmax(squares.sum(axis=0))] * [getattr(one, spent) for one in results]


def _error(density: Density, name: str, results: Sequence[Result], exact: Moments) -> Figure:
    """Return the error of a sampler at the coordinate whose mean over all rounds has the largest."""
    errors = np.array([one.errors(exact)["mean"].mean(axis=0) for one in results])
    worst = int(np.argmax(np.abs(errors.mean(axis=0))))
    return Figure(f"{density.label} | {name} | (its error) | ", median(errors[:, worst]), unit="sd")


def check(results: Sequence[Result], exact: Moments, label: str) -> None:
    """Raise if means are further from the exact ones than their spread explains."""
    batches = [Batches({"mean": one.averages[:, 0]}, one.seconds) for one in results]
    check_exact(batches, "mean", exact.mean, label)
