"""Sentences about what was measured, written from the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bouncy.experiments.analysis import Bar, Cell, Errors, Winner, find_winner, group, paper_bars
from bouncy.experiments.labels import EDITIONS, SAMPLERS, join, name_bar, name_cells, show_ratio

if TYPE_CHECKING:
    from bouncy.experiments.settings import Settings
    from bouncy.experiments.table import Row
    from bouncy.experiments.views import View, Views


def describe_errors(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Return who has the smallest median in which cells: for each edition the paper's samplers, then all bars."""
    grouped = group(row for row in rows if row.figure == settings.figure)
    sentences = []
    for edition, name in EDITIONS.items():
        bars = dict.fromkeys(bar for errors in grouped.values() for bar in errors if bar.edition == edition)
        paper = [bar for bar in bars if bar in paper_bars(edition)]
        if paper:
            sentences.append(f"{name.capitalize()}, the paper's samplers: {_name_winners(grouped, paper)}.")
        if len(bars) > len(paper):
            sentences.append(f"{name.capitalize()}, all samplers and estimators: {_name_winners(grouped, list(bars))}.")
    return sentences


def _name_winners(grouped: Mapping[Cell, Mapping[Bar, Errors]], among: Sequence[Bar]) -> str:
    """Return the winners with their cells and leads, and the cells in which the lead may be chance."""
    chosen = {cell: {bar: errors[bar] for bar in among if bar in errors} for cell, errors in grouped.items()}
    winners = {cell: find_winner(bars) for cell, bars in chosen.items() if bars}
    parts = []
    for bar in dict.fromkeys(winner.bar for winner in winners.values()):
        won = {cell: winner for cell, winner in winners.items() if winner.bar == bar}
        parts.append(f"{name_bar(bar)} at {name_cells(list(won), winners)}{_name_leads(won.values())}")
    close = [cell for cell, winner in winners.items() if winner.lead and winner.lead.side == 0]
    if not close:
        return "; ".join(parts)
    where = "anywhere" if len(close) == len(winners) else f"at {name_cells(close, winners)}"
    return f"{'; '.join(parts)}. The lead is not established {where}"


def _name_leads(winners: Iterable[Winner]) -> str:
    leads = sorted(winner.lead.value for winner in winners if winner.lead)
    if not leads:
        return ""
    low, high = show_ratio(leads[0]), show_ratio(leads[-1])
    return f" (×{low})" if low == high else f" (×{low} to ×{high})"


def describe_views(views: Views) -> list[str]:
    """Return how long log p stays correlated and how long a state is held, for each curve."""
    sentences = []
    for edition, name in EDITIONS.items():
        curves = [view for view in views.curves if view.edition == edition]
        if curves:
            decays = join(f"{_name_decay(view)} ({SAMPLERS[view.sampler]})" for view in curves)
            holding = join(f"{_name_holding(view)} ({SAMPLERS[view.sampler]})" for view in curves)
            sentences.append(
                f"{name.capitalize()}: the autocorrelation of log p falls below 1/e after {decays}. "
                f"Mean holding time in sweeps: {holding}."
            )
    return sentences


def _name_decay(view: View) -> str:
    if np.isnan(view.autocorrelation).any():
        return "no time, as it never changed"
    below = np.flatnonzero(np.asarray(view.autocorrelation) < np.exp(-1))
    if not below.size:
        return f"more than {1e3 * view.lag_seconds * (len(view.autocorrelation) - 1):.2g} ms"
    return f"{1e3 * view.lag_seconds * below[0]:.2g} ms"


def _name_holding(view: View) -> str:
    return f"{np.mean(view.holding_times):.2g}" if len(view.holding_times) else "no flip"
