"""Binary BPS exactly as in the paper (Pakman 2017, arXiv 1711.00922): slow, the reference for the fast clocks.

The particle y moves along y + v t in the potential U(y) - log p(sign y), with U = |y|^2 / 2 (Gaussian augmentation) or
U = sum |y_i| (exponential) and log p(s) = -s.r - s'Ms/2. One budget E ~ Exp(1) pays for climbing, the integral of
[v.grad U]_+, and for uphill walls. If it does not cover the next expense the particle turns and draws a new one.

Every event costs O(d) for the times t_i = -y_i / v_i to the walls, every wall O(d^2) for log p before and after.
`advance` runs interpreted, `advance_compiled` is the same function through numba.

The order of the random numbers is that of the clocks: z, the direction, the time of the next refreshment, a budget;
then one budget per bounce, and direction, time, budget per refreshment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper, kernel
from bouncy._random import exponential, fill_sphere
from bouncy.experiments.particle import (
    BUDGET,
    T_REFRESH,
    T,
    bounce,
    draw_position,
    move,
    next_wall,
    slope_of_potential,
    time_to_spend,
)
from bouncy.piecewise.literal import BOUNCED, CROSSED, REFRESHED, REFUSED

AUGMENTATIONS = ("gaussian", "exponential")

# Index into `Particle.now`, after those of the published samplers.
WALL_BUDGET = 3

_BLOCK = 4096


class Particle(NamedTuple):
    """State of a particle. With two purses, walls are paid from a separate budget with a separate generator.

    An exponential budget is memoryless, so that two purses and one lead to the same law; with two, events at the walls
    do not change the motion, and the particle meets the same walls as a clock with the same generator.
    """

    M: NDArray[np.float64]  # (d, d), or (0, 0) where there are no couplings
    r: NDArray[np.float64]  # (d,)
    y: NDArray[np.float64]  # (d,)
    v: NDArray[np.float64]  # (d,) of length 1
    s: NDArray[np.int8]  # (d,) the side of each wall on which y is, also where y is on the wall
    now: NDArray[np.float64]  # (4,) see the indices above
    rng: NDArray[np.uint64]  # (4,)
    toll_rng: NDArray[np.uint64]  # (4,), the same array as rng with one purse
    field: NDArray[np.float64]  # (d,) scratch
    refreshment_rate: float
    gaussian: bool
    two_purses: bool


@dataclass(frozen=True)
class Path:
    """The events of a run in the order of time, and the state at its end.

    Attributes
    ----------
    kind : (n,) `CROSSED`, `REFUSED`, `BOUNCED` or `REFRESHED`.
    time : (n,)
    site : (n,) the wall of a crossing or refusal, -1 for other events.
    y, v, s : (d,) the state at `end`.
    end : the time at which the run stopped.
    """

    kind: NDArray[np.int8]
    time: NDArray[np.float64]
    site: NDArray[np.int32]
    y: NDArray[np.float64]
    v: NDArray[np.float64]
    s: NDArray[np.int8]
    end: float

    @property
    def at_wall(self) -> NDArray[np.bool_]:
        """Whether each event is a wall hit, crossed or refused, shape (n,)."""
        return self.site >= 0


def literal_bps(
    M: ArrayLike | None,
    r: ArrayLike,
    augmentation: str,
    *,
    clock_state: NDArray[np.uint64],
    toll_state: NDArray[np.uint64] | None = None,
    refreshment_rate: float = 0.0,
    events: int | None = None,
    duration: float | None = None,
    start: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    compiled: bool = False,
) -> Path:
    """Run the paper's algorithm for a number of events or for a time and return its path.

    Parameters
    ----------
    M : (d, d), symmetric with zero diagonal, or None where there are no couplings.
    r : (d,)
    augmentation : "gaussian" or "exponential".
    clock_state : (4,) generator state, changed in place.
    toll_state : (4,) generator of a second purse that pays at the walls, changed in place; None for one purse.
    refreshment_rate : rate at which the velocity is replaced; 0 is the paper.
    events, duration : exactly one of them.
    start : y, v, s, each (d,). None draws |y| and v from their stationary law, with s = +1.
    compiled : run the same source through numba.
    """
    particle = new_particle(
        M,
        r,
        augmentation,
        clock_state=clock_state,
        toll_state=toll_state,
        refreshment_rate=refreshment_rate,
        start=start,
    )
    return follow(advance_compiled if compiled else advance, particle, events, duration)


def follow(step: Callable[..., int], particle: Any, events: int | None, duration: float | None) -> Path:
    """Move a particle by `step`, an `advance` function, for a number of events or for a time.

    The particle is changed in place; its `now[T]` is the time.
    """
    if (events is None) == (duration is None):
        raise ValueError(f"got events={events} and duration={duration}; expected exactly one of the two")
    blocks = []
    full = True
    while full:
        size = _BLOCK if events is None else events
        block = np.empty(size, np.int8), np.empty(size), np.empty(size, np.int32)
        # Sums of 64-bit integers wrap around on purpose; NumPy warns of it in interpreted code.
        with np.errstate(over="ignore"):
            n = step(particle, inf if duration is None else duration, *block)
        blocks.append(tuple(column[:n] for column in block))
        full = events is None and n == size
    kind, time, site = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return Path(kind, time, site, particle.y, particle.v, particle.s, float(particle.now[T]))


def new_particle(
    M: ArrayLike | None,
    r: ArrayLike,
    augmentation: str,
    *,
    clock_state: NDArray[np.uint64],
    toll_state: NDArray[np.uint64] | None = None,
    refreshment_rate: float = 0.0,
    start: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> Particle:
    """Return a particle at time 0, ready for `advance`; the arguments are those of `literal_bps`."""
    M, r = read_model(M, r)
    d = r.size
    if not 0 <= refreshment_rate < inf:
        raise ValueError(f"refreshment_rate is {refreshment_rate}; expected a finite number >= 0")
    particle = Particle(
        M=M,
        r=r,
        y=np.empty(d),
        v=np.empty(d),
        s=np.ones(d, np.int8),
        now=np.zeros(4),
        rng=clock_state,
        toll_rng=clock_state if toll_state is None else toll_state,
        field=np.empty(d),
        refreshment_rate=float(refreshment_rate),
        gaussian=is_gaussian(augmentation),
        two_purses=toll_state is not None,
    )
    with np.errstate(over="ignore"):
        if start is None:
            draw_position(clock_state, particle.gaussian, particle.s, particle.y)
            _draw_velocity(particle)
        else:
            particle.y[:], particle.v[:], particle.s[:] = start
        _begin(particle)
    return particle


def read_model(M: ArrayLike | None, r: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return copies of M and r, with M of shape (0, 0) where there are no couplings."""
    r = np.array(r, np.float64)
    d = r.size
    M = np.zeros((0, 0)) if M is None else np.array(M, np.float64)
    if r.shape != (d,) or d == 0 or M.shape not in ((d, d), (0, 0)):
        raise ValueError(f"M has shape {M.shape} and r {r.shape}; expected (d, d) and (d,) with d >= 1")
    return M, r


def is_gaussian(augmentation: str) -> bool:
    """Say whether an augmentation is the Gaussian one."""
    if augmentation not in AUGMENTATIONS:
        raise ValueError(f"got augmentation {augmentation!r}; expected one of {AUGMENTATIONS}")
    return augmentation == "gaussian"


def _begin(particle: Particle) -> None:
    """Schedule the first refreshment and fill the purses."""
    now = particle.now
    _schedule_refreshment(particle)
    now[BUDGET] = exponential(particle.rng)
    if particle.two_purses:
        now[WALL_BUDGET] = exponential(particle.toll_rng)


def advance(particle, t_stop, kinds, times, sites):
    """Move the particle in place until t_stop or until the buffers are full, and return the number of events in them.

    Interpreted, wrap the call in `np.errstate(over="ignore")`: sums of 64-bit integers wrap around on purpose.
    """
    now = particle.now
    n = 0
    while n < times.size:
        wall, until_wall = next_wall(particle.y, particle.v, particle.s)
        slope = slope_of_potential(particle)
        until_bounce = time_to_spend(now[BUDGET], slope, particle.gaussian)
        until_refreshment = now[T_REFRESH] - now[T]
        until_stop = t_stop - now[T]
        dt = min(until_wall, until_bounce, until_refreshment, until_stop)
        move(particle, dt, slope)
        if dt == until_stop:
            now[T] = t_stop
            return n
        sites[n] = -1
        if dt == until_wall:
            kinds[n] = _meet_wall(particle, wall)
            sites[n] = wall
        elif dt == until_bounce:
            bounce(particle)
            kinds[n] = BOUNCED
        else:
            kinds[n] = _refresh(particle)
        times[n] = now[T]
        n += 1
    return n


@helper
def _meet_wall(particle, i):
    """Cross the wall of site i if the purse covers its height, else invert v_i."""
    s, v = particle.s, particle.v
    particle.y[i] = 0.0
    before = log_likelihood(particle.M, particle.r, s, particle.field)
    s[i] = -s[i]
    height = before - log_likelihood(particle.M, particle.r, s, particle.field)
    if pay(particle, height):
        return CROSSED
    s[i] = -s[i]
    v[i] = -v[i]
    return REFUSED


@helper
def pay(particle, height):
    """Pay for a wall and return True, or draw a new budget and return False if the purse does not cover it."""
    now = particle.now
    purse = WALL_BUDGET if particle.two_purses else BUDGET
    if height < now[purse]:
        now[purse] -= max(height, 0.0)
        return True
    now[purse] = exponential(particle.toll_rng)
    return False


@helper
def log_likelihood(M, r, s, field):
    """Return log p(s) = -s.r - s'Ms/2, computed in full; `field` is scratch of shape (d,)."""
    for j in range(s.size):
        field[j] = 0.0
    for i in range(M.shape[0]):
        row, spin = M[i], float(s[i])
        for j in range(s.size):
            field[j] += spin * row[j]
    total = 0.0
    for i in range(s.size):
        total -= s[i] * (r[i] + 0.5 * field[i])
    return total


@helper
def _refresh(particle):
    """Replace the velocity, schedule the next refreshment and draw a new budget."""
    now = particle.now
    now[T] = now[T_REFRESH]
    _draw_velocity(particle)
    _schedule_refreshment(particle)
    now[BUDGET] = exponential(particle.rng)
    return REFRESHED


@helper
def _draw_velocity(particle):
    """Draw v uniformly on the sphere, as speed away from the walls: v = s w is uniform for any s."""
    fill_sphere(particle.rng, particle.v)
    for i in range(particle.v.size):
        particle.v[i] *= particle.s[i]


@helper
def _schedule_refreshment(particle):
    now, rate = particle.now, particle.refreshment_rate
    now[T_REFRESH] = now[T] + exponential(particle.rng) / rate if rate > 0.0 else inf


advance_compiled = kernel(advance)
