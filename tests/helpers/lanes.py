"""Compiled doors to the arithmetic of lanes and to the views of targets, and a plain-Python twin of a flock.

The twin tries the same sites as a flock and decides by the same random numbers, one lane after the other. It computes
log p in full before and after each flip, and adds up the path piece by piece.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._dispatch import implements, part
from bouncy._lane_loop import FLOAT64, WIDTH, lane_loop
from bouncy._random import next_bits
from bouncy._vector import (
    DRAWN,
    LOG2_E,
    STEP,
    add_product,
    add_products,
    draw_beginnings,
    draw_uniform,
    exp,
    rest_of_number,
    rough_power,
    scaled_tail,
    single_tanh_half,
    vector_exp,
)
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, MEANS, REFRESHMENTS
from bouncy.targets.lanes import (
    cost_error,
    flip_lanes,
    init_lanes,
    lane_costs,
    lane_log_probs,
    read_lanes,
    settle_lanes,
    trade_clusters,
)
from bouncy.targets.mrf import MRF
from bouncy.tolls.contract import pay
from bouncy.tolls.lanes import pay_lanes, share_out
from bouncy.workers.flock import FlockWorker

# Compiled doors


@kernel
def exp_of(x, out):
    for k in range(x.size):
        out[k] = exp(x[k])


_vector_exp = lane_loop()(lambda out, x: out.write(vector_exp(x.read())))
_rough_power = lane_loop()(lambda out, x: out.write(rough_power(x.read())))
_single_tanh_half = lane_loop()(lambda out, x: out.write(single_tanh_half(x.read())))


@kernel
def scaled_tail_of(z, out):
    for k in range(z.size):
        out[k] = scaled_tail(z[k])


@kernel
def vector_exp_of(x, out):
    _vector_exp(out, x)


@kernel
def rough_power_of(x, out):
    _rough_power(out, x)


@kernel
def single_tanh_half_of(x, out):
    _single_tanh_half(out, x)


@lane_loop(counts=1)
def _increase_below(row, limit):
    before = row.read()
    row.write(before + 1.0)
    return (before.to(FLOAT64) < limit,)


@kernel
def increase_below(row, limit):
    """Add 1 to each number of a row, and return how many were below a limit."""
    return _increase_below(row, limit)[0]


@kernel
def beginnings(states, out):
    draw_beginnings(states, out)


@kernel
def uniforms(states, out):
    """Fill `out`, (lanes,), with a number of each lane."""
    for k in range(out.size):
        out[k] = draw_uniform(states, k)


@kernel
def rests(states, begun, out):
    """Fill `out`, (lanes,), with what follows the beginnings `begun`, (lanes,)."""
    for k in range(out.size):
        out[k] = rest_of_number(states, k, begun[k])


@part()
class GivenCosts(NamedTuple):
    """A view of one site whose costs are given; in single precision they are wrong by as much as it admits."""

    cost: NDArray[np.float64]  # (lanes,)
    wrong: NDArray[np.float64]  # (lanes,) up to `error`
    error: float


@implements(lane_costs, GivenCosts)
def _given_costs(view, s, i, out):
    for k in range(view.cost.size):
        out[0, k] = view.cost[k] + view.wrong[k] if out.itemsize == 4 else view.cost[k]


@implements(cost_error, GivenCosts)
def _given_error(view, i):
    return view.error


@kernel
def pay_in_lanes(toll, target, s, uniform, chains):
    share_out(toll)
    return pay_lanes(toll, target, s, 0, uniform, chains)


@kernel
def cost_errors_of_view(view, out):
    for i in range(out.size):
        out[i] = cost_error(view, i)


@kernel
def products(out, matrix, who, n, factors):
    add_products(out, matrix, who, n, factors)


@kernel
def product(out, matrix, i, who, n, factors):
    add_product(out, matrix, i, who, n, factors)


@kernel
def trade_in_view(view, s, begin, partners, rng):
    trade_clusters(view, s, begin, partners, rng)


@kernel
def begin_view(view, s):
    init_lanes(view, s)


@kernel
def costs_of_view(view, s, out):
    """Write the costs of all sites into `out`, (d, 1, lanes)."""
    for i in range(s.shape[0]):
        lane_costs(view, s, i, out[i])


@kernel
def flip_in_view(view, s, i, change):
    """Flip site i in the lanes whose `change` is not 0, and tell the view."""
    for k in range(change.size):
        s[i, k] += np.int8(change[k])
    flip_lanes(view, s, i, change)


@kernel
def settle_view(view):
    settle_lanes(view)


@kernel
def log_probs_of_view(view, s, cost, out):
    out[:] = 0.0
    for i in range(s.shape[0]):
        lane_costs(view, s, i, cost)
        for k in range(out.size):
            out[k] += cost[0, k]
    lane_log_probs(view, s, out)


@kernel
def read_view(view, s, which, spins, cost, log_prob, means):
    read_lanes(view, s, which, spins, cost, log_prob, means)


# The twin


def unit(bits: int) -> float:
    """Return the uniform number of a lane that 64 random bits stand for: the first 52 of them, and half of the next."""
    return (2 * (bits >> 12) + 1) * 2.0**-53


class Numbers:
    """How one lane decides, given its generator, (4,), which is changed in place.

    Beginnings of random numbers are drawn in blocks, two from 64 bits, of which the last is used first; what is left of
    a block at the end of a sweep is dropped.
    """

    def __init__(self, rng: NDArray[np.uint64]) -> None:
        self.rng, self.block = rng, []

    def begin_sweep(self) -> None:
        self.block = []

    def passes(self, bath: float, cost: float) -> bool:
        """Return whether a flip passes, which double precision decides only where single precision is in doubt."""
        with np.errstate(over="ignore"):
            if not self.block:
                words = [int(next_bits(self.rng)) for _ in range(DRAWN // 2)]
                self.block = [half >> 9 for word in words for half in (word >> 32, word & 0xFFFFFFFF)]
            u, single = np.float32(self.block.pop() * STEP), np.empty(WIDTH, np.float32)
            rough_power_of(np.full(WIDTH, cost * LOG2_E, np.float32), single)
            scale = np.float32(bath) + single[0]
            if (u + np.float32(STEP)) * scale < np.float32(1.0 - 1e-5):
                return True
            if not u * scale < np.float32(1.0 + 1e-5):
                return False
            return (float(u) + STEP * self._rest(int(u / STEP))) * (bath + math.exp(cost)) < 1.0

    def _rest(self, beginning: int) -> float:
        """Return what follows a beginning, by SplitMix64 from two words of the state, which stays what it is."""
        x = (int(self.rng[1]) + int(self.rng[2]) * 0x9E3779B97F4A7C15 + beginning) % 2**64
        for right, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> right)) * factor % 2**64
        return unit(x ^ (x >> 31))


@part()
class LaneLike(NamedTuple):
    """A toll of a scalar chain, in plain Python, that decides as a lane does."""

    numbers: Numbers
    bath: float
    purse: NDArray[np.float64]  # (1,) not used


@implements(pay, LaneLike)
def _pay(toll, purse, cost, i):
    return toll.numbers.passes(toll.bath, cost), purse


class Sums(NamedTuple):
    """Sums of one lane over the open batch."""

    path: NDArray[np.float64]  # (d,)
    mean: NDArray[np.float64]  # (d,)
    pair_path: NDArray[np.float64]  # (d, d)
    pair_mean: NDArray[np.float64]  # (d, d)
    events: NDArray[np.float64]  # (5,)


class Twin:
    """Lanes of a flock that has made no sweeps, in plain Python; it has a clock and generators of its own.

    Parameters
    ----------
    worker : FlockWorker
        Gives its clock and its generators away: use one that does nothing else.
    target : MRF
        Its target.
    """

    def __init__(self, worker: FlockWorker, target: MRF) -> None:
        self.M = target.M.toarray() if target.is_sparse else np.array(target.M)
        self.r, self.d = np.array(target.r), target.d
        self.clock, self.sweep_time, self.bath = worker.clock, worker.sweep_time, worker.toll.bath[0]
        self.numbers = [Numbers(np.ascontiguousarray(worker.rng[:, k])) for k in range(worker.chains)]
        self.s = worker.x
        self.sums = [Sums(*(np.zeros(n) for n in (self.d, self.d)), *np.zeros((2, self.d, self.d)), np.zeros(5))
                     for _ in self.numbers]  # fmt: skip
        self.flips = np.zeros(self.d, np.int64)
        self.by_attempts = worker.recorder.every == self.d
        self.since: int | None = None  # attempts since means were recorded, where that matters

    def log_prob(self, s: NDArray[np.int8]) -> float:
        return float(-(self.r @ s) - 0.5 * (s @ self.M @ s))

    def hits(self) -> tuple[list[float], list[int], int, int]:
        """Return the times and sites of the hits of the next sweep, and its bounces and refreshments."""
        times, sites, before = np.empty(7), np.empty(7, np.int32), self.clock.count[:2].copy()
        found: tuple[list[float], list[int]] = [], []
        reached = False
        with np.errstate(over="ignore"):
            while not reached:
                n, reached = fill(self.clock, self.sweep_time, times, sites)
                found[0].extend(times[:n].tolist())
                found[1].extend(sites[:n].tolist())
            shift(self.clock, self.sweep_time)
        bounces, refreshments = (self.clock.count[:2] - before).tolist()
        return *found, bounces, refreshments

    def sweep(self) -> None:
        times, sites, bounces, refreshments = self.hits()
        for s, numbers, sums in zip(self.s, self.numbers, self.sums, strict=True):
            flips = self._follow(s, sums, times, sites, numbers)
            sums.events[[HITS, FLIPS, BOUNCES, REFRESHMENTS]] += len(sites), flips, bounces, refreshments
            if self.since is None:
                self._record(s, sums)
        if self.by_attempts:
            self.since = 0 if self.since is None else (self.since + len(sites)) % self.d

    def _record(self, s: Any, sums: Sums) -> None:
        means = -np.tanh(self.r + self.M @ s)
        sums.mean[:] += means
        sums.pair_mean[:] += 0.5 * (np.outer(s, means) + np.outer(means, s))
        sums.events[MEANS] += 1

    def _follow(self, s: Any, sums: Sums, times: list[float], sites: list[int], numbers: Numbers) -> int:
        """Take one lane through the hits of a sweep, and return how many of them were flips."""
        now, flips = 0.0, 0
        numbers.begin_sweep()
        for n, (t, i) in enumerate(zip(times, sites, strict=True), 1):
            before = self.log_prob(s)
            s[i] = -s[i]
            passes = numbers.passes(self.bath, before - self.log_prob(s))
            s[i] = -s[i]
            if passes:
                self._stay(s, sums, t - now)
                now, flips = t, flips + 1
                self.flips[i] += 1
                s[i] = -s[i]
            if self.since is not None and (self.since + n) % self.d == 0:
                self._record(s, sums)
        self._stay(s, sums, self.sweep_time - now)
        return flips

    def _stay(self, s: Any, sums: Sums, duration: float) -> None:
        sums.path[:] += s * duration
        sums.pair_path[:] += np.outer(s, s) * duration
