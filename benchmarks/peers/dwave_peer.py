"""dwave-samplers: simulated annealing with all sweeps at one temperature; of each read only its end is returned."""

from __future__ import annotations

from typing import Any

import dimod
import numpy as np
from dwave.samplers import SimulatedAnnealingSampler
from protocol import Sampler, serve


def prepare(model: dict[str, Any], sweeps: int, chained: bool = False, criterion: str = "Gibbs") -> Sampler:
    """Return independent reads from random starts; or `chained`, calls with one read that begins where the last ended.

    Each call has a new seed, after which the first two random numbers are close to 0: its first two sites always flip.
    """
    (i, j), chains = model["pairs"].T, len(model["start"])
    energies = -model["fields"], (i, j, -model["couplings"]), 0.0
    bqm = dimod.BinaryQuadraticModel.from_numpy_vectors(*energies, dimod.SPIN)
    sample, last = SimulatedAnnealingSampler().sample, list(model["start"][:, None])
    schedule = {"beta_schedule_type": "custom", "beta_schedule": np.ones(sweeps)}
    options = schedule | {"proposal_acceptance_criteria": criterion}

    def reads(draws: int) -> dict[str, Any]:
        states = sample(bqm, num_reads=chains * draws, **options).record.sample
        return {"states": states.reshape(chains, draws, -1), "attempts": sweeps * states.size}

    def chain(draws: int) -> dict[str, Any]:
        states = np.empty((chains, draws, model["fields"].size), np.int8)
        for k, rows in enumerate(states):
            for row in rows:
                last[k] = sample(bqm, initial_states=last[k], **options).record.sample
                row[:] = last[k][0]
        return {"states": states, "attempts": sweeps * states.size}

    return chain if chained else reads


if __name__ == "__main__":
    serve(prepare)
