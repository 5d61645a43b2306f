"""thrml: block Gibbs in JAX, all chains at once; sites of one colour, never coupled, are drawn together."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from protocol import Sampler, serve
from thrml import Block, SamplingSchedule, SpinNode, sample_states
from thrml.models import IsingEBM, IsingSamplingProgram


def prepare(model: dict[str, Any]) -> Sampler:
    nodes, colours, start = [SpinNode() for _ in model["fields"]], model["colours"], model["start"]
    edges = [(nodes[i], nodes[j]) for i, j in model["pairs"]]
    ising = IsingEBM(nodes, edges, jnp.array(model["fields"]), jnp.array(model["couplings"]), jnp.array(1.0))
    groups = [np.flatnonzero(colours == colour) for colour in range(colours.max() + 1)]
    program = IsingSamplingProgram(ising, [Block([nodes[i] for i in group]) for group in groups], [])
    state, calls = start > 0, 0

    @partial(jax.jit, static_argnums=2)
    def sample(keys, blocks, draws):
        schedule = SamplingSchedule(n_warmup=1, n_samples=draws, steps_per_sample=1)
        one = lambda key, blocks: sample_states(key, program, schedule, blocks, [], [Block(nodes)])[0]  # noqa: E731
        return jax.vmap(one)(keys, blocks)

    def run(draws: int) -> dict[str, Any]:
        nonlocal state, calls
        calls += 1
        keys = jax.random.split(jax.random.key(calls), len(start))
        states = np.asarray(sample(keys, [jnp.array(state[:, group]) for group in groups], draws))
        state = states[:, -1]
        return {"states": np.where(states, np.int8(1), np.int8(-1))}

    return run


if __name__ == "__main__":
    serve(prepare)
