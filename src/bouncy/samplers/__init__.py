"""Samplers: the combinations of clock and toll that a user asks for by name."""

from __future__ import annotations

from collections.abc import Callable

from bouncy._registry import modules
from bouncy.samplers.contract import Sampler


def names() -> dict[str, Callable[[], Sampler]]:
    """Return what builds each sampler that has a name."""
    return {name: build for module in modules(__name__) for name, build in getattr(module, "NAMED", {}).items()}


def as_sampler(sampler: str | Sampler) -> Sampler:
    """Return the sampler that a name stands for, or the sampler itself."""
    if isinstance(sampler, str):
        known = names()
        if sampler not in known:
            raise ValueError(f"sampler is {sampler!r}; known names: {', '.join(sorted(known))}")
        return known[sampler]()
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a name or a sampler such as bouncy.BPS('gaussian'), got {sampler!r}")
    return sampler
