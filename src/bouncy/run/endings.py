"""Warnings about how a run ended."""

from __future__ import annotations

import warnings

from bouncy.recorders.contract import FLIPS, HITS
from bouncy.results.data import RECORDING
from bouncy.results.run import Run
from bouncy.samplers.contract import NotErgodicWarning

# Level of the user's line above `warn_about`: `sample` and `resume` are called by their decorator, and `extended` by
# `Run.extend`.
_CALLER = 4


class InterruptedWarning(UserWarning):
    """A run was interrupted; the part before that was returned."""


class DisagreementWarning(UserWarning):
    """A run that was to go on until its standard errors are small has chains that disagree."""


class NoFlipWarning(UserWarning):
    """A run in which no flip was accepted."""


def warn_about(run: Run) -> None:
    """Warn of a run that did not end as it was meant to, or did not move."""
    data, events = run._data, run.events()
    if run.stopped_by == "interrupt":
        wanted = "" if data.goal.draws is None else f" of {data.goal.draws}"
        where = f"after {data.drawn}{wanted} draws" if data.stage == RECORDING else "in its warm-up"
        more = " or resume()" if data.checkpoint is not None else ""
        warnings.warn(
            f"the run was interrupted {where}; the part before that is returned, and extend(){more} would go on",
            InterruptedWarning,
            stacklevel=_CALLER,
        )
    if run.stopped_by == "disagreement":
        why = (
            "chains still disagree, so that they have not all visited the same states"
            if run.flips_per_site.any()
            else "chains have never moved, so that nothing is known of other states"
        )
        warnings.warn(
            f"the standard errors cannot be trusted to be below a bound: {why}. Longer runs alone rarely help; a "
            "longer warm-up, other starts (initial=) or tempering may",
            DisagreementWarning,
            stacklevel=_CALLER,
        )
    if run.target.kind == "spins" and events[FLIPS] == 0 and run.completed:
        warnings.warn(
            "no flip was accepted in the whole run: every state next to the current one is very improbable. The "
            "means describe one state per chain; start chains from several states (initial=) and compare them"
            if events[HITS]
            else "no flip was attempted in the whole run, which is too short for it; ask for more draws",
            NoFlipWarning,
            stacklevel=_CALLER,
        )
    for remark in run.sampler.remarks(int(events[HITS]), int(events[FLIPS])):
        warnings.warn(remark, NotErgodicWarning, stacklevel=_CALLER)
