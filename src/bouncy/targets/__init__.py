"""Targets: the distributions p(s)."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.targets.contract import Target


def examples() -> dict[str, Callable[[], Target]]:
    """Return functions that build a small target of each kind, from the `EXAMPLES` of the modules of this folder."""
    return {name: build for module in modules(__name__) for name, build in getattr(module, "EXAMPLES", {}).items()}
