"""Write files and directories atomically: a crash leaves the old one or the new one, complete."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def atomic_file(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a temporary file that is moved to `path` when the block ends without an error, and is removed otherwise.

    A symbolic link at `path` stays: the file it points to is replaced.
    """
    final = os.path.realpath(path)
    _check_place(path, final, overwrite)
    temporary = f"{final}.{secrets.token_hex(8)}.part"
    try:
        # "x" creates the file with the permissions that the user's umask gives; those of tempfile are private
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _move(temporary, final, overwrite)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_directory(os.path.dirname(final))


@contextlib.contextmanager
def atomic_directory(path: str, overwrite: bool, marker: str) -> Iterator[str]:
    """Make a temporary directory that is moved to `path` when the block ends without an error, else removed.

    An existing directory is replaced only if it holds a file called `marker`, as directories of its kind do, so that a
    mistyped path removes nothing else. A crash between the two renames leaves the old one with the suffix `.old`.
    """
    final = os.path.realpath(path)
    _check_directory(path, final, overwrite, marker)
    temporary = f"{final}.{secrets.token_hex(8)}.part"
    try:
        os.mkdir(temporary)
        yield temporary
        _sync_tree(temporary)
        if os.path.lexists(final):
            _check_directory(path, final, overwrite, marker)
            aside = f"{temporary.removesuffix('.part')}.old"
            os.rename(final, aside)
            os.rename(temporary, final)
            shutil.rmtree(aside)
        else:
            os.rename(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_directory(os.path.dirname(final))


def _check_directory(path: str, final: str, overwrite: bool, marker: str) -> None:
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {path}: there is no directory {folder}")
    if not os.path.lexists(final):
        return
    if not os.path.isfile(os.path.join(final, marker)):
        raise FileExistsError(f"cannot write {path}: it exists and holds no {marker}, so that it is something else")
    if not overwrite:
        raise _exists(path)


def _sync_tree(folder: str) -> None:
    for place, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(place)


def _check_place(path: str, final: str, overwrite: bool) -> None:
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {path}: there is no directory {folder}")
    if os.path.lexists(final) and not os.path.isfile(final):
        raise FileExistsError(f"cannot write {path}: it exists and is not a regular file")
    if os.path.lexists(final) and not overwrite:
        raise _exists(path)


def _exists(path: str) -> FileExistsError:
    return FileExistsError(f"{path} exists; pass overwrite=True to replace it")


def _move(temporary: str, final: str, overwrite: bool) -> None:
    """Rename the file. Without `overwrite`, keep a file that has appeared at `final` in the meantime."""
    if not overwrite:
        try:
            os.link(temporary, final)
            return
        except FileExistsError:
            raise _exists(final) from None
        except OSError:  # a file system without hard links
            pass
    os.replace(temporary, final)


def sync_directory(folder: str) -> None:
    """Flush a directory to disk, so that new names in it survive a crash; does nothing where that is impossible."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
