"""What Gibbs and Metropolis have in common: a scan as clock."""

from __future__ import annotations

from dataclasses import dataclass

from bouncy.clocks import clock_named, clocks
from bouncy.clocks.contract import Clock
from bouncy.samplers.contract import Sampler


@dataclass(frozen=True)
class ScanSampler(Sampler):
    """A sampler that attempts to flip sites in turn, or each at the times of its own Poisson process."""

    scan: str = "systematic"

    def __post_init__(self) -> None:
        clock_named("scan", "scan", self.scan)

    @property
    def name(self) -> str:
        """Name of the class, and of the scan unless sites come in turn."""
        title = type(self).__name__.lower()
        return title if self.scan == "systematic" else f"{title}-{self.scan}"

    @property
    def clock(self) -> Clock:
        return clocks("scan")[self.scan]
