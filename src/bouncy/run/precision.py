"""Whether the standard errors of a run are below a bound, and how much longer it should become."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.special import chdtri

from bouncy.results.diagnostics import BATCH_TIMES, ENOUGH_BATCHES, is_disagreement
from bouncy.results.run import Run
from bouncy.run.goal import Goal, Verdict

# Probability that a standard error is larger than its estimate says by more than the margin that is left for that. The
# largest of many estimates is too large rather than too small, so that more margin is not needed for many sites.
_RISK = 0.1
# How many times as long a run should become while nothing is known.
_UNKNOWN = 2.0


def look(run: Run, goal: Goal) -> Verdict:
    """Judge the standard errors that a goal is about.

    The bound counts as reached when it holds for the largest standard error plus a margin: the standard error itself is
    an estimate, from n batches, and with probability 0.9 the true one is below sqrt((n - 1) / q) times it, q the 0.1
    quantile of a chi-square with n - 1 degrees of freedom. Batches must be long beside the autocorrelation times of
    log_prob and magnetisation, and chains must not differ by more than chance allows.

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
    found = run.expect(goal.se_of)[1] if callable(goal.se_of) else getattr(run, f"{goal.se_of}_se")
    errors = np.ravel(found.data if isinstance(found, scipy.sparse.csr_array) else found)
    errors = errors[np.isfinite(errors)]
    sums = run._sums
    if sums.batches * sums.chains < ENOUGH_BATCHES or not errors.size:
        return Verdict(False, np.nan, _UNKNOWN, False)
    worst, n = float(errors.max()), sums.degrees_of_freedom
    margin = np.sqrt(n / chdtri(n, 1.0 - _RISK))
    too_short = BATCH_TIMES * run._autocorrelation_sweeps() / sums.length
    needed = float(max((worst * margin / goal.until_se) ** 2, too_short))
    # Spins that never flip tell nothing of errors; a continuous particle always moves.
    stuck = run.target.kind == "spins" and not run.flips_per_site.any()
    disagree = is_disagreement(run._disagreement()) or stuck
    return Verdict(bool(needed <= 1.0 and not disagree), worst, needed, bool(disagree))
