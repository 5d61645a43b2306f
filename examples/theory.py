"""The pictures of the page on theory and the animation of the front page, each drawn by one function.

Run it by `python examples/theory.py`, or by `python examples/theory.py lanes tempering` for some of them. They are
written to docs/images/theory, the animation to docs/images/particle.gif, unless `--out` names another folder.
Backgrounds are transparent and inks of a middle tone, to be read on light and on dark pages. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from lanes import CHAINS, SITES, TIME, simulate
from matplotlib import colors, pyplot
from matplotlib.animation import FuncAnimation, PillowWriter
from scipy import ndimage
from scipy.special import expit, logsumexp
from scipy.stats import norm

import bouncy
from bouncy.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK = "#808a94"
BLUE, RED, GREEN, ORANGE, PURPLE = "#3d8fd1", style.VERMILION, style.GREEN, style.ORANGE, style.PURPLE
SKY = style.SKY_BLUE
SPINS = colors.ListedColormap([BLUE, ORANGE])
SETTINGS = style.SETTINGS | {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.hashsalt": "bouncy",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
TWO_SPINS = bouncy.MRF([[0.0, -0.5], [-0.5, 0.0]], [-0.35, 0.15])


def particle() -> Figure:
    """Paths of the paper's two augmentations on the same model of two spins."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9.0, 4.6), layout="constrained")
    for ax, name in zip(axes, ("gaussian", "exponential"), strict=True):
        path = bouncy.plots.trace(TWO_SPINS, bouncy.BPS(name, refreshment=0.3), duration=26.0, seed=14)
        _restyle(bouncy.plots.plot_path(path, ax=ax), BLUE).set_title(f"{name} augmentation")
    axes[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def autonomy() -> Figure:
    """The same clock under two targets: different paths y, the same |y|."""
    targets = {"weakly coupled": TWO_SPINS, "in a strong field": bouncy.MRF(np.zeros((2, 2)), [-1.5, 0.8])}
    paths = [bouncy.plots.trace(target, duration=14.0, seed=4) for target in targets.values()]
    figure, axes = pyplot.subplots(1, 3, figsize=(11.0, 3.9), layout="constrained")
    for ax, path, name, colour in zip(axes, paths, targets, (BLUE, RED), strict=False):
        _restyle(bouncy.plots.plot_path(path, ax=ax), colour).set_title(f"y: two spins, {name}")
    for path, colour, width, alpha in zip(paths, (BLUE, RED), (7.0, 2.0), (0.45, 1.0), strict=True):
        axes[2].plot(*np.abs(path.y.T), color=colour, linewidth=width, alpha=alpha)
    reach = 1.05 * max(np.abs(path.y).max() for path in paths)
    axes[2].set(
        xlim=(0, reach), ylim=(0, reach), xlabel="$|y_0|$", ylabel="$|y_1|$", title="|y|: one billiard for both"
    )
    axes[2].set_aspect("equal")
    return figure


def gaussian_clock() -> Figure:
    """The plane of a Gaussian flight, whose walls are lines through the origin, and the order of hits."""
    d = 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bouncy.NotErgodicWarning)
        flight = bouncy.BPS("gaussian", refreshment=0.0)
    # All flips of a flat target are accepted, so that its path is the flight with the reflections at walls undone.
    path = bouncy.plots.trace(bouncy.MRF(np.zeros((d, d))), flight, duration=32.0, seed=3)
    _, _, axes_of_plane = np.linalg.svd(path.y, full_matrices=False)
    x = path.y @ axes_of_plane[:2].T
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained", width_ratios=(1, 1.25))
    reach = 1.1 * np.abs(x).max()
    palette = [BLUE, RED, GREEN, PURPLE, SKY, "#b8a500"]
    for site in range(d):
        a, b = axes_of_plane[:2, site]
        along = 2 * reach * np.array([-b, a]) / np.hypot(a, b)
        left.plot(*np.transpose([-along, along]), color=palette[site], linewidth=1.0, alpha=0.9)
    left.plot(*x.T, color=INK, linewidth=1.3)
    bounce = path.kind == 3
    left.plot(*x[bounce].T, linestyle="", **style.EVENT_MARKS[3])
    left.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], title="The plane of y and v")
    left.set_aspect("equal")
    hit = path.site >= 0
    order = list(dict.fromkeys(path.site[hit].tolist()))
    rank = np.array([order.index(site) for site in path.site[hit]])
    right.plot(path.time[hit], rank, color=INK, linewidth=0.6)
    right.scatter(path.time[hit], rank, color=[palette[site] for site in path.site[hit]], s=22, zorder=3)
    for time in path.time[bounce]:
        right.axvline(time, color=ORANGE, linewidth=0.8, linestyle=":")
    right.set(
        yticks=range(d), yticklabels=[f"wall {site}" for site in order], xlabel="time", title="Hits in cyclic order"
    )
    return figure


def exponential_clock() -> Figure:
    """Distances from the walls of an exponential flight, and its slope, whose positive part spends the budget."""
    path = bouncy.plots.trace(
        bouncy.MRF(np.zeros((6, 6))), bouncy.BPS("exponential", refreshment=0.001), duration=16.0, seed=2
    )
    z = np.abs(path.y)
    slope = np.diff(z.sum(axis=1)) / np.maximum(np.diff(path.time), 1e-12)
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(9.0, 4.8), layout="constrained", sharex=True)
    palette = [BLUE, RED, GREEN, ORANGE, PURPLE, INK]
    for site, colour in enumerate(palette):
        top.plot(path.time, z[:, site], color=colour, linewidth=1.3)
        hits = path.time[path.site == site]
        top.plot(hits, np.zeros(hits.size), "o", color=colour, markersize=5, clip_on=False)
    bottom.stairs(slope, path.time, color=INK, baseline=None, linewidth=1.2)
    bottom.stairs(np.maximum(slope, 0.0), path.time, fill=True, color=ORANGE, alpha=0.5, label="budget spent")
    bottom.axhline(0.0, color=INK, linewidth=0.8)
    for ax in (top, bottom):
        for k, time in enumerate(path.time[path.kind == 3]):
            ax.axvline(time, color=ORANGE, linewidth=1.0, linestyle=":", label=None if k else "bounce")
    top.set(
        ylabel=r"distance $z_i = |y_i|$", ylim=(0, None), title="Six sites: each moves on a straight line to its wall"
    )
    bottom.set(xlabel="time", ylabel=r"slope $W = \sum_i w_i$")
    bottom.legend(loc="upper left", ncols=2)
    return figure


def refreshment() -> Figure:
    """Different states that a chain has visited on a flat target of eight spins."""
    d, sweeps = 8, 400
    figure, ax = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    for rate, colour in ((0.0, RED), (0.1, BLUE), (1.0, GREEN)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bouncy.NotErgodicWarning)
            sampler = bouncy.BPS("gaussian", refreshment=rate)
        run = bouncy.sample(
            bouncy.MRF(np.zeros((d, d))), sampler, chains=1, draws=sweeps, warmup=0, keep="path", seed=1, progress=False
        )
        flips = run.flips[0]
        code = np.bitwise_xor.accumulate(np.concatenate([[0], 1 << flips["site"].astype(int)]))
        _, first = np.unique(code, return_index=True)
        time = np.concatenate([[0.0], flips["time"]])[np.sort(first)] / sampler.sweep_time(d)
        seen = np.arange(1, time.size + 1)
        ax.step(
            [*time, sweeps], [*seen, seen[-1]], where="post", color=colour, label=f"{rate:g} refreshments per sweep"
        )
    for level, text in ((2 * d, "2d = 16"), (2**d, "all 256 states")):
        ax.axhline(level, color=INK, linewidth=0.8, linestyle=":")
        ax.text(0.03, level * 0.96, text, va="top")
    ax.set(xscale="symlog", yscale="log", xlim=(0, sweeps), xlabel="sweeps", ylabel="states visited")
    ax.set_title("A flat target of eight spins")
    ax.legend(loc="lower right")
    return figure


def lanes() -> Figure:
    """Three spins in six chains that are tried at the hits of one clock."""
    times, sites, spins = simulate(bouncy.MRF.random(SITES, sigma_M=0.6, sigma_r=0.4, seed=0))
    edges = np.concatenate([[0.0], times, [TIME]])
    figure, axes = pyplot.subplots(SITES, 1, figsize=(9.0, 4.4), layout="constrained", sharex=True)
    for i, ax in enumerate(axes):
        ax.pcolormesh(edges, np.arange(CHAINS + 1), spins[:, :, i].T[::-1], cmap=SPINS, vmin=-1, vmax=1, alpha=0.75)
        ax.vlines(times[sites == i], 0, CHAINS + 0.7, color=RED, linewidth=1.6)
        ax.hlines(np.arange(1, CHAINS), 0, TIME, color=INK, linewidth=0.5)
        ax.set(yticks=[], ylabel=f"spin {i}\nin six chains", xlim=(0, TIME))
        ax.spines[["left", "bottom"]].set_visible(i == SITES - 1)
    axes[0].set_title("One clock (red) tries the same spin in all chains; each chain decides by itself")
    axes[-1].set_xlabel("time")
    return figure


def conditional_means() -> Figure:
    """Root mean squared errors of four averages over the same runs, against the size of couplings."""
    sizes, models = np.geomspace(0.02, 0.6, 8), 6
    errors = np.zeros((4, sizes.size))
    for k, size in enumerate(sizes):
        for seed in range(models):
            target = bouncy.MRF.random(12, sigma_M=size, sigma_r=0.1, seed=seed)
            run = bouncy.sample(target, draws=2000, chains=4, seed=seed, progress=False)
            exact = bouncy.exact(target).mean
            conditional = -np.tanh(target.r + run.draws @ target.M).mean(axis=(0, 1))
            for row, found in enumerate((run.draws.mean(axis=(0, 1)), run.path_mean, conditional, run.mean)):
                errors[row, k] += np.mean((found - exact) ** 2) / models
    figure, ax = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    names = ("draws", "path, every moment of it", "conditional means", "the same with control variates: run.mean")
    for row, colour, name in zip(np.sqrt(errors), (INK, ORANGE, GREEN, BLUE), names, strict=True):
        ax.loglog(sizes, row, "o-", color=colour, label=name)
    ax.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    ax.minorticks_off()
    ax.set(xlabel="size of random couplings", ylabel="root mean squared error of $E[s_i]$")
    ax.set_title("Four averages over the same runs, d = 12")
    ax.legend()
    return figure


def tempering() -> Figure:
    """Values of V on the rungs of a ladder, and averages of estimates of log Z from stretches of a run."""
    target, rungs = bouncy.MRF.random(16, sigma_M=0.9, sigma_r=0.1, seed=3), 6
    sampler = bouncy.Tempered(rungs=rungs, sweeps_per_swap=4)
    run = bouncy.sample(target, sampler, draws=4096, seed=0, progress=False)
    b, values = run.ladder["b"], run.values
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    bins = np.linspace(values.min(), values.max(), 60)
    for k in range(rungs):
        height = np.histogram(values[..., k], bins, density=True)[0]
        colour = (BLUE, GREEN)[k % 2]
        left.stairs(k + 0.85 * height / height.max(), bins, baseline=k, fill=True, color=colour, alpha=0.75)
    left.set(yticks=range(rungs), yticklabels=[f"{x:.2f}" for x in b], ylabel="b", xlabel="V = log p − log q")
    left.set_title("Neighbouring rungs overlap")
    scans = 2 ** np.arange(2, 12)
    averages = [_log_z(values.reshape(-1, n, rungs), b) for n in scans]
    forward, reverse, bridge = np.transpose(averages)
    right.axhline(bouncy.exact(target).log_z, color=INK, linewidth=1.2, label="exact")
    for found, colour, name in ((forward, ORANGE, "forward"), (reverse, RED, "reverse"), (bridge, BLUE, "bridge")):
        right.plot(scans, found, "o-", markersize=4, color=colour, label=name)
    right.set(xscale="log", xlabel="scans of a stretch", ylabel="log Z, mean over all stretches")
    right.set_title("Three estimates of log Z")
    right.legend()
    return figure


def _log_z(values: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Return the means over stretches of the forward, reverse and bridge estimate, from V, (stretch, scan, rung)."""
    up, down = values[..., :-1] * np.diff(b), values[..., 1:] * np.diff(b)
    n = values.shape[1]
    forward = logsumexp(up, axis=1) - np.log(n)
    reverse = np.log(n) - logsumexp(-down, axis=1)
    # Bridge sampling: the constant at which both sides are equal, by halving intervals, of all stretches at once.
    low, high = np.minimum(up.min(axis=1), down.min(axis=1)), np.maximum(up.max(axis=1), down.max(axis=1))
    for _ in range(40):
        middle = (low + high) / 2
        above = expit(up - middle[:, None]).sum(axis=1) > expit(middle[:, None] - down).sum(axis=1)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    bridge = (low + high) / 2
    return tuple(float(steps.sum(axis=1).mean()) for steps in (forward, reverse, bridge))


def isoenergetic() -> Figure:
    """Two states of a glass, a cluster of sites at which they differ, and the states after its exchange."""
    glass = _glass(20, 0.9, seed=1)
    run = bouncy.sample(glass, chains=2, draws=1, warmup=400, seed=5, progress=False)
    before = run.draws[:, -1].reshape(2, 20, 20)
    before[1] *= np.sign((before[0] * before[1]).sum())  # a state and its mirror image are equally probable
    parts, _ = ndimage.label(before[0] != before[1])
    sizes = np.bincount(parts.ravel())
    cluster = parts == 1 + int(np.argmax(np.where(sizes[1:] < 120, sizes[1:], 0)))
    after = np.where(cluster, before[::-1], before)
    kept = [glass.log_prob(pair.reshape(2, -1)).sum() for pair in (before, after)]
    assert np.isclose(*kept), "log p of both states together must stay the same"
    figure, axes = pyplot.subplots(1, 5, figsize=(11.5, 2.7), layout="constrained")
    shown = np.where(cluster, 2, before[0] != before[1])
    pictures = (before[0], before[1], shown, after[0], after[1])
    titles = ("one state", "another", "differ; a cluster", "one, after", "the other, after")
    for ax, image, title in zip(axes, pictures, titles, strict=True):
        cmap = colors.ListedColormap(["#00000000", "#808a9480", RED]) if image is shown else SPINS
        ax.imshow(image, cmap=cmap, interpolation="nearest")
        if image is not shown:
            fine, ends = np.kron(cluster, np.ones((16, 16))), (-0.5, 19.5, -0.5, 19.5)
            ax.contour(fine, [0.5], colors="white", linewidths=1.6, extent=ends)
        ax.set(xticks=[], yticks=[], title=title)
        ax.spines[:].set_visible(True)
    return figure


def _glass(side: int, strength: float, seed: int) -> bouncy.MRF:
    """Return a square lattice with free ends and couplings of random sign."""
    rng, site = np.random.default_rng(seed), np.arange(side**2).reshape(side, side)
    J = np.zeros((side**2, side**2))
    for i, j in ((site[:, :-1], site[:, 1:]), (site[:-1], site[1:])):
        J[i, j] = strength * rng.choice([-1.0, 1.0], i.shape)
    return bouncy.MRF(-(J + J.T))


def swaps() -> Figure:
    """Which of two columns that are nearly the same is in the model, by flips alone and by flips and swaps."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    X[:, 1] = X[:, 0] + 0.05 * rng.standard_normal(60)
    target = bouncy.VariableSelection(X, X[:, 0] + 0.7 * rng.standard_normal(60), inclusion=0.1)
    exact = (1 + bouncy.exact(target).mean[:2]) / 2
    figure, axes = pyplot.subplots(2, 1, figsize=(9.0, 3.6), layout="constrained", sharex=True)
    for ax, name in zip(axes, ("metropolis", "metropolis-mixed"), strict=True):
        run = bouncy.sample(target, name, chains=1, draws=300, warmup=50, seed=3, progress=False)
        ax.imshow(run.draws[0, :, :2].T, aspect="auto", cmap=SPINS, interpolation="nearest", vmin=-1, vmax=1)
        ax.set(yticks=[0, 1], yticklabels=[f"column {k}, P = {p:.2f}" for k, p in enumerate(exact)], title=name)
    axes[1].set_xlabel("draws (orange: the column is in the model)")
    return figure


def clusters() -> Figure:
    """A state of a ferromagnet, its bonds and clusters, and the state after a sweep of Swendsen and Wang."""
    side, coupling = 16, np.log(1 + np.sqrt(2)) / 2
    target = bouncy.MRF.ising((side, side), coupling=coupling, periodic=False)
    s = bouncy.sample(target, "wolff", chains=1, draws=1, warmup=50, seed=3, progress=False).draws[0, 0]
    rng, s = np.random.default_rng(1), s.reshape(side, side)
    across = (s[:, :-1] == s[:, 1:]) & (rng.random((side, side - 1)) < 1 - np.exp(-2 * coupling))
    down = (s[:-1] == s[1:]) & (rng.random((side - 1, side)) < 1 - np.exp(-2 * coupling))
    # On a lattice of twice the size bonds are pixels, so that clusters are connected components.
    fine = np.zeros((2 * side - 1, 2 * side - 1), bool)
    fine[::2, ::2], fine[::2, 1::2], fine[1::2, ::2] = True, across, down
    label = ndimage.label(fine)[0][::2, ::2]
    after = rng.choice([-1, 1], label.max() + 1)[label] * s
    figure, axes = pyplot.subplots(1, 3, figsize=(10.5, 3.8), layout="constrained")
    for ax, image, title in ((axes[0], s, "a state, and bonds"), (axes[2], after, "after the sweep")):
        ax.imshow(image, cmap=SPINS, alpha=0.8)
        ax.set_title(title)
    shuffled = rng.permutation(label.max() + 1)[label]
    axes[1].imshow(np.where(np.bincount(label.ravel())[label] > 1, shuffled, np.nan), cmap="turbo", alpha=0.8)
    axes[1].set_title("clusters (of one site: blank)")
    for x, y in np.argwhere(across):
        axes[0].plot([y, y + 1], [x, x], color="white", linewidth=1.6)
    for x, y in np.argwhere(down):
        axes[0].plot([y, y], [x, x + 1], color="white", linewidth=1.6)
    for ax in axes:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
    return figure


def piecewise_gibbs() -> Figure:
    """The law of one coefficient of spike and slab given the others: pieces of the line, and of the coefficient."""
    inclusion, slab, width, centre, precision = 0.5, 1.0, 1.0, 0.55, 6.0

    def likelihood(beta: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * precision * (beta - centre) ** 2)

    y = np.linspace(-1.6, 2.4, 1601)
    beta = np.sign(y) * np.maximum(np.abs(y) - width / 2, 0.0)
    prior = np.where(np.abs(y) > width / 2, inclusion * norm.pdf(beta, scale=slab), (1 - inclusion) / width)
    density = prior * likelihood(beta)
    density /= density.sum() * (y[1] - y[0])
    pieces = (y < -width / 2, np.abs(y) <= width / 2, y > width / 2)
    share = [density[piece].sum() * (y[1] - y[0]) for piece in pieces]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 3.8), layout="constrained", sharey=True)
    for piece, probability, colour in zip(pieces, share, (BLUE, ORANGE, BLUE), strict=True):
        left.fill_between(y[piece], density[piece], color=colour, alpha=0.6, linewidth=0)
        x = float(y[piece] @ density[piece] / density[piece].sum())
        left.text(x, density[piece].max() + 0.01, f"{probability:.2f}", ha="center", weight="bold")
        right.fill_between(beta[piece], density[piece] * (colour == BLUE), color=BLUE, alpha=0.6, linewidth=0)
    right.bar(0.0, share[1], width=0.05, color=ORANGE)
    right.text(0.06, share[1], f"P(0) = {share[1]:.2f}", color=INK, va="top")
    left.set(
        xlabel="coordinate y of the particle", ylabel="density given the others", title="Three pieces, drawn by weight"
    )
    right.set(xlabel="coefficient", title="What they mean: a point mass and a slab", ylim=(0, None))
    return figure


def _restyle(ax: Axes, colour: str) -> Axes:
    """Give a path the inks of these pictures, and signs of orthants no boxes."""
    for text in ax.texts:
        text.set_bbox(None)
        text.set_color(INK)
    for line in ax.lines:
        if line.get_label() == "start":
            line.set_color(INK)
        elif str(line.get_label()).startswith("bps"):
            line.set(color=colour, linewidth=1.3, label="_")
    return ax


def animate(out: Path, frames: int = 180) -> None:
    """Write the animation: a particle among the orthants of two spins, its spins, and the time in each state."""
    path = bouncy.plots.trace(TWO_SPINS, bouncy.BPS("gaussian", refreshment=0.1), duration=600.0, seed=8)
    states = bouncy.states(2)
    p = np.exp(TWO_SPINS.log_prob(states) - bouncy.exact(TWO_SPINS).log_z)
    share = np.zeros((path.time.size, 4))
    for k in range(path.time.size - 1):
        share[k + 1] = share[k] + (path.time[k + 1] - path.time[k]) * (states == path.s[k]).all(axis=1)
    # Slowly at first, so that the eye can follow, then faster.
    slow = frames * 2 // 3
    clock = np.concatenate([np.linspace(0.0, 22.0, slow), 22.0 + 578.0 * np.linspace(0.0, 1.0, frames - slow) ** 3])
    at = np.column_stack([np.interp(clock, path.time, path.y[:, k]) for k in range(2)])
    dark = {"figure.facecolor": "#11161d", "axes.facecolor": "#11161d", "savefig.facecolor": "#11161d"}
    light = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#c9d1d9")
    with mpl.rc_context(SETTINGS | dark | light | {"font.size": 9}):
        figure = pyplot.figure(figsize=(7.6, 4.0), layout="constrained")
        axes = figure.subplot_mosaic([["plane", "spins"], ["plane", "shares"]], width_ratios=(1, 1.05))
        plane, shares = axes["plane"], axes["shares"]
        reach = 1.05 * np.abs(path.y).max()
        for (a, b), probability in zip(states, p, strict=True):
            corner = pyplot.Rectangle((min(0, a * reach), min(0, b * reach)), reach, reach)
            corner.set(facecolor=BLUE, alpha=0.65 * probability / p.max(), linewidth=0)
            plane.add_patch(corner)
            plane.text(
                0.85 * a * reach, 0.9 * b * reach, f"({'−+'[int(a > 0)]}, {'−+'[int(b > 0)]})", ha="center", va="center"
            )
        for line in (plane.axhline, plane.axvline):
            line(0.0, color="#c9d1d9", linewidth=1.2)
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], title="A particle among walls")
        plane.set_aspect("equal")
        tail = plane.plot([], [], color="white", linewidth=1.3)[0]
        marks = {kind: plane.plot([], [], linestyle="", **mark)[0] for kind, mark in style.EVENT_MARKS.items()}
        ball = plane.plot([], [], "o", color="white", markersize=8, zorder=6)[0]
        lines = [axes["spins"].plot([], [], color=colour, linewidth=1.8)[0] for colour in (SKY, ORANGE)]
        axes["spins"].set(
            yticks=[0, 3], yticklabels=["$s_1$", "$s_0$"], ylim=(-1.6, 4.6), title="Its signs: the samples"
        )
        bars = shares.bar(range(4), np.zeros(4), color=SKY)
        shares.plot(range(4), p, "_", color=ORANGE, markersize=30, markeredgewidth=2.5, label="p(s)")
        names = [f"({'−+'[int(a > 0)]}, {'−+'[int(b > 0)]})" for a, b in states]
        shares.set(xticks=range(4), xticklabels=names, ylim=(0, 0.62), title="Share of time in each state")
        shares.legend(loc="upper left")

        def show(frame: int) -> list[Any]:
            now = clock[frame]
            k = int(np.searchsorted(path.time, now, side="right")) - 1
            first = max(0, k - 9)
            tail.set_data(*np.vstack([path.y[first : k + 1], at[frame]]).T)
            ball.set_data(*at[frame][:, None])
            for kind, mark in marks.items():
                seen = np.flatnonzero(path.kind[first : k + 1] == kind) + first
                mark.set_data(*path.y[seen].T)
            start = max(0.0, now - 14.0)
            for site, line in enumerate(lines):
                steps = np.append(path.time[: k + 1], now)
                line.set_data(np.repeat(steps, 2)[1:-1], np.repeat(path.s[: k + 1, site] + 3 * (1 - site), 2))
            axes["spins"].set_xlim(start, start + 14.0)
            whole = share[k] + (now - path.time[k]) * (states == path.s[k]).all(axis=1)
            for bar, height in zip(bars, whole / max(now, 1e-9), strict=True):
                bar.set_height(height)
            return []

        figure.legend(handles=list(marks.values()), loc="outside lower center", ncols=4, fontsize=8)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # which would take most of the time of each frame
        movie = FuncAnimation(figure, show, frames=frames)
        out.parent.mkdir(parents=True, exist_ok=True)
        movie.save(out, writer=PillowWriter(fps=15), dpi=110)
        pyplot.close(figure)
    _shrink(out)


def _shrink(path: Path) -> None:
    """Write an animation again with one palette of 64 colours, which takes a fraction of the bytes."""
    from PIL import Image, ImageSequence

    with Image.open(path) as movie:
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(movie)]
        palette = frames[len(frames) // 2].quantize(64, Image.Quantize.MAXCOVERAGE)  # small marks keep their colours
        small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        small[0].save(
            path, save_all=True, append_images=small[1:], duration=movie.info["duration"], loop=0, optimize=True
        )


PICTURES: dict[str, Callable[[], Figure]] = {
    function.__name__: function
    for function in (
        particle, autonomy, gaussian_clock, exponential_clock, refreshment, lanes, conditional_means, tempering,
        isoenergetic, swaps, clusters, piecewise_gibbs,
    )
}  # fmt: skip


def draw(name: str, folder: Path) -> Path:
    """Draw a picture and return where it was written."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{name}.svg"
    with mpl.rc_context(SETTINGS):
        figure = PICTURES[name]()
        figure.savefig(out, metadata={"Date": None})
        pyplot.close(figure)
    return out


def main(arguments: list[str] | None = None) -> None:
    """Draw what is asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"animation, {', '.join(PICTURES)}")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    options = parser.parse_args(arguments)
    for name in options.names or ["animation", *PICTURES]:
        if name == "animation":
            animate(options.out / "particle.gif")
        else:
            print(draw(name, options.out / "theory"))


if __name__ == "__main__":
    mpl.use("Agg")
    main()
