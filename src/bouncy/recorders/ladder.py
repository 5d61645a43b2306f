"""What is recorded of a ladder: the chain at b = 1 like any other, and sums from which log Z is estimated.

The chain passes from lane to lane. Where the spins of the lane that it comes to differ from its own, they flip at the
beginning of the next sweep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._lane_loop import FEW, Row, Vector, lane_loop
from bouncy._vector import vector_exp
from bouncy.recorders.contract import FLIPS, has_room, record_flip, record_means, record_sweep
from bouncy.recorders.lanes import fetch_record, follow_lanes, record_change, record_lane_means, record_lane_sweep
from bouncy.recorders.recorder import DRAWN, SINCE_DRAW, Recorder, record_flips
from bouncy.targets.contract import target_part
from bouncy.targets.lanes import read_lanes

# Rows of the sums over scans. Of pairs of neighbours, (rungs,) with the last entry unused: the probability of a swap;
# the two means of bridge sampling, and those of plain exponential averages, forward and reverse. Of rungs: whether V is
# finite, V, V^2, V times V after the scan before, and whether the lane there comes from the reference, or the target.
SWAP, FORWARD, REVERSE, UP, DOWN, FINITE, VALUE, SQUARE, PRODUCT, RISING, FALLING = range(11)
ROWS = 11
# Course of a lane, where it was last: at neither end of the ladder, at the reference, or at the target after that.
NOWHERE, FROM_BELOW, FROM_ABOVE = 0, 1, 2


@target_part()
class ColdView(NamedTuple):
    """The chain at b = 1 at the end of a sweep, its own ladder first."""

    spins: NDArray[np.int8]  # (ladders, d)
    means: NDArray[np.float64]  # (ladders, d or a little more)
    value: NDArray[np.float64]  # (1,) log p

    def flip_cost(self, s, i):
        return 0.0  # which nobody asks for

    def log_prob(self, s):
        return self.value[0]

    def conditional_means(self, s, out):
        for i in range(s.size):
            out[i] = self.means[0, i]


def new_cold_view(ladders: int, d: int) -> ColdView:
    """Return room for the state of some ladders at b = 1."""
    return ColdView(np.zeros((ladders, d), np.int8), np.zeros((ladders, -(-d // 4) * 4)), np.zeros(1))


@part("offset", "sums", "best", "best_log_prob", bounds={"best": None, "best_log_prob": None, "sums": None})
class LadderRecorder(NamedTuple):
    """Sums over the open batch, and the most probable state.

    Means are recorded at the end of each sweep, where the costs of all lanes are needed anyway.
    """

    open_mean: NDArray[np.float64]  # (d,) that of the chain
    open_events: NDArray[np.float64]  # (5, lanes) scratch, of which hits, bounces and refreshments are the chain's
    due: NDArray[np.int64]  # (1,) never
    chain: Recorder
    cold: ColdView
    s: NDArray[np.int8]  # (d,) spins of the chain
    offset: NDArray[np.float64]  # (rungs,) estimates of log Z_{k+1} / Z_k, fixed while anything is recorded
    sums: NDArray[np.float64]  # (ROWS, rungs)
    best: NDArray[np.int8]  # (d,) the most probable state at the end of a scan, of all rungs
    best_log_prob: NDArray[np.float64]  # (1,)
    values: NDArray[np.float64]  # (n, rungs) V of each rung, for each draw


@helper
def record_flip_of_chain(recorder, i, t):
    """Account for a flip of site i in the chain, t after the sweep began."""
    record_flip(recorder.chain, recorder.s, i, t)
    recorder.s[i] = -recorder.s[i]
    recorder.chain.open_events[FLIPS] += 1.0


@implements(fetch_record, LadderRecorder)
def _fetch(recorder, i):
    pass


@implements(follow_lanes, LadderRecorder)
def _follow(recorder, toll, s):
    """Go over to the lane that is at b = 1 now."""
    now = recorder.cold.spins[0]
    copy_lane(s, toll.swaps.lane[-1], now)
    recorder.chain.open_events[FLIPS] += record_flips(recorder.chain, recorder.s, now, 0.0)


@implements(record_change, LadderRecorder)
def _record_change(recorder, toll, s, i, count, t):
    if toll.attempt.change[toll.swaps.lane[-1]] != 0:
        record_flip_of_chain(recorder, i, t)


@implements(record_lane_means, LadderRecorder)
def _record_means(recorder, toll, target, s):
    pass


@helper
def copy_lane(s, lane, out):
    """Write the spins of a lane into `out`, (d,)."""
    k = np.uint64(lane)  # unsigned, which skips the check for an index from the end
    for i in range(out.size):
        out[i] = s[i, k]


@implements(record_lane_sweep, LadderRecorder)
def _record_sweep(recorder, toll, target, s, sweep_time):
    lane, cold = toll.swaps.lane[-1], recorder.cold
    at_target = toll.swaps.lane[:: -toll.swaps.b.size]
    for n in range(at_target.size):
        copy_lane(s, at_target[n], cold.spins[n])
    read_lanes(target, s, at_target, cold.spins, toll.attempt.cost, toll.log_prob, cold.means)
    cold.value[0] = toll.log_prob[lane]
    record_sweep(recorder.chain, cold, recorder.s, sweep_time)
    for n in range(1, at_target.size):
        record_means(recorder.chain, ColdView(cold.spins[n:], cold.means[n:], cold.value), cold.spins[n])
    best, better = recorder.best_log_prob[0], 0
    for k in range(toll.swaps.lane.size):
        better += toll.log_prob[k] > best
    if better:
        top = lane
        for k in toll.swaps.lane:
            top = k if toll.log_prob[k] > toll.log_prob[top] else top
        recorder.best_log_prob[0] = toll.log_prob[top]
        copy_lane(s, top, recorder.best)


@implements(has_room, LadderRecorder)
def _has_room(recorder):
    return has_room(recorder.chain)


@helper
def record_ladder(recorder, toll):
    """Account for the values of V and the probabilities of swaps at the end of a scan, of each ladder by its share."""
    swaps = toll.swaps
    rungs, size = swaps.b.size, swaps.lane.size
    for first in range(0, size, rungs):
        _add_ladder(recorder, swaps, first, rungs / size)
    tally = recorder.chain.tally
    row = tally[DRAWN] - 1
    if tally[SINCE_DRAW] == 0 and 0 <= row < recorder.values.shape[0]:
        for k in range(rungs):
            recorder.values[row, k] = swaps.value[size - rungs + k]


@helper
def _add_ladder(recorder, swaps, first, share):
    """Add to the sums over scans what the ladder whose rungs begin with entry `first` contributes."""
    sums, b, size = recorder.sums, swaps.b, swaps.b.size
    ladder = slice(first, first + size)
    value, course, before = swaps.value[ladder], swaps.course[ladder], swaps.before[ladder]
    rising, falling = sums[RISING], sums[FALLING]
    for k in range(size):
        rising[k] += share * (course[k] == FROM_BELOW)
        falling[k] += share * (course[k] == FROM_ABOVE)
    _add_values(sums[FINITE], sums[VALUE], sums[SQUARE], sums[PRODUCT], value, before, share)
    pairs = size - 1
    _add_pairs(
        sums[SWAP, :pairs], sums[UP, :pairs], sums[DOWN, :pairs], sums[FORWARD, :pairs], sums[REVERSE, :pairs],
        swaps.accept[ladder], value, value[1:], b, b[1:], recorder.offset, share,
    )  # fmt: skip


@lane_loop(strides=FEW)
def _add_values(finite: Row, total: Row, square: Row, product: Row, value: Row, old: Row, share: Vector) -> None:
    v, before = value.read(), old.read()
    there = v > -np.inf
    finite.write(finite.read() + there.choose(share, 0.0))
    total.write(total.read() + there.choose(share * v, 0.0))
    square.write(square.read() + there.choose(share * (v * v), 0.0))
    product.write(product.read() + there.choose(share * (v * (before > -np.inf).choose(before, v)), 0.0))


@lane_loop(strides=FEW)
def _add_pairs(
    swap: Row, up: Row, down: Row, forward: Row, reverse: Row,
    accept: Row, low: Row, high: Row, b: Row, next_b: Row, offset: Row, share: Vector,
) -> None:  # fmt: skip
    swap.write(swap.read() + share * accept.read())
    step, shift = next_b.read() - b.read(), offset.read()
    for exponent, total, mean in (
        (step * low.read() - shift, up, forward),
        (shift - step * high.read(), down, reverse),
    ):
        odds = vector_exp(exponent)
        total.write(total.read() + share * odds)
        mean.write(mean.read() + share * (odds / (odds + 1.0)))
