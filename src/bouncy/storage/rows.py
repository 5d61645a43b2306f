"""Rows that a run keeps of its draws: in memory, thinned as they grow, or in files.

Rows are added to all chains at once, so that all have equally many. A run that is continued shares its rows with the
longer one: what was added once is never changed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import shutil
import tempfile
import time
import warnings
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._memory import available_memory

Array = NDArray[Any]

# Points of a scalar trace that are kept of each chain when states are not.
MOST_POINTS = 1 << 14
# Names of rows of which chains have different numbers, and of those that there is one of per sweep.
RAGGED = ("flip_site", "flip_time")
PER_SWEEP = ("flip_count",)
# Share of the available memory that rows may take before they go to a file.
_SHARE = 0.5
# Bytes that wait in memory before they are written to a file, or are read back from one at a time.
_WAITING = 1 << 24
# Rows below this size are never moved to files.
_LARGE = 1 << 28
# Seconds between two looks at the available memory.
_LOOK_EVERY = 0.25
# Most files that the rows of a run keep mapped.
_MOST_MAPPED = 64


class SpillWarning(UserWarning):
    """Draws need more memory than there is and are kept on disk."""


class Column(ABC):
    """Rows of one name.

    Attributes
    ----------
    count : int
        Rows of each chain so far.
    spacing : int
        Every how many rows one is still there.
    """

    count: int
    spacing = 1

    @abstractmethod
    def append(self, block: Array, step: int) -> None:
        """Add rows, (chain, n, ...). They are every `step`-th of all rows, which only `Thinned` accepts beyond 1."""

    @abstractmethod
    def array(self) -> Array:
        """Return the rows that are there, (chain, row, ...)."""

    @abstractmethod
    def shared(self) -> Column:
        """Return a column of the same rows that grows independently."""


class InMemory(Column):
    """Rows in an array that doubles when it is full."""

    def __init__(self, chains: int, like: Array, expected: int = 0) -> None:
        self._buffer = _Buffer(np.zeros((chains, expected, *like.shape[1:]), like.dtype), 0)
        self.count = 0

    @classmethod
    def of(cls, rows: Array) -> InMemory:
        """Return a column that begins with these rows, (chain, row, ...)."""
        column = cls(0, rows)
        column._buffer, column.count = _Buffer(rows, rows.shape[1]), rows.shape[1]
        return column

    def append(self, block: Array, step: int = 1) -> None:
        end, data = self.count + block.shape[1], self._buffer.data
        if self._buffer.used != self.count or end > data.shape[1]:  # used by a longer run, or full
            wider = np.zeros((data.shape[0], max(end, 2 * self.count, 16), *data.shape[2:]), data.dtype)
            wider[:, : self.count] = data[:, : self.count]
            self._buffer = _Buffer(wider, self.count)
        self._buffer.data[:, self.count : end] = block
        self._buffer.used = self.count = end

    def array(self) -> Array:
        return self._buffer.data[:, : self.count]

    def shared(self) -> InMemory:
        twin = type(self)(0, self._buffer.data)
        twin._buffer, twin.count = self._buffer, self.count
        return twin

    @property
    def nbytes(self) -> int:
        """Size of the array."""
        return self._buffer.data.nbytes


class _Buffer:
    """An array of rows, (chain, row, ...), and how many of them are used by any column."""

    def __init__(self, data: Array, used: int) -> None:
        self.data, self.used = data, used


class Thinned(Column):
    """Rows of which every second one is dropped whenever there are too many, so that they need constant memory.

    Counted from 1, row k is kept as long as k is a multiple of `spacing`, a power of two. Rows may come already
    thinned, as long as all that are still kept are among them (`step`).
    """

    def __init__(self, chains: int, like: Array) -> None:
        self._kept = np.zeros((chains, 0, *like.shape[1:]), like.dtype)
        self.count, self.spacing = 0, 1

    @classmethod
    def of(cls, kept: Array, spacing: int, count: int) -> Thinned:
        """Return a column of `count` rows, of which every so many-th, (chain, row, ...), is there."""
        column = cls(0, kept)
        column._kept, column.spacing, column.count = kept, spacing, count
        return column

    def append(self, block: Array, step: int) -> None:
        every = self.spacing // step
        first = every - 1 - self.count // step % every
        self._kept = np.concatenate([self._kept, block[:, first::every]], axis=1)
        while self._kept.shape[1] > MOST_POINTS:
            self._kept, self.spacing = self._kept[:, 1::2].copy(), 2 * self.spacing
        self.count += step * block.shape[1]

    def array(self) -> Array:
        return self._kept

    def shared(self) -> Thinned:
        return self.of(self._kept, self.spacing, self.count)


class InFile(Column):
    """Rows in a file, (row, chain, ...), to which they are added.

    Rows that cannot be written, because the disk is full or the file is gone, wait in memory and are tried again later.
    Those that were written stay readable as long as the column lives, whatever becomes of the name of the file, unless
    `mapped` is false.

    Attributes
    ----------
    path : Path
        The file, if there are any rows.
    written : int
        Rows in the file.
    checksum : int
        CRC-32 of them.
    """

    def __init__(self, path: Path, chains: int, like: Array, mapped: bool = True) -> None:
        self.path, self.written, self.checksum, self.count = path, 0, 0, 0
        self._mapped = mapped
        self._shape, self._dtype = (chains, *like.shape[1:]), like.dtype
        self._waiting: list[Array] = []
        self._patience = _WAITING  # bytes that may wait
        self._map: Array | None = None  # the rows that were written, or more
        self._inode = 0
        self._tail = [0]  # rows that any column has written to the file

    @classmethod
    def reopen(cls, path: Path, chains: int, like: Array, written: int, checksum: int, mapped: bool = True) -> InFile:
        """Go on with a file that has at least these rows; raise `ValueError` where it does not."""
        column = cls(path, chains, like, mapped)
        column.written, column.checksum, column.count = written, checksum, written
        column._tail = [written]
        if written:
            column._check()
            column._map_file()
        return column

    def _check(self) -> None:
        """Raise unless the file has the rows that were written, with their checksum."""
        size, left, found = os.stat(self.path).st_size, self._size(self.written), 0
        if size < left:
            raise ValueError(f"it has {size} bytes; expected at least {left} for {self.written} rows")
        # Not by the map: a disk that cannot be read is an error here, and would end the process there.
        with open(self.path, "rb") as file:
            while left:
                part = file.read(min(left, _WAITING))
                found, left = zlib.crc32(part, found), left - len(part)
                if not part:
                    raise ValueError(f"it ends {left} bytes too early")
        if found != self.checksum:
            raise ValueError(f"the checksum of its first {self.written} rows is {found:08x}, not {self.checksum:08x}")

    def _size(self, rows: int) -> int:
        size: int = rows * math.prod(self._shape) * self._dtype.itemsize
        return size

    def _map_file(self) -> None:
        """Map the rows that were written, so that they stay readable."""
        if self._mapped:
            with contextlib.suppress(OSError):  # too many files: the rows are then found by the name of the file
                self._map, self._inode = self._new_map(), os.stat(self.path).st_ino

    def _new_map(self) -> Array:
        if not self._size(self.written):
            return np.zeros((self.written, *self._shape), self._dtype)
        return np.memmap(self.path, self._dtype, "r", shape=(self.written, *self._shape))

    def append(self, block: Array, step: int = 1) -> None:
        self._waiting.append(np.ascontiguousarray(block.swapaxes(0, 1), self._dtype))
        self.count += block.shape[1]
        if sum(part.nbytes for part in self._waiting) > self._patience:
            self._try_to_flush()

    def _try_to_flush(self) -> None:
        """Write what can be written, or try again when twice as much is waiting."""
        try:
            self.flush()
        except OSError as error:
            if self._patience == _WAITING:
                warnings.warn(
                    f"rows could not be written to {self.path} ({error.strerror or error}) and wait in memory; free "
                    "some disk space before the memory is full, too",
                    SpillWarning,
                    stacklevel=2,
                )
            self._patience *= 2

    def flush(self) -> None:
        """Write all rows. Nothing is lost when that fails: they wait on, and are written later."""
        while self._waiting:
            block = self._waiting[0]
            if self._tail[0] != self.written:
                self._leave_file()
            self._write(block)
            self._tail[0] += len(block)
            self.written, self.checksum = self.written + len(block), zlib.crc32(block.data, self.checksum)
            del self._waiting[0]
            self._map = None
        self._patience = _WAITING
        if self._map is None and self.written:
            self._map_file()

    def _leave_file(self) -> None:
        """Copy the rows to a file of their own: another column has added rows to the present one."""
        rows, self.path = self._stored(), self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        with open(self.path, "xb") as file:
            file.write(np.ascontiguousarray(rows).data)
        self._tail = [self.written]

    def _write(self, block: Array) -> None:
        """Write rows behind those that count.

        What follows them is left from a write that failed, or that no checkpoint counts, and is never read. It is not
        cut off: another run of this process may still have it mapped.
        """
        if not self.written:
            self.path.unlink(missing_ok=True)
        with open(self.path, "r+b" if self.written else "xb") as file:
            begin = self._size(self.written)
            if file.seek(0, os.SEEK_END) < begin:
                raise OSError(errno.EIO, "the file has become shorter than what was written to it")
            file.seek(begin)
            file.write(block.data)

    def array(self) -> Array:
        """Return the rows in memory if they fit into it, and else as a read-only map of the file."""
        with contextlib.suppress(OSError):
            self.flush()
        rows = self._stored()
        fits = rows.nbytes < _SHARE * available_memory()
        if self._waiting:
            if not fits:
                self.flush()  # and raise
            rows = np.concatenate([rows, *self._waiting])
        return np.array(rows.swapaxes(0, 1)) if fits else rows.swapaxes(0, 1)

    def _stored(self) -> Array:
        """Return the rows that were written, (row, chain, ...), where they are."""
        if self._map is None:
            return self._new_map()
        with contextlib.suppress(FileNotFoundError):
            now = os.stat(self.path)
            # To touch a map beyond the end of its file would end the process.
            if now.st_ino == self._inode and now.st_size < self._size(self.written):
                raise OSError(errno.EIO, f"rows are lost: the file was cut to {now.st_size} bytes", str(self.path))
        rows: Array = self._map[: self.written]
        return rows

    def shared(self) -> InFile:
        """Return a column of the same rows; the first of the two that grows keeps the file."""
        with contextlib.suppress(OSError):
            self.flush()
        twin = type(self)(self.path, 0, np.zeros((0, 0)), self._mapped)
        vars(twin).update({**vars(self), "_waiting": list(self._waiting)})
        return twin

    def blocks(self) -> Sequence[Array]:
        """Return the rows, (chain, row, ...), cut into blocks that need little memory."""
        stored = self._stored()
        step = max(1, _WAITING // max(self._size(1), 1))
        parts = [stored[begin : begin + step] for begin in range(0, len(stored), step)]
        return [part.swapaxes(0, 1) for part in (*parts, *self._waiting)]


class Rows:
    """Everything that a run keeps of the draws of its chains.

    Parameters
    ----------
    templates : dict
        An array without rows, (0, ...), for each name that there are rows of.
    chains : int
        Number of chains.
    thinned : bool
        Whether to keep so few rows that they need constant memory.
    folder : Path, optional
        Folder for the files of rows; without it they are kept in memory, or in a temporary folder when they need too
        much of it.
    suffix : str
        End of the names of files, which tells them from those of other recordings.
    expected : int
        Number of rows that are expected, if that is known.
    """

    def __init__(
        self,
        templates: dict[str, Array],
        chains: int,
        thinned: bool = False,
        folder: Path | None = None,
        suffix: str = ".rows",
        expected: int = 0,
    ) -> None:
        self.templates, self.chains, self.thinned = templates, chains, thinned
        self.folder, self.suffix = folder, suffix
        self._temporary: _TemporaryFolder | None = None
        self._looked = 0.0
        size = chains * sum(map(_row_size, templates.values()))
        if folder is None and not thinned and size * expected > _SHARE * available_memory():
            self._use(_TemporaryFolder(size * expected))
        self.columns: dict[str, Column] = {
            label: self._new_column(label, width, like, 0 if label_name(label) in (*RAGGED, *PER_SWEEP) else expected)
            for label, width, like in self.labelled()
        }

    def labelled(self) -> list[tuple[str, int, Array]]:
        """Return the label of each column, its number of chains, and an array without rows.

        Rows of which chains have different numbers are in one column per chain.
        """
        found = []
        for name, like in self.templates.items():
            if name in RAGGED:
                found += [(f"{name}.{k}", 1, like) for k in range(self.chains)]
            else:
                found.append((name, self.chains, like))
        return found

    @property
    def mapped(self) -> bool:
        """Whether files may be kept mapped."""
        return len(self.labelled()) <= _MOST_MAPPED

    def _new_column(self, label: str, chains: int, like: Array, expected: int) -> Column:
        if self.thinned:
            return Thinned(chains, like)
        if self.folder is not None:
            return InFile(self.file_of(label), chains, like, self.mapped)
        return InMemory(chains, like, expected)

    def file_of(self, label: str) -> Path:
        """Return the file of a column."""
        assert self.folder is not None
        return self.folder / f"{label}{self.suffix}"

    def _use(self, temporary: _TemporaryFolder) -> None:
        """Keep rows in a temporary folder from now on."""
        self.folder, self._temporary = temporary.path, temporary

    def append(self, blocks: Sequence[dict[str, Array]], step: int = 1) -> None:
        """Add rows, given those of each chain; where rows are thinned they may be every `step`-th of all."""
        for label, _, _ in self.labelled():
            name, _, place = label.partition(".") if label_name(label) in RAGGED else (label, "", "")
            rows = [blocks[int(place)][name]] if place else [block[name] for block in blocks]
            self.columns[label].append(np.stack(rows), step)
        if self.folder is None and not self.thinned:
            self._spill_if_large()

    def _spill_if_large(self) -> None:
        """Move all rows to files when they take too much of the memory; look at that every now and then."""
        if time.perf_counter() - self._looked < _LOOK_EVERY:
            return
        self._looked = time.perf_counter()
        size = sum(column.nbytes for column in self.columns.values() if isinstance(column, InMemory))
        # Twice as much is needed for a moment when a column grows.
        if size < _LARGE or 2 * size < _SHARE * (available_memory() + size):
            return
        try:
            self._use(_TemporaryFolder(size))
        except OSError:  # there is no place for files
            return
        for label, width, like in self.labelled():
            moved = InFile(self.file_of(label), width, like, self.mapped)
            for block in _blocks(self.columns[label]):
                moved.append(block)
            self.columns[label] = moved

    def array(self, name: str) -> Array:
        """Return the rows of a name, (chain, row, ...)."""
        return self.columns[name].array()

    def shared(self) -> Rows:
        """Return the same rows, which grow independently of these."""
        twin = type(self)({}, self.chains, self.thinned, self.folder, self.suffix)
        twin.templates, twin._temporary = self.templates, self._temporary
        twin.columns = {label: column.shared() for label, column in self.columns.items()}
        return twin

    def moved(self, folder: Path | None, suffix: str, chains: Sequence[int] | None = None) -> Rows:
        """Return a copy of the rows of some chains, all by default, in another folder, or in memory."""
        places = range(self.chains) if chains is None else chains
        twin = Rows(self.templates, len(places), self.thinned, folder, suffix)
        twin._temporary = self._temporary if folder == self.folder else None
        for label, _, _ in twin.labelled():
            ragged = label_name(label) in RAGGED
            name = f"{label_name(label)}.{places[int(label.partition('.')[2])]}" if ragged else label
            column, chosen = self.columns[name], slice(None) if ragged else list(places)
            if isinstance(column, Thinned):
                twin.columns[label] = Thinned.of(column.array()[chosen], column.spacing, column.count)
            else:
                for block in _blocks(column):
                    twin.columns[label].append(block[chosen], 1)
        return twin


def label_name(label: str) -> str:
    """Return the name of the rows in a column: its label, without the chain where there is one column per chain."""
    name = label.partition(".")[0]
    return name if name in RAGGED else label


def _row_size(like: Array) -> int:
    return int(np.prod(like.shape[1:])) * like.dtype.itemsize


def _blocks(column: Column) -> Sequence[Array]:
    """Return the rows of a column, (chain, row, ...), in blocks."""
    return column.blocks() if isinstance(column, InFile) else [column.array()]


class _TemporaryFolder:
    """A new folder that is removed with the last reference to this object; a warning tells of it.

    Attributes
    ----------
    path : Path
        The folder.
    """

    def __init__(self, size: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="bouncy-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        warnings.warn(
            f"draws of {size / 2**30:.1f} GiB are too large for the available memory, and are kept in {self.path} "
            "until the run is dropped; a larger thin, keep='means' or checkpoint= avoid that",
            SpillWarning,
            stacklevel=2,
        )
