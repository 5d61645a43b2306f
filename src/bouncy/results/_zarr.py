"""A saved run as a zarr directory, format 3.

What is read is read by ourselves: metadata as JSON, chunks as plain or gzipped bytes. No codec that a store may name is
ever looked up.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import stat
import warnings
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.results._layout import ATTRIBUTES, GROUP, MOST_PACKED, Member, RunFileError
from bouncy.storage.atomic import atomic_directory

if TYPE_CHECKING:
    import xarray

_METADATA = "zarr.json"
_MOST_METADATA = 1 << 22
_TYPES = {"int8": "|i1", "uint8": "|u1", "int32": "<i4", "int64": "<i8", "float64": "<f8"}


def write(tree: xarray.DataTree, path: str, overwrite: bool, packed: list[str]) -> None:
    """Write a tree to a directory; the variables whose places (`group/name`) are in `packed` are compressed."""
    import zarr
    from zarr.codecs import GzipCodec

    encoding: dict[str, Any] = {}
    for group, node in tree.children.items():
        for name, variable in node.data_vars.items():
            small = f"{group}/{name}" in packed
            shape = (1, *variable.shape[1:]) if small else variable.shape
            codecs = [GzipCodec(level=1)] if small else None
            encoding.setdefault(f"/{group}", {})[name] = {"chunks": shape, "compressors": codecs}
    with (
        atomic_directory(path, overwrite, _METADATA) as folder,
        zarr.config.set({"array.write_empty_chunks": True}),
        warnings.catch_warnings(),
    ):
        # All metadata in one place is what xarray looks for first, though the format does not mention it yet.
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        tree.to_zarr(folder, mode="w", zarr_format=3, consolidated=True, encoding=encoding)


@contextlib.contextmanager
def opened(path: str) -> Iterator[ZarrStore]:
    """Open a directory."""
    if not os.path.isdir(path):
        raise RunFileError(f"{path} is not a directory")
    store = ZarrStore(path)
    store.metadata("", "group")
    yield store


class ZarrStore:
    """The members of a directory, each looked at before it is read."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)

    def groups(self) -> set[str]:
        """Return the names at the root."""
        return set(os.listdir(self._path)) - {_METADATA}

    def members(self) -> set[str]:
        """Return the names in our own group."""
        self._entry(GROUP)
        return set(os.listdir(os.path.join(self._path, GROUP))) - {_METADATA}

    def extra(self, members: list[Member]) -> set[str]:
        """Return the names of what the format has beside arrays: nothing."""
        return set()

    def attributes(self) -> dict[str, str]:
        """Return the attributes of our own group."""
        found = self.metadata(GROUP, "group").get("attributes", {})
        return {name: str(found[name]) for name in ATTRIBUTES}

    def metadata(self, place: str, kind: str) -> dict[str, Any]:
        """Return what is said about a group or an array."""
        text = self._bytes(f"{place}/{_METADATA}" if place else _METADATA, _MOST_METADATA)
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("zarr_format") != 3 or found.get("node_type") != kind:
            raise RunFileError(f"{place or 'the directory'} is no {kind} of zarr format 3")
        return found

    def array(self, member: Member) -> NDArray[Any]:
        """Return an array, after looking whether it is what it should be, and no larger than its files allow."""
        found = self.metadata(member.place, "array")
        shape, data_type = found.get("shape"), found.get("data_type")
        if not isinstance(shape, list) or data_type not in _TYPES:
            raise RunFileError(f"{member.place} has the shape {shape!r:.60} and the type {data_type!r:.60}")
        member.check(tuple(shape), np.dtype(_TYPES[data_type]))
        chunk, packed = _chunks(member, found)
        self._check_sizes(member, chunk, packed)
        array = np.empty(member.shape, member.dtype)
        size = math.prod(chunk) * member.dtype.itemsize
        # Chunks are whole, or one for each entry of the first axis: in either case they follow each other.
        flat = array.reshape(-1).view(np.uint8)
        for k, key in enumerate(self._keys(member, chunk)):
            flat[k * size : (k + 1) * size] = np.frombuffer(self._chunk(key, size, packed), np.uint8)
        return array

    def _keys(self, member: Member, chunk: tuple[int, ...]) -> Iterator[str]:
        counts = [range(n // c) for n, c in zip(member.shape, chunk, strict=True)]
        for index in itertools.product(*counts):
            yield "/".join([member.place, "c", *map(str, index)])

    def _check_sizes(self, member: Member, chunk: tuple[int, ...], packed: bool) -> None:
        stored = sum(self._entry(key).st_size for key in self._keys(member, chunk))
        if member.nbytes > (MOST_PACKED if packed else 1) * stored:
            raise RunFileError(f"{member.place} should have {member.nbytes} bytes, but only {stored} are there")

    def _chunk(self, key: str, size: int, packed: bool) -> bytes:
        content = self._bytes(key, size + size // 1000 + 1024)  # what cannot be packed grows a little
        if packed:
            unpacker = zlib.decompressobj(wbits=31)
            content = unpacker.decompress(content, size + 1)
            if not unpacker.eof or unpacker.unused_data:
                raise RunFileError(f"{key} is cut short, or too long")
        if len(content) != size:
            raise RunFileError(f"{key} has {len(content)} bytes; expected {size}")
        return content

    def _bytes(self, key: str, most: int) -> bytes:
        if self._entry(key).st_size > most:
            raise RunFileError(f"{key} is larger than it can be")
        with open(os.path.join(self._path, key), "rb") as file:
            return file.read(most + 1)

    def _entry(self, key: str) -> os.stat_result:
        """Return what is known of a file or a directory; links to other places are refused on the way to it."""
        place = self._path
        for part in key.split("/"):
            place = os.path.join(place, part)
            try:
                entry = os.lstat(place)
            except FileNotFoundError:
                raise RunFileError(f"{key} is missing") from None
            if not stat.S_ISREG(entry.st_mode) and not stat.S_ISDIR(entry.st_mode):
                raise RunFileError(f"{key} is a link to another place")
        return entry


def _chunks(member: Member, found: dict[str, Any]) -> tuple[tuple[int, ...], bool]:
    """Return the shape of the chunks of an array, and whether they are gzipped."""
    grid, keys = found.get("chunk_grid"), found.get("chunk_key_encoding")
    names = [codec.get("name") for codec in found.get("codecs", [])]
    configuration = found["codecs"][0].get("configuration", {}) if names else {}
    if names not in (["bytes"], ["bytes", "gzip"]) or configuration.get("endian", "little") != "little":
        raise RunFileError(f"{member.place} is packed in an unknown way (codecs {names!r:.60})")
    if keys != {"name": "default", "configuration": {"separator": "/"}} or found.get("storage_transformers"):
        raise RunFileError(f"{member.place} has its chunks in unknown places")
    for shape in (member.shape, (1, *member.shape[1:])):
        if grid == {"name": "regular", "configuration": {"chunk_shape": list(shape)}}:
            return shape, len(names) == 2
    raise RunFileError(f"{member.place} is cut into chunks in an unknown way")
