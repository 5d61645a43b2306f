"""A run as a header and named arrays, and back: the same for files and for checkpoints.

What a header or an array says is checked here, once, before anything is computed from it: types, shapes, ranges and
whether the numbers agree with each other. A worker checks its own state when it is restored.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._samplable import Samplable, check_labels
from bouncy._validation import check_flag, check_path
from bouncy.piecewise.recorder import BINS
from bouncy.recorders.batches import Batches, batch_length
from bouncy.recorders.tracked import Tracked
from bouncy.results import as_run, run_type
from bouncy.results.data import RECORDING, Data, Place, Records, Setup
from bouncy.results.describe import as_sampler, as_seed, described_sampler, described_seed, plain_label
from bouncy.results.run import Run
from bouncy.run.goal import Goal
from bouncy.storage.archive import ArchiveError, read_archive, write_archive
from bouncy.storage.atomic import atomic_file
from bouncy.storage.rows import PER_SWEEP, RAGGED, InFile, InMemory, Rows, Thinned, label_name
from bouncy.workers.within import PARAMETER

Arrays = dict[str, NDArray[Any]]

FORMAT, VERSION = "bouncy run", 2
_REASONS = ("nothing", "draws", "seconds", "until_se", "disagreement", "interrupt")
# Characters of a target's text that are kept.
_TEXT = 4000
# Words in the pool of a seed sequence, of which numpy has four by default, and the largest seed.
_MOST_POOL, _LARGEST_SEED = 64, 1 << 4096
_FUNCTION = "a function of states"
# Suffixes of files that other tools read, too.
_SHARED = (".nc", ".zarr")


class RunFileError(RuntimeError):
    """A file that is no saved run, or is damaged."""


class WrongRunError(ValueError):
    """A run of another target or sampler than the one that was passed."""


class StoredTarget(Samplable[Any]):
    """The target of a run that was read from a file, as far as the file knows it.

    Attributes
    ----------
    d, labels, kind
        As of the target.
    shape : tuple of int or None
        Sides of the lattice, if it was one.
    fingerprint : str
        Digest that tells it from other targets.
    """

    fingerprint: str = ""

    def __init__(self, kind: Any, d: int, labels: Any, text: str, shape: Any, fingerprint: str) -> None:
        self.kind, self.d, self._labels, self._text = kind, d, labels, text  # type: ignore[misc]
        self.shape, self.fingerprint = shape, fingerprint

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a run that was read from a file knows its target by name only, which has no {name!r}; pass the target "
            "itself, as in bouncy.Run.load(path, target=target)"
        )

    def check_states(self, name: str, states: ArrayLike) -> NDArray[Any]:
        return self.__getattr__("check_states")

    def description(self) -> dict[str, Any]:
        return self.__getattr__("description")

    def workers(self, *_: Any) -> NoReturn:
        raise RuntimeError(
            "a run that was read from a file can go on only with its target: pass it, as in "
            "bouncy.Run.load(path, target=target)"
        )

    def __repr__(self) -> str:
        return self._text


# Files


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
    goal = dataclasses.replace(data.goal, se_of=_FUNCTION if callable(data.goal.se_of) else data.goal.se_of)
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
        **{name: getattr(data, name) for name in (*_COUNTS, *_NUMBERS, "stopped_by", "origin")},
    }
    arrays: Arrays = {"labels": np.frombuffer(_packed_labels(setup.target), np.uint8)}
    for name in data.open[0]:
        closed = [[batch[name] for batch in batches.closed] for batches in records.batches]
        arrays[f"open.{name}"] = np.stack([batch[name] for batch in data.open])
        arrays[f"batches.{name}"] = np.array(closed).reshape(len(closed), -1, data.open[0][name].size)
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
            entry["like"] = [rows.templates[label_name(label)].dtype.str, rows.templates[label_name(label)].shape[1:]]
        else:
            arrays[f"rows.{k}"] = column.array()
        header["rows"].append(entry)
    return header, arrays


_COUNTS = ("stage", "warmup", "recordings", "sweeps", "begun")
_NUMBERS = ("cpu_seconds", "warmup_seconds", "sweep_time")


def _described_target(target: Any) -> dict[str, Any]:
    shape = getattr(target, "shape", None)
    sides = list(shape) if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape) else None
    text = f"{target!r:.{_TEXT}}"
    return {"kind": target.kind, "d": target.d, "text": text, "shape": sides, "fingerprint": target.fingerprint}


def _packed_labels(target: Any) -> bytes:
    """Return labels in JSON; nothing where sites are merely numbered."""
    labels = target.labels
    if labels == tuple(range(target.d)):
        return b""
    texts = [json.dumps(plain_label(label)) for label in labels]
    if len(set(texts)) < len(texts):
        raise ValueError("cannot save the labels of the target: some of them are different, but have the same text")
    return f"[{', '.join(texts)}]".encode()


# And back


def unpack(
    header: Mapping[str, Any],
    arrays: Arrays,
    target: Any = None,
    sampler: Any = None,
    se_of: Any = None,
    place: Place | None = None,
) -> Run:
    """Return the run that was packed; raise `ValueError` or `KeyError` for what cannot be one.

    Parameters
    ----------
    header, arrays
        What `pack` returned, or anything else.
    target, sampler, se_of : optional
        The target, the sampler and the function of states of the run. `WrongRunError` if they are others.
    place : Place, optional
        The checkpoint that they were read from, which has files of rows.
    """
    if header.get("format") != FORMAT:
        raise ValueError("it is not a saved run")
    if header.get("version") != VERSION:
        raise ValueError(
            f"it was written by version {_written_by(header)} of bouncy in format {header.get('version')!r:.20}; this "
            f"version reads format {VERSION}"
        )
    check = _Checker(header, dict(arrays))
    setup = check.setup(target, sampler)
    chains = check.indices("chains")
    counts = {name: check.whole(name) for name in _COUNTS}
    if counts["stage"] > RECORDING or counts["begun"] > counts["sweeps"]:
        raise ValueError(f"its counts of stages and sweeps are impossible: {counts}")
    recorded = counts["sweeps"] - counts["begun"] if counts["stage"] == RECORDING else 0
    batches, opened = check.batches(setup, len(chains), recorded)
    data = Data(
        setup=setup,
        goal=check.goal(setup),
        stopped_by=check.word("stopped_by", _REASONS),
        chains=chains,
        **counts,
        cpu_seconds=check.number("cpu_seconds"),
        warmup_seconds=check.number("warmup_seconds"),
        sweep_time=check.number("sweep_time"),
        rates=check.rates(),
        records=check.records(setup, batches, recorded, se_of, place),
        open=opened,
        totals=check.totals(setup, len(chains)),
        constants=check.constants(setup, opened[0]),
        states=check.states(len(chains)),
        checkpoint=place,
        origin=check.origin(),
    )
    check.nothing_left()
    return as_run(data)  # type: ignore[no-any-return]


def _written_by(header: Mapping[str, Any]) -> str:
    origin = header.get("origin")
    versions = origin.get("versions") if isinstance(origin, dict) else None
    return str(versions.get("bouncy", "unknown"))[:20] if isinstance(versions, dict) else "0.1"


class _Checker:
    """Takes entries out of a header and arrays, and raises `ValueError` for those that cannot be right."""

    def __init__(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self._header, self._arrays = header, arrays

    # Entries of the header

    def whole(self, name: str, least: int = 0, most: int = 2**62) -> int:
        return whole(name, self._header[name], least, most)

    def number(self, name: str) -> float:
        value = self._header[name]
        if type(value) not in (int, float) or not 0 <= value < float("inf"):
            raise ValueError(f"{name} is {value!r:.60}; expected a finite number >= 0")
        return float(value)

    def word(self, name: str, choices: tuple[Any, ...]) -> Any:
        value = self._header[name]
        if type(value) is not type(choices[0]) or value not in choices:
            raise ValueError(f"{name} is {value!r:.60}; expected one of {', '.join(map(str, choices))}")
        return value

    def table(self, name: str, within: Any = None) -> dict[str, Any]:
        value = (self._header if within is None else within)[name]
        if not isinstance(value, dict):
            raise ValueError(f"{name} is {value!r:.60}; expected a table")
        return value

    def indices(self, name: str) -> tuple[int, ...]:
        value = self._header[name]
        if not isinstance(value, list) or not value:
            raise ValueError(f"{name} is {value!r:.60}; expected a list of indices")
        found = tuple(whole(name, index) for index in value)
        if len(set(found)) < len(found):
            raise ValueError(f"{name} has an index twice")
        return found

    def setup(self, target: Any, sampler: Any) -> Setup:
        known = self.table("target")
        described = self.table("sampler")
        stored = self._stored_target(known)
        if target is not None and target.fingerprint != stored.fingerprint:
            raise WrongRunError(
                f"the run is of another model, {stored!r:.80} with fingerprint {stored.fingerprint:.16}, but "
                f"{target!r:.80} with fingerprint {target.fingerprint:.16} was passed: their log p, sizes or labels "
                "differ"
            )
        setup = Setup(
            target=stored if target is None else target,
            sampler=_sampler_of(stored.kind, described, target, sampler),
            seed=self._seed(),
            thin=self.whole("thin", 1),
            keep=self.word("keep", ("draws", "means", "path") if stored.kind == "spins" else ("draws", "means")),
            pairs=self.word("pairs", ("all", "edges", "none") if stored.kind == "spins" else ("all", "none")),
            slots=self.whole("slots", 2, 2**20),
            chooses_warmup=self.word("chooses_warmup", (False, True)),
        )
        if setup.slots % 2:
            raise ValueError(f"slots is {setup.slots}; expected an even number")
        return setup

    def _stored_target(self, known: dict[str, Any]) -> StoredTarget:
        d, shape = whole("d", known["d"], 1), known["shape"]
        if known["kind"] not in ("spins", "paths"):
            raise ValueError(f"the kind of its target is {known['kind']!r:.60}")
        labels = self.take("labels", np.uint8, (None,)).tobytes()
        names = None
        if labels:
            listed = json.loads(labels)
            if not isinstance(listed, list):
                raise ValueError("its labels are not a list")
            try:
                names = check_labels([_label(label) for label in listed], d)
            except TypeError as error:
                raise ValueError(str(error)) from None
        if shape is not None:
            if not isinstance(shape, list):
                raise ValueError(f"the shape of its lattice is {shape!r:.60}")
            shape = tuple(whole("a side of its lattice", side) for side in shape)
        return StoredTarget(known["kind"], d, names, str(known["text"]), shape, str(known["fingerprint"]))

    def _seed(self) -> Any:
        described = self._header["seed"]
        if isinstance(described, dict):
            if set(described) != {"entropy", "spawn_key", "pool_size", "n_children_spawned"}:
                raise ValueError(f"its seed is {described!r:.120}")
            whole("pool_size", described["pool_size"], 4, _MOST_POOL)
            try:
                return as_seed(described)
            except TypeError as error:
                raise ValueError(f"its seed is {described!r:.120}: {error}") from None
        return whole("seed", described, 0, _LARGEST_SEED)

    def goal(self, setup: Setup) -> Goal:
        described = self.table("goal")
        if described.keys() != {field.name for field in dataclasses.fields(Goal)}:
            raise ValueError(f"its goal is {described!r:.120}")
        goal = Goal(**described)
        bounds = [goal.draws, goal.seconds, goal.until_se]
        for bound in bounds:
            if bound is not None and (type(bound) not in (int, float) or not 0 < bound < float("inf")):
                raise ValueError(f"its goal is {described!r:.120}")
        if all(bound is None for bound in bounds) or type(goal.draws) not in (int, type(None)):
            raise ValueError(f"its goal is {described!r:.120}")
        whole("next_look", goal.next_look)
        whole("disagree_since", goal.disagree_since)
        estimates = run_type(setup.target.kind)._estimates
        if goal.se_of not in (*estimates, _FUNCTION) or ("pair" in str(goal.se_of) and setup.pairs == "none"):
            raise ValueError(f"its goal is {described!r:.120}")
        return goal

    def rates(self) -> tuple[float | None, float | None]:
        rates = self._header["rates"]
        if not isinstance(rates, list) or len(rates) != 2:
            raise ValueError(f"rates is {rates!r:.60}")
        for rate in rates:
            if rate is not None and type(rate) not in (int, float):
                raise ValueError(f"rates is {rates!r:.60}")
        return rates[0], rates[1]

    def origin(self) -> dict[str, Any]:
        origin = self.table("origin")
        versions = self.table("versions", origin)
        return {"created_at": str(origin["created_at"]), "versions": {str(k): str(v) for k, v in versions.items()}}

    # Arrays

    def take(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Take out an array of a type and a shape, in which None stands for any number."""
        array = self._arrays.pop(name)
        fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=False))
        if array.dtype != np.dtype(dtype) or not fits:
            raise ValueError(f"the array {name} has the type {array.dtype} and the shape {array.shape}")
        return array

    def batches(self, setup: Setup, chains: int, recorded: int) -> tuple[list[Batches], list[Arrays]]:
        """Return the closed batches and the sums over the open one, of each chain."""
        n = self.whole("batches", 0, setup.slots - 1)
        if n != recorded // batch_length(recorded, setup.slots):
            raise ValueError(f"it has {n} batches of each chain after {recorded} sweeps")
        opened, closed = {}, {}
        for name, width in _widths(setup).items():
            opened[name] = self.take(f"open.{name}", np.float64, (chains, width))
            closed[name] = self.take(f"batches.{name}", np.float64, (chains, n, opened[name].shape[1]))
        found = [
            Batches(setup.slots, [{name: closed[name][k, j] for name in closed} for j in range(n)])
            for k in range(chains)
        ]
        return found, [{name: array[k] for name, array in opened.items()} for k in range(chains)]

    def totals(self, setup: Setup, chains: int) -> list[Arrays]:
        d = setup.target.d
        found = {"flips": self.take("total.flips", np.int64, (chains, d))}
        if setup.target.kind == "paths":
            found["extremes"] = self.take("total.extremes", np.float64, (chains, 2, d))
            found |= {name: self.take(f"total.{name}", np.float64, (chains, d)) for name in ("low", "width")}
        return [{name: array[k] for name, array in found.items()} for k in range(chains)]

    def constants(self, setup: Setup, opened: Mapping[str, NDArray[Any]]) -> Arrays:
        """Return the arrays that describe the target; they are used as indices."""
        d, found = setup.target.d, {}
        if setup.target.kind == "paths":
            n = opened["cell"].size
            found["cells.first"] = self.take("constant.cells.first", np.int64, (d + 1,))
            _check_pointers("cells", found["cells.first"], n)
            for name in ("cells.slope", "cells.shift"):
                found[name] = self.take(f"constant.{name}", np.float64, (n,))
        elif setup.pairs == "edges":
            found["pairs.indptr"] = self.take("constant.pairs.indptr", np.int64, (d + 1,))
            found["pairs.indices"] = self.take("constant.pairs.indices", np.int32, (None,))
            n = found["pairs.indices"].size
            found["pairs.edge"] = self.take("constant.pairs.edge", np.int32, (n,))
            _check_pointers("pairs", found["pairs.indptr"], n)
            _check_range("pairs.indices", found["pairs.indices"], d)
            _check_range("pairs.edge", found["pairs.edge"], opened["pair_mean"].size)
        return found

    def states(self, workers: int) -> list[Arrays]:
        names = [name for name in self._arrays if name.startswith("state.")]
        stacked = {name.removeprefix("state."): self._arrays.pop(name) for name in names}
        if any(not array.ndim or len(array) != workers for array in stacked.values()):
            raise ValueError(f"it does not have the states of {workers} workers")
        return [{name: array[k] for name, array in stacked.items()} for k in range(workers)] if stacked else []

    def records(self, setup: Setup, batches: list[Batches], recorded: int, se_of: Any, place: Place | None) -> Records:
        chains, drawn = len(batches), recorded // setup.per_draw
        rows = self._rows(setup, chains, recorded, drawn, place)
        start = []
        if setup.keep == "path" and rows.templates:
            start = list(_check_spins(self.take("start", np.int8, (chains, setup.target.d))))
        else:
            self._arrays.pop("start", None)
        return Records(batches, rows, self._tracked(setup, chains, drawn, se_of), start)

    def _tracked(self, setup: Setup, chains: int, drawn: int, se_of: Any) -> Tracked | None:
        if self._header["tracked"] is None:
            return None
        tracked = Tracked(_unknown if se_of is None else se_of, chains, setup.slots)
        tracked.count = self.whole("tracked")
        if tracked.count != drawn:
            raise ValueError(f"a function was followed for {tracked.count} draws of {drawn}")
        if not drawn:
            return tracked
        n = drawn // batch_length(drawn, setup.slots)
        tracked.open = self.take("tracked.open", np.float64, (chains, None))
        closed = self.take("tracked.batches", np.float64, (chains, n, tracked.open.shape[1]))
        tracked.batches = [Batches(setup.slots, [{"f": row} for row in own]) for own in closed]
        return tracked

    def _rows(self, setup: Setup, chains: int, recorded: int, drawn: int, place: Place | None) -> Rows:
        """Return the rows, of which those in files are read where they are."""
        entries = self._header["rows"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("rows is not a list of tables")
        labels = [str(entry["label"]) for entry in entries]
        templates = {label_name(label): self._template(setup, label_name(label), k) for k, label in enumerate(labels)}
        if set(templates) - set(_parameters(templates)) != _expected_rows(setup, recorded > 0 or bool(entries)):
            raise ValueError(f"it has rows of {', '.join(templates) or 'nothing'}")
        folder = None if place is None else place.folder
        rows = Rows({}, chains, setup.keep == "means", folder, f".{self.whole('recordings')}.rows")
        rows.templates = templates
        if labels != [label for label, _, _ in rows.labelled()]:
            raise ValueError(f"it has rows of {', '.join(labels)}")
        for k, (entry, (label, width, like)) in enumerate(zip(entries, rows.labelled(), strict=True)):
            rows.columns[label] = self._column(rows, entry, k, label, width, like)
        counts = rows.columns.get("flip_count")
        for label, column in rows.columns.items():
            expected = recorded if label_name(label) in PER_SWEEP else drawn
            if label_name(label) in RAGGED and counts is not None:
                expected = int(counts.array()[int(label.partition(".")[2])].sum(dtype=np.int64))
            if isinstance(column, Thinned):
                expected = expected // column.spacing * column.spacing + column.count % column.spacing
            if column.count != expected:
                raise ValueError(f"it has {column.count} rows of {label!r}; expected {expected}")
            if label.startswith("flip_site"):
                _check_range(label, column.array(), setup.target.d)
        return rows

    def _template(self, setup: Setup, name: str, k: int) -> NDArray[Any]:
        """Return an array without rows of the type and shape that rows of a name have."""
        d = setup.target.d
        if name.startswith(PARAMETER):
            entry, array = self._header["rows"][k], self._arrays.get(f"rows.{k}")
            shape = array.shape[2:] if array is not None else entry["like"][1]
            if not isinstance(shape, list | tuple) or len(shape) > 6:
                raise ValueError(f"rows of {name!r:.60} have the shape {shape!r:.60}")
            return np.empty((0, *(whole("a side of a parameter", side, 0, 2**40) for side in shape)))
        return {
            "log_prob": np.empty(0),
            "magnetisation": np.empty(0),
            "draws": np.empty((0, d), np.int8 if setup.target.kind == "spins" else np.float64),
            "flip_site": np.empty(0, np.int32),
            "flip_time": np.empty(0),
            "flip_count": np.empty(0, np.int32),
        }[name]

    def _column(self, rows: Rows, entry: dict[str, Any], k: int, label: str, width: int, like: NDArray[Any]) -> Any:
        count, spacing = whole("count", entry["count"]), whole("spacing", entry["spacing"], 1)
        if entry["file"] is not None:
            if rows.folder is None or rows.thinned:
                raise ValueError(f"it has rows of {label!r} in a file")
            file, checksum = rows.file_of(label), whole("checksum", entry["file"], 0, 2**32 - 1)
            try:
                return InFile.reopen(file, width, like, count, checksum, rows.mapped)
            except (ValueError, OSError) as error:
                raise ValueError(f"{file} does not belong to it: {error}") from error
        if spacing & (spacing - 1) or (spacing > 1 and not rows.thinned):
            raise ValueError(f"every {spacing}-th row of {label!r} is kept")
        array = self.take(f"rows.{k}", like.dtype, (width, count // spacing, *like.shape[1:]))
        return Thinned.of(array, spacing, count) if rows.thinned else InMemory.of(array)

    def nothing_left(self) -> None:
        if self._arrays:
            raise ValueError(f"it has an array {next(iter(self._arrays))!r:.60}, which does not belong there")


def whole(name: str, value: Any, least: int = 0, most: int = 2**62) -> int:
    """Return a whole number of a header."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r:.60}; expected a whole number from {least} to {most}")
    return value


def _sampler_of(kind: str, described: dict[str, Any], target: Any, given: Any) -> Any:
    """Return the sampler that was described, or the one that is given if it is the same."""
    if given is not None:
        if described_sampler(given) != described:
            raise WrongRunError(f"the run is of the sampler {described}, but {given!r} was passed")
        return given
    try:
        return as_sampler(kind, described)
    except LookupError as error:
        raise WrongRunError(f"the run is of the sampler {error}, which is none of ours; pass it as sampler=") from None
    except TypeError as error:
        raise ValueError(f"its sampler is {described!r:.120}: {error}") from None


def _widths(setup: Setup) -> dict[str, int | None]:
    """Return the names of sums over batches and their sizes; None where these depend on the target."""
    d = setup.target.d
    if setup.target.kind == "paths":
        widths: dict[str, int | None] = {"mean": d, "square": d, "cell": None, "bin": d * (BINS + 2), "events": 4}
        return widths | ({"products": d * d} if setup.pairs == "all" else {})
    n = {"none": 0, "all": d * d, "edges": None}[setup.pairs]
    pairs: dict[str, int | None] = {} if setup.pairs == "none" else {"pair_path": n, "pair_mean": n}
    return {"path": d, "mean": d, "events": 4, **pairs}


def _expected_rows(setup: Setup, recording: bool) -> set[str]:
    if not recording:
        return set()
    names = {"log_prob"} | ({"magnetisation"} if setup.target.kind == "spins" else set())
    more = {"draws": {"draws"}, "means": set(), "path": {*RAGGED, *PER_SWEEP}}[setup.keep]
    return names | more


def _parameters(names: Mapping[str, Any]) -> list[str]:
    return [name for name in names if name.startswith(PARAMETER)]


def _label(label: Any) -> Hashable:
    found: Hashable = tuple(_label(part) for part in label) if isinstance(label, list) else label
    return found


def _unknown(states: NDArray[Any]) -> NoReturn:
    """Stand for a function of states that a file does not hold."""
    raise RuntimeError("the run goes by the standard error of a function, which no file holds; pass it as se_of=")


def _check_spins(array: NDArray[Any]) -> NDArray[np.int8]:
    if not (np.abs(array) == 1).all():
        raise ValueError("it has other numbers where spins, -1 or 1, are expected")
    return array


def _check_pointers(name: str, first: NDArray[np.int64], n: int) -> None:
    if first[0] != 0 or first[-1] != n or (np.diff(first) < 0).any():
        raise ValueError(f"the rows of its {name} do not follow each other")


def _check_range(name: str, values: NDArray[Any], n: int) -> None:
    if values.size and not 0 <= values.min() <= values.max() < n:
        raise ValueError(f"{name} holds {values.min()} to {values.max()}; expected 0 to {n - 1}")
