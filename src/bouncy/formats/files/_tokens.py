"""Words and numbers of text files; numbers are read more strictly than by Python: no underscores, `nan` or overflow."""

from __future__ import annotations

import math
import re
from itertools import islice

from bouncy.formats.files._source import ModelFileError, Source

# Longer digit strings do not fit in an int64, and Python takes quadratic time for them.
_DIGITS = 18
INDEX_END = 10**_DIGITS

_WORD = re.compile(rb"\S+")
_COMMENT = re.compile(rb"^c(?!\S)[^\n]*", re.MULTILINE)  # a line whose first word is c


def parse_index(token: bytes) -> int:
    """Return an integer >= 0 below 10^18, or raise `ValueError`."""
    if not token.isdigit():
        raise ValueError(f"expected an integer >= 0, got {show(token)}")
    if len(token) > _DIGITS:
        raise ValueError(f"expected an integer below 10^{_DIGITS}, got {show(token)}")
    return int(token)


def parse_number(token: bytes) -> float:
    """Return a finite float, or raise `ValueError`."""
    try:
        value = math.nan if b"_" in token else float(token)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {show(token)}")
    return value


def show(token: bytes) -> str:
    """Return a token for a message: quoted, printable, at most 40 characters."""
    text = token[:40].decode("ascii", "backslashreplace")
    return repr(text) + ("..." if len(token) > 40 else "")


class Tokens:
    """The words of a UAI file, wherever its lines end, taken one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = _COMMENT.sub(b"", source.text())
        self._words = _WORD.finditer(self._text)
        self._position = 0

    def word(self, what: str) -> bytes:
        """Take a word; `what` names it in the error at the end of the file."""
        found = next(self._words, None)
        if found is None:
            self._position = len(self._text.rstrip())
            raise self.error(f"the file ends where {what} should be")
        self._position = found.start()
        return found.group()

    def index(self, what: str, below: int | None = None) -> int:
        """Take an integer >= 0, and below a limit if there is one."""
        word = self.word(what)
        try:
            value = parse_index(word)
        except ValueError as error:
            raise self.error(f"{what}: {error}") from None
        if below is not None and value >= below:
            raise self.error(f"{what}: expected an integer from 0 to {below - 1}, got {show(word)}")
        return value

    def potentials(self, count: int, what: str) -> list[float]:
        """Take `count` finite numbers >= 0."""
        values: list[float] = []
        for found in islice(self._words, count):
            self._position = found.start()
            try:
                value = parse_number(found.group())
            except ValueError as error:
                raise self.error(f"entry {len(values)} of {what}: {error}") from None
            if value < 0:
                raise self.error(f"entry {len(values)} of {what}: expected a number >= 0, got {value:g}")
            values.append(value)
        if len(values) < count:
            self.word(f"entry {len(values)} of {what}")  # there is none: raises
        return values

    def count(self) -> int:
        """Return the number of words in the file."""
        return sum(1 for _ in _WORD.finditer(self._text))

    def finish(self, what: str) -> None:
        """Raise if a word is left."""
        extra = next(self._words, None)
        if extra is not None:
            self._position = extra.start()
            raise self.error(f"expected nothing after {what}, got {show(extra.group())}")

    def error(self, problem: str) -> ModelFileError:
        """Return an error with the line of the word taken last."""
        return self._source.error(problem, line=self._text.count(b"\n", 0, self._position) + 1)
