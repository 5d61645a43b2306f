"""From a user's function to a machine address: adapters that are compiled, and callbacks into Python.

There is one of each for every role that a function can have in a target. They are called with the address of
(cache, data), each a tuple of one element or none, and with spins as a pointer and a size (see `linked.Linked`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy.targets._native import array_at, dereference, joined, read_only
from bouncy.targets.conditional import means_from_costs
from bouncy.targets.linked import (
    BAD_AT,
    COST,
    FINE,
    FLIP,
    LOG_PROB,
    MEANS,
    NUMBERS,
    RAISED,
    RESYNC,
    SPINS,
    as_number,
    as_status,
)

# A conditional mean may leave [-1, 1] by rounding.
_TOLERANCE = 1e-9


class Role(NamedTuple):
    """What a function is for, and how it is reached."""

    name: str
    code: int  # of its failure
    arguments: tuple[str, ...]  # it is called with, before data; the cache only where there is one
    returns_number: bool
    adapter: Callable[..., Any]  # (compiled function, what picks its last arguments) -> function to compile
    caller: Callable[..., Any]  # (function, its last arguments) -> function of addresses, in Python
    signature: tuple[Any, ...]  # numba types of the arguments by address, after that of (cache, data)
    words: tuple[Any, ...]  # the same for ctypes


# What comes after the spins, out of (cache, data)


@helper
def _nothing(part):
    return ()


@helper
def _cache(part):
    return joined(part[0], ())


@helper
def _data(part):
    return joined((), part[1])


@helper
def _cache_and_data(part):
    return joined(part[0], part[1])


def picker(takes_cache: bool, takes_data: bool) -> Callable[..., Any]:
    """Return a compiled function of (cache, data) that picks the arguments of a user's function."""
    if takes_cache:
        return _cache_and_data if takes_data else _cache
    return _data if takes_data else _nothing


# Compiled


@helper
def _not_negative(i):
    """Return a site as it is, in a way that tells the compiler that no index made of it counts from the end."""
    return np.int64(np.uint32(i))


def _adapt_cost(function, last):
    def cost(pointer, s, d, i):
        return as_number(float(function(read_only(array_at(s, d)), _not_negative(i), *last(dereference(pointer)))))

    return cost


def adapt_costs(function, last):
    """Return an adapter that finds conditional means by the costs of all flips, in one call for all of them."""

    def means(pointer, s, d, costs, n, out, m):
        spins = array_at(s, d)
        values = array_at(costs, n)
        arguments = last(dereference(pointer))
        # In loops of their own, as a way out of the first would keep it from being vectorised.
        for i in range(d):
            values[i] = function(read_only(spins), i, *arguments)
        for i in range(d):
            if not values[i] > -np.inf:  # nor is NaN
                return as_status(np.int64(BAD_AT + i))
        means_from_costs(values, spins, array_at(out, m))
        return as_status(np.int64(FINE))

    return means


def _adapt_on_flip(function, last):
    def on_flip(pointer, s, d, i):
        spins = array_at(s, d)
        site = _not_negative(i)
        spins[site] = -spins[site]
        function(read_only(spins), site, *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return on_flip


def _adapt_means(function, last):
    def means(pointer, s, d, costs, n, out, m):
        values = array_at(out, d)
        function(read_only(array_at(s, d)), values, *last(dereference(pointer)))
        for i in range(d):
            if not abs(values[i]) <= 1.0 + _TOLERANCE:
                return as_status(np.int64(BAD_AT + i))
        return as_status(np.int64(FINE))

    return means


def _adapt_log_prob(function, last):
    def log_prob(pointer, s, d):
        return as_number(float(function(read_only(array_at(s, d)), *last(dereference(pointer)))))

    return log_prob


def _adapt_init(function, last):
    def init(pointer, s, d):
        function(read_only(array_at(s, d)), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return init


# In Python


def _spins_at(address: int, d: int) -> NDArray[np.int8]:
    """Return the spins at an address; they are gone after the call."""
    return np.ctypeslib.as_array((ctypes.c_int8 * d).from_address(address))


def spins_for_python(s: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return a copy that can be kept, but not written to, of a type whose sums do not overflow."""
    spins = s.astype(np.int64)
    spins.flags.writeable = False
    return spins


def _call_cost(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., float]:
    return lambda s, d, i: float(function(spins_for_python(_spins_at(s, d)), i, *last))


def _call_on_flip(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., int]:
    def on_flip(s: int, d: int, i: int) -> int:
        spins = _spins_at(s, d)
        spins[i] = -spins[i]
        function(spins_for_python(spins), i, *last)
        return FINE

    return on_flip


def _call_means(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., int]:
    def means(s: int, d: int, costs: int, n: int, out: int, m: int) -> int:
        values = np.full(d, np.nan)
        function(spins_for_python(_spins_at(s, d)), values, *last)
        np.ctypeslib.as_array((ctypes.c_double * d).from_address(out))[:] = values
        bad = np.flatnonzero(~(np.abs(values) <= 1.0 + _TOLERANCE))
        return BAD_AT + int(bad[0]) if bad.size else FINE

    return means


def _call_log_prob(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., float]:
    return lambda s, d: float(function(spins_for_python(_spins_at(s, d)), *last))


def _call_init(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., int]:
    def init(s: int, d: int) -> int:
        function(spins_for_python(_spins_at(s, d)), *last)
        return FINE

    return init


_ADDRESS, _INTEGER, _NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


def callback(
    role: Role, call: Callable[..., Any], on_error: Callable[[BaseException], Any], fault: NDArray[np.int64]
) -> Any:
    """Return a function in a role as an object of ctypes that compiled code may call; what is raised is handed over.

    After a fault it fails without a call, so that a chain that is to stop does not wait for slow functions.
    """
    result, failure = (_NUMBER, np.nan) if role.returns_number else (_INTEGER, RAISED)

    def called(_part: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments) if fault[0] == FINE else failure
        except BaseException as error:
            on_error(error)
            return failure

    return ctypes.CFUNCTYPE(result, _ADDRESS, *role.words)(called)


_SPINS, _NUMBERS = (_ADDRESS, _INTEGER), (_ADDRESS, _INTEGER)
ROLES = {
    role.name: role
    for role in (
        Role("flip_cost", COST, ("s", "i", "cache"), True, _adapt_cost, _call_cost,
             (*SPINS, types.int64), (*_SPINS, _INTEGER)),
        Role("log_prob", LOG_PROB, ("s",), True, _adapt_log_prob, _call_log_prob,
             SPINS, _SPINS),
        Role("init", RESYNC, ("s", "cache"), False, _adapt_init, _call_init,
             SPINS, _SPINS),
        Role("on_flip", FLIP, ("s", "i", "cache"), False, _adapt_on_flip, _call_on_flip,
             (*SPINS, types.int64), (*_SPINS, _INTEGER)),
        Role("conditional_means", MEANS, ("s", "out", "cache"), False, _adapt_means, _call_means,
             (*SPINS, *NUMBERS, *NUMBERS), (*_SPINS, *_NUMBERS, *_NUMBERS)),
    )
}  # fmt: skip

# The same arguments by the code of what is done.
SIGNATURES = {role.code: role.signature for role in ROLES.values()}
