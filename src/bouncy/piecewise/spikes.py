"""Coordinates that are normal or at a point, as coefficients that may be zero, many of them at a time.

Given all others, such a coordinate is normal with the precision A_ii, or at its point. With

    r = (A x - b)_i - A_ii (x_i - point),

the slope of the quadratic form at the point, the mean of the normal is point - r / A_ii, and the mass of the point over
that of the normal is odds exp(-r^2 / (2 A_ii)). Coordinates are looked at in windows. Rows of numbers, one for each
coordinate of a window, lie behind each other in one array: compilers see that they do not overlap, and make vector code
of loops over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy._vector import exp, scaled_tail, vectorised
from bouncy.clocks.contract import MOST_EVENTS

Array = NDArray[np.float64]

# The next row.
ONE = np.uint64(1)
# Coordinates of a window.
WINDOW = 16
# Rows of constants; the last is 1 for a coordinate that is normal or at a point, 0 for others.
CONSTANTS = PRECISION, POINT, VARIANCE, DEVIATION, ODDS, PER_ODDS, IS_SPIKED = tuple(
    np.uint64(WINDOW * k) for k in range(7)
)
# Rows of what is found: r, the mass of the point over that of the normal, the probability to stay, and A_ii over the
# precision of the normal where that is another.
_LAW = SLOPE, RATIO, STAYS, SPREAD = tuple(np.uint64(WINDOW * k) for k in range(4))
# Rows of sums: of the probability of the normal, of it times r, r^2 and the probability to be below the point; and, of
# laws given all others, of r, of A_ii times the variance, and of -A_ii times the covariances of x_i and of being beside
# the point or below it.
_SUMS = SUM, SUM_R, SUM_RR, SUM_BELOW, SUM_SLOPE, SUM_SPREAD, SUM_CROSS, SUM_CROSS_BELOW = tuple(
    np.uint64(WINDOW * k) for k in range(4, 12)
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


@part("found", "sweeps", bounds={"sweeps": lambda _: (0, MOST_EVENTS)})
class Windows(NamedTuple):
    """What is found of coordinates, its sums, and over how many sweeps these are."""

    found: Array  # windows of the rows above
    sweeps: NDArray[np.int64]  # (1,)


def new_windows(d: int) -> Windows:
    """Return windows of d coordinates."""
    return Windows(arranged(np.zeros((len(_FOUND), d))), np.zeros(1, np.int64))


@helper
def place_of(i):
    """Return the places of coordinate i in rows of constants and in rows of what is found."""
    window, k = i // WINDOW, i % WINDOW
    return np.uint64(window * _CONSTANTS_OF_WINDOW + k), np.uint64(window * _FOUND_OF_WINDOW + k)


@helper
def slope_at_point(constants, at, f, x):
    """Return r of a coordinate, whose entry of A x - b is f."""
    return f - constants[at + PRECISION] * (x - constants[at + POINT])


@helper
def find_slopes(found, constants, F, x, window, begin, end):
    """Find r for the coordinates of a window from `begin` on; it ends before `end`."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first = np.uint64(window * WINDOW)
    for j in range(begin, end):
        k = np.uint64(j)
        found[to + SLOPE + k] = slope_at_point(constants, at + k, F[first + k], x[first + k])


@helper
def find_marginals(found, constants, slope, precision, window, begin, end):
    """Do the same for r and precisions of coordinates that are given, (d,) each (`marginals.py`)."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first = np.uint64(window * WINDOW)
    for j in range(begin, end):
        k = np.uint64(j)
        found[to + SLOPE + k] = slope[first + k]
        found[to + SPREAD + k] = constants[at + PRECISION + k] / precision[first + k]


@vectorised
def find_ratios(found, constants, x, window, begin, end):
    """Find from r what the masses are, and how probable it is that a coordinate stays a normal, or at its point.

    It goes to the other side with probability min(1, ratio of their masses). Returns the probability that all from
    `begin` on stay.
    """
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first, all_stay = np.uint64(window * WINDOW), 1.0
    for j in range(end):
        k = np.uint64(j)
        r = found[to + SLOPE + k]
        ratio = constants[at + ODDS + k] * exp(-0.5 * r * r * constants[at + VARIANCE + k])
        leaves = min(1.0 / ratio if x[first + k] == constants[at + POINT + k] else ratio, 1.0)
        stays = 1.0 - constants[at + IS_SPIKED + k] * leaves
        found[to + RATIO + k] = ratio
        found[to + STAYS + k] = stays
        all_stay *= stays if j >= begin else 1.0
    return all_stay


@vectorised
def find_marginal_ratios(found, constants, x, window, begin, end):
    """Do the same for normals whose precisions are others than A_ii."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    first, all_stay = np.uint64(window * WINDOW), 1.0
    for j in range(end):
        k = np.uint64(j)
        r, spread = found[to + SLOPE + k], found[to + SPREAD + k]
        ratio = constants[at + ODDS + k] * exp(-0.5 * r * r * constants[at + VARIANCE + k] * spread) / np.sqrt(spread)
        stays = 1.0 - min(1.0 / ratio if x[first + k] == constants[at + POINT + k] else ratio, 1.0)
        found[to + RATIO + k] = ratio
        found[to + STAYS + k] = stays
        all_stay *= stays if j >= begin else 1.0
    return all_stay


@vectorised
def add_up(found, constants, window):
    """Add the laws of the coordinates of a window, as they were when each was looked at, to the sums.

    Returns a number that is finite if all r are.
    """
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    total = 0.0
    for j in range(WINDOW):
        k = np.uint64(j)
        r, ratio = found[to + SLOPE + k], found[to + RATIO + k]
        share = 1.0 / (1.0 + ratio)
        found[to + SUM + k] += share
        found[to + SUM_R + k] += share * r
        found[to + SUM_RR + k] += share * r * r
        z = r * constants[at + DEVIATION + k]
        beyond = scaled_tail(abs(z)) * ratio * constants[at + PER_ODDS + k]
        below = beyond if z < 0.0 else 1.0 - beyond
        found[to + SUM_BELOW + k] += share * below
        cross = share * (1.0 - share) * r
        found[to + SUM_SLOPE + k] += r
        found[to + SUM_SPREAD + k] += share + cross * r * constants[at + VARIANCE + k]
        found[to + SUM_CROSS + k] += cross
        # The mean below the point is that of all times `below`, less the variance times the density at the point.
        density = _NORMAL * constants[at + PER_ODDS + k] * constants[at + PRECISION + k] * constants[at + DEVIATION + k]
        found[to + SUM_CROSS_BELOW + k] += cross * below + (1.0 - share) * density
        total += r * constants[at + IS_SPIKED + k]
    return total


@vectorised
def add_up_marginals(found, constants, window, end):
    """Do the same for normals whose precisions are others than A_ii, in the units of those that have it."""
    at, to = np.uint64(window * _CONSTANTS_OF_WINDOW), np.uint64(window * _FOUND_OF_WINDOW)
    total = 0.0
    for j in range(end):
        k = np.uint64(j)
        spread, ratio = found[to + SPREAD + k], found[to + RATIO + k]
        r, share, root = found[to + SLOPE + k] * spread, 1.0 / (1.0 + ratio), np.sqrt(spread)
        found[to + SUM + k] += share
        found[to + SUM_R + k] += share * r
        found[to + SUM_RR + k] += share * (r * r + constants[at + PRECISION + k] * (spread - 1.0))
        z = r * constants[at + DEVIATION + k] / root
        beyond = scaled_tail(abs(z)) * ratio * constants[at + PER_ODDS + k] * root
        found[to + SUM_BELOW + k] += share * (beyond if z < 0.0 else 1.0 - beyond)
        total += share * r
    return total


def settle_windows(recorder: Any, view: Any, weight: float) -> None:
    """Add what was added up, each sweep for a time, to the sums over the open batch, and begin anew.

    The path of a coordinate that is at its point is accounted for here too: recorded is how it differs from that.
    """
    law, windows = recorder.expectations, recorder.expectations.windows
    found, constants = _by_coordinate(windows.found, _FOUND), _by_coordinate(view.spikes, CONSTANTS)
    spiked = np.flatnonzero(constants[-1])
    _, point, variance, *_ = constants[:, spiked]
    share, share_r, share_rr, below, slope, spread, cross, cross_below = weight * found[-len(_SUMS) :, spiked]
    time, left, shift = weight * windows.sweeps[0], view.first[spiked], -variance * share_r
    law.open_mean[spiked] += point * time + shift
    law.open_square[spiked] += point * (point * time + 2.0 * shift) + variance * (share + variance * share_rr)
    for k, mass in enumerate((below, time - share, share - below)):
        law.open_cell[left + k] += mass
    law.open_pull[spiked] += slope + (view.linear[spiked] - view.diagonal[spiked] * point) * time
    law.open_spread[spiked] += variance * spread
    for k, response in enumerate((-cross_below, cross, cross_below - cross)):
        law.open_response[left + k] += variance * response
    recorder.open_mean[spiked] += point * time
    recorder.open_square[spiked] += point * point * time
    recorder.open_cell[left + 1] += time
    windows.found.reshape(-1, len(_FOUND), WINDOW)[:, -len(_SUMS) :] = 0.0
    windows.sweeps[0] = 0


def _by_coordinate(array: Array, rows: Sequence[np.uint64]) -> Array:
    """Return windows of rows as rows of numbers, one for each coordinate and what fills the last window."""
    return array.reshape(-1, len(rows), WINDOW).transpose(1, 0, 2).reshape(len(rows), -1)
