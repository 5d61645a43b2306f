"""Risk that can only rise: logistic regression whose coefficients are ordered, b_1 <= b_2 <= ... <= b_6.

The 569 tumours of the Breast Cancer Wisconsin data. The risk of malignancy depends on the radius (a slope) and on the
texture, in six classes with a coefficient each. From class to class it should not fall; with a hundred tumours in a
class it sometimes seems to. The order is five walls b_k = b_(k+1), beyond which log p is -inf.

The reference is rejection: of the draws without constraints, those that happen to be ordered.

Run it by `python examples/monotone_risk.py`; it needs scikit-learn, which ships the data, and matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bouncy

CLASSES = 6
LABELS = [*(f"class {k + 1}" for k in range(CLASSES)), "radius"]
PRIOR_SCALE = 3.0
BATCHES = 20


class Tumours(NamedTuple):
    """The data: class of texture, standardised radius, and 1 where malignant, (n,) each; ends of the classes."""

    group: np.ndarray
    radius: np.ndarray
    malignant: np.ndarray
    ends: np.ndarray


def load() -> Tumours:
    """Return the data, with as many tumours in each class of texture."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise ImportError("the data come with scikit-learn; pip install scikit-learn") from error
    values, benign = load_breast_cancer(return_X_y=True)
    radius, texture = values[:, 0], values[:, 1]
    ends = np.quantile(texture, np.linspace(0.0, 1.0, CLASSES + 1))
    group = np.searchsorted(ends[1:-1], texture, side="right")
    return Tumours(group, (radius - radius.mean()) / radius.std(), 1.0 - benign, ends)


def log_prob(b, data):
    """Return log p of one coefficient for each class and the slope of the radius, -inf where they must be ordered."""
    group, radius, malignant, prior_scale, is_ordered = data
    for k in range(b.size - 2):
        if is_ordered and b[k] > b[k + 1]:
            return -np.inf
    total = -0.5 * np.sum((b / prior_scale) ** 2)
    for i in range(group.size):
        eta = b[group[i]] + b[-1] * radius[i]
        total += malignant[i] * eta - max(eta, 0.0) - np.log1p(np.exp(-abs(eta)))
    return total


def gradient(b, out, data):
    """Write the gradient of log p."""
    group, radius, malignant, prior_scale, _ = data
    out[:] = -b / prior_scale**2
    for i in range(group.size):
        residual = malignant[i] - 1.0 / (1.0 + np.exp(-b[group[i]] - b[-1] * radius[i]))
        out[group[i]] += residual
        out[-1] += residual * radius[i]


def posterior(tumours: Tumours, is_ordered: bool) -> bouncy.Density:
    """Return the posterior, with walls b_k = b_(k+1) or without constraints."""
    d = len(LABELS)
    walls = [(np.eye(d)[k + 1] - np.eye(d)[k], 0.0) for k in range(CLASSES - 1)]
    data = (tumours.group, tumours.radius, tumours.malignant, PRIOR_SCALE, is_ordered)
    start = np.append(np.linspace(-1.0, 1.0, CLASSES), 0.0)
    return bouncy.Density(
        d, log_prob, gradient, walls=walls if is_ordered else (), convex=True, data=data, labels=LABELS, initial=start
    )


class Kept(NamedTuple):
    """Draws that were kept, (n, d), and their means with standard errors, (d,)."""

    draws: np.ndarray
    mean: np.ndarray
    error: np.ndarray


def reject(run: bouncy.PathRun) -> Kept:
    """Return the draws that are ordered; standard errors are those of batches of the kept draws."""
    draws = run.draws.reshape(-1, len(LABELS))
    kept = draws[(np.diff(draws[:, :CLASSES]) >= 0.0).all(axis=1)]
    means = np.array([batch.mean(axis=0) for batch in np.array_split(kept, BATCHES)])
    return Kept(kept, kept.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(BATCHES))


def main(small: bool = False, out: Path = Path("output/monotone_risk.png"), seed: int = 1) -> tuple[Any, Any, Kept]:
    """Sample, print, draw; `small` is a short version. Return runs without and with the order, and kept draws."""
    tumours = load()
    draws = 150 if small else 1000
    free = bouncy.sample(posterior(tumours, False), draws=4 * draws, seed=seed, progress=False)
    ordered = bouncy.sample(posterior(tumours, True), draws=draws, seed=seed, progress=False)
    kept = reject(free)
    print(f"{ordered.target!r}\n{'':10}{'no constraints':>18}{'ordered':>18}{'rejection':>18}")
    for i, name in enumerate(LABELS):
        found = ((free.mean, free.mean_se), (ordered.mean, ordered.mean_se), (kept.mean, kept.error))
        print(f"{name:10}" + "".join(f"{mean[i]:>+10.3f} ± {error[i]:.3f}" for mean, error in found))
    share = len(kept.draws) / free.draws[..., 0].size
    print(f"\n{len(kept.draws)} draws, {share:.1%} of those without constraints, are ordered")
    print(f"CPU seconds: {free.sampling_seconds:.1f} without the order, {ordered.sampling_seconds:.1f} with it")
    draw(out, tumours, free, ordered, kept)
    print(f"Picture: {out.resolve()}")
    return free, ordered, kept


def draw(out: Path, tumours: Tumours, free: bouncy.PathRun, ordered: bouncy.PathRun, kept: Kept) -> None:
    """Draw the coefficients of the classes, the last two in their plane, and the posterior of the last."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import plot_density, style

    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12.5, 4.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)
        risk, plane, last = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
        draw_classes(risk, tumours, free, "no constraints", style.ORANGE, -0.1)
        draw_classes(risk, tumours, ordered, "ordered", style.BLUE, 0.1)
        risk.set(xlabel="texture", ylabel="coefficient (log odds)", title="Risk by texture, radius adjusted for")
        risk.legend(loc="lower right")
        draw_wall(plane, free, ordered)
        plot_density(free, LABELS[-2], last, label="no constraints", color=style.ORANGE)
        plot_density(ordered, LABELS[-2], last, label="ordered", color=style.BLUE)
        last.hist(kept.draws[:, -2], bins=25, density=True, histtype="step", color=style.BLACK, label="rejection")
        last.set(title=f"Coefficient of {LABELS[-2]}", xlabel="log odds")
        last.legend(loc="upper left")
        last.set_ylim(0.0, 1.3 * last.get_ylim()[1])
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


def draw_wall(ax: Any, free: bouncy.PathRun, ordered: bouncy.PathRun) -> None:
    """Draw draws of the coefficients of the last two classes, and the wall between them."""
    from bouncy.plots import style

    ends = np.array([-0.7, 2.0])
    ax.fill_between(ends, -1.1, ends, facecolor="white", edgecolor=style.LIGHT, hatch="///", linewidth=0, zorder=0)
    ax.plot(ends, ends, color=style.GREY, linewidth=2.0, zorder=1)
    for run, colour in ((free, style.ORANGE), (ordered, style.BLUE)):
        x, y = run.draws[0, -600:, CLASSES - 2 : CLASSES].T
        ax.plot(x, y, ".", color=colour, markersize=3.0, alpha=0.6)
    ax.set(xlim=ends, ylim=(-1.1, 1.6), xlabel=LABELS[-3], ylabel=LABELS[-2], title="Never below the wall")


def draw_classes(ax: Any, tumours: Tumours, run: Any, label: str, colour: str, shift: float) -> None:
    """Draw mean and central 90 % of the coefficient of each class."""
    low, high = run.quantile([0.05, 0.95])[0][:, :CLASSES]
    middle = 0.5 * (tumours.ends[1:] + tumours.ends[:-1])
    middle[-1] = tumours.ends[-2] + 2.0  # the last class ends far away
    ax.vlines(middle + shift, low, high, color=colour, linewidth=2.0)
    ax.plot(middle + shift, run.mean[:CLASSES], "o-", color=colour, linewidth=0.8, markersize=5, label=label)


if __name__ == "__main__":
    main()
