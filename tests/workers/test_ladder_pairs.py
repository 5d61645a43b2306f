"""Several ladders: clusters that pairs exchange keep log p of both together, and the law of each rung.

False alarms have probability 1e-6 per assertion.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

import bouncy
from bouncy._random import new_state
from bouncy.enumeration import states
from bouncy.recorders.contract import MEANS
from bouncy.targets._clusters import ALONE, new_partners
from bouncy.workers.contract import Plan
from bouncy.workers.flock_kernel import settle_flock
from bouncy.workers.ladder import LadderWorker
from conftest import base_seed
from helpers.lanes import costs_of_view, trade_in_view
from helpers.slabs import slab
from helpers.statistics import chi_square_test

LADDER = (0.0, 0.4, 1.0)
# An open chain of four spins in fields: states can differ at sites that are not neighbours.
EDGES = scipy.sparse.diags_array([0.9, -0.7, 0.8], offsets=1, shape=(4, 4))
CHAIN = bouncy.MRF(scipy.sparse.csr_array(EDGES + EDGES.T), [0.3, -0.2, 0.0, 0.4])
# Factors of two sites in a row, and terms of three: state 1 1 of the first two sites is impossible.
WALLS = bouncy.FactorGraph(
    [((0, 1), [[1.4, 1.0], [0.5, 0.0]]), ((1, 2), [[1.6, 0.7], [1.0, 2.0]]), ((2, 3), [[2.5, 1.0], [1.2, 1.5]])]
)
DENSE = bouncy.MRF(CHAIN.M.toarray(), CHAIN.r)
TERMS = bouncy.Polynomial({(0, 1): 0.8, (1, 2): -0.9, (2, 3, 4): 0.7, (0,): 0.2, (4,): -0.3})
PAIR = bouncy.Tempered(ladder=LADDER, sweeps_per_swap=1, clusters=[1, 2], scans_per_exchange=1)
TWO_PAIRS = replace(PAIR, ladders=4)
THREE = bouncy.Tempered(ladder=LADDER, sweeps_per_swap=1, ladders=3, clusters=False)


def glass(d=30, seed=0):
    """Return a sparse glass on a random graph of degree 3 or so, in fields."""
    rng = np.random.default_rng(seed)
    J = np.triu(np.where(rng.random((d, d)) < 3 / d, rng.normal(size=(d, d)), 0.0), 1)
    return bouncy.MRF(scipy.sparse.csr_array(J + J.T), rng.normal(0.0, 0.3, d))


def line(d=25):
    """Return a ring of a row of sites: each but two is coupled with the next one."""
    edges = scipy.sparse.diags_array([np.ones(d - 1), [0.5]], offsets=[1, d - 1], shape=(d, d))
    return bouncy.MRF(scipy.sparse.csr_array(edges + edges.T), np.linspace(-0.5, 0.5, d))


def hub(d=40):
    """Return a site with many neighbours, some of which are neighbours."""
    edges = glass(d, 3).M.tolil()
    edges[7, :20] = edges[:20, 7] = 0.3
    edges[7, 7] = 0.0
    return bouncy.MRF(scipy.sparse.csr_array(edges), np.zeros(d))


def alone(d=6):
    """Return sites without couplings."""
    return bouncy.MRF(scipy.sparse.csr_array((d, d)), np.ones(d))


MODELS = {"graph": glass, "line": line, "hub": hub, "alone": alone}


def lanes_traded(ladders):
    """Return which lanes of the first ladder of a few rungs exchanged a cluster at the last opportunity."""
    partners = ladders.toll.swaps.partners
    return (partners.traded[0] >> np.arange(partners.lane.size, dtype=np.uint64) & np.uint64(1)).astype(np.int64)


def worker(target=CHAIN, sampler=PAIR, pairs="none", seed=0):
    return LadderWorker(target, sampler, Plan(slots=4, pairs=pairs), np.random.SeedSequence([base_seed(), seed]), None)


@pytest.mark.parametrize("rungs", [3, 16, 37, 70])
@pytest.mark.parametrize("model", ["graph", "line", "hub", "alone"])
def test_a_cluster_is_a_component_of_the_sites_that_differ(rungs, model):
    """Catches a cluster that ends too early, or leaks over a site at which states agree, or into another lane.

    Lanes have partners in any order, or none; those of 70 rungs need two words.
    """
    target, rng = MODELS[model](), np.random.default_rng(base_seed())
    begin, width = 3, 2 * rungs + 5  # other lanes stay what they are
    edges, view, state = target.edges(), target.lanes(width, ladder=True), new_state(np.random.SeedSequence(1))
    partners, sizes = new_partners(target.d, rungs), set()
    for trial in range(60):
        s = rng.choice(np.array([-1, 1], np.int8), (target.d, width))
        partners.lane[:] = np.where(rng.random(rungs) < 0.8, rng.permutation(rungs), ALONE)
        if trial == 0:
            s[:, begin + rungs :] = s[:, :1]
            s[:, begin] = -s[:, 0]
        before, log_p = s.copy(), target.log_prob(s.T)
        trade_in_view(view, s, begin, partners, state)
        turned, after = s != before, target.log_prob(s.T)
        assert not turned[:, :begin].any()
        assert not turned[:, begin + 2 * rungs :].any()
        turned, before, after, log_p = (
            array[..., begin : begin + 2 * rungs] for array in (turned, before, after, log_p)
        )
        for k, other in enumerate(partners.lane):
            traded = partners.traded[k // 64] >> np.uint64(k % 64) & np.uint64(1)
            if other == ALONE:
                assert not turned[:, k].any()
                assert not traded
                continue
            other += rungs
            differs = before[:, k] != before[:, other]
            assert traded == differs.any() == turned[:, k].any()
            assert (turned[:, k] == turned[:, other]).all()
            assert not turned[~differs, k].any()
            if differs.any():
                _, label = connected_components(edges[differs][:, differs], directed=False)
                own = np.unique(label[turned[differs, k]])
                assert own.size == 1
                assert np.count_nonzero(label == own) == turned[:, k].sum()
                sizes.add(int(turned[:, k].sum()))
            assert after[[k, other]].sum() == pytest.approx(log_p[[k, other]].sum(), abs=1e-9)
        others = np.setdiff1d(np.arange(rungs), partners.lane) + rungs
        assert not turned[:, others].any()
    assert sizes >= ({1} if model == "alone" else {1, 2, 3, 4}), "clusters of several sizes must be met"


def test_every_site_begins_a_cluster():
    """Catches a cluster that begins at the same sites again and again: of sites without couplings each is turned.

    States differ at three of six sites, of which the first one from a random place on is taken: alpha 1e-6, sees 0.05.
    """
    target, partners = MODELS["alone"](), new_partners(6, 1)
    view, state, counts = target.lanes(2, ladder=True), new_state(np.random.SeedSequence(base_seed())), np.zeros(6)
    partners.lane[0] = 0
    for _ in range(6000):
        s = np.ones((6, 2), np.int8)
        s[[0, 1, 4], 0] = -1
        trade_in_view(view, s, 0, partners, state)
        counts += s[:, 1] < 0
    assert counts[[2, 3, 5]].sum() == 0
    order, expected = view.joints.order.tolist(), np.zeros(6)
    assert sorted(order) == list(range(6))
    for first in range(6):
        expected[next(i for i in order[first:] + order[:first] if i in (0, 1, 4))] += 1 / 6
    chi_square_test(counts[[0, 1, 4]], expected[[0, 1, 4]], name="first sites").check()


def test_few_passes_find_a_cluster_whatever_sites_are_called():
    """Catches passes over sites in their order: along a line of 2000 sites in random order they were a thousand."""
    d, rng = 2000, np.random.default_rng(base_seed())
    edges, order = scipy.sparse.diags_array([np.ones(d - 1)], offsets=[1], shape=(d, d)), rng.permutation(d)
    view = bouncy.MRF(scipy.sparse.csr_array(edges + edges.T)[order][:, order]).lanes(2, ladder=True)
    partners, s = new_partners(d, 1), np.ones((d, 2), np.int8)
    partners.lane[0], s[:, 0] = 0, -1
    trade_in_view(view, s, 0, partners, new_state(np.random.SeedSequence(2)))
    assert (s[:, 0] == 1).all()
    assert partners.passes[0] <= 3


@pytest.mark.parametrize("every", [1, 2, 3])
def test_clusters_are_exchanged_after_so_many_scans(every):
    """Catches exchanges that are more or less frequent than the pilot, or a user, says."""
    ladders = worker(sampler=replace(PAIR, scans_per_exchange=every))
    traded = []
    for _ in range(60):
        ladders.toll.swaps.partners.lane[:] = 99
        ladders.advance(1)
        traded.append((ladders.toll.swaps.partners.lane != 99).any())
    assert np.flatnonzero(traded).tolist() == list(range(0, 60, every))


@pytest.mark.parametrize(
    ("target", "sampler", "replicates"),
    [
        (CHAIN, PAIR, 20_000),
        (CHAIN, TWO_PAIRS, 8000),
        (DENSE, THREE, 8000),
        (WALLS, PAIR, 5000),
        pytest.param(TERMS, PAIR, 50_000, marks=pytest.mark.slow),
    ],
    ids=["couplings", "two pairs", "dense", "factors", "terms"],
)
def test_ladders_keep_their_law(target, sampler, replicates):
    """Catches clusters that change log p, energies that are read before an exchange, and ladders that share lanes.

    Joint law of each two neighbours among the ladders, at each rung, after three scans from exact draws: 256 states, or
    1024 of terms. The reference takes impossible states too.
    """
    ladders, s = worker(target, sampler), states(target.d)
    log_p, n = target.log_prob(s), len(s)
    p = np.stack([np.ones(n), *(np.exp(b * log_p) for b in LADDER[1:])])
    p /= p.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([base_seed(), 1])
    counts = np.zeros((sampler.ladders - 1, 3, n, n), np.int64)
    lane, rungs = ladders.toll.swaps.lane, np.tile(np.arange(3), sampler.ladders)
    starts = np.stack([rng.choice(n, replicates, p=p[k]) for k in rungs], axis=1)
    traded = np.zeros(3, np.int64)
    for row in starts:
        ladders.lanes[:, lane] = s[row].T
        settle_flock(ladders.view, ladders.lanes)
        ladders.advance(3)
        found = ((ladders.lanes[:, lane].T > 0) @ 2 ** np.arange(target.d)).reshape(-1, 3)
        for n_pair, (one, other) in enumerate(pairwise(found)):
            counts[n_pair, np.arange(3), one, other] += 1
        first = lane[-6:-3]  # of the last pair
        traded += lanes_traded(ladders)[first - first.min()]
    for n_pair, k in np.ndindex(counts.shape[:2]):
        chi_square_test(counts[n_pair, k].ravel(), np.outer(p[k], p[k]).ravel(), name=f"{n_pair}, rung {k}").check()
    if sampler.clusters:
        assert traded[1:].min() > replicates / 10, "clusters must be exchanged at both rungs"
    assert traded[0] == 0, "the reference has nothing to exchange"


@pytest.mark.parametrize("target", [WALLS, TERMS], ids=["factors", "terms"])
def test_caches_are_those_of_the_spins_after_an_exchange(target):
    """Catches functions that go on with the caches, or the spins, of before an exchange."""
    ladders = worker(target, seed=5)
    for _ in range(20):
        ladders.advance(1)
        if lanes_traded(ladders).sum() == 2:
            break
    assert lanes_traded(ladders).sum() == 2, "clusters must be exchanged at both rungs"
    assert (ladders.view.spins == ladders.lanes.T).all()
    cost, fresh = np.empty((2, target.d, 1, 6))
    costs_of_view(ladders.view, ladders.lanes, cost)
    settle_flock(ladders.view, ladders.lanes)
    costs_of_view(ladders.view, ladders.lanes, fresh)
    np.testing.assert_allclose(cost, fresh, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "sampler"), [(CHAIN, PAIR), (CHAIN, TWO_PAIRS), (DENSE, THREE)], ids=["pair", "two pairs", "dense"]
)
def test_means_are_those_of_all_ladders(target, sampler):
    """Catches means of one ladder counted twice, and pairs of the spins of one with the means of the other."""
    ladders = worker(target, sampler, pairs="all", seed=3)
    type(ladders).record_anew([ladders])
    lane = ladders.toll.swaps.lane
    mean, pairs = np.zeros(4), np.zeros((4, 4))
    batches = []
    for _ in range(50):
        ladders.toll.swaps.clusters[:] = False  # so that spins at the end of a scan are those that were recorded,
        tops = [int(k) for k in lane[2::3]]
        batches += ladders.advance(1).batches[0]
        for k in tops:  # but for the place on the ladder
            s = ladders.lanes[:, k].astype(float)
            t = -np.tanh(target.r + target.M @ s)
            mean += t
            pairs += 0.5 * (np.outer(s, t) + np.outer(t, s))
    sums = [*batches, *ladders.open_sums()]
    assert sum(batch["events"][MEANS] for batch in sums) == 50 * sampler.ladders
    assert sum(batch["mean"] for batch in sums) == pytest.approx(mean, abs=1e-9)
    off = ~np.eye(4, dtype=bool)
    assert sum(batch["pair_mean"] for batch in sums).reshape(4, 4)[off] == pytest.approx(pairs[off], abs=1e-9)


@pytest.mark.parametrize(
    ("target", "sampler"),
    [(CHAIN, PAIR), (CHAIN, TWO_PAIRS), (DENSE, THREE), (WALLS, PAIR), (TERMS, PAIR)],
    ids=["couplings", "two pairs", "dense", "factors", "terms"],
)
def test_a_run_of_several_ladders_agrees_with_enumeration(target, sampler):
    """Catches sums of log Z that count both ladders twice, and means or pairs of the wrong lanes."""
    run = bouncy.sample(target, sampler, chains=4, draws=4000, pairs="all", seed=base_seed())
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
    assert ("clusters exchanged at 2 of them" in str(run.summary())) == bool(sampler.clusters)
    assert f"{sampler.ladders} ladders" in str(run.summary())


def test_the_pilot_finds_rungs_with_clusters():
    """Catches a pilot that exchanges clusters where all sites are coupled, or never."""
    sparse = glass(60, seed=1).tempered(2.0)
    found, _ = bouncy.Tempered(rungs=8).prepared(sparse, np.random.SeedSequence(0))
    assert found.ladders == 8, "as many as there is room for"
    assert min(found.clusters) >= 4
    assert 4 <= found.scans_per_exchange <= 6
    asked, _ = bouncy.Tempered(rungs=8, scans_per_exchange=7).prepared(sparse, np.random.SeedSequence(0))
    assert asked == replace(found, scans_per_exchange=7)
    cube, _ = bouncy.Tempered().prepared(slab(4, 8, 2.0, 0).target, np.random.SeedSequence(0))
    assert cube.clusters
    assert cube.ladders == 2
    assert cube.scans_per_exchange > 8, "clusters are most of what differs"
    dense = bouncy.MRF.random(20, sigma_M=1.0, seed=0)
    found, _ = bouncy.Tempered(rungs=8).prepared(dense, np.random.SeedSequence(0))
    assert found.clusters == ()
    assert found.ladders == 4
    assert bouncy.Tempered(ladders=3).prepared(dense, np.random.SeedSequence(0))[0].ladders == 3
    odd, _ = bouncy.Tempered(rungs=8, ladders=1).prepared(sparse, np.random.SeedSequence(0))
    assert (odd.ladders, odd.clusters) == (1, ())
    by_address, _ = bouncy.Tempered(rungs=8).prepared(TERMS, np.random.SeedSequence(0))
    assert by_address.ladders == 1 + bool(by_address.clusters), "where lanes cost as much as chains"
    without, _ = bouncy.Tempered(rungs=8, clusters=False).prepared(sparse, np.random.SeedSequence(0))
    assert (without.ladders, without.clusters) == (8, ())
    large, _ = bouncy.Tempered(rungs=40).prepared(dense, np.random.SeedSequence(0))
    assert large.ladders == 1


@pytest.mark.parametrize("clusters", ["all", [0], [3], [1, 1], [1.5], 3])
def test_rungs_that_cannot_be_are_refused(clusters):
    """Catches clusters at the reference, at rungs that do not exist, and twice at one."""
    with pytest.raises((ValueError, TypeError), match="clusters"):
        bouncy.Tempered(ladder=LADDER, clusters=clusters)


def test_numbers_of_ladders_that_cannot_be_are_refused():
    """Catches a ladder without a partner to exchange clusters with, and several ladders of swaps."""
    with pytest.raises(ValueError, match="ladders is 3; expected an even number"):
        bouncy.Tempered(ladder=LADDER, ladders=3, clusters=[1])
    with pytest.raises(ValueError, match="ladders"):
        bouncy.Tempered(ladders=0)
    sums = bouncy.MRF.random(6, seed=0).fixed_sum(0)
    with pytest.raises(ValueError, match=r"ladders is 2; a chain that is moved by .* has one ladder"):
        bouncy.sample(sums, bouncy.Tempered(ladder=LADDER, ladders=2), draws=10, seed=0)


def test_targets_without_clusters_are_refused():
    """Catches a pair of ladders that costs twice as much and exchanges nothing."""
    with pytest.raises(ValueError, match="sparse couplings"):
        bouncy.sample(bouncy.MRF.random(5, seed=0), PAIR, draws=10, seed=0)
