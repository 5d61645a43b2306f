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
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from bouncy.run.container import packed, synced, unpacked
from bouncy.run.rows import InFile, Rows
from bouncy.storage.atomic import atomic_file, sync_directory

Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")

FORMAT = 1
_STATES = ("state-0", "state-1")
_LOCK = "lock"
# What a file that is damaged, or made to do harm, may have fail.
_WHAT_IS_WRONG = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, TypeError, ValueError)


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

    No other run can write to it from the moment that this object is made, or that a run is extended, until the run
    stops.

    Parameters
    ----------
    folder : Path
        The folder, which exists.
    every : float
        Seconds from one writing to the next.
    new : bool
        Whether there is nothing in it yet.
    """

    def __init__(self, folder: Path, every: float, new: bool = False) -> None:
        self.folder, self.every = folder.absolute(), every
        if not new:
            _check_present(folder)
        self._state = ""  # the file of the last generation
        self._generation = 0
        self._files: list[Path] = []  # its rows
        self._left: list[Any] | None = None  # what was in the folder when we let others use it
        self._lock: Callable[[], object] | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None
        self._last = time.perf_counter()
        self._take()

    @classmethod
    def new(cls, path: str | os.PathLike[str], every: float) -> Checkpoint:
        """Begin a checkpoint, in a folder that has none."""
        folder = Path(path).absolute()
        if any(os.path.lexists(folder / name) for name in _STATES):
            raise CheckpointError(
                folder,
                "there is a checkpoint already. Go on with it by bouncy.resume(path, target), or remove the folder to "
                "begin anew",
            )
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(folder, "it exists and is not a folder")
        if any(folder.glob("*.rows")):
            raise CheckpointError(folder, "it holds draws of a checkpoint whose states are gone; remove them first")
        try:
            _make(folder)
        except OSError as error:
            raise CheckpointError(folder, f"the folder cannot be made: {error.strerror}") from error
        return cls(folder, every, new=True)

    def _take(self) -> None:
        """Have the folder for ourselves, unless we have it already."""
        if self._lock is not None:
            return
        self._lock = weakref.finalize(self, _unlock, _locked(self.folder))
        if self._left not in (None, _stamps(self.folder)):
            self.close()
            raise CheckpointError(
                self.folder,
                "another run has gone on with this checkpoint. Go on with that by bouncy.resume(path, target), or "
                "extend a copy.copy of this run, which is not written to it",
            )
        for file in self.folder.glob("state-?.*.part"):  # of a process that was killed
            with contextlib.suppress(OSError):
                file.unlink()

    def follow(self, state: str, generation: int, rows: Rows) -> None:
        """Go on after the generation in a file, which has these rows and stays until the one after the next."""
        self._state, self._generation = state, generation
        self._files = [column.path for column in rows.columns.values() if isinstance(column, InFile)]

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() - self._last >= self.every and (self._job is None or self._job.done())

    def write(self, header: dict[str, Any], arrays: Arrays, rows: Rows) -> None:
        """Begin to write a generation, of arrays that nobody changes any more; a failure is told as a warning.

        The states are written by a thread of its own, while the chains go on. Only the first generation is waited for:
        there is something to go on from before there is anything to lose.
        """
        self._finish()
        self._take()
        self._last = time.perf_counter()
        columns = {label: column for label, column in rows.columns.items() if isinstance(column, InFile)}
        try:
            for column in columns.values():
                column.flush()
        except OSError as error:
            self._warn(error)
            return
        table = {label: [column.written, column.checksum] for label, column in columns.items()}
        header = {**header, "format": FORMAT, "generation": self._generation + 1, "rows": table}
        self._writer = self._writer or ThreadPoolExecutor(1)
        files = [column.path for column in columns.values()]
        filled = [column.path for column in columns.values() if column.written]
        # Looked for now: the chains go on, and may begin new files before this is written.
        stale = set(self.folder.glob("*.rows")) - {*files, *self._files}
        self._job = self._writer.submit(self._write, header, arrays, files, filled, stale)
        if not self._state:
            self._finish()

    def _write(
        self, header: dict[str, Any], arrays: Arrays, files: list[Path], filled: list[Path], stale: set[Path]
    ) -> None:
        """Write a generation with rows in these files, of which some are filled, and remove stale ones."""
        for file in filled:
            synced(file)
        state = _STATES[self._state == _STATES[0]]  # never the file of the last generation
        with atomic_file(str(self.folder / state), overwrite=True) as out:
            for part in packed(header, arrays):
                out.write(part)
        for file in stale:
            with contextlib.suppress(OSError):
                file.unlink()
        self._state, self._generation, self._files = state, header["generation"], files

    def _finish(self) -> None:
        """Wait until what was begun is on disk."""
        if self._job is None:
            return
        job, self._job = self._job, None
        try:
            job.result()
        except (OSError, MemoryError) as error:
            self._warn(error)

    def _warn(self, error: OSError | MemoryError) -> None:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        left = "the last one is still there" if self._state else "there is none yet"
        warnings.warn(
            f"the checkpoint in {self.folder} could not be written ({what}); {left}. The run goes on, and tries again "
            f"every {self.every:g} s",
            CheckpointWarning,
            stacklevel=2,
        )

    def wait(self) -> None:
        """Wait until everything is written, and let others use the folder until the next writing."""
        try:
            self._finish()
        finally:
            self.close()

    def close(self) -> None:
        """Let others use the folder."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None
        if self._lock is not None:
            self._left = _stamps(self.folder)
            self._lock()
            self._lock = None


def read(path: str | os.PathLike[str], build: Callable[[dict[str, Any], Arrays], Result]) -> Result:
    """Return what `build` makes of the last generation that is whole.

    A damaged one is passed over with a warning. `build` gets the header, with the name of the file as `state`, and the
    arrays, and raises `ValueError` or the like where they are not what they should be, or `CheckpointError` where no
    other generation would be better.
    """
    folder = Path(path)
    problems: dict[Path, BaseException] = {}
    whole = []
    for file in _check_present(folder):
        try:
            header, arrays = unpacked(file)
            if header["format"] != FORMAT:
                raise ValueError(f"it is of format {header['format']!r:.20}; this version of bouncy reads {FORMAT}")
            whole.append((int(header["generation"]), file, {**header, "state": file.name}, arrays))
        except _WHAT_IS_WRONG as error:
            problems[file] = error
    for _, file, header, arrays in sorted(whole, key=lambda item: -item[0]):
        try:
            result = build(header, arrays)
        except _WHAT_IS_WRONG as error:
            problems[file] = error
            continue
        for damaged, problem in problems.items():
            warnings.warn(
                f"{damaged}: {_described(problem)}. {file.name} is used instead", CheckpointWarning, stacklevel=3
            )
        return result
    named = "; ".join(f"{file.name}: {_described(problem)}" for file, problem in problems.items())
    cause = [*problems.values()][-1]
    raise CheckpointError(folder, f"no generation of the checkpoint can be used ({named})") from cause


def _check_present(folder: Path) -> list[Path]:
    """Return the states in a folder, and raise where there are none."""
    found = [folder / name for name in _STATES if os.path.lexists(folder / name)]
    if found:
        return found
    if not folder.is_dir():
        raise CheckpointError(folder, "there is no such folder")
    if any(folder.glob("*.rows")):
        raise CheckpointError(folder, f"both states of the checkpoint ({', '.join(_STATES)}) are gone")
    raise CheckpointError(
        folder,
        "there is no checkpoint in this folder. A run that was ended before it wrote the first has lost nothing: "
        "begin it again by bouncy.sample(..., checkpoint=path)",
    )


def _described(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]!r:.60} is missing"
    return str(error) or type(error).__name__


def _make(folder: Path) -> None:
    """Make a folder whose name survives a crash of the machine."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in made:
        sync_directory(str(place.parent))


def _stamps(folder: Path) -> list[Any]:
    """Return what changes in a folder when a generation is written."""
    stamps: list[Any] = []
    for name in _STATES:
        with contextlib.suppress(OSError):
            found = os.stat(folder / name)
            stamps.append((name, found.st_ino, found.st_mtime_ns, found.st_size))
    return stamps


# Handles of the locks that this process holds.
_held: set[int] = set()


def _locked(folder: Path) -> int | None:
    """Return a handle on the folder that no other process can have at the same time, where the system knows such."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CheckpointError(folder, "it cannot be written to" if folder.is_dir() else "there is no such folder")
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
        os.close(handle)
        return None
    _held.add(handle)
    return handle


def _unlock(handle: int | None) -> None:
    if handle in _held:
        _held.remove(handle)
        os.close(handle)


def _disown() -> None:
    """Give up the locks in a process that was forked: they are its parent's, and must end with that."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)
