"""What is recorded of one chain of spins: sums over the open batch, event counts, and states on a grid of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import MEANS, SWEEP_END, has_room, record_flip, record_means, record_sweep
from bouncy.recorders.pairs import Pairs, has_pairs, pairs_flip, pairs_means, pairs_within
from bouncy.recorders.trail import Trail, no_trail, trail_flip, trail_has_room, trail_is_kept, trail_sweep
from bouncy.targets.contract import conditional_means, log_prob

if TYPE_CHECKING:
    from bouncy.targets.constraints import Constraint


@part(
    "open_path", "open_mean", "open_state", "open_spread", "open_events", "flips", "elapsed", "due",
    bounds={"flips": lambda recorder: (0, MOST_EVENTS), "due": lambda recorder: (1, SWEEP_END)},
)  # fmt: skip
class Recorder(NamedTuple):
    """Sums over the open batch, and room for draws. The loop ends where a batch does; `take_batch` closes it."""

    open_path: NDArray[np.float64]  # (d,) such that the integral of s since the batch began is open_path + s t
    open_mean: NDArray[np.float64]  # (d,) sum of the conditional means
    open_state: NDArray[np.float64]  # (d or 0,) sum of the spins at the same moments, for control variates
    open_spread: NDArray[np.float64]  # (d + 1 or 0,) sum of the conditional variances, and of how many it is
    open_events: NDArray[np.float64]  # (5,) hits, flips, bounces, refreshments, recorded means in the open batch
    flips: NDArray[np.int64]  # (d,) of each site since the recorder was new
    elapsed: NDArray[np.float64]  # (1,) time since the open batch began
    due: NDArray[np.int64]  # (1,) attempts until conditional means are recorded
    every: int  # attempts from one time to the next, d or SWEEP_END
    tally: NDArray[np.int64]  # (3,) see the indices below
    draws: NDArray[np.int8]  # (n, d)
    log_prob: NDArray[np.float64]  # (n,)
    magnetisation: NDArray[np.float64]  # (n,)
    conditional: NDArray[np.float64]  # (d or a little more,) scratch
    group: NDArray[np.int32]  # (d or 0,) sites whose conditional means are joint ones, by group; -1 for none
    pairs: Pairs
    trail: Trail


# Indices into `tally`: draws in the rows so far, sweeps since the last draw, sweeps between draws.
DRAWN, SINCE_DRAW, THIN = range(3)


def new_recorder(
    d: int, pairs: Pairs, by_attempts: bool, constraint: Constraint | None = None, controls: bool = False
) -> Recorder:
    """Return an empty recorder with no room for draws, of means after every d attempts or at the ends of sweeps."""
    return Recorder(
        open_path=np.zeros(d),
        open_mean=np.zeros(d),
        open_state=np.zeros(d if controls else 0),
        open_spread=np.zeros(d + 1 if controls else 0),
        open_events=np.zeros(5),
        flips=np.zeros(d, np.int64),
        elapsed=np.zeros(1),
        due=np.array([SWEEP_END]),
        every=d if by_attempts else SWEEP_END,
        tally=np.array([0, 0, 1]),
        draws=np.empty((0, d), np.int8),
        log_prob=np.empty(0),
        magnetisation=np.empty(0),
        # Rounded up to whole vectors of the processor, which spares a small d a slow remainder.
        conditional=np.zeros(-(-d // 4) * 4),
        group=np.zeros(0, np.int32) if constraint is None else constraint.group_of,
        pairs=pairs,
        trail=no_trail(),
    )


def open_sums(recorder: Recorder, s: NDArray[np.int8]) -> Batch:
    """Return the sums over the open batch, by name, given the present spins."""
    t = float(recorder.elapsed[0])
    integral = recorder.open_path + s * t
    return {
        "path": integral,
        **{name: getattr(recorder, f"open_{name}").copy() for name in ("mean", "state", "spread")},
        "events": recorder.open_events.copy(),
        **recorder.pairs.sums(s, integral, t),
    }


def take_batch(recorder: Recorder, s: NDArray[np.int8]) -> Batch:
    """Return the sums over the open batch, and begin a new one."""
    batch = open_sums(recorder, s)
    for name in ("open_path", "open_mean", "open_state", "open_spread", "open_events", "elapsed"):
        getattr(recorder, name)[:] = 0.0
    recorder.pairs.clear()
    return batch


@implements(record_flip, Recorder)
def _record_flip(recorder, s, i, t):
    trail_flip(recorder.trail, i, t)
    t += recorder.elapsed[0]
    pairs_flip(recorder.pairs, recorder.open_path, s, i, t)
    # The integral of s_i is s_i t at the end plus 2 s_i t for each flip, s_i as before it.
    recorder.open_path[i] += 2.0 * s[i] * t
    recorder.flips[i] += 1


@helper
def record_flips(recorder, s, new, t):
    """Flip the sites at which s differs from new spins, t after the sweep began, and return how many.

    Where nothing but sums over sites is kept they are computed for all sites alike, as a loop without branches.
    """
    count = 0
    if trail_is_kept(recorder.trail) or has_pairs(recorder.pairs):
        for i in range(s.size):
            if s[i] != new[i]:
                record_flip(recorder, s, i, t)
                s[i] = new[i]
                count += 1
        return count
    now = recorder.elapsed[0] + t
    for i in range(s.size):
        change = np.int64(s[i]) - np.int64(new[i])
        recorder.open_path[i] += change * now
        recorder.flips[i] += change != 0
        count += change != 0
        s[i] = new[i]
    return count


@implements(record_means, Recorder)
def _record_means(recorder, target, s):
    conditional_means(target, s, recorder.conditional)
    for i in range(s.size):
        recorder.open_mean[i] += recorder.conditional[i]
    if recorder.open_state.size:
        for i in range(s.size):
            recorder.open_state[i] += s[i]
            recorder.open_spread[i] += 1.0 - recorder.conditional[i] * recorder.conditional[i]
        recorder.open_spread[s.size] += 1.0
    pairs_means(recorder.pairs, s, recorder.conditional)
    pairs_within(recorder.pairs, recorder.group, s, recorder.conditional)
    recorder.open_events[MEANS] += 1.0
    recorder.due[0] = recorder.every


@implements(record_sweep, Recorder)
def _record_sweep(recorder, target, s, sweep_time):
    if recorder.due[0] > s.size:
        record_means(recorder, target, s)
    trail_sweep(recorder.trail)
    recorder.elapsed[0] += sweep_time
    tally = recorder.tally
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
