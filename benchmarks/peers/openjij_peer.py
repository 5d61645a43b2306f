"""openjij: simulated annealing with all sweeps at one temperature; of each read only its end is returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import openjij
from protocol import Sampler, serve


def prepare(model: dict[str, Any], sweeps: int, chained: bool = False, updater: str = "single spin flip") -> Sampler:
    """Return independent reads from random starts; or `chained`, reads that begin where the last one ended.

    No seed is given: with one, all reads of a call use the same random numbers.
    """
    chains, d = model["start"].shape
    fields = dict(enumerate((-model["fields"]).tolist()))
    pairs = zip(map(tuple, model["pairs"].tolist()), (-model["couplings"]).tolist(), strict=True)
    bqm = openjij.model.model.BinaryQuadraticModel(fields, dict(pairs), 0.0, "SPIN", sparse=True)
    options = {"schedule": [(1.0, sweeps)], "updater": updater, "reinitialize_state": not chained}
    last = list(model["start"])

    def sample(reads: int, **more: Any) -> Any:
        found = openjij.SASampler().sample(bqm, num_reads=reads, **options, **more)
        return found.record.sample[:, np.argsort(found.variables)]

    def reads(draws: int) -> dict[str, Any]:
        states = sample(chains * draws)
        return {"states": states.reshape(chains, draws, d), "attempts": sweeps * states.size}

    def chain(draws: int) -> dict[str, Any]:
        states = np.empty((chains, draws, d), np.int8)
        for k, rows in enumerate(states):
            rows[:] = sample(draws, initial_state=dict(enumerate(last[k].tolist())))
            last[k] = rows[-1]
        return {"states": states, "attempts": sweeps * states.size}

    return chain if chained else reads


if __name__ == "__main__":
    serve(prepare)
