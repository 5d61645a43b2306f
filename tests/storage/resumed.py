"""Runs that are interrupted at chosen moments and resumed, and all that two runs can be compared by."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bouncy
from bouncy.results.run import InterruptedWarning
from bouncy.run import crew, progress

Moment = Callable[[Any], bool]

# The first half of the warm-up, the second, and sampling.
FIRST: Moment = lambda seen: seen.stage == "warm-up" and 0.1 < seen.done < 0.5  # noqa: E731
SECOND: Moment = lambda seen: seen.stage == "warm-up" and 0.6 < seen.done < 1.0  # noqa: E731
SAMPLING: Moment = lambda seen: seen.stage == "sampling" and min(c.draws for c in seen.chains) > 10  # noqa: E731
STAGES = {FIRST: 0, SECOND: 1, SAMPLING: 2}


class Stop:
    """A function for `progress=` that interrupts the run at a moment: by an exception, or by a real signal."""

    def __init__(self, moment: Moment, by_signal: bool = False) -> None:
        self._moment, self._by_signal, self._done = moment, by_signal, False

    def __call__(self, seen: Any) -> None:
        if self._done or not self._moment(seen):
            return
        self._done = True
        if self._by_signal:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            raise KeyboardInterrupt


@contextmanager
def slow_motion():
    """Have slices of one sweep, each of them reported, so that there are many moments to interrupt at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crew.Crew, "_growth", 1)
        patch.setattr(progress, "_INTERVAL", 0.0)
        yield


def interrupted(go: Callable[..., Any], moment: Moment, by_signal: bool = False) -> Any:
    """Return the run that `go(progress=...)` returns when it is interrupted at a moment."""
    with slow_motion(), pytest.warns(InterruptedWarning):
        run = go(progress=Stop(moment, by_signal))
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
        assert run._growth.stage == STAGES.get(moment, run._growth.stage)
    return bouncy.resume(folder, target, threads=3, progress=False, **resumed)


def everything(run: Any) -> dict[str, bytes]:
    """Return the bytes of all results of a run, by name."""
    names = ["draws", "log_prob", "magnetisation", "flips_per_site", "start", "flips", "trace_spacing", "warmup"]
    names += [f"{name}{end}" for name in run._estimates for end in ("", "_se")]
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = getattr(run, name)
        except AttributeError:  # not of this kind of run, or not recorded
            continue
    found |= {f"parameter {name}": value for name, value in run.parameters.items()}
    found |= {name: run.diagnostics[name] for name in ("hits", "flips", "bounces", "refreshments")}
    return {name: _bytes(value) for name, value in found.items()} | {"stopped by": run.stopped_by.encode()}


def _bytes(value: Any) -> bytes:
    if isinstance(value, tuple):
        return b"".join(map(_bytes, value))
    if hasattr(value, "toarray"):
        value = value.toarray()
    return np.ascontiguousarray(value).tobytes()


def different(one: Any, other: Any) -> list[str]:
    """Return what two runs differ in; they have the same results."""
    left, right = everything(one), everything(other)
    assert left.keys() == right.keys()
    return [name for name in left if left[name] != right[name]]
