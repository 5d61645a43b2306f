"""Cluster samplers of mcising on a square lattice, run by the interpreter of `.venv-mcising`.

Reads JSON objects from standard input, one a line. The first has the side of the lattice, the coupling and the sweeps
of a warm-up. Each of the others names an algorithm, the number of states to look at and the sweeps between them, and is
answered with log p and magnetisation of these states, and the CPU seconds of all of it. Chains go on from one request
to the next.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mcising._core import IsingSimulation


def main() -> None:
    model = json.loads(sys.stdin.readline())
    side, temperature = model["side"], 1.0 / model["coupling"]
    chains: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name, interval = asked["algorithm"], asked["interval"]
        if name not in chains:
            chains[name] = IsingSimulation(side, 1.0, 0.0, 0.0, 0.0, 1, name, "square")
            chains[name].sweep(model["warmup"], temperature=temperature)
        chain, energy, magnetisation = chains[name], [], []
        before = time.process_time()
        for _ in range(asked["states"]):
            chain.sweep(interval, temperature=temperature)
            energy.append(chain.energy())
            magnetisation.append(chain.magnetization())
        seconds = time.process_time() - before
        log_prob = [-side * side * model["coupling"] * value for value in energy]
        print(json.dumps({"log_prob": log_prob, "magnetisation": magnetisation, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
