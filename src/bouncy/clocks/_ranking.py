"""Sorting a few numbers by comparing each with all others, in vector code and without a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import overload

from bouncy._inlining import INLINED
from bouncy._lane_loop import FLOAT64, INT32, INT64, lane_loop

# Untyped, as the annotations of numba do not fit functions with arguments.
intrinsic: Any = numba_intrinsic

# Most numbers that are sorted like this: time grows as the square of how many they are.
MOST_RANKED = 64
# Numbers that are compared with one at a time.
_TOGETHER = 16
# The last bits of a number, which tell it from all others.
_PLACES = np.arange(MOST_RANKED, dtype=np.uint64)
_REST: int = -MOST_RANKED


def rank_pairs(keys, labels, n, sorted_keys, sorted_labels):
    """Write the first n of `keys`, none less than 0, in their order into `sorted_keys`, and so with their labels.

    The last bits of keys are replaced by their places, so that no two are equal. All arrays but `labels` have room for
    a multiple of 16, and `keys` are less than what follows them there.
    """
    bits = keys.view(np.int64)
    bits[:] = (bits & _REST) | _PLACES[: keys.size].view(np.int64)
    order = np.argsort(keys[:n])
    sorted_keys[:n], sorted_labels[:n] = keys[order], labels[order]


@overload(rank_pairs, strict=False, jit_options=INLINED)
def _rank_pairs_compiled(keys, labels, n, sorted_keys, sorted_labels):
    def rank(keys, labels, n, sorted_keys, sorted_labels):
        _number(keys, _PLACES)
        _rank(n, keys, labels, sorted_keys, sorted_labels)

    return rank


@lane_loop()
def _number(keys, places):
    keys.write(((keys.read().bits_as(INT64) & _REST) | places.read()).bits_as(FLOAT64))


@intrinsic
def _rank(typing_context, n, *arrays):
    def generate(context, builder, signature, values):
        rows = cgutils.unpack_tuple(builder, values[1])
        data = [context.make_array(kind)(context, builder, row).data for kind, row in zip(arrays, rows, strict=True)]
        builder.call(_ranker(builder.module, [place.type for place in data]), [values[0], *data])
        return context.get_dummy_value()

    return types.void(types.int64, types.StarArgTuple(arrays)), generate


def _ranker(module: ir.Module, pointers: list[ir.Type]) -> ir.Function:
    """Return a function that puts each of n pairs where it belongs, by the number of keys that are less."""
    name = f"{__name__}({', '.join(map(str, pointers))})"
    if name in module.globals:
        return module.globals[name]
    keys_together, ranks_together = (ir.VectorType(element, _TOGETHER) for element in (FLOAT64, INT64))
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [INT64, *pointers]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    n, keys, labels, sorted_keys, sorted_labels = function.args
    ranks = cgutils.alloca_once(builder, ranks_together)
    with cgutils.for_range_slice(builder, INT64(0), n, INT64(_TOGETHER), INT64) as (first, _):
        own = builder.load(builder.bitcast(builder.gep(keys, [first]), keys_together.as_pointer()), align=8)
        builder.store(ranks_together(None), ranks)
        with cgutils.for_range(builder, n, intp=INT64) as loop:
            key = builder.load(builder.gep(keys, [loop.index]))
            alone = builder.insert_element(keys_together(ir.Undefined), key, INT32(0))
            everywhere = ir.Constant(ir.VectorType(INT32, _TOGETHER), None)
            key = builder.shuffle_vector(alone, keys_together(ir.Undefined), everywhere)
            before = builder.load(ranks)
            next_ranks = builder.add(before, ranks_together([1] * _TOGETHER))
            builder.store(builder.select(builder.fcmp_ordered("<", key, own), next_ranks, before), ranks)
        found = builder.load(ranks)
        for k in range(_TOGETHER):
            rank = builder.extract_element(found, INT32(k))
            label = builder.load(builder.gep(labels, [builder.add(first, INT64(k))]))
            builder.store(builder.extract_element(own, INT32(k)), builder.gep(sorted_keys, [rank]))
            builder.store(label, builder.gep(sorted_labels, [rank]))
    builder.ret_void()
    return function
