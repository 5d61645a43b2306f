"""What commands do with a run: check where it will go, save it, show it, and say how it ended."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from bouncy.cli._checkpoints import kept_model, remember, stamp
from bouncy.cli._places import check_extra, check_place, check_suffix
from bouncy.cli._printing import print_json, print_summary
from bouncy.cli._wording import one_line

if TYPE_CHECKING:
    from bouncy.results.run import Run
    from bouncy.run.checkpoint import Checkpoint

# What writes a run, by the suffix of its file.
_NEEDED = {".nc": ("xarray", "h5netcdf", "h5py"), ".zarr": ("xarray", "zarr")}
_EXTRA = "storage"


def check_out(out: str | None, force: bool) -> None:
    """Raise unless a run could be saved at `out`, if that is asked for."""
    if out is None:
        return
    suffix = check_suffix(out, _NEEDED)
    check_extra(out, _NEEDED[suffix], _EXTRA)
    check_place(out, force, directory=suffix == ".zarr")


@contextmanager
def interruptible() -> Iterator[None]:
    """Leave it to `finish` to say that a run was interrupted."""
    import bouncy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bouncy.InterruptedWarning)
        yield


def finish(
    context: click.Context, run: Run, *, out: str | None, force: bool, as_json: bool, checkpoint: str | None
) -> None:
    """Save a run, show it, and exit as it ended. What cannot be saved is shown all the same."""
    recorded = run.log_prob.shape[1] > 0
    problem = _save(run, out, force, checkpoint) if recorded else None
    saved = out if recorded and problem is None else None
    if as_json:
        show_json(run, out=_absolute(saved), checkpoint=_absolute(checkpoint))
    elif recorded:
        print_summary(run.summary())
    if saved is not None:
        click.echo(f"Saved to {saved}.", err=True)
    if not run.completed:
        click.echo(_interruption(recorded, checkpoint), err=True)
    if problem is not None:
        raise click.ClickException(_lost(out, problem, checkpoint)) from problem
    if not run.completed:
        context.exit(context.obj.exit_code)
    if not recorded:
        raise click.ClickException(
            "the time was over before the warm-up was: give more --seconds or a shorter --warmup"
        )


def load_run(path: str) -> Run:
    """Read a run from a file, or from the directory of a checkpoint."""
    import bouncy

    if os.path.isdir(path) and os.path.splitext(path.rstrip(os.sep))[1].lower() not in _NEEDED:
        return _as_checkpointed(path)
    return bouncy.Run.load(path)


class _Onlooker:
    """Stands for a checkpoint that is read but not written, so that it does not matter if a run has it open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def follow(self, generation: int, rows: Any) -> None:
        """Do nothing: there will be no further generation from here."""


def _as_checkpointed(directory: str) -> Run:
    """Return a run as its last checkpoint has it."""
    from bouncy._sample import _new_run
    from bouncy.results.resuming import restored
    from bouncy.run.checkpoint import read

    target, onlooker = kept_model(directory), cast("Checkpoint", _Onlooker(Path(directory)))
    family, growth, _, options = read(
        directory, lambda header, arrays: restored(onlooker, target, None, None, header, arrays)
    )
    if not growth.drawn:
        raise click.ClickException(f"{directory}: nothing is recorded yet, the run is in its warm-up")
    run = _new_run(target, family, growth, {**options, "threads": None, "executor": None, "progress": False})
    stopped_by = options["stopped_by"]
    run.stopped_by = "interrupt" if stopped_by == "nothing" else stopped_by
    return run


def show_json(run: Run, **more: Any) -> None:
    """Print the summary of a run for scripts."""
    print_json({**run.summary().to_dict(), **more})


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _save(run: Run, out: str | None, force: bool, checkpoint: str | None) -> Exception | None:
    """Save a run, and return what that failed with."""
    if out is None:
        return None
    try:
        run.save(out, overwrite=force)
        if checkpoint is not None:
            remember(checkpoint, out=_absolute(out), written=stamp(out))
    except Exception as error:
        return error
    return None


def _interruption(recorded: bool, checkpoint: str | None) -> str:
    found = "this is what the run had found by then" if recorded else "the run was still in its warm-up"
    return f"Interrupted: {found}." + ("" if checkpoint is None else f" To go on: bouncy resume {checkpoint}")


def _lost(out: str | None, problem: Exception, checkpoint: str | None) -> str:
    text = f"the run could not be saved to {out}: {one_line(problem)}"
    if checkpoint is None:
        return text
    return f"{text}. Nothing is lost: {checkpoint} has all of it, and bouncy resume {checkpoint} --out FILE saves it"
