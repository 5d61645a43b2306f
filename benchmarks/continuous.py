"""Continuous models that are measured, their exact answers, and squared errors of samplers from batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import norm
from scipy.stats import t as student
from timing import cpu_seconds

import bouncy

Array = NDArray[np.float64]

# False alarms of a check of one sampler on one model.
_ALPHA = 1e-6
# Batches that are added up before samplers are compared: what is still correlated must not look like a difference.
_TOGETHER = 4
# What happens too rarely to be seen in a run has no spread, and is no reason to worry.
_LEAST_ERROR = 1e-4


# Models


def equicorrelated(d: int, rho: float) -> bouncy.TruncatedGaussian:
    """Return N(0, (1 - rho) I + rho 11') on the positive orthant, dense."""
    return bouncy.TruncatedGaussian(np.zeros(d), cov=(1.0 - rho) * np.eye(d) + rho, lower=0.0)


def autoregressive(d: int, rho: float) -> bouncy.TruncatedGaussian:
    """Return the stationary AR(1) process with variance 1 on the positive orthant, with a sparse precision."""
    return bouncy.TruncatedGaussian(np.zeros(d), precision=_ar_precision(d, rho), lower=0.0)


def _ar_precision(d: int, rho: float) -> scipy.sparse.csr_array:
    diagonal = np.full(d, 1.0 + rho**2)
    diagonal[[0, -1]] = 1.0
    beside = np.full(d - 1, -rho)
    return scipy.sparse.csr_array(scipy.sparse.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1])) / (
        1.0 - rho**2
    )


# Exact answers


class Moments(NamedTuple):
    """Means and variances, (d,) each."""

    mean: Array
    variance: Array


def equicorrelated_moments(d: int, rho: float) -> Moments:
    """Return the moments of `equicorrelated`, by a sum over the common factor.

    With x_i = sqrt(rho) w + sqrt(1 - rho) e_i the variables are independent given w, and the weight of w is its normal
    density times P(x_1 > 0 | w)^d.
    """
    w = np.linspace(-12.0, 12.0, 20_001)
    mean, sd = np.sqrt(rho) * w, np.sqrt(1.0 - rho)
    log_weight = norm.logpdf(w) + d * log_ndtr(mean / sd)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    hazard = np.exp(norm.logpdf(mean / sd) - log_ndtr(mean / sd))
    first = float(weight @ (mean + sd * hazard))
    second = float(weight @ (mean**2 + sd**2 + mean * sd * hazard))
    return Moments(np.full(d, first), np.full(d, second - first**2))


def autoregressive_moments(d: int, rho: float, nodes: int = 200, end: float = 10.0) -> Moments:
    """Return the moments of `autoregressive`, by integrating out one variable after the other (Gauss-Legendre)."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    x, weights = 0.5 * end * (points + 1.0), 0.5 * end * weights
    step = norm.pdf(x[:, None], rho * x, np.sqrt(1.0 - rho**2)) * weights  # [new, old]
    past = np.empty((d, nodes))  # density of x_i, and of x_k >= 0 for k < i, up to a factor
    past[0] = norm.pdf(x)
    for i in range(1, d):
        past[i] = step @ past[i - 1]
        past[i] /= past[i].max()
    # The process is the same backwards in time.
    density = past * past[::-1] / norm.pdf(x) * weights
    density /= density.sum(axis=1, keepdims=True)
    mean = density @ x
    return Moments(mean, density @ x**2 - mean**2)


# Squared errors


class Batches(NamedTuple):
    """Averages over stretches of equal length, each (batches, k), by the name of what is averaged; CPU seconds."""

    averages: dict[str, Array]
    seconds: float

    def cost(self, name: str, variance: Array | float = 1.0, truth: Array | None = None) -> float:
        """Return squared error x CPU seconds, in units of the variance, averaged over coordinates.

        The squared error is the spread of the batches around the truth, or around their mean if there is none,
        divided by their number. The inverse is effective samples per CPU second.
        """
        batches = self.averages[name]
        n = len(batches)
        around, freedom = (batches.mean(axis=0), n - 1) if truth is None else (truth, n)
        squares = np.square(batches - around).sum(axis=0) / (freedom * n)
        return float(np.mean(squares / variance)) * self.seconds


def path_batches(
    target: Any, sampler: Any, read: Mapping[str, Callable[[Any], Array]], sweeps: int, batches: int, **options: Any
) -> Batches:
    """Sample as a user would, one chain on one thread, and take what is read from the run apart into batches.

    Parameters
    ----------
    target, sampler
        As of `bouncy.sample`.
    read : mapping
        By name, a function that returns time averages over a run, (k,).
    sweeps : int
        Length of a batch.
    batches : int
        Number of batches.
    **options
        More of `bouncy.sample`.
    """
    run = bouncy.sample(
        target, sampler, chains=1, draws=1, thin=sweeps, keep="means", pairs="none", threads=1, progress=False,
        **options,
    )  # fmt: skip
    sums: dict[str, list[Array]] = {name: [np.zeros(1), value(run)] for name, value in read.items()}
    reading = 0.0  # CPU seconds, of the whole run in the end: control variates have equations to be solved
    for n in range(2, batches + 1):
        run = run.extend(1, threads=1, progress=False)
        reading = cpu_seconds(lambda: [value(run) for value in read.values()])  # noqa: B023
        for name, value in read.items():
            sums[name].append(n * value(run))
    averages = {name: np.diff([np.broadcast_to(s, several[-1].shape) for s in several], axis=0)
                for name, several in sums.items()}  # fmt: skip
    return Batches(averages, run.sampling_seconds + reading)


def loop_batches(averages: Callable[[int], dict[str, Array]], sweeps: int, batches: int) -> Batches:
    """Do the same with a compiled loop that returns averages over so many sweeps."""
    found: list[dict[str, Array]] = []
    seconds = sum(cpu_seconds(lambda: found.append(averages(sweeps))) for _ in range(batches))
    return Batches({name: np.array([one[name] for one in found]) for name in found[0]}, seconds)


# Checks: a figure of a wrong sampler says nothing


def check_exact(several: Sequence[Batches], name: str, truth: Array, label: str) -> None:
    """Raise if the averages of several runs are further from the truth than their spread explains."""
    mean, error, freedom = _pooled(several, name)
    _refuse((mean - truth) / error, freedom, f"{label}: {name} and its exact value")


def check_same(several: Sequence[Batches], name: str, others: Sequence[Batches], other: str, label: str) -> None:
    """Raise if the averages of several runs are further from those of others than the spread of both explains."""
    (mean, error, freedom), (other_mean, other_error, _) = _pooled(several, name), _pooled(others, other)
    _refuse((mean - other_mean) / np.hypot(error, other_error), freedom, f"{label}: {name} and {other}")


def _pooled(several: Sequence[Batches], name: str) -> tuple[Array, Array, int]:
    """Return the mean over all batches of several runs, its standard error, (k,) each, and their degrees of freedom."""
    batches = np.concatenate([one.averages[name] for one in several])
    longer = batches.reshape(-1, _TOGETHER, batches.shape[1]).mean(axis=1)
    error = np.std(longer, axis=0, ddof=1) / np.sqrt(len(longer))
    return longer.mean(axis=0), np.maximum(error, _LEAST_ERROR), len(longer) - 1


def _refuse(z: Array, freedom: int, what: str) -> None:
    """Raise if a coordinate is too far off, as the largest of all of them."""
    worst, bound = int(np.argmax(np.abs(z))), float(student.isf(0.5 * _ALPHA / z.size, freedom))
    if not abs(z[worst]) < bound:
        raise RuntimeError(
            f"{what} differ by {z[worst]:+.1f} standard errors at coordinate {worst}, expected less than {bound:.1f}"
        )
