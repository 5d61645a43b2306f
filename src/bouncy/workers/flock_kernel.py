"""The loop over lanes: clock -> hits -> flips of all lanes -> recorder."""

from __future__ import annotations

import numpy as np

from bouncy._compile import kernel
from bouncy._vector import DRAWN, draw_beginnings, fetch
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS, has_room
from bouncy.recorders.lanes import fetch_record, follow_lanes, record_change, record_lane_means, record_lane_sweep
from bouncy.targets.lanes import fetch_lanes, fetch_steps, flip_lanes, init_lanes, lanes_failed, settle_lanes
from bouncy.tolls.lanes import MOST_FLIPS, count_flips, exchange, pay_lanes, share_out

# Sweeps after which everything that is kept up to date is computed anew, at a cost of one more sweep.
RESYNC = 256
# Hits from one step of asking for the memory of a site to the next, and from the last to trying it.
AHEAD = 4


@kernel
def advance_lanes(clock, toll, target, recorder, s, chains, since_resync, times, sites, sweep_time, n_sweeps):
    """Run all lanes for n sweeps, and return how many are left: because a target failed, or its recorder is full.

    The first `chains` of them are counted where they are counted together. Everything but `chains`, `sweep_time` and
    `n_sweeps` is changed in place; `times` and `sites` are a buffer for hits. Random numbers that are left over at the
    end of a sweep are not used, so that only generators are part of a state.
    """
    attempt = toll.attempt
    records = recorder.open_mean.shape[0] > 0
    events, due = recorder.open_events, recorder.due
    steps = fetch_steps(target, s)
    share_out(toll)
    for sweep in range(n_sweeps):
        follow_lanes(recorder, toll, s)
        bounces, refreshments = clock.count[0], clock.count[1]
        hits = 0
        drawn = 0
        reached = False
        while not reached:
            if lanes_failed(target):
                return n_sweeps - sweep
            room = min(times.size, due[0])
            n, reached = fill(clock, sweep_time, times[:room], sites[:room])
            for first in range(0, n, MOST_FLIPS):
                for k in range(first, min(first + MOST_FLIPS, n)):
                    i = np.uint32(sites[k])  # unsigned, which skips the wraparound check
                    for step in range(steps):
                        if k + (step + 1) * AHEAD < n:
                            fetch_lanes(target, s, np.uint32(sites[k + (step + 1) * AHEAD]), step)
                    if k + AHEAD < n:
                        later = np.uint32(sites[k + AHEAD])
                        fetch(toll.reference[later : later + 1])
                        if records:
                            fetch_record(recorder, later)
                    if drawn == 0:
                        draw_beginnings(toll.rng, attempt.uniform)
                        drawn = DRAWN
                    drawn -= 1
                    flipped, counted = pay_lanes(toll, target, s, i, attempt.uniform[drawn], chains)
                    if flipped:
                        flip_lanes(target, s, i, attempt.change)
                        if records:
                            record_change(recorder, toll, s, i, counted, times[k])
                count_flips(attempt, events[FLIPS])
            hits += n
            due[0] -= n
            if due[0] == 0:
                settle_lanes(target)
                record_lane_means(recorder, toll, target, s)
        settle_lanes(target)
        shift(clock, sweep_time)
        for k in range(s.shape[1]):
            events[HITS, k] += hits
            events[BOUNCES, k] += clock.count[0] - bounces
            events[REFRESHMENTS, k] += clock.count[1] - refreshments
        since_resync[0] += 1
        if since_resync[0] == RESYNC:
            since_resync[0] = 0
            init_lanes(target, s)
        if records:
            record_lane_sweep(recorder, toll, target, s, sweep_time)
        if lanes_failed(target):
            return n_sweeps - sweep
        exchange(toll, target, recorder, s)
        if not has_room(recorder):
            return n_sweeps - sweep - 1
    return 0


@kernel
def settle_flock(target, s):
    """Compute what a target keeps of the spins."""
    init_lanes(target, s)
