"""Targets: the distributions p(s)."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.targets.contract import Target


def examples() -> dict[str, Callable[[], Target]]:
    """Return what builds a small target of each kind that compiled code is specialised on.

    A module of this folder lists its own in a dictionary `EXAMPLES`.
    """
    return {name: build for module in modules(__name__) for name, build in getattr(module, "EXAMPLES", {}).items()}
