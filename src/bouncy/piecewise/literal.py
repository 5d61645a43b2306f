"""BPS on a piecewise-quadratic potential exactly as in the paper (Pakman 2017, sections 1 and 2), slow and interpreted.

The twin of `bouncy.piecewise.flight` and of `metric_flight`, for pictures and for tests of these engines. Its state is
a position y, a velocity v of length 1 in y / scale or in a metric, and the edges of the cells. U(y) and its gradient
are computed in full: at each event dU/dt at two points of the ray, between which it is linear, and at each wall U on
its two sides. Nothing is carried over from one event to the next.

A coordinate at a point (`points.py`) rests in the middle of its cell until its patience, Exp(1), is spent, and so does
the whole particle between refreshments.

Climbing and walls are paid from separate budgets with separate generators, as in the engine. The order of the random
numbers is that of the engine: the patience of each coordinate at a point, that for the first refreshment if there are
any, a budget; then one budget per bounce, one patience per coordinate that comes to a point or turns there, and
direction, patience, budget per refreshment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from bouncy._random import exponential, fill_sphere
from bouncy.piecewise.potential import Potential, new_view

Array = NDArray[np.float64]

# Kinds of event.
CROSSED, REFUSED, BOUNCED, REFRESHED = range(4)


@dataclass
class Particle:
    """State of a particle, ready to move."""

    potential: Potential
    scale: Array  # (d,)
    y: Array  # (d,)
    v: Array  # (d,) of length 1
    refreshment_rate: float
    path_rng: NDArray[np.uint64]  # (4,)
    toll_rng: NDArray[np.uint64]  # (4,)
    root: Array  # (d, d) of the metric K = root'root, in y / scale
    time: float = 0.0
    until_refreshment: float = inf  # in time at full pace
    edges: list[Array] = field(default_factory=list)  # finite ends of the cells of each coordinate, increasing
    patience: dict[int, float] = field(default_factory=dict)  # left to each coordinate at a point

    def __post_init__(self) -> None:
        self.K = self.root.T @ self.root
        cells = self.potential.cells
        for begin, end in zip(cells.first[:-1], cells.first[1:], strict=True):
            ends = np.unique([*cells.lower[begin:end], *cells.upper[begin:end]])
            self.edges.append(ends[np.isfinite(ends)])
        self.is_point = ~np.isnan(new_view(self.potential, self.scale).way_out)
        for i, row in enumerate(cells.locate(self.y)):
            if self.is_point[row]:
                self.rest(i, row)
        self.schedule_refreshment()
        self.budget = exponential(self.path_rng)
        self.purse = exponential(self.toll_rng)

    def schedule_refreshment(self) -> None:
        if self.refreshment_rate > 0.0:
            self.until_refreshment = exponential(self.path_rng) / self.refreshment_rate

    def rest(self, i: int, row: int) -> None:
        """Let coordinate i stay at a point, the cell `row`."""
        self.y[i] = 0.5 * (self.potential.cells.lower[row] + self.potential.cells.upper[row])
        self.patience[i] = exponential(self.path_rng)

    @property
    def pace(self) -> float:
        """Speed of a particle of which so many coordinates move, relative to one of which all do."""
        return sqrt(max(self.y.size - len(self.patience), 1) / self.y.size)

    @property
    def speed(self) -> Array:
        """dy/dt, (d,)."""
        speed = self.scale * self.v
        speed[list(self.patience)] = 0.0
        return speed


@dataclass(frozen=True)
class FlightPath:
    """The events of a run, and the state after each of them; row 0 is the start, at time 0.

    Attributes
    ----------
    kind : (n + 1,) `CROSSED`, `REFUSED`, `BOUNCED` or `REFRESHED`; -1 for the start.
    time : (n + 1,)
    coordinate : (n + 1,) the coordinate that met a wall, -1 for other events.
    y, v : (n + 1, d)
    speed : (n + 1, d) dy/dt.
    """

    kind: NDArray[np.int8]
    time: Array
    coordinate: NDArray[np.int64]
    y: Array
    v: Array
    speed: Array

    def position(self, k: int, t: float) -> Array:
        """Return y, (d,), at a time t between the events k and k + 1."""
        return np.asarray(self.y[k] + self.speed[k] * (t - self.time[k]))


def literal_flight(
    potential: Potential,
    y: Array,
    v: Array,
    *,
    scale: Array,
    refreshment_rate: float,
    path_state: NDArray[np.uint64],
    toll_state: NDArray[np.uint64],
    events: int,
    metric_root: Array | None = None,
) -> FlightPath:
    """Run the paper's algorithm for a number of events and return its path; generator states change in place.

    It moves in the metric K = root'root of y, for a `metric_root`, (d, d), by default that of y / scale; v is that of a
    K that is the identity, and is multiplied by the root.

    Examples
    --------
    >>> from bouncy._random import new_state
    >>> from bouncy.piecewise.potential import Cells
    >>> normal = Potential(np.eye(1), np.zeros(1), Cells.alike(1, [-np.inf, np.inf]))
    >>> states = [new_state(child) for child in np.random.SeedSequence(0).spawn(2)]
    >>> path = literal_flight(normal, np.zeros(1), np.ones(1), scale=np.ones(1), refreshment_rate=0.0,
    ...                       path_state=states[0], toll_state=states[1], events=4)
    >>> path.kind.tolist(), path.v[:, 0].tolist()
    ([-1, 2, 2, 2, 2], [1.0, -1.0, 1.0, -1.0, 1.0])
    """
    # Sums of 64-bit integers wrap around on purpose; NumPy warns of it in interpreted code.
    with np.errstate(over="ignore"):
        root = np.eye(y.size) if metric_root is None else metric_root / scale
        particle = Particle(potential, scale, y.copy(), v @ root, refreshment_rate, path_state, toll_state, root)
        rows = [(-1, 0.0, -1, particle.y.copy(), particle.v.copy(), particle.speed)]
        for _ in range(events):
            kind, coordinate = next_event(particle)
            rows.append((kind, particle.time, coordinate, particle.y.copy(), particle.v.copy(), particle.speed))
    kinds, times, coordinates, ys, vs, speeds = zip(*rows, strict=True)
    return FlightPath(
        np.array(kinds, np.int8), np.array(times), np.array(coordinates), np.array(ys), np.array(vs), np.array(speeds)
    )


def next_event(particle: Particle) -> tuple[int, int]:
    """Move to the next event and carry it out; return its kind and its coordinate."""
    i, wall, until_wall = next_wall(particle)
    resting, until_leaving = next_to_leave(particle)
    slope, curve = along_the_ray(particle, until_wall)
    until_bounce = time_to_climb(slope, curve, particle.budget)
    until_refreshment = particle.until_refreshment / particle.pace
    dt = min(until_wall, until_leaving, until_bounce, until_refreshment)
    pass_time(particle, dt)
    particle.budget -= min(climb(slope, curve, dt), particle.budget)
    if dt == until_leaving:
        return leave(particle, resting), resting
    if dt == until_wall:
        particle.y[i] = wall
        return meet_wall(particle, i), i
    return (bounce(particle) if dt == until_bounce else refresh(particle)), -1


def pass_time(particle: Particle, dt: float) -> None:
    """Move for a time, and spend patience."""
    for i in particle.patience:
        particle.patience[i] -= leaving_rate(particle, i) * dt
    particle.until_refreshment -= particle.pace * dt
    particle.y += particle.speed * dt
    particle.time += dt


def next_to_leave(particle: Particle) -> tuple[int, float]:
    """Return the coordinate at a point whose patience is spent first, and the time until then."""
    first = (-1, inf)
    for i, patience in particle.patience.items():
        rate = leaving_rate(particle, i)
        if rate > 0.0 and patience / rate < first[1]:
            first = (i, patience / rate)
    return first


def leaving_rate(particle: Particle, i: int) -> float:
    """Return |v_i| times the higher density of y_i beside the point at which it is, over the mass of the point."""
    cells, row = particle.potential.cells, particle.potential.cells.locate(particle.y)[i]
    here = particle.potential.energy(particle.y)
    beside = max(exp(here - energy) for energy in energies_beside(particle, i))
    return float(abs(particle.scale[i] * particle.v[i]) * beside / (cells.upper[row] - cells.lower[row]))


def energies_beside(particle: Particle, i: int) -> list[float]:
    """Return U below and above the point at which coordinate i is; +inf beyond a wall."""
    cells, row = particle.potential.cells, particle.potential.cells.locate(particle.y)[i]
    return [energy_beyond(particle, i, way, edge[row]) for edge, way in ((cells.lower, -inf), (cells.upper, inf))]


def next_wall(particle: Particle) -> tuple[int, float, float]:
    """Return the coordinate that meets an edge of its cells first, the edge, and the time until then."""
    first = (-1, inf, inf)
    for i, (edges, y, speed) in enumerate(zip(particle.edges, particle.y, particle.speed, strict=True)):
        ahead = edges[edges > y] if speed > 0.0 else edges[edges < y][::-1]
        if ahead.size and speed != 0.0 and (ahead[0] - y) / speed < first[2]:
            first = (i, float(ahead[0]), float((ahead[0] - y) / speed))
    return first


def along_the_ray(particle: Particle, until_wall: float) -> tuple[float, float]:
    """Return b and c of dU/dt = b + c t, from its values at a third and two thirds of the way to the wall."""
    third = min(until_wall, 1.0) / 3.0
    near, far = (
        particle.speed @ particle.potential.gradient(particle.y + particle.speed * t) for t in (third, 2 * third)
    )
    curve = (far - near) / third
    return float(near - curve * third), float(curve)


def climb(slope: float, curve: float, t: float) -> float:
    """Return the integral of [slope + curve x]_+ over (0, t): a trapezium or a triangle."""
    begin, end = max(slope, 0.0), max(slope + curve * t, 0.0)
    if slope * (slope + curve * t) >= 0.0:
        return 0.5 * (begin + end) * t
    return 0.5 * max(begin, end) ** 2 / abs(curve)


def time_to_climb(slope: float, curve: float, budget: float) -> float:
    """Return when `climb` reaches the budget: the larger root of slope t + curve t^2/2 = budget, from the bottom on."""
    if slope <= 0.0:
        return -slope / curve + sqrt(2.0 * budget / curve) if curve > 0.0 else inf
    discriminant = slope * slope + 2.0 * curve * budget
    return 2.0 * budget / (slope + sqrt(discriminant)) if discriminant >= 0.0 else inf


def meet_wall(particle: Particle, i: int) -> int:
    """Cross the edge at which coordinate i is if the budget covers its height, else invert v_i; rest at a point.

    The outermost ends of a coordinate are never crossed and cost nothing.
    """
    forward = inf if particle.v[i] > 0.0 else -inf
    beyond = particle.y.copy()
    beyond[i] = np.nextafter(particle.y[i], forward)
    row = particle.potential.cells.locate(beyond)[i]
    if not _is_outermost(particle, i) and particle.is_point[row]:
        particle.rest(i, row)
        return CROSSED
    return cross(particle, i, energy_beyond(particle, i, forward) - energy_beyond(particle, i, -forward))


def leave(particle: Particle, i: int) -> int:
    """Go on from a point if the budget covers what is before it over what is behind it, else turn there."""
    cells, row = particle.potential.cells, particle.potential.cells.locate(particle.y)[i]
    behind, before = energies_beside(particle, i)[:: 1 if particle.v[i] > 0.0 else -1]
    del particle.patience[i]
    particle.y[i] = (cells.upper if particle.v[i] > 0.0 else cells.lower)[row]
    kind = cross(particle, i, before - min(before, behind))
    if kind == REFUSED:
        particle.rest(i, row)
    return kind


def cross(particle: Particle, i: int, height: float) -> int:
    """Let coordinate i, at an edge, go on if the budget covers a height, else invert v_i, in the metric."""
    if not _is_outermost(particle, i):
        if height < particle.purse:
            particle.purse -= max(height, 0.0)
            return CROSSED
        particle.purse = exponential(particle.toll_rng)
    particle.v -= 2.0 * particle.v[i] * particle.K[:, i] / particle.K[i, i]
    return REFUSED


def _is_outermost(particle: Particle, i: int) -> bool:
    """Say whether coordinate i, which is at an edge, has no cell ahead."""
    cells, y = particle.potential.cells, particle.y[i]
    upward = particle.v[i] > 0.0
    return bool(y >= cells.upper[cells.first[i + 1] - 1] if upward else y <= cells.lower[cells.first[i]])


def energy_beyond(particle: Particle, i: int, direction: float, edge: float | None = None) -> float:
    """Return U with coordinate i moved to the next number in a direction, from where it is or from an edge."""
    y = particle.y.copy()
    y[i] = np.nextafter(y[i] if edge is None else edge, direction)
    return particle.potential.energy(y)


def bounce(particle: Particle) -> int:
    """Reflect off the gradient in y / scale, v_r = v - 2 (v.g) K g / (g.K g), and draw a new budget."""
    g = particle.scale * particle.potential.gradient(particle.y)
    particle.v -= 2.0 * (particle.v @ g) * (particle.K @ g) / (g @ particle.K @ g)
    particle.budget = exponential(particle.path_rng)
    return BOUNCED


def refresh(particle: Particle) -> int:
    """Replace the velocity, schedule the next refreshment and draw a new budget."""
    fill_sphere(particle.path_rng, particle.v)
    particle.v = particle.v @ particle.root
    particle.schedule_refreshment()
    particle.budget = exponential(particle.path_rng)
    return REFRESHED
