"""A run as what a checkpoint holds, and back."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._fingerprint import target_fingerprint
from bouncy._samplable import Samplable
from bouncy.recorders.recorder import CLOSED, LENGTH, OPEN, SINCE_DRAW, THIN
from bouncy.results.describe import as_sampler, as_seed, described_sampler, described_seed
from bouncy.results.paths import PathRun
from bouncy.results.run import NO_RESOURCES, Run
from bouncy.results.spins import SpinRun
from bouncy.run.chain import Chain
from bouncy.run.checkpoint import CheckpointError, read
from bouncy.run.contract import AnyChain, check_like
from bouncy.run.families import Family, family_of
from bouncy.run.goal import Goal
from bouncy.run.growth import RECORDING, Growth
from bouncy.run.rows import PER_SWEEP, RAGGED, InFile, Rows, Thinned

Arrays = dict[str, NDArray[Any]]

# Why a run may have stopped, if it has.
_REASONS = ("nothing", "draws", "seconds", "until_se", "disagreement", "interrupt")
# Words in the pool of a seed sequence, of which numpy has four by default.
_MOST_POOL = 64
_ANY_SEED = 1 << 4096


def saved(run: Run) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a checkpoint."""
    growth, options = run._growth, run._options
    family = growth.family
    header = {
        "target": repr(run.target),
        "fingerprint": run.fingerprint,
        "kind": family.kind,
        "sampler": described_sampler(run.sampler),
        "pairs": family.pairs,
        "slots": family.slots,
        "seed": described_seed(run.seed),
        "thin": run.thin,
        "keep": growth.keep,
        "chooses_warmup": options["chooses_warmup"],
        "numbers": [chain.number for chain in growth.chains],
        "stage": growth.stage,
        "warmup": growth.warmup,
        "begun": growth.begun,
        "recordings": growth.recordings,
        "warmup_seconds": growth.warmup_seconds,
        "goal": dataclasses.asdict(dataclasses.replace(run._goal, se_of=_described_function(run._goal.se_of))),
        "stopped_by": run.stopped_by,
    }
    arrays: Arrays = {}
    for chain in growth.chains:
        arrays |= {f"chain.{chain.number}.{name}": array for name, array in chain.state().items()}
    for label, column in growth.rows.columns.items():
        if isinstance(column, Thinned):
            arrays[f"rows.{label}"] = column.array()
            arrays[f"spacing.{label}"] = np.array([column.spacing, int(column.count.min())])
    arrays |= {f"start.{k}": start for k, start in enumerate(growth.start)}
    if growth.tracked is not None and growth.stage == RECORDING:
        arrays |= {f"tracked.{name}": array.copy() for name, array in growth.tracked.arrays().items()}
    return header, arrays


class Restored(NamedTuple):
    """A run that was read from a checkpoint, and where it is to go."""

    run: Run
    goal: Goal
    state: str  # file of the generation
    generation: int


def look_into(path: str | os.PathLike[str], target: Any) -> Run:
    """Return a run as its last checkpoint has it, also while it goes on. It cannot be extended."""
    if target is None:
        raise TypeError(f"{path} is a checkpoint, which does not hold its model: pass it as target=")
    found = read(path, lambda header, arrays: restored(Path(path).absolute(), target, None, _ask, header, arrays))
    if found.run.stopped_by == "nothing":
        found.run.stopped_by = "interrupt"
    return found.run


def _ask(states: NDArray[Any]) -> NDArray[Any]:
    """Stand for a function of states that nobody is going to call."""
    raise NotImplementedError("a run that is looked into does not go on")


def restored(folder: Path, target: Any, sampler: Any, se_of: Any, header: dict[str, Any], arrays: Arrays) -> Restored:
    """Return a run, given what its checkpoint holds."""
    _check_target(folder, target, header)
    sampler = _sampler_of(folder, target, _word(header["kind"], ("spins", "paths")), header["sampler"], sampler)
    thin, numbers = _whole(header["thin"], 1), _numbers(header["numbers"])
    slots = _slots(_whole(header["slots"], 2), numbers, arrays)
    family = family_of(target, sampler, _word(header["pairs"], ("all", "edges", "none")), slots, thin)
    chains = [_chain_of(family, number, arrays) for number in numbers]
    if len({chain.sweeps for chain in chains}) != 1:
        raise ValueError("its chains are not level")
    goal = _goal_of(folder, family, header["goal"], se_of)
    function = goal.se_of if callable(goal.se_of) else None
    keep = _word(header["keep"], ("draws", "means", "path") if isinstance(chains[0], Chain) else ("draws", "means"))
    growth = Growth(family, chains, _whole(header["warmup"]), keep, folder, function)
    growth.stage, growth.begun = _whole(header["stage"], 0, RECORDING), _whole(header["begun"], 0, growth.level)
    growth.recordings, growth.warmup_seconds = _whole(header["recordings"]), _number(header["warmup_seconds"])
    growth.set_keeps()
    if growth.stage == RECORDING:
        _restore_recording(growth, header["rows"], arrays)
    elif header["rows"] or growth.level > growth.warmup:
        raise ValueError(f"it has draws, or {growth.level} sweeps, in a warm-up of {growth.warmup}")
    if arrays:
        raise ValueError(f"it has an array {next(iter(arrays))!r:.60}, which does not belong there")
    options = {
        "seed": _seed_of(header["seed"]),
        "thin": thin,
        "chooses_warmup": _word(header["chooses_warmup"], (False, True)),
        **NO_RESOURCES,
    }
    run = (PathRun if family.kind == "paths" else SpinRun)(target, family.sampler, growth, options)
    run.stopped_by, run._goal = _word(header["stopped_by"], _REASONS), goal
    return Restored(run, goal, header["state"], _whole(header["generation"]))


def _check_target(folder: Path, target: Any, header: dict[str, Any]) -> None:
    """Raise unless a target is the one that was sampled."""
    if not isinstance(target, Samplable):
        raise CheckpointError(folder, f"target must be the bouncy target that was sampled, got {target!r:.60}")
    fingerprint = target_fingerprint(target)
    if header["fingerprint"] != fingerprint:
        raise CheckpointError(
            folder,
            f"the checkpoint is of another model: {header['target']!s:.80} with fingerprint "
            f"{header['fingerprint']!s:.16}, but {target!r:.80} with fingerprint {fingerprint:.16} was passed",
        )


def _numbers(value: Any) -> list[int]:
    """Return what chains are called."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"it has {value!r:.60} where the numbers of its chains are expected")
    numbers = [_whole(number) for number in value]
    if len(set(numbers)) < len(numbers):
        raise ValueError("it has a chain twice")
    return numbers


def _slots(slots: int, numbers: list[int], arrays: Arrays) -> int:
    """Return the number of batches, if there are as many as that of each chain: before room is made for them."""
    for number in numbers:
        found = [
            arrays[name]
            for name in (f"chain.{number}.{part}recorder.events" for part in ("", "block."))
            if name in arrays
        ]
        if not found or found[0].shape[:1] != (slots,):
            raise ValueError(f"chain {number} has not the {slots} batches that it should have")
    return slots


def _chain_of(family: Family, number: int, arrays: Arrays) -> AnyChain:
    """Return a chain in the state that the arrays describe, which are taken out of the others."""
    prefix = f"chain.{number}."
    names = [name for name in arrays if name.startswith(prefix)]
    state = {name.removeprefix(prefix): arrays.pop(name) for name in names}
    spins = state.get("s", state.get("block.s"))
    start = None if spins is None else _spins(spins, family.target.d)
    chain = family.new_chain(np.random.SeedSequence(0), start, number)
    chain.restore(state)
    _check_counts_of(family, chain)
    return chain


def _check_counts_of(family: Family, chain: AnyChain) -> None:
    """Raise unless the counts of a chain are possible: compiled code trusts them."""
    tally = chain.recorder.tally
    batches = 0 <= tally[OPEN] <= tally[LENGTH] and 0 <= tally[CLOSED] < family.slots
    draws = 0 <= tally[SINCE_DRAW] <= tally[THIN] and tally[THIN] > 0 == tally[THIN] % family.thin
    if not batches or not draws or chain.sweeps < 0 or not 0.0 <= chain.cpu_seconds < np.inf:
        raise ValueError(f"chain {chain.number} has counted {tally.tolist()} batches and draws")


def _restore_recording(growth: Growth, written: Any, arrays: Arrays) -> None:
    """Put back all that was recorded; the arrays of it are taken out of the others."""
    if growth.begun != growth.warmup:
        raise ValueError(f"it has {growth.begun} sweeps before its draws, but a warm-up of {growth.warmup}")
    growth.rows = _rows_of(growth, written, arrays)
    if growth.keep == "path":
        growth.start = [_spins(arrays.pop(f"start.{k}"), growth.family.target.d) for k in range(len(growth.chains))]
    _restore_tracked(growth, arrays)


def _rows_of(growth: Growth, written: Any, arrays: Arrays) -> Rows:
    """Return the rows that a generation knows of."""
    folder = growth.folder
    assert folder is not None
    rows = Rows({}, len(growth.chains), growth.thinned, folder, growth.suffix)
    rows.adopt(growth.templates())
    for label, like in rows.labelled():
        chains = 1 if label.partition(".")[0] in RAGGED else len(growth.chains)
        if growth.thinned:
            rows.columns[label] = _thinned(label, chains, like, growth.drawn, arrays)
        else:
            rows.columns[label] = _in_file(rows, label, chains, like, written[label])
    _check_counts(growth, rows)
    return rows


def _thinned(label: str, chains: int, like: NDArray[Any], drawn: int, arrays: Arrays) -> Thinned:
    kept, numbers = arrays.pop(f"rows.{label}"), arrays.pop(f"spacing.{label}")
    check_like(
        {label: kept, "spacing": numbers},
        {label: np.empty((chains, kept.shape[1], *like.shape[1:]), like.dtype), "spacing": np.zeros(2, np.int64)},
    )
    spacing, count = numbers.tolist()
    if (
        spacing < 1
        or spacing & (spacing - 1)
        or count // spacing != drawn // spacing
        or kept.shape[1] != count // spacing
    ):
        raise ValueError(
            f"it has {kept.shape[1]} of {count} points of {label!r}, every {spacing}-th, after {drawn} draws"
        )
    column = Thinned(chains, like)
    column.restore(kept, spacing, count)
    return column


def _in_file(rows: Rows, label: str, chains: int, like: NDArray[Any], table: Any) -> InFile:
    written, checksum = table
    try:
        return InFile.reopen(rows.file_of(label), chains, like, _whole(written), _whole(checksum), rows.hold)
    except (ValueError, OSError) as error:
        raise ValueError(f"{rows.file_of(label)} does not belong to it: {error}") from error


def _check_counts(growth: Growth, rows: Rows) -> None:
    """Raise unless there are as many rows as the sweeps of the chains give."""
    for label, column in rows.columns.items():
        name, _, place = label.partition(".")
        expected = growth.sweeps if name in PER_SWEEP else growth.drawn
        if name in RAGGED:
            expected = int(rows.array("flip_count")[int(place)].sum(dtype=np.int64))
        if not growth.thinned and int(column.count.min()) != expected:
            raise ValueError(f"it has {column.count.min()} rows of {label!r}; expected {expected}")


def _restore_tracked(growth: Growth, arrays: Arrays) -> None:
    """Put back what is known of a function whose mean is followed."""
    if growth.tracked is None:
        return
    own = growth.tracked.arrays()
    found = {name: arrays.pop(f"tracked.{name}") for name in own}
    k = found["open"].shape[-1]
    check_like(
        found, {name: array if array.ndim == 1 else np.empty((*array.shape[:-1], k)) for name, array in own.items()}
    )
    growth.tracked.restore(found)
    if any(growth.tracked.count(place) != growth.drawn for place in range(len(growth.chains))):
        raise ValueError("it has followed the function for another number of draws")


def _spins(array: NDArray[Any], d: int) -> NDArray[np.int8]:
    if array.dtype != np.int8 or array.shape != (d,) or not (np.abs(array) == 1).all():
        raise ValueError(f"it has {array.dtype} of shape {array.shape} where {d} spins, -1 or 1, are expected")
    return array


def _seed_of(described: Any) -> int | np.random.SeedSequence:
    if not isinstance(described, dict):
        return as_seed(_whole(described, most=_ANY_SEED))
    if not 4 <= _whole(described["pool_size"]) <= _MOST_POOL:
        raise ValueError(f"its seed is {described!r:.120}")
    return as_seed(described)


def _sampler_of(folder: Path, target: Any, kind: str, described: dict[str, Any], given: Any) -> Any:
    """Return the sampler that was described, or the one that is given if it is the same."""
    if given is not None:
        given = family_of(target, given, "none", 2, 1).sampler
        if described_sampler(given) != described:
            raise CheckpointError(folder, f"the checkpoint is of the sampler {described}, but {given!r} was passed")
        return given
    try:
        return as_sampler(kind, described)
    except LookupError as error:
        raise CheckpointError(folder, f"the checkpoint is of the sampler {error}; pass it as sampler=") from None


def _goal_of(folder: Path, family: Family, described: dict[str, Any], se_of: Any) -> Goal:
    goal = Goal(**described)
    if goal.se_of == _FUNCTION:
        if not callable(se_of):
            raise CheckpointError(folder, "the run goes by the standard error of a function; pass it as se_of=")
        goal.se_of = se_of
    else:
        _word(goal.se_of, (PathRun if family.kind == "paths" else SpinRun)._estimates)
        if "pair" in str(goal.se_of) and family.pairs == "none":
            raise ValueError("it goes by means of pairs, which it does not record")
    for count in (goal.next_look, goal.disagree_since, *([] if goal.draws is None else [goal.draws])):
        _whole(count)
    bounds = [goal.draws, goal.seconds, goal.until_se]
    if all(bound is None for bound in bounds) or any(bound is not None and _number(bound) <= 0.0 for bound in bounds):
        raise ValueError(f"its goal is {described!r:.120}")
    return goal


_FUNCTION = "a function of states"


def _described_function(se_of: Any) -> str:
    return _FUNCTION if callable(se_of) else se_of


def _whole(value: Any, least: int = 0, most: int = 2**62) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"it has {value!r:.60} where a whole number from {least} to {most} is expected")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        raise ValueError(f"it has {value!r:.60} where a number is expected")
    return float(value)


def _word(value: Any, choices: tuple[Any, ...]) -> Any:
    if type(value) is not type(choices[0]) or value not in choices:
        raise ValueError(f"it has {value!r:.60}; expected one of {', '.join(map(str, choices))}")
    return value
