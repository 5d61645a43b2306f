"""Runs that cannot work are refused before they start, with an estimate; runs that could work are not."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import bouncy
from bouncy.run import estimate as module
from bouncy.run.estimate import LargeRunWarning

GIB = 1 << 30
SPINS = bouncy.MRF.random(10, seed=0)
TARGETS = {
    "spins": SPINS,
    "one spin": bouncy.MRF([[0.0]], 0.1),
    "path": bouncy.Gaussian([0.0, 1.0], cov=np.eye(2)),
    "scheme": bouncy.Within(
        lambda scale: bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2)),
        {"scale": lambda x, parameters, generator: 1.0},
        {"scale": 1.0},
    ),
}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Pretend to have 16 GiB of memory, 100 GiB of disk and 4 cores; return a function that changes that."""

    def have(memory=16 * GIB, disk=100 * GIB, cores=4):
        monkeypatch.setattr(module, "memory_left", lambda: memory)
        monkeypatch.setattr(module, "_disk_left", lambda folder: disk)
        monkeypatch.setattr(module.os, "cpu_count", lambda: cores)

    have()
    return have


@pytest.fixture(autouse=True)
def no_workers_where_refused(request, monkeypatch):
    """Fail where more than a thousand workers are built."""
    spawn = bouncy.results.data.Setup.new_workers

    def counted(setup, seeds, starts):
        assert len(seeds) < 1000
        return spawn(setup, seeds, starts)

    monkeypatch.setattr(bouncy.results.data.Setup, "new_workers", counted)


def refused(call, *said):
    """Check that a call is refused at once, and what the error says."""
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"takes? at least .* too much; ask for") as caught:
        call()
    assert time.perf_counter() - began < 5.0
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_draws_without_end_are_refused(name, keep):
    """Catches a run of years, or of petabytes, that just begins."""
    if keep == "path" and TARGETS[name].kind != "spins":
        pytest.skip("paths are kept of spins alone")
    files = () if keep == "means" else ("TiB for their draws", "keep='means'")
    refused(
        lambda: bouncy.sample(TARGETS[name], draws=10**15, keep=keep),
        "1,000,000,000,000,000 draws of 4 chains take at least",
        "fewer draws",
        "seconds= or until_se=",
        *files,
    )


def test_the_time_is_that_of_all_sweeps(machine):
    """Catches an estimate that forgets `thin`, the trajectories of HMC, or chains that wait for a core."""
    refused(lambda: bouncy.sample(SPINS, draws=10**15, keep="means"), "463 days")
    refused(lambda: bouncy.sample(SPINS, draws=10**12, thin=1000, keep="means"), "463 days")
    refused(lambda: bouncy.sample(SPINS, draws=10**15, chains=8, lanes=1, keep="means"), "2.54 years")
    refused(lambda: bouncy.sample(SPINS, draws=10**15, chains=8, lanes=1, threads=2, keep="means"), "5.07 years")
    refused(lambda: bouncy.sample(SPINS, draws=10**15, chains=8, threads=2, keep="means"), "370 days")
    sampler = bouncy.HMC()
    refused(lambda: bouncy.sample(SPINS, sampler, draws=10**15, keep="means"), f"{1.2676 * sampler.stride:.3g} years")


@pytest.mark.parametrize("name", TARGETS)
def test_a_million_chains_are_refused(name, machine):
    """Catches workers that are built until the memory is full."""
    machine(memory=8 * GIB)
    refused(
        lambda: bouncy.sample(TARGETS[name], chains=10**6, draws=10),
        "10 draws of 1,000,000 chains take at least",
        "GiB of memory for the chains (8 GiB left)",
        "ask for fewer chains",
    )
    refused(lambda: bouncy.sample(TARGETS[name], chains=10**6, seconds=1.0), "1,000,000 chains take", "fewer chains")
    refused(lambda: bouncy.sample(TARGETS[name], chains=10**6, until_se=0.1), "fewer chains")


def test_pairs_count(machine):
    """Catches d x d matrices of each chain that are forgotten."""
    lattice = bouncy.MRF.ising((100, 100), 0.3)
    refused(lambda: bouncy.sample(lattice, draws=10, chains=8, pairs="all"), "ask for fewer chains or pairs='none'")


def test_ladders_count():
    """Catches a chain of many ladders that is taken for one."""
    lattice = bouncy.MRF.ising((1000, 1000), 0.1)
    many = bouncy.Tempered(ladder=[0.0, 0.5, 1.0], sweeps_per_swap=1, ladders=10_000)
    refused(lambda: bouncy.sample(lattice, many, draws=1, chains=1), "103 GiB", "fewer chains or ladders")


def test_draws_are_refused_where_neither_memory_nor_disk_holds_them(machine):
    """Catches a run that fills the disk, and one that is refused though memory and disk together would do."""
    draws = 10**8  # 26 bytes each of one chain: 2.4 GiB
    machine(memory=GIB, disk=GIB)
    refused(
        lambda: bouncy.sample(SPINS, draws=draws, chains=1), "2.42 GiB for their draws (2 GiB left in memory and on"
    )
    setup, goal = setup_of(SPINS), module.Goal(draws)
    module.check_feasible(setup_of(SPINS, keep="means"), 1, goal, bouncy.run.driver.Resources())
    machine(memory=GIB, disk=int(1.5 * GIB))
    module.check_feasible(setup, 1, goal, bouncy.run.driver.Resources())


def setup_of(target, keep="draws", pairs="none", slots=16):
    from bouncy.samplers import as_sampler

    return bouncy.results.data.Setup(target, as_sampler(target), 0, 1, keep, pairs, slots)


def test_what_is_not_known_is_not_checked(machine):
    """Catches a system without figures on which nothing can be run, and time that is not checked there."""
    machine(memory=None, disk=None)
    resources = bouncy.run.driver.Resources()
    module.check_feasible(setup_of(SPINS), 10**6, module.Goal(1000), resources)
    with pytest.raises(
        ValueError, match=r"463 days, [\d.]+ KiB of memory for the chains and 23,647 TiB for their draws, which"
    ):
        module.check_feasible(setup_of(SPINS), 1, module.Goal(10**15), resources)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("scheme", "path") else []) for name in TARGETS]
)
def test_an_end_by_the_clock_is_enough(name):
    """Catches a run that is refused for draws that it would never have come to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bouncy.SpillWarning)  # it goes to files, which is right
        run = bouncy.sample(TARGETS[name], draws=10**15, seconds=0.2, chains=2, seed=0)
        assert run.stopped_by == "seconds"
        precise = bouncy.sample(TARGETS[name], draws=10**15, until_se=0.5, keep="means", chains=2, seed=0)
    assert precise.stopped_by == "until_se"


def test_a_run_cannot_go_on_without_end(tmp_path):
    """Catches `extend` and `resume`, which know of no limit, and what they leave behind when they refuse."""
    run = bouncy.sample(SPINS, draws=50, chains=2, seed=0, checkpoint=tmp_path / "work")
    refused(lambda: run.extend(draws=10**15), "1,000,000,000,000,050 draws of 2 chains", "463 days")
    refused(
        lambda: bouncy.resume(tmp_path / "work", SPINS, total_draws=10**15), "1,000,000,000,000,000 draws of 2 chains"
    )
    longer = bouncy.resume(tmp_path / "work", SPINS, total_draws=80)
    assert longer.draws_per_chain == 80
    apart = bouncy.sample(SPINS, draws=50, chains=2, seed=0)
    refused(lambda: apart.extend(draws=10**15), "TiB for their draws")
    assert apart.extend(draws=30).draws.tobytes() == longer.draws.tobytes()


def test_draws_that_are_there_already_do_not_count(machine):
    """Catches a run that cannot go on because of what it has."""
    goal = module.Goal(draws=10**15 + 100)
    resources = bouncy.run.driver.Resources()
    module.check_feasible(setup_of(SPINS), 4, goal, resources, drawn=10**15)


def test_large_runs_begin_with_an_estimate(machine):
    """Catches a run of days that tells nothing before it starts, and a warning about one that takes minutes."""
    goal = module.Goal(draws=10**13)
    resources = bouncy.run.driver.Resources()
    with pytest.warns(LargeRunWarning, match=r"10,000,000,000,000 draws of 4 chains take at least 4.63 days, "):
        module.check_feasible(setup_of(SPINS, keep="means"), 4, goal, resources)
    machine(memory=GIB)
    with pytest.warns(
        LargeRunWarning, match=r"40,000 chains take at least .* MiB of memory for the chains \(1 GiB left"
    ):
        module.check_feasible(setup_of(SPINS), 40_000, module.Goal(seconds=60.0), resources)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.check_feasible(setup_of(SPINS, keep="means"), 4, module.Goal(draws=10**9), resources)
    assert bouncy.LargeRunWarning is LargeRunWarning


def test_the_estimate_of_memory_is_no_more_than_is_taken():
    """Catches an estimate that refuses what would work: states and batches of a worker take at least as much."""
    for target in (bouncy.MRF.random(100, seed=0), bouncy.Gaussian(np.zeros(40), cov=np.eye(40))):
        for pairs in ("none", "all"):
            setup = setup_of(target, pairs=pairs)
            worker = setup.new_workers([np.random.SeedSequence(0)], [None])[0]
            state = sum(array.nbytes for array in worker.state().values())
            batch = sum(array.nbytes for array in worker.open_sums()[0].values())
            taken = module._PER_WORKER + state + setup.slots // 2 * batch
            assert 0.5 * taken < module._worker_bytes(setup) <= taken


@pytest.mark.parametrize(
    "sampler", ["metropolis", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gibbs", "hmc"))]
)
@pytest.mark.parametrize("d", [1, 10, 300])
def test_the_estimate_of_time_is_no_more_than_is_taken(sampler, d):
    """Catches an estimate that refuses what would work, on a machine up to three times as fast as this one."""
    target = bouncy.MRF(np.zeros((d, d)), 0.3)
    run = bouncy.sample(target, sampler, chains=1, draws=20_000 // d + 100, keep="means", seed=0)
    sweeps = run.draws_per_chain * run.sweeps_per_draw
    assert sweeps * (module._PER_SWEEP + d * module._PER_FLIP) < run.sampling_seconds


def test_sizes_and_times_are_short():
    """Catches a number that nobody can read."""
    assert [module._size(size) for size in (0, 1023, 2048, 3 * GIB, 5e18)] == [
        "0 bytes", "1,023 bytes", "2 KiB", "3 GiB", "4,547,474 TiB",
    ]  # fmt: skip
    assert [module._duration(t) for t in (3.0, 300.0, 9000.0, 5e5, 5e8)] == [
        "3 seconds", "5 minutes", "2.5 hours", "5.79 days", "15.8 years",
    ]  # fmt: skip
