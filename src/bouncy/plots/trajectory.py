"""The path of one particle, corner by corner.

A run keeps spins and forgets the particle. Here the same clock, toll and target are stepped from Python, slowly, and
the position is kept at each corner of the path: y_i = s_i z_i, with straight lines in between.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import as_seed_sequence, check_nonnegative, check_spins
from bouncy.clocks.contract import fill, position
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import Sampler, SpinSampler
from bouncy.targets.contract import Target, flip_cost, on_flip
from bouncy.tolls.contract import pay
from bouncy.workers.contract import Plan
from bouncy.workers.spins import SpinWorker

Array = NDArray[np.float64]


class Event(IntEnum):
    """What happens at a corner of the path."""

    START = 0
    CROSSING = 1
    REFUSAL = 2
    BOUNCE = 3
    REFRESHMENT = 4
    END = 5


@dataclass(frozen=True)
class Trajectory:
    """The corners of a path in the order of time; straight lines lie between them.

    Attributes
    ----------
    sampler : str
        Name of the sampler.
    time : ndarray, shape (n,)
        In units of the clock, in which the particle has speed 1.
    kind : ndarray of int, shape (n,)
        One `Event` for each corner.
    site : ndarray of int, shape (n,)
        The wall of a crossing or refusal, -1 elsewhere.
    y : ndarray, shape (n, d)
        Positions.
    s : ndarray of int8, shape (n, d)
        Spins right after the event.
    """

    sampler: str
    time: Array
    kind: NDArray[np.int64]
    site: NDArray[np.int64]
    y: Array
    s: NDArray[np.int8]


def trace(
    target: Target,
    sampler: str | Sampler = "bps-gaussian",
    *,
    duration: float,
    seed: int | np.random.SeedSequence | None = None,
    initial: ArrayLike | None = None,
) -> Trajectory:
    """Follow the particle for a time and return its path.

    It is the path of the first chain of `bouncy.sample` with the same arguments and `warmup=0`. Made for pictures: an
    event takes O(d) interpreted steps.

    Parameters
    ----------
    target : Target
    sampler : str or Sampler
        One whose particle moves on straight lines.
    duration : float
        In units of the clock's time; `sampler.sweep_time(d)` is one sweep.
    seed : int or SeedSequence, optional
    initial : array_like, shape (d,), optional
        Spins to start from; uniformly random ones otherwise.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.plots import trace
    >>> path = trace(bouncy.MRF.random(3, seed=1), duration=20.0, seed=0)
    >>> path.y.shape == (path.time.size, 3)
    True
    """
    if not isinstance(target, Target):
        raise TypeError(f"trace follows spins, got {type(target).__name__}; for continuous targets use trace_flight")
    chosen: SpinSampler = as_sampler(target, sampler)
    if chosen.clock.family != "billiard":
        raise ValueError(f"sampler is {chosen.name!r}, which has no particle that moves on straight lines; use BPS")
    duration = check_nonnegative("duration", duration)
    start = None if initial is None else check_spins(initial, target.d, "initial").reshape(target.d)
    tracer = _Tracer(SpinWorker(target, chosen, Plan(), as_seed_sequence(seed).spawn(1)[0], start))
    # Sums of 64-bit integers are meant to wrap around, of which NumPy warns in interpreted code.
    with np.errstate(over="ignore"):
        while tracer.time < duration:
            tracer.step(duration)
    tracer.keep(Event.END, -1, tracer.time, tracer.z)
    return tracer.path(chosen.name)


class _Tracer:
    """Steps a chain from corner to corner: the loop of `bouncy.workers.kernel` with a position at each event."""

    def __init__(self, chain: SpinWorker) -> None:
        self.chain = chain
        self.clock = chain.clock
        self.purse = float(chain.toll.purse[0])
        self.time = 0.0
        self.z, self.w = _position(self.clock, 0.0, chain.s.size)
        self.stride = chain.sweep_time / chain.s.size  # one wall hit is expected in it
        self.corners: list[tuple[float, int, int, Array, NDArray[np.int8]]] = []
        self.keep(Event.START, -1, 0.0, self.z)

    def keep(self, kind: Event, site: int, time: float, z: Array) -> None:
        s = self.chain.s.copy()
        self.corners.append((time, int(kind), site, s * z, s))

    def step(self, t_stop: float) -> None:
        """Move on to the next wall, or for a stride, or to t_stop, whichever comes first."""
        clock, time, site = _advance(self.clock, self.time, min(t_stop, self.time + self.stride))
        z, w = _position(clock, time, self.z.size)
        if site >= 0:
            z[site], w[site] = 0.0, abs(w[site])  # rounding may put the wall on either side
        turns = clock.count[:2] - self.clock.count[:2]
        if turns.any():
            arriving = w.copy()
            if site >= 0:
                arriving[site] = -w[site]
            after = _corner(self.z, self.w, z, arriving, time - self.time)
            kind = Event.BOUNCE if turns[0] else Event.REFRESHMENT
            self.keep(kind, -1, self.time + after, np.maximum(self.z + self.w * after, 0.0))
        self.clock, self.time, self.z, self.w = clock, time, z, w
        if site >= 0:
            self.keep(self._attempt(site), site, time, z)

    def _attempt(self, site: int) -> Event:
        """Flip a spin if the purse covers the cost."""
        view, s = self.chain.view, self.chain.s
        passed, self.purse = pay(self.chain.toll, self.purse, flip_cost(view, s, site), site)
        if not passed:
            return Event.REFUSAL
        s[site] = -s[site]
        on_flip(view, s, site)
        return Event.CROSSING

    def path(self, sampler: str) -> Trajectory:
        time, kind, site, y, s = zip(*self.corners, strict=True)
        return Trajectory(sampler, np.array(time), np.array(kind), np.array(site), np.array(y), np.array(s))


def _position(clock: Any, time: float, d: int) -> tuple[Array, Array]:
    """Return the distance to each wall and the speed away from it, each (d,)."""
    z, w = np.empty(d), np.empty(d)
    position(clock, time, z, w)
    return z, w


def _advance(clock: Any, time: float, t_stop: float) -> tuple[Any, float, int]:
    """Return a later copy of a clock, its time and the site of the wall it is at, or -1 at a time without one.

    The particle turns at most once on the way: a clock does not tell where it bounced, and a single corner can be
    found from the lines before and after it.
    """
    times, sites = np.empty(1), np.empty(1, np.int32)
    later = copy.deepcopy(clock)
    hits, _ = fill(later, t_stop, times, sites)
    if (later.count[:2] - clock.count[:2]).sum() > 1:
        return _advance(clock, time, 0.5 * (time + t_stop))
    return (later, float(times[0]), int(sites[0])) if hits else (later, t_stop, -1)


def _corner(z: Array, w: Array, z_end: Array, w_end: Array, elapsed: float) -> float:
    """Return the time at which the line z + w t meets the line that ends in z_end with speed w_end."""
    change = w - w_end
    after = (z_end - w_end * elapsed - z) @ change / (change @ change)
    return float(np.clip(after, 0.0, elapsed))
