"""Accuracy of the sampler "metropolis" on densities with jumps, beside "bps" and a bare random walk."""

from __future__ import annotations

from functools import partial

from density import CHAINS, PROBLEMS, Problem, check, in_turn, ratios
from density_samplers import ours, random_walks
from report import Figure, Task

TITLE = 'Effective samples of "metropolis", per evaluation and per CPU second / those of "bps" and a bare random walk'
NOTE = (
    "As in `density`, on its densities with jumps. The bare random walk is compiled with its density, finds scales and "
    "step in pilot runs of its own, and records means and variances, where ours has bins and cells too."
)
HEADER = "density | against | estimate | per"

# Proposals of each chain, so that what a run costs beside its steps does not count.
_STEPS = 500_000


def tasks(quick: bool) -> list[Task]:
    problems = [problem for problem in PROBLEMS if problem.jumps]
    chosen = problems[::2] if quick else problems
    return [Task(problem.density().label, partial(_measure, problem, quick)) for problem in chosen]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    rounds, share = (3, 4) if quick else (10, 1)
    density = problem.density()
    exact, steps = density.moments(), _STEPS // share
    walk = ours(density, CHAINS, steps // (10 * density.d), "metropolis")
    rivals = {
        "bps": ours(density, CHAINS, problem.draws // share),
        "bare random walk": random_walks(density, CHAINS, steps),
    }
    found = in_turn({"metropolis": walk, **rivals}, rounds)
    for name, results in found.items():
        check(results, exact, f"{density.label}, {name}")
    return [figure for name in rivals for figure in ratios(density, found, exact, "metropolis", name)]
