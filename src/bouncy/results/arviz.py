"""Draws in the layout of ArviZ: an `xarray.DataTree` with dimensions chain, draw and site."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray

    from bouncy.results.run import Run


def to_datatree(run: Run, name: str, statistics: dict[str, NDArray[np.float64]]) -> xarray.DataTree:
    """Return a tree with groups `posterior` and `sample_stats`.

    Parameters
    ----------
    run : Run
        Its draws, and its parameters by their names, are the posterior.
    name : str
        What the draws are called there.
    statistics : dict
        What is known of each draw beside `lp` and `energy`, of shape (chain, draw).
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_arviz needs xarray: install it with  pip install 'bouncy[arviz]'") from error
    chains, draws = run.log_prob.shape
    grid: dict[str, Any] = {"chain": np.arange(chains), "draw": np.arange(draws)}
    posterior: dict[str, Any] = {
        key: (("chain", "draw", *(f"{key}_dim_{k}" for k in range(trace.ndim - 2))), trace)
        for key, trace in run.parameters.items()
    }
    if run.draws.shape[1]:
        posterior[name] = (("chain", "draw", "site"), run.draws)
    traces = {"lp": run.log_prob, "energy": -run.log_prob, **statistics}
    stats = {key: (("chain", "draw"), trace) for key, trace in traces.items()}
    attributes = {"inference_library": "bouncy", "sampler": run.sampler.name, "seed": str(run.seed)}
    sites = {**grid, "site": _coordinates(run.target.labels)}
    return xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(posterior, sites, attributes),
            "sample_stats": xarray.Dataset(stats, grid, attributes),
        }
    )


def _coordinates(labels: tuple[Hashable, ...]) -> list[Hashable]:
    """Return labels as xarray can index them: numbers and text as they are, anything else as its text."""
    if all(isinstance(label, int) for label in labels) or all(isinstance(label, str) for label in labels):
        return list(labels)
    return [str(label) for label in labels]
