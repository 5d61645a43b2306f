"""`bouncy reproduce`: run the paper's experiments again."""

from __future__ import annotations

import click

from bouncy.cli._parameters import words
from bouncy.experiments.settings import DEFAULT_OUT, DEFAULT_SEED, FIGURES

_EPILOG = """\b
Examples:
  bouncy reproduce all --quick
  bouncy reproduce figure1 --out paper --workers 4
"""


@click.command(short_help="Run the paper's experiments again, and judge its claims.", epilog=_EPILOG)
@click.argument("what", **words(*FIGURES, "all"))
@click.option("--quick", is_flag=True, help="Fewer and shorter runs: minutes instead of about half an hour.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    show_default=f"{DEFAULT_OUT['paper']}, or {DEFAULT_OUT['quick']} with --quick",
    help="Directory for the CSV files, the figures and the report.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=DEFAULT_SEED, show_default=True, help="Seed of all models and chains."
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes that run at once; by default one for each core.")
@click.option("--progress/--no-progress", default=None, help="Show progress bars; by default on a terminal.")
@click.pass_context
def command(
    context: click.Context,
    what: str,
    quick: bool,
    out: str | None,
    seed: int,
    workers: int | None,
    progress: bool | None,
) -> None:
    """Run the experiments of Pakman's "Binary Bouncy Particle Sampler" (arXiv:1711.00922) again.

    Every sampler gets the same CPU time on the same random models, in two editions: at the cost per event of the
    published algorithms, and as this package implements them. A report says which claims of the paper hold.

    Every run is kept as soon as it is finished; the same command goes on where an interrupted one stopped. Figures that
    were run one after the other into the same directory stand in the same report.
    """
    from bouncy.experiments.rerun import run

    out = out or DEFAULT_OUT["quick" if quick else "paper"]
    try:
        report, results, remarks = run(what, quick=quick, out=out, seed=seed, workers=workers, progress=progress)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. What is finished is kept in {out}; the same command goes on from there.", err=True)
        context.exit(context.obj.exit_code)

    from bouncy.experiments.claims import judge

    for remark in remarks:
        click.echo(remark, err=True)
    for verdict in judge(results):
        click.echo(verdict.line)
    click.echo(f"The report is {report}")
