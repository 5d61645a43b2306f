"""The rows of a figure on disk, so that what was measured survives whatever stops the process."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bouncy
from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.settings import Settings
from bouncy.experiments.table import HEADER, Row, format_rows, parse_rows


class Ledger:
    """`<figure>.csv`, one row per estimate, and `<figure>.json`, which says what they were measured with.

    The rows of a run (all contenders on one model) are written together. A run of which rows are missing is dropped
    when the ledger is opened, and has to be measured again.
    """

    def __init__(self, directory: Path, settings: Settings, seed: int) -> None:
        self.path = directory / f"{settings.figure}.csv"
        self._origin_path = directory / f"{settings.figure}.json"
        self._origin = {"version of bouncy": bouncy.__version__, "seed": seed, **asdict(settings)}

    def open(self) -> list[Row]:
        """Return the rows of all complete runs, and leave just these in the file, which is made if need be.

        Raises
        ------
        ValueError
            The file was measured with other settings, or is not one that this class has written.
        """
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self._origin_path, json.dumps(self._origin, indent=2) + "\n")
            _replace(self.path, HEADER)
            return []
        self._check_origin()
        text = self.path.read_text(encoding="utf-8", errors="replace")
        try:
            rows = complete_runs(parse_rows(text))
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged: {error}. {self._remedy()}") from error
        if HEADER + format_rows(rows) != text:
            _replace(self.path, HEADER + format_rows(rows))
        return rows

    def append(self, rows: Iterable[Row]) -> None:
        """Add the rows of a run; they are on the disk when this returns."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(format_rows(rows))
            file.flush()
            os.fsync(file.fileno())

    def _check_origin(self) -> None:
        """Raise unless the rows were measured with the same settings, seed and version."""
        asked: dict[str, Any] = json.loads(json.dumps(self._origin))
        try:
            found: dict[str, Any] = dict(json.loads(self._origin_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} cannot be continued: what it was measured with stands in {self._origin_path.name} beside "
                f"it, which cannot be read ({error}). {self._remedy()}"
            ) from error
        names = [name for name in {**asked, **found} if asked.get(name) != found.get(name)]
        if names:
            was = ", ".join(f"{name} = {found.get(name)!r}" for name in names)
            now = ", ".join(f"{name} = {asked.get(name)!r}" for name in names)
            raise ValueError(f"{self.path} was measured with {was}, but asked for is {now}. {self._remedy()}")

    def _remedy(self) -> str:
        return f"Choose another directory (--out), or delete {self.path.name} to measure again"


def complete_runs(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of those runs of which every estimator of every contender is there, once."""
    runs: dict[tuple[float, float, int], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row.sigma_M, row.sigma_r, row.run].append(row)
    expected = sorted((c.edition, c.sampler, name) for c in CONTENDERS for name in c.estimators)
    whole = (run for run in runs.values() if sorted((r.edition, r.sampler, r.estimator) for r in run) == expected)
    return [row for run in whole for row in run]


def _replace(path: Path, text: str) -> None:
    """Give a file a new content in one step: whatever happens, it has the old one or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
