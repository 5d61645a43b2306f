"""Layer L5 for paths: nominal 95 % intervals of every estimate cover the truth in 95 % of runs."""

from __future__ import annotations

import numpy as np
import pytest

import bouncy
from bouncy.piecewise.targets import examples
from bouncy.results.batches import student_quantile
from conftest import base_seed
from helpers.statistics import coverage_test
from piecewise.quadrature import integrate


def _covered(name: str, sampler: str, replications: int) -> dict[str, np.ndarray]:
    """Return which intervals of each kind cover, (replications, k)."""
    target = examples()[name]()
    exact = integrate(target)
    # Quantiles and probabilities are compared with those of a run that is eighty times as long.
    long = bouncy.sample(
        target, sampler, chains=16, draws=20_000, seed=base_seed() + 10**6, pairs="all", progress=False
    )
    (median, far), (median_se, far_se) = long.quantile([0.5, 0.975])
    moving, spread = median_se > 0.0, far_se > 0.0
    share, tail = long.probability(lower=0.1)[0], long.probability(lower=far[spread].min())[0]
    covered: dict[str, list[np.ndarray]] = {}
    for k in range(replications):
        run = bouncy.sample(
            target, sampler, chains=4, draws=1000, warmup=100, seed=base_seed() + k, pairs="all", threads=1
        )
        t = student_quantile(0.95, run._sums.degrees_of_freedom)
        estimates = {
            "mean": (run.mean, run.mean_se, exact.mean),
            "variance": (run.variance, run.variance_se, np.diagonal(exact.covariance)),
            "covariance": (run.covariance, run.covariance_se, exact.covariance),
            "path_mean": (run.path_mean, run.path_mean_se, exact.mean),
            "path_variance": (run.path_variance, run.path_variance_se, np.diagonal(exact.covariance)),
            "median": (*(column[moving] for column in run.quantile(0.5)), median[moving]),
            "quantile": (*(column[spread] for column in run.quantile(0.975)), far[spread]),
            "probability": (*run.probability(lower=0.1), share),
            "tail": (*(column[spread] for column in run.probability(lower=far[spread].min())), tail[spread]),
        }
        if name.startswith("spike-slab"):
            zero = target.cells.slope == 0.0
            estimates["inclusion"] = run.inclusion, run.inclusion_se, 1.0 - exact.cell[zero]
            estimates["path_inclusion"] = run.path_inclusion, run.path_inclusion_se, 1.0 - exact.cell[zero]
        for kind, (value, error, truth) in estimates.items():
            if truth.size:  # no median moves where all of them are at zero
                covered.setdefault(kind, []).append((np.abs(value - truth) <= t * error).ravel())
    return {kind: np.array(rows) for kind, rows in covered.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sampler"),
    [("truncated gaussian", "bps"), ("truncated gaussian", "hmc"),
     ("truncated gaussian", "gibbs"), ("spike-slab", "gibbs"), ("lasso", "gibbs"),
     ("mixed-binary-gaussian-truncated", "gibbs"), ("mixed-binary-gaussian-truncated", "bps"),
     ("spike-slab", "bps"), ("lasso", "bps"), ("density-well", "bps")],
)  # fmt: skip
def test_intervals_cover(name, sampler):
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 500 runs of each target."""
    for kind, covered in _covered(name, sampler, 500).items():
        coverage_test(covered, 0.95, 0.915, 0.98, alpha=5e-3, name=f"{kind} of {name}").check()
