"""Draws in the layout of ArviZ: an `xarray.DataTree` with dimensions chain, draw and site."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.results.describe import described_sampler, described_seed, ending

if TYPE_CHECKING:
    import xarray

    from bouncy.results.run import Run

_TEXT = 4000


def to_datatree(run: Run, name: str, statistics: dict[str, NDArray[np.float64]]) -> xarray.DataTree:
    """Return a tree with groups `posterior` and `sample_stats`, whose attributes describe the run.

    Parameters
    ----------
    run : Run
        Its draws, and its parameters by their names, are the posterior.
    name : str
        Name of the draws in the tree.
    statistics : dict
        Further statistics of each draw, of shape (chain, draw), beside `lp`, which is ArviZ's name of log_prob.
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_arviz needs xarray: install it with  pip install 'bouncy[arviz]'") from error
    attributes = described(run)
    traces = {"lp": run.log_prob, **statistics}
    stats = {key: (("chain", "draw"), trace) for key, trace in traces.items()}
    grid = _grid(run)
    sites = {**grid, "site": _coordinates(run.target.labels)}
    return xarray.DataTree.from_dict(
        {
            "/": xarray.Dataset(attrs=attributes),
            "posterior": xarray.Dataset(_posterior(run, name), sites, attributes),
            "sample_stats": xarray.Dataset(stats, grid, attributes),
        }
    )


def described(run: Run) -> dict[str, Any]:
    """Return a description of a run as attributes that every file format can hold: text and numbers."""
    target, sampler = run.target, described_sampler(run.sampler)
    version = run._data.origin["versions"]
    attributes = {
        "inference_library": "bouncy",
        "inference_library_version": version["bouncy"],
        "created_at": run._data.origin["created_at"],
        "seed": json.dumps(described_seed(run.seed)),
        "sampler": sampler["name"],
        "sampler_class": sampler["class"],
        "sampler_settings": json.dumps(sampler["settings"]),
        "target": target_text(target),
        "target_fingerprint": run.fingerprint,
        "warmup": run.warmup,
        "thin": run.thin,
        "sampling_seconds": run.sampling_seconds,
        **{f"{name}_version": version[name] for name in ("numpy", "numba", "python")},
    }
    # Not every format knows true and false.
    return attributes | {key: int(value) if isinstance(value, bool) else value for key, value in ending(run).items()}


def target_text(target: Any) -> str:
    """Return the text of a target, cut to the length that an attribute of a file can have."""
    return f"{target!r:.{_TEXT}}"


def posterior_name(parameter: str, taken: str) -> str:
    """Return the name of a parameter in the tree, changed where draws or coordinates have it already."""
    return f"{parameter}_" if parameter in (taken, "chain", "draw", "site") else parameter


def _posterior(run: Run, name: str) -> dict[str, Any]:
    """Return parameters, and draws where they were kept."""
    posterior: dict[str, Any] = {}
    for parameter, trace in run.parameters.items():
        key = posterior_name(parameter, name)
        posterior[key] = (("chain", "draw", *(f"{key}_dim_{k}" for k in range(trace.ndim - 2))), trace)
    if run.draws.shape[1]:
        posterior[name] = (("chain", "draw", "site"), run.draws)
    return posterior


def _grid(run: Run) -> dict[str, Any]:
    """Return the coordinates of traces: which chains, and which of their draws."""
    chains, kept = run.log_prob.shape
    return {"chain": np.arange(chains), "draw": np.arange(1, kept + 1) * run.trace_spacing - 1}


def _coordinates(labels: tuple[Hashable, ...]) -> NDArray[Any]:
    """Return labels as xarray can index them: whole numbers as they are, anything else as its text."""
    if all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
        try:
            return np.array(labels, dtype=np.int64)
        except OverflowError:
            pass
    # As objects, because zarr has no settled form for text of a fixed length.
    return np.array([str(label) for label in labels], dtype=object)
