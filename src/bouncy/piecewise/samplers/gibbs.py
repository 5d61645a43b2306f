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
from bouncy.piecewise.coupling import multiply
from bouncy.piecewise.expectations import draw_coordinate, record_law, reflect_coordinate, weigh
from bouncy.piecewise.marginals import Marginals, new_marginals, pays, renew
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.potential import SPIKED
from bouncy.piecewise.products import products_point
from bouncy.piecewise.recorder import draw_is_due, end_sweep, record_point, record_state
from bouncy.piecewise.spike_moves import (
    Partners,
    exchange,
    find_pool,
    no_partners,
    partners_of,
    put,
    visit_windows,
)
from bouncy.piecewise.spikes import ONE
from bouncy.piecewise.weights import log_weight, quadratic_form
from bouncy.recorders.contract import HITS
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

    In every other sweep in turn, variables whose values neither jump nor rest are reflected about the mean of their law
    given the others instead, with probability min(1, ratio of the two densities). Near the end of a half-line, small
    distances from it are exchanged for large ones. Strongly correlated variables then go on in one direction for
    longer, instead of wandering (overrelaxation).

    Coefficients that may be zero (`SpikeSlab`) are moved by steps with the same law that forget faster, in turn: one
    that is not zero goes to the other side of its mean given the others (overrelaxation with correlation -0.9, Adler),
    and each goes from zero to its normal law or back with probability min(1, ratio of their masses) (Liu). If two are
    strongly correlated they are also exchanged: one that is not zero becomes zero, the other is drawn given that, and
    both are accepted with probability min(1, ratio of their masses).

    Coefficients that may well be different from zero are moved five times in a sweep, as most of the error is theirs:
    those with a probability above 0.03, with all others at their means, unless they are more than half of all. Which
    they are is found before the chain moves; the law is right whichever are.

    The masses are those given all other coefficients or, where all are normal or zero, those given which of the others
    are zero: coefficients that are not are integrated out, and move along with the one that flips so that their density
    stays the same. A flip then takes O(d) for each coefficient that is not zero, and all are moved once a sweep. It is
    done with a dense precision of up to 512 coefficients of which the data let at most 32 be different from zero, if
    two of them are strongly correlated or these numbers multiply to at most 1024; not where the others explain one of
    them but for 10^-4.

    Parameters
    ----------
    scan : {"systematic", "random"}
        Whether variables come in turn, or each sweep draws d of them at random. In turn is usually better.

    Notes
    -----
    `run.mean`, `run.variance`, `run.covariance`, `run.inclusion` and the probabilities of cells are averages of
    expectations given all other variables, or given which of them are zero, which are by-products of the draws.
    Variables that do not depend on each other have exact ones. Strongly correlated variables are moved slowly: see
    "hmc".

    References
    ----------
    Geman & Geman (1984), IEEE Trans. PAMI 6, 721. Gelfand & Smith (1990), J. Amer. Statist. Assoc. 85, 398. Adler
    (1981), Phys. Rev. D 23, 2901. Liu (1996), Biometrika 83, 681. George & McCulloch (1997), Statistica Sinica 7, 339.

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

    def records_expectations(self, target: Samplable[Any]) -> bool:
        return True

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, PiecewiseTarget)

    def sweep_time(self, d: int) -> float:
        """Return 1: every coordinate is drawn once, or once on average, but coefficients that are moved more often."""
        return 1.0

    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Scan:
        assert isinstance(target, PiecewiseTarget)
        random, partners = self.scan == "random", partners_of(target.potential)
        jointly = not random and pays(target.potential, partners.partner.size > 0)
        marginals = new_marginals(target.d if jointly else 0)
        return new_scan(y / target.scale, row, random, new_state(seed), partners, marginals)

    def retarget(self, motion: Scan, target: PathTarget) -> Scan:
        """Return the same motion. One that flips jointly on its first target does so where that pays on the new one."""
        assert isinstance(target, PiecewiseTarget)
        if motion.marginals.active.size:
            motion.marginals.used[0] = pays(target.potential, motion.partners.partner.size > 0)
        return motion


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
    partners: Partners
    marginals: Marginals
    # Scratch: coordinates that are drawn one by one, and how many these are; those that may be at a point and are not;
    # and what coordinates add to log p, all together, if each that may be is at its point.
    single: NDArray[np.int64]  # (d,)
    singles: NDArray[np.int64]  # (1,)
    pool: NDArray[np.int64]  # (d,)
    at_points: Array  # (1,)


def new_scan(
    y: Array,
    row: NDArray[np.int64],
    random: bool,
    rng: NDArray[np.uint64],
    partners: Partners | None = None,
    marginals: Marginals | None = None,
) -> Scan:
    """Return a sampler at y, which exchanges nothing without partners; `settle` has to be called before it moves.

    Without marginals it draws from laws given all others.
    """
    return Scan(
        y=y.copy(),
        row=row.astype(np.int64),
        x=np.zeros(y.size),
        F=np.zeros(y.size),
        stale=np.zeros(1, np.int64),
        rng=rng,
        random=random,
        partners=no_partners(y.size) if partners is None else partners,
        marginals=new_marginals(0) if marginals is None else marginals,
        single=np.zeros(y.size, np.int64),
        singles=np.zeros(1, np.int64),
        pool=np.zeros(y.size, np.int64),
        at_points=np.zeros(1),
    )


@implements(settle, Scan)
def _settle(scan, view, evaluations):
    n = 0
    scan.at_points[0] = 0.0
    for i in range(scan.y.size):
        row = scan.row[i]
        scan.y[i] = min(max(scan.y[i], view.lower[row]), view.upper[row])
        scan.x[i] = view.slope[row] * scan.y[i] + view.shift[row]
        if scan.random or view.kind[i] != SPIKED:
            scan.single[n] = i
            n += 1
        else:
            scan.at_points[0] += view.log_scale[view.first[i] + 1]
    scan.singles[0] = n
    _renew(scan, view)


@helper
def _renew(scan, view):
    """Compute F in full."""
    multiply(view.coupling, scan.x, scan.F)
    for i in range(scan.x.size):
        scan.F[i] -= view.linear[i]
    if scan.marginals.used[0]:
        renew(scan.marginals, view.coupling, view.linear, scan.x, scan.F)
    scan.stale[0] = 0


@implements(sweep, Scan)
def _sweep(scan, view, recorder, sweep_time):
    if scan.stale[0] == _STALE_SWEEPS:
        _renew(scan, view)
    scan.stale[0] += 1
    if not _draw_singles(scan, view, recorder, sweep_time):
        return False
    if scan.singles[0] < scan.x.size and not visit_windows(scan, view, recorder, sweep_time):
        return False
    recorder.open_events[HITS] += scan.singles[0]
    if scan.partners.partner.size:
        exchange(scan, view, recorder)
    apart = _record(scan, view, recorder, sweep_time)
    end_sweep(recorder, scan.x, _log_density(scan, view, apart) if draw_is_due(recorder) else 0.0)
    return True


@helper
def _draw_singles(scan, view, recorder, sweep_time):
    """Draw coordinates one by one given the others; return whether there is a law for each."""
    n = scan.singles[0]
    # At random, a coordinate may come twice or not at all: expectations are those at the end of the sweep, in turn.
    for k in range(2 * n if scan.random else n):
        moves, records = k < n, not scan.random or k >= n
        i = scan.single[k if moves else k - n]
        if scan.random and moves:
            i = min(np.int64(uniform(scan.rng) * n), n - 1)
        mean, square, proper = weigh(recorder.expectations, view, i, scan.F[i], scan.x[i])
        if records:
            record_law(recorder, view, i, scan.F[i], scan.x, mean, square, sweep_time)
        if not proper or (moves and not _move(scan, view, recorder, i, mean, square)):
            return False
    return True


@helper
def _move(scan, view, recorder, i, mean, square):
    """Move coordinate i by the law that was found for it, and return whether there is one.

    In every other sweep it is reflected about its mean where it can be; draws in the others make the chain ergodic.
    """
    law = recorder.expectations
    if scan.random or scan.stale[0] % 2:
        row, y = draw_coordinate(law, view, i, scan.rng)
    else:
        row, y = np.uint64(scan.row[i]), scan.y[i]
        row, y = reflect_coordinate(law, view, i, scan.rng, row, y, mean, square)
    put(scan, view, recorder, i, row, y, view.slope[row] * y + view.shift[row])
    return not np.isnan(y)


@helper
def _record(scan, view, recorder, weight):
    """Account for the state at the end of a sweep, and return how many coordinates could be at a point and are not.

    Of coordinates at their point, what they miss is added later.
    """
    n, apart = scan.singles[0], 0
    if n == scan.x.size:
        record_state(recorder, view, scan.row, scan.x, weight)
    else:
        for k in range(n):
            i = scan.single[k]
            record_point(recorder, i, scan.row[i], scan.x[i], view.slope[scan.row[i]], weight)
        apart = find_pool(scan, view)
        for k in range(apart):
            i = scan.pool[k]
            point = np.uint64(view.first[i]) + ONE
            record_point(recorder, i, scan.row[i], scan.x[i], view.slope[scan.row[i]], weight)
            record_point(recorder, i, point, view.shift[point], 0.0, -weight)
    products_point(recorder.products, scan.x, weight)
    return apart


@helper
def _log_density(scan, view, apart):
    """Return log p(x), from what it would be if the first `apart` of the pool were at their points as well."""
    total = scan.at_points[0] - 0.5 * quadratic_form(view, scan.x, scan.F)
    for k in range(scan.singles[0]):
        i = scan.single[k]
        total += log_weight(view, i, scan.row[i], scan.x[i])
    for k in range(apart):
        i = scan.pool[k]
        total += log_weight(view, i, scan.row[i], scan.x[i]) - view.log_scale[view.first[i] + 1]
    return total
