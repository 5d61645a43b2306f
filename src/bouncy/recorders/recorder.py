"""What a chain keeps: sums for means and their error bars, event counts, and states on a regular grid of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import implements, part
from bouncy.recorders._batches import merge
from bouncy.recorders.contract import has_room, record_flip, record_sweep
from bouncy.recorders.pairs import Pairs, pairs_clear, pairs_flip, pairs_merge, pairs_sweep, pairs_write
from bouncy.recorders.trail import AnyTrail, no_trail, trail_flip, trail_has_room, trail_sweep
from bouncy.targets.contract import conditional_means, log_prob


@part("open_path", "open_mean", "open_events", "path", "mean", "events", "flips", "elapsed", "tally")
class Recorder(NamedTuple):
    """Sums over the open batch, sums of closed batches, and the draws.

    A batch is `length` sweeps long. When all slots are taken the batches are added up two by two and the length
    doubles, so the sums need constant memory and do not depend on how a run was cut into calls.
    """

    open_path: NDArray[np.float64]  # (d,) such that the integral of s since the batch began is open_path + s t
    open_mean: NDArray[np.float64]  # (d,) sum of the conditional means at the ends of sweeps
    open_events: NDArray[np.float64]  # (4,) hits, flips, bounces, refreshments in the open batch
    path: NDArray[np.float64]  # (slots, d) closed batches, likewise
    mean: NDArray[np.float64]  # (slots, d)
    events: NDArray[np.float64]  # (slots, 4)
    flips: NDArray[np.int64]  # (d,) of each site since the recorder was new
    elapsed: NDArray[np.float64]  # (1,) time since the open batch began
    tally: NDArray[np.int64]  # (6,) see the indices below
    draws: NDArray[np.int8]  # (n, d)
    log_prob: NDArray[np.float64]  # (n,)
    magnetisation: NDArray[np.float64]  # (n,)
    costs: NDArray[np.float64]  # (d or a little more,) scratch
    conditional: NDArray[np.float64]  # the same
    pairs: Pairs
    trail: AnyTrail


# Indices into `tally`: sweeps in the open batch, sweeps in a full batch, closed batches, draws taken since there was
# new room for them, sweeps since the last draw, sweeps between draws.
OPEN, LENGTH, CLOSED, DRAWN, SINCE_DRAW, THIN = range(6)


def new_recorder(d: int, slots: int, thin: int, pairs: Pairs) -> Recorder:
    """Return an empty recorder with no room for draws; `slots` is even."""
    tally = np.zeros(6, np.int64)
    tally[LENGTH] = 1
    tally[THIN] = thin
    return Recorder(
        open_path=np.zeros(d),
        open_mean=np.zeros(d),
        open_events=np.zeros(4),
        path=np.zeros((slots, d)),
        mean=np.zeros((slots, d)),
        events=np.zeros((slots, 4)),
        flips=np.zeros(d, np.int64),
        elapsed=np.zeros(1),
        tally=tally,
        draws=np.empty((0, d), np.int8),
        log_prob=np.empty(0),
        magnetisation=np.empty(0),
        # Rounded up to whole vectors of the processor, which spares a small d a slow remainder.
        costs=np.zeros(-(-d // 4) * 4),
        conditional=np.zeros(-(-d // 4) * 4),
        pairs=pairs,
        trail=no_trail(),
    )


@implements(record_flip, Recorder)
def _record_flip(recorder, s, i, t):
    trail_flip(recorder.trail, i, t)
    t += recorder.elapsed[0]
    pairs_flip(recorder.pairs, recorder.open_path, s, i, t)
    # The integral of s_i is s_i t at the end plus 2 s_i t for each flip, s_i as before it.
    recorder.open_path[i] += 2.0 * s[i] * t
    recorder.flips[i] += 1


@implements(record_sweep, Recorder)
def _record_sweep(recorder, target, s, sweep_time):
    # Conditional means at each end, a draw when one is due, a new batch when one is full.
    conditional_means(target, s, recorder.costs, recorder.conditional)
    for i in range(s.size):
        recorder.open_mean[i] += recorder.conditional[i]
    pairs_sweep(recorder.pairs, s, recorder.conditional)
    trail_sweep(recorder.trail)
    recorder.elapsed[0] += sweep_time
    tally = recorder.tally
    tally[OPEN] += 1
    if tally[OPEN] == tally[LENGTH]:
        close_batch(recorder, s)
    tally[SINCE_DRAW] += 1
    if tally[SINCE_DRAW] == tally[THIN]:
        _take_draw(recorder, target, s)


@implements(has_room, Recorder)
def _has_room(recorder):
    return trail_has_room(recorder.trail)


@helper
def _take_draw(recorder, target, s):
    tally = recorder.tally
    tally[SINCE_DRAW] = 0
    n = tally[DRAWN]
    if n < recorder.log_prob.size:
        total = 0
        for i in range(s.size):
            total += s[i]
        recorder.log_prob[n] = log_prob(target, s)
        recorder.magnetisation[n] = total / s.size
        if n < recorder.draws.shape[0]:
            for i in range(s.size):
                recorder.draws[n, i] = s[i]
        tally[DRAWN] = n + 1


@helper
def _write_batch(recorder, s):
    """Write the sums of the open batch into the next free slot."""
    t = recorder.elapsed[0]
    slot = recorder.tally[CLOSED]
    pairs_write(recorder.pairs, recorder.open_path, s, t, slot)
    for i in range(s.size):
        recorder.path[slot, i] = recorder.open_path[i] + s[i] * t
        recorder.mean[slot, i] = recorder.open_mean[i]
    for k in range(recorder.events.shape[1]):
        recorder.events[slot, k] = recorder.open_events[k]


@helper
def close_batch(recorder, s):
    """Write the sums of the open batch, whatever its length, and begin a new one."""
    _write_batch(recorder, s)
    pairs_clear(recorder.pairs)
    for i in range(s.size):
        recorder.open_path[i] = 0.0
        recorder.open_mean[i] = 0.0
    for k in range(recorder.events.shape[1]):
        recorder.open_events[k] = 0.0
    recorder.elapsed[0] = 0.0
    tally = recorder.tally
    tally[OPEN] = 0
    tally[CLOSED] += 1
    if tally[CLOSED] == recorder.path.shape[0]:
        _merge_batches(recorder)


@helper
def _merge_batches(recorder):
    tally = recorder.tally
    n = tally[CLOSED]
    merge(recorder.path, n)
    merge(recorder.mean, n)
    merge(recorder.events, n)
    pairs_merge(recorder.pairs, n)
    tally[CLOSED] = n // 2
    tally[LENGTH] *= 2


@kernel
def write_open_batch(recorder, s):
    """Write the sums of the open batch into the next free slot, to be read; the chain can go on as if nothing was."""
    _write_batch(recorder, s)
