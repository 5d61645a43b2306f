"""Draws in the layout of ArviZ: an `xarray.DataTree` with dimensions chain, draw and site."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

    from bouncy.results.run import Run


def to_datatree(run: Run) -> xarray.DataTree:
    """Return a tree with groups `posterior` (s) and `sample_stats` (lp, energy, magnetisation)."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_arviz needs xarray: install it with  pip install 'bouncy[arviz]'") from error
    chains, draws = run.log_prob.shape
    grid = {"chain": np.arange(chains), "draw": np.arange(draws)}
    posterior = {}
    if run.draws.shape[1]:
        posterior["s"] = (("chain", "draw", "site"), run.draws)
    statistics = {
        "lp": (("chain", "draw"), run.log_prob),
        "energy": (("chain", "draw"), -run.log_prob),
        "magnetisation": (("chain", "draw"), run.magnetisation),
    }
    attributes = {"inference_library": "bouncy", "sampler": run.sampler.name, "seed": str(run.seed)}
    return xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(posterior, {**grid, "site": _coordinates(run.target.labels)}, attributes),
            "sample_stats": xarray.Dataset(statistics, grid, attributes),
        }
    )


def _coordinates(labels: tuple[Hashable, ...]) -> list[Hashable]:
    """Return labels as xarray can index them: numbers and text as they are, anything else as its text."""
    if all(isinstance(label, int) for label in labels) or all(isinstance(label, str) for label in labels):
        return list(labels)
    return [str(label) for label in labels]
