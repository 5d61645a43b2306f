"""A run as a table that a person can read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bouncy.results.run import Run
    from bouncy.results.spins import SpinRun

_LABEL = 24
# Sites shown when there are more than fit on a screen.
_SHOWN = 20


def summary_text(run: SpinRun) -> str:
    """Return a table of means with their error bars, and the diagnostics."""
    sites = chosen_sites(run)
    names = short_names(run.target.labels, sites)
    width = max(8, *map(len, names))
    lines = [
        *head_lines(run, "attempted flips", run.diagnostics["hits"]),
        f"{'site':>{width}} {'mean':>9} {'se':>9} {'ess':>8} {'rhat':>7}",
    ]
    lines += [f"{name:>{width}} {_site_row(run, i)}" for name, i in zip(names, sites, strict=True)]
    lines += more_sites(run, width, "sites")
    return "\n".join([*lines, "", *diagnostics_lines(run, _events(run.diagnostics), _rates(run))])


def head_lines(run: Run, what: str, events: int) -> list[str]:
    """Return what a summary begins with: what was run, for how long, and how many events of a kind per second."""
    chains, draws = run.log_prob.shape
    seconds = run.diagnostics["sampling_seconds"]
    rate = events / seconds if seconds > 0 else 0.0
    return [
        f"{run.sampler.name} on {run.target!r}",
        f"{chains} chains x {draws} draws, {_sweeps(run.sweeps_per_draw)} apart, after {_sweeps(run.warmup)} of "
        f"warm-up; {seconds:.2f} s CPU, {rate / 1e6:.1f} million {what} per second",
        "",
    ]


def more_sites(run: Run, width: int, what: str) -> list[str]:
    """Return a line that says how many sites are not shown, if there are any."""
    hidden = run.target.d - min(run.target.d, _SHOWN)
    return [f"{'...':>{width}} {hidden} more {what}; these have the largest standard errors"] if hidden else []


def diagnostics_lines(run: Run, events: str, rates: str) -> list[str]:
    """Return what a summary ends with: effective sample sizes, events, rates and warnings."""
    report, lines = run.diagnostics, []
    for name in ("energy", "magnetisation", "worst_site", "median_site"):
        if name in report["ess"]:
            lines.append(f"{name.replace('_', ' '):>14}: ess {show_number(report['ess'][name], '.0f')}, "
                         f"rhat {show_number(report['rhat'][name], '.4f')}")  # fmt: skip
    lines.append(f"{'events':>14}: {events}")
    lines += [f"{'clock':>14}: {rates}"] if rates else []
    return lines + [f"{'warning':>14}: {text}" for text in report["warnings"]]


def _sweeps(n: int) -> str:
    return f"{n} sweep{'s' * (n != 1)}"


def _events(report: dict[str, Any]) -> str:
    """Return the numbers of events of those kinds that there are."""
    accepted = report["flips"] / max(report["hits"], 1)
    parts = [f"{report['hits']:,} attempted flips", f"{report['flips']:,} accepted ({accepted:.1%})"]
    parts += [f"{report[kind]:,} {kind}" for kind in ("bounces", "refreshments") if report[kind]]
    return ", ".join(parts)


def _rates(run: SpinRun) -> str:
    """Return the scores of the rates that the clock has."""
    report = run.diagnostics
    text = f"hit rate z = {show_number(report['hit_rate_z'], '+.2f')}"
    if run.sampler.clock.bounce_rate(run.target.d) > 0.0:
        text += f", bounce rate z = {show_number(report['bounce_rate_z'], '+.2f')}"
    return text


def chosen_sites(run: Run) -> list[int]:
    """Return the sites to show: all, or those with the largest standard errors, in order."""
    if run.target.d <= _SHOWN:
        return list(range(run.target.d))
    return sorted(int(i) for i in np.argsort(-np.nan_to_num(run.mean_se), kind="stable")[:_SHOWN])


def _site_row(run: SpinRun, i: int) -> str:
    ess, rhat = run.diagnostics["ess"].get("sites"), run.diagnostics["rhat"].get("sites")
    columns = f"{run.mean[i]:>+9.4f} {show_number(run.mean_se[i], '.2g'):>9}"
    if ess is None:
        return f"{columns} {'-':>8} {'-':>7}"
    if ess.mask[i]:
        return f"{columns} {'constant':>16}"
    return f"{columns} {ess[i]:>8.0f} {rhat[i]:>7.3f}"


def short_names(labels: Sequence[Hashable], sites: list[int]) -> list[str]:
    """Return what sites are called, shortened to what fits a column."""
    texts = [str(labels[i]) for i in sites]
    return [text if len(text) <= _LABEL else text[: _LABEL - 1] + "…" for text in texts]


def show_number(value: float | str, form: str) -> str:
    """Format a number; what could not be estimated has no number."""
    if isinstance(value, str):
        return value
    return "unknown" if np.isnan(value) else format(value, form)
