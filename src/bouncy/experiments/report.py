"""The report on a rerun of the paper's experiments: pictures, verdicts and tables, as Markdown and as one HTML page.

Every statement about a result is made from the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bouncy.experiments.analysis import (
    EDITIONS,
    ESTIMATORS,
    FEWEST_RUNS,
    LEVEL,
    RESAMPLES,
    SAMPLERS,
    Bar,
    Cell,
    Errors,
    Ratio,
    compare,
    find_winner,
    group,
    join,
    name_cells,
    paper_bars,
    show_error,
    show_ratio,
    summarise,
)
from bouncy.experiments.claims import HIGH, LOW, MIDDLE, Comparison, Verdict, judge
from bouncy.experiments.figures import draw_errors, draw_views
from bouncy.experiments.page import (
    Badge,
    Block,
    Bullets,
    Heading,
    Picture,
    Strong,
    Table,
    as_html,
    as_markdown,
    fill_template,
)

if TYPE_CHECKING:
    from bouncy.experiments.ledger import Row
    from bouncy.experiments.settings import Settings
    from bouncy.experiments.views import View, Views

Results = Mapping[str, tuple["Settings", "list[Row]"]]

_NAMES = {"figure1": "Figure 1", "figure2": "Figure 2"}
_TEMPERED = Bar("ours", "tempered", "conditional")  # the estimator that tempered runs have their means from
# A pilot that takes this many times the CPU time of a run, or more, is mentioned.
_LATE = 1.1


def write_report(directory: Path, results: Results, views: Views | None, machine: Mapping[str, str]) -> None:
    """Write report.md, report.html and their pictures into a directory, which is created if missing.

    Parameters
    ----------
    directory : where to write; files of the same names are replaced.
    results : settings and rows by figure; a figure that was not run is left out.
    views : the views of single chains, or None to leave them out.
    machine : what the rows were measured on, such as "processor", "cores" and "Python", in the order to show.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for figure, (settings, rows) in results.items():
        draw_errors(rows, settings).savefig(directory / f"{figure}.png")
    if views is not None:
        draw_views(views).savefig(directory / "views.png")
    blocks = compose(results, views, machine)
    (directory / "report.md").write_text(as_markdown(blocks), encoding="utf-8")
    (directory / "report.html").write_text(as_html(blocks, directory), encoding="utf-8")


def compose(results: Results, views: Views | None, machine: Mapping[str, str]) -> list[Block]:
    """Return the contents of the report: those of the template report.md, filled in."""
    verdicts = judge(results)
    sections = [block for figure, found in results.items() for block in _describe_figure(figure, *found)]
    texts = {
        "figures": join(_NAMES[figure].lower() for figure in results),
        "level": f"{LEVEL:.0%}",
        "resamples": str(RESAMPLES),
        "fewest_runs": str(FEWEST_RUNS),
        "low": _list(LOW),
        "middle": _list(MIDDLE),
        "high": _list(HIGH),
        "figure2_caveat": _FIGURE2_CAVEAT if "figure2" in results else "",
    }
    blocks: dict[str, list[Block]] = {
        "runs": [Bullets(_describe_runs(results, machine))],
        "verdicts": [_tabulate_verdicts(verdicts)],
        "ratios": [_tabulate_ratios(verdicts)],
        "sections": sections if views is None else sections + _describe_chains(views),
    }
    return fill_template("report.md", texts, blocks)


_FIGURE2_CAVEAT = (
    "As published, BPS adds up s s' at every flip, O(d²), in figure 2 too, where E[s_i] alone would need O(d); HMC "
    "does so once per trajectory."
)


# --- what was run -----------------------------------------------------------------------------------------------------


def _describe_runs(results: Results, machine: Mapping[str, str]) -> list[str]:
    seeds = sorted({row.seed for _, rows in results.values() for row in rows})
    seed = f"Seed {join(map(str, seeds))}." if seeds else ""
    lines = [_describe_settings(figure, *found) for figure, found in results.items()]
    return [line for line in (*lines, f"{seed} {_describe_machine(machine)}".strip()) if line]


def _describe_settings(figure: str, settings: Settings, rows: Sequence[Row]) -> str:
    error = "squared errors of E[s_i] and of E[s_i s_j], added" if settings.pairs else "squared error of E[s_i]"
    kind = "" if settings.version == "paper" else f" This is the {settings.version} version, not the full one."
    done = len({(row.sigma_M, row.sigma_r, row.run) for row in rows})
    asked = settings.runs * len(settings.sigma_M) * len(settings.sigma_r)
    missing = "" if done == asked else f" Only {done} of {asked} runs are there."
    return (
        f"{_NAMES[figure]}: d = {settings.d}; sigma_M = {_list(settings.sigma_M)}; sigma_r = "
        f"{_list(settings.sigma_r)}; {settings.runs} runs of {settings.seconds:g} s of CPU time per sampler, of which "
        f"the first {settings.warmup:.0%} is discarded as warm-up; HMC with travel time {settings.travel_time:g}π. "
        f"Error: mean {error}.{kind}{missing}{_describe_pilot(settings, rows)}"
    )


def _describe_pilot(settings: Settings, rows: Sequence[Row]) -> str:
    """Return a sentence if tempered chains take more time than they were given."""
    spent = [row.cpu_seconds for row in rows if row.sampler == _TEMPERED.sampler]
    if not spent or np.median(spent) < _LATE * settings.seconds:
        return ""
    return f" Tempered took {np.median(spent):.2g} s: its pilot alone is longer than a run."


def _describe_machine(machine: Mapping[str, str]) -> str:
    """Return "Machine: processor ..., 2 cores, Python ...": counts go before their names, all else after."""
    parts = [f"{value} {name}" if value.isdecimal() else f"{name} {value}" for name, value in machine.items()]
    return f"Machine: {', '.join(parts)}." if parts else ""


# --- claims -----------------------------------------------------------------------------------------------------------


def _list(values: Sequence[float]) -> str:
    return join(f"{value:g}" for value in values)


def _by_claim(verdicts: Sequence[Verdict]) -> dict[int, dict[str, Verdict]]:
    found: dict[int, dict[str, Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.number, {})[verdict.edition] = verdict
    return found


def _tabulate_verdicts(verdicts: Sequence[Verdict]) -> Table:
    """Return a row for each claim, a column for each edition."""
    rows = []
    for number, editions in _by_claim(verdicts).items():
        found = [Badge(f"{verdict.verdict}\n{verdict.detail}".strip()) for verdict in editions.values()]
        rows.append([f"{number}. {next(iter(editions.values())).claim}", *found])
    return Table("Verdicts", ["claim", *EDITIONS.values()], rows)


def _tabulate_ratios(verdicts: Sequence[Verdict]) -> Table:
    """Return the evidence: a row for each claim and cell, two columns for each edition."""
    rows = []
    for number, editions in _by_claim(verdicts).items():
        first = next(iter(editions.values()))
        for k, comparison in enumerate(first.comparisons):
            if all(verdict.comparisons[k].ratio is None for verdict in editions.values()):
                continue
            cells = [text for verdict in editions.values() for text in _name_comparison(verdict.comparisons[k])]
            note = "" if comparison.judged else " (shown only)"
            dimension = "d = 10" if comparison.cell.figure == "figure1" else "d = 100"
            rows.append([f"{number}", f"{dimension}, {comparison.cell.name}{note}", *cells])
    columns = [text for edition in EDITIONS.values() for text in (f"{edition}: ratio", "better")]
    return Table("The ratios behind the verdicts", ["claim", "cell", *columns], rows)


def _name_comparison(comparison: Comparison) -> list[str]:
    if comparison.ratio is None:
        return ["not measured", ""]
    better = SAMPLERS[comparison.better] if comparison.better else "undecided"
    return [_show_interval(comparison.ratio), better]


def _show_interval(ratio: Ratio) -> str:
    return f"{show_ratio(ratio.value)} [{show_ratio(ratio.low)}, {show_ratio(ratio.high)}]"


# --- figures ----------------------------------------------------------------------------------------------------------


def _describe_figure(figure: str, settings: Settings, rows: Sequence[Row]) -> list[Block]:
    name = _NAMES[figure]
    alternative = (
        f"Bar charts of the squared errors at d = {settings.d} on a logarithmic axis, for every sampler, as published "
        "and ours; the numbers are in the tables below."
    )
    caption = f"{name}. Below: the smallest median error in each cell, and how many times as large the next one is."
    grouped = group(row for row in rows if row.figure == figure)
    return [
        Heading(f"{name}: d = {settings.d}"),
        Picture(f"{figure}.png", alternative, caption),
        Bullets(describe_errors(settings, rows)),
        *_tabulate_errors(grouped, settings),
        _tabulate_speed(rows, settings),
    ]


def describe_errors(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Return the winners in all cells as sentences: for each edition the paper's samplers, then all but tempered.

    Tempered chains are then compared with the best of the others.
    """
    grouped = group(row for row in rows if row.figure == settings.figure)
    sentences = []
    for edition, name in EDITIONS.items():
        bars = dict.fromkeys(bar for errors in grouped.values() for bar in _without_tempered(errors, edition))
        paper = [bar for bar in bars if bar in paper_bars(edition)]
        if paper:
            sentences.append(f"{name.capitalize()}, the paper's samplers: {_name_winners(grouped, paper)}.")
        if len(bars) > len(paper):
            winners = _name_winners(grouped, list(bars))
            sentences.append(f"{name.capitalize()}, all samplers but Tempered, all estimators: {winners}.")
    return sentences + _describe_tempered(grouped)


def _without_tempered(errors: Mapping[Bar, Errors], edition: str) -> list[Bar]:
    return [bar for bar in errors if bar.edition == edition and bar.sampler != _TEMPERED.sampler]


def _describe_tempered(grouped: Mapping[Cell, Mapping[Bar, Errors]]) -> list[str]:
    """Return where tempered chains are ahead of the best of all others of ours, and where behind, as a sentence."""
    ratios = {
        cell: compare(errors[_TEMPERED], [errors[bar] for bar in _without_tempered(errors, _TEMPERED.edition)])
        for cell, errors in grouped.items()
        if _TEMPERED in errors
    }
    parts = []
    for side, word in {1: "ahead", -1: "behind", 0: "undecided"}.items():
        found = {cell: ratio.value for cell, ratio in ratios.items() if ratio and ratio.side == side}
        if found:
            parts.append(f"{word} at {name_cells(list(found), ratios)}{_name_range(found.values())}")
    return [f"Ours, Tempered with conditional means against the best of these: {'; '.join(parts)}."] if parts else []


def _name_winners(grouped: Mapping[Cell, Mapping[Bar, Errors]], among: Sequence[Bar]) -> str:
    """Return the winners with their cells and leads, and the cells in which the lead may be chance."""
    chosen = {cell: {bar: errors[bar] for bar in among if bar in errors} for cell, errors in grouped.items()}
    winners = {cell: find_winner(bars) for cell, bars in chosen.items() if bars}
    parts = []
    for bar in dict.fromkeys(winner.bar for winner in winners.values()):
        won = {cell: winner for cell, winner in winners.items() if winner.bar == bar}
        leads = [winner.lead.value for winner in won.values() if winner.lead]
        parts.append(f"{bar.name} at {name_cells(list(won), winners)}{_name_range(leads)}")
    close = [cell for cell, winner in winners.items() if winner.lead and winner.lead.side == 0]
    if not close:
        return "; ".join(parts)
    where = "anywhere" if len(close) == len(winners) else f"at {name_cells(close, winners)}"
    return f"{'; '.join(parts)}. The lead is not established {where}"


def _name_range(ratios: Iterable[float]) -> str:
    ordered = sorted(ratios)
    if not ordered:
        return ""
    low, high = show_ratio(ordered[0]), show_ratio(ordered[-1])
    return f" (×{low})" if low == high else f" (×{low} to ×{high})"


def _tabulate_errors(grouped: Mapping[Cell, Mapping[Bar, Errors]], settings: Settings) -> list[Table]:
    """Return a table of medians for each sigma_M of figure 1, and one for figure 2."""
    title = "Median error over runs and its quartiles; the smallest of each edition in bold"
    if settings.figure == "figure2":
        return [_tabulate_cells(title, grouped, [f"sigma_M = {cell.sigma_M:g}" for cell in grouped])]
    tables = []
    for sigma_M in settings.sigma_M:
        cells = {cell: bars for cell, bars in grouped.items() if cell.sigma_M == sigma_M}
        columns = [f"sigma_r = {cell.sigma_r:g}" for cell in cells]
        tables.append(_tabulate_cells(f"{title}: sigma_M = {sigma_M:g}", cells, columns))
    return tables


def _tabulate_cells(title: str, cells: Mapping[Cell, Mapping[Bar, Errors]], columns: Sequence[str]) -> Table:
    bars = dict.fromkeys(bar for errors in cells.values() for bar in errors)
    rows = [
        [
            EDITIONS[bar.edition],
            SAMPLERS[bar.sampler],
            ESTIMATORS[bar.estimator],
            *(_show_summary(errors, bar) for errors in cells.values()),
        ]
        for bar in bars
    ]
    return Table(title, ["edition", "sampler", "estimator", *columns], rows)


def _show_summary(errors: Mapping[Bar, Errors], bar: Bar) -> str:
    if bar not in errors:
        return "not measured"
    median, low, high, _ = summarise(errors[bar])
    text = f"{show_error(median)}\n{show_error(low)}–{show_error(high)}"
    smallest = min(summarise(errors[other]).median for other in errors if other.edition == bar.edition)
    return Strong(text) if median == smallest else text


def _tabulate_speed(rows: Sequence[Row], settings: Settings) -> Table:
    """Return the flips attempted and accepted per CPU time after warm-up."""
    lines = [
        [
            EDITIONS[bars[0].edition],
            SAMPLERS[bars[0].sampler],
            join(ESTIMATORS[bar.estimator] for bar in bars),
            *(f"{rate:.3g}" for rate in np.median(rates, axis=0)),
        ]
        for bars, rates in _split_chains(rows, settings)
    ]
    title = "Millions of flips per CPU second, median over all runs"
    return Table(title, ["edition", "sampler", "recorded", "attempted", "accepted"], lines)


def _split_chains(rows: Sequence[Row], settings: Settings) -> list[tuple[list[Bar], list[tuple[float, float]]]]:
    """Return the bars that come from the same chains, and the millions of flips per second of each of these chains.

    Bars of a sampler come from the same chains if their chains have the same speeds to the last bit.
    """
    speeds: dict[Bar, dict[tuple[float, float, int], tuple[float, float]]] = {}
    for row in rows:
        seconds = 1e6 * row.cpu_seconds * (1 - settings.warmup)
        of_bar = speeds.setdefault(Bar(row.edition, row.sampler, row.estimator), {})
        of_bar[row.sigma_M, row.sigma_r, row.run] = (row.hits / seconds, row.flips / seconds)
    chains: list[tuple[list[Bar], list[tuple[float, float]]]] = []
    for bar in dict.fromkeys(bar for bars in group(rows).values() for bar in bars):
        same = [bars for bars, _ in chains if bars[0][:2] == bar[:2] and speeds[bars[0]] == speeds[bar]]
        if same:
            same[0].append(bar)
        else:
            chains.append(([bar], list(speeds[bar].values())))
    return chains


# --- views of single chains -------------------------------------------------------------------------------------------


def _describe_chains(views: Views) -> list[Block]:
    alternative = (
        "Three panels for each edition: autocorrelation of log p against the lag in CPU milliseconds, histogram of the "
        "holding times in sweeps, traces of the magnetisation against CPU milliseconds."
    )
    caption = (
        f"One model with d = {views.d}, sigma_M = {views.sigma_M:g}, sigma_r = {views.sigma_r:g}. Left: "
        "autocorrelation of log p(s) between states that are the same CPU time apart for every sampler of a row. "
        "Middle: time between successive flips of any spin; a sweep is the time in which d flips are attempted on "
        f"average. Right: mean of the spins, a band for each sampler."
    )
    picture = Picture("views.png", alternative, caption)
    return [Heading("Three views of single chains"), picture, Bullets(describe_views(views))]


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
