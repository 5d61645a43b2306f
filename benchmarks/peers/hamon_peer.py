"""hamon: ladders of temperatures with non-reversible swaps, and block Gibbs sweeps between them."""

from __future__ import annotations

import os
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from hamon import AbstractNRPTObserver, Block, SpinNode, nrpt
from hamon.models import IsingEBM, IsingSamplingProgram
from protocol import Sampler, serve


class Sums(AbstractNRPTObserver):
    """Adds up the spins of the coldest chain, and keeps the energies of all."""

    sizes: tuple[int, ...]

    def __call__(self, stacked_states, base_energies, round_idx, carry):
        return [total + block[-1] for total, block in zip(carry, stacked_states, strict=True)], base_energies

    def init(self):
        return [jnp.zeros(size, jnp.int32) for size in self.sizes]


def prepare(model: dict[str, Any], ladder: list[float], steps: int, chains: int = 1) -> Sampler:
    """Return independent ladders, run one after the other. Sites of one colour, never coupled, are drawn at once.

    `ladder` is log p at all temperatures, (chains, scans, rungs). Ladders go on where they were, or begin at random
    with a `warmup`, if that is not 0.
    """
    nodes, colours, betas = [SpinNode() for _ in model["fields"]], model["colours"], jnp.array(ladder)
    edges = [(nodes[i], nodes[j]) for i, j in model["pairs"]]
    ising = IsingEBM(nodes, edges, jnp.array(model["fields"]), jnp.array(model["couplings"]), jnp.array(1.0))
    groups = [np.flatnonzero(colours == colour) for colour in range(colours.max() + 1)]
    program = IsingSamplingProgram(ising, [Block([nodes[i] for i in group]) for group in groups], [])
    observer, place = Sums(tuple(map(len, groups))), np.argsort(np.concatenate(groups))
    kept: list[Any] = [None] * chains
    calls = 0

    def run(draws: int, seed: int | None = None, warmup: int = 0) -> dict[str, Any]:
        nonlocal calls
        mean, rungs, trips, calls = [], [], 0, calls + 1
        for k, key in enumerate(jax.random.split(jax.random.key(calls if seed is None else seed), chains)):
            *starts, first, second = jax.random.split(key, len(groups) + 2)
            if warmup or kept[k] is None:
                shapes = [(len(ladder), len(group)) for group in groups]
                kept[k] = [jax.random.bernoulli(*one) for one in zip(starts, [0.5] * len(shapes), shapes, strict=True)]
            if warmup:
                kept[k], _ = nrpt(first, ising, program, kept[k], [], warmup, steps, betas=betas)
            kept[k], stats = nrpt(second, ising, program, kept[k], [], draws, steps, betas=betas, observer=observer)
            up = np.concatenate([np.asarray(total) for total in stats["observer_carry"]])[place]
            mean.append(2.0 * up / draws - 1.0)
            rungs.append(-np.asarray(stats["observations"]))
            trips += int(np.sum(stats["index_state"]["round_trips"]))
        attempts = chains * draws * steps * len(ladder) * len(nodes)
        log_prob = np.array(rungs)[:, :, -1]
        return {"mean": mean, "ladder": np.array(rungs), "log_prob": log_prob, "trips": trips, "attempts": attempts}

    return run


if __name__ == "__main__":
    serve(prepare)
