"""`bouncy resume`: go on from a checkpoint."""

from __future__ import annotations

from typing import Any

import click

from bouncy.cli._parameters import (
    POSITIVE,
    Command,
    force_option,
    json_option,
    option,
    out_option,
    progress_option,
    reading_options,
    renamed_option,
    take_reading,
    threads_option,
    total_options,
)
from bouncy.cli._runs import (
    check_out,
    finish,
    is_own_result,
    load_kept_model,
    read_facts,
    without_interrupted_warning,
)

# Seconds between checkpoints of a run that was begun in Python.
_EVERY = 30.0
_EPILOG = """\b
Examples:
  bouncy resume work
  bouncy resume work --total-draws 20000 --out longer.npz
  bouncy resume work model.npz --json
"""


@click.command(cls=Command, short_help="Go on from a checkpoint.", epilog=_EPILOG)
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False))
@click.argument("model", type=click.Path(exists=True, dir_okay=False), required=False)
@threads_option
@total_options
@option("--checkpoint-every", metavar="SECONDS", section="Checkpoints", type=POSITIVE,
        help="Time from one checkpoint to the next; as before by default.")  # fmt: skip
@renamed_option("--every", "--checkpoint-every")
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
    goes where that of the first command would have gone, unless --out says otherwise. Where no --total-draws,
    --total-seconds or --until-se is given, what the first command said holds.
    """
    import bouncy

    reading, facts = take_reading(options), read_facts(checkpoint)
    out = out or facts.get("out")
    force = force or is_own_result(out, facts)
    check_out(out, force)
    target = load_kept_model(checkpoint) if model is None else bouncy.load_model(model, **reading)
    every = options.pop("checkpoint_every") or facts.get("checkpoint_every", _EVERY)
    with without_interrupted_warning():
        run = bouncy.resume(checkpoint, target, checkpoint_every=every, **options)
    finish(context, run, out=out, force=force, as_json=as_json, checkpoint=checkpoint)
