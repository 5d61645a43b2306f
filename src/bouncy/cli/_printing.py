"""What commands print: a summary that fits the terminal, or one JSON object for scripts that people can read too."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import click

# How deep JSON is laid out by lines.
_DEPTH = 2
# What a line of diagnostics begins with.
_LABEL = re.compile(r" *[a-z][a-z -]*: ")


def print_summary(summary: object) -> None:
    """Print a summary, with long lines wrapped on a terminal and left as they are anywhere else."""
    text = str(summary)
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        text = "\n".join(wrapped(line, columns) for line in text.splitlines())
    click.echo(text)


def wrapped(line: str, columns: int) -> str:
    """Return a line in so many columns; what follows a label stays to the right of it.

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
    """Print an object with a line for each key, and for each row of a table. What has no number (NaN) is null."""
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
