"""Samplers of densities, run by the interpreter of `.venv-peer-blackjax`: NUTS of BlackJAX, and the BPS of pdmp-jax.

Reads requests from standard input and writes answers to standard output, one JSON object a line. A request names a
density and a sampler, and has the data of the one and the settings of the other. The first of its kind adapts and
compiles; the chains then go on where the last one left them. An answer has averages of y and y^2 for each chain, the
number of evaluations of log p and its gradient, and CPU seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import blackjax
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from pdmp_jax.samplers import BouncyParticle  # noqa: E402

LogProb = Callable[[jax.Array], jax.Array]
# Advances the chains of a sampler and returns averages of y and y^2, (chains, 2, d), and the number of evaluations.
Advance = Callable[[], tuple[jax.Array, jax.Array]]

_ADAPTATION = 1000


# The densities of `densities.py` and `jumps.py`


def gaussian(y, mean, precision):
    return -0.5 * (y - mean) @ precision @ (y - mean)


def student(y, mean, precision, freedom):
    return -0.5 * (freedom + y.size) * jnp.log1p((y - mean) @ precision @ (y - mean) / freedom)


def logistic(y, rows):
    return -jnp.logaddexp(0.0, -rows @ y).sum() - y @ y / 8.0


def wells(y, barrier):
    bend = y[0] ** 2 - 3.0
    return -barrier * bend**2 / 9.0 - 2.0 * (y[1] - 0.5 * bend) ** 2


def threshold(y, x, z):
    r = z - y[0] - y[1] * (x - 0.5) - y[2] * (x > y[3])
    return -0.5 * r @ r - 0.125 * y[:3] @ y[:3] - 8.0 * (y[3] - 0.5) ** 2


def step(y, mean, precision, normal, offset, J):
    return gaussian(y, mean, precision) + jnp.where(normal @ y > offset, J, 0.0)


def simplex(y, mean, sd):
    inside = (y.min() >= 0.0) & (y.sum() <= 1.0)
    return jnp.where(inside, -0.5 * jnp.sum(((y - mean) / sd) ** 2), -jnp.inf)


DENSITIES = {f.__name__: f for f in (gaussian, student, logistic, wells, threshold, step, simplex)}


# The samplers


def nuts(log_prob: LogProb, start: jax.Array, chains: int, draws: int, acceptance: float) -> Advance:
    """NUTS with BlackJAX's adaptation of step size and diagonal mass matrix, to some rate of acceptance.

    A step of the integrator evaluates log p and its gradient: two evaluations.
    """
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_prob, target_acceptance_rate=acceptance)
    kernel = blackjax.nuts.build_kernel()

    def adapt(key):
        (state, parameters), _ = adaptation.run(key, start, _ADAPTATION)
        return state, parameters

    def advance(chain):
        key, state, parameters = chain

        def draw(carry, key):
            state, total, steps = carry
            state, info = kernel(key, state, log_prob, **parameters)
            total += jnp.array([state.position, state.position**2])
            return (state, total, steps + info.num_integration_steps), None

        keys = jax.random.split(key, draws + 1)
        (state, total, steps), _ = jax.lax.scan(draw, (state, jnp.zeros((2, start.size)), 0), keys[1:])
        return (keys[0], state, parameters), total / draws, 2 * steps

    first, second = jax.random.split(jax.random.key(0), (2, chains))
    # Side by side, chains of NUTS wait for the longest trajectory, and still take less time than one after the other.
    return _advance(jax.vmap(advance), (second, *jax.jit(jax.vmap(adapt))(first)))


def bps(log_prob: LogProb, start: jax.Array, chains: int, draws: int, **settings: float) -> Advance:
    """The bouncy particle sampler of pdmp-jax, with exact averages over its path; `draws` are events.

    The bound on its rate takes two evaluations at each point of a grid (the gradient along the path and its
    derivative), each proposed event one, and each event one more. The horizon is fixed: events that depend on a horizon
    adapted to them are not those of the process.
    """
    particle = BouncyParticle(start.size, jax.grad(lambda y: -log_prob(y)), adaptive=False, **settings)

    def advance(chain):
        seed, y, v = chain
        path = particle.sample_skeleton(draws, y, v, seed, verbose=False)
        lengths, x, end = jnp.diff(path.t), path.x[:-1], path.x[1:]
        sums = jnp.array([lengths @ (x + end) / 2.0, lengths @ (x**2 + x * end + end**2) / 3.0])
        bounds = draws + path.hitting_horizon.sum() + path.error_bound.sum()
        proposals = draws + path.rejected.sum() + path.error_bound.sum()
        evaluations = 2 * particle.grid_size * bounds + proposals + draws
        return (seed + chains, path.x[-1], path.v[-1]), sums / lengths.sum(), evaluations

    v = jax.random.normal(jax.random.key(0), (chains, start.size))
    return _advance(partial(jax.lax.map, advance), (jnp.arange(chains), jnp.tile(start, (chains, 1)), v))


def _advance(advance: Callable[..., Any], chains: Any) -> Advance:
    compiled = jax.jit(advance)

    def run() -> tuple[jax.Array, jax.Array]:
        nonlocal chains
        chains, averages, evaluations = jax.block_until_ready(compiled(chains))
        return averages, evaluations.sum()

    return run


SAMPLERS = {"nuts": nuts, "bps": bps}


def main() -> None:
    ready: dict[str, Advance] = {}
    for line in sys.stdin:
        if line not in ready:
            ready[line] = _sampler(**json.loads(line))
        before = time.process_time()
        averages, evaluations = ready[line]()
        seconds = time.process_time() - before
        answer = {"averages": averages.tolist(), "evaluations": int(evaluations), "seconds": seconds}
        print(json.dumps(answer), flush=True)


def _sampler(density: str, data: list[Any], start: list[float], sampler: str, **settings: Any) -> Advance:
    known = [jnp.asarray(value) for value in data]
    return SAMPLERS[sampler](lambda y: DENSITIES[density](y, *known), jnp.asarray(start), **settings)


if __name__ == "__main__":
    main()
