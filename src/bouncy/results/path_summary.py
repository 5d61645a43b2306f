"""A run on a continuous target as a table that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bouncy.results.summary import chosen_sites, diagnostics_lines, head_lines, more_sites, short_names, show_number

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun


def path_summary_text(run: PathRun) -> str:
    """Return a table of means, spreads and quantiles with error bars, and the diagnostics."""
    report = run.diagnostics
    sites = chosen_sites(run)
    names = short_names(run.target.labels, sites)
    width = max(8, *map(len, names))
    low, high = (run.quantile(q)[0] for q in (0.05, 0.95))
    columns: dict[str, Any] = {"mean": run.mean, "se": run.mean_se, "sd": np.sqrt(run.variance), "5%": low, "95%": high}
    if hasattr(run, "inclusion"):
        columns["not 0"] = run.inclusion
    lines = [*head_lines(run, "wall hits and bounces", report["hits"] + report["bounces"])]
    lines.append(f"{'variable':>{width}} " + " ".join(f"{name:>9}" for name in columns) + f" {'ess':>8} {'rhat':>7}")
    for name, i in zip(names, sites, strict=True):
        numbers = " ".join(f"{show_number(column[i], '.3g'):>9}" for column in columns.values())
        lines.append(f"{name:>{width}} {numbers} {_convergence(report, i)}")
    lines += more_sites(run, width, "variables")
    return "\n".join([*lines, "", *diagnostics_lines(run, _events(report), _rates(report))])


def _convergence(report: dict[str, Any], i: int) -> str:
    ess, rhat = report["ess"].get("sites"), report["rhat"].get("sites")
    if ess is None:
        return f"{'-':>8} {'-':>7}"
    if ess.mask[i]:
        return f"{'constant':>16}"
    return f"{ess[i]:>8.0f} {rhat[i]:>7.3f}"


def _events(report: dict[str, Any]) -> str:
    """Return the numbers of events of those kinds that there are."""
    parts = [f"{report['hits']:,} wall hits", f"{report['flips']:,} crossings"] if report["hits"] else []
    parts += [f"{report[kind]:,} {kind}" for kind in ("bounces", "refreshments") if report[kind]]
    return ", ".join(parts) or "none"


def _rates(report: dict[str, Any]) -> str:
    """Return the scores of the rates that are known in closed form."""
    named = (("hit rate", report["hit_rate_z"]), ("bounce rate", report["bounce_rate_z"]))
    return ", ".join(f"{name} z = {value:+.2f}" for name, value in named if not np.isnan(value))
