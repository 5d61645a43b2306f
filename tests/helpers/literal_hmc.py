"""Exact binary HMC exactly as in Pakman & Paninski (2013, arXiv 1311.2166): the reference for the fast sampler.

The particle y moves in the potential U(y) - log p(sign y), with U = |y|^2 / 2 (Gaussian augmentation, harmonic motion)
or U = sum |y_i| (exponential, parabolas) and log p(s) = -s.r - s'Ms/2. At the wall y_i = 0 the potential jumps by the
cost c of flipping s_i. A site with kinetic energy v_i^2 / 2 above c crosses, v_i^2 -> v_i^2 - 2c, and gains speed if
c < 0. Otherwise it is reflected, v_i -> -v_i. After each trajectory of length `travel_time` a new velocity is drawn
from N(0, I); y stays.

Every event moves all sites and searches all of them for the next wall, and every wall costs one row of M: O(d).
`advance` runs interpreted, `advance_compiled` is the same function through numba.

The order of the random numbers is that of the fast sampler: |y|, then the speeds away from the walls at the start of
every trajectory. Nothing else is random.
"""

from __future__ import annotations

from math import cos, inf, sin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper, kernel
from bouncy.experiments.particle import (
    T_REFRESH,
    Particle,
    T,
    draw_position,
    draw_velocity,
    flip_cost,
    pay_by_speed,
    until_wall,
)
from bouncy.piecewise.literal import CROSSED, REFRESHED, REFUSED
from helpers.literal import Path, follow, is_gaussian, read_model


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
    """Run exact binary HMC for a number of events or for a time and return its path.

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
        now=np.array([0.0, travel_time, 0.0]),
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

    Interpreted, wrap the call in `np.errstate(over="ignore")`: sums of 64-bit integers wrap around on purpose.
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
    crosses, speed = pay_by_speed(abs(v[i]), flip_cost(particle.M, particle.r, s, i))
    if crosses:
        s[i] = -s[i]
    y[i] = 0.0
    v[i] = s[i] * speed
    return CROSSED if crosses else REFUSED


@helper
def _refresh(particle):
    """End the trajectory and begin another one at the present position."""
    now = particle.now
    now[T] = now[T_REFRESH]
    now[T_REFRESH] = now[T] + particle.travel_time
    draw_velocity(particle)
    return REFRESHED


advance_compiled = kernel(advance)
