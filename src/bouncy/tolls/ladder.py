"""Lanes on a ladder of temperatures: neighbours trade places by even and odd scans (Syed et al. 2022).

Rung k samples log q + b_k (log p - log q), 0 = b_0 < ... < b_n = 1. With V = log p - log q, neighbours trade with
probability min(1, exp((b_{k+1} - b_k) (V_k - V_{k+1}))): even pairs after even scans, odd ones after odd scans. Lanes
trade temperatures, never states. At b = 0 a site is drawn from q whenever it is tried, so that a lane forgets there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import FINITE, implements, part
from bouncy._memory import aligned_empty
from bouncy._random import uniform
from bouncy._vector import DRAWN, exp
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.ladder import FROM_ABOVE, FROM_BELOW, NOWHERE, record_ladder
from bouncy.targets.lanes import park_lane
from bouncy.tolls.contract import HEAT_BATH
from bouncy.tolls.lanes import exchange


@part(
    "rng", "lane", "parity", "course", "trips", "before",
    bounds={
        "lane": lambda swaps: (0, swaps.course.size - 1),
        "parity": lambda _: (0, 1),
        "course": lambda _: (NOWHERE, FROM_ABOVE),
        "trips": lambda _: (0, MOST_EVENTS),
        "before": lambda _: (-np.inf, FINITE),
    },
)  # fmt: skip
class Swaps(NamedTuple):
    """Who is where on the ladder."""

    rng: NDArray[np.uint64]  # (4,)
    b: NDArray[np.float64]  # (rungs,)
    lane: NDArray[np.int64]  # (rungs,) the lane of each rung
    parity: NDArray[np.int64]  # (1,) whether even or odd pairs are next
    course: NDArray[np.int64]  # (lanes,) where each lane was last
    trips: NDArray[np.int64]  # (1,) from the reference to the target and back, since the beginning
    before: NDArray[np.float64]  # (lanes,) V at the end of the last scan
    value: NDArray[np.float64]  # (rungs,) scratch: V by rung
    accept: NDArray[np.float64]  # (rungs - 1,) scratch: probabilities of all swaps, made or not


@part("rng", "weight", "rest", "bath", bounds=dict.fromkeys(("weight", "rest", "bath"), lambda _: (0.0, 1.0)))
class LadderToll(NamedTuple):
    """A `LaneToll` whose lanes trade temperatures."""

    bath: NDArray[np.float64]  # (lanes,)
    rng: NDArray[np.uint64]  # (4, lanes)
    weight: NDArray[np.float64]  # (lanes,)
    rest: NDArray[np.float64]  # (lanes,)
    reference: NDArray[np.float64]  # (d,)
    uniform: NDArray[np.float64]  # (DRAWN, lanes) scratch
    cost: NDArray[np.float64]  # (1, lanes) scratch
    change: NDArray[np.float64]  # (lanes,) scratch
    rule: float  # `bath` of lanes at b > 0
    constant: float  # which normalises q: the sum of log(2 cosh g), or the logarithm of the number of allowed states
    log_prob: NDArray[np.float64]  # (lanes,) scratch: log p at the end of a scan
    swaps: Swaps


def new_ladder_toll(
    rule: float,
    b: NDArray[np.float64],
    reference: NDArray[np.float64],
    rng: NDArray[np.uint64],
    swap_rng: NDArray[np.uint64],
    constant: float | None = None,
) -> LadderToll:
    """Return a toll of lanes, the first of which begin at the temperatures b in their order; others stay at b = 0.

    `constant` is what normalises q, by default that of independent spins in the fields `reference`, (d,).
    """
    width, rungs = rng.shape[1], b.size
    swaps = Swaps(
        rng=swap_rng,
        b=b,
        lane=np.arange(rungs),
        parity=np.zeros(1, np.int64),
        course=np.zeros(width, np.int64),
        trips=np.zeros(1, np.int64),
        before=np.full(width, -np.inf),
        value=np.empty(rungs),
        accept=np.empty(rungs - 1),
    )
    weight = np.zeros(width)
    weight[:rungs] = b
    return LadderToll(
        bath=np.where(weight > 0.0, rule, HEAT_BATH),
        rng=rng,
        weight=weight,
        rest=1.0 - weight,
        reference=reference,
        uniform=aligned_empty(DRAWN, width),
        cost=aligned_empty(1, width),
        change=aligned_empty(width),
        rule=rule,
        constant=float(np.logaddexp(reference, -reference).sum()) if constant is None else constant,
        log_prob=aligned_empty(width),
        swaps=swaps,
    )


@implements(exchange, LadderToll)
def _exchange(toll, target, recorder, s):
    swaps = toll.swaps
    b, lane, accept, before = swaps.b, swaps.lane, swaps.accept, swaps.before
    top = b.size - 1
    _take_off_reference(toll, s)  # V in place of log p
    for k in range(b.size):
        swaps.value[k] = toll.log_prob[lane[k]]
    for k in range(top):
        accept[k] = exp(min((b[k + 1] - b[k]) * (swaps.value[k] - swaps.value[k + 1]), 0.0))
    record_ladder(recorder, toll)
    for k in range(before.size):
        before[k] = toll.log_prob[k]
    for k in range(swaps.parity[0], top, 2):
        if uniform(swaps.rng) <= accept[k]:
            lane[k], lane[k + 1] = lane[k + 1], lane[k]
    swaps.parity[0] = 1 - swaps.parity[0]
    for k in range(b.size):
        n = lane[k]
        toll.weight[n], toll.rest[n] = b[k], 1.0 - b[k]
        toll.bath[n] = toll.rule if k > 0 else HEAT_BATH
    park_lane(target, lane[0])
    if swaps.course[lane[0]] == FROM_ABOVE:
        swaps.trips[0] += 1
    swaps.course[lane[0]] = FROM_BELOW
    if swaps.course[lane[top]] == FROM_BELOW:
        swaps.course[lane[top]] = FROM_ABOVE


@helper
def _take_off_reference(toll, s):
    """Subtract log q(s), normalised, from log p(s) of each lane."""
    value, fields = toll.log_prob, toll.reference
    for i in range(fields.size):
        if fields[i] != 0.0:
            for k in range(value.size):
                value[k] += fields[i] * s[i, k]
    for k in range(value.size):
        value[k] += toll.constant
