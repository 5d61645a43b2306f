"""Named arrays and a header in one file, which is whole or refused: no pickle, a checksum, nothing to be executed.

The file is a line that says what it is, the length of the header in 8 bytes, the header (JSON), the arrays one after
the other, and a BLAKE2b digest of all that. The header's entry `arrays` lists name, dtype and shape of each array.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._memory import available_memory

_MAGIC = b"bouncy state 1\n"
_DIGEST = 32
_MOST_HEADER = 1 << 26
# What arrays of states may hold.
_DTYPES = ("|i1", "|u1", "|b1", "<i4", "<i8", "<u4", "<u8", "<f8")


def packed(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """Return the parts of a file with this header and these arrays."""
    table = [[name, array.dtype.newbyteorder("<").str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": table}, allow_nan=True).encode()
    parts: list[bytes | memoryview] = [_MAGIC, len(text).to_bytes(8, "little"), text]
    for array in arrays.values():
        flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
        parts.append(flat.view(np.uint8).data if flat.size else b"")
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def unpacked(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file; raise `ValueError` where it is not what it should be."""
    size = path.stat().st_size
    if size > available_memory():
        raise ValueError(f"it has {size} bytes, more than there is memory")
    content = memoryview(path.read_bytes())
    if bytes(content[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("it does not begin as a state of bouncy does" if size else "it is empty")
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise ValueError("it is damaged: its checksum is wrong")
    begin = len(_MAGIC) + 8
    length = int.from_bytes(body[len(_MAGIC) : begin], "little")
    if length > min(_MOST_HEADER, len(body) - begin):
        raise ValueError(f"its header claims {length} bytes")
    header = _read_header(bytes(body[begin : begin + length]))
    return header, _read_arrays(header.pop("arrays", None), body[begin + length :])


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header


def _read_arrays(table: Any, data: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays that a table describes, of which each must be there in full."""
    if not isinstance(table, list):
        raise ValueError("its header has no table of arrays")
    arrays: dict[str, NDArray[Any]] = {}
    for row in table:
        name, dtype, shape = _checked_row(row)
        if name in arrays:
            raise ValueError(f"it has the array {name!r:.60} twice")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(data):
            raise ValueError(f"the array {name!r:.60} claims {size} bytes where {len(data)} are left")
        arrays[name] = np.frombuffer(data[:size], dtype).reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
        data = data[size:]
    if len(data):
        raise ValueError(f"{len(data)} bytes belong to no array")
    return arrays


def _checked_row(row: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError(f"its table of arrays has the row {row!r:.60}")
    name, dtype, shape = row
    if not isinstance(name, str) or dtype not in _DTYPES:
        raise ValueError(f"the array {name!r:.60} has the dtype {dtype!r:.20}")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side < 2**48 for side in shape):
        raise ValueError(f"the array {name!r:.60} has the shape {shape!r:.60}")
    return name, dtype, tuple(shape)


def synced(path: Path) -> None:
    """Make what was written into a file survive a crash of the machine."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
