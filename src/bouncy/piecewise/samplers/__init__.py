"""Samplers of continuous targets."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.piecewise.contract import PathSampler


def names() -> dict[str, Callable[[], PathSampler]]:
    """Return what builds each sampler that has a name."""
    return {name: build for module in modules(__name__) for name, build in getattr(module, "NAMED", {}).items()}
