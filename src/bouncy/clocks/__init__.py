"""Clocks: billiards that say when which spin may flip."""

from __future__ import annotations

from bouncy._registry import modules
from bouncy.clocks.contract import Clock


def clocks() -> dict[str, Clock]:
    """Return all clocks by name."""
    found = (item for module in modules(__name__) for item in vars(module).values() if isinstance(item, Clock))
    return {clock.name: clock for clock in found}
