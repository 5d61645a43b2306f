"""A clock decides when which spin may flip; it does not see the target.

There are four families. Billiards (BPS) and trajectories (HMC) are particles that meet the walls y_i = 0 of an
augmentation; a scan (Gibbs, Metropolis) only counts sites, and pairs are sites that may trade places. To add a clock,
add a file here that builds a `Clock` and gives the four functions below for its `NamedTuple` of arrays with
`implements`. Samplers find it by its family and name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, lgamma, pi, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._dispatch import generic

# Most events that a clock can have counted, and the longest time that can have passed since a time that it keeps: a
# loop that has to make up for more would not end.
MOST_EVENTS = 2**62
LONGEST = 1e7


@dataclass(frozen=True)
class Clock:
    """A kind of clock; for a particle, in the positive orthant of z = |y| and w = sign(y) v.

    Attributes
    ----------
    family : {"billiard", "trajectory", "scan", "pairs"}
        Family of samplers that use it: BPS, HMC, Gibbs and Metropolis, or swaps.
    name : str
        The augmentation it belongs to, or the order of its sites.
    allocate : callable
        `allocate(d, refreshment_rate, state)` returns the arrays of a clock that still has to be started. `state` is a
        generator state which the clock keeps and changes. A billiard is refreshed at random times with this rate, a
        trajectory regularly, a scan never.
    hit_rate, bounce_rate : callable
        Expected hits (all sites) and gradient bounces per unit time at stationarity, as functions of d.
    by_attempts : bool
        Whether conditional means are recorded after every d attempts rather than at the ends of sweeps. The hits of a
        billiard never depend on the spins, so that this leaves no bias, and their number in a sweep varies, so that it
        makes a difference. Those of a trajectory do depend on them, by way of energies; a scan has d in a sweep anyway.
    slow : callable
        `slow(d)` returns the variance, relative to the square of its mean, of the hit rate given what changes only by
        refreshment, and how many refreshments that takes to be forgotten.
    """

    family: Literal["billiard", "trajectory", "scan", "pairs"]
    name: str
    allocate: Callable[[int, float, NDArray[np.uint64]], Any]
    hit_rate: Callable[[int], float]
    bounce_rate: Callable[[int], float] = lambda d: 0.0
    by_attempts: bool = False
    slow: Callable[[int], tuple[float, float]] = lambda d: (0.0, 1.0)

    def start(self, d: int, refreshment_rate: float, state: NDArray[np.uint64]) -> Any:
        """Return the arrays of a clock at time 0, with (z, w) drawn from their stationary law."""
        return started(self.allocate(d, refreshment_rate, state))

    def sweep_time(self, d: int) -> float:
        """Return the time in which d wall hits are expected."""
        return d / self.hit_rate(d)

    def slow_variance(self, d: int, refreshments: float) -> float:
        """Return the relative variance of a chain's mean hit rate that is due to what changes only by refreshment.

        This is the variance of the time average of a stationary process with exponential autocorrelation.
        """
        variance, memory = self.slow(d)
        lengths = refreshments / memory
        return variance if lengths < 1e-6 else variance * 2.0 / lengths * (1.0 + expm1(-lengths) / lengths)


def started(clock: Any) -> Any:
    """Return a clock that was allocated, at time 0 of its stationary law."""
    from bouncy.clocks.by_address import linked  # which needs the functions below

    _restart(linked(clock))
    return clock


def mean_speed(d: int) -> float:
    """Return E|v_1| for v uniform on the unit sphere in d dimensions."""
    return exp(lgamma(d / 2) - lgamma((d + 1) / 2)) / sqrt(pi)


@generic
def restart(clock):
    """Draw the state, for a particle (z, w), from its stationary law and set the time to 0."""


@generic
def fill(clock, t_stop, times, sites):
    """Write the next hits up to t_stop into `times` and `sites`; return how many, and whether t_stop is reached.

    When it is called, the tolls of all hits returned before have been paid; a clock whose hits depend on tolls returns
    only hits that depend on none still unpaid. The hits do not depend, to the byte, on where earlier calls stopped.
    Pairs come as two hits at the same time, one after the other (`clocks/pairs.py`).
    """


@generic
def shift(clock, elapsed):
    """Move the origin of time forward, so that times stay small and keep all their digits."""


@generic
def position(clock, t, z, w):
    """Write the distance to each wall and the speed away from it at time t into `z` and `w`.

    The time must lie between the last hit or `t_stop` given to `fill` and the next event. A clock without a particle
    writes NaN.
    """


@kernel
def _restart(clock):
    restart(clock)
