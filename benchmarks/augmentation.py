"""Accuracy for the money against Gibbs samplers that need further variables: the lasso and probit regression."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from continuous import Batches, check_same, loop_batches, path_batches
from numpy.typing import NDArray
from report import Figure, Task
from timing import median

import bouncy

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import diabetes
import probit

Array = NDArray[np.float64]

TITLE = "Squared error x CPU time of Gibbs samplers with further variables / the same of ours"
NOTE = (
    "Of the means of coefficients. The lasso: 64 terms of the diabetes data, penalty 10, noise 0.7, against the "
    "sampler of Park & Casella (all coefficients at once, given a variance for each). Probit: 500 answers, 9 "
    "coefficients, against the sampler of Albert & Chib. Both in NumPy, with plain averages. Squared errors from 16 "
    "batches of a run, averaged over coefficients; median over runs."
)
HEADER = "model | sampler"

_BATCHES = 16
_PENALTY, _NOISE_SCALE = 10.0, 0.7
_GOALS = {"lasso": 3.0, "probit": 1.0}
# Sweeps of a batch, by model and sampler.
_SWEEPS = {
    "lasso": {"rival": 250, "gibbs": 2_000, "bps": 500},
    "probit": {"rival": 1_000, "gibbs": 500, "hmc": 60},
}
_WARMUP = {"rival": 500, "gibbs": 500, "bps": 200, "hmc": 50}


def tasks(quick: bool) -> list[Task]:
    return [Task(label, partial(_measure, label, quick)) for label in _SWEEPS]


def _measure(label: str, quick: bool) -> list[Figure]:
    repeats, share = (3, 2) if quick else (8, 1)
    target, skipped, rival = (_lasso if label == "lasso" else _probit)()
    sweeps = {name: count // share for name, count in _SWEEPS[label].items()}
    read = {"mean": lambda run: run.mean[skipped:]}
    names = [name for name in sweeps if name != "rival"]
    for name in names:  # compiles
        bouncy.sample(target, name, chains=1, draws=2, warmup=2, pairs="none", progress=False)
    found: dict[str, list[Batches]] = {name: [] for name in sweeps}
    for seed in range(repeats):
        found["rival"].append(_batches(rival, sweeps["rival"], seed))
        for name in names:
            options = {"seed": seed, "warmup": _WARMUP[name]}
            found[name].append(path_batches(target, name, read, sweeps[name], _BATCHES, **options))
    figures = []
    for name in names:
        check_same(found["rival"], "mean", found[name], "mean", f"{label}, {name}")
        each = zip(found["rival"], found[name], strict=True)
        ratios = median([theirs.cost("mean") / ours.cost("mean") for theirs, ours in each])
        goal = _GOALS[label] if name == "gibbs" else None
        details = {"model": label, "sampler": name}
        figures.append(Figure(f"{label} | {name}", ratios, goal, sense="at least", details=details))
    return figures


def _batches(sampler: Callable[[int], Callable[[int], Array]], sweeps: int, seed: int) -> Batches:
    go_on = sampler(seed)
    go_on(_WARMUP["rival"])
    return loop_batches(lambda n: {"mean": go_on(n)}, sweeps, _BATCHES)


def _lasso() -> tuple[Any, int, Callable[[int], Callable[[int], Array]]]:
    X, y, names = diabetes.load()
    target = bouncy.BayesianLasso(X, y, penalty=_PENALTY, noise_scale=_NOISE_SCALE, labels=names)
    return target, 0, partial(_park_casella, X, y)


def _park_casella(X: Array, y: Array, seed: int) -> Callable[[int], Array]:
    """Return a function that goes on for some sweeps and returns the average of the coefficients, (p,).

    The Laplace prior is a mixture of normals of variance v_j ~ Exp(penalty^2 / 2). Given beta, 1 / v_j is inverse
    Gaussian with mean penalty / |beta_j| and shape penalty^2; given v, beta is normal.
    """
    generator = np.random.default_rng(seed)
    gram, moment = X.T @ X / _NOISE_SCALE**2, X.T @ y / _NOISE_SCALE**2
    diagonal = np.diag_indices_from(gram)
    beta = np.full(moment.size, 0.1)

    def go_on(sweeps: int) -> Array:
        nonlocal beta
        total = np.zeros(beta.size)
        for _ in range(sweeps):
            precision = gram.copy()
            precision[diagonal] += generator.wald(_PENALTY / np.abs(beta), _PENALTY**2)
            root = scipy.linalg.cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
            half = scipy.linalg.solve_triangular(root, moment, lower=True, check_finite=False)
            half += generator.standard_normal(half.size)
            beta = scipy.linalg.solve_triangular(root, half, lower=True, trans="T", check_finite=False)
            total += beta
        return total / sweeps

    return go_on


def _probit() -> tuple[Any, int, Callable[[int], Callable[[int], Array]]]:
    X, answer, names = probit.make_data(500, 9)
    return probit.posterior(X, answer, names), X.shape[0], partial(_albert_chib, X, answer)


def _albert_chib(X: Array, answer: NDArray[np.int64], seed: int) -> Callable[[int], Array]:
    """Return a function that returns the average of the coefficients over some sweeps, after a few to forget zero."""
    seeds = iter(np.random.SeedSequence(seed).generate_state(1000))
    return lambda sweeps: np.asarray(probit.gibbs(X, answer, sweeps + 30, int(next(seeds)))[30:].mean(axis=0))
