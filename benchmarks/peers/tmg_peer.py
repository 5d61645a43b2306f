"""tmg-hmc: exact HMC for Gaussians behind linear and quadratic walls (Pakman & Paninski 2014), here an orthant."""

from __future__ import annotations

import os
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from protocol import Sampler, serve
from tmg_hmc import TMGSampler


def prepare(covariance: Any) -> Sampler:
    """Return a chain on the positive orthant, which begins at `start` where one is given, and else goes on."""
    sampler = TMGSampler(np.zeros((len(covariance), 1)), covariance)
    for row in np.eye(len(covariance)):
        sampler.add_constraint(f=row[:, None])

    def run(draws: int, seed: int | None = None, start: Any = None) -> dict[str, Any]:
        if start is not None:
            np.random.seed(seed)  # noqa: NPY002  it draws from the global generator
            sampler.sample(start[:, None], n_samples=1, burn_in=0)
        return {"mean": sampler.sample(n_samples=draws, burn_in=0, cont=True).mean(axis=0)}

    return run


if __name__ == "__main__":
    serve(prepare)
