"""A run as a table: printed, in a notebook, for pandas and for JSON."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy import _html
from bouncy._labels import short_label
from bouncy.results.describe import counted, described_run, plain, plain_label

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun
    from bouncy.results.run import Run
    from bouncy.results.spins import SpinRun

# Sites shown when there are more than fit on a screen.
_SHOWN = 20


@dataclass(frozen=True, repr=False)
class Column:
    """A number for each site, and how it is shown.

    Attributes
    ----------
    heading : str
        Title of the column in the printed table.
    values : ndarray, shape (d,)
        NaN where it is unknown.
    form : str
        How a number is formatted.
    width : int
        Of the printed column.
    words : dict
        What to show instead of the number of some sites.
    """

    heading: str
    values: NDArray[Any]
    form: str
    width: int = 9
    words: dict[int, str] = field(default_factory=dict)

    def shown(self, i: int) -> str:
        """Return the text for site i."""
        return self.words.get(i) or show_number(self.values[i], self.form)


class Summary:
    """The table that `run.summary()` returns: the estimates of all sites, and the diagnostics of the run.

    `print` shows a table, of the sites with the largest standard errors where there are many, and a notebook shows the
    same. It is a snapshot: it stays as it is when the run goes on.

    Examples
    --------
    >>> import bouncy
    >>> run = bouncy.sample(bouncy.MRF.random(3, seed=0), draws=200, seed=0)
    >>> summary = run.summary()
    >>> print(str(summary).splitlines()[0])
    bps-gaussian on MRF(d=3, dense, 3 pairs)
    >>> summary.to_dict()["sampler"]["name"]
    'bps-gaussian'
    """

    def __init__(self, run: Run, what: str, head: list[str], columns: dict[str, Column], foot: list[str]) -> None:
        self._what, self._head, self._columns, self._foot = what, head, columns, foot
        self._labels = run.target.labels
        self._shown = chosen_sites(run)
        self._facts = {**described_run(run), **_told(run.diagnostics)}

    def __str__(self) -> str:
        names = [short_label(self._labels[i]) for i in self._shown]
        width = max(8, *map(len, names))
        columns = self._columns.values()
        lines = [f"{self._what:>{width}} " + " ".join(f"{c.heading:>{c.width}}" for c in columns)]
        for name, i in zip(names, self._shown, strict=True):
            lines.append(f"{name:>{width}} " + " ".join(f"{c.shown(i):>{c.width}}" for c in columns))
        lines += [f"{'...':>{width}} {text}" for text in self._hidden()]
        return "\n".join([*self._head, "", *lines, "", *self._foot])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook; labels are text, whatever they contain."""
        columns = self._columns.values()
        rows = [[short_label(self._labels[i]), *(c.shown(i) for c in columns)] for i in self._shown]
        sites = _html.table([self._what, *(c.heading for c in columns)], rows)
        foot = [line for line in self._foot if not _is_warning(line)]
        after = _html.text([*self._hidden(), *foot], list(filter(_is_warning, self._foot)))
        return f"{_html.text(self._head)}\n{sites}\n{after}"

    def _hidden(self) -> list[str]:
        """Return a line that says how many sites are not shown, if there are any."""
        hidden = len(self._labels) - len(self._shown)
        return [f"{hidden} more {self._what}s; these have the largest standard errors"] if hidden else []

    def to_frame(self) -> Any:
        """Return a pandas data frame of all sites, indexed by their labels; NaN where something is unknown.

        The effective sample size of a constant site is NaN. R-hat is infinite where each chain is stuck at a value of
        its own.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: install it with  pip install 'bouncy[arviz]'  or  pip install pandas"
            ) from error
        index = pandas.Index(list(self._labels), name=self._what, tupleize_cols=False)
        return pandas.DataFrame({name: column.values for name, column in self._columns.items()}, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python objects for JSON.

        None where something is unknown, "inf" for what is infinite, and labels that are neither numbers nor text as
        their text.
        """
        columns = {name: plain(column.values) for name, column in self._columns.items()}
        names = [plain_label(label) for label in self._labels]
        sites = [
            {self._what: name, **{key: values[i] for key, values in columns.items()}} for i, name in enumerate(names)
        ]
        facts: dict[str, Any] = json.loads(json.dumps(self._facts))
        return {**facts, "sites": sites}


def spin_summary(run: SpinRun, more: Sequence[str] = ()) -> Summary:
    """Return means with their error bars, and the diagnostics below some more lines."""
    report = run.diagnostics
    columns = {
        "mean": Column("mean", run.mean, "+.4f"),
        "se": Column("se", run.mean_se, ".2g"),
        **convergence(run),
    }
    foot = [*more, *diagnostics_lines(run, _events(report), _rates(run))]
    return Summary(run, "site", head_lines(run, "attempted flips", report["hits"]), columns, foot)


def path_summary(run: PathRun) -> Summary:
    """Return means, spreads and quantiles with error bars, and the diagnostics."""
    report = run.diagnostics
    low, high = (run.quantile(q)[0] for q in (0.05, 0.95))
    named = {"mean": run.mean, "se": run.mean_se, "sd": np.sqrt(run.variance), "5%": low, "95%": high}
    columns = {name: Column(name, values, ".3g") for name, values in named.items()}
    if hasattr(run, "inclusion"):
        columns["inclusion"] = Column("not 0", run.inclusion, ".3g")
    columns |= convergence(run)
    hits, flips = run.sampler.events
    head = head_lines(run, f"{hits} and bounces" if report["bounces"] else hits, report["hits"] + report["bounces"])
    events = _path_events(report, hits, flips)
    return Summary(run, "variable", head, columns, diagnostics_lines(run, events, _path_rates(report)))


def convergence(run: Run) -> dict[str, Column]:
    """Return effective sample sizes, R-hat and flips of all sites, with a word where there is no number."""
    report, d = run.diagnostics, run.target.d
    ess, rhat = np.full(d, np.nan), np.full(d, np.nan)
    if "sites" in report["ess"]:
        ess, rhat = report["ess"]["sites"].filled(np.nan), report["rhat"]["sites"].filled(np.nan)
    constant = dict.fromkeys(map(int, report["constant_sites"]), "constant")
    stuck = {int(i): "stuck" for i in np.flatnonzero(np.isinf(rhat))}
    unknown = {int(i): "-" for i in np.flatnonzero(np.isnan(ess))}
    # Sites may be frozen in different states of the chains, which is worse than constant.
    return {
        "ess": Column("ess", ess, ".0f", 8, unknown | constant | dict.fromkeys(stuck, "-")),
        "rhat": Column("rhat", rhat, ".3f", 8, unknown | dict.fromkeys(constant, "-") | stuck),
        "flips": Column("flips", run.flips_per_site, ",d", 10),
    }


def verdict(run: Run) -> list[str]:
    """Return in three lines what a run is, how precise it is, and whether to trust it."""
    report, warnings = run.diagnostics, run.diagnostics["warnings"]
    size = f"{counted(run.chains, 'chains')} x {counted(run.draws_per_chain, 'draws')}"
    ended = "" if run.completed else ", interrupted"
    return [
        f"{run.sampler.name} on {run.target!r}: {size}{ended}, {run.sampling_seconds:.2f} s CPU",
        "; ".join([*_log_z(report), _largest_error(run), _worst_rhat(report["rhat"])]),
        f"{counted(len(warnings), 'warnings')}{', see run.summary()' * (len(warnings) > 1)}: {warnings[0]}"
        if warnings
        else "no warnings",
    ]


def _log_z(report: dict[str, Any]) -> list[str]:
    if "ladder" not in report:
        return []
    ladder = report["ladder"]
    trips = counted(int(ladder["round_trips"].sum()), "round trips")
    return [f"log Z {show_number(ladder['log_z'], '.4f')} +- {show_number(ladder['log_z_se'], '.2g')}, {trips}"]


def _largest_error(run: Run) -> str:
    error = run.mean_se
    if np.isnan(error).all():
        return "no standard error yet"
    worst = int(np.nanargmax(error))
    what = "site" if run.target.kind == "spins" else "variable"
    return f"largest standard error of a mean {error[worst]:.2g} ({what} {short_label(run.target.labels[worst])})"


def _worst_rhat(rhat: dict[str, Any]) -> str:
    known = {name: value for name, value in rhat.items() if isinstance(value, float)}
    if not known:
        return "no R-hat: too few draws, or nothing moves"
    worst = max(known, key=lambda name: known[name])
    return f"worst R-hat {_show_rhat(known[worst])} ({worst.replace('_', ' ')})"


def head_lines(run: Run, what: str, events: int) -> list[str]:
    """Return the head of a summary: sampler, target, length, and events of a kind per second."""
    seconds = run.diagnostics["sampling_seconds"]
    rate = events / seconds if seconds > 0 else 0.0
    size = f"{counted(run.chains, 'chains')} x {counted(run.draws_per_chain, 'draws')}"
    unit = run.sampler.unit
    return [
        f"{run.sampler.name} on {run.target!r}",
        f"{size}, {counted(run.thin, unit)} apart, after {counted(run.warmup, unit)} of warm-up; "
        f"{seconds:.2f} s CPU, {rate / 1e6:.1f} million {what} per second",
    ]


def diagnostics_lines(run: Run, events: str, rates: str) -> list[str]:
    """Return the foot of a summary: effective sample sizes, events, rates and warnings."""
    report, lines = run.diagnostics, []
    for name in ("log_prob", "magnetisation", "worst_site", "median_site"):
        if name in report["ess"]:
            lines.append(f"{name.replace('_', ' '):>14}: ess {show_number(report['ess'][name], '.0f')}, "
                         f"rhat {_show_rhat(report['rhat'][name])}")  # fmt: skip
    lines.append(f"{'events':>14}: {events}")
    lines += [f"{'chosen':>14}: {report['auto']}"] if "auto" in report else []
    lines += [f"{'clock':>14}: {rates}"] if rates else []
    return lines + [f"{'warning':>14}: {text}" for text in report["warnings"]]


def _is_warning(line: str) -> bool:
    return line.lstrip().startswith("warning:")


def _told(report: dict[str, Any]) -> dict[str, Any]:
    """Return diagnostics and warnings for JSON, without those that the rows of the sites hold."""
    kept = {name: value for name, value in report.items() if name != "warnings"}
    for name in ("ess", "rhat"):
        kept[name] = {key: value for key, value in report[name].items() if key != "sites"}
    return {"diagnostics": plain(kept), "warnings": list(report["warnings"])}


def _events(report: dict[str, Any]) -> str:
    """Return the numbers of events, by kind."""
    if "ladder" in report:
        tried = counted(report["hits"], "attempted flips")
        parts = [f"{tried} on each rung", f"{report['flips']:,} of the chain, swaps included"]
    else:
        accepted = report["flips"] / max(report["hits"], 1)
        parts = [counted(report["hits"], "attempted flips"), f"{report['flips']:,} accepted ({accepted:.1%})"]
    parts += [counted(report[kind], kind) for kind in ("bounces", "refreshments") if report[kind]]
    return ", ".join(parts)


def _rates(run: SpinRun) -> str:
    """Return the z-scores of the event rates of the clock."""
    report = run.diagnostics
    hits, bounces, _ = run.sampler.event_rates(run.target.d, run.duration)
    if hits is None:
        return ""
    text = f"hit rate z = {show_number(report['hit_rate_z'], '+.2f')}"
    if bounces:
        text += f", bounce rate z = {show_number(report['bounce_rate_z'], '+.2f')}"
    return text


def _path_events(report: dict[str, Any], hits: str, flips: str) -> str:
    """Return the numbers of events, by kind, given what hits and flips are called."""
    passed = f"{counted(report['flips'], flips)} ({report['flips'] / max(report['hits'], 1):.1%})"
    parts = [counted(report["hits"], hits), passed] if report["hits"] else []
    parts += [counted(report[kind], kind) for kind in ("bounces", "refreshments") if report[kind]]
    events = max(report["hits"] + report["bounces"] + report["refreshments"], 1)
    parts += [f"{n / events:.1f} calls of {name} per event" for name, n in report.get("evaluations", {}).items() if n]
    return ", ".join(parts) or "none"


def _path_rates(report: dict[str, Any]) -> str:
    """Return the scores of the rates that are known in closed form."""
    named = (("hit rate", report["hit_rate_z"]), ("bounce rate", report["bounce_rate_z"]))
    return ", ".join(f"{name} z = {value:+.2f}" for name, value in named if not np.isnan(value))


def chosen_sites(run: Run) -> list[int]:
    """Return the sites to show: all, or those with the largest standard errors, in order."""
    if run.target.d <= _SHOWN:
        return list(range(run.target.d))
    return sorted(int(i) for i in np.argsort(-np.nan_to_num(run.mean_se), kind="stable")[:_SHOWN])


def show_number(value: float | str, form: str) -> str:
    """Format a number; NaN is unknown, and text stays as it is."""
    if isinstance(value, str):
        return value
    return "unknown" if np.isnan(value) else format(value, form)


def _show_rhat(value: float | str) -> str:
    return "infinite (stuck)" if value == np.inf else show_number(value, ".4f")
