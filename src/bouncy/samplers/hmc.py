"""Exact binary Hamiltonian Monte Carlo (Pakman & Paninski 2013): trajectories as clock, kinetic energies as toll."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil, pi
from typing import Any

import numpy as np

from bouncy._random import new_state
from bouncy._validation import check_nonnegative
from bouncy.clocks import clock_named, clocks
from bouncy.clocks.contract import Clock
from bouncy.samplers.contract import Named, NotErgodicWarning, SpinSampler
from bouncy.targets.contract import Target
from bouncy.tolls.kinetic import new_kinetic

DEFAULT_TRAVEL_TIME = 6.5 * pi
_SHORTEST, _LONGEST = 1e-2, 1e5
# Between pi P - _NEAR and pi P + _NEAR nearly all sites have met their walls exactly P times.
_NEAR = 1e-3


@dataclass(frozen=True)
class HMC(SpinSampler):
    """Exact binary Hamiltonian Monte Carlo.

    A particle moves by Hamilton's equations for some time, attempts to flip spin i whenever it meets the wall y_i = 0,
    pays for a flip with the kinetic energy of that coordinate, and then draws a new velocity. There is no step size and
    nothing is discretised. A draw is the state at the end of a trajectory; means use the whole of it.

    Parameters
    ----------
    augmentation : {"gaussian", "exponential"}
        Potential of the continuous variables: |y|^2 / 2 or sum |y_i|. With the Gaussian one the order of the sites is
        fixed during a trajectory, which makes it the faster clock.
    travel_time : float
        Length of a trajectory; a coordinate meets its wall every pi (Gaussian) or sqrt(2 pi) on average (exponential).
        With the Gaussian augmentation a multiple of pi is not ergodic on every target, because every spin is tried the
        same number of times, and a `NotErgodicWarning` is given; (P + 1/2) pi is a good choice.

    Notes
    -----
    The flow preserves the law of the state at every moment, so that averages over whole trajectories are as right as
    those over their ends, and have smaller errors. A sweep, the time between two recordings of the conditional means,
    is a trajectory cut into equal parts of at most d expected attempts.

    References
    ----------
    Pakman & Paninski, "Auxiliary-variable exact Hamiltonian Monte Carlo samplers for binary distributions",
    arXiv:1311.2166 (2013).

    Examples
    --------
    >>> import math, bouncy
    >>> bouncy.HMC(travel_time=2.5 * math.pi).name
    'hmc'
    """

    augmentation: str = "gaussian"
    travel_time: float = DEFAULT_TRAVEL_TIME

    def __post_init__(self) -> None:
        clock_named("trajectory", "augmentation", self.augmentation)
        object.__setattr__(self, "travel_time", check_nonnegative("travel_time", self.travel_time))
        if not _SHORTEST <= self.travel_time <= _LONGEST:
            raise ValueError(
                f"travel_time is {self.travel_time:g}; expected a number from {_SHORTEST:g} to {_LONGEST:g}: shorter "
                "trajectories meet no wall, longer ones have no end (the default is 6.5 pi)"
            )
        turns = self.travel_time / pi
        if self.augmentation == "gaussian" and round(turns) > 0 and abs(turns - round(turns)) * pi < _NEAR:
            warnings.warn(
                f"in a travel time of {round(turns)} pi every spin is tried {round(turns)} times: on a flat target all "
                f"of them flip, and few states are reached. Add half a turn: travel_time={round(turns)}.5 * math.pi",
                NotErgodicWarning,
                stacklevel=3,
            )

    @property
    def name(self) -> str:
        return "hmc" if self.augmentation == "gaussian" else f"hmc-{self.augmentation}"

    @property
    def clock(self) -> Clock:
        return clocks("trajectory")[self.augmentation]

    @property
    def stride(self) -> int:
        """Sweeps of a trajectory."""
        # Rounding must not add a sweep to a travel time that is a whole number of them.
        return max(1, ceil(self.travel_time / self.clock.sweep_time(1) - 1e-9))

    @property
    def unit(self) -> str:
        return "trajectories"

    @property
    def refreshment(self) -> float:
        """Refreshments per sweep."""
        return 1.0 / self.stride

    def sweep_time(self, d: int) -> float:
        """Return the time of a sweep, of which a trajectory has a whole number."""
        return self.travel_time / self.stride

    def start(self, target: Target, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        """Return a clock and a toll for one chain, which share the kinetic energies."""
        clock = self.clock.start(target.d, 1.0 / self.travel_time, new_state(seed))
        return clock, new_kinetic(clock.energy)


NAMED = (
    Named(
        HMC("gaussian"),
        "exact binary HMC. A draw is the end of a trajectory, 6.5 turns long unless you say otherwise: "
        "`bouncy.HMC(travel_time=2.5 * math.pi)`. Means use the whole trajectory",
        "#009e73",
    ),
    Named(
        HMC("exponential"),
        "the same with a constant force; sites wait in a queue, O(log d) per attempted flip",
        "#f0e442",
    ),
)
