"""Spins of lanes as bits: sites by words of 64 lanes, so that one operation is done for all of them.

Vectors of bytes become masks, and masks vectors of bytes, in one instruction where the machine has one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bouncy._lane_loop import INT8, INT64, intrinsic
from bouncy._vector import vectorised

# Lanes of a word.
WORD = 64


def _spins(context: Any, builder: ir.IRBuilder, kind: Any, count: int, s: ir.Value, place: ir.Value) -> ir.Value:
    """Return where some lanes of a matrix of bytes are, as a vector."""
    data = context.make_array(kind)(context, builder, s).data
    return builder.bitcast(builder.gep(data, [place]), ir.VectorType(INT8, count).as_pointer())


def _reader(count: int) -> Any:
    """Return a compiled function of a matrix and a place: which of so many spins from there on are -1."""

    @intrinsic
    def read(typing_context, s, place):
        def generate(context, builder, signature, values):
            spins = builder.load(_spins(context, builder, s, count, *values), align=1)
            mask = builder.icmp_signed("<", spins, spins.type([0] * count))
            return builder.zext(builder.bitcast(mask, ir.IntType(count)), INT64)

        return types.uint64(s, types.int64), generate

    return read


def _turner(count: int) -> Any:
    """Return a compiled function of a matrix, a place and bits, which turns the spins whose bits are set."""

    @intrinsic
    def turn(typing_context, s, place, bits):
        def generate(context, builder, signature, values):
            *where, word = values
            pointer = _spins(context, builder, s, count, *where)
            spins = builder.load(pointer, align=1)
            mask = builder.bitcast(builder.trunc(word, ir.IntType(count)), ir.VectorType(ir.IntType(1), count))
            builder.store(builder.select(mask, builder.neg(spins), spins), pointer, align=1)
            return context.get_dummy_value()

        return types.void(s, types.int64, types.uint64), generate

    return turn


# Lanes that are worked on together, where there are so many.
_MANY = 16
_read_many, _read_one, _turn_many, _turn_one = _reader(_MANY), _reader(1), _turner(_MANY), _turner(1)


@vectorised
def read_word(s, i, first, end):
    """Return which lanes from `first` to before `end`, a word at most, have the spin -1 at site i of s, (d, lanes)."""
    row, k, shift, bits = i * s.shape[1], first, np.uint64(0), np.uint64(0)
    while k + _MANY <= end:
        bits |= _read_many(s, row + k) << shift
        k, shift = k + _MANY, shift + np.uint64(_MANY)
    while k < end:
        bits |= _read_one(s, row + k) << shift
        k, shift = k + 1, shift + np.uint64(1)
    return bits


@vectorised
def turn_word(s, i, first, end, bits):
    """Turn the spins of these lanes whose bits are set."""
    row, k = i * s.shape[1], first
    while k + _MANY <= end:
        _turn_many(s, row + k, bits)
        k, bits = k + _MANY, bits >> np.uint64(_MANY)
    while k < end:
        _turn_one(s, row + k, bits)
        k, bits = k + 1, bits >> np.uint64(1)
