"""How long a new process takes to its first sample, from an empty cache of compiled code and from a full one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial

from report import Figure, Task
from timing import median

TITLE = "Time to first sample in a new process"
NOTE = "CPU seconds. `sample` counts the whole process: interpreter, imports, compiled code, sampling, mean."
HEADER = "what | sampler"

SAMPLERS = ("bps-gaussian", "bps-exponential")
_IMPORT_GOAL, _WARM_GOAL, _COLD_GOAL = 1.0, 2.0, 20.0

# The public names are imported on first use, so that a bare `import bouncy` would measure nothing.
_SCRIPT = """
import json, sys, time
before = time.process_time()
from bouncy import MRF, sample
imported = time.process_time() - before
run = sample(MRF.random(10, seed=0), sys.argv[1], seed=0, progress=False)
run.mean
print(json.dumps({"import": imported, "sample": time.process_time()}))
"""


def tasks(quick: bool) -> list[Task]:
    return [Task(sampler, partial(_measure, sampler, quick)) for sampler in SAMPLERS]


def _measure(sampler: str, quick: bool) -> list[Figure]:
    cold, warm = [], []
    for _ in range(1 if quick else 5):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_first_sample(sampler, cache)["sample"])
            warm += [_first_sample(sampler, cache) for _ in range(5 if quick else 2)]
    figures = [_figure("sample, empty cache", sampler, cold, _COLD_GOAL)]
    figures.append(_figure("sample, full cache", sampler, [w["sample"] for w in warm], _WARM_GOAL))
    if sampler == SAMPLERS[0]:
        figures.append(_figure("import", "", [w["import"] for w in warm], _IMPORT_GOAL))
    return figures


def _first_sample(sampler: str, cache: str) -> dict[str, float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", _SCRIPT, sampler]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    seconds: dict[str, float] = json.loads(answer)
    return seconds


def _figure(what: str, sampler: str, seconds: list[float], goal: float) -> Figure:
    details = {"what": what, "sampler": sampler}
    return Figure(f"{what} | {sampler}", median(seconds), goal, "at most", "s", details)
