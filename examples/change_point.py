"""When did coal mines become safer? A change point, at which the likelihood jumps from year to year.

Counts of disasters in British coal mines, 1851 to 1962 (Jarrett 1979; Carlin, Gelfand & Smith 1992). Up to a time t
they are Poisson with one rate, from then on with another; rates have gamma priors, t is uniform. As a function of t the
likelihood is constant within a year and jumps between years: t has an edge at each of them. The density has a second,
tiny mode around 1945, in which a chain that starts there stays for thousands of sweeps; `scale` keeps starts away.

Given t the rates can be integrated in closed form, so that enumeration of all years is the reference.

Run it by `python examples/change_point.py`; it needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import digamma, gammaln

import bouncy

DISASTERS = np.array([
    4, 5, 4, 1, 0, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5, 2, 2, 3, 4, 2, 1,
    3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0,
    1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
])  # fmt: skip
FIRST = 1851
YEARS = FIRST + np.arange(DISASTERS.size)
SHAPE, RATE = 1.0, 1.0  # of the gamma priors: one disaster a year
TOTAL = np.concatenate([[0.0], np.cumsum(DISASTERS)])  # disasters before each year


def log_prob(y, data):
    """Return log p of the log rates y_0, before, and y_1, after, and of the time y_2."""
    total, first, shape, rate = data
    n = total.size - 1
    if not first < y[2] < first + n:
        return -np.inf
    m = int(np.ceil(y[2] - first))  # years with the first rate
    before = (shape + total[m]) * y[0] - (rate + m) * np.exp(y[0])
    return before + (shape + total[n] - total[m]) * y[1] - (rate + n - m) * np.exp(y[1])


def gradient(y, out, data):
    """Write the gradient of log p, which is flat in t."""
    total, first, shape, rate = data
    n, m = total.size - 1, int(np.ceil(y[2] - first))
    out[0] = shape + total[m] - (rate + m) * np.exp(y[0])
    out[1] = shape + total[n] - total[m] - (rate + n - m) * np.exp(y[1])
    out[2] = 0.0


def exact() -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of a change in each year, (112,), and the means of the log rates and of the time."""
    m = np.arange(1, DISASTERS.size + 1)
    shapes = np.stack([SHAPE + TOTAL[m], SHAPE + TOTAL[-1] - TOTAL[m]])
    rates = np.stack([RATE + m, RATE + DISASTERS.size - m])
    weight = np.sum(gammaln(shapes) - shapes * np.log(rates), axis=0)
    probability = np.exp(weight - weight.max())
    probability /= probability.sum()
    return probability, np.array([*((digamma(shapes) - np.log(rates)) @ probability), (YEARS + 0.5) @ probability])


def main(small: bool = False, out: Path = Path("output/change_point.png"), seed: int = 1) -> bouncy.PathRun:
    """Sample, print, draw; `small` is a short version."""
    target = bouncy.Density(
        3, log_prob, gradient, edges={"time": FIRST + np.arange(DISASTERS.size + 1)}, convex=True,
        data=(TOTAL, float(FIRST), SHAPE, RATE), labels=["log rate before", "log rate after", "time"],
        initial=[0.0, 0.0, 1900.0], scale=[0.2, 0.2, 5.0],
    )  # fmt: skip
    run = bouncy.sample(target, draws=1000 if small else 20_000, seed=seed, progress=False)
    probability, mean = exact()
    found = np.bincount((run.draws[..., 2].ravel() - FIRST).astype(int), minlength=YEARS.size) / run.draws[..., 2].size
    print(f"{target!r}\n{'':16}{'mean':>22}{'exact':>12}")
    for name, *row in zip(target.labels, run.mean, run.mean_se, mean, strict=True):
        print(f"{name:16}{row[0]:>13.4f} ± {row[1]:.4f}{row[2]:>12.4f}")
    print("\nchange in   share of draws     exact")
    for k in np.flatnonzero(probability > 0.02):
        print(f"{YEARS[k]:9}{found[k]:>17.4f}{probability[k]:>10.4f}")
    evaluations, hits = run.diagnostics["evaluations"], run.diagnostics["hits"]
    print(f"\n{hits:,} edges met, {run.diagnostics['flips']:,} crossed; {evaluations['log_prob']:,} calls of log_prob")
    draw(out, run, found, probability)
    print(f"Picture: {out.resolve()}")
    return run


def draw(out: Path, run: bouncy.PathRun, found: np.ndarray, probability: np.ndarray) -> None:
    """Draw the counts with the rate, and the posterior of the year of the change."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import style

    draws = run.draws.reshape(-1, 3)[:: max(run.draws[..., 0].size // 2000, 1)]
    rate = np.exp(np.where(YEARS[:, None] < draws[:, 2], draws[:, 0], draws[:, 1]))
    low, high = np.quantile(rate, [0.05, 0.95], axis=1)
    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12.5, 4.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        counts, change = figure.subplots(1, 2, width_ratios=(1.6, 1))
        counts.bar(YEARS, DISASTERS, color=style.LIGHT, width=0.9)
        counts.fill_between(YEARS, low, high, color=style.BLUE, alpha=0.3, linewidth=0, label="central 90 %")
        counts.plot(YEARS, rate.mean(axis=1), color=style.BLUE, label="mean rate")
        counts.set(xlabel="year", ylabel="disasters", xlim=(1850, 1963), title="Disasters in British coal mines")
        counts.legend()
        change.bar(YEARS, found, color=style.SKY_BLUE, width=0.8, label="share of draws")
        change.plot(YEARS, probability, "_", color=style.BLACK, markersize=9, markeredgewidth=1.6, label="enumeration")
        change.set(xlim=(1881.4, 1900.6), xticks=range(1882, 1901, 3), xlabel="year of the change")
        change.set(ylabel="probability", title="When the rate changed")
        change.legend()
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


if __name__ == "__main__":
    main()
