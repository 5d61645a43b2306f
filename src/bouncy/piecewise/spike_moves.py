"""Moves of coordinates that are normal or at a point: overrelaxation, flips to the other side, exchanges.

Laws are those given all other coordinates, or those with the others that are not at their points integrated out
(`marginals.py`), with which a coordinate that flips takes these along.
"""

from __future__ import annotations

import itertools
from math import exp, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part
from bouncy._random import normal, uniform
from bouncy._vector import lowest_bit
from bouncy.piecewise.coupling import add_column, entry
from bouncy.piecewise.marginals import change, locate_active, without
from bouncy.piecewise.potential import SPIKED, Potential, kinds_of
from bouncy.piecewise.spikes import (
    DEVIATION,
    LAWS,
    ODDS,
    ONE,
    PATHS,
    POINT,
    PRECISION,
    SLOPE,
    STAYS,
    VARIANCE,
    WINDOW,
    add_up,
    add_up_marginals,
    find_apart,
    find_marginal_ratios,
    find_marginals,
    find_ratios,
    find_slopes,
    give_products,
    place_of,
    slope_at_point,
)
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.targets._regression import correlated_pairs, pair_weight

Array = NDArray[np.float64]

# Coefficients are exchanged whose correlation, given all others, is at least this; so often for each that is not zero.
_CORRELATED, _EXCHANGES = 0.5, 2
# Correlation of a coefficient that is not zero with its next value, given the others, and what is left for noise.
_OVERRELAXED = -0.9
_NOISE = sqrt(1.0 - _OVERRELAXED**2)


@part()
class Partners(NamedTuple):
    """Who may be exchanged with whom, in compressed sparse rows of symmetric weights."""

    first: NDArray[np.int64]  # (d + 1,)
    partner: NDArray[np.int64]  # (nnz,)
    cumulative: Array  # (nnz,) sums of weights within each row
    total: Array  # (d,) sum of the weights of each row


def no_partners(d: int) -> Partners:
    return Partners(np.zeros(d + 1, np.int64), np.empty(0, np.int64), np.empty(0), np.zeros(d))


def partners_of(potential: Potential) -> Partners:
    """Return the pairs of coefficients that may be zero and are strongly correlated given all others."""
    A, d = potential.coupling, potential.cells.d
    (spiked,) = np.nonzero(kinds_of(potential) == SPIKED)
    if spiked.size < 2 or scipy.sparse.issparse(A):
        return no_partners(d)
    units = np.sqrt(potential.diagonal()[spiked])
    r = np.abs(A[np.ix_(spiked, spiked)]) / units / units[:, None]
    every = correlated_pairs(r, r)
    pairs: Any = (every * (every >= pair_weight(_CORRELATED))).tocoo()
    weights = scipy.sparse.csr_array((pairs.data, (spiked[pairs.row], spiked[pairs.col])), shape=(d, d))
    first = weights.indptr.astype(np.int64)
    cumulative = [np.cumsum(weights.data[a:b]) for a, b in itertools.pairwise(first)]
    total = np.array([sums[-1] if sums.size else 0.0 for sums in cumulative])
    return Partners(first, weights.indices.astype(np.int64), np.concatenate(cumulative), total)


@helper
def put(scan, view, recorder, i, row, y, x):
    """Put coordinate i at y in a cell, where its value is x."""
    step = x - scan.x[i]
    _place(scan, recorder, i, row, y, x)
    if step != 0.0:
        add_column(view.coupling, i, step, scan.F)


@helper
def _place(scan, recorder, i, row, y, x):
    """Do the same, but for A x - b."""
    if np.int64(row) != scan.row[i]:
        recorder.flips[i] += 1
        recorder.open_events[FLIPS] += 1.0
    scan.y[i], scan.x[i], scan.row[i] = y, x, row


@helper
def _point_of(view, i):
    return view.spikes.constants[place_of(view.spikes.place[i])[0] + POINT]


@helper
def _cell_of(view, i, point, x):
    """Return the cell of the value x of a coordinate that is normal or at its point, and the place in it."""
    row = np.uint64(view.first[i])
    if x == point:
        return row + ONE, view.lower[row + ONE]
    if x > point:
        row += ONE + ONE
    y = (x - view.shift[row]) / view.slope[row]
    return row, min(max(y, view.lower[row]), view.upper[row])


@helper
def _put_spike(scan, view, recorder, i, point, x):
    """Put a coordinate that is normal or at its point at the value x."""
    row, y = _cell_of(view, i, point, x)
    put(scan, view, recorder, i, row, y, x)


@helper
def _put_jointly(scan, view, recorder, i, x):
    """Put a coordinate from its point to the value x, or to its point, and move others not at theirs along with it.

    Of the others x alone is changed: `_follow` has to be called.
    """
    marginals, point = scan.marginals, _point_of(view, i)
    enters = scan.x[i] == point
    delta = x - point if enters else scan.x[i] - point
    change(marginals, view.coupling, scan.F, i, delta, enters)
    others, back = (marginals.number[0] - 1, -delta) if enters else (marginals.number[0], delta)
    for a in range(others):
        scan.x[marginals.active[a]] += back * marginals.weight[a]
    row, y = _cell_of(view, i, point, x)
    _place(scan, recorder, i, row, y, x)


@helper
def _follow(scan, view, recorder):
    """Find the cells and places of coordinates that were moved along with others."""
    for a in range(scan.marginals.number[0]):
        i = scan.marginals.active[a]
        row, y = _cell_of(view, i, _point_of(view, i), scan.x[i])
        _place(scan, recorder, i, row, y, scan.x[i])


@helper
def find_pool(scan, view):
    """Find the coordinates that may be at a point and are not, and return how many they are."""
    size, n = 0, view.spikes.order.size
    for start in range(0, n, WINDOW):
        bits = find_apart(view.spikes, scan.x, start // WINDOW, min(WINDOW, n - start))
        while bits:
            scan.pool[size] = view.spikes.order[start + lowest_bit(bits)]
            bits &= bits - ONE
            size += 1
    return size


@helper
def _overrelax(scan, view, recorder, window, end):
    """Move coordinates of a window that are not at their point to the other side of their means given the others.

    Adler (1981).
    """
    constants, bits = view.spikes.constants, find_apart(view.spikes, scan.x, window, end)
    while bits:
        position = window * WINDOW + np.int64(lowest_bit(bits))
        bits &= bits - ONE
        i, (at, _) = view.spikes.order[position], place_of(position)
        point = constants[at + POINT]
        mean = point - slope_at_point(constants, at, scan.F[i], scan.x[i]) * constants[at + VARIANCE]
        noise = _NOISE * constants[at + DEVIATION] * normal(scan.rng)
        _put_spike(scan, view, recorder, i, point, mean + _OVERRELAXED * (scan.x[i] - mean) + noise)


@helper
def visit_windows(scan, view, recorder, weight):
    """Overrelax the coordinates of windows and let them go to the other side, in turn; return whether all have a law.

    The first that goes is found from one random number: it is where the probability that all have stayed falls below.
    Windows are visited once where coordinates flip jointly, which takes most of the time.
    """
    windows, spikes, marginals = recorder.expectations.windows, view.spikes, scan.marginals
    found, constants, order, jointly = windows.found, spikes.constants, spikes.order, marginals.used[0]
    if jointly:
        locate_active(marginals)
    stayed, bound, total = 1.0, uniform(scan.rng), 0.0
    for visit in range(spikes.times.size if jointly else spikes.visits.size):
        window = visit if jointly else spikes.visits[visit]
        times = spikes.times[window]
        laws = times if jointly else 1.0
        start = window * WINDOW
        at, to = place_of(start)
        begin, end = 0, min(WINDOW, order.size - start)
        recorder.open_events[HITS] += end
        _overrelax(scan, view, recorder, window, end)
        while begin < end:
            if jointly:
                find_marginals(found, spikes, marginals.slope, marginals.precision, scan.x, window, begin, end)
                all_stay = find_marginal_ratios(found, constants, window, begin, end)
            else:
                find_slopes(found, spikes, scan.F, scan.x, window, begin, end)
                all_stay = find_ratios(found, constants, window, begin, end)
            k = end
            if stayed * all_stay > bound:
                stayed *= all_stay
            else:
                k = begin
                while k < end and stayed * found[to + STAYS + np.uint64(k)] > bound:
                    stayed *= found[to + STAYS + np.uint64(k)]
                    k += 1
            give_products(recorder, view, scan.F, scan.x, start + begin, start + min(k + 1, end), weight * laws / times)
            if k < end:
                if jointly:
                    _flip_jointly(scan, view, recorder, order[start + k])
                else:
                    _flip(scan, view, recorder, order[start + k], at + np.uint64(k), found[to + SLOPE + np.uint64(k)])
                stayed, bound = 1.0, uniform(scan.rng)
            begin = k + 1
        total += (
            add_up_marginals(found, constants, window, end, laws) if jointly else add_up(found, constants, window, 1.0)
        )
    if jointly:
        _follow(scan, view, recorder)
    windows.sweeps[LAWS] += 1
    windows.sweeps[PATHS] += 1
    return abs(total) < inf


@helper
def _flip(scan, view, recorder, i, at, r):
    """Put a coordinate at its point, or draw it if it is there."""
    constants = view.spikes.constants
    point = x = constants[at + POINT]
    if scan.x[i] == point:
        x = point - r * constants[at + VARIANCE] + constants[at + DEVIATION] * normal(scan.rng)
    _put_spike(scan, view, recorder, i, point, x)


@helper
def _flip_jointly(scan, view, recorder, i):
    """Do the same with others that are not at their points integrated out."""
    x = _point_of(view, i)
    if scan.x[i] == x:
        precision = scan.marginals.precision[i]
        x += normal(scan.rng) / sqrt(precision) - scan.marginals.slope[i] / precision
    _put_jointly(scan, view, recorder, i, x)


@helper
def exchange(scan, view, recorder):
    """Try to replace coefficients that are not zero by others that are, some times for each of them.

    The pool of those that are not zero has the same size after an exchange, so that one of them is drawn with the same
    probability, and a partner in proportion to weights: what is left of the ratio of both ways is that of their sums.
    """
    pool, size = scan.pool, 0
    for n in range(find_pool(scan, view)):
        i = pool[n]
        if scan.partners.total[i] > 0.0:
            pool[size] = i
            size += 1
    for _ in range(_EXCHANGES * size):
        k = min(np.int64(uniform(scan.rng) * size), size - 1)
        i = pool[k]
        j = _partner(scan, i)
        if scan.x[j] == _point_of(view, j) and _replace(scan, view, recorder, i, j):
            pool[k] = j
    if scan.marginals.used[0]:
        _follow(scan, view, recorder)


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
    constants, place, jointly = view.spikes.constants, view.spikes.place, scan.marginals.used[0]
    (at_i, _), (at_j, _) = place_of(place[i]), place_of(place[j])
    point_i = constants[at_i + POINT]
    if jointly:
        r_i, a_i = scan.marginals.slope[i], scan.marginals.precision[i]
        r_j, a_j = without(scan.marginals, view.coupling, i, j)
    else:
        r_i, a_i = slope_at_point(constants, at_i, scan.F[i], scan.x[i]), constants[at_i + PRECISION]
        r_j, a_j = slope_at_point(constants, at_j, scan.F[j], scan.x[j]), constants[at_j + PRECISION]
        r_j += entry(view.coupling, j, i) * (point_i - scan.x[i])
    gain = 0.5 * (r_j * r_j / a_j - r_i * r_i / a_i)
    ways = constants[at_i + ODDS] * scan.partners.total[i] / (constants[at_j + ODDS] * scan.partners.total[j])
    ways *= sqrt(a_i * constants[at_i + VARIANCE] / (a_j * constants[at_j + VARIANCE]))
    if uniform(scan.rng) > ways * exp(min(gain, 700.0)):
        return False
    if jointly:
        _put_jointly(scan, view, recorder, i, point_i)
        _flip_jointly(scan, view, recorder, j)
    else:
        _put_spike(scan, view, recorder, i, point_i, point_i)
        _flip(scan, view, recorder, j, at_j, r_j)
    return True
