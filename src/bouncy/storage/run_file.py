"""Runs in files: `Run.save` and `Run.load`.

A run is packed as a header and named arrays, the same for files and for checkpoints; `unpack.py` checks and reads them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._samplable import Samplable
from bouncy._validation import check_flag, check_path
from bouncy.results.describe import described_sampler, described_seed, plain_label
from bouncy.results.run import Run
from bouncy.storage.archive import ArchiveError, read_archive, write_archive
from bouncy.storage.atomic import atomic_file
from bouncy.storage.header import COUNTS, FORMAT, FUNCTION, NUMBERS, VERSION, WrongRunError
from bouncy.storage.rows import InFile, label_name
from bouncy.storage.unpack import unpack

Arrays = dict[str, NDArray[Any]]

# Characters of a target's text that are kept.
_TEXT = 4000
# Suffixes of files that other tools read, too.
_SHARED = (".nc", ".zarr")


class RunFileError(RuntimeError):
    """A file that is no saved run, or is damaged."""


def save_run(run: Run, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a run; see `Run.save`."""
    place, overwrite = check_path(path), check_flag("overwrite", overwrite)
    suffix = _suffix_of(place, "save")
    header, arrays = pack(run, with_rows=True)
    if suffix in _SHARED:
        from bouncy.storage import interchange

        interchange.write(run, header, arrays, place, overwrite)
        return
    with atomic_file(place, overwrite) as file:
        write_archive(file, header, arrays)


def load_run(path: str | os.PathLike[str], target: Any) -> Run:
    """Read a run, or look into a checkpoint; see `Run.load`."""
    from bouncy.storage.checkpoint import read_checkpoint

    place = check_path(path)
    if target is not None and not isinstance(target, Samplable):
        raise TypeError(f"target must be a bouncy target such as bouncy.MRF(M, r), got {target!r:.60}")
    if os.path.isdir(place) and os.path.splitext(place.rstrip(os.sep))[1].lower() not in _SHARED:
        return read_checkpoint(Path(place).absolute(), target)[0]
    suffix = _suffix_of(place, "load")
    if not os.path.lexists(place):
        raise FileNotFoundError(f"there is no {place}")
    try:
        if suffix in _SHARED:
            from bouncy.storage import interchange

            header, arrays = interchange.read(place)
        else:
            header, arrays = read_archive(place)
        return unpack(header, arrays, target)
    except WrongRunError as error:
        raise ValueError(str(error)) from None
    except (ArchiveError, KeyError, ValueError) as error:
        raise RunFileError(f"cannot load {place}: {problem(error)}") from error


def _suffix_of(place: str, doing: str) -> str:
    suffix = os.path.splitext(place.rstrip(os.sep))[1].lower()
    if suffix not in (".npz", *_SHARED):
        raise ValueError(f"cannot {doing} {place}: the suffix is {suffix!r}; expected .npz, .nc (NetCDF) or .zarr")
    return suffix


def problem(error: BaseException) -> str:
    """Return what is wrong with a file, given the error that reading it raised."""
    return f"{error.args[0]!r:.60} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__


# To header and arrays


def pack(run: Run, with_rows: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return everything that a run is computed from and can go on from.

    Rows in files are left out unless `with_rows` is true; the header tells how many there are.
    """
    data, setup = run._data, run._data.setup
    records, rows = data.records, data.records.rows
    goal = dataclasses.replace(data.goal, se_of=FUNCTION if callable(data.goal.se_of) else data.goal.se_of)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "target": _described_target(setup.target),
        "sampler": described_sampler(setup.sampler),
        "seed": described_seed(setup.seed),
        "goal": dataclasses.asdict(goal),
        "rates": list(data.rates),
        "chains": list(data.chains),
        "batches": len(records.batches[0].closed),
        "tracked": None if records.tracked is None else records.tracked.count,
        "rows": [],
        **{name: getattr(setup, name) for name in ("thin", "keep", "pairs", "slots", "chooses_warmup")},
        **{name: getattr(setup, name) for name in ("lanes", "choice")},
        **{name: getattr(data, name) for name in (*COUNTS, *NUMBERS, "stopped_by", "origin")},
    }
    arrays: Arrays = {"labels": np.frombuffer(_packed_labels(setup.target), np.uint8)}
    for name in data.open[0]:
        closed = [[batch[name] for batch in batches.closed] for batches in records.batches]
        arrays[f"open.{name}"] = np.stack([batch[name] for batch in data.open])
        arrays[f"batches.{name}"] = np.array(closed).reshape(len(closed), len(closed[0]), data.open[0][name].size)
    arrays |= {f"total.{name}": np.stack([totals[name] for totals in data.totals]) for name in data.totals[0]}
    arrays |= {f"constant.{name}": array for name, array in data.constants.items()}
    if data.states:
        arrays |= {f"state.{name}": np.stack([state[name] for state in data.states]) for name in data.states[0]}
    if records.start:
        arrays["start"] = np.stack(records.start)
    if records.tracked is not None and records.tracked.count:
        closed = [[batch["f"] for batch in batches.closed] for batches in records.tracked.batches]
        arrays["tracked.open"] = records.tracked.open
        arrays["tracked.batches"] = np.array(closed).reshape(len(closed), -1, records.tracked.open.shape[1])
    for k, (label, column) in enumerate(rows.columns.items()):
        entry = {"label": label, "count": column.count, "spacing": column.spacing, "file": None}
        if isinstance(column, InFile) and not with_rows:
            entry |= {"count": column.written, "file": column.checksum}
            entry["like"] = rows.templates[label_name(label)].shape[1:]
        else:
            arrays[f"rows.{k}"] = column.array()
        header["rows"].append(entry)
    return header, arrays


def _described_target(target: Any) -> dict[str, Any]:
    shape: Any = getattr(target, "shape", None)
    whole = isinstance(shape, tuple) and all(type(side) is int and side > 0 for side in shape)
    sides = list(shape) if whole and math.prod(shape) == target.d else None
    text = f"{target!r:.{_TEXT}}"
    known = {name: getattr(target, name) for name in ("kind", "d", "fingerprint", "selects_variables")}
    size = getattr(target, "log_size", None)
    return {**known, "text": text, "shape": sides, **({} if size is None else {"log_size": float(size)})}


def _packed_labels(target: Any) -> bytes:
    """Return labels in JSON; nothing where sites are merely numbered."""
    labels = target.labels
    if labels == tuple(range(target.d)):
        return b""
    texts = [json.dumps(plain_label(label)) for label in labels]
    if len(set(texts)) < len(texts):
        raise ValueError("cannot save the labels of the target: some of them are different, but have the same text")
    return f"[{', '.join(texts)}]".encode()
