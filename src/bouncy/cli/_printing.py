"""What commands print for scripts: one JSON object that people can read too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click


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


_DEPTH = 2
