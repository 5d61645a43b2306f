"""Figures with their goals, as a table for a terminal, a Markdown page and JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from timing import Median


@dataclass(frozen=True)
class Figure:
    """One number of the table.

    Attributes
    ----------
    what : str
        What was measured, in columns separated by "|".
    median : Median
        The number and its quartiles over rounds or models.
    goal : float or None
        What it should reach; None for a figure that is information only.
    sense : "at most" or "at least"
    unit : str
        "x" for a ratio.
    details : dict
        The same facts as in `what`, for programs.
    """

    what: str
    median: Median
    goal: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    unit: str = "x"
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        return self.median.value <= self.goal if self.sense == "at most" else self.median.value >= self.goal

    def columns(self) -> list[str]:
        """Return the cells of this row of the table."""
        value, low, high = (_number(number) for number in self.median)
        sign = "<=" if self.sense == "at most" else ">="
        goal = "" if self.goal is None else f"{sign} {self.goal:g} {self.unit}"
        verdict = {None: "", True: "reached", False: "NOT reached"}[self.reached]
        what = [cell.strip() for cell in self.what.split("|")]
        return [*what, f"{value} {self.unit}", f"{low} .. {high}", goal, verdict]


@dataclass(frozen=True)
class Task:
    """A piece of a question: one step of the progress bar."""

    label: str
    run: Callable[[], list[Figure]]


@dataclass(frozen=True)
class Section:
    """The answer to one question. `header` names the columns of `Figure.what`."""

    name: str
    title: str
    note: str
    header: str
    figures: list[Figure]

    def table(self) -> list[list[str]]:
        """Return the rows of the table, the header first, all with the same number of cells."""
        header = [cell.strip() for cell in self.header.split("|")]
        return [[*header, "median", "quartiles", "goal", ""], *(figure.columns() for figure in self.figures)]


def as_text(section: Section) -> str:
    """Return a section with aligned columns."""
    rows = section.table()
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    words = len(section.header.split("|"))
    lines = ["  ".join(_align(row, widths, words)).rstrip() for row in rows]
    rule = "-" * max(map(len, lines))
    return "\n".join([section.title, section.note, rule, lines[0], rule, *lines[1:], ""])


def _align(row: Sequence[str], widths: Sequence[int], words: int) -> list[str]:
    """Words to the left, numbers to the right; the verdict is a word again."""
    last = len(row) - 1
    return [
        cell.ljust(width) if k < words or k == last else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def as_markdown(sections: Sequence[Section]) -> str:
    """Return a page with all sections."""
    machine = ", ".join(f"{name} {value}" for name, value in environment().items())
    lines = [
        "# Benchmark results",
        "",
        "Made by `make bench`; how to read it: [README](../README.md).",
        "",
        machine,
        "",
    ]
    for section in sections:
        header, *rows = section.table()
        lines += [f"## {section.title}", "", section.note, ""]
        lines += [_markdown_row(header), _markdown_row(["---"] * len(header)), *map(_markdown_row, rows), ""]
        if section.name == "growth":
            lines += ["![Cost of an attempted flip against the number of spins](growth.png)", ""]
        if section.name == "clusters":
            lines += ["![Autocorrelation times of clusters against the side of the torus](clusters.png)", ""]
    lines += ["## Goals", "", verdict(sections), ""]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def verdict(sections: Sequence[Section]) -> str:
    """Return one sentence that counts the goals and one line for each that is not reached."""
    judged = [(section, figure) for section in sections for figure in section.figures if figure.goal is not None]
    missed = [(section, figure) for section, figure in judged if not figure.reached]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} goals reached."]
    for section, figure in missed:
        what = ", ".join(cell.strip() for cell in figure.what.split("|") if cell.strip())
        number = f"{_number(figure.median.value)} {figure.unit}, goal {figure.sense} {figure.goal:g} {figure.unit}"
        lines.append(f"- not reached: {section.name}: {what}: {number}")
    return "\n".join(lines)


def save(sections: Sequence[Section], directory: Path) -> None:
    """Write results.json and results.md."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"environment": environment(), "sections": [_as_json(section) for section in sections]}
    (directory / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    (directory / "results.md").write_text(as_markdown(sections))


def load(directory: Path) -> dict[str, list[Figure]]:
    """Return the figures of results.json by the name of their section."""
    content = json.loads((directory / "results.json").read_text())
    return {section["name"]: [_from_json(figure) for figure in section["figures"]] for section in content["sections"]}


def _from_json(figure: dict[str, Any]) -> Figure:
    facts = {name: value for name, value in figure.items() if name != "reached"}
    return Figure(**facts | {"median": Median(**facts["median"])})


def _as_json(section: Section) -> dict[str, Any]:
    figures = [asdict(f) | {"median": f.median._asdict(), "reached": f.reached} for f in section.figures]
    return {"name": section.name, "title": section.title, "figures": figures}


def environment() -> dict[str, str]:
    """Return what ratios may depend on."""
    packages = {name: version(name) for name in ("numba", "numpy", "scipy")}
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **packages,
    }


def _processor() -> str:
    """Return the model of the processor where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _number(x: float) -> str:
    """Return three significant digits, or four decimals of a small number, without an exponent."""
    if x >= 100:
        return f"{x:.0f}"
    if 0.0 < x < 0.1:
        return f"{x:.4f}"
    text = f"{x:.1f}" if x >= 10 else f"{x:.2f}"
    return "0.00" if text == "-0.00" else text
