"""Exact Hamiltonian Monte Carlo for Gaussians cut to a box (Pakman & Paninski 2014)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil, cos, inf, pi, sin, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import fill_normal, new_state
from bouncy._samplable import Samplable
from bouncy._validation import check_nonnegative
from bouncy.piecewise.box import Box, multiply_root, place_inside
from bouncy.piecewise.contract import PathTarget
from bouncy.piecewise.coupling import multiply
from bouncy.piecewise.expectations import record_laws
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.products import products_point
from bouncy.piecewise.recorder import draw_is_due, end_sweep, record_state
from bouncy.piecewise.targets._normal import Normal
from bouncy.recorders.contract import HITS, REFRESHMENTS
from bouncy.samplers.contract import Named, NotErgodicWarning, PathSampler

Array = NDArray[np.float64]

DEFAULT_TRAVEL_TIME = 0.5 * pi
_SHORTEST, _LONGEST = 1e-2, 1e5
# Longest time that is followed in one piece: cot(t / 2) of it loses no digits.
_QUARTER = 0.5 * pi
# Nearer than this to a multiple of pi, a trajectory on a Gaussian ends where it began, or at the mirror image of that.
_NEAR = 1e-3
# Walls hit by one variable in one trajectory, beyond which a run would not come to an end.
_MOST_HITS = 1e6


@dataclass(frozen=True)
class HMC(PathSampler):
    """Exact Hamiltonian Monte Carlo for `Gaussian` and `TruncatedGaussian` targets.

    A trajectory begins with a velocity from N(0, covariance), follows Hamilton's equations, whose solutions are sines
    and cosines, and reflects off the walls of the box. There is no step size, and nothing is rejected. A draw is the
    state at the end of a trajectory. Means, variances and covariances are averages over such ends, of expectations of
    each variable given all others.

    Parameters
    ----------
    travel_time : float
        Length of a trajectory. After pi/2 a Gaussian that no wall has touched is drawn anew, independently. A multiple
        of pi is not ergodic on a Gaussian, because all periods are 2 pi, and a `NotErgodicWarning` is given.

    Notes
    -----
    A reflection costs O(d), with the dense covariance at hand, and a trajectory has about as many as there are walls
    near the bulk of the density; far from the mean, or in a narrow box, there are many more.

    References
    ----------
    Pakman & Paninski, "Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians", Journal of Computational
    and Graphical Statistics 23 (2014), arXiv:1208.4118.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.piecewise.HMC(travel_time=1.0).name
    'hmc'
    """

    travel_time: float = DEFAULT_TRAVEL_TIME

    def __post_init__(self) -> None:
        object.__setattr__(self, "travel_time", check_nonnegative("travel_time", self.travel_time))
        if not _SHORTEST <= self.travel_time <= _LONGEST:
            raise ValueError(
                f"travel_time is {self.travel_time:g}; expected a number from {_SHORTEST:g} to {_LONGEST:g}: shorter "
                "trajectories get nowhere, longer ones have no end (the default is pi/2)"
            )
        turns = self.travel_time / pi
        if round(turns) > 0 and abs(turns - round(turns)) * pi < _NEAR:
            warnings.warn(
                f"in a travel time of {round(turns)} pi a Gaussian comes back to where it was, or to the mirror image "
                f"of that, and few states are reached. Use travel_time={round(turns) - 0.5} * math.pi",
                NotErgodicWarning,
                stacklevel=3,
            )

    @property
    def name(self) -> str:
        return "hmc"

    @property
    def unit(self) -> str:
        return "trajectories"

    def records_expectations(self, target: Samplable[Any]) -> bool:
        return True

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, Normal)

    def rates(self, target: PathTarget) -> tuple[float | None, float | None]:
        """Return the wall hits per unit time of independent variables: E|v_i| / 2 times densities at walls."""
        if not isinstance(target, Normal) or target.wall_densities is None:
            return None, None
        mean_speeds = np.sqrt(np.diagonal(target.covariance) * (2.0 / pi))
        return 0.5 * float(target.wall_densities @ mean_speeds), None

    def sweep_time(self, d: int) -> float:
        """Return the length of a trajectory."""
        return self.travel_time

    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Trajectory:
        """Return a particle at y; the covariance is computed once per target and shared."""
        assert isinstance(target, Normal)
        self._check_hits(target)
        return new_trajectory(target, y, row, new_state(seed))

    def retarget(self, motion: Trajectory, target: PathTarget) -> Trajectory:
        """Return the particle at the same place, with what it needs to know of the changed target."""
        changed = self.start(target, motion.y * target.scale, motion.row, np.random.SeedSequence(0))
        return changed._replace(
            y=motion.y, x=motion.x, rng=motion.rng, box=changed.box._replace(scale=motion.box.scale)
        )

    def _check_hits(self, target: Normal) -> None:
        """Raise if a variable meets its walls so often that a trajectory would take minutes."""
        hits = self.travel_time * target.wall_hits
        worst = int(np.argmax(hits))
        if hits[worst] > _MOST_HITS:
            raise ValueError(
                f"variable {worst} would meet its walls about {hits[worst]:.1g} times in each trajectory, as its box "
                'is far from its mean or narrow beside its standard deviation; use the sampler "gibbs"'
            )


NAMED = (
    Named(
        HMC(),
        "exact Hamiltonian Monte Carlo for `Gaussian` and `TruncatedGaussian`; follows correlations by itself",
        "#009e73",
    ),
)


@part("y", "row", "x", "v", "rng")
class Trajectory(NamedTuple):
    """State of the particle. Between walls x cos t + v sin t is its deviation from the mean, after a time t."""

    y: Array  # (d,) where the last trajectory ended, in scaled coordinates
    row: NDArray[np.int64]  # (d,) cells, of which each coordinate has one
    x: Array  # (d,) deviation from the mean
    v: Array  # (d,) NaN before the first one is drawn
    rng: NDArray[np.uint64]  # (4,)
    box: Box
    soonness: Array  # (d,) scratch
    scratch: Array  # (d,)


def new_trajectory(target: Normal, y: Array, row: NDArray[np.int64], rng: NDArray[np.uint64]) -> Trajectory:
    """Return a particle at y, in scaled coordinates; `settle` has to be called before it moves."""
    return Trajectory(
        y=y / target.scale,
        row=row.astype(np.int64),
        x=np.zeros(target.d),
        v=np.full(target.d, np.nan),
        rng=rng,
        box=target.box(),
        soonness=np.zeros(target.d),
        scratch=np.zeros(target.d),
    )


@implements(settle, Trajectory)
def _settle(motion, view, evaluations):
    place_inside(motion.box, motion.y, motion.x)
    if np.isnan(motion.v[0]):
        draw_velocity(motion)


@implements(sweep, Trajectory)
def _sweep(motion, view, recorder, sweep_time):
    x, values, f = motion.x, motion.scratch, motion.soonness
    recorder.open_events[HITS] += travel(motion, sweep_time)
    draw_velocity(motion)
    recorder.open_events[REFRESHMENTS] += 1.0
    for i in range(x.size):
        values[i] = motion.box.mean[i] + x[i]
        motion.y[i] = values[i] / motion.box.scale[i]
    record_state(recorder, view, motion.row, values, sweep_time)
    products_point(recorder.products, values, sweep_time)
    multiply(view.coupling, x, f)
    record_laws(recorder.expectations, recorder, view, values, f, sweep_time)
    energy = 0.0
    if draw_is_due(recorder):
        for i in range(x.size):
            energy += 0.5 * x[i] * f[i]
    end_sweep(recorder, values, -energy)
    return True


@helper
def draw_velocity(motion):
    """Draw a velocity from N(0, covariance). Changes v, the generator and scratch."""
    fill_normal(motion.rng, motion.soonness)
    multiply_root(motion.box, motion.soonness, motion.v)


@helper
def travel(motion, time):
    """Follow the particle for a time, and return how many walls it has met. Changes x, v and scratch.

    Instead of the time t to its next wall, each coordinate says cot(t / 2), which falls from inf to -inf in a period
    and is a root of a quadratic equation; and sin t and cos t are rational functions of it. Of the time that is left,
    cut into pieces of a quarter of a period at most, there are sine and cosine too. So there is no trigonometry between
    walls: one pass over the coordinates turns them all by t, reflects them and asks when each will meet its next wall.
    """
    x, v, lower, upper = motion.x, motion.v, motion.box.lower, motion.box.upper
    pieces = max(ceil(time / _QUARTER), 1)
    C, S = cos(time / pieces), sin(time / pieces)
    C_left, S_left = C, S
    hits, i, place, away = 0.0, 0, x[0], v[0]
    c, s, kick = 1.0, 0.0, 0.0
    while True:
        _turn(motion, c, s, kick, i)
        # Where a coordinate at a wall is, and where it goes, follows from which wall that is: not from rounded numbers
        # that should be zero.
        x[i], v[i] = place, away
        motion.soonness[i] = _soonness(place, away, lower[i], upper[i])
        i, soonest = _first(motion.soonness)
        if soonest * S_left > 1.0 + C_left:  # cot(t / 2) > cot(time left / 2)
            hits += 1.0
            c, s = _cosine_and_sine(soonest)
            C_left, S_left = C_left * c + S_left * s, max(S_left * c - C_left * s, 0.0)
            speed = abs(v[i] * c - x[i] * s)
            if _meets_upper(x[i], v[i], lower[i], upper[i]):
                place, away = upper[i], -speed
            else:
                place, away = lower[i], speed
            kick = 2.0 * away / motion.box.covariance[i, i]
        elif pieces > 1:
            pieces -= 1
            c, s, kick = C_left, S_left, 0.0
            place, away = x[i] * c + v[i] * s, v[i] * c - x[i] * s
            C_left, S_left = C, S
        else:
            break
    for j in range(x.size):
        place, speed = x[j] * C_left + v[j] * S_left, v[j] * C_left - x[j] * S_left
        x[j] = min(max(place, lower[j]), upper[j])
        v[j] = speed
    return hits


@helper
def _turn(motion, c, s, kick, i):
    """Move on by the time whose cosine and sine are c and s, reflect off a wall of coordinate i, and look ahead.

    The reflection adds kick covariance[:, i] to v, with kick = -2 v_i / covariance[i, i]: it inverts v_i and keeps
    v'Pv, and it is the only one to do so along the gradient of the wall in the metric of the kinetic energy.
    """
    x, v, row = motion.x, motion.v, motion.box.covariance[i]
    lower, upper, soonness = motion.box.lower, motion.box.upper, motion.soonness
    for j in range(x.size):
        place = x[j] * c + v[j] * s
        speed = v[j] * c - x[j] * s + kick * row[j]
        x[j] = place
        v[j] = speed
        soonness[j] = _soonness(place, speed, lower[j], upper[j])


@helper
def _soonness(x, v, lower, upper):
    """Return cot(t / 2) for the time t at which x cos t + v sin t first leaves the interval; -inf where it never does.

    With w = cot(t / 2) and D = v^2 + x^2 - c^2, x cos t + v sin t = c is (x - c) w^2 + 2 v w - (x + c) = 0. If the wall
    ahead is within reach, w = (|v| + sqrt(D)) / |x - c|; else w = +-(x + c) / (|v| + sqrt(D)) for the one behind, which
    holds as well at that wall itself. In neither does anything cancel.
    """
    ahead = upper if v > 0.0 else lower
    behind = lower if v > 0.0 else upper
    reached = v * v + (x - ahead) * (x + ahead) >= 0.0
    wall = ahead if reached else behind
    D = v * v + (x - wall) * (x + wall)
    push = abs(v) + sqrt(max(D, 0.0))
    back = x + wall if v > 0.0 else -(x + wall)
    top = push if reached else back
    bottom = abs(x - wall) if reached else push
    return top / bottom if D >= 0.0 else -inf


@helper
def _meets_upper(x, v, lower, upper):
    """Say whether it is the upper end of the interval that is met first, given that one of them is."""
    if v > 0.0:
        return v * v + (x - upper) * (x + upper) >= 0.0
    return v * v + (x - lower) * (x + lower) < 0.0


@helper
def _first(soonness):
    """Return which coordinate meets a wall first, and its soonness; 0 and -inf where none does."""
    first, soonest = 0, -inf
    for i in range(soonness.size):
        if soonness[i] > soonest:
            first, soonest = i, soonness[i]
    return first, soonest


@helper
def _cosine_and_sine(w):
    """Return cos t and sin t for w = cot(t / 2), which may be infinite."""
    if abs(w) > 1.0:
        u = 1.0 / w
        return (1.0 - u * u) / (1.0 + u * u), 2.0 * u / (1.0 + u * u)
    return (w * w - 1.0) / (w * w + 1.0), 2.0 * w / (w * w + 1.0)
