"""Base class of Gibbs and Metropolis: a scan as clock."""

from __future__ import annotations

from dataclasses import dataclass

from bouncy.clocks import clock_named, clocks
from bouncy.clocks.contract import Clock
from bouncy.samplers.contract import SpinSampler

# Row of the random scans in the table of samplers.
RANDOM_SUMMARY = "each site at random times; for comparison, and where sites in turn get stuck"


@dataclass(frozen=True)
class ScanSampler(SpinSampler):
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
