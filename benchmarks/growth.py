"""How the cost of an attempted flip grows with the number of spins, and the memory of a million of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from problems import CLOCKS, chain_job, metropolis_job, regular_graph
from report import Figure, Task
from timing import Job, Median, interleaved, median

TITLE = "Growth with d on random 3-regular graphs, coupling 0.3"
NOTE = "Time per attempted flip, means recorded. Visiting sites in random order waits for memory once d is large."
HEADER = "figure | clock | d"

SIZES = tuple(10**k for k in range(2, 7))
_QUICK_SIZES = SIZES[:-1]
# The bare loop, in the order of memory and in a random one.
BARE = ("bare", "shuffled")
_MEMORY_GOAL = 1024.0  # MiB
_PLOT = "growth.png"
_LABELS = {"bare": "bare loop", "shuffled": "bare loop, random order"}


def tasks(quick: bool) -> list[Task]:
    timing = Task("time per attempted flip", partial(_measure, quick))
    memory = [Task(f"memory, {clock}", partial(_memory, clock)) for clock in CLOCKS[: 1 if quick else None]]
    return [timing, *memory]


def _measure(quick: bool) -> list[Figure]:
    sizes, rounds = (_QUICK_SIZES, 5) if quick else (SIZES, 5)
    jobs: dict[str, Job] = {}
    for d in sizes:
        target = regular_graph(d)
        # Long enough for a refreshment or two, which sort all sites.
        hits = max(200_000 if quick else 1_000_000, 10 * d if quick else 30 * d)
        for name in BARE:
            jobs[f"{name} {d}"] = metropolis_job(target, min(hits, 10 * d + 200_000), shuffled=name == "shuffled")
        jobs |= {f"{clock} {d}": chain_job(target, f"bps-{clock}", hits) for clock in CLOCKS}
    seconds = interleaved(jobs, rounds)
    return [*_against_bare(seconds, sizes), *_against_smallest(seconds, sizes), *_exponents(seconds, sizes)]


def _against_bare(seconds: dict[str, NDArray[np.float64]], sizes: Sequence[int]) -> list[Figure]:
    return [
        Figure(
            f"time / {_LABELS[bare]}, same d | {clock} | {d}",
            median(seconds[f"{clock} {d}"] / seconds[f"{bare} {d}"]),
            details={"against": bare, "clock": clock, "d": d},
        )
        for bare in BARE
        for clock in CLOCKS
        for d in sizes
    ]


def _against_smallest(seconds: dict[str, NDArray[np.float64]], sizes: Sequence[int]) -> list[Figure]:
    """Return what is drawn: all times in units of the bare loop on the smallest graph."""
    unit = seconds[f"bare {sizes[0]}"]
    return [
        Figure(
            f"time / bare loop, d = {sizes[0]} | {name} | {d}",
            median(seconds[f"{name} {d}"] / unit),
            details={"against": "smallest", "clock": name, "d": d},
        )
        for name in (*BARE, *CLOCKS)
        for d in sizes
    ]


def _exponents(seconds: dict[str, NDArray[np.float64]], sizes: Sequence[int]) -> list[Figure]:
    """Return the exponents a of time ~ d^a, fitted in each round to the ratios to the bare loop in random order."""
    return [
        Figure(
            f"exponent of d, time / {_LABELS['shuffled']} | {clock} | all",
            median(np.polyfit(np.log(sizes), np.log(_ratios(seconds, clock, sizes)), 1)[0]),
            unit="",
            details={"against": "exponent", "clock": clock},
        )
        for clock in CLOCKS
    ]


def _ratios(seconds: dict[str, NDArray[np.float64]], clock: str, sizes: Sequence[int]) -> NDArray[np.float64]:
    return np.stack([seconds[f"{clock} {d}"] / seconds[f"shuffled {d}"] for d in sizes])


def _memory(clock: str) -> list[Figure]:
    """Measure a fresh process that builds the model, samples it, and reads the means and diagnostics."""
    command = [sys.executable, __file__, clock]
    peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"peak memory of a process | {clock} | {SIZES[-1]}"
    return [Figure(what, Median(peak, peak, peak), _MEMORY_GOAL, "at most", "MiB", {"clock": clock, "d": SIZES[-1]})]


def draw(figures: Sequence[Figure], directory: Path) -> Path:
    """Draw time per attempted flip against d and save it as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Colours of Okabe and Ito, told apart by every kind of colour vision; markers and dashes differ as well.
    looks = {
        "exponential": ("exponential clock", "#D55E00", "s", "-"),
        "gaussian": ("Gaussian clock", "#0072B2", "o", "-"),
        "shuffled": ("bare loop, sites in random order", "#009E73", "v", "--"),
        "bare": ("bare Metropolis loop", "#333333", "^", "--"),
    }
    points = [f for f in figures if f.details.get("against") == "smallest"]
    figure, axes = plt.subplots(figsize=(7.0, 4.6), layout="constrained")
    for name, (label, colour, marker, dash) in looks.items():
        mine = [f for f in points if f.details["clock"] == name]
        sizes = np.array([f.details["d"] for f in mine])
        value = np.array([f.median.value for f in mine])
        axes.plot(sizes, value, dash, marker=marker, color=colour, label=label, linewidth=2, markersize=7)
    start = next(f for f in points if f.details["clock"] == "exponential")
    guide = 1.3 * start.median.value * (sizes / sizes[0]) ** 0.25
    axes.plot(sizes, guide, ":", color="#777777", label="slope of $d^{1/4}$")
    axes.set(xscale="log", yscale="log", xlabel="number of spins d",
             ylabel=f"time per attempted flip\n(bare loop at d = {sizes[0]} is 1)",
             title="Random 3-regular graph, coupling 0.3, means recorded")  # fmt: skip
    ticks = [1, 2, 5, 10, 20, 50, 100]
    axes.set_yticks([tick for tick in ticks if tick <= 1.2 * guide[-1]])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(which="major", color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path = directory / _PLOT
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _sample_a_million(clock: str) -> None:
    """Sample long enough that every batch is in use, read the results, and print the peak memory in MiB."""
    import bouncy

    target = regular_graph(SIZES[-1])
    run = bouncy.sample(
        target, f"bps-{clock}", chains=1, draws=40, warmup=2, seed=0, keep="means", pairs="none", progress=False
    )
    assert np.isfinite(run.mean_se).all()
    assert run.diagnostics["flips"] > 0
    print(_peak_memory())


def _peak_memory() -> float:
    """Return the largest resident size of this process, in MiB.

    Linux hands ru_maxrss of a parent down to the process it starts, so that its own mark is read where there is one.
    """
    import resource

    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    _sample_a_million(sys.argv[1])
