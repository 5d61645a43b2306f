"""What is recorded of a particle: exact integrals over its path, time in cells and bins, events, states on a time grid.

Between two events of its own the value x_i of a coordinate is linear in time, so that the integrals of x_i, x_i^2 and
x_i x_j and the time it spends in an interval are in closed form. Samplers that know the law of a coordinate given the
others record its expectations too, which then have the plain names in a batch; what is of the path has names that begin
with `path_`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import FINITE, part
from bouncy.clocks.contract import MOST_EVENTS
from bouncy.piecewise.expectations import SUMS, Expectations, NoExpectations, no_expectations
from bouncy.piecewise.products import Products
from bouncy.piecewise.spikes import Windows
from bouncy.recorders.batches import Batch
from bouncy.recorders.recorder import DRAWN, SINCE_DRAW, THIN

Array = NDArray[np.float64]

# Bins of each coordinate, beside one for all below and one for all above.
BINS = 64
# States whose bins are noted before they are filled, and what is noted for a value that has none.
NOTED, NO_BIN = 32, 255
# Functions of a density whose calls are counted.
EVALUATED = ("log_prob", "gradient", "bound")


@part(
    "open_mean", "open_square", "open_cell", "open_bin", "open_events", "flips", "evaluations", "extremes", "low",
    "width",
    bounds={
        "flips": lambda recorder: (0, MOST_EVENTS),
        "evaluations": lambda recorder: (0, MOST_EVENTS),
        "extremes": lambda recorder: ([[-FINITE], [-np.inf]], [[np.inf], [FINITE]]),  # before the first sweep
    },
)  # fmt: skip
class PathRecorder(NamedTuple):
    """Integrals over the open batch, and room for draws. The loop ends where a batch does; `take_batch` closes it."""

    open_mean: Array  # (d,) integral of x
    open_square: Array  # (d,) integral of x^2
    open_cell: Array  # (n,) time in each cell
    open_bin: Array  # (d, BINS + 2) time in each bin, of coordinates whose value moves
    open_events: Array  # (4,) hits, flips (crossings), bounces, refreshments
    flips: NDArray[np.int64]  # (d,) crossings of each coordinate since the recorder was new
    evaluations: NDArray[np.int64]  # (3,) calls of each, by the order in EVALUATED
    extremes: Array  # (2, d) lowest and highest value at the ends of sweeps
    tally: NDArray[np.int64]  # (3,) as of the recorder of spins
    draws: Array  # (n, d)
    log_prob: Array  # (n,)
    low: Array  # (d,) lower end of the first bin
    width: Array  # (d,) of each bin; zero where there are none
    # Scratch of one sweep: its time when the leg began; since when, in leg time, the path of a coordinate has not been
    # accounted for; when, in the time of the sweep, it entered its cell and its bin; which bin that is, and its ends.
    clock: Array  # (1,)
    since: Array  # (d,)
    entered_cell: Array  # (d,)
    entered_bin: Array  # (d,)
    bin_index: NDArray[np.int64]  # (d,) -1 where there is none
    bin_low: Array  # (d,)
    bin_high: Array  # (d,)
    # Scratch of one call of the loop.
    note: NDArray[np.uint8]  # (d, NOTED) bins that are not filled yet, of states
    noted: NDArray[np.int64]  # (1,) how many states these are
    products: Products
    expectations: Expectations | NoExpectations


def new_path_recorder(
    d: int,
    cells: int,
    low: Array,
    high: Array,
    products: Products,
    expectations: Expectations | NoExpectations | None = None,
) -> PathRecorder:
    """Return an empty recorder with no room for draws. Bins reach from `low` to `high`, both (d,)."""
    return PathRecorder(
        open_mean=np.zeros(d),
        open_square=np.zeros(d),
        open_cell=np.zeros(cells),
        open_bin=np.zeros((d, BINS + 2)),
        open_events=np.zeros(4),
        flips=np.zeros(d, np.int64),
        evaluations=np.zeros(len(EVALUATED), np.int64),
        extremes=np.repeat([[np.inf], [-np.inf]], d, axis=1),
        tally=np.array([0, 0, 1]),
        draws=np.empty((0, d)),
        log_prob=np.empty(0),
        low=low.copy(),
        width=np.where(high > low, (high - low) / BINS, 0.0),
        clock=np.zeros(1),
        since=np.zeros(d),
        entered_cell=np.zeros(d),
        entered_bin=np.zeros(d),
        bin_index=np.zeros(d, np.int64),
        bin_low=np.zeros(d),
        bin_high=np.zeros(d),
        note=np.zeros((d, NOTED), np.uint8),
        noted=np.zeros(1, np.int64),
        products=products,
        expectations=no_expectations() if expectations is None else expectations,
    )


def open_sums(recorder: PathRecorder) -> Batch:
    """Return the integrals over the open batch, by name."""
    expected = recorder.expectations.sums()
    prefix = "path_" if expected else ""
    return {
        **expected,
        f"{prefix}mean": recorder.open_mean.copy(),
        f"{prefix}square": recorder.open_square.copy(),
        f"{prefix}cell": recorder.open_cell.copy(),
        "bin": recorder.open_bin.flatten(),
        "events": recorder.open_events.copy(),
        **recorder.products.sums(),
    }


def copy_of_sums(recorder: PathRecorder) -> PathRecorder:
    """Return a recorder with copies of the sums of single coordinates, and the rest of it as it is."""
    law = recorder.expectations
    sums = {name: getattr(recorder, name).copy() for name in ("open_mean", "open_square", "open_cell")}
    if isinstance(law, Expectations):
        own = {f"open_{name}": getattr(law, f"open_{name}").copy() for name in SUMS}
        law = law._replace(windows=Windows(law.windows.found.copy(), law.windows.sweeps.copy()), **own)
    return recorder._replace(expectations=law, **sums)


def take_batch(recorder: PathRecorder) -> Batch:
    """Return the integrals over the open batch, and begin a new one."""
    batch = open_sums(recorder)
    for name in ("mean", "square", "cell", "bin", "events"):
        getattr(recorder, f"open_{name}")[...] = 0.0
    recorder.products.clear()
    recorder.expectations.clear()
    return batch


@helper
def begin_sweep(recorder, x, slope):
    """Note where each coordinate is; `slope`, (d,), is zero where its value stands for a whole cell."""
    recorder.clock[0] = 0.0
    for i in range(x.size):
        recorder.since[i] = 0.0
        recorder.entered_cell[i] = 0.0
        _enter_bin(recorder, i, x[i], slope[i], 0.0)


@helper
def record_leg(recorder, p, u, t):
    """Account for a leg of all coordinates, x = p + u t, that ends at leg time t; the next one begins there."""
    for i in range(p.size):
        _integrate(recorder, i, p[i], u[i], t)
        recorder.since[i] = 0.0
    for i in range(p.size):
        x = p[i] + u[i] * t
        if (x < recorder.bin_low[i]) | (x > recorder.bin_high[i]):
            _change_bins(recorder, i, p[i], u[i], t)
    recorder.clock[0] += t


@helper
def record_wall(recorder, i, p, u, t):
    """Account for the path x = p + u t of coordinate i, which changes at leg time t."""
    _integrate(recorder, i, p, u, t)
    recorder.since[i] = t
    x = p + u * t
    if (x < recorder.bin_low[i]) | (x > recorder.bin_high[i]):
        _change_bins(recorder, i, p, u, t)


@helper
def record_crossing(recorder, i, row, x, slope, t):
    """Account for coordinate i, which at leg time t leaves the cell `row` for one of this slope, with the value x."""
    recorder.flips[i] += 1
    now = recorder.clock[0] + t
    recorder.open_cell[row] += now - recorder.entered_cell[i]
    recorder.entered_cell[i] = now
    _leave_bin(recorder, i, now)
    _enter_bin(recorder, i, x, slope, now)


@helper
def leave_cells(recorder, row):
    """Account for the time in cells and bins at the end of a sweep."""
    now = recorder.clock[0]
    for i in range(row.size):
        recorder.open_cell[row[i]] += now - recorder.entered_cell[i]
        _leave_bin(recorder, i, now)


@helper
def _integrate(recorder, i, p, u, t):
    """Add the integrals of x and x^2 since the path of coordinate i last changed."""
    dt = t - recorder.since[i]
    x0, x1 = p + u * recorder.since[i], p + u * t
    recorder.open_mean[i] += 0.5 * dt * (x0 + x1)
    recorder.open_square[i] += (1.0 / 3.0) * dt * (x0 * x0 + x0 * x1 + x1 * x1)


@helper
def _enter_bin(recorder, i, x, slope, now):
    """Note the bin of a value that moves; no bin ends for one that does not."""
    recorder.entered_bin[i] = now
    if slope == 0.0 or recorder.width[i] == 0.0:
        recorder.bin_index[i] = -1
        recorder.bin_low[i], recorder.bin_high[i] = -math.inf, math.inf
        return
    _set_bin(recorder, i, _bin_of(recorder, i, x))


@helper
def _bin_of(recorder, i, x):
    """Return the bin of a value of coordinate i, which has bins."""
    place = (x - recorder.low[i]) / recorder.width[i]
    return math.floor(min(max(place, -1.0), float(BINS))) + 1


@helper
def _set_bin(recorder, i, k):
    """Let coordinate i be in bin k, which ends k widths from the beginning; the outermost have no end."""
    low, width = recorder.low[i], recorder.width[i]
    recorder.bin_index[i] = k
    recorder.bin_low[i] = low + (k - 1) * width if k > 0 else -math.inf
    recorder.bin_high[i] = low + k * width if k <= BINS else math.inf


@helper
def _leave_bin(recorder, i, now):
    if recorder.bin_index[i] >= 0:
        recorder.open_bin[i, recorder.bin_index[i]] += now - recorder.entered_bin[i]


@helper
def _change_bins(recorder, i, p, u, t):
    """Follow coordinate i through its bins up to leg time t, where it has left the one it was in."""
    low, width, bins = recorder.low[i], recorder.width[i], recorder.open_bin[i]
    begin, entered, k = recorder.clock[0], recorder.entered_bin[i], recorder.bin_index[i]
    x, per_speed = p + u * t, 1.0 / u
    step, far = (1, 0) if u > 0.0 else (-1, 1)
    while True:
        edge = low + (k - far) * width
        if (k == BINS + 1 - far * (BINS + 1)) | ((x - edge) * step <= 0.0):
            break
        # Rounding must not lead out of the piece, nor backwards.
        now = max(begin + min((edge - p) * per_speed, t), entered)
        bins[k] += now - entered
        entered = now
        k += step
    recorder.entered_bin[i] = entered
    _set_bin(recorder, i, k)


@helper
def record_point(recorder, i, row, x, slope, weight):
    """Account for a value that stands for some time instead of a path, in a cell of this slope."""
    recorder.open_mean[i] += weight * x
    recorder.open_square[i] += weight * x * x
    recorder.open_cell[row] += weight
    if slope != 0.0 and recorder.width[i] > 0.0:
        recorder.open_bin[i, _bin_of(recorder, i, x)] += weight


@helper
def record_state(recorder, view, row, x, weight):
    """Account for a state x, (d,), in the cells `row` that stands for a time, the same for all until bins are filled.

    Bins take far more memory than the state: which of them it is in is noted, and they are filled for several states at
    a time, one coordinate after the other.
    """
    n = recorder.noted[0]
    mean, square, cell = recorder.open_mean, recorder.open_square, recorder.open_cell
    for i in range(x.size):
        value, r = x[i], np.uint64(row[i])
        mean[i] += weight * value
        square[i] += weight * value * value
        cell[r] += weight
        has_bin = view.slope[r] != 0.0 and recorder.width[i] > 0.0
        recorder.note[i, n] = _bin_of(recorder, i, value) if has_bin else NO_BIN
    recorder.noted[0] = n + 1
    if n + 1 == NOTED:
        fill_bins(recorder, weight)


@helper
def fill_bins(recorder, weight):
    """Account for the bins of the states that were noted, each for a time."""
    n = recorder.noted[0]
    for i in range(recorder.note.shape[0]):
        bins, note = recorder.open_bin[i], recorder.note[i]
        for k in range(n):
            if note[k] != NO_BIN:
                bins[np.uint64(note[k])] += weight
    recorder.noted[0] = 0


@helper
def draw_is_due(recorder):
    """Return whether the sweep that ends takes a draw."""
    return recorder.tally[SINCE_DRAW] + 1 == recorder.tally[THIN]


@helper
def end_sweep(recorder, x, log_prob):
    """Take a draw when one is due; x, (d,), is where the particle is, and `log_prob` the target's log p(x)."""
    lowest, highest = recorder.extremes[0], recorder.extremes[1]
    for i in range(x.size):
        lowest[i] = min(lowest[i], x[i])
        highest[i] = max(highest[i], x[i])
    tally = recorder.tally
    tally[SINCE_DRAW] += 1
    if tally[SINCE_DRAW] == tally[THIN]:
        tally[SINCE_DRAW] = 0
        n = tally[DRAWN]
        if n < recorder.log_prob.size:
            recorder.log_prob[n] = log_prob
            if n < recorder.draws.shape[0]:
                for i in range(x.size):
                    recorder.draws[n, i] = x[i]
            tally[DRAWN] = n + 1
