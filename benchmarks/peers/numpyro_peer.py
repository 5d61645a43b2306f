"""NumPyro: `DiscreteGibbs`, which draws one site after the other in a random order, all chains at once.

The kernel is called without `MCMC`, which compiles anew in every run and cannot vectorise this kernel by itself.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Bernoulli
from numpyro.infer.gibbs import DiscreteGibbs
from protocol import Sampler, serve


def prepare(model: dict[str, Any], modified: bool = True) -> Sampler:
    """Return chains whose proposals are Metropolised (Liu 1996) if `modified`."""
    (i, j), d, start = model["pairs"].T, model["fields"].size, model["start"]
    A, h = np.zeros((d, d)), jnp.array(model["fields"])
    A[i, j] = model["couplings"]
    J = jnp.array(A)

    def joint() -> None:
        with numpyro.plate("sites", d):
            s = 2.0 * numpyro.sample("b", Bernoulli(0.5)) - 1.0
        numpyro.factor("log_prob", s @ J @ s + h @ s)

    kernel = DiscreteGibbs(joint, modified=modified)
    begin = jax.vmap(lambda key, b: kernel.init(key, 0, {"b": b}, (), {}))
    last = begin(jax.random.split(jax.random.key(0), len(start)), jnp.array((1 + start) // 2, jnp.int32))

    @partial(jax.jit, static_argnums=1)
    def sample(state, draws):
        def step(state, _):
            state = jax.vmap(lambda one: kernel.sample(one, (), {}))(state)
            return state, state.z["b"]

        return jax.lax.scan(step, state, None, length=draws)

    def run(draws: int) -> dict[str, Any]:
        nonlocal last
        last, found = sample(last, draws)
        return {"states": np.where(np.asarray(found) > 0, np.int8(1), np.int8(-1)).swapaxes(0, 1)}

    return run


if __name__ == "__main__":
    serve(prepare)
