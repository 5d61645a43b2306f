"""What a run keeps of its draws: rows that grow at their end, in memory, thinned as they grow, or in files."""

from __future__ import annotations

import contextlib
import copy
import errno
import math
import os
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
# Rows that chains have different numbers of, and those of which there is one per sweep.
RAGGED = ("flip_site", "flip_time")
PER_SWEEP = ("flip_count",)
# Rows whose number does not follow from that of the draws.
_UNKNOWN = (*RAGGED, *PER_SWEEP)
# Share of the memory that is left which rows may take before they go to a file.
_SHARE = 0.5
# Bytes that wait in memory before they are written to a file, or are read back from one at a time.
_WAITING = 1 << 24
# Seconds between two looks at the memory that is left.
_LOOK_EVERY = 0.25
# Files that a run holds at most.
_MOST_HELD = 64


class SpillWarning(UserWarning):
    """Draws need more memory than there is and are kept on disk."""


class Column(ABC):
    """Rows of one name, of some chains.

    Attributes
    ----------
    count : ndarray of int64, shape (chain,)
        Rows of each chain so far.
    """

    count: NDArray[np.int64]

    @abstractmethod
    def append(self, chain: int, rows: Array) -> None:
        """Add rows, (n, ...), of a chain, given its place."""

    @abstractmethod
    def cut(self, n: int) -> None:
        """Forget what comes after the first n rows of each chain."""

    @abstractmethod
    def array(self) -> Array:
        """Return the rows that all chains have, (chain, row, ...)."""

    @abstractmethod
    def rows_of(self, chain: int) -> Array:
        """Return the rows of one chain, (row, ...), given its place, also those that others do not have."""

    @property
    def spacing(self) -> int:
        """Every how many rows one is still there."""
        return 1


class InMemory(Column):
    """Rows in memory, of which there is twice as much whenever it is full."""

    def __init__(self, chains: int, like: Array, expected: int = 0) -> None:
        self._data = np.zeros((chains, expected, *like.shape[1:]), like.dtype)
        self.count = np.zeros(chains, np.int64)

    @classmethod
    def of(cls, rows: Array) -> InMemory:
        """Return a column that begins with these rows, (chain, row, ...)."""
        column = cls(0, rows)
        column._data, column.count = rows, np.full(rows.shape[0], rows.shape[1], np.int64)
        return column

    def append(self, chain: int, rows: Array) -> None:
        begin = int(self.count[chain])
        end = begin + len(rows)
        if end > self._data.shape[1]:
            wider = np.zeros((self._data.shape[0], max(end, 2 * begin, 16), *self._data.shape[2:]), self._data.dtype)
            wider[:, : self._data.shape[1]] = self._data
            self._data = wider
        self._data[chain, begin:end] = rows
        self.count[chain] = end

    def cut(self, n: int) -> None:
        np.minimum(self.count, n, out=self.count)

    def array(self) -> Array:
        return self._data[:, : int(self.count.min(initial=2**62))]

    def rows_of(self, chain: int) -> Array:
        return self._data[chain, : int(self.count[chain])]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes


class Thinned(Column):
    """Rows of which every second one is dropped whenever there are too many, so that they need constant memory.

    Counted from 1, row k is kept as long as k is a multiple of `spacing`, a power of two. Rows may come already
    thinned, as long as they have all that are still kept (`step`).
    """

    def __init__(self, chains: int, like: Array) -> None:
        self._kept = [like[:0].copy() for _ in range(chains)]
        self._spacing = [1] * chains
        self.count = np.zeros(chains, np.int64)

    @classmethod
    def of(cls, rows: Array, spacing: int) -> Thinned:
        """Return a column of rows, (chain, row, ...), of which every so many-th is there."""
        column = cls(len(rows), rows[0])
        column.restore(rows, spacing, spacing * rows.shape[1])
        return column

    @property
    def spacing(self) -> int:
        return max(self._spacing)

    def spacing_of(self, chain: int) -> int:
        """Return every how many rows one of a chain is still kept."""
        return self._spacing[chain]

    def append(self, chain: int, rows: Array, step: int = 1) -> None:
        """Add rows, (n, ...), of a chain, given its place; they are every `step`-th of all rows."""
        spacing, count = self._spacing[chain], int(self.count[chain])
        every = spacing // step
        kept = np.concatenate([self._kept[chain], rows[every - 1 - count // step % every :: every]])
        while len(kept) > MOST_POINTS:
            kept, spacing = kept[1::2].copy(), 2 * spacing
        self._kept[chain], self._spacing[chain] = kept, spacing
        self.count[chain] = count + step * len(rows)

    def cut(self, n: int) -> None:
        np.minimum(self.count, n, out=self.count)
        self._kept = [kept[: n // own] for kept, own in zip(self._kept, self._spacing, strict=True)]

    def array(self) -> Array:
        spacing = self.spacing
        even = [kept[spacing // own - 1 :: spacing // own] for kept, own in zip(self._kept, self._spacing, strict=True)]
        n = min(map(len, even))
        return np.stack([kept[:n] for kept in even])

    def rows_of(self, chain: int) -> Array:
        return self._kept[chain]

    def restore(self, kept: Array, spacing: int, count: int) -> None:
        """Go on from rows, (chain, row, ...), of which every so many of a number are there."""
        self._kept, self._spacing = [rows.copy() for rows in kept], [spacing] * len(kept)
        self.count = np.full(len(kept), count, np.int64)


class InFile(Column):
    """Rows in a file, (row, chain, ...), to which they are added as soon as all chains have them.

    Rows that cannot be written, because the disk is full or the file is gone, wait in memory and are tried again later.
    Those that were written stay readable as long as the column lives, whatever becomes of the name of the file, unless
    `hold` is false: a process can hold only so many files.

    Attributes
    ----------
    path : Path
        Where they are, if there are any.
    written : int
        Rows in the file.
    checksum : int
        CRC-32 of them.
    """

    def __init__(self, path: Path, chains: int, like: Array, hold: bool = True) -> None:
        self.path, self.written, self.checksum = path, 0, 0
        self._hold = hold
        self._shape, self._dtype = (chains, *like.shape[1:]), like.dtype
        self._waiting: list[list[Array]] = [[] for _ in range(chains)]
        self._patience = _WAITING  # bytes that may wait
        self._map: Array | None = None  # what was written, or more
        self._inode = 0
        self.count = np.zeros(chains, np.int64)

    @classmethod
    def reopen(cls, path: Path, chains: int, like: Array, written: int, checksum: int, hold: bool = True) -> InFile:
        """Go on with a file that has at least these rows; raise `ValueError` where it does not."""
        column = cls(path, chains, like, hold)
        column.written, column.checksum = written, checksum
        column.count[:] = written
        if written:
            column._check(written, checksum)
            column._hold_file()
        return column

    def _check(self, rows: int, checksum: int) -> None:
        """Raise unless the file has so many rows of this checksum."""
        size, left, found = os.stat(self.path).st_size, self._size(rows), 0
        if size < left:
            raise ValueError(f"it has {size} bytes; expected at least {left} for {rows} rows")
        # Not by the map: a disk that cannot be read is an error here, and would end the process there.
        with open(self.path, "rb") as file:
            while left:
                part = file.read(min(left, _WAITING))
                found, left = zlib.crc32(part, found), left - len(part)
                if not part:
                    raise ValueError(f"it ends {left} bytes too early")
        if found != checksum:
            raise ValueError(f"the checksum of its first {rows} rows is {found:08x}; expected {checksum:08x}")

    def _size(self, rows: int) -> int:
        size: int = rows * math.prod(self._shape) * self._dtype.itemsize
        return size

    def _hold_file(self) -> None:
        """Map what was written, so that it stays readable."""
        if self._hold:
            with contextlib.suppress(OSError):  # of too many files: then its name has to do
                self._map, self._inode = self._mapped(), os.stat(self.path).st_ino

    def _mapped(self) -> Array:
        """Return the rows of the file where they are."""
        if not self._size(self.written):
            return np.zeros((self.written, *self._shape), self._dtype)
        return np.memmap(self.path, self._dtype, "r", shape=(self.written, *self._shape))

    def append(self, chain: int, rows: Array) -> None:
        self._waiting[chain].append(rows)
        self.count[chain] += len(rows)
        if sum(part.nbytes for part in self._waiting[chain]) * len(self.count) > self._patience:
            self._try_to_flush()

    def _try_to_flush(self) -> None:
        """Write what can be written, or try again when twice as much is waiting."""
        try:
            self.flush()
        except OSError as error:
            if self._patience == _WAITING:
                warnings.warn(
                    f"rows could not be written to {self.path} ({error.strerror or error}) and wait in memory; free "
                    "some space before that is full, too",
                    SpillWarning,
                    stacklevel=2,
                )
            self._patience *= 2

    def flush(self) -> None:
        """Write the rows that all chains have. Nothing is lost when that fails: they wait on, and are written later."""
        n = self._complete - self.written
        if n <= 0:
            return
        waiting = [np.concatenate(parts) for parts in self._waiting]
        block = np.ascontiguousarray(np.stack([rows[:n] for rows in waiting], axis=1), self._dtype)
        self._write(block)
        self.written, self.checksum = self.written + n, zlib.crc32(block.data, self.checksum)
        self._waiting = [[rows[n:]] if len(rows) > n else [] for rows in waiting]
        self._patience = _WAITING
        self._map = None
        self._hold_file()

    @property
    def _complete(self) -> int:
        """Rows that all chains have."""
        return int(self.count.min()) if self.count.size else 0

    def _write(self, block: Array) -> None:
        """Write rows behind those that count.

        What follows them is left from a write that failed, or that no checkpoint counts, and nobody reads it. It is not
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

    def cut(self, n: int) -> None:
        for k, parts in enumerate(self._waiting):
            over = max(int(self.count[k]) - max(n, self.written), 0)
            rows = np.concatenate(parts) if parts else None
            self._waiting[k] = [] if rows is None or over >= len(rows) else [rows[: len(rows) - over]]
        np.minimum(self.count, n, out=self.count)
        if n < self.written:
            self.checksum = zlib.crc32(np.ascontiguousarray(self._stored()[:n]).data)
            self.written = n

    def array(self) -> Array:
        """Return the rows in memory if they fit into it, and else as a read-only map of the file."""
        with contextlib.suppress(OSError):
            self.flush()
        rows = self._stored().swapaxes(0, 1)
        n = self._complete - self.written
        if n > 0:
            if rows.nbytes > _SHARE * available_memory():
                self.flush()  # and raise
            return np.concatenate([rows, np.stack([np.concatenate(parts)[:n] for parts in self._waiting])], axis=1)
        return np.array(rows) if rows.nbytes < _SHARE * available_memory() else rows

    def rows_of(self, chain: int) -> Array:
        return np.concatenate([self._stored()[:, chain], *self._waiting[chain]])

    def _stored(self) -> Array:
        """Return the rows that were written, (row, chain, ...), where they are."""
        if self._map is None:
            return self._mapped()
        with contextlib.suppress(FileNotFoundError):
            now = os.stat(self.path)
            # To touch a map beyond the end of its file would end the process.
            if now.st_ino == self._inode and now.st_size < self._size(self.written):
                raise OSError(errno.EIO, f"rows are lost: someone cut the file to {now.st_size} bytes", str(self.path))
        rows: Array = self._map[: self.written]
        return rows

    def __deepcopy__(self, memo: dict[int, Any]) -> InMemory:
        """Return the rows in memory: two runs that share a file could not both go on."""
        return InMemory.of(np.array(self.array()))


class Rows:
    """All that a run keeps of the draws of its chains.

    Parameters
    ----------
    templates : dict
        An array without rows, (0, ...), for each name that chains return rows of.
    chains : int
        Number of chains.
    thinned : bool
        Whether to keep so few rows that they need constant memory.
    folder : Path, optional
        Where to keep rows; in memory by default, or in a temporary folder when they need too much of it.
    suffix : str
        What the names of files there end with, to tell them from those of other rows.
    expected : int
        Rows that are expected, if that is known.
    """

    def __init__(
        self,
        templates: dict[str, Array],
        chains: int,
        thinned: bool,
        folder: Path | None = None,
        suffix: str = ".rows",
        expected: int = 0,
    ) -> None:
        self._templates, self._chains, self._thinned = templates, chains, thinned
        self.folder, self._suffix = folder, suffix
        self._temporary: _TemporaryFolder | None = None
        self._looked = 0.0
        self.columns: dict[str, Column] = {}
        size = chains * sum(map(_row_size, templates.values()))
        if folder is None and not thinned and size * expected > _SHARE * available_memory():
            self._use(_TemporaryFolder(size * expected))
        self.adopt(templates)
        for name, like in templates.items():
            for label, width in self._split(name):
                self.columns[label] = self._new_column(label, width, like, 0 if name in _UNKNOWN else expected)

    def _use(self, temporary: _TemporaryFolder) -> None:
        """Keep rows in a temporary folder from now on."""
        self.folder, self._temporary = temporary.path, temporary

    def __deepcopy__(self, memo: dict[int, Any]) -> Rows:
        """Return the rows in memory, with no claim on the folder."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__ = copy.deepcopy({**vars(self), "folder": None, "_temporary": None}, memo)
        return twin

    @property
    def names(self) -> tuple[str, ...]:
        """What there are rows of."""
        return tuple(self._templates)

    def adopt(self, templates: dict[str, Array]) -> None:
        """Have rows of these names, whose columns are to follow."""
        self._templates = templates
        self.hold = sum(len(self._split(name)) for name in templates) <= _MOST_HELD

    def labelled(self) -> list[tuple[str, Array]]:
        """Return the labels of all columns, each with an array without rows."""
        return [(label, like) for name, like in self._templates.items() for label, _ in self._split(name)]

    def _split(self, name: str) -> list[tuple[str, int]]:
        """Return the columns of a name, each with its number of chains."""
        return [(f"{name}.{k}", 1) for k in range(self._chains)] if name in RAGGED else [(name, self._chains)]

    def _new_column(self, label: str, chains: int, like: Array, expected: int) -> Column:
        if self._thinned:
            return Thinned(chains, like)
        if self.folder is not None:
            return InFile(self.file_of(label), chains, like, self.hold)
        return InMemory(chains, like, expected)

    def file_of(self, label: str) -> Path:
        """Return the file of a column."""
        assert self.folder is not None
        return self.folder / f"{label}{self._suffix}"

    def append(self, place: int, block: dict[str, Array], step: int = 1) -> None:
        """Add what the chain at a place returned; where rows are thinned these may be every `step`-th of all."""
        for name, rows in block.items():
            column = self.columns[f"{name}.{place}" if name in RAGGED else name]
            if isinstance(column, Thinned):
                column.append(place, rows, step)
            else:
                column.append(0 if name in RAGGED else place, rows)
        if self.folder is None and not self._thinned:
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
        except OSError:  # there is nowhere to go
            return
        for label, column in self.columns.items():
            self.columns[label] = _moved(column, self.file_of(label), self.hold)

    def cut(self, draws: int, sweeps: int) -> None:
        """Forget what comes after some draws and sweeps of each chain."""
        if "flip_count" in self.columns:
            flips = self.columns["flip_count"].array()[:, :sweeps].sum(axis=1, dtype=np.int64)
            for place, n in enumerate(flips.tolist()):
                for name in RAGGED:
                    self.columns[f"{name}.{place}"].cut(n)
        for label, column in self.columns.items():
            if label.partition(".")[0] not in RAGGED:
                column.cut(sweeps if label in PER_SWEEP else draws)

    def array(self, name: str) -> Array:
        """Return the rows of a name that all chains have, (chain, row, ...)."""
        return self.columns[name].array()

    def only(self, places: Sequence[int], suffix: str) -> Rows:
        """Return the rows of the chains at some places, which are level, under another suffix."""
        left = Rows(self._templates, len(places), self._thinned, self.folder, suffix)
        left._temporary = self._temporary
        for name in self._templates:
            for new, place in enumerate(places):
                if name in RAGGED:
                    left.columns[f"{name}.{new}"].append(0, self.columns[f"{name}.{place}"].rows_of(0))
                elif not self._thinned:
                    left.columns[name].append(new, self.columns[name].rows_of(place))
            column = self.columns.get(name)
            if isinstance(column, Thinned):
                # Of chains that are level: those that are left out may have fewer rows.
                thinned, spacing = left.columns[name], column.spacing_of(places[0])
                assert isinstance(thinned, Thinned)
                kept = np.stack([column.rows_of(place) for place in places])
                thinned.restore(kept, spacing, int(column.count[places[0]]))
        return left


# Rows below this size are never moved to files.
_LARGE = 1 << 28


def _row_size(like: Array) -> int:
    return int(np.prod(like.shape[1:])) * like.dtype.itemsize


class _TemporaryFolder:
    """A new folder that is removed with the last who holds this object; a warning says that it is used.

    Attributes
    ----------
    path : Path
        Where it is.
    """

    def __init__(self, size: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="bouncy-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        warnings.warn(
            f"draws of {size / 2**30:.1f} GiB are too large for the memory that is left, and are kept in {self.path} "
            "until the run is dropped; a larger thin, keep='means' or checkpoint= avoid that",
            SpillWarning,
            stacklevel=2,
        )


def _moved(column: Column, path: Path, hold: bool) -> InFile:
    """Return the rows of a column in a file."""
    assert isinstance(column, InMemory)
    rows = column._data
    moved = InFile(path, rows.shape[0], rows[0], hold)
    step = max(1, _WAITING // max(_row_size(rows[0]) * rows.shape[0], 1))
    for begin in range(0, int(column.count.max(initial=0)), step):
        for chain, count in enumerate(column.count):
            moved.append(chain, rows[chain, begin : min(begin + step, int(count))].copy())
    return moved
