"""Lanes on a ladder of temperatures: neighbours trade places by even and odd scans (Syed et al. 2022).

Rung k samples log q + b_k (log p - log q), 0 = b_0 < ... < b_n = 1. With V = log p - log q, neighbours trade with
probability min(1, exp((b_{k+1} - b_k) (V_k - V_{k+1}))): even pairs after even scans, odd ones after odd scans. Lanes
trade temperatures, never states. At b = 0 a site is drawn from q whenever it is tried, so that a lane forgets there.

A chain may be several ladders, and these in pairs. Lanes at the same rung of a pair then exchange clusters: the spins
of a connected component of sites at which they differ. What one lane gains in log p the other loses, so that every
exchange is accepted (Zhu, Ochoa & Katzgraber 2015, after Houdayer 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import FINITE, implements, part
from bouncy._lane_loop import FEW, Row, lane_loop
from bouncy._memory import aligned_empty
from bouncy._random import uniform
from bouncy._vector import vector_exp
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.ladder import FROM_ABOVE, FROM_BELOW, NOWHERE, record_ladder
from bouncy.targets._clusters import ALONE, Partners, new_partners
from bouncy.targets.lanes import park_lane, trade_clusters
from bouncy.tolls.contract import HEAT_BATH
from bouncy.tolls.lanes import UNIT, Attempt, exchange, new_attempt, share_out


@part(
    "rng", "lane", "turn", "course", "trips", "before",
    bounds={
        "lane": lambda swaps: (0, swaps.lane.size - 1),
        "turn": lambda swaps: (0, 2 * swaps.every - 1),
        "course": lambda _: (NOWHERE, FROM_ABOVE),
        "trips": lambda _: (0, MOST_EVENTS),
        "before": lambda _: (-np.inf, FINITE),
    },
)  # fmt: skip
class Swaps(NamedTuple):
    """Who is where on the ladder."""

    rng: NDArray[np.uint64]  # (4,)
    b: NDArray[np.float64]  # (rungs,)
    lane: NDArray[
        np.int64
    ]  # (rungs,) the lane of each rung; (ladders * rungs,) one ladder after the other, the chain's own last
    turn: NDArray[np.int64]  # (1,) scans so far, modulo 2 `every`: even pairs are next after an even number of them
    course: NDArray[np.int64]  # like `lane`, where that lane was last
    trips: NDArray[np.int64]  # (1,) from the reference to the target and back, since the beginning
    before: NDArray[np.float64]  # like `lane`, its V at the end of the last scan
    value: NDArray[np.float64]  # like `lane`, scratch: V by rung
    accept: NDArray[np.float64]  # like `lane`, scratch: probabilities of swaps with the next rung, made or not
    clusters: NDArray[np.bool_]  # (rungs,) where clusters are exchanged, if anywhere
    every: int  # scans from one exchange to the next
    partners: Partners  # scratch


@part("rng", "weight", "rest", "bath", bounds=UNIT)
class LadderToll(NamedTuple):
    """A `LaneToll` whose lanes trade temperatures."""

    bath: NDArray[np.int8]  # (lanes,)
    rng: NDArray[np.uint64]  # (4, lanes)
    weight: NDArray[np.float64]  # (lanes,)
    rest: NDArray[np.float64]  # (lanes,)
    reference: NDArray[np.float64]  # (d,)
    attempt: Attempt
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
    ladders: int = 1,
    clusters: Sequence[int] = (),
    every: int = 1,
) -> LadderToll:
    """Return a toll of lanes, the first of which begin at the temperatures b in their order; others stay at b = 0.

    `constant` is what normalises q, by default that of independent spins in the fields `reference`, (d,). Pairs of
    ladders exchange `clusters` at some rungs after `every` so many scans.
    """
    width, rungs, d = rng.shape[1], b.size, reference.size
    swaps = Swaps(
        rng=swap_rng,
        b=b,
        lane=np.arange(ladders * rungs),
        turn=np.zeros(1, np.int64),
        course=np.zeros(ladders * rungs, np.int64),
        trips=np.zeros(1, np.int64),
        before=np.full(ladders * rungs, -np.inf),
        value=np.empty(ladders * rungs),
        accept=np.empty(ladders * rungs),
        clusters=np.isin(np.arange(rungs), clusters),
        every=every,
        partners=new_partners(d, rungs),
    )
    weight = np.zeros(width)
    weight[: ladders * rungs] = np.tile(b, ladders)
    return LadderToll(
        bath=np.where(weight > 0.0, rule, HEAT_BATH).astype(np.int8),
        rng=rng,
        weight=weight,
        rest=1.0 - weight,
        reference=reference,
        attempt=new_attempt(width),
        rule=rule,
        constant=float(np.logaddexp(reference, -reference).sum()) if constant is None else constant,
        log_prob=aligned_empty(width),
        swaps=swaps,
    )


@implements(exchange, LadderToll)
def _exchange(toll, target, recorder, s):
    swaps = toll.swaps
    rungs = swaps.b.size
    _take_off_reference(toll, s)  # V in place of log p
    for first in range(0, swaps.lane.size, rungs):
        ladder = slice(first, first + rungs)
        _look_at(swaps.b, toll.log_prob, swaps.lane[ladder], swaps.value[ladder], swaps.accept[ladder])
    record_ladder(recorder, toll)
    for k in range(swaps.value.size):
        swaps.before[k] = swaps.value[k]
    for first in range(0, swaps.lane.size, rungs):
        ladder = slice(first, first + rungs)
        _swap(toll, swaps.lane[ladder], swaps.course[ladder], swaps.before[ladder], swaps.accept[ladder])
    share_out(toll)
    for n in range(swaps.lane.size // rungs):
        park_lane(target, n, swaps.lane[n * rungs])
    if swaps.turn[0] % swaps.every == 0:
        for first in range(0, swaps.lane.size - rungs, 2 * rungs):
            _trade_clusters(swaps, target, s, first)
    swaps.turn[0] = (swaps.turn[0] + 1) % (2 * swaps.every)


@helper
def _look_at(b, log_prob, lane, value, accept):
    """Write V of each rung of a ladder, and the probability of its swap with the next one."""
    for k in range(b.size):
        value[k] = log_prob[np.uint64(lane[k])]
    _write_odds(accept[: b.size - 1], b, b[1:], value, value[1:])


@lane_loop(strides=FEW)
def _write_odds(accept: Row, b: Row, next_b: Row, low: Row, high: Row) -> None:
    accept.write(vector_exp(((next_b.read() - b.read()) * (low.read() - high.read())).within(-np.inf, 0.0)))


@helper
def _swap(toll, lane, course, before, accept):
    """Let every other pair of neighbours on a ladder trade places."""
    swaps = toll.swaps
    b, top, first = swaps.b, swaps.b.size - 1, swaps.turn[0] % 2
    for k in range(first, top, 2):
        swap = uniform(swaps.rng) <= accept[k]
        _trade(lane, k, swap)
        _trade(course, k, swap)
        _trade(before, k, swap)
    for k in range(b.size):
        n = np.uint64(lane[k])
        toll.weight[n], toll.rest[n] = b[k], 1.0 - b[k]
        toll.bath[n] = toll.rule if k > 0 else HEAT_BATH
    swaps.trips[0] += course[0] == FROM_ABOVE
    course[0] = FROM_BELOW
    if course[top] == FROM_BELOW:
        course[top] = FROM_ABOVE


@helper
def _trade(row, k, swap):
    """Exchange entry k and the next one, if they are to be, which no processor foresees."""
    low, high = row[k], row[k + 1]
    row[k], row[k + 1] = high if swap else low, low if swap else high


@helper
def _trade_clusters(swaps, target, s, first):
    """Exchange clusters between a ladder, whose lanes are those from `first` on, and the next, at all rungs that do."""
    rungs, partner, some = swaps.b.size, swaps.partners.lane, False
    second = first + rungs
    for k in range(rungs):
        other = swaps.lane[second + k] - second
        partner[swaps.lane[first + k] - first] = other if swaps.clusters[k] else ALONE
        some |= swaps.clusters[k]
    if some:
        trade_clusters(target, s, first, swaps.partners, swaps.rng)


@helper
def _take_off_reference(toll, s):
    """Subtract log q(s), normalised, from log p(s) of each lane."""
    value, fields = toll.log_prob, toll.reference
    flat = True
    for i in range(fields.size):
        flat &= fields[i] == 0.0
    if not flat:
        for i in range(fields.size):
            for k in range(value.size):
                value[k] += fields[i] * s[i, k]
    for k in range(value.size):
        value[k] += toll.constant
