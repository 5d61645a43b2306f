"""Pairs of ladders: clusters that they exchange keep log p of both together, and the law of each rung.

False alarms have probability 1e-6 per assertion.
"""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

import bouncy
from bouncy.enumeration import states
from bouncy.recorders.contract import MEANS
from bouncy.workers.contract import Plan
from bouncy.workers.flock_kernel import settle_flock
from bouncy.workers.ladder import LadderWorker
from conftest import base_seed
from helpers.lanes import costs_of_view, trade_in_view
from helpers.statistics import chi_square_test

LADDER = (0.0, 0.4, 1.0)
# An open chain of four spins in fields: states can differ at sites that are not neighbours.
EDGES = scipy.sparse.diags_array([0.9, -0.7, 0.8], offsets=1, shape=(4, 4))
CHAIN = bouncy.MRF(scipy.sparse.csr_array(EDGES + EDGES.T), [0.3, -0.2, 0.0, 0.4])
# Factors of two sites in a row, and terms of three: state 1 1 of the first two sites is impossible.
WALLS = bouncy.FactorGraph(
    [((0, 1), [[1.4, 1.0], [0.5, 0.0]]), ((1, 2), [[1.6, 0.7], [1.0, 2.0]]), ((2, 3), [[2.5, 1.0], [1.2, 1.5]])]
)
TERMS = bouncy.Polynomial({(0, 1): 0.8, (1, 2): -0.9, (2, 3, 4): 0.7, (0,): 0.2, (4,): -0.3})
PAIR = bouncy.Tempered(ladder=LADDER, sweeps_per_swap=1, clusters=[1, 2])


def glass(d=30, seed=0):
    """Return a sparse glass on a random graph of degree 3 or so, in fields."""
    rng = np.random.default_rng(seed)
    J = np.triu(np.where(rng.random((d, d)) < 3 / d, rng.normal(size=(d, d)), 0.0), 1)
    return bouncy.MRF(scipy.sparse.csr_array(J + J.T), rng.normal(0.0, 0.3, d))


def worker(target=CHAIN, sampler=PAIR, pairs="none", seed=0):
    return LadderWorker(target, sampler, Plan(slots=4, pairs=pairs), np.random.SeedSequence([base_seed(), seed]), None)


def test_a_cluster_is_a_component_of_the_sites_that_differ():
    """Catches a cluster that ends too early, or leaks over a site at which states agree."""
    target, rng = glass(), np.random.default_rng(base_seed())
    edges, view = target.edges(), target.lanes(8, ladder=True)
    queue = np.empty(target.d + 1, np.int64)
    sizes = set()
    for _ in range(200):
        s = rng.choice(np.array([-1, 1], np.int8), (target.d, 8))
        differs = s[:, 2] != s[:, 5]
        start = rng.choice(np.flatnonzero(differs))
        _, label = connected_components(edges[differs][:, differs], directed=False)
        cluster = np.flatnonzero(differs)[label == label[np.flatnonzero(differs) == start]]
        expected = s.copy()
        expected[np.ix_(cluster, [2, 5])] = s[np.ix_(cluster, [5, 2])]
        before = target.log_prob(s.T)
        assert trade_in_view(view, s, start, 2, 5, queue, np.append(differs, 0).astype(np.uint8)) == cluster.size
        assert (s == expected).all()
        assert target.log_prob(s[:, [2, 5]].T).sum() == pytest.approx(before[[2, 5]].sum(), abs=1e-9)
        sizes.add(cluster.size)
    assert {1, 2, 3, 4} <= sizes, "clusters of several sizes must be met"


@pytest.mark.parametrize(
    ("target", "replicates"),
    [(CHAIN, 20_000), (WALLS, 5_000), pytest.param(TERMS, 50_000, marks=pytest.mark.slow)],
    ids=["couplings", "factors", "terms"],
)
def test_both_ladders_keep_their_law(target, replicates):
    """Catches clusters that change log p, energies that are read before an exchange, and ladders that share lanes.

    Joint law of both ladders at each rung after three scans from exact draws: 256 states, or 1024 of terms. The
    reference takes impossible states too.
    """
    ladders, s = worker(target), states(target.d)
    log_p, n = target.log_prob(s), len(s)
    p = np.stack([np.ones(n), *(np.exp(b * log_p) for b in LADDER[1:])])
    p /= p.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([base_seed(), 1])
    counts = np.zeros((3, n, n), np.int64)
    lane, rungs = ladders.toll.swaps.lane, np.tile(np.arange(3), 2)
    starts = np.stack([rng.choice(n, replicates, p=p[k]) for k in rungs], axis=1)
    for row in starts:
        ladders.lanes[:, lane] = s[row].T
        settle_flock(ladders.view, ladders.lanes)
        ladders.advance(3)
        found = (ladders.lanes[:, lane].T > 0) @ 2 ** np.arange(target.d)
        counts[np.arange(3), found[:3], found[3:]] += 1
    for k in range(3):
        chi_square_test(counts[k].ravel(), np.outer(p[k], p[k]).ravel(), name=f"rung {k}").check()
    assert ladders.toll.swaps.met[0, 1:].min() > 0, "clusters must be exchanged at both rungs"
    assert ladders.toll.swaps.met[0, 0] == 0, "the reference has nothing to exchange"


@pytest.mark.parametrize("target", [WALLS, TERMS], ids=["factors", "terms"])
def test_caches_are_those_of_the_spins_after_an_exchange(target):
    """Catches functions that go on with the caches, or the spins, of before an exchange."""
    ladders = worker(target, seed=5)
    ladders.advance(20)
    assert ladders.toll.swaps.met[1, 1:].min() > 0
    assert (ladders.view.spins == ladders.lanes.T).all()
    cost, fresh = np.empty((2, target.d, 1, 6))
    costs_of_view(ladders.view, ladders.lanes, cost)
    settle_flock(ladders.view, ladders.lanes)
    costs_of_view(ladders.view, ladders.lanes, fresh)
    np.testing.assert_allclose(cost, fresh, rtol=0, atol=1e-12)


def test_means_are_those_of_both_ladders():
    """Catches means of one ladder counted twice, and pairs of the spins of one with the means of the other."""
    ladders = worker(pairs="all", seed=3)
    type(ladders).record_anew([ladders])
    lane = ladders.toll.swaps.lane
    mean, pairs = np.zeros(4), np.zeros((4, 4))
    batches = []
    for _ in range(50):
        ladders.toll.swaps.clusters[:] = False  # so that spins at the end of a scan are those that were recorded,
        tops = [int(k) for k in lane[[2, 5]]]
        batches += ladders.advance(1).batches[0]
        for k in tops:  # but for the place on the ladder
            s = ladders.lanes[:, k].astype(float)
            t = -np.tanh(CHAIN.r + CHAIN.M @ s)
            mean += t
            pairs += 0.5 * (np.outer(s, t) + np.outer(t, s))
    sums = [*batches, *ladders.open_sums()]
    assert sum(batch["events"][MEANS] for batch in sums) == 100
    assert sum(batch["mean"] for batch in sums) == pytest.approx(mean, abs=1e-9)
    off = ~np.eye(4, dtype=bool)
    assert sum(batch["pair_mean"] for batch in sums).reshape(4, 4)[off] == pytest.approx(pairs[off], abs=1e-9)


@pytest.mark.parametrize("target", [CHAIN, WALLS, TERMS], ids=["couplings", "factors", "terms"])
def test_a_run_of_pairs_agrees_with_enumeration(target):
    """Catches sums of log Z that count both ladders twice, and means or pairs of the wrong lanes."""
    run = bouncy.sample(target, PAIR, chains=4, draws=4000, pairs="all", seed=base_seed())
    exact = bouncy.exact(target)
    assert np.abs((run.mean - exact.mean) / run.mean_se).max() < 6.0
    off = ~np.eye(target.d, dtype=bool)
    assert np.abs((run.pair_mean - exact.pair_mean)[off] / run.pair_mean_se[off]).max() < 6.0
    assert run.mean_se.max() < 0.02
    assert abs(run.log_z - exact.log_z) < 6.0 * run.log_z_se < 0.2
    low, high = run.log_z_bounds
    assert abs(low - exact.log_z) < 0.2
    possible = np.isfinite(target.log_prob(states(target.d))).mean()  # the reverse estimate does not see the rest
    assert abs(high + np.log(possible) - exact.log_z) < 0.2
    ladder = run.ladder
    assert 0.5 < ladder.round_trips.sum() / (4 * ladder.expected_round_trips) < 1.2
    assert "clusters exchanged at 2 of them" in str(run.summary())


def test_the_pilot_finds_rungs_with_clusters():
    """Catches a pilot that exchanges clusters where all sites are coupled, or never."""
    sparse = glass(60, seed=1).tempered(2.0)
    found, _ = bouncy.Tempered(rungs=8).prepared(sparse, np.random.SeedSequence(0))
    assert found.ladders == 2
    assert min(found.clusters) >= 4
    dense = bouncy.MRF.random(20, sigma_M=1.0, seed=0)
    found, _ = bouncy.Tempered(rungs=8).prepared(dense, np.random.SeedSequence(0))
    assert found.clusters == ()
    without, _ = bouncy.Tempered(rungs=8, clusters=False).prepared(sparse, np.random.SeedSequence(0))
    assert without.ladders == 1


@pytest.mark.parametrize("clusters", ["all", [0], [3], [1, 1], [1.5], 3])
def test_rungs_that_cannot_be_are_refused(clusters):
    """Catches clusters at the reference, at rungs that do not exist, and twice at one."""
    with pytest.raises((ValueError, TypeError), match="clusters"):
        bouncy.Tempered(ladder=LADDER, clusters=clusters)


def test_targets_without_clusters_are_refused():
    """Catches a pair of ladders that costs twice as much and exchanges nothing."""
    with pytest.raises(ValueError, match="sparse couplings"):
        bouncy.sample(bouncy.MRF.random(5, seed=0), PAIR, draws=10, seed=0)
