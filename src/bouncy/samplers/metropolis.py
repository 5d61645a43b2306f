"""Single-flip Metropolis sampling: a scan as clock, an exponential budget as toll."""

from __future__ import annotations

from dataclasses import dataclass

from bouncy.samplers._scan import RANDOM_SUMMARY, ScanSampler
from bouncy.samplers.contract import Named
from bouncy.tolls.contract import METROPOLIS


@dataclass(frozen=True)
class Metropolis(ScanSampler):
    """Metropolis sampler: attempts to flip one spin after the other, with probability min(1, e^-cost).

    Parameters
    ----------
    scan : {"systematic", "random"}
        Whether sites come in turn, or each at the times of its own Poisson process, on average d of them per sweep.

    Notes
    -----
    With sites in turn the sampler is not ergodic on every target, because a flip that costs nothing is always
    accepted. On a flat target it is periodic: every sweep turns all spins over, and only two states are seen at the
    ends of sweeps. Targets with many ties, such as a lattice without field, can keep it in a part of the states. A run
    in which every attempted flip was accepted gives a `NotErgodicWarning`; `scan="random"`, "gibbs" and BPS have no
    such weakness.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.Metropolis().name
    'metropolis'
    """

    @property
    def lane_toll(self) -> float:
        return METROPOLIS

    def remarks(self, hits: int, flips: int) -> list[str]:
        """Warn of a target on which sites in turn are periodic."""
        if self.scan != "systematic" or flips < hits or hits == 0:
            return []
        return [
            "every attempted flip was accepted: on a flat target a systematic Metropolis scan is periodic and visits "
            "few states; use Metropolis(scan='random'), 'gibbs' or 'bps-gaussian'"
        ]


NAMED = (
    Named(
        Metropolis(),
        "sites in turn; the least work per flip, and on random couplings mostly the smallest error per second of all "
        "samplers here. Not for targets with ties: on a flat one it visits two states, and warns",
        "#cc79a7",
    ),
    Named(Metropolis("random"), RANDOM_SUMMARY, "#e8c2d6"),
)
