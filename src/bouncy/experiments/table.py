"""One row for each estimate that was made, and how rows are written as text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Row(NamedTuple):
    """How far one estimator of one run was from the truth.

    All chains of a run see the same model. All estimators of an (edition, sampler, run) come from the same chain, but
    for the ends of our HMC: they have a chain of their own, which records nothing else.
    """

    figure: str
    edition: str  # "published" or "ours"
    sampler: str
    estimator: str  # "path", "ends" or "conditional"
    d: int
    sigma_M: float
    sigma_r: float
    run: int
    seed: int  # the one that the seeds of all runs are derived from
    cpu_seconds: float  # of the chain, warm-up included
    hits: int  # attempted flips after warm-up
    flips: int  # accepted flips after warm-up
    mse_mean: float  # mean over sites of the squared error of E[s_i]
    mse_pairs: float  # mean over pairs i < j of the squared error of E[s_i s_j]; NaN where it does not count
    mse: float  # sum of those that count


HEADER = ",".join(Row._fields) + "\n"


def _read_optional(text: str) -> float:
    return float(text) if text else math.nan


_READERS: tuple[Callable[[str], Any], ...] = (
    str, str, str, str, int, float, float, int, int, float, int, int, float, _read_optional, float,
)  # fmt: skip


def format_rows(rows: Iterable[Row]) -> str:
    """Return rows as lines of CSV; a number that is NaN is left empty, all others can be read back to the last bit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_format(value) for value in row] for row in rows)
    return text.getvalue()


def _format(value: str | int | float) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else str(value)


def parse_rows(text: str) -> list[Row]:
    """Return the rows of a CSV text that begins with the header.

    A last line that is not whole was being written when the process was stopped, and is left out.
    """
    lines = text.splitlines(keepends=True)
    if not lines or lines[0] != HEADER:
        raise ValueError(f"the first line is {lines[0] if lines else ''!r:.60}; expected {HEADER!r:.60}...")
    if not lines[-1].endswith("\n"):
        lines.pop()
    return [_parse(line, number) for number, line in enumerate(lines[1:], start=2)]


def _parse(line: str, number: int) -> Row:
    fields = next(csv.reader([line]), [])
    try:
        return Row(*(read(field) for read, field in zip(_READERS, fields, strict=True)))
    except ValueError as error:
        raise ValueError(f"line {number} is {line!r:.60}; expected {len(_READERS)} values ({error})") from error
