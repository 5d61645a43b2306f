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
from bouncy._random import next_bits
from bouncy._vector import DRAWN, add_product, add_products, draw_uniforms, exp
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, MEANS, REFRESHMENTS
from bouncy.targets.lanes import flip_lanes, init_lanes, lane_costs, lane_log_probs, settle_lanes, trade_cluster
from bouncy.targets.mrf import MRF
from bouncy.tolls.contract import pay
from bouncy.workers.flock import FlockWorker

# Compiled doors


@kernel
def exp_of(x, out):
    for k in range(x.size):
        out[k] = exp(x[k])


@kernel
def uniforms(states, out):
    draw_uniforms(states, out)


@kernel
def products(out, matrix, who, n, factors):
    add_products(out, matrix, who, n, factors)


@kernel
def product(out, matrix, i, who, n, factors):
    add_product(out, matrix, i, who, n, factors)


@kernel
def trade_in_view(view, s, i, one, other, queue, is_met):
    return trade_cluster(view, s, i, one, other, queue, is_met)


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


# The twin


def unit(bits: int) -> float:
    """Return the uniform number of a lane that 64 random bits stand for: the first 52 of them, and half of the next."""
    return (2 * (bits >> 12) + 1) * 2.0**-53


def listed_uniforms(rng: NDArray[np.uint64], hits: int) -> list[float]:
    """Return the numbers that one lane uses in a sweep with so many hits, in their order, from its generator, (4,).

    They are drawn in blocks, of which the last number is used first; what is left of the last block is dropped. The
    generator is changed in place.
    """
    found: list[float] = []
    with np.errstate(over="ignore"):
        while len(found) < hits:
            found += reversed([unit(int(next_bits(rng))) for _ in range(DRAWN)])
    return found[:hits]


@part()
class Listed(NamedTuple):
    """A toll of a scalar chain that decides as a lane does, by numbers that are given."""

    numbers: NDArray[np.float64]  # (n,)
    bath: float
    at: NDArray[np.int64]  # (1,) how many were used
    purse: NDArray[np.float64]  # (1,) not used


@implements(pay, Listed)
def _pay(toll, purse, cost, i):
    u = toll.numbers[toll.at[0]]
    toll.at[0] += 1
    return u * (toll.bath[0] + math.exp(cost)) < 1.0, purse


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
        self.rng = [np.ascontiguousarray(worker.rng[:, k]) for k in range(worker.chains)]
        self.s = worker.x
        self.sums = [Sums(*(np.zeros(n) for n in (self.d, self.d)), *np.zeros((2, self.d, self.d)), np.zeros(5))
                     for _ in self.rng]  # fmt: skip
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
        for s, rng, sums in zip(self.s, self.rng, self.sums, strict=True):
            flips = self._follow(s, sums, times, sites, listed_uniforms(rng, len(sites)))
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

    def _follow(self, s: Any, sums: Sums, times: list[float], sites: list[int], numbers: list[float]) -> int:
        """Take one lane through the hits of a sweep, and return how many of them were flips."""
        now, flips = 0.0, 0
        for n, (t, i, u) in enumerate(zip(times, sites, numbers, strict=True), 1):
            before = self.log_prob(s)
            s[i] = -s[i]
            passes = u * (self.bath + math.exp(before - self.log_prob(s))) < 1.0
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
