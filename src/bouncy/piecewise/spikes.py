"""Coordinates that are normal or at a point, as coefficients that may be zero, many of them at a time.

Given all others, such a coordinate is normal with the precision A_ii, or at its point. With

    r = (A x - b)_i - A_ii (x_i - point),

the slope of the quadratic form at the point, the mean of the normal is point - r / A_ii, and the mass of the point over
that of the normal is odds exp(-r^2 / (2 A_ii)). Coordinates are looked at in windows, some of them several times in a
sweep (`visits.py`). Rows of numbers, one for each coordinate of a window, lie behind each other in one array: compilers
see that they do not overlap, and make vector code of loops over them.
"""

from __future__ import annotations

from math import exp as scalar_exp
from math import inf, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import part
from bouncy._vector import exp, scaled_tail, vectorised
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.piecewise.products import products_given

Array = NDArray[np.float64]

# The next row.
ONE = np.uint64(1)
# Coordinates of a window.
WINDOW = 16
# Rows of constants.
CONSTANTS = PRECISION, POINT, VARIANCE, DEVIATION, ODDS, PER_ODDS = tuple(np.uint64(WINDOW * k) for k in range(6))
# Rows of what is found: r, whether the coordinate is at its point, the mass of the point over that of the normal, the
# probability to stay, and A_ii over the precision of the normal where that is another.
_LAW = SLOPE, RESTS, RATIO, STAYS, SPREAD = tuple(np.uint64(WINDOW * k) for k in range(5))
# Rows of sums: of the probability of the normal, of it times r, r^2 and the probability to be below the point; and, of
# laws given all others, of r, of A_ii times the variance, and of -A_ii times the covariances of x_i and of being beside
# the point or below it.
_SUMS = SUM, SUM_R, SUM_RR, SUM_BELOW, SUM_SLOPE, SUM_SPREAD, SUM_CROSS, SUM_CROSS_BELOW = tuple(
    np.uint64(WINDOW * k) for k in range(5, 13)
)
_FOUND = (*_LAW, *_SUMS)
# Density of a standard normal at its mean.
_NORMAL = 1.0 / sqrt(2.0 * pi)
_CONSTANTS_OF_WINDOW, _FOUND_OF_WINDOW = WINDOW * len(CONSTANTS), WINDOW * len(_FOUND)


def arranged(rows: Array) -> Array:
    """Return rows of numbers, one for each coordinate, as windows of them, (windows * rows * WINDOW,)."""
    windows = -(-rows.shape[1] // WINDOW)
    padded = np.zeros((rows.shape[0], windows * WINDOW))
    padded[:, : rows.shape[1]] = rows
    return padded.reshape(rows.shape[0], windows, WINDOW).transpose(1, 0, 2).ravel()


@part()
class Spikes(NamedTuple):
    """Coordinates that are normal or at a point, and how they are visited; arrays are empty without them."""

    constants: Array  # windows of the rows above
    order: NDArray[np.int64]  # (n,) the coordinates, as they are in windows
    place: NDArray[np.int64]  # (d,) where each coordinate is in that order; 0 for others
    visits: NDArray[np.int64]  # windows, in the order in which a sweep visits them
    times: Array  # (windows,) how often it visits each, and laws of it count


@part("found", "sweeps", bounds={"sweeps": lambda _: (0, MOST_EVENTS)})
class Windows(NamedTuple):
    """What is found of coordinates, its sums, and over how many sweeps these are."""

    found: Array  # windows of the rows above
    sweeps: NDArray[np.int64]  # (2,) of laws, and of a path that is recorded as it differs from resting at the points


# Indices into `sweeps`.
LAWS, PATHS = 0, 1


def new_windows(d: int) -> Windows:
    """Return windows of d coordinates."""
    return Windows(arranged(np.zeros((len(_FOUND), d))), np.zeros(2, np.int64))


@helper
def place_of(position):
    """Return the places of a coordinate, by its position in the order, in rows of constants and of what is found."""
    window, k = position // WINDOW, position % WINDOW
    return np.uint64(window * _CONSTANTS_OF_WINDOW + k), np.uint64(window * _FOUND_OF_WINDOW + k)


@helper
def slope_at_point(constants, at, f, x):
    """Return r of a coordinate, whose entry of A x - b is f."""
    return f - constants[at + PRECISION] * (x - constants[at + POINT])


@helper
def find_slopes(found, spikes, F, x, window, begin, end):
    """Find r and which are at their points, for the coordinates of a window from `begin` on; it ends before `end`."""
    constants, order = spikes.constants, spikes.order
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first = np.uint64(window * WINDOW)
    for j in range(begin, end):
        k = np.uint64(j)
        i = np.uint64(order[first + k])
        found[to + SLOPE + k] = slope_at_point(constants, at + k, F[i], x[i])
        found[to + RESTS + k] = 1.0 if x[i] == constants[at + POINT + k] else 0.0


@helper
def find_marginals(found, spikes, slope, precision, x, window, begin, end):
    """Do the same for r and precisions of coordinates that are given, (d,) each (`marginals.py`)."""
    constants, order = spikes.constants, spikes.order
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first = np.uint64(window * WINDOW)
    for j in range(begin, end):
        k = np.uint64(j)
        i = np.uint64(order[first + k])
        found[to + SLOPE + k] = slope[i]
        found[to + SPREAD + k] = constants[at + PRECISION + k] / precision[i]
        found[to + RESTS + k] = 1.0 if x[i] == constants[at + POINT + k] else 0.0


@vectorised
def find_apart(spikes, x, window, end):
    """Return which coordinates of a window are not at their points, as bits of a number."""
    at, first, bits = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * WINDOW), np.uint64(0)
    for j in range(end):
        k = np.uint64(j)
        is_apart = x[np.uint64(spikes.order[first + k])] != spikes.constants[at + POINT + k]
        bits |= np.uint64(is_apart) << k
    return bits


@vectorised
def find_ratios(found, constants, window, begin, end):
    """Find from r what the masses are, and how probable it is that a coordinate stays a normal, or at its point.

    It goes to the other side with probability min(1, ratio of their masses). Returns the probability that all from
    `begin` on stay.
    """
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    all_stay = 1.0
    for j in range(end):
        k = np.uint64(j)
        r = found[to + SLOPE + k]
        ratio = constants[at + ODDS + k] * exp(-0.5 * r * r * constants[at + VARIANCE + k])
        stays = 1.0 - min(1.0 / ratio if found[to + RESTS + k] != 0.0 else ratio, 1.0)
        found[to + RATIO + k] = ratio
        found[to + STAYS + k] = stays
        all_stay *= stays if j >= begin else 1.0
    return all_stay


@vectorised
def find_marginal_ratios(found, constants, window, begin, end):
    """Do the same for normals whose precisions are others than A_ii."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    all_stay = 1.0
    for j in range(end):
        k = np.uint64(j)
        r, spread = found[to + SLOPE + k], found[to + SPREAD + k]
        ratio = constants[at + ODDS + k] * exp(-0.5 * r * r * constants[at + VARIANCE + k] * spread) / np.sqrt(spread)
        stays = 1.0 - min(1.0 / ratio if found[to + RESTS + k] != 0.0 else ratio, 1.0)
        found[to + RATIO + k] = ratio
        found[to + STAYS + k] = stays
        all_stay *= stays if j >= begin else 1.0
    return all_stay


@vectorised
def add_up(found, constants, window, times):
    """Add the laws of the coordinates of a window, as they were when each was looked at, to the sums, some times.

    Returns a number that is finite if all r are.
    """
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    total = 0.0
    for j in range(WINDOW):
        k = np.uint64(j)
        r, ratio = found[to + SLOPE + k], found[to + RATIO + k]
        share = 1.0 / (1.0 + ratio)
        found[to + SUM + k] += times * share
        found[to + SUM_R + k] += times * share * r
        found[to + SUM_RR + k] += times * share * r * r
        z = r * constants[at + DEVIATION + k]
        beyond = scaled_tail(abs(z)) * ratio * constants[at + PER_ODDS + k]
        below = beyond if z < 0.0 else 1.0 - beyond
        found[to + SUM_BELOW + k] += times * share * below
        cross = share * (1.0 - share) * r
        found[to + SUM_SLOPE + k] += times * r
        found[to + SUM_SPREAD + k] += times * (share + cross * r * constants[at + VARIANCE + k])
        found[to + SUM_CROSS + k] += times * cross
        # The mean below the point is that of all times `below`, less the variance times the density at the point.
        density = _NORMAL * constants[at + PER_ODDS + k] * constants[at + PRECISION + k] * constants[at + DEVIATION + k]
        found[to + SUM_CROSS_BELOW + k] += times * (cross * below + (1.0 - share) * density)
        total += r
    return total


@vectorised
def add_up_marginals(found, constants, window, end, times):
    """Do the same for normals whose precisions are not A_ii, in the units of those that have it, some times at once."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    total = 0.0
    for j in range(end):
        k = np.uint64(j)
        spread, ratio = found[to + SPREAD + k], found[to + RATIO + k]
        r, share, root = found[to + SLOPE + k] * spread, 1.0 / (1.0 + ratio), np.sqrt(spread)
        found[to + SUM + k] += times * share
        found[to + SUM_R + k] += times * share * r
        found[to + SUM_RR + k] += times * share * (r * r + constants[at + PRECISION + k] * (spread - 1.0))
        z = r * constants[at + DEVIATION + k] / root
        beyond = scaled_tail(abs(z)) * ratio * constants[at + PER_ODDS + k] * root
        found[to + SUM_BELOW + k] += times * share * (beyond if z < 0.0 else 1.0 - beyond)
        total += share * r
    return total


@helper
def record_windows(recorder, view, F, x, weight):
    """Account for the laws of all coordinates of windows at values x with F = A x - b, (d,) each.

    Returns whether all are proper.
    """
    spikes, windows, total = view.spikes, recorder.expectations.windows, 0.0
    for window in range(spikes.times.size):
        start = window * WINDOW
        end = min(WINDOW, spikes.order.size - start)
        find_slopes(windows.found, spikes, F, x, window, 0, end)
        find_ratios(windows.found, spikes.constants, window, 0, end)
        give_products(recorder, view, F, x, start, start + end, weight)
        total += add_up(windows.found, spikes.constants, window, spikes.times[window])
    windows.sweeps[LAWS] += 1
    return abs(total) < inf


@helper
def give_products(recorder, view, F, x, begin, end, weight):
    """Account for E[x_i | others] x_j of some coordinates, by their positions in windows."""
    if recorder.products.given.size == 0:
        return
    constants = view.spikes.constants
    for position in range(begin, end):
        i, (at, _) = view.spikes.order[position], place_of(position)
        point, variance = constants[at + POINT], constants[at + VARIANCE]
        r = slope_at_point(constants, at, F[i], x[i])
        share = 1.0 / (1.0 + constants[at + ODDS] * scalar_exp(-0.5 * r * r * variance))
        mean = point - r * variance
        square = share * (mean * mean + variance) + (1.0 - share) * point * point
        products_given(recorder.products, i, share * mean + (1.0 - share) * point, square, x, weight)


def settle_windows(recorder: Any, view: Any, weight: float) -> None:
    """Add what was added up, each sweep for a time, to the sums over the open batch, and begin anew."""
    law, paths = recorder.expectations, (recorder.open_mean, recorder.open_square, recorder.open_cell)
    sums = law.open_mean, law.open_square, law.open_cell, law.open_pull, law.open_spread, law.open_response
    _settle(law.windows, view.spikes, view.first, view.linear, weight, sums, paths)


@kernel
def _settle(windows, spikes, first, linear, weight, sums, paths):
    """Do the same, with the sums of expectations and of the path in tuples.

    So is the path of coordinates at their points, for as many sweeps as recorded how it differs from that.
    """
    mean, square, cell, pull, spread, response = sums
    path_mean, path_square, path_cell = paths
    found, constants, time = windows.found, spikes.constants, weight * windows.sweeps[LAWS]
    path_time = weight * windows.sweeps[PATHS]
    for k in range(spikes.order.size):
        i, each = spikes.order[k], weight / spikes.times[k // WINDOW]
        at, to = place_of(k)
        point, variance, left = constants[at + POINT], constants[at + VARIANCE], np.uint64(first[i])
        share, below, shift = each * found[to + SUM], each * found[to + SUM_BELOW], -each * variance * found[to + SUM_R]
        mean[i] += point * time + shift
        square[i] += point * (point * time + 2.0 * shift) + variance * (share + each * variance * found[to + SUM_RR])
        cell[left] += below
        cell[left + ONE] += time - share
        cell[left + ONE + ONE] += share - below
        pull[i] += each * found[to + SUM_SLOPE] + (linear[i] - constants[at + PRECISION] * point) * time
        spread[i] += each * variance * found[to + SUM_SPREAD]
        cross, cross_below = each * variance * found[to + SUM_CROSS], each * variance * found[to + SUM_CROSS_BELOW]
        response[left] -= cross_below
        response[left + ONE] += cross
        response[left + ONE + ONE] += cross_below - cross
        path_mean[i] += point * path_time
        path_square[i] += point * point * path_time
        path_cell[left + ONE] += path_time
        for row in _SUMS:
            found[to + row] = 0.0
    windows.sweeps[:] = 0
