"""Are the rivals of tempered chains right, and the formula that gives them log Z?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.results.moments import means_recorded, recorded
from conftest import base_seed
from helpers.statistics import z_test

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LADDER = (0.0, 0.3, 0.6, 1.0)
BATCHES = 50


@pytest.fixture(scope="module")
def ladders() -> Iterator[Any]:
    """Return a module that is in no package."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import ladders

        yield ladders
    finally:
        sys.path.remove(str(BENCHMARKS))


def _square() -> bouncy.MRF:
    """Return a model on a square with a tail, in fields."""
    i, j, J = [0, 1, 2, 0, 3], [1, 2, 3, 3, 4], [0.9, -0.7, 0.8, 0.6, -1.1]
    M = scipy.sparse.coo_array((J, (i, j)), (5, 5))
    return bouncy.MRF(-(M + M.T).tocsr(), [0.2, -0.3, 0.1, 0.0, 0.4])


def test_bridged(ladders):
    """Catches a wrong sign or a wrong weight: independent draws of every rung, from enumeration."""
    target, rng, b = _square(), np.random.default_rng(base_seed()), np.array(LADDER)
    value = target.log_prob(np.array(list(product([-1, 1], repeat=target.d))))
    weight = np.exp(np.outer(b, value))
    weight /= weight.sum(axis=1, keepdims=True)
    draws = np.stack([rng.choice(value, (BATCHES, 500), p=w) for w in weight], axis=-1)
    found = [[ladders.bridged(batch, b)] for batch in draws]
    exact = bouncy.exact(target).log_z - target.d * np.log(2.0)
    assert z_test(found, [exact], detect=0.05).passed


@pytest.mark.slow
def test_other_forms(ladders):
    """Catches a rival that samples another distribution, or another ladder than the one it is given."""
    target = _square()
    states = np.array(list(product([-1, 1], repeat=target.d)), np.int8)
    sampler = bouncy.Tempered(ladder=LADDER, ladders=1, sweeps_per_swap=1)
    own = ladders.sampled(target, sampler, draws=200, seed=base_seed())[0]
    for rival in (ladders.by_address(target), ladders.custom(target)):
        assert rival.log_prob(states) == pytest.approx(target.log_prob(states))
        bouncy.testing.check_target(rival)
        run = ladders.sampled(rival, sampler, draws=200, seed=base_seed())[0]
        assert run.log_z == pytest.approx(own.log_z, abs=1e-9)
        conditional = (one._data.sums().mean(recorded("mean"), means_recorded) for one in (run, own))
        assert next(conditional) == pytest.approx(next(conditional), abs=1e-9)  # `mean` has control variates


@pytest.mark.slow
def test_lanes_without_swaps(ladders):
    """Catches lanes at temperatures other than those of the ladder, and means of another lane than the coldest."""
    target = _square()
    sampler = bouncy.Tempered(ladder=LADDER, ladders=1, sweeps_per_swap=1)
    _, starts = ladders.ladder_job(target, sampler, 1)
    worker = ladders.lanes_worker(target, sampler, starts, tempered=True, recorded="ladder")
    batches = []
    for _ in range(BATCHES):
        worker.recorder.open_mean[:] = 0.0
        worker._run(4000)
        batches.append(worker.recorder.open_mean / 4000)
    assert z_test(batches, bouncy.exact(target).mean, detect=0.05).passed


@pytest.mark.slow
def test_hamon(ladders):
    """Catches a wrong sign of couplings or fields, sites in another order, and energies of other rungs."""
    if not ladders.HAMON.exists():
        pytest.skip("hamon is not installed: make .venv-peer-hamon/.ready")
    target, exact = _square(), bouncy.exact(_square())
    with ladders.hamon(target, bouncy.Tempered(ladder=LADDER, ladders=1, sweeps_per_swap=1), 2000, 100) as run:
        found = [run(seed) for seed in range(BATCHES)]
    assert z_test([one.mean for one in found], exact.mean, detect=0.1).passed
    assert z_test([[one.log_z] for one in found], [exact.log_z], detect=0.1).passed
