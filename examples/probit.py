"""Probit regression: 500 latent numbers and 9 coefficients as one Gaussian, truncated by 500 answers.

Each answer has a latent number z_i = x_i.beta + N(0, 1), and is yes if z_i > 0. With beta ~ N(0, 2^2 I), (z, beta) is a
Gaussian of 509 dimensions, which the answers truncate to z_i > 0 or z_i < 0. So the posterior is a
`bouncy.TruncatedGaussian`, and the coefficients are variables of the run, with error bars and quantiles.

Two samplers of this package are compared with the Gibbs sampler of Albert & Chib (1993), which draws z given beta and
beta given z.

Run it by `python examples/probit.py`; it needs matplotlib.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

import bouncy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EFFECTS = {"constant": -0.3, "age": 0.8, "income": -0.5, "distance": 0.3, "rain": 0.0, "price": 0.0, "hills": 0.2,
           "traffic": 0.0, "pets": -0.1}  # fmt: skip
PRIOR_SCALE = 2.0
BATCHES = 40


def make_data(n: int, p: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return X, (n, p), with a column of ones and others that are correlated; answers +1 or -1, (n,); and names."""
    names = list(EFFECTS)[:p]
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 1))
    X = np.hstack([np.ones((n, 1)), 0.5 * common + np.sqrt(0.75) * rng.standard_normal((n, p - 1))])
    z = X @ [EFFECTS[name] for name in names] + rng.standard_normal(n)
    return X, np.where(z > 0.0, 1, -1), names


def posterior(X: np.ndarray, answer: np.ndarray, names: list[str]) -> bouncy.TruncatedGaussian:
    """Return the law of (z, beta) given the answers: -log p = |z - X beta|^2/2 + |beta|^2/(2 scale^2), signs known."""
    n, p = X.shape
    precision = np.block([[np.eye(n), -X], [-X.T, X.T @ X + np.eye(p) / PRIOR_SCALE**2]])
    free = np.full(p, np.inf)
    return bouncy.TruncatedGaussian(
        0.0,
        precision=precision,
        lower=np.concatenate([np.where(answer > 0, 0.0, -np.inf), -free]),
        upper=np.concatenate([np.where(answer > 0, np.inf, 0.0), free]),
        labels=[*(f"z{i}" for i in range(n)), *names],
    )


def gibbs(X: np.ndarray, answer: np.ndarray, sweeps: int, seed: int) -> np.ndarray:
    """Return coefficients, (sweeps, p), drawn by the sampler of Albert & Chib."""
    n, p = X.shape
    generator = np.random.default_rng(seed)
    V = np.linalg.inv(X.T @ X + np.eye(p) / PRIOR_SCALE**2)
    to_mean, root = V @ X.T, np.linalg.cholesky(V)
    beta, draws = np.zeros(p), np.empty((sweeps, p))
    for k in range(sweeps):
        towards = answer * (X @ beta)  # mean of |z|, a normal truncated at zero, by inverting its distribution function
        z = answer * (towards - ndtri(generator.random(n) * ndtr(towards)))
        beta = to_mean @ z + root @ generator.standard_normal(p)
        draws[k] = beta
    return draws


class Coefficients(NamedTuple):
    """Estimates of the coefficients by one sampler, each array (p,), and its CPU seconds."""

    sampler: str
    mean: np.ndarray
    error: np.ndarray  # standard error of the mean
    deviation: np.ndarray
    seconds: float

    @property
    def ess_per_second(self) -> np.ndarray:
        """Independent draws that would have the same error, per CPU second, (p,)."""
        return (self.deviation / self.error) ** 2 / self.seconds


def of_run(run: bouncy.PathRun, n: int) -> Coefficients:
    """Return the coefficients of a run, which follow n latent variables."""
    deviation = np.sqrt(run.variance[n:])
    return Coefficients(run.sampler.name, run.mean[n:], run.mean_se[n:], deviation, run.sampling_seconds)


def of_draws(draws: np.ndarray, seconds: float) -> Coefficients:
    """Return the coefficients of the sampler of Albert & Chib, with errors from batches."""
    batches = draws.reshape(BATCHES, -1, draws.shape[1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    return Coefficients("albert & chib", draws.mean(axis=0), error, draws.std(axis=0), seconds)


def main(small: bool = False, out: Path = Path("output/probit.png"), seed: int = 1) -> list[Coefficients]:
    """Sample, print, draw; `small` is for a quick look: 25 answers and 5 coefficients."""
    n, p, draws, sweeps = (25, 5, 1000, 8000) if small else (500, 9, 2000, 40000)
    X, answer, names = make_data(n, p)
    target = posterior(X, answer, names)
    print(f"{target!r}: {np.sum(answer > 0)} of {n} say yes\n", flush=True)
    runs = [
        bouncy.sample(target, "hmc", draws=draws, seed=seed),
        bouncy.sample(target, "gibbs", draws=8 * draws, seed=seed),
    ]
    before = time.process_time()
    reference = gibbs(X, answer, sweeps + sweeps // 20, seed)[sweeps // 20 :]
    found = [*(of_run(run, n) for run in runs), of_draws(reference, time.process_time() - before)]
    print_table(names, found)
    for run in runs:
        for text in run.diagnostics["warnings"]:
            print(f"{run.sampler.name}: {text}")
    draw(out, X, answer, names, runs, reference)
    print(f"\nPicture: {out.resolve()}")
    return found


def print_table(names: list[str], found: list[Coefficients]) -> None:
    """Print posterior means with standard errors and, below, effective draws per CPU second."""
    print(f"{'':12}{'planted':>8}" + "".join(f"{result.sampler:>22}" for result in found))
    for j, name in enumerate(names):
        columns = "".join(f"{result.mean[j]:>+13.4f} ± {result.error[j]:.4f}" for result in found)
        print(f"{name:12}{EFFECTS[name]:>+8.1f}{columns}")
    print(f"{'effective draws per second':20}" + "".join(f"{np.median(r.ess_per_second):>16,.0f}{'':6}" for r in found))
    print(f"{'CPU seconds':20}" + "".join(f"{r.seconds:>22.1f}" for r in found))


# The picture ----------------------------------------------------------------------------------------------------------


def draw(
    out: Path,
    X: np.ndarray,
    answer: np.ndarray,
    names: list[str],
    runs: list[bouncy.PathRun],
    reference: np.ndarray,
) -> None:
    """Draw the coefficients, the posterior of one of them, and the latent numbers."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import style

    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(14, 4.6), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        axes = figure.subplots(1, 3, width_ratios=(1.1, 1, 1))
        draw_coefficients(axes[0], names, runs)
        draw_posterior(axes[1], names, names[1], runs, reference)
        draw_latent(axes[2], X, answer, runs[0])
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


def draw_coefficients(ax: Axes, names: list[str], runs: list[bouncy.PathRun]) -> None:
    """Draw the coefficients of all runs and the planted ones."""
    from bouncy.plots import plot_forest, style

    for run, shift in zip(runs, (-0.15, 0.15), strict=True):
        plot_forest(run, names, ax, shift=shift)
    planted = [EFFECTS[name] for name in names]
    ax.plot(planted, range(len(names)), linestyle="", marker="|", markersize=16, color=style.BLACK, label="planted")
    ax.legend(loc="lower right")
    ax.set_title("Coefficients")


def draw_posterior(ax: Axes, names: list[str], name: str, runs: list[bouncy.PathRun], reference: np.ndarray) -> None:
    """Draw the density of one coefficient, from the time in bins, over a histogram of the sampler of Albert & Chib."""
    from bouncy.plots import plot_density, style

    draws = reference[:, names.index(name)]
    ax.hist(draws, bins=60, density=True, color=style.LIGHT, label="albert & chib")
    for run in runs:
        plot_density(run, name, ax)
    ax.set_xlim(*np.quantile(draws, [5e-4, 1 - 5e-4]))
    ax.legend()
    ax.set_title(f"Posterior of “{name}”")


def draw_latent(ax: Axes, X: np.ndarray, answer: np.ndarray, run: bouncy.PathRun) -> None:
    """Draw the mean of each latent number over that of its predictor: the answers pull them to their side of zero."""
    from bouncy.plots import style

    n = answer.size
    predictor = X @ run.mean[n:]
    ax.axhline(0.0, color=style.GREY, linewidth=1.2)
    ax.axline((0.0, 0.0), slope=1.0, color=style.LIGHT, linewidth=1.0, zorder=0)
    for side, colour, label in ((1, style.BLUE, "yes: z > 0"), (-1, style.VERMILION, "no: z < 0")):
        at = answer == side
        ax.plot(predictor[at], run.mean[:n][at], ".", markersize=4, color=colour, alpha=0.7, label=label)
    ax.set_xlabel("$x_i$ · E[beta]")
    ax.set_ylabel("E[$z_i$]")
    ax.legend(loc="upper left")
    ax.set_title(f"{n} latent numbers")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("output/probit.png"), help="where to save the picture")
    parser.add_argument("--small", action="store_true", help="a quick look")
    options = parser.parse_args()
    main(options.small, options.out)
