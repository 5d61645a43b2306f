"""`bouncy exact`: the exact expectations of a small model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._output import print_json
from bouncy.cli._parameters import Command, json_option, model_argument, option, reading_options, take_reading

if TYPE_CHECKING:
    from bouncy.enumeration import Exact
    from bouncy.targets.contract import Target

_EPILOG = """\b
Examples:
  bouncy exact model.npz
  bouncy exact model.npz --pairs
  bouncy exact model.json --json > exact.json
"""


@click.command(cls=Command, short_help="Compute exact means of a small model.", epilog=_EPILOG)
@model_argument
@option("--pairs", section="Output", is_flag=True, help="Print the means of all pairs too.")
@json_option
@reading_options
def command(model: str, pairs: bool, as_json: bool, **reading: Any) -> None:
    """Compute means, pair means and the normalising constant of MODEL by visiting all of its states.

    MODEL is a file in one of the formats npz, json, coo and uai, of at most 25 sites.
    """
    import bouncy

    target = bouncy.load_model(model, **take_reading(reading))
    exact = bouncy.exact(target)
    if as_json:
        print_json(_content(target, exact, pairs))
    else:
        click.echo("\n".join(_lines(target, exact, pairs)))


def _content(target: Target, exact: Exact, pairs: bool) -> dict[str, Any]:
    from bouncy.results.describe import plain_label

    content = {
        "model": repr(target),
        "labels": [plain_label(label) for label in target.labels],
        "mean": exact.mean,
        "log_z": exact.log_z,
        "log_prob_mean": exact.log_prob_mean,
        "log_prob_var": exact.log_prob_var,
    }
    return {**content, "pair_mean": exact.pair_mean} if pairs else content


def _lines(target: Target, exact: Exact, pairs: bool) -> Iterator[str]:
    """Yield the lines of the tables."""
    from bouncy._labels import short_label

    names = [short_label(label) for label in target.labels]
    width = max(8, *map(len, names))
    yield f"{target!r}: all {2**target.d:,} states"
    yield f"log Z = {exact.log_z:.10g}, E[log p] = {exact.log_prob_mean:.10g}, Var[log p] = {exact.log_prob_var:.10g}"
    yield from ("", f"{'site':>{width}} {'E[s]':>10} {'P(s = +1)':>10}")
    for name, mean in zip(names, exact.mean, strict=True):
        yield f"{name:>{width}} {mean:>+10.6f} {(1 + mean) / 2:>10.6f}"
    if pairs:
        yield from ("", f"{'site':>{width}} {'site':>{width}} {'E[s t]':>10} {'covariance':>10}")
        for i, j in itertools.combinations(range(target.d), 2):
            both = exact.pair_mean[i, j]
            covariance = both - exact.mean[i] * exact.mean[j]
            yield f"{names[i]:>{width}} {names[j]:>{width}} {both:>+10.6f} {covariance:>+10.6f}"
