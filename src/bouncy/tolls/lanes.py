"""Tolls of lanes: each decides by random numbers of its own, and at a temperature of its own.

A lane samples log q + b (log p - log q), where q is a product of independent spins, log q(s) = -s.g. A flip of cost c
passes with probability min(1, e^-c), as in BPS and Metropolis, or 1 / (1 + e^c), as in Gibbs. One comparison serves
both: u (h + e^c) < 1 for a uniform number u, with h = 0 or 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import generic, implements, part
from bouncy._memory import aligned_empty
from bouncy._vector import DRAWN, exp, vectorised


@part("bath", "rng", "weight", "rest", "reference")
class LaneToll(NamedTuple):
    """Generators and temperatures of the lanes."""

    bath: NDArray[np.float64]  # (lanes,) METROPOLIS or HEAT_BATH, the number h above
    rng: NDArray[np.uint64]  # (4, lanes)
    weight: NDArray[np.float64]  # (lanes,) b
    rest: NDArray[np.float64]  # (lanes,) 1 - b
    reference: NDArray[np.float64]  # (d,) fields g of q
    uniform: NDArray[np.float64]  # (DRAWN, lanes) scratch
    cost: NDArray[np.float64]  # (1, lanes) scratch
    change: NDArray[np.float64]  # (lanes,) scratch: of the site that was tried last


def new_lane_toll(bath: float, rng: NDArray[np.uint64], d: int) -> LaneToll:
    """Return a toll of lanes that all sample p itself, b = 1, and draw from the columns of `rng`."""
    width = rng.shape[1]
    scratch = aligned_empty(DRAWN, width), aligned_empty(1, width), aligned_empty(width)
    return LaneToll(np.full(width, bath), rng, np.ones(width), np.zeros(width), np.zeros(d), *scratch)


@generic
def exchange(toll, target, recorder, s):
    """Have lanes trade their temperatures at the end of a sweep, where they do."""


@implements(exchange, LaneToll)
def _keep_temperatures(toll, target, recorder, s):
    pass


@vectorised
def pay_lanes(toll, spin, uniform, reference):
    """Flip a site in the lanes that pass at `toll.cost`, and write its change into `toll.change`.

    `spin`, (lanes,), holds its spins, `reference` is its field in q.
    """
    cost, change, weight, rest, bath = toll.cost[0], toll.change, toll.weight, toll.rest, toll.bath
    twice = 2.0 * reference
    for k in range(spin.size):
        s = float(spin[k])
        passes = uniform[k] * (bath[k] + exp(weight[k] * cost[k] - rest[k] * twice * s)) < 1.0
        change[k] = -2.0 * s if passes else 0.0
        spin[k] = -spin[k] if passes else spin[k]


@vectorised
def count_lanes(toll, flips, chains):
    """Add to the numbers of flips, (lanes,).

    Return in how many lanes the site flipped, and in how many of the first ones, which are chains.
    """
    change = toll.change
    total = 0.0
    for k in range(change.size):  # apart from the decisions: numba makes no vector code of both in one loop
        passed = 0.25 * change[k] * change[k]
        flips[k] += passed
        total += passed
    if chains == change.size or not total:
        return int(total), int(total)
    counted = 0.0
    for k in range(chains):
        counted += 0.25 * change[k] * change[k]
    return int(total), int(counted)


@vectorised
def add_lane_means(toll, spin, reference, total):
    """Add the conditional means of a site, given its costs in `toll.cost`, to `total`, (lanes,)."""
    cost, weight, rest = toll.cost[0], toll.weight, toll.rest
    twice = 2.0 * reference
    for k in range(spin.size):
        s = float(spin[k])
        e = exp(weight[k] * cost[k] - rest[k] * twice * s)
        total[k] += s * ((e - 1.0) / (e + 1.0))
