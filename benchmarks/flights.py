"""What an event of the bouncy particle costs, and how that grows with the number of variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from conditionals import Orthant
from continuous import autoregressive, equicorrelated
from numpy.typing import NDArray
from problems import timed_advance
from report import Figure, Task
from timing import Job, cpu_seconds, interleaved, median

import bouncy
from bouncy._compile import kernel
from bouncy.piecewise.coupling import add_columns, multiply
from bouncy.recorders.contract import BOUNCES, HITS, REFRESHMENTS
from bouncy.workers.contract import Plan
from bouncy.workers.paths import PathWorker

TITLE = "Events of the bouncy particle on truncated Gaussians"
NOTE = (
    "Positive orthants; events are wall hits, bounces and refreshments. 'products alone' is a loop that does nothing "
    "but the products with the precision that the same events need: two columns at a wall, the whole matrix at a "
    "bounce or a refreshment. Means, squares and bins recorded, no pairs. Counts are of a sweep."
)
HEADER = "model | d | walls | bounces | refreshments | figure"

DIMENSIONS = (10, 30, 100, 300, 1000, 2000)
MODELS: dict[str, Callable[[int], bouncy.TruncatedGaussian]] = {
    "dense, equicorrelation 0.5": partial(equicorrelated, rho=0.5),
    "sparse, AR(1) 0.5": partial(autoregressive, rho=0.5),
}
COUNTS = {"walls": HITS, "bounces": BOUNCES, "refreshments": REFRESHMENTS}
_GIBBS_SWEEPS = 300


class Particle(NamedTuple):
    """A worker, how many sweeps are timed at once, and its events in a sweep."""

    worker: PathWorker
    sweeps: int
    per_sweep: NDArray[np.float64]  # (4,)

    def advance(self) -> float:
        """Return CPU seconds per event."""
        seconds, events = timed_advance(self.worker, self.sweeps)
        return seconds / float(_total(events))

    def multiply(self) -> float:
        """Return CPU seconds per event of the products alone."""
        d = self.worker.motion.y.size
        walls = max(1, round(self.sweeps * self.per_sweep[HITS]))
        legs = max(1, round(self.sweeps * (self.per_sweep[BOUNCES] + self.per_sweep[REFRESHMENTS] + 1.0)))
        u = np.random.default_rng(0).standard_normal(d)
        F, Q = np.zeros(d), np.zeros(d)
        seconds = cpu_seconds(lambda: _products(self.worker.view.coupling, u, F, Q, walls, legs))
        return seconds / (self.sweeps * float(_total(self.per_sweep)))


def tasks(quick: bool) -> list[Task]:
    return [Task(label, partial(_measure, label, quick)) for label in MODELS]


def _measure(label: str, quick: bool) -> list[Figure]:
    rounds, work = (5, 1_000_000) if quick else (9, 3_000_000)
    particles = {d: _particle(MODELS[label](d), work / d) for d in DIMENSIONS}
    jobs: dict[str, Job] = {f"event {d}": particle.advance for d, particle in particles.items()}
    jobs |= {f"products {d}": particle.multiply for d, particle in particles.items()}
    seconds = interleaved(jobs, rounds)
    figures = []
    for d, particle in particles.items():
        figures += _figures(label, d, particle, seconds)
    return figures


def _particle(target: bouncy.TruncatedGaussian, events: float) -> Particle:
    """Return a worker that starts from a state that Gibbs has found, so that the first sweeps are like the others."""
    gibbs = Orthant(target.potential.coupling, seed=0)
    gibbs.average(_GIBBS_SWEEPS)
    worker = PathWorker(target, bouncy.piecewise.BPS(), Plan(), np.random.SeedSequence(0), gibbs.x)
    PathWorker.record_anew([worker])
    _, first = timed_advance(worker, 2)
    sweeps = max(1, round(events / float(_total(first) / 2.0)))
    _, found = timed_advance(worker, sweeps)
    return Particle(worker, sweeps, found / sweeps)


def _total(events: NDArray[np.float64]) -> Any:
    return events[list(COUNTS.values())].sum()


@kernel
def _products(coupling, u, F, Q, walls, legs):
    """Add two columns as often as a wall is met, and multiply with the matrix as often as a leg begins."""
    i = 0
    for _ in range(walls):
        add_columns(coupling, i, 1e-9, F, -1e-9, Q)
        i = i + 7 if i + 7 < u.size else (i + 7) % u.size
    for _ in range(legs):
        multiply(coupling, u, Q)


def _figures(label: str, d: int, particle: Particle, seconds: dict[str, NDArray[np.float64]]) -> list[Figure]:
    event, first, products = (seconds[job] for job in (f"event {d}", f"event {DIMENSIONS[0]}", f"products {d}"))
    counts = {name: float(particle.per_sweep[index]) for name, index in COUNTS.items()}
    details = {"model": label, "d": d, "per_sweep": counts, "events_per_cpu_second": float(1.0 / np.median(event))}
    what = f"{label} | {d} | {' | '.join(f'{count:.1f}' for count in counts.values())}"
    return [
        Figure(
            f"{what} | time of an event / at d = {DIMENSIONS[0]}",
            median(event / first),
            details=details | {"figure": "growth"},
        ),
        Figure(
            f"{what} | time of an event / products alone",
            median(event / products),
            details=details | {"figure": "overhead"},
        ),
    ]
