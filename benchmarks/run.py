"""Measure, print and save the table of speed ratios: `make bench`, or `python benchmarks/run.py --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import augmentation
import chains
import clusters
import density
import efficiency
import flights
import growth
import lanes
import long_runs
import own
import per_flip
import published
import refreshment
import refreshment_paths
import report
import selection
import spike_slab
import startup
import tempering
import truncated
import walks
from tqdm import tqdm

QUESTIONS = {
    "per-flip": per_flip,
    "lanes": lanes,
    "published": published,
    "growth": growth,
    "own": own,
    "efficiency": efficiency,
    "tempering": tempering,
    "startup": startup,
    "refreshment": refreshment,
    "flights": flights,
    "truncated": truncated,
    "spike-slab": spike_slab,
    "selection": selection,
    "augmentation": augmentation,
    "refreshment-paths": refreshment_paths,
    "long-runs": long_runs,
    "chains": chains,
    "density": density,
    "walks": walks,
    "clusters": clusters,
}
RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str] | None = None) -> None:
    """Answer the questions asked for, one after the other."""
    options = _parse(arguments)
    names = options.only or list(QUESTIONS)
    work = {name: QUESTIONS[name].tasks(options.quick) for name in names}
    sections: list[report.Section] = []
    kept = _kept(options.out, names) if options.update else []
    with tqdm(total=sum(map(len, work.values())), unit="task", file=sys.stderr, dynamic_ncols=True) as bar:
        for name, tasks in work.items():
            sections.append(_answer(name, QUESTIONS[name], tasks, bar))
            tqdm.write(report.as_text(sections[-1]), file=sys.stdout)
            if options.out is not None:  # after each question: minutes of work should survive an error in the next
                _save(_in_order([*kept, *sections]), options.out)
    print(report.verdict(sections))
    if options.out is not None:
        print(f"Saved to {options.out}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough figures in two minutes; see the README")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=QUESTIONS, help=f"of: {', '.join(QUESTIONS)}")
    parser.add_argument(
        "--update", action="store_true", help="keep what is saved of other questions; saves to benchmarks/results"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where to save; by default benchmarks/results for a full run, nowhere with --quick or --only",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.out is None and (options.update or not (options.quick or options.only)):
        options.out = RESULTS
    return options


def _kept(directory: Path, answered: list[str]) -> list[report.Section]:
    """Return what is saved of the questions that are not answered anew."""
    figures = report.load(directory)
    return [
        report.Section(name, question.TITLE, question.NOTE, question.HEADER, figures[name])
        for name, question in QUESTIONS.items()
        if name in figures and name not in answered
    ]


def _in_order(sections: list[report.Section]) -> list[report.Section]:
    return sorted(sections, key=lambda section: list(QUESTIONS).index(section.name))


def _answer(name: str, question: ModuleType, tasks: list[report.Task], bar: Any) -> report.Section:
    figures = []
    for task in tasks:
        bar.set_description(f"{name}: {task.label}")
        figures += task.run()
        bar.update()
    return report.Section(name, question.TITLE, question.NOTE, question.HEADER, figures)


def _save(sections: list[report.Section], directory: Path) -> None:
    report.save(sections, directory)
    for section in sections:
        if hasattr(QUESTIONS[section.name], "draw"):
            QUESTIONS[section.name].draw(section.figures, directory)


if __name__ == "__main__":
    main()
