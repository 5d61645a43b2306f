"""Continuous targets."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.piecewise.contract import PathTarget


def examples() -> dict[str, Callable[[], PathTarget]]:
    """Return functions that build small targets, from the `EXAMPLES` of the modules of this folder."""
    return _listed("EXAMPLES")


def specialised() -> dict[str, Callable[[], PathTarget]]:
    """Return functions that build one target for each compiled loop, from the `SPECIALISED` of the modules."""
    return _listed("SPECIALISED")


def _listed(name: str) -> dict[str, Callable[[], PathTarget]]:
    return {key: build for module in modules(__name__) for key, build in getattr(module, name, {}).items()}
