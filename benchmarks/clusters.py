"""How many effective samples do clusters give at a transition, and how much longer do they take on larger lattices?"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers.protocol import interpreter, started
from problems import as_arrays
from report import Figure, Task
from timing import Median, median

import bouncy
from bouncy.results.ess import effective_sample_size
from bouncy.testing import kaufman_torus
from bouncy.workers.contract import Keep, Plan

TITLE = "Clusters at the transition of the square lattice"
NOTE = (
    "Effective samples per CPU second on the critical torus 64x64, of log p and of m^2, divided by those of the named "
    "sampler, in rounds of interleaved chains; states one sweep apart, of mcising's Wolff three clusters apart. "
    "Exponent: slope of a plain fit of log tau against log L, tau the integrated autocorrelation time in sweeps, known "
    "to 2 % on every lattice; L = 16 to 32: the slope from one lattice to the next. Sweeps of Wolff are whole numbers "
    "of clusters, 2 to 4: its tau is in turns of d sites, as is usual. Quartiles of tau and slopes are those of their "
    "errors."
)
HEADER = "sampler | quantity | divided by"

COUPLING = math.log(1.0 + math.sqrt(2.0)) / 2.0
SIDE = 64
# Sides of the lattices whose autocorrelation times are compared.
SIDES, _QUICK_SIDES = (16, 32, 64, 128, 256), (16, 32, 64)
# Relative error of tau of log p on each of them: the same, so that a plain fit uses all of them alike.
PRECISION, _QUICK_PRECISION = 0.02, 0.05
# Sweeps from which it is told how many are needed for that.
_PILOT = 30_000
_CLUSTERS: dict[str, Any] = {"swendsen-wang": bouncy.SwendsenWang(), "wolff": bouncy.Wolff()}
# The interpreter of mcising.
MCISING = interpreter("mcising")
_PLOT = "clusters.png"
_WARM = 1000
# Largest exponent that clusters are meant to have.
_EXPONENT = 0.3
# Autocorrelations are summed up to so many autocorrelation times.
_WINDOW = 6.0
# Upper quartile of a standard normal variable.
_QUARTILE = 0.6745
# Standard errors by which an energy may be off before anything is compared.
_WRONG = 5.0
QUANTITIES = ("log p", "m^2")


class Traces(NamedTuple):
    """log p and m^2 of some states, (n,) each, CPU seconds, and the unit of time between two states."""

    log_prob: NDArray[np.float64]
    m2: NDArray[np.float64]
    seconds: float
    time: float = 1.0

    def effective(self) -> dict[str, float]:
        """Return effective samples per CPU second, by quantity."""
        return {name: samples(x) / self.seconds for name, x in zip(QUANTITIES, self[:2], strict=True)}


Chain = Callable[[int], Traces]


def samples(trace: NDArray[np.float64]) -> float:
    """Return the effective sample size of a trace."""
    return float(effective_sample_size(trace[None, :, None])[0])


def autocorrelation_time(trace: NDArray[np.float64]) -> float:
    """Return the integrated autocorrelation time, summed up to six times itself (Madras and Sokal 1988)."""
    x = trace - trace.mean()
    spectrum = np.abs(np.fft.rfft(x, 2 * x.size)) ** 2
    rho = np.fft.irfft(spectrum)[: x.size]
    tau = np.cumsum(rho / rho[0]) - 0.5
    return float(tau[np.argmax(np.arange(tau.size) >= _WINDOW * tau)])


def chain_of(side: int, sampler: Any) -> Chain:
    """Return a function that makes so many sweeps, as `bouncy.sample` does, and returns the traces of all draws."""
    target = bouncy.MRF.ising((side, side), COUPLING)
    used, _ = sampler.prepared(target, np.random.SeedSequence(0))
    start = np.ones(target.d, np.int8)
    (worker,) = used.workers(target, Plan(), [np.random.SeedSequence(1)], [start])
    worker.compile("means")
    worker.advance(_WARM)

    def run(sweeps: int) -> Traces:
        before = worker.cpu_seconds
        rows = worker.advance(sweeps, Keep("means")).rows[0]
        m2 = rows["magnetisation"] ** 2
        time = used.clusters * m2.mean() if isinstance(used, bouncy.Wolff) else 1.0  # a cluster has d E[m^2] sites
        return Traces(rows["log_prob"], m2, worker.cpu_seconds - before, time)

    return run


@contextmanager
def mcising(side: int, algorithm: str, interval: int = 1) -> Iterator[Chain]:
    """Start a process of mcising for the time of a `with` statement, and return a chain of one of its algorithms."""
    start = np.ones((1, side * side), np.int8)
    model = as_arrays(bouncy.MRF.ising((side, side), COUPLING)) | {"start": start}
    with started("mcising", "mcising_peer.py", model=model, algorithm=algorithm, interval=interval) as ask:
        ask(draws=_WARM)

        def run(states: int) -> Traces:
            answer = ask(draws=states)
            return Traces(answer["log_prob"][0], answer["magnetisation"][0] ** 2, answer["seconds"])

        yield run


def tasks(quick: bool) -> list[Task]:
    """Return one task for the comparison, and one for the exponent."""
    rounds, sweeps = (5, 3000) if quick else (9, 8000)
    return [
        Task(f"{SIDE}x{SIDE}", lambda: _compare(rounds, sweeps, 20_000 if quick else 120_000)),
        *(Task(f"exponent, {name}", partial(_exponent, name, quick)) for name in _CLUSTERS),
    ]


def _compare(rounds: int, sweeps: int, single: int) -> list[Figure]:
    """Return effective samples per CPU second, as ratios within rounds; single flips are measured once, for long."""
    with ExitStack() as stack:
        chains = {"swendsen-wang": chain_of(SIDE, bouncy.SwendsenWang()), "wolff": chain_of(SIDE, bouncy.Wolff())}
        if MCISING.exists():
            chains["mcising wolff"] = stack.enter_context(mcising(SIDE, "wolff", 3))
            chains["mcising swendsen-wang"] = stack.enter_context(mcising(SIDE, "swendsen_wang"))
        else:
            print("clusters go without mcising: `make .venv-peer-mcising/.ready` installs it", file=sys.stderr)
        found = {name: [] for name in chains}
        for k in range(rounds + 1):
            names = list(chains)
            for name in names[k % len(names) :] + names[: k % len(names)]:
                found[name].append(chains[name](sweeps))
    _check(found)
    rates = {name: [traces.effective() for traces in each[1:]] for name, each in found.items()}
    rates["bps-gaussian"] = [chain_of(SIDE, bouncy.BPS())(single).effective()] * rounds
    return [figure for name in ("swendsen-wang", "wolff") for figure in _ratios(name, rates)]


def _check(found: Mapping[str, list[Traces]]) -> None:
    """Raise where the energy of a sampler is not Kaufman's: nothing else that it does is worth comparing."""
    expected = 2.0 * SIDE**2 * COUPLING * kaufman_torus(SIDE, SIDE, COUPLING).bond_mean
    for name, each in found.items():
        trace = np.concatenate([traces.log_prob for traces in each])
        error = trace.std() / math.sqrt(samples(trace))
        if abs(trace.mean() - expected) > _WRONG * error:
            raise RuntimeError(f"{name} has the energy {trace.mean():.6g} +- {error:.2g}; expected {expected:.6g}")


def _ratios(name: str, rates: Mapping[str, list[dict[str, float]]]) -> list[Figure]:
    figures = []
    for other in rates:
        if other in ("swendsen-wang", "wolff"):
            continue
        for quantity in QUANTITIES:
            ratio = [ours[quantity] / theirs[quantity] for ours, theirs in zip(rates[name], rates[other], strict=True)]
            best = name == "wolff" and other == "mcising wolff"
            what = f"`{name}` | {quantity} | {other}"
            details = {"sampler": name, "quantity": quantity, "other": other}
            figures.append(Figure(what, median(ratio), 1.0 if best else None, "at least", details=details))
    return figures


def _exponent(sampler: str, quick: bool) -> list[Figure]:
    """Return tau of the quantities for each side, the slope of all of them, and slopes from each side to the next."""
    sides = _QUICK_SIDES if quick else SIDES
    precision = _QUICK_PRECISION if quick else PRECISION
    traces = [_long_traces(chain_of(side, _CLUSTERS[sampler]), precision) for side in sides]
    taus, slopes = [], []
    for k, quantity in enumerate(QUANTITIES):
        tau = np.array([autocorrelation_time(found[k]) for found in traces])
        error = np.array([_relative_error(t, found[k].size) for t, found in zip(tau, traces, strict=True)])
        tau *= [found.time for found in traces]
        taus += [
            Figure(f"`{sampler}`, L = {side} | tau of {quantity} |", _with_error(value, value * relative),
                   unit="sweeps", details={"sampler": sampler, "side": side, "quantity": quantity})
            for side, value, relative in zip(sides, tau, error, strict=True)
        ]  # fmt: skip
        slopes.append(Figure(f"`{sampler}` | exponent of {quantity} |", _slope(sides, tau, error), _EXPONENT, unit="",
                             details={"sampler": sampler, "exponent": quantity}))  # fmt: skip
        for i, (small, large) in enumerate(pairwise(sides)):
            local = _slope((small, large), tau[i : i + 2], error[i : i + 2])
            details = {"sampler": sampler, "between": [small, large], "quantity": quantity}
            what = f"`{sampler}`, L = {small} to {large} | exponent of {quantity} |"
            slopes.append(Figure(what, local, unit="", details=details))
    return taus + slopes


def _long_traces(chain: Chain, precision: float) -> Traces:
    """Return traces as long as it takes to know tau of log p with a relative error, found by a pilot."""
    tau = autocorrelation_time(chain(_PILOT).log_prob)
    return chain(math.ceil(_PILOT * (_relative_error(tau, _PILOT) / precision) ** 2))


def _relative_error(tau: float, n: int) -> float:
    """Return the standard error of log tau, from a trace of n sweeps (Madras and Sokal 1988)."""
    return math.sqrt(2.0 * (2.0 * _WINDOW * tau + 1.0) / n)


def _slope(sides: Sequence[int], tau: NDArray[np.float64], error: NDArray[np.float64]) -> Median:
    """Return the slope of log tau against log L, all sides alike, and its error, given those of log tau."""
    x = np.log(sides) - np.mean(np.log(sides))
    weight = x / np.sum(x**2)
    return _with_error(weight @ np.log(tau), np.sqrt(np.sum((weight * error) ** 2)))


def _with_error(value: float, error: float) -> Median:
    """Return an estimate with the quartiles of its normal error."""
    return Median(float(value), float(value - _QUARTILE * error), float(value + _QUARTILE * error))


def draw(figures: list[Figure], directory: Path) -> Path | None:
    """Draw tau against L, and slopes from each lattice to the next, and return the file."""
    points = [figure for figure in figures if "side" in figure.details]
    if not points:
        return None
    import matplotlib.pyplot as plt

    plot, (upper, lower) = plt.subplots(
        2, 1, figsize=(6.4, 6.2), height_ratios=(5, 3), sharex=True, layout="constrained"
    )
    slopes = {(f.details["sampler"], f.details["exponent"]): f.median.value for f in figures if "exponent" in f.details}
    looks = zip(("#882255", "#0072b2", "#cc6677", "#56b4e9"), "osDv", strict=True)
    for k, ((sampler, quantity), (colour, marker)) in enumerate(zip(slopes, looks, strict=True)):
        mine = [f for f in figures if (f.details["sampler"], f.details.get("quantity")) == (sampler, quantity)]
        sides, tau = (np.array(x) for x in zip(*((f.details["side"], f.median.value) for f in mine if f in points),
                                               strict=True))  # fmt: skip
        slope = slopes[sampler, quantity]
        label = f"{sampler}, {'energy' if quantity == 'log p' else '$m^2$'}: $L^{{{slope:.2f}}}$"
        line = np.exp(np.mean(np.log(tau)) + slope * (np.log(sides) - np.mean(np.log(sides))))
        upper.plot(sides, tau, marker, color=colour, markersize=7)
        upper.plot(sides, line, color=colour, linewidth=2, label=label)
        local = [f for f in mine if "between" in f.details]
        middle = np.array([math.sqrt(math.prod(f.details["between"])) for f in local]) * 1.04 ** (k - 1.5)
        error = [(f.median.high - f.median.low) / (2.0 * _QUARTILE) for f in local]
        lower.errorbar(middle, [f.median.value for f in local], error, fmt=marker, color=colour, markersize=5)
    guide = float(tau[0]) * (sides / sides[0]) ** 2.17
    upper.plot(sides, guide, ":", color="#777777", label="single flips: slope of $L^{2.17}$")
    upper.set(xscale="log", yscale="log", ylim=(0.4, 60.0), ylabel="autocorrelation time (sweeps)",
              title="Clusters at the transition")  # fmt: skip
    upper.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    upper.legend(frameon=False, loc="upper left", fontsize=9)
    lower.axhline(_EXPONENT, color="#777777", linewidth=1)
    lower.set(xlabel="side L of the critical torus", ylabel="slope between neighbours")
    lower.set_xticks(sides, [str(side) for side in sides])
    for axes in (upper, lower):
        axes.minorticks_off()
        axes.grid(which="major", color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
    path = directory / _PLOT
    plot.savefig(path, dpi=150)
    plt.close(plot)
    return path
