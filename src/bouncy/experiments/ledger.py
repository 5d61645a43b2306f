"""The rows of a figure on disk, so that what was measured survives whatever stops the process."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.keeping import origin_of, replace_file
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
        self._origin = origin_of(settings, seed)

    def open(self) -> list[Row]:
        """Return the rows of all complete runs, and leave just these in the file, which is made if need be.

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
        """Return the rows of all complete runs, none if there is no file, and leave everything as it is.

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
        """Add the rows of a run; they are on the disk when this returns."""
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
    """Return the rows of those runs of which every estimator of every contender is there.

    Of a run that two processes have written the first copy counts.
    """
    runs: dict[tuple[float, float, int], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row.sigma_M, row.sigma_r, row.run].append(row)
    return [row for run in runs.values() for row in _first_copy(run)]


_EXPECTED = {(c.edition, c.sampler, name) for c in CONTENDERS for name in c.estimators}


def _first_copy(rows: Iterable[Row]) -> list[Row]:
    """Return the first whole copy of a run; none if there is no whole one."""
    copy: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row.edition, row.sampler, row.estimator
        if key in copy:  # here another copy begins
            copy = {}
        copy[key] = row
        if copy.keys() == _EXPECTED:
            return list(copy.values())
    return []
