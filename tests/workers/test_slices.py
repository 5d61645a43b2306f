"""How a run is cut into slices, and into batches, leaves no trace in what workers record."""

import functools

import numpy as np
import pytest

from bouncy._compile import kernel
from bouncy.clocks.contract import fill, shift
from bouncy.recorders.batches import Batches, batch_length
from bouncy.recorders.contract import FLIPS, HITS, MEANS, SWEEP_END
from bouncy.samplers import names
from bouncy.targets.contract import flip_cost, on_flip
from bouncy.tolls.contract import pay
from bouncy.workers.contract import Keep
from helpers.replicates import _allocate, read_open_batch
from helpers.replicates_piecewise import Flights
from helpers.replicates_piecewise import _read as read_flight
from workers.cases import CASES, SPINS, advanced, compare, kept, new_worker, recording, same_bytes, total

every_case = pytest.mark.parametrize("case", CASES)
# Swaps are compared with a literal twin, event by event, in `samplers/test_swaps.py`.
OF_PAIRS = {"metropolis-swap", "metropolis-mixed"}
every_sampler = pytest.mark.parametrize("sampler", sorted({*names()} - {"auto", "tempered"} - OF_PAIRS))
close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-9)

SWEEPS = 53


def random_pieces(rng: np.random.Generator) -> list[int]:
    """Return how many sweeps each of ten slices has."""
    ends = np.sort(rng.choice(np.arange(1, SWEEPS), 9, replace=False))
    return np.diff(ends, prepend=0, append=SWEEPS).tolist()


def without_clocks(state):
    """Return a state without the CPU time it took."""
    return {name: array for name, array in state.items() if not name.endswith("cpu_seconds")}


@every_case
def test_slices_leave_no_trace(case, rng):
    """Catches a sum, a draw, a batch or a generator that begins anew where a slice does, whatever is kept."""
    for what in kept(case):
        for keep, per_draw in ((Keep(what), 1), (Keep(what), 3), (Keep(what, 4), 2)):
            whole, cut = (recording(case, per_draw=per_draw) for _ in range(2))
            expected, found = whole.advance(SWEEPS, keep), advanced(cut, random_pieces(rng), keep)
            compare(found.rows[0], expected.rows[0], same_bytes)
            assert found.flips == expected.flips
            assert len(found.batches[0]) == len(expected.batches[0]) > 3
            for ours, theirs in zip(found.batches[0], expected.batches[0], strict=True):
                compare(ours, theirs, same_bytes)
            compare(cut.open_sums()[0], whole.open_sums()[0], same_bytes)
            compare(cut.totals()[0], whole.totals()[0], same_bytes)
            compare(without_clocks(cut.state()), without_clocks(whole.state()), same_bytes)


@every_case
def test_what_is_kept_does_not_change_the_chain(case):
    """Catches a draw that moves a generator, and rows that are not those of the state at their time."""
    workers = {what: recording(case) for what in kept(case)}
    slices = {what: worker.advance(SWEEPS, Keep(what)) for what, worker in workers.items()}
    for what, worker in workers.items():
        compare(without_clocks(worker.state()), without_clocks(workers["nothing"].state()), same_bytes)
        assert slices[what].rows[0].keys() == worker.empty_rows(what).keys()
    rows = slices["draws"].rows[0]
    assert len(rows["draws"]) == SWEEPS
    assert rows["draws"][-1].tobytes() == workers["draws"].x[0].tobytes()
    few = recording(case).advance(SWEEPS, Keep("draws", 4)).rows[0]
    compare(few, {name: array[3::4] for name, array in rows.items()}, same_bytes)


@every_case
@pytest.mark.parametrize("slots", [2, 6])
def test_batches_add_up_to_one_single_batch(case, slots, monkeypatch):
    """Catches a part of the path that falls between two batches, or into both of them."""
    many = recording(case, slots=slots)
    closed = many.advance(SWEEPS).batches[0]
    single = only_one_batch(recording(case, slots=slots), monkeypatch)
    compare(total([*closed, many.open_sums()[0]]), single.open_sums()[0], close)
    batches = Batches(slots)
    for batch in closed:
        batches.append(batch)
    assert len(batches.closed) == SWEEPS // batch_length(SWEEPS, slots)
    compare(total([*batches.closed, many.open_sums()[0]]), single.open_sums()[0], close)


def only_one_batch(worker, monkeypatch):
    """Advance a worker that closes no batch, and return it."""
    with monkeypatch.context() as patch:
        patch.setattr("bouncy.workers.loop.batch_length", lambda n, most: 1 << 40)
        assert not any(worker.advance(SWEEPS).batches)
    return worker


@pytest.mark.parametrize("pairs", ["none", "edges", "all"])
def test_compiled_reading_of_spins_is_open_sums(pairs, monkeypatch):
    """Catches law tests that read other sums than results do, or leave a rest of them to the next replicate."""
    worker = only_one_batch(recording({"all": "bps-gaussian"}.get(pairs, f"bps-gaussian-{pairs}")), monkeypatch)
    # Replicates have no control variates.
    worker.recorder = worker.recorder._replace(open_state=np.zeros(0), open_spread=np.zeros(0))
    (sums,), duration = worker.open_sums(), SWEEPS * worker.sweep_time
    means = sums["events"][MEANS]
    out = _allocate(1, SPINS.d, sums["pair_path"].size if pairs != "none" else 0)
    _read_spins(worker.recorder, duration, worker.s, out)
    found = {"path": out.path[0] * duration, "mean": out.mean[0] * means, "events": out.events[0]}
    found |= {"state": np.zeros(0), "spread": np.zeros(0)}
    if pairs != "none":
        found |= {"pair_path": out.pair_path[0] * duration, "pair_mean": out.pair_mean[0] * means}
    compare(found, dict(sums), functools.partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-13))
    assert out.s[0].tobytes() == worker.s.tobytes()
    assert not any(array.any() for array in worker.open_sums()[0].values())


def test_compiled_reading_of_paths_is_open_sums(monkeypatch):
    """Catches law tests that read other integrals than results do, or leave a rest of them to the next flight."""
    worker = only_one_batch(recording("path-bps"), monkeypatch)
    (sums,) = worker.open_sums()
    n, d = worker.view.lower.size, 2
    out = Flights(*(np.zeros((1, k)) for k in (d, d, d * d, n, d)), np.zeros((1, d), np.int64), np.zeros((1, d)),
                  np.zeros((1, 4)))  # fmt: skip
    _read_flight(worker.motion, worker.recorder, out)
    found = {"mean": out.mean[0], "square": out.square[0], "products": out.product[0], "cell": out.cell[0]}
    found = {f"path_{name}": array for name, array in found.items()} | {"events": out.events[0]}
    compare(found, {name: sums[name] for name in found}, same_bytes)
    (rest,) = worker.open_sums()
    assert not any(rest[name].any() for name in found)


@kernel
def _read_spins(recorder, duration, s, out):
    read_open_batch(recorder, duration, s, out, 0)


@kernel
def _read_flight(flight, recorder, out):
    read_flight(flight, recorder, 1.0, out, 0)


@every_sampler
def test_path_averages_equal_those_of_the_event_list(sampler):
    """Catches holding times that do not sum to the run's time: the averages are recomputed from hits one by one."""
    fast, slow, d = new_worker(sampler), new_worker(sampler), SPINS.d
    found = total([*fast.advance(SWEEPS).batches[0], *fast.open_sums()])
    integral, pairs, conditional, hits, flips = np.zeros(d), np.zeros((d, d)), [], 0, np.zeros(d, np.int64)
    since = None  # attempts since means were recorded, where they are not recorded at the end of a sweep
    times, sites = np.empty(999), np.empty(999, np.int32)
    purse = slow.toll.purse[0]
    with np.errstate(over="ignore"):
        for _ in range(SWEEPS):
            previous, reached = 0.0, False
            while not reached:
                n, reached = fill(slow.clock, slow.sweep_time, times, sites)
                hits += n
                for t, i in [*zip(times[:n], sites[:n], strict=True), *[(slow.sweep_time, -1)] * int(reached)]:
                    integral += slow.s * (t - previous)
                    pairs += np.outer(slow.s, slow.s) * (t - previous)
                    previous = t
                    if i >= 0:
                        passed, purse = pay(slow.toll, purse, flip_cost(slow.view, slow.s, i), i)
                        if passed:
                            slow.s[i] = -slow.s[i]
                            on_flip(slow.view, slow.s, i)
                            flips[i] += 1
                        since = None if since is None else since + 1
                        if since == d:
                            conditional.append(-np.tanh(SPINS.r + SPINS.M @ slow.s))
                            since = 0
            shift(slow.clock, slow.sweep_time)
            if since is None:
                conditional.append(-np.tanh(SPINS.r + SPINS.M @ slow.s))
                since = 0 if slow.recorder.every != SWEEP_END else None
    assert (fast.s == slow.s).all()
    close(found["path"], integral)
    close(found["pair_path"], pairs.ravel())
    close(found["mean"], np.sum(conditional, axis=0))
    assert found["events"][MEANS] == len(conditional)
    assert found["events"][HITS] == hits
    assert found["events"][FLIPS] == flips.sum()
    assert (fast.totals()[0]["flips"] == flips).all()
