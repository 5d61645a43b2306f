"""PyMC: `BinaryGibbsMetropolis`, its default for binary variables, with log p in full at each proposal.

Steps are taken one by one, without the trace of `pm.sample`, which would cost more than they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from protocol import Sampler, serve


def prepare(model: dict[str, Any]) -> Sampler:
    (i, j), d = model["pairs"].T, model["fields"].size
    A = np.zeros((d, d))
    A[i, j] = model["couplings"]
    with pm.Model():
        b = pm.Bernoulli("b", 0.5, shape=d)
        s = 2.0 * b - 1.0
        pm.Potential("log_prob", pm.math.dot(s, pm.math.dot(A, s)) + pm.math.dot(model["fields"], s))
        steps = [pm.BinaryGibbsMetropolis([b], rng=seed) for seed in range(len(model["start"]))]
    points = [{"b": (1 + start.astype(np.int64)) // 2} for start in model["start"]]

    def run(draws: int) -> dict[str, Any]:
        states = np.empty((len(steps), draws, d), np.int8)
        for k, step in enumerate(steps):
            for row in states[k]:
                points[k], _ = step.step(points[k])
                row[:] = 2 * points[k]["b"] - 1
        return {"states": states, "attempts": round(steps[0].transit_p * states.size)}

    return run


if __name__ == "__main__":
    serve(prepare)
