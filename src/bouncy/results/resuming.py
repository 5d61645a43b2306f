"""A run as what a checkpoint holds, and back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._fingerprint import target_fingerprint
from bouncy.results.describe import as_sampler, as_seed, described_sampler, described_seed
from bouncy.run.checkpoint import Checkpoint, CheckpointError
from bouncy.run.contract import AnyChain
from bouncy.run.families import Family, family_of
from bouncy.run.goal import Goal
from bouncy.run.growth import RECORDING, Growth
from bouncy.run.rows import RAGGED, InFile, Rows, Thinned

if TYPE_CHECKING:
    from bouncy.results.run import Run

Arrays = dict[str, NDArray[Any]]


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
        "goal": {**dataclasses.asdict(run._goal), "se_of": _described_function(run._goal.se_of)},
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
    if growth.tracked is not None:
        arrays |= {f"tracked.{name}": array.copy() for name, array in growth.tracked.arrays().items()}
    return header, arrays


def restored(
    checkpoint: Checkpoint, target: Any, sampler: Any, se_of: Any, header: dict[str, Any], arrays: Arrays
) -> tuple[Family, Growth, Goal, dict[str, Any]]:
    """Return the family, the growth, the goal and the options of a run, given what its checkpoint holds."""
    folder = checkpoint.folder
    fingerprint = target_fingerprint(target)
    if header["fingerprint"] != fingerprint:
        raise CheckpointError(
            folder,
            f"the checkpoint is of another model: {header['target']:.80} with fingerprint {header['fingerprint']:.16}, "
            f"but {target!r:.80} with fingerprint {fingerprint:.16} was passed",
        )
    sampler = _sampler_of(folder, _text(header["kind"]), header["sampler"], sampler)
    thin = _whole(header["thin"], 1)
    family = family_of(target, sampler, _text(header["pairs"]), _whole(header["slots"], 2), thin)
    chains = [_chain_of(family, _whole(number), arrays) for number in header["numbers"]]
    if not chains or len({chain.sweeps for chain in chains}) != 1:
        raise ValueError("its chains are not level")
    goal = _goal_of(folder, header["goal"], se_of)
    function = goal.se_of if callable(goal.se_of) else None
    growth = Growth(family, chains, _whole(header["warmup"]), _text(header["keep"]), folder, function)
    growth.stage, growth.begun = _whole(header["stage"]), _whole(header["begun"])
    growth.recordings, growth.warmup_seconds = _whole(header["recordings"]), float(header["warmup_seconds"])
    growth.set_keeps()
    if growth.stage == RECORDING:
        growth.rows = _rows_of(growth, header, arrays)
        growth.start = [arrays[f"start.{k}"] for k in range(len(chains))] if growth.keep == "path" else []
    if growth.tracked is not None and growth.stage == RECORDING:
        growth.tracked.restore({name: arrays[f"tracked.{name}"] for name in growth.tracked.arrays()})
    checkpoint.follow(_whole(header["generation"]), growth.rows)
    options = {
        "seed": as_seed(header["seed"]),
        "thin": thin,
        "chooses_warmup": bool(header["chooses_warmup"]),
        "stopped_by": _text(header["stopped_by"]),
    }
    return family, growth, goal, options


def _chain_of(family: Family, number: int, arrays: Arrays) -> AnyChain:
    """Return a chain in the state that the arrays describe."""
    prefix = f"chain.{number}."
    state = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    spins = state.get("s", state.get("block.s"))
    chain = family.new_chain(np.random.SeedSequence(0), spins, number)
    chain.restore(state)
    return chain


def _rows_of(growth: Growth, header: dict[str, Any], arrays: Arrays) -> Rows:
    """Return the rows that a generation knows of."""
    folder = growth.folder
    assert folder is not None
    rows = Rows({}, len(growth.chains), growth.thinned, folder, growth.suffix)
    rows.adopt(growth.templates())
    for label, like in rows.labelled():
        chains = 1 if label.partition(".")[0] in RAGGED else len(growth.chains)
        if growth.thinned:
            column = Thinned(chains, like)
            spacing, count = map(int, arrays[f"spacing.{label}"])
            column.restore(arrays[f"rows.{label}"], spacing, count)
            rows.columns[label] = column
            continue
        written, checksum = header["rows"][label]
        try:
            rows.columns[label] = InFile.reopen(rows.file_of(label), chains, like, _whole(written), _whole(checksum))
        except (ValueError, OSError) as error:
            raise ValueError(f"{rows.file_of(label)} does not belong to it: {error}") from error
    return rows


def _sampler_of(folder: Path, kind: str, described: dict[str, Any], given: Any) -> Any:
    """Return the sampler that was described, or the one that is given if it is the same."""
    if given is not None:
        if described_sampler(given) != described:
            raise CheckpointError(folder, f"the checkpoint is of the sampler {described}, but {given!r} was passed")
        return given
    try:
        return as_sampler(kind, described)
    except LookupError as error:
        raise CheckpointError(folder, f"the checkpoint is of the sampler {error}; pass it as sampler=") from None


def _goal_of(folder: Path, described: dict[str, Any], se_of: Any) -> Goal:
    goal = Goal(**described)
    if goal.se_of == _FUNCTION:
        if not callable(se_of):
            raise CheckpointError(folder, "the run goes by the standard error of a function; pass it as se_of=")
        goal.se_of = se_of
    numbers = [goal.draws, goal.seconds, goal.until_se, goal.next_look, goal.disagree_since]
    if not all(value is None or (type(value) in (int, float) and value >= 0) for value in numbers):
        raise ValueError(f"its goal is {described!r:.120}")
    return goal


_FUNCTION = "a function of states"


def _described_function(se_of: Any) -> str:
    return _FUNCTION if callable(se_of) else se_of


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"it has {value!r:.60} where a whole number from {least} is expected")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it has {value!r:.60} where a word is expected")
    return value
