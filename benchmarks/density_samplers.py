"""Samplers of a density of a user: bouncy's, random walks, and those of other packages in a process of their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from continuous import Array, Moments
from densities import Density
from numba import njit
from peers.protocol import HERE, interpreter
from random_walk import RandomWalk
from timing import cpu_seconds

import bouncy

# The interpreter of the other packages.
PEERS = interpreter("blackjax")
# Sweeps in which a chain finds the scales of the variables on its own, as NUTS does in as many steps.
_WARMUP = 1000


class Result(NamedTuple):
    """Averages of y and y^2 over chains, (chains, 2, d), their evaluations of log p and its gradient, CPU seconds."""

    averages: Array
    evaluations: int
    seconds: float

    def errors(self, exact: Moments) -> dict[str, Array]:
        """Return the errors of chains, (chains, d), of the mean in sd and of the variance around the exact mean."""
        mean, square = self.averages.swapaxes(0, 1)
        around = square - 2.0 * exact.mean * mean + exact.mean**2
        return {"mean": (mean - exact.mean) / np.sqrt(exact.variance), "variance": around / exact.variance - 1.0}


# Runs all chains once; the number says for which time.
Sampler = Callable[[int], Result]
# Sends a request to the process of the other packages and returns its answer.
Ask = Callable[..., dict[str, Any]]


def ours(density: Density, chains: int, draws: int, sampler: str = "bps") -> Sampler:
    functions = {"log_prob": density.log_prob, "gradient": density.gradient, "data": density.data}
    target = bouncy.Density(density.d, initial=density.start, **functions, **density.options)
    options = {"draws": draws, "warmup": _WARMUP, "chains": 1, "keep": "means", "pairs": "none"}

    def run(seed: int) -> Result:
        seeds = range(chains * seed, chains * (seed + 1))
        runs = [bouncy.sample(target, sampler, seed=k, threads=1, progress=False, **options) for k in seeds]
        averages = np.array([[one.mean, one.variance + one.mean**2] for one in runs])
        evaluations = sum(sum(one.diagnostics["evaluations"].values()) for one in runs)
        return Result(averages, evaluations, sum(one.sampling_seconds for one in runs))

    return run


def random_walks(density: Density, chains: int, draws: int) -> Sampler:
    log_prob = njit(error_model="numpy")(density.log_prob)
    walks = [RandomWalk(density, log_prob, seed) for seed in range(chains)]

    def run(_: int) -> Result:
        averages: list[Array] = []
        seconds = cpu_seconds(lambda: averages.extend(walk.average(draws) for walk in walks))
        return Result(np.array(averages), chains * draws, seconds)

    return run


def peer(ask: Ask, **told: Any) -> Sampler:
    def run(_: int) -> Result:
        answer = ask(**told)
        return Result(np.array(answer["averages"]), answer["evaluations"], answer["seconds"])

    return run


@contextmanager
def peers(density: Density) -> Iterator[Ask]:
    """Start the process of the other packages for the time of a `with` statement."""
    data = [np.asarray(value).tolist() for value in density.data]
    known = {"density": density.name, "data": data, "start": density.start.tolist()}
    command = [str(PEERS), str(HERE / "blackjax_peer.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(**request: Any) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(known | request), file=process.stdin, flush=True)
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(
                    f"benchmarks/peers/blackjax_peer.py ended with {process.wait()}; its error is printed above"
                )
            answer: dict[str, Any] = json.loads(line)
            return answer

        yield ask
