"""Measurements without worker processes and samplers, for tests of the code around them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager

import numpy as np

from bouncy.experiments import runner
from bouncy.experiments.contenders import Measurement


class InProcess(Executor):
    """Runs every job at submission, in this process."""

    def submit(self, function, /, *arguments, **options):
        job = Future()
        try:
            job.set_result(function(*arguments, **options))
        except Exception as error:
            job.set_exception(error)
        return job


@contextmanager
def in_process_pool(workers: int | None) -> Iterator[Executor]:
    """Replace `single_threaded_pool` without starting processes."""
    yield InProcess()


def made_up_measurement(contender, target, seed, settings) -> Measurement:
    """Return moments that are wrong by an amount that differs from run to run, in the requested CPU time."""
    noise = np.random.default_rng(seed)
    d = target.d
    moments = {
        name: (noise.normal(0.0, 0.1, d), noise.normal(0.0, 0.1, (d, d)) if settings.pairs else None)
        for name in contender.estimators
    }
    return Measurement(moments, settings.seconds, 1000, 500)


def make_up_measurements(monkeypatch) -> None:
    """Replace the measurements of `measure` by made-up ones in this process."""
    monkeypatch.setattr(runner, "single_threaded_pool", in_process_pool)
    monkeypatch.setattr(runner, "run_contender", made_up_measurement)
