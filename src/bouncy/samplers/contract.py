"""What a sampler is: a named combination of a clock and a toll.

To add a sampler, add a file here with a subclass of `Sampler`, and list the names a user may ask for in a module-level
`NAMED`, a dictionary of functions without arguments that build it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from bouncy.clocks.contract import Clock


class NotErgodicWarning(UserWarning):
    """The sampler as configured, or on this target, cannot reach every state."""


class Sampler(ABC):
    """A combination of a clock and a toll."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables and plots."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock that says when which site may flip."""

    @property
    def refreshment(self) -> float:
        """Expected refreshments per sweep."""
        return 0.0

    @property
    def stride(self) -> int:
        """Sweeps from one draw to the next, unless a run is thinned further."""
        return 1

    def sweep_time(self, d: int) -> float:
        """Return the length of a sweep: the time between two recordings of the conditional means, about d hits."""
        return self.clock.sweep_time(d)

    @abstractmethod
    def start(self, d: int, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        """Return the arrays of a clock and of a toll for one chain."""

    def remarks(self, hits: int, flips: int) -> list[str]:
        """Return what a user should know about this sampler after so many attempted and accepted flips."""
        return []
