"""Clocks called by address: one compiled loop for all of them.

A clock hands over many hits at a time, so that a call costs next to nothing per hit. `linked` compiles its four
functions alone, and loops are compiled with their addresses: a loop for each toll, target and recorder serves every
clock.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, NamedTuple

import numpy as np
from numba import config, types
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import implements, part
from bouncy._native import Owner, address_of, array_at, caller, dereference, lay_out, pointer_to, returner
from bouncy.clocks.contract import fill, position, restart, shift


@part()
class LinkedClock(NamedTuple):
    """The addresses of the functions of a clock, and of its arrays."""

    restart: int  # int64(part)
    fill: int  # int64(part, t_stop, times, n, sites, n): twice the number of hits, + 1 if t_stop is reached
    shift: int  # int64(part, elapsed)
    position: int  # int64(part, t, z, d, w, d)
    part: int  # where `memory` is
    memory: NDArray[np.int64]  # the arrays as compiled code expects them; its base keeps them alive
    count: NDArray[np.int64]  # type: ignore[assignment]  # bounces, refreshments, ...; shadows tuple.count

    def __deepcopy__(self, memo: dict[int, Any]) -> LinkedClock:
        found: LinkedClock = linked(copy.deepcopy(self.memory.base.clock, memo))  # type: ignore[union-attr]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the clock: addresses are valid in one process only."""
        return linked, (self.memory.base.clock,)  # type: ignore[union-attr]


def linked(clock: Any) -> Any:
    """Return the addresses of the functions of a clock, which share its arrays and keep them alive.

    Interpreted code, which has no addresses, gets the clock itself.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return clock
    memory = np.asarray(Owner(lay_out(clock), clock=clock))
    return LinkedClock(**_addresses(pointer_to(clock)), part=memory.ctypes.data, memory=memory, count=clock.count)


@functools.cache
def _addresses(pointer: Any) -> dict[str, int]:
    """Return the addresses of the functions of a type of clock, compiling them the first time."""
    return {name: address_of(entry, pointer, *arguments) for name, (entry, *arguments) in _ENTRIES.items()}


# From address to function: what `linked` compiles for each type of clock

_FAILED = -1
_returned = returner(_FAILED)


@kernel
def _restart_at(pointer):
    restart(dereference(pointer))
    return _returned(0)


@kernel
def _fill_at(pointer, t_stop, times, n_times, sites, n_sites):
    n, reached = fill(dereference(pointer), t_stop, array_at(times, n_times), array_at(sites, n_sites))
    return _returned(2 * n + reached)


@kernel
def _shift_at(pointer, elapsed):
    shift(dereference(pointer), elapsed)
    return _returned(0)


@kernel
def _position_at(pointer, t, z, n_z, w, n_w):
    position(dereference(pointer), t, array_at(z, n_z), array_at(w, n_w))
    return _returned(0)


_NUMBERS = types.CPointer(types.float64), types.int64
_SITES = types.CPointer(types.int32), types.int64
_ENTRIES: dict[str, tuple[Any, ...]] = {
    "restart": (_restart_at,),
    "fill": (_fill_at, types.float64, *_NUMBERS, *_SITES),
    "shift": (_shift_at, types.float64),
    "position": (_position_at, types.float64, *_NUMBERS, *_NUMBERS),
}


# From function to address: what a loop does with a linked clock

_call = caller(types.int64)


@helper
def _check(status):
    if status == _FAILED:
        raise RuntimeError("a clock failed, which is a bug; report it")
    return status


@implements(restart, LinkedClock)
def _restart(clock):
    _check(_call(clock.restart, clock.part))


@implements(fill, LinkedClock)
def _fill(clock, t_stop, times, sites):
    found = _check(_call(clock.fill, clock.part, t_stop, times, sites))
    return found >> 1, found & 1 == 1


@implements(shift, LinkedClock)
def _shift(clock, elapsed):
    _check(_call(clock.shift, clock.part, elapsed))


@implements(position, LinkedClock)
def _position(clock, t, z, w):
    _check(_call(clock.position, clock.part, t, z, w))
