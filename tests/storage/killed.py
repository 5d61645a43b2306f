"""A process whose children sample and are killed, at random moments and at every step of writing a checkpoint.

    python tests/storage/killed.py FOLDER SEED KILLS CALLS

Everything is compiled before the first child is forked, so that a child begins to sample within milliseconds. Ends with
status 0 if runs that were killed and resumed have the same bytes as those that were not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bouncy
from bouncy.run import pool
from bouncy.storage.archive import read_archive
from storage.checkpoints import STATES
from storage.comparing import everything

EVERY = 0.03
# Slices that are short beside it: checkpoints are written between them.
pool._SLICE, pool._ROUND = 0.005, 0.01
TARGET = bouncy.MRF.random(100, sigma_M=0.3, sigma_r=0.1, seed=1)
OPTIONS: dict[str, Any] = {"chains": 2, "warmup": 3000, "pairs": "none", "seed": 7, "threads": 1, "progress": False}
# Runs of about a second.
KINDS: dict[str, dict[str, Any]] = {
    "draws": {"keep": "draws", "draws": 4000, "thin": 10},
    "means": {"keep": "means", "draws": 40_000},
    "path": {"keep": "path", "draws": 4000, "thin": 10},
}


def results(run: Any) -> bytes:
    return repr(sorted((name, zlib.crc32(value)) for name, value in everything(run).items())).encode()


def whole(kind: str) -> bytes:
    return results(bouncy.sample(TARGET, **OPTIONS, **KINDS[kind]))


def go_on(folder: Path, kind: str, **changed: Any) -> bytes:
    """Begin a run or resume it, whichever is possible, and return its results."""
    if any((folder / name).exists() for name in STATES):
        return results(bouncy.resume(folder, TARGET, checkpoint_every=EVERY, threads=1, progress=False))
    return results(
        bouncy.sample(TARGET, checkpoint=folder, checkpoint_every=EVERY, **OPTIONS, **{**KINDS[kind], **changed})
    )


def child(work: Callable[[], bytes]) -> tuple[int, int]:
    """Have a child do some work, and return its number and where to read what it found."""
    reading, writing = os.pipe()
    number = os.fork()
    if number:
        os.close(writing)
        return number, reading
    try:
        warnings.simplefilter("error")  # nothing may be damaged
        os.write(writing, work())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def finished(number: int, reading: int) -> bytes | None:
    """Return what a child found; None if it was killed."""
    answer = os.read(reading, 1 << 16)
    os.close(reading)
    _, status = os.waitpid(number, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a child ended by signal {os.WTERMSIG(status)}"
        return None
    assert status == 0, "a child failed"
    return answer


def level(folder: Path) -> int:
    """Return the sweeps of the last generation on disk, which is whole; -1 if there is none."""
    found = [read_archive(folder / name) for name in STATES if (folder / name).exists()]
    newest = max(found, key=lambda item: item[0]["generation"], default=None)
    return -1 if newest is None else int(newest[0]["sweeps"])


def killed_at_random(folder: Path, kills: int, rng: np.random.Generator) -> None:
    """Kill children at random moments; each run of a kind has to come to its end between them."""
    kinds = list(KINDS)
    truth = {kind: finished(*child(lambda kind=kind: whole(kind))) for kind in kinds}
    done, runs = 0, 0
    while done < kills:
        kind, place, before = kinds[runs % len(kinds)], folder / str(runs), -1
        answer = None
        while answer is None:
            number, reading = child(lambda place=place, kind=kind: go_on(place, kind))
            if done < kills:
                time.sleep(rng.uniform(0.0, 0.35))
                os.kill(number, signal.SIGKILL)
            answer = finished(number, reading)
            done += answer is None
            now = level(place)
            assert now >= before, f"after kill {done} the checkpoint has gone back from sweep {before} to {now}"
            before = now
        assert answer == truth[kind], f"a run of {kind} has other results after it was killed"
        left = {file.name for file in place.iterdir()}
        assert not any(name.endswith(".part") for name in left), f"left behind: {left}"
        runs += 1
    print(f"{done} kills, {runs} runs")


def killed_at_calls(folder: Path, most: int) -> None:
    """Kill a child at its first call, its second, ... of what changes files: all steps of the first checkpoints."""
    short = {"draws": 60, "thin": 1}
    truth = finished(*child(lambda: results(bouncy.sample(TARGET, **OPTIONS, **{**KINDS["draws"], **short}))))
    for call in range(most):
        place = folder / f"call-{call}"
        finished(*child(lambda call=call, place=place: _killed_at(call, place, short)))
        assert finished(*child(lambda place=place: go_on(place, "draws", **short))) == truth, f"killed at call {call}"


def _killed_at(call: int, place: Path, short: dict[str, Any]) -> bytes:
    left = [call]

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return called

    for name in ("fsync", "replace", "unlink", "open", "mkdir"):
        setattr(os, name, deadly(getattr(os, name)))
    return go_on(place, "draws", **short)


def written_again_and_again(folder: Path) -> None:
    """Watch a child: there must be a new generation after a few intervals, whatever the load of the machine."""
    number, reading = child(lambda: go_on(folder, "draws", draws=10**8, thin=100))
    deadline, levels = time.monotonic() + 20.0, set()
    while len(levels) < 6 and time.monotonic() < deadline:
        levels.add(level(folder))
        time.sleep(0.01)
    os.kill(number, signal.SIGKILL)
    finished(number, reading)
    assert len(levels) == 6, f"within 20 s there were {len(levels)} generations, one every {EVERY} s was asked for"


def main() -> None:
    folder, (seed, kills, calls) = Path(sys.argv[1]), map(int, sys.argv[2:])
    for kind in KINDS:
        results(bouncy.sample(TARGET, **{**OPTIONS, "warmup": 0}, **{**KINDS[kind], "draws": 20}))
    assert threading.active_count() == 1, "a child that is forked from several threads may hang"
    killed_at_calls(folder, calls)
    written_again_and_again(folder / "long")
    killed_at_random(folder, kills, np.random.default_rng(seed))


if __name__ == "__main__":
    main()
