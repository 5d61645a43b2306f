"""Exact binary HMC word for word as in Pakman & Paninski (2013, arXiv 1311.2166): the oracle of the fast sampler.

The particle y moves in the potential U(y) - log p(sign y), with U = |y|^2 / 2 (Gaussian augmentation, harmonic motion)
or U = sum |y_i| (exponential, parabolas) and log p(s) = -s.r - s'Ms/2. At the wall y_i = 0 the potential jumps by the
cost c of flipping s_i. A site whose kinetic energy v_i^2 / 2 exceeds c crosses and pays, v_i^2 -> v_i^2 - 2c, and gains
speed where c < 0. Any other is reflected, v_i -> -v_i. After each trajectory of length `travel_time` the velocity is
drawn anew from N(0, I); y stays.

Every event moves all sites and searches all of them for the next wall, and every wall costs one row of M: O(d). One
source serves twice: `advance` runs interpreted, `advance_compiled` is the same function through numba.

The order of the random numbers is that of the fast sampler: |y|, then the speeds away from the walls at the start of
every trajectory. Nothing else is random.
"""

from __future__ import annotations

from math import atan2, cos, inf, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper, kernel
from bouncy._random import fill_normal
from bouncy.testing.literal import (
    CROSSED,
    REFRESHED,
    REFUSED,
    T_REFRESH,
    Path,
    T,
    draw_position,
    flip_cost,
    follow,
    is_gaussian,
    read_model,
)


class Particle(NamedTuple):
    """A particle on its way."""

    M: NDArray[np.float64]  # (d, d), or (0, 0) where there are no couplings
    r: NDArray[np.float64]  # (d,)
    y: NDArray[np.float64]  # (d,)
    v: NDArray[np.float64]  # (d,)
    s: NDArray[np.int8]  # (d,) the side of each wall on which y is, also where y is on the wall
    now: NDArray[np.float64]  # (2,) time, and end of the trajectory
    rng: NDArray[np.uint64]  # (4,)
    travel_time: float
    gaussian: bool


def literal_hmc(
    M: ArrayLike | None,
    r: ArrayLike,
    augmentation: str,
    *,
    travel_time: float,
    state: NDArray[np.uint64],
    events: int | None = None,
    duration: float | None = None,
    start: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    compiled: bool = False,
) -> Path:
    """Run exact binary HMC for a number of events or for a time and return what happened.

    An event is a wall that is crossed or refused, or the end of a trajectory (`REFRESHED`). A run that stops at the end
    of a trajectory stops before the new velocity is drawn.

    Parameters
    ----------
    M : (d, d), symmetric with zero diagonal, or None where there are no couplings.
    r : (d,)
    augmentation : "gaussian" or "exponential".
    travel_time : length of a trajectory; inf for one without end.
    state : (4,) generator state, changed in place.
    events, duration : exactly one of them.
    start : y, v, s, each (d,), the beginning of the first trajectory. None draws |y| and v, with s = +1.
    compiled : run the same source through numba.

    Examples
    --------
    >>> from bouncy._random import new_state
    >>> state = new_state(np.random.SeedSequence(0))
    >>> path = literal_hmc(None, [0.5], "gaussian", travel_time=np.inf, state=state, events=3)
    >>> np.diff(path.time).round(12) == np.round(np.pi, 12)
    array([ True,  True])
    """
    particle = new_particle(M, r, augmentation, travel_time=travel_time, state=state, start=start)
    return follow(advance_compiled if compiled else advance, particle, events, duration)


def new_particle(
    M: ArrayLike | None,
    r: ArrayLike,
    augmentation: str,
    *,
    travel_time: float,
    state: NDArray[np.uint64],
    start: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> Particle:
    """Return a particle at the start of its first trajectory; the arguments are those of `literal_hmc`."""
    M, r = read_model(M, r)
    d = r.size
    if not travel_time > 0:
        raise ValueError(f"travel_time is {travel_time}; expected a number > 0, such as 1.5 * pi")
    particle = Particle(
        M=M,
        r=r,
        y=np.empty(d),
        v=np.empty(d),
        s=np.ones(d, np.int8),
        now=np.array([0.0, travel_time]),
        rng=state,
        travel_time=float(travel_time),
        gaussian=is_gaussian(augmentation),
    )
    with np.errstate(over="ignore"):
        if start is None:
            draw_position(state, particle.gaussian, particle.s, particle.y)
            draw_velocity(particle)
        else:
            particle.y[:], particle.v[:], particle.s[:] = start
    return particle


def energy(M: ArrayLike | None, r: ArrayLike, augmentation: str, y: ArrayLike, v: ArrayLike, s: ArrayLike) -> float:
    """Return U(y) - log p(s) + |v|^2 / 2, which is constant along a trajectory."""
    M, r = read_model(M, r)
    y, v, s = (np.asarray(x, np.float64) for x in (y, v, s))
    couplings = 0.5 * s @ M @ s if M.size else 0.0
    potential = 0.5 * y @ y if is_gaussian(augmentation) else np.abs(y).sum()
    return float(potential + s @ r + couplings + 0.5 * v @ v)


def advance(particle, t_stop, kinds, times, sites):
    """Move the particle in place until t_stop or until the buffers are full, and return the number of events in them.

    Interpreted, wrap the call in `np.errstate(over="ignore")`: sums of 64-bit integers are meant to wrap around.
    """
    now = particle.now
    n = 0
    while n < times.size:
        wall, until_wall = _next_wall(particle)
        until_refreshment = now[T_REFRESH] - now[T]
        until_stop = t_stop - now[T]
        dt = min(until_wall, until_refreshment, until_stop)
        _move(particle, dt)
        if dt == until_stop:
            now[T] = t_stop
            return n
        if dt == until_wall:
            kinds[n] = _meet_wall(particle, wall)
            sites[n] = wall
        else:
            kinds[n] = _refresh(particle)
            sites[n] = -1
        times[n] = now[T]
        n += 1
    return n


@helper
def _next_wall(particle):
    """Return the wall that is met first and the time until then."""
    y, v, s = particle.y, particle.v, particle.s
    wall, first = -1, inf
    for i in range(y.size):
        t = until_wall(s[i] * y[i], s[i] * v[i], particle.gaussian)
        if t < first:
            wall, first = i, t
    return wall, first


@helper
def until_wall(z, w, gaussian):
    """Return the time after which a site at distance z from its wall, with speed w away from it, is back at the wall.

    Gaussian: z cos t + w sin t = 0, at pi - atan2(z, w). Exponential: z + w t - t^2 / 2 = 0, by the root without
    cancellation. From the wall itself, z = 0 and w > 0, this is exactly pi and 2w: a wall is not met twice at once.
    """
    if not z > 0.0:
        # Rounding may have put the site behind its wall by the last bit; no negative zero may reach atan2.
        z = 0.0
    if gaussian:
        return pi - atan2(z, w)
    root = sqrt(w * w + 2.0 * z)
    return w + root if w >= 0.0 else 2.0 * z / (root - w)


@helper
def _move(particle, dt):
    """Move all sites for a time dt in which none meets its wall: y'' = -y or y'' = -sign(y)."""
    y, v, s = particle.y, particle.v, particle.s
    if particle.gaussian:
        c, n = cos(dt), sin(dt)
        for i in range(y.size):
            y[i], v[i] = c * y[i] + n * v[i], c * v[i] - n * y[i]
    else:
        for i in range(y.size):
            y[i] += dt * (v[i] - 0.5 * s[i] * dt)
            v[i] -= s[i] * dt
    particle.now[T] += dt


@helper
def _meet_wall(particle, i):
    """Let site i cross its wall if it is fast enough, else reflect it; then it moves away from the wall."""
    y, v, s = particle.y, particle.v, particle.s
    crosses, speed = pay(abs(v[i]), flip_cost(particle.M, particle.r, s, i))
    if crosses:
        s[i] = -s[i]
    y[i] = 0.0
    v[i] = s[i] * speed
    return CROSSED if crosses else REFUSED


@helper
def pay(speed, cost):
    """Return whether a site that reaches its wall at this speed crosses it, and the speed at which it leaves."""
    if cost < 0.5 * speed * speed:
        return True, sqrt(speed * speed - 2.0 * cost)
    return False, speed


@helper
def _refresh(particle):
    """End the trajectory and begin another one from where the particle is."""
    now = particle.now
    now[T] = now[T_REFRESH]
    now[T_REFRESH] = now[T] + particle.travel_time
    draw_velocity(particle)
    return REFRESHED


@helper
def draw_velocity(particle):
    """Draw v from N(0, I), as speed away from the walls: v = s w is normal whatever s is."""
    fill_normal(particle.rng, particle.v)
    for i in range(particle.v.size):
        particle.v[i] *= particle.s[i]


advance_compiled = kernel(advance)
