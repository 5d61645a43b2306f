"""Binary bouncy particle sampler (Pakman 2017): a billiard as clock, an exponential budget as toll."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from bouncy._validation import check_nonnegative
from bouncy.clocks import clock_named, clocks
from bouncy.clocks.contract import Clock
from bouncy.samplers.contract import Named, NotErgodicWarning, SpinSampler
from bouncy.tolls.contract import METROPOLIS

DEFAULT_REFRESHMENT = 0.1
# Each costs O(d): with more, a sweep would never end.
_MOST_REFRESHMENTS = 1000.0


@dataclass(frozen=True)
class BPS(SpinSampler):
    """Binary bouncy particle sampler.

    A particle moves on straight lines through the orthants that stand for the spin states, bounces off the potential
    of its augmentation, and attempts to flip spin i whenever it meets the wall y_i = 0.

    Parameters
    ----------
    augmentation : {"gaussian", "exponential"}
        Potential of the continuous variables: |y|^2 / 2 or sum |y_i|. Gaussian is the faster clock.
    refreshment : float
        Expected number of times per sweep (d expected wall hits) at which the velocity is drawn anew. Zero is the
        sampler of the paper; it is then not ergodic on every target, and a `NotErgodicWarning` is given.

    References
    ----------
    Pakman, "Binary Bouncy Particle Sampler", arXiv:1711.00922 (2017).

    Examples
    --------
    >>> import bouncy
    >>> bouncy.BPS("exponential", refreshment=0.2).name
    'bps-exponential'
    """

    augmentation: str = "gaussian"
    refreshment: float = DEFAULT_REFRESHMENT

    def __post_init__(self) -> None:
        clock_named("billiard", "augmentation", self.augmentation)
        object.__setattr__(self, "refreshment", check_nonnegative("refreshment", self.refreshment))
        if self.refreshment > _MOST_REFRESHMENTS:
            raise ValueError(
                f"refreshment is {self.refreshment:g} per sweep; expected at most {_MOST_REFRESHMENTS:g}: each "
                "costs O(d), and nothing would happen between them (the default is 0.1)"
            )
        if self.refreshment == 0.0:
            warnings.warn(
                "without refreshment the sampler is not ergodic on every target (on a flat one the Gaussian clock "
                "visits 2d of the 2^d states); use it to study the paper, not for results",
                NotErgodicWarning,
                stacklevel=3,
            )

    @property
    def name(self) -> str:
        return f"bps-{self.augmentation}"

    @property
    def clock(self) -> Clock:
        return clocks("billiard")[self.augmentation]

    @property
    def lane_toll(self) -> float:
        return METROPOLIS


NAMED = (
    Named(
        BPS("gaussian"),
        "the default: constant work per attempted flip, and an order of sites that is drawn anew, so that ties cannot "
        "trap it",
        "#0072b2",
    ),
    Named(
        BPS("exponential"),
        "the paper's other augmentation; its clock costs more per attempted flip, and reshuffles the order of sites at "
        "every bounce",
        "#d55e00",
    ),
)
