"""The claims of the paper, and verdicts on them from a rerun.

A claim names a winner among the paper's three samplers in some cells. In each cell the smallest median error of the
two others is divided by that of the winner: above 1 the claim holds there. It counts only if the whole 95 % interval
of that ratio lies on one side of 1. Doubt is never resolved in favour of the paper: a claim reproduces only if it
holds in all its cells, and not even in part if it fails in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bouncy.experiments.analysis import (
    EDITIONS,
    PAPER,
    PLAIN,
    Bar,
    Cell,
    Errors,
    Ratio,
    compare,
    group,
    name_cells,
    paper_bars,
    show_ratio,
    summarise,
)

if TYPE_CHECKING:
    from bouncy.experiments.ledger import Row
    from bouncy.experiments.settings import Settings

Word = Literal["reproduces", "reproduces in part", "mixed", "does not reproduce", "undecided", "not measured"]
Outcome = Literal["holds", "undecided", "fails", "not measured"]
Measured = Mapping[Cell, Mapping[Bar, Errors]]


@dataclass(frozen=True)
class Comparison:
    """The claimed winner against its best rival in one cell.

    Attributes
    ----------
    cell : Cell
    winner : str
        The sampler that should be better.
    rival : str or None
        The other sampler with the smallest median; None if the cell was not measured.
    ratio : Ratio or None
        Error of the best rival over that of the winner; above 1 if the claim holds here.
    judged : bool
        Whether the verdict depends on this cell; other cells are only shown.
    """

    cell: Cell
    winner: str
    rival: str | None
    ratio: Ratio | None
    judged: bool = True

    @property
    def outcome(self) -> Outcome:
        """Whether the claim holds in this cell."""
        if self.ratio is None:
            return "not measured"
        if self.ratio.side == 0:
            return "undecided"
        return "holds" if self.ratio.side > 0 else "fails"

    @property
    def better(self) -> str | None:
        """The sampler that is better in this cell; None if undecided."""
        return {"holds": self.winner, "fails": self.rival}.get(self.outcome)


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim in one edition.

    Attributes
    ----------
    number : int
        Of the claim, from 1.
    claim : str
        The claim in words.
    edition : str
        "published" or "ours".
    verdict : str
        "reproduces", "reproduces in part", "mixed", "does not reproduce", "undecided" or "not measured".
    comparisons : tuple of Comparison
        The evidence, cell by cell.
    detail : str
        Outcomes by cells; empty if nothing was measured.
    """

    number: int
    claim: str
    edition: str
    verdict: Word
    comparisons: tuple[Comparison, ...]
    detail: str

    @property
    def line(self) -> str:
        """The verdict in one line for a terminal."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.number}. {self.claim} [{EDITIONS[self.edition]}]: {self.verdict}{detail}"


@dataclass(frozen=True)
class Claim:
    """One sampler is best in some cells; the cells in `shown` are reported but do not count."""

    text: str
    winner: str
    cells: tuple[Cell, ...]
    shown: tuple[Cell, ...] = ()


# At d = 100 the paper distinguishes low and high sigma_M only; the middle is shown beside both.
LOW, MIDDLE, HIGH = (0.02, 0.05), (0.1,), (0.2, 0.5)

_FIELDS = (0.0, 0.1, 0.5, 1.0)
_SMALL = {sigma_M: tuple(Cell("figure1", sigma_M, sigma_r) for sigma_r in _FIELDS) for sigma_M in (0.2, 2.0)}
_LOW, _MIDDLE, _HIGH = (tuple(Cell("figure2", value, 0.0) for value in part) for part in (LOW, MIDDLE, HIGH))

BEST = (
    Claim("Exponential BPS is best at d = 10, sigma_M = 0.2", "bps-exponential", _SMALL[0.2]),
    Claim("HMC is best at d = 10, sigma_M = 2", "hmc", _SMALL[2.0]),
    Claim("Gaussian BPS is best at d = 100, low sigma_M", "bps-gaussian", _LOW, _MIDDLE),
    Claim("HMC is best at d = 100, high sigma_M", "hmc", _HIGH, _MIDDLE),
)
AUGMENTATION = "The preferred augmentation of BPS, exponential or Gaussian, depends on d"
_DIMENSIONS = {10: (*_SMALL[0.2], *_SMALL[2.0]), 100: (*_LOW, *_MIDDLE, *_HIGH)}


def judge(results: Mapping[str, tuple[Settings, list[Row]]]) -> list[Verdict]:
    """Return the verdict on every claim in both editions; cells that are missing are "not measured".

    Parameters
    ----------
    results : settings and rows by figure; one figure is enough.
    """
    measured = group(row for _, rows in results.values() for row in rows)
    verdicts = []
    for number, claim in enumerate(BEST, start=1):
        verdicts += [_judge_best(number, claim, edition, measured) for edition in EDITIONS]
    return verdicts + [_judge_augmentation(len(BEST) + 1, edition, measured) for edition in EDITIONS]


# --- best sampler -----------------------------------------------------------------------------------------------------


def _judge_best(number: int, claim: Claim, edition: str, measured: Measured) -> Verdict:
    rivals = [sampler for sampler in PAPER if sampler != claim.winner]
    judged = [_compare_in(cell, claim.winner, rivals, edition, measured) for cell in claim.cells]
    shown = [_compare_in(cell, claim.winner, rivals, edition, measured, judged=False) for cell in claim.shown]
    word = _word([comparison.outcome for comparison in judged])
    detail = "" if word == "not measured" else _describe(judged)
    return Verdict(number, claim.text, edition, word, (*judged, *shown), detail)


def _compare_in(
    cell: Cell, winner: str, rivals: Sequence[str], edition: str, measured: Measured, judged: bool = True
) -> Comparison:
    """Compare a sampler with the best of its rivals in one cell; all must have been measured there."""
    bars = measured.get(cell, {})
    if any(bar not in bars for bar in paper_bars(edition)):
        return Comparison(cell, winner, None, None, judged)
    errors = {sampler: bars[Bar(edition, sampler, PLAIN[sampler])] for sampler in PAPER}
    ratio = compare(errors[winner], [errors[rival] for rival in rivals])
    best = min(rivals, key=lambda rival: summarise(errors[rival]).median)
    return Comparison(cell, winner, best if ratio else None, ratio, judged)


def _word(outcomes: Sequence[Outcome]) -> Word:
    """Return the verdict on a claim from the outcomes in its cells."""
    if all(outcome == "not measured" for outcome in outcomes):
        return "not measured"
    if all(outcome == "holds" for outcome in outcomes):
        return "reproduces"
    if "holds" in outcomes:
        return "mixed" if "fails" in outcomes else "reproduces in part"
    return "does not reproduce" if "fails" in outcomes else "undecided"


def _describe(comparisons: Sequence[Comparison]) -> str:
    """Return the outcomes of a claim with their cells, and the range of the ratios."""
    outcomes = ("holds", "undecided", "fails", "not measured")
    found = {outcome: [c.cell for c in comparisons if c.outcome == outcome] for outcome in outcomes}
    return f"{_where(found, len(comparisons))}; ratio {_range(comparisons)}"


def _where(found: Mapping[str, Sequence[Cell]], count: int) -> str:
    """Return the outcomes with their cells, of which there are `count`."""
    every = [cell for cells in found.values() for cell in cells]
    parts = [f"{word} at {name_cells(cells, every)}" for word, cells in found.items() if 0 < len(cells) < count]
    return (
        "; ".join(parts)
        or f"{next(word for word, cells in found.items() if cells)} in {'both' if count == 2 else f'all {count}'} cells"
    )


def _range(comparisons: Sequence[Comparison]) -> str:
    values = sorted(comparison.ratio.value for comparison in comparisons if comparison.ratio)
    low, high = show_ratio(values[0]), show_ratio(values[-1])
    return low if low == high else f"{low} to {high}"


# --- which augmentation -----------------------------------------------------------------------------------------------


def _judge_augmentation(number: int, edition: str, measured: Measured) -> Verdict:
    """Judge whether one augmentation is preferred at d = 10 and the other at d = 100.

    It reproduces if all cells of one d prefer one augmentation and all of the other d the other; in part if this is so
    for the cells that are decided, some at each d. It is mixed if the decided cells of one d prefer one augmentation
    while those of the other d go both ways. It does not reproduce if both d prefer the same, or if both go both ways.
    """
    by_dimension = {
        d: [_compare_in(cell, "bps-exponential", ["bps-gaussian"], edition, measured) for cell in cells]
        for d, cells in _DIMENSIONS.items()
    }
    word = _word_augmentation(*by_dimension.values())
    evidence = tuple(comparison for comparisons in by_dimension.values() for comparison in comparisons)
    detail = "; ".join(
        f"better at d = {d}: {_describe_preference(comparisons)}"
        for d, comparisons in by_dimension.items()
        if word != "not measured" and any(c.ratio for c in comparisons)
    )
    return Verdict(number, AUGMENTATION, edition, word, evidence, detail)


def _word_augmentation(small: Sequence[Comparison], large: Sequence[Comparison]) -> Word:
    if not all(any(comparison.ratio for comparison in comparisons) for comparisons in (small, large)):
        return "not measured"
    first, second = _preferred(small), _preferred(large)
    if not first or not second:
        return "undecided"
    if len(first | second) == 1 or len(first) == len(second) == 2:
        return "does not reproduce"
    if first & second:
        return "mixed"
    whole = all(comparison.better for comparison in (*small, *large))
    return "reproduces" if whole else "reproduces in part"


def _preferred(comparisons: Sequence[Comparison]) -> set[str]:
    """Return the samplers that are better somewhere: none, one, or both in different cells."""
    return {comparison.better for comparison in comparisons if comparison.better}


def _describe_preference(comparisons: Sequence[Comparison]) -> str:
    words = {"holds": "exponential", "fails": "Gaussian", "undecided": "undecided", "not measured": "not measured"}
    found = {word: [c.cell for c in comparisons if c.outcome == outcome] for outcome, word in words.items()}
    return f"{_where(found, len(comparisons))}, ratio {_range(comparisons)}"
