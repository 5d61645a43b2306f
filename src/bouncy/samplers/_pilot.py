"""The pilot of a tempered run: finds the ladder, the number of rungs, the sweeps between swaps, and the reference.

Scans come in rounds of doubling length. After each, the values b move so that swaps of all neighbours are refused
alike: r_k is the mean of 1 - acceptance over all scans, the barrier is the sum of r_k, and b_k is where the running sum
reaches its k-th part (Syed et al. 2022). With about twice as many rungs as the barrier half of all swaps are accepted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.sparse.csgraph import connected_components

from bouncy._lane_loop import WIDTH
from bouncy.recorders.ladder import FINITE, PRODUCT, SQUARE, SWAP, VALUE
from bouncy.results.moments import means_recorded
from bouncy.workers.contract import Plan, Slice, joined

if TYPE_CHECKING:
    from bouncy.samplers.tempered import Tempered
    from bouncy.targets.contract import Target
    from bouncy.workers.ladder import LadderWorker
    from bouncy.workers.spins import OneChainWorker

Array = NDArray[np.float64]

# Scans of the first round; rounds before the pilot may end, and of all that there may be.
_FIRST, _ROUNDS, _MOST_ROUNDS = 32, 5, 8
# Spread of V beyond which no ladder is of use, and values of which sums of squares overflow.
_MOST_SPREAD, _LARGEST_VALUE = 1e9, 1e100
# Rungs to begin with, and at most.
_RUNGS, _MOST_RUNGS = 16, 256
# Rungs that are cheap come by so many: a pair of ladders fills the widest vectors.
_TOGETHER = 16
# Lanes up to which a chain has several ladders: where they are cheap, and where twice as many take 1.2 to 1.6 times as
# long, as on dense models.
_MANY_LANES, _SOME_LANES = 64, 32
# What an attempted flip takes beside the time of its lanes where they are cheap, in units of that of a lane.
_BESIDE_LANES = 96
# Share of refused swaps above which there are too few rungs to tell.
_TOO_FEW = 0.7
# The barrier is known when it changes by no more than this share from one round to the next.
_SETTLED = 0.15
# Correlation of V over a scan that sweeps between swaps are chosen for, and the most of them.
_CORRELATION, _MOST_SWEEPS = 0.35, 8
# Attempted flips between two moments at which an interrupt is heard.
_ATTEMPTS = 1 << 26
# Sweeps, and as many before them, of the chain that a reference is first fitted to.
_CHAIN = 100
# States of the reference that are looked at.
_STATES = 256
# Scans of two ladders, and as many before them, that show how large clusters are, and looks at them; ladders that are
# too short to need any; and the share of the sites at which two states differ beyond which an exchange is one of whole
# states.
_CLUSTER_SCANS, _CLUSTER_LOOKS, _FEWEST_RUNGS, _LARGEST_CLUSTER = 128, 8, 8, 0.9
# Of the time of flips, what exchanges may take: little where clusters are most of the sites at which two states differ.
# On strips, where they are a half, exchanges after 4 scans make squared errors for the same time smaller by a fifth
# than those after 8; on slabs of a cube, where they are three quarters, those after 4 or 16 are as good.
_LARGE_CLUSTERS, _OFTEN, _RARELY = 2 / 3, 0.2, 0.03
# An exchange in units of attempted flips of all sites, without the passes and for each; where functions are called by
# address, passes take next to nothing beside. No fewer scans from one exchange to the next gain anything.
_EXCHANGE, _PASS, _SHORTEST = 0.3, 0.06, 4
# Means of a fitted reference stay away from -1 and 1, so that it forbids nothing.
_LARGEST_MEAN = 0.95


def tuned(asked: Tempered, target: Target, seed: np.random.SeedSequence, pairs: str) -> Tempered:
    """Return a sampler with everything that was left open, a function of target and seed alone."""
    from bouncy.run.progress import steps_of_pilot
    from bouncy.workers.ladder import LadderWorker

    reference_seed, *round_seeds, chain_seed, cluster_seed = seed.spawn(3 + _MOST_ROUNDS)
    generator = np.random.default_rng(reference_seed)
    now = asked
    if asked.reference == "fitted":
        now = _fitted(asked, target, _means_of_a_chain(asked, target, chain_seed), generator)
    values = _values(target, np.zeros(target.d) if now.fields is None else np.array(now.fields), generator)
    ladder = _first_ladder(asked.rungs or _RUNGS, values) if asked.ladder is None else asked.ladder
    now = replace(
        now, rungs=len(ladder), ladder=ladder, sweeps_per_swap=asked.sweeps_per_swap or 1, ladders=1, clusters=()
    )
    states, barrier = None, np.inf
    for k, round_seed in enumerate(steps_of_pilot(round_seeds, "finding a ladder")):
        worker = LadderWorker(target, now, Plan(pairs=pairs), round_seed, states)
        found = _advanced(worker, _FIRST << k, now.sweeps_per_swap or 1)
        sums, before = worker.seen + worker.sums, barrier
        refused = 1.0 - sums[SWAP, :-1] / (_FIRST << k)
        barrier = float(refused.sum())
        crowded = asked.rungs is None and refused.mean() > _TOO_FEW and len(now.ladder) < _MOST_RUNGS
        if k + 1 >= _ROUNDS and not crowded and abs(barrier - before) <= _SETTLED * max(barrier, 1.0):
            break
        if asked.reference == "fitted" and k + 2 == _ROUNDS:
            now = _fitted(now, target, _means(worker, found), generator)
        states = _by_rung(worker)
        now, places = _next(asked, now, sums, refused, crowded)
        states = states[places]
    now = _settled(asked, now, target, sums, refused)
    if asked.clusters is None and (asked.ladders is None or asked.ladders % 2 == 0):
        now = _with_clusters(now, target, cluster_seed, pairs)
    elif asked.clusters:
        now = replace(now, clusters=asked.clusters, ladders=2)
    return replace(now, ladders=asked.ladders or _ladders(now, target))


def _ladders(now: Tempered, target: Target) -> int:
    """Return the number of ladders of a chain: of a pair, or one, as many as share the widest vectors."""
    lanes = None if now.clock.family == "pairs" else target.lanes(1)
    room = 1 if lanes is None else _MANY_LANES if _are_cheap(lanes) else _SOME_LANES
    pairs_or_single = now.ladders or 1
    return pairs_or_single * max(1, room // (pairs_or_single * len(now.ladder)))


def _are_cheap(lanes: Any) -> bool:
    """Say whether more lanes take little time: where what a site costs is added up from few neighbours."""
    from bouncy.targets.field_lanes import SparseLanes  # which few runs need

    return isinstance(lanes, SparseLanes)


def _with_clusters(now: Tempered, target: Target, seed: np.random.SeedSequence, pairs: str) -> Tempered:
    """Return the sampler with clusters exchanged where that pays: at cold rungs, if these are not all that differs."""
    from bouncy.workers.ladder import LadderWorker

    rungs = range(len(now.ladder) // 2, len(now.ladder))
    edges = target.edges() if now.can_trade_clusters(target) else None
    if edges is None or len(now.ladder) < _FEWEST_RUNGS:
        return now
    sampler = replace(now, ladders=2, clusters=tuple(rungs), scans_per_exchange=_CLUSTER_SCANS // _CLUSTER_LOOKS)
    worker = LadderWorker(target, sampler, Plan(pairs=pairs), seed, None)
    _advanced(worker, _CLUSTER_SCANS, now.sweeps_per_swap or 1)  # to forget the starts
    passes = worker.toll.swaps.partners.passes
    passes[:] = 0
    found = np.zeros((2, len(rungs)))
    for _ in range(_CLUSTER_LOOKS):
        _advanced(worker, _CLUSTER_SCANS // _CLUSTER_LOOKS, now.sweeps_per_swap or 1)
        one, other = np.split(_by_rung(worker), 2)
        found += _cluster_sizes(edges, (one != other)[rungs[0] :])
    chosen = tuple(k for k, size, apart in zip(rungs, *found, strict=True) if size < _LARGEST_CLUSTER * apart)
    if not chosen:
        return now
    size, apart = found.sum(axis=1)
    share = (_OFTEN if size < _LARGE_CLUSTERS * apart else _RARELY) * (now.sweeps_per_swap or 1)
    work = _EXCHANGE + (0.0 if target.lanes(1) is None else _PASS * passes[0] / _CLUSTER_LOOKS)
    every = max(_SHORTEST, int(np.ceil(work / share)))
    return replace(now, ladders=2, clusters=chosen, scans_per_exchange=now.scans_per_exchange or every)


def _cluster_sizes(edges: scipy.sparse.csr_array, apart: NDArray[np.bool_]) -> Array:
    """Return mean sizes of the clusters of random sites that are `apart`, (n, d), and how many such sites there are."""
    n, d = apart.shape
    row, column = edges.nonzero()
    k, edge = np.nonzero(apart[:, row] & apart[:, column])
    pairs = np.ones(k.size), (k * d + row[edge], k * d + column[edge])
    _, label = connected_components(scipy.sparse.coo_array(pairs, shape=(n * d, n * d)), directed=False)
    sizes = np.bincount(label)[label].reshape(n, d)
    count = apart.sum(axis=1)
    return np.array([np.where(apart, sizes, 0).sum(axis=1) / np.maximum(count, 1), count])


def _advanced(worker: LadderWorker, scans: int, sweeps_per_swap: int) -> Slice:
    """Return what a worker records in some scans, made in pieces so short that Ctrl-C is heard."""
    piece = max(1, _ATTEMPTS // (worker.lanes.size * sweeps_per_swap))
    ends = [*range(0, scans, piece), scans]
    return joined([worker.advance(end - begin) for begin, end in pairwise(ends)])


def _values(target: Target, fields: Array, generator: np.random.Generator) -> Array:
    """Return V at states of the reference, where it is finite."""
    up = 1.0 / (1.0 + np.exp(2.0 * fields))
    s = np.where(generator.random((_STATES, target.d)) < up, 1, -1).astype(np.int8)
    if target.constraint is None:
        value = target.log_prob(s) + s @ fields + np.logaddexp(fields, -fields).sum()
    else:
        value = target.log_prob([target.constraint.draw(row, generator) for row in s]) + target.log_size
    found: Array = value[np.isfinite(value)]
    if found.size and np.abs(found).max() > _LARGEST_VALUE:
        raise ValueError(
            f"log p of random states is as large as {np.abs(found).max():.3g}, too large for a ladder; expected "
            f"{_LARGEST_VALUE:g} at most: clamp spins that are tied to each other, or scale the target"
        )
    return found


def _first_ladder(rungs: int, values: Array) -> tuple[float, ...]:
    """Return a ladder whose steps grow, the first as small as the spread of V at the reference asks for."""
    spread = min(float(np.ptp(values)), _MOST_SPREAD) if values.size > 1 else 10.0
    x = np.linspace(0.0, 1.0, rungs)
    b = np.expm1(x * np.log1p(spread)) / spread if spread > 0.0 else x
    b[-1] = 1.0
    return tuple(b.tolist())


def _evened(b: Array, refused: Array, rungs: int) -> Array:
    """Return the values of so many rungs between which swaps are refused alike."""
    reached = np.concatenate([[0.0], np.cumsum(np.maximum(refused, 1e-3))])
    new = PchipInterpolator(reached, b)(np.linspace(0.0, reached[-1], rungs))
    new[0], new[-1] = 0.0, 1.0
    return np.asarray(new)


def _wanted(target: Target, barrier: float) -> int:
    """Return the number of rungs: twice the barrier, up to what is worked on together, or more where that pays."""
    lanes, n = target.lanes(1), int(np.ceil(2.0 * barrier)) + 2
    if _are_cheap(lanes):
        choices = range(_TOGETHER * -(-n // _TOGETHER), _MOST_RUNGS + 1, _TOGETHER) or [_MOST_RUNGS]
        return min(choices, key=lambda rungs: _trip_time(rungs, barrier))
    together = 1 if lanes is None else WIDTH
    return min(_MOST_RUNGS, together * -(-n // together))


def _trip_time(rungs: int, barrier: float) -> float:
    """Return the time of a scan of pairs of ladders over their round trips in it, both up to a factor."""
    refused = barrier / (rungs - 1)
    ladders = 2 * max(1, _MANY_LANES // (2 * rungs))
    return (_BESIDE_LANES + ladders * rungs) / ladders * (1.0 + (rungs - 1) * refused / max(1.0 - refused, 0.01))


def _next(
    asked: Tempered, now: Tempered, sums: Array, refused: Array, crowded: bool
) -> tuple[Tempered, NDArray[np.int64]]:
    """Return the sampler of the next round, and the rung from which each of its rungs takes its state."""
    old = np.array(now.ladder)
    rungs = len(now.ladder) * (2 if crowded else 1)
    b = old if asked.ladder is not None else _evened(old, refused, rungs)
    sweeps = asked.sweeps_per_swap or _sweeps(now, sums)
    places = np.abs(old[1:, None] - b).argmin(axis=0) + 1  # the state of the reference may be impossible elsewhere
    return replace(now, rungs=rungs, ladder=tuple(b.tolist()), sweeps_per_swap=sweeps), places


def _sweeps(now: Tempered, sums: Array) -> int:
    """Return the sweeps after which V has forgotten enough, by the correlation over the scans that were made."""
    n = sums[FINITE]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = sums[VALUE] / n
        rho = (sums[PRODUCT] / n - mean**2) / (sums[SQUARE] / n - mean**2)
    known = rho[1:][np.isfinite(rho[1:])]
    middle = float(np.clip(np.median(known), 1e-3, 0.999)) if known.size else 1e-3
    sweeps = now.sweeps_per_swap * np.log(_CORRELATION) / np.log(middle)
    return int(np.clip(round(sweeps), 1, _MOST_SWEEPS))


def _means_of_a_chain(asked: Tempered, target: Target, seed: np.random.SeedSequence) -> Array:
    """Return the means of a short chain without a ladder, which may see one mode alone."""
    from bouncy.workers.spins import SpinWorker

    worker = SpinWorker(target, asked.base_sampler, Plan(), seed, None)
    worker.advance(_CHAIN)
    SpinWorker.record_anew([worker])
    return _means(worker, worker.advance(_CHAIN))


def _means(worker: OneChainWorker, found: Slice) -> Array:
    """Return the means of a chain since its recording began, all of it in one slice."""
    batches = [*found.batches[0], *worker.open_sums()]
    return np.asarray(sum(batch["mean"] for batch in batches) / sum(means_recorded(batch) for batch in batches))


def _fitted(now: Tempered, target: Target, mean: Array, generator: np.random.Generator) -> Tempered:
    """Return the sampler with a fitted reference if it is nearer to the target than the uniform one.

    E_p[V] - E_q[V] is the integral of the variance of V over the path, and pi times the square of the barrier is never
    more. Of E_p[V], what depends on the reference is compared.
    """
    mean = np.clip(mean, -_LARGEST_MEAN, _LARGEST_MEAN)
    fields = -np.arctanh(mean)
    uniform = _values(target, np.zeros(target.d), generator)
    fitted = _values(target, fields, generator)
    is_nearer = uniform.size < fitted.size
    if uniform.size == fitted.size == _STATES:  # no walls: the means are finite
        gain = mean @ fields + np.logaddexp(fields, -fields).sum() - target.d * np.log(2.0)
        is_nearer = bool(gain - fitted.mean() < -uniform.mean())
    return replace(now, reference=tuple(fields.tolist()) if is_nearer else "uniform")


def _by_rung(worker: LadderWorker) -> NDArray[np.int8]:
    """Return the spins of each rung, (rungs, d)."""
    return np.ascontiguousarray(worker.lanes[:, worker.toll.swaps.lane].T)


def _settled(asked: Tempered, now: Tempered, target: Target, sums: Array, refused: Array) -> Tempered:
    """Return the sampler with the ladder that the last round asks for."""
    if asked.ladder is None:
        rungs = asked.rungs or _wanted(target, float(refused.sum()))
        b = _evened(np.array(now.ladder), refused, rungs)
        now = replace(now, rungs=rungs, ladder=tuple(b.tolist()))
    return replace(now, sweeps_per_swap=asked.sweeps_per_swap or _sweeps(now, sums))
