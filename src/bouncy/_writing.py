"""Writing a file so that a crash at any moment leaves either the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def written(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a new file that takes its place at `path` when the block ends without an error, and is removed otherwise.

    A link at `path` stays a link: what it points to is replaced.
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
    _sync_directory(os.path.dirname(final))


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
    """Give the file its name. Without `overwrite` a file that appeared in the meantime is kept."""
    if not overwrite:
        try:
            os.link(temporary, final)
            return
        except FileExistsError:
            raise _exists(final) from None
        except OSError:  # a file system without hard links
            pass
    os.replace(temporary, final)


def _sync_directory(folder: str) -> None:
    """Make the new name survive a crash of the machine, on systems where a directory can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
