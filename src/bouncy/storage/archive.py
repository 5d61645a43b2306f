"""Archives: a JSON header and named arrays in one file, with a digest of every byte. Nothing in them is ever executed.

An archive is a zip file of uncompressed members, which `np.load` reads too: `header.json`, then `<name>.npy` for each
array. The entry `arrays` of the header gives the dtype, the shape and the BLAKE2b digest of each array, in the order of
the members; the comment at the end of the file is the digest of the header.

The reader accepts only the layout that `write_archive` produces. It goes through the file from the front and uses
neither the zip directory nor numpy's parser of array headers, both of which could contradict the header.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._memory import available_memory

DTYPES = ("|i1", "|u1", "|b1", "<i4", "<i8", "<u4", "<u8", "<f8")

_HEADER = "header.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
_MOST_AXES = 8
_MOST_BYTES = 2**62  # of one array, with every empty axis counted as 1; numpy refuses larger shapes
_CHUNK = 1 << 20  # small enough to stay in the processor's cache between reading and hashing
_JSON_EXPANSION = 32  # most bytes of memory that one byte of JSON turns into
_DIGEST = 32  # bytes

# Zip records: in front of a member (signature, version, flags, method, time, date, CRC, two sizes, lengths of the name
# and of the extra field), its extra field (tag, length, two sizes), and the end (signature, 16 bytes, comment length).
_LOCAL = struct.Struct("<4s5H3L2H")
_ZIP64 = struct.Struct("<2H2Q")
_END = struct.Struct("<4s16xH")


class ArchiveError(ValueError):
    """An archive that cannot be read."""


class _Spec(NamedTuple):
    """Entry of the header for one array."""

    dtype: str
    shape: tuple[int, ...]
    digest: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def write_archive(file: BinaryIO, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header, of anything that `json` accepts, and arrays of the types in `DTYPES` to a seekable file.

    Arrays that are contiguous and little-endian are not copied; of the others, one at a time is.
    """
    if "arrays" in header:
        raise ValueError("header must not have an entry 'arrays', which archives use themselves")
    specs = specify(arrays)
    text = json.dumps({**header, "arrays": specs}).encode("ascii")
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = _digest(text).encode("ascii")
        with new_member(archive, _HEADER) as stream:
            stream.write(text)
        for name, array in arrays.items():
            with new_member(archive, f"{name}.npy") as stream:
                stream.write(_npy_prefix(specs[name]))
                stream.write(_raw(_plain(array)))


def specify(arrays: Mapping[str, NDArray[Any]]) -> dict[str, _Spec]:
    """Return dtype, shape and digest of each array, as a header lists them."""
    return {name: _describe(name, array) for name, array in arrays.items()}


def check_array(name: str, spec: _Spec, array: NDArray[Any]) -> None:
    """Raise `ArchiveError` unless an array has the digest that a header lists."""
    if _digest(_raw(_plain(array))) != spec.digest:
        raise ArchiveError(f"the array {name!r} does not have the digest in the header")


def read_archive(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays that were given to `write_archive`; raise `ArchiveError` for any other file."""
    with _reading(path) as (file, size):
        header, specs = _read_header(file, size)
        _check_size("its arrays", sum(spec.nbytes for spec in specs.values()), size)
        arrays = {name: _read_array(file, name, spec) for name, spec in specs.items()}
        if file.read(4) != b"PK\x01\x02":
            raise ValueError("has members that its header does not name")
        return header, arrays


def read_header(path: str | Path) -> dict[str, Any]:
    """Return the header alone, checked; raise `ArchiveError` where there is none."""
    with _reading(path) as (file, size):
        return _read_header(file, size)[0]


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file for reading; raise `ValueError` for what is none, without waiting for a named pipe."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("is a directory; expected a file")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a regular file")
    return open(path, "rb")


def new_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open an uncompressed member for writing whose bytes depend on its name and its content alone."""
    entry = zipfile.ZipInfo(name)  # dated 1980, not today
    entry.create_system = 3  # Unix, on every system
    entry.external_attr = 0o644 << 16
    return archive.open(entry, "w", force_zip64=True)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is stored: in C order, little-endian."""
    array = np.asarray(array)
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _raw(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, not copied."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST).hexdigest()


def _describe(name: str, array: NDArray[Any]) -> _Spec:
    if not _NAME.fullmatch(name):
        raise ValueError(f"names of arrays must be made of ASCII letters, digits and _ . / -, got {name!r:.60}")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<").str
    if dtype not in DTYPES or array.ndim > _MOST_AXES:
        raise ValueError(
            f"array {name!r} has the dtype {array.dtype} and {array.ndim} axes; archives hold {', '.join(DTYPES)} "
            f"with at most {_MOST_AXES} axes"
        )
    return _Spec(dtype, array.shape, _digest(_raw(_plain(array))))


def _npy_prefix(spec: _Spec) -> bytes:
    """Return what stands before the bytes of an array in an .npy file of version 1.0."""
    text = f"{{'descr': {spec.dtype!r}, 'fortran_order': False, 'shape': {spec.shape!r}, }}".encode("ascii")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@contextlib.contextmanager
def _reading(path: str | Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file, give it and its size, and turn all that can fail while reading it into an `ArchiveError`."""
    try:
        with open_regular(path) as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ArchiveError(f"{path}: {error}") from error


def _read_header(file: BufferedReader, size: int) -> tuple[dict[str, Any], dict[str, _Spec]]:
    """Return the header and what it says of the arrays; leave the file at the first of these."""
    digest = _read_comment(file, size)
    file.seek(0)
    length = _read_member_size(file, _HEADER)
    _check_size("its header", length, size, _JSON_EXPANSION)
    text = file.read(length)
    if _digest(text) != digest:
        raise ValueError("is damaged: its header does not have the digest at the end of the file")
    header = _parse(text)
    specs = header.pop("arrays", None)
    if not isinstance(specs, dict):
        raise ValueError("is not an archive of bouncy: its header does not list arrays")
    return header, {name: check_spec(name, entry) for name, entry in specs.items()}


def _read_comment(file: BufferedReader, size: int) -> str:
    """Return the comment of the zip file, which is its last bytes."""
    if size == 0:
        raise ValueError("is empty")
    if file.read(4) != b"PK\x03\x04":
        raise ValueError("is not an archive of bouncy: it does not begin as a zip file does")
    length = _END.size + 2 * _DIGEST
    file.seek(max(size - length, 0))
    record = file.read(length)
    if len(record) < length or _END.unpack_from(record) != (b"PK\x05\x06", 2 * _DIGEST):
        raise ValueError("is truncated, or is not an archive of bouncy but, say, a model: no digest is at its end")
    return record[_END.size :].decode("ascii", "replace")


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("has a header that is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"has a header that is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError("has a header that is not a JSON object")
    return header


def check_spec(name: str, entry: Any) -> _Spec:
    """Return an entry of a header for one array; raise `ValueError` where it cannot be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"names an array {name!r:.60}, which is not made of ASCII letters, digits and _ . / -")
    if not isinstance(entry, list) or len(entry) != len(_Spec._fields):
        raise ValueError(f"does not give dtype, shape and digest of the array {name!r}")
    dtype, shape, digest = entry
    if dtype not in DTYPES:
        raise ValueError(f"gives the array {name!r} the dtype {dtype!r:.60}; expected one of {', '.join(DTYPES)}")
    if not (
        isinstance(shape, list)
        and len(shape) <= _MOST_AXES
        and all(type(side) is int and 0 <= side < _MOST_BYTES for side in shape)
        and math.prod(max(side, 1) for side in shape) * np.dtype(dtype).itemsize <= _MOST_BYTES
    ):
        raise ValueError(f"gives the array {name!r} an impossible shape, {str(shape)[:60]}")
    return _Spec(dtype, tuple(shape), str(digest))


def _check_size(what: str, needed: int, size: int, expansion: int = 1) -> None:
    """Raise unless `needed` bytes can be in the file and, times `expansion`, in memory."""
    if needed > size:
        raise ValueError(f"is truncated: {what} would take {needed} bytes, of {size} in the file")
    left = available_memory()
    if needed * expansion > left:
        raise ValueError(f"is too large: {what} would take {needed * expansion} bytes of memory, of {left} available")


def _read_member_size(file: BufferedReader, name: str) -> int:
    """Read the record in front of a member, which must be of this name and uncompressed; return the member's size."""
    record = file.read(_LOCAL.size)
    if len(record) < _LOCAL.size or not record.startswith(b"PK\x03\x04"):
        raise ValueError(f"is damaged, or has no member {name!r} where its header says so")
    _, _, flags, method, _, _, _, _, _, name_length, extra_length = _LOCAL.unpack(record)
    found = file.read(name_length)
    if found != name.encode("ascii"):
        raise ValueError(f"has a member {found.decode('ascii', 'replace')!r:.60} where {name!r} should be")
    if flags or method:
        raise ValueError(f"has a member {name!r} that is compressed or encrypted")
    extra = file.read(extra_length)
    if len(extra) != _ZIP64.size or extra[:4] != b"\x01\x00\x10\x00":
        raise ValueError(f"is damaged: no size stands before the member {name!r}")
    size: int
    _, _, size, stored = _ZIP64.unpack(extra)
    if size != stored:
        raise ValueError(f"is damaged: two different sizes stand before the member {name!r}")
    return size


def _read_array(file: BufferedReader, name: str, spec: _Spec) -> NDArray[Any]:
    prefix = _npy_prefix(spec)
    size = _read_member_size(file, f"{name}.npy")
    if size != len(prefix) + spec.nbytes or file.read(len(prefix)) != prefix:
        raise ValueError(f"has a member {name!r} that is not an array of dtype {spec.dtype} and shape {spec.shape}")
    array = np.empty(spec.shape, spec.dtype)
    raw = _raw(array)
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for begin in range(0, raw.nbytes, _CHUNK):
        chunk = raw[begin : begin + _CHUNK]
        if file.readinto(chunk) != chunk.nbytes:
            raise ValueError(f"is truncated: it ends in the array {name!r}")
        digest.update(chunk)
    if digest.hexdigest() != spec.digest:
        raise ValueError(f"is damaged: the array {name!r} does not have the digest in the header")
    if spec.dtype == "|b1" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"has bytes other than 0 and 1 in the array {name!r} of booleans")
    return array
