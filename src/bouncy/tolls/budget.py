"""The toll of BPS and Metropolis: one Exp(1) budget pays for uphill flips until a flip exceeds it.

A flip of cost c passes with probability min(1, e^-c), because what is left of an exponential budget after a payment
is again Exp(1). One logarithm per refusal and no exponential function at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._dispatch import implements, part
from bouncy._random import exponential
from bouncy.tolls.contract import pay, renew


@part("purse", "rng")
class Budget(NamedTuple):
    """The budget left, and the generator that draws the next one."""

    purse: NDArray[np.float64]  # (1,)
    rng: NDArray[np.uint64]  # (4,)


def new_budget(state: NDArray[np.uint64]) -> Budget:
    """Return a full budget that draws from `state`."""
    toll = Budget(np.zeros(1), state)
    _renew_budget(toll)
    return toll


@implements(pay, Budget)
def _pay(toll, purse, cost, i):
    if cost < purse:
        return True, purse - max(cost, 0.0)
    return False, exponential(toll.rng)


@implements(renew, Budget)
def _renew(toll):
    toll.purse[0] = exponential(toll.rng)


@kernel
def _renew_budget(toll):
    renew(toll)
