"""The toll of HMC: each site pays with its own kinetic energy.

A flip of cost c passes if c is below v_i^2/2, the kinetic energy of the site at its wall, and takes c from it; a flip
that goes downhill, c < 0, makes the site faster. Nothing is random and nothing is spent by a refusal, so the sum of
all kinetic energies at the walls and of -log p(s) stays the same until velocities are drawn anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy.tolls.contract import pay, renew

_LARGEST = 1e300


@part()
class Kinetic(NamedTuple):
    """The kinetic energies, which the clock owns: it draws them anew with the velocities."""

    energy: NDArray[np.float64]  # (d,) v_i^2 / 2 of each site when it is at its wall
    purse: NDArray[np.float64]  # (1,) not used


def new_kinetic(energy: NDArray[np.float64]) -> Kinetic:
    """Return a toll that pays from, and changes, the energies of a clock, shape (d,)."""
    return Kinetic(energy, np.zeros(1))


@implements(pay, Kinetic)
def _pay(toll, purse, cost, i):
    energy = toll.energy[i]
    passed = cost < energy
    if passed:
        # Bounded, so that twice the energy does not overflow.
        toll.energy[i] = min(energy - cost, _LARGEST)
    return passed, purse


@implements(renew, Kinetic)
def _renew(toll):
    pass
