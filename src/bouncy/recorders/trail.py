"""The flips themselves, each with its site and its time, or nothing: enough to replay a path exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part

# Room for a sweep, which has about one hit per site and never nearly as many as this.
_MOST_PER_SITE = 8
_MOST = 4096


@part()
class Trail(NamedTuple):
    """Flips since the trail was last emptied. It is empty between two calls of the loop, so nothing of it is state."""

    site: NDArray[np.int32]  # (room,)
    time: NDArray[np.float64]  # (room,) since the sweep began
    ends: NDArray[np.int64]  # (sweeps,) flips before the end of each sweep
    tally: NDArray[np.int64]  # (3,) flips, sweeps, the most flips that a sweep may have


def no_trail() -> Trail:
    """Return a trail without room, which keeps nothing."""
    return Trail(np.empty(0, np.int32), np.empty(0), np.empty(0, np.int64), np.zeros(3, np.int64))


def new_trail(d: int, sweeps: int) -> Trail:
    """Return an empty trail with room for some sweeps of d sites, or for fewer where they have many flips."""
    most = _MOST_PER_SITE * d + _MOST
    room = d * sweeps + most
    ends = np.empty(max(sweeps, 1), np.int64)  # one without room would keep nothing
    return Trail(np.empty(room, np.int32), np.empty(room), ends, np.array([0, 0, most]))


@helper
def trail_is_kept(trail):
    """Return whether flips are kept."""
    return trail.ends.size > 0


@helper
def trail_flip(trail, i, t):
    """Account for a flip of site i, t after the sweep began."""
    if trail_is_kept(trail):
        n = trail.tally[0]
        if n < trail.site.size:
            trail.site[n] = i
            trail.time[n] = t
        trail.tally[0] = n + 1  # more than there is room for is noticed when the trail is read


@helper
def trail_sweep(trail):
    """Account for the end of a sweep."""
    if trail.ends.size > 0:
        trail.ends[trail.tally[1]] = trail.tally[0]
        trail.tally[1] += 1


@helper
def trail_has_room(trail):
    """Return whether there is room for another sweep, or nothing is kept."""
    swept = (trail.tally[1] < trail.ends.size) & (trail.tally[0] + trail.tally[2] <= trail.site.size)
    return swept | (trail.ends.size == 0)
