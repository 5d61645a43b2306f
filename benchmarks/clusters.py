"""How many effective samples do clusters give at a transition, and how much longer do they take on larger lattices?"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
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
    "Exponent: slope of log tau against log L, tau the integrated autocorrelation time in sweeps of Swendsen-Wang."
)
HEADER = "sampler | quantity | divided by"

COUPLING = math.log(1.0 + math.sqrt(2.0)) / 2.0
SIDE = 64
# Sides of the lattices whose autocorrelation times are compared, and the sweeps of each.
SWEEPS = {
    "swendsen-wang": {16: 1_000_000, 32: 600_000, 64: 300_000, 128: 150_000, 256: 100_000},
    "wolff": {16: 300_000, 32: 200_000, 64: 100_000, 128: 50_000, 256: 30_000},  # which forgets sooner
}
_CLUSTERS: dict[str, Any] = {"swendsen-wang": bouncy.SwendsenWang(), "wolff": bouncy.Wolff()}
# The interpreter of mcising.
MCISING = interpreter("mcising")
_PLOT = "clusters.png"
_WARM = 1000
# Largest exponent that clusters are meant to have.
_EXPONENT = 0.3
# Autocorrelations are summed up to so many autocorrelation times.
_WINDOW = 6.0
# Standard errors by which an energy may be off before anything is compared.
_WRONG = 5.0
QUANTITIES = ("log p", "m^2")


class Traces(NamedTuple):
    """log p and m^2 of some states, (n,) each, and CPU seconds."""

    log_prob: NDArray[np.float64]
    m2: NDArray[np.float64]
    seconds: float

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
        return Traces(rows["log_prob"], rows["magnetisation"] ** 2, worker.cpu_seconds - before)

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
    """Return tau of the quantities for each side, and the slopes; as quartiles those of their errors."""
    sweeps = {side: 20_000 for side in (16, 32, 64)} if quick else SWEEPS[sampler]
    traces = {side: chain_of(side, _CLUSTERS[sampler])(n)[:2] for side, n in sweeps.items()}
    sides, n = (np.array(x, float) for x in (list(sweeps), list(sweeps.values())))
    figures, slopes = [], []
    for k, quantity in enumerate(QUANTITIES):
        tau = np.array([autocorrelation_time(found[k]) for found in traces.values()])
        error = np.sqrt(2.0 * (2.0 * _WINDOW * tau + 1.0) / n)  # of log tau (Madras and Sokal)
        figures += [
            Figure(f"`{sampler}`, L = {side} | tau of {quantity} |", _with_error(value, value * relative),
                   unit="sweeps", details={"sampler": sampler, "side": side, "quantity": quantity})
            for side, value, relative in zip(sweeps, tau, error, strict=True)
        ]  # fmt: skip
        fit, covariance = np.polyfit(np.log(sides), np.log(tau), 1, w=1.0 / error, cov="unscaled")
        slope = _with_error(fit[0], np.sqrt(covariance[0, 0]))
        slopes.append(Figure(f"`{sampler}` | exponent of {quantity} |", slope, _EXPONENT, unit="",
                             details={"sampler": sampler, "exponent": quantity}))  # fmt: skip
    return figures + slopes


def _with_error(value: float, error: float) -> Median:
    """Return an estimate with the quartiles of its normal error."""
    return Median(float(value), float(value - 0.6745 * error), float(value + 0.6745 * error))


def draw(figures: list[Figure], directory: Path) -> Path | None:
    """Draw tau against L, and return the file."""
    points = [figure for figure in figures if "side" in figure.details]
    if not points:
        return None
    import matplotlib.pyplot as plt

    plot, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    slopes = {(f.details["sampler"], f.details["exponent"]): f.median.value for f in figures if "exponent" in f.details}
    looks = zip(("#882255", "#0072b2", "#cc6677", "#56b4e9"), "osDv", strict=True)
    for (sampler, quantity), (colour, marker) in zip(slopes, looks, strict=True):
        mine = [f for f in points if (f.details["sampler"], f.details["quantity"]) == (sampler, quantity)]
        sides, tau = (np.array(x) for x in zip(*((f.details["side"], f.median.value) for f in mine), strict=True))
        slope = slopes[sampler, quantity]
        label = f"{sampler}, {'energy' if quantity == 'log p' else '$m^2$'}: $L^{{{slope:.2f}}}$"
        line = np.exp(np.mean(np.log(tau)) + slope * (np.log(sides) - np.mean(np.log(sides))))
        axes.plot(sides, tau, marker, color=colour, markersize=7)
        axes.plot(sides, line, color=colour, linewidth=2, label=label)
    guide = float(tau[0]) * (sides / sides[0]) ** 2.17
    axes.plot(sides, guide, ":", color="#777777", label="single flips: slope of $L^{2.17}$")
    axes.set(xscale="log", yscale="log", xlabel="side L of the critical torus", ylim=(0.4, 60.0),
             ylabel="autocorrelation time (sweeps)", title="Clusters at the transition")  # fmt: skip
    axes.set_xticks(sides, [str(side) for side in sides])
    axes.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.grid(which="major", color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    path = directory / _PLOT
    plot.savefig(path, dpi=150)
    plt.close(plot)
    return path
