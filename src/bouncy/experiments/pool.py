"""Worker processes with one thread each, so that the CPU time of a process is that of its sampler."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

from tqdm import tqdm

from bouncy.run.pool import available_cores

Result = TypeVar("Result")

# BLAS libraries read one of these when they are loaded.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip


@contextmanager
def single_threaded_pool(workers: int | None) -> Iterator[Executor]:
    """Start a pool of processes, as many as cores by default. An exception, or Ctrl-C, ends them at once."""
    others = set(active_children())
    with _one_thread_each():
        # Never forked: numba must not compile in a forked process.
        pool = ProcessPoolExecutor(workers or available_cores(), get_context("spawn"), _set_up_worker)
        try:
            yield pool
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def collect(
    pool: Executor, function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], bar: tqdm
) -> Iterator[Result]:
    """Call a function in the workers with each tuple of arguments, and yield the results as they finish."""
    jobs = [pool.submit(function, *arguments) for arguments in calls]
    bar.reset(total=len(jobs))
    for job in as_completed(jobs):
        yield job.result()
        bar.update()


def progress_bar(label: str, unit: str, progress: bool | None) -> tqdm:
    """Return a progress bar; None shows it on a terminal only."""
    show = sys.stderr.isatty() if progress is None else progress
    return tqdm(desc=label, unit=unit, disable=not show, leave=False)


def _set_up_worker() -> None:
    """Ignore Ctrl-C, which the parent handles, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent ends: a worker of a killed parent would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit linear algebra to one thread in processes that are started in this block."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
