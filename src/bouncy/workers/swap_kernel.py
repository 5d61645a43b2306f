"""The loop of two spins at once: clock -> pairs -> swaps and flips -> recorder.

A swap costs what two flips cost, the second in the state after the first. The spin that is up goes down first: for the
model of a regression, a variable leaves before another one comes.
"""

from __future__ import annotations

import numpy as np

from bouncy._compile import helper, kernel
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import FLIPS, HITS, has_room, record_flip, record_sweep
from bouncy.targets.contract import failed, flip_cost, init, log_prob, on_flip
from bouncy.tolls.contract import pay
from bouncy.workers.kernel import FLIPS_PER_SITE

# What the loop returns where a swap leads through an impossible state, and log p is not known on either side.
UNKNOWN = -1


@helper
def begin_swap(target, s, up, down):
    """Return the cost of exchanging a spin +1 and a spin -1, and whether the state in between is impossible.

    The first spin is flipped on the way. Where that is impossible both are, and the caches are computed anew.
    """
    first = flip_cost(target, s, up)
    if first < np.inf:
        s[up] = -1
        on_flip(target, s, up)
        return first + flip_cost(target, s, down), False
    before = log_prob(target, s)
    s[up] = -1
    s[down] = 1
    init(target, s)
    return before - log_prob(target, s), True


@helper
def end_swap(target, s, up, down, at_once, passed):
    """Complete a swap that `begin_swap` began, or take it back."""
    if passed:
        s[up] = -1
        s[down] = 1
        if not at_once:
            on_flip(target, s, down)
        return
    s[up] = 1
    s[down] = -1
    if at_once:
        init(target, s)
    else:
        on_flip(target, s, up)


@helper
def record_swap(recorder, s, up, down, t):
    """Account for two flips at the same time; the spins are as before both of them."""
    record_flip(recorder, s, up, t)
    s[up] = -1
    record_flip(recorder, s, down, t)
    s[down] = 1


@helper
def run_pairs(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps):
    """Run a chain for n sweeps, and return how many are left, as `run_sweeps` does, or `UNKNOWN`.

    Cost: for each flip what it costs there; for each swap of spins that differ two `flip_cost` and two `on_flip`,
    accepted or not.
    """
    purse = toll.purse[0]
    events = recorder.open_events
    for sweep in range(n_sweeps):
        hits = 0
        flips = 0
        moved = s.size  # conditional means may flip spins and flip them back
        reached = False
        while not reached:
            if failed(target):
                return n_sweeps - sweep
            n, reached = fill(clock, sweep_time, times, sites)
            for k in range(0, n, 2):
                i, partner = np.uint32(sites[k]), sites[k + 1]
                if partner < 0:
                    hits += 1
                    cost = flip_cost(target, s, i)
                    if not cost > -np.inf and failed(target):
                        return n_sweeps - sweep
                    passed, purse = pay(toll, purse, cost, i)
                    if passed:
                        record_flip(recorder, s, i, times[k])
                        s[i] = -s[i]
                        on_flip(target, s, i)
                        flips += 1
                        moved += 1
                else:
                    j = np.uint32(partner)
                    hits += 2
                    if s[i] == s[j]:
                        continue
                    up, down = (i, j) if s[i] > 0 else (j, i)
                    cost, at_once = begin_swap(target, s, up, down)
                    if not cost > -np.inf:
                        return n_sweeps - sweep if failed(target) else UNKNOWN
                    passed, purse = pay(toll, purse, cost, i)
                    if passed:
                        s[up] = 1
                        s[down] = -1
                        record_swap(recorder, s, up, down, times[k])
                        flips += 2
                    end_swap(target, s, up, down, at_once, passed)
                    moved += 2
                if failed(target):
                    return n_sweeps - sweep
        shift(clock, sweep_time)
        events[HITS] += hits
        events[FLIPS] += flips
        flips_since_resync[0] += moved
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
def advance_pairs(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps):
    """Do what `run_pairs` does, called from Python."""
    return run_pairs(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps)
