"""Errors of Python functions in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Collection

import click


def one_line(error: Exception) -> str:
    """Return what an error says, in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def in_options(text: str, command: click.Command | None, commands: Collection[str]) -> str:
    """Return an error text with the arguments of functions that are options of a command as such, and so with commands.

    Examples
    --------
    >>> import click
    >>> convert = click.Command("convert", params=[click.Option(["--renumber"]), click.Option(["--vartype"])])
    >>> in_options("pass renumber=True or vartype='SPIN', see bouncy.sample", convert, ["sample"])
    'pass --renumber or --vartype SPIN, see `bouncy sample`'
    """
    options = (
        [parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")] if command else []
    )
    names = {option[2:].replace("-", "_"): option for option in options}
    for name, option in {**names, **({"overwrite": "--force"} if "force" in names else {})}.items():
        text = re.sub(rf"\b{name}='(\w+)'", rf"{option} \1", text)
        text = re.sub(rf"\b{name}=(?:True\b)?", option, text)
    for name in commands:
        text = re.sub(rf"\bbouncy\.{name}\b", f"`bouncy {name}`", text)
    return text
