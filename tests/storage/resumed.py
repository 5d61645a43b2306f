"""Runs that are interrupted at chosen moments and resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import bouncy
from bouncy.run import pool, progress
from bouncy.run.endings import InterruptedWarning

Moment = Callable[[Any], bool]

# The first half of the warm-up, the second, and sampling.
FIRST: Moment = lambda seen: seen.stage == "warm-up" and 0.1 < seen.done < 0.5  # noqa: E731
SECOND: Moment = lambda seen: seen.stage == "warm-up" and 0.6 < seen.done < 1.0  # noqa: E731
SAMPLING: Moment = lambda seen: seen.stage == "sampling" and min(c.draws for c in seen.chains) > 10  # noqa: E731
STAGES = {FIRST: 0, SECOND: 1, SAMPLING: 2}


class Stop:
    """A function for `progress=` that sends the signal of a Ctrl-C at a moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment, self._done = moment, False

    def __call__(self, seen: Any) -> None:
        if not self._done and self._moment(seen):
            self._done = True
            signal.raise_signal(signal.SIGINT)


@contextmanager
def slow_motion():
    """Have slices of one sweep, each of them reported, so that there are many moments to interrupt at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool.Pool, "_growth", 1)
        patch.setattr(progress, "_INTERVAL", 0.0)
        yield


def interrupted(go: Callable[..., Any], moment: Moment) -> Any:
    """Return the run that `go(progress=...)` returns when it is interrupted at a moment."""
    with slow_motion(), pytest.warns(InterruptedWarning):
        run = go(progress=Stop(moment))
    assert run.stopped_by == "interrupt"
    assert not run.completed
    return run


def broken(folder: Path, target: Any, sampler: Any, moments: tuple[Moment, ...], **options: Any) -> Any:
    """Return a run that was interrupted and resumed at some moments, in turn by one thread and by three."""
    resumed = {name: options[name] for name in ("se_of",) if callable(options.get(name))}
    for k, moment in enumerate(moments):

        def go(k=k, **seen: Any) -> Any:
            if k == 0:
                return bouncy.sample(target, sampler, checkpoint=folder, threads=1, **options, **seen)
            return bouncy.resume(folder, target, threads=3 if k % 2 else 1, **resumed, **seen)

        run = interrupted(go, moment)
        assert run._data.stage == STAGES.get(moment, run._data.stage)
    return bouncy.resume(folder, target, threads=3, progress=False, **resumed)
