"""What the command line keeps in the directory of a checkpoint, so that `bouncy resume` needs nothing else.

Beside the checkpoint itself there are the model, as `model.npz` or `model.json`, and `command.json`: where the result
goes, where the model came from, and what was last written there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._places import check_place

if TYPE_CHECKING:
    from bouncy.targets.contract import Target

_COMMAND = "command.json"
_STATES = "state-*"
_MODELS = ("model.npz", "model.json")


def check_new(directory: str, force: bool) -> None:
    """Raise unless a checkpoint can be begun in a directory: a new or an empty one, or one of ours that may go."""
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


def begin(
    directory: str, target: Target, *, out: str | None, model: str, reading: dict[str, Any], every: float
) -> None:
    """Make a directory with what resuming needs beside the checkpoint; what is left of an old one goes."""
    folder = Path(directory)
    folder.mkdir(exist_ok=True)
    _clear(folder)
    _keep_model(directory, target)
    paths = {name: os.path.abspath(value) if name == "evidence" else value for name, value in reading.items()}
    source = {"path": os.path.abspath(model), "reading": paths}
    remember(directory, out=None if out is None else os.path.abspath(out), written=None, model=source, every=every)


def _clear(folder: Path) -> None:
    """Remove a checkpoint, unless a run is writing to it, and nothing else."""
    from bouncy.run.checkpoint import Checkpoint

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
        except (TypeError, ValueError):  # a class, or labels, that this format has no words for
            continue
        return


def kept_model(directory: str) -> Any:
    """Read the model of a checkpoint: the one kept with it, or else the file that it was first read from."""
    import bouncy

    for name in _MODELS:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return bouncy.load_model(path)
    source = recall(directory).get("model")
    if source is None:
        place = os.path.join(directory, _MODELS[0])
        raise click.ClickException(
            f"{directory} holds no model; pass its file, as in `bouncy resume {directory} MODEL`, or keep it there: "
            f"bouncy.save_model(target, {place!r})"
        )
    return bouncy.load_model(source["path"], **source["reading"])


def remember(directory: str, **facts: Any) -> None:
    """Add facts to what is known about the command, whole or not at all."""
    from bouncy.storage.atomic import atomic_file

    content = {**recall(directory), **facts}
    with atomic_file(os.path.join(directory, _COMMAND), overwrite=True) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")


def recall(directory: str) -> dict[str, Any]:
    """Return what is known about the command; nothing, if `bouncy.sample` was called from Python."""
    try:
        with open(os.path.join(directory, _COMMAND), "rb") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise click.ClickException(f"{os.path.join(directory, _COMMAND)} is damaged: {error}") from error
    return content if isinstance(content, dict) else {}


def stamp(path: str) -> int | None:
    """Return when a file was written, to know it again as the one that was."""
    return os.stat(path).st_mtime_ns if os.path.exists(path) else None
