"""Gibbs sampling of continuous and mixed targets: each coordinate is drawn given all others, from its exact law."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import new_state, normal, uniform
from bouncy._samplable import Samplable
from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.coupling import add_column, entry, multiply
from bouncy.piecewise.expectations import draw_coordinate, record_law, reflect_coordinate, weigh
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.potential import SPIKED, Potential, kinds_of
from bouncy.piecewise.products import products_given, products_point
from bouncy.piecewise.recorder import draw_is_due, end_sweep, record_point, record_state
from bouncy.piecewise.spikes import (
    DEVIATION,
    IS_SPIKED,
    ODDS,
    ONE,
    POINT,
    RATIO,
    SLOPE,
    STAYS,
    VARIANCE,
    WINDOW,
    add_up,
    find_ratios,
    find_slopes,
    place_of,
    slope_at_point,
)
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
# Correlation of a coefficient that is not zero with its next value, given the others, and what is left for noise.
_OVERRELAXED = -0.9
_NOISE = sqrt(1.0 - _OVERRELAXED**2)


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
    Geman & Geman (1984), IEEE Trans. PAMI 6, 721. Gelfand & Smith (1990), J. Amer. Statist. Assoc. 85, 398. Adler
    (1981), Phys. Rev. D 23, 2901. Liu (1996), Biometrika 83, 681.

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
    # Scratch: coordinates that are drawn one by one, how many these are, and those that may be at a point and are not.
    single: NDArray[np.int64]  # (d,)
    singles: NDArray[np.int64]  # (1,)
    pool: NDArray[np.int64]  # (d,)


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
        single=np.zeros(y.size, np.int64),
        singles=np.zeros(1, np.int64),
        pool=np.zeros(y.size, np.int64),
    )


@implements(settle, Scan)
def _settle(scan, view, evaluations):
    n = 0
    for i in range(scan.y.size):
        row = scan.row[i]
        scan.y[i] = min(max(scan.y[i], view.lower[row]), view.upper[row])
        scan.x[i] = view.slope[row] * scan.y[i] + view.shift[row]
        if scan.random or view.kind[i] != SPIKED:
            scan.single[n] = i
            n += 1
    scan.singles[0] = n
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
    if not _draw_singles(scan, view, recorder, sweep_time):
        return False
    if scan.singles[0] < d:
        _overrelax(scan, view, recorder)
        if not _flip_all(scan, view, recorder, sweep_time):
            return False
    recorder.open_events[HITS] += d
    if scan.partners.partner.size:
        _exchange(scan, view, recorder)
    _record(scan, view, recorder, sweep_time)
    end_sweep(recorder, x, log_density(view, scan.row, x, scan.F) if draw_is_due(recorder) else 0.0)
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
            record_law(recorder, view, i, scan.x, mean, square, sweep_time)
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
    _put(scan, view, recorder, i, row, y, view.slope[row] * y + view.shift[row])
    return not np.isnan(y)


@helper
def _put(scan, view, recorder, i, row, y, x):
    """Put coordinate i at y in a cell, where its value is x."""
    change = x - scan.x[i]
    if np.int64(row) != scan.row[i]:
        recorder.flips[i] += 1
        recorder.open_events[FLIPS] += 1.0
    scan.y[i], scan.x[i], scan.row[i] = y, x, row
    if change != 0.0:
        add_column(view.coupling, i, change, scan.F)


@helper
def _put_spike(scan, view, recorder, i, point, x):
    """Put a coordinate that is normal or at its point at the value x."""
    row = np.uint64(view.first[i])
    if x == point:
        _put(scan, view, recorder, i, row + ONE, view.lower[row + ONE], x)
        return
    if x > point:
        row += ONE + ONE
    y = (x - view.shift[row]) / view.slope[row]
    _put(scan, view, recorder, i, row, min(max(y, view.lower[row]), view.upper[row]), x)


@helper
def _find_pool(scan, view):
    """Find the coordinates that may be at a point and are not, in order, and return how many they are."""
    size, d, constants = 0, scan.x.size, view.spikes
    for start in range(0, d, WINDOW):
        at, _ = place_of(start)
        for i in range(start, min(start + WINDOW, d)):
            k = at + np.uint64(i - start)
            if scan.x[i] != constants[k + POINT] and constants[k + IS_SPIKED] != 0.0:
                scan.pool[size] = i
                size += 1
    return size


@helper
def _overrelax(scan, view, recorder):
    """Move coordinates that are not at their point to the other side of their means given the others (Adler 1981)."""
    for k in range(_find_pool(scan, view)):
        i = scan.pool[k]
        at, _ = place_of(i)
        point = view.spikes[at + POINT]
        mean = point - slope_at_point(view.spikes, at, scan.F[i], scan.x[i]) * view.spikes[at + VARIANCE]
        noise = _NOISE * view.spikes[at + DEVIATION] * normal(scan.rng)
        _put_spike(scan, view, recorder, i, point, mean + _OVERRELAXED * (scan.x[i] - mean) + noise)


@helper
def _flip_all(scan, view, recorder, weight):
    """Let coordinates that are normal or at their point go to the other side, in turn; return whether all have a law.

    The first that goes is found from one random number: it is where the probability that all have stayed falls below.
    """
    windows, d = recorder.expectations.windows, scan.x.size
    found, constants = windows.found, view.spikes
    stayed, bound, total = 1.0, uniform(scan.rng), 0.0
    for window in range((d + WINDOW - 1) // WINDOW):
        start = window * WINDOW
        at, to = place_of(start)
        begin, end = 0, min(WINDOW, d - start)
        while begin < end:
            find_slopes(found, constants, scan.F, scan.x, window, begin, end)
            all_stay = find_ratios(found, constants, scan.x, window, begin, end)
            k = end
            if stayed * all_stay > bound:
                stayed *= all_stay
            else:
                k = begin
                while k < end and stayed * found[to + STAYS + np.uint64(k)] > bound:
                    stayed *= found[to + STAYS + np.uint64(k)]
                    k += 1
            _give_products(scan, view, recorder, window, begin, min(k + 1, end), weight)
            if k < end:
                _flip(scan, view, recorder, start + k, at + np.uint64(k), found[to + SLOPE + np.uint64(k)])
                stayed, bound = 1.0, uniform(scan.rng)
            begin = k + 1
        total += add_up(found, constants, window)
    windows.sweeps[0] += 1
    return abs(total) < inf


@helper
def _flip(scan, view, recorder, i, at, r):
    """Put a coordinate at its point, or draw it if it is there."""
    point = x = view.spikes[at + POINT]
    if scan.x[i] == point:
        x = point - r * view.spikes[at + VARIANCE] + view.spikes[at + DEVIATION] * normal(scan.rng)
    _put_spike(scan, view, recorder, i, point, x)


@helper
def _give_products(scan, view, recorder, window, begin, end, weight):
    """Account for E[x_i | others] x_j of some coordinates of a window."""
    if recorder.products.given.size == 0:
        return
    for i in range(window * WINDOW + begin, window * WINDOW + end):
        if view.kind[i] == SPIKED:
            at, to = place_of(i)
            found, constants = recorder.expectations.windows.found, view.spikes
            point, variance = constants[at + POINT], constants[at + VARIANCE]
            share, mean = 1.0 / (1.0 + found[to + RATIO]), point - found[to + SLOPE] * variance
            square = share * (mean * mean + variance) + (1.0 - share) * point * point
            products_given(recorder.products, i, share * mean + (1.0 - share) * point, square, scan.x, weight)


@helper
def _record(scan, view, recorder, weight):
    """Account for the state at the end of a sweep; of coordinates at their point, what they miss is added later."""
    n = scan.singles[0]
    if n == scan.x.size:
        record_state(recorder, view, scan.row, scan.x, weight)
    else:
        for k in range(n):
            i = scan.single[k]
            record_point(recorder, i, scan.row[i], scan.x[i], view.slope[scan.row[i]], weight)
        for k in range(_find_pool(scan, view)):
            i = scan.pool[k]
            point = np.uint64(view.first[i]) + ONE
            record_point(recorder, i, scan.row[i], scan.x[i], view.slope[scan.row[i]], weight)
            record_point(recorder, i, point, view.shift[point], 0.0, -weight)
    products_point(recorder.products, scan.x, weight)


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
    constants = view.spikes
    (at_i, _), (at_j, _) = place_of(i), place_of(j)
    point_i = constants[at_i + POINT]
    r_i = slope_at_point(constants, at_i, scan.F[i], scan.x[i])
    r_j = slope_at_point(constants, at_j, scan.F[j], scan.x[j])
    r_j += entry(view.coupling, j, i) * (point_i - scan.x[i])
    gain = 0.5 * (r_j * r_j * constants[at_j + VARIANCE] - r_i * r_i * constants[at_i + VARIANCE])
    ways = constants[at_i + ODDS] * scan.partners.total[i] / (constants[at_j + ODDS] * scan.partners.total[j])
    if uniform(scan.rng) > ways * exp(min(gain, 700.0)):
        return False
    _put_spike(scan, view, recorder, i, point_i, point_i)
    _flip(scan, view, recorder, j, at_j, r_j)
    return True
