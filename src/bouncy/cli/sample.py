"""`bouncy sample`: sample a model."""

from __future__ import annotations

from typing import Any

import click

from bouncy.cli._parameters import (
    POSITIVE,
    Command,
    OneOf,
    at_least,
    combined,
    ending_options,
    force_option,
    json_option,
    model_argument,
    option,
    out_option,
    progress_option,
    reading_options,
    renamed_option,
    take_reading,
    threads_option,
    words,
)
from bouncy.cli._runs import (
    begin_checkpoint,
    check_new_checkpoint,
    check_out,
    finish,
    without_interrupted_warning,
)

_SAMPLING, _CHECKPOINTS = "Sampling", "Checkpoints"
# The default of all models but those with constraints.
_DEFAULT = "bps-gaussian"


def _samplers() -> list[str]:
    """Return the names of the samplers of spins, which are what model files describe."""
    from bouncy.samplers import OF_SPINS, names

    return names(OF_SPINS)


def _samplers_help() -> str:
    return ", ".join(name + " (the default)" * (name == _DEFAULT) for name in _samplers()) + "."


_sampling_options = combined(
    option("--sampler", section=_SAMPLING, metavar="NAME", type=OneOf(_samplers), help=_samplers_help),
    option("--chains", section=_SAMPLING, type=at_least(1), metavar="N", default=4, show_default=True,
           help="Number of chains."),
    option("--lanes", section=_SAMPLING, type=at_least(1), metavar="N",
           help="Chains that share a clock at most; by default 32 from eight chains on, where they can."),
    option("--warmup", section=_SAMPLING, type=at_least(0), metavar="N",
           help="Sweeps (hmc: trajectories) before anything is recorded; by default 200 sweeps, or a quarter of what "
                "follows."),
    option("--thin", section=_SAMPLING, type=at_least(1), metavar="N", default=1, show_default=True,
           help="Sweeps (hmc: trajectories) from one draw to the next."),
    option("--seed", section=_SAMPLING, type=at_least(0), metavar="N",
           help="Fixes every byte of the result."),
    option("--keep", section=_SAMPLING, default="draws", show_default=True, **words("draws", "means", "path"),
           help="All draws, means and scalar traces alone, or every flip."),
    option("--pairs", section=_SAMPLING, default="auto", show_default=True, **words("auto", "all", "edges", "none"),
           help="Pairs whose means are recorded."),
    threads_option,
)  # fmt: skip
_checkpoint_options = combined(
    option("--checkpoint", section=_CHECKPOINTS, type=click.Path(file_okay=False), metavar="DIR",
           help="New directory from which `bouncy resume DIR` can go on, whatever happens."),
    option("--checkpoint-every", section=_CHECKPOINTS, type=POSITIVE, metavar="SECONDS",
           default=30, show_default=True, help="Time from one checkpoint to the next."),
    renamed_option("--every", "--checkpoint-every"),
)  # fmt: skip
_EPILOG = """\b
Examples:
  bouncy sample model.npz --draws 2000 --seed 1 --out run.npz
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

    reading = take_reading(options)
    check_out(out, force)
    if checkpoint is not None:
        check_new_checkpoint(checkpoint, force)
    target = bouncy.load_model(model, **reading)
    if checkpoint is not None:
        every = options["checkpoint_every"]
        begin_checkpoint(checkpoint, target, out=out, model=model, reading=reading, every=every)
    with without_interrupted_warning():
        run = bouncy.sample(target, checkpoint=checkpoint, **options)
    finish(
        context, run, out=out, force=force, as_json=as_json, checkpoint=checkpoint, tell_seed=options["seed"] is None
    )
