"""The numbers of the sites that were chosen, eight at a time and without a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import overload

from bouncy._compile import helper
from bouncy._inlining import INLINED

# Untyped, as the annotations of numba do not fit functions with arguments.
intrinsic: Any = numba_intrinsic

# Where the bits of a byte are 1, from the lowest on, and how many there are.
_BITS = np.arange(256)[:, None] >> np.arange(8) & 1
_PLACES, _COUNTS = np.argsort(1 - _BITS, axis=1, kind="stable").astype(np.uint8), _BITS.sum(axis=1).astype(np.uint8)
# Multiplied by it, eight bytes that are 0 or 1 become the bits of the highest byte.
_TOGETHER, _HIGHEST = np.uint64(0x0102040810204080), np.uint64(56)


@intrinsic
def _put_vector(typing_context, out, found, places, bits, first):
    def generate(context, builder, signature, values):
        numbers, few = ir.VectorType(ir.IntType(32), 8), ir.VectorType(ir.IntType(8), 8)
        rows, table = (context.make_array(kind)(context, builder, values[k]) for k, kind in ((0, out), (2, places)))
        row = builder.gep(table.data, [builder.shl(values[3], ir.IntType(64)(3))])
        place = builder.zext(builder.load(builder.bitcast(row, few.as_pointer()), align=1), numbers)
        start = numbers(ir.Undefined)
        for k in range(8):
            start = builder.insert_element(start, values[4], ir.IntType(32)(k))
        to = builder.bitcast(builder.gep(rows.data, [values[1]]), numbers.as_pointer())
        builder.store(builder.add(place, start), to, align=4)
        return context.get_dummy_value()

    return types.void(out, types.uint64, places, types.uint64, types.uint32), generate


def _put_eight(out, found, bits, first):
    """Write `first` + where `bits` are 1, and then anything, into eight places of `out` from `found` on."""
    out[found : found + 8] = first + _PLACES[bits]


@overload(_put_eight, strict=False, jit_options=INLINED)
def _put_eight_compiled(out, found, bits, first):
    return lambda out, found, bits, first: _put_vector(out, found, _PLACES, bits, first)


@helper
def select(chosen, n, out):
    """Write the indices i < n where `chosen[i]` is 1, elsewhere it is 0, into `out` and return how many there are."""
    whole = n // 8
    words = chosen[: 8 * whole].view(np.uint64)
    found = np.uint64(0)
    for k in range(whole):
        bits = (words[k] * _TOGETHER) >> _HIGHEST
        _put_eight(out, found, bits, np.uint32(8 * k))
        found += np.uint64(_COUNTS[bits])
    for i in range(8 * whole, n):
        out[found] = i
        found += np.uint64(chosen[i])
    return np.int64(found)
