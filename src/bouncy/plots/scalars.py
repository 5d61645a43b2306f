"""Scalar traces of a run by name, for plots of traces, ranks and autocorrelations; kinds of runs; 95 % intervals."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy.results.batches import student_quantile
from bouncy.results.tempered import TemperedRun

Array = NDArray[np.float64]

_OF_SPINS = ("magnetisation", "|magnetisation|")


class Scalar(NamedTuple):
    """A number for each draw of each chain."""

    name: str
    values: Array  # (chain, draw)
    spacing: int  # draws from one value to the next


def has_spins(run: Any) -> bool:
    """Return whether the states of a run are spins."""
    return bool(run.draws.dtype == np.int8)


def check_continuous(run: Any) -> None:
    """Raise if a run is on spins."""
    if has_spins(run):
        raise ValueError(f"{run!r} is on spins; expected one on a continuous target: draw 'marginals' of this one")


def check_tempered(run: Any) -> None:
    """Raise if a run has no ladder of temperatures, or has recorded nothing of it."""
    if not isinstance(run, TemperedRun):
        raise ValueError(f"{run!r} has no ladder of temperatures; expected a run of spins that 'tempered' sampled")
    if not run.ladder.scans:
        raise ValueError(
            "nothing was recorded of the ladder yet; expected at least one draw: use run.extend(draws=...)"
        )


def half_width(run: Any, error: Array) -> Array:
    """Return the half widths of the 95 % intervals of estimates of a run with these standard errors."""
    widths: Array = student_quantile(0.95, run.diagnostics["batches"] - 1) * error
    return widths


def scalar_of(run: Any, what: Hashable) -> Scalar:
    """Return a trace of a run by its name.

    Parameters
    ----------
    run : Run
    what : hashable
        "log_prob"; of spins, "magnetisation" and "|magnetisation|"; the name of a number that was updated beside the
        target (`run.parameters`); or the label or place of a site. The names come first: a site with the label
        "log_prob" is found by its place.
    """
    spacing = int(getattr(run, "trace_spacing", 1))
    if what == "log_prob":
        return _known(Scalar("log_prob", run.log_prob, spacing))
    if what in _OF_SPINS and not has_spins(run):
        raise ValueError(f"what is {what!r}, which only runs on spins have; expected 'log_prob' or a variable")
    if what in _OF_SPINS:
        values = run.magnetisation if what == "magnetisation" else np.abs(run.magnetisation)
        return _known(Scalar(str(what), values, spacing))
    parameter = getattr(run, "parameters", {}).get(what)
    if parameter is not None and parameter.ndim == 2:
        return _known(Scalar(str(what), parameter, spacing))
    return _known(_site(run, what))


def _site(run: Any, what: Hashable) -> Scalar:
    """Return the trace of a site, given its label or place."""
    try:
        i = run.index(what)
    except ValueError as error:
        names = ", ".join(repr(name) for name in ("log_prob", *(_OF_SPINS if has_spins(run) else ())))
        raise ValueError(f"what is {what!r:.60}; expected {names}, or a site: {error}") from error
    if run.draws.shape[1] == 0 < run.log_prob.shape[1]:
        raise ValueError(f"what is the site {what!r:.60}, but no states were kept; sample again with keep='draws'")
    label = run.target.labels[i]
    kind = "site" if has_spins(run) else "variable"
    name = label if isinstance(label, str) else f"{kind} {label}"
    return Scalar(name, run.draws[:, :, i].astype(np.float64), 1)


def _known(scalar: Scalar) -> Scalar:
    """Return a trace, or raise if it is too short or not finite."""
    name, values, _ = scalar
    if values.shape[1] < 4:
        raise ValueError(
            f"the run has {values.shape[1]} draws per chain; expected at least 4: use run.extend(draws=...)"
        )
    if not np.isfinite(values).all():
        chain, draw = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"{name} is {values[chain, draw]} at draw {draw} of chain {chain}; expected finite numbers: of a "
            "target without log_prob draw 'magnetisation' or a site instead"
        )
    return scalar


def chains_or_halves(x: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return (chain, draw, ...) and names of its rows; a single chain is split into halves that count as chains."""
    if x.shape[0] > 1:
        return x, [f"chain {k}" for k in range(x.shape[0])]
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]]), ["first half", "second half"]
