"""What a target of one's own costs, against the same target built into the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from problems import chain_job, dense
from report import Figure, Task
from timing import interleaved, median

import bouncy
from bouncy.targets.contract import Target, target_part

TITLE = "Time per attempted flip with functions of one's own / the same target built in"
NOTE = (
    "Both do the same work per flip; one is inlined into the loop, the functions of the other are called by address. "
    "Means recorded, no pairs."
)
HEADER = "model | sampler"

_GOAL = 1.3
SAMPLERS = ("bps-gaussian", "bps-exponential", "hmc", "gibbs", "metropolis")


class Problem(NamedTuple):
    """The same target twice."""

    label: str
    built_in: Callable[[int], Target]
    own: Callable[[int], Target]


# Local fields in a cache, as MRF keeps them


def _cost(s, i, h, model):
    return -2.0 * s[i] * h[i]


def _init(s, h, model):
    M, r = model
    for i in range(s.size):
        field = r[i]
        for j in range(s.size):
            field += M[i, j] * s[j]
        h[i] = field


def _on_flip(s, i, h, model):
    change = 2.0 * s[i]
    row = model[0][i]
    for j in range(h.size):
        h[j] += change * row[j]


def _init_sparse(s, h, model):
    indptr, indices, data, r = model
    for i in range(s.size):
        field = r[i]
        for k in range(indptr[i], indptr[i + 1]):
            field += data[k] * s[indices[k]]
        h[i] = field


def _on_flip_sparse(s, i, h, model):
    indptr, indices, data, _ = model
    change = 2.0 * s[i]
    for k in range(indptr[i], indptr[i + 1]):
        h[indices[k]] += change * data[k]


def _own_dense(model: bouncy.MRF) -> Target:
    cache = np.zeros(model.d)
    return bouncy.Custom(model.d, _cost, data=(model.M, model.r), cache=cache, init=_init, on_flip=_on_flip)


def _torus(seed: int) -> bouncy.MRF:
    return bouncy.MRF.ising((64, 64), coupling=0.3)


def sparse_fields(model: bouncy.MRF, log_prob: Callable[..., Any] | None = None) -> Target:
    """Return a sparse model as functions of one's own; `log_prob`, if given, takes s and (indptr, indices, data, r)."""
    data = (model.M.indptr.astype(np.int64), model.M.indices.astype(np.int32), model.M.data, model.r)
    functions = {"log_prob": log_prob, "init": _init_sparse, "on_flip": _on_flip_sparse}
    return bouncy.Custom(model.d, _cost, data=data, cache=np.zeros(model.d), **functions)


# Nothing kept: every cost is a sum over a row


def _row_cost(s, i, model):
    M, r = model
    field = r[i]
    row = M[i]
    for j in range(s.size):
        field += row[j] * s[j]
    return -2.0 * s[i] * field


class _Rows(Target):
    """A Markov random field that is asked for its couplings at every attempt."""

    def __init__(self, model: bouncy.MRF) -> None:
        self.d = model.d
        self._M, self._r = np.array(model.M), np.array(model.r)

    def view(self) -> Any:
        return _RowsView(self._M, self._r)


@target_part()
class _RowsView(NamedTuple):
    M: NDArray[np.float64]
    r: NDArray[np.float64]

    def flip_cost(self, s, i):
        field = self.r[i]
        row = self.M[i]
        for j in range(s.size):
            field += row[j] * s[j]
        return -2.0 * s[i] * field

    def log_prob(self, s):
        return 0.0


def _own_rows(model: bouncy.MRF) -> Target:
    return bouncy.Custom(model.d, _row_cost, data=(model.M, model.r))


PROBLEMS = (
    *(
        Problem(f"fields in a cache, dense, d = {d}", partial(dense, d), lambda seed, d=d: _own_dense(dense(d, seed)))
        for d in (10, 100, 1000)
    ),
    Problem("fields in a cache, torus 64x64", _torus, lambda seed: sparse_fields(_torus(seed))),
    *(
        Problem(
            f"nothing kept, dense, d = {d}",
            lambda seed, d=d: _Rows(dense(d, seed)),
            lambda seed, d=d: _own_rows(dense(d, seed)),
        )
        for d in (10, 100)
    ),
)


def tasks(quick: bool) -> list[Task]:
    return [Task(problem.label, partial(_measure, problem, quick)) for problem in PROBLEMS]


def _measure(problem: Problem, quick: bool) -> list[Figure]:
    models, rounds, hits = (2, 3, 200_000) if quick else (5, 3, 500_000)
    ratios: dict[str, list[NDArray[np.float64]]] = {sampler: [] for sampler in SAMPLERS}
    for seed in range(models):
        built_in, own = problem.built_in(seed), problem.own(seed)
        for sampler in SAMPLERS:
            jobs = {
                "built in": chain_job(built_in, sampler, hits, seed=seed),
                "own": chain_job(own, sampler, hits, seed=seed),
            }
            seconds = interleaved(jobs, rounds)
            ratios[sampler].append(seconds["own"] / seconds["built in"])
    return [
        Figure(
            f"{problem.label} | {sampler}",
            median(np.concatenate(values)),
            _GOAL,
            "at most",
            details={"model": problem.label, "sampler": sampler},
        )
        for sampler, values in ratios.items()
    ]
