"""What progress, checkpoints and slices cost a long run, and what a second core gains."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from problems import dense, new_worker
from report import Figure, Task
from timing import interleaved, median

import bouncy
from bouncy.targets.contract import Target

TITLE = "Long runs: what progress and checkpoints cost, and what a second core gains"
NOTE = (
    "A run that keeps means, shows progress and writes two checkpoints, against its bare loop in one "
    "call. Elapsed time is what a user waits for, CPU time what it costs; both need a quiet machine."
)
HEADER = "figure | model | of"

_MODELS: dict[str, Callable[[], Target]] = {
    "dense, d = 10": partial(dense, 10),
    "dense, d = 100": partial(dense, 100),
    "dense, d = 1000": partial(dense, 1000),
    "torus 64x64": partial(bouncy.MRF.ising, (64, 64), coupling=0.3),
}
_CHAINS = 4


def tasks(quick: bool) -> list[Task]:
    cost = [Task(f"cost, {label}", partial(_cost, label, quick)) for label in _MODELS]
    gain = [Task(f"cores, {label}", partial(_gain, label, quick)) for label in ("dense, d = 100", "torus 64x64")]
    return [*cost, *gain]


def _cost(label: str, quick: bool) -> list[Figure]:
    """Compare one chain of `bouncy.sample`, with everything on, with the same sweeps in one call of its loop."""
    seconds, rounds = (1.0, 5) if quick else (5.0, 15)
    target = _MODELS[label]()
    worker = new_worker(target, "bps-gaussian")
    sweeps = _sweeps_in(worker.advance, seconds)
    cpu: dict[str, list[float]] = {"bare": [], "run": []}
    with tempfile.TemporaryDirectory() as folder:
        resources = {"threads": 1, "progress": lambda progress: None}
        runs = [
            bouncy.sample(
                target, chains=1, draws=sweeps, warmup=100, keep="means", pairs="none", seed=0,
                checkpoint=Path(folder) / "run", checkpoint_every=seconds / 2, **resources,
            )
        ]  # fmt: skip
        jobs = {
            "bare": lambda: _timed(lambda: worker.advance(sweeps), cpu["bare"]),
            "run": lambda: _timed(lambda: runs.append(runs.pop().extend(sweeps, **resources)), cpu["run"]),
        }
        elapsed = interleaved(jobs, rounds)
    spent = np.array(cpu["run"][1:]) / np.array(cpu["bare"][1:])
    ratios = {"elapsed": elapsed["run"] / elapsed["bare"], "CPU": spent}
    return [
        Figure(f"cost of a run | {label} | {name} time", median(ratio), 1.03, details={"model": label, "of": name})
        for name, ratio in ratios.items()
    ]


def _gain(label: str, quick: bool) -> list[Figure]:
    """Compare four chains on two threads with four chains on one."""
    seconds, rounds = (0.25, 5) if quick else (1.0, 9)
    target = _MODELS[label]()
    sweeps = _sweeps_in(new_worker(target, "bps-gaussian").advance, seconds)
    run = partial(
        bouncy.sample,
        target,
        chains=_CHAINS,
        draws=sweeps,
        warmup=0,
        keep="means",
        pairs="none",
        seed=0,
        progress=False,
    )
    jobs = {str(n): partial(_timed, partial(run, threads=n), []) for n in (1, 2)}
    elapsed = interleaved(jobs, rounds)
    what = f"gain of two threads | {label} | elapsed time, {_CHAINS} chains"
    goal = 1.8 if (os.cpu_count() or 1) >= 2 else None
    return [Figure(what, median(elapsed["1"] / elapsed["2"]), goal, "at least", details={"model": label})]


def _sweeps_in(advance: Callable[[int], object], seconds: float) -> int:
    """Return how many sweeps take about so many seconds."""
    sweeps = 1
    while True:
        begin = time.perf_counter()
        advance(sweeps)
        spent = time.perf_counter() - begin
        if spent > seconds / 4:
            return round(sweeps * seconds / spent)
        sweeps *= 2


def _timed(work: Callable[[], object], cpu: list[float]) -> float:
    """Return the elapsed seconds of a piece of work, and note those of CPU."""
    begin, spent = time.perf_counter(), time.process_time()
    work()
    cpu.append(time.process_time() - spent)
    return time.perf_counter() - begin
