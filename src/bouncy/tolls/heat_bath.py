"""The toll of Gibbs sampling: a flip of cost c passes with probability 1 / (1 + e^c), whatever was paid before."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import implements, part
from bouncy._random import uniform
from bouncy.tolls.contract import pay, renew


@part("rng")
class HeatBath(NamedTuple):
    """The generator of the decisions."""

    rng: NDArray[np.uint64]  # (4,)
    purse: NDArray[np.float64]  # (1,) not used


def new_heat_bath(state: NDArray[np.uint64]) -> HeatBath:
    """Return a toll that draws from `state`."""
    return HeatBath(state, np.zeros(1))


# The probability at equally spaced costs. It is monotone, so that its values at the ends of a cell settle 99 in 100
# decisions without an exponential function.
_CELLS_PER_UNIT = 16.0
_LARGEST = 8.0
# Beyond this cost no flip passes.
_NEVER = 700.0
# One cell more, because the largest cost may be rounded up into it.
_PROBABILITY = 1.0 / (1.0 + np.exp(np.arange(-_LARGEST, _LARGEST + 1.5 / _CELLS_PER_UNIT, 1.0 / _CELLS_PER_UNIT)))


@implements(pay, HeatBath)
def _pay(toll, purse, cost, i):
    u = uniform(toll.rng)
    if -_LARGEST <= cost < _LARGEST:
        cell = np.uint64((cost + _LARGEST) * _CELLS_PER_UNIT)
        if u >= _PROBABILITY[cell]:
            return False, purse
        if u < _PROBABILITY[cell + np.uint64(1)]:
            return True, purse
    # Bounded, because `math.exp` raises OverflowError in interpreted code.
    return u * (1.0 + exp(min(cost, _NEVER))) < 1.0, purse


@implements(renew, HeatBath)
def _renew(toll):
    pass
