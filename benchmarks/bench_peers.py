"""Compare with other packages on the same models: `make bench-peers`, or `python benchmarks/bench_peers.py --help`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"  # before NumPy is imported, here and in the processes of the others

from peers import table  # noqa: E402
from peers.estimates import blocks, log_z_error, per_chain, rates, verdict  # noqa: E402
from peers.models import MODELS, Model  # noqa: E402
from peers.protocol import ROOT, Sampler, interpreter, missing  # noqa: E402
from peers.samplers import ENTRIES, LEFT_OUT, Entry, running  # noqa: E402
from report import environment  # noqa: E402
from tqdm import tqdm  # noqa: E402

RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
# Draws of the first call, which compiles.
_FIRST = 2
_ROUNDS, _SECONDS = 7, 0.4
_LONGER = {"selection": 5.0}  # times as long
_QUICK_ROUNDS, _QUICK_SECONDS = 3, 0.05
_QUICK = ["dense-10", "ring", "hot"]


def main(arguments: list[str] | None = None) -> None:
    """Compare on the models asked for, one after the other."""
    options = _parse(arguments)
    skipped = {entry.package: reason for entry in ENTRIES if (reason := missing(entry.environment))}
    for package, reason in skipped.items():
        print(f"skipped: {package}, {reason}", file=sys.stderr)
    entries = [entry for entry in ENTRIES if entry.package not in skipped]
    content = table.load(options.out) if options.out else {"models": {}}
    names = options.only or (_QUICK if options.quick else list(MODELS))
    for name in tqdm(names, unit="model", file=sys.stderr, dynamic_ncols=True):
        rows, failed = compare(name, MODELS[name](options.quick), entries, options.quick)
        skipped |= failed
        content["models"][name] = rows
        tqdm.write(table.as_text(name, rows), file=sys.stdout)
        if options.out is not None:  # after each model: minutes of work should survive an error in the next
            content |= {"environment": environment(), "versions": _versions(entries), "rounds": _ROUNDS}
            content["left_out"] = skipped | LEFT_OUT
            table.save(content, options.out, DOCS if options.out == RESULTS else None)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/bench_peers.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough figures in about two minutes; saves nothing")
    parser.add_argument("--only", nargs="+", metavar="MODEL", choices=MODELS, help=f"of: {', '.join(MODELS)}")
    parser.add_argument("--out", type=Path, metavar="DIR", help="by default benchmarks/results, nowhere with --quick")
    options = parser.parse_args(arguments)
    if options.out is None and not options.quick:
        options.out = RESULTS
    return options


def compare(name: str, model: Model, entries: list[Entry], quick: bool) -> tuple[list[table.Row], dict[str, str]]:
    """Return the rows of a model, from rounds in which all samplers run in turn, and what failed."""
    rounds, seconds = (_QUICK_ROUNDS, _QUICK_SECONDS) if quick else (_ROUNDS, _SECONDS)
    seconds *= _LONGER.get(name, 1.0)
    samplers: dict[str, tuple[Sampler, int]] = {}
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        for entry in entries:
            if name not in entry.models:
                continue
            try:
                sampler = stack.enter_context(running(entry, name, model))
                samplers[entry.label] = sampler, lasting(sampler, seconds)
            except (RuntimeError, BrokenPipeError) as error:
                failed[f"{entry.label} on {name}"] = str(error)
        answers: dict[str, list[dict[str, Any]]] = {label: [] for label in samplers}
        labels = list(samplers)
        for k in range(rounds):
            for label in labels[k % len(labels) :] + labels[: k % len(labels)]:
                sampler, draws = samplers[label]
                answers[label].append(sampler(draws=draws))
    return [_row(label, answers[label], model) for label in labels], failed


def lasting(sampler: Sampler, seconds: float) -> int:
    """Return how many draws take so long. What is tried before is the warm-up of a chain; the first call compiles."""
    draws = _FIRST
    for _ in range(4):
        _, *took = (sampler(draws=draws)["seconds"] for _ in range(3))
        if min(took) > 0.6 * seconds:
            break
        draws = round(draws * min(seconds / min(took), 200.0))
    return draws


def _row(label: str, answers: list[dict[str, Any]], model: Model) -> table.Row:
    found = blocks(answers)
    known = {name: list(value) for name, value in rates(found, model.truth).items()}
    known["per_chain"] = min(per_chain(found, model.truth), 1e9)
    return {"label": label, **known, "log_z": log_z_error(found, model.truth), "wrong": verdict(found, model.truth)}


def _versions(entries: list[Entry]) -> dict[str, str]:
    """Return the versions of the packages, each asked in its own environment."""
    asked = {entry.package: interpreter(entry.environment) for entry in entries}
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    return {
        package: subprocess.run(
            [python, "-c", code, package], check=True, capture_output=True, text=True
        ).stdout.strip()
        for package, python in asked.items()
    }


if __name__ == "__main__":
    main()
