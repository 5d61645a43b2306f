"""Which of 64 terms explain the progression of diabetes? Spike and slab, and the lasso, without tuning.

The data of Efron, Hastie, Johnstone & Tibshirani (2004): 442 patients, ten variables, of which all products and squares
are taken too. Noise, slab, inclusion probability and penalty are unknown and updated between stretches of the path.

Run it by `python examples/diabetes.py`; it needs scikit-learn, which ships the data, and matplotlib.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

import bouncy
from bouncy.plots import style

# The names that the paper gives to columns s1 to s6 of scikit-learn.
NAMES = ["age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu"]
SWEEPS = 5  # between updates of the hyperparameters, which take longer than a sweep
SHOWN = 20


def load() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return X, (442, 64), and y, all of mean 0 and standard deviation 1, and the names of the terms."""
    try:
        from sklearn.datasets import load_diabetes
    except ImportError as error:
        raise ImportError("the diabetes data come with scikit-learn; pip install scikit-learn") from error
    data, y = load_diabetes(return_X_y=True, scaled=False)
    data = standardise(data)
    columns, names = list(data.T), list(NAMES)
    for i, j in itertools.combinations_with_replacement(range(10), 2):
        if not i == j == NAMES.index("sex"):  # two values: its square is the same again
            columns.append(data[:, i] * data[:, j])
            names.append(f"{NAMES[i]}²" if i == j else f"{NAMES[i]}·{NAMES[j]}")
    return standardise(np.column_stack(columns)), standardise(y), names


def standardise(columns: np.ndarray) -> np.ndarray:
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def spike_and_slab(X: np.ndarray, y: np.ndarray, names: list[str]) -> bouncy.Within[Any]:
    """Return the posterior in which a term is zero with an unknown probability."""
    start = {"inclusion": 0.2, "slab_scale": 0.2, "noise_scale": 0.7}
    updates = {
        "inclusion": bouncy.conjugate.inclusion(a=1.0, b=4.0),
        "slab_scale": bouncy.conjugate.slab_scale(shape=2.0, rate=0.2**2),
        "noise_scale": bouncy.conjugate.noise_scale(X, y),
    }
    return bouncy.Within(bouncy.SpikeSlab(X, y, labels=names, **start).given, updates, start, sweeps=SWEEPS)


def lasso(X: np.ndarray, y: np.ndarray, names: list[str]) -> bouncy.Within[Any]:
    """Return the posterior under a Laplace prior of unknown penalty."""
    start = {"penalty": 10.0, "noise_scale": 0.7}
    updates = {
        "penalty": bouncy.conjugate.penalty(shape=1.0, rate=0.1),
        "noise_scale": bouncy.conjugate.noise_scale(X, y),
    }
    return bouncy.Within(bouncy.BayesianLasso(X, y, labels=names, **start).given, updates, start, sweeps=SWEEPS)


def report(name: str, run: Any) -> None:
    """Print hyperparameters, diagnostics, and the time taken."""
    print(f"\n{name}")
    for key, values in run.parameters.items():
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        print(f"  {key:12} {middle:.3f}   ({low:.3f} to {high:.3f})")
    diagnostics = run.diagnostics
    print(f"  R-hat of the worst coefficient: {diagnostics['rhat']['worst_site']:.3f}")
    print(f"  effective draws of the worst coefficient: {diagnostics['ess']['worst_site']:.0f}")
    print(f"  CPU time: {diagnostics['sampling_seconds']:.1f} s")


def table(spike: Any, penalised: Any, names: list[str]) -> None:
    """Print the terms that are most probably in the model."""
    by_chain = (spike.draws != 0.0).mean(axis=1)
    gap = np.ptp(by_chain, axis=0)
    print(f"\n{'term':10} {'P(not 0)':>16} {'mean':>8} {'lasso mean':>11}")
    for j in np.argsort(-spike.inclusion)[:SHOWN]:
        probability = f"{spike.inclusion[j]:.3f} ± {spike.inclusion_se[j]:.3f}"
        print(f"{names[j]:10} {probability:>16} {spike.mean[j]:8.3f} {penalised.mean[j]:11.3f}")
    print(f"chains differ by at most {gap.max():.3f} in a probability ({names[int(gap.argmax())]})")


def picture(spike: Any, penalised: Any, names: list[str]) -> Any:
    """Return a figure: probabilities, intervals of coefficients, and four posteriors with their mass at zero."""
    import matplotlib as mpl
    from matplotlib import pyplot

    order = np.argsort(-spike.inclusion)[:SHOWN]
    with mpl.rc_context(style.SETTINGS):
        figure = pyplot.figure(figsize=(11.5, 6.4), layout="constrained")
        grid = figure.add_gridspec(4, 3, width_ratios=[1.0, 1.15, 1.0])
        left = figure.add_subplot(grid[:, 0])
        middle = figure.add_subplot(grid[:, 1], sharey=left)
        draw_probabilities(left, spike, order, names)
        draw_intervals(middle, spike, penalised, order)
        for k, j in enumerate(choose(spike, order)):
            draw_posterior(figure.add_subplot(grid[k, 2]), spike, penalised, j, names[j], first=k == 0, last=k == 3)
    return figure


def choose(spike: Any, order: np.ndarray) -> list[int]:
    """Return four terms: the first, and those whose probabilities are closest to 0.9, 0.5 and 0.2."""
    chosen = [int(order[0])]
    for level in (0.9, 0.5, 0.2):
        rest = [j for j in order if j not in chosen]
        chosen.append(int(rest[int(np.abs(spike.inclusion[rest] - level).argmin())]))
    return chosen


def draw_probabilities(ax: Any, spike: Any, order: np.ndarray, names: list[str]) -> None:
    rows = np.arange(order.size)
    ax.barh(rows, spike.inclusion[order], color=style.SKY_BLUE, height=0.7, label="all chains")
    by_chain = (spike.draws != 0.0).mean(axis=1)
    for chain, found in enumerate(by_chain):
        ax.plot(found[order], rows, "|", color=style.BLACK, ms=7, mew=1, label=None if chain else "each chain")
    prior = float(spike.parameters["inclusion"].mean())
    ax.axvline(prior, color=style.GREY, lw=1, ls="--", label="mean prior probability")
    ax.set(yticks=rows, yticklabels=[names[j] for j in order], xlim=(0, 1.02), xlabel="P(coefficient is not zero)")
    ax.set_title("Inclusion")
    ax.legend(loc="lower right")
    ax.invert_yaxis()


def draw_intervals(ax: Any, spike: Any, penalised: Any, order: np.ndarray) -> None:
    """Draw medians and 90 % intervals: of spike and slab given that a coefficient is not zero, and of the lasso."""
    rows = np.arange(order.size)
    ax.axvline(0.0, color=style.LIGHT, lw=1, zorder=0)
    kinds = (("spike and slab, if not zero", spike, style.BLUE, -0.17), ("lasso", penalised, style.VERMILION, 0.17))
    for label, run, colour, shift in kinds:
        draws = run.draws.reshape(-1, run.draws.shape[2])[:, order]
        quantiles = np.array([np.quantile(column[column != 0.0], [0.05, 0.5, 0.95]) for column in draws.T])
        strength = np.maximum(spike.inclusion[order], 0.25) if run is spike else np.ones(order.size)
        for row, (low, centre, high), alpha in zip(rows, quantiles, strength, strict=True):
            name = label if row == 0 else None
            ax.plot([low, high], [row + shift] * 2, color=colour, alpha=alpha, lw=2, solid_capstyle="butt", label=name)
            ax.plot(centre, row + shift, "o", color=colour, alpha=alpha, ms=4)
    ax.tick_params(axis="y", labelleft=False, length=0)
    ax.set_xlabel("coefficient, in standard deviations of y")
    ax.set_title("Median and 90 % interval")
    ax.legend(loc="upper left")


def draw_posterior(ax: Any, spike: Any, penalised: Any, j: int, name: str, *, first: bool, last: bool) -> None:
    """Draw both densities of a coefficient, and a bar at zero whose height is the probability of zero."""
    values, other = spike.draws[..., j].ravel(), penalised.draws[..., j].ravel()
    edges = np.linspace(-0.35, 0.45, 81)
    width = edges[1] - edges[0]
    nonzero = np.histogram(values[values != 0.0], edges)[0] / values.size / width
    smooth = np.histogram(other, edges)[0] / other.size / width
    ax.stairs(nonzero, edges, fill=True, color=style.SKY_BLUE, alpha=0.7, label="spike and slab")
    ax.stairs(smooth, edges, color=style.VERMILION, lw=1.2, label="lasso")
    top = 1.15 * max(nonzero.max(), smooth.max())
    zero = 1.0 - spike.inclusion[j]
    ax.bar(0.0, zero * top, width=0.006, color=style.BLUE)
    ax.text(0.98, 0.86, f"P(zero) = {zero:.2f}", transform=ax.transAxes, ha="right", color=style.BLUE, fontsize=9)
    ax.set(ylim=(0, top), xlim=(edges[0], edges[-1]), yticks=[])
    ax.set_title(name)
    if first:
        ax.legend(loc="upper left", fontsize=8)
    if last:
        ax.set_xlabel("coefficient")
    else:
        ax.tick_params(labelbottom=False)


def main(small: bool = False, out: str | Path = "diabetes.png") -> tuple[Any, Any]:
    """Sample both posteriors, print and draw the results; `small` is a short version for tests.

    Returns the runs of spike and slab and of the lasso.
    """
    X, y, names = load()
    options = {"chains": 4, "draws": 150 if small else 5000, "thin": SWEEPS, "seed": 1}
    spike = bouncy.sample(spike_and_slab(X, y, names), **options)
    penalised = bouncy.sample(lasso(X, y, names), **options)
    report("Spike and slab", spike)
    report("Lasso", penalised)
    table(spike, penalised, names)
    picture(spike, penalised, names).savefig(out)
    return spike, penalised


if __name__ == "__main__":
    main()
