"""A spectrum taken apart: shares of known sources, which are positive and sum to at most 1.

Photons are counted in 48 channels. Each comes from one of four sources, whose spectra are known, or from a background,
also known. Shares x of the sources make a polytope, x_j >= 0 and x_1 + ... + x_4 <= 1; the background has the rest.
Under a flat prior log p is that of the multinomial likelihood, which is concave. With few photons much of the posterior
lies along the faces of the polytope.

The reference is rejection: uniform draws from the polytope, kept with probability likelihood / its maximum.

Run it by `python examples/unmixing.py`; it needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bouncy

NAMES = ("A", "B", "C", "D")
SHARES = np.array([0.40, 0.30, 0.20, 0.0])  # planted; 10 % are background
PHOTONS = 200
CHANNEL = np.arange(48)
# Peaks of the sources: channel, width, height.
PEAKS = (((10, 2.5, 1.0), (32, 3.5, 0.6)), ((14, 3.0, 1.0),), ((26, 3.0, 1.0), (38, 3.0, 0.4)), ((30, 4.0, 1.0),))


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return counts, (48,), and the spectra of sources and background, (5, 48), each of sum 1."""
    peaks = [sum(h * np.exp(-0.5 * ((CHANNEL - at) / w) ** 2) for at, w, h in source) for source in PEAKS]
    spectra = np.array([*peaks, np.exp(-CHANNEL / 25.0)])
    spectra /= spectra.sum(axis=1, keepdims=True)
    shares = np.append(SHARES, 1.0 - SHARES.sum())
    return np.random.default_rng(seed).multinomial(PHOTONS, shares @ spectra).astype(float), spectra


def log_prob(x, data):
    """Return the log-likelihood of shares, -inf outside of the polytope."""
    counts, spectra = data
    rest = 1.0 - x.sum()
    if rest < 0.0 or x.min() < 0.0:
        return -np.inf
    total = 0.0
    for k in range(counts.size):
        expected = rest * spectra[-1, k]
        for j in range(x.size):
            expected += x[j] * spectra[j, k]
        total += counts[k] * np.log(expected)
    return total


def gradient(x, out, data):
    """Write the gradient of the log-likelihood."""
    counts, spectra = data
    out[:] = 0.0
    for k in range(counts.size):
        expected = (1.0 - x.sum()) * spectra[-1, k]
        for j in range(x.size):
            expected += x[j] * spectra[j, k]
        for j in range(x.size):
            out[j] += (spectra[j, k] - spectra[-1, k]) * counts[k] / expected


def posterior(counts: np.ndarray, spectra: np.ndarray) -> bouncy.Density:
    """Return the posterior, with the faces of the polytope as edges and a wall."""
    d = len(NAMES)
    return bouncy.Density(
        d, log_prob, gradient, edges={name: [0.0] for name in NAMES}, walls=[(np.ones(d), 1.0)], convex=True,
        data=(counts, spectra), labels=NAMES, initial=np.full(d, 0.2),
    )  # fmt: skip


class Kept(NamedTuple):
    """Draws that were kept, (n, 5) with the background, and the share that they are of all proposals."""

    draws: np.ndarray
    share: float


def reject(counts: np.ndarray, spectra: np.ndarray, proposals: int, seed: int) -> Kept:
    """Return independent draws of the posterior."""
    best = np.full(len(spectra), 1.0 / len(spectra))
    for _ in range(2000):  # the maximum of the likelihood by the EM algorithm
        best *= spectra @ (counts / (best @ spectra)) / counts.sum()
    highest = counts @ np.log(best @ spectra)
    generator = np.random.default_rng(seed)
    kept = []
    for _ in range(20):  # blocks, to save memory
        x = generator.dirichlet(np.ones(best.size), proposals // 20)
        kept.append(x[np.log(generator.random(len(x))) < np.log(x @ spectra) @ counts - highest])
    draws = np.concatenate(kept)
    return Kept(draws, len(draws) / proposals)


def main(small: bool = False, out: Path = Path("output/unmixing.png"), seed: int = 1) -> tuple[bouncy.PathRun, Kept]:
    """Sample, print, draw; `small` is a short version."""
    counts, spectra = make_data()
    target = posterior(counts, spectra)
    run = bouncy.sample(target, draws=500 if small else 5000, seed=seed, progress=False)
    kept = reject(counts, spectra, 100_000 if small else 2_000_000, seed)
    print(f"{target!r}\n{'share of':12}{'planted':>8}{'mean':>18}{'rejection':>20}{'95 %':>9}")
    high = run.quantile(0.95)[0]
    error = kept.draws.std(axis=0) / np.sqrt(len(kept.draws))
    for i, name in enumerate(NAMES):
        columns = f"{run.mean[i]:>11.4f} ± {run.mean_se[i]:.4f}{kept.draws[:, i].mean():>11.4f} ± {error[i]:.4f}"
        print(f"{name:12}{SHARES[i]:>8.2f}{columns}{high[i]:>9.3f}")
    total, total_error = run.combination(np.ones(len(NAMES)))
    columns = f"{1.0 - total:>11.4f} ± {total_error:.4f}{kept.draws[:, -1].mean():>11.4f} ± {error[-1]:.4f}"
    print(f"{'background':12}{1.0 - SHARES.sum():>8.2f}{columns}")
    print(f"\n{len(kept.draws)} proposals, {kept.share:.2%}, were kept")
    print(f"{run.diagnostics['hits']:,} faces met, {run.diagnostics['bounces']:,} bounces", end="; ")
    print(f"{run.diagnostics['evaluations']['log_prob']:,} calls of log_prob")
    draw(out, counts, spectra, run, kept)
    print(f"Picture: {out.resolve()}")
    return run, kept


def draw(out: Path, counts: np.ndarray, spectra: np.ndarray, run: bouncy.PathRun, kept: Kept) -> None:
    """Draw the spectrum with its parts, two shares in their plane, and the posteriors of all shares."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import plot_density, style

    colours = (style.BLUE, style.GREEN, style.VERMILION, style.PURPLE)
    mean = np.append(run.mean, 1.0 - run.mean.sum())
    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12.5, 4.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        spectrum, plane, shares = figure.subplots(1, 3, width_ratios=(1.3, 1, 1.2))
        parts = PHOTONS * (mean[:, None] * spectra)[[-1, 0, 1, 2, 3]]
        labels = ("background", *NAMES)
        spectrum.stackplot(CHANNEL, parts, colors=(style.LIGHT, *colours), alpha=0.6, labels=labels, linewidth=0)
        spectrum.step(CHANNEL, counts, where="mid", color=style.BLACK, linewidth=1.0, label="counts")
        spectrum.set(xlabel="channel", ylabel="photons", title="Mean parts of a spectrum")
        spectrum.legend()
        draw_polytope(plane, run)
        for name, colour in zip(NAMES, colours, strict=True):
            plot_density(run, name, shares, label=name, color=colour)
            i, last = NAMES.index(name), name == NAMES[-1]
            shares.hist(kept.draws[:, i], bins=25, density=True, histtype="step", color=style.BLACK, linewidth=0.8,
                        label="rejection" if last else None)  # fmt: skip
        shares.set(xlim=(0, 0.75), ylim=(0, 18), xlabel="share", title="Posterior of the shares")
        shares.legend()
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


def draw_polytope(ax: Any, run: bouncy.PathRun) -> None:
    """Draw the shares of D and of the background, along the faces on which they are zero."""
    from bouncy.plots import style

    draws = run.draws[:, ::8].reshape(-1, len(NAMES))
    ax.plot(draws[:, -1], 1.0 - draws.sum(axis=1), ".", color=style.BLUE, markersize=2.5, alpha=0.4)
    for span, line in ((ax.axvspan, ax.axvline), (ax.axhspan, ax.axhline)):
        span(-0.1, 0.0, facecolor="white", edgecolor=style.LIGHT, hatch="///", linewidth=0)
        line(0.0, color=style.GREY, linewidth=2.0)
    ax.set(xlim=(-0.02, 0.25), ylim=(-0.02, 0.25), xlabel="share of D", ylabel="share of the background")
    ax.set_title("Two faces of the polytope")


if __name__ == "__main__":
    main()
