"""A run on a continuous target as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bouncy.results.describe import counted
from bouncy.results.summary import Column, Summary, convergence, diagnostics_lines, head_lines

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun


def path_summary(run: PathRun) -> Summary:
    """Return means, spreads and quantiles with error bars, and the diagnostics."""
    report = run.diagnostics
    low, high = (run.quantile(q)[0] for q in (0.05, 0.95))
    named = {"mean": run.mean, "se": run.mean_se, "sd": np.sqrt(run.variance), "5%": low, "95%": high}
    columns = {name: Column(name, values, ".3g") for name, values in named.items()}
    if hasattr(run, "inclusion"):
        columns["inclusion"] = Column("not 0", run.inclusion, ".3g")
    columns |= convergence(run)
    head = head_lines(run, "wall hits and bounces", report["hits"] + report["bounces"])
    return Summary(run, "variable", head, columns, diagnostics_lines(run, _events(report), _rates(report)))


def _events(report: dict[str, Any]) -> str:
    """Return the numbers of events of those kinds that there are."""
    parts = [counted(report["hits"], "wall hits"), counted(report["flips"], "crossings")] if report["hits"] else []
    parts += [counted(report[kind], kind) for kind in ("bounces", "refreshments") if report[kind]]
    return ", ".join(parts) or "none"


def _rates(report: dict[str, Any]) -> str:
    """Return the scores of the rates that are known in closed form."""
    named = (("hit rate", report["hit_rate_z"]), ("bounce rate", report["bounce_rate_z"]))
    return ", ".join(f"{name} z = {value:+.2f}" for name, value in named if not np.isnan(value))
