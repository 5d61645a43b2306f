"""Gibbs sampling of continuous and mixed targets: each coordinate is drawn given all others, from its exact law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import new_state, uniform
from bouncy._samplable import Samplable
from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.coupling import add_column, multiply
from bouncy.piecewise.expectations import draw_coordinate, record_law, weigh
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.products import products_point
from bouncy.piecewise.recorder import draw_is_due, end_sweep, record_state
from bouncy.piecewise.weights import log_density
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.samplers._scan import RANDOM_SUMMARY
from bouncy.samplers.contract import Named, PathSampler

Array = NDArray[np.float64]

_SCANS = ("systematic", "random")
# F is computed in full after so many sweeps.
_STALE_SWEEPS = 64


@dataclass(frozen=True)
class Gibbs(PathSampler):
    """Gibbs sampler for every target that is Gaussian in pieces; not for a `bouncy.Density`.

    Given the others, a variable has a density that is Gaussian in pieces on the line: a mixture over its cells of
    truncated normals, exponentials, uniforms and point masses, whose weights are in closed form. Each is drawn from
    that in turn, in O(d), or with a sparse precision in the number of variables that it is coupled to.

    Parameters
    ----------
    scan : {"systematic", "random"}
        Whether variables come in turn, or each sweep draws d of them at random. In turn is usually better.

    Notes
    -----
    `run.mean`, `run.variance`, `run.covariance`, `run.inclusion` and the probabilities of cells are averages of
    expectations given all other variables, which are by-products of the draws. Variables that do not depend on each
    other have exact ones. Strongly correlated variables are moved slowly: see "hmc".

    References
    ----------
    Geman & Geman (1984), IEEE Trans. PAMI 6, 721. Gelfand & Smith (1990), J. Amer. Statist. Assoc. 85, 398.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.piecewise.Gibbs(scan="random").name
    'gibbs-random'
    """

    scan: str = "systematic"

    def __post_init__(self) -> None:
        if self.scan not in _SCANS:
            raise ValueError(f"scan is {self.scan!r}; expected one of: {', '.join(_SCANS)}")

    @property
    def name(self) -> str:
        return "gibbs" if self.scan == "systematic" else f"gibbs-{self.scan}"

    @property
    def events(self) -> tuple[str, str]:
        return "updates", "changes of cell"

    @property
    def records_expectations(self) -> bool:
        return True

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, PiecewiseTarget)

    def sweep_time(self, d: int) -> float:
        """Return 1: every coordinate is drawn once, or once on average."""
        return 1.0

    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Scan:
        return new_scan(y / target.scale, row, self.scan == "random", new_state(seed))


NAMED = (
    Named(
        Gibbs(),
        "draws one variable after the other given the others, of every target but `Density`; best unless variables "
        "are strongly correlated",
        "#e69f00",
    ),
    Named(Gibbs("random"), RANDOM_SUMMARY.replace("site", "variable"), "#f5c872"),
)


@part("y", "row", "x", "F", "stale", "rng", bounds={"stale": lambda scan: (0, _STALE_SWEEPS)})
class Scan(NamedTuple):
    """State of the sampler, in scaled coordinates."""

    y: Array  # (d,)
    row: NDArray[np.int64]  # (d,) the cell of each coordinate
    x: Array  # (d,) values
    F: Array  # (d,) A x - b
    stale: NDArray[np.int64]  # (1,) sweeps since F was last computed in full
    rng: NDArray[np.uint64]  # (4,)
    random: bool  # whether coordinates come in random order


def new_scan(y: Array, row: NDArray[np.int64], random: bool, rng: NDArray[np.uint64]) -> Scan:
    """Return a sampler at y; `settle` has to be called before it moves."""
    return Scan(
        y=y.copy(),
        row=row.astype(np.int64),
        x=np.zeros(y.size),
        F=np.zeros(y.size),
        stale=np.zeros(1, np.int64),
        rng=rng,
        random=random,
    )


@implements(settle, Scan)
def _settle(scan, view, evaluations):
    for i in range(scan.y.size):
        row = scan.row[i]
        scan.y[i] = min(max(scan.y[i], view.lower[row]), view.upper[row])
        scan.x[i] = view.slope[row] * scan.y[i] + view.shift[row]
    _renew(scan, view)


@helper
def _renew(scan, view):
    """Compute F in full."""
    multiply(view.coupling, scan.x, scan.F)
    for i in range(scan.x.size):
        scan.F[i] -= view.linear[i]
    scan.stale[0] = 0


@implements(sweep, Scan)
def _sweep(scan, view, recorder, sweep_time):
    x, d = scan.x, scan.x.size
    if scan.stale[0] == _STALE_SWEEPS:
        _renew(scan, view)
    scan.stale[0] += 1
    # At random, a coordinate may come twice or not at all: expectations are those at the end of the sweep, in turn.
    for k in range(2 * d if scan.random else d):
        moves, records = k < d, not scan.random or k >= d
        i = k if moves else k - d
        if scan.random and moves:
            i = min(np.int64(uniform(scan.rng) * d), d - 1)
        mean, square, proper = weigh(recorder.expectations, view, i, scan.F[i], x[i])
        if records:
            record_law(recorder, view, i, x, mean, square, sweep_time)
        if not proper or (moves and not _move(scan, view, recorder, i)):
            return False
    recorder.open_events[HITS] += d
    record_state(recorder, view, scan.row, x, sweep_time)
    products_point(recorder.products, x, sweep_time)
    end_sweep(recorder, x, log_density(view, scan.row, x, scan.F) if draw_is_due(recorder) else 0.0)
    return True


@helper
def _move(scan, view, recorder, i):
    """Draw coordinate i from the law that was found for it, and return whether there is one."""
    row, y = draw_coordinate(recorder.expectations, view, i, scan.rng, scan.row[i], scan.y[i])
    x = view.slope[row] * y + view.shift[row]
    change = x - scan.x[i]
    if np.int64(row) != scan.row[i]:
        recorder.flips[i] += 1
        recorder.open_events[FLIPS] += 1.0
    scan.y[i], scan.x[i], scan.row[i] = y, x, row
    if change != 0.0:
        add_column(view.coupling, i, change, scan.F)
    return not np.isnan(y)
