"""Results: estimates, standard errors, diagnostics and tables of a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bouncy.results.data import Data


def run_type(kind: str) -> Any:
    """Return the class of runs on a kind of target."""
    from bouncy.results.paths import PathRun
    from bouncy.results.spins import SpinRun

    return {"spins": SpinRun, "paths": PathRun}[kind]


def as_run(data: Data) -> Any:
    """Return the run that is computed from some data."""
    return run_type(data.setup.target.kind)(data)
