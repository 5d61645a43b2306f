"""The models on which packages are compared, with answers that are exact, or as good as two long runs that agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from peers.estimates import Truth
from problems import as_arrays, regular_graph
from selection import regression_data

import bouncy
from bouncy.testing import kaufman_torus

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from helpers.slabs import slab, solved

CRITICAL = float(np.log1p(np.sqrt(2.0)) / 2.0)
# Standard errors by which two reference runs may differ.
_APART = 4.5
# Error of E[s_i] in variable selection at least: variables that come rarely come in few chains.
_RARE = 0.01
# Step of the differences that give moments of log p as derivatives of log Z.
_STEP = 1e-3


class Model(NamedTuple):
    """A target, its answers, and arrays for adapters: `start` has as many rows as there are chains at most."""

    target: Any
    truth: Truth
    arrays: dict[str, Any]


def coupled(target: bouncy.MRF, truth: Truth, starts: NDArray[np.int8] | None = None) -> Model:
    """Return a model that begins at random states, unless others are given."""
    if starts is None:
        starts = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), (64, target.d))
    return Model(target, truth, as_arrays(target) | {"start": starts})


def enumerated(target: bouncy.MRF) -> Model:
    """Return a small model with answers from all states."""
    exact = bouncy.exact(target)
    log_z = [bouncy.exact(target.tempered(b)).log_z for b in (1.0 - _STEP, 1.0 + _STEP)]
    return coupled(target, Truth(exact.mean, *_moments(log_z[0], exact.log_z, log_z[1]), log_z=exact.log_z))


def _moments(below: float, log_z: float, above: float) -> tuple[float, float]:
    """Return E[log p] and its sd as derivatives of log Z in the inverse temperature."""
    return (above - below) / (2.0 * _STEP), float(np.sqrt(above - 2.0 * log_z + below) / _STEP)


def ring(quick: bool) -> Model:
    """Return a ring on which half of all flips cost nothing: a scan of Metropolis does not reach all states."""
    i = np.arange(16)
    A = scipy.sparse.coo_array((np.full(16, 0.5), (i, (i + 1) % 16)), (16, 16))
    return enumerated(bouncy.MRF(-(A + A.T).tocsr()))


def dense(d: int, quick: bool) -> Model:
    """Return a model of the paper's ensemble: with fields if it can be enumerated, else with E[s_i] = 0 by symmetry."""
    target = bouncy.MRF.random(d, sigma_M=0.5 / np.sqrt(d), sigma_r=0.1 if d <= 16 else 0.0, seed=0)
    if d <= 16:
        return enumerated(target)
    return coupled(target, _referred(target, ("bps-gaussian", "gibbs"), 200 if quick else 2000))


def _referred(target: Any, samplers: tuple[str, str], draws: int) -> Truth:
    """Return answers of long runs of two of our samplers, once they agree; E[s_i] is 0."""
    options = {"keep": "means", "pairs": "none", "threads": 1, "progress": False}
    runs = [bouncy.sample(target, name, chains=64, draws=draws, seed=99, **options) for name in samplers]
    chains = np.array([run.log_prob.mean(axis=1) for run in runs])
    energy, se = chains.mean(axis=1), chains.std(axis=1) / np.sqrt(chains.shape[1])
    if abs(energy[0] - energy[1]) > _APART * np.hypot(*se):
        raise RuntimeError(f"{samplers} find E[log p] = {energy} +- {se}, which do not agree")
    sd = float(runs[0].log_prob.std())
    return Truth(np.zeros(target.d), float(energy.mean()), sd, energy_se=float(np.hypot(*se) / 2.0))


def torus(coupling: float, quick: bool) -> Model:
    """Return a 64 x 64 torus with exact answers (Kaufman); critical chains begin at states of Swendsen-Wang."""
    target = bouncy.MRF.ising((64, 64), coupling)
    bonds = 2 * target.d
    slope = (bond_mean(coupling + _STEP) - bond_mean(coupling - _STEP)) / (2.0 * _STEP)
    sd = coupling * float(np.sqrt(bonds * slope))
    log_z = kaufman_torus(64, 64, coupling).log_z
    truth = Truth(np.zeros(target.d), coupling * bonds * bond_mean(coupling), sd, log_z=log_z)
    if coupling < CRITICAL:
        return coupled(target, truth)
    options = {"chains": 64, "draws": 1, "warmup": 200, "seed": 7, "threads": 1, "progress": False, "pairs": "none"}
    return coupled(target, truth, bouncy.sample(target, "swendsen-wang", **options).draws[:, -1])


def bond_mean(coupling: float) -> float:
    return kaufman_torus(64, 64, coupling).bond_mean


def glass(quick: bool) -> Model:
    """Return a 4 x 4 x 16 slab with couplings of random signs in small fields, solved by a transfer matrix."""
    exact = slab(4, 16, 1.5, 0)
    model = coupled(exact.target, Truth(exact.mean, 0.0, 1.0))
    pairs, J, h = (model.arrays[name] for name in ("pairs", "couplings", "fields"))
    below, above = (solved(16, pairs, b * J, b * h)[0] for b in (1.0 - _STEP, 1.0 + _STEP))
    truth = Truth(exact.mean, *_moments(below, exact.log_z, above), log_z=exact.log_z)
    return model._replace(truth=truth)


def regular(quick: bool) -> Model:
    """Return a random 3-regular graph, which is a tree but for few cycles: E[s_i s_j] = tanh J of neighbours.

    Of cycles of length k there are 2^k / 2k on average. One adds tanh^(k - 1) J to each of its pairs; all that they add
    is counted as an error.
    """
    J, d = 0.3, 100_000
    t, bonds = np.tanh(J), 3 * d // 2
    cycles = 0.5 * (2.0 * t) ** 3 / (1.0 - 2.0 * t) / t
    sd = J * float(np.sqrt(bonds * (1.0 - t * t)))
    truth = Truth(np.zeros(d), J * (bonds * t + cycles), sd, energy_se=J * cycles)
    model = coupled(regular_graph(d, J), truth)
    return model._replace(arrays=model.arrays | {"start": model.arrays["start"][:8]})


def variables(quick: bool) -> Model:
    """Return variable selection with p = 1000 columns in blocks with correlation 0.9, and answers of a long run."""
    (X, y), size = regression_data(0.9), 10
    target = bouncy.VariableSelection(X, y, expected_size=size, intercept=False)
    options = {"chains": 8, "draws": 300 if quick else 3000, "keep": "means", "pairs": "none", "threads": 1}
    run = bouncy.sample(target, "metropolis-mixed", seed=99, progress=False, **options)
    energy = run.log_prob.mean(axis=1)
    energy_se = float(energy.std() / np.sqrt(energy.size))
    mean_se = np.hypot(run.mean_se, _RARE)
    truth = Truth(run.mean, float(energy.mean()), float(run.log_prob.std()), mean_se, energy_se)
    return Model(target, truth, {"X": X, "y": y, "g": target.g, "size": size})


MODELS: dict[str, Callable[[bool], Model]] = {
    "dense-10": partial(dense, 10),
    "dense-100": partial(dense, 100),
    "dense-1000": partial(dense, 1000),
    "ring": ring,
    "hot": partial(torus, 0.3),
    "critical": partial(torus, CRITICAL),
    "glass": glass,
    "regular": regular,
    "selection": variables,
}
TITLES = {
    "dense-10": "dense, d = 10",
    "dense-100": "dense, d = 100",
    "dense-1000": "dense, d = 1000",
    "ring": "ring with ties, d = 16",
    "hot": "torus 64 x 64, J = 0.3",
    "critical": "torus 64 x 64, critical",
    "glass": "+-J glass 4 x 4 x 16",
    "regular": "3-regular graph, d = 10^5",
    "selection": "variable selection, p = 1000",
}
