"""Tolls of lanes: each decides by random numbers of its own, and at a temperature of its own.

A lane samples log q + b (log p - log q), where q is a product of independent spins, log q(s) = -s.g. A flip of cost c
passes with probability min(1, e^-c), as in BPS and Metropolis, or 1 / (1 + e^c), as in Gibbs. One comparison serves
both: u (h + e^c) < 1 for a uniform number u, with h = 0 or 1.

Nearly always the first bits of u, and c and e^c in single precision, tell, whatever the rest of u and the errors of c
and e^c are. Where they do not, in a few of a million attempts, the rest of u is made and double precision decides, so
that law and draws are those of double precision, whatever a machine rounds in single.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import generic, implements, part
from bouncy._lane_loop import FLOAT32, FLOAT64, INT8, INT32, Row, Vector, lane_loop
from bouncy._memory import aligned_empty, aligned_zeros
from bouncy._vector import DRAWN, LOG2_E, STEP, exp, rest_of_number, rough_power, single_tanh_half
from bouncy.targets.lanes import cost_error, lane_costs

# Single precision has h + e^c to this share of it and what `cost_error` and the next line add, where e^c is below
# 1 / STEP: the power to 4e-6, the products before and after it to 6e-8 |c| each. Where it is larger, 1 is far away.
_ROUNDED = 9e-6
# The same for a unit of the field of a site in q: part of c, and of what it cancels.
_ROUNDED_BY_FIELD = 1e-6
# Where c is not known any better, single precision tells nothing.
_USELESS = 0.5
# Attempts after which flips have to be counted.
MOST_FLIPS = 127


class Attempt(NamedTuple):
    """Scratch: what is computed of the site that is tried, in all lanes."""

    uniform: NDArray[np.float32]  # (DRAWN, lanes) beginnings of random numbers, for this site and the next ones
    single: NDArray[np.float32]  # (1, lanes) costs, by which nearly all lanes decide
    cost: NDArray[np.float64]  # (1, lanes) costs, where digits count
    share: NDArray[np.float32]  # (3, lanes) of the toll: `weight` and `rest` in units of log 2, and `bath`
    change: NDArray[np.int8]  # (lanes,) of the spin
    flips: NDArray[np.int8]  # (lanes,) since they were counted last, at most MOST_FLIPS attempts ago


def new_attempt(width: int) -> Attempt:
    """Return room for an attempt, with no flips so far."""
    uniform, single, share = (
        aligned_empty(*shape, dtype=np.float32) for shape in ((DRAWN, width), (1, width), (3, width))
    )
    change, flips = aligned_empty(width, dtype=np.int8), aligned_zeros(width, dtype=np.int8)
    return Attempt(uniform, single, aligned_empty(1, width), share, change, flips)


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


@helper
def share_out(toll):
    """Round the temperatures and rules of the lanes to single precision, wherever they may have changed.

    Of the toll e^c is taken as a power of 2.
    """
    share = toll.attempt.share
    for k in range(share.shape[1]):
        share[0, k] = toll.weight[k] * LOG2_E
        share[1, k] = toll.rest[k] * LOG2_E
        share[2, k] = toll.bath[k]


@generic
def exchange(toll, target, recorder, s):
    """Have lanes trade their temperatures at the end of a sweep, where they do."""


@implements(exchange, LaneToll)
def _keep_temperatures(toll, target, recorder, s):
    pass


def _tempered(cost: Row, spin: Vector, weight: Row, rest: Row, twice: Vector | None) -> Vector:
    """Return the costs of a site at the temperatures of the lanes, given twice its field in q, or None for 0.

    They are in the unit of `weight` and `rest`.
    """
    exponent = weight.read() * cost.read()
    if twice is not None:
        element = exponent.element
        exponent = exponent - rest.read() * (twice.to(element) * spin.to(element))
    return exponent.to(FLOAT32)


@lane_loop(counts=2)
def _pay_spins(
    spin: Row, uniform: Row, cost: Row, weight: Row, rest: Row, bath: Row, change: Row, flips: Row,
    surely: Vector, hardly: Vector, twice: Vector | None = None,
) -> tuple[Vector, Vector]:  # fmt: skip
    """Flip the spins that pass for sure, below `surely`, and return which do and which might, below `hardly`."""
    before, u = spin.read(), uniform.read()
    scale = bath.read() + rough_power(_tempered(cost, before, weight, rest, twice))
    most = u * scale
    passes, might = most + STEP * scale < surely.to(FLOAT32), most < hardly.to(FLOAT32)
    turned = 0 - before
    change.write(passes.choose(turned + turned, 0))
    flips.write(flips.read() + passes.to(INT8))
    spin.write(passes.choose(turned, before))
    return passes, might


@lane_loop()
def _add_means(total: Row, spin: Row, cost: Row, weight: Row, rest: Row, twice: Vector | None = None) -> None:
    before = spin.read()
    mean = before.to(FLOAT32) * single_tanh_half(_tempered(cost, before, weight, rest, twice))
    total.write(total.read() + mean.to(FLOAT64))


@lane_loop()
def _add_spread(total: Row, spin: Row, cost: Row, weight: Row, rest: Row, twice: Vector) -> None:
    size = single_tanh_half(_tempered(cost, spin.read(), weight, rest, twice)).to(FLOAT64)
    total.write(total.read() + (1.0 - size * size))


@lane_loop()
def add_spins(total: Row, spin: Row) -> None:
    """Add the spins of a site, (lanes,), to `total`."""
    total.write(total.read() + spin.read().to(INT32))


@helper
def pay_lanes(toll, target, s, i, uniform, chains):
    """Flip site i in the lanes that pass at its cost, and write what changes into `attempt.change`.

    `uniform`, (lanes,), holds beginnings of random numbers. Return in how many lanes the site flipped, and in how many
    of the first ones, which are chains.
    """
    attempt, spin, reference = toll.attempt, s[i], toll.reference[i]
    lane_costs(target, s, i, attempt.single)
    cost, weight, rest, bath = attempt.single[0], attempt.share[0], attempt.share[1], attempt.share[2]
    change, flips = attempt.change, attempt.flips
    # With an error x of c, e^c is wrong by a factor between 1 - x and 1 / (1 - x), which is at most 1 + 2 x.
    error = _ROUNDED + cost_error(target, i) + _ROUNDED_BY_FIELD * abs(reference)
    surely, hardly = 1.0 - error, 1.0 + 2.0 * error if error < _USELESS else np.inf
    if reference == 0.0:
        total, possible = _pay_spins(spin, uniform, cost, weight, rest, bath, change, flips, surely, hardly)
    else:
        total, possible = _pay_spins(
            spin, uniform, cost, weight, rest, bath, change, flips, surely, hardly, 2.0 * reference
        )  # fmt: skip
    if possible > total:
        total += _remove_doubts(toll, target, s, i, uniform)
    if chains == spin.size or total == 0:
        return total, total
    counted = 0
    for k in range(chains):
        counted += change[k] != 0
    return total, counted


@helper
def _remove_doubts(toll, target, s, i, uniform):
    """Decide in double precision for the lanes that do not pass for sure, and return how many of them pass."""
    attempt, passed, spin = toll.attempt, 0, s[i]
    lane_costs(target, s, i, attempt.cost)  # right in lanes whose spin has not flipped
    for k in range(spin.size):
        if attempt.change[k] == 0:
            cost = toll.weight[k] * attempt.cost[0, k] - toll.rest[k] * 2.0 * toll.reference[i] * spin[k]
            u = uniform[k] + STEP * rest_of_number(toll.rng, k, uniform[k])
            if u * (toll.bath[k] + exp(cost)) < 1.0:
                attempt.change[k] = -2 * spin[k]
                attempt.flips[k] += 1
                spin[k] = -spin[k]
                passed += 1
    return passed


@helper
def count_flips(attempt, flips):
    """Add the flips since they were counted last to `flips`, (lanes,): before a byte can no longer count them."""
    for k in range(flips.size):
        flips[k] += attempt.flips[k]
        attempt.flips[k] = 0


@helper
def add_lane_means(toll, spin, reference, total):
    """Add the conditional means of a site, given its costs in `attempt.cost`, to `total`, (lanes,).

    Each is rounded to single precision, to 2e-7.
    """
    cost, weight, rest = toll.attempt.cost[0], toll.weight, toll.rest
    if reference == 0.0:
        _add_means(total, spin, cost, weight, rest)
    else:
        _add_means(total, spin, cost, weight, rest, 2.0 * reference)


@helper
def add_spread(toll, spin, reference, total):
    """Add the conditional variances of a site in the first lanes to `total`, given its costs in `attempt.cost`."""
    n = total.size
    _add_spread(total, spin[:n], toll.attempt.cost[0, :n], toll.weight[:n], toll.rest[:n], 2.0 * reference)
