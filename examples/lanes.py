"""Why may chains share a clock? What is shared, what is not, and what that leaves of their correlations.

A clock that never looks at the target says when which spin may flip. On the left one such clock drives six chains of
three spins, simulated in twenty lines below: all of them try the same spin at the same time, but each flips it or not
by a random number of its own. On the right 64 chains that `bouncy.sample` drives by one clock: if they were correlated,
the variance of their common average would not be a 64th of that of one chain.

Run it by `python examples/lanes.py`; it needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import bouncy

CHAINS, SITES, TIME = 6, 3, 6.0
LANES = 64
BATCH = 20  # draws


def simulate(target: bouncy.MRF, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times and sites of the hits of one clock, (n,), and the spins of all chains after each, (n + 1, chain, d).

    Sites are tried at the times of Poisson processes, the simplest clock.
    """
    clock, start, *tolls = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2 + CHAINS))
    n = clock.poisson(SITES * TIME)
    times, sites = np.sort(clock.uniform(0.0, TIME, n)), clock.integers(SITES, size=n)
    spins = np.empty((n + 1, CHAINS, SITES), np.int8)
    spins[0] = start.choice([-1, 1], (CHAINS, SITES))
    for k, i in enumerate(sites):
        spins[k + 1] = spins[k]
        for chain, toll in enumerate(tolls):
            flipped = spins[k, chain].copy()
            flipped[i] *= -1
            if toll.exponential() > target.log_prob(spins[k, chain]) - target.log_prob(flipped):
                spins[k + 1, chain] = flipped
    return times, sites, spins


def shares(run: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, the variance of the pooled average x chains / that of one chain, and its standard error."""
    traces = {f"s {label}": run.draws[..., k] for k, label in enumerate(run.target.labels)}
    traces |= {"sum": run.magnetisation, "log p": run.log_prob}
    found = []
    for trace in traces.values():
        batches = trace[:, : trace.shape[1] // BATCH * BATCH].reshape(run.chains, -1, BATCH).mean(axis=2)
        found.append(run.chains * batches.mean(axis=0).var(ddof=1) / batches.var(axis=1, ddof=1).mean())
    return list(traces), np.array(found), np.full(len(found), np.sqrt(2.0 / batches.shape[1]))


def main(small: bool = False, out: Path = Path("output/lanes.png"), seed: int = 1) -> Any:
    """Simulate, sample, print, draw; `small` is a short version."""
    target = bouncy.MRF.random(6, sigma_M=0.5, sigma_r=0.3, seed=2)
    draws = 2000 if small else 100_000
    run = bouncy.sample(target, chains=LANES, lanes=LANES, draws=draws, seed=seed, progress=False)
    names, ratio, error = shares(run)
    print("variance of the average over 64 chains that share a clock, x 64 / that of one chain")
    for name, value in zip(names, ratio, strict=True):
        print(f"{name:>6}{value:>8.3f} ± {error[0]:.3f}")
    draw(out, bouncy.MRF.random(SITES, sigma_M=0.6, sigma_r=0.4, seed=0), names, ratio, error)
    print(f"Picture: {out.resolve()}")
    return run


def draw(out: Path, target: bouncy.MRF, names: list[str], ratio: np.ndarray, error: np.ndarray) -> None:
    """Draw the spins of six chains under the hits of their clock, and the variances."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import style

    times, sites, spins = simulate(target)
    edges = np.concatenate([[0.0], times, [TIME]])
    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12.5, 4.4), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        left, right = figure.subplots(1, 2, width_ratios=(2.1, 1))
        for i in range(SITES):
            base = (SITES - 1 - i) * (CHAINS + 1.6)
            for chain in range(CHAINS):
                colours = [style.SPIN_COLOURS[int(s > 0)] for s in spins[:, chain, i]]
                y = base + CHAINS - 1 - chain
                left.barh(y, np.diff(edges), left=edges[:-1], height=0.82, color=colours, edgecolor="none")
            hits = times[sites == i]
            left.vlines(hits, base - 0.6, base + CHAINS - 0.4, color=style.VERMILION, linewidth=1.4)
            left.plot(hits, np.full(hits.size, base + CHAINS - 0.15), "v", color=style.VERMILION, markersize=6)
            left.text(-0.12, base + (CHAINS - 1) / 2, f"spin {i}\nin {CHAINS} chains", ha="right", va="center")
        left.set(xlim=(0.0, TIME), yticks=[], xlabel="time", title="One clock (red): when each spin is tried")
        left.spines["left"].set_visible(False)
        places = np.arange(len(names))
        right.axhline(1.0, color=style.GREY, linewidth=1.0)
        right.errorbar(places, ratio, 2.0 * error, fmt="o", color=style.BLUE, capsize=3)
        far = max(0.1, 1.3 * np.max(np.abs(ratio - 1.0) + 2.0 * error))
        right.set(xticks=places, xticklabels=names, ylim=(1.0 - far, 1.0 + far))
        right.set(ylabel="variance of the average × 64\n/ variance of one chain", title="64 chains, one clock")
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


if __name__ == "__main__":
    main()
