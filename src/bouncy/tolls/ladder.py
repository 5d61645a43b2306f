"""Lanes on a ladder of temperatures: neighbours trade places by even and odd scans (Syed et al. 2022).

Rung k samples log q + b_k (log p - log q), 0 = b_0 < ... < b_n = 1. With V = log p - log q, neighbours trade with
probability min(1, exp((b_{k+1} - b_k) (V_k - V_{k+1}))): even pairs after even scans, odd ones after odd scans. Lanes
trade temperatures, never states. At b = 0 a site is drawn from q whenever it is tried, so that a lane forgets there.

A chain may be a pair of ladders. Lanes at the same rung of both then exchange clusters: the spins of a connected
component of sites at which they differ. What one lane gains in log p the other loses, so that every exchange is
accepted (Zhu, Ochoa & Katzgraber 2015, after Houdayer 2001).
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
from bouncy.targets.lanes import park_lane, trade_cluster
from bouncy.tolls.contract import HEAT_BATH
from bouncy.tolls.lanes import UNIT, Attempt, exchange, new_attempt, share_out

# Clusters are exchanged at every fourth rung after each scan, in turn: one takes as long as some twenty attempted flips
# in all lanes. With twice as many, squared errors for the same time are no smaller; with half as many, those of means
# are larger by a fifth to a half.
_TURNS = 4


@part(
    "rng", "lane", "turn", "course", "trips", "before",
    bounds={
        "lane": lambda swaps: (0, swaps.course.size - 1),
        "turn": lambda _: (0, _TURNS - 1),
        "course": lambda _: (NOWHERE, FROM_ABOVE),
        "trips": lambda _: (0, MOST_EVENTS),
        "before": lambda _: (-np.inf, FINITE),
    },
)  # fmt: skip
class Swaps(NamedTuple):
    """Who is where on the ladder."""

    rng: NDArray[np.uint64]  # (4,)
    b: NDArray[np.float64]  # (rungs,)
    lane: NDArray[np.int64]  # (rungs,) the lane of each rung; (2 rungs,) of a pair of ladders, the chain's own last
    turn: NDArray[np.int64]  # (1,) scans so far, modulo _TURNS: even pairs are next after an even number of them
    course: NDArray[np.int64]  # (lanes,) where each lane was last
    trips: NDArray[np.int64]  # (1,) from the reference to the target and back, since the beginning
    before: NDArray[np.float64]  # (lanes,) V at the end of the last scan
    value: NDArray[np.float64]  # like `lane`, scratch: V by rung
    accept: NDArray[np.float64]  # like `lane`, scratch: probabilities of swaps with the next rung, made or not
    clusters: NDArray[np.bool_]  # (rungs,) where clusters are exchanged
    met: NDArray[np.int64]  # (2, rungs) sites at which lanes differed, and of them those in clusters, to tune by
    queue: NDArray[np.int64]  # (d + 1,) scratch
    apart: NDArray[np.uint8]  # (d + 1,) scratch, 0 at the end


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
    clusters: Sequence[int] = (),
) -> LadderToll:
    """Return a toll of lanes, the first of which begin at the temperatures b in their order; others stay at b = 0.

    `constant` is what normalises q, by default that of independent spins in the fields `reference`, (d,). If there are
    rungs that exchange `clusters`, there are two ladders.
    """
    width, rungs, d = rng.shape[1], b.size, reference.size
    ladders = 2 if clusters else 1
    swaps = Swaps(
        rng=swap_rng,
        b=b,
        lane=np.arange(ladders * rungs),
        turn=np.zeros(1, np.int64),
        course=np.zeros(width, np.int64),
        trips=np.zeros(1, np.int64),
        before=np.full(width, -np.inf),
        value=np.empty(ladders * rungs),
        accept=np.empty(ladders * rungs),
        clusters=np.isin(np.arange(rungs), clusters),
        met=np.zeros((2, rungs), np.int64),
        queue=np.empty(d + 1, np.int64),
        apart=np.zeros(d + 1, np.uint8),
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
    rungs, before = swaps.b.size, swaps.before
    _take_off_reference(toll, s)  # V in place of log p
    for first in range(0, swaps.lane.size, rungs):
        ladder = slice(first, first + rungs)
        _look_at(swaps.b, toll.log_prob, swaps.lane[ladder], swaps.value[ladder], swaps.accept[ladder])
    record_ladder(recorder, toll)
    for k in range(before.size):
        before[k] = toll.log_prob[k]
    for first in range(0, swaps.lane.size, rungs):
        ladder = slice(first, first + rungs)
        _swap(toll, swaps.lane[ladder], swaps.accept[ladder])
    share_out(toll)
    for n in range(swaps.lane.size // rungs):
        park_lane(target, n, swaps.lane[n * rungs])
    if swaps.lane.size > rungs:
        _trade_clusters(swaps, target, s)
    swaps.turn[0] = (swaps.turn[0] + 1) % _TURNS


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
def _swap(toll, lane, accept):
    """Let every other pair of neighbours on a ladder trade places."""
    swaps = toll.swaps
    b, top = swaps.b, swaps.b.size - 1
    for k in range(swaps.turn[0] % 2, top, 2):
        low, high, swap = lane[k], lane[k + 1], uniform(swaps.rng) <= accept[k]
        lane[k], lane[k + 1] = high if swap else low, low if swap else high  # which no processor foresees
    for k in range(b.size):
        n = np.uint64(lane[k])
        toll.weight[n], toll.rest[n] = b[k], 1.0 - b[k]
        toll.bath[n] = toll.rule if k > 0 else HEAT_BATH
    if swaps.course[lane[0]] == FROM_ABOVE:
        swaps.trips[0] += 1
    swaps.course[lane[0]] = FROM_BELOW
    if swaps.course[lane[top]] == FROM_BELOW:
        swaps.course[lane[top]] = FROM_ABOVE


@helper
def _trade_clusters(swaps, target, s):
    """Exchange the cluster of a random site between both ladders, at every fourth rung."""
    rungs, queue, apart = swaps.b.size, swaps.queue, swaps.apart
    for k in range(1 + swaps.turn[0], rungs, _TURNS):
        if not swaps.clusters[k]:
            continue
        one, other, n = np.uint64(swaps.lane[k]), np.uint64(swaps.lane[rungs + k]), np.uint64(0)
        for i in range(s.shape[0]):
            queue[n] = i
            apart[i] = s[i, one] != s[i, other]
            n += np.uint64(apart[i])
        if n:
            start = queue[min(np.uint64(uniform(swaps.rng) * n), n - np.uint64(1))]
            swaps.met[0, k] += np.int64(n)
            swaps.met[1, k] += trade_cluster(target, s, start, one, other, queue, apart)


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
