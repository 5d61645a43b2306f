"""Numbers in text files, read more strictly than Python reads them: no underscores, no `nan`, no overflow."""

from __future__ import annotations

import math

# Longer digit strings do not fit in an int64, and Python takes quadratic time for them.
_DIGITS = 18
INDEX_END = 10**_DIGITS


def parse_index(token: bytes) -> int:
    """Return an integer >= 0 below 10^18, or raise `ValueError` with what is wrong."""
    if not token.isdigit():
        raise ValueError(f"expected an integer >= 0, got {show(token)}")
    if len(token) > _DIGITS:
        raise ValueError(f"expected an integer below 10^{_DIGITS}, got {show(token)}")
    return int(token)


def parse_number(token: bytes) -> float:
    """Return a finite float, or raise `ValueError` with what is wrong."""
    try:
        value = math.nan if b"_" in token else float(token)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {show(token)}")
    return value


def show(token: bytes) -> str:
    """Return a token as it may stand in a message: quoted, printable, and not too long."""
    text = token[:40].decode("ascii", "backslashreplace")
    return repr(text) + ("..." if len(token) > 40 else "")
