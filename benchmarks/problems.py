"""The models that are measured, and samplers on them as units of work that can be timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import baselines
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from timing import Job, cpu_seconds

import bouncy
from bouncy.recorders.contract import HITS, SWEEP_END
from bouncy.recorders.lanes import LaneRecorder
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import Sampler
from bouncy.targets.contract import Target
from bouncy.targets.fields import SparseFields
from bouncy.workers.contract import Plan
from bouncy.workers.flock import FlockWorker
from bouncy.workers.loop import LoopWorker
from bouncy.workers.spins import SpinWorker

# The billiards of BPS.
CLOCKS = ("gaussian", "exponential")
_WARMUP_HITS = 100_000


def random_regular(d: int, degree: int = 3, seed: int = 0) -> NDArray[np.int64]:
    """Return the edges, shape (d * degree / 2, 2), of a random simple graph in which every site has `degree` edges.

    Sites are paired at random (configuration model); as long as there are loops or double edges, each of them
    exchanges an end with an edge chosen at random.
    """
    rng = np.random.default_rng(seed)
    edges = rng.permutation(np.repeat(np.arange(d), degree)).reshape(-1, 2)
    while True:
        bad = _not_simple(edges, d)
        if bad.size == 0:
            return edges
        for e, other in zip(bad, rng.integers(0, len(edges), bad.size), strict=True):
            edges[e, 1], edges[other, 1] = edges[other, 1], edges[e, 1]


def _not_simple(edges: NDArray[np.int64], d: int) -> NDArray[np.intp]:
    """Return the numbers of the edges that are loops or repeat another edge."""
    low, high = edges.min(axis=1), edges.max(axis=1)
    code = low * d + high
    order = np.argsort(code, kind="stable")
    bad = low == high
    bad[order[1:]] |= code[order[1:]] == code[order[:-1]]
    return np.flatnonzero(bad)


def regular_graph(d: int, coupling: float = 0.3, seed: int = 0) -> bouncy.MRF:
    """Return an Ising model on a random 3-regular graph."""
    i, j = random_regular(d, seed=seed).T
    values = np.full(2 * i.size, -coupling)
    return bouncy.MRF(scipy.sparse.coo_array((values, (np.r_[i, j], np.r_[j, i])), shape=(d, d)))


def as_arrays(target: bouncy.MRF) -> dict[str, NDArray[Any]]:
    """Return log p = sum J_ij s_i s_j + sum h_i s_i as other packages read it, and colours of the sites."""
    M = scipy.sparse.triu(scipy.sparse.csr_array(target.M), 1).tocoo()
    pairs = np.stack([M.row, M.col], axis=1).astype(np.int64)
    return {"pairs": pairs, "couplings": -M.data, "fields": -np.asarray(target.r), "colours": colours(target)}


def colours(target: bouncy.MRF) -> NDArray[np.int64]:
    """Return colours of the sites, the least one that no neighbour has, in the order of a breadth-first search."""
    M = scipy.sparse.csr_array(target.M)
    found = np.full(target.d, -1)
    for first in range(target.d):
        if found[first] < 0:
            for i in scipy.sparse.csgraph.breadth_first_order(M, first, directed=False)[0]:
                taken = set(found[M.indices[M.indptr[i] : M.indptr[i + 1]]])
                found[i] = next(colour for colour in range(target.d) if colour not in taken)
    return found


def dense(d: int, seed: int = 0) -> bouncy.MRF:
    """Return a model of the paper's ensemble whose fields stay of order one as d grows."""
    return bouncy.MRF.random(d, sigma_M=0.5 / np.sqrt(d), sigma_r=0.1, seed=seed)


def chain_job(
    target: Target, sampler: str | Sampler, hits_per_block: int, *, pairs: bool = False, seed: int = 0
) -> Job:
    """Return a job that advances a chain, as `bouncy.sample` does, and returns CPU seconds per attempted flip."""
    worker = new_worker(target, sampler, pairs=pairs, seed=seed)
    sweeps = _sweeps(hits_per_block, target.d)

    def block() -> float:
        seconds, events = timed_advance(worker, sweeps)
        return seconds / float(events[HITS])

    return block


def flock_job(
    target: Target, sampler: str, chains: int, hits_per_block: int, *, means: bool = True, seed: int = 0
) -> Job:
    """Return a job that advances chains that share a clock, and returns CPU seconds per attempted flip and chain."""
    kind, seeds = as_sampler(target, sampler), np.random.SeedSequence(seed).spawn(chains)
    (worker,) = kind.workers(target, Plan(lanes=chains), seeds, [None] * chains)
    assert isinstance(worker, FlockWorker)
    worker.advance(_sweeps(_WARMUP_HITS, target.d * chains))
    if not means:
        worker.recorder = without_sites(worker.recorder)
    sweeps = max(2, round(hits_per_block / (target.d * chains)))

    def block() -> float:
        before = float(worker.recorder.open_events[HITS, 0])
        seconds = cpu_seconds(lambda: worker._run(sweeps))
        return seconds / (float(worker.recorder.open_events[HITS, 0]) - before) / chains

    return block


def without_sites(recorder: LaneRecorder) -> LaneRecorder:
    """Return a recorder of events alone."""
    empty = np.empty((0, recorder.cost.size))
    return recorder._replace(open_mean=empty, due=np.array([SWEEP_END]), every=SWEEP_END)


def metropolis_job(target: bouncy.MRF, hits_per_block: int, *, shuffled: bool = False, seed: int = 0) -> Job:
    """Return a job that runs the bare loop and returns CPU seconds per attempted flip.

    `shuffled`, for sparse models, visits the sites in a random order, the same in every sweep.
    """
    loop = _metropolis(target, shuffled, seed)
    loop(_sweeps(_WARMUP_HITS, target.d))
    sweeps = _sweeps(hits_per_block, target.d)
    return lambda: cpu_seconds(lambda: loop(sweeps)) / (sweeps * target.d)


def _metropolis(target: bouncy.MRF, shuffled: bool, seed: int) -> Callable[[int], None]:
    spins = baselines.new_spins(target, seed)
    state = spins.s, spins.h, spins.rng, spins.purse
    model = target.view()  # the very arrays that chains read: where couplings lie in memory changes the time
    if isinstance(model, SparseFields):
        csr = model.indptr, model.indices, model.data
        if shuffled:
            order = np.random.default_rng(seed).permutation(target.d).astype(np.int32)
            return lambda sweeps: baselines.metropolis_shuffled(order, *csr, *state, sweeps)
        return lambda sweeps: baselines.metropolis_sparse(*csr, *state, sweeps)
    return lambda sweeps: baselines.metropolis_dense(model.M, *state, sweeps)


def new_worker(target: Target, sampler: str | Sampler, *, pairs: bool = False, seed: int = 0) -> SpinWorker:
    """Return a worker whose chain has forgotten its random start, on the easy models used here."""
    plan = Plan(pairs="all" if pairs else "none")
    worker = SpinWorker(target, as_sampler(target, sampler), plan, np.random.SeedSequence(seed), None)
    worker.advance(_sweeps(_WARMUP_HITS, target.d))
    return worker


def timed_advance(worker: LoopWorker, sweeps: int) -> tuple[float, NDArray[np.float64]]:
    """Advance a worker, and return CPU seconds and the numbers of hits, flips, bounces and refreshments, (4,)."""
    slices = []
    before = worker.recorder.open_events.copy()
    seconds = cpu_seconds(lambda: slices.append(worker.advance(sweeps)))
    closed = [batch["events"] for batch in slices[0].batches[0]]
    return seconds, np.sum([worker.recorder.open_events, *closed], axis=0) - before


def _sweeps(hits: int, d: int) -> int:
    # A few sweeps even of the largest models, which would otherwise be timed while they are still at their start.
    return max(5, round(hits / d))
