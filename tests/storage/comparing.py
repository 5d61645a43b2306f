"""Everything that a run knows, to compare two runs by their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = (
    "draws", "log_prob", "magnetisation", "flips_per_site", "start", "flips", "duration", "trace_spacing", "warmup",
    "thin", "sweeps_per_draw", "inclusion", "inclusion_se",
)  # fmt: skip
COUNTS = ("hits", "flips", "bounces", "refreshments")


def everything(run: Any) -> dict[str, bytes]:
    """Return the bytes of all results of a run, by name."""
    names = [*NAMES, *(f"{name}{end}" for name in run._estimates for end in ("", "_se"))]
    found = {name: getattr(run, name) for name in names if hasattr(run, name)}
    found |= {f"parameter {name}": value for name, value in run.parameters.items()}
    found |= {name: run.diagnostics[name] for name in COUNTS}
    if hasattr(run, "quantile") and run.draws_per_chain:
        found["quantile"], found["probability"] = run.quantile([0.1, 0.5, 0.9]), run.probability(0.1, 0.7)
        found["density"] = tuple(part for i in range(run.target.d) for part in run.density(i)[:2])
        if run._data.setup.pairs == "all":
            found["combination"] = run.combination(np.ones(run.target.d))
    return {name: _bytes(value) for name, value in found.items()} | {"stopped by": run.stopped_by.encode()}


def _bytes(value: Any) -> bytes:
    if isinstance(value, tuple | list):
        return b"".join(map(_bytes, value))
    if hasattr(value, "toarray"):
        value = value.toarray()
    array = np.ascontiguousarray(value)
    return f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()


def different(one: Any, other: Any) -> list[str]:
    """Return what two runs differ in; they have the same results."""
    left, right = everything(one), everything(other)
    assert left.keys() == right.keys()
    return [name for name in left if left[name] != right[name]]
