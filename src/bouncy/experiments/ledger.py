"""Measurements on disk: one CSV row for each estimate, and the settings and machine that they were measured with."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import bouncy
from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.settings import Settings, ViewSettings
from bouncy.run.pool import available_cores
from bouncy.storage.atomic import atomic_file


class Row(NamedTuple):
    """Error of one estimator in one run.

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
    seed: int  # from which the seeds of all runs are derived
    cpu_seconds: float  # of the chain, pilot and warm-up included
    hits: int  # attempted flips after warm-up
    flips: int  # accepted flips after warm-up
    mse_mean: float  # mean over sites of the squared error of E[s_i]
    mse_pairs: float  # mean over pairs i < j of the squared error of E[s_i s_j]; NaN if pairs are not measured
    mse: float  # sum of the two, or mse_mean alone


class Ledger:
    """`<figure>.csv`, one row per estimate, and `<figure>.json`, the origin of the rows.

    The rows of a run (all contenders on one model) are written together. A run with missing rows is dropped when the
    ledger is opened, and has to be measured again.
    """

    def __init__(self, directory: Path, settings: Settings, seed: int) -> None:
        self.path = directory / f"{settings.figure}.csv"
        self._origin_path = directory / f"{settings.figure}.json"
        self._origin = origin_of(settings, seed)

    def open(self) -> list[Row]:
        """Return the rows of all complete runs, and drop all other rows from the file, which is created if missing.

        Raises
        ------
        ValueError
            The file was measured with other settings or on another machine, or is not one that this class has written.
        """
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._origin_path, (json.dumps(self._origin, indent=2) + "\n").encode())
        rows = self.read()
        content = (HEADER + format_rows(rows)).encode()
        if not self.path.exists() or content != self.path.read_bytes():
            replace_file(self.path, content)
        return rows

    def read(self) -> list[Row]:
        """Return the rows of all complete runs, none if there is no file, and change nothing.

        Raises
        ------
        ValueError
            As `open` does.
        """
        if not self.path.exists():
            return []
        self._check_origin()
        text = self.path.read_text(encoding="utf-8", errors="replace")
        try:
            return complete_runs(parse_rows(text))
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged: {error}. {self._remedy()}") from error

    def append(self, rows: Iterable[Row]) -> None:
        """Add the rows of a run; they are on disk when this returns."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(format_rows(rows))
            file.flush()
            os.fsync(file.fileno())

    def _check_origin(self) -> None:
        """Raise unless the rows were measured with the same settings, seed and version on the same machine."""
        asked = self._origin
        try:
            found: dict[str, Any] = dict(json.loads(self._origin_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} cannot be continued: its settings are in {self._origin_path.name} beside it, which "
                f"cannot be read ({error}). {self._remedy()}"
            ) from error
        names = [name for name in {**asked, **found} if asked.get(name) != found.get(name)]
        if names:
            was = ", ".join(f"{name} = {found.get(name)!r}" for name in names)
            now = ", ".join(f"{name} = {asked.get(name)!r}" for name in names)
            raise ValueError(f"{self.path} was measured with {was}, but asked for is {now}. {self._remedy()}")

    def _remedy(self) -> str:
        return f"Choose another directory (--out), or delete {self.path.name} to measure again"


# --- rows as text -----------------------------------------------------------------------------------------------------

HEADER = ",".join(Row._fields) + "\n"


def _read_optional(text: str) -> float:
    return float(text) if text else math.nan


_READERS: tuple[Callable[[str], Any], ...] = (
    str, str, str, str, int, float, float, int, int, float, int, int, float, _read_optional, float,
)  # fmt: skip


def format_rows(rows: Iterable[Row]) -> str:
    """Return rows as lines of CSV; NaN is an empty field, all other numbers are read back to the last bit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(["" if isinstance(x, float) and math.isnan(x) else str(x) for x in row] for row in rows)
    return text.getvalue()


def parse_rows(text: str) -> list[Row]:
    """Return the rows of a CSV text that begins with the header.

    An incomplete last line was being written when the process was stopped, and is left out.
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


# --- complete runs ----------------------------------------------------------------------------------------------------

_CONTENDER_INDEX = {(c.edition, c.sampler, name): k for k, c in enumerate(CONTENDERS) for name in c.estimators}


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of cell, run and contender."""
    return sorted(rows, key=lambda row: (row.sigma_M, row.sigma_r, row.run, _CONTENDER_INDEX[row[1:4]], row.estimator))


def complete_runs(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of those runs that have every estimator of every contender.

    Of a run that two processes have written the first copy counts.
    """
    runs: dict[tuple[float, float, int], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row.sigma_M, row.sigma_r, row.run].append(row)
    return [row for run in runs.values() for row in _first_copy(run)]


def _first_copy(rows: Iterable[Row]) -> list[Row]:
    """Return the first complete copy of a run, or nothing."""
    copy: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row[1:4]
        if key in copy:  # another copy begins here
            copy = {}
        copy[key] = row
        if copy.keys() == _CONTENDER_INDEX.keys():
            return list(copy.values())
    return []


# --- origin -----------------------------------------------------------------------------------------------------------


def origin_of(settings: Settings | ViewSettings, seed: int) -> dict[str, Any]:
    """Return the version, seed, machine and settings of a measurement made now, as they come back from JSON.

    Only measurements of the same origin may be compared.
    """
    origin = {"version of bouncy": bouncy.__version__, "seed": seed, **describe_machine(), **asdict(settings)}
    found: dict[str, Any] = json.loads(json.dumps(origin))
    return found


def describe_machine() -> dict[str, str]:
    """Return what the speed of a program depends on: processor, cores that this process may use, Python and numba.

    Examples
    --------
    >>> from bouncy.experiments.ledger import describe_machine
    >>> list(describe_machine())
    ['processor', 'cores', 'Python', 'numba']
    """
    return {
        "processor": _processor(),
        "cores": str(available_cores()),
        "Python": platform.python_version(),
        "numba": version("numba"),
    }


def _processor() -> str:
    """Return the name of the processor, as far as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or "unknown processor"


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash it has the old content or the new one."""
    with atomic_file(str(path), overwrite=True) as file:
        file.write(content)
