"""Fields of a JSON document, taken one by one and checked; errors name the field."""

from __future__ import annotations

import math
from typing import Any

from bouncy.formats.files._sites import labels_from_json
from bouncy.formats.files._source import Source

_REQUIRED = object()


class Fields:
    """Fields of a JSON object that have not been taken yet."""

    def __init__(self, source: Source, content: dict[str, Any]) -> None:
        self.source = source
        self._left = dict(content)
        self._known: list[str] = []

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return and remove the value of a field; a missing field has the default."""
        self._known.append(name)
        if name not in self._left and default is _REQUIRED:
            raise self.source.error("is missing", field=name)
        return self._left.pop(name, default)

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """Take a finite number."""
        return number(self.source, self.take(name, default), name)

    def numbers(self, name: str) -> list[float]:
        """Take a list of finite numbers."""
        return [number(self.source, value, f"{name}[{i}]") for i, value in enumerate(self.rows(name))]

    def rows(self, name: str) -> list[Any]:
        """Take a list of anything."""
        return listed(self.source, self.take(name), name)

    def choice(self, name: str, choices: tuple[Any, ...]) -> Any:
        """Take one of the given strings or booleans."""
        value = self.take(name)
        if type(value) is not type(choices[0]) or value not in choices:
            raise self.source.error(f"must be {' or '.join(map(repr, choices))}, got {shown(value)}", field=name)
        return value

    def count(self, name: str, bytes_each: int) -> int:
        """Take an integer >= 1, of units that take `bytes_each` in memory."""
        value = self.take(name)
        if type(value) is not int or value < 1:
            raise self.source.error(f"must be an integer >= 1, got {shown(value)}", field=name)
        self.check_memory(value * bytes_each, name)
        return value

    def labels(self, d: int) -> tuple[Any, ...] | None:
        """Take the labels of d sites; None where they are numbered."""
        return labels_from_json(self.source, self.take("labels", None), d)

    def check_memory(self, needed: int, name: str) -> None:
        """Raise if a field would take more memory than the limit on the file."""
        if needed > self.source.max_bytes:
            raise self.source.error(
                f"asks for about {needed:.3g} bytes, over the limit of {self.source.max_bytes}; pass max_bytes= to "
                "raise it if you trust the file",
                field=name,
            )

    def finish(self) -> None:
        """Raise if a field is left, which is unknown."""
        for name in self._left:
            raise self.source.error(f"is not a field here; known are {', '.join(self._known)}", field=repr(name[:40]))


def number(source: Source, value: Any, field: str) -> float:
    """Return a finite number as a float."""
    if type(value) is not float and type(value) is not int:
        raise source.error(f"must be a number, got {shown(value)}", field=field)
    try:
        converted = float(value)
    except OverflowError:
        converted = math.inf
    if not math.isfinite(converted):
        raise source.error("must be a number that fits in a float64", field=field)
    return converted


def site(source: Source, value: Any, field: str, d: int) -> int:
    """Return the number of a site."""
    if type(value) is not int or not 0 <= value < d:
        raise source.error(f"must be a site, an integer from 0 to {d - 1}, got {shown(value)}", field=field)
    return value


def sites(source: Source, value: Any, field: str, d: int) -> tuple[int, ...]:
    """Return the numbers of sites that are all different."""
    found: dict[int, None] = {}
    for k, entry in enumerate(listed(source, value, field)):
        i = site(source, entry, f"{field}[{k}]", d)
        if i in found:
            raise source.error(f"is the site {i}, which was named before", field=f"{field}[{k}]")
        found[i] = None
    return tuple(found)


def listed(source: Source, value: Any, field: str, length: int | None = None) -> list[Any]:
    """Return a list, of the given length if there is one."""
    if type(value) is not list:
        raise source.error(f"must be a list, got {shown(value)}", field=field)
    if length is not None and len(value) != length:
        raise source.error(f"must have {length} entries, got {len(value)}", field=field)
    return value


def shown(value: Any) -> str:
    """Return a value for a message; containers, which may be deep, are only named."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    return repr(value[:40] if isinstance(value, str) else value)[:60]
