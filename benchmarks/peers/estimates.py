"""Effective samples per CPU second, and whether an answer is right at all.

Chains are independent, and their averages are compared with the exact answer. A chain that averages a quantity of
variance V with a mean squared error e counts V / e effective samples, so that a bias counts too, and averages of
conditional means may count more than there were draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr
from timing import Median, median

Array = NDArray[np.float64]
# Chance that a right answer is called wrong, for energies and for all sites together.
_ALARM = 1e-4
# Smallest standard error of a site that is believed, over the root mean square of all of them.
_SMALLEST = 0.3
# Effective samples of a chain in a round below which rounds of a chain are not independent enough to be replicates.
_FEW = 5.0


# Variance of a site below which it can not be the slowest: what it hardly ever does, few chains see.
_STILL = 0.05


class Truth(NamedTuple):
    """E[s_i] and its standard error, (d,) each; E[log p], its standard error and the sd of log p; log Z if known."""

    mean: Array
    energy: float
    energy_sd: float
    mean_se: Array | float = 0.0
    energy_se: float = 0.0
    log_z: float | None = None


class Blocks(NamedTuple):
    """Averages of spins, (rounds, chains, d), and of log p, (rounds, chains) or none, attempts and CPU seconds."""

    mean: Array
    energy: Array | None
    attempts: Array  # (rounds,)
    seconds: Array  # (rounds,)
    log_z: Array | None = None  # (chains,), from all rounds
    log_z_seconds: float = 0.0  # CPU time behind it


def blocks(answers: list[dict[str, Any]]) -> Blocks:
    """Return the answers of a sampler to equal requests."""
    energy = [one["log_prob"].mean(axis=1) for one in answers] if "log_prob" in answers[0] else None
    mean, attempts, seconds = (np.array([one[name] for one in answers]) for name in ("mean", "attempts", "seconds"))
    log_z, log_z_seconds = (answers[-1].get(name) for name in ("log_z", "log_z_seconds"))
    return Blocks(mean, None if energy is None else np.array(energy), attempts, seconds, log_z, log_z_seconds)


def rates(found: Blocks, truth: Truth) -> dict[str, Median]:
    """Return what a CPU second gives: attempted flips, and effective samples of log p, the slowest site and a mean.

    Averages that are exact, as those of clusters without a field, are left out.
    """
    variance = 1.0 - truth.mean**2
    squares = ((found.mean - truth.mean) ** 2).mean(axis=1)  # (rounds, d), squared errors of the average of a chain
    whole = ((found.mean.mean(axis=0) - truth.mean) ** 2).mean(axis=0)
    sites = np.flatnonzero(variance > _STILL)
    shares, shares_of_whole = squares[:, sites] / variance[sites], whole[sites] / variance[sites]
    rest = shares.sum(axis=0) - shares  # the slowest site of a round is named by the others: its own would be biased
    slowest = shares[np.arange(len(shares)), rest.argmax(axis=1)]
    given = {
        "attempts": median(found.attempts / found.seconds),
        "mean": _rate(squares.sum(axis=1) / variance.sum(), whole.sum() / variance.sum(), found),
        "slowest": _rate(slowest, shares_of_whole[shares.sum(axis=0).argmax()], found),
    }
    if found.energy is not None:
        energy = ((found.energy - truth.energy) ** 2).mean(axis=1) / truth.energy_sd**2
        total = ((found.energy.mean(axis=0) - truth.energy) ** 2).mean() / truth.energy_sd**2
        given["energy"] = _rate(energy, total, found)
    return {name: rate for name, rate in given.items() if np.isfinite(rate.value)}


def _rate(rounds: Array, whole: float, found: Blocks) -> Median:
    """Return effective samples per CPU second, from rounds or, where chains are too slow for these, from whole runs."""
    chains = found.mean.shape[1]
    if not rounds.any():
        return Median(np.inf, np.inf, np.inf)
    if np.median(rounds) < 1.0 / _FEW:
        return median(np.divide(chains, rounds * found.seconds))
    value = float(chains / (whole * found.seconds.sum()))
    return Median(value, value, value)


def per_chain(found: Blocks, truth: Truth) -> float:
    """Return the effective samples of a mean that a whole chain gains; a chain that is stuck has about one."""
    error = ((found.mean.mean(axis=0) - truth.mean) ** 2).mean(axis=0).sum()
    return float(np.sum(1.0 - truth.mean**2) / error) if error else float("inf")


def log_z_error(found: Blocks, truth: Truth) -> float | None:
    """Return the root mean squared error of log Z that a CPU second of one chain leaves, if there is one."""
    if found.log_z is None or truth.log_z is None:
        return None
    error = np.sqrt(np.mean((found.log_z - truth.log_z) ** 2))
    return float(error * np.sqrt(found.log_z_seconds / found.log_z.size))


def verdict(found: Blocks, truth: Truth) -> str:
    """Return "" for an answer that agrees with the exact one, or by how much it does not."""
    wrong = []
    if found.energy is not None:
        off, error, p = _test(found.energy.mean(axis=0)[:, None], truth.energy, truth.energy_se)
        if p[0] < _ALARM:
            wrong.append(f"E[log p] off by {off[0] / truth.energy_sd:+.2g} sd{_errors(off[0] / error[0])}")
    off, error, p = _test(found.mean.mean(axis=0), truth.mean, truth.mean_se)
    worst = int(np.argmin(p))
    if p[worst] * p.size < _ALARM:
        wrong.append(f"E[s_i] off by {off[worst]:+.2g}{_errors(off[worst] / error[worst])}")
    return "; ".join(wrong)


def _errors(score: float) -> str:
    return f" ({abs(score):.0f} standard errors)" if abs(score) < 1000.0 else " (over 1000 standard errors)"


def _test(chains: Array, exact: Array | float, exact_se: Array | float) -> tuple[Array, Array, Array]:
    """Return differences from exact values, their standard errors over chains, and p-values, (k,) each.

    Of many sites some have averages that agree by chance in all chains, most of all where there were few draws. So no
    error is taken to be much smaller than those of all sites together.
    """
    n = len(chains)
    off, spread = chains.mean(axis=0) - exact, chains.std(axis=0, ddof=1) / np.sqrt(n)
    spread = np.maximum(spread, _SMALLEST * np.sqrt(np.mean(spread**2)))
    error = np.maximum(np.hypot(spread, exact_se), 1e-12)
    return off, error, 2.0 * stdtr(n - 1, -np.abs(off / error))
