"""Layer L4: exact answers beyond enumeration, on the torus, the ring and a random tree."""

import numpy as np
import pytest

import bouncy
from bouncy.samplers import names, registry
from bouncy.testing import kaufman_torus
from conftest import base_seed
from helpers.lattices import random_tree, ring, tree
from helpers.statistics import z_test

# Random scans differ from systematic ones by their clocks alone, which have tests of their own.
# Ladders have large targets of their own.
SAMPLERS = sorted(
    name for name in names() if not name.endswith("-random") and name not in ("auto", "tempered", "metropolis-swap")
)
LONG = ("bps-exponential", "gibbs", "hmc", "hmc-exponential", "metropolis", "metropolis-mixed")
every_sampler = pytest.mark.parametrize(
    "sampler", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in SAMPLERS]
)


def draws_in(sweeps: int, sampler: str) -> int:
    """Return the number of draws in so many sweeps, or in a few times more where a draw takes several of them.

    Of flips and swaps more are made too: on these models few swaps are accepted.
    """
    (stride,) = (entry.sampler.stride for entry in registry(bouncy.SpinSampler) if entry.name == sampler)
    return sweeps if stride == 1 and sampler != "metropolis-mixed" else -(-4 * sweeps // stride)


@pytest.mark.slow
@every_sampler
@pytest.mark.parametrize(("coupling", "sweeps", "detect"), [(0.3, 600, 0.015), (0.44, 6000, 0.05)])
def test_torus_against_kaufman(sampler, coupling, sweeps, detect):
    """Catches errors that only show in large or nearly critical systems.

    z-tests over 32 independent chains (alpha = 1e-6) of the bond mean, which would show a bias of `detect`, and of the
    magnetisation, 0 by symmetry.
    """
    target = bouncy.MRF.ising((16, 16), coupling=coupling)
    draws, warmup = draws_in(sweeps, sampler), draws_in(1000, sampler)
    run = bouncy.sample(target, sampler, chains=32, draws=draws, warmup=warmup, pairs="edges", seed=base_seed())
    bonds = run.log_prob.mean(axis=1) / (coupling * 512)
    expected = kaufman_torus(16, 16, coupling).bond_mean
    z_test(bonds[:, None], np.array([expected]), detect=detect, name="bond mean").check()
    z_test(run.magnetisation.mean(axis=1)[:, None], np.zeros(1), name="magnetisation").check()


@pytest.mark.slow
@every_sampler
def test_ring_against_transfer_matrices(sampler, rng):
    """Catches a stale field of one neighbour: means and bonds of a disordered ring of 100 spins, dense storage.

    z-tests over 32 chains, alpha = 1e-6 after Bonferroni; the worst site would show a bias of 0.2, the average 0.01.
    """
    d = 100
    couplings, fields = rng.normal(size=d) * 0.4, rng.normal(size=d) * 0.3
    M = np.zeros((d, d))
    for i in range(d):
        M[i, (i + 1) % d] = M[(i + 1) % d, i] = -couplings[i]
    truth = ring(couplings, fields)
    runs = [
        bouncy.sample(
            bouncy.MRF(M, -fields),
            sampler,
            chains=1,
            draws=draws_in(1000, sampler),
            pairs="all",
            seed=base_seed() + k,
        )
        for k in range(32)
    ]
    z_test(np.array([run.mean for run in runs]), truth.mean, detect=0.2, name="means").check()
    z_test(np.array([run.path_mean for run in runs]), truth.mean, detect=0.4, name="path means").check()
    bonds = np.array([[run.pair_mean[i, (i + 1) % d] for i in range(d)] for run in runs])
    z_test(bonds, truth.neighbour_mean, detect=0.2, name="bonds").check()
    average = (bonds - truth.neighbour_mean).mean(axis=1, keepdims=True)
    z_test(average, np.zeros(1), detect=0.01, name="average bond").check()


@pytest.mark.slow
@every_sampler
def test_tree_against_belief_propagation(sampler, rng):
    """Catches errors that depend on the degree of a site: a random tree of 300 spins, sparse storage.

    z-tests over 32 chains, alpha = 1e-6 after Bonferroni; the average over sites would show a bias of 0.01.
    """
    import scipy.sparse

    d = 300
    parent = random_tree(d, seed=base_seed())
    couplings, fields = rng.normal(size=d - 1) * 0.4, rng.normal(size=d) * 0.2
    children = np.arange(1, d)
    half = scipy.sparse.coo_array((-couplings, (children, parent[1:])), shape=(d, d))
    target = bouncy.MRF(half + half.T, -fields)
    truth = tree(parent, couplings, fields)
    runs = [
        bouncy.sample(target, sampler, chains=1, draws=draws_in(1000, sampler), pairs="edges", seed=base_seed() + k)
        for k in range(32)
    ]
    means = np.array([run.mean for run in runs])
    edges = np.array([run.pair_mean[children, parent[1:]] for run in runs])
    z_test(means, truth.mean, detect=0.25, name="means").check()
    z_test(edges, truth.edge_mean, detect=0.25, name="edges").check()
    z_test((means - truth.mean).mean(axis=1, keepdims=True), np.zeros(1), detect=0.02, name="average mean").check()
    z_test((edges - truth.edge_mean).mean(axis=1, keepdims=True), np.zeros(1), detect=0.01, name="average edge").check()
