"""What an attempted flip costs a chain that shares its clock, against a bare Metropolis loop on the same couplings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from problems import dense, flock_job, metropolis_job, regular_graph
from report import Figure, Task
from timing import interleaved, median

import bouncy

TITLE = "Time per attempted flip and chain, chains sharing a clock / bare systematic-scan Metropolis loop"
NOTE = (
    "The bare loop moves one chain and records nothing. Means: conditional means, once a sweep, and time averages. "
    "Rows of two samplers: the time of the first divided by that of the second in the same round."
)
HEADER = "model | sampler | chains | recorded"

SAMPLERS = ("bps-gaussian", "bps-exponential", "metropolis", "gibbs")
# Goals are for these, with 64 chains.
_JUDGED = ("bps-gaussian", "metropolis")
# How much longer the exponential clock may take than the Gaussian one, with 64 chains.
_CLOCKS, _CLOCK_GOAL = ("bps-exponential", "bps-gaussian"), 1.3


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


# Growth with the number of chains that share a clock, and with d for 64 of them.
LANES = (4, 8, 16, 32, 64, 128, 256)
_GROWING: dict[str, Callable[[int], bouncy.MRF]] = {"3-regular": regular_graph, "dense": dense}
_SIZES = {"3-regular": (100, 1000, 10_000, 100_000), "dense": (10, 30, 100, 300, 1000)}
_BY_LANES = ("torus 64x64, 0.3", "3-regular, d = 10^4", "dense, d = 10", "dense, d = 100", "dense, d = 1000")
_PLOT = "lanes.png"


def tasks(quick: bool) -> list[Task]:
    costs = [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]
    by_lanes = [
        Task(f"{problem.label}, growth", partial(_grow, problem.label, problem.build(0), LANES, quick))
        for problem in PROBLEMS
        if problem.label in _BY_LANES
    ]
    by_size = [
        Task(f"{name}, d = {d}", partial(_grow, name, build(d), (64,), quick))
        for name, build in _GROWING.items()
        for d in _SIZES[name]
    ]
    return [*costs, *by_lanes, *by_size]


def _grow(label: str, target: bouncy.MRF, lanes: Sequence[int], quick: bool) -> list[Figure]:
    """Return times of `bps-gaussian` with means recorded, for several numbers of lanes."""
    hits = 1_000_000 if quick else 3_000_000
    jobs: dict[Any, Any] = {"bare": metropolis_job(target, 500_000)}
    jobs |= {n: flock_job(target, "bps-gaussian", n, hits) for n in lanes}
    seconds = interleaved(jobs, 3 if quick else 5)
    return [
        Figure(
            f"{label}, d = {target.d} | bps-gaussian | {n} | means",
            median(seconds[n] / seconds["bare"]),
            details={"growth": label, "d": target.d, "chains": n, "by": "d" if len(lanes) == 1 else "chains"},
        )
        for n in lanes
    ]


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
    costs = [_figure(problem, *kind, median(values)) for kind, values in ratios.items()]
    return [*costs, *(_compare(problem, ratios, chains, means) for chains in (32, 64) for means in (False, True))]


def _compare(problem: Problem, ratios: dict[Any, list[float]], chains: int, means: bool) -> Figure:
    """Return the time of one clock divided by that of the other in the same round."""
    one, other = (np.array(ratios[sampler, chains, means]) for sampler in _CLOCKS)
    return Figure(
        f"{problem.label} | {' / '.join(_CLOCKS)} | {chains} | {'means' if means else 'nothing'}",
        median(one / other),
        _CLOCK_GOAL if chains == 64 else None,
        "at most",
        details={"model": problem.label, "samplers": list(_CLOCKS), "chains": chains, "means": means},
    )


def _figure(problem: Problem, sampler: str, chains: int, means: bool, ratio: float) -> Figure:
    return Figure(
        f"{problem.label} | {sampler} | {chains} | {'means' if means else 'nothing'}",
        ratio,
        problem.goals[means] if sampler in _JUDGED and chains == 64 else None,
        "at most",
        details={"model": problem.label, "sampler": sampler, "chains": chains, "means": means},
    )


def draw(figures: Sequence[Figure], directory: Path) -> Path:
    """Draw time per attempted flip and chain against the number of chains that share a clock, and against d."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
    figure, panels = plt.subplots(1, 2, figsize=(11.0, 4.4), layout="constrained", sharey=True)
    titles = {"chains": "chains that share a clock", "d": "number of spins d"}
    for axes, (by, title) in zip(panels, titles.items(), strict=True):
        points = [f for f in figures if f.details.get("by") == by]
        for k, name in enumerate(dict.fromkeys(f.details["growth"] for f in points)):
            mine = [f for f in points if f.details["growth"] == name]
            x, y = [f.details[by] for f in mine], [f.median.value for f in mine]
            axes.plot(x, y, marker="os^vD"[k], color=colours[k], label=name, linewidth=2, markersize=6)
        axes.axhline(1.0, color="#777777", linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel=title)
        axes.grid(which="major", color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    panels[0].set_xticks(LANES, [str(n) for n in LANES])
    panels[0].minorticks_off()
    ticks = [0.2, 0.3, 0.5, 1.0, 2.0]
    panels[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panels[0].set_ylabel("time per attempted flip and chain\n(a bare Metropolis loop is 1)")
    panels[0].set_title("bps-gaussian, means recorded")
    panels[1].set_title("64 chains share a clock")
    path = directory / _PLOT
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
