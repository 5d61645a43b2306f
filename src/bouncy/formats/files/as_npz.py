"""npz: the arrays of a Markov random field, exact to the last bit, quick to read for large models.

The members are `version` (1), `M` (d, d) or `indptr`, `indices` and `data` (the CSR form of M), `r` (d,) or a scalar,
`offset`, `shape` (the sides of a lattice) and `labels` (JSON text). Only `version` and the couplings are required, so
that `np.savez(path, version=1, M=M)` makes a file that `load_model` reads. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._validation import first_true
from bouncy.formats.files import _sites
from bouncy.formats.files._sites import is_lattice
from bouncy.formats.files._source import Source
from bouncy.storage.archive import new_member
from bouncy.targets.mrf import MRF

NAME = "npz"
SUFFIXES = (".npz",)
MAX_BYTES = 2**32
TARGETS = (MRF,)

_VERSION = 1
# Last record of a zip archive: signature, numbers of disks and members, size and offset of the directory, length of the
# comment.
_END = struct.Struct("<4s4H2LH")
_CSR = ("indptr", "indices", "data")


class _Member(NamedTuple):
    """Kinds of dtype (numpy's letters) and numbers of axes that an array may have."""

    kinds: str
    ndims: tuple[int, ...]


_MEMBERS = {
    "version": _Member("iu", (0,)),
    "M": _Member("iuf", (2,)),
    "indptr": _Member("iu", (1,)),
    "indices": _Member("iu", (1,)),
    "data": _Member("iuf", (1,)),
    "r": _Member("iuf", (0, 1)),
    "offset": _Member("iuf", (0,)),
    "shape": _Member("iu", (1,)),
    "labels": _Member("SU", (0,)),
}


def load(source: Source) -> MRF:
    """Read a Markov random field, after checking sizes and types before any array is read."""
    arrays = _read(source)
    if "version" not in arrays:
        raise source.error(f"is missing; expected the version of the format, {_VERSION}", field="version")
    if arrays["version"] != _VERSION:
        raise source.error(f"is {arrays['version']}; this version of bouncy reads {_VERSION}", field="version")
    M = _couplings(source, arrays)
    d = M.shape[0]
    labels = _read_labels(source, arrays, d)
    shape = _lattice(source, arrays["shape"], d) if "shape" in arrays else None
    with source.blamed():
        return MRF(M, arrays.get("r", 0.0), offset=float(arrays.get("offset", 0.0)), labels=labels, shape=shape)


def save(target: MRF, file: BinaryIO) -> None:
    """Write a Markov random field, with the same bytes whenever and wherever it is written."""
    members: dict[str, NDArray[Any]] = {"version": np.array(_VERSION, "<i8")}
    M = target.M
    if target.is_sparse:
        members |= {"indptr": M.indptr.astype("<i8"), "indices": M.indices.astype("<i4"), "data": M.data.astype("<f8")}
    else:
        members["M"] = M.astype("<f8", copy=False)
    members |= {"r": target.r.astype("<f8"), "offset": np.array(target.offset, "<f8")}
    if target.shape is not None:
        members["shape"] = np.array(target.shape, "<i8")
    if not _sites.are_numbers(target):
        members["labels"] = np.array(json.dumps(_sites.labels_to_json(target.labels)).encode("ascii"))
    _write(file, members)


def _read(source: Source) -> dict[str, NDArray[Any]]:
    with _archive(source) as archive:
        entries = archive.infolist()
        _check_number(source, len(entries))
        _check_directory(source, entries)
        return {entry.filename.removesuffix(".npy"): _read_array(source, archive, entry) for entry in entries}


def _archive(source: Source) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source.file)
    except Exception as error:  # damaged files raise more than BadZipFile
        raise source.error(f"is not an npz archive: {error}") from error


def _check_number(source: Source, found: int) -> None:
    """Raise unless the archive's last record gives the number of members that were found.

    zipfile skips members that a damaged directory hides, and a model without its fields is another model.
    """
    source.file.seek(-_END.size, os.SEEK_END)
    signature, _, _, _, declared, _, _, _ = _END.unpack(source.file.read(_END.size))
    if signature != b"PK\x05\x06":
        raise source.error("is damaged, or is no model but a saved run, say: its last record is not at its end")
    if declared != found:
        raise source.error(f"is damaged: {found} members were found where there should be {declared}")


def _check_directory(source: Source, entries: list[zipfile.ZipInfo]) -> None:
    """Raise unless all members are known, stored or deflated, and within the limit in total."""
    seen = set()
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name not in _MEMBERS or not entry.filename.endswith(".npy"):
            raise source.error(
                f"holds an unknown member {entry.filename[:40]!r}; known are {', '.join(_MEMBERS)}, each with .npy"
            )
        if name in seen:
            raise source.error("is in the archive more than once", field=name)
        seen.add(name)
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise source.error("is encrypted or packed in an unusual way; expected stored or deflated", field=name)
    total = sum(entry.file_size for entry in entries)
    if total > source.max_bytes:
        raise source.error(
            f"unpacks to {total} bytes, over the limit of {source.max_bytes}; pass max_bytes= to raise it if you "
            "trust the file"
        )


def _read_array(source: Source, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array; its header is checked against `_MEMBERS` and the member's size before the data are read."""
    name = entry.filename.removesuffix(".npy")
    try:
        with archive.open(entry) as stream:
            shape, fortran_order, dtype = _read_header(stream)
            problem = _header_problem(_MEMBERS[name], shape, dtype, entry.file_size - stream.tell())
            content = stream.read() if problem is None else b""
    except Exception as error:  # damaged headers raise various errors in numpy, too
        raise source.error(f"is damaged: {error}", field=name) from error
    if problem is not None:
        raise source.error(problem, field=name)
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise source.error(f"is damaged: it ends after {len(content)} bytes", field=name)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")


def _read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"arrays of version {version} are not supported")


def _header_problem(member: _Member, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> str | None:
    """Return what is wrong with an array of this header and of `size` bytes, or None."""
    if dtype.hasobject:
        return "holds Python objects, which would have to be unpickled; that is never done"
    if dtype.kind not in member.kinds or dtype.itemsize == 0:
        return f"has the dtype {dtype}; expected one of the kinds {member.kinds!r}"
    if len(shape) not in member.ndims:
        return f"has the shape {shape}; expected {' or '.join(map(str, member.ndims))} axes"
    # a product of Python integers, so that absurd sides do not wrap around
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != size:
        return f"declares the shape {shape} and the dtype {dtype} but has {size} bytes of data"
    return None


def _couplings(source: Source, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return M as an ndarray or a `csr_array`."""
    csr = [name for name in _CSR if name in arrays]
    if "M" in arrays and csr:
        raise source.error(f"is given together with {', '.join(csr)}; expected one of the two forms", field="M")
    if "M" in arrays:
        return arrays["M"]
    for name in _CSR:
        if name not in arrays:
            raise source.error("is missing; expected M or all of indptr, indices and data", field=name)
    indptr, indices, data = (arrays[name] for name in _CSR)
    _check_csr(source, indptr, indices, data)
    d = indptr.size - 1
    with source.blamed():
        # signed types of one width, as scipy requires; all values were checked to fit
        index = np.int32 if max(data.size, d) < 2**31 else np.int64
        return scipy.sparse.csr_array((data, indices.astype(index), indptr.astype(index)), shape=(d, d))


def _check_csr(source: Source, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> None:
    if indptr.size < 2:
        raise source.error(f"must have d + 1 >= 2 entries, got {indptr.size}", field="indptr")
    if indices.size != data.size:
        raise source.error(f"has {indices.size} entries but data has {data.size}", field="indices")
    # compared, not subtracted: unsigned differences wrap around
    if indptr[0] != 0:
        raise source.error(f"must start at 0, got {indptr[0]}", field="indptr[0]")
    falling = first_true(indptr[1:] < indptr[:-1])
    if falling is not None:
        k = falling[0] + 1
        raise source.error(f"must not decrease, got {indptr[k]} after {indptr[k - 1]}", field=f"indptr[{k}]")
    if indptr[-1] != data.size:
        raise source.error(f"must end at the {data.size} entries of data, got {indptr[-1]}", field="indptr")
    d = indptr.size - 1
    outside = first_true((indices < 0) | (indices >= d))
    if outside is not None:
        k = outside[0]
        raise source.error(f"must be a site from 0 to {d - 1}, got {indices[k]}", field=f"indices[{k}]")


def _read_labels(source: Source, arrays: dict[str, NDArray[Any]], d: int) -> tuple[Any, ...] | None:
    if "labels" not in arrays:
        return None
    try:
        value = json.loads(arrays["labels"].item())
    except (ValueError, RecursionError) as error:
        raise source.error(f"is not JSON: {error}", field="labels") from error
    return _sites.labels_from_json(source, value, d)


def _lattice(source: Source, shape: NDArray[Any], d: int) -> tuple[int, ...]:
    sides = tuple(map(int, shape))
    if not is_lattice(sides, d):
        raise source.error(f"must be the sides of a lattice of {d} sites, got {sides!s:.60}", field="shape")
    return sides


def _write(file: BinaryIO, members: dict[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            with new_member(archive, f"{name}.npy") as stream:
                np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
