"""Loops over lanes that are vector code by construction.

`lane_loop` compiles a Python function of rows. The function is called while numba compiles, with symbols for the
numbers of several lanes; operators on them emit one instruction for all of these lanes. Compilers make vector code of
plain loops too, but how they do it depends on the number of lanes and on what they can find out about memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

# Untyped, as the annotations of numba do not fit functions with arguments.
intrinsic: Any = numba_intrinsic

# Rows of fast loops hold a multiple of so many lanes: a whole cache line of float64.
WIDTH = 8
# Lanes that are worked on together, as long as there are so many: lists are looked up once for all of them, and vectors
# do not wait for each other.
_STRIDES = (64, 32, 16, 8, 1)
# The same for short rows of any length, of which much may be left over.
FEW = (8, 4, 2, 1)

INT8, INT32, INT64 = map(ir.IntType, (8, 32, 64))
FLOAT32, FLOAT64 = ir.FloatType(), ir.DoubleType()
_ELEMENTS = {
    types.int8: INT8, types.int32: INT32, types.uint64: INT64, types.float32: FLOAT32, types.float64: FLOAT64,
}  # fmt: skip
# Products are added in one instruction where the machine has one.
_FLAGS = ("contract",)


def padded(lanes: int) -> int:
    """Return the length of a row of so many lanes."""
    return -(-lanes // WIDTH) * WIDTH


class Vector:
    """Numbers of several lanes in a loop that is being compiled."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder, self.value = builder, value

    @property
    def element(self) -> ir.Type:
        return self.value.type.element

    def _like(self, other: Any) -> ir.Value:
        """Return a vector of the same type: `other` itself, or a number in each lane."""
        return other.value if isinstance(other, Vector) else self.value.type([other] * self.value.type.count)

    def _apply(self, real: str, whole: str, *operands: Any) -> Vector:
        """Emit an operation that has one name for real numbers and another for whole ones."""
        values = [self._like(operand) for operand in operands]
        if self.element in (FLOAT32, FLOAT64):
            return Vector(self.builder, getattr(self.builder, real)(*values, flags=_FLAGS))
        return Vector(self.builder, getattr(self.builder, whole)(*values))

    def __add__(self, other: Any) -> Vector:
        return self._apply("fadd", "add", self, other)

    def __sub__(self, other: Any) -> Vector:
        return self._apply("fsub", "sub", self, other)

    def __rsub__(self, other: Any) -> Vector:
        return self._apply("fsub", "sub", other, self)

    def __mul__(self, other: Any) -> Vector:
        return self._apply("fmul", "mul", self, other)

    def __truediv__(self, other: Any) -> Vector:
        return self._apply("fdiv", "sdiv", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __xor__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.xor(self.value, self._like(other)))

    def __and__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.and_(self.value, self._like(other)))

    def __or__(self, other: Any) -> Vector:
        return Vector(self.builder, self.builder.or_(self.value, self._like(other)))

    def __lshift__(self, bits: int) -> Vector:
        return Vector(self.builder, self.builder.shl(self.value, self._like(bits)))

    def __rshift__(self, bits: int) -> Vector:
        return Vector(self.builder, self.builder.lshr(self.value, self._like(bits)))

    def __lt__(self, other: Any) -> Vector:
        return self._compare("<", other)

    def __gt__(self, other: Any) -> Vector:
        return self._compare(">", other)

    def _compare(self, sign: str, other: Any) -> Vector:
        real = self.element in (FLOAT32, FLOAT64)
        compare = self.builder.fcmp_ordered if real else self.builder.icmp_signed
        return Vector(self.builder, compare(sign, self.value, self._like(other)))

    def within(self, low: float, high: float) -> Vector:
        """Return the nearest numbers between `low` and `high`."""
        raised = (self < low).choose(low, self)
        return (raised < high).choose(raised, high)

    def choose(self, yes: Any, no: Any) -> Vector:
        """Return `yes` where a comparison holds, and `no` elsewhere; one of them is a vector."""
        like = yes if isinstance(yes, Vector) else no
        return Vector(self.builder, self.builder.select(self.value, like._like(yes), like._like(no)))

    def to(self, element: ir.Type) -> Vector:
        """Return the same numbers in another type; of a comparison, 1 where it holds and 0 elsewhere."""
        target, own = ir.VectorType(element, self.value.type.count), self.element
        if own == element:
            return self
        if own == ir.IntType(1):
            numbers = (1, 0) if isinstance(element, ir.IntType) else (1.0, 0.0)
            one, zero = (target([number] * target.count) for number in numbers)
            return Vector(self.builder, self.builder.select(self.value, one, zero))
        if isinstance(own, ir.IntType):
            if isinstance(element, ir.IntType):
                change = self.builder.sext if own.width < element.width else self.builder.trunc
                return Vector(self.builder, change(self.value, target))
            whole = self.to(INT32)  # for which there are instructions
            return Vector(self.builder, self.builder.sitofp(whole.value, target))
        change = self.builder.fpext if own == FLOAT32 else self.builder.fptrunc
        return Vector(self.builder, change(self.value, target))

    def bits_as(self, element: ir.Type) -> Vector:
        """Return what the bits mean in another type."""
        return Vector(self.builder, self.builder.bitcast(self.value, ir.VectorType(element, self.value.type.count)))


class Row:
    """A row of an array, (lanes,), in a loop that is being compiled: some of its lanes can be read and written."""

    def __init__(self, builder: ir.IRBuilder, data: ir.Value, kind: Any, lane: ir.Value, count: int) -> None:
        vector = ir.VectorType(_ELEMENTS[kind.dtype], count)
        self.builder, self.element, self.align = builder, _ELEMENTS[kind.dtype], kind.dtype.bitwidth // 8
        self.place = builder.bitcast(builder.gep(data, [lane]), vector.as_pointer())

    def read(self) -> Vector:
        return Vector(self.builder, self.builder.load(self.place, align=self.align))

    def write(self, vector: Vector) -> None:
        self.builder.store(vector.value, self.place, align=self.align)


class Rows:
    """Some rows of a matrix, (rows, lanes), in a loop that is being compiled: those that lists name in a few entries.

    It is called with a tuple of the matrix, the lists, and the first entry and the end of those that count. Lists of
    int32 name rows; others hold a number for each entry.
    """

    def __init__(
        self, builder: ir.IRBuilder, kinds: Any, words: Sequence[ir.Value], lane: ir.Value, count: int
    ) -> None:
        self.builder, self.lane, self.count = builder, lane, count
        (self.matrix, self.length), self.lists, self.ends = words[:2], words[2:-2], words[-2:]
        self.kind, self.kinds = kinds[0], kinds[1:-2]

    def total(self, element: ir.Type, term: Callable[..., Vector]) -> Vector:
        """Return the sum of `term`, a function of what each list has in an entry: a `Row`, or a number in each lane."""
        builder, kind = self.builder, ir.VectorType(element, self.count)
        place = cgutils.alloca_once(builder, kind)
        builder.store(kind([0] * self.count), place)
        first, end = self.ends
        with cgutils.for_range_slice(builder, first, end, INT64(1), INT64) as (entry, _):
            found = [builder.load(builder.gep(words, [entry])) for words in self.lists]
            terms = (
                self._row(value) if listed.dtype == types.int32 else _spread(builder, value, self.count)
                for listed, value in zip(self.kinds, found, strict=True)
            )
            builder.store((Vector(builder, builder.load(place)) + term(*terms)).value, place)
        return Vector(builder, builder.load(place))

    def _row(self, site: ir.Value) -> Row:
        start = self.builder.mul(self.builder.zext(site, INT64), self.length)
        return Row(self.builder, self.matrix, self.kind, self.builder.add(start, self.lane), self.count)


def lane_loop(counts: int = 0, strides: Sequence[int] = _STRIDES) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function of rows, (lanes,) each, numbers, and tuples for `Rows`, as a loop over lanes.

    It is called with a `Row`, a `Vector` or `Rows` in place of each argument, the first of which is a row. If it
    returns `counts` comparisons, the loop returns in how many lanes each of them holds. `strides` are the numbers of
    lanes that are worked on together, as long as there are so many; the last is 1.
    """

    def decorate(body: Callable[..., Any]) -> Any:
        @intrinsic
        def loop(typing_context, *arguments):
            result = types.UniTuple(types.int64, counts) if counts else types.void

            def generate(context, builder, signature, values):
                words = [
                    _words(context, builder, kind, builder.extract_value(values[0], k))
                    for k, kind in enumerate(arguments)
                ]
                lanes = context.make_array(arguments[0])(context, builder, builder.extract_value(values[0], 0)).nitems
                function = _function(builder.module, body, arguments, words, counts, strides)
                found = builder.call(function, [lanes, *chain.from_iterable(words)])
                if not counts:
                    return context.get_dummy_value()
                totals = [builder.extract_value(found, k) for k in range(counts)]
                return context.make_tuple(builder, result, totals)

            return result(types.StarArgTuple(arguments)), generate

        return loop

    return decorate


def _words(context: Any, builder: ir.IRBuilder, kind: Any, value: ir.Value) -> list[ir.Value]:
    """Return what a loop gets of an argument: where a row begins, a byte, a number as float64, or those of `Rows`."""
    if isinstance(kind, types.Array):
        return [context.make_array(kind)(context, builder, value).data]
    if isinstance(kind, types.Tuple | types.UniTuple):
        values = [builder.extract_value(value, k) for k in range(len(kind.types))]
        if kind.types[0].layout != "C":
            raise TypeError(f"rows must be those of a matrix that is stored row by row, got {kind.types[0]}")
        matrix = context.make_array(kind.types[0])(context, builder, values[0])
        length = cgutils.unpack_tuple(builder, matrix.shape)[1]
        lists = [_words(context, builder, *pair)[0] for pair in zip(kind.types[1:-2], values[1:-2], strict=True)]
        ends = [context.cast(builder, *pair, types.int64) for pair in zip(values[-2:], kind.types[-2:], strict=True)]
        return [matrix.data, length, *lists, *ends]
    return [value if kind == types.int8 else context.cast(builder, value, kind, types.float64)]


def _function(
    module: ir.Module,
    body: Any,
    kinds: Sequence[Any],
    words: Sequence[Sequence[ir.Value]],
    counts: int,
    strides: Sequence[int],
) -> ir.Function:
    """Return the loop as a function of a module, of which there is one however often it is called.

    Were it inlined wherever it is called, it would be compiled as often.
    """
    line = body.__code__.co_firstlineno
    name = f"{body.__module__}.{body.__qualname__}:{line}({', '.join(map(str, kinds))})"
    if name in module.globals:
        return module.globals[name]
    result = ir.LiteralStructType([INT64] * counts) if counts else ir.VoidType()
    signature = ir.FunctionType(result, [INT64, *(word.type for word in chain.from_iterable(words))])
    function = ir.Function(module, signature, name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    totals = [cgutils.alloca_once_value(builder, INT64(0)) for _ in range(counts)]
    given, done = iter(function.args), INT64(0)
    lanes, *values = (list(islice(given, size)) for size in (1, *map(len, words)))
    for stride in strides:
        end = builder.sub(*lanes, builder.urem(*lanes, INT64(stride)))
        makers = [_argument(builder, kind, own, stride) for kind, own in zip(kinds, values, strict=True)]
        with cgutils.for_range_slice(builder, done, end, INT64(stride), INT64) as (lane, _):
            arguments = (make(lane) for make in makers)
            for total, mask in zip(totals, body(*arguments) or (), strict=True):
                held = builder.ctpop(builder.zext(builder.bitcast(mask.value, ir.IntType(stride)), INT64))
                builder.store(builder.add(builder.load(total), held), total)
        done = end
    if counts:
        builder.ret(cgutils.pack_struct(builder, list(map(builder.load, totals))))
    else:
        builder.ret_void()
    return function


def _argument(
    builder: ir.IRBuilder, kind: Any, words: Sequence[ir.Value], stride: int
) -> Callable[[ir.Value], Row | Rows | Vector]:
    """Return a function of the first lane of a stride, which returns what the body gets."""
    if isinstance(kind, types.Tuple | types.UniTuple):
        return lambda lane: Rows(builder, kind.types, words, lane, stride)
    (word,) = words
    if isinstance(kind, types.Array):
        return lambda lane: Row(builder, word, kind, lane, stride)
    number = _spread(builder, word, stride)
    return lambda lane: number


def _spread(builder: ir.IRBuilder, number: ir.Value, count: int) -> Vector:
    """Return a number in each of some lanes."""
    vector = ir.VectorType(number.type, count)
    alone = builder.insert_element(vector(ir.Undefined), number, INT32(0))
    everywhere = ir.Constant(ir.VectorType(INT32, count), [0] * count)
    return Vector(builder, builder.shuffle_vector(alone, vector(ir.Undefined), everywhere))
