"""What is recorded of lanes: the sums of `Recorder` with one more axis, that of the lanes, at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import generic, implements, part
from bouncy._lane_loop import WIDTH
from bouncy._memory import aligned_empty, aligned_zeros
from bouncy._vector import fetch, vectorised
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import MEANS, SWEEP_END, has_room
from bouncy.recorders.pairs import Pairs, edge_pairs
from bouncy.recorders.recorder import DRAWN, SINCE_DRAW, THIN
from bouncy.targets.lanes import fetch_lanes, fetch_steps, lane_costs, lane_log_probs
from bouncy.tolls.lanes import add_lane_means, add_spins, add_spread

# Variances need not be known as exactly as means: they are recorded in few lanes, and so many recordings are left out.
_SKIPS = 15
# Times that means are recorded in a batch, at most: that of a run of years.
_MOST_RECORDED = 2**30


@part(
    "open_path", "open_mean", "open_state", "open_spread", "open_events", "flips", "elapsed", "due", "skips",
    bounds={
        "flips": lambda _: (0, MOST_EVENTS),
        "due": lambda _: (1, SWEEP_END),
        "skips": lambda _: (0, _SKIPS),
        "open_state": lambda _: (-_MOST_RECORDED, _MOST_RECORDED),
    },
)  # fmt: skip
class LaneRecorder(NamedTuple):
    """Sums over the open batch, and room for draws. One without sites records events alone."""

    open_path: NDArray[np.float64]  # (d, lanes) such that the integral of s since the batch began is open_path + s t
    open_mean: NDArray[np.float64]  # (d, lanes) sum of the conditional means
    open_state: NDArray[np.int32]  # (d or 0, lanes) sum of the spins at the same moments, for control variates
    open_spread: NDArray[np.float64]  # (d + 1 or 0, WIDTH) sum of conditional variances, and of how many, in few lanes
    open_events: NDArray[np.float64]  # (5, lanes) hits, flips, bounces, refreshments, means in the open batch
    flips: NDArray[np.int64]  # (d,) of each site, in all lanes together, since the recorder was new
    elapsed: NDArray[np.float64]  # (1,) time since the open batch began
    due: NDArray[np.int64]  # (1,) attempts until conditional means are recorded
    skips: NDArray[np.int64]  # (1,) times they are recorded until variances are
    every: int  # attempts from one time to the next, d or SWEEP_END
    tally: NDArray[np.int64]  # (3,) draws in the rows so far, sweeps since the last draw, sweeps between draws
    draws: NDArray[np.int8]  # (n, d, lanes)
    log_prob: NDArray[np.float64]  # (n, lanes)
    magnetisation: NDArray[np.float64]  # (n, lanes)
    cost: NDArray[np.float64]  # (lanes,) scratch: the sum of all costs
    conditional: NDArray[np.float64]  # (d or 0, lanes) scratch: the conditional means, where pairs need them
    pairs: Pairs


def new_lane_recorder(
    d: int, width: int, pattern: scipy.sparse.csr_array | None, by_attempts: bool, controls: bool = False
) -> LaneRecorder:
    """Return an empty recorder of some lanes, and of the pairs of a symmetric pattern, as `new_recorder` does."""
    pairs = edge_pairs(scipy.sparse.csr_array((d, d)) if pattern is None else pattern, width)
    return LaneRecorder(
        open_path=aligned_zeros(d, width),
        open_mean=aligned_zeros(d, width),
        open_state=aligned_zeros(d if controls else 0, width, dtype=np.int32),
        open_spread=aligned_zeros(d + 1 if controls else 0, WIDTH),
        open_events=aligned_zeros(5, width),
        flips=np.zeros(d, np.int64),
        elapsed=np.zeros(1),
        due=np.array([SWEEP_END]),
        skips=np.zeros(1, np.int64),
        every=d if by_attempts else SWEEP_END,
        tally=np.array([0, 0, 1]),
        draws=np.empty((0, d, width), np.int8),
        log_prob=np.empty((0, width)),
        magnetisation=np.empty((0, width)),
        cost=aligned_empty(width),
        conditional=aligned_empty(d if pattern is not None else 0, width),
        pairs=pairs,
    )


def lane_sums(recorder: LaneRecorder, s: NDArray[np.int8], lanes: int, pairs: str) -> list[Batch]:
    """Return the sums over the open batch of each of the first lanes, by name, given the present spins."""
    t = float(recorder.elapsed[0])
    sums = {
        "path": recorder.open_path + s * t,
        "mean": recorder.open_mean,
        "state": recorder.open_state.astype(np.float64),
        "spread": np.repeat(recorder.open_spread.mean(axis=1, keepdims=True), lanes, axis=1),
        "events": recorder.open_events,
        **({} if pairs == "none" else recorder.pairs.sums(s, recorder.open_path, t)),
    }
    columns = {name: array[:, :lanes].T.copy() for name, array in sums.items()}  # also where d = 1
    if pairs == "all":
        columns |= {name: _as_matrices(columns[name], recorder.pairs) for name in ("pair_path", "pair_mean")}
    return [{name: array[k] for name, array in columns.items()} for k in range(lanes)]


def clear_lanes(recorder: LaneRecorder) -> None:
    """Begin a new batch."""
    for name in ("open_path", "open_mean", "open_state", "open_spread", "open_events", "elapsed"):
        getattr(recorder, name)[...] = 0
    recorder.pairs.clear()


def _as_matrices(values: NDArray[np.float64], pairs: Pairs) -> NDArray[np.float64]:
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
    """Account for `toll.attempt.change` of site i, t after the sweep began; in `count` chains it is not 0."""


@generic
def record_lane_means(recorder, toll, target, s):
    """Add the conditional means to the open batch, and say when they are due again."""


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
    _add_change(recorder, s, i, toll.attempt.change, count, t)


@implements(record_lane_means, LaneRecorder)
def _record_means(recorder, toll, target, s):
    _add_means(recorder, toll, target, s, False)


@implements(record_lane_sweep, LaneRecorder)
def _record_sweep(recorder, toll, target, s, sweep_time):
    tally = recorder.tally
    tally[SINCE_DRAW] += 1
    ends = tally[SINCE_DRAW] == tally[THIN]
    draws = ends and tally[DRAWN] < recorder.log_prob.shape[0]
    due = recorder.due[0] > s.shape[0]
    if due:
        _add_means(recorder, toll, target, s, draws)
    recorder.elapsed[0] += sweep_time
    if ends:
        tally[SINCE_DRAW] = 0
    if draws:
        _take_draw(recorder, toll, target, s, tally[DRAWN], due)
        tally[DRAWN] += 1


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
def _add_means(recorder, toll, target, s, sums_costs):
    """Add the conditional means to the open batch, and the costs of all flips up if a draw is to come of them."""
    recorder.due[0] = recorder.every
    pairs, count = recorder.pairs, recorder.open_events[MEANS]
    controls = recorder.open_state.shape[0] > 0
    varies = controls and recorder.skips[0] == 0
    for k in range(count.size):
        count[k] += 1.0
    _clear(recorder.cost)
    steps = fetch_steps(target, s)
    for i in range(s.shape[0]):
        if i + 4 < s.shape[0]:
            if steps:
                fetch_lanes(target, s, i + 4, 0)
            fetch(recorder.open_mean[i + 4])
            if controls:
                fetch(recorder.open_state[i + 4])
        lane_costs(target, s, i, toll.attempt.cost)
        add_lane_means(toll, s[i], toll.reference[i], recorder.open_mean[i])
        if controls:
            add_spins(recorder.open_state[i], s[i])
        if varies:
            add_spread(toll, s[i], toll.reference[i], recorder.open_spread[i])
        if sums_costs:
            _add(recorder.cost, toll.attempt.cost[0])
    if controls:
        recorder.skips[0] = _SKIPS if varies else recorder.skips[0] - 1
    if varies:
        numbers = recorder.open_spread[s.shape[0]]
        for k in range(numbers.size):
            numbers[k] += 1.0
    if pairs.open_mean.shape[0]:
        for i in range(s.shape[0]):
            mean = recorder.conditional[i]
            _clear(mean)
            lane_costs(target, s, i, toll.attempt.cost)
            add_lane_means(toll, s[i], toll.reference[i], mean)
        for i in range(s.shape[0]):
            for n in range(pairs.indptr[i], pairs.indptr[i + 1]):
                # Each edge stands twice in the pattern, once for each of its two terms.
                _add_halves(pairs.open_mean[pairs.edge[n]], s[i], recorder.conditional[pairs.indices[n]])


@vectorised
def _add_halves(total, spin, mean):
    for k in range(total.size):
        total[k] += 0.5 * spin[k] * mean[k]


@vectorised
def _clear(total):
    for k in range(total.size):
        total[k] = 0.0


@vectorised
def _add(total, values):
    for k in range(total.size):
        total[k] += values[k]


@vectorised
def _take_draw(recorder, toll, target, s, n, known):
    """Write row n of what is kept, where the sum of all costs may be `known`.

    Log p comes from it: sums over flips would round in ways of their own, and ranks would tell chains in one state
    apart.
    """
    cost, log_prob = recorder.cost, recorder.log_prob[n]
    if not known:
        _clear(cost)
        for i in range(s.shape[0]):
            lane_costs(target, s, i, toll.attempt.cost)
            _add(cost, toll.attempt.cost[0])
    for k in range(cost.size):
        log_prob[k] = cost[k]
    lane_log_probs(target, s, log_prob)
    up, share = recorder.magnetisation[n], 1.0 / s.shape[0]
    _clear(up)
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
