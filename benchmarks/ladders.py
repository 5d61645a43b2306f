"""Ladders of temperatures as units of work, lanes without swaps, and the same ladder as others would run it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from own import sparse_fields
from peers.protocol import interpreter, started
from problems import as_arrays, without_sites
from scipy.special import expit
from timing import Job, cpu_seconds

import bouncy
from bouncy._dispatch import implements
from bouncy._lane_loop import padded
from bouncy.recorders.contract import FLIPS, SWEEP_END, has_room, record_flip, record_means, record_sweep
from bouncy.recorders.ladder import ColdView, copy_lane, new_cold_view
from bouncy.recorders.lanes import fetch_record, follow_lanes, record_change, record_lane_means, record_lane_sweep
from bouncy.recorders.recorder import Recorder
from bouncy.targets.contract import Target, log_prob
from bouncy.targets.lanes import read_lanes
from bouncy.tolls.contract import HEAT_BATH
from bouncy.workers.contract import Plan
from bouncy.workers.flock import FlockWorker
from bouncy.workers.ladder import LadderWorker
from bouncy.workers.spins import SpinWorker

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.slabs import Slab, glass, slab

__all__ = ["Slab", "glass", "slab"]

Array = NDArray[np.float64]
# The interpreter of hamon.
HAMON = interpreter("hamon")
_WARM = 500


class Result(NamedTuple):
    """What a run found, and the CPU seconds of all of it."""

    log_z: float
    mean: Array
    seconds: float
    trips: float  # made / expected


# The cost of a scan


def ladder_job(
    target: Target, sampler: bouncy.Tempered, scans: int, *, clusters: bool = True
) -> tuple[Job, NDArray[np.int8]]:
    """Return a job that advances a ladder and returns CPU seconds of a scan, and spins of each rung, (rungs, d).

    Without `clusters` a pair of ladders exchanges none.
    """
    worker = LadderWorker(target, sampler, Plan(), np.random.SeedSequence(0), None)
    worker.advance(_WARM)
    worker.toll.swaps.clusters[:] &= clusters
    spins = np.ascontiguousarray(worker.lanes[:, worker.toll.swaps.lane].T)
    return lambda: cpu_seconds(lambda: worker._run(scans)) / scans, spins


def lanes_job(target: Target, sampler: bouncy.Tempered, scans: int, starts: NDArray[np.int8], **told: Any) -> Job:
    """Return a job that advances as many lanes without swaps and returns CPU seconds of as many sweeps as in a scan."""
    worker = lanes_worker(target, sampler, starts, **told)
    worker._run(_WARM)
    return lambda: cpu_seconds(lambda: worker._run(scans)) / scans


def lanes_worker(
    target: Target, sampler: bouncy.Tempered, starts: NDArray[np.int8], *, tempered: bool, recorded: str
) -> FlockWorker:
    """Return lanes that share a clock, at the temperatures of a ladder or all at b = 1.

    `recorded` is "nothing", "means" of all lanes as of chains that share a clock, or what a "ladder" needs.
    """
    base, d, width = sampler.base_sampler, target.d, len(starts)
    seeds = np.random.SeedSequence(1).spawn(width)
    worker = FlockWorker(target, base, Plan(lanes=width), seeds, list(starts), 0, padded(width))
    worker.sweep_time = sampler.sweep_time(d)
    if tempered:
        b = np.zeros(worker.s.shape[1])
        b[:width] = np.tile(sampler.ladder, sampler.ladders)
        worker.toll.weight[:], worker.toll.rest[:] = b, 1.0 - b
        worker.toll.bath[:] = np.where(b > 0.0, base.lane_toll, HEAT_BATH)
    if recorded == "nothing":
        worker.recorder = without_sites(worker.recorder)
    if recorded == "ladder":
        worker.view = target.lanes(worker.s.shape[1], ladder=True)
        chain = LadderWorker(target, sampler, Plan(), np.random.SeedSequence(0), None).recorder
        cold, own = new_cold_view(sampler.ladders, d), worker.s[:, width - 1].copy()
        log_prob, events = np.zeros(worker.s.shape[1]), worker.recorder.open_events
        never, last = np.array([SWEEP_END]), np.arange(width)[:: -sampler.rungs].copy()
        worker.recorder = LastLanes(chain.open_mean, events, never, chain, cold, own, last, log_prob)
    return worker


class LastLanes(NamedTuple):
    """What a ladder records of its lanes: one of them as a chain alone, means of those of other ladders, and log p."""

    open_mean: Array  # (d,)
    open_events: Array  # (5, lanes)
    due: NDArray[np.int64]  # (1,) never
    chain: Recorder
    cold: ColdView
    s: NDArray[np.int8]  # (d,) spins of the first of the lanes
    last: NDArray[np.int64]  # (ladders,) the last lane of each ladder
    log_prob: Array  # (lanes,)


@implements(fetch_record, LastLanes)
def _fetch(recorder, i):
    pass


@implements(follow_lanes, LastLanes)
def _stay(recorder, toll, s):
    pass


@implements(record_lane_means, LastLanes)
def _record_means(recorder, toll, target, s):
    pass


@implements(has_room, LastLanes)
def _has_room(recorder):
    return has_room(recorder.chain)


@implements(record_change, LastLanes)
def _record_change(recorder, toll, s, i, count, t):
    if toll.attempt.change[recorder.last[0]] != 0:
        record_flip(recorder.chain, recorder.s, i, t)
        recorder.s[i] = -recorder.s[i]
        recorder.chain.open_events[FLIPS] += 1.0


@implements(record_lane_sweep, LastLanes)
def _record_sweep(recorder, toll, target, s, sweep_time):
    last, cold = recorder.last, recorder.cold
    for n in range(last.size):
        copy_lane(s, last[n], cold.spins[n])
    read_lanes(target, s, last, cold.spins, toll.attempt.cost, recorder.log_prob, cold.means)
    cold.value[0] = recorder.log_prob[last[0]]
    record_sweep(recorder.chain, cold, recorder.s, sweep_time)
    for n in range(1, last.size):
        record_means(recorder.chain, ColdView(cold.spins[n:], cold.means[n:], cold.value), cold.spins[n])


def scalar_job(target: Target, sampler: bouncy.Tempered, scans: int, starts: NDArray[np.int8]) -> Job:
    """Return a job that advances a chain for each rung, with a clock of its own, and returns CPU seconds of a scan.

    Log p of each is known at the end of a scan, and the chains at b = 1 are recorded as those of a ladder. Swaps, and
    all that log Z needs, are free.
    """
    workers = []
    for k, b in enumerate(np.tile(sampler.ladder, sampler.ladders)):
        seed = np.random.SeedSequence((2, k))
        worker = SpinWorker(target.tempered(b), sampler.base_sampler, Plan(), seed, starts[k])
        worker.sweep_time = sampler.sweep_time(target.d)
        if b < 1.0:
            worker.recorder = LogProb(np.zeros(5), np.array([SWEEP_END]), np.zeros(1))
        worker._run(_WARM)
        workers.append(worker)

    def advance() -> None:
        for worker in workers:
            worker._run(scans)

    return lambda: cpu_seconds(advance) / scans


class LogProb(NamedTuple):
    """A recorder of log p alone."""

    open_events: Array  # (5,)
    due: NDArray[np.int64]  # (1,) never
    value: Array  # (1,)


@implements(record_flip, LogProb)
def _forget_flip(recorder, s, i, t):
    pass


@implements(record_means, LogProb)
def _forget_means(recorder, target, s):
    pass


@implements(record_sweep, LogProb)
def _record_log_prob(recorder, target, s, sweep_time):
    recorder.value[0] = log_prob(target, s)


@implements(has_room, LogProb)
def _always(recorder):
    return True


# Runs


def sampled(target: Target, sampler: Any, *, draws: int, chains: int = 1, seed: int) -> tuple[Any, float]:
    """Return a run of `bouncy.sample` on one thread, with CPU seconds that include its pilot and its warm-up."""
    found: list[Any] = []
    options = {"keep": "means", "pairs": "none", "threads": 1, "progress": False}
    seconds = _process_seconds(
        lambda: found.append(bouncy.sample(target, sampler, draws=draws, chains=chains, seed=seed, **options))
    )
    return found[0], seconds


def _process_seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


class _Scalar(bouncy.MRF):
    """A Markov random field whose functions a ladder calls by address, one lane after the other."""

    def lanes(self, width: int, ladder: bool = False) -> None:
        return None


def by_address(target: bouncy.MRF) -> Target:
    """Return the same target, whose own compiled functions are called for each lane apart."""
    return _Scalar(target.M, target.r)


def terms(target: bouncy.MRF) -> Target:
    """Return the same target as a polynomial, whose ladder runs lane after lane."""
    M = scipy.sparse.coo_array(scipy.sparse.triu(target.M))
    pairs = zip(M.row.tolist(), M.col.tolist(), strict=True)
    fields = {(i,): float(r) for i, r in enumerate(target.r)}
    return bouncy.Polynomial({**dict(zip(pairs, M.data.tolist(), strict=True)), **fields}, d=target.d)


def custom(target: bouncy.MRF) -> Target:
    """Return the same target as a user would write it: costs from fields in a cache, and log p."""
    return sparse_fields(target, log_prob=_log_prob)


def _log_prob(s, model):
    indptr, indices, data, r = model
    total = 0.0
    for i in range(s.size):
        field = r[i]
        for k in range(indptr[i], indptr[i + 1]):
            field += 0.5 * data[k] * s[indices[k]]
        total -= s[i] * field
    return total


@contextmanager
def hamon(target: bouncy.MRF, sampler: bouncy.Tempered, scans: int, warmup: int) -> Iterator[Callable[[int], Result]]:
    """Start a process of hamon on a ladder, for the time of a `with` statement, and return a function of the seed."""
    told = {"ladder": list(sampler.ladder), "steps": sampler.sweeps_per_swap}
    with started("hamon", "hamon_peer.py", model=as_arrays(target), **told) as ask:

        def run(seed: int) -> Result:
            answer = ask(draws=scans, seed=seed, warmup=warmup)
            value, b = answer["ladder"][0], np.array(sampler.ladder)
            log_z = target.d * np.log(2.0) + bridged(value, b)
            return Result(log_z, np.array(answer["mean"][0]), answer["seconds"], answer["trips"] / _expected(value, b))

        yield run


def bridged(value: Array, b: Array) -> float:
    """Return log Z_1 - log Z_0 by bridge sampling between neighbours (BAR), from log p of each rung, (scans, rungs)."""
    step = np.diff(b)
    offset = 0.5 * step * (value[:, 1:] + value[:, :-1]).mean(axis=0)
    for _ in range(50):
        forward = expit(step * value[:, :-1] - offset).mean(axis=0)
        reverse = expit(offset - step * value[:, 1:]).mean(axis=0)
        offset = offset + np.log(forward / reverse)
    return float(offset.sum())


def _expected(value: Array, b: Array) -> float:
    """Return the round trips of a ladder whose states forget themselves between swaps."""
    accepted = np.exp(np.minimum(np.diff(b) * (value[:, :-1] - value[:, 1:]), 0.0)).mean(axis=0)
    return float(len(value) / (2.0 + 2.0 * (1.0 / accepted - 1.0).sum()))
