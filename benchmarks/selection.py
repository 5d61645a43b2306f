"""Accuracy for the money in variable selection with correlated variables, and what conditional means save."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers.protocol import missing, started
from report import Figure, Task
from timing import cpu_seconds, median

import bouncy
from bouncy.recorders.contract import MEANS
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import Sampler
from bouncy.targets.contract import Target
from bouncy.workers.contract import Plan
from bouncy.workers.spins import SpinWorker

Array = NDArray[np.float64]

TITLE = "Swaps: squared error x CPU time of others / the same of metropolis-mixed, and what conditional means save"
NOTE = (
    "Variable selection: n = 200, p = 1000, a hundred blocks of ten columns with correlation rho, ten effects of 0.5 "
    "noise scales. Squared errors of all inclusion probabilities together, against the mean of long runs of "
    "metropolis-mixed, whose two halves differ by a small part of the smallest error shown ('reference', squared "
    "difference of the halves over four times that error). The row of metropolis-mixed divides metropolis by it, that "
    "of millipede its default sampler. Constraints: squared error of plain averages / that of "
    "conditional means, of the same chains."
)
HEADER = "problem | figure"

_N, _P, _BLOCK, _EFFECTS, _EFFECT = 200, 1000, 10, 10, 0.5


def tasks(quick: bool) -> list[Task]:
    correlated = [Task(f"rho = {rho}", partial(_selection, rho, quick)) for rho in (0.9, 0.99)]
    return [*correlated, *(Task(name, partial(_constrained, name, quick)) for name in _CONSTRAINED)]


def regression(rho: float) -> bouncy.VariableSelection:
    """Return the posterior of variables that come in correlated blocks."""
    return bouncy.VariableSelection(*regression_data(rho), expected_size=_EFFECTS, intercept=False)


def regression_data(rho: float, seed: int = 0) -> tuple[Array, Array]:
    """Return X and y of a regression on blocks of columns that are correlated by a common part."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((_N, _P // _BLOCK)), _BLOCK, axis=1)
    X = np.sqrt(rho) * common + np.sqrt(1.0 - rho) * rng.standard_normal((_N, _P))
    effects = np.zeros(_P)
    blocks = rng.choice(_P // _BLOCK, _EFFECTS, replace=False)
    effects[blocks * _BLOCK] = _EFFECT * rng.choice([-1.0, 1.0], _EFFECTS)
    return X, X @ effects + rng.standard_normal(_N)


class Found(NamedTuple):
    """What a chain found, and what it took."""

    mean: Array
    path: Array
    seconds: float


def _chain(target: Target, sampler: str | Sampler | None, seed: list[int], sweeps: int) -> Found:
    """Return the averages of a chain after a warm-up of a quarter of its sweeps, and its CPU time without that."""
    worker = SpinWorker(target, as_sampler(target, sampler), Plan(), np.random.SeedSequence(seed), None)
    worker.advance(sweeps // 4)
    SpinWorker.record_anew([worker])
    slices = []
    seconds = cpu_seconds(lambda: slices.append(worker.advance(sweeps)))
    batches = [*slices[0].batches[0], *worker.open_sums()]
    total: Callable[[str], Array] = lambda name: np.sum([batch[name] for batch in batches], axis=0)  # noqa: E731
    return Found(total("mean") / total("events")[MEANS], total("path") / (sweeps * worker.sweep_time), seconds)


def _selection(rho: float, quick: bool) -> list[Figure]:
    target, chains = regression(rho), 4 if quick else 8
    long = [_chain(target, "metropolis-mixed", [1, k], 8_000 if quick else 40_000).mean for k in range(6)]
    exact = np.mean(long, axis=0)
    apart = np.sum((np.mean(long[:3], axis=0) - np.mean(long[3:], axis=0)) ** 2) / 4.0
    cost: dict[str, list[float]] = {"metropolis": [], "metropolis-mixed": []}
    errors: list[float] = []
    for k in range(chains):
        for name, sweeps in (("metropolis", 2_000), ("metropolis-mixed", 4_000)):
            found = _chain(target, name, [2, k], sweeps)
            error = float(np.sum((found.mean - exact) ** 2))
            cost[name].append(error * found.seconds)
            errors += [error] * (name == "metropolis-mixed")
    what, details = f"selection, rho = {rho}", {"rho": rho}
    own = np.array(cost["metropolis-mixed"])
    figures = [
        Figure(
            f"{what} | metropolis-mixed", median(np.mean(cost["metropolis"]) / own), 10.0, "at least", details=details
        ),
        Figure(f"{what} | reference", median([apart / np.mean(errors)]), 0.1, details=details),
    ]
    if missing("millipede") is None:
        others = _millipede(rho, target.g, exact, 500 if quick else 4000)
        ratio = [np.mean(others) / one for one in own]
        figures.append(Figure(f"{what} | millipede", median(ratio), 100.0, "at least", details=details))
    return figures


def _millipede(rho: float, g: float, exact: Array, steps: int) -> list[float]:
    """Return squared error x CPU time of chains of millipede's default sampler, after its warm-up."""
    X, y = regression_data(rho)
    model = {"X": X, "y": y, "g": g, "size": _EFFECTS}
    costs = []
    for _ in range(4):
        with started("millipede", "millipede_peer.py", model=model, chains=1) as sampler:
            found = sampler(draws=steps)
        costs.append(float(np.sum((found["mean"][0] - exact) ** 2)) * found["seconds"])
    return costs


def _gas(coupling: float) -> Target:
    return bouncy.MRF.ising((16, 16), coupling).fixed_sum(128)


def _groups() -> Target:
    return bouncy.MRF.random(100, sigma_M=0.05, sigma_r=0.3, seed=0).one_hot(np.arange(100).reshape(20, 5))


_CONSTRAINED: dict[str, Callable[[], Target]] = {
    "lattice gas 16x16, J = 0.2": partial(_gas, 0.2),
    "lattice gas 16x16, J = 0.4": partial(_gas, 0.4),
    "dense d = 100, 50 up": lambda: bouncy.MRF.random(100, sigma_M=0.05, sigma_r=0.3, seed=0).fixed_sum(50),
    "dense d = 100, 20 one-hot groups": _groups,
}


def _constrained(name: str, quick: bool) -> list[Figure]:
    target, sweeps = _CONSTRAINED[name](), 200 if quick else 1000
    chains = [_chain(target, None, [3, k], sweeps) for k in range(32)]
    mean, path = (np.var([getattr(chain, what) for chain in chains], axis=0) for what in ("mean", "path"))
    saved = [path[part::4].mean() / mean[part::4].mean() for part in range(4)]
    return [Figure(f"{name} | squared error", median(saved), details={"target": name})]
