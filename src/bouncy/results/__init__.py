"""Results: estimates, standard errors, diagnostics and tables of a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bouncy.results.data import Data, Setup


def run_type(setup: Setup) -> Any:
    """Return the class of runs that were asked for like this."""
    from bouncy.results.paths import PathRun
    from bouncy.results.spins import SpinRun

    if setup.is_tempered:
        from bouncy.results.tempered import TemperedRun  # which few runs are

        return TemperedRun
    if setup.is_clustered:
        from bouncy.results.clusters import ClusterRun

        return ClusterRun
    return {"spins": SpinRun, "paths": PathRun}[setup.target.kind]


def as_run(data: Data) -> Any:
    """Return the run that is computed from some data."""
    return run_type(data.setup)(data)
