"""What stands for the target and the chains of a run that was read from a file."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bouncy._samplable import Samplable
from bouncy.run.contract import AnyChain, Rows
from bouncy.run.growth import RECORDING, Growth
from bouncy.run.rows import InMemory, Thinned
from bouncy.run.rows import Rows as AllRows


class StoredTarget(Samplable[Any]):
    """The target of a run that was read from a file, as far as the file knows it.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        What the sites are called.
    shape : tuple of int or None
        Sides of the lattice, if it was one.
    fingerprint : str
        What tells it from other models.
    """

    def __init__(
        self, d: int, labels: tuple[Hashable, ...] | None, text: str, shape: tuple[int, ...] | None, fingerprint: str
    ) -> None:
        self.d, self._labels, self._text = d, labels, text
        self.shape, self.fingerprint = shape, fingerprint

    def __getattr__(self, name: str) -> NoReturn:
        """Say where the target itself can be had from."""
        raise AttributeError(
            f"a run that was read from a file knows its target by name only, which has no {name!r}; pass the target "
            "itself, as in bouncy.Run.load(path, target=target)"
        )

    def __repr__(self) -> str:
        return self._text

    def __copy__(self) -> StoredTarget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredTarget:
        return self


class StoredChain(AnyChain):
    """What a chain had recorded when it was saved; it cannot go on."""

    def __init__(self, number: int, recorder: Any, sweep_time: float, view: Any, rates: Any) -> None:
        super().__init__(number)
        self.recorder, self.sweep_time = recorder, sweep_time
        self.view, self.rates = view, rates

    def write_open_batch(self) -> None:
        """Do nothing: it was written before it was saved."""

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            "a run that was read from a file cannot go on: the file holds its results, not the state of its chains. "
            "Sample with checkpoint=, and go on with bouncy.resume"
        )

    def advance(self, sweeps: int) -> None:
        self._refuse()

    def compile(self) -> None:
        self._refuse()

    def arrays(self) -> dict[str, NDArray[Any]]:
        self._refuse()

    def new_rows(self, draws: int) -> Rows:
        self._refuse()


class StoredGrowth(Growth):
    """How far a run was when it was saved, and what it had kept."""

    def __init__(
        self,
        chains: list[Any],
        keep: str,
        per_draw: int,
        warmup: int,
        warmup_seconds: float,
        rows: AllRows,
        start: list[NDArray[np.int8]],
    ) -> None:
        self.chains, self.keep, self.rows, self.start, self.tracked = chains, keep, rows, start, None
        self.warmup = self.begun = warmup
        self.folder = None
        self.stage, self.warmup_seconds, self._per_draw = RECORDING, warmup_seconds, per_draw

    @property
    def per_draw(self) -> int:
        return self._per_draw

    def templates(self) -> dict[str, Any]:
        return {name: column.array()[0] for name, column in self.rows.columns.items()}


def stored_rows(arrays: dict[str, NDArray[Any]], spacing: int) -> AllRows:
    """Return rows, (chain, row, ...), by name, of which every so many-th is there."""
    rows = AllRows({}, 0, False)
    for name, array in arrays.items():
        rows.columns[name] = Thinned.of(array, spacing) if spacing > 1 else InMemory.of(array)
    return rows
