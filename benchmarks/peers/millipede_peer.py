"""millipede: weighted tempered Gibbs for variable selection, with averages of conditional inclusion probabilities."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import torch
from millipede import NormalLikelihoodSampler
from protocol import Sampler, serve

# Observations that the variance of the noise is known as if from.
_CERTAIN = 1e7


def prepare(model: dict[str, Any], chains: int) -> Sampler:
    """Return chains under the prior of the model. A step computes the odds of all variables and flips one.

    The prior is a g-prior, or normal with the standard deviation "slab" where the noise is known to have that of 1.
    """
    torch.set_num_threads(1)
    X, y = torch.from_numpy(model["X"]), torch.from_numpy(model["y"])
    if "g" in model:
        prior = {"prior": "gprior", "c": model["g"]}
    else:
        prior = {"prior": "isotropic", "tau": model["slab"] ** -2, "nu0": _CERTAIN, "lambda0": 1.0}
    options = {"S": float(model["size"]), "include_intercept": False, "precompute_XX": True}
    options |= prior | {"verbose_constructor": False}
    samplers = [NormalLikelihoodSampler(X, y, **options) for _ in range(chains)]
    steps = [one.mcmc_chain(T_burnin=1000, T=1 << 40, seed=None) for one in samplers]
    for chain in steps:
        next(chain for burned, _ in chain if burned)

    def run(draws: int) -> dict[str, Any]:
        mean = []
        for chain in steps:
            found = [(sample.weight.item(), sample.pip.numpy()) for _, sample in islice(chain, draws)]
            weights, inclusion = map(np.array, zip(*found, strict=True))
            mean.append(2.0 * weights @ inclusion / weights.sum() - 1.0)
        return {"mean": np.array(mean), "attempts": chains * draws}

    return run


if __name__ == "__main__":
    serve(prepare)
