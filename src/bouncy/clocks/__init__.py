"""Clocks: they decide when which spin may flip."""

from __future__ import annotations

import functools

from bouncy._registry import modules
from bouncy.clocks.contract import Clock


@functools.cache
def every_clock() -> tuple[Clock, ...]:
    """Return all clocks."""
    return tuple(item for module in modules(__name__) for item in vars(module).values() if isinstance(item, Clock))


def clocks(family: str) -> dict[str, Clock]:
    """Return the clocks of a family by name."""
    return {clock.name: clock for clock in every_clock() if clock.family == family}


def clock_named(family: str, parameter: str, name: object) -> Clock:
    """Return the clock with this name, or raise an error about the parameter that lists the known names."""
    known = clocks(family)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{parameter} is {name!r}; expected one of: {', '.join(sorted(known))}")
    return known[name]
