"""BPS on any piecewise differentiable density exactly as in the paper (Pakman 2017, section 2), slow and interpreted.

The twin of `bouncy.piecewise.smooth_flight`. Edges of coordinates and oblique walls are a list of hyperplanes n.y = c.
Log p is followed on a fine grid of the ray: its ascents between turning points, which are found by bisection, pay from
the budget until it is spent. At a wall log p is compared a little before and a little beyond it.

Climbing and walls are paid from separate budgets with separate generators. The order of the random numbers is that of
the engine: the time of the first refreshment if there are any, a budget; then one budget per bounce, and direction,
time, budget per refreshment; one purse per refused wall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from bouncy._random import exponential, fill_sphere
from bouncy.piecewise.literal import BOUNCED, CROSSED, REFRESHED, REFUSED, FlightPath

Array = NDArray[np.float64]

# Points of a ray, and the longest piece of it that is looked at at once.
POINTS, PIECE = 2001, 5.0
# Distance from a wall at which log p is asked.
BESIDE = 1e-10


@dataclass
class Particle:
    """State of a particle, ready to move."""

    log_prob: Callable[[Array], Array]  # of rows, (n, d)
    gradient: Callable[[Array], Array]  # of log p
    walls: list[tuple[Array, float]]
    scale: Array  # (d,)
    y: Array  # (d,)
    v: Array  # (d,) of length 1
    refreshment_rate: float
    path_rng: NDArray[np.uint64]  # (4,)
    toll_rng: NDArray[np.uint64]  # (4,)
    time: float = 0.0
    t_refresh: float = inf
    at_wall: int = -1

    def __post_init__(self) -> None:
        self.schedule_refreshment()
        self.budget = exponential(self.path_rng)
        self.purse = exponential(self.toll_rng)

    def schedule_refreshment(self) -> None:
        if self.refreshment_rate > 0.0:
            self.t_refresh = self.time + exponential(self.path_rng) / self.refreshment_rate

    @property
    def speed(self) -> Array:
        """dy/dt, (d,)."""
        return self.scale * self.v

    def at(self, t: Array) -> Array:
        """Return places, (n, d), after times, (n,)."""
        return self.y + np.multiply.outer(t, self.speed)

    def U(self, t: float) -> float:
        return -float(self.log_prob(self.at(np.array([t])))[0])

    def slope(self, t: float) -> float:
        return -float(self.gradient(self.at(np.array([t])))[0] @ self.speed)


def literal_density_flight(*state: Any, events: int) -> FlightPath:
    """Run the paper's algorithm from the state of a `Particle` for a number of events and return its path."""
    with np.errstate(over="ignore"):  # sums of 64-bit integers wrap around on purpose
        particle = Particle(*state)
        rows = [(-1, 0.0, -1, particle.y.copy(), particle.v.copy(), particle.speed)]
        for _ in range(events):
            kind, wall = next_event(particle)
            rows.append((kind, particle.time, wall, particle.y.copy(), particle.v.copy(), particle.speed))
    kinds, times, walls, ys, vs, speeds = zip(*rows, strict=True)
    return FlightPath(
        np.array(kinds, np.int8), np.array(times), np.array(walls), np.array(ys), np.array(vs), np.array(speeds)
    )


def next_event(particle: Particle) -> tuple[int, int]:
    """Move to the next event and carry it out; return its kind and the number of its wall, or -1."""
    wall, until_wall = next_wall(particle)
    until_refreshment = particle.t_refresh - particle.time
    dt, bounces = climb(particle, min(until_wall, until_refreshment))
    if bounces:
        move(particle, dt, -1)
        return bounce(particle), -1
    if until_wall <= until_refreshment:
        move(particle, until_wall, wall)
        return meet_wall(particle, wall), wall
    move(particle, until_refreshment, -1)
    return refresh(particle), -1


def move(particle: Particle, dt: float, wall: int) -> None:
    particle.y = particle.y + particle.speed * dt
    particle.time += dt
    particle.at_wall = wall


def next_wall(particle: Particle) -> tuple[int, float]:
    """Return the wall that is met first, and the time until then; the one that the particle is at does not count."""
    first = (-1, inf)
    for k, (n, c) in enumerate(particle.walls):
        along = float(n @ particle.speed)
        until = (c - float(n @ particle.y)) / along if along != 0.0 else inf
        if k != particle.at_wall and 0.0 < until < first[1]:
            first = (k, until)
    return first


def climb(particle: Particle, end: float) -> tuple[float, bool]:
    """Return when the budget is spent, and True; or the end, and False, with what is left of the budget."""
    begin = 0.0
    while begin < end:
        until = min(begin + PIECE, end)
        inside = 1e-9 * (until - begin)  # not on the walls at the ends
        times = np.linspace(begin + inside, until - inside, POINTS)
        slopes = -particle.gradient(particle.at(times)) @ particle.speed
        turns = [
            brentq(particle.slope, times[k], times[k + 1], xtol=1e-13)
            for k in np.flatnonzero(np.sign(slopes[:-1]) * np.sign(slopes[1:]) < 0)
        ]
        ends = [times[0], *turns, times[-1]]
        for low, high in pairwise(ends):
            ascent = particle.U(high) - particle.U(low)
            if ascent >= particle.budget:
                goal = particle.U(low) + particle.budget
                return brentq(lambda t, goal=goal: particle.U(t) - goal, low, high, xtol=1e-13), True
            particle.budget -= max(ascent, 0.0)
        begin = until
    return end, False


def meet_wall(particle: Particle, wall: int) -> int:
    """Cross a wall if the purse covers the jump of U, else reflect off its normal in y / scale."""
    height = particle.U(BESIDE) - particle.U(-BESIDE)
    if height < particle.purse:
        particle.purse -= max(height, 0.0)
        return CROSSED
    particle.purse = exponential(particle.toll_rng)
    reflect(particle, particle.walls[wall][0])
    return REFUSED


def bounce(particle: Particle) -> int:
    """Reflect off the gradient and draw a new budget."""
    reflect(particle, particle.gradient(particle.y[None])[0])
    particle.budget = exponential(particle.path_rng)
    return BOUNCED


def reflect(particle: Particle, n: Array) -> None:
    """Reflect off a surface of normal n, which is scale * n in y / scale: v - 2 (v.g) g / |g|^2."""
    g = particle.scale * n
    particle.v = particle.v - 2.0 * (particle.v @ g) * g / (g @ g)


def refresh(particle: Particle) -> int:
    """Replace the velocity, schedule the next refreshment and draw a new budget."""
    particle.time = particle.t_refresh
    particle.v = particle.v.copy()
    fill_sphere(particle.path_rng, particle.v)
    particle.schedule_refreshment()
    particle.budget = exponential(particle.path_rng)
    return REFRESHED
