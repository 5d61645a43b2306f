"""Gibbs sampling of continuous and mixed targets: each coordinate is drawn given all others, from its exact law."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import exp
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import new_state, uniform
from bouncy._samplable import Samplable
from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.coupling import add_column, entry, multiply
from bouncy.piecewise.expectations import (
    ONE,
    draw_coordinate,
    draw_normal,
    log_odds,
    normal_tau,
    record_law,
    weigh,
)
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.potential import SPIKED, Potential, kinds_of
from bouncy.piecewise.products import products_point
from bouncy.piecewise.recorder import draw_is_due, end_sweep, record_state
from bouncy.piecewise.weights import log_density
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.samplers._scan import RANDOM_SUMMARY
from bouncy.samplers.contract import Named, PathSampler
from bouncy.targets._regression import correlated_pairs, pair_weight

Array = NDArray[np.float64]

_SCANS = ("systematic", "random")
# F is computed in full after so many sweeps.
_STALE_SWEEPS = 64
# Coefficients are exchanged whose correlation, given all others, is at least this; so often for each that is not zero.
_CORRELATED, _EXCHANGES = 0.5, 2


@dataclass(frozen=True)
class Gibbs(PathSampler):
    """Gibbs sampler for every target that is Gaussian in pieces; not for a `bouncy.Density`.

    Given the others, a variable has a density that is Gaussian in pieces on the line: a mixture over its cells of
    truncated normals, exponentials, uniforms and point masses, whose weights are in closed form. Each is drawn from
    that in turn, in O(d), or with a sparse precision in the number of variables that it is coupled to.

    Coefficients that may be zero (`SpikeSlab`) are also exchanged, if two are strongly correlated: one that is not zero
    becomes zero, the other is drawn given that, and both are accepted with probability min(1, ratio of their masses).

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
        assert isinstance(target, PiecewiseTarget)
        return new_scan(y / target.scale, row, self.scan == "random", new_state(seed), partners_of(target.potential))


NAMED = (
    Named(
        Gibbs(),
        "draws one variable after the other given the others, of every target but `Density`; best unless variables "
        "are strongly correlated",
        "#e69f00",
    ),
    Named(Gibbs("random"), RANDOM_SUMMARY.replace("site", "variable"), "#f5c872"),
)


@part()
class Partners(NamedTuple):
    """Who may be exchanged with whom, in compressed sparse rows of symmetric weights."""

    first: NDArray[np.int64]  # (d + 1,)
    partner: NDArray[np.int64]  # (nnz,)
    cumulative: Array  # (nnz,) sums of weights within each row
    total: Array  # (d,) sum of the weights of each row


def _partners_of_none(d: int) -> Partners:
    return Partners(np.zeros(d + 1, np.int64), np.empty(0, np.int64), np.empty(0), np.zeros(d))


def partners_of(potential: Potential) -> Partners:
    """Return the pairs of coefficients that may be zero and are strongly correlated given all others."""
    A, d = potential.coupling, potential.cells.d
    (spiked,) = np.nonzero(kinds_of(potential) == SPIKED)
    if spiked.size < 2 or scipy.sparse.issparse(A):
        return _partners_of_none(d)
    units = np.sqrt(potential.diagonal()[spiked])
    r = np.abs(A[np.ix_(spiked, spiked)]) / units / units[:, None]
    every = correlated_pairs(r, r)
    pairs: Any = (every * (every >= pair_weight(_CORRELATED))).tocoo()
    weights = scipy.sparse.csr_array((pairs.data, (spiked[pairs.row], spiked[pairs.col])), shape=(d, d))
    first = weights.indptr.astype(np.int64)
    cumulative = [np.cumsum(weights.data[a:b]) for a, b in itertools.pairwise(first)]
    total = np.array([sums[-1] if sums.size else 0.0 for sums in cumulative])
    return Partners(first, weights.indices.astype(np.int64), np.concatenate(cumulative), total)


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
    pool: NDArray[np.int64]  # (d,) scratch: coordinates that may be exchanged


def new_scan(
    y: Array, row: NDArray[np.int64], random: bool, rng: NDArray[np.uint64], partners: Partners | None = None
) -> Scan:
    """Return a sampler at y, which exchanges nothing without partners; `settle` has to be called before it moves."""
    return Scan(
        y=y.copy(),
        row=row.astype(np.int64),
        x=np.zeros(y.size),
        F=np.zeros(y.size),
        stale=np.zeros(1, np.int64),
        rng=rng,
        random=random,
        partners=_partners_of_none(y.size) if partners is None else partners,
        pool=np.zeros(y.size, np.int64),
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
    if scan.partners.partner.size:
        _exchange(scan, view, recorder)
    record_state(recorder, view, scan.row, x, sweep_time)
    products_point(recorder.products, x, sweep_time)
    end_sweep(recorder, x, log_density(view, scan.row, x, scan.F) if draw_is_due(recorder) else 0.0)
    return True


@helper
def _move(scan, view, recorder, i):
    """Draw coordinate i from the law that was found for it, and return whether there is one."""
    row, y = draw_coordinate(recorder.expectations, view, i, scan.rng, scan.row[i], scan.y[i])
    _put(scan, view, recorder, i, row, y)
    return not np.isnan(y)


@helper
def _put(scan, view, recorder, i, row, y):
    """Put coordinate i at y in a cell."""
    x = view.slope[row] * y + view.shift[row]
    change = x - scan.x[i]
    if np.int64(row) != scan.row[i]:
        recorder.flips[i] += 1
        recorder.open_events[FLIPS] += 1.0
    scan.y[i], scan.x[i], scan.row[i] = y, x, row
    if change != 0.0:
        add_column(view.coupling, i, change, scan.F)


@helper
def _exchange(scan, view, recorder):
    """Try to replace coefficients that are not zero by others that are, some times for each of them.

    The pool of those that are not zero has the same size after an exchange, so that one of them is drawn with the same
    probability, and a partner in proportion to weights: what is left of the ratio of both ways is that of their sums.
    """
    pool, size = scan.pool, 0
    for i in range(scan.x.size):
        if scan.partners.total[i] > 0.0 and view.slope[scan.row[i]] != 0.0:
            pool[size] = i
            size += 1
    for _ in range(_EXCHANGES * size):
        k = min(np.int64(uniform(scan.rng) * size), size - 1)
        i = pool[k]
        j = _partner(scan, i)
        if view.slope[scan.row[j]] == 0.0 and _replace(scan, view, recorder, i, j):
            pool[k] = j


@helper
def _partner(scan, i):
    """Draw a partner of coordinate i."""
    partners = scan.partners
    left = uniform(scan.rng) * partners.total[i]
    k, last = partners.first[i], partners.first[i + 1] - 1
    while k < last and left > partners.cumulative[k]:
        k += 1
    return partners.partner[k]


@helper
def _replace(scan, view, recorder, i, j):
    """Try to let coordinate i be at its point, and j, which is at its own, anywhere else; return whether it is done."""
    left_i, left_j = np.uint64(view.first[i]), np.uint64(view.first[j])
    change = view.shift[left_i + ONE] - scan.x[i]
    g_i = scan.F[i] - view.diagonal[i] * scan.x[i]
    g_j = scan.F[j] - view.diagonal[j] * scan.x[j] + entry(view.coupling, j, i) * change
    cost = log_odds(view, left_j, view.diagonal[j], g_j) - log_odds(view, left_i, view.diagonal[i], g_i)
    ways = view.root[left_i] * scan.partners.total[i] / (view.root[left_j] * scan.partners.total[j])
    if uniform(scan.rng) > ways * exp(-cost):
        return False
    row, y = draw_normal(view, left_j, normal_tau(view, left_j, view.diagonal[j], g_j), scan.rng)
    _put(scan, view, recorder, i, left_i + ONE, view.lower[left_i + ONE])
    _put(scan, view, recorder, j, row, y)
    return True
