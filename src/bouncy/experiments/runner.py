"""Measuring a figure: every contender on every model, for the same CPU time."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bouncy.enumeration import exact
from bouncy.experiments.contenders import CONTENDERS, Contender, Measurement, run_contender
from bouncy.experiments.ledger import Ledger, Row, sort_rows
from bouncy.experiments.ours import Array, Moments
from bouncy.experiments.pool import collect, progress_bar, single_threaded_pool
from bouncy.experiments.settings import FIGURES, Settings
from bouncy.targets.mrf import MRF

# CPU seconds that are enough to call everything once.
_SHORTEST = 1e-3


class Task(NamedTuple):
    """One run of one cell: a random model, on which every contender runs."""

    sigma_M: float
    sigma_r: float
    run: int


def measure(
    settings: Settings, directory: Path, seed: int, workers: int | None = None, progress: bool | None = None
) -> list[Row]:
    """Measure the missing runs of a figure and return all of its rows.

    Each run is written to `<directory>/<figure>.csv` as soon as it is finished, and is not repeated when this function
    is called again.

    Parameters
    ----------
    settings : Settings
    directory : Path
        Created if missing.
    seed : int
        All seeds are derived from it. Errors still differ from call to call, since CPU time limits the chains.
    workers : int, optional
        Number of processes; as many as cores by default.
    progress : bool, optional
        Show progress bars; by default on a terminal.

    Raises
    ------
    ValueError
        The directory holds rows of this figure that were measured with other settings or another seed.
    """
    ledger = Ledger(directory, settings, seed)
    rows = ledger.open()
    done = {Task(row.sigma_M, row.sigma_r, row.run) for row in rows}
    missing = [task for task in shuffled_tasks(settings, seed) if task not in done]
    if missing:
        with single_threaded_pool(workers) as pool:
            with progress_bar(f"{settings.figure}, compiling", "kernel", progress) as bar:
                for _ in collect(pool, prepare, [(contender, settings) for contender in CONTENDERS], bar):
                    pass
            with progress_bar(settings.figure, "run", progress) as bar:
                for new in collect(pool, run_task, [(task, settings, seed) for task in missing], bar):
                    ledger.append(new)
                    rows += new
    return sort_rows(rows)


def shuffled_tasks(settings: Settings, seed: int) -> list[Task]:
    """Return all tasks in a fixed random order, so that a machine that slows down favours no cell."""
    tasks = [Task(*cell, run) for cell in settings.cells for run in range(settings.runs)]
    order = np.random.default_rng((seed, FIGURES.index(settings.figure))).permutation(len(tasks))
    return [tasks[k] for k in order]


def prepare(contender: Contender, settings: Settings) -> None:
    """Compile all kernels of a contender into the disk cache, where other processes find them."""
    task = Task(settings.sigma_M[0], settings.sigma_r[0], 0)
    target, seeds = draw_model(task, settings, 0)
    _true_moments(target, settings.pairs)
    run_contender(contender, target, seeds[0], replace(settings, seconds=_SHORTEST))


def run_task(task: Task, settings: Settings, seed: int) -> list[Row]:
    """Run all contenders on the model of a task and return their rows.

    The first contender changes from run to run, so that none always has a cool machine or cold caches.
    """
    target, seeds = draw_model(task, settings, seed)
    truth = _true_moments(target, settings.pairs)
    first = task.run % len(CONTENDERS)
    rows = []
    for k in [*range(first, len(CONTENDERS)), *range(first)]:
        found = run_contender(CONTENDERS[k], target, seeds[k], settings)
        rows += _judge(CONTENDERS[k], found, truth, task, settings, seed)
    return sort_rows(rows)


def draw_model(task: Task, settings: Settings, seed: int) -> tuple[MRF, list[np.random.SeedSequence]]:
    """Return the random model of a task, and a seed for each contender.

    They depend on the seed, the figure, the cell and the run, and not on which other cells are run.
    """
    root = np.random.SeedSequence(
        [seed, FIGURES.index(settings.figure), _bits(task.sigma_M), _bits(task.sigma_r), task.run]
    )
    model_seed, *seeds = root.spawn(1 + len(CONTENDERS))
    return MRF.random(settings.d, task.sigma_M, task.sigma_r, seed=model_seed), seeds


def _bits(value: float) -> int:
    """Return the bytes of a float as an integer."""
    return int.from_bytes(struct.pack("<d", value), "little")


def _true_moments(target: MRF, pairs: bool) -> Moments:
    """Return the exact moments: zero by symmetry where there is no field, by enumeration where pairs count too."""
    if not pairs and not target.r.any():
        return np.zeros(target.d), None
    answer = exact(target)
    return answer.mean, answer.pair_mean if pairs else None


def _judge(
    contender: Contender, found: Measurement, truth: Moments, task: Task, settings: Settings, seed: int
) -> list[Row]:
    """Return a row for each estimator of a contender."""
    rows = []
    for name in contender.estimators:
        mse_mean, mse_pairs = squared_errors(found.moments[name], truth)
        rows.append(
            Row(
                figure=settings.figure,
                edition=contender.edition,
                sampler=contender.sampler,
                estimator=name,
                d=settings.d,
                sigma_M=task.sigma_M,
                sigma_r=task.sigma_r,
                run=task.run,
                seed=seed,
                cpu_seconds=found.cpu_seconds,
                hits=found.hits,
                flips=found.flips,
                mse_mean=mse_mean,
                mse_pairs=mse_pairs,
                mse=mse_mean + mse_pairs if settings.pairs else mse_mean,
            )
        )
    return rows


def squared_errors(found: Moments, truth: Moments) -> tuple[float, float]:
    """Return the mean over sites of the squared error of E[s_i], and that over pairs i < j of E[s_i s_j], or NaN."""
    return _mean_square(found[0], truth[0]), _pair_square(found[1], truth[1])


def _mean_square(found: Array, truth: Array) -> float:
    return float(np.square(found - truth).mean())


def _pair_square(found: Array | None, truth: Array | None) -> float:
    if found is None or truth is None:
        return float("nan")
    above = np.triu_indices(len(truth), 1)
    return _mean_square(found[above], truth[above])
