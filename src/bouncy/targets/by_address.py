"""Targets called by address: one compiled loop for all of them.

A loop is compiled for the type of each tuple that it works on, which takes some seconds for each sampler. `linked`
compiles the five functions of a target alone, once per type, and returns a tuple of their addresses, which has one type
for all targets. A call by address costs a few nanoseconds, little where a flip has some work to do. Dense and sparse
Markov random fields, whose flips cost about as much, are not linked.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import implements, part, parts, state_arrays
from bouncy._native import (
    BAD_AT,
    FINE,
    Owner,
    address_of,
    array_at,
    as_number,
    as_status,
    call_number,
    call_status,
    dereference,
    keep_apart,
    lay_out,
    pointer_to,
)
from bouncy.functions.data import copy_arrays
from bouncy.targets._roles import ROLES
from bouncy.targets.contract import (
    FUNCTIONS,
    TargetError,
    conditional_means,
    failed,
    flip_cost,
    init,
    log_prob,
    means_by_costs,
    on_flip,
    shown,
)

# Values of `fault[0]` other than FINE: the function that failed, or a chain that was stopped.
FLIP_COST, LOG_PROB, INIT, ON_FLIP, CONDITIONAL_MEANS, STOPPED = range(1, 7)
NAMES = ("", *(function.__name__ for function in FUNCTIONS))


@part(
    "fault", "caches",
    bounds={"fault": lambda view: ([FINE, -1], [FINE, view.where.size - 1]), "caches": None},
)  # fmt: skip
class Linked(NamedTuple):
    """The addresses of the functions of a target, and of the part that they work on.

    An address of 0 selects the default implementation.
    """

    flip_cost: int  # float64(part, s, d, i)
    log_prob: int  # float64(part, s, d)
    init: int  # int64(part, s, d), which returns FINE or a failure, like the next two
    on_flip: int  # int64(part, s, d, i)
    conditional_means: int  # int64(part, s, d, out, n)
    part: int
    judges: int  # 1, or 0 where the linked view inside this one checks costs and log p
    fault: NDArray[np.int64]  # (2,) which function failed, at which site; its base owns the memory at the addresses
    where: NDArray[np.int8]  # (d,) the spins at which it failed
    walk: NDArray[np.int8]  # (d,) scratch for log p by default

    @property
    def memory(self) -> Memory:
        """Owner of the memory at the addresses."""
        memory: Memory = self.fault.base  # type: ignore[assignment]
        return memory

    @property
    def caches(self) -> list[NDArray[Any]]:
        """The arrays of a user that change while a chain runs."""
        return self.memory.caches

    @property
    def inside(self) -> Any:
        """The part at the address; None where its arrays are those of a user."""
        return self.memory.inside

    def failure(self) -> TargetError | None:
        """Return the error of the function that failed, or None."""
        if self.fault[0] == FINE:
            return None
        if self.fault[0] == STOPPED:
            return TargetError("the chain was stopped", "none", None, self.where.copy())
        return self.memory.explain(int(self.fault[0]), int(self.fault[1]), self.where.copy())

    def stop(self) -> None:
        """Stop a loop that runs in another thread; plain Python functions are not called any more."""
        self.fault[0] = STOPPED

    def forgive(self) -> None:
        """Forget a failure."""
        self.fault[0] = FINE

    def __copy__(self) -> Linked:
        return self.memory.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Linked:
        return self.memory.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the recipe of the view: addresses are valid in one process only."""
        return self.memory.recipe


class Memory(Owner):
    """Owner of the memory at the addresses of a view. The array `fault`, which is based on it, keeps it alive.

    Parameters
    ----------
    fault : array of int64, shape (2,)
        Where failures are reported.
    keep
        Objects that own the memory.
    caches : list of arrays
        The arrays of a user that change while a chain runs.
    recipe : tuple
        A function and its arguments, the caches among them, that make this view.
    explain : callable
        Returns the error for (code of the function, site, spins).
    inside : NamedTuple, optional
        The part at the address, if it is one of ours.
    """

    def __init__(
        self,
        fault: NDArray[np.int64],
        *,
        keep: Any,
        caches: list[NDArray[Any]],
        recipe: tuple[Callable[..., Linked], tuple[Any, ...]],
        explain: Callable[[int, int, NDArray[np.int8]], TargetError],
        inside: Any = None,
    ) -> None:
        super().__init__(fault, keep=keep)
        self.caches = caches
        self.recipe = recipe
        self.explain = explain
        self.inside = inside

    def copy(self) -> Linked:
        """Return an independent view in the same state."""
        function, arguments = self.recipe
        return function(*(_copy(argument) for argument in arguments))


def linked(view: Any, d: int) -> Linked:
    """Return the addresses of the functions of a view, which the result keeps alive.

    Parameters
    ----------
    view : NamedTuple
        A `target_part`: arrays, numbers and at most one other linked view, `inner`, whose failures become its own.
    d : int
        Number of sites.
    """
    pointer = pointer_to(view)
    memory = lay_out(view)
    inner = getattr(view, "inner", None)
    owner = Memory(
        np.zeros(2, np.int64) if inner is None else inner.fault,
        keep=memory,
        caches=[],
        recipe=(linked, (view, d)),
        explain=functools.partial(_explain, view),
        inside=view,
    )
    addresses = {
        name: address_of(entry, pointer, *ROLES[name].words)
        for name, entry in _ENTRIES.items()
        if hasattr(view, name) or name == "conditional_means"  # whose default is faster in one call
    }
    return link(addresses, memory, owner, d, judges=inner is None)


def link(addresses: dict[str, int], part: NDArray[np.int64], owner: Memory, d: int, judges: bool = True) -> Linked:
    """Return a view of functions by their addresses, those that are missing by their default implementations."""
    return Linked(
        **{name: addresses.get(name, 0) for name in NAMES[1:]},
        part=part.ctypes.data,
        judges=int(judges),
        fault=np.asarray(owner),
        where=np.zeros(d, np.int8),
        walk=np.zeros(0 if "log_prob" in addresses else d, np.int8),
    )


def _copy(value: Any) -> Any:
    """Return a copy with caches of its own; arrays that describe the model are shared."""
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
    name = f"{NAMES[function]} of {type(view).__name__}"
    return TargetError(f"{name} returned an impossible value at s = {shown(where)}", name, site, where)


# From address to function: what `linked` compiles for each type of view


@kernel
def _flip_cost_at(pointer, s, d, i):
    return as_number(float(flip_cost(dereference(pointer), array_at(s, d), i)))


@kernel
def _log_prob_at(pointer, s, d):
    return as_number(float(log_prob(dereference(pointer), array_at(s, d))))


@kernel
def _init_at(pointer, s, d):
    init(dereference(pointer), array_at(s, d))
    return as_status(np.int64(FINE))


@kernel
def _on_flip_at(pointer, s, d, i):
    on_flip(dereference(pointer), array_at(s, d), i)
    return as_status(np.int64(FINE))


@kernel
def _conditional_means_at(pointer, s, d, out, n):
    conditional_means(dereference(pointer), array_at(s, d), array_at(out, n))
    return as_status(np.int64(FINE))


_ENTRIES = {
    "flip_cost": _flip_cost_at,
    "log_prob": _log_prob_at,
    "init": _init_at,
    "on_flip": _on_flip_at,
    "conditional_means": _conditional_means_at,
}


# From function to address: what a loop does with a linked view


@implements(flip_cost, Linked)
def _flip_cost(view, s, i):
    cost = call_number(view.flip_cost, view.part, s, i)
    if not cost > -np.inf:  # also true of NaN
        _judge(view.judges, view.fault, view.where, FLIP_COST, s, i)
    return cost


@implements(log_prob, Linked)
def _log_prob(view, s):
    if view.log_prob == 0:
        return _log_prob_by_walk(view, s)
    value = call_number(view.log_prob, view.part, s)
    if not value < np.inf:  # also true of NaN
        _judge(view.judges, view.fault, view.where, LOG_PROB, s, -1)
    return value


@helper
def _log_prob_by_walk(view, s):
    """Return log p(s) - log p(-1, ..., -1) by flipping one spin after the other, NaN if a wall is in the way."""
    walk = view.walk
    for i in range(s.size):
        walk[i] = -1
    init(view, walk)
    total = 0.0
    for i in range(s.size):
        if s[i] > 0 and abs(total) < np.inf:
            cost = call_number(view.flip_cost, view.part, walk, i)
            if cost != cost:
                _report(view.fault, view.where, FLIP_COST, walk, i)
            total -= cost
            if abs(total) < np.inf:
                walk[i] = 1
                on_flip(view, walk, i)
    init(view, s)
    return total if abs(total) < np.inf else np.nan


@implements(init, Linked)
def _init(view, s):
    if view.init != 0 and call_status(view.init, view.part, s) != FINE:
        _report(view.fault, view.where, INIT, s, -1)


@implements(on_flip, Linked)
def _on_flip(view, s, i):
    if view.on_flip != 0 and call_status(view.on_flip, view.part, s, i) != FINE:
        _report(view.fault, view.where, ON_FLIP, s, i)


@implements(conditional_means, Linked)
def _conditional_means(view, s, out):
    if view.conditional_means == 0:
        means_by_costs(view, s, out)
    else:
        status = call_status(view.conditional_means, view.part, s, out)
        if status != FINE:
            _report(view.fault, view.where, CONDITIONAL_MEANS, s, max(status - BAD_AT, -1))


@implements(failed, Linked)
def _failed(view):
    return view.fault[0] != FINE


# Failures are rare: these are not inlined, so that the loop stays small.


@kernel
def _judge(judges, fault, where, function, s, i):
    """Report an impossible cost or log p, unless the linked view inside this one does."""
    keep_apart()
    if judges:
        _report(fault, where, function, s, i)


@kernel
def _report(fault, where, function, s, i):
    """Record which function failed, at which site and spins, unless one failed before."""
    keep_apart()
    if fault[0] == FINE:
        fault[0] = function
        fault[1] = i
        for k in range(where.size):
            where[k] = s[k]
