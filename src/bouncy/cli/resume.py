"""`bouncy resume`: go on from a checkpoint."""

from __future__ import annotations

from typing import Any

import click

from bouncy.cli._checkpoints import kept_model, recall, stamp
from bouncy.cli._options import (
    Command,
    ending_options,
    force_option,
    json_option,
    load,
    option,
    out_option,
    positive,
    progress_option,
    reading_options,
    threads_option,
)
from bouncy.cli._runs import check_out, finish, interruptible

# Seconds between checkpoints of a run that was begun in Python.
_EVERY = 30.0
_EPILOG = """\b
Examples:
  bouncy resume work
  bouncy resume work --draws 20000 --out longer.nc
  bouncy resume work model.npz --json
"""


@click.command(cls=Command, short_help="Go on from a checkpoint.", epilog=_EPILOG)
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False))
@click.argument("model", type=click.Path(exists=True, dir_okay=False), required=False)
@threads_option
@ending_options
@option("--every", metavar="SECONDS", section="Checkpoints", **positive(),
        help="Time from one checkpoint to the next; as before by default.")  # fmt: skip
@out_option
@json_option
@force_option
@progress_option
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    checkpoint: str,
    model: str | None,
    out: str | None,
    as_json: bool,
    force: bool,
    **options: Any,
) -> None:
    """Go on from the directory CHECKPOINT that `bouncy sample --checkpoint` made, to the same bytes as without a stop.

    The model is kept with the checkpoint; MODEL is only needed if `bouncy.sample` was called from Python. The result
    goes where that of the first command would have gone, unless --out says otherwise. Where no --draws, --seconds or
    --until-se is given, those of the first command hold.
    """
    import bouncy

    reading = {name: options.pop(name) for name in ("format_name", "vartype", "temperature", "evidence")}
    known = recall(checkpoint)
    out = out or known.get("out")
    # What an earlier part of the same run has saved there is not worth keeping beside all of it.
    force = force or (out == known.get("out") and out is not None and stamp(out) == known.get("written"))
    check_out(out, force)
    target = kept_model(checkpoint) if model is None else load(model, reading)
    every = options.pop("every") or known.get("every", _EVERY)
    with interruptible():
        run = bouncy.resume(checkpoint, target, every=every, **options)
    finish(context, run, out=out, force=force, as_json=as_json, checkpoint=checkpoint)
