"""`bouncy sample`: sample a model."""

from __future__ import annotations

from typing import Any

import click

from bouncy.cli._checkpoints import begin, check_new
from bouncy.cli._options import (
    Command,
    applied,
    at_least,
    ending_options,
    force_option,
    json_option,
    load,
    model_argument,
    one_of,
    option,
    out_option,
    positive,
    progress_option,
    reading_options,
    reading_settings,
    sampler_names,
    threads_option,
    words,
)
from bouncy.cli._runs import check_out, finish, interruptible

_SAMPLING, _CHECKPOINTS = "Sampling", "Checkpoints"
_SAMPLERS = (
    "bps-gaussian (the default), bps-exponential, hmc, hmc-exponential, gibbs, gibbs-random, metropolis, "
    "metropolis-random."
)
_sampling_options = applied(
    option("--sampler", section=_SAMPLING, metavar="NAME", help=_SAMPLERS, **one_of(sampler_names)),
    option("--chains", section=_SAMPLING, **at_least(1), metavar="N", default=4, show_default=True,
           help="Independent chains."),
    option("--warmup", section=_SAMPLING, **at_least(0), metavar="SWEEPS",
           help="Sweeps before anything is recorded; by default 200, or a quarter of what follows."),
    option("--thin", section=_SAMPLING, **at_least(1), metavar="SWEEPS", default=1, show_default=True,
           help="Sweeps from one draw to the next."),
    option("--seed", section=_SAMPLING, **at_least(0), metavar="N",
           help="Fixes every byte of the result."),
    option("--keep", section=_SAMPLING, default="draws", show_default=True, **words("draws", "means", "path"),
           help="All draws, means and scalar traces alone, or every flip."),
    option("--pairs", section=_SAMPLING, default="auto", show_default=True, **words("auto", "all", "edges", "none"),
           help="Pairs whose means are recorded."),
    threads_option,
)  # fmt: skip
_checkpoint_options = applied(
    option("--checkpoint", section=_CHECKPOINTS, type=click.Path(file_okay=False), metavar="DIR",
           help="New directory from which `bouncy resume DIR` can go on, whatever happens."),
    option("--every", section=_CHECKPOINTS, **positive(), metavar="SECONDS",
           default=30, show_default=True, help="Time from one checkpoint to the next."),
)  # fmt: skip
_EPILOG = """\b
Examples:
  bouncy sample model.npz --draws 2000 --seed 1 --out run.nc
  bouncy sample lattice.npz --sampler gibbs --seconds 60 --keep means
  bouncy sample model.npz --until-se 0.001 --seconds 3600 --checkpoint work
  bouncy sample model.json --json > summary.json
"""


@click.command(cls=Command, short_help="Sample a model.", epilog=_EPILOG)
@model_argument
@_sampling_options
@ending_options
@_checkpoint_options
@out_option
@json_option
@force_option
@progress_option
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    out: str | None,
    as_json: bool,
    force: bool,
    checkpoint: str | None,
    **options: Any,
) -> None:
    """Sample MODEL, and print means with their standard errors, effective sample sizes and warnings.

    MODEL is a file in one of the formats npz, json, coo and uai. Of --draws, --seconds and --until-se the first that is
    reached ends the run; without them it has 1000 draws per chain. Ctrl-C and SIGTERM end it early: what was found by
    then is printed and saved all the same.
    """
    import bouncy

    reading = {name: options.pop(name) for name in ("format_name", "vartype", "temperature", "evidence")}
    check_out(out, force)
    if checkpoint is not None:
        check_new(checkpoint, force)
    target = load(model, reading)
    if checkpoint is not None:
        begin(checkpoint, target, out=out, model=model, reading=reading_settings(reading), every=options["every"])
    with interruptible():
        run = bouncy.sample(target, checkpoint=checkpoint, **options)
    if options["seed"] is None and not as_json:
        click.echo(f"Seed {run.seed}: to get the same bytes again, pass it as --seed.", err=True)
    finish(context, run, out=out, force=force, as_json=as_json, checkpoint=checkpoint)
