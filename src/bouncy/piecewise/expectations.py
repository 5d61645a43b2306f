"""The law of one coordinate given all others, and the averages of its expectations.

Given the others, exp(-U) is a mixture over the cells of a coordinate, on each of which it is exp of a quadratic
function (`truncated.py`). With A, b and the cells as in `potential.py` and f = A x - b, the value x_i = a y + c of a
cell has

    U = kappa y^2 / 2 + tau y + c (g + A_ii c / 2) + constant,    g = f_i - A_ii x_i,
    kappa = A_ii a^2 + curvature,    tau = a (g + A_ii c) + tilt.

E[x_i | others], E[x_i^2 | others] and the probabilities of the cells have the same expectations as x_i, x_i^2 and the
cell itself, with a smaller variance. They depend on the others through the pull sum_j A_ij x_j (j != i) alone: its
sums, and those of how the law responds to it, serve as control variates (`results/controls.py`).
"""

from __future__ import annotations

from math import exp, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import generic, implements, part
from bouncy._random import uniform
from bouncy.piecewise.potential import HALF_LINE, LINE, SPIKED
from bouncy.piecewise.products import products_given
from bouncy.piecewise.spikes import ONE, Windows, new_windows, record_windows
from bouncy.piecewise.truncated import (
    draw,
    draw_half_line,
    exchange_half_line,
    moments,
    passes,
    peak_of,
    spread_of_half_line,
)
from bouncy.recorders.batches import Batch

Array = NDArray[np.float64]

# A wall whose squared distance from the mean is below so many variances makes a law too skew to be reflected. It is 1.8
# for half of a normal at its wall, and 3 for a uniform law.
_NEAR_WALL = 2.7
# Sums over a batch, by name.
SUMS = ("mean", "square", "pull", "spread", "cell", "response")


@part()
class NoExpectations(NamedTuple):
    """Nothing is kept."""

    nothing: Array  # (0,) a tuple of no fields has no type in numba

    def sums(self) -> Batch:
        """Return nothing."""
        return {}

    def clear(self) -> None:
        """Do nothing."""


@part("open_mean", "open_square", "open_cell", "open_pull", "open_spread", "open_response")
class Expectations(NamedTuple):
    """Sums over the open batch, and the law of the coordinate that was last looked at."""

    windows: Windows  # sums of coordinates that are normal or at a point, until `settle_windows`
    open_mean: Array  # (d,) of E[x_i | others], each for as long as it stands
    open_square: Array  # (d,) of E[x_i^2 | others]
    open_pull: Array  # (d,) of sum_j A_ij x_j over the others
    open_spread: Array  # (d,) of Var[x_i | others]
    open_cell: Array  # (n,) of the probability of each cell given the others
    open_response: Array  # (n,) of the covariance of x_i and of being in the cell, given the others
    # Scratch, (n,): of each cell its tau, of a half-line the slope of U at its end; U at the peak and the integral of
    # exp(U(peak) - U); its probability, and mean and variance of the value in it.
    tau: Array
    energy: Array
    integral: Array
    probability: Array
    mean: Array
    variance: Array

    def sums(self) -> Batch:
        """Return the sums over the open batch."""
        return {name: getattr(self, f"open_{name}").copy() for name in SUMS}

    def clear(self) -> None:
        """Begin a new batch."""
        for array in (*(getattr(self, f"open_{name}") for name in SUMS), *self.windows):
            array[:] = 0


def no_expectations() -> NoExpectations:
    """Return a recorder of expectations that keeps nothing."""
    return NoExpectations(np.empty(0))


def new_expectations(d: int, cells: int, spiked: bool = True) -> Expectations:
    """Return an empty recorder of expectations of d coordinates, some of which may be normal or at a point."""
    windows, single, of_cells = new_windows(d if spiked else 0), np.zeros((4, d)), np.zeros((8, cells))
    return Expectations(windows, *(row.copy() for row in single), *(row.copy() for row in of_cells))


@helper
def weigh(law, view, i, f, x):
    """Find the law of coordinate i, whose value is x; return E[x_i], E[x_i^2] and whether it is a proper law.

    `f` is its entry of A x - b. Changes the scratch of `law`.
    """
    A, kind = view.diagonal[i], view.kind[i]
    g = f - A * x
    first, last = np.uint64(view.first[i]), np.uint64(view.first[i + 1])  # unsigned, which skips the wraparound check
    if kind == HALF_LINE:
        return _weigh_half_line(law, view.halves[i], first, g)
    if view.first[i + 1] == view.first[i] + 1:
        _, law.integral[first], mean, variance = _weigh_cell(law, view, first, A, g)
        return mean, variance + mean * mean, 0.0 < law.integral[first] < inf
    lowest = inf
    for row in range(first, last):
        energy, law.integral[row], law.mean[row], law.variance[row] = _weigh_cell(law, view, row, A, g)
        law.energy[row] = energy
        lowest = min(lowest, energy)
    total = mean = square = 0.0
    for row in range(first, last):
        weight = law.integral[row]
        if law.energy[row] > lowest:
            weight *= exp(lowest - law.energy[row])
        law.probability[row] = weight
        total += weight
        mean += weight * law.mean[row]
        square += weight * (law.variance[row] + law.mean[row] * law.mean[row])
    scale = 1.0 / total
    for row in range(first, last):
        law.probability[row] *= scale
    return mean * scale, square * scale, 0.0 < total < inf


@helper
def _weigh_half_line(law, half, row, g):
    """Do what `weigh` does where there is one cell, a half-line, of which the integral does not matter."""
    offset, a, end, root, deviation = half[0], half[1], half[2], half[3], half[4]
    slope = offset + a * g
    law.tau[row] = slope
    distance, variance = spread_of_half_line(slope, root, deviation)
    mean = end + a * distance
    return mean, a * a * variance + mean * mean, abs(distance) < inf


@helper
def _end_of(view, row):
    """Return the end of a half-line, and the direction into it."""
    return (view.lower[row], 1.0) if view.upper[row] == inf else (view.upper[row], -1.0)


@helper
def _weigh_cell(law, view, row, A, g):
    """Return U at the peak of one cell, the integral of exp(U(peak) - U), and mean and variance of the value."""
    a, c = view.slope[row], view.shift[row]
    energy = c * (g + 0.5 * A * c)
    if a == 0.0:
        return energy - view.log_still[row], 1.0, c, 0.0
    if view.constant[row] == inf:  # never entered
        return inf, 0.0, 0.0, 0.0
    kappa, tau = view.stiffness[row], a * (g + A * c) + view.tilt[row]
    peak, integral, mean, variance = moments(
        tau, kappa, view.root[row], view.deviation[row], view.lower[row], view.upper[row]
    )
    law.tau[row] = tau
    energy += view.constant[row] + peak * (tau + 0.5 * kappa * peak)
    return energy, integral, a * mean + c, a * a * variance


@helper
def draw_coordinate(law, view, i, state):
    """Return a cell and a place in it, drawn from the law that `weigh` has found for coordinate i."""
    kind, first, last = view.kind[i], np.uint64(view.first[i]), np.uint64(view.first[i + 1])
    if kind == HALF_LINE:
        start, away = _end_of(view, first)
        kappa, root, deviation = view.stiffness[first], view.root[first], view.deviation[first]
        return first, start + away * draw_half_line(state, law.tau[first], kappa, root, deviation)
    new = first
    if view.first[i + 1] > view.first[i] + 1:
        left = uniform(state)
        for k in range(first, last):
            if law.probability[k] > 0.0:
                new = np.uint64(k)
                left -= law.probability[k]
                if left <= 0.0:
                    break
    lower, upper = view.lower[new], view.upper[new]
    if view.slope[new] == 0.0:  # whatever the place, the value is the same
        return new, peak_of(view.tilt[new], view.curvature[new], lower, upper)
    root, deviation = view.root[new], view.deviation[new]
    return new, draw(state, law.tau[new], view.stiffness[new], root, deviation, lower, upper, law.integral[new])


@helper
def reflect_coordinate(law, view, i, state, row, y, mean, square):
    """Return a cell and a place in it, from y in a cell to the other side of the mean of the law.

    It is done with probability min(1, ratio of the two densities): always on a line, and mostly if the law is nearly
    symmetric. Else the coordinate stays. Near a wall, where it is not, small distances from the end of a half-line are
    exchanged for large ones, and other coordinates are drawn. So are those whose values jump or rest.
    """
    is_half_line = view.kind[i] == HALF_LINE
    if not is_half_line and view.kind[i] != LINE:
        return draw_coordinate(law, view, i, state)
    new, last = np.uint64(view.first[i]), np.uint64(view.first[i + 1] - 1)
    a = view.slope[new]
    center = (mean - view.shift[new]) / a
    room = a * min(center - view.lower[new], view.upper[last] - center)
    if room * room < _NEAR_WALL * (square - mean * mean):
        if is_half_line:
            start, away = _end_of(view, new)
            distance = away * (y - start)
            return new, start + away * exchange_half_line(state, law.tau[new], view.stiffness[new], distance)
        return draw_coordinate(law, view, i, state)
    place = 2.0 * center - y
    while new < last and place > view.upper[new]:
        new += ONE
    if view.lower[new] <= place <= view.upper[new]:
        rise = _energy_of(law, view, is_half_line, new, place) - _energy_of(law, view, is_half_line, row, y)
        if rise <= 0.0 or passes(state, rise):
            return new, place
    return row, y


@helper
def _energy_of(law, view, is_half_line, row, y):
    """Return U at a place in a cell of the law that `weigh` has found; on a half-line, less that at its end."""
    if is_half_line:
        start, away = _end_of(view, row)
        distance = away * (y - start)
        return distance * (law.tau[row] + 0.5 * view.stiffness[row] * distance)
    return view.constant[row] + y * (law.tau[row] + 0.5 * view.stiffness[row] * y)


@helper
def record_law(recorder, view, i, f, x, mean, square, weight):
    """Account for the law that `weigh` has found for coordinate i, which stands for some time; x, (d,), are values."""
    law = recorder.expectations
    law.open_mean[i] += weight * mean
    law.open_square[i] += weight * square
    law.open_pull[i] += weight * (f + view.linear[i] - view.diagonal[i] * x[i])
    law.open_spread[i] += weight * (square - mean * mean)
    first, last = np.uint64(view.first[i]), np.uint64(view.first[i + 1])
    if view.first[i + 1] == view.first[i] + 1:
        law.open_cell[first] += weight
    else:
        for row in range(first, last):
            share = weight * law.probability[row]
            law.open_cell[row] += share
            law.open_response[row] += share * (law.mean[row] - mean)
    products_given(recorder.products, i, mean, square, x, weight)


@generic
def record_laws(law, recorder, view, x, f, weight):
    """Account for the laws of all coordinates at values x with f = A x - b, (d,) each, which stand for some time.

    `law` is that of the recorder: where it keeps nothing, nothing is done. Returns whether there is a law for each.
    """


@implements(record_laws, NoExpectations)
def _record_nothing(law, recorder, view, x, f, weight):
    return True


@implements(record_laws, Expectations)
def _record_laws(law, recorder, view, x, f, weight):
    all_proper, has_windows = True, law.windows.found.size > 0
    for i in range(x.size):
        if not has_windows or view.kind[i] != SPIKED:
            mean, square, proper = weigh(law, view, i, f[i], x[i])
            record_law(recorder, view, i, f[i], x, mean, square, weight)
            all_proper &= proper
    if has_windows:
        all_proper &= record_windows(recorder, view, f, x, weight)
    return all_proper
