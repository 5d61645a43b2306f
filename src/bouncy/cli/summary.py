"""`bouncy summary`: look at a run that was saved."""

from __future__ import annotations

import click

from bouncy.cli._parameters import Command, json_option, run_argument
from bouncy.cli._runs import load_run, show

_EPILOG = """\b
Examples:
  bouncy summary run.npz
  bouncy summary work
  bouncy summary run.npz --json | python -m json.tool
"""


@click.command(cls=Command, short_help="Look at a saved run.", epilog=_EPILOG)
@run_argument
@json_option
def command(run: str, as_json: bool) -> None:
    """Print means with their standard errors, effective sample sizes and warnings of RUN.

    RUN is a file that `bouncy sample --out` or `run.save` wrote (.npz, .nc, .zarr), or the directory of a checkpoint.
    """
    show(load_run(run), as_json)
