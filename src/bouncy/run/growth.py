"""A run as it grows: its chains, what is kept of them, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bouncy.run.contract import AnyChain
from bouncy.run.families import Family
from bouncy.run.rows import Rows, Thinned
from bouncy.run.tracked import Tracked

# Warm-up has two halves, of which the second is recorded by itself: it shows how far states reach.
RECORDING = 2


class Growth:
    """Chains that are warmed up, and then recorded.

    Parameters
    ----------
    family : Family
        The kind of target.
    chains : list
        Chains that are level.
    warmup : int
        Sweeps before anything is recorded.
    keep : {"draws", "means", "path"}
        What is kept of the draws.
    folder : Path, optional
        Where to keep them, if not in memory.
    function : callable, optional
        A function of states whose mean is followed.

    Attributes
    ----------
    stage : int
        0 and 1 in the two halves of the warm-up, `RECORDING` afterwards.
    begun : int
        Sweep at which the present recording began.
    recordings : int
        How many recordings there were, one of fewer chains among them.
    warmup_seconds : float
        CPU seconds of all chains before the present one.
    rows : Rows
        What is kept of the draws.
    tracked : Tracked or None
        What is known of that function.
    start : list
        States in which the recording began, of which a path is kept; empty otherwise.
    """

    def __init__(
        self,
        family: Family,
        chains: list[AnyChain],
        warmup: int,
        keep: str,
        folder: Path | None = None,
        function: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        self.family, self.chains, self.warmup, self.keep, self.folder = family, chains, warmup, keep, folder
        self.follow(function)
        self.stage, self.begun, self.warmup_seconds = 0, 0, 0.0
        self.recordings = 0
        self.start: list[Any] = []
        self.rows = Rows({}, len(chains), False)

    def follow(self, function: Callable[[NDArray[Any]], Any] | None) -> None:
        """Follow the mean of a function of states from now on."""
        self.tracked = None if function is None else Tracked(function, len(self.chains), self.family.slots)
        # States are needed for that even if they are not kept.
        self._gathers = "draws" if function is not None and self.keep == "means" else self.keep

    @property
    def level(self) -> int:
        """Sweeps that each chain has made."""
        return self.chains[0].sweeps

    @property
    def per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        return self.family.thin

    @property
    def sweeps(self) -> int:
        """Sweeps that are recorded of each chain."""
        return self.level - self.begun if self.stage == RECORDING else 0

    @property
    def drawn(self) -> int:
        """Draws of each chain."""
        return self.sweeps // self.per_draw

    @property
    def seconds(self) -> float:
        """CPU seconds of a chain, on average."""
        return sum(chain.cpu_seconds for chain in self.chains) / len(self.chains)

    def stage_end(self) -> int:
        """Return the sweep at which the present part of the warm-up ends."""
        stride: int = self.family.sampler.stride
        half: int = self.warmup // 2 // stride * stride
        return half if self.stage == 0 else self.warmup

    def next_stage(self, expected: int) -> None:
        """Begin the next part of the warm-up, or to record as many draws as are expected."""
        self.family.record(self.chains)
        self.stage += 1
        if self.stage == RECORDING:
            self._begin(expected)

    def restart(self) -> None:
        """Take everything that was recorded for warm-up, and record anew."""
        self.family.record(self.chains)
        self._begin(0)

    def _begin(self, expected: int) -> None:
        self.begun = self.warmup = self.level
        self.warmup_seconds = sum(chain.cpu_seconds for chain in self.chains)
        self.set_keeps()
        if self.keep == "path":
            self.start = [chain.s.copy() for chain in self.chains]  # type: ignore[attr-defined]
        self.recordings += 1
        self.rows = self.new_rows(expected)
        if self.tracked is not None:
            self.follow(self.tracked.function)

    def set_keeps(self) -> None:
        """Have chains gather rows as soon as they are recorded."""
        for chain in self.chains:
            chain.keeps = self._gathers if self.stage == RECORDING else "nothing"

    def new_rows(self, expected: int) -> Rows:
        """Return empty rows."""
        return Rows(self.templates(), len(self.chains), self.thinned, self.folder, self.suffix, expected)

    def templates(self) -> dict[str, Any]:
        """Return an array without rows for each name that there are rows of."""
        chain = self.chains[0]
        before, chain.keeps = chain.keeps, self.keep
        templates = chain.new_rows(0)
        chain.keeps = before
        return templates

    @property
    def thinned(self) -> bool:
        """Whether rows need constant memory."""
        return self.keep == "means"

    @property
    def suffix(self) -> str:
        """What files of rows end with: those of an older recording belong to an older generation."""
        return f".{self.recordings}.rows"

    def place(self, chain: AnyChain) -> int:
        """Return the place of a chain among the others."""
        return next(k for k, other in enumerate(self.chains) if other is chain)

    def append(self, chain: AnyChain, rows: dict[str, Any]) -> None:
        """Keep what a chain gathered."""
        if not rows:
            return
        place = self.place(chain)
        if self.tracked is not None:
            self.tracked.append(place, rows["draws"])
        self.rows.append(place, {name: rows[name] for name in self.rows.names}, chain.draw_spacing(self.per_draw))
        column = self.rows.columns["log_prob"]
        if isinstance(column, Thinned) and self.tracked is None:
            chain.space_draws(self.per_draw, column.spacing_of(place), self.begun)

    def go_back_to_level(self) -> None:
        """Forget rows that chains gathered beyond where they are now."""
        self.rows.cut(self.drawn, self.sweeps)
        if self.tracked is not None:
            self.tracked.cut(self.drawn)

    def drop(self, numbers: set[int | None]) -> None:
        """Go on without the chains of some numbers."""
        left = [k for k, chain in enumerate(self.chains) if chain.number not in numbers]
        total = len(self.chains)
        self.chains = [self.chains[k] for k in left]
        self.recordings += 1
        self.rows = self.rows.only(left, self.suffix)
        self.start = [self.start[k] for k in left] if self.start else []
        self.warmup_seconds *= len(left) / total
        self.tracked = None if self.tracked is None else self.tracked.only(left)
