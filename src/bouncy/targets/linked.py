"""Targets as machine addresses: one compiled loop for all of them.

A view that is a tuple of arrays would have every loop compiled anew for its type, some seconds for each sampler.
`linked` compiles its five functions alone, once per type, and returns a tuple of their addresses, which is of one type
for all targets. A call by address costs a few nanoseconds: nothing where a flip has some work to do. Dense and sparse
Markov random fields, whose flips cost about as much, are not linked.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import implements, part, parts, state_arrays
from bouncy.targets._data import copy_arrays
from bouncy.targets._native import (
    address_of,
    array_at,
    caller,
    dereference,
    keep_apart,
    lay_out,
    pointer_to,
    returner,
)
from bouncy.targets.conditional import means_from_costs
from bouncy.targets.contract import TargetError, conditional_means, failed, flip, flip_cost, log_prob, resync, shown

# What `fault[0]` says: nothing, or the function that failed.
FINE, COST, FLIP, MEANS, LOG_PROB, RESYNC, STOPPED = range(7)
_NAMES = {COST: "flip_cost", FLIP: "flip", MEANS: "conditional_means", LOG_PROB: "log_prob", RESYNC: "resync"}
# What functions without a number to return do return, if not FINE: that they raised, or 1 + the site that went wrong.
RAISED, BAD_AT = -1, 1


@part("caches")
class Linked(NamedTuple):
    """The addresses of a target's functions, and of the part that they work on.

    An address is 0 where the plain thing is to be done: no cache to update after a flip or to recompute, conditional
    means and log p from the costs of flips.
    """

    cost: int  # float64(part, s, d, i)
    flip: int  # int64(part, s, d, i), which flips s[i] too; FINE or a failure, as in the next and the last
    means: int  # int64(part, s, d, costs, n, out, n)
    log_prob: int  # float64(part, s, d)
    resync: int  # int64(part, s, d)
    part: int
    judges: int  # 1, or 0 where what is no cost is judged further inside
    fault: NDArray[np.int64]  # (2,) which function failed, at which site; its base keeps alive what is pointed to
    where: NDArray[np.int8]  # (d,) the spins at which it failed
    walk: NDArray[np.int8]  # (d,) scratch, or (0,) with an address of log p

    @property
    def memory(self) -> Memory:
        """What the addresses point to."""
        memory: Memory = self.fault.base  # type: ignore[assignment]
        return memory

    @property
    def caches(self) -> list[NDArray[Any]]:
        """The arrays that change while a chain runs."""
        return [self.fault, *self.memory.caches]

    def failure(self) -> TargetError | None:
        """Return what went wrong, or None."""
        if self.fault[0] == FINE:
            return None
        if self.fault[0] == STOPPED:
            return TargetError("the chain was stopped", "none", None, self.where.copy())
        return self.memory.explain(int(self.fault[0]), int(self.fault[1]), self.where.copy())

    def stop(self) -> None:
        """Have a loop that runs in another thread stop soon: plain Python is not called any more."""
        self.fault[0] = STOPPED

    def forgive(self) -> None:
        """Forget a failure."""
        self.fault[0] = FINE

    def __copy__(self) -> Linked:
        return self.memory.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Linked:
        return self.memory.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as what the addresses are made of."""
        return self.memory.recipe


class Memory:
    """What the addresses of a view point to, kept alive as long as the array of faults, which is made of it.

    Parameters
    ----------
    keep
        Objects that own the memory.
    caches : list of arrays
        Those that change while a chain runs.
    recipe : tuple
        A function and its arguments, the caches among them, that make this view.
    explain : callable
        Returns the error for (function, site, spins).
    fault : array of int64, shape (2,), optional
        Where failures are reported, if not in an array of its own.
    """

    def __init__(
        self,
        keep: Any,
        caches: list[NDArray[Any]],
        recipe: tuple[Callable[..., Linked], tuple[Any, ...]],
        explain: Callable[[int, int, NDArray[np.int8]], TargetError],
        fault: NDArray[np.int64] | None = None,
    ) -> None:
        self._fault = np.zeros(2, np.int64) if fault is None else fault
        self._keep = keep
        self.caches = caches
        self.recipe = recipe
        self.explain = explain

    def copy(self) -> Linked:
        """Return a view that goes on where this one is, independently."""
        function, arguments = self.recipe
        return function(*(_copy(argument) for argument in arguments))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._fault.__array_interface__


def linked(view: Any, d: int) -> Linked:
    """Return the addresses of the five functions of a view, which is kept alive by the result.

    Parameters
    ----------
    view : NamedTuple
        Arrays, numbers and at most one other linked view, `inner`, whose failures become those of this view.
    d : int
        Number of sites.
    """
    pointer = pointer_to(view)
    memory = lay_out(view)
    inner = getattr(view, "inner", None)
    owner = Memory(
        keep=(view, memory),
        caches=state_arrays(view),
        recipe=(linked, (view, d)),
        explain=functools.partial(_explain, view),
        fault=None if inner is None else inner.fault,
    )
    return Linked(
        cost=address_of(_cost_at, pointer, *SPINS, types.int64),
        flip=address_of(_flip_at, pointer, *SPINS, types.int64),
        means=address_of(_means_at, pointer, *SPINS, *NUMBERS, *NUMBERS),
        log_prob=address_of(_log_prob_at, pointer, *SPINS),
        resync=address_of(_resync_at, pointer, *SPINS),
        part=memory.ctypes.data,
        judges=int(inner is None),
        fault=np.asarray(owner),
        where=np.zeros(d, np.int8),
        walk=np.zeros(0, np.int8),
    )


# How spins and numbers are handed over: as a pointer and a size.
SPINS = types.CPointer(types.int8), types.int64
NUMBERS = types.CPointer(types.float64), types.int64


def _copy(value: Any) -> Any:
    """Return a copy of what belongs to one chain: a part shares the model, but not the caches."""
    if type(value) not in parts():
        return copy_arrays(value) if isinstance(value, tuple) else value
    changing = {id(array) for array in state_arrays(value)}
    items = (copy.copy(item) if id(item) in changing or isinstance(item, Linked) else item for item in value)
    return type(value)(*items)


def _explain(view: Any, function: int, site: int, where: NDArray[np.int8]) -> TargetError:
    inner = getattr(view, "inner", None)
    if isinstance(inner, Linked):
        error = inner.failure()
        assert error is not None
        return error
    name = f"{_NAMES[function]} of {type(view).__name__}"
    return TargetError(f"{name} gave what cannot be its result at s = {shown(where)}", name, site, where)


# The five functions of a view as functions of its address

as_number = returner(np.nan)
as_status = returner(RAISED)


@kernel
def _cost_at(pointer, s, d, i):
    return as_number(float(flip_cost(dereference(pointer), array_at(s, d), i)))


@kernel
def _flip_at(pointer, s, d, i):
    flip(dereference(pointer), array_at(s, d), i)
    return as_status(np.int64(FINE))


@kernel
def _means_at(pointer, s, d, costs, n, out, m):
    conditional_means(dereference(pointer), array_at(s, d), array_at(costs, n), array_at(out, m))
    return as_status(np.int64(FINE))


@kernel
def _log_prob_at(pointer, s, d):
    return as_number(float(log_prob(dereference(pointer), array_at(s, d))))


@kernel
def _resync_at(pointer, s, d):
    resync(dereference(pointer), array_at(s, d))
    return as_status(np.int64(FINE))


# The addresses as functions of a view

_number = caller(types.float64)
_status = caller(types.int64)


@implements(flip_cost, Linked)
def _flip_cost(view, s, i):
    cost = _number(view.cost, view.part, s, i)
    if not cost > -np.inf:  # nor is NaN
        _judge(view.judges, view.fault, view.where, COST, s, i)
    return cost


@implements(flip, Linked)
def _flip(view, s, i):
    if view.flip == 0:
        s[i] = -s[i]
    elif _status(view.flip, view.part, s, i) != FINE:
        _report(view.fault, view.where, FLIP, s, i)


@implements(conditional_means, Linked)
def _conditional_means(view, s, costs, out):
    if view.means == 0:
        for i in range(s.size):
            costs[i] = flip_cost(view, s, i)
        means_from_costs(costs, s, out)
    else:
        status = _status(view.means, view.part, s, costs, out)
        if status != FINE:
            _report(view.fault, view.where, MEANS, s, max(status - BAD_AT, -1))


@implements(log_prob, Linked)
def _log_prob(view, s):
    if view.log_prob == 0:
        return _log_prob_by_walk(view, s)
    value = _number(view.log_prob, view.part, s)
    if not value < np.inf:  # nor is NaN
        _judge(view.judges, view.fault, view.where, LOG_PROB, s, -1)
    return value


@helper
def _log_prob_by_walk(view, s):
    """Return log p(s) - log p(-1, ..., -1) by flipping one spin after the other, NaN if a wall is in the way."""
    walk = view.walk
    for i in range(s.size):
        walk[i] = -1
    resync(view, walk)
    total = 0.0
    for i in range(s.size):
        if s[i] > 0 and abs(total) < np.inf:
            cost = _number(view.cost, view.part, walk, i)
            if cost != cost:
                _report(view.fault, view.where, COST, walk, i)
            total -= cost
            if abs(total) < np.inf:
                flip(view, walk, i)
    resync(view, s)
    return total if abs(total) < np.inf else np.nan


@implements(resync, Linked)
def _resync(view, s):
    if view.resync != 0 and _status(view.resync, view.part, s) != FINE:
        _report(view.fault, view.where, RESYNC, s, -1)


@implements(failed, Linked)
def _failed(view):
    return view.fault[0] != FINE


# What never happens should not cost anything, and so is never inlined.


@kernel
def _judge(judges, fault, where, function, s, i):
    """Note that a function returned what it must not, unless the view inside this one is to judge that."""
    keep_apart()
    if judges:
        _report(fault, where, function, s, i)


@kernel
def _report(fault, where, function, s, i):
    """Note which function failed, at which site and spins, unless something failed before."""
    keep_apart()
    if fault[0] == FINE:
        fault[0] = function
        fault[1] = i
        for k in range(where.size):
            where[k] = s[k]
