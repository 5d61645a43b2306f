"""A recorder that counts events and keeps nothing else, for spins that belong to another sampler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy.recorders.contract import SWEEP_END, has_room, record_flip, record_means, record_sweep


@part("open_events")
class Counter(NamedTuple):
    """Hits, flips, bounces and refreshments since it was new."""

    open_events: NDArray[np.float64]  # (4,)
    due: NDArray[np.int64]  # (1,) never


def new_counter() -> Counter:
    """Return a counter at zero."""
    return Counter(np.zeros(4), np.array([SWEEP_END]))


@implements(record_flip, Counter)
def _record_flip(recorder, s, i, t):
    pass


@implements(record_means, Counter)
def _record_means(recorder, target, s):
    pass


@implements(record_sweep, Counter)
def _record_sweep(recorder, target, s, sweep_time):
    pass


@implements(has_room, Counter)
def _has_room(recorder):
    return True
