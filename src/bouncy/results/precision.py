"""Whether the standard errors of a run are below a bound, and how much longer it should become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from bouncy.recorders.contract import FLIPS
from bouncy.results.batches import Estimate, estimate
from bouncy.results.diagnostics import BATCH_TIMES, ENOUGH_BATCHES, is_disagreement
from bouncy.results.ess import effective_sample_size, rank_normalise
from bouncy.results.moments import event_totals
from bouncy.run.goal import Goal, Verdict
from bouncy.run.tracked import Tracked

if TYPE_CHECKING:
    from bouncy.results.run import Run

# Probability that a standard error is larger than its estimate says by more than the margin that is left for that. The
# largest of many estimates is too large rather than too small, so that more margin is not needed for many sites.
_RISK = 0.1
# Points of a trace that its autocorrelation time is estimated from.
_POINTS = 4096
# How many times as long a run should become while nothing can be said.
_UNKNOWN = 2.0


def look(run: Run, goal: Goal) -> Verdict:
    """Judge the standard errors that a goal is about.

    The bound counts as reached when it holds for the largest standard error plus a margin: the standard error itself is
    an estimate, from n batches, and with probability 0.9 the true one is below sqrt((n - 1) / q) times it, q the 0.1
    quantile of a chi-square with n - 1 degrees of freedom. Batches must be long beside the autocorrelation times of
    energy and magnetisation, and chains must not differ by more than chance allows.

    Notes
    -----
    What this gives, over 200 to 300 runs each of random fields (d = 10), Ising lattices up to 8 x 8 near criticality
    (means, pairs, |magnetisation|) and a Gaussian, with one chain and four: 95 % intervals at the end cover 93 to 97 %;
    the root mean square error of the worst site is 0.4 to 0.93 of the bound; the true standard error is below the bound
    in 88 to 100 % of runs, and within 1 % of it in nine of ten; runs are 1.2 to 1.7 times as long as one that knew the
    truth would be, of which the margin is 1.3. Loose bounds are reached with much to spare, because batches have to be
    long: no run has fewer than 16 batches of 20 autocorrelation times each.

    No rule can see states that no chain has visited. On an 8 x 8 lattice whose two modes last for thousands of sweeps
    (coupling 0.52) all four chains begin in the same one in an eighth of the runs, which then end early, and coverage
    is 82 %; of one chain it is 4 %.
    """
    assert goal.until_se is not None
    found = _tracked(run) if callable(goal.se_of) else _named(run, goal.se_of)
    sums = run._sums
    errors = found.standard_error[np.isfinite(found.standard_error)]
    if sums.closed * len(sums.recorders) < ENOUGH_BATCHES or not errors.size:
        return Verdict(False, np.nan, _UNKNOWN, False)
    worst = float(errors.max())
    margin = np.sqrt(found.degrees_of_freedom / chdtri(found.degrees_of_freedom, 1.0 - _RISK))
    too_short = BATCH_TIMES * autocorrelation_sweeps(run) / sums.length
    needed = float(max((worst * margin / goal.until_se) ** 2, too_short))
    disagree = is_disagreement(run._disagreement()) or _never_moved(run)
    return Verdict(bool(needed <= 1.0 and not disagree), worst, needed, bool(disagree))


def _never_moved(run: Run) -> bool:
    """Return whether no spin has flipped, so that nothing is known of errors; a continuous particle always moves."""
    return run._dtype is np.int8 and event_totals(run._sums)[FLIPS] == 0


def autocorrelation_sweeps(run: Run) -> float:
    """Return the longest autocorrelation time of the scalar traces of a run, in sweeps; 0 where none is known."""
    longest = 0.0
    for trace in run._scalars().values():
        step = max(1, trace.shape[1] // _POINTS)
        points = trace[:, ::step]
        if points.shape[1] < 4 or np.ptp(points) == 0.0 or not np.isfinite(points).all():
            continue
        size = float(effective_sample_size(rank_normalise(points)[:, :, None])[0])
        longest = max(longest, step * points.size / size)
    return longest * run.trace_spacing * run.sweeps_per_draw


def _named(run: Run, name: str) -> Estimate:
    """Return an estimate of a run, by name, with its standard errors in one row."""
    error: Any = getattr(run, f"{name}_se")
    flat: NDArray[np.float64] = np.ravel(error) if isinstance(error, np.ndarray) else error.data
    return Estimate(flat, flat, run._mean.degrees_of_freedom)


def _tracked(run: Run) -> Estimate:
    assert run._growth.tracked is not None
    return tracked_estimate(run._growth.tracked, run._sums.factor)


def tracked_estimate(tracked: Tracked, factor: int = 1) -> Estimate:
    """Return the mean of a function of states and its standard error, from batches of draws."""
    n, length = int(tracked.closed[0]) // factor, int(tracked.length[0]) * factor
    chains, _, k = tracked.sums.shape
    full = tracked.sums[:, : n * factor].reshape(chains, n, factor, k).sum(axis=2)
    rest = tracked.sums[:, n * factor : int(tracked.closed[0])].sum(axis=1) + tracked.open
    return estimate(full, rest, float(length), float(chains * tracked.count(0)))
