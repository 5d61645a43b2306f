"""Points, at which a coordinate of the particle stays for an exponential time (sticky particles).

A point is a cell of a finite length w that stands for one value, on which phi is constant and at whose ends x does not
jump, so that the density beside it is that of y in the cell times exp(-jump of phi), wherever the others are. A
coordinate that comes to a point stays there with its velocity v_i, takes part in no bounce, pays no toll, and tries to
leave at the rate

    |v_i| exp(-lower jump) / w,

with the lower of the jumps at both ends; a wall is an infinite one. It then leaves in the direction of v_i with
probability exp(lower jump - jump in that direction), and else turns and stays. What comes from behind, as often as the
density there times |v_i| says, goes on as often as the density ahead says, so that the law of y and v is kept. It takes
as long as crossing the cell at the speed |v_i| would on average, if the density were the same in it and beside it.

Bierkens, Grazzi, van der Meulen & Schauer, "Sticky PDMP samplers for sparse and local inference problems",
arXiv:2103.08478 (2023).
"""

from __future__ import annotations

from math import exp, inf, isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import generic, implements, part
from bouncy._random import exponential

Array = NDArray[np.float64]


@part(
    "order", "number", "due",
    bounds={
        "order": lambda points: (0, points.due.size - 1),
        "number": lambda points: (0, points.due.size),
        "due": lambda points: (-1.0, inf),
    },
)  # fmt: skip
class Points(NamedTuple):
    """Which coordinates are at points, and when they try to leave."""

    order: NDArray[np.int64]  # (d,) all coordinates, first those that move
    number: NDArray[np.int64]  # (1,) how many these are
    due: Array  # (d,) of those at points, in time since the beginning of the sweep
    first: NDArray[np.int64]  # (1,) scratch of one sweep: the place of the one that leaves first, -1 if there is none


@part()
class NoPoints(NamedTuple):
    """The same where no cell is a point: arrays are empty, and loops over all that moves need no list."""

    order: NDArray[np.int64]
    number: NDArray[np.int64]
    due: Array
    first: NDArray[np.int64]


def new_points(d: int, has_points: bool) -> Points | NoPoints:
    """Return a record of which of d coordinates are at points, if any can be, to be filled by `place_points`."""
    kind, size = (Points, d) if has_points else (NoPoints, 0)
    return kind(np.arange(size), np.full(1, size), np.zeros(size), np.zeros(1, np.int64))


def ways_out(cells: Any, x_jump: Array, phi_jump: Array) -> Array:
    """Return the lower of the two jumps of phi on the ways out of each point, (n,), and NaN for cells that are crossed.

    `x_jump` and `phi_jump`, (n,), are those at the upper ends of cells; outermost ends, where they are NaN, are walls.
    """
    up, down = phi_jump, np.append(np.nan, -phi_jump[:-1])
    moves = cells.slope != 0.0
    joins = [(x_jump == 0.0) & np.append(moves[1:], False), np.append(False, (x_jump[:-1] == 0.0) & moves[:-1])]
    is_point = ~moves & (cells.tilt == 0.0) & (cells.curvature == 0.0) & (cells.constant < np.inf)
    is_point &= np.isfinite(cells.upper - cells.lower) & (joins[0] | joins[1])
    for jump, join in zip((up, down), joins, strict=True):
        is_point &= join | ~(jump < np.inf)
    return np.where(is_point, np.fmin(up, down), np.nan)


@generic
def moving(points, d):
    """Return how many of d coordinates are not at points."""


@generic
def mover(points, k):
    """Return the k-th coordinate that is not at a point."""


@generic
def is_point(points, view, row):
    """Return whether a cell is a point."""


@implements(moving, NoPoints)
def _all(points, d):
    return d


@implements(mover, NoPoints)
def _each(points, k):
    return k


@implements(is_point, NoPoints)
def _never(points, view, row):
    return False


@implements(moving, Points)
def _moving(points, d):
    return points.number[0]


@implements(mover, Points)
def _mover(points, k):
    return points.order[k]


@implements(is_point, Points)
def _is_point(points, view, row):
    return not isnan(view.way_out[row])


@helper
def place_points(points, view, row, v, rng):
    """Find which coordinates are at points, by their cells, and when they leave, from the beginning of a sweep."""
    n, last = 0, points.order.size
    for i in range(points.order.size):
        if is_point(points, view, row[i]):
            last -= 1
            points.order[last] = i
            points.due[i] = _waiting_time(view, row[i], v[i], rng)
        else:
            points.order[n] = i
            n += 1
    points.number[0] = n


@helper
def _waiting_time(view, row, speed, rng):
    """Draw the time until a coordinate tries to leave a point; inf if it has no speed."""
    mean = (view.upper[row] - view.lower[row]) * exp(view.way_out[row])
    return exponential(rng) * mean / abs(speed) if speed != 0.0 else inf


@helper
def find_first(points):
    """Find the coordinate that leaves its point first."""
    place, time = -1, inf
    for k in range(points.number[0], points.order.size):
        if points.due[points.order[k]] < time:
            place, time = k, points.due[points.order[k]]
    points.first[0] = place


@helper
def first_to_leave(points):
    """Return that coordinate, and when it leaves; -1 and inf if there is none."""
    k = points.first[0]
    return (points.order[k], points.due[points.order[k]]) if k >= 0 else (-1, inf)


@helper
def stay(points, view, i, row, speed, now, rng):
    """Let coordinate i, which comes to a point or turns there, stay for an exponential time from now on."""
    for k in range(points.number[0]):
        if points.order[k] == i:
            points.number[0] -= 1
            _exchange(points, k)
            break
    points.due[i] = now + _waiting_time(view, row, speed, rng)
    find_first(points)


@helper
def leave(points):
    """Let the coordinate that leaves its point first move."""
    _exchange(points, points.first[0])
    points.number[0] += 1
    find_first(points)


@helper
def _exchange(points, k):
    """Exchange a place of the order with that behind the coordinates that move."""
    order, n = points.order, points.number[0]
    order[k], order[n] = order[n], order[k]


@helper
def change_speeds(points, view, row, old, v, now, rng):
    """Let coordinates that are at points leave sooner or later, as their velocities have changed from `old` to v."""
    for k in range(points.number[0], points.order.size):
        i = points.order[k]
        if old[i] != 0.0:
            points.due[i] = now + (points.due[i] - now) * abs(old[i] / v[i])
        else:
            points.due[i] = now + _waiting_time(view, row[i], v[i], rng)
    find_first(points)


@helper
def end_time(points, sweep_time):
    """Count time from the end of a sweep that took some time."""
    for k in range(points.number[0], points.order.size):
        points.due[points.order[k]] -= sweep_time
