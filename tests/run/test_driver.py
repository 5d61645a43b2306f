"""The driver: its deadlines, and what it asks of the pool."""

import numpy as np
import pytest

import bouncy
from bouncy.results.data import RECORDING, Setup
from bouncy.run.driver import Driver, Resources
from bouncy.run.goal import Goal
from bouncy.samplers import as_sampler


def new_driver(**goal):
    target = bouncy.MRF.random(3, seed=0)
    setup = Setup(target, as_sampler(target), 0, chooses_warmup=True)
    workers = setup.new_workers(np.random.SeedSequence(0).spawn(2), [None, None])
    return Driver(setup, workers, 200, Goal(**goal), Resources())


def test_slices_of_the_warmup_go_by_its_own_deadline():
    """Would catch slices as long as a quarter of the whole run, by which the warm-up would overrun its share."""
    driver = new_driver(seconds=10.0)
    longest = []
    for stage in (0, 1, RECORDING):
        driver.stage = stage
        longest.append(driver._longest_slice())
    assert longest == pytest.approx([0.25 * 1.0, 0.25 * 2.0, 0.25 * 10.0])
    driver.stage = 0
    for worker in driver.workers:
        worker.cpu_seconds = 0.9
    assert driver._longest_slice() == pytest.approx(0.25 * 0.1)


def test_a_run_without_a_time_limit_has_slices_of_any_length():
    """Would catch slices that shrink although there is no deadline."""
    assert new_driver(draws=10)._longest_slice() == np.inf


def test_the_records_of_a_chain_that_failed_are_dropped():
    """Would catch rows and batches that are taken for those of another chain when one is left out in mid-run."""

    def run(most_calls):
        calls = 0

        def cost(s, i):
            nonlocal calls
            if i == 0:  # which stays as it is, and so tells the chains apart
                return np.inf
            calls += s[0] < 0
            if s[0] < 0 and calls > most_calls:
                raise ValueError("enough")
            return 0.5 * s[i] * s[3 - i]

        target = bouncy.Custom(3, flip_cost=cost, log_prob=lambda s: 0.0, compile=False)
        initial = [[1, 1, 1], [-1, 1, 1], [1, -1, 1]]
        return bouncy.sample(target, "gibbs", chains=3, draws=200, warmup=0, initial=initial, seed=0, threads=1)

    whole = run(most_calls=np.inf)
    with pytest.raises(bouncy.TargetError, match="enough") as caught:
        run(most_calls=500)
    left = caught.value.run
    assert caught.value.chain == 1
    assert left.chains == 2
    assert np.array_equal(left.draws, whole.draws[[0, 2]])
    flips = [whole._data.totals[k]["flips"] for k in (0, 2)]
    assert np.array_equal(left.flips_per_site, np.sum(flips, axis=0))
