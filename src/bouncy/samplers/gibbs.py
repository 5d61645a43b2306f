"""Gibbs sampling: a scan as clock, the heat bath as toll."""

from __future__ import annotations

from dataclasses import dataclass

from bouncy.samplers._scan import RANDOM_SUMMARY, ScanSampler
from bouncy.samplers.contract import Named
from bouncy.tolls.contract import HEAT_BATH


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

    @property
    def lane_toll(self) -> float:
        return HEAT_BATH


NAMED = (
    Named(Gibbs(), "sites in turn; ergodic on every target with finite costs", "#e69f00"),
    Named(Gibbs("random"), RANDOM_SUMMARY, "#f5c872"),
)
