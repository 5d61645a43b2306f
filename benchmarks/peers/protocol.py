"""How a benchmark talks to another package, which runs in a process and an environment of its own.

Both write JSON objects, one a line, with arrays in base64. The first line sent has the model and the settings of an
adapter, `<package>_peer.py`; each other line has the arguments of one call of the sampler that the adapter made, and is
answered with what it found and its CPU seconds. Adapters need nothing but NumPy and their package.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Advances a sampler and returns what it found: `states`, (chains, draws, d), or what follows from them.
Sampler = Callable[..., dict[str, Any]]


def interpreter(environment: str) -> Path:
    """Return the Python of an environment, `.venv-peer-<environment>`, or of that of the benchmarks themselves."""
    return ROOT / (f".venv-peer-{environment}" if environment else ".venv") / "bin" / "python"


def missing(environment: str) -> str | None:
    """Return why a package cannot run, or None if it is installed."""
    folder = interpreter(environment).parent.parent
    if not environment or (folder / ".ready").exists():
        return None
    log = folder / "install.log"
    errors = [line.strip() for line in log.read_text().splitlines() if line.strip()] if log.exists() else []
    return f"does not install: {errors[0]}" if errors else f"not installed: `make {folder.name}/.ready`"


@contextmanager
def started(environment: str, adapter: str, **settings: Any) -> Iterator[Sampler]:
    """Start an adapter for the time of a `with` statement, and return its sampler."""
    command = [str(interpreter(environment)), str(HERE / adapter)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send, receive = process.stdin, process.stdout
        print(json.dumps(settings, default=_pack), file=send, flush=True)

        def ask(**request: Any) -> dict[str, Any]:
            print(json.dumps(request, default=_pack), file=send, flush=True)
            line = receive.readline()
            if not line:
                raise RuntimeError(f"benchmarks/peers/{adapter} ended with {process.wait()}; its error is above")
            answer: dict[str, Any] = json.loads(line, object_hook=_unpack)
            return answer

        yield ask


def serve(prepare: Callable[..., Sampler]) -> None:
    """Answer the requests of a benchmark until there are no more. The CPU time is that of sampling alone."""
    answers, sys.stdout = sys.stdout, sys.stderr  # packages may print what they like
    settings = json.loads(sys.stdin.readline(), object_hook=_unpack)
    sampler = prepare(**settings)
    for line in sys.stdin:
        request = json.loads(line, object_hook=_unpack)
        before = time.process_time()
        found = sampler(**request)
        found["seconds"] = time.process_time() - before
        if "states" in found:
            found = summary(settings["model"], np.asarray(found.pop("states"))) | found
        print(json.dumps(found, default=_pack), file=answers, flush=True)


def summary(model: dict[str, Any], states: Any) -> dict[str, Any]:
    """Return averages of spins, (chains, d), log p and magnetisation of all states, (chains, draws), and attempts."""
    return {
        "mean": states.mean(axis=1, dtype=np.float32),
        "log_prob": np.array([_log_prob(model, chain) for chain in states]),
        "magnetisation": states.mean(axis=2, dtype=np.float64),
        "attempts": states.size,
    }


def _log_prob(model: dict[str, Any], s: Any) -> Any:
    """Return log p = sum J_ij s_i s_j + sum h_i s_i of some states, (n, d)."""
    (i, j), J, h = model["pairs"].T, model["couplings"], model["fields"]
    if J.size < 10 * h.size:
        return (s[:, i] * s[:, j]) @ J + s @ h
    A, s = np.zeros((h.size, h.size)), s.astype(np.float64)
    A[i, j] = J
    return ((s @ A) * s).sum(axis=1) + s @ h


def _pack(value: Any) -> Any:
    array = np.ascontiguousarray(value)
    if array.ndim == 0:
        return array.item()
    return {"dtype": str(array.dtype), "shape": array.shape, "bytes": base64.b64encode(array.tobytes()).decode()}


def _unpack(value: dict[str, Any]) -> Any:
    if "bytes" not in value:
        return value
    return np.frombuffer(base64.b64decode(value["bytes"]), value["dtype"]).reshape(value["shape"]).copy()
