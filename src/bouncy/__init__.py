"""bouncy: binary distributions sampled with the Binary Bouncy Particle Sampler."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bouncy._sample import NoFlipWarning, sample
    from bouncy.enumeration import Exact, exact, states
    from bouncy.results.run import Run
    from bouncy.samplers.bps import BPS
    from bouncy.samplers.contract import NotErgodicWarning, Sampler
    from bouncy.samplers.gibbs import Gibbs
    from bouncy.samplers.hmc import HMC
    from bouncy.samplers.metropolis import Metropolis
    from bouncy.targets.contract import Target
    from bouncy.targets.mrf import MRF

__all__ = [
    "BPS",
    "HMC",
    "MRF",
    "Exact",
    "Gibbs",
    "Metropolis",
    "NoFlipWarning",
    "NotErgodicWarning",
    "Run",
    "Sampler",
    "Target",
    "__version__",
    "exact",
    "sample",
    "states",
]

_HOME = {
    "BPS": "bouncy.samplers.bps",
    "MRF": "bouncy.targets.mrf",
    "Exact": "bouncy.enumeration",
    "NoFlipWarning": "bouncy._sample",
    "Gibbs": "bouncy.samplers.gibbs",
    "HMC": "bouncy.samplers.hmc",
    "Metropolis": "bouncy.samplers.metropolis",
    "NotErgodicWarning": "bouncy.samplers.contract",
    "Run": "bouncy.results.run",
    "Sampler": "bouncy.samplers.contract",
    "Target": "bouncy.targets.contract",
    "exact": "bouncy.enumeration",
    "sample": "bouncy._sample",
    "states": "bouncy.enumeration",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: numba and scipy are not needed to ask for the version."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("bouncy")
        except PackageNotFoundError:  # a checkout that is not installed
            return "unknown"
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bouncy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
