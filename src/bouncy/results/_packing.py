"""From a run to a header in plain Python objects and arrays by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy.piecewise.products import AllProducts
from bouncy.recorders.pairs import AllPairs, EdgePairs
from bouncy.results.arviz import fingerprint_of, now, posterior_name, target_text
from bouncy.results.describe import described_sampler, described_seed, plain, plain_label, versions
from bouncy.results.paths import PathRun
from bouncy.results.run import Run

Arrays = dict[str, NDArray[Any]]

FORMAT = "bouncy run"
VERSION = 1
# What a run may know of itself beside its results.
FACTS = ("stopped_by", "trace_spacing")


def pack(run: Run) -> tuple[dict[str, Any], Arrays]:
    """Return everything that a run is computed from."""
    paths = isinstance(run, PathRun)
    arrays = _traces(run) | (_of_paths(run) if paths else _of_spins(run))
    arrays["labels"] = np.frombuffer(_labels(run), np.uint8)
    if run._growth.keep == "path":
        arrays |= _flights(run)
    chains = run._chains
    # What there is of each chain is no part of the header, which must stay small.
    arrays["number"] = np.array([chain.number for chain in chains], np.int64)
    arrays["sweeps"] = np.array([chain.sweeps for chain in chains], np.int64)
    arrays["cpu_seconds"] = np.array([chain.cpu_seconds for chain in chains])
    origin = getattr(run, "_origin", {"created_at": now(), "versions": versions()})
    variable = "x" if paths else "s"
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "paths" if paths else "spins",
        "keep": run._growth.keep,
        "pairs": _pairs(run),
        "sizes": _sizes(run, arrays),
        "parameters": [
            {"name": name, "variable": posterior_name(name, variable), "shape": list(trace.shape[2:])}
            for name, trace in run.parameters.items()
        ],
        "seed": described_seed(run.seed),
        "warmup": run.warmup,
        "thin": run.thin,
        "sampler": described_sampler(run.sampler),
        "target": _target(run.target),
        "sweep_time": float(chains[0].sweep_time),
        "rates": plain(getattr(chains[0], "rates", None)),
        "warmup_seconds": float(run._growth.warmup_seconds),
        "facts": {name: plain(getattr(run, name)) for name in FACTS if hasattr(run, name)},
        **origin,
    }
    return header, arrays


def _sizes(run: Run, arrays: Arrays) -> dict[str, int]:
    sizes = {
        "chains": len(run._chains),
        "d": run.target.d,
        "draws": run.draws.shape[1],
        "traces": run.log_prob.shape[1],
        "slots": arrays["mean"].shape[1],
        "tally": arrays["tally"].shape[1],
        "labels": arrays["labels"].size,
    }
    lengths = {"cells": ("cell_shift", 0), "edges": ("pairs_mean", 2), "entries": ("pairs_edge", 0)}
    lengths |= {"flips": ("flip_time", 0), "path": ("flip_count", 1)}
    return sizes | {size: arrays[name].shape[axis] for size, (name, axis) in lengths.items() if name in arrays}


def _target(target: Any) -> dict[str, Any]:
    """Return what a file knows of a target."""
    shape = getattr(target, "shape", None)
    sides = list(shape) if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape) else None
    return {"text": target_text(target), "shape": sides, "fingerprint": fingerprint_of(target)}


def _labels(run: Run) -> bytes:
    """Return labels in JSON; nothing where sites are merely numbered."""
    labels = run.target.labels
    if labels == tuple(range(run.target.d)):
        return b""
    texts = [json.dumps(plain_label(label)) for label in labels]
    if len(set(texts)) < len(texts):
        raise ValueError("cannot save the labels of the target: some of them are different, but have the same text")
    return f"[{', '.join(texts)}]".encode()


def _pairs(run: Run) -> str:
    recorder = run._chains[0].recorder
    kept = recorder.products if isinstance(run, PathRun) else recorder.pairs
    return {AllPairs: "all", AllProducts: "all", EdgePairs: "edges"}.get(type(kept), "none")


def _traces(run: Run) -> Arrays:
    traces = {"draws": run.draws, "log_prob": run.log_prob}
    if hasattr(run, "magnetisation"):
        traces["magnetisation"] = run.magnetisation
    return traces | {f"parameter {name}": trace for name, trace in run.parameters.items()}


def _stacked(run: Run, names: tuple[str, ...]) -> Arrays:
    """Return arrays of the recorders, with the open batch written behind the closed ones, (chain, ...)."""
    recorders = run._sums.recorders
    return {name: np.stack([getattr(recorder, name) for recorder in recorders]) for name in names}


def _of_spins(run: Run) -> Arrays:
    arrays = _stacked(run, ("path", "mean", "events", "flips", "tally"))
    pairs = [recorder.pairs for recorder in run._sums.recorders]
    if isinstance(pairs[0], AllPairs | EdgePairs):
        arrays["pairs_path"] = np.stack([one.path for one in pairs])
        arrays["pairs_mean"] = np.stack([one.mean for one in pairs])
    if isinstance(pairs[0], EdgePairs):
        arrays |= {f"pairs_{name}": getattr(pairs[0], name) for name in ("indptr", "indices", "edge")}
    return arrays


def _of_paths(run: Run) -> Arrays:
    kept = ("mean", "square", "cell", "bin", "events", "flips", "tally", "extremes", "low", "width")
    arrays, view = _stacked(run, kept), run._chains[0].view
    arrays |= {f"cell_{name}": getattr(view, name) for name in ("first", "lower", "upper", "slope", "shift")}
    products = [recorder.products for recorder in run._sums.recorders]
    if isinstance(products[0], AllProducts):
        arrays["products"] = np.stack([one.closed for one in products])
    return arrays


def _flights(run: Any) -> Arrays:
    """Return the flips of all chains one after the other, how many there are in each sweep, and where they began."""
    paths = run._paths()
    return {
        "flip_count": np.stack([path.counts for path in paths]).astype("<i4"),
        "flip_time": np.concatenate([path.time for path in paths]).astype("<f8"),
        "flip_site": np.concatenate([path.site for path in paths]).astype("<i4"),
        "start": np.stack([path.start for path in paths]).astype("|i1"),
    }
