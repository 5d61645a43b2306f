"""Medians, quartiles and ratios of the measured errors, and the names of what is compared.

A *cell* is one setting of the model, a *bar* is one way to estimate: edition, sampler and estimator. All bars of a
cell see the same model in the same run, so they are compared run by run.

Texts write `sigma_M` and `sigma_r`, which every terminal can show; pages and figures set them as symbols.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bouncy.experiments.ledger import Row

EDITIONS = {"published": "as published", "ours": "ours"}

SAMPLERS = {
    "bps-exponential": "BPS exponential",
    "bps-gaussian": "BPS Gaussian",
    "hmc": "HMC",
    "gibbs": "Gibbs",
    "metropolis": "Metropolis",
    "tempered": "Tempered",
}

ESTIMATORS = {"path": "whole path", "ends": "ends of trajectories", "conditional": "conditional means"}

# The plain estimator of each sampler; for the first three, that of the paper.
PLAIN = {sampler: "ends" if sampler == "hmc" else "path" for sampler in SAMPLERS}

RESAMPLES = 10_000
LEVEL = 0.95
_SEED = 1711

# With fewer runs even a sampler that wins all of them is not ahead at the 95 % level: 2 * 2^-5 > 0.05.
FEWEST_RUNS = 6

Errors = Mapping[int, float]
"""The squared error of a bar, by run."""


class Cell(NamedTuple):
    """One setting of the model."""

    figure: str
    sigma_M: float
    sigma_r: float

    @property
    def name(self) -> str:
        """Name within the figure; figure 2 has one sigma_r only."""
        couplings = f"sigma_M = {self.sigma_M:g}"
        return couplings if self.figure == "figure2" else f"{couplings}, sigma_r = {self.sigma_r:g}"


class Bar(NamedTuple):
    """One way to estimate."""

    edition: str
    sampler: str
    estimator: str

    @property
    def plain(self) -> bool:
        """Whether this is the sampler's plain estimator."""
        return self.estimator == PLAIN[self.sampler]

    @property
    def name(self) -> str:
        """Name of the sampler, and of the estimator if that is not the plain one."""
        sampler = SAMPLERS[self.sampler]
        return sampler if self.plain else f"{sampler}, {ESTIMATORS[self.estimator]}"


PAPER = ("bps-exponential", "bps-gaussian", "hmc")
"""The samplers of the paper; their plain estimators are those of the paper."""


class Summary(NamedTuple):
    """Median and quartiles over runs."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians with its 95 % bootstrap interval.

    Attributes
    ----------
    value, low, high : float
        The ratio and the interval.
    runs : int
        Over how many runs.
    """

    value: float
    low: float
    high: float
    runs: int

    @property
    def side(self) -> int:
        """+1 if the interval lies above 1, -1 if below, 0 if it contains 1 or if there are too few runs."""
        if self.runs < FEWEST_RUNS:
            return 0
        return int(self.low > 1) - int(self.high < 1)


def group(rows: Iterable[Row]) -> dict[Cell, dict[Bar, dict[int, float]]]:
    """Return the errors by cell, bar and run; cells ascend, bars are in the order of the figures."""
    grouped: dict[Cell, dict[Bar, dict[int, float]]] = {}
    for row in rows:
        cell, bar = Cell(row.figure, row.sigma_M, row.sigma_r), Bar(row.edition, row.sampler, row.estimator)
        grouped.setdefault(cell, {}).setdefault(bar, {})[row.run] = row.mse
    return {cell: {bar: grouped[cell][bar] for bar in sorted(grouped[cell], key=_order)} for cell in sorted(grouped)}


def _order(bar: Bar) -> tuple[bool, int, bool, int]:
    """Published first; then by sampler; the plain estimator of a sampler before its others."""
    return (
        bar.edition != "published",
        list(SAMPLERS).index(bar.sampler),
        not bar.plain,
        list(ESTIMATORS).index(bar.estimator),
    )


def paper_bars(edition: str) -> list[Bar]:
    """Return the bars of the paper in one edition: its three samplers, read out as in the paper."""
    return [Bar(edition, sampler, PLAIN[sampler]) for sampler in PAPER]


def summarise(errors: Errors) -> Summary:
    """Return median and quartiles over runs."""
    low, median, high = np.quantile(list(errors.values()), [0.25, 0.5, 0.75])
    return Summary(float(median), float(low), float(high), len(errors))


def compare(errors: Errors, rivals: Sequence[Errors], resamples: int = RESAMPLES) -> Ratio | None:
    """Return (smallest median of the rivals) / (median), with its interval.

    The interval is the percentile bootstrap over runs: each resample draws runs with replacement, the same for all,
    and takes the best rival anew, so that the choice among rivals is part of the uncertainty. Only common runs are
    used; None if there are none.

    Parameters
    ----------
    errors : squared errors by run, the denominator.
    rivals : those of one or more rivals, the numerator.
    resamples : number of bootstrap resamples.
    """
    common = sorted(set(errors).intersection(*rivals))
    if not common:
        return None
    bottom = np.array([errors[run] for run in common])
    top = np.array([[rival[run] for run in common] for rival in rivals])
    value = _divide(np.median(top, axis=1).min(), np.median(bottom))
    best = np.min([_resample_median(tuple(rival), resamples) for rival in top], axis=0)
    ratios = _divide(best, _resample_median(tuple(bottom), resamples))
    # Order statistics, not interpolation: some ratios may be infinite.
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
    return Ratio(float(value), float(low), float(high), len(common))


@functools.lru_cache(maxsize=256)  # every bar is compared with many others
def _resample_median(errors: tuple[float, ...], resamples: int) -> NDArray[np.float64]:
    """Return the median of each resample, shape (resamples,), by counting from the smallest value."""
    values = np.array(errors)
    if np.isnan(values).any():
        return np.full(resamples, np.nan)
    runs, order = len(values), np.argsort(values)
    counted = np.cumsum(_draw_resamples(runs, resamples)[order], axis=0, dtype=np.uint16)
    low, high = (values[order][(counted <= k).sum(axis=0)] for k in ((runs - 1) // 2, runs // 2))
    medians: NDArray[np.float64] = (low + high) / 2
    return medians


@functools.lru_cache(maxsize=8)
def _draw_resamples(runs: int, resamples: int) -> NDArray[np.uint16]:
    """Return how often each run is in each resample, shape (runs, resamples): the same for every comparison."""
    counts = np.random.default_rng(_SEED).multinomial(runs, np.full(runs, 1 / runs), size=resamples)
    return np.ascontiguousarray(counts.T, dtype=np.uint16)


def _divide(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return top / bottom; two errors of 0 are a tie."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((top == 0) & (bottom == 0), 1.0, np.divide(top, bottom))


class Winner(NamedTuple):
    """The bar with the smallest median, the next one, and the ratio of the two; None if there is no other."""

    bar: Bar
    second: Bar | None
    lead: Ratio | None


def find_winner(bars: Mapping[Bar, Errors]) -> Winner:
    """Return the bar with the smallest median over runs, and the lead over the best of the others."""
    ranked = sorted(bars, key=lambda bar: summarise(bars[bar]).median)
    if len(ranked) == 1:
        return Winner(ranked[0], None, None)
    lead = compare(bars[ranked[0]], [bars[bar] for bar in ranked[1:]])
    return Winner(ranked[0], ranked[1], lead)


# --- names and numbers in texts ---------------------------------------------------------------------------------------


def name_cells(cells: Sequence[Cell], among: Iterable[Cell] = ()) -> str:
    """Return one phrase for cells of one figure; sigma_r is left out if all of `among` with that sigma_M are meant."""
    ordered = sorted(cells)
    if all(cell.figure == "figure2" for cell in ordered):
        return f"sigma_M = {join(f'{cell.sigma_M:g}' for cell in ordered)}"
    known = set(among)
    phrases = []
    for sigma_M, group in groupby(ordered, key=lambda cell: cell.sigma_M):
        together = list(group)
        whole = known and {cell for cell in known if cell.sigma_M == sigma_M} <= set(together)
        fields = "" if whole else f", sigma_r = {join(f'{cell.sigma_r:g}' for cell in together)}"
        phrases.append(f"sigma_M = {sigma_M:g}{fields}")
    return " and at ".join(phrases)


def join(words: Iterable[str], last: str = "and") -> str:
    """Return "a, b and c"."""
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def show_error(value: float) -> str:
    """Return a squared error with two digits: 1.2e-4."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def show_ratio(value: float) -> str:
    """Return a ratio with three digits, or more if a ratio other than 1 would be shown as 1."""
    if not math.isfinite(value) or value == 1:
        return f"{value:g}"
    digits = 3
    while float(f"{value:.{digits}g}") == 1:
        digits += 1
    return f"{value:.{digits}g}" if 1e-3 <= value < 1e4 else f"{value:.1e}"
