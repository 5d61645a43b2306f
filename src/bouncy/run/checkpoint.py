"""Checkpoints: a run on disk that can go on where it was, byte for byte, whatever happened to its process.

A checkpoint is a folder. `state-0` and `state-1` are its last two generations: the states of all chains and how far the
run is, each in one file that is replaced as a whole. The draws are in files to which rows are only ever added
(`*.rows`); a generation knows how many of them belong to it. So a process that dies, or a disk that is full, leaves at
least one generation that is whole.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from bouncy._writing import written
from bouncy.run.container import packed, synced, unpacked
from bouncy.run.rows import InFile, Rows

Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")

FORMAT = 1
_STATES = ("state-0", "state-1")
_LOCK = "lock"
_WHAT_IS_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError)


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, belongs to another run, or is in the way.

    Attributes
    ----------
    path : str
        The file or folder.
    """

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = str(path)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or a damaged one was passed over."""


class Checkpoint:
    """A folder that a run is written to every now and then, while it goes on.

    Parameters
    ----------
    folder : Path
        The folder, which exists.
    every : float
        Seconds from one writing to the next.
    """

    def __init__(self, folder: Path, every: float) -> None:
        self.folder, self.every = folder, every
        self._generation = 0
        self._lock: int | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None
        self._files: list[Path] = []  # of the last generation
        self._left: tuple[int, ...] | None = None  # how the folder was left
        self._last = time.perf_counter()
        self.hold()

    def hold(self) -> None:
        """Keep others from writing to the folder; raise where another process does, or did since it was let go."""
        if self._writer is not None:
            return
        self._lock = _locked(self.folder)
        if self._left is not None and self._left != self._looks():
            self._unlock()
            raise CheckpointError(
                self.folder, "another run has gone on from this checkpoint; go on with that one, by bouncy.resume"
            )
        self._writer = ThreadPoolExecutor(1)
        self._last = time.perf_counter()

    def _looks(self) -> tuple[int, ...]:
        """Return what tells the present generations from others."""
        found = [(self.folder / name).stat() for name in _STATES if (self.folder / name).exists()]
        return tuple(number for file in found for number in (file.st_ino, file.st_mtime_ns))

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @classmethod
    def new(cls, path: str | os.PathLike[str], every: float) -> Checkpoint:
        """Begin a checkpoint, in a folder that has none."""
        folder = Path(path)
        if any((folder / name).exists() for name in _STATES):
            raise CheckpointError(
                folder,
                "there is a checkpoint already. Go on with it by bouncy.resume(path, target), or remove the folder to "
                "begin anew",
            )
        if folder.exists() and (not folder.is_dir() or any(folder.glob("*.rows"))):
            raise CheckpointError(folder, "it exists and is not an empty folder, nor one that holds a checkpoint")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(folder, f"the folder cannot be made: {error.strerror}") from error
        return cls(folder, every)

    def follow(self, generation: int, rows: Rows) -> None:
        """Go on after a generation that has these rows, which stays until the one after the next."""
        self._generation = generation
        self._files = [column.path for column in rows.columns.values() if isinstance(column, InFile)]

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() - self._last >= self.every and (self._job is None or self._job.done())

    def write(self, header: dict[str, Any], arrays: Arrays, rows: Rows) -> None:
        """Begin to write a generation, of arrays that nobody changes any more; a failure is told as a warning.

        The states are written by a thread of its own, while the chains go on.
        """
        self.wait()
        self._last = time.perf_counter()
        columns = {label: column for label, column in rows.columns.items() if isinstance(column, InFile)}
        try:
            for column in columns.values():
                column.flush()
        except OSError as error:
            self._warn(error)
            return
        self._generation += 1
        table = {label: [column.written, column.checksum] for label, column in columns.items()}
        header = {**header, "format": FORMAT, "generation": self._generation, "rows": table}
        files = [column.path for column in columns.values()]
        # Looked for now: the chains go on, and may begin new files before this is written.
        stale = set(self.folder.glob("*.rows")) - {*files, *self._files}
        assert self._writer is not None
        self._job = self._writer.submit(self._write, header, arrays, files, stale)

    def _write(self, header: dict[str, Any], arrays: Arrays, files: list[Path], stale: set[Path]) -> None:
        for file in files:
            synced(file)
        with written(str(self.folder / _STATES[header["generation"] % 2]), overwrite=True) as out:
            for part in packed(header, arrays):
                out.write(part)
        for file in stale:
            file.unlink()  # no generation needs it any more
        self._files = files

    def wait(self) -> None:
        """Wait until what was begun is on disk."""
        if self._job is None:
            return
        job, self._job = self._job, None
        try:
            job.result()
        except OSError as error:
            self._generation -= 1  # the other generation is whole and must stay
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        warnings.warn(
            f"the checkpoint in {self.folder} could not be written ({error.strerror or error}); the last one is still "
            f"there. The run goes on, and tries again after {self.every:g} s",
            CheckpointWarning,
            stacklevel=2,
        )

    def let_go(self) -> None:
        """Wait until everything is written, and let others use the folder."""
        try:
            self.wait()
        finally:
            if self._writer is not None:
                self._writer.shutdown()
                self._writer = None
            self._left = self._looks()
            self._unlock()


def read(path: str | os.PathLike[str], build: Callable[[dict[str, Any], Arrays], Result]) -> Result:
    """Return what `build` makes of the last generation that is whole.

    A damaged one is passed over with a warning. `build` gets the header and the arrays, and raises `ValueError` or the
    like where they are not what they should be, or `CheckpointError` where no other generation would be better.
    """
    folder = Path(path)
    found = [folder / name for name in _STATES if (folder / name).exists()]
    if not found:
        what = "there is no checkpoint in this folder" if folder.is_dir() else "there is no such folder"
        raise CheckpointError(folder, what)
    problems: dict[Path, str] = {}
    whole = []
    for file in found:
        try:
            header, arrays = unpacked(file)
            if header["format"] != FORMAT:
                raise ValueError(f"it is of format {header['format']!r:.20}; this version of bouncy reads {FORMAT}")
            whole.append((int(header["generation"]), file, header, arrays))
        except _WHAT_IS_WRONG as error:
            problems[file] = _described(error)
    for _, file, header, arrays in sorted(whole, key=lambda item: -item[0]):
        try:
            result = build(header, arrays)
        except _WHAT_IS_WRONG as error:
            problems[file] = _described(error)
            continue
        for damaged, problem in problems.items():
            warnings.warn(f"{damaged}: {problem}. {file.name} is used instead", CheckpointWarning, stacklevel=3)
        return result
    named = "; ".join(f"{file.name}: {problem}" for file, problem in problems.items())
    raise CheckpointError(folder, f"no generation of the checkpoint can be used ({named})")


def _described(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing"
    return str(error) or type(error).__name__


def _locked(folder: Path) -> int | None:
    """Return a handle on the folder that no other process can have at the same time, where the system knows such."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise CheckpointError(folder, f"it cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise CheckpointError(folder, "another run is writing to it") from None
    except OSError:  # a file system without locks
        with contextlib.suppress(OSError):
            os.close(handle)
        return None
    return handle
