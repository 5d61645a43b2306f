"""mcising on a square lattice: Metropolis, Wolff or Swendsen-Wang, one chain after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from mcising._core import IsingSimulation
from protocol import Sampler, serve


def prepare(model: dict[str, Any], algorithm: str, interval: int = 1) -> Sampler:
    """Return chains whose states are looked at after every `interval` sweeps, of Wolff clusters."""
    starts, coupling = model["start"], float(model["couplings"][0])
    side = round(starts.shape[1] ** 0.5)
    chains = [IsingSimulation(side, 1.0, 0.0, 0.0, 0.0, seed, algorithm, "square") for seed in range(len(starts))]
    for chain, spins in zip(chains, starts, strict=True):
        chain.set_spins(spins)

    def run(draws: int) -> dict[str, Any]:
        states, attempts = np.empty((len(chains), draws, side * side), np.int8), 0
        for chain, rows in zip(chains, states, strict=True):
            for row in rows:
                attempts += chain.sweep(interval, temperature=1.0 / coupling)[1]
                row[:] = chain.get_spins().ravel()
        return {"states": states, "attempts": attempts}

    return run


if __name__ == "__main__":
    serve(prepare)
