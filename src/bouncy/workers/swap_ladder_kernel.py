"""The loop of a ladder whose lanes exchange two spins: clock -> pairs -> swaps and flips of all lanes -> recorder.

The lane at the reference is not moved by attempts: it is drawn anew at the end of each sweep. The other lanes are moved
one after the other, each with its own view of the target, its own random numbers and its own temperature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._random import uniform
from bouncy._vector import draw_uniform, exp
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import HITS, has_room
from bouncy.recorders.ladder import record_flip_of_chain
from bouncy.recorders.lanes import follow_lanes, record_lane_sweep
from bouncy.targets.address_lanes import is_parked, lane_of, report_trouble
from bouncy.targets.contract import flip_cost, on_flip
from bouncy.targets.lanes import init_lanes, lanes_failed
from bouncy.tolls.lanes import exchange
from bouncy.workers.flock_kernel import RESYNC
from bouncy.workers.swap_kernel import begin_swap, end_swap


class Reference(NamedTuple):
    """The states that the reference is uniform on, or, at free sites, independent with the fields of the toll."""

    members: NDArray[np.int64]  # sites of all groups, one group after the other; changed in place
    ends: NDArray[np.int64]  # (groups + 1,)
    ups: NDArray[np.int64]  # (groups,) spins +1 in each
    free: NDArray[np.int64]  # sites in no group


@kernel
def advance_pair_lanes(
    clock, toll, target, recorder, s, reference, since_resync, times, sites, sweep_time, n_sweeps
):  # fmt: skip
    """Run all lanes for n sweeps, and return how many are left, as `advance_lanes` does."""
    for sweep in range(n_sweeps):
        follow_lanes(recorder, toll, s)
        reached = False
        while not reached:
            if lanes_failed(target):
                return n_sweeps - sweep
            n, reached = fill(clock, sweep_time, times, sites)
            for k in range(0, n, 2):
                i, j = np.int64(sites[k]), np.int64(sites[k + 1])
                recorder.open_events[HITS, 0] += 1.0 if j < 0 else 2.0
                for lane in range(s.shape[1]):
                    if is_parked(target, lane) or lanes_failed(target):
                        continue
                    spins = target.spins[lane]
                    if j < 0:
                        _try_flip(toll, target, recorder, spins, i, lane, times[k])
                    elif spins[i] != spins[j]:
                        up, down = (i, j) if spins[i] > 0 else (j, i)
                        _try_swap(toll, target, recorder, spins, up, down, lane, times[k])
                        s[j, lane] = spins[j]
                    s[i, lane] = spins[i]
        shift(clock, sweep_time)
        _draw_reference(toll, target, s, reference)
        since_resync[0] += 1
        if since_resync[0] == RESYNC:
            since_resync[0] = 0
            init_lanes(target, s)
        record_lane_sweep(recorder, toll, target, s, sweep_time)
        if lanes_failed(target):
            return n_sweeps - sweep
        exchange(toll, target, recorder, s)
        if not has_room(recorder):
            return n_sweeps - sweep - 1
    return 0


@helper
def _passes(toll, lane, cost, tilt):
    """Return whether a move passes: `cost` is that under p, `tilt` that under the reference."""
    return draw_uniform(toll.rng, lane) * exp(toll.weight[lane] * cost + toll.rest[lane] * tilt) < 1.0


@helper
def _try_flip(toll, target, recorder, spins, i, lane, t):
    view = lane_of(target, lane)
    cost = flip_cost(view, spins, i)
    if not cost > -np.inf:
        report_trouble(target, lane, np.nan)
        return
    if _passes(toll, lane, cost, -2.0 * toll.reference[i] * spins[i]):
        spins[i] = -spins[i]
        on_flip(view, spins, i)
        report_trouble(target, lane, 0.0)
        if lane == toll.swaps.lane[-1]:
            record_flip_of_chain(recorder, i, t)


@helper
def _try_swap(toll, target, recorder, spins, up, down, lane, t):
    view = lane_of(target, lane)
    cost, at_once = begin_swap(view, spins, up, down)
    if not cost > -np.inf:
        for i in range(spins.size):
            target.where[i] = spins[i]
        report_trouble(target, lane, np.nan)
        return
    passed = _passes(toll, lane, cost, 2.0 * (toll.reference[down] - toll.reference[up]))
    end_swap(view, spins, up, down, at_once, passed)
    report_trouble(target, lane, 0.0)
    if passed and lane == toll.swaps.lane[-1]:
        record_flip_of_chain(recorder, up, t)
        record_flip_of_chain(recorder, down, t)


@helper
def _draw_reference(toll, target, s, reference):
    """Draw the spins of the lane at the reference anew; its cache is computed when its log p is read."""
    lane = toll.swaps.lane[0]
    rng, spins = toll.rng[:, lane], target.spins[lane]
    for i in reference.free:
        spins[i] = 1 if uniform(rng) * (1.0 + exp(2.0 * toll.reference[i])) <= 1.0 else -1
    for g in range(reference.ups.size):
        group = reference.members[reference.ends[g] : reference.ends[g + 1]]
        for m in range(group.size):  # the first places of a random order of the sites
            n = m + min(np.int64((1.0 - uniform(rng)) * (group.size - m)), group.size - m - 1)
            group[m], group[n] = group[n], group[m]
            spins[group[m]] = 1 if m < reference.ups[g] else -1
    for i in range(spins.size):
        s[i, lane] = spins[i]
