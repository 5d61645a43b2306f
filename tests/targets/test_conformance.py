"""The contract of every target, with every sampler: targets and samplers are found, not listed.

A target takes part by an entry in the `EXAMPLES` of its module, a sampler by one in its `NAMED`. Statistical tests have
a false-alarm rate of 1e-6 each and state the error that they see.
"""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest

import bouncy
from bouncy.samplers import as_sampler, names
from bouncy.targets import examples
from bouncy.targets.fields import SparseFields
from bouncy.testing import check_target
from bouncy.workers.contract import Plan
from bouncy.workers.spins import SpinWorker
from conftest import base_seed
from helpers.replicates import exact_draws, replicate_sampler, state_counts
from helpers.statistics import chi_square_test, z_test

SEED = base_seed()
REPLICATES = 20_000
SWEEPS = 6
EXAMPLES = examples()
# No target sees the sampler: one of them here; the others in the long tests.
# Ladders meet all targets in `run/test_tempered.py`.
SAMPLERS = sorted({*names()} - {"auto", "tempered", "metropolis-swap"})
SAMPLERS = [name if name == "bps-gaussian" else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS]
every_target = pytest.mark.parametrize("name", EXAMPLES)
# Kinds whose functions are like those of another kind.
LIKE_OTHERS = ("rbm-visible", "polynomial-binary", "factor-graph", "custom-log-prob", "selection-g")
# A flip of these takes a factorisation; their costs are compared with log p in `test_functions_agree`.
SLOW = ("selection-independent",)


@functools.cache
def example(name):
    return EXAMPLES[name]()


@functools.cache
def answers(name):
    return bouncy.exact(example(name))


@functools.cache
def starts(name):
    return exact_draws(example(name), REPLICATES, seed=SEED)


def complaint(target, **options):
    """Return the error message of `check_target`, or None."""
    try:
        check_target(target, seed=SEED, **options)
    except bouncy.TargetError as error:
        return str(error)
    return None


@every_target
def test_functions_agree(name):
    """Would catch a cost that is not the difference of log p, a stale cache, a wrong conditional mean."""
    assert complaint(example(name)) is None


def test_pairs_that_are_left_out_are_seen():
    """Catches edges() that miss an interaction: clusters that ladders exchange would change log p."""

    class Forgetful(bouncy.Polynomial):
        def edges(self):
            pattern = super().edges().tolil()
            pattern[0, 2] = pattern[2, 0] = False
            return pattern.tocsr()

    found = complaint(Forgetful({(0, 1): 0.5, (0, 2): 0.3, (1, 2): -0.2}))
    assert found is not None
    assert "edges() has no pair" in found


@every_target
def test_an_example_is_worth_sampling(name):
    """Would catch an example on which a wrong sampler would look right: one state, or nothing that interacts."""
    exact = answers(name)
    assert 2 <= example(name).d <= 5
    assert np.max(exact.probabilities) < 0.95
    assert np.max(np.abs(exact.pair_mean - np.outer(exact.mean, exact.mean)) * (1 - np.eye(example(name).d))) > 0.01


@every_target
def test_log_prob_takes_batches(name):
    """Would catch a public log p with another shape or constant than that of the compiled loops."""
    target = example(name)
    states = bouncy.states(target.d)
    log_p = target.log_prob(states.reshape(2, -1, target.d))
    assert log_p.shape == (2, len(states) // 2)
    assert target.log_prob(states[0]).shape == ()
    assert np.allclose(np.exp(log_p.ravel() - answers(name).log_z), answers(name).probabilities, rtol=1e-10, atol=1e-14)
    with pytest.raises(ValueError, match="shape"):
        target.log_prob(np.ones(target.d + 1))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in (*LIKE_OTHERS, *SLOW))) for name in EXAMPLES]
)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_keeps_the_law_of_every_target(name, sampler):
    """Would catch a target whose costs, flips or caches are not what samplers take them for, by a bias of 0.05."""
    exact, target = answers(name), example(name)
    # Sparse couplings have loops of their own, which other tests have compiled with the pairs that interact.
    pairs = "edges" if isinstance(target.view(), SparseFields) else "all"
    run = replicate_sampler(
        target, as_sampler(target, sampler), starts(name), n_sweeps=SWEEPS, seed=SEED + 1, pairs=pairs
    )
    chi_square_test(state_counts(run.s), exact.probabilities, detect=0.05).check()
    for got, expected in ((run.path, exact.mean), (run.mean, exact.mean)):
        z_test(got, expected, detect=0.05).check()
    if pairs == "all":
        i, j = np.triu_indices(target.d, 1)
        z_test(run.pair_mean[:, i * target.d + j], exact.pair_mean[i, j], detect=0.05).check()


@every_target
def test_every_target_can_be_clamped(name):
    """Would catch evidence that is forgotten, or put on another site, or a constant that is lost."""
    target, whole = example(name), answers(name)
    states = bouncy.states(target.d)
    site = target.d - 2
    for spin in (-1, 1):
        kept = states[:, site] == spin
        probability = whole.probabilities[kept].sum()
        given = target.clamp({target.labels[site]: spin})
        assert given.labels == (*target.labels[:site], *target.labels[site + 1 :])
        exact = bouncy.exact(given)
        assert np.allclose(exact.probabilities, whole.probabilities[kept] / probability, rtol=1e-9, atol=1e-14)
        assert exact.log_z - whole.log_z == pytest.approx(np.log(probability), rel=1e-9, abs=1e-12)
        assert np.array_equal(given.complete(bouncy.states(given.d)), states[kept])
        assert complaint(given, states=5) is None


@every_target
@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_every_target_can_be_tempered(name, beta):
    """Would catch a temperature that leaves a part of log p as it was, or opens walls."""
    target = example(name)
    log_p = target.log_prob(bouncy.states(target.d))
    possible = log_p > -np.inf
    expected = np.where(possible, np.exp(beta * np.where(possible, log_p - log_p.max(), 0.0)), 0.0)
    tempered = target.tempered(beta)
    assert np.allclose(bouncy.exact(tempered).probabilities, expected / expected.sum(), rtol=1e-9, atol=1e-14)
    assert tempered.labels == target.labels
    assert complaint(tempered, states=5) is None


@every_target
def test_wrappers_can_be_nested(name):
    """Would catch a wrapper that works on the targets of this package alone, not on one of the other wrappers."""
    target = example(name)
    site = target.labels[0]
    one, other = target.clamp({site: 1}).tempered(0.5), target.tempered(0.5).clamp({site: 1})
    assert np.allclose(bouncy.exact(one).probabilities, bouncy.exact(other).probabilities, rtol=1e-9, atol=1e-14)
    assert one.complete(np.ones(one.d)).tolist() == other.complete(np.ones(one.d)).tolist() == [1] * target.d


@every_target
def test_a_worker_can_be_copied_and_restored(name):
    """Would catch a cache that is no part of a worker's state, or is shared by two workers, and pickled addresses."""
    target = example(name)
    sampler = as_sampler(target)
    worker = SpinWorker(target, sampler, Plan(1, 4, "all"), np.random.SeedSequence(1), None)
    worker.advance(5)
    state, twin, traveller = worker.state(), copy.deepcopy(worker), pickle.loads(pickle.dumps(worker))
    worker.advance(20)
    after = {name: array.copy() for name, array in worker.arrays().items()}
    twin.advance(20)
    traveller.advance(20)
    worker.restore(state)
    worker.advance(20)
    for other in (twin, traveller, worker):
        found = other.arrays()
        assert found.keys() == after.keys()
        assert all(np.array_equal(array, found[name], equal_nan=True) for name, array in after.items())


@every_target
def test_a_target_survives_pickling(name):
    """Would catch a machine address that is sent to another process."""
    target = example(name)
    twin = pickle.loads(pickle.dumps(target))
    states = bouncy.states(target.d)
    assert np.array_equal(twin.log_prob(states), target.log_prob(states))
    assert twin.labels == target.labels


@every_target
@pytest.mark.parametrize("wrapped", ["plain", "clamped", "tempered", "both"])
def test_log_prob_of_a_run_is_that_of_its_target(name, wrapped):
    """Would catch a constant, a clamped spin or a temperature that one of compiled and public log p lacks."""
    target = example(name)
    target = target.clamp({target.labels[-1]: +1}) if wrapped in ("clamped", "both") else target
    target = target.tempered(0.5) if wrapped in ("tempered", "both") else target
    run = bouncy.sample(target, "metropolis-random", draws=50, chains=2, seed=SEED, progress=False)
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=1e-9, atol=1e-12)


@every_target
def test_a_run_reports_labels(name):
    """Would catch a target whose labels get lost on the way to the summary or to ArviZ."""
    run = bouncy.sample(example(name), "bps-gaussian", draws=20, chains=2, seed=0)
    assert list(run.to_arviz()["posterior"]["site"].values) == [
        label if isinstance(label, int | str) else str(label) for label in example(name).labels
    ]
