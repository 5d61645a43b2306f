"""Bayesian quantile regression: stopping distances of 50 cars, with kinks on 50 lines in the plane of coefficients.

The data of Ezekiel (1930): a car at `SPEED` miles per hour takes `DISTANCE` feet to stop. The quantile of level q is
the line b_0 + b_1 (speed - 15). Its likelihood is asymmetric Laplace, exp(-rho_q(residual) / scale) / scale with
rho_q(r) = r (q - 1{r < 0}): log p is concave, with a kink wherever the line meets an observation, so that each car is
a wall b_0 + b_1 (speed - 15) = distance. The scale is unknown too, and `bouncy.Within` draws it in turn.

Quadrature on a grid is the reference: given the coefficients the scale can be integrated in closed form.

Run it by `python examples/quantile_regression.py`; it needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bouncy

SPEED = np.array([
    4, 4, 7, 7, 8, 9, 10, 10, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 16, 16, 17, 17,
    17, 18, 18, 18, 18, 19, 19, 19, 20, 20, 20, 20, 20, 22, 23, 24, 24, 24, 24, 25.0,
])  # fmt: skip
DISTANCE = np.array([
    2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80, 20, 26, 54, 32, 40, 32,
    40, 50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70, 92, 93, 120, 85.0,
])  # fmt: skip
X = np.column_stack([np.ones(SPEED.size), SPEED - 15.0])
NAMES = ("at 15 mph", "per mph")
LEVELS = (0.1, 0.5, 0.9)
PRIOR_SCALE = np.array([100.0, 20.0])  # normal priors of the coefficients
SHAPE, RATE = 1.0, 1.0  # of the inverse gamma prior of the scale
SWEEPS = 5  # between updates of the scale, which take longer than a sweep
BOX = ((5.0, 80.0), (-2.0, 10.0))  # where the grid of the reference lies


def log_prob(b, data):
    """Return log p of the coefficients given the scale."""
    X, y, prior_scale, level, scale = data
    total = -0.5 * np.sum((b / prior_scale) ** 2)
    for k in range(y.size):
        r = y[k] - X[k, 0] * b[0] - X[k, 1] * b[1]
        total -= r * (level if r > 0.0 else level - 1.0) / scale
    return total


def gradient(b, out, data):
    """Write the gradient of log p."""
    X, y, prior_scale, level, scale = data
    out[:] = -b / prior_scale**2
    for k in range(y.size):
        r = y[k] - X[k, 0] * b[0] - X[k, 1] * b[1]
        out += X[k] * ((level if r > 0.0 else level - 1.0) / scale)


def misfit(b: np.ndarray, level: float) -> np.ndarray:
    """Return the sum of rho_q over all cars, for coefficients of shape (..., 2)."""
    r = DISTANCE - b @ X.T
    return np.sum(r * (level - (r < 0.0)), axis=-1)


def posterior(density: bouncy.Density, level: float) -> bouncy.Within[Any]:
    """Return the law of the coefficients of one quantile and of the scale."""

    def update(b, parameters, generator):
        return (RATE + misfit(b, level)) / generator.gamma(SHAPE + DISTANCE.size)

    def build(scale):
        return density.given((X, DISTANCE, PRIOR_SCALE, level, float(scale)))

    return bouncy.Within(build, {"scale": update}, {"scale": 5.0}, sweeps=SWEEPS)


class Exact(NamedTuple):
    """Posterior of the coefficients on a grid, with its means and standard deviations, (2,)."""

    grid: list[np.ndarray]
    weight: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def quadrature(level: float, points: int) -> Exact:
    """Return the posterior with the scale integrated out: prior times (rate + misfit)^-(shape + n)."""
    grid = [np.linspace(*ends, points) for ends in BOX]
    place = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1)
    cost = np.array([misfit(row, level) for row in place])
    log_weight = -(SHAPE + DISTANCE.size) * np.log(RATE + cost) - 0.5 * np.sum((place / PRIOR_SCALE) ** 2, axis=-1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = np.tensordot(weight, place)
    return Exact(grid, weight, mean, np.sqrt(np.tensordot(weight, (place - mean) ** 2)))


def main(small: bool = False, out: Path = Path("output/quantile_regression.png"), seed: int = 1) -> tuple[Any, Any]:
    """Sample, print, draw; `small` is a short version. Return runs and exact results, one of each for each level."""
    first = bouncy.Density(
        2, log_prob, gradient, walls=list(zip(X, DISTANCE, strict=True)), convex=True,
        data=(X, DISTANCE, PRIOR_SCALE, 0.5, 5.0), labels=NAMES, initial=[40.0, 3.0],
    )  # fmt: skip
    draws, points = (200, 150) if small else (1000, 500)
    runs = [bouncy.sample(posterior(first, q), draws=draws, thin=SWEEPS, seed=seed, progress=False) for q in LEVELS]
    exact = [quadrature(level, points) for level in LEVELS]
    print(f"{first!r}\n{'level':>5} {'coefficient':11} {'mean':>16} {'exact':>8} {'sd':>7} {'exact':>7}   scale")
    for level, run, truth in zip(LEVELS, runs, exact, strict=True):
        for i, name in enumerate(NAMES):
            mean = f"{run.mean[i]:.3f} ± {run.mean_se[i]:.3f}"
            row = f"{level:5} {name:11} {mean:>16} {truth.mean[i]:8.3f} {np.sqrt(run.variance[i]):7.3f}"
            print(f"{row} {truth.deviation[i]:7.3f}   {run.parameters['scale'].mean():.2f}")
    draw(out, runs, exact)
    print(f"Picture: {out.resolve()}")
    return runs, exact


def draw(out: Path, runs: list[bouncy.PathRun], exact: list[Exact]) -> None:
    """Draw the quantiles over the data, the posteriors among their walls, and those of the slopes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import plot_density, style

    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12.5, 4.4), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        data, plane, slope = figure.subplots(1, 3)
        data.plot(SPEED, DISTANCE, "o", color=style.BLACK, markersize=3.5)
        for at, distance in zip(X[:, 1], DISTANCE, strict=True):
            line = {"slope": -1.0 / at} if at else {"xy2": (distance, 1.0)}
            plane.axline((distance, 0.0), **line, color=style.LIGHT, linewidth=0.7, zorder=0)
        colours = (style.BLUE, style.GREEN, style.VERMILION)
        for level, run, truth, colour in zip(LEVELS, runs, exact, colours, strict=True):
            draw_quantile(data, run, level, colour)
            draw_posterior(plane, run, truth, colour)
            plot_density(run, NAMES[1], slope, label=f"{level:.0%} quantile", color=colour)
            marginal = truth.weight.sum(axis=0) / np.diff(truth.grid[1])[0]
            name = "quadrature" if level == LEVELS[-1] else None
            slope.plot(truth.grid[1], marginal, "--", color=style.BLACK, linewidth=1.0, label=name)
        data.set(xlabel="speed, miles per hour", ylabel="stopping distance, feet", title="50 cars")
        plane.set(xlim=(19, 73), ylim=(1, 7), xlabel="feet at 15 mph", ylabel="feet per mph", title="50 walls")
        slope.set(xlim=(1, 7), xlabel="feet per mph", title="Posterior of the slopes")
        data.legend(loc="upper left")
        slope.legend()
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


def draw_quantile(ax: Any, run: bouncy.PathRun, level: float, colour: str) -> None:
    """Draw the posterior mean of a quantile and its central 90 %."""
    speed = np.linspace(3.0, 26.0, 100)
    lines = run.draws.reshape(-1, 2) @ np.stack([np.ones(speed.size), speed - 15.0])
    ax.fill_between(speed, *np.quantile(lines, [0.05, 0.95], axis=0), color=colour, alpha=0.2, linewidth=0)
    ax.plot(speed, lines.mean(axis=0), color=colour, label=f"{level:.0%} quantile")


def draw_posterior(ax: Any, run: bouncy.PathRun, truth: Exact, colour: str) -> None:
    """Draw some draws of both coefficients, and the exact regions of 50 % and 90 %."""
    heights = np.sort(truth.weight.ravel())[::-1]
    levels = heights[np.searchsorted(np.cumsum(heights), [0.9, 0.5])]
    ax.contour(*truth.grid, truth.weight.T, levels=levels, colors=colour, linewidths=1.4)
    ax.plot(*run.draws[0, ::5].T, ".", color=colour, markersize=2.0, alpha=0.6)


if __name__ == "__main__":
    main()
