"""Arithmetic over lanes: rows of numbers, one for each of several chains that move together.

All of it is free of branches, so that compilers turn loops over lanes into vector code of whatever machine there is.
Products of matrices are for rows of a multiple of `WIDTH` lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import overload, register_jitable
from scipy.special import erfcx

from bouncy._inlining import INLINED
from bouncy._lane_loop import FLOAT32, FLOAT64, INT32, INT64, WIDTH, Row, Vector, lane_loop
from bouncy._random import step

# Untyped, as the annotations of numba do not fit functions with arguments.
intrinsic: Any = numba_intrinsic
# Products are added in one instruction where the machine has one, and sums over lanes in any order.
vectorised: Any = register_jitable(**INLINED, fastmath={"contract", "reassoc"})

# Bytes of a cache line.
_LINE = 64
# Random numbers of a lane that are drawn together.
DRAWN = 4


@intrinsic
def _as_bits(typing_context, x):
    return types.uint64(types.float64), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.IntType(64)
    )


@intrinsic
def _as_float(typing_context, x):
    return types.float64(types.uint64), lambda context, builder, signature, values: builder.bitcast(
        values[0], ir.DoubleType()
    )


@intrinsic
def lowest_bit(typing_context, bits):
    """Return the place of the lowest bit that is set in a number that is not zero."""
    return types.uint64(types.uint64), lambda context, builder, signature, values: builder.cttz(
        values[0], ir.IntType(1)(True)
    )


# Exponential function

_LARGEST = 700.0
LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with zeros at its end, so that its multiples are exact.
_LOG_2, _LOG_2_REST = 6.93145751953125e-1, 1.42860682030941723212e-6
# Added to a number it rounds it to an integer, which is then in its last bits.
_ROUNDER = 1.5 * 2.0**52
_BIAS, _MANTISSA = np.uint64(1023), np.uint64(52)


def _polynomial(degree: int) -> tuple[float, ...]:
    """Return the coefficients of a polynomial that is exp between -log(2)/2 and log(2)/2: to 2e-16 for degree 10."""
    reach = 0.5001 * np.log(2.0)
    series = np.polynomial.chebyshev.Chebyshev.interpolate(np.exp, degree, domain=[-reach, reach])
    return tuple(map(float, series.convert(kind=np.polynomial.Polynomial).coef))


_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10 = _polynomial(10)


@vectorised
def _reduced(x):
    """Return what rounds to k in its last bits, and the exponential of x - k log 2."""
    rounded = x * LOG2_E + _ROUNDER
    k = rounded - _ROUNDER
    r = (x - k * _LOG_2) - k * _LOG_2_REST
    r2 = r * r
    r4 = r2 * r2
    low = (_C0 + _C1 * r) + (_C2 + _C3 * r) * r2
    high = (_C4 + _C5 * r) + (_C6 + _C7 * r) * r2
    return rounded, low + r4 * (high + r4 * ((_C8 + _C9 * r) + _C10 * r2))


@vectorised
def exp(x):
    """Return e^x to 2e-15, for x beyond +-700 that of +-700."""
    rounded, value = _reduced(min(max(x, -_LARGEST), _LARGEST))
    return value * _as_float((_as_bits(rounded) + _BIAS) << _MANTISSA)


def vector_exp(x: Vector) -> Vector:
    """Return what `exp` does, of float64."""
    rounded, value = _reduced(x.within(-_LARGEST, _LARGEST))
    power: Vector = value * ((rounded.bits_as(INT64) + 1023) << 52).bits_as(FLOAT64)
    return power


# Tails of the normal distribution

# Where the argument of the polynomial is zero.
_MIDDLE = 4.0


def _tail_polynomial() -> tuple[float, ...]:
    """Return the coefficients of P(normal > z) exp(z^2 / 2) in s = (z - 4) / (z + 4): to 2e-15."""
    z = lambda s: _MIDDLE * (1.0 + s) / np.maximum(1.0 - s, 1e-300)  # noqa: E731
    tail = lambda s: 0.5 * erfcx(z(s) / np.sqrt(2.0))  # noqa: E731
    series = np.polynomial.chebyshev.Chebyshev.interpolate(tail, 20)
    return tuple(map(float, series.convert(kind=np.polynomial.Polynomial).coef))


(
    _T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12, _T13, _T14, _T15, _T16, _T17, _T18, _T19, _T20,
) = _tail_polynomial()  # fmt: skip


@vectorised
def scaled_tail(z):
    """Return P(normal > z) exp(z^2 / 2) to 2e-15, for z >= 0."""
    s = (z - _MIDDLE) / (z + _MIDDLE)
    t = s * s
    even = _T12 + t * (_T14 + t * (_T16 + t * (_T18 + t * _T20)))
    even = _T0 + t * (_T2 + t * (_T4 + t * (_T6 + t * (_T8 + t * (_T10 + t * even)))))
    odd = _T11 + t * (_T13 + t * (_T15 + t * (_T17 + t * _T19)))
    return even + s * (_T1 + t * (_T3 + t * (_T5 + t * (_T7 + t * (_T9 + t * odd)))))


# Functions in single precision, for twice as many lanes at a time

_SINGLE_LARGEST = 80.0
_SINGLE_LOG_2, _SINGLE_LOG_2_REST = 0.693359375, math.log(2.0) - 0.693359375
_SINGLE_ROUNDER = 1.5 * 2.0**23
_S1, _S2, _S3, _S4, _S5, _S6 = _polynomial(6)[1:]


def single_tanh_half(x: Vector) -> Vector:
    """Return tanh(x/2) = (e^x - 1) / (e^x + 1) of float32, to 4e-7 of its value.

    e^x is 2^k + a with |a| < 2^k / 2, so that a keeps its digits where x is small.
    """
    x = x.within(-_SINGLE_LARGEST, _SINGLE_LARGEST)
    rounded = x * LOG2_E + _SINGLE_ROUNDER
    k = rounded - _SINGLE_ROUNDER
    r = (x - k * _SINGLE_LOG_2) - k * _SINGLE_LOG_2_REST
    r2 = r * r
    scale = ((rounded.bits_as(INT32) + 127) << 23).bits_as(FLOAT32)  # 2^k, as k is in the last bits of `rounded`
    a = scale * r * ((_S1 + _S2 * r) + r2 * ((_S3 + _S4 * r) + r2 * (_S5 + _S6 * r)))
    return (a + (scale - 1.0)) / (a + (scale + 1.0))


_MOST_POWER = 120.0
_P0, _P1, _P2, _P3, _P4 = (c * math.log(2.0) ** k for k, c in enumerate(_polynomial(4)))


def rough_power(x: Vector) -> Vector:
    """Return 2^x of float32 to 4e-6 of it, for x beyond +-120 that of +-120."""
    x = x.within(-_MOST_POWER, _MOST_POWER)
    rounded = x + _SINGLE_ROUNDER
    r = x - (rounded - _SINGLE_ROUNDER)
    value = _P0 + r * (_P1 + r * (_P2 + r * (_P3 + r * _P4)))
    return (value.bits_as(INT32) + (rounded.bits_as(INT32) << 23)).bits_as(FLOAT32)  # k is added to its exponent


# Random numbers

_ONE = np.uint64(0x3FF0000000000000)
_UNUSED = np.uint64(12)
# Half of the distance between two values, so that neither 0 nor 1 is one.
_HALF = 2.0**-53
# The distance between two beginnings of random numbers.
STEP = 2.0**-23


@vectorised
def _unit(bits):
    # The first 52 bits behind those of 1.0 make a number in [1, 2).
    return (_as_float((bits >> _UNUSED) | _ONE) - 1.0) + _HALF


def _beginning(bits: Vector, first: int) -> Vector:
    """Return a multiple of STEP in [0, 1) made of 23 bits, from number `first` on."""
    # Behind the bits of 1.0 they make a number in [1, 2).
    return ((bits >> first).to(INT32) & 0x7FFFFF | 0x3F800000).bits_as(FLOAT32) - 1.0


@lane_loop(strides=(WIDTH, 1))
def _draw(*rows: Row) -> None:
    states, out = rows[:4], rows[4:]
    a, b, c, d = (row.read() for row in states)
    for high, low in zip(out[::2], out[1::2], strict=True):
        bits, a, b, c, d = step(a, b, c, d)
        high.write(_beginning(bits, 41))
        low.write(_beginning(bits, 9))
    for row, word in zip(states, (a, b, c, d), strict=True):
        row.write(word)


@vectorised
def draw_beginnings(states, out):
    """Fill `out`, (DRAWN, lanes), with multiples of STEP in [0, 1), from a state of a generator per lane, (4, lanes).

    Each is the beginning of a uniform number; the rest of it, less than STEP, is that of `rest_of_number`.
    """
    _draw(states[0], states[1], states[2], states[3], out[0], out[1], out[2], out[3])


@vectorised
def draw_uniform(states, k):
    """Return a uniform number in (0, 1) from the generator of lane k."""
    bits, a, b, c, d = step(states[0, k], states[1, k], states[2, k], states[3, k])
    states[0, k], states[1, k], states[2, k], states[3, k] = a, b, c, d
    return _unit(bits)


_GOLDEN, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@vectorised
def rest_of_number(states, k, beginning):
    """Return what follows a beginning that lane k has drawn, in units of STEP: a uniform number in (0, 1).

    It is made of words of the state that numbers are not made of, by the finaliser of SplitMix64, and leaves the
    generator where it is: on no machine do later numbers depend on whether somebody asks.
    """
    x = states[1, k] + states[2, k] * _GOLDEN + np.uint64(beginning / STEP)
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return _unit(x ^ (x >> _S31))


# Memory


def _ask_for(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Ask for the cache line at a place, which need not be one of ours."""
    reading, soon, data = INT32(0), INT32(3), INT32(1)
    kind = ir.FunctionType(ir.VoidType(), [place.type, INT32, INT32, INT32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(ask, [place, reading, soon, data])


@intrinsic
def fetch(typing_context, row):
    """Ask for a row that will be needed soon, so that a loop that knows where it goes next does not wait for memory."""

    def generate(context, builder, signature, values):
        array = context.make_array(row)(context, builder, values[0])
        size = builder.mul(array.nitems, array.itemsize)
        begin = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        with cgutils.for_range_slice(builder, INT64(0), size, INT64(_LINE), INT64) as (offset, _):
            _ask_for(builder, builder.gep(begin, [offset]))
        return context.get_dummy_value()

    return types.void(row), generate


def fetch_number(array, place):
    """Ask for one number of an array, by its place in memory: `fetch` without a loop."""


@overload(fetch_number, strict=False, jit_options=INLINED)
def _fetch_number_compiled(array, place):
    return lambda array, place: _fetch_place(array, place)


@intrinsic
def _fetch_place(typing_context, array, place):
    def generate(context, builder, signature, values):
        numbers = context.make_array(array)(context, builder, values[0])
        _ask_for(builder, builder.bitcast(builder.gep(numbers.data, [values[1]]), ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


# Products of matrices


def _adder(rows: int, *strides: int, ahead: int = 0) -> Any:
    """Return a compiled function that adds products to some rows at a time, which stay in registers meanwhile.

    It goes through the lanes in the first stride as far as that leads, then in the next; the last is `WIDTH`. It asks
    for numbers of the matrix so far `ahead` of those it uses: no processor foresees a few of each of many rows.
    """
    vector = ir.VectorType(ir.DoubleType(), WIDTH)
    integer, small = ir.IntType(64), ir.IntType(32)
    nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(small, WIDTH), [0] * WIDTH)
    flags = ("contract",)

    @intrinsic
    def add(typing_context, out, row, matrix, start, step, who, n, factors):
        number = types.int64

        def generate(context, builder, signature, values):
            arrays = [
                context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            out, row, matrix, start, step, who, n, factors = arrays
            lanes = cgutils.unpack_tuple(builder, out.shape)[1]
            begin = [builder.mul(builder.add(row, integer(k)), lanes) for k in range(rows)]

            def place(array, index, lane, block):
                index = builder.add(index, builder.add(lane, integer(block * WIDTH)))
                return builder.bitcast(builder.gep(array.data, [index]), vector.as_pointer())

            def add_at(lane, blocks):
                """Add to `blocks` vectors of each row, from a lane on."""
                places = [[place(out, index, lane, block) for block in range(blocks)] for index in begin]
                sums = [[cgutils.alloca_once(builder, vector) for _ in range(blocks)] for _ in range(rows)]
                cells = [
                    (total, address)
                    for pair in zip(sums, places, strict=True)
                    for total, address in zip(*pair, strict=True)
                ]
                for total, address in cells:
                    builder.store(builder.load(address, align=8), total)
                with cgutils.for_range(builder, n) as loop:
                    site = builder.sext(builder.load(builder.gep(who.data, [loop.index])), integer)
                    entry = builder.add(start, builder.mul(site, step))
                    source = builder.mul(loop.index, lanes)
                    if ahead:
                        later = builder.gep(matrix.data, [builder.add(entry, integer(ahead))])
                        _ask_for(builder, builder.bitcast(later, ir.IntType(8).as_pointer()))
                    factor = [builder.load(place(factors, source, lane, block), align=8) for block in range(blocks)]
                    for k, totals in enumerate(sums):
                        weight = builder.load(builder.gep(matrix.data, [builder.add(entry, integer(k))]))
                        weight = builder.insert_element(nothing, weight, small(0))
                        weight = builder.shuffle_vector(weight, nothing, first)
                        for block, total in enumerate(totals):
                            product = builder.fmul(weight, factor[block], flags=flags)
                            builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
                for total, address in cells:
                    builder.store(builder.load(total), address, align=8)

            done = integer(0)
            for stride in strides:
                end = builder.sub(lanes, builder.urem(lanes, integer(stride)))
                with cgutils.for_range_slice(builder, done, end, integer(stride), integer) as (lane, _):
                    add_at(lane, stride // WIDTH)
                done = end
            return context.get_dummy_value()

        return types.void(out, number, matrix, number, number, who, number, factors), generate

    return add


# As many sums as fit into registers: with fewer, each would wait for the last product.
_add_to_six, _add_to_one = _adder(6, WIDTH, ahead=12), _adder(1, 4 * WIDTH, WIDTH)


@vectorised
def add_products(out, matrix, who, n, factors):
    """Add sum_k matrix[who[k], j] factors[k] to each row j of `out`, (rows, lanes), for the first n of `who`."""
    j = 0
    while j + 6 <= out.shape[0]:
        _add_to_six(out, j, matrix, j, matrix.shape[1], who, n, factors)
        j += 6
    while j < out.shape[0]:
        _add_to_one(out, j, matrix, j, matrix.shape[1], who, n, factors)
        j += 1


@vectorised
def add_product(out, matrix, i, who, n, factors):
    """Add sum_k matrix[i, who[k]] factors[k] to `out`, (1, lanes), for the first n of `who`."""
    _add_to_one(out, 0, matrix, i * matrix.shape[1], 1, who, n, factors)
