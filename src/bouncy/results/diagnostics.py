"""Diagnostics of a run: counts, rates against their closed forms, effective sample sizes, R-hat, warnings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._labels import short_label
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from bouncy.results.batches import normal_score
from bouncy.results.ess import effective_sample_size, is_constant, r_hat, rank_normalise
from bouncy.results.moments import Sums
from bouncy.workers.contract import flocks_of

if TYPE_CHECKING:
    from bouncy.results.run import Run

Array = NDArray[np.float64]
Scores = Callable[[NDArray[Any]], NDArray[Any]]

# A batch shorter than this many autocorrelation times gives an error bar that is too small.
BATCH_TIMES = 20
_SUSPICIOUS_Z = 6.0
# With fewer batches, or fewer expected events, rates are not judged.
_FEWEST_BATCHES = 8
_FEWEST_EVENTS = 50
_ROUNDING = 1e-9
# Error bars from fewer batches than this are rough, and a full run has at least as many.
ENOUGH_BATCHES = 16
# Chains disagree about a site below this probability, divided by the number of sites.
_DISAGREEMENT = 1e-4
# Most sites that a warning lists by label.
_NAMED = 5


def diagnose(
    run: Run, expected: Rates, scalars: dict[str, Array], scores: Scores, frozen: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return the diagnostics of a run, but for its warnings.

    Parameters
    ----------
    run : Run
        The run.
    expected : Rates
        Expected rates of events.
    scalars : dict
        Traces of shape (chain, draw) to judge, by name.
    scores : callable
        Given draws of shape (chain, draw, k), returns the numbers whose effective sample sizes and R-hat are computed.
    frozen : ndarray, shape (d,)
        Which sites never moved while anything was recorded.
    """
    sums = run._sums
    totals = sums.totals("events")
    # Chains that share a clock have the same hits.
    clocks = [flock[0] for flock in flocks_of(run.chains, run._data.setup.lanes)]
    hit_z, bounce_z = rate_scores(sums.of(clocks), run._data.sweep_time, expected)
    report: dict[str, Any] = {
        "hits": int(totals[HITS]),
        "flips": int(totals[FLIPS]),
        "bounces": int(totals[BOUNCES]),
        "refreshments": int(totals[REFRESHMENTS]),
        "sampling_seconds": run.sampling_seconds,
        "batches": sums.batches * sums.chains,
        "batch_sweeps": sums.length,
        "hit_rate_z": hit_z,
        "bounce_rate_z": bounce_z,
        "ess": {},
        "rhat": {},
        "frozen_sites": np.flatnonzero(frozen),
        "constant_sites": np.flatnonzero(frozen),
    }
    for name, trace in scalars.items():
        report["ess"][name], report["rhat"][name] = judge_trace(trace)
    if run.draws.shape[1] >= 4:
        _add_sites(report, run.draws, scores)
    return report


@dataclass(frozen=True)
class Rates:
    """Expected rates of events.

    Attributes
    ----------
    hits, bounces : float or None
        Expected events per unit time; None where they are not known, 0 where there are none.
    slow_variance : float
        Relative variance of a chain's mean hit rate beyond that between its batches.
    """

    hits: float | None
    bounces: float | None
    slow_variance: float = 0.0


def rate_scores(sums: Sums, sweep_time: float, expected: Rates) -> tuple[float, float]:
    """Return the z-scores of the hit rate and the bounce rate against their closed forms.

    The error of the hit rate is that of the batches and, on top, that of quantities which change only by refreshment
    and may differ from batch to batch less than from run to run. NaN where there is too little to compare, or where
    there are no such events.
    """
    rates = np.array([expected.hits or 0.0, expected.bounces or 0.0])
    known = rates > 0.0
    # The hits of a billiard are spread evenly only over many bounces.
    fewest = np.min(rates[known], initial=np.inf) * sweep_time * sums.steps * sums.chains
    if not known.any() or sums.batches * sums.chains < _FEWEST_BATCHES or fewest < _FEWEST_EVENTS:
        return np.nan, np.nan
    found, error = (estimate(_events, sweep_time)[[HITS, BOUNCES]] for estimate in (sums.mean, sums.error))
    error = np.hypot(error, rates * np.sqrt([expected.slow_variance / sums.chains, 0.0]))
    difference = found - rates
    # A scan makes the same number of attempts in every batch: any difference is rounding or a bug.
    difference[np.abs(difference) < _ROUNDING * rates] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        score = normal_score(np.where(difference == 0.0, 0.0, difference / error), sums.degrees_of_freedom)
    hit_z, bounce_z = np.where(known, score, np.nan)
    return float(hit_z), float(bounce_z)


def _events(batch: Batch) -> Array:
    return batch["events"]


def judge_trace(trace: NDArray[np.float64]) -> tuple[float | str, float | str]:
    """Return ESS and R-hat of a trace of shape (chain, draw), or why there are none."""
    if trace.shape[1] < 4:
        return "too short", "too short"
    if np.ptp(trace) == 0.0:
        return "constant", "constant"
    if np.isnan(trace).any():
        return "unknown", "unknown"
    scores = rank_normalise(trace)[:, :, None]
    return float(effective_sample_size(scores)[0]), float(r_hat(scores)[0])


def _add_sites(report: dict[str, Any], draws: NDArray[Any], scores: Scores) -> None:
    """Add ESS and R-hat of the sites; a site with the same value in all draws is masked, and is constant."""
    constant = is_constant(draws)
    report["constant_sites"] = np.union1d(report["frozen_sites"], np.flatnonzero(constant))
    scored = scores(draws)
    for name, values, worst in (("ess", effective_sample_size(scored), np.min), ("rhat", r_hat(scored), np.max)):
        sites = np.ma.masked_array(values, mask=constant)
        report[name]["sites"] = sites
        moving = values[~constant]
        report[name]["worst_site"] = float(worst(moving)) if moving.size else "constant"
        report[name]["median_site"] = float(np.median(moving)) if moving.size else "constant"


def warnings_of(run: Run, report: dict[str, Any], doubtful: NDArray[np.bool_]) -> list[str]:
    """Return warnings about the error bars, in plain words.

    `doubtful`, (d,), says which sites are worth a warning if they are constant.
    """
    found: list[str] = run.sampler.remarks(report["hits"], report["flips"])
    frozen, constant = (report[name][doubtful[report[name]]] for name in ("frozen_sites", "constant_sites"))
    found += _constant_sites(run.target.labels, frozen, constant)
    found += _r_hats(report["rhat"], run.chains)
    if report["batches"] < ENOUGH_BATCHES:
        batches = f"{report['batches']} batch{' is' if report['batches'] == 1 else 'es are'}"
        found.append(f"{batches} too few to trust the standard errors; run longer")
    length = report["batch_sweeps"] / run.sweeps_per_draw
    sizes = [value for name, value in report["ess"].items() if name != "sites" and isinstance(value, float)]
    if sizes:
        needed = BATCH_TIMES * run.draws_per_chain * run.chains / min(sizes)
        if length < needed:
            found.append(
                f"batches of {length:.3g} draws are shorter than {BATCH_TIMES} autocorrelation times "
                f"({needed:.0f} draws): standard errors may be too small; run longer"
            )
    for name in ("hit_rate_z", "bounce_rate_z"):
        if abs(report[name]) > _SUSPICIOUS_Z:
            what = "attempted flips (wall hits)" if name == "hit_rate_z" else "bounces"
            found.append(
                f"{name} is {report[name]:.1f}: {what} do not come at the rate that they must have on any target; this "
                "is a bug of the sampler, and no result is to be trusted; please report it"
            )
    return found


def is_unexpected(expected: Array) -> NDArray[np.bool_]:
    """Return for which sites it is no chance that nothing was seen of what was expected so many times, (d,).

    What happens with probability p_t at step t, given the past, and sum_t p_t >= E, fails to happen with probability
    below e^-E: so all sites together raise a false alarm in one run of ten thousand.
    """
    return np.asarray(np.exp(-expected) < _DISAGREEMENT / expected.size)


def is_disagreement(tail: Array) -> bool:
    """Return whether some site differs between chains by more than chance allows, given the probability of each."""
    return bool((tail < _DISAGREEMENT / tail.size).any())


def _r_hats(rhat: dict[str, Any], chains: int) -> list[str]:
    """Return sentences about traces on which chains, or the halves of a single one, do not agree."""
    who, found = "chains" if chains > 1 else "the two halves of the chain", []
    for name, value in rhat.items():
        what = name.replace("_", " ")
        if name in ("sites", "median_site") or not isinstance(value, float) or not value > 1.01:
            continue
        if value == np.inf:
            found.append(f"{who} disagree: each is stuck at a value of its own ({what}); R-hat is infinite")
        else:
            found.append(f"{who} disagree: R-hat of {what} is {value:.4g} (want below 1.01)")
    return found


def _constant_sites(labels: Sequence[Hashable], frozen: NDArray[np.intp], constant: NDArray[np.intp]) -> list[str]:
    """Return sentences about the sites that never moved, and those that did so only between draws."""
    found, d = [], len(labels)
    if frozen.size:
        found.append(f"{frozen.size} of {d} sites never moved and are called constant: {_named(labels, frozen)}")
    between = np.setdiff1d(constant, frozen)
    if between.size:
        found.append(
            f"{between.size} of {d} sites have the same value in every draw, though they moved between draws: "
            f"{_named(labels, between)}"
        )
    return found


def _named(labels: Sequence[Hashable], sites: NDArray[np.intp]) -> str:
    """Return the labels of the first few of some sites."""
    names = [short_label(labels[i]) for i in sites[:_NAMED]]
    return ", ".join(names) + (", ..." if sites.size > _NAMED else "")


def disagreements(tail: Array, way_out: str = "") -> list[str]:
    """Return a sentence when some site differs between chains by more than chance allows, given its probability.

    It ends in `way_out`.
    """
    differing = int((tail < _DISAGREEMENT / tail.size).sum())
    if not differing:
        return []
    return [
        f"chains disagree about the means of {differing} of {tail.size} sites by more than their batches allow: they "
        "have not visited the same states, and the standard errors are not to be trusted" + way_out
    ]
