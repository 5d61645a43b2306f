"""The words of a UAI file, wherever its lines end, with the line of each for whoever has to complain."""

from __future__ import annotations

import re
from itertools import islice

from bouncy.formats.files._source import ModelFileError, Source
from bouncy.formats.files._tokens import parse_index, parse_number, show

_WORD = re.compile(rb"\S+")
# a line that begins with the word c is a comment
_COMMENT = re.compile(rb"^c(?!\S)[^\n]*", re.MULTILINE)


class Tokens:
    """The words of a file, taken one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = _COMMENT.sub(b"", source.text())
        self._words = _WORD.finditer(self._text)
        self._position = 0

    def word(self, what: str) -> bytes:
        """Take a word; `what` it is says what is missing where the file ends."""
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
        """Return the error that blames the line of the word taken last."""
        return self._source.error(problem, line=self._text.count(b"\n", 0, self._position) + 1)
