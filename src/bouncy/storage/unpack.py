"""From a header and named arrays to a run.

What a header or an array says is checked here, once, before anything is computed from it: types, shapes, ranges and
whether the numbers agree with each other. A worker checks its own state when it is restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bouncy.piecewise.recorder import BINS
from bouncy.recorders.batches import Batches, batch_length
from bouncy.recorders.ladder import ROWS
from bouncy.recorders.tracked import Tracked
from bouncy.results import as_run
from bouncy.results.data import RECORDING, Data, Place, Records, Setup
from bouncy.results.run import Run
from bouncy.storage.header import COUNTS, Header, whole
from bouncy.storage.rows import PER_SWEEP, RAGGED, Column, InFile, InMemory, Rows, Thinned, label_name
from bouncy.storage.stored_target import StoredTarget
from bouncy.workers.contract import flocks_of
from bouncy.workers.within import PARAMETER

Arrays = dict[str, NDArray[Any]]

# Axes of a parameter.
_MOST_AXES = 6


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
    known = Header(header)
    taken = _Arrays(arrays)
    setup = known.setup(taken.take("labels", np.uint8, (None,)).tobytes(), target, sampler)
    chains = known.chains()
    counts = {name: known.whole(name) for name in COUNTS}
    if counts["stage"] > RECORDING or counts["begun"] > counts["sweeps"]:
        raise ValueError(f"its counts of stages and sweeps are impossible: {counts}")
    recorded = counts["sweeps"] - counts["begun"] if counts["stage"] == RECORDING else 0
    batches, opened = taken.batches(setup, len(chains), recorded, known.whole("batches", 0, setup.slots - 1))
    drawn = recorded // setup.per_draw
    rows = _read_rows(known, taken, setup, len(chains), recorded, place)
    data = Data(
        setup=setup,
        goal=known.goal(setup),
        stopped_by=known.stopped_by(),
        chains=chains,
        **counts,
        cpu_seconds=known.number("cpu_seconds"),
        warmup_seconds=known.number("warmup_seconds"),
        sweep_time=known.number("sweep_time"),
        rates=known.rates(),
        records=Records(
            batches,
            rows,
            _read_tracked(known.tracked(), taken, setup, len(chains), drawn, se_of),
            taken.start(setup, len(chains)),
        ),
        open=opened,
        totals=taken.totals(setup, len(chains)),
        constants=taken.constants(setup, opened[0]),
        states=taken.states(len(flocks_of(len(chains), setup.lanes))),
        checkpoint=place,
        origin=known.origin(),
    )
    taken.check_empty()
    return as_run(data)  # type: ignore[no-any-return]


class _Arrays:
    """Arrays of a packed run, from which those that are expected are taken, one by one."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = dict(arrays)

    def take(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Take out an array of a type and a shape, in which None stands for any number."""
        array = self._arrays.pop(name)
        fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=False))
        if array.dtype != np.dtype(dtype) or not fits:
            raise ValueError(f"the array {name} has the type {array.dtype} and the shape {array.shape}")
        return array

    def batches(self, setup: Setup, chains: int, recorded: int, n: int) -> tuple[list[Batches], list[Arrays]]:
        """Return the n closed batches and the sums over the open one, of each chain."""
        if n != recorded // batch_length(recorded, setup.slots):
            raise ValueError(f"it has {n} batches of each chain after {recorded} sweeps")
        opened, closed = {}, {}
        for name, width in _widths(setup, self._has_expectations(setup)).items():
            opened[name] = self.take(f"open.{name}", np.float64, (chains, width))
            closed[name] = self.take(f"batches.{name}", np.float64, (chains, n, opened[name].shape[1]))
        found = [
            Batches(setup.slots, [{name: closed[name][k, j] for name in closed} for j in range(n)])
            for k in range(chains)
        ]
        return found, [{name: array[k] for name, array in opened.items()} for k in range(chains)]

    def _has_expectations(self, setup: Setup) -> bool:
        """Return whether variables given the others were recorded, which depends on a target that may not be known."""
        found = "open.path_mean" in self._arrays
        known = setup.target.kind == "paths" and not isinstance(setup.target, StoredTarget)
        if known and found != setup.sampler.records_expectations(setup.target.sampled):
            raise ValueError(f"it has {'' if found else 'no '}expectations of each variable given the others")
        return found

    def totals(self, setup: Setup, chains: int) -> list[Arrays]:
        d = setup.target.d
        found = {"flips": self.take("total.flips", np.int64, (chains, d))}
        if setup.target.kind == "paths":
            found["evaluations"] = self.take("total.evaluations", np.int64, (chains, 3))
            found["extremes"] = self.take("total.extremes", np.float64, (chains, 2, d))
            found |= {name: self.take(f"total.{name}", np.float64, (chains, d)) for name in ("low", "width")}
        if setup.is_tempered:
            found["trips"] = self.take("total.trips", np.int64, (chains, 1))
            found["best"] = _check_spins(self.take("total.best", np.int8, (chains, d)))
            found["best_log_prob"] = self.take("total.best_log_prob", np.float64, (chains, 1))
        return [{name: array[k] for name, array in found.items()} for k in range(chains)]

    def constants(self, setup: Setup, opened: Mapping[str, NDArray[Any]]) -> Arrays:
        """Return the arrays that describe the target; they are used as indices."""
        d, found = setup.target.d, {}
        if setup.target.kind == "paths":
            n = opened["cell"].size
            found["cells.first"] = self.take("constant.cells.first", np.int64, (d + 1,))
            _check_pointers("cells", found["cells.first"], n)
            for name in ("cells.slope", "cells.shift", "cells.upper"):
                found[name] = self.take(f"constant.{name}", np.float64, (n,))
        elif setup.pairs == "edges":
            found["pairs.indptr"] = self.take("constant.pairs.indptr", np.int64, (d + 1,))
            found["pairs.indices"] = self.take("constant.pairs.indices", np.int32, (None,))
            n = found["pairs.indices"].size
            found["pairs.edge"] = self.take("constant.pairs.edge", np.int32, (n,))
            _check_pointers("pairs", found["pairs.indptr"], n)
            _check_range("pairs.indices", found["pairs.indices"], d)
            _check_range("pairs.edge", found["pairs.edge"], opened["pair_mean"].size)
        controls = "constant.couplings.data" in self._arrays
        if controls:
            found |= self._couplings(d)
        if setup.target.kind == "spins":
            for name, width in (("state", d), ("spread", d + 1)):
                if opened[name].size not in ((width,) if controls else (0, width)):
                    raise ValueError(f"it has {opened[name].size} sums called {name}")
        if setup.is_tempered:
            for name in ("ladder.b", "ladder.offset"):
                found[name] = self.take(f"constant.{name}", np.float64, (setup.rungs,))
        if setup.is_clustered:
            found["clusters.in_a_field"] = self.take("constant.clusters.in_a_field", np.bool_, (d,))
        if "cluster_pair_mean" in opened:
            found["clusters.coupled"] = self.take("constant.clusters.coupled", np.bool_, (d * d,))
        return found

    def _couplings(self, d: int) -> Arrays:
        indptr = self.take("constant.couplings.indptr", np.int64, (d + 1,))
        indices = self.take("constant.couplings.indices", np.int32, (None,))
        data = self.take("constant.couplings.data", np.float64, (indices.size,))
        _check_pointers("couplings", indptr, indices.size)
        _check_range("couplings.indices", indices, d)
        return {"couplings.indptr": indptr, "couplings.indices": indices, "couplings.data": data}

    def states(self, workers: int) -> list[Arrays]:
        names = [name for name in self._arrays if name.startswith("state.")]
        stacked = {name.removeprefix("state."): self._arrays.pop(name) for name in names}
        if any(not array.ndim or len(array) != workers for array in stacked.values()):
            raise ValueError(f"it does not have the states of {workers} workers")
        return [{name: array[k] for name, array in stacked.items()} for k in range(workers)] if stacked else []

    def start(self, setup: Setup, chains: int) -> list[NDArray[np.int8]]:
        """Return the states in which the recording of a path began, if it is kept."""
        return list(_check_spins(self.take("start", np.int8, (chains, setup.target.d)))) if setup.keep == "path" else []

    def like(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of an array behind its first two axes; None where there is no such array."""
        return self._arrays[name].shape[2:] if name in self._arrays else None

    def check_empty(self) -> None:
        if self._arrays:
            raise ValueError(f"it has an array {next(iter(self._arrays))!r:.60}, which does not belong there")


def _read_tracked(
    count: int | None, arrays: _Arrays, setup: Setup, chains: int, drawn: int, se_of: Any
) -> Tracked | None:
    if count is None:
        return None
    if count != drawn:
        raise ValueError(f"a function was followed for {count} draws of {drawn}")
    tracked = Tracked(_unknown if se_of is None else se_of, chains, setup.slots)
    tracked.count = count
    if drawn:
        n = drawn // batch_length(drawn, setup.slots)
        tracked.open = arrays.take("tracked.open", np.float64, (chains, None))
        closed = arrays.take("tracked.batches", np.float64, (chains, n, tracked.open.shape[1]))
        tracked.batches = [Batches(setup.slots, [{"f": row} for row in own]) for own in closed]
    return tracked


# Rows


def _read_rows(header: Header, arrays: _Arrays, setup: Setup, chains: int, recorded: int, place: Place | None) -> Rows:
    """Return the rows, of which those in files are read where they are."""
    entries = header.rows()
    labels = [str(entry["label"]) for entry in entries]
    templates = {
        label_name(label): _template(setup, label_name(label), entry, arrays.like(f"rows.{k}"))
        for k, (label, entry) in enumerate(zip(labels, entries, strict=True))
    }
    own = {name for name in templates if not name.startswith(PARAMETER)}
    if own != _expected_rows(setup, recorded > 0 or bool(entries)):
        raise ValueError(f"it has rows of {', '.join(templates) or 'nothing'}")
    folder = None if place is None else place.folder
    rows = Rows({}, chains, setup.keep == "means", folder, f".{header.whole('recordings')}.rows")
    rows.templates = templates
    if labels != [label for label, _, _ in rows.labelled()]:
        raise ValueError(f"it has rows of {', '.join(labels)}")
    for k, (entry, (label, width, like)) in enumerate(zip(entries, rows.labelled(), strict=True)):
        rows.columns[label] = _read_column(rows, arrays, entry, k, label, width, like)
    _check_counts(rows, recorded, recorded // setup.per_draw)
    for label, column in rows.columns.items():
        if label_name(label) == "flip_site":
            _check_range(label, column.array(), setup.target.d)
    return rows


def _template(setup: Setup, name: str, entry: Mapping[str, Any], like: tuple[int, ...] | None) -> NDArray[Any]:
    """Return an array without rows of the type and shape that rows of a name have."""
    if name.startswith(PARAMETER):
        shape = entry["like"] if like is None else list(like)
        if not isinstance(shape, list) or len(shape) > _MOST_AXES:
            raise ValueError(f"rows of {name!r:.60} have the shape {shape!r:.60}")
        return np.empty((0, *(whole("a side of a parameter", side, 0, 2**40) for side in shape)))
    templates = {
        "log_prob": np.empty(0),
        "magnetisation": np.empty(0),
        "draws": np.empty((0, setup.target.d), np.int8 if setup.target.kind == "spins" else np.float64),
        "flip_site": np.empty(0, np.int32),
        "flip_time": np.empty(0),
        "flip_count": np.empty(0, np.int32),
        "ladder": np.empty((0, setup.rungs)),
    }
    if name not in templates:
        raise ValueError(f"it has rows of {name!r:.60}")
    return templates[name]


def _read_column(
    rows: Rows, arrays: _Arrays, entry: Mapping[str, Any], k: int, label: str, width: int, like: NDArray[Any]
) -> Column:
    count, spacing = whole("count", entry["count"]), whole("spacing", entry["spacing"], 1)
    if spacing & (spacing - 1) or (spacing > 1 and not rows.thinned):
        raise ValueError(f"every {spacing}-th row of {label!r} is kept")
    if entry["file"] is not None:
        if rows.folder is None or rows.thinned:
            raise ValueError(f"it has rows of {label!r} in a file")
        file, checksum = rows.file_of(label), whole("checksum", entry["file"], 0, 2**32 - 1)
        try:
            return InFile.reopen(file, width, like, count, checksum, rows.mapped)
        except (ValueError, OSError) as error:
            raise ValueError(f"{file} does not belong to it: {error}") from error
    array = arrays.take(f"rows.{k}", like.dtype, (width, count // spacing, *like.shape[1:]))
    return Thinned.of(array, spacing, count) if rows.thinned else InMemory.of(array)


def _check_counts(rows: Rows, recorded: int, drawn: int) -> None:
    """Raise unless there are as many rows as so many sweeps and draws give."""
    flips = rows.columns["flip_count"].array() if "flip_count" in rows.columns else None
    if flips is not None and flips.size and flips.min() < 0:
        raise ValueError("flip_count holds negative numbers")
    for label, column in rows.columns.items():
        expected = recorded if label_name(label) in PER_SWEEP else drawn
        if label_name(label) in RAGGED and flips is not None:
            expected = int(flips[int(label.partition(".")[2])].sum(dtype=np.int64))
        if isinstance(column, Thinned):
            expected = expected // column.spacing * column.spacing + column.count % column.spacing
        if column.count != expected:
            raise ValueError(f"it has {column.count} rows of {label!r}; expected {expected}")


# Ranges


def _widths(setup: Setup, expectations: bool) -> dict[str, int | None]:
    """Return the names of sums over batches and their sizes; None where these depend on the target."""
    d = setup.target.d
    if setup.target.kind == "paths":
        moments: dict[str, int | None] = {"mean": d, "square": d, "cell": None}
        moments |= {"products": d * d} if setup.pairs == "all" else {}
        if expectations:
            moments |= {f"path_{name}": width for name, width in moments.items()}
            moments |= {"pull": d, "spread": d, "response": None}
        return moments | {"bin": d * (BINS + 2), "events": 4}
    n = {"none": 0, "all": d * d, "edges": None}[setup.pairs]
    pairs: dict[str, int | None] = {} if setup.pairs == "none" else {"pair_path": n, "pair_mean": n}
    ladder = {"ladder": ROWS * setup.rungs} if setup.is_tempered else {}
    return {
        "path": d,
        "mean": d,
        "state": None,
        "spread": None,
        "events": 5,
        **pairs,
        **ladder,
        **_cluster_widths(setup),
    }


def _cluster_widths(setup: Setup) -> dict[str, int]:
    """Return the names and sizes of sums that clusters tell."""
    d: int = setup.target.d
    if not setup.is_clustered:
        return {}
    if not setup.sampler.finds_all_clusters:
        return {"moments": 2}
    return {"moments": 2, "cluster_mean": d} | ({"cluster_pair_mean": d * d} if setup.pairs == "all" else {})


def _expected_rows(setup: Setup, recording: bool) -> set[str]:
    if not recording:
        return set()
    names = {"log_prob"} | ({"magnetisation"} if setup.target.kind == "spins" else set())
    names |= {"ladder"} if setup.is_tempered else set()
    more = {"draws": {"draws"}, "means": set(), "path": {*RAGGED, *PER_SWEEP}}[setup.keep]
    return names | more


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
