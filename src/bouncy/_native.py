"""Machine addresses: calls from compiled loops to functions that they were not compiled with.

A part of a sampler is laid out in memory as compiled code expects it, and a function gets its address. A loop that
calls by address is compiled once for all targets, and contains no code of a user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, typeof, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from bouncy._compile import kernel

# Untyped, as the annotations of numba do not fit functions with arguments.
intrinsic: Any = numba_intrinsic
_POINTER = ir.IntType(8).as_pointer()
# numba types of the arguments of functions that are called by address.
_KINDS = {ir.PointerType: types.voidptr, ir.IntType: types.int64, ir.DoubleType: types.float64}
# Suffix of the name of the C entry of a function.
_ENTRY = ".entry"
# What functions that return no number return instead: no failure, it raised, or BAD_AT + the entry that went wrong.
FINE, RAISED, BAD_AT = 0, -1, 1


class Owner:
    """Keeps objects alive as long as the array that `np.asarray` makes of it, which has the memory of another one.

    They are its attributes: `np.asarray(Owner(array, part=part)).base.part`.
    """

    def __init__(self, array: NDArray[Any], **kept: Any) -> None:
        self._array = array
        vars(self).update(kept)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__


@intrinsic
def dereference(typing_context, pointer):
    """Return the part at a pointer."""

    def generate(context, builder, signature, arguments):
        return context.unpack_value(builder, pointer.dtype, arguments[0])

    return pointer.dtype(pointer), generate


@intrinsic
def array_at(typing_context, pointer, size):
    """Return the array of `size` entries that begins at a pointer."""
    kind = types.Array(pointer.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        array = context.make_array(kind)(context, builder)
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(pointer.dtype)))
        length = context.cast(builder, arguments[1], size, types.intp)
        populate_array(array, data=arguments[0], shape=[length], strides=[itemsize], itemsize=itemsize, meminfo=None)
        return array._getvalue()

    return kind(pointer, size), generate


@intrinsic
def _write(typing_context, part, address):
    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[1], context.get_data_type(part).as_pointer())
        context.pack_value(builder, part, arguments[0], place)
        return context.get_dummy_value()

    return types.void(part, types.intp), generate


@kernel
def _write_to(part, address):
    _write(part, address)


def lay_out(part: Any) -> NDArray[np.int64]:
    """Return memory that holds a tuple of arrays and numbers as compiled code expects it.

    It does not keep the arrays alive.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise RuntimeError("targets other than MRF exist as compiled code only; unset NUMBA_DISABLE_JIT to use them")
    context = cpu_target.target_context
    memory = np.zeros(-(-context.get_abi_sizeof(context.get_data_type(typeof(part))) // 8), np.int64)
    _write_to(part, memory.ctypes.data)
    return memory


def address_of(function: Any, *arguments: Any) -> int:
    """Return the address of the C entry of a function for numba types of arguments, compiling it if necessary.

    A function has a C entry if it returns through a `returner`.
    """
    function.compile(arguments)
    compiled = function.overloads[arguments]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name + _ENTRY)
    return address


def pointer_to(part: Any) -> Any:
    """Return the numba type of a pointer to a part."""
    return types.CPointer(typeof(part))


def returner(failure: float) -> Callable[..., Any]:
    """Return a compiled identity function for the return statements of functions that are called by address.

    It adds a C entry to the function that it is used in, `result(arguments)`, which returns `failure` if that raises:
    no frame above could catch it. numba's own convention returns results in memory, and its wrapper for C is one more
    call; either takes as long as many functions do.
    """

    @intrinsic
    def returned(typing_context, value):
        def generate(context, builder, signature, arguments):
            _add_entry(context, builder, value, failure)
            return arguments[0]

        return value(value), generate

    return returned  # type: ignore[no-any-return]


def _add_entry(context: Any, builder: Any, result: Any, failure: float) -> None:
    """Add a C entry to the function that is being built, unless another of its return statements did."""
    inner = builder.function
    if inner.name + _ENTRY in builder.module.globals:
        return
    words = [argument.type for argument in inner.args[2:]]  # after the places for a result and for an exception
    entry = ir.Function(builder.module, ir.FunctionType(context.get_value_type(result), words), inner.name + _ENTRY)
    body = ir.IRBuilder(entry.append_basic_block())
    kinds = [next(kind for word_type, kind in _KINDS.items() if isinstance(word, word_type)) for word in words]
    status, value = context.call_conv.call_function(body, inner, result, kinds, entry.args, attrs=("alwaysinline",))
    body.ret(body.select(status.is_error, context.get_constant(result, failure), value))


def caller(result: Any) -> Callable[..., Any]:
    """Return a compiled function that calls an address and returns a value of the numba type `result`.

    The first argument is the address to call, the second that of the part. An array is passed as its pointer and its
    size, a number as 64 bits.
    """

    @intrinsic
    def call(typing_context, address, data, *arguments):
        for argument in arguments:
            _check_can_be_passed(argument)

        def generate(context, builder, signature, values):
            words = [builder.inttoptr(values[1], _POINTER)]
            for k, argument in enumerate(arguments):
                words += _as_words(context, builder, argument, builder.extract_value(values[2], k))
            function_type = ir.FunctionType(context.get_value_type(result), [word.type for word in words])
            return builder.call(builder.inttoptr(values[0], function_type.as_pointer()), words)

        return result(types.intp, types.intp, types.StarArgTuple(arguments)), generate

    return call  # type: ignore[no-any-return]


# How functions of targets return, and are called: a number, NaN if they raise, or a status.
as_number = returner(float("nan"))
as_status = returner(RAISED)
call_number = caller(types.float64)
call_status = caller(types.int64)


def _check_can_be_passed(kind: Any) -> None:
    """Raise unless an array holds spins, sites or float64 numbers and is contiguous."""
    if not isinstance(kind, types.Array):
        return
    if kind.dtype not in (types.int8, types.int32, types.float64) or (kind.ndim, kind.layout) != (1, "C"):
        raise TypingError(f"expected a contiguous array of int8, int32 or float64, got {kind}")


def _as_words(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    if not isinstance(kind, types.Array):
        return [context.cast(builder, value, kind, types.float64 if isinstance(kind, types.Float) else types.int64)]
    array = context.make_array(kind)(context, builder, value)
    return [array.data, array.nitems]


@intrinsic
def keep_apart(typing_context):
    """Prevent the calling function from being inlined."""

    def generate(context, builder, signature, arguments):
        attributes = builder.function.attributes
        attributes.discard("alwaysinline")  # inherited from an inlined function that it was compiled for
        attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def read_only(typing_context, array):
    """Return the array with a read-only type."""

    def generate(context, builder, signature, arguments):
        return arguments[0]

    return frozen_type(array)(array), generate


@intrinsic
def joined(typing_context, one, other):
    """Return the elements of two tuples in one; arrays in the second are read-only."""
    kinds = [*one, *(frozen_type(kind) for kind in other)]

    def generate(context, builder, signature, arguments):
        values = [builder.extract_value(both, k) for both in arguments for k in range(len(both.type.elements))]
        return context.make_tuple(builder, signature.return_type, values)

    return types.Tuple(kinds)(one, other), generate


def frozen_type(kind: Any) -> Any:
    """Return the numba type of a read-only version of arrays; the layout in memory is the same."""
    if isinstance(kind, types.Array):
        return kind.copy(readonly=True)
    if isinstance(kind, types.NamedUniTuple):
        return types.NamedUniTuple(frozen_type(kind.dtype), kind.count, kind.instance_class)
    if isinstance(kind, types.BaseNamedTuple):
        return types.NamedTuple([frozen_type(item) for item in kind], kind.instance_class)  # type: ignore[attr-defined]
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([frozen_type(item) for item in kind])  # type: ignore[attr-defined]
    return kind
