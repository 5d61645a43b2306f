"""Functions that choose their body by the type of their first argument, compiled and interpreted alike.

A part of a sampler (a target, a clock, a toll, a recorder of pairs) is a `NamedTuple` of arrays. What can be done
with it is declared once by `generic` and given for one type of tuple by `implements`, so that a new part is a new
file and no loop has to know about it. numba resolves the choice while it compiles: the body is inlined, and a
compiled loop can be reloaded from the disk cache, which closures and functions passed as arguments cannot.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Any, TypeVar

from numba import types
from numba.extending import overload

from bouncy._inlining import INLINED

Function = TypeVar("Function", bound=Callable[..., Any])


# Lowest and highest values of an array of a part, each a number or an array of its shape.
Bounds = Callable[[Any], tuple[Any, Any]] | None
# Largest finite number.
FINITE = sys.float_info.max

_state_fields: dict[type, tuple[str, ...]] = {}
_bounds: dict[type, Mapping[str, Bounds]] = {}


def part(*state: str, bounds: Mapping[str, Bounds] = MappingProxyType({})) -> Callable[[type], Any]:
    """Declare a `NamedTuple` to be a part of a sampler and name the arrays that change while a chain runs.

    A name is that of a field, or of a property that returns a list of arrays. All other arrays describe the model or
    are scratch: they may be shared between chains, and a copy of the state can do without them. Fields that are parts,
    and a property `inside` that is one, have states of their own.

    `bounds` gives, for a part in any state, the least and the largest values of arrays that compiled code uses as
    indices or counts, or whose numbers could keep it from coming to an end. A state that is restored is checked
    against them; None allows every number, and those of other arrays must be finite.
    """

    def register(part_type: type) -> type:
        _state_fields[part_type] = state
        _bounds[part_type] = bounds
        return part_type

    return register


def parts() -> Set[type]:
    """Return the types that were declared to be parts."""
    return _state_fields.keys()


def state_arrays(*parts: Any) -> list[Any]:
    """Return the arrays, of these parts and of the parts inside them, that change while a chain runs."""
    return [array for item in parts for array in named_state("", item).values()]


def named_state(name: str, item: Any) -> dict[str, Any]:
    """Return the arrays of a part, and of the parts inside it, that change while a chain runs, by dotted names."""
    arrays: dict[str, Any] = {}
    for field in _state_fields[type(item)]:
        found = getattr(item, field)
        if isinstance(found, list):
            arrays |= {f"{name}.{field}.{k}": array for k, array in enumerate(found)}
        else:
            arrays[f"{name}.{field}"] = found
    for field, inner in _inner_parts(item).items():
        arrays |= named_state(f"{name}.{field}", inner)
    return arrays


def check_bounds(state: Mapping[str, Any], name: str, item: Any) -> None:
    """Raise `ValueError` if an array of a state, by its dotted name, has a value that it can never have in a part."""
    for field in _state_fields[type(item)]:
        bounds = _bounds[type(item)].get(field, _finite)
        if bounds is not None:
            check_range(f"{name}.{field}", state[f"{name}.{field}"], *bounds(item))
    for field, inner in _inner_parts(item).items():
        check_bounds(state, f"{name}.{field}", inner)


def check_range(name: str, array: Any, low: Any = -FINITE, high: Any = FINITE) -> None:
    """Raise `ValueError` unless all numbers of an array are in range, by default finite, and no generator is all 0."""
    inside = (array >= low) & (array <= high)  # a comparison with NaN is false
    if not inside.all() or (name.endswith(".rng") and not array.any()):
        raise ValueError(f"{name} holds numbers that are out of range")


def _finite(item: Any) -> tuple[float, float]:
    return -FINITE, FINITE


def _inner_parts(item: Any) -> dict[str, Any]:
    """Return the parts inside a part, by name: some of its fields, and its property `inside`."""
    found = {**item._asdict(), "inside": getattr(item, "inside", None)}
    return {name: inner for name, inner in found.items() if type(inner) in _state_fields}


def generic(declaration: Function) -> Function:
    """Turn a documented, empty function into one that dispatches on the type of its first argument."""
    bodies: dict[type, Callable[..., Any]] = {}

    def call(part: Any, *arguments: Any) -> Any:
        try:
            body = bodies[type(part)]
        except KeyError:
            known = ", ".join(sorted(kind.__name__ for kind in bodies)) or "none"
            raise TypeError(
                f"{declaration.__name__} is not implemented for {type(part).__name__} (implemented for: {known})"
            ) from None
        return body(part, *arguments)

    call.__name__ = declaration.__name__
    call.__doc__ = declaration.__doc__
    call.bodies = bodies  # type: ignore[attr-defined]

    @overload(call, strict=False, jit_options=INLINED)
    def choose(first, *arguments):
        return bodies.get(first.instance_class) if isinstance(first, types.BaseNamedTuple) else None  # type: ignore[attr-defined]

    return call  # type: ignore[return-value]


def implements(function: Callable[..., Any], part_type: type) -> Callable[[Function], Function]:
    """Give the body of a generic function for one type of tuple."""

    def register(body: Function) -> Function:
        function.bodies[part_type] = body  # type: ignore[attr-defined]
        return body

    return register
