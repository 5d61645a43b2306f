"""Many short independent chains of the production loop, for tests on the law of a sampler.

A test of a chain needs its autocorrelation time; a test of independent replicates of a fixed length needs nothing but
their number. Each replicate starts from a given s with fresh (z, w) and a fresh budget, and is run by the same
`advance` and read from the same `Recorder` as a chain of a user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper, kernel
from bouncy._random import new_state
from bouncy._validation import as_seed_sequence, check_count, check_nonnegative, check_spins
from bouncy.clocks.by_address import linked
from bouncy.clocks.contract import Clock, position, restart
from bouncy.enumeration import exact, states
from bouncy.recorders.contract import MEANS, SWEEP_END
from bouncy.recorders.pairs import Pairs, all_pairs, edge_pairs, has_pairs
from bouncy.recorders.recorder import new_recorder
from bouncy.samplers.contract import SpinSampler
from bouncy.targets.contract import Target, init, raise_failure
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import renew
from bouncy.workers.contract import Plan
from bouncy.workers.kernel import advance, settle
from bouncy.workers.spins import SpinWorker

PairSet = Literal["none", "edges", "all"]


class Replicates(NamedTuple):
    """Averages and final states of R replicates on d sites."""

    path: NDArray[np.float64]  # (R, d) time averages of s
    mean: NDArray[np.float64]  # (R, d) averages of the conditional means at the ends of sweeps
    pair_path: NDArray[np.float64]  # (R, d * d), (R, edges) or (R, 0) time averages of s_i s_j
    pair_mean: NDArray[np.float64]  # of the same shape, averages of (s_i t_j + s_j t_i)/2, t the conditional means
    start_z: NDArray[np.float64]  # (R, d) distances to the walls at time 0
    start_w: NDArray[np.float64]  # (R, d) speeds away from them
    s: NDArray[np.int8]  # (R, d) final spins
    z: NDArray[np.float64]  # (R, d) final distances
    w: NDArray[np.float64]  # (R, d) final speeds
    events: NDArray[np.float64]  # (R, 5) hits, flips, bounces, refreshments, means


def replicate(
    target: Target,
    clock: Clock,
    starts: ArrayLike,
    *,
    sweep_time: float,
    n_sweeps: int,
    refreshment_rate: float,
    seed: Any,
    pairs: PairSet = "none",
    capacity: int = 64,
    new_toll: Callable[[Any, NDArray[np.uint64]], Any] = lambda clock, state: new_budget(state),
) -> Replicates:
    """Run one replicate per row of `starts` for the time `n_sweeps * sweep_time`.

    Parameters
    ----------
    starts : (R, d) spins at time 0; (z, w) and the budget are drawn from their stationary laws.
    sweep_time : time of a sweep, in units of the clock.
    refreshment_rate : expected refreshments per unit time.
    seed : int or SeedSequence.
    pairs : which pair averages to keep, numbered as by the recorder of pairs.
    capacity : size of the buffer of hits; with a small one the clock stops and continues often.
    new_toll : makes a toll from the arrays of the clock, which may hold its budget, and a generator state.
    """
    refreshment_rate = check_nonnegative("refreshment_rate", refreshment_rate)
    clock_state, toll_state = (new_state(child) for child in as_seed_sequence(seed).spawn(2))
    running = clock.start(target.d, refreshment_rate, clock_state)
    toll = new_toll(running, toll_state)
    return _replicate(target, clock, running, toll, starts, sweep_time, n_sweeps, pairs, capacity)


def replicate_sampler(
    target: Target, sampler: SpinSampler, starts: ArrayLike, *, n_sweeps: int, seed: Any, pairs: PairSet = "none"
) -> Replicates:
    """Run one replicate per row of `starts` with a sampler as a user would; the arguments are those of `replicate`."""
    if sampler.clock.family == "pairs":
        return _replicate_pairs(target, sampler, starts, n_sweeps, seed, pairs)
    running, toll = sampler.start(target, as_seed_sequence(seed))
    sweep_time = sampler.sweep_time(target.d)
    return _replicate(target, sampler.clock, running, toll, starts, sweep_time, n_sweeps, pairs, capacity=64)


def _replicate(
    target: Target,
    clock: Clock,
    running: Any,
    toll: Any,
    starts: ArrayLike,
    sweep_time: float,
    n_sweeps: int,
    pairs: PairSet,
    capacity: int,
) -> Replicates:
    d = target.d
    spins = check_spins(starts, d, "starts").reshape(-1, d)
    n_sweeps = check_count("n_sweeps", n_sweeps)
    sweep_time = check_nonnegative("sweep_time", sweep_time)
    recorded_pairs, n_pairs = _pairs(target, pairs)
    out = _allocate(spins.shape[0], d, n_pairs)
    view = target.view()
    _run(
        linked(running),
        toll,
        view,
        new_recorder(d, recorded_pairs, clock.by_attempts, target.constraint),
        np.empty(d, np.int8),
        np.zeros(1, np.int64),
        np.empty(capacity),
        np.empty(capacity, np.int32),
        sweep_time,
        n_sweeps,
        spins,
        out,
    )
    raise_failure(view)
    return out


def _replicate_pairs(
    target: Target, sampler: SpinSampler, starts: ArrayLike, n_sweeps: int, seed: Any, pairs: PairSet
) -> Replicates:
    """Run replicates by a worker of pairs, which is put back to each start; its clock and its budget simply go on.

    At stationarity both are independent of the spins. This needs no loop beside that of users.
    """
    spins = check_spins(starts, target.d, "starts").reshape(-1, target.d)
    worker = SpinWorker(target, sampler, Plan(pairs=pairs), as_seed_sequence(seed), spins[0])
    out = _allocate(spins.shape[0], target.d, _pairs(target, pairs)[1])
    for array in (out.start_z, out.start_w, out.z, out.w):
        array[:] = np.nan
    for k, start in enumerate(spins):
        worker.s[:] = start
        settle(worker.view, worker.s)
        worker._run(n_sweeps)
        batch = worker._take_batches()[0]
        out.path[k] = batch["path"] / (n_sweeps * worker.sweep_time)
        out.mean[k] = batch["mean"] / batch["events"][MEANS]
        out.s[k], out.events[k] = worker.s, batch["events"]
        if pairs != "none":
            out.pair_path[k] = batch["pair_path"] / (n_sweeps * worker.sweep_time)
            out.pair_mean[k] = batch["pair_mean"] / batch["events"][MEANS]
    return out


def exact_draws(target: Target, n: int, seed: Any) -> NDArray[np.int8]:
    """Return n independent draws from p(s) by enumeration, shape (n, d), for d <= 20."""
    probabilities = exact(target).probabilities
    generator = np.random.default_rng(as_seed_sequence(seed))
    return states(target.d)[generator.choice(2**target.d, size=n, p=probabilities)]


def overdispersed_starts(n: int, d: int, seed: Any) -> NDArray[np.int8]:
    """Return starts of shape (n, d), a quarter each: all +1, all -1, alternating, independent and uniform."""
    generator = np.random.default_rng(as_seed_sequence(seed))
    starts = generator.choice(np.array([-1, 1], np.int8), size=(n, d))
    starts[0::4] = 1
    starts[1::4] = -1
    starts[2::4] = 1 - 2 * (np.arange(d) % 2)
    return starts


def state_numbers(s: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the number of each row of s, (n, d), in the order of `states`."""
    numbers: NDArray[np.int64] = (s > 0) @ (1 << np.arange(s.shape[1]))
    return numbers


def state_counts(s: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return how often each of the 2^d states occurs among the rows of s, (n, d), in the order of `states`."""
    return np.bincount(state_numbers(s), minlength=2 ** s.shape[1])


def _pairs(target: Target, which: PairSet) -> tuple[Pairs, int]:
    """Return a recorder of pairs and the number of its columns."""
    if which == "none":
        return all_pairs(0), 0
    if which == "all":
        return all_pairs(target.d), target.d**2
    pattern = target.edges()
    if which != "edges" or pattern is None:
        raise ValueError(
            f"pairs is {which!r} for {target!r}; expected 'none', 'all' or, for a target with edges, 'edges'"
        )
    recorder = edge_pairs(pattern)
    return recorder, recorder.open_path.size


def _allocate(n: int, d: int, n_pairs: int) -> Replicates:
    return Replicates(
        path=np.empty((n, d)),
        mean=np.empty((n, d)),
        pair_path=np.zeros((n, n_pairs)),
        pair_mean=np.zeros((n, n_pairs)),
        start_z=np.empty((n, d)),
        start_w=np.empty((n, d)),
        s=np.empty((n, d), np.int8),
        z=np.empty((n, d)),
        w=np.empty((n, d)),
        events=np.empty((n, 5)),
    )


@kernel
def _run(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps, starts, out):
    """Run all replicates one after the other. Everything but the times and `starts` is changed in place."""
    for k in range(starts.shape[0]):
        for i in range(s.size):
            s[i] = starts[k, i]
        init(target, s)
        flips_since_resync[0] = 0
        recorder.due[0] = SWEEP_END
        restart(clock)
        renew(toll)
        position(clock, 0.0, out.start_z[k], out.start_w[k])
        if advance(clock, toll, target, recorder, s, flips_since_resync, times, sites, sweep_time, n_sweeps):
            break
        # The loop has moved the origin of time to the end of the last sweep.
        position(clock, 0.0, out.z[k], out.w[k])
        read_open_batch(recorder, n_sweeps * sweep_time, s, out, k)


@helper
def read_open_batch(recorder, duration, s, out, k):
    """Write the averages over the open batch and s into row k of `out`, and begin a new batch."""
    t, means = recorder.elapsed[0], recorder.open_events[MEANS]
    recorder.elapsed[0] = 0.0
    for i in range(s.size):
        recorder.open_path[i] += s[i] * t
        out.path[k, i] = recorder.open_path[i] / duration
        out.mean[k, i] = recorder.open_mean[i] / means
        recorder.open_mean[i] = 0.0
        out.s[k, i] = s[i]
    _read_pairs(recorder.pairs, recorder.open_path, s, t, means, duration, out.pair_path[k], out.pair_mean[k])
    for i in range(s.size):
        recorder.open_path[i] = 0.0
    for j in range(5):
        out.events[k, j] = recorder.open_events[j]
        recorder.open_events[j] = 0.0


@helper
def _read_pairs(pairs, integral, s, t, means, duration, path, mean):
    """Write the averages of pairs over the open batch, and begin a new one; `integral`, (d,), is that of s."""
    if not has_pairs(pairs):
        return
    if pairs.indptr.size:
        for e in range(path.size):
            path[e] = (pairs.open_path[e, 0] + s[pairs.ends[0, e]] * s[pairs.ends[1, e]] * t) / duration
            mean[e] = pairs.open_mean[e, 0] / means
            pairs.open_path[e, 0] = 0.0
            pairs.open_mean[e, 0] = 0.0
        return
    d = s.size
    for i in range(d):
        for j in range(d):
            ends = s[i] * integral[j] + s[j] * integral[i]
            path[i * d + j] = 0.5 * (pairs.open_path[i, j] + pairs.open_path[j, i] + ends) / duration
            mean[i * d + j] = 0.5 * (pairs.open_mean[i, j] + pairs.open_mean[j, i]) / means
    for i in range(d):
        for j in range(d):
            pairs.open_path[i, j] = 0.0
            pairs.open_mean[i, j] = 0.0
