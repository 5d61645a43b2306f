"""Gibbs sampling: a scan as clock, the heat bath as toll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bouncy._random import new_state
from bouncy.samplers._scan import RANDOM_SUMMARY, ScanSampler
from bouncy.samplers.contract import Named
from bouncy.tolls.heat_bath import new_heat_bath


@dataclass(frozen=True)
class Gibbs(ScanSampler):
    """Gibbs sampler: draws one spin after the other given all others.

    Parameters
    ----------
    scan : {"systematic", "random"}
        Whether sites come in turn, or each at the times of its own Poisson process, on average d of them per sweep. In
        turn is usually better.

    Notes
    -----
    A flip of cost c is accepted with probability 1 / (1 + e^c), which is the same as drawing s_i from its conditional
    law. Ergodic on every target with finite costs.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.Gibbs(scan="random")
    Gibbs(scan='random')
    """

    def start(self, d: int, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        """Return a clock and a toll for one chain, each with its own stream of random numbers."""
        clock_seed, toll_seed = seed.spawn(2)
        return self.clock.start(d, 0.0, new_state(clock_seed)), new_heat_bath(new_state(toll_seed))


NAMED = (
    Named(Gibbs(), "sites in turn; ergodic on every target with finite costs", "#e69f00"),
    Named(Gibbs("random"), RANDOM_SUMMARY, "#f5c872"),
)
