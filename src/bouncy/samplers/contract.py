"""What a sampler is: a named combination of a clock and a toll.

To add a sampler, add a file here with a class that has these members, and list the names a user may ask for in a
module-level `NAMED`, a dictionary of functions without arguments that build it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bouncy.clocks.contract import Clock


class Sampler(Protocol):
    """A combination of a clock and a toll."""

    @property
    def name(self) -> str:
        """Name in tables and plots."""

    @property
    def clock(self) -> Clock:
        """The clock that says when which site may flip."""

    @property
    def refreshment(self) -> float:
        """Expected refreshments per sweep."""

    def start(self, d: int, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        """Return the arrays of a clock and of a toll for one chain."""
