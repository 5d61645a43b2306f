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
from bouncy._vector import exp
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
    if at_target.size > 1:
        record_means(recorder.chain, ColdView(cold.spins[1:], cold.means[1:], cold.value), cold.spins[1])
    top = lane
    for k in toll.swaps.lane:
        top = k if toll.log_prob[k] > toll.log_prob[top] else top
    if toll.log_prob[top] > recorder.best_log_prob[0]:
        recorder.best_log_prob[0] = toll.log_prob[top]
        copy_lane(s, top, recorder.best)


@implements(has_room, LadderRecorder)
def _has_room(recorder):
    return has_room(recorder.chain)


@helper
def record_ladder(recorder, toll):
    """Account for the values of V and the probabilities of swaps at the end of a scan, of two ladders by half each."""
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
    sums, b, value = recorder.sums, swaps.b, swaps.value[first : first + swaps.b.size]
    for k in range(b.size):
        v, lane = value[k], swaps.lane[first + k]
        if v > -np.inf:
            sums[FINITE, k] += share
            sums[VALUE, k] += share * v
            sums[SQUARE, k] += share * v * v
            old = swaps.before[lane]
            sums[PRODUCT, k] += share * v * (old if old > -np.inf else v)
        course = swaps.course[lane]
        if course == FROM_BELOW:
            sums[RISING, k] += share
        elif course == FROM_ABOVE:
            sums[FALLING, k] += share
    for k in range(b.size - 1):
        step, offset = b[k + 1] - b[k], recorder.offset[k]
        grown, shrunk = exp(step * value[k] - offset), exp(offset - step * value[k + 1])
        sums[SWAP, k] += share * swaps.accept[first + k]
        sums[UP, k] += share * grown
        sums[DOWN, k] += share * shrunk
        sums[FORWARD, k] += share * grown / (1.0 + grown)
        sums[REVERSE, k] += share * shrunk / (1.0 + shrunk)
