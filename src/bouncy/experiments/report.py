"""The report on a rerun of the paper's experiments: pictures, verdicts and tables, as Markdown and as one HTML page.

Whatever the text says about a result is written from the numbers.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import bouncy
from bouncy.experiments.analysis import FEWEST_RUNS, LEVEL, RESAMPLES, Bar, Cell, Errors, Ratio, group, summarise
from bouncy.experiments.captions import describe_errors, describe_views
from bouncy.experiments.claims import Comparison, Verdict, judge
from bouncy.experiments.figures import draw_errors, draw_views
from bouncy.experiments.labels import (
    EDITIONS,
    ESTIMATORS,
    SAMPLERS,
    join,
    name_cell,
    show_error,
    show_ratio,
)
from bouncy.experiments.page import (
    Badge,
    Block,
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Strong,
    Table,
    as_html,
    as_markdown,
)

if TYPE_CHECKING:
    from bouncy.experiments.settings import Settings
    from bouncy.experiments.table import Row
    from bouncy.experiments.views import Views

Results = Mapping[str, tuple["Settings", "list[Row]"]]

PAPER_ADDRESS = "https://arxiv.org/abs/1711.00922"
_NAMES = {"figure1": "Figure 1", "figure2": "Figure 2"}


def write_report(directory: Path, results: Results, views: Views | None) -> None:
    """Write report.md, report.html and the pictures they show into a directory, which is made if need be.

    Parameters
    ----------
    directory : where to write; files of the same names are replaced.
    results : settings and rows by figure; a figure that was not run is left out.
    views : the views of single chains, or None to leave them out.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for figure, (settings, rows) in results.items():
        draw_errors(rows, settings).savefig(directory / f"{figure}.png")
    if views is not None:
        draw_views(views).savefig(directory / "views.png")
    blocks = compose(results, views)
    (directory / "report.md").write_text(as_markdown(blocks), encoding="utf-8")
    (directory / "report.html").write_text(as_html(blocks, directory), encoding="utf-8")


def compose(results: Results, views: Views | None) -> list[Block]:
    """Return the contents of the report."""
    verdicts = judge(dict(results))
    blocks: list[Block] = [
        Heading("The experiments of the Binary Bouncy Particle Sampler, run again", 1),
        Paragraph("A rerun of the two figures of A. Pakman, Binary Bouncy Particle Sampler (2017),", PAPER_ADDRESS),
        Heading("What was run"),
        *_describe_run(results),
        Heading("The claims of the paper"),
        *_describe_claims(verdicts),
    ]
    for figure, (settings, rows) in results.items():
        blocks += _describe_figure(figure, settings, rows)
    if views is not None:
        blocks += _describe_chains(views)
    return [*blocks, Heading("How to read this"), Bullets(_CAVEATS)]


# --- what was run -----------------------------------------------------------------------------------------------------


def _describe_run(results: Results) -> list[Block]:
    seeds = sorted({row.seed for _, rows in results.values() for row in rows})
    lines = [_describe_settings(figure, settings, rows) for figure, (settings, rows) in results.items()]
    text = (
        "Each run draws a new random model, log p(s) = -s.r - s'Ms/2 with couplings of standard deviation sigma_M and "
        "fields of standard deviation sigma_r, and gives it to every sampler for the same CPU time, by the process's "
        "own clock, compilation excluded. There are two editions. As published: the paper's three samplers "
        "at their published cost per event, O(d) per wall hit and O(d²) per recorded flip for BPS, O(d) per wall hit "
        "for HMC; BPS without refreshment. Ours: the samplers of this package with Gibbs and Metropolis "
        "beside them, and further estimators from the same chains."
    )
    seed = f"Seed {join(map(str, seeds))}." if seeds else ""
    return [Paragraph(text), Bullets([*lines, f"{seed} {_describe_machine()}".strip()])]


def _describe_settings(figure: str, settings: Settings, rows: Sequence[Row]) -> str:
    error = "squared errors of E[s_i] and of E[s_i s_j], added" if settings.pairs else "squared error of E[s_i]"
    kind = "" if settings.version == "paper" else f" This is the {settings.version} version, not the full one."
    done = len({(row.sigma_M, row.sigma_r, row.run) for row in rows})
    asked = settings.runs * len(settings.sigma_M) * len(settings.sigma_r)
    missing = "" if done == asked else f" Only {done} of {asked} runs are there."
    fields = join(f"{value:g}" for value in settings.sigma_r)
    return (
        f"{_NAMES[figure]}: d = {settings.d}; sigma_M = {join(f'{value:g}' for value in settings.sigma_M)}; sigma_r = "
        f"{fields}; {settings.runs} runs of {settings.seconds:g} s of CPU time per sampler, of which the first "
        f"{settings.warmup:.0%} is discarded as warm-up; HMC with travel time {settings.travel_time:g}π. "
        f"Error: mean {error}.{kind}{missing}"
    )


def _describe_machine() -> str:
    return (
        f"Machine: {_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, numba "
        f"{version('numba')}, bouncy {bouncy.__version__}."
    )


def _processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or "unknown processor"


# --- claims -----------------------------------------------------------------------------------------------------------


def _describe_claims(verdicts: Sequence[Verdict]) -> list[Block]:
    text = (
        "Each claim is judged by the paper's three samplers and estimators: whole paths for BPS, states at the ends of "
        "trajectories for HMC. The ratio is the median error of the best rival divided by that of the sampler that "
        "should be best; above 1 the claim holds. For the last claim it is that of Gaussian BPS divided by that of "
        f"exponential BPS. In brackets, its {LEVEL:.0%} interval by a paired bootstrap over runs "
        f"({RESAMPLES} resamples)."
    )
    rules = (
        "A claim reproduces if the interval lies above 1 in all its cells, and in part if only in some. It does not "
        "reproduce if the interval lies above 1 in none of them and below 1 in at least one; else it is undecided, as "
        f"is anything with fewer than {FEWEST_RUNS} runs. The last claim reproduces if one augmentation is better in "
        "all cells of one d, and the other in all cells of the other d. Intervals are for one cell at a time; they are "
        "not widened for the number of cells."
    )
    return [Paragraph(text), Paragraph(rules), _tabulate_verdicts(verdicts), _tabulate_ratios(verdicts)]


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
            rows.append([f"{number}", f"{dimension}, {name_cell(comparison.cell)}{note}", *cells])
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
    caption = f"{name}. Below: who has the smallest median error where, and how many times as large the next one is."
    grouped = group(row for row in rows if row.figure == figure)
    return [
        Heading(f"{name}: d = {settings.d}"),
        Picture(f"{figure}.png", alternative, caption),
        Bullets(describe_errors(settings, rows)),
        *_tabulate_errors(grouped, settings),
        _tabulate_speed(rows, settings),
    ]


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
    """Return how many flips were attempted and accepted per CPU time after warm-up: what an event costs."""
    chains: dict[tuple[str, str], dict[tuple[float, float, int], tuple[float, float]]] = {}
    for row in rows:
        seconds = row.cpu_seconds * (1 - settings.warmup)
        rates = (row.hits / seconds / 1e6, row.flips / seconds / 1e6)
        chains.setdefault((row.edition, row.sampler), {})[row.sigma_M, row.sigma_r, row.run] = rates
    lines = [
        [EDITIONS[edition], SAMPLERS[sampler], *(f"{rate:.3g}" for rate in np.median(list(found.values()), axis=0))]
        for edition in EDITIONS
        for sampler in SAMPLERS
        if (found := chains.get((edition, sampler)))
    ]
    title = "Millions of flips per CPU second, median over all runs"
    return Table(title, ["edition", "sampler", "attempted", "accepted"], lines)


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


_CAVEATS = (
    "Equal CPU time compares programs as much as algorithms: a sampler that does less work per event makes more of "
    "them. That is why there are two editions, and why the ranking of one need not be that of the other.",
    "As published, BPS adds up s s' at every flip, O(d^2), in figure 2 too, where E[s_i] alone would need O(d); HMC does "
    "so once per trajectory. This decides much of the ranking at d = 100.",
    "Our chains record paths, conditional means and, where they count, pairs all at once; "
    "a chain that recorded only one of them would be somewhat faster.",
    "The travel time of HMC is the paper's; it was not tuned.",
    "Conditional means average E[s_i | rest] in place of s_i. Any sampler can record them, the published ones too: "
    "compare a pale bar with other pale bars.",
    "Without refreshment Gaussian BPS is not ergodic on a flat target: without couplings and fields it flips the sites "
    "in a fixed cyclic order and visits 2d of the 2^d states for ever, each followed half a cycle later by its "
    "opposite. Such antithetic cycles cancel in E[s_i], so at low sigma_M the error of the means can look small "
    "although most states are never seen: it is no sign of good mixing.",
    "Medians over runs mix the luck of a chain with the difficulty of its random model. Ratios are compared run by "
    "run, on the same models.",
)
