"""`bouncy logz`: the normalising constant of a model, by tempered chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._output import print_json
from bouncy.cli._parameters import (
    POSITIVE,
    Command,
    at_least,
    combined,
    json_option,
    model_argument,
    option,
    progress_option,
    reading_options,
    take_reading,
    threads_option,
)

if TYPE_CHECKING:
    from bouncy.results.tempered import TemperedRun

_ENDING, _SAMPLING = "When to stop (the first that is reached)", "Sampling"
_options = combined(
    option("--until-se", section=_ENDING, metavar="SE", type=POSITIVE, default=0.05, show_default=True,
           help="When log Z has a standard error below SE."),
    option("--draws", section=_ENDING, metavar="N", type=at_least(1), help="After N scans per chain."),
    option("--seconds", section=_ENDING, metavar="T", type=POSITIVE, help="After T seconds of CPU time per chain."),
    option("--chains", section=_SAMPLING, type=at_least(2), metavar="N", default=4, show_default=True,
           help="Number of chains: each has a ladder or several, and is independent of the others."),
    option("--seed", section=_SAMPLING, type=at_least(0), metavar="N", help="Fixes every byte of the result."),
    threads_option,
)  # fmt: skip
_EPILOG = """\b
Examples:
  bouncy logz model.npz
  bouncy logz model.npz --until-se 0.01 --seed 1
  bouncy logz model.json --json > logz.json
"""


@click.command(cls=Command, short_help="Estimate the normalising constant of a model.", epilog=_EPILOG)
@model_argument
@_options
@json_option
@progress_option
@reading_options
@click.pass_context
def command(context: click.Context, /, model: str, as_json: bool, **options: Any) -> None:
    """Estimate log Z of MODEL, the logarithm of the sum of exp(log p) over all states, by tempered chains.

    MODEL is a file in one of the formats npz, json, coo and uai. The forward and the reverse estimate enclose log Z on
    average; where they are far apart, or a warning is printed, run longer.
    """
    import bouncy
    from bouncy.cli._runs import without_interrupted_warning

    reading = take_reading(options)
    target = bouncy.load_model(model, **reading)
    with without_interrupted_warning():
        run: Any = bouncy.sample(target, "tempered", se_of="log_z", keep="means", pairs="none", **options)
    if not run.draws_per_chain:
        raise click.ClickException("the run was over before its warm-up was: give it more time")
    if as_json:
        print_json(_content(run))
    else:
        click.echo("\n".join(_lines(run)))
    if not run.completed:
        click.echo("Interrupted: this is what the run had found by then.", err=True)
        context.exit(context.obj.exit_code)


def _content(run: TemperedRun) -> dict[str, Any]:
    from bouncy.results.describe import described_run

    ladder = run.ladder
    return {
        **described_run(run),
        "log_z": run.log_z,
        "log_z_se": run.log_z_se,
        "log_z_bounds": list(run.log_z_bounds),
        "ladder": {name: ladder[name] for name in ("b", "acceptance", "mean", "variance", "log_z")},
        "barrier": ladder.barrier,
        "round_trips": ladder.round_trips,
        "best": {"state": run.best.state, "log_prob": run.best.log_prob},
        "warnings": run.diagnostics["warnings"],
    }


def _lines(run: TemperedRun) -> list[str]:
    low, high = run.log_z_bounds
    return [
        f"{run.target!r}",
        f"log Z = {run.log_z:.6g} +- {run.log_z_se:.2g} (forward {low:.6g}, reverse {high:.6g})",
        "",
        str(run.ladder),
        *(f"Warning: {text}" for text in run.diagnostics["warnings"]),
    ]
