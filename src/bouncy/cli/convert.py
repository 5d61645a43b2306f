"""`bouncy convert`: a model in another format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bouncy.cli._output import check_place
from bouncy.cli._parameters import (
    Command,
    NewFile,
    force_option,
    model_argument,
    option,
    reading_options,
    suffix_of,
    take_reading,
)

if TYPE_CHECKING:
    from bouncy.targets.contract import Target

# Number of states in which log p is compared.
_STATES = 64
_EPILOG = """\b
Examples:
  bouncy convert model.coo model.json
  bouncy convert network.uai model.npz --evidence network.uai.evid
  bouncy convert named.json plain.coo --renumber
"""


@click.command(cls=Command, short_help="Write a model in another format.", epilog=_EPILOG)
@model_argument
@click.argument("out", type=NewFile(".npz", ".json", ".coo", ".uai"))
@option(
    "--renumber",
    section="Output",
    is_flag=True,
    help="Number the sites of coo and uai files where labels cannot be kept.",
)
@force_option
@reading_options
def command(model: str, out: str, renumber: bool, force: bool, **reading: Any) -> None:
    """Read MODEL and write it to OUT, whose suffix decides on the format: .npz, .json, .coo or .uai.

    The new file is read again and compared with the model; what it does not keep is listed.
    """
    import bouncy

    check_place(out, force)
    target = bouncy.load_model(model, **take_reading(reading))
    settings: dict[str, Any] = {"renumber": renumber} if suffix_of(out) in (".coo", ".uai") else {}
    bouncy.save_model(target, out, overwrite=force, **settings)
    click.echo(f"{out}: {target!r}")
    for loss in _losses(target, bouncy.load_model(out)):
        click.echo(f"  not kept: {loss}")


def _losses(before: Target, after: Target) -> Iterator[str]:
    """Yield a sentence for each difference between a model and the same model written and read again."""
    if type(before) is not type(after):
        yield f"the class: {type(before).__name__} comes back as {type(after).__name__}"
    if set(before.labels) != set(after.labels):
        yield f"labels: {_listed(before.labels)} come back as {_listed(after.labels)}"
    elif before.labels != after.labels:
        yield f"the order of sites: {_listed(before.labels)} come back as {_listed(after.labels)}"
    for name, what in (("shape", "the sides of the lattice"), ("is_sparse", "sparse storage")):
        if getattr(before, name, None) and not getattr(after, name, None):
            yield what
    order = _order(before.labels, after.labels)
    if type(before).__name__ == type(after).__name__ == "MRF":
        yield from _lost_digits("couplings and fields differ", _parameter_difference(before, after, order))
    else:
        yield from _lost_digits("log p differs", _log_prob_difference(before, after, order))


def _lost_digits(what: str, difference: float) -> Iterator[str]:
    if difference:
        yield f"the last digits: {what} by up to {difference:.1g}"


def _listed(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(map(repr, labels[:3]))
    return f"{shown:.60}, ..." if len(labels) > 3 else f"{shown:.60}"


def _order(before: tuple[Any, ...], after: tuple[Any, ...]) -> list[int]:
    """Return the index before writing of each site read again; the same index if labels have changed."""
    place = {label: i for i, label in enumerate(before)}
    return [place[label] for label in after] if set(before) == set(after) else list(range(len(after)))


def _parameter_difference(before: Any, after: Any, order: list[int]) -> float:
    """Return the largest difference between the parameters of two Markov random fields."""
    from scipy.sparse import csr_array

    M = csr_array(before.M)[order][:, order] - csr_array(after.M)
    return float(
        max(abs(M.data).max(initial=0.0), abs(before.r[order] - after.r).max(), abs(before.offset - after.offset))
    )


def _log_prob_difference(before: Target, after: Target, order: list[int]) -> float:
    """Return the largest difference of log p in some random states; it may be -inf in both."""
    import numpy as np

    spins = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (_STATES, before.d))
    old, new = before.log_prob(spins), after.log_prob(np.ascontiguousarray(spins[:, order]))
    differ = old != new
    return float(np.abs(old[differ] - new[differ]).max(initial=0.0))
