"""From a header and arrays to a run. Both may come from anywhere, and are believed only after they were checked."""

from __future__ import annotations

import json
from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._fingerprint import target_fingerprint
from bouncy._samplable import Samplable, check_labels
from bouncy.piecewise.products import all_products, no_products
from bouncy.piecewise.recorder import new_path_recorder
from bouncy.recorders.pairs import AllPairs, EdgePairs, Pairs, no_pairs
from bouncy.recorders.recorder import CLOSED, LENGTH, OPEN, new_recorder
from bouncy.results._layout import RunFileError
from bouncy.results._packing import FORMAT, VERSION
from bouncy.results.describe import as_sampler, as_seed
from bouncy.results.paths import PathRun
from bouncy.results.run import Run
from bouncy.results.spins import SpinRun
from bouncy.results.stored import StoredChain, StoredGrowth, StoredTarget, stored_rows
from bouncy.run.goal import Goal
from bouncy.run.rows import RAGGED, Rows
from bouncy.run.within import PARAMETER

Arrays = dict[str, NDArray[Any]]

_TYPES: dict[str, Any] = {
    "kind": str, "keep": str, "pairs": str, "sizes": dict, "parameters": list, "seed": int | dict, "warmup": int,
    "thin": int, "sampler": dict, "target": dict, "sweep_time": float, "rates": list | None,
    "warmup_seconds": float, "facts": dict, "created_at": str, "versions": dict,
    "sha256": str,
}  # fmt: skip
_CHOICES = {"kind": ("spins", "paths"), "keep": ("draws", "means", "path"), "pairs": ("all", "edges", "none")}
_SIZES = ("chains", "d", "draws", "traces", "slots", "tally", "labels")
_MOST = 1 << 48


def check_header(header: Any) -> dict[str, Any]:
    """Return a header whose entries are of the kinds that they should be."""
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise RunFileError("its header is not that of a saved run")
    if header.get("version") != VERSION:
        raise RunFileError(f"it is of version {header.get('version')!r:.20}; this version of bouncy reads {VERSION}")
    for name, kind in _TYPES.items():
        if not isinstance(header.get(name), kind):
            raise RunFileError(f"its header has {name} = {header.get(name)!r:.60}")
    for name, choices in _CHOICES.items():
        if header[name] not in choices:
            raise RunFileError(f"its header has {name} = {header[name]!r:.60}; expected one of {', '.join(choices)}")
    _check_sizes(header)
    for item in header["parameters"]:
        if not (item["name"].isidentifier() and item["variable"].isidentifier()):
            raise RunFileError(f"its header names a parameter {item['name']!r:.60}")
        _check_counts("the shape of a parameter", item["shape"])
    return header


def _check_sizes(header: dict[str, Any]) -> None:
    sizes = header["sizes"]
    needed = [*_SIZES]
    needed += ["cells"] if header["kind"] == "paths" else []
    needed += ["edges", "entries"] if header["pairs"] == "edges" else []
    needed += ["flips", "path"] if header["keep"] == "path" else []
    _check_counts("sizes", [sizes.get(name) for name in needed])
    if min(sizes["chains"], sizes["d"], sizes["slots"]) < 1 or (header["pairs"], header["kind"]) == ("edges", "paths"):
        raise RunFileError(f"its header has sizes that no run has: {sizes!r:.120}")


def _check_counts(what: str, values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            raise RunFileError(f"its header has {value!r:.60} in {what}; expected a whole number")


def unpack(header: dict[str, Any], arrays: Arrays) -> Run:
    """Return the run that was packed, on a target that stands for the one it was on."""
    _check_arrays(header, arrays)
    kind = PathRun if header["kind"] == "paths" else SpinRun
    run = kind.__new__(kind)
    run.target = _target(header, arrays["labels"])
    run.sampler = _sampler(header)
    run.seed, run.thin = as_seed(header["seed"]), header["thin"]
    run.stopped_by = str(header["facts"]["stopped_by"])
    chains = [_chain(header, arrays, k) for k in range(header["sizes"]["chains"])]
    run._growth = StoredGrowth(
        chains,
        header["keep"],
        run.sweeps_per_draw,
        header["warmup"],
        header["warmup_seconds"],
        _rows(header, arrays),
        list(arrays["start"]) if header["keep"] == "path" else [],
    )
    run._goal, run._checkpoint = Goal(), None
    run._options = {"executor": None, "threads": None, "progress": None, "chooses_warmup": False}
    run._origin = {name: header[name] for name in ("created_at", "versions")}
    return run


def _rows(header: dict[str, Any], arrays: Arrays) -> Rows:
    """Return what was kept of the draws."""
    names = {"draws": "draws", "log_prob": "log_prob", "magnetisation": "magnetisation", "flip_count": "flip_count"}
    names |= {f"parameter {item['name']}": PARAMETER + item["name"] for item in header["parameters"]}
    if header["keep"] != "draws":
        del names["draws"]
    spacing = header["facts"]["trace_spacing"]
    _check_counts("the spacing of traces", [spacing])
    found = {new: arrays[name] for name, new in names.items() if name in arrays}
    if header["keep"] == "path":
        ends = np.cumsum(arrays["flip_count"].sum(axis=1))[:-1]
        for name in RAGGED:
            found |= {f"{name}.{k}": part[None] for k, part in enumerate(np.split(arrays[name], ends))}
    return stored_rows(found, max(spacing, 1))


def _target(header: dict[str, Any], labels: NDArray[np.uint8]) -> StoredTarget:
    known, d = header["target"], header["sizes"]["d"]
    names = tuple(_label(label) for label in json.loads(labels.tobytes())) if labels.size else None
    shape = None if known["shape"] is None else tuple(known["shape"])
    _check_counts("the shape of the lattice", known["shape"] or [])
    checked = None if names is None else check_labels(names, d)
    return StoredTarget(d, checked, str(known["text"]), shape, str(known["fingerprint"]))


def _label(label: Any) -> Hashable:
    return tuple(_label(part) for part in label) if isinstance(label, list) else label


def give_target(run: Run, target: Any) -> None:
    """Let a run have its target itself, after looking whether it is the one that was sampled."""
    if not isinstance(target, Samplable):
        raise TypeError(f"target must be a bouncy target such as bouncy.MRF(M, r), got {target!r:.60}")
    if target_fingerprint(target) != run.target.fingerprint:
        raise ValueError(
            f"target is {target!r:.120}, but the run was on another model, {run.target!r:.120}: their log p, sizes or "
            "labels differ. Pass the model that was sampled, or none"
        )
    run.target = target


def _sampler(header: dict[str, Any]) -> Any:
    try:
        return as_sampler(header["kind"], header["sampler"])
    except LookupError as error:
        raise RunFileError(f"it is of a sampler that this version of bouncy does not have: {error}") from None


def _chain(header: dict[str, Any], arrays: Arrays, k: int) -> StoredChain:
    recorder = (_path_recorder if header["kind"] == "paths" else _spin_recorder)(header, arrays, k)
    events = arrays["events"][k]
    recorder = recorder._replace(open_events=events[arrays["tally"][k, CLOSED]])
    cells = {name: arrays.get(f"cell_{name}") for name in ("first", "lower", "upper", "slope", "shift")}
    rates = None if header["rates"] is None else tuple(header["rates"])
    chain = StoredChain(int(arrays["number"][k]), recorder, header["sweep_time"], SimpleNamespace(**cells), rates)
    chain.sweeps, chain.cpu_seconds = int(arrays["sweeps"][k]), float(arrays["cpu_seconds"][k])
    return chain


def _spin_recorder(header: dict[str, Any], arrays: Arrays, k: int) -> Any:
    recorder = new_recorder(header["sizes"]["d"], 0, 1, _pairs(header, arrays, k))
    return recorder._replace(**{name: arrays[name][k] for name in ("path", "mean", "events", "flips", "tally")})


def _pairs(header: dict[str, Any], arrays: Arrays, k: int) -> Pairs:
    if header["pairs"] == "none":
        return no_pairs()
    path, mean = arrays["pairs_path"][k], arrays["pairs_mean"][k]
    if header["pairs"] == "all":
        d = header["sizes"]["d"]
        return AllPairs(path[0].reshape(d, d), mean[0].reshape(d, d), path, mean)
    pattern = {name: arrays[f"pairs_{name}"] for name in ("indptr", "indices", "edge")}
    return EdgePairs(**pattern, open_path=path[0], open_mean=mean[0], path=path, mean=mean)


def _path_recorder(header: dict[str, Any], arrays: Arrays, k: int) -> Any:
    d = header["sizes"]["d"]
    products = no_products()
    if header["pairs"] == "all":
        products = all_products(d, 0)._replace(closed=arrays["products"][k])  # type: ignore[assignment]
    recorder = new_path_recorder(d, header["sizes"]["cells"], 0, 1, np.zeros(d), np.zeros(d), products)
    kept = ("mean", "square", "cell", "bin", "events", "flips", "tally", "extremes", "low", "width")
    return recorder._replace(**{name: arrays[name][k] for name in kept})


def _check_arrays(header: dict[str, Any], arrays: Arrays) -> None:
    """Raise where arrays that others index with would lead astray."""
    sizes, tally = header["sizes"], arrays["tally"]
    if sizes["tally"] <= max(CLOSED, LENGTH, OPEN):
        raise RunFileError(f"its tally has {sizes['tally']} entries")
    _check_range("tally", tally[:, CLOSED], sizes["slots"])
    if (tally[:, LENGTH] < 1).any() or (tally[:, OPEN] < 0).any():
        raise RunFileError(f"its batches are counted as {tally[0].tolist()}")
    if header["pairs"] == "edges":
        _check_rows("pairs", arrays["pairs_indptr"], sizes["entries"])
        _check_range("pairs_indices", arrays["pairs_indices"], sizes["d"])
        _check_range("pairs_edge", arrays["pairs_edge"], sizes["edges"])
    if header["kind"] == "paths":
        _check_rows("cells", arrays["cell_first"], sizes["cells"])
    if header["keep"] == "path":
        _check_range("flip_site", arrays["flip_site"], sizes["d"])
        if (arrays["flip_count"] < 0).any() or arrays["flip_count"].sum() != sizes["flips"]:
            raise RunFileError("its flips are not as many as its chains are said to have made")


def _check_rows(name: str, first: NDArray[np.int64], n: int) -> None:
    if first[0] != 0 or first[-1] != n or (np.diff(first) < 0).any():
        raise RunFileError(f"the rows of its {name} do not follow each other")


def _check_range(name: str, values: NDArray[Any], n: int) -> None:
    if values.size and not 0 <= values.min() <= values.max() < n:
        raise RunFileError(f"{name} holds {values.min()} to {values.max()}; expected 0 to {n - 1}")
