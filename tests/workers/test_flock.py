"""Flocks: lanes are the chains of a plain loop that meets the same hits, each with a law and random numbers of its own.

Given the path of their clock, lanes are independent, and each keeps p. Tests of the law start from exact draws, so that
counts over lanes are those of independent draws whatever the clock did, and averages have their exact means. False
alarms have probability 1e-6 per assertion.
"""

import functools

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy._lane_loop import padded
from bouncy.enumeration import exact, states
from bouncy.recorders.contract import FLIPS, HITS, MEANS, SWEEP_END
from bouncy.recorders.lanes import clear_lanes
from bouncy.recorders.recorder import new_recorder, open_sums
from bouncy.samplers import as_sampler
from bouncy.targets.contract import init
from bouncy.workers.contract import Keep, Plan
from bouncy.workers.flock import FlockWorker
from bouncy.workers.flock_kernel import RESYNC, settle_flock
from bouncy.workers.kernel import run_sweeps
from bouncy.workers.spins import new_pairs
from conftest import base_seed
from helpers.lanes import LaneLike, Numbers, Twin
from helpers.replicates import exact_draws, state_counts
from helpers.statistics import chi_square_test, z_test
from workers.cases import advanced, compare, same_bytes, total

SAMPLERS = ("bps-gaussian", "bps-exponential", "metropolis", "metropolis-random", "gibbs", "gibbs-random")
STORAGES = ("dense", "sparse")
close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
# Conditional means of lanes are rounded to single precision.
close_means = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-5)


def close_sums(found, expected):
    """Compare sums over a batch, but for the variances, which lanes record at fewer times."""
    for name, array in expected.items():
        if name != "spread":
            (close_means if name.endswith("mean") else close)(found[name], array)


every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
both_storages = pytest.mark.parametrize("storage", STORAGES)


def eighths(d, share, seed):
    """Return M and r whose entries are multiples of 1/8, so that no cost is ever rounded, and M has some zeros."""
    rng = np.random.default_rng(seed)
    M = np.triu(rng.integers(-4, 5, (d, d)) * (rng.random((d, d)) < share), 1) / 8
    return M + M.T, rng.integers(-3, 4, d) / 8


def stored(M, r, storage):
    return bouncy.MRF(scipy.sparse.csr_array(M) if storage == "sparse" else M, r)


def flock(target, sampler="bps-gaussian", chains=11, *, pairs="none", seed=4, starts=None, width=None, **plan):
    """Return a flock that has made no sweeps."""
    seeds = np.random.SeedSequence([base_seed(), seed]).spawn(chains)
    plan = Plan(**{"per_draw": 1, "slots": 4, "pairs": pairs, "lanes": chains, **plan})
    starts = [None] * chains if starts is None else list(starts)
    return FlockWorker(target, as_sampler(target, sampler), plan, seeds, starts, 0, width or padded(chains))


def begin_at(worker, s):
    """Have all lanes of a flock, (d, lanes), go on from other spins, with a new batch."""
    worker.s[...] = s
    worker.since_resync[0] = 0
    worker.recorder.due[0] = SWEEP_END
    settle_flock(worker.view, worker.s)
    clear_lanes(worker.recorder)


# --- L1: the same events ----------------------------------------------------------------------------------------------


SMALL = eighths(5, 0.7, seed=3)
LARGE = eighths(20, 0.6, seed=5)  # changes of its fields are put off, and sites have more than four neighbours
TWINS = [(sampler, storage, "small") for sampler in SAMPLERS for storage in STORAGES]
TWINS += [("bps-gaussian", storage, "large") for storage in STORAGES]


@pytest.mark.parametrize(("sampler", "storage", "size"), TWINS)
def test_lanes_are_chains_of_a_plain_loop(sampler, storage, size):
    """Catches random numbers of another lane, stale fields, a wrong rule, and sums that miss a part of the path.

    Plain Python from the same hits and the same numbers; s and log p to the last bit after each sweep. After 20 of them
    everything is computed anew.
    """
    target = stored(*(SMALL if size == "small" else LARGE), storage)
    workers = {pairs: flock(target, sampler, pairs=pairs) for pairs in ("all", "edges", "none")}
    batches = {pairs: [[] for _ in range(worker.chains)] for pairs, worker in workers.items()}
    twin = Twin(flock(target, sampler), target)
    for worker in workers.values():
        worker.since_resync[0] = RESYNC - 20
    sweeps = 50 if size == "small" else 12
    for _ in range(sweeps):
        twin.sweep()
        for pairs, worker in workers.items():
            made = worker.advance(1, Keep("means"))
            for found, new in zip(batches[pairs], made.batches, strict=True):
                found += new
            assert worker.x.tolist() == twin.s.tolist()
            assert [rows["log_prob"][0] for rows in made.rows] == [twin.log_prob(s) for s in twin.s]
    at_once = flock(target, sampler)
    at_once.advance(sweeps)
    assert at_once.x.tolist() == twin.s.tolist()
    pattern = scipy.sparse.triu(target.edges()).toarray()
    for pairs, worker in workers.items():
        for found, own, expected in zip(batches[pairs], worker.open_sums(), twin.sums, strict=True):
            sums = total([*found, own])
            close(sums["path"], expected.path)
            close_means(sums["mean"], expected.mean)
            assert sums["events"].tolist() == expected.events.tolist()
            for name, matrix in (("pair_path", expected.pair_path), ("pair_mean", expected.pair_mean)):
                if pairs == "all":
                    close_means(sums[name].reshape(matrix.shape), matrix - np.diag(np.diag(matrix)))
                elif pairs == "edges":
                    close_means(sums[name], matrix[pattern])
                else:
                    assert name not in sums
        assert sum(part["flips"] for part in worker.totals()).tolist() == twin.flips.tolist()


@every_sampler
@both_storages
def test_a_flock_of_one_lane_is_a_chain(sampler, storage):
    """Catches a difference between the two loops: the scalar one, with a toll that reads the lane's random numbers."""
    target = stored(*SMALL, storage)
    worker, other = (flock(target, sampler, 1, pairs="edges", slots=2) for _ in range(2))
    found = [batch for _ in range(100) for batch in worker.advance(1).batches[0]]
    s, view = other.x[0].copy(), target.view()
    init(view, s)
    recorder = new_recorder(target.d, new_pairs(target, "edges"), "bps" in sampler, controls=True)
    toll = LaneLike(Numbers(other.rng[:, 0].copy()), worker.toll.bath[0], np.zeros(1))
    flips, times, sites = np.zeros(1, np.int64), np.empty(9), np.empty(9, np.int32)
    with np.errstate(over="ignore"):
        for _ in range(100):
            toll.numbers.begin_sweep()
            assert run_sweeps(other.clock, toll, view, recorder, s, flips, times, sites, other.sweep_time, 1) == 0
    assert s.tolist() == worker.x[0].tolist()
    assert toll.numbers.rng.tolist() == worker.rng[:, 0].tolist()
    close_sums(total([*found, *worker.open_sums()]), open_sums(recorder, s))
    assert worker.totals()[0]["flips"].tolist() == recorder.flips.tolist()


# --- L2: the law ------------------------------------------------------------------------------------------------------

WIDTH, ROUNDS, SWEEPS = 1024, 180, 3
FRUSTRATED = bouncy.MRF.random(5, sigma_M=0.4, sigma_r=0.3, seed=1)


def rounds(worker, draw):
    """Yield final spins, (lanes, d), and averages, (lanes, d), of many flocks of lanes that begin at draw(generator).

    Averages are those of the path and of conditional means.
    """
    generator = np.random.default_rng([base_seed(), 8])
    for _ in range(ROUNDS):
        begin_at(worker, draw(generator).T)
        worker._run(SWEEPS)
        path = worker.recorder.open_path + worker.s * worker.recorder.elapsed[0]
        yield (
            worker.s.T.copy(),
            path.T / (SWEEPS * worker.sweep_time),
            (worker.recorder.open_mean / worker.recorder.open_events[MEANS]).T,
        )


@every_sampler
@both_storages
def test_lanes_keep_the_law(sampler, storage):
    """Catches a wrong rule or field: sees 0.015 in total variation of the final state, 0.015 in means of a site."""
    dense = FRUSTRATED.M
    target = stored(dense, FRUSTRATED.r, storage)
    truth = exact(target)
    worker = flock(target, sampler, 1, width=WIDTH)
    pick = functools.partial(np.random.Generator.choice, a=32, size=WIDTH, p=truth.probabilities)
    found = [np.concatenate(part) for part in zip(*rounds(worker, lambda rng: states(5)[pick(rng)]), strict=True)]
    s, path, mean = found
    chi_square_test(state_counts(s), truth.probabilities, detect=0.015, smallest_expected=50).check()
    z_test(path, truth.mean, detect=0.015, name="time average").check()
    z_test(mean, truth.mean, detect=0.015, name="conditional mean").check()


@pytest.mark.parametrize(("sampler", "storage"), [("bps-gaussian", "dense"), ("gibbs", "sparse")])
def test_lanes_have_temperatures_of_their_own(sampler, storage):
    """Catches one lane's b used for all, fields of q left out, or log p of the tempered law in place of p.

    Lanes with b = 0, 0.3 and 1 between q, which has fields g, and p: as above, sees 0.025 for each b.
    """
    target = stored(FRUSTRATED.M, FRUSTRATED.r, storage)
    g, weights = np.array([0.5, -0.4, 0.0, 0.3, -0.6]), np.array([0.0, 0.3, 1.0])
    worker = flock(target, sampler, 1, width=WIDTH)
    place = np.arange(WIDTH) % 3
    worker.toll.weight[:], worker.toll.rest[:], worker.toll.reference[:] = weights[place], 1.0 - weights[place], g
    laws = [exact(bouncy.MRF(b * FRUSTRATED.M, b * FRUSTRATED.r + (1 - b) * g)) for b in weights]

    def draw(rng):
        numbers = np.empty(WIDTH, np.int64)
        for k, law in enumerate(laws):
            numbers[place == k] = rng.choice(32, size=(place == k).sum(), p=law.probabilities)
        return states(5)[numbers]

    s, path, mean = (np.array(part) for part in zip(*rounds(worker, draw), strict=True))
    for k, law in enumerate(laws):
        spins, paths, means = (part[:, place == k].reshape(-1, 5) for part in (s, path, mean))
        chi_square_test(state_counts(spins), law.probabilities, detect=0.025, smallest_expected=50).check()
        z_test(paths, law.mean, detect=0.025, name=f"time average, b = {weights[k]}").check()
        if weights[k] == 0.0:  # they do not depend on the spins
            close_means(means, np.broadcast_to(law.mean, means.shape))
        else:
            z_test(means, law.mean, detect=0.025, name=f"conditional mean, b = {weights[k]}").check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "storage"),
    [("bps-gaussian", "dense"), *(pytest.param(one, "sparse", marks=pytest.mark.slow) for one in SAMPLERS)],
)
def test_lanes_are_uncorrelated(sampler, storage):
    """Catches random numbers that lanes share: sees an average correlation of 0.001 between batch means of lanes.

    One stationary flock of 64 lanes. Of x, the difference of a lane's batch mean from the exact mean, the mean of
    products x_j x_k over all j != k has expectation 0. It is ((sum x)^2 - sum x^2) / (64 63), whose standard deviation
    is sqrt(2 / (64 63)) variances of x: from 54,000 batches, 1e-4. Batches of 12 sweeps are nearly independent.
    """
    d, lanes, batch, per_chunk = 6, 64, 12, 300
    model = bouncy.MRF.random(d, sigma_M=0.25, sigma_r=0.3, seed=2)
    target, truth = stored(model.M, model.r, storage), exact(model)
    worker = flock(target, sampler, lanes, starts=exact_draws(model, lanes, base_seed()))
    expected = np.array([*truth.mean, truth.mean.mean(), truth.log_prob_mean])
    products, squares = [], np.zeros(d + 2)
    for _ in range(180):
        rows = worker.advance(batch * per_chunk, Keep("draws")).rows
        x = np.stack([batch_means(row, batch) for row in rows]) - expected  # (lanes, batches, d + 2)
        products.append(x.sum(axis=0) ** 2 - (x**2).sum(axis=0))
        squares += (x**2).mean(axis=(0, 1))
    correlation = np.concatenate(products) / (lanes * (lanes - 1) * squares / len(products))
    z_test(correlation, 0.0, detect=1e-3, name="correlation of lanes").check()


def batch_means(rows, length):
    """Return the means of all spins, of the magnetisation and of log p over batches of draws, (batch, d + 2)."""
    spins = rows["draws"].reshape(-1, length, rows["draws"].shape[1]).mean(axis=1)
    others = [rows[name].reshape(-1, length).mean(axis=1) for name in ("magnetisation", "log_prob")]
    return np.column_stack([spins, *others])


# --- slices, rows, lanes that are idle --------------------------------------------------------------------------------

MODEL = stored(*LARGE, "dense")


def recording(chains, **options):
    """Return a flock that has made some sweeps, in two stages as in a warm-up, and begins to record."""
    worker = flock(MODEL, chains=chains, pairs="all", **options)
    for sweeps in (4, 3):
        worker.advance(sweeps)
        FlockWorker.record_anew([worker])
    return worker


def without_time(state):
    return {name: array for name, array in state.items() if name != "cpu_seconds"}


@pytest.mark.parametrize("chains", [1, 11, 13])
@pytest.mark.parametrize(("what", "spacing", "per_draw"), [("draws", 1, 1), ("means", 2, 3), ("nothing", 1, 1)])
def test_slices_leave_no_trace_in_any_lane(chains, what, spacing, per_draw):
    """Catches sums, draws, batches or changes put off that begin anew with a slice, also where rows have idle lanes."""
    keep, pieces = Keep(what, spacing), (1, 1, 30, 2, 7, 26)
    whole, cut = (recording(chains, per_draw=per_draw) for _ in range(2))
    expected, found = whole.advance(sum(pieces), keep), advanced(cut, pieces, keep)
    assert found.flips == expected.flips
    for ours, theirs in zip(found.rows, expected.rows, strict=True):
        compare(ours, theirs, same_bytes)
    for ours, theirs in zip(found.batches, expected.batches, strict=True):
        assert len(ours) == len(theirs) > 2
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other, same_bytes)
    for ours, theirs in zip([*cut.open_sums(), *cut.totals()], [*whole.open_sums(), *whole.totals()], strict=True):
        compare(ours, theirs, same_bytes)
    compare(without_time(cut.state()), without_time(whole.state()), same_bytes)


@pytest.mark.parametrize("chains", [1, 11])
def test_rows_are_those_of_the_states(chains):
    """Catches rows of another lane or another sweep, and a log p or magnetisation that is not that of the spins."""
    worker, steps = recording(chains), recording(chains)
    found = worker.advance(9, Keep("draws"))
    seen = []
    for _ in range(9):
        steps.advance(1)
        seen.append(steps.x)
    for k, rows in enumerate(found.rows):
        assert rows["draws"].tolist() == [x[k].tolist() for x in seen]
        np.testing.assert_allclose(rows["log_prob"], MODEL.log_prob(rows["draws"]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(rows["magnetisation"], rows["draws"].mean(axis=1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("chains", [1, 3, 11])
def test_idle_lanes_are_never_seen(chains):
    """Catches lanes that only fill a row, and come up as chains or are counted with them."""
    worker = recording(chains)
    found = worker.advance(40, Keep("draws"))
    assert worker.chains == len(found.rows) == len(found.batches) == len(found.flips) == len(worker.x) == chains
    assert len(worker.open_sums()) == len(worker.totals()) == chains
    sums = [total([*batches, own])["events"] for batches, own in zip(found.batches, worker.open_sums(), strict=True)]
    assert [events[FLIPS] for events in sums] == found.flips
    assert sum(part["flips"] for part in worker.totals()).sum() == sum(found.flips)
    assert worker.bytes_per_sweep(Keep("draws")) == chains * (MODEL.d + 16)


def test_lanes_do_not_depend_on_the_length_of_the_row():
    """Catches lanes whose random numbers or sums depend on how many others there are room for."""
    narrow, wide = (recording(3, width=width) for width in (8, 24))
    for ours, theirs in zip(narrow.advance(40).batches, wide.advance(40).batches, strict=True):
        compare(total(ours), total(theirs), close)
    assert narrow.x.tolist() == wide.x.tolist()


def test_chains_begin_where_they_are_told_to():
    """Catches starts that are given to another chain, or random ones that are the same in all of them."""
    starts = states(5)[3:14]
    assert flock(stored(*SMALL, "dense"), starts=starts).x.tolist() == starts.tolist()
    random = flock(MODEL).x
    assert len({tuple(s) for s in random.tolist()}) == 11


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", STORAGES)
def test_a_flock_goes_on_in_another_worker(storage):
    """Catches a part of the state that is left out: in the same worker, a fresh one, and one with more chains.

    The number of lanes is part of a state, so that one worker can stand in for all of a run.
    """
    target = stored(*LARGE, storage)
    worker = flock(target, chains=11, pairs="edges")
    worker.advance(13)
    state, outcomes = worker.state(), []
    for one in (
        worker,
        worker,
        flock(target, chains=11, pairs="edges", seed=9),
        flock(target, chains=13, pairs="edges"),
    ):
        if outcomes:
            one.restore(state)
        found = one.advance(70, Keep("draws"))
        assert one.chains == 11
        outcomes.append((without_time(one.state()), found))
    (expected, whole), *others = outcomes
    for after, found in others:
        compare(after, expected, same_bytes)
        assert found.flips == whole.flips
        for ours, theirs in zip(found.rows, whole.rows, strict=True):
            compare(ours, theirs, same_bytes)
        for ours, theirs in zip(found.batches, whole.batches, strict=True):
            for batch, other in zip(ours, theirs, strict=True):
                compare(batch, other, same_bytes)


def test_recording_anew_forgets_all_sums():
    """Catches sums, flips or time of a warm-up that go into results."""
    worker = recording(3)
    for sums in worker.open_sums():
        assert not any(array.any() for array in sums.values())
    assert not any(part["flips"].any() for part in worker.totals())
    assert worker.recorder.elapsed[0] == 0.0
    assert (worker.sweeps, worker.begun) == (7, 7)


def test_impossible_states_are_refused():
    """Catches what is no spin, a generator of zeros in a single lane, and more lanes than there is room for."""
    worker = recording(11)
    worker.advance(20)
    state = worker.state()
    for name, place, value in (
        ("s", (2, 3), 0), ("s", (2, 3), 2), ("s", (0, 15), -128), ("toll.rng", (slice(None), 4), 0),
        ("lanes", 0, 0), ("lanes", 0, -1), ("lanes", 0, 17), ("since_resync", 0, -1), ("since_resync", 0, RESYNC),
        ("view.kept", (1, 2), np.nan), ("toll.weight", 1, np.nan),
    ):  # fmt: skip
        bad = {key: array.copy() for key, array in state.items()}
        bad[name][place] = value
        with pytest.raises(ValueError, match=r"out of range|spins, -1 or 1"):
            worker.restore(bad)
        compare(worker.state(), state, same_bytes)
    worker.restore({**state, "lanes": np.array([16]), "since_resync": np.array([RESYNC - 1])})


# --- odd targets ------------------------------------------------------------------------------------------------------


@every_sampler
def test_one_site(sampler):
    """Catches a loop that needs a second site; its conditional mean is exact whatever the spins are."""
    worker = flock(bouncy.MRF([[0.0]], [0.3]), sampler, 13, pairs="all")
    found = worker.advance(40, Keep("draws"))
    for batches, own in zip(found.batches, worker.open_sums(), strict=True):
        sums = total([*batches, own])
        close_means(sums["mean"] / sums["events"][MEANS], -np.tanh([0.3]))
    assert {int(s) for rows in found.rows for s in rows["draws"].ravel()} == {-1, 1}


@pytest.mark.parametrize("storage", STORAGES)
@every_sampler
def test_a_flat_target(sampler, storage):
    """Catches ties that are refused: a flip that costs nothing always passes, but for the heat bath, where half do."""
    worker = flock(stored(np.zeros((4, 4)), np.zeros(4), storage), sampler)
    found = worker.advance(400)
    for batches, own in zip(found.batches, worker.open_sums(), strict=True):
        events = total([*batches, own])["events"]
        assert events[HITS] > 1000
        if "gibbs" in sampler:
            assert abs(events[FLIPS] / events[HITS] - 0.5) < 5.5 * 0.5 / np.sqrt(events[HITS])
        else:
            assert events[FLIPS] == events[HITS]


def test_more_flips_than_a_byte_can_count():
    """Catches flips that are lost in long sweeps, or counted twice: on a flat target every hit is one."""
    worker = flock(stored(np.zeros((300, 300)), np.zeros(300), "sparse"), "metropolis")
    found = worker.advance(7)
    for batches, own in zip(found.batches, worker.open_sums(), strict=True):
        events = total([*batches, own])["events"]
        assert events[FLIPS] == events[HITS] == 7 * 300


@every_sampler
def test_frozen_lanes(sampler):
    """Catches costs beyond the largest exponent that pass, or turn into NaN: each spin goes downhill once, for good."""
    r = np.array([1e3, -1e5, 1e12, -1e3, 1e300])
    target = bouncy.MRF(np.zeros((5, 5)), r)
    worker = flock(target, sampler)
    starts = worker.x
    found = worker.advance(200, Keep("means"))
    assert (worker.x == -np.sign(r)).all()
    assert worker.totals()[0]["flips"].tolist() == (starts != -np.sign(r)).sum(axis=0).tolist()
    for rows in found.rows:
        assert rows["log_prob"][-1] == pytest.approx(np.abs(r).sum(), rel=1e-15)
