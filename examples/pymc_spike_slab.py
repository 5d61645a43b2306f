"""Spike-and-slab regression in PyMC: bouncy moves the inclusion indicators, NUTS the coefficients.

Needs PyMC: pip install 'bouncy[pymc]'. Takes about a minute.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from bouncy.pymc import BouncyBinary

SLOPES = np.array([1.0, 0.0, 0.0, -0.7, 0.0, 0.4, 0.0, 0.0, 0.0, 0.3])
FAST = {"mode": "NUMBA"}  # PyTensor's numba mode needs no C compiler, and is faster on a model of this size


def simulate(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of correlated predictors and the responses."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, SLOPES.size)) + 0.5 * rng.normal(size=(n, 1))
    return X, X @ SLOPES + rng.normal(size=n)


def spike_and_slab(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """Return a regression in which each predictor is in the model with probability 0.3."""
    with pm.Model() as model:
        included = pm.Bernoulli("included", 0.3, shape=X.shape[1])
        slope = pm.Normal("slope", 0.0, 0.5, shape=X.shape[1])
        noise = pm.HalfNormal("noise", 1.0)
        pm.Normal("y", pm.math.dot(X, included * slope), noise, observed=y)
    return model


def main() -> None:
    X, y = simulate(n=50, seed=1)
    with spike_and_slab(X, y) as model:
        step = BouncyBinary([model["included"]], sampler="bps-gaussian", sweeps=2, compile_kwargs=FAST)
        # Slopes are free while they are out and held tight by the data while they are in: NUTS needs short steps.
        nuts = pm.NUTS([model["slope"], model["noise"]], target_accept=0.95, compile_kwargs=FAST)
        trace = pm.sample(1000, tune=500, chains=2, step=[step, nuts], random_seed=1, progressbar=False)
    probability = trace.posterior["included"].values.mean(axis=(0, 1))
    print("slope  P(included)")
    for true_slope, p in zip(SLOPES, probability, strict=True):
        print(f"{true_slope:5.1f}  {p:11.3f}")
    print(f"accepted flips: {np.nanmean(trace.sample_stats['accept'].values):.0%} of attempts")


if __name__ == "__main__":
    main()
