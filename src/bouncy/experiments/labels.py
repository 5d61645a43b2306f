"""What samplers, estimators, cells and numbers are called in texts and figures.

Texts write `sigma_M` and `sigma_r`, which every terminal can show; pages and figures set them as symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bouncy.experiments.analysis import Bar, Cell

EDITIONS = {"published": "as published", "ours": "ours"}

SAMPLERS = {
    "bps-exponential": "BPS exponential",
    "bps-gaussian": "BPS Gaussian",
    "hmc": "HMC",
    "gibbs": "Gibbs",
    "metropolis": "Metropolis",
}

ESTIMATORS = {"path": "whole path", "ends": "ends of trajectories", "conditional": "conditional means"}

# What each sampler is read out by when nothing better is known; for the first three, as in the paper.
PLAIN = {"bps-exponential": "path", "bps-gaussian": "path", "hmc": "ends", "gibbs": "path", "metropolis": "path"}


def name_bar(bar: Bar) -> str:
    """Return the name of a bar: that of its sampler, and its estimator if that is not the plain one."""
    sampler = SAMPLERS[bar.sampler]
    return sampler if bar.estimator == PLAIN[bar.sampler] else f"{sampler}, {ESTIMATORS[bar.estimator]}"


def name_cell(cell: Cell) -> str:
    """Return the name of a cell within its figure; figure 2 has one sigma_r only."""
    couplings = f"sigma_M = {cell.sigma_M:g}"
    return couplings if cell.figure == "figure2" else f"{couplings}, sigma_r = {cell.sigma_r:g}"


def name_cells(cells: Sequence[Cell], among: Iterable[Cell] = ()) -> str:
    """Return one phrase for cells of one figure; where all of `among` with a sigma_M are meant, sigma_r is not said."""
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
    """Return a ratio with three digits, or with as many as it takes not to show 1 for what is not 1."""
    if not math.isfinite(value) or value == 1:
        return f"{value:g}"
    digits = 3
    while float(f"{value:.{digits}g}") == 1:
        digits += 1
    return f"{value:.{digits}g}" if 1e-3 <= value < 1e4 else f"{value:.1e}"
