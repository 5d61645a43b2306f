"""Lanes of Markov random fields: couplings, dense or sparse, and the local fields h = r + Ms of many chains.

Imported when chains first share a clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._lane_loop import FLOAT64, INT8, lane_loop
from bouncy._memory import aligned_empty
from bouncy._vector import add_product, add_products, fetch, vectorised
from bouncy.targets._clusters import Joints, new_joints, trade_spins
from bouncy.targets._lane_reading import (
    LaneReading,
    new_lane_reading,
    nothing_to_read,
    write_log_odds,
    write_log_probs,
)
from bouncy.targets.contract import log_odds_to_means
from bouncy.targets.lanes import (
    cost_error,
    fetch_lanes,
    fetch_steps,
    flip_lanes,
    init_lanes,
    lane_costs,
    lane_log_probs,
    lanes_failed,
    park_lane,
    read_lanes,
    settle_lanes,
    trade_clusters,
)

# Up to so many sites of a dense model its fields are not kept but added up from the spins: that reads what keeping them
# would read and write.
_FEW = 16
# Attempts in all lanes after which the fields of a dense model are brought up to date, by (largest d, attempts). More
# of them make better use of what is in cache, but each attempt has to look through those before it.
_PUT_OFF = ((48, 8), (200, 16), (1 << 62, 32))

# Spins of all lanes, or couplings of a dense model, of which so many stay in a cache close to the processor: to ask for
# them would take longer than it saves.
_CLOSE = 1 << 18
# Up to so many neighbours of a site of a sparse model are added up as bytes where couplings differ by signs alone.
_NEIGHBOURS = 8
# By what share of it single precision rounds a number, and up to where it has all numbers.
_ROUNDING, _IN_RANGE = 2.0**-24, 1e37


@part("kept")
class DenseLanes(NamedTuple):
    """Dense couplings and the fields of all lanes, which are brought up to date after several attempts.

    Changes that were put off are added to the field of a site when it is tried. Together they are a product of
    matrices, which needs a fraction of the time of one flip after the other. Of few sites the spins are kept in place
    of the fields, as if all of them had been put off.
    """

    M: NDArray[np.float64]  # (d, d)
    r: NDArray[np.float64]  # (d,)
    offset: float
    kept: NDArray[np.float64]  # (d, lanes) fields but for what is put off; of few sites, spins
    total: NDArray[np.float64]  # (1, lanes) scratch: the fields of a site
    change: NDArray[np.float64]  # (most, lanes) of the spins, put off; of few sites, most = 0
    who: NDArray[np.int32]  # (most,) the sites that these are of; of few sites, all of them
    count: NDArray[np.int64]  # type: ignore[assignment]  # (1,) how many there are, shadows tuple.count
    error: float  # of costs in single precision: none but their rounding, if they are in its range


@part()
class SparseLanes(NamedTuple):
    """Couplings in CSR form: fields are added up from the neighbours whenever they are needed.

    With many lanes there is nearly always one that flips, and to read the spins of the neighbours, a byte each, takes
    less time than to keep their fields. What nobody keeps is always exact.
    """

    indptr: NDArray[np.int64]  # (d + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.float64]  # (nnz,)
    after: NDArray[np.int64]  # (d,) the first entry of each row whose neighbour comes after the site
    r: NDArray[np.float64]  # (d,)
    offset: float
    size: NDArray[np.float64]  # (d,) |coupling| of a site with few neighbours, whose couplings all have it, or else 0
    bits: NDArray[np.int8]  # (nnz,) -1, all bits 1, where a coupling is negative, else 0
    error: NDArray[np.float64]  # (d,) of costs that are added up in single precision
    reading: LaneReading  # of sites with a `size`
    joints: Joints


def dense_lanes(M: NDArray[np.float64], r: NDArray[np.float64], offset: float, width: int) -> DenseLanes:
    """Return a view with room for the fields of some lanes."""
    d = r.size
    most = 0 if d <= _FEW else next(put_off for largest, put_off in _PUT_OFF if d <= largest)
    kept, change = aligned_empty(d, width), aligned_empty(most, width)
    kept[:] = np.nan
    who = np.zeros(most, np.int32) if most else np.arange(d, dtype=np.int32)
    most_cost = 2.0 * (np.abs(r) + np.abs(M).sum(axis=1))
    error = 0.0 if most_cost.max() < _IN_RANGE else np.inf
    return DenseLanes(M, r, offset, kept, aligned_empty(1, width), change, who, np.zeros(1, np.int64), error)


def sparse_lanes(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    r: NDArray[np.float64],
    offset: float,
    ladder: bool,
) -> SparseLanes:
    """Return a view of lanes, which can be read if they are those of a ladder."""
    degree, sizes = np.diff(indptr), np.abs(data)
    some = np.flatnonzero(degree)
    least, most = np.zeros(r.size), np.zeros(r.size)
    least[some] = np.minimum.reduceat(sizes, indptr[some]) if some.size else 0.0
    most[some] = np.maximum.reduceat(sizes, indptr[some]) if some.size else 0.0
    size = np.where((least == most) & (degree <= _NEIGHBOURS), most, 0.0)
    bits = -(data < 0.0).astype(np.int8)
    later = np.append(0, np.cumsum(indices > np.repeat(np.arange(r.size), degree)))
    after = indptr[1:] - np.diff(later[indptr])
    # Each number is rounded when it is read and each partial sum, four couplings at a time, when it is made.
    most_cost = 2.0 * (np.abs(r) + np.add.reduceat(np.append(sizes, 0.0), indptr[:-1]) * (degree > 0))
    error = np.where(most_cost < _IN_RANGE, (6.0 + degree / 4.0) * _ROUNDING * most_cost, np.inf)
    reading = new_lane_reading(indptr, indices, data, r, offset, size) if ladder else nothing_to_read()
    joints = new_joints(scipy.sparse.csr_array((data, indices, indptr), shape=(r.size, r.size)) if ladder else None)
    return SparseLanes(indptr, indices, data, after, r, offset, size, bits, error, reading, joints)


@helper
def _are_few(view):
    return view.change.shape[0] == 0


@implements(init_lanes, DenseLanes)
def _init_dense(view, s):
    view.count[0] = 0
    if _are_few(view):
        for i in range(s.shape[0]):
            _copy(view.kept[i], s[i])
        return
    for i in range(s.shape[0]):
        _fill(view.kept[i], view.r[i])
    for i in range(s.shape[0]):
        _put_off(view, i, s[i])  # as if all spins had been 0
    settle_lanes(view)


@implements(lane_costs, DenseLanes)
def _dense_costs(view, s, i, out):
    total = view.total
    if _are_few(view):
        _fill(total[0], view.r[i])
        add_product(total, view.M, i, view.who, view.who.size, view.kept)
    else:
        _copy(total[0], view.kept[i])
        add_product(total, view.M, i, view.who, view.count[0], view.change)
    _cost_of_field(out[0], total[0], s[i])


@implements(cost_error, DenseLanes)
def _dense_error(view, i):
    return view.error


@implements(flip_lanes, DenseLanes)
def _flip_dense(view, s, i, change):
    if _are_few(view):
        _add(view.kept[i], 1.0, change)
    else:
        _put_off(view, i, change)


@helper
def _put_off(view, i, change):
    n = view.count[0]
    _copy(view.change[n], change)
    view.who[n] = i
    view.count[0] = n + 1
    if n + 1 == view.who.size:
        settle_lanes(view)


@vectorised
def _copy(row, change):
    for k in range(row.size):
        row[k] = change[k]


@vectorised
def _fill(row, value):
    for k in range(row.size):
        row[k] = value


@lane_loop()
def _cost_of_field(out, field, spin):
    out.write((field.read() * spin.read().to(FLOAT64) * -2.0).to(out.element))


@implements(settle_lanes, DenseLanes)
def _settle_dense(view):
    if view.count[0]:
        add_products(view.kept, view.M, view.who, view.count[0], view.change)
        view.count[0] = 0


@implements(init_lanes, SparseLanes)
def _init_sparse(view, s):
    pass


@implements(lane_costs, SparseLanes)
def _sparse_costs(view, s, i, out):
    n, size, field = view.indptr[i], view.size[i], view.r[i]
    if size > 0.0:
        _add_up(out[0], s[i], -2.0 * size, -2.0 * field, (s, view.indices, view.bits, n, view.indptr[i + 1]))
    else:
        _cost_from(view, s, i, n, field, out[0])


@implements(cost_error, SparseLanes)
def _sparse_error(view, i):
    return view.error[i]


@helper
def _cost_from(view, s, i, n, field, out):
    """Write what site i would cost in a field if it had but those neighbours that are in its row from entry n on."""
    end = view.indptr[i + 1]
    _fill(out, field)
    while n + 4 < end:
        _add_four(view, s, i, n, end, 1.0, 0.0, out)
        n += 4
    _add_four(view, s, i, n, end, 0.0, -2.0, out)


@lane_loop()
def _add_up(out, spin, weight, field, neighbours):
    """Write spin (weight total + field), where couplings are equal but for their signs: spins are added up as bytes."""
    total = neighbours.total(INT8, lambda row, bits: (row.read() ^ bits) - bits)
    cost = weight.to(out.element) * total.to(out.element) + field.to(out.element)
    out.write(cost * spin.read().to(out.element))


@lane_loop()
def _multiply_four(out, spin, p, q, t, u, a, b, c, d, alone, with_spin):
    first, second, third, fourth = (
        weight.to(out.element) * row.read().to(out.element) for weight, row in ((a, p), (b, q), (c, t), (d, u))
    )
    total = out.read() + ((first + second) + (third + fourth))
    out.write((alone.to(out.element) + with_spin.to(out.element) * spin.read().to(out.element)) * total)


@helper
def _add_four(view, s, i, n, end, alone, with_spin, out):
    """Add what up to four neighbours contribute to the field of site i, and multiply by `alone` + `with_spin` s_i."""
    a, p = _neighbour(view, s, i, n, end)
    b, q = _neighbour(view, s, i, n + 1, end)
    c, t = _neighbour(view, s, i, n + 2, end)
    d, u = _neighbour(view, s, i, n + 3, end)
    _multiply_four(out, s[i], p, q, t, u, a, b, c, d, alone, with_spin)


@vectorised
def _neighbour(view, s, i, n, end):
    """Return the weight of entry n of a row that ends before `end`, and the spins that it is for.

    A neighbour that is missing is the site itself, with the weight 0.
    """
    there, n = n < end, np.uint64(n)
    return view.data[n] if there else 0.0, s[np.uint32(view.indices[n] if there else i)]


@vectorised
def _add(total, weight, spin):
    for k in range(total.size):
        total[k] += weight * spin[k]


@implements(fetch_steps, SparseLanes)
def _sparse_steps(view, s):
    return 3 if s.size > _CLOSE else 0


@implements(fetch_lanes, SparseLanes)
def _fetch_sparse(view, s, i, step):
    if step == 2:
        fetch(view.indptr[i : i + 2])
        fetch(view.r[i : i + 1])
        fetch(view.size[i : i + 1])
        return
    n, end = view.indptr[i], view.indptr[i + 1]
    if step == 1:
        fetch(view.indices[n:end])
        if view.size[i] > 0.0:
            fetch(view.bits[n:end])
        else:
            fetch(view.data[n:end])
        return
    fetch(s[i])
    for m in range(n, end):
        fetch(s[view.indices[m]])


@implements(fetch_steps, DenseLanes)
def _dense_steps(view, s):
    return 1


@implements(fetch_lanes, DenseLanes)
def _fetch_dense(view, s, i, step):
    fetch(s[i])
    fetch(view.kept[i])
    if view.M.size > _CLOSE:
        for k in range(view.count[0]):
            fetch(view.M[i, view.who[k] : view.who[k] + 1])


@implements(flip_lanes, SparseLanes)
def _flip_sparse(view, s, i, change):
    pass


@implements(settle_lanes, SparseLanes)
def _settle_sparse(view):
    pass


@implements(read_lanes, DenseLanes)
def _read_dense(view, s, which, spins, cost, log_prob, means):
    _fill(log_prob, 0.0)
    for i in range(s.shape[0]):
        lane_costs(view, s, i, cost)
        _add(log_prob, 1.0, cost[0])
        for n in range(which.size):
            means[n, i] = cost[0, which[n]] * spins[n, i]
    lane_log_probs(view, s, log_prob)
    for n in range(which.size):
        log_odds_to_means(means[n])


@implements(read_lanes, SparseLanes)
def _read_sparse(view, s, which, spins, cost, log_prob, means):
    write_log_probs(view.reading, s, log_prob)
    write_log_odds(view.reading, spins, means)
    for i in range(s.shape[0]):
        if view.size[i] > 0.0:
            continue
        begin, end = view.indptr[i], view.indptr[i + 1]
        if view.after[i] < end:
            _cost_from(view, s, i, view.after[i], 0.0, cost[0])  # so that a pair of neighbours counts once
            _add(log_prob, 0.5, cost[0])
        for n in range(which.size):
            field = view.r[i]
            for m in range(begin, end):
                field += view.data[m] * spins[n, view.indices[m]]
            means[n, i] = -2.0 * field
    for n in range(which.size):
        log_odds_to_means(means[n])


@implements(trade_clusters, SparseLanes)
def _trade_sparse(view, s, begin, partners, rng):
    trade_spins(view.joints, s, begin, partners, rng)


@implements(trade_clusters, DenseLanes)
def _trade_dense(view, s, begin, partners, rng):
    pass  # where all sites are coupled the whole states would be exchanged


@implements(park_lane, SparseLanes)
@implements(park_lane, DenseLanes)
def _park(view, n, k):
    pass  # all costs are finite


@implements(lanes_failed, SparseLanes)
@implements(lanes_failed, DenseLanes)
def _never(view):
    return False


@implements(lane_log_probs, SparseLanes)
@implements(lane_log_probs, DenseLanes)
def _log_probs(view, s, out):
    # Of log p = offset - s.(h + r) / 2 the costs are -2 s_i h_i.
    for k in range(out.size):
        out[k] = view.offset + 0.25 * out[k]
    for i in range(s.shape[0]):
        if view.r[i] != 0.0:
            _add(out, -0.5 * view.r[i], s[i])
