"""The functions of a clock as a compiled loop calls them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy.clocks.by_address import LinkedClock, linked
from bouncy.clocks.contract import fill, position, shift


def fill_compiled(clock: Any, t_stop: float, times: NDArray[Any], sites: NDArray[Any]) -> tuple[int, bool]:
    """Return the number of hits written, and whether t_stop is reached."""
    found: tuple[int, bool] = _fill(as_linked(clock), t_stop, times, sites)
    return found


def position_compiled(clock: Any, t: float, z: NDArray[Any], w: NDArray[Any]) -> None:
    """Write the distances and speeds at time t."""
    _position(as_linked(clock), t, z, w)


def shift_compiled(clock: Any, elapsed: float) -> None:
    """Move the origin of time."""
    _shift(as_linked(clock), elapsed)


def as_linked(clock: Any) -> Any:
    """Return a clock with its addresses, which to find takes longer than a call does."""
    return clock if isinstance(clock, LinkedClock) else linked(clock)


@kernel
def _fill(clock, t_stop, times, sites):
    return fill(clock, t_stop, times, sites)


@kernel
def _position(clock, t, z, w):
    position(clock, t, z, w)


@kernel
def _shift(clock, elapsed):
    shift(clock, elapsed)
