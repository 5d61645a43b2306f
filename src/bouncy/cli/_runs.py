"""Runs and their checkpoints: where they are saved, how they are loaded, shown and resumed.

Beside the checkpoint itself its directory holds the model, as `model.npz` or `model.json`, and `command.json`: the path
of the result, the path of the model file, and when the result was last written. So `bouncy resume` needs nothing else.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._output import check_extra, check_place, one_line, print_json, print_summary
from bouncy.cli._parameters import suffix_of

if TYPE_CHECKING:
    from bouncy.results.run import Run
    from bouncy.targets.contract import Target

# Packages that write a run, by the suffix of its file.
_NEEDED = {".npz": (), ".nc": ("xarray", "h5netcdf", "h5py"), ".zarr": ("xarray", "zarr")}
_COMMAND = "command.json"
_STATES = "state-*"
_MODELS = ("model.npz", "model.json")


def load_run(path: str) -> Run:
    """Read a run from a file, or from the directory of a checkpoint."""
    import bouncy

    run = bouncy.Run.load(path)
    if not run.draws_per_chain:
        raise click.ClickException(f"{path}: nothing is recorded yet, the run is in its warm-up")
    return run


def show(run: Run, as_json: bool, **more: Any) -> None:
    """Print the summary of a run: a table, or a JSON object with more entries."""
    if as_json:
        print_json({**run.summary().to_dict(), **more})
    else:
        print_summary(run.summary())


def check_out(out: str | None, force: bool) -> None:
    """Raise unless a run could be saved at `out`, if that is asked for."""
    if out is not None:
        suffix = suffix_of(out)
        check_extra(out, _NEEDED[suffix], "storage")
        check_place(out, force, directory=suffix == ".zarr")


@contextmanager
def without_interrupted_warning() -> Iterator[None]:
    """Leave it to `finish` to report that a run was interrupted."""
    import bouncy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bouncy.InterruptedWarning)
        yield


def finish(
    context: click.Context,
    run: Run,
    *,
    out: str | None,
    force: bool,
    as_json: bool,
    checkpoint: str | None,
    tell_seed: bool = False,
) -> None:
    """Save a run, show it, and exit with the code of its end. A run that cannot be saved is shown all the same."""
    recorded = run.log_prob.shape[1] > 0
    problem = _save(run, out, force, checkpoint) if recorded else None
    saved = out if recorded and problem is None else None
    if recorded or as_json:
        show(run, as_json, out=_absolute(saved), checkpoint=_absolute(checkpoint))
    if tell_seed and not as_json:
        click.echo(f"The seed was {run.seed}: the same bytes again with --seed.", err=True)
    if saved is not None:
        click.echo(f"Saved to {saved}.", err=True)
    if not run.completed:
        click.echo(_interruption(recorded, checkpoint), err=True)
    if problem is not None:
        raise click.ClickException(_save_error(out, problem, checkpoint)) from problem
    if not run.completed:
        context.exit(context.obj.exit_code)
    if not recorded:
        longer = "--total-seconds" if context.info_name == "resume" else "--seconds or a shorter --warmup"
        raise click.ClickException(f"the time was over before the warm-up was: give more {longer}")


def _save(run: Run, out: str | None, force: bool, checkpoint: str | None) -> Exception | None:
    """Save a run if a path is given, and return the error if that fails."""
    if out is None:
        return None
    try:
        run.save(out, overwrite=force)
        if checkpoint is not None:
            _write_facts(checkpoint, out=_absolute(out), written=_time_written(out))
    except Exception as error:
        return error
    return None


def _interruption(recorded: bool, checkpoint: str | None) -> str:
    found = "this is what the run had found by then" if recorded else "the run was still in its warm-up"
    return f"Interrupted: {found}." + ("" if checkpoint is None else f" To go on: bouncy resume {checkpoint}")


def _save_error(out: str | None, problem: Exception, checkpoint: str | None) -> str:
    text = f"the run could not be saved to {out}: {one_line(problem)}"
    if checkpoint is None:
        return text
    return f"{text}. Nothing is lost: {checkpoint} has all of it, and bouncy resume {checkpoint} --out FILE saves it"


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)


# Directories of checkpoints


def check_new_checkpoint(directory: str, force: bool) -> None:
    """Raise unless the directory is new or empty, or holds a checkpoint that `force` allows to replace."""
    folder = Path(directory)
    if not os.path.lexists(folder):
        check_place(directory, force, directory=True)
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise click.ClickException(f"cannot write checkpoints to {directory}: it is not a writable directory")
    if any(folder.glob(_STATES)) and not force:
        raise click.ClickException(
            f"{directory} holds a checkpoint: go on with `bouncy resume {directory}`, or begin anew with --force"
        )
    if any(folder.iterdir()) and not any(folder.glob(_STATES)) and not (folder / _COMMAND).exists():
        raise click.ClickException(f"{directory} holds other files; choose a new directory for checkpoints")


def begin_checkpoint(
    directory: str, target: Target, *, out: str | None, model: str, reading: dict[str, Any], every: float
) -> None:
    """Make the directory, remove an old checkpoint from it, and write what resuming needs beside the checkpoint."""
    folder = Path(directory)
    folder.mkdir(exist_ok=True)
    _clear(folder)
    _keep_model(directory, target)
    paths = {name: os.path.abspath(value) if name == "evidence" else value for name, value in reading.items()}
    source = {"path": os.path.abspath(model), "reading": paths}
    _write_facts(directory, out=_absolute(out), written=None, model=source, checkpoint_every=every)


def _clear(folder: Path) -> None:
    """Remove a checkpoint, unless a run is writing to it, and nothing else."""
    from bouncy.storage.checkpoint import Checkpoint

    Checkpoint(folder, every=1.0, new=True).close()  # raises if another process has it open
    for pattern in (_STATES, "*.rows", "lock", _COMMAND, *_MODELS):
        for file in folder.glob(pattern):
            file.unlink()


def _keep_model(directory: str, target: Target) -> None:
    """Write the model into the directory, if there is a format that can express it."""
    import bouncy

    for name in _MODELS:
        try:
            bouncy.save_model(target, os.path.join(directory, name))
        except (TypeError, ValueError):  # a class, or labels, that this format cannot express
            continue
        return


def load_kept_model(directory: str) -> Any:
    """Read the model of a checkpoint: the one kept with it, or else the file that it was first read from."""
    import bouncy

    for name in _MODELS:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return bouncy.load_model(path)
    source = read_facts(directory).get("model")
    if source is None:
        place = os.path.join(directory, _MODELS[0])
        raise click.ClickException(
            f"{directory} holds no model; pass its file, as in `bouncy resume {directory} MODEL`, or keep it there: "
            f"bouncy.save_model(target, {place!r})"
        )
    return bouncy.load_model(source["path"], **source["reading"])


def is_own_result(out: str | None, facts: dict[str, Any]) -> bool:
    """Return whether `out` is the file that an earlier part of the same run has written, unchanged since."""
    return out is not None and out == facts.get("out") and _time_written(out) == facts.get("written")


def read_facts(directory: str) -> dict[str, Any]:
    """Return the facts about the command that made a checkpoint; none if it was made from Python."""
    try:
        with open(os.path.join(directory, _COMMAND), "rb") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise click.ClickException(f"{os.path.join(directory, _COMMAND)} is damaged: {error}") from error
    return content if isinstance(content, dict) else {}


def _write_facts(directory: str, **facts: Any) -> None:
    """Add facts about the command, in one atomic write."""
    from bouncy.storage.atomic import atomic_file

    content = {**read_facts(directory), **facts}
    with atomic_file(os.path.join(directory, _COMMAND), overwrite=True) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")


def _time_written(path: str) -> int | None:
    """Return when a file was last written, in nanoseconds; None if it does not exist."""
    return os.stat(path).st_mtime_ns if os.path.exists(path) else None
