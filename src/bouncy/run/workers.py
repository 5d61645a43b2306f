"""Running several chains at once, in threads: the kernels release the GIL."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

from tqdm.auto import tqdm

from bouncy.run.contract import AnyChain
from bouncy.targets.contract import TargetError

# Seconds that a kernel may run before it returns to Python, which looks whether to stop.
_SLICE = 0.1


def run_chains(
    chains: Sequence[AnyChain], sweeps: int, threads: int | None, progress: bool | None, label: str
) -> list[TargetError]:
    """Advance every chain by the same number of sweeps, and return what some of them failed with.

    A chain whose target fails stops, and the others go on. Any other exception in one chain, or Ctrl-C, stops all of
    them within about a tenth of a second and is raised.
    """
    chains[0].compile()
    stop = threading.Event()
    begin = sum(chain.sweeps for chain in chains)
    goal = [chain.sweeps + sweeps for chain in chains]
    workers = min(len(chains), threads or available_cores())
    with ThreadPoolExecutor(workers) as pool, _bar(len(chains) * sweeps, progress, label) as bar:
        jobs = [pool.submit(_run_to, chain, end, stop) for chain, end in zip(chains, goal, strict=True)]
        try:
            _watch(jobs, chains, bar, begin)
        except BaseException:
            for chain in chains:
                chain.stop()
            raise
        finally:
            stop.set()
    return [error for job in jobs if (error := job.result()) is not None]


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_to(chain: AnyChain, end: int, stop: threading.Event) -> TargetError | None:
    """Advance a chain in slices that last about as long as they should; return what its target failed with."""
    slice_sweeps = 1
    while chain.sweeps < end and not stop.is_set():
        before = time.perf_counter()
        try:
            chain.advance(min(slice_sweeps, end - chain.sweeps))
        except TargetError as error:
            return error
        if time.perf_counter() - before < _SLICE / 2:
            slice_sweeps *= 2
        elif time.perf_counter() - before > 2 * _SLICE:
            slice_sweeps = max(1, slice_sweeps // 2)
    return None


def _watch(jobs: Sequence[Future[Any]], chains: Sequence[AnyChain], bar: tqdm, begin: int) -> None:
    pending = set(jobs)
    while pending:
        done, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
        bar.update(sum(chain.sweeps for chain in chains) - begin - bar.n)
        if any(job.exception() for job in done):
            return


def _bar(total: int, progress: bool | None, label: str) -> tqdm:
    show = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=total, desc=label, unit="sweep", unit_scale=True, disable=not show, leave=False)
