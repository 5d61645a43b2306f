"""Plant bugs one by one in a copy of the sources and check that a test turns red for each.

    python tests/mutants/run.py                  # all of them
    python tests/mutants/run.py --only 3 7       # 3, 7a and 7b
    python tests/mutants/run.py --jobs 4

A bug is caught when an assertion of one of its tests fails. An error of any other kind, such as code that no longer
compiles, catches nothing. The untouched sources run through the same tests first and must pass them. The exit status
is 0 only if that is so and every bug was caught.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from bugs import BUGS, Bug
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bouncy"
TIMEOUT = 900  # seconds for the tests of one bug; a bug that makes the sampler hang is not caught
CONTROL = "none"

CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"
CONTROL_STATUS = {CAUGHT: "FAILED", SURVIVED: "passed", BROKEN: BROKEN}


@dataclass(frozen=True)
class Verdict:
    """What the tests said about a bug: which of them failed, with which normal score, or what went wrong."""

    bug: Bug
    status: str
    test: str
    z: str
    seconds: float


# --- planting ---------------------------------------------------------------------------------------------------------


def plant(bug: Bug, package: Path) -> None:
    """Make the edits of a bug in a copy of the package."""
    for edit in bug.edits:
        file = package / edit.file
        source = file.read_text(encoding="utf-8")
        found = source.count(edit.old)
        if found != 1:
            raise SystemExit(
                f"Bug {bug.number} ({bug.description}) is out of date: in src/bouncy/{edit.file} its text occurs "
                f"{found} times, expected exactly once. Adapt tests/mutants/bugs to the sources. The text is:\n"
                f"{edit.old}"
            )
        file.write_text(source.replace(edit.old, edit.new), encoding="utf-8")


def copies(bugs: Sequence[Bug], directory: Path) -> dict[str, Path]:
    """Return a directory with a package for each bug, all from the same moment of the sources."""
    pristine = directory / "pristine"
    shutil.copytree(PACKAGE, pristine, ignore=shutil.ignore_patterns("__pycache__"))
    trees = {}
    for bug in bugs:
        trees[bug.number] = directory / bug.number
        package = trees[bug.number] / "bouncy"
        shutil.copytree(pristine, package)
        plant(bug, package)
    return trees


# --- testing ----------------------------------------------------------------------------------------------------------


def environment(tree: Path) -> dict[str, str]:
    """Return an environment in which `bouncy` is the package in a directory, with a cache of compiled code there."""
    cache = tree / "cache"
    cache.mkdir(mode=0o700)
    return {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}


def require_copy(tree: Path, variables: dict[str, str]) -> None:
    """Raise unless the tests will import the copy: an installed package must not take its place."""
    command = [sys.executable, "-c", "import bouncy; print(bouncy.__file__)"]
    answer = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    imported = Path(answer.stdout.strip())
    if not imported.is_relative_to(tree):
        raise RuntimeError(f"the tests would import {imported}; expected the copy in {tree}")


def run_tests(bug: Bug, tree: Path) -> Verdict:
    """Run the tests of a bug on its copy of the package, until the first failure."""
    start = time.monotonic()
    report = tree / "report.xml"
    variables = environment(tree)
    require_copy(tree, variables)
    options = ("-x", "-q", "-m", "", "-p", "no:cacheprovider")  # long tests may be among them
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *bug.tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return Verdict(bug, BROKEN, f"no answer within {TIMEOUT} s", "", time.monotonic() - start)
    status, test, z = read_report(report, len(bug.tests)) if report.exists() else (BROKEN, last_line(done), "")
    return Verdict(bug, status, test, z, time.monotonic() - start)


def read_report(report: Path, expected: int) -> tuple[str, str, str]:
    """Return the status, the test that decided it, and the normal score, from pytest's XML."""
    cases = list(ET.parse(report).iter("testcase"))
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        failure = case.find("failure")
        if failure is not None and is_assertion(failure.get("message", "")):
            return CAUGHT, name, score(failure.get("message", ""))
        for trouble in (failure, case.find("error"), case.find("skipped")):
            if trouble is not None:
                return BROKEN, f"{name}: {' '.join(trouble.get('message', '').split())[:100]}", ""
    if len(cases) < expected:
        return BROKEN, f"{len(cases)} of {expected} tests ran: check their names", ""
    return SURVIVED, f"passed all {len(cases)} tests", ""


def is_assertion(message: str) -> bool:
    """Say whether a failure is a failed assertion; a test without enough power is another kind of failure."""
    return message.startswith(("AssertionError", "assert ", "Failed: DID NOT RAISE"))


def score(message: str) -> str:
    """Return z from the message of a statistical outcome; other assertions need no statistics."""
    found = re.search(r"\bz = (-?(?:[\d.]+|inf|nan))", message)
    return found[1] if found else "deterministic"


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"pytest ended with status {done.returncode}"


def control(bugs: Sequence[Bug]) -> Bug:
    """Return the bug that changes nothing, with the tests of all others."""
    tests = dict.fromkeys(test for bug in bugs for test in bug.tests)
    return Bug(CONTROL, "control: sources as they are", (), tuple(tests))


def run_all(bugs: Sequence[Bug], jobs: int) -> list[Verdict]:
    """Return the verdicts in the order of the bugs."""
    with tempfile.TemporaryDirectory(prefix="bouncy-mutants-") as directory:
        trees = copies(bugs, Path(directory).resolve())
        with ThreadPoolExecutor(jobs) as pool, tqdm(total=len(bugs), unit="bug", file=sys.stderr) as bar:
            futures = [pool.submit(run_tests, bug, trees[bug.number]) for bug in bugs]
            follow(futures, bar)
    return [future.result() for future in futures]


def follow(futures: Sequence[Future[Verdict]], bar: tqdm[None]) -> None:
    """Show verdicts as they come; after an exception or Ctrl-C do not start what is waiting."""
    try:
        for future in as_completed(futures):
            verdict = future.result()
            bar.set_postfix_str(f"{verdict.bug.number}: {verdict.status}")
            bar.update()
    except BaseException:
        for future in futures:
            future.cancel()
        raise


# --- reporting --------------------------------------------------------------------------------------------------------


def is_good(verdict: Verdict) -> bool:
    return verdict.status == (SURVIVED if verdict.bug.number == CONTROL else CAUGHT)


def table(verdicts: Sequence[Verdict]) -> str:
    """Return one line per bug: what it is, what became of it, the test and score that say so, and the time."""
    rows = [("bug", "what", "", "test", "z", "s")]
    for v in verdicts:
        status = CONTROL_STATUS[v.status] if v.bug.number == CONTROL else v.status
        rows.append((v.bug.number, v.bug.description, status, v.test, v.z, f"{v.seconds:.0f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def chosen(only: Sequence[str]) -> list[Bug]:
    """Return the bugs with these numbers, all of them for none; a number without a letter stands for each letter."""
    known = {bug.number for bug in BUGS} | {bug.number.rstrip("ab") for bug in BUGS}
    unknown = sorted(set(only) - known)
    if unknown:
        raise SystemExit(f"There is no bug {', '.join(unknown)}; expected some of: {', '.join(b.number for b in BUGS)}")
    return [bug for bug in BUGS if not only or {bug.number, bug.number.rstrip("ab")} & set(only)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant known bugs one by one; a test must turn red for each.")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--only", nargs="+", default=[], metavar="BUG", help="numbers of bugs, such as 3 or 7a")
    arguments = parser.parse_args()
    bugs = chosen(arguments.only)
    start = time.monotonic()
    verdicts = run_all([control(bugs), *bugs], arguments.jobs)
    print(table(verdicts))
    good = all(map(is_good, verdicts))
    minutes = (time.monotonic() - start) / 60
    caught = sum(v.status == CAUGHT for v in verdicts[1:])
    print(f"\n{caught} of {len(bugs)} bugs caught in {minutes:.1f} minutes.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
