"""Tolls of lanes: each decides by random numbers of its own, and at a temperature of its own.

A lane samples log q + b (log p - log q), where q is a product of independent spins, log q(s) = -s.g. A flip of cost c
passes with probability min(1, e^-c), as in BPS and Metropolis, or 1 / (1 + e^c), as in Gibbs. One comparison serves
both: u (h + e^c) < 1 for a uniform number u, with h = 0 or 1.

Nearly always the first bits of u and e^c in single precision tell, whatever the rest of u and the error of e^c are.
Where they do not, in a few of a million attempts, the rest of u is made and double precision decides, so that law and
draws are those of double precision, whatever a machine rounds in single.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import generic, implements, part
from bouncy._memory import aligned_empty
from bouncy._vector import DRAWN, STEP, exp, rest_of_number, single_exp, single_tanh_half, vectorised

# Where e^c is below 1 / STEP, single precision has h + e^c to 1.5e-6; where it is larger, 1 is far away.
_SURE, _HARDLY = np.float32(1.0 - 2e-6), np.float32(1.0 + 2e-6)
_ZERO, _ONE, _TWO, _QUARTER, _STEP = map(np.float32, (0.0, 1.0, 2.0, 0.25, STEP))


class Attempt(NamedTuple):
    """Scratch: what is computed of the site that is tried, in all lanes."""

    uniform: NDArray[np.float32]  # (DRAWN, lanes) beginnings of random numbers, for this site and the next ones
    cost: NDArray[np.float64]  # (1, lanes)
    exponent: NDArray[np.float32]  # (lanes,) cost at the temperature of the lane
    doubt: NDArray[np.float32]  # (lanes,) 1 where single precision cannot tell, else 0
    change: NDArray[np.float32]  # (lanes,) of the spin
    flips: NDArray[np.float32]  # (lanes,) since they were counted last


def new_attempt(width: int) -> Attempt:
    """Return room for an attempt, with no flips so far."""
    rows = [aligned_empty(width, dtype=np.float32) for _ in range(4)]
    rows[-1][:] = 0.0
    return Attempt(aligned_empty(DRAWN, width, dtype=np.float32), aligned_empty(1, width), *rows)


UNIT = dict.fromkeys(("bath", "weight", "rest"), lambda _: (0.0, 1.0))  # bounds of numbers that are shares


@part("bath", "rng", "weight", "rest", "reference", bounds=UNIT)
class LaneToll(NamedTuple):
    """Generators and temperatures of the lanes."""

    bath: NDArray[np.int8]  # (lanes,) METROPOLIS or HEAT_BATH, the number h above
    rng: NDArray[np.uint64]  # (4, lanes)
    weight: NDArray[np.float64]  # (lanes,) b
    rest: NDArray[np.float64]  # (lanes,) 1 - b
    reference: NDArray[np.float64]  # (d,) fields g of q
    attempt: Attempt


def new_lane_toll(bath: float, rng: NDArray[np.uint64], d: int) -> LaneToll:
    """Return a toll of lanes that all sample p itself, b = 1, and draw from the columns of `rng`."""
    width = rng.shape[1]
    rule = np.full(width, bath, np.int8)
    return LaneToll(rule, rng, np.ones(width), np.zeros(width), np.zeros(d), new_attempt(width))


@generic
def exchange(toll, target, recorder, s):
    """Have lanes trade their temperatures at the end of a sweep, where they do."""


@implements(exchange, LaneToll)
def _keep_temperatures(toll, target, recorder, s):
    pass


@vectorised
def _temper(toll, spin, reference):
    """Write the cost of a site at the temperature of each lane into `exponent`."""
    cost, weight, rest, exponent = toll.attempt.cost[0], toll.weight, toll.rest, toll.attempt.exponent
    twice = 2.0 * reference
    for k in range(spin.size):
        exponent[k] = weight[k] * cost[k] - rest[k] * twice * spin[k]


@vectorised
def pay_lanes(toll, spin, uniform, reference, chains):
    """Flip a site in the lanes that pass at its cost, and write what changes into `attempt.change`.

    `spin`, (lanes,), holds its spins, `uniform` beginnings of random numbers, and `reference` is its field in q. Return
    in how many lanes the site flipped, and in how many of the first ones, which are chains.
    """
    attempt, bath = toll.attempt, toll.bath
    exponent, doubt, change, flips = attempt.exponent, attempt.doubt, attempt.change, attempt.flips
    _temper(toll, spin, reference)
    total, possible = _ZERO, _ZERO
    for k in range(spin.size):
        scale = np.float32(bath[k]) + single_exp(exponent[k])
        passes = _ONE if (uniform[k] + _STEP) * scale < _SURE else _ZERO
        might = _ONE if uniform[k] * scale < _HARDLY else _ZERO
        doubt[k] = might - passes
        change[k] = -_TWO * np.float32(spin[k]) * passes
        flips[k] += passes
        total += passes
        possible += might
    for k in range(spin.size):  # apart: numba makes no vector code of single numbers and bytes in one loop
        spin[k] += np.int8(change[k])
    if possible > total:
        total += _remove_doubts(toll, spin, uniform, reference)
    if chains == spin.size or not total:
        return int(total), int(total)
    counted = _ZERO
    for k in range(chains):
        counted += _QUARTER * change[k] * change[k]
    return int(total), int(counted)


@helper
def _remove_doubts(toll, spin, uniform, reference):
    """Decide in double precision for the lanes in doubt, and return how many of them pass."""
    attempt, passed = toll.attempt, _ZERO
    for k in range(spin.size):
        if attempt.doubt[k] > _ZERO:
            cost = toll.weight[k] * attempt.cost[0, k] - toll.rest[k] * 2.0 * reference * spin[k]
            u = uniform[k] + STEP * rest_of_number(toll.rng, k, uniform[k])
            if u * (toll.bath[k] + exp(cost)) < 1.0:
                attempt.change[k] = -2.0 * spin[k]
                attempt.flips[k] += _ONE
                spin[k] = -spin[k]
                passed += _ONE
    return passed


@helper
def count_flips(attempt, flips):
    """Add the flips since they were counted last to `flips`, (lanes,): before single precision ends to count them."""
    for k in range(flips.size):
        flips[k] += attempt.flips[k]
        attempt.flips[k] = _ZERO


@vectorised
def add_lane_means(toll, spin, reference, total):
    """Add the conditional means of a site, given its costs in `attempt.cost`, to `total`, (lanes,).

    Each is rounded to single precision, a relative error that no run is long enough to see.
    """
    exponent, mean = toll.attempt.exponent, toll.attempt.change
    _temper(toll, spin, reference)
    for k in range(spin.size):
        mean[k] = np.float32(spin[k]) * single_tanh_half(exponent[k])
    for k in range(spin.size):
        total[k] += mean[k]
