"""Ladders: rungs keep their laws together, swaps are accepted as they must be, and the chain is the lane at b = 1.

Tests of the law start all rungs from exact draws, anew for each replicate. False alarms have probability 1e-6 per
assertion.
"""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.enumeration import states
from bouncy.recorders.ladder import DOWN, FALLING, FORWARD, REVERSE, RISING, ROWS, SWAP, UP, VALUE
from bouncy.workers.contract import Keep, Plan
from bouncy.workers.flock_kernel import settle_flock
from bouncy.workers.ladder import LadderWorker
from conftest import base_seed
from helpers.statistics import chi_square_test, z_test

LADDER = (0.0, 0.3, 0.7, 1.0)
RNG = np.random.default_rng(7)
M = RNG.normal(size=(3, 3)) * 0.8
M = np.triu(M, 1) + np.triu(M, 1).T
R = RNG.normal(size=3) * 0.5
FIELDS = (1.5, -1.0, 0.8)


def log_prob(s):
    """Return log p of a target on which s_0 = s_1 = 1 is forbidden."""
    if s[0] > 0 and s[1] > 0:
        return -np.inf
    return 0.9 * s[0] * s[2] - 0.4 * s[1] + 0.2 * s[2]


def flip_cost(s, i):
    """Return what a flip costs there; only possible states are asked for."""
    if (i == 0 and s[1] > 0 and s[0] < 0) or (i == 1 and s[0] > 0 and s[1] < 0):
        return np.inf
    if i == 2:
        return 2.0 * s[2] * (0.9 * s[0] + 0.2)
    return 1.8 * s[0] * s[2] if i == 0 else -0.8 * s[1]


@functools.cache
def target(name):
    if name == "walls":
        return bouncy.Custom(3, flip_cost, log_prob)
    if name == "cached":  # costs are differences to a log p that is kept
        return bouncy.Custom(3, log_prob=log_prob)
    return bouncy.MRF(scipy.sparse.csr_array(M) if name == "sparse" else M, R)


def ladder(name, base="bps-gaussian", seed=0, **options):
    sampler = bouncy.Tempered(base, **{"ladder": LADDER, "sweeps_per_swap": 1, **options})
    return LadderWorker(target(name), sampler, Plan(slots=4), np.random.SeedSequence([base_seed(), seed]), None)


def laws(name, fields=(0.0, 0.0, 0.0), b=LADDER):
    """Return the probabilities of all states at each rung, (rungs, 8), and the states."""
    s = states(3)
    fields = np.array(fields)
    log_q = -s @ fields - np.logaddexp(fields, -fields).sum()
    log_p = target(name).log_prob(s)
    with np.errstate(invalid="ignore"):
        rows = [log_q if x == 0.0 else (1.0 - x) * log_q + x * log_p for x in b]
    p = np.exp(rows - np.max(rows, axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), s, log_p - log_q


def begin_at(worker, rows):
    """Have the rungs go on from some spins, (rungs, d)."""
    worker.lanes[:, worker.toll.swaps.lane] = rows.T
    worker.since_resync[0] = 0
    settle_flock(worker.view, worker.lanes)


def place(s):
    """Return the index of spins, (..., 3), among all states."""
    return (s > 0).astype(int) @ [1, 2, 4]


CASES = [
    ("dense", "bps-gaussian", "uniform"),
    ("sparse", "gibbs", "uniform"),
    ("dense", "metropolis", FIELDS),
    ("walls", "bps-gaussian", "uniform"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("walls", "gibbs-random", FIELDS), ("cached", "bps-gaussian", "uniform"))
    ),
]


@pytest.mark.parametrize(("name", "base", "reference"), CASES)
def test_the_product_law_stays(name, base, reference):
    """Catches a swap that is accepted by a wrong rule, a lane at another temperature than its rung's, a stale field.

    Joint law of neighbouring rungs after three scans from exact draws: 64 states, 4000 replicates.
    """
    worker = ladder(name, base, reference=reference)
    p, s, _ = laws(name, (0.0, 0.0, 0.0) if reference == "uniform" else reference)
    assert (s[place(s)] == s).all()
    rng = np.random.default_rng([base_seed(), 3])
    counts = np.zeros((len(LADDER) - 1, 8, 8), np.int64)
    for _ in range(4000):
        begin_at(worker, s[[rng.choice(8, p=row) for row in p]])
        worker.advance(3)
        found = place(worker.lanes[:, worker.toll.swaps.lane].T)
        for k, (one, other) in enumerate(itertools.pairwise(found)):
            counts[k, one, other] += 1
    for k, table in enumerate(counts):
        expected = np.outer(p[k], p[k + 1])
        possible = expected > 0.0
        assert table[~possible].sum() == 0
        chi_square_test(table[possible], expected[possible] / expected.sum(), name=f"rungs {k} and {k + 1}").check()


@pytest.mark.parametrize("name", ["dense", "walls"])
def test_swaps_and_sums_are_those_of_enumeration(name):
    """Catches a swap that looks at the wrong rungs, and a sum of log Z with a sign or an offset in the wrong place.

    Means over 64 batches of 500 scans against sums over all pairs of states; an error of 0.1 of any is seen.
    """
    worker = ladder(name)
    type(worker).record_anew([worker])
    worker.offset[:-1] = [0.3, -0.2, 0.1]
    p, _, v = laws(name)
    rows = []
    for _ in range(64):
        worker.advance(500)
        rows.append((worker.seen + worker.sums)[:, :-1] / 500)
        worker.seen[:] = worker.sums[:] = 0.0
    found, step = np.array(rows), np.diff(LADDER)
    expected = np.zeros((ROWS, 3))
    for k, (db, c) in enumerate(zip(step, worker.offset, strict=False)):
        with np.errstate(invalid="ignore"):
            gain = db * (v[:, None] - v)
        pairs = np.outer(p[k], p[k + 1])
        accept = np.where(pairs > 0.0, np.exp(np.minimum(np.nan_to_num(gain, neginf=-np.inf), 0.0)), 0.0)
        expected[SWAP, k] = (pairs * accept).sum()
        up, down = np.exp(db * v - c), np.exp(np.where(p[k + 1] > 0.0, c - db * v, -np.inf))
        expected[UP, k], expected[DOWN, k] = p[k] @ up, p[k + 1] @ down
        expected[FORWARD, k], expected[REVERSE, k] = p[k] @ (up / (1 + up)), p[k + 1] @ (down / (1 + down))
    for row in (SWAP, UP, DOWN, FORWARD, REVERSE):
        z_test(found[:, row], expected[row], detect=0.1, name=str(row)).check()
    at_rungs = np.array([row @ np.where(row > 0.0, v, 0.0) for row in p])[1:-1]
    z_test(found[:, VALUE, 1:], at_rungs, detect=0.1, name="V").check()


def test_swaps_that_are_always_accepted_give_the_round_trips_of_the_closed_form():
    """Catches pairs of one parity that never swap, or a trip that is counted on the way.

    On a flat target each lane moves by one rung per scan, and R of them make one trip each in 2 R scans.
    """
    flat = bouncy.MRF(np.zeros((3, 3)))
    for rungs in (2, 5, 8):
        sampler = bouncy.Tempered("gibbs", ladder=np.linspace(0, 1, rungs), sweeps_per_swap=1)
        worker = LadderWorker(flat, sampler, Plan(slots=4), np.random.SeedSequence(1), None)
        worker.advance(1000)
        assert abs(worker.totals()[0]["trips"][0] - 500) <= rungs


def test_courses_are_counted_by_rung():
    """Catches a lane that is counted where it goes next, at the wrong end, or before it has seen the reference."""
    worker = ladder("dense", "gibbs")
    lane, last, expected = worker.toll.swaps.lane, {}, np.zeros((2, len(LADDER)))
    type(worker).record_anew([worker])
    for _ in range(300):
        for k, n in enumerate(lane):
            if n in last:
                expected[last[n], k] += 1.0
        worker.advance(1)
        last[lane[0]] = 0
        if lane[-1] in last:
            last[lane[-1]] = 1
    found = (worker.seen + worker.sums)[[RISING, FALLING]]
    assert (found == expected).all()
    assert (found[:, 1:-1] > 0).all()
    assert found[1, 0] == found[0, -1] == 0


def test_the_flow_of_states_that_forget_themselves_is_that_of_the_closed_form():
    """Catches lanes that turn around at the wrong end, and counts that favour a parity.

    Gibbs draws independent spins anew in each scan. A lane that goes up meets one that goes down: of those that come
    from the reference, u of the former and w of the latter, u - w = D is the same at all rungs, u falls by D r/(1 - r)
    where a share r of swaps is refused, from 1 to D. 64 batches of 4000 scans; an error of 0.02 is seen.
    """
    sampler = bouncy.Tempered("gibbs", ladder=np.linspace(0.0, 1.0, 6), sweeps_per_swap=1)
    fields = bouncy.MRF(np.zeros((3, 3)), [3.0, 1.5, -2.4])
    worker = LadderWorker(fields, sampler, Plan(slots=4), np.random.SeedSequence([base_seed(), 4]), None)
    worker.advance(200)
    type(worker).record_anew([worker])
    flow, refused = [], []
    for _ in range(64):
        worker.seen[:] = worker.sums[:] = 0.0
        worker.advance(4000)
        sums = worker.seen + worker.sums
        flow.append(sums[RISING] / sums[[RISING, FALLING]].sum(axis=0))
        refused.append(1.0 - sums[SWAP, :-1] / 4000)
    flow, falls = np.array(flow), np.mean(refused, axis=0)
    falls = falls / (1.0 - falls)
    D = 1.0 / (1.0 + falls.sum())
    assert (flow[:, 0] == 1.0).all()
    assert (flow[:, -1] == 0.0).all()
    expected = 1.0 - D * np.cumsum(falls)[:-1] - D / 2.0
    assert np.ptp(np.diff(expected)) > 0.05, "a straight line must be told from it"
    z_test(flow[:, 1:-1], expected, detect=0.02, name="flow").check()


@pytest.mark.parametrize("name", ["dense", "sparse", "walls"])
def test_the_chain_is_the_lane_at_one(name):
    """Catches draws of another rung, log p or V of other spins, and flips that the path misses when lanes trade."""
    worker = ladder(name, seed=5)
    kept = worker.advance(200, Keep("draws"))
    path = ladder(name, seed=5).advance(200, Keep("path"))
    draws, values = kept.rows[0]["draws"], kept.rows[0]["ladder"]
    assert np.allclose(kept.rows[0]["log_prob"], target(name).log_prob(draws), atol=1e-12)
    assert np.allclose(values[:, -1], target(name).log_prob(draws) + 3 * np.log(2.0), atol=1e-12)
    assert len(np.unique(draws, axis=0)) > 3
    s, ends = worker.s.copy(), np.cumsum(path.rows[0]["flip_count"])
    for k in range(199, 0, -1):  # back from the end
        for site in path.rows[0]["flip_site"][ends[k - 1] : ends[k]][::-1]:
            s[site] *= -1
        assert (s == draws[k - 1]).all()
    lanes = worker.lanes[:, worker.toll.swaps.lane].T
    assert np.isfinite(target(name).log_prob(lanes[1:])).all()
    assert worker.best_log_prob[0] == pytest.approx(target(name).log_prob(worker.best), abs=1e-12)
    assert worker.best_log_prob[0] >= kept.rows[0]["log_prob"].max() - 1e-12


def test_rung_zero_forgets():
    """Catches a reference that is never drawn anew: sites that are tried at b = 0 do not depend on what they were."""
    worker = ladder("dense", "metropolis")
    ones = np.ones((4, 3), np.int8)
    rng, rows = np.random.default_rng(base_seed()), []
    for _ in range(2000):
        begin_at(worker, ones)
        lane = int(worker.toll.swaps.lane[0])
        worker.toll.swaps.rng[:] = rng.integers(1, 2**63, 4, dtype=np.uint64)
        worker.advance(1)
        rows.append(worker.lanes[:, lane].astype(float))
    z_test(np.array(rows).reshape(100, 20, 3).mean(axis=1), np.zeros(3), detect=0.3, name="reference").check()


def test_a_target_that_hides_log_p_behind_walls_is_refused():
    """Catches 0 times infinity at the reference: costs alone do not tell what is behind a wall."""
    hidden = bouncy.Custom(4, flip_cost=lambda s, i: np.inf if i == 0 else 0.1 * s[i])
    with pytest.raises(bouncy.TargetError, match="give log_prob too"):
        bouncy.sample(hidden, "tempered", chains=1, draws=50, seed=0, pairs="none", initial=[1, 1, 1, 1])


@pytest.mark.parametrize("compile", [True, False])
def test_a_function_that_fails_stops_its_ladder(compile):
    """Catches a NaN at any rung that goes on as a cost, and an error that does not say where it happened."""

    def broken(s):
        if s[0] > 0 and s[1] > 0 and s[2] > 0:
            return np.nan
        return 0.5 * s[0] * s[1]

    target = bouncy.Custom(3, log_prob=broken, compile=compile)
    with pytest.raises(bouncy.TargetError, match="returned nan") as caught:
        bouncy.sample(target, "tempered", chains=1, draws=500, seed=0, pairs="none")
    assert caught.value.state.shape == (3,)


def test_forged_ladders_are_refused():
    """Catches two rungs in one lane, which would leave another lane without a temperature of its own."""
    worker = ladder("dense")
    worker.advance(5)
    state = worker.state()
    state["toll.swaps.lane"][0] = state["toll.swaps.lane"][1]
    with pytest.raises(ValueError, match="each rung a lane of its own"):
        worker.restore(state)


def test_lanes_of_other_ladders_are_refused():
    """Catches rungs in lanes of the other ladder of a pair, where nobody looks: memory would be overwritten."""
    worker = ladder("sparse", "metropolis", clusters=[1])
    worker.advance(5)
    state = worker.state()
    state["toll.swaps.lane"][:] = state["toll.swaps.lane"][::-1].copy()
    with pytest.raises(ValueError, match="among those of its ladder"):
        worker.restore(state)
