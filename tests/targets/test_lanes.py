"""Views of targets for lanes: costs and log p of every lane, also while changes of the fields are put off."""

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.targets import examples
from bouncy.targets.field_lanes import DenseLanes, SparseLanes
from helpers.lanes import (
    begin_view,
    cost_errors_of_view,
    costs_of_view,
    flip_in_view,
    log_probs_of_view,
    read_view,
    settle_view,
)

# Of which the loops take 8; 32, 16 and 8; and 64 twice and 8 at a time.
WIDTHS = (8, 56, 136)
ROUNDING = 1e-12
# Steps of a walk after which nothing is put off.
SETTLED = (0, 18, 19, 55, 74)


def dense(d, rng):
    M = np.triu(rng.normal(size=(d, d)), 1)
    return bouncy.MRF(M + M.T, rng.normal(size=d), offset=0.7)


def stars(degrees, rng, equal=False):
    """Return a sparse model with sites of each of these degrees, the centres of stars that share no leaves.

    The couplings of a star may be `equal` but for their signs; then half of the sites have no field.
    """
    d = len(degrees) + sum(degrees)
    M, leaf = np.zeros((d, d)), len(degrees)
    for centre, degree in enumerate(degrees):
        M[centre, leaf : leaf + degree] = (
            rng.normal() * rng.choice([-1, 1], degree) if equal else rng.normal(size=degree)
        )
        leaf += degree
    r = rng.normal(size=d) * ((np.arange(d) % 2) | (not equal))
    order = rng.permutation(d)  # so that neighbours come before and after a site
    M = (M + M.T)[np.ix_(order, order)]
    return bouncy.MRF(scipy.sparse.csr_array(M), r, offset=-1.3)


MODELS = {
    **{f"dense {d}": (lambda rng, d=d: dense(d, rng)) for d in (1, 2, 10, 16, 17, 48, 49, 60)},
    "sparse degrees 0 to 9": lambda rng: stars(range(10), rng),
    "sparse equal couplings": lambda rng: stars([*range(11), *range(11)], rng, equal=True),
    "sparse lattice": lambda rng: bouncy.MRF.ising((9, 7), 0.4, 0.2),
    "sparse without couplings": lambda rng: bouncy.MRF(scipy.sparse.csr_array((3, 3)), rng.normal(size=3)),
}


def costs(target, s):
    """Return log p(s) - log p(s flipped at i) of all sites and lanes, (d, lanes), computed in full."""
    flipped = np.repeat(s.T[:, None], target.d, axis=1)
    flipped[:, range(target.d), range(target.d)] *= -1
    return (target.log_prob(s.T)[:, None] - target.log_prob(flipped)).T


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MODELS)
def test_costs_are_differences_of_log_prob(name, width, rng):
    """Catches a stale field, a change that is lost or added twice, and fields of another lane.

    A random walk of flips, each in some of the lanes: more than fill a block of changes that are put off. Costs of all
    sites are asked for in the middle of blocks, where they must not change what was put off, and after settling.
    """
    target = MODELS[name](rng)
    view, d = target.lanes(width), target.d
    assert isinstance(view, SparseLanes if name.startswith("sparse") else DenseLanes)
    s = rng.choice(np.array([-1, 1], np.int8), (d, width))
    begin_view(view, s)
    out, log_p, change = np.full((d, 1, width), np.nan), np.full(width, np.nan), np.empty(width)
    scale = 1.0 + np.abs(costs(target, s)).max()
    for step in range(75):
        if step % 5 == 0 or step in SETTLED:
            expected = costs(target, s)
            costs_of_view(view, s, out)
            np.testing.assert_allclose(out[:, 0], expected, rtol=0, atol=ROUNDING * scale)
        if step in SETTLED:
            settle_view(view)
            costs_of_view(view, s, out)
            np.testing.assert_allclose(out[:, 0], expected, rtol=0, atol=ROUNDING * scale)
            log_probs_of_view(view, s, np.empty((1, width)), log_p)
            np.testing.assert_allclose(log_p, target.log_prob(s.T), rtol=1e-13, atol=ROUNDING * scale)
        i = int(rng.integers(d))
        change[:] = np.where(rng.random(width) < 0.4, -2.0 * s[i], 0.0)
        flip_in_view(view, s, i, change)


@pytest.mark.parametrize(("width", "which"), [(8, [3]), (56, [5, 33]), (136, [134, 0])])
@pytest.mark.parametrize("name", MODELS)
def test_a_ladder_reads_log_prob_of_all_lanes_and_means_of_some(name, width, which, rng):
    """Catches a pair or a field that is lost or counted twice, sums of bytes that overflow, and another lane's means.

    In the first lane nearly all neighbours differ, in the second none.
    """
    target = MODELS[name](rng)
    view, d = target.lanes(width, ladder=True), target.d
    s = rng.choice(np.array([-1, 1], np.int8), (d, width))
    s[:, 0], s[:, 1] = 1 - 2 * (np.arange(d) % 2), 1
    begin_view(view, s)
    spins, means, log_p = np.ascontiguousarray(s.T[which]), np.empty((len(which), d + 3)), np.empty(width)
    read_view(view, s, np.array(which), spins, np.empty((1, width)), log_p, means)
    np.testing.assert_allclose(log_p, target.log_prob(s.T), rtol=1e-13, atol=1e-11)
    cost = costs(target, s)[:, which].T
    np.testing.assert_allclose(means[:, :d], spins * np.tanh(0.5 * cost), rtol=0, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e39])
@pytest.mark.parametrize("name", ["dense 10", "dense 60", "sparse degrees 0 to 9", "sparse equal couplings", "hub"])
def test_single_precision_is_as_exact_as_it_says(name, scale, rng):
    """Catches an error of costs in single precision that lanes would not look through: they would decide by it.

    Where fields nearly cancel couplings the error is large beside the cost. The bound is not a thousand times too wide.
    """
    target = stars([300, 3], rng) if name == "hub" else MODELS[name](rng)
    h = target.M @ rng.choice([-1.0, 1.0], target.d)
    target = bouncy.MRF(target.M * scale, scale * np.where(rng.random(target.d) < 0.5, target.r, 1e-6 - h))
    width, d = 24, target.d
    view, s = target.lanes(width), rng.choice(np.array([-1, 1], np.int8), (d, width))
    begin_view(view, s)
    exact, single, error = np.empty((d, 1, width)), np.empty((d, 1, width), np.float32), np.empty(d)
    costs_of_view(view, s, exact)
    costs_of_view(view, s, single)
    cost_errors_of_view(view, error)
    known = error < np.inf  # else numbers may be out of the range of single precision
    assert known.all() or scale == 1e39
    wrong, rounded = np.abs(single - exact)[:, 0], 2.0**-24 * np.abs(exact[:, 0])
    assert (wrong <= 1.01 * (rounded + error[:, None]))[known].all()
    assert (error <= 1000.0 * (wrong.max(axis=1) + 2.0**-24 * scale))[known].all()


@pytest.mark.parametrize("name", ["dense 60", "sparse lattice"])
def test_a_view_that_begins_anew_forgets_what_was_put_off(name, rng):
    """Catches changes of former spins that are added to the fields of new ones."""
    target, width = MODELS[name](rng), 8
    view, s = target.lanes(width), rng.choice(np.array([-1, 1], np.int8), (target.d, width))
    begin_view(view, s)
    for i in range(5):
        flip_in_view(view, s, i, -2.0 * s[i])
    s[:] = rng.choice(np.array([-1, 1], np.int8), s.shape)
    begin_view(view, s)
    out = np.empty((target.d, 1, width))
    costs_of_view(view, s, out)
    np.testing.assert_allclose(out[:, 0], costs(target, s), rtol=0, atol=1e-11)


def test_dense_models_put_off_what_they_can():
    """Catches blocks that are never used: then the tests above would not see them."""
    assert [dense(d, np.random.default_rng(1)).lanes(8).who.size for d in (1, 16, 17, 48, 49, 200, 201)] == [
        1,
        16,
        8,
        8,
        16,
        16,
        32,
    ]


def test_only_mrfs_have_lanes():
    """Catches a target that is taken for one with lanes: its loop would not compile."""
    assert bouncy.Polynomial({(0, 1, 2): 0.4}).lanes(8) is None


def test_lanes_of_every_target_have_its_log_prob():
    """Catches a target whose lanes are of another one."""
    targets = [target for target in (build() for build in examples().values()) if target.lanes(8) is not None]
    assert len(targets) >= 2
    for target in targets:
        s = np.ascontiguousarray(bouncy.states(target.d)[:8].T)
        view, found = target.lanes(8), np.empty(8)
        begin_view(view, s)
        log_probs_of_view(view, s, np.empty((1, 8)), found)
        np.testing.assert_allclose(found, target.log_prob(s.T), rtol=1e-13, atol=1e-13)
