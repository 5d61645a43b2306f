"""What is recorded of lanes: the sums of `Recorder` with one more axis, that of the lanes, at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import generic, implements, part
from bouncy._memory import aligned_empty, aligned_zeros
from bouncy._vector import fetch, vectorised
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import has_room
from bouncy.recorders.pairs import EdgePairs, edge_pairs
from bouncy.recorders.recorder import DRAWN, SINCE_DRAW, THIN
from bouncy.targets.lanes import lane_costs, lane_log_probs
from bouncy.tolls.lanes import add_lane_means


@part("open_path", "open_mean", "open_events", "flips", "elapsed", bounds={"flips": lambda _: (0, MOST_EVENTS)})
class LaneRecorder(NamedTuple):
    """Sums over the open batch, and room for draws. One without sites records events alone."""

    open_path: NDArray[np.float64]  # (d, lanes) such that the integral of s since the batch began is open_path + s t
    open_mean: NDArray[np.float64]  # (d, lanes) sum of the conditional means at the ends of sweeps
    open_events: NDArray[np.float64]  # (4, lanes) hits, flips, bounces, refreshments in the open batch
    flips: NDArray[np.int64]  # (d,) of each site, in all lanes together, since the recorder was new
    elapsed: NDArray[np.float64]  # (1,) time since the open batch began
    tally: NDArray[np.int64]  # (3,) draws in the rows so far, sweeps since the last draw, sweeps between draws
    draws: NDArray[np.int8]  # (n, d, lanes)
    log_prob: NDArray[np.float64]  # (n, lanes)
    magnetisation: NDArray[np.float64]  # (n, lanes)
    conditional: NDArray[np.float64]  # (d or 0, lanes) scratch: the conditional means, where pairs need them
    pairs: EdgePairs


def new_lane_recorder(d: int, width: int, pattern: scipy.sparse.csr_array | None) -> LaneRecorder:
    """Return an empty recorder of some lanes, and of the pairs of a symmetric pattern."""
    pairs = edge_pairs(scipy.sparse.csr_array((d, d)) if pattern is None else pattern, (width,))
    return LaneRecorder(
        open_path=aligned_zeros(d, width),
        open_mean=aligned_zeros(d, width),
        open_events=aligned_zeros(4, width),
        flips=np.zeros(d, np.int64),
        elapsed=np.zeros(1),
        tally=np.array([0, 0, 1]),
        draws=np.empty((0, d, width), np.int8),
        log_prob=np.empty((0, width)),
        magnetisation=np.empty((0, width)),
        conditional=aligned_empty(d if pattern is not None else 0, width),
        pairs=pairs,
    )


def lane_sums(recorder: LaneRecorder, s: NDArray[np.int8], lanes: int, pairs: str) -> list[Batch]:
    """Return the sums over the open batch of each of the first lanes, by name, given the present spins."""
    t = float(recorder.elapsed[0])
    sums = {
        "path": recorder.open_path + s * t,
        "mean": recorder.open_mean,
        "events": recorder.open_events,
        **({} if pairs == "none" else recorder.pairs.sums(s, recorder.open_path, t)),
    }
    columns = {name: array[:, :lanes].T.copy() for name, array in sums.items()}  # also where d = 1
    if pairs == "all":
        columns |= {name: _as_matrices(columns[name], recorder.pairs) for name in ("pair_path", "pair_mean")}
    return [{name: array[k] for name, array in columns.items()} for k in range(lanes)]


def clear_lanes(recorder: LaneRecorder) -> None:
    """Begin a new batch."""
    for array in (recorder.open_path, recorder.open_mean, recorder.open_events, recorder.elapsed):
        array[...] = 0.0
    recorder.pairs.clear()


def _as_matrices(values: NDArray[np.float64], pairs: EdgePairs) -> NDArray[np.float64]:
    """Return numbers of all pairs, (lanes, pairs), as symmetric matrices, (lanes, d d), with zeros for i = j."""
    d, (low, high) = pairs.indptr.size - 1, pairs.ends
    full = np.zeros((len(values), d, d))
    full[:, low, high] = full[:, high, low] = values
    return full.reshape(len(values), d * d)


@generic
def fetch_record(recorder, i):
    """Ask for the memory that `record_change` will need for site i."""


@generic
def follow_lanes(recorder, toll, s):
    """Account for temperatures that lanes traded at the end of the last sweep."""


@generic
def record_change(recorder, toll, s, i, count, t):
    """Account for `toll.change` of site i, t after the sweep began; in `count` chains it is not 0."""


@generic
def record_lane_sweep(recorder, toll, target, s, sweep_time):
    """Account for the end of a sweep."""


@implements(fetch_record, LaneRecorder)
def _fetch(recorder, i):
    fetch(recorder.open_path[i])


@implements(follow_lanes, LaneRecorder)
def _stay(recorder, toll, s):
    pass


@implements(has_room, LaneRecorder)
def _has_room(recorder):
    return True


@implements(record_change, LaneRecorder)
def _record_change(recorder, toll, s, i, count, t):
    _add_change(recorder, s, i, toll.change, count, t)


@implements(record_lane_sweep, LaneRecorder)
def _record_sweep(recorder, toll, target, s, sweep_time):
    _add_sweep(recorder, toll, target, s, sweep_time)


@vectorised
def _add_change(recorder, s, i, change, count, t):
    recorder.flips[i] += count
    t += recorder.elapsed[0]
    path = recorder.open_path[i]
    # The integral of s_i is s_i t at the end plus (s_i before - s_i after) t for each flip.
    for k in range(change.size):
        path[k] -= change[k] * t
    pairs = recorder.pairs
    for n in range(pairs.indptr[i], pairs.indptr[i + 1]):
        # s_i s_j is itself a variable with two values that changes sign now.
        path, other = pairs.open_path[pairs.edge[n]], s[pairs.indices[n]]
        for k in range(change.size):
            path[k] -= change[k] * t * other[k]


@vectorised
def _add_sweep(recorder, toll, target, s, sweep_time):
    # Conditional means, and a draw when one is due.
    pairs, tally = recorder.pairs, recorder.tally
    tally[SINCE_DRAW] += 1
    row = tally[DRAWN]
    draws = tally[SINCE_DRAW] == tally[THIN] and row < recorder.log_prob.shape[0]
    if draws:
        for k in range(s.shape[1]):
            recorder.log_prob[row, k] = 0.0
    for i in range(s.shape[0]):
        lane_costs(target, s, i, toll.cost)
        add_lane_means(toll, s[i], toll.reference[i], recorder.open_mean[i])
        if draws:
            _add(recorder.log_prob[row], toll.cost[0])
    if pairs.open_mean.shape[0]:
        for i in range(s.shape[0]):
            mean = recorder.conditional[i]
            for k in range(mean.size):
                mean[k] = 0.0
            lane_costs(target, s, i, toll.cost)
            add_lane_means(toll, s[i], toll.reference[i], mean)
        for i in range(s.shape[0]):
            for n in range(pairs.indptr[i], pairs.indptr[i + 1]):
                # Each edge stands twice in the pattern, once for each of its two terms.
                _add_halves(pairs.open_mean[pairs.edge[n]], s[i], recorder.conditional[pairs.indices[n]])
    recorder.elapsed[0] += sweep_time
    if tally[SINCE_DRAW] == tally[THIN]:
        tally[SINCE_DRAW] = 0
    if draws:
        _take_draw(recorder, target, s, row)
        tally[DRAWN] = row + 1


@vectorised
def _add_halves(total, spin, mean):
    for k in range(total.size):
        total[k] += 0.5 * spin[k] * mean[k]


@vectorised
def _add(total, values):
    for k in range(total.size):
        total[k] += values[k]


@vectorised
def _take_draw(recorder, target, s, n):
    """Write row n of what is kept, whose log p holds the sum of all costs.

    Sums over flips would round in ways of their own, and ranks would tell chains in one state apart.
    """
    lane_log_probs(target, s, recorder.log_prob[n])
    up, share = recorder.magnetisation[n], 1.0 / s.shape[0]
    for k in range(up.size):
        up[k] = 0.0
    for i in range(s.shape[0]):
        _add(up, s[i])
    for k in range(up.size):
        up[k] *= share
    if n < recorder.draws.shape[0]:
        for i in range(s.shape[0]):
            row = recorder.draws[n, i]
            for k in range(row.size):
                row[k] = s[i, k]


def lane_rows(rows: dict[str, NDArray[Any]], lanes: int) -> list[dict[str, NDArray[Any]]]:
    """Return rows of all lanes, (n, ..., lanes), as rows of each of the first ones, (n, ...)."""
    return [{name: np.ascontiguousarray(array[..., k]) for name, array in rows.items()} for k in range(lanes)]
