"""Checkpoints: a run on disk that can go on where it was, byte for byte, whatever happened to its process.

A checkpoint is a folder. `state-0.npz` and `state-1.npz` are its last two generations, each a saved run that is
replaced as a whole. The draws are in files to which rows are only ever added (`*.rows`); a generation knows how many of
them belong to it. So a process that dies, or a disk that is full, leaves at least one generation that is whole.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bouncy.results.data import Place
from bouncy.results.run import Run
from bouncy.storage.archive import read_archive, write_archive
from bouncy.storage.atomic import atomic_file, sync_directory
from bouncy.storage.header import WrongRunError
from bouncy.storage.rows import InFile, Rows
from bouncy.storage.run_file import pack, problem
from bouncy.storage.unpack import unpack

Arrays = dict[str, NDArray[Any]]

_STATES = ("state-0.npz", "state-1.npz")
_OLD_STATES = ("state-0", "state-1")  # of version 0.1
_OLD = "it was written by version 0.1 of bouncy, which this version cannot read"
_LOCK = "lock"
# Exceptions that a damaged file can raise.
_DAMAGE = (KeyError, MemoryError, OSError, ValueError)


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

    No other run can write to it until this object is closed.

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
        self.generation = 0
        self._state = ""  # file of the last generation
        self._files: list[Path] = []  # its rows
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
        if any(os.path.lexists(folder / name) for name in _OLD_STATES):
            raise CheckpointError(folder, _OLD)
        if any(folder.glob("*.rows")):
            raise CheckpointError(folder, "it holds draws of a checkpoint whose states are gone; remove them first")
        try:
            _make(folder)
        except OSError as error:
            raise CheckpointError(folder, f"the folder cannot be made: {error.strerror}") from error
        return cls(folder, every, new=True)

    @classmethod
    def reopen(cls, place: Place) -> Checkpoint:
        """Go on with a checkpoint, if its last generation is still the one that is known."""
        checkpoint = cls(place.folder, place.every)
        try:
            run, state = read_checkpoint(place.folder)
        except BaseException:
            checkpoint.close()
            raise
        found = run._data.checkpoint
        assert found is not None
        if found.generation != place.generation:
            checkpoint.close()
            raise CheckpointError(
                place.folder,
                "another run has gone on with this checkpoint. Go on with that by bouncy.resume(path, target), or save "
                "this run to a file and extend the one that bouncy.Run.load returns",
            )
        checkpoint.follow(run, state)
        return checkpoint

    def _take(self) -> None:
        """Lock the folder against other runs."""
        self._lock = weakref.finalize(self, _unlock, _locked(self.folder))
        for file in self.folder.glob("state-?.npz.*.part"):  # of a process that was killed
            with contextlib.suppress(OSError):
                file.unlink()

    def follow(self, run: Run, state: str) -> None:
        """Go on after a generation, given its run and its file, which stays until the one after the next."""
        data = run._data
        assert data.checkpoint is not None
        self._state, self.generation = state, data.checkpoint.generation
        self._files = [column.path for column in data.records.rows.columns.values() if isinstance(column, InFile)]

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() - self._last >= self.every and (self._job is None or self._job.done())

    def write(self, result: Callable[[], Run], rows: Rows) -> None:
        """Begin to write a generation, given a function that returns the run, and its rows; a failure is a warning.

        It is written by a thread of its own, while the chains go on. Only the first generation is waited for: there is
        something to go on from before there is anything to lose.
        """
        self._finish()
        self._last = time.perf_counter()
        columns = [column for column in rows.columns.values() if isinstance(column, InFile)]
        try:
            for column in columns:
                column.flush()
        except OSError as error:
            self._warn(error)
            return
        header, arrays = pack(result())
        header["generation"] = self.generation + 1
        self._writer = self._writer or ThreadPoolExecutor(1)
        files = [column.path for column in columns]
        filled = [column.path for column in columns if column.written]
        # Listed now: the chains go on, and may begin new files before this is written.
        stale = set(self.folder.glob("*.rows")) - {*files, *self._files}
        self._job = self._writer.submit(self._write, header, arrays, files, filled, stale)
        if not self._state:
            self._finish()

    def _write(
        self, header: dict[str, Any], arrays: Arrays, files: list[Path], filled: list[Path], stale: set[Path]
    ) -> None:
        """Write a generation with rows in these files, of which some are filled, and remove stale ones."""
        for file in filled:
            with open(file, "r+b") as rows:
                os.fsync(rows.fileno())
        state = _STATES[self._state == _STATES[0]]  # never the file of the last generation
        with atomic_file(str(self.folder / state), overwrite=True) as out:
            write_archive(out, header, arrays)
        for file in stale:
            with contextlib.suppress(OSError):
                file.unlink()
        self._state, self.generation, self._files = state, header["generation"], files

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

    def close(self) -> None:
        """Wait until everything is written, and let other runs use the folder."""
        try:
            self._finish()
        finally:
            if self._writer is not None:
                self._writer.shutdown()
                self._writer = None
            if self._lock is not None:
                self._lock()
                self._lock = None


def read_checkpoint(
    folder: Path,
    target: Any = None,
    sampler: Any = None,
    se_of: Any = None,
    every: float = 30.0,
    check: Callable[[Run], object] = lambda run: None,
) -> tuple[Run, str]:
    """Return the run of the last generation that is whole, and its file.

    A damaged generation is passed over with a warning. `check` raises `ValueError` for a run that cannot go on.
    """
    problems: dict[Path, BaseException] = {}
    whole = []
    for file in _check_present(folder):
        try:
            header, arrays = read_archive(file)
            generation = header.pop("generation")
            if type(generation) is not int or generation < 1:
                raise ValueError(f"its generation is {generation!r:.20}")
            whole.append((generation, file, header, arrays))
        except _DAMAGE as error:
            problems[file] = error
    for generation, file, header, arrays in sorted(whole, key=lambda item: -item[0]):
        try:
            run = unpack(header, arrays, target, sampler, se_of, Place(folder, every, generation))
            check(run)
        except WrongRunError as error:
            raise CheckpointError(folder, str(error)) from None
        except _DAMAGE as error:
            problems[file] = error
            continue
        for damaged, cause in problems.items():
            warnings.warn(f"{damaged}: {problem(cause)}. {file.name} is used instead", CheckpointWarning, stacklevel=4)
        return run, file.name
    named = "; ".join(f"{file.name}: {problem(cause)}" for file, cause in problems.items())
    cause = [*problems.values()][-1]
    raise CheckpointError(folder, f"no generation of the checkpoint can be used ({named})") from cause


def _check_present(folder: Path) -> list[Path]:
    """Return the states in a folder, and raise where there are none."""
    found = [folder / name for name in _STATES if os.path.lexists(folder / name)]
    if found:
        return found
    if not folder.is_dir():
        raise CheckpointError(folder, "there is no such folder")
    if any(os.path.lexists(folder / name) for name in _OLD_STATES):
        raise CheckpointError(folder, _OLD)
    if any(folder.glob("*.rows")):
        raise CheckpointError(folder, f"both states of the checkpoint ({', '.join(_STATES)}) are gone")
    raise CheckpointError(
        folder,
        "there is no checkpoint in this folder. A run that was ended before it wrote the first has lost nothing: "
        "begin it again by bouncy.sample(..., checkpoint=path)",
    )


def _make(folder: Path) -> None:
    """Make a folder whose name survives a crash of the machine."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in made:
        sync_directory(str(place.parent))


# Handles of the locks that this process holds.
_held: set[int] = set()


def _locked(folder: Path) -> int | None:
    """Return a handle on the folder that no other process can have at the same time, None where there are no locks."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CheckpointError(folder, "it cannot be written to" if folder.is_dir() else "there is no such folder")
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise CheckpointError(folder, f"it cannot be written to: {error.strerror}") from error
    try:
        _lock_file(handle)
    except (BlockingIOError, PermissionError):  # the second on Windows
        os.close(handle)
        raise CheckpointError(folder, "another run is writing to it") from None
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    _held.add(handle)
    return handle


def _lock_file(handle: int) -> None:
    """Lock a file, or raise at once if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
