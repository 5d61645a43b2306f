"""What commands print for scripts: one JSON object, whatever the numbers in it are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click


def print_json(content: Mapping[str, Any]) -> None:
    """Print an object with one key to a line. What has no number (NaN, infinity, masked) is null."""
    rows = (f"  {json.dumps(name)}: {json.dumps(plain(value), allow_nan=False)}" for name, value in content.items())
    click.echo("{\n" + ",\n".join(rows) + "\n}")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays and tuples as lists, what is neither number nor text as text.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"ess": np.array([1.5, np.nan]), ("a", 1): np.int64(3), "labels": [(0, 1), None]})
    {'ess': [1.5, None], "('a', 1)": 3, 'labels': [[0, 1], None]}
    """
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy; masked entries come as None
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
