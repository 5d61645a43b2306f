"""What a ladder of temperatures costs, how often it is travelled, and how exact it is beside other ways to run one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from ladders import (
    HAMON,
    Array,
    Result,
    Slab,
    by_address,
    custom,
    glass,
    hamon,
    ladder_job,
    lanes_job,
    sampled,
    scalar_job,
    slab,
    terms,
)
from problems import dense
from report import Figure, Task
from timing import Job, Median, interleaved, median

import bouncy
from bouncy.targets.contract import Target

TITLE = 'Ladders of temperatures: cost, round trips, and accuracy of "tempered"'
NOTE = (
    "`scan` is CPU time of a scan / that of as many lanes without swaps, which record what is said. `scalar chains` "
    "is that of as many chains with clocks of their own, without swaps / that of a scan. `round trips` are those "
    "made / those of states that forget themselves between swaps. `log Z` and `mean` are squared error x CPU time of "
    'the rival / that of "tempered" on one glass, over seeds, with the warm-up, and with the pilot unless the rival '
    "has the same ladder. `price` is squared error x CPU time of E[s_i], "
    '"tempered" / eight chains that share a clock, where nobody needs a ladder. Quartiles are over rounds for `scan`, '
    "over seeds for `round trips`, and over resamplings of the seeds for the others. Without "
    "clusters a chain is one ladder in place of a pair, and makes twice the scans."
)
HEADER = "model | figure | against"

_SHARE, _TRIPS, _GAIN = 1.1, 0.5, 10.0
_COUPLINGS = (1.2, 2.0)
_PLACES = 5
_CHAINS = 8
_OWN = "tempered"
# A ladder of chains with clocks of their own: it finds as much in a scan, so that its time alone is compared.
_SCALAR = "scalar chains"


def tasks(quick: bool) -> list[Task]:
    if not HAMON.exists():
        print("tempering goes without hamon: `make .venv-peer-hamon/.ready` installs it", file=sys.stderr)
    return [
        *(
            Task(f"scans, {_label(coupling)}", partial(_scans, _label(coupling), partial(_glass, coupling), quick))
            for coupling in _COUPLINGS
        ),
        Task("scans, dense", partial(_scans, "dense, d = 100", lambda: dense(100), quick)),
        *(Task(_label(coupling), partial(_accuracy, coupling, quick)) for coupling in _COUPLINGS),
        *(Task(name, partial(_clusters, name, *case, quick)) for name, case in _PAIRS.items()),
        Task("price, dense", partial(_price, "dense, d = 100, sigma_M = 0.05", _easy, quick)),
        Task("price, torus", partial(_price, "torus 32x32, 0.3", lambda: bouncy.MRF.ising((32, 32), 0.3), quick)),
    ]


def _label(coupling: float) -> str:
    return f"slab 4x4x16, {coupling}"


def _glass(coupling: float) -> bouncy.MRF:
    return slab(4, 16, coupling, 0).target


def _easy() -> bouncy.MRF:
    return bouncy.MRF.random(100, sigma_M=0.05, sigma_r=0.1, seed=1)


# The cost of a scan

_BESIDE = {
    "at its temperatures, as much recorded": (True, "ladder"),
    "at its temperatures, nothing recorded": (True, "nothing"),
    "at b = 1, as much recorded": (False, "ladder"),
    "at b = 1, means of all lanes recorded": (False, "means"),
    "at b = 1, nothing recorded": (False, "nothing"),
}


def _scans(label: str, build: Callable[[], bouncy.MRF], quick: bool) -> list[Figure]:
    rounds, scans = (5, 500) if quick else (15, 1000)
    target = build()
    sampler, _ = bouncy.Tempered().prepared(target, np.random.SeedSequence(0))
    _, spins = ladder_job(target, sampler, scans)
    jobs = {"scan": _placed(lambda: ladder_job(target, sampler, scans)[0])}
    if sampler.clusters:
        jobs["scan without clusters"] = _placed(lambda: ladder_job(target, sampler, scans, clusters=False)[0])
    kinds = list(jobs)
    for name, (tempered, recorded) in _BESIDE.items():
        told = {"tempered": tempered, "recorded": recorded}
        jobs[name] = _placed(partial(lanes_job, target, sampler, scans, spins, **told))
    jobs[_SCALAR] = scalar_job(target, sampler, scans // 10, spins)
    seconds = interleaved(jobs, rounds)
    details = {"model": label, "rungs": sampler.rungs, "sweeps_per_swap": sampler.sweeps_per_swap}
    goal = _GAIN if sampler.clusters else None  # on glasses
    gains = {kind: median(seconds[_SCALAR] / seconds[kind]) for kind in kinds}
    return [Figure(f"{label} | {_SCALAR} | {kind}", gain, goal, "at least") for kind, gain in gains.items()] + [
        Figure(
            f"{label} | {kind} | lanes {name}",
            median(seconds[kind] / seconds[name]),
            _SHARE if recorded == "ladder" and tempered else None,
            details=details | {"tempered": tempered, "recorded": recorded},
        )
        for kind in kinds
        for name, (tempered, recorded) in _BESIDE.items()
    ]


def _placed(build: Callable[[], Job]) -> Job:
    """Return the mean over several workers: where in memory the arrays of one lie matters by ten percent."""
    jobs = [build() for _ in range(_PLACES)]
    return lambda: sum(job() for job in jobs) / len(jobs)


# Accuracy on glasses


def _accuracy(coupling: float, quick: bool) -> list[Figure]:
    seeds, few, scans = (8, 3, 4000) if quick else (24, 12, 16_000)
    label, model = _label(coupling), slab(4, 16, coupling, 0)
    own = partial(_run, model.target, _OWN, scans)
    same: dict[str, Callable[[int], Result]] = {  # by address it finds what ours does, so that few seeds tell
        _OWN: partial(_repeat, model.target, model.target, scans),
        "the same ladder, called by address": partial(_repeat, model.target, by_address(model.target), scans),
        "the same ladder, bouncy.Custom": partial(_repeat, model.target, custom(model.target), scans),
    }
    figures = _gains(label, model, _in_turn(same, few))
    sampler, _ = bouncy.Tempered().prepared(model.target, np.random.SeedSequence(0))
    with ExitStack() as stack:
        others = {}
        if HAMON.exists():
            warmup = sampler.default_warmup(model.target, scans)
            others["hamon"] = stack.enter_context(hamon(model.target, sampler, scans, warmup))
        found = _in_turn({_OWN: own} | others, seeds)
    trips = [Figure(f"{label} | round trips | ", _trips(found[_OWN]), _TRIPS, "at least")]
    trips += [Figure(f"{label} | (round trips of {name}) | ", _trips(found[name])) for name in others]
    return trips + figures + _gains(label, model, found)


# Glasses on which pairs of ladders may exchange clusters: shape, coupling, and the form of the target.
_PAIRS: dict[str, tuple[tuple[int, ...], float, Callable[[bouncy.MRF], Target]]] = {
    "strip 10x16, 1.5": ((16, 10), 1.5, lambda model: model),
    "strip 10x16, 3": ((16, 10), 3.0, lambda model: model),
    "strip 10x16, 3, terms": ((16, 10), 3.0, terms),
    "slab 3x3x12, 2": ((12, 3, 3), 2.0, lambda model: model),
    "slab 3x3x12, 2, terms": ((12, 3, 3), 2.0, terms),
}


def _clusters(
    label: str, shape: tuple[int, ...], coupling: float, form: Callable[[bouncy.MRF], Target], quick: bool
) -> list[Figure]:
    """Compare pairs of ladders that exchange clusters with single ones, of the same rungs and twice the scans."""
    seeds, scans = (8, 2000) if quick else (40, 4000)
    model = glass(shape, coupling, 0, "gaussian")
    target = form(model.target)
    pair, _ = bouncy.Tempered().prepared(target, np.random.SeedSequence(0))
    single = replace(pair, ladders=1, clusters=())
    runs = {_OWN: partial(_run, target, pair, scans), "without clusters": partial(_run, target, single, 2 * scans)}
    found = _in_turn(runs, seeds)
    trips = [Figure(f"{label} | round trips | {name}", _trips(results)) for name, results in found.items()]
    return trips + _gains(label, model, found, goal=1.0)


def _gains(label: str, model: Slab, found: dict[str, list[Result]], goal: float = _GAIN) -> list[Figure]:
    """Return squared error x CPU time of each rival, over ours."""
    figures = []
    for name, results in found.items():
        for estimate in ("log Z", "mean") if name != _OWN else ():
            rival, own = _costs(results, model, estimate), _costs(found[_OWN], model, estimate)
            details = {"seeds": len(results)} | _facts(own, rival)
            ratio = _ratio(rival, own)
            figures.append(Figure(f"{label} | {estimate} | {name}", ratio, goal, "at least", details=details))
    return figures


def _trips(results: Sequence[Result]) -> Median:
    return median([one.trips for one in results])


def _repeat(target: Target, rival: Target, scans: int, seed: int) -> Result:
    """Run the ladder that the pilot of a seed finds on another form of the target, without the cost of the pilot."""
    sampler = sampled(target, _OWN, draws=1, seed=seed)[0].sampler
    if not sampler.can_trade_clusters(rival):
        sampler = replace(sampler, ladders=1, clusters=False)
    return _run(rival, sampler, scans, seed)


def _run(target: Target, sampler: str | bouncy.Tempered, scans: int, seed: int) -> Result:
    run, seconds = sampled(target, sampler, draws=scans, seed=seed)
    ladder = run.ladder
    return Result(run.log_z, run.mean, seconds, float(ladder.round_trips.sum() / ladder.expected_round_trips))


def _in_turn(runners: dict[str, Callable[[int], Any]], seeds: int) -> dict[str, list[Any]]:
    """Run the samplers in turn with each seed, after one round that compiles; every round starts with another one."""
    names = list(runners)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for seed in range(seeds + 1):
        for name in names[seed % len(names) :] + names[: seed % len(names)]:
            found[name].append(runners[name](seed))
    return {name: results[1:] for name, results in found.items()}


class Costs(NamedTuple):
    """Squared errors and CPU seconds with each seed, (seeds,)."""

    squares: Array
    seconds: Array


def _costs(results: Sequence[Result], model: Slab, estimate: str) -> Costs:
    """Return squared errors of log Z, or of means as an average over sites, and CPU seconds."""
    if estimate == "log Z":
        squares = [(one.log_z - model.log_z) ** 2 for one in results]
    else:
        squares = [float(np.mean((one.mean - model.mean) ** 2)) for one in results]
    return Costs(np.array(squares), np.array([one.seconds for one in results]))


def _ratio(above: Costs, below: Costs) -> Median:
    """Return mean squared error x mean CPU time, one over the other, with quartiles over resamplings of the seeds."""

    def product(costs: Costs, k: Any) -> float:
        return float(costs.squares[k].mean() * costs.seconds[k].mean())

    n, rng = above.squares.size, np.random.default_rng(0)
    rows = [np.arange(n), *rng.integers(0, n, (2000, n))]
    value, *others = (product(above, k) / product(below, k) for k in rows)
    low, high = np.quantile(others, [0.25, 0.75])
    return Median(value, float(low), float(high))


def _facts(own: Costs, other: Costs) -> dict[str, float]:
    """Return root mean squared errors and CPU seconds of a run."""
    return {
        "error": float(np.sqrt(own.squares.mean())),
        "error_of_the_other": float(np.sqrt(other.squares.mean())),
        "seconds": float(own.seconds.mean()),
        "seconds_of_the_other": float(other.seconds.mean()),
    }


# The price where modes are close


def _price(label: str, build: Callable[[], bouncy.MRF], quick: bool) -> list[Figure]:
    seeds, draws = (8, 1000) if quick else (24, 4000)
    target = build()
    exact = np.zeros(target.d)
    if np.any(target.r):
        exact = sampled(target, "bps-gaussian", draws=100_000, chains=64, seed=1 << 20)[0].mean
    runs = {name: partial(_one, target, name, draws, exact) for name in (_OWN, "bps-gaussian", "metropolis")}
    found = {name: Costs(*np.array(values).T) for name, values in _in_turn(runs, seeds).items()}
    own = found.pop(_OWN)
    return [
        Figure(
            f"{label} | price | {name}, {_CHAINS} chains",
            _ratio(own, other),
            details={"model": label, "against": name, "draws": draws, "seeds": seeds} | _facts(own, other),
        )
        for name, other in found.items()
    ]


def _one(target: bouncy.MRF, sampler: str, draws: int, exact: Array, seed: int) -> tuple[float, float]:
    """Return the squared error of E[s_i], an average over sites, and CPU seconds."""
    run, seconds = sampled(target, sampler, draws=draws, chains=1 if sampler == _OWN else _CHAINS, seed=seed)
    return float(np.mean((run.mean - exact) ** 2)), seconds
