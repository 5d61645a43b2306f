"""Model files opened for reading, and the error that names the file and the place in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from bouncy.storage.archive import open_regular

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ModelFileError(ValueError):
    """A model file that cannot be read.

    Attributes
    ----------
    path : str
        The file.
    line : int or None
        The wrong line, counted from 1, if there is one.
    field : str or None
        The wrong field or member, such as `couplings[3][2]`, if there is one.
    """

    def __init__(self, path: str, problem: str, *, line: int | None = None, field: str | None = None) -> None:
        place = "".join([f", line {line}" if line is not None else "", f", {field}" if field is not None else ""])
        super().__init__(f"{path}{place}: {problem}")
        self.path = path
        self.line = line
        self.field = field


class Source:
    """An open file, its size, and how many bytes may be read from it, packed or unpacked."""

    def __init__(self, path: str, file: BinaryIO, size: int, max_bytes: int) -> None:
        self.path = path
        self.file = file
        self.size = size
        self.max_bytes = max_bytes

    def error(self, problem: str, *, line: int | None = None, field: str | None = None) -> ModelFileError:
        """Return an error about this file, for the caller to raise."""
        return ModelFileError(self.path, problem, line=line, field=field)

    def text(self) -> bytes:
        """Return the bytes of the file, without a byte order mark and with lines that end in a bare newline."""
        content = self.file.read(self.size + 1)
        if len(content) > self.size:
            raise self.error("grew while it was being read")
        return content.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn errors from the constructor of a target into errors about this file."""
        try:
            yield
        except ModelFileError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(str(error)) from error


@contextlib.contextmanager
def opened(path: str, max_bytes: int) -> Iterator[Source]:
    """Open a regular file of 1 to `max_bytes` bytes for reading."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise ModelFileError(path, f"cannot be opened: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelFileError(path, str(error)) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ModelFileError(path, "the file is empty")
        if size > max_bytes:
            raise ModelFileError(path, _too_large(size, max_bytes))
        yield Source(path, file, size, max_bytes)


def _too_large(size: int, max_bytes: int) -> str:
    return f"has {size} bytes or more, over the limit of {max_bytes}; pass max_bytes= to raise it if you trust the file"
