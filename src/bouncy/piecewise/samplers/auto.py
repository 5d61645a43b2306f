"""A sampler of continuous targets that chooses itself: by a pilot, as a function of the seed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.piecewise.contract import PathTarget
from bouncy.piecewise.samplers.bps import BPS
from bouncy.piecewise.samplers.gibbs import Gibbs
from bouncy.piecewise.samplers.hmc import HMC
from bouncy.piecewise.samplers.metropolis import Metropolis
from bouncy.piecewise.targets._normal import Normal
from bouncy.samplers.contract import Named, PathSampler, Sampler
from bouncy.workers.contract import Plan, Worker

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun

# Chains of a pilot, their draws, and their warm-up.
_CHAINS, _DRAWS, _WARMUP = 4, 400, 200
# Variables beyond which "hmc", which keeps the dense covariance of a sparse precision, is not tried.
_MOST_DENSE = 1000
# The default stays unless the other sampler needs less than this share of its work for the same error: a pilot is
# short.
_WORTH_IT = 0.8
# Nanoseconds of a sweep, measured, of which only the ratios matter: for each variable of "gibbs" and for each entry of
# the precision, dense or sparse; for each variable, wall, wall and variable, and pair of variables of "hmc".
_VARIABLE, _DENSE, _SPARSE = 65.0, 0.3, 1.5
_OF_HMC = (70.0, 70.0, 2.6, 0.4)
# A gradient, in evaluations of log p.
_GRADIENT = 2.0


@dataclass(frozen=True)
class Auto(PathSampler):
    """Choose between the samplers that a continuous target has, by a short pilot, whose draws are not used.

    The choice is between "hmc" and "gibbs" for `Gaussian` and `TruncatedGaussian`, and between "bps" and "metropolis"
    for a `Density`: the one with the smallest squared error of the means, in units of the variances, per unit of work.
    Other targets are left to "gibbs", which was never far behind "bps", and mostly far ahead. Work is counted, not
    timed, so that the seed fixes every byte. `run.sampler` is what was chosen, and `run.diagnostics["auto"]` says why.

    Examples
    --------
    >>> import numpy as np, bouncy
    >>> cov = 0.1 * np.eye(20) + 0.9
    >>> target = bouncy.TruncatedGaussian(np.zeros(20), cov=cov, lower=0.0)
    >>> bouncy.sample(target, "auto", draws=100, seed=0).sampler.name
    'hmc'
    """

    @property
    def name(self) -> str:
        return "auto"

    def start(self, target: PathTarget, y: Any, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Any:
        raise TypeError("'auto' is replaced by what it chooses before a run begins")

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        raise TypeError("'auto' is replaced by what it chooses before a run begins")

    def prepared(self, target: Any, seed: np.random.SeedSequence, pairs: str = "none") -> tuple[Sampler, str]:
        """Return the sampler that a pilot asks for, and why."""
        from bouncy.run.progress import steps_of_pilot

        if not isinstance(target, PathTarget):
            raise ValueError(
                f"'auto' chooses a sampler for one target, which a {type(target).__name__} is not; name one"
            )
        candidates = _candidates(target)
        if len(candidates) == 1:
            return candidates[0], f"{candidates[0].name}, the best that a {type(target).__name__} has"
        need = {}
        for sampler in steps_of_pilot(candidates, "choosing a sampler"):
            run = _pilot(target, sampler, seed, pairs)
            need[sampler.name] = _squared_error(run) * _work(target, run)
        best = min(candidates, key=lambda each: need[each.name] * (_WORTH_IT if each is candidates[0] else 1.0))
        told = ", ".join(f"{name} {value:.2g}" for name, value in need.items())
        return best, f"{best.name}, by a pilot; squared error times work: {told}"


def _candidates(target: PathTarget) -> list[PathSampler]:
    """Return the samplers to try, the default of the target first."""
    every: list[PathSampler] = [BPS(), Metropolis()] if Metropolis().accepts(target) else [Gibbs()]
    if isinstance(target, Normal) and _fits_hmc(target):
        every.append(HMC())
    if not any(sampler.accepts(target) for sampler in every):
        every = [BPS()]
    return sorted(
        (sampler for sampler in every if sampler.accepts(target)),
        key=lambda sampler: sampler.name != target.default_sampler,
    )


def _fits_hmc(target: Normal) -> bool:
    return isinstance(target.precision, np.ndarray) or target.d <= _MOST_DENSE


def _pilot(target: PathTarget, sampler: Sampler, seed: np.random.SeedSequence, pairs: Any) -> PathRun:
    """Return a short run."""
    from bouncy._sample import sample

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(
            target, sampler, chains=_CHAINS, draws=_DRAWS, warmup=_WARMUP, seed=seed, pairs=pairs, threads=1,
            progress=False,
        )  # fmt: skip


def _squared_error(run: PathRun) -> float:
    """Return the mean squared error of the means, in units of the variances; inf where a variable has not moved."""
    if not (run.variance > 0.0).all():
        return np.inf
    return float(np.mean(run.mean_se**2 / run.variance))


def _work(target: PathTarget, run: PathRun) -> float:
    """Return the work of a pilot: nanoseconds of a sweep, or evaluations of log p."""
    if not isinstance(target, Normal):
        calls = run.diagnostics["evaluations"]
        return float(calls["log_prob"] + _GRADIENT * calls["gradient"])
    d, P = target.d, target.precision
    if run.sampler.name == "gibbs":
        return d * _VARIABLE + (_DENSE * d * d if isinstance(P, np.ndarray) else _SPARSE * P.nnz)
    walls = run.diagnostics["hits"] / (_CHAINS * _DRAWS)
    return float(np.dot(_OF_HMC, [d, walls, walls * d, d * d]))


NAMED = (
    Named(
        Auto(),
        'a short pilot chooses: between `"hmc"` and `"gibbs"` for Gaussians, whole or in a box, and between `"bps"` '
        'and `"metropolis"` for a `Density`',
        "#777777",
    ),
)
