"""What a run keeps of its draws: rows that grow at their end, in memory, thinned as they grow, or in files."""

from __future__ import annotations

import shutil
import tempfile
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

    def restore(self, kept: Array, spacing: int, count: int) -> None:
        """Go on from rows, (chain, row, ...), of which every so many of a number are there."""
        self._kept, self._spacing = [rows.copy() for rows in kept], [spacing] * len(kept)
        self.count = np.full(len(kept), count, np.int64)


class InFile(Column):
    """Rows in a file, (row, chain, ...), to which they are added as soon as all chains have them.

    Attributes
    ----------
    path : Path
        Where they are.
    written : int
        Rows in the file.
    checksum : int
        CRC-32 of them.
    """

    def __init__(self, path: Path, chains: int, like: Array) -> None:
        self.path, self.written, self.checksum = path, 0, 0
        self._shape, self._dtype = (chains, *like.shape[1:]), like.dtype
        self._waiting: list[list[Array]] = [[] for _ in range(chains)]
        self.count = np.zeros(chains, np.int64)
        path.write_bytes(b"")

    @classmethod
    def reopen(cls, path: Path, chains: int, like: Array, written: int, checksum: int) -> InFile:
        """Go on with a file that has at least these rows; raise `ValueError` where it does not."""
        column = cls.__new__(cls)
        column.path, column.written, column.checksum = path, written, checksum
        column._shape, column._dtype = (chains, *like.shape[1:]), like.dtype
        column._waiting = [[] for _ in range(chains)]
        column.count = np.full(chains, written, np.int64)
        size = path.stat().st_size
        if size < column._size(written):
            raise ValueError(f"it has {size} bytes; expected at least {column._size(written)} for {written} rows")
        found = column._sum_of(written)
        if found != checksum:
            raise ValueError(f"the checksum of its first {written} rows is {found:08x}; expected {checksum:08x}")
        return column

    def _size(self, rows: int) -> int:
        return rows * int(np.prod(self._shape)) * self._dtype.itemsize

    def _sum_of(self, rows: int) -> int:
        """Return the checksum of the first rows."""
        left, checksum = self._size(rows), 0
        with open(self.path, "rb") as file:
            while left:
                part = file.read(min(left, _WAITING))
                checksum, left = zlib.crc32(part, checksum), left - len(part)
                if not part:
                    raise ValueError(f"it ends {left} bytes too early")
        return checksum

    def append(self, chain: int, rows: Array) -> None:
        self._waiting[chain].append(rows)
        self.count[chain] += len(rows)
        if sum(part.nbytes for part in self._waiting[chain]) * len(self.count) > _WAITING:
            self.flush()

    def flush(self) -> None:
        """Write the rows that all chains have. Nothing is lost when that fails: they wait on, and are written later."""
        n = int(self.count.min(initial=2**62)) - self.written
        if n <= 0 or not self.count.size:
            return
        waiting = [np.concatenate(parts) for parts in self._waiting]
        block = np.ascontiguousarray(np.stack([rows[:n] for rows in waiting], axis=1))
        self._waiting = [[rows[n:]] if len(rows) > n else [] for rows in waiting]
        try:
            # What follows the rows is left from a write that failed, or that a checkpoint does not count.
            with open(self.path, "r+b") as file:
                file.seek(self._size(self.written))
                file.write(block.data)
                file.truncate()
        except OSError:
            for parts, rows in zip(self._waiting, np.moveaxis(block, 1, 0), strict=True):
                parts.insert(0, rows)
            raise
        self.written += n
        self.checksum = zlib.crc32(block.data, self.checksum)

    def cut(self, n: int) -> None:
        for k, parts in enumerate(self._waiting):
            over = max(int(self.count[k]) - max(n, self.written), 0)
            rows = np.concatenate(parts) if parts else None
            self._waiting[k] = [] if rows is None or over >= len(rows) else [rows[: len(rows) - over]]
        np.minimum(self.count, n, out=self.count)
        if n < self.written:
            self.checksum, self.written = self._sum_of(n), n

    def array(self) -> Array:
        """Return the rows in memory if they fit into it, and else as a read-only map of the file."""
        self.flush()
        if not self.written:
            return np.zeros((self._shape[0], 0, *self._shape[1:]), self._dtype)
        rows = np.memmap(self.path, self._dtype, "r", shape=(self.written, *self._shape)).swapaxes(0, 1)
        return np.array(rows) if rows.nbytes < _SHARE * available_memory() else rows

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
        self.columns: dict[str, Column] = {}
        size = chains * sum(map(_row_size, templates.values()))
        if folder is None and not thinned and size * expected > _SHARE * available_memory():
            self.folder = _temporary_folder(self, size * expected)
        for name, like in templates.items():
            for label, width in self._split(name):
                self.columns[label] = self._new_column(label, width, like, 0 if name in _UNKNOWN else expected)

    @property
    def names(self) -> tuple[str, ...]:
        """What there are rows of."""
        return tuple(self._templates)

    def adopt(self, templates: dict[str, Array]) -> None:
        """Have rows of these names, whose columns are to follow."""
        self._templates = templates

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
            return InFile(self.file_of(label), chains, like)
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
        """Move all rows to files when they take too much of the memory."""
        size = sum(column.nbytes for column in self.columns.values() if isinstance(column, InMemory))
        # Twice as much is needed for a moment when a column grows.
        if size < _LARGE or 2 * size < _SHARE * (available_memory() + size):
            return
        self.folder = _temporary_folder(self, size)
        for label, column in self.columns.items():
            self.columns[label] = _moved(column, self.file_of(label))

    def cut(self, draws: int, sweeps: int) -> None:
        """Forget what comes after some draws and sweeps of each chain."""
        for place in range(self._chains if "flip_count" in self.columns else 0):
            counts = self.columns["flip_count"].array()
            flips = int(counts[place, :sweeps].sum(dtype=np.int64))
            for name in RAGGED:
                self.columns[f"{name}.{place}"].cut(flips)
        for label, column in self.columns.items():
            if label.partition(".")[0] not in RAGGED:
                column.cut(sweeps if label in PER_SWEEP else draws)

    def array(self, name: str) -> Array:
        """Return the rows of a name that all chains have, (chain, row, ...)."""
        return self.columns[name].array()

    def only(self, places: Sequence[int], suffix: str) -> Rows:
        """Return the rows of the chains at some places, where these are, under another suffix."""
        left = Rows(self._templates, len(places), self._thinned, self.folder, suffix)
        for name in self._templates:
            for new, place in enumerate(places):
                if name in RAGGED:
                    left.columns[f"{name}.{new}"].append(0, self.columns[f"{name}.{place}"].array()[0])
                elif not self._thinned:
                    left.columns[name].append(new, self.columns[name].array()[place])
            column, thinned = self.columns.get(name), left.columns.get(name)
            if isinstance(column, Thinned) and isinstance(thinned, Thinned):
                thinned.restore(column.array()[list(places)], column.spacing, int(column.count.min()))
        return left


# Rows below this size are never moved to files.
_LARGE = 1 << 28


def _row_size(like: Array) -> int:
    return int(np.prod(like.shape[1:])) * like.dtype.itemsize


def _temporary_folder(owner: Any, size: int) -> Path:
    """Return a new folder that is removed with its owner, and warn that it is used."""
    folder = tempfile.mkdtemp(prefix="bouncy-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(
        f"draws of {size / 2**30:.1f} GiB are too large for the memory that is left, and are kept in {folder} until "
        "the run is dropped; a larger thin, keep='means' or checkpoint= avoid that",
        SpillWarning,
        stacklevel=2,
    )
    return Path(folder)


def _moved(column: Column, path: Path) -> InFile:
    """Return the rows of a column in a file."""
    assert isinstance(column, InMemory)
    rows = column._data
    moved = InFile(path, rows.shape[0], rows[0])
    step = max(1, _WAITING // max(_row_size(rows[0]) * rows.shape[0], 1))
    for begin in range(0, int(column.count.max(initial=0)), step):
        for chain, count in enumerate(column.count):
            moved.append(chain, rows[chain, begin : min(begin + step, int(count))].copy())
    return moved
