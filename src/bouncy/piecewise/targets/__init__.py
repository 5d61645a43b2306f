"""Continuous targets."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.piecewise.contract import PiecewiseTarget


def examples() -> dict[str, Callable[[], PiecewiseTarget]]:
    """Return functions that build small targets, from the `EXAMPLES` of the modules of this folder."""
    return {name: build for module in modules(__name__) for name, build in getattr(module, "EXAMPLES", {}).items()}
