"""Rows and views with known answers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bouncy.experiments.ledger import Row
from bouncy.experiments.settings import Settings, load
from bouncy.experiments.views import CHAINS, View, Views

BARS = {
    "published": [("bps-exponential", "path"), ("bps-gaussian", "path"), ("hmc", "ends")],
    "ours": [
        ("bps-exponential", "path"),
        ("bps-exponential", "conditional"),
        ("bps-gaussian", "path"),
        ("bps-gaussian", "conditional"),
        ("hmc", "ends"),
        ("hmc", "path"),
        ("hmc", "conditional"),
        ("gibbs", "path"),
        ("gibbs", "conditional"),
        ("metropolis", "path"),
        ("metropolis", "conditional"),
        ("tempered", "path"),
        ("tempered", "conditional"),
    ],
}

MACHINE = {"processor": "Abacus 9 <x>", "cores": "2", "Python": "3.11.7", "numba": "0.61.0", "bouncy": "0.1.0"}

# With this seed, errors of the same level are undecided in all cells.
SEED = 1

# The median error of a bar: (edition, sampler, estimator, sigma_M, sigma_r) -> number.
Level = Callable[[str, str, str, float, float], float]


def make(figure: str, level: Level, runs: int = 30, spread: float = 0.05) -> tuple[Settings, list[Row]]:
    """Return the settings of a figure and rows whose errors scatter by `spread` around their level."""
    settings = load(figure, "paper")
    bars = [(edition, *bar) for edition, bars in BARS.items() for bar in bars]
    rows = []
    for sigma_M, sigma_r in settings.cells:
        # The same noise in every cell and for every number of runs, so that levels alone decide.
        noise = np.random.default_rng(SEED).normal(scale=spread, size=(runs, len(bars)))
        for run in range(runs):
            for (edition, sampler, estimator), z in zip(bars, noise[run], strict=True):
                mse = level(edition, sampler, estimator, sigma_M, sigma_r) * math.exp(z)
                rows.append(
                    Row(
                        figure=figure,
                        edition=edition,
                        sampler=sampler,
                        estimator=estimator,
                        d=settings.d,
                        sigma_M=sigma_M,
                        sigma_r=sigma_r,
                        run=run,
                        seed=1711,
                        cpu_seconds=settings.seconds,
                        hits=9_000_000,
                        flips=4_500_000,
                        mse_mean=mse,
                        mse_pairs=0.0 if settings.pairs else math.nan,
                        mse=mse,
                    )
                )
    return settings, rows


def levels(**by_sampler: float) -> Level:
    """Return levels that depend on the sampler alone, with "_" for "-" in its name; 9 for samplers not named."""
    named = {sampler.replace("_", "-"): value for sampler, value in by_sampler.items()}
    return lambda edition, sampler, estimator, sigma_M, sigma_r: 1e-5 * named.get(sampler, 9.0)


def make_views() -> Views:
    """Return views of all chains, with simple curves."""
    rng = np.random.default_rng(5)
    curves = [
        View(
            edition=edition,
            sampler=sampler,
            lag_seconds=1e-4,
            autocorrelation=np.exp(-np.arange(50) / 10),
            holding_times=rng.exponential(0.02, size=1000),
            magnetisation=rng.normal(scale=0.1, size=100),
            magnetisation_seconds=np.linspace(0, 0.01, 100),
        )
        for edition, sampler in CHAINS
    ]
    return Views(d=100, sigma_M=0.1, sigma_r=0.0, seed=1711, curves=curves)
