"""The comparison as a page, as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.models import TITLES
from report import _markdown_row, _number, environment
from timing import Median

# Effective samples of a whole chain below which it is not ranked: a chain that is stuck has about one.
FEWEST = 3.0
# A row of the table: facts about one sampler on one model, with medians as triples.
Row = dict[str, Any]
QUANTITIES = {"energy": "log p", "slowest": "slowest site", "mean": "mean"}
HEADER = ["sampler", "attempts", *QUANTITIES.values(), "error of log Z", "verdict"]
# Tables of the page for readers, with few enough columns to be seen at once.
SHORT = (
    {"dense-10": "d = 10", "dense-100": "d = 100", "dense-1000": "d = 1000", "ring": "ring"},
    {"hot": "torus, J = 0.3", "critical": "torus, critical", "glass": "glass", "regular": "3-regular"},
    {"selection": "variable selection"},
)
# Lines of that page between which they stand.
BEGIN, END = "<!-- begin: made by `make bench-peers` -->", "<!-- end -->"


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of rows, best mean first, then slow chains; wrong answers are last and not measured further."""
    return [
        [
            row["label"],
            _short(row["attempts"]),
            *("" if row["wrong"] else _cell(row, name) for name in QUANTITIES),
            "" if row.get("log_z") is None or row["wrong"] else _number(row["log_z"]),
            _verdict(row),
        ]
        for row in sorted(rows, key=_rank)
    ]


def _failure(row: Row) -> str:
    """Return what makes a row unfit for a ranking, if anything does."""
    return "wrong" if row["wrong"] else "few" if row.get("per_chain", FEWEST) < FEWEST else ""


def _verdict(row: Row) -> str:
    wrong, few = f"WRONG: {row['wrong']}", f"too few: {_number(row.get('per_chain', 0.0))} effective samples a chain"
    return {"wrong": wrong, "few": few, "": "agrees"}[_failure(row)]


def _rank(row: Row) -> tuple[str, float]:
    return _failure(row), -row.get("mean", [float("inf")])[0]


def _cell(row: Row, name: str, digits: Callable[[float], str] = _number) -> str:
    """Return effective samples; of log p there may be none, while a mean without an error is exact by symmetry."""
    if name in row:
        return _short(row[name], digits)
    return "" if name == "energy" else "exact"


def _short(value: Sequence[float], digits: Callable[[float], str] = _number) -> str:
    """Return the median of a rate in thousands, millions or as it is."""
    number = Median(*value).value
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{digits(number / size)} {letter}"
    return digits(number)


def _brief(x: float) -> str:
    """Return two significant digits, or all digits before the point."""
    return f"{x:.0f}" if x >= 9.95 else f"{x:.1f}"


def as_text(name: str, rows: Sequence[Row]) -> str:
    """Return the table of one model with aligned columns."""
    cells = [HEADER, *lines(rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(HEADER))]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([TITLES[name], "-" * max(map(len, aligned)), *aligned, ""])


def as_markdown(content: Mapping[str, Any]) -> str:
    """Return a page with all models, the versions, and what was left out."""
    versions = ", ".join(f"{package} {number}" for package, number in content["versions"].items())
    machine = ", ".join(f"{name} {value}" for name, value in content["environment"].items())
    page = [
        "# Comparison with other packages",
        "",
        "Made by `make bench-peers`; how to read it: [README](../README.md#other-packages). Per CPU second: attempted",
        "flips, effective samples of log p, of the slowest site and of a mean E[s_i]; the error of log Z is of one",
        f"chain in one CPU second. Medians over {content['rounds']} interleaved rounds.",
        "",
        versions,
        "",
        machine,
        "",
    ]
    for name, rows in _in_order(content):
        page += [f"## {TITLES[name]}", "", _markdown_row(HEADER), _markdown_row(["---"] * len(HEADER))]
        page += [*map(_markdown_row, lines(rows)), ""]
    page += ["## Left out", ""]
    page += [f"- {name}: {reason}" for name, reason in content["left_out"].items()]
    return "\n".join([*page, ""])


def as_short_markdown(content: Mapping[str, Any]) -> str:
    """Return a mean and log p of every sampler in tables of few columns, and the versions."""
    tables = []
    for titles in SHORT:
        found = {name: {row["label"]: row for row in content["models"].get(name, [])} for name in titles}
        labels = dict.fromkeys(label for rows in found.values() for label in rows)
        packages = list(dict.fromkeys(map(_package, labels)))
        table = [["", *titles.values()], ["---"] * (len(titles) + 1)]
        for label in sorted(labels, key=lambda label: packages.index(_package(label))):
            table.append([label, *(_mean_and_energy(rows[label]) if label in rows else "–" for rows in found.values())])
        tables.append("\n".join(map(_markdown_row, table)))
    versions = ", ".join(f"{package} {number}" for package, number in content["versions"].items())
    return "\n\n".join([*tables, f"Versions: {versions}; Python {content['environment']['Python']}."])


def _package(label: str) -> str:
    return label.split(",")[0]


def _mean_and_energy(row: Row) -> str:
    """Return a cell such as "13M / 244k", or what makes the row unfit for a ranking."""
    if failure := _failure(row):
        return f"*{failure}*"
    mean, energy = (_cell(row, name, _brief).replace(" ", "") for name in ("mean", "energy"))
    return f"{mean} / {energy or '–'}"


def _in_order(content: Mapping[str, Any]) -> list[tuple[str, list[Row]]]:
    return [(name, content["models"][name]) for name in TITLES if name in content["models"]]


def save(content: Mapping[str, Any], directory: Path, docs: Path | None) -> None:
    """Write peers.json and peers.md, and into the documentation short tables and a picture."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "peers.json").write_text(json.dumps(content, indent=1) + "\n")
    (directory / "peers.md").write_text(as_markdown(content))
    if docs is not None:
        draw(content, docs / "images" / "peers.png")
        page = docs / "comparison.md"
        page.write_text(with_tables(page.read_text(), content))


def with_tables(page: str, content: Mapping[str, Any]) -> str:
    """Return a page with new short tables in place of those that it has."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n\n{as_short_markdown(content)}\n\n{END}{tail}"


def load(directory: Path) -> dict[str, Any]:
    """Return what is saved, or an empty comparison."""
    path = directory / "peers.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    return {"environment": environment(), "versions": {}, "left_out": {}, "models": {}} | known


_MARKS = {"mean": ("o", "mean"), "slowest": ("v", "slowest site"), "energy": ("s", "log p")}
_OURS, _THEIRS = "#882255", "#0072b2"


def draw(content: Mapping[str, Any], path: Path) -> None:
    """Draw effective samples per CPU second, one panel for each model."""
    import matplotlib.pyplot as plt

    models = _in_order(content)
    plot, panels = plt.subplots(
        -(-len(models) // 2), 2, figsize=(12.0, 2.3 * -(-len(models) // 2)), layout="constrained"
    )
    for axes in panels.flat[len(models) :]:
        axes.set_axis_off()
    for axes, (name, rows) in zip(panels.flat, models, strict=False):
        ranked = sorted(rows, key=_rank, reverse=True)
        for y, row in enumerate(ranked):
            colour = _OURS if row["label"].startswith("bouncy") else _THEIRS
            for quantity, (marker, _) in _MARKS.items():
                if quantity in row and not _failure(row):
                    filled = colour if quantity == "mean" else "none"
                    axes.plot(row[quantity][0], y, marker, color=colour, markerfacecolor=filled, markersize=6)
            place = {"xy": (0.02, y), "xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            axes.annotate(_failure(row), color="#cc3311", **place)
        axes.set_yticks(range(len(ranked)), [row["label"] for row in ranked], fontsize=8)
        axes.set(xscale="log", title=TITLES[name], ylim=(-0.6, len(ranked) - 0.4))
        axes.title.set_fontsize(10)
        axes.grid(axis="x", color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
    for marker, text in _MARKS.values():
        panels.flat[0].plot(
            [], [], marker, color="#444444", markerfacecolor="#444444" if marker == "o" else "none", label=text
        )
    plot.legend(loc="outside lower center", ncols=3, frameon=False,
                title="effective samples per CPU second")  # fmt: skip
    plot.savefig(path, dpi=110)
    plt.close(plot)
