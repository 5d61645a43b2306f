"""Runs that are interrupted and resumed, or extended, have the bytes of one run of the total length."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import bouncy
from bouncy.run.endings import InterruptedWarning
from bouncy.storage.archive import read_header
from storage.checkpoints import GAUSSIAN, MODEL, QUICK, go, newest, plain, resume, sparse
from storage.comparing import different, everything
from storage.resumed import FIRST, SAMPLING, SECOND, Stop, broken, interrupted, slow_motion

EVERYWHERE = (FIRST, SECOND, SAMPLING)


def polynomial():
    return bouncy.Polynomial({(0, 1, 2): 0.4, (1, 2, 3): -0.3, (0, 3): 0.25, (1,): -0.3, (2,): 0.2})


def _cost(s, i, data):
    return -2.0 * s[i] * (data[i] - 0.3 * s[(i + 1) % s.size])


def custom():
    return bouncy.Custom(4, flip_cost=_cost, data=np.array([0.1, -0.2, 0.3, 0.0]))


def within():
    def scale(x, parameters, generator):
        return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))

    def target(scale):
        return bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2))

    return bouncy.Within(target, {"scale": scale}, {"scale": 1.0}, sweeps=2)


def magnet():
    return bouncy.MRF.ising((2, 3), coupling=0.3, field=0.1)


def spins_within():
    def field(x, parameters, generator):
        return generator.normal(x.sum(), 1.0)

    return bouncy.Within(lambda h: bouncy.MRF(np.zeros((3, 3)), -h * np.ones(3)), {"h": field}, {"h": 0.0})


def _hill(y, data):
    return -0.5 * (y[0] / data[0]) ** 2 - np.abs(y[1] / data[1]) ** 1.5 - (0.7 if y[0] + y[1] > 0.1 else 0.0)


def _hill_gradient(y, out, data):
    out[0] = -y[0] / data[0] ** 2
    out[1] = -1.5 * np.sqrt(np.abs(y[1] / data[1])) * np.sign(y[1]) / data[1]


def density():
    """Return a density whose lengths are far from those that it starts with, so that the warm-up has to find them."""
    options = {"walls": [([1.0, 1.0], 0.1)], "edges": {1: [0.0]}, "scale": [1.0, 1.0]}
    return bouncy.Density(2, _hill, _hill_gradient, data=np.array([0.05, 20.0]), **options)


CASES = {name: (lambda: MODEL, name, {}) for name in sorted(bouncy.samplers.names())}
del CASES["auto"]
CASES["metropolis-swap"] = (lambda: MODEL.fixed_sum(2), "metropolis-swap", {})
CASES |= {
    "all clusters": (magnet, "swendsen-wang", {}),
    "single clusters": (magnet, "wolff", {"keep": "path"}),
    "thinned": (lambda: MODEL, "bps-gaussian", {"thin": 3}),
    "thinned hmc": (lambda: MODEL, "hmc", {"thin": 2}),
    "means": (lambda: MODEL, "bps-gaussian", {"keep": "means", "thin": 2}),
    "path": (lambda: MODEL, "bps-gaussian", {"keep": "path"}),
    "path of gibbs": (lambda: MODEL, "gibbs", {"keep": "path", "thin": 2}),
    "edges": (sparse, "bps-gaussian", {"pairs": "edges"}),
    "polynomial": (polynomial, "bps-gaussian", {}),
    "custom": (custom, "bps-gaussian", {}),
    "continuous": (lambda: GAUSSIAN, "bps", {"thin": 2}),
    "continuous hmc": (lambda: GAUSSIAN, "hmc", {}),
    "continuous gibbs": (lambda: GAUSSIAN, "gibbs", {"thin": 2}),
    "continuous means": (lambda: GAUSSIAN, "bps", {"keep": "means"}),
    "density": (density, "bps", {}),
    "density metropolis": (density, "metropolis", {}),
    "within": (within, "bps", {}),
    "within gibbs": (within, "gibbs-random", {}),
    "within hmc": (within, "hmc", {"thin": 2}),
    "spins within": (spins_within, "gibbs", {"keep": "means"}),
}


# Cases that differ from another one by a clock, a scan, or how much is kept.
ALIKE = {
    "bps-exponential", "gibbs-random", "hmc-exponential", "metropolis-random", "thinned", "thinned hmc",
    "path of gibbs", "single clusters", "continuous hmc", "continuous means", "within hmc", "within gibbs",
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] if c in ALIKE else []) for c in CASES])
def test_resumed_run_has_the_bytes_of_one_that_was_not_interrupted(case, tmp_path):
    """Catches anything that a run depends on and a checkpoint does not hold, in each half of the warm-up and after."""
    build, sampler, options = CASES[case]
    options = {**QUICK, **options}
    whole = bouncy.sample(build(), sampler, threads=2, progress=False, **options)
    parts = broken(tmp_path / "c", build(), sampler, EVERYWHERE, **options)
    assert parts.completed
    assert different(whole, parts) == []


def test_interrupt_writes_a_checkpoint_of_its_moment(tmp_path):
    """Catches a Ctrl-C that leaves no checkpoint of the moment at which it came."""
    run = interrupted(
        lambda **seen: bouncy.sample(MODEL, checkpoint=tmp_path / "c", checkpoint_every=1000.0, **QUICK, **seen),
        SAMPLING,
    )
    assert 10 <= run.draws.shape[1] < 40
    assert different(bouncy.Run.load(tmp_path / "c"), run) == []
    again = interrupted(lambda **seen: bouncy.resume(tmp_path / "c", MODEL, checkpoint_every=1000.0, **seen), SAMPLING)
    assert (again.draws[:, : run.draws.shape[1]] == run.draws).all()
    assert different(resume(tmp_path / "c"), plain()) == []


@pytest.mark.parametrize(
    "options",
    [{"se_of": "mean"}, {"se_of": "pair_mean", "keep": "means"}, {"se_of": lambda s: s[:, :2].sum(axis=1)}],
    ids=["mean", "pairs", "function"],
)
def test_precision_is_reached_at_the_same_draw(options, tmp_path):
    """Catches looks at the precision that depend on where a run was cut, and sums of a function that are not stored."""
    options = {"chains": 4, "until_se": 0.02, "warmup": 40, "seed": 2, **options}
    whole = bouncy.sample(MODEL, "gibbs", progress=False, **options)
    later = lambda seen: seen.stage == "sampling" and min(c.draws for c in seen.chains) > 70  # noqa: E731
    parts = broken(tmp_path / "c", MODEL, "gibbs", (SECOND, SAMPLING, later), **options)
    assert parts.stopped_by == "until_se"
    assert whole.draws_per_chain > 70
    assert different(whole, parts) == []


@pytest.mark.slow
def test_recording_that_began_anew_goes_on(tmp_path):
    """Catches a resumed run that forgets that its first recording became warm-up, or finds the rows of that one."""
    options = {"chains": 4, "until_se": 0.002, "seed": 2}
    whole = bouncy.sample(MODEL, "gibbs", progress=False, **options)
    assert whole._data.recordings > 1
    with slow_motion(), pytest.warns(InterruptedWarning):
        part = bouncy.sample(
            MODEL,
            "gibbs",
            checkpoint=tmp_path / "c",
            checkpoint_every=1e-3,
            progress=Stop(_after(whole.warmup)),
            **options,
        )
    assert part._data.recordings == whole._data.recordings
    parts = resume(tmp_path / "c", checkpoint_every=1e-3)
    assert different(whole, parts) == []
    assert len(list((tmp_path / "c").glob("draws.*.rows"))) == 1, "rows of the first recording are of no use any more"


def _after(draws):
    return lambda seen: seen.stage == "sampling" and min(chain.draws for chain in seen.chains) > draws


def test_run_by_the_clock_is_part_of_a_longer_one(tmp_path):
    """Catches seconds that begin anew at a resume, and draws that depend on when a run is out of time."""
    first = bouncy.sample(MODEL, checkpoint=tmp_path / "c", chains=2, seconds=0.02, warmup=50, seed=4, progress=False)
    second = resume(tmp_path / "c", total_seconds=0.05)
    n, m = first.draws.shape[1], second.draws.shape[1]
    assert 0 < n < m
    assert resume(tmp_path / "c", total_seconds=0.05).draws.shape[1] <= m + 100, "its time is over after a round or two"
    whole = bouncy.sample(MODEL, chains=2, draws=m, warmup=50, seed=4, progress=False)
    assert (whole.draws == second.draws).all()
    assert (whole.draws[:, :n] == first.draws).all()


def test_many_checkpoints_leave_no_trace(tmp_path, monkeypatch):
    """Catches checkpoints that change the run, and files of older generations that are never removed."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # which takes longer than all else
    with slow_motion():
        run = go(tmp_path / "c", checkpoint_every=1e-9, keep="path", draws=300)
    monkeypatch.undo()
    assert different(run, plain(draws=300, keep="path")) == []
    assert read_header(newest(tmp_path / "c"))["generation"] > 10
    names = {file.name.partition(".")[0] for file in (tmp_path / "c").iterdir()}
    assert names == {"state-0", "state-1", "lock", "flip_site", "flip_time", "flip_count", "log_prob", "magnetisation"}


def test_completed_run_can_be_made_longer(tmp_path):
    """Catches a checkpoint that keeps the goal of the run that wrote it, or a lock on it, when that has returned."""
    first = go(tmp_path / "c")
    assert different(resume(tmp_path / "c"), first) == []
    longer = resume(str(tmp_path / "c"), total_draws=90)
    assert different(longer, plain(draws=90)) == []
    assert longer.draws[:, :40].tobytes() == first.draws.tobytes()


def test_extension_is_written_to_the_checkpoint(tmp_path):
    """Catches an extended run whose checkpoint stays at the old length."""
    run = go(tmp_path / "c")
    longer = run.extend(draws=20)
    assert different(longer, plain(draws=60)) == []
    assert different(bouncy.Run.load(tmp_path / "c"), longer) == []
    longest = longer.extend(draws=15)
    assert different(longest, plain(draws=75)) == []
    assert different(resume(tmp_path / "c"), longest) == []


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_extension_that_is_interrupted_goes_on(keep, tmp_path):
    """Catches an extension that is not part of the checkpoint until it is done."""
    run = go(tmp_path / "c", keep=keep)
    interrupted(lambda **seen: run.extend(draws=50, **seen), lambda seen: seen.chains[0].draws > 60)
    assert different(resume(tmp_path / "c", total_draws=90), plain(draws=90, keep=keep)) == []


def test_failed_extension_leaves_run_and_checkpoint_usable(tmp_path):
    """Catches an error in an extension that changes the run it began from, or keeps its checkpoint locked."""

    class Broken(Exception):
        pass

    def fail(seen):
        if seen.chains[0].draws > 45:
            raise Broken

    run = go(tmp_path / "c", checkpoint_every=1e-9)
    before = everything(run)
    with slow_motion(), pytest.raises(Broken):
        run.extend(draws=30, progress=fail)
    assert everything(run) == before
    assert different(resume(tmp_path / "c", total_draws=70), plain(draws=70)) == []


def test_processes_and_threads_can_follow_each_other(tmp_path):
    """Catches a checkpoint that only who wrote it can read: threads, processes, threads."""
    options = {**QUICK, "draws": 600}
    run = interrupted(lambda **seen: bouncy.sample(MODEL, checkpoint=tmp_path / "c", **options, **seen), SAMPLING)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        resume(tmp_path / "c", total_draws=400, executor=pool)
    parts = resume(tmp_path / "c", total_draws=600)
    assert different(parts, bouncy.sample(MODEL, progress=False, **options)) == []
    assert run.draws.shape[1] < 400


@pytest.mark.parametrize("seed", [np.random.SeedSequence(5).spawn(2)[1], np.int64(3), 2**100])
def test_any_seed_can_be_stored(seed, tmp_path):
    """Catches numbers that JSON does not know, and a seed that does not repeat the run any more."""
    run = go(tmp_path / "c", seed=seed, draws=np.int64(5))
    again = resume(tmp_path / "c", total_draws=10)
    repeated = bouncy.sample(MODEL, progress=False, **{**QUICK, "seed": again.seed, "draws": 10})
    assert (repeated.draws == again.draws).all()
    assert (again.draws[:, :5] == run.draws).all()
