"""What commands write: tables, JSON and errors on the terminal, and checks of a file's place before any work."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import Any

import click

# Nesting depth up to which each entry of JSON has a line of its own.
_DEPTH = 2
# Label at the beginning of a line of diagnostics.
_LABEL = re.compile(r" *[a-z][a-z -]*: ")


def print_summary(summary: object) -> None:
    """Print a summary, with long lines wrapped on a terminal and unchanged elsewhere."""
    text = str(summary)
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        text = "\n".join(wrapped(line, columns) for line in text.splitlines())
    click.echo(text)


def wrapped(line: str, columns: int) -> str:
    """Return a line wrapped to a number of columns; the text after a label stays to the right of it.

    Examples
    --------
    >>> print(wrapped("warning: chains disagree, run much longer", 26))
    warning: chains disagree,
             run much longer
    """
    if len(line) <= columns:
        return line
    label = _LABEL.match(line)
    return textwrap.fill(line, columns, subsequent_indent=" " * (label.end() if label else 0))


def print_json(content: Mapping[str, Any]) -> None:
    """Print an object with a line for each key, and for each row of a table. NaN is null."""
    from bouncy.results.describe import plain

    click.echo(_laid_out(plain(content)))


def _laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each entry of an outer object or list, unless it is a list of numbers or words."""
    is_table = isinstance(value, list) and any(isinstance(row, dict | list) for row in value)
    if not value or depth == _DEPTH or not (isinstance(value, dict) or is_table):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, dict):
        entries = [f"{json.dumps(name)}: {_laid_out(item, depth + 1)}" for name, item in value.items()]
    else:
        entries = [_laid_out(item, _DEPTH) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner, outer = "  " * (depth + 1), "  " * depth
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{outer}{closing}"


# Errors


def one_line(error: Exception) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def in_options(text: str, command: click.Command | None, commands: Collection[str]) -> str:
    """Return an error text with arguments of Python functions replaced by options, and functions by commands.

    Examples
    --------
    >>> import click
    >>> convert = click.Command("convert", params=[click.Option(["--renumber"]), click.Option(["--vartype"])])
    >>> in_options("pass renumber=True or vartype='SPIN', see bouncy.sample", convert, ["sample"])
    'pass --renumber or --vartype SPIN, see `bouncy sample`'
    """
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)] if command else []
    options = [parameter.opts[0] for parameter in shown if parameter.opts[0].startswith("--")]
    names = {option[2:].replace("-", "_"): option for option in options}
    for name, option in {**names, **({"overwrite": "--force"} if "force" in names else {})}.items():
        text = re.sub(rf"\b{name}='(\w+)'", rf"{option} \1", text)
        text = re.sub(rf"\b{name}=(?:True\b)?", option, text)
    for name in commands:
        text = re.sub(rf"\bbouncy\.{name}\b", f"`bouncy {name}`", text)
    return text


# Places of files


def check_place(path: str, force: bool, *, directory: bool = False) -> None:
    """Raise unless a file, or a directory, can be written at `path`; an existing one is replaced only with `force`."""
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
    """Raise unless the packages that are needed to write `path` are installed."""
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"writing {path} needs {' and '.join(missing)}; install with: pip install 'bouncy[{extra}]'"
        )
