"""Checks of where a file is to go, made before anything is computed that could then not be kept."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.util import find_spec

import click

from bouncy.cli._suggestions import did_you_mean


def check_suffix(path: str, known: Collection[str], option: str = "--out") -> str:
    """Return the suffix of a path, which must be one of those known."""
    suffix = os.path.splitext(path.rstrip(os.sep))[1].lower()
    if suffix not in known:
        raise click.UsageError(
            f"{option} is {path!r}, whose suffix {suffix!r} stands for nothing that can be written; expected one of "
            f"{', '.join(sorted(known))}.{did_you_mean(suffix, known)}"
        )
    return suffix


def check_place(path: str, force: bool, *, directory: bool = False) -> None:
    """Raise unless a file, or a directory, can be put at `path`; what is there is only replaced with `force`."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise click.ClickException(f"cannot write {path}: there is no directory {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.ClickException(f"cannot write {path}: the directory {folder} is not writable")
    if os.path.isdir(path) != directory and os.path.lexists(path) and not os.path.islink(path):
        there, wanted = ("a directory", "a file") if os.path.isdir(path) else ("a file", "a directory")
        raise click.ClickException(f"cannot write {path}: it is {there}, and would have to be {wanted}")
    if os.path.lexists(path) and not force:
        raise click.ClickException(f"{path} exists; choose another name, or replace it with --force")


def check_extra(path: str, needed: Collection[str], extra: str) -> None:
    """Raise unless the packages are installed that are needed to write `path`."""
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"writing {path} needs {' and '.join(missing)}; install with: pip install 'bouncy[{extra}]'"
        )
