"""The one loop: clock -> hits -> flips -> recorder."""

from __future__ import annotations

import numpy as np

from bouncy._compile import helper, kernel
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import (
    BOUNCES,
    FLIPS,
    HITS,
    REFRESHMENTS,
    has_room,
    record_flip,
    record_means,
    record_sweep,
)
from bouncy.targets.contract import failed, flip_cost, init, log_prob, on_flip
from bouncy.tolls.contract import pay

# Hits that the clock hands over at a time: small enough for the fastest cache.
BUFFER = 1024
# The local fields are recomputed after this many accepted flips per site: a 64th of the work of the flips themselves.
FLIPS_PER_SITE = 64


@helper
def run_sweeps(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps):
    """Run a chain for n sweeps, and return how many are left: because its target failed, or its recorder is full.

    Everything but `sweep_time` and `n_sweeps` is changed in place; `times` and `sites` are a buffer for hits. Cost: one
    `fill` and one `flip_cost` per hit, one `on_flip` and one `record_flip` per accepted flip, O(d) per sweep.
    """
    purse = toll.purse[0]
    events, due = recorder.open_events, recorder.due
    for sweep in range(n_sweeps):
        bounces, refreshments = clock.count[0], clock.count[1]
        hits = 0
        flips = 0
        reached = False
        while not reached:
            if failed(target):
                return n_sweeps - sweep
            room = min(times.size, due[0])
            n, reached = fill(clock, sweep_time, times[:room], sites[:room])
            for k in range(n):
                i = np.uint32(sites[k])  # unsigned, which skips the wraparound check
                cost = flip_cost(target, s, i)
                if not cost > -np.inf and failed(target):  # to look for a failure at every hit would take longer
                    return n_sweeps - sweep
                passed, purse = pay(toll, purse, cost, i)
                if passed:
                    record_flip(recorder, s, i, times[k])
                    s[i] = -s[i]
                    on_flip(target, s, i)
                    flips += 1
                    if failed(target):
                        return n_sweeps - sweep
            hits += n
            due[0] -= n
            if due[0] == 0:
                record_means(recorder, target, s)
        shift(clock, sweep_time)
        events[HITS] += hits
        events[FLIPS] += flips
        events[BOUNCES] += clock.count[0] - bounces
        events[REFRESHMENTS] += clock.count[1] - refreshments
        flips_since_resync[0] += flips
        if flips_since_resync[0] >= FLIPS_PER_SITE * s.size:
            flips_since_resync[0] = 0
            init(target, s)
        record_sweep(recorder, target, s, sweep_time)
        if failed(target):
            return n_sweeps - sweep
        if not has_room(recorder):
            toll.purse[0] = purse
            return n_sweeps - sweep - 1
    toll.purse[0] = purse
    return 0


@kernel
def advance(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps):
    """Do what `run_sweeps` does, called from Python."""
    return run_sweeps(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps)


@kernel
def settle(target, s):
    """Compute the caches of the target from s, and return log p(s)."""
    init(target, s)
    return log_prob(target, s)
