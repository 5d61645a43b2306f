"""The paper's experiments, run again: settings, contenders, measurements, verdicts and report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bouncy.experiments.rerun import reproduce

__all__ = ["reproduce"]

_HOME = {"reproduce": "bouncy.experiments.rerun"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: settings can be read without anything else being loaded."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bouncy.experiments' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
