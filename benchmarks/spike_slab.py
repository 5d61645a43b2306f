"""Accuracy for the money in spike-and-slab regression, against the plain Gibbs sampler of indicators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from conditionals import Indicators
from continuous import Batches, check_same, loop_batches, path_batches
from numpy.typing import NDArray
from peers.protocol import missing, started
from report import Figure, Task
from timing import median

import bouncy

Array = NDArray[np.float64]

TITLE = "Squared error x CPU time of Gibbs with plain averages / the same of others, in spike-and-slab regression"
NOTE = (
    "Gibbs draws (indicator, coefficient) of each variable given the others; 'conditional means' averages its "
    "probabilities instead of its draws. Squared errors from 16 batches of a run, averaged over variables; median over "
    "runs. Inclusion 0.1, slab 1, noise 1. VariableSelection and millipede, a package with weighted tempered Gibbs "
    "sampling, integrate coefficients out and give no E[beta] here; millipede averages probabilities too, and its "
    "warm-up does not count."
)
HEADER = "design | sampler | estimate"

_BATCHES = 16
_INCLUSION, _SLAB_SCALE, _NOISE_SCALE = 0.1, 1.0, 1.0
_WARMUP = 2_000


class Row(NamedTuple):
    """What the table calls a sampler, the run that its figure is taken from, what it reads there, and what that is."""

    label: str
    run: str
    key: str
    estimate: str


ROWS = (
    Row("gibbs, conditional means", "gibbs", "inclusion", "inclusion"),
    Row("SpikeSlab, gibbs", "spike_slab_gibbs", "inclusion", "inclusion"),
    Row("SpikeSlab, bps", "spike_slab", "inclusion", "inclusion"),
    Row("VariableSelection, bps-gaussian", "selection", "inclusion", "inclusion"),
    Row("millipede", "millipede", "inclusion", "inclusion"),
    Row("gibbs, conditional means", "gibbs", "E[beta]", "E[beta]"),
    Row("SpikeSlab, gibbs", "spike_slab_gibbs", "E[beta]", "E[beta]"),
    Row("SpikeSlab, bps", "spike_slab", "E[beta]", "E[beta]"),
)


class Problem(NamedTuple):
    """A design, and how many sweeps of each sampler make a batch."""

    n: int
    p: int
    rho: float
    gibbs: int
    bps: int
    selection: int
    millipede: int

    @property
    def label(self) -> str:
        kind = f"AR(1) {self.rho:g}" if self.rho else "independent"
        return f"p = {self.p}, n = {self.n}, {kind}"

    def data(self, seed: int = 0) -> tuple[Array, Array]:
        """Return centred X, whose neighbouring columns are correlated by rho, and y of five variables and noise."""
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((self.n, self.p))
        X = z.copy()
        for j in range(1, self.p):
            X[:, j] = self.rho * X[:, j - 1] + np.sqrt(1.0 - self.rho**2) * z[:, j]
        beta = np.zeros(self.p)
        beta[:: self.p // 5] = [1.0, -0.7, 0.5, -0.35, 0.25]
        y = X @ beta + _NOISE_SCALE * rng.standard_normal(self.n)
        return X - X.mean(axis=0), y - y.mean()


PROBLEMS = (
    Problem(100, 50, 0.0, 8_000, 4_000, 4_000, 250),
    Problem(100, 50, 0.9, 8_000, 4_000, 4_000, 250),
    Problem(100, 200, 0.0, 2_000, 2_000, 1_000, 250),
    Problem(100, 200, 0.9, 2_000, 2_000, 1_000, 250),
)


def model(problem: Problem) -> bouncy.SpikeSlab:
    """Return the posterior of a design."""
    scales = {"slab_scale": _SLAB_SCALE, "noise_scale": _NOISE_SCALE}
    return bouncy.SpikeSlab(*problem.data(), inclusion=_INCLUSION, **scales)


def tasks(quick: bool) -> list[Task]:
    if _MISSING:
        print(f"spike-slab goes without millipede: {_MISSING}", file=sys.stderr)
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    repeats, share = (3, 4) if quick else (8, 1)
    data = problem.data()
    for sampler in SAMPLERS.values():  # compiles
        sampler(data, problem, 1000, 0)
    found: dict[str, list[Batches]] = {name: [] for name in SAMPLERS}
    for seed in range(repeats):
        for name, sampler in SAMPLERS.items():
            found[name].append(sampler(data, problem, share, seed))
    figures = []
    for row in (row for row in ROWS if row.run in SAMPLERS):
        rival = Row("", "gibbs", f"plain {row.estimate}", row.estimate)
        check_same(found[rival.run], rival.key, found[row.run], row.key, f"{problem.label}, {row.label}")
        figures.append(_figure(problem, row, _costs(found, rival), _costs(found, row)))
    return figures


def _gibbs(data: tuple[Array, Array], problem: Problem, share: int, seed: int) -> Batches:
    gibbs = Indicators(*data, _INCLUSION, _SLAB_SCALE, _NOISE_SCALE, seed)
    gibbs.average(_WARMUP)
    keys = "plain inclusion", "plain E[beta]", "inclusion", "E[beta]"
    return loop_batches(
        lambda n: dict(zip(keys, gibbs.average(n), strict=True)), max(1, problem.gibbs // share), _BATCHES
    )


def _spike_slab(sampler: str, data: tuple[Array, Array], problem: Problem, share: int, seed: int) -> Batches:
    target = model(problem)
    read = {"inclusion": lambda run: run.inclusion, "E[beta]": lambda run: run.mean}
    sweeps = max(1, (problem.bps if sampler == "bps" else problem.gibbs) // share)
    return path_batches(target, sampler, read, sweeps, _BATCHES, seed=seed, warmup=_WARMUP)


def _selection(data: tuple[Array, Array], problem: Problem, share: int, seed: int) -> Batches:
    scales = {"slab_scale": _SLAB_SCALE, "noise_scale": _NOISE_SCALE}
    target = bouncy.VariableSelection(*data, prior="independent", inclusion=_INCLUSION, **scales)
    read = {"inclusion": lambda run: 0.5 * (1.0 + run.mean)}
    sweeps = max(1, problem.selection // share)
    return path_batches(target, "bps-gaussian", read, sweeps, _BATCHES, seed=seed, warmup=_WARMUP)


def _millipede(data: tuple[Array, Array], problem: Problem, share: int, seed: int) -> Batches:
    model = {"X": data[0], "y": data[1], "slab": _SLAB_SCALE, "size": _INCLUSION * problem.p}
    with started("millipede", "millipede_peer.py", model=model, chains=1) as ask:
        answers = [ask(draws=max(1, problem.millipede // share)) for _ in range(_BATCHES)]
    inclusion = np.array([0.5 * (1.0 + one["mean"][0]) for one in answers])
    return Batches({"inclusion": inclusion}, sum(one["seconds"] for one in answers))


_MISSING = missing("millipede")
SAMPLERS: dict[str, Callable[[tuple[Array, Array], Problem, int, int], Batches]] = {
    "gibbs": _gibbs,
    "spike_slab_gibbs": partial(_spike_slab, "gibbs"),
    "spike_slab": partial(_spike_slab, "bps"),
    "selection": _selection,
} | ({} if _MISSING else {"millipede": _millipede})


def _costs(found: dict[str, list[Batches]], row: Row) -> list[float]:
    return [batches.cost(row.key) for batches in found[row.run]]


def _figure(problem: Problem, row: Row, rival: list[float], own: list[float]) -> Figure:
    details = {"design": problem.label, "sampler": row.label, "estimate": row.estimate}
    ratios = median([theirs / ours for theirs, ours in zip(rival, own, strict=True)])
    goal = (2.0 if problem.rho else 10.0) if row.run == "spike_slab_gibbs" else None
    return Figure(f"{problem.label} | {row.label} | {row.estimate}", ratios, goal, sense="at least", details=details)
