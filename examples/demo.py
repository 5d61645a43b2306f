"""Both bouncy clocks on the paper's model and on an Ising lattice, beside the exact answers, and one picture.

Run it by `make demo`, or by `python examples/demo.py --out picture.png`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from scipy.special import ndtri

import bouncy
from bouncy.results.batches import normal_score, standard_error
from bouncy.testing import kaufman_torus

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAMPLERS = ("bps-gaussian", "bps-exponential")
COUPLING = 0.3
PAIRS_SHOWN = 5
# Batches of each chain for the error bars of quantities of the whole lattice.
BATCHES = 8


def main(arguments: list[str] | None = None) -> None:
    """Sample, print, draw."""
    options = _parser().parse_args(arguments)
    begin = time.perf_counter()
    model, exact, runs = sample_model(options.draws, options.seed)
    print_model(model, exact, runs)
    lattice, lattice_runs = sample_lattice(options.side, max(options.draws // 20, 4 * BATCHES), options.seed)
    print_lattice(lattice, lattice_runs)
    draw(options.out, model, exact, runs, lattice, lattice_runs[0])
    print(f"\nPicture: {options.out.resolve()}\nDone in {time.perf_counter() - begin:.0f} s.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("output/demo.png"), help="where to save the picture")
    parser.add_argument("--draws", type=int, default=20000, help="draws of each chain")
    parser.add_argument("--side", type=int, default=64, help="side of the lattice")
    parser.add_argument("--seed", type=int, default=1711, help="seed of the samplers; the model stays the same")
    return parser


# The paper's model ----------------------------------------------------------------------------------------------------


def sample_model(draws: int, seed: int) -> tuple[bouncy.MRF, bouncy.Exact, list[bouncy.Run]]:
    """Sample the paper's model of ten spins with both clocks."""
    model = bouncy.MRF.random(10, sigma_M=0.2, sigma_r=0.1, seed=1)
    print("The paper's model: 10 spins, log p(s) = -s.r - s'Ms/2, sigma_M = 0.2, sigma_r = 0.1")
    print(
        f"4 chains x {draws} sweeps of each clock (some seconds to compile when run for the first time)\n", flush=True
    )
    return model, bouncy.exact(model), [bouncy.sample(model, name, draws=draws, seed=seed) for name in SAMPLERS]


def print_model(model: bouncy.MRF, exact: bouncy.Exact, runs: list[bouncy.Run]) -> None:
    """Print all means, the pairs that interact most, and how far all of them are from the exact values."""
    _print_head("E[s_i]", runs)
    for i in range(model.d):
        _print_row(f"i = {i}", exact.mean[i], [(run.mean[i], run.mean_se[i], _batches(run)) for run in runs])
    print()
    _print_head("E[s_i s_j]", runs)
    i, j = np.triu_indices(model.d, k=1)
    for k in np.argsort(-abs(model.M[i, j]))[:PAIRS_SHOWN]:
        at = i[k], j[k]
        columns = [(run.pair_mean[at], run.pair_mean_se[at], _batches(run)) for run in runs]
        _print_row(f"i, j = {at[0]}, {at[1]}", exact.pair_mean[at], columns)
    print(f"... the {PAIRS_SHOWN} of {i.size} pairs that interact most\n")
    for run in runs:
        means = normal_score((run.mean - exact.mean) / run.mean_se, _batches(run) - 1)
        pairs = normal_score((run.pair_mean - exact.pair_mean)[i, j] / run.pair_mean_se[i, j], _batches(run) - 1)
        print(f"{run.sampler.name}: {_speed(run)}")
        print(f"    {_largest('means', means)}")
        print(f"    {_largest('pairs', pairs)}")


# The lattice ----------------------------------------------------------------------------------------------------------


def sample_lattice(side: int, draws: int, seed: int) -> tuple[bouncy.MRF, list[bouncy.Run]]:
    """Sample an Ising lattice with both clocks."""
    lattice = bouncy.MRF.ising((side, side), coupling=COUPLING)
    print(f"\n\nIsing lattice, {side} x {side}, periodic, coupling {COUPLING}, no field")
    print(f"4 chains x {2 * draws} sweeps of each clock\n", flush=True)
    return lattice, [bouncy.sample(lattice, name, draws=draws, thin=2, pairs="edges", seed=seed) for name in SAMPLERS]


def print_lattice(lattice: bouncy.MRF, runs: list[bouncy.Run]) -> None:
    """Print the magnetisation and the mean over bonds, and how far single sites and bonds are from the exact values."""
    bonds = lattice.edges().nnz // 2
    bond_mean = kaufman_torus(*lattice.shape, COUPLING).bond_mean
    _print_head("lattice averages", runs)
    _print_row("E[s_i]", 0.0, [trace_mean(run.magnetisation) for run in runs])
    _print_row("E[s_i s_j]", bond_mean, [trace_mean(run.log_prob / (COUPLING * bonds)) for run in runs])
    print("... j next to i; exact by symmetry and by Kaufman's formula\n")
    for run in runs:
        means = normal_score(run.mean / run.mean_se, _batches(run) - 1)
        mean, error = scipy.sparse.triu(run.pair_mean).data, scipy.sparse.triu(run.pair_mean_se).data
        pairs = normal_score((mean - bond_mean) / error, _batches(run) - 1)
        print(f"{run.sampler.name}: {_speed(run)}")
        print(f"    {_largest('sites', means)}")
        print(f"    {_largest('bonds', pairs)}")


def trace_mean(trace: np.ndarray) -> tuple[float, float, int]:
    """Return the mean of a trace, shape (chain, draw), its standard error, and the number of batches that gave it.

    Bonds that share a site are correlated, so the error bars of single bonds do not add up to that of their mean; the
    mean over bonds is a number that each draw has, and its own batches give its error.
    """
    chains, draws = trace.shape
    length = draws // BATCHES
    batches = trace[:, : BATCHES * length].reshape(chains * BATCHES, length).sum(axis=1)
    return float(trace.mean()), float(standard_error(batches, np.full(batches.size, length), trace.size)), batches.size


# Printing -------------------------------------------------------------------------------------------------------------


def _print_head(title: str, runs: list[bouncy.Run]) -> None:
    print(f"{'':18}{'':>9}" + "".join(f"   {run.sampler.name:>27}" for run in runs))
    print(f"{title:18}{'exact':>9}" + "".join(f"   {'estimate':>9} {'std. error':>10} {'z':>6}" for _ in runs))


def _print_row(label: str, truth: float, columns: list[tuple[float, float, int]]) -> None:
    text = f"{label:18}{truth:>+9.5f}"
    for mean, error, batches in columns:
        z = float(normal_score((mean - truth) / error, batches - 1))
        text += f"   {mean:>+9.5f} {error:>10.5f} {z:>+6.2f}"
    print(text)


def _batches(run: bouncy.Run) -> int:
    return run.diagnostics["batches"]


def _speed(run: bouncy.Run) -> str:
    report = run.diagnostics
    rate = report["hits"] / report["sampling_seconds"] / 1e6
    return f"{rate:.1f} million attempted flips per CPU second, {report['flips'] / report['hits']:.0%} accepted"


def _largest(what: str, z: np.ndarray) -> str:
    """Say how large the largest |z| is, and that of as many independent standard normal numbers."""
    low, high = ndtri((1 + np.array([0.05, 0.95]) ** (1 / z.size)) / 2)
    return f"{z.size:5} {what}: largest |z| = {abs(z).max():.2f} (nine times in ten: {low:.1f} to {high:.1f})"


# The picture ----------------------------------------------------------------------------------------------------------


def draw(
    out: Path,
    model: bouncy.MRF,
    exact: bouncy.Exact,
    runs: list[bouncy.Run],
    lattice: bouncy.MRF,
    lattice_run: bouncy.Run,
) -> None:
    """Draw the particle's path, its signs in time, estimates against exact values, and a state of the lattice."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from bouncy.plots import plot_lattice, style

    with rc_context(style.SETTINGS):
        figure = Figure(figsize=(12, 10), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
        axes = figure.subplot_mosaic(
            [["path", "signs"], ["marginals", "lattice"], ["errors", "lattice"]],
            height_ratios=(2.7, 1.6, 1.1),
            width_ratios=(1, 1.15),
        )
        draw_path(axes["path"], axes["signs"], model)
        draw_results(axes["marginals"], axes["errors"], exact, runs)
        plot_lattice(lattice, lattice_run.draws[0, -1], axes["lattice"])
        sides = " × ".join(map(str, lattice.shape))
        axes["lattice"].set_title(f"A state of the Ising lattice, {sides}, coupling {COUPLING}")
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)


def draw_path(path_axes: Axes, signs_axes: Axes, model: bouncy.MRF) -> None:
    """Draw the path in the two coordinates that interact most, and their signs."""
    from bouncy.plots import plot_path, plot_signs, trace

    # Ten times the default refreshment, so that the picture shows some.
    path = trace(model, bouncy.BPS("gaussian", refreshment=0.5), duration=59.0, seed=9)
    i, j = (int(k) for k in np.unravel_index(abs(model.M).argmax(), model.M.shape))
    plot_path(path, i, j, path_axes).set_title(f"A particle among walls (2 of {model.d} coordinates)")
    plot_signs(path, (i, j), signs_axes).set_title("Its signs in time: the samples")
    handles, labels = path_axes.get_legend_handles_labels()
    signs_axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def draw_results(marginals_axes: Axes, errors_axes: Axes, exact: bouncy.Exact, runs: list[bouncy.Run]) -> None:
    """Draw estimates over exact values and, below, their errors."""
    from bouncy.plots import plot_errors, plot_marginals

    for run, markersize, shift in zip(runs, (4.0, 7.0), (-0.001, 0.001), strict=True):
        plot_marginals(run, exact, marginals_axes, markersize)
        plot_errors(run, exact, errors_axes, shift)
    marginals_axes.set_title("Estimates against exact values")
    marginals_axes.sharex(errors_axes)
    marginals_axes.set_xlabel("")
    marginals_axes.legend(loc="upper left")
    errors_axes.set_xlabel("exact value of $E[s_i]$ or $E[s_i s_j]$")
    errors_axes.set_ylabel("estimate − exact\n(95 % bars)")


if __name__ == "__main__":
    main()
