"""A saved run as a NetCDF4 file, which is HDF5.

Behind the file that any NetCDF reader understands stand a few bytes with its checksum, so that nothing damaged is ever
handed to the HDF5 library.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bouncy.results._layout import ATTRIBUTES, GROUP, MOST_PACKED, Member, RunFileError, axes
from bouncy.storage.atomic import atomic_file

if TYPE_CHECKING:
    import xarray

_TRAILER = b"\nbouncy sha256 "
_TRAILER_BYTES = len(_TRAILER) + 64
_BLOCK = 1 << 20


def write(tree: xarray.DataTree, path: str, overwrite: bool, packed: list[str]) -> None:
    """Write a tree to a file; the variables whose places (`group/name`) are in `packed` are compressed."""
    encoding: dict[str, Any] = {}
    for place in packed:
        group, name = place.split("/")
        encoding.setdefault(f"/{group}", {})[name] = {"zlib": True, "complevel": 1, "shuffle": False}
    with atomic_file(path, overwrite) as file:
        tree.to_netcdf(file.name, engine="h5netcdf", encoding=encoding)
        with open(file.name, "rb") as whole:
            digest = _digest(whole, os.path.getsize(file.name))
        file.seek(0, os.SEEK_END)
        file.write(_TRAILER + digest)


@contextlib.contextmanager
def opened(path: str) -> Iterator[NetCDFStore]:
    """Open a file after its checksum was found right."""
    import h5py

    if not os.path.isfile(path):
        raise RunFileError(f"{path} is not a file")
    with open(path, "rb") as file:
        _check(path, file)
    with h5py.File(path, "r") as file:
        yield NetCDFStore(file, os.path.getsize(path))


class NetCDFStore:
    """The members of an open file, each looked at before it is read."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._size = file, size

    def groups(self) -> set[str]:
        """Return the names at the root."""
        return set(self._file)

    def members(self) -> set[str]:
        """Return the names in our own group."""
        return set(self._group(GROUP))

    def extra(self, members: list[Member]) -> set[str]:
        """Return the names of what the format has beside arrays: their axes."""
        return {axis for member in members for axis in axes(member.shape)}

    def attributes(self) -> dict[str, str]:
        """Return the attributes of our own group."""
        group = self._group(GROUP)
        for name in ATTRIBUTES:
            kind = group.attrs.get_id(name)
            if kind.shape != () or kind.get_storage_size() > self._size:
                raise RunFileError(f"the attribute {name} has the shape {kind.shape}; expected one text")
        return {name: str(group.attrs[name]) for name in ATTRIBUTES}

    def array(self, member: Member) -> NDArray[Any]:
        """Return an array, after looking whether it is what it should be, and no larger than its file allows."""
        import h5py

        group, name = member.place.split("/")
        dataset = self._linked(self._group(group), name)
        if not isinstance(dataset, h5py.Dataset):
            raise RunFileError(f"{member.place} is no array")
        member.check(dataset.shape, dataset.dtype)
        _check_storage(member, dataset.id.get_create_plist(), dataset.id.get_storage_size(), self._size)
        array = np.empty(member.shape, member.dtype)
        dataset.read_direct(array)
        return array

    def _group(self, name: str) -> Any:
        import h5py

        group = self._linked(self._file, name)
        if not isinstance(group, h5py.Group):
            raise RunFileError(f"{name} is no group")
        return group

    def _linked(self, group: Any, name: str) -> Any:
        """Return what a group holds itself; links to other places, in this file or another one, are refused."""
        import h5py

        link = group.get(name, getlink=True)
        if link is None:
            raise RunFileError(f"{name} is missing")
        if not isinstance(link, h5py.HardLink):
            raise RunFileError(f"{name} is a link to another place")
        return group[name]


def _check_storage(member: Member, layout: Any, stored: int, size: int) -> None:
    """Raise unless the bytes of an array are in this file, and enough of them to fill it."""
    from h5py import h5d, h5z

    if layout.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED) or layout.get_external_count():
        raise RunFileError(f"{member.place} lies in another file")
    filters = [layout.get_filter(k)[0] for k in range(layout.get_nfilters())]
    if not set(filters) <= {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32}:
        raise RunFileError(f"{member.place} is packed in an unknown way (filters {filters})")
    most = MOST_PACKED if h5z.FILTER_DEFLATE in filters else 1
    if stored > size or member.nbytes > most * stored:
        raise RunFileError(f"{member.place} should have {member.nbytes} bytes, but only {stored} are in the file")


def _check(path: str, file: BinaryIO) -> None:
    """Raise unless the file ends in the checksum of what is before it."""
    size = os.path.getsize(path) - _TRAILER_BYTES
    if size < 0:
        raise RunFileError(f"the file has {size + _TRAILER_BYTES} bytes, too few for a run")
    file.seek(size)
    trailer = file.read(_TRAILER_BYTES)
    if not trailer.startswith(_TRAILER):
        raise RunFileError("the file does not end as one that `run.save` wrote; it was cut short, or is something else")
    file.seek(0)
    if _TRAILER + _digest(file, size) != trailer:
        raise RunFileError("the checksum of the file is wrong; it was damaged, or changed after it was saved")


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of the next bytes of a file, as text."""
    digest = hashlib.sha256()
    while size > 0:
        block = file.read(min(_BLOCK, size))
        if not block:
            break
        digest.update(block)
        size -= len(block)
    return digest.hexdigest().encode()
