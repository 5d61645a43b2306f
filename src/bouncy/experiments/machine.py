"""The machine that measures: CPU times of two machines cannot be compared."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from bouncy.run.pool import available_cores


def describe() -> dict[str, str]:
    """Return what the speed of a program depends on: processor, cores that this process may use, Python and numba.

    Examples
    --------
    >>> from bouncy.experiments.machine import describe
    >>> list(describe())
    ['processor', 'cores', 'Python', 'numba']
    """
    return {
        "processor": _processor(),
        "cores": str(available_cores()),
        "Python": platform.python_version(),
        "numba": version("numba"),
    }


def _processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or "unknown processor"
