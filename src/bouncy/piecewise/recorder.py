"""What a particle's chain keeps: exact integrals over its path, time in cells and bins, events, states on a time grid.

Between two events of its own the value x_i of a coordinate is linear in time, so that the integrals of x_i, x_i^2 and
x_i x_j and the time it spends in an interval are in closed form. Sums are kept in equal-time batches that are added up
two by two when all slots are taken, so that they need constant memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy._dispatch import part
from bouncy.piecewise.products import Products, products_clear, products_merge, products_write
from bouncy.recorders._batches import merge
from bouncy.recorders.recorder import CLOSED, DRAWN, LENGTH, OPEN, SINCE_DRAW, THIN

Array = NDArray[np.float64]

# Bins of each coordinate, beside one for all below and one for all above.
BINS = 128


@part("open_mean", "open_square", "open_cell", "open_bin", "open_events", "mean", "square", "cell", "bin", "events",
      "since", "extremes", "tally")  # fmt: skip
class PathRecorder(NamedTuple):
    """Integrals over the open batch, those of closed batches, and the draws."""

    open_mean: Array  # (d,) integral of x
    open_square: Array  # (d,) integral of x^2
    open_cell: Array  # (n,) time in each cell
    open_bin: Array  # (d, BINS + 2) time in each bin, of coordinates whose value moves
    open_events: Array  # (4,) hits, flips (crossings), bounces, refreshments
    mean: Array  # (slots, d) closed batches, likewise
    square: Array  # (slots, d)
    cell: Array  # (slots, n)
    bin: Array  # (slots, d * (BINS + 2))
    events: Array  # (slots, 4)
    since: Array  # (d,) leg time from which the path of each coordinate has not been accounted for
    extremes: Array  # (2, d) lowest and highest value
    tally: NDArray[np.int64]  # (6,) as of the recorder of spins
    draws: Array  # (n, d)
    log_prob: Array  # (n,)
    low: Array  # (d,) lower end of the first bin
    per_unit: Array  # (d,) bins per unit of x; zero where there are none
    products: Products


def new_path_recorder(
    d: int, cells: int, slots: int, thin: int, low: Array, high: Array, products: Products
) -> PathRecorder:
    """Return an empty recorder with no room for draws; `slots` is even. Bins reach from `low` to `high`, both (d,)."""
    tally = np.zeros(6, np.int64)
    tally[LENGTH] = 1
    tally[THIN] = thin
    return PathRecorder(
        open_mean=np.zeros(d),
        open_square=np.zeros(d),
        open_cell=np.zeros(cells),
        open_bin=np.zeros((d, BINS + 2)),
        open_events=np.zeros(4),
        mean=np.zeros((slots, d)),
        square=np.zeros((slots, d)),
        cell=np.zeros((slots, cells)),
        bin=np.zeros((slots, d * (BINS + 2))),
        events=np.zeros((slots, 4)),
        since=np.zeros(d),
        extremes=np.repeat([[np.inf], [-np.inf]], d, axis=1),
        tally=tally,
        draws=np.empty((0, d)),
        log_prob=np.empty(0),
        low=low.copy(),
        per_unit=np.where(high > low, BINS / np.where(high > low, high - low, 1.0), 0.0),
        products=products,
    )


@helper
def record_piece(recorder, i, row, slope, x0, x1, dt):  # type: ignore[no-untyped-def]
    """Account for coordinate i, whose value went from x0 to x1 in the time dt, in the cell `row` of this slope."""
    recorder.open_mean[i] += 0.5 * dt * (x0 + x1)
    recorder.open_square[i] += dt * (x0 * x0 + x0 * x1 + x1 * x1) / 3.0
    recorder.open_cell[row] += dt
    recorder.extremes[0, i] = min(recorder.extremes[0, i], x0, x1)
    recorder.extremes[1, i] = max(recorder.extremes[1, i], x0, x1)
    # A value that stands for a whole cell has a probability of its own, which the time in the cell tells.
    if slope != 0.0 and recorder.per_unit[i] > 0.0:
        _add_to_bins(recorder, i, x0, x1, dt)


@helper
def _add_to_bins(recorder, i, x0, x1, dt):  # type: ignore[no-untyped-def]
    """Spread the time dt over the bins between x0 and x1. Bin k reaches from k - 1 to k in units of bins."""
    bins, per_unit, low = recorder.open_bin[i], recorder.per_unit[i], recorder.low[i]
    begin, end = (min(x0, x1) - low) * per_unit, (max(x0, x1) - low) * per_unit
    first, last = _bin_of(begin), _bin_of(end)
    if first == last:
        bins[first] += dt
        return
    per_bin = dt / (end - begin)
    bins[first] += (first - begin) * per_bin
    for k in range(first + 1, last):
        bins[k] += per_bin
    bins[last] += (end - (last - 1)) * per_bin


@helper
def _bin_of(place):  # type: ignore[no-untyped-def]
    return math.floor(min(max(place, -1.0), float(BINS))) + 1


@helper
def record_point(recorder, i, row, x, weight):  # type: ignore[no-untyped-def]
    """Account for a value that moves, and that stands for some time instead of a path."""
    record_piece(recorder, i, row, 1.0, x, x, weight)


@helper
def end_sweep(recorder, x, log_prob):  # type: ignore[no-untyped-def]
    """Close the batch when it is full, and take a draw when one is due; x, (d,), is where the particle is."""
    tally = recorder.tally
    tally[OPEN] += 1
    if tally[OPEN] == tally[LENGTH]:
        close_batch(recorder)
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


@helper
def _write_batch(recorder):  # type: ignore[no-untyped-def]
    """Write the sums of the open batch into the next free slot."""
    slot = recorder.tally[CLOSED]
    _copy(recorder.open_mean, recorder.mean[slot])
    _copy(recorder.open_square, recorder.square[slot])
    _copy(recorder.open_cell, recorder.cell[slot])
    _copy(recorder.open_bin.reshape(recorder.open_bin.size), recorder.bin[slot])
    _copy(recorder.open_events, recorder.events[slot])
    products_write(recorder.products, slot)


@helper
def _copy(source, target):  # type: ignore[no-untyped-def]
    for k in range(source.size):
        target[k] = source[k]


@helper
def close_batch(recorder):  # type: ignore[no-untyped-def]
    """Write the sums of the open batch, whatever its length, and begin a new one."""
    _write_batch(recorder)
    for i in range(recorder.open_mean.size):
        recorder.open_mean[i] = 0.0
        recorder.open_square[i] = 0.0
        for k in range(recorder.open_bin.shape[1]):
            recorder.open_bin[i, k] = 0.0
    for k in range(recorder.open_cell.size):
        recorder.open_cell[k] = 0.0
    for k in range(recorder.open_events.size):
        recorder.open_events[k] = 0.0
    products_clear(recorder.products)
    tally = recorder.tally
    tally[OPEN] = 0
    tally[CLOSED] += 1
    if tally[CLOSED] == recorder.mean.shape[0]:
        _merge_batches(recorder)


@helper
def _merge_batches(recorder):  # type: ignore[no-untyped-def]
    tally = recorder.tally
    n = tally[CLOSED]
    merge(recorder.mean, n)
    merge(recorder.square, n)
    merge(recorder.cell, n)
    merge(recorder.bin, n)
    merge(recorder.events, n)
    products_merge(recorder.products, n)
    tally[CLOSED] = n // 2
    tally[LENGTH] *= 2


@kernel
def write_open_batch(recorder):  # type: ignore[no-untyped-def]
    """Write the sums of the open batch into the next free slot, to be read; the chain can go on as if nothing was."""
    _write_batch(recorder)
