"""`bouncy plot`: a picture of a run that was saved."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._output import check_extra, check_place
from bouncy.cli._parameters import Command, NewFile, OneOf, force_option, option, run_argument, suffix_of
from bouncy.cli._runs import load_run

if TYPE_CHECKING:
    from bouncy.results.run import Run

_ALL = "run"
_DPI = 150
_EPILOG = """\b
Examples:
  bouncy plot run.npz --out run.png
  bouncy plot run.npz --kind trace --what magnetisation --out trace.pdf
  bouncy plot work --kind autocorrelation --what 3 --out site3.svg
"""


def _kinds() -> list[str]:
    from bouncy.plots import KINDS

    return [_ALL, *sorted(KINDS)]


@click.command(cls=Command, short_help="Draw a saved run.", epilog=_EPILOG)
@run_argument
@option(
    "--kind",
    metavar="KIND",
    default=_ALL,
    show_default=True,
    help="run (six panels), trace, rank, autocorrelation, marginals, pairs, overlap, holding-times, lattice; of "
    "continuous targets density, forest, inclusion; of tempered runs ladder, curve, flow.",
    type=OneOf(_kinds),
)
@option("--out", type=NewFile(".png", ".pdf", ".svg"), metavar="FILE", required=True,
        help="Picture to write: .png, .pdf or .svg.")  # fmt: skip
@option("--what", metavar="NAME", help="log_prob, magnetisation or a site, where one of them is drawn.")
@force_option
def command(run: str, kind: str, out: str, what: str | None, force: bool) -> None:
    """Draw RUN into a file, whose suffix decides on its format.

    RUN is a file that `bouncy sample --out` or `run.save` wrote (.npz, .nc, .zarr), or the directory of a checkpoint.
    """
    from bouncy.storage.atomic import atomic_file

    check_extra(out, ["matplotlib"], "plots")
    check_place(out, force)
    draw = _drawing(kind, what)
    _use_no_window()
    figure = draw(load_run(run))
    with atomic_file(out, overwrite=force) as file:
        figure.savefig(file, format=suffix_of(out)[1:], dpi=_DPI)
    click.echo(f"Drawn to {out}.", err=True)


def _drawing(kind: str, what: str | None) -> Callable[[Run], Any]:
    """Return the function that draws a figure of a run."""
    from bouncy.plots import KINDS, plot_run

    function: Callable[..., Any] = plot_run if kind == _ALL else KINDS[kind]
    if what is None:
        return lambda run: _figure_of(function(run))
    if "what" not in inspect.signature(function).parameters:
        able = [name for name in sorted(KINDS) if "what" in inspect.signature(KINDS[name]).parameters]
        raise click.UsageError(f"--what says nothing about --kind {kind}; it does about {', '.join(able)}")
    return lambda run: _figure_of(function(run, what=_variable(run, what)))


def _figure_of(drawn: Any) -> Any:
    """Return the figure itself, or the figure of the axes that were drawn on."""
    return getattr(drawn, "figure", drawn)


def _variable(run: Run, text: str) -> Any:
    """Return the label with this text, else a site index if the text is an integer, else the text."""
    for label in run.target.labels:
        if str(label) == text:
            return label
    return int(text) if text.lstrip("-").isdecimal() else text


def _use_no_window() -> None:
    """Let pictures be drawn without a screen."""
    import matplotlib as mpl

    mpl.use("Agg")
