"""Parallel tempering of hamon on an Ising model, run by the interpreter of `.venv-hamon`.

Reads JSON objects from standard input, one a line. The first has the model, the ladder and the length of a run; each of
the others has a seed, and is answered with E[s_i] by plain averages over scans, log p of all rungs after each scan,
round trips, and CPU seconds, warm-up included. The first run compiles.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from hamon import AbstractNRPTObserver, Block, SpinNode, nrpt
from hamon.models import IsingEBM, IsingSamplingProgram


class Sums(AbstractNRPTObserver):
    """Adds up the spins of the coldest chain, and keeps the energies of all."""

    sizes: tuple[int, ...]

    def __call__(self, stacked_states, base_energies, round_idx, carry):
        return [total + block[-1] for total, block in zip(carry, stacked_states, strict=True)], base_energies

    def init(self):
        return [jnp.zeros(size, jnp.int32) for size in self.sizes]


def sampler(
    pairs: list[list[int]],
    couplings: list[float],
    fields: list[float],
    colours: list[int],
    ladder: list[float],
    steps: int,
    warmup: int,
    scans: int,
) -> Callable[[int], dict[str, Any]]:
    """Return a function of the seed that runs a ladder on log p = sum J_ij s_i s_j + sum h_i s_i.

    Sites of one colour, of which no two are coupled, are drawn at once.
    """
    nodes = [SpinNode() for _ in fields]
    edges = [(nodes[i], nodes[j]) for i, j in pairs]
    model = IsingEBM(nodes, edges, jnp.array(fields), jnp.array(couplings), jnp.array(1.0))
    groups = [np.flatnonzero(np.array(colours) == colour) for colour in range(max(colours) + 1)]
    program = IsingSamplingProgram(model, [Block([nodes[i] for i in group]) for group in groups], [])
    betas, observer = jnp.array(ladder), Sums(tuple(map(len, groups)))
    place = np.argsort(np.concatenate(groups))

    def run(seed: int) -> dict[str, Any]:
        first, second, third = jax.random.split(jax.random.key(seed), 3)
        keys = jax.random.split(first, len(groups))
        shapes = [(len(ladder), len(group)) for group in groups]
        states = [jax.random.bernoulli(key, 0.5, shape) for key, shape in zip(keys, shapes, strict=True)]
        before = time.process_time()
        states, _ = nrpt(second, model, program, states, [], warmup, steps, betas=betas)
        _, stats = nrpt(third, model, program, states, [], scans, steps, betas=betas, observer=observer)
        up = np.concatenate([np.asarray(total) for total in stats["observer_carry"]])[place]
        energies = np.asarray(stats["observations"])
        seconds = time.process_time() - before
        trips = int(np.sum(stats["index_state"]["round_trips"]))
        mean = 2.0 * up / scans - 1.0
        return {"mean": mean.tolist(), "log_prob": (-energies).tolist(), "trips": trips, "seconds": seconds}

    return run


def main() -> None:
    run = sampler(**json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
