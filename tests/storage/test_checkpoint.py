"""Checkpoints: a run that is interrupted, killed, out of space or damaged goes on byte for byte, or says why not."""

from __future__ import annotations

import copy
import gc
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import bouncy
from bouncy import CheckpointError, CheckpointWarning
from bouncy.run import rows as rows_module
from bouncy.run.checkpoint import Checkpoint
from bouncy.run.container import packed, unpacked
from conftest import base_seed
from run.resumed import FIRST, SAMPLING, SECOND, broken, different, everything, interrupted, slow_motion

MODEL = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
GAUSSIAN = bouncy.Gaussian([0.0, 1.0, 0.0], cov=np.eye(3) + 0.3)
QUICK = {"chains": 3, "warmup": 40, "draws": 40, "seed": 11}
EVERYWHERE = (FIRST, SECOND, SAMPLING)


def sparse():
    return bouncy.MRF.ising((4, 4), coupling=0.3)


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


def spins_within():
    def field(x, parameters, generator):
        return generator.normal(x.sum(), 1.0)

    return bouncy.Within(lambda h: bouncy.MRF(np.zeros((3, 3)), -h * np.ones(3)), {"h": field}, {"h": 0.0})


def go(folder, target=MODEL, **options):
    return bouncy.sample(target, checkpoint=folder, progress=False, **{**QUICK, **options})


def resume(folder, target=MODEL, **options):
    return bouncy.resume(folder, target, progress=False, **options)


# --- going on ---------------------------------------------------------------------------------------------------------

SCHEMES = {"sparse": sparse, "polynomial": polynomial, "custom": custom}
CASES = {name: (lambda: MODEL, name, {}) for name in sorted(bouncy.samplers.names())}
CASES |= {
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
    "continuous means": (lambda: GAUSSIAN, "bps", {"keep": "means"}),
    "within": (within, "bps", {}),
    "within hmc": (within, "hmc", {"thin": 2}),
    "spins within": (spins_within, "gibbs", {"keep": "means"}),
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_run_has_the_bytes_of_one_that_was_not_interrupted(case, tmp_path):
    """Catches anything that a run depends on and a checkpoint does not hold, in each half of the warm-up and after."""
    build, sampler, options = CASES[case]
    options = {**QUICK, **options}
    whole = bouncy.sample(build(), sampler, threads=2, progress=False, **options)
    parts = broken(tmp_path / "c", build(), sampler, EVERYWHERE, **options)
    assert parts.completed
    assert different(whole, parts) == []


def test_signal_is_like_any_other_interrupt(tmp_path):
    """Catches a Ctrl-C that leaves no checkpoint of the moment at which it came."""
    run = interrupted(
        lambda **seen: bouncy.sample(MODEL, checkpoint=tmp_path / "c", every=1000.0, **QUICK, **seen), SAMPLING, True
    )
    assert 10 <= run.draws.shape[1] < 40
    again = interrupted(lambda **seen: bouncy.resume(tmp_path / "c", MODEL, every=1000.0, **seen), SAMPLING, True)
    assert (again.draws[:, : run.draws.shape[1]] == run.draws).all()
    assert different(resume(tmp_path / "c"), bouncy.sample(MODEL, progress=False, **QUICK)) == []


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
    assert whole._growth.drawn > 70
    assert different(whole, parts) == []


def test_recording_that_began_anew_goes_on(tmp_path):
    """Catches a resumed run that forgets that its first recording became warm-up, or finds the rows of that one."""
    options = {"chains": 4, "until_se": 0.004, "seed": 2}
    whole = bouncy.sample(MODEL, "gibbs", progress=False, **options)
    assert whole._growth.recordings > 1
    with slow_motion(), pytest.warns(bouncy.results.run.InterruptedWarning):
        part = bouncy.sample(
            MODEL, "gibbs", checkpoint=tmp_path / "c", every=1e-3, progress=_After(whole.warmup), **options
        )
    assert part._growth.recordings == whole._growth.recordings
    parts = resume(tmp_path / "c", every=1e-3)
    assert different(whole, parts) == []
    assert len(list((tmp_path / "c").glob("draws.*.rows"))) == 1, "rows of the first recording are of no use any more"


class _After:
    """Interrupts a run whose recording began after so many sweeps."""

    def __init__(self, warmup):
        self._before, self._done = warmup, False

    def __call__(self, seen):
        if not self._done and seen.stage == "sampling" and min(chain.draws for chain in seen.chains) > self._before:
            self._done = True
            raise KeyboardInterrupt


def test_run_by_the_clock_is_part_of_a_longer_one(tmp_path):
    """Catches seconds that begin anew at a resume, and draws that depend on when a run is out of time."""
    first = bouncy.sample(MODEL, checkpoint=tmp_path / "c", chains=2, seconds=0.02, warmup=50, seed=4, progress=False)
    second = resume(tmp_path / "c", seconds=0.05)
    n, m = first.draws.shape[1], second.draws.shape[1]
    assert 0 < n < m
    assert resume(tmp_path / "c", seconds=0.05).draws.shape[1] <= m + 10, "its time is over"
    whole = bouncy.sample(MODEL, chains=2, draws=m, warmup=50, seed=4, progress=False)
    assert (whole.draws == second.draws).all()
    assert (whole.draws[:, :n] == first.draws).all()


def test_many_checkpoints_leave_no_trace(tmp_path, monkeypatch):
    """Catches checkpoints that change the run, and files of older generations that are never removed."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # which takes longer than all else
    with slow_motion():
        run = go(tmp_path / "c", every=1e-9, keep="path", draws=300)
    monkeypatch.undo()
    assert different(run, bouncy.sample(MODEL, progress=False, keep="path", **{**QUICK, "draws": 300})) == []
    header, _ = unpacked(max((tmp_path / "c").glob("state-?"), key=lambda file: file.stat().st_mtime_ns))
    assert header["generation"] > 10
    names = {file.name.partition(".")[0] for file in (tmp_path / "c").iterdir()}
    assert names == {"state-0", "state-1", "lock", "flip_site", "flip_time", "flip_count", "log_prob", "magnetisation"}


def test_completed_run_can_be_made_longer(tmp_path):
    """Catches a checkpoint that keeps the goal of the run that wrote it, or a lock on it, when that has returned."""
    first = go(tmp_path / "c")
    assert different(resume(tmp_path / "c"), first) == []
    longer = resume(str(tmp_path / "c"), draws=90)
    assert different(longer, bouncy.sample(MODEL, progress=False, **{**QUICK, "draws": 90})) == []
    assert longer.draws[:, :40].tobytes() == first.draws.tobytes()


def test_extension_is_written_to_the_checkpoint(tmp_path):
    """Catches an extended run whose checkpoint stays at the old length, and a copy that writes to it, too."""
    run = go(tmp_path / "c")
    twin = copy.copy(run)
    run.extend(draws=20)
    assert different(resume(tmp_path / "c"), run) == []
    twin.extend(draws=35)
    assert resume(tmp_path / "c").draws.shape[1] == 60
    whole = bouncy.sample(MODEL, progress=False, **{**QUICK, "draws": 75})
    assert different(twin, whole) == []


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_extension_that_is_interrupted_goes_on(keep, tmp_path):
    """Catches an extension that is not part of the checkpoint until it is done."""
    run = go(tmp_path / "c", keep=keep)
    interrupted(lambda progress: _watched(run, progress).extend(draws=50), lambda seen: seen.chains[0].draws > 60)
    whole = bouncy.sample(MODEL, progress=False, **{**QUICK, "draws": 90}, keep=keep)
    assert different(resume(tmp_path / "c"), whole) == []


def _watched(run, progress):
    run._options["progress"] = progress
    return run


def test_failed_extension_leaves_run_and_checkpoint_usable(tmp_path):
    """Catches a run that goes back in memory while its checkpoint holds what is no longer so."""

    class Broken(Exception):
        pass

    def fail(seen):
        if seen.chains[0].draws > 45:
            raise Broken

    run = go(tmp_path / "c", every=1e-9)
    before = everything(run)
    with slow_motion(), pytest.raises(Broken):
        _watched(run, fail).extend(draws=30)
    assert everything(run) == before
    whole = bouncy.sample(MODEL, progress=False, **{**QUICK, "draws": 70})
    again = _watched(run, False).extend(draws=30)
    assert different(again, whole) == []
    assert different(resume(tmp_path / "c"), whole) == []


def test_processes_and_threads_can_follow_each_other(tmp_path):
    """Catches a checkpoint that only who wrote it can read: threads, processes, threads."""
    options = {**QUICK, "draws": 600}
    run = interrupted(lambda **seen: bouncy.sample(MODEL, checkpoint=tmp_path / "c", **options, **seen), SAMPLING)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        resume(tmp_path / "c", draws=400, executor=pool)
    parts = resume(tmp_path / "c", draws=600)
    assert different(parts, bouncy.sample(MODEL, progress=False, **options)) == []
    assert run.draws.shape[1] < 400


@pytest.mark.parametrize("seed", [np.random.SeedSequence(5).spawn(2)[1], np.int64(3), 2**100])
def test_any_seed_can_be_stored(seed, tmp_path):
    """Catches numbers that JSON does not know, and a seed that does not repeat the run any more."""
    run = go(tmp_path / "c", seed=seed, draws=np.int64(5))
    again = resume(tmp_path / "c", draws=10)
    repeated = bouncy.sample(MODEL, progress=False, **{**QUICK, "seed": again.seed, "draws": 10})
    assert (repeated.draws == again.draws).all()
    assert (again.draws[:, :5] == run.draws).all()


# --- files that go away -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_draws_outlive_their_folder(keep, tmp_path):
    """Catches results that are lost when a temporary folder, in which the checkpoint was, is removed."""
    run = go(tmp_path / "c", keep=keep)
    shutil.rmtree(tmp_path / "c")
    assert different(run, bouncy.sample(MODEL, progress=False, keep=keep, **QUICK)) == []
    with pytest.raises(CheckpointError, match="no such folder"):
        run.extend(draws=5)
    assert copy.copy(run).extend(draws=5)._growth.drawn == 45


def test_folder_that_vanishes_costs_the_checkpoint_alone(tmp_path):
    """Catches a run that dies, or loses draws, with the folder that it is written to."""

    def remove(seen):
        if seen.stage == "sampling" and seen.chains[0].draws > 20:
            shutil.rmtree(tmp_path / "c", ignore_errors=True)

    with slow_motion(), pytest.warns(CheckpointWarning, match="could not be written"):
        run = bouncy.sample(MODEL, checkpoint=tmp_path / "c", every=1e-9, progress=remove, **QUICK)
    assert different(run, bouncy.sample(MODEL, progress=False, **QUICK)) == []


def test_file_that_someone_cuts_is_no_end_of_the_process(tmp_path):
    """Catches a map of a file that is shorter by now: to touch it ends the process with SIGBUS."""
    run = go(tmp_path / "c")
    os.truncate(next((tmp_path / "c").glob("draws.*")), 7)
    with pytest.raises(OSError, match="rows are lost"):
        run.draws  # noqa: B018


def test_folder_is_found_again_from_elsewhere(tmp_path, monkeypatch):
    """Catches a relative path that is looked up from another directory by the time it is needed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")

    def move(seen):
        os.chdir(tmp_path / "b")

    run = bouncy.sample(MODEL, checkpoint="c", progress=move, **QUICK)
    run.extend(draws=5)
    assert not any((tmp_path / "b").iterdir())
    monkeypatch.chdir(tmp_path / "a")
    again = bouncy.resume(Path("c"), MODEL, draws=60, progress=move)
    assert again.draws.shape == (3, 60, 6)
    assert not any((tmp_path / "b").iterdir())


# --- one at a time ----------------------------------------------------------------------------------------------------


def test_existing_checkpoint_is_refused_and_left_as_it_is(tmp_path):
    """Catches a second `sample` that overwrites hours of work."""
    go(tmp_path / "c")
    before = _contents(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"already.*bouncy\.resume"):
        go(tmp_path / "c")
    assert _contents(tmp_path / "c") == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="not a folder"):
        go(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def _contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_two_runs_cannot_write_to_one_folder(tmp_path):
    """Catches a lock that is not held while a run goes on, or is still held when it has failed."""
    problems = []

    def try_too(seen):
        with pytest.raises(CheckpointError, match="another run"):
            resume(tmp_path / "c")
        with pytest.raises(CheckpointError, match="already"):
            go(tmp_path / "c")
        problems.append(seen)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        bouncy.sample(MODEL, checkpoint=tmp_path / "c", progress=try_too, **QUICK)
    assert len(problems) == 1
    assert different(resume(tmp_path / "c"), bouncy.sample(MODEL, progress=False, **QUICK)) == []


def test_run_does_not_write_over_what_another_has_done(tmp_path):
    """Catches an older run that is extended and puts its state in place of that of one which has gone on since."""
    old = go(tmp_path / "c")
    new = resume(tmp_path / "c", draws=60)
    with pytest.raises(CheckpointError, match="another run has gone on"):
        old.extend(draws=5)
    assert old.draws.shape[1] == 40
    assert different(resume(tmp_path / "c"), new) == []
    assert (copy.copy(old).extend(draws=20).draws == new.draws).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_lock_ends_with_its_process_even_if_that_has_children(tmp_path):
    """Catches workers that were forked, outlive the run that was killed, and keep its checkpoint locked."""
    script = f"""
        import os, signal, sys, time, bouncy
        from bouncy.run.checkpoint import Checkpoint
        kept = Checkpoint.new({str(tmp_path / "c")!r}, 1.0)
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            time.sleep(60)
            os._exit(0)
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    orphan = int(process.stdout.readline())
    try:
        with pytest.raises(CheckpointError, match="another run"):
            Checkpoint.new(tmp_path / "c", 1.0)
        process.kill()
        process.wait()
        Checkpoint.new(tmp_path / "c", 1.0).close()
    finally:
        os.kill(orphan, signal.SIGKILL)
        process.stdin.close()
        process.stdout.close()


def test_no_handle_or_thread_is_left_behind(tmp_path):
    """Catches runs that each keep a file or a thread of their checkpoint for ever."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    handles = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731
    gc.collect()
    before, threads = handles(), threading.active_count()
    runs = [go(tmp_path / str(k), draws=3) for k in range(3)]
    with pytest.raises(CheckpointError):
        resume(tmp_path / "0", target=sparse())
    assert handles() - before <= 9, "each may hold the files of its draws"
    assert threading.active_count() == threads
    del runs
    gc.collect()
    assert handles() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_folder_that_cannot_be_written_is_refused_before_sampling(tmp_path):
    """Catches a run of hours that finds out at its first checkpoint that it cannot write one."""
    go(tmp_path / "old")
    for folder in (tmp_path / "new", tmp_path / "old"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o555)
    tmp_path.chmod(0o755)

    def attempt():
        assert not os.access(tmp_path / "new", os.W_OK), "this file system knows no permissions"
        for begin in (lambda: go(tmp_path / "new"), lambda: go(tmp_path / "new" / "deeper")):
            with pytest.raises(CheckpointError, match=r"cannot be (written to|made)"):
                begin()
        with pytest.raises(CheckpointError, match="cannot be written to"):
            resume(tmp_path / "old")

    _as_nobody(tmp_path, attempt)


def _as_nobody(folder, work):
    """Do some work in a child that has no more rights than others."""
    for place in (folder, *folder.parents):
        if os.getuid() == 0 and not place.stat().st_mode & 0o001:
            pytest.skip(f"others cannot reach {place}")
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            work()
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


# --- other models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=4), {}, "another model"),
        (bouncy.MRF.random(7, seed=3), {}, "another model"),
        (bouncy.MRF(MODEL.M, MODEL.r, labels=list("abcdef")), {}, "another model"),
        (GAUSSIAN, {}, "another model"),
        (None, {}, "must be the bouncy target"),
        (MODEL, {"sampler": bouncy.Gibbs()}, "of the sampler .*'bps-gaussian'.* Gibbs"),
        (MODEL, {"sampler": "hmc"}, "of the sampler .*'bps-gaussian'.* HMC"),
        (MODEL, {"sampler": bouncy.BPS("gaussian", refreshment=0.9)}, "of the sampler"),
    ],
    ids=["couplings", "size", "labels", "kind", "nothing", "sampler", "name", "setting"],
)
def test_other_models_and_samplers_are_refused(target, options, words, tmp_path):
    """Catches chains that go on with a model or a sampler that is not theirs."""
    go(tmp_path / "c")
    before = _contents(tmp_path / "c")
    with pytest.raises(CheckpointError, match=words):
        resume(tmp_path / "c", target, **options)
    assert _contents(tmp_path / "c") == before
    assert resume(tmp_path / "c", sampler="bps-gaussian").completed


def test_function_must_be_passed_again(tmp_path):
    """Catches a run that goes by a function, and goes on by something else."""
    go(tmp_path / "c", until_se=0.5, se_of=lambda s: s[:, 0], chains=4)
    with pytest.raises(CheckpointError, match="pass it as se_of="):
        resume(tmp_path / "c")


def test_folders_without_a_checkpoint_are_named(tmp_path):
    """Catches a resume that begins from zero, or litters a folder that is not its own."""
    with pytest.raises(CheckpointError, match="no such folder"):
        resume(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"no checkpoint in this folder.*bouncy\.sample"):
        resume(tmp_path)
    assert not any(tmp_path.iterdir())


# --- killed -----------------------------------------------------------------------------------------------------------


def _killed(folder, kills):
    folder.mkdir(exist_ok=True)
    script = Path(__file__).with_name("killed.py")
    source = Path(bouncy.__file__).parents[1]
    places = os.pathsep.join([str(source), str(script.parents[1])])
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": places}
    command = [sys.executable, str(script), str(folder), str(base_seed()), str(kills)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{kills} kills" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_runs_lose_no_more_than_an_interval(tmp_path):
    """Catches a moment at which a kill leaves no generation, one that is not whole, or one that leads elsewhere."""
    _killed(tmp_path, 50)


# --- no space ---------------------------------------------------------------------------------------------------------

NO_SPACE = """
    import copy, resource, shutil, sys, warnings
    from pathlib import Path
    import bouncy
    from bouncy import CheckpointWarning
    from bouncy.run import rows
    from run.resumed import different, slow_motion

    TARGET = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
    folder, keep = Path(sys.argv[1]), sys.argv[2]
    options = dict(chains=2, warmup=20, draws=300, seed=1, keep=keep, threads=1)
    whole = bouncy.sample(TARGET, progress=False, **options)
    bouncy.sample(TARGET, checkpoint=folder, progress=False, **{**options, "draws": 20})
    state = max(file.stat().st_size for file in folder.glob("state-?"))
    largest = max([file.stat().st_size for file in folder.glob("*.rows")], default=0)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def begin():
        shutil.rmtree(folder)
        bouncy.sample(TARGET, checkpoint=folder, progress=False, **{**options, "draws": 20})

    # (a) states cannot be written, (b) rows cannot grow
    for size in (state // 2, largest + 10):
        limit(size)
        with warnings.catch_warnings(record=True) as told, slow_motion():
            warnings.simplefilter("always")
            run = bouncy.resume(folder, TARGET, draws=150, every=1e-9, progress=False)
        assert told and {item.category for item in told} <= {CheckpointWarning, rows.SpillWarning}, told
        assert any("could not be written" in str(item.message) for item in told), told
        assert not list(folder.glob("*.part"))
        assert run.log_prob.shape[1] == 150 and run.stopped_by == "draws"
        assert (run.log_prob == whole.log_prob[:, :150]).all()
        assert keep == "means" or (run.draws == whole.draws[:, :150]).all()
        twin = copy.copy(run)
        assert (twin.log_prob == run.log_prob).all()
        # there is space again
        limit(resource.RLIM_INFINITY)
        run.extend(draws=10)
        again = bouncy.resume(folder, TARGET, draws=160, progress=False)
        assert different(run, again) == []
        assert (run.log_prob == whole.log_prob[:, :160]).all()
        begin()
        # what was there before the disk was full is still usable
        limit(size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bouncy.resume(folder, TARGET, draws=100, every=1e-9, progress=False)
        limit(resource.RLIM_INFINITY)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert different(bouncy.resume(folder, TARGET, draws=300, progress=False), whole) == []
        begin()
        print("well")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize("keep", ["draws", "path"])
def test_full_disk_costs_checkpoints_and_not_the_run(keep, tmp_path):
    """Catches a run that dies, or loses draws, when files cannot grow, and a generation that is damaged by that."""
    places = os.pathsep.join([str(Path(bouncy.__file__).parents[1]), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NO_SPACE), str(tmp_path / "c"), keep],
        env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["well", "well"]


@pytest.mark.slow  # a limit on the size of files does for every day what this does for real
def test_full_file_system(tmp_path):
    """Catches what a limit on files does not show: no room for new files and names, and partial writes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=16", "tmpfs", str(place)], capture_output=True, check=False
    ) if shutil.which("mount") else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        with pytest.warns(CheckpointWarning, match="No space left"):
            run = go(place / "c", every=1e-9, chains=2, draws=3000, keep="path")
        whole = bouncy.sample(MODEL, progress=False, **{**QUICK, "chains": 2, "draws": 3000}, keep="path")
        assert different(run, whole) == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)  # it is as full as before
            assert different(resume(place / "c"), whole) == []
        del run
    finally:
        # Even if rows are still mapped: what is left of a mount would be in the way of later tests.
        subprocess.run(["umount", "--lazy", str(place)], check=False)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["draws", "means", "path"])
def kept(request, tmp_path_factory):
    """Return a checkpoint with two generations in the middle of a run, and how that ends."""
    folder = tmp_path_factory.mktemp("kept") / request.param
    options = {**QUICK, "chains": 2, "draws": 30, "keep": request.param}
    early = interrupted(lambda **seen: bouncy.sample(MODEL, checkpoint=folder, **options, **seen), SAMPLING)
    assert 10 < early._growth.drawn < 30
    later = interrupted(
        lambda **seen: bouncy.resume(folder, MODEL, **seen), lambda seen: seen.chains[0].draws > early._growth.drawn + 2
    )
    # The first is written again when a run is resumed, and the last when it stops.
    assert later._growth.drawn > early._growth.drawn
    return folder, bouncy.sample(MODEL, progress=False, **options), request.param


def _newest(folder):
    return max(folder.glob("state-?"), key=lambda file: unpacked(file)[0]["generation"])


def _outcome(folder, whole):
    """Resume, and return what was told: the text of warnings, or of the error. Nothing else may come of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            run = resume(folder)
        except CheckpointError as error:
            return f"error: {error}"
    assert all(issubclass(item.category, CheckpointWarning) for item in told), [str(item.message) for item in told]
    assert different(run, whole) == []
    return "; ".join(str(item.message) for item in told)


def _copied(kept, tmp_path, name):
    folder = tmp_path / name
    shutil.copytree(kept[0], folder)
    return folder


def test_damaged_states_are_passed_over(kept, tmp_path):
    """Catches a state that is taken although it was cut short or a single bit of it is wrong."""
    rng = np.random.default_rng(base_seed())
    for k in range(40):
        folder = _copied(kept, tmp_path, str(k))
        file = folder / f"state-{k % 2}"
        content = bytearray(file.read_bytes())
        if k < 15:
            content = content[: int(rng.integers(len(content)))]
        else:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        told = _outcome(folder, kept[1])
        assert str(file) in told and "is used instead" in told, f"{k}: {told}"  # noqa: PT018


def test_every_cut_and_any_bit_is_noticed(kept, tmp_path):
    """Catches a checksum that does not cover the whole file."""
    content = kept[0].joinpath("state-0").read_bytes()
    file = tmp_path / "state"
    rng = np.random.default_rng(base_seed())
    lengths = [*range(80), *rng.integers(len(content), size=30).tolist(), len(content) - 1]
    for damaged in [content[:n] for n in lengths] + [content + b"x"]:
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"empty|does not begin|damaged"):
            unpacked(file)
    for _ in range(200):
        bits = bytearray(content)
        bits[int(rng.integers(len(bits)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bits)
        with pytest.raises(ValueError, match=r"does not begin|damaged"):
            unpacked(file)


def test_damaged_rows_are_refused_by_name(kept, tmp_path):
    """Catches draws that have changed on disk, or are missing, and are returned all the same."""
    rng = np.random.default_rng(base_seed())
    if kept[2] == "means":
        pytest.skip("it has no rows in files")
    names = sorted(file.name for file in kept[0].glob("*.rows"))
    for k in range(3 * len(names)):
        folder = _copied(kept, tmp_path, f"{kept[2]}{k}")
        file = folder / names[k % len(names)]
        content = bytearray(file.read_bytes())
        assert content
        way = k // len(names)
        if way == 0:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        elif way == 1:
            content = content[: int(rng.integers(len(content)))]
        file.write_bytes(content)
        if way == 2:
            file.unlink()
        told = _outcome(folder, kept[1])
        assert file.name in told, told
        assert "is used instead" in told or told.startswith("error"), told


def test_missing_swapped_and_foreign_files(kept, tmp_path):
    """Catches a silent restart, or any other exception, where files are gone, exchanged or something else."""
    newest = _newest(kept[0]).name
    older = {"state-0": "state-1", "state-1": "state-0"}[newest]

    def damaged(name, change):
        folder = _copied(kept, tmp_path, name)
        change(folder)
        return _outcome(folder, kept[1])

    assert damaged("without the older", lambda folder: (folder / older).unlink()) == ""
    damaged("without the newer", lambda folder: (folder / newest).unlink())
    told = damaged("empty", lambda folder: (folder / newest).write_bytes(b""))
    assert f"{newest}: it is empty. {older} is used" in told
    told = damaged("folder", lambda folder: ((folder / newest).unlink(), (folder / newest).mkdir()))
    assert f"{newest}: it is not a file" in told
    told = damaged("pipe", lambda folder: ((folder / newest).unlink(), os.mkfifo(folder / newest)))
    assert f"{newest}: it is not a file" in told
    told = damaged("both", lambda folder: [(folder / name).write_bytes(b"x") for name in (newest, older)])
    assert told.startswith("error") and "state-0: " in told and "state-1: " in told  # noqa: PT018
    told = damaged("none", lambda folder: [(folder / name).unlink() for name in (newest, older)])
    assert told.startswith("error: ")
    assert "are gone" in told or "no checkpoint" in told
    assert damaged("same", lambda folder: shutil.copy(folder / newest, folder / older)) == ""

    folder = _copied(kept, tmp_path, "swapped")
    (folder / newest).rename(folder / "aside")
    (folder / older).rename(folder / newest)
    (folder / "aside").rename(folder / older)
    # The first that is written must not take the place of the newest.
    before = (folder / older).read_bytes()
    interrupted(lambda **seen: bouncy.resume(folder, MODEL, every=1000.0, **seen), lambda seen: True)
    _, first = unpacked(folder / newest)
    assert unpacked(folder / newest)[0]["generation"] == unpacked(kept[0] / newest)[0]["generation"] + 1
    assert (folder / older).read_bytes() != before
    assert first
    assert _outcome(folder, kept[1]) == ""


# --- files that were made to do harm ----------------------------------------------------------------------------------

ODD = [None, True, -1, 1, 2**63, 10**30, 1e300, math.nan, math.inf, "x", "", [], [1], {}, {"x": 1}]


def _rewritten(folder, change):
    """Change header and arrays of both states, with a digest that is right."""
    for file in folder.glob("state-?"):
        header, arrays = unpacked(file)
        change(header, arrays)
        file.write_bytes(b"".join(packed(header, arrays)))


def _harmless(folder, whole):
    """Resume: there must be a CheckpointError, or the run must be what it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        try:
            run = resume(folder)
        except CheckpointError:
            return True
    assert different(run, whole) == []
    return False


# What a change of is no harm: it is told and not used, or says what is so already.
_NOT_USED = {"target", "generation", "stopped_by", "seed", "recordings", "warmup_seconds", "chooses_warmup"}


def test_header_with_wrong_values_is_refused(kept, tmp_path):
    """Catches a field that is used without a look at its type and size: for each of them, fifteen odd values."""
    header, _ = unpacked(kept[0] / "state-0")
    folder = tmp_path / "c"
    shutil.copytree(kept[0], folder)
    whole = kept[1]
    keys = sorted(header) if kept[2] == "draws" else ["rows", "keep"]
    for key in keys:
        for value in ODD:
            if header[key] == value:
                continue
            _fresh(kept[0], folder)
            _rewritten(folder, lambda header, arrays, key=key, value=value: header.update({key: value}))
            if key in _NOT_USED:
                _quickly(folder)
            elif key == "rows" and kept[2] == "means":
                assert not _harmless(folder, whole)
            else:
                assert _harmless(folder, whole), f"{key}: {value!r}"
        _fresh(kept[0], folder)
        _rewritten(folder, lambda header, arrays, key=key: header.pop(key))
        assert _harmless(folder, whole) or key == "target", f"without {key}"


def _quickly(folder):
    """Read a checkpoint, and allow nothing but a CheckpointError."""
    from bouncy.results.resuming import restored
    from bouncy.run.checkpoint import read

    checkpoint = Checkpoint(folder, 1.0)
    try:
        read(folder, lambda header, arrays: restored(checkpoint, MODEL, None, None, header, arrays))
    except CheckpointError:
        pass
    finally:
        checkpoint.close()


def _fresh(source, folder):
    for file in source.glob("state-?"):
        shutil.copy(file, folder)


def test_goal_sampler_and_seed_with_wrong_values_are_refused(kept, tmp_path):
    """Catches a nested field that is trusted: a bound of nothing, draws that are no number, a seed of a huge pool."""
    if kept[2] != "draws":
        pytest.skip("one kind will do")
    folder = tmp_path / "c"
    shutil.copytree(kept[0], folder)
    changes = [("goal", key, value) for key in ("draws", "seconds", "until_se", "se_of", "next_look") for value in ODD]
    changes += [("sampler", key, value) for key in ("class", "settings") for value in ODD]
    changes += [("sampler", "settings", {"augmentation": "gaussian", "refreshment": value}) for value in ODD]
    changes += [("seed", "pool_size", 10**9), ("seed", "entropy", "x"), ("seed", "x", 1)]
    seed = {"entropy": 11, "spawn_key": [], "pool_size": 4, "n_children_spawned": 0}
    for outer, inner, value in changes:
        _fresh(kept[0], folder)

        def change(header, arrays, outer=outer, inner=inner, value=value):
            before = seed if outer == "seed" else header[outer]
            header[outer] = {**before, inner: value}

        _rewritten(folder, change)
        _quickly(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("chain.0.clock.rng"),
        lambda arrays: arrays.update({"chain.0.clock.rng": arrays["chain.0.clock.rng"].astype(np.float64)}),
        lambda arrays: arrays.update({"chain.0.clock.rng": arrays["chain.0.clock.rng"][:3]}),
        lambda arrays: arrays.update({"chain.0.more": np.zeros(3)}),
        lambda arrays: arrays.update({"chain.7.s": np.ones(6, np.int8)}),
        lambda arrays: arrays.update({"more": np.zeros(3)}),
        lambda arrays: arrays.update({"../../x": np.zeros(3)}),
        lambda arrays: arrays["chain.0.s"].__setitem__(0, 5),
        lambda arrays: arrays["chain.0.s"].__setitem__(0, -128),
        lambda arrays: arrays["chain.0.recorder.tally"].__setitem__(2, 1000),
        lambda arrays: arrays["chain.0.recorder.tally"].__setitem__(2, -1),
        lambda arrays: arrays["chain.0.recorder.tally"].__setitem__(5, 0),
        lambda arrays: arrays.update({"chain.0.sweeps": np.array(-5)}),
        lambda arrays: arrays.update({"chain.0.sweeps": np.array(10**6), "chain.1.sweeps": np.array(10**6)}),
        lambda arrays: arrays.update({"chain.0.cpu_seconds": np.array(np.nan)}),
        lambda arrays: arrays.update({"chain.0.recorder.events": np.zeros((10**6, 4))}),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(change, kept, tmp_path):
    """Catches an array that compiled code would trust: missing, too many, of another type or shape, out of range."""
    if kept[2] != "draws":
        pytest.skip("one kind will do")
    folder = _copied(kept, tmp_path, "c")
    _rewritten(folder, lambda header, arrays: change(arrays))
    told = _outcome(folder, kept[1])
    assert told.startswith("error"), told
    assert "no generation" in told


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("rows.log_prob"),
        lambda arrays: arrays.update({"rows.log_prob": arrays["rows.log_prob"][:, :-1]}),
        lambda arrays: arrays.update({"rows.log_prob": arrays["rows.log_prob"][:1]}),
        lambda arrays: arrays.update({"rows.log_prob": arrays["rows.log_prob"].astype(np.int64)}),
        lambda arrays: arrays.update({"rows.log_prob": np.array(1.0)}),
        lambda arrays: arrays["spacing.log_prob"].__setitem__(0, 0),
        lambda arrays: arrays["spacing.log_prob"].__setitem__(0, 3),
        lambda arrays: arrays["spacing.log_prob"].__setitem__(1, 2**60),
    ],
)
def test_traces_that_do_not_fit_are_refused(change, kept, tmp_path):
    """Catches a trace of constant memory that is not what the sweeps of its chains give."""
    if kept[2] != "means":
        pytest.skip("others have no traces in their states")
    folder = _copied(kept, tmp_path, "c")
    _rewritten(folder, lambda header, arrays: change(arrays))
    assert _outcome(folder, kept[1]).startswith("error")


def test_no_label_is_a_path(kept, tmp_path):
    """Catches names of files that come from a header, which could lead anywhere."""
    folder = _copied(kept, tmp_path, "c")
    outside = tmp_path / "outside.1.rows"
    outside.write_bytes(b"mine")

    def change(header, arrays):
        header["rows"] = {**header["rows"], "../outside": [1, 1]}
        header["state"] = "../outside"

    _rewritten(folder, change)
    _outcome(folder, kept[1])
    assert outside.read_bytes() == b"mine"
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("outside")] == ["outside.1.rows"]


def test_a_state_is_no_pickle(kept):
    """Catches a format that could execute what it reads: a state is a header in JSON, and numbers."""
    content = (kept[0] / "state-0").read_bytes()
    length = int.from_bytes(content[15:23], "little")
    assert json.loads(content[23 : 23 + length])["format"] == 1


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["draws", "path"])
def test_draws_that_do_not_fit_the_memory_go_to_disk(keep, tmp_path, monkeypatch):
    """Catches a run that dies for lack of memory, other bytes of draws on disk, and files that nobody removes."""
    whole = bouncy.sample(MODEL, progress=False, **QUICK, keep=keep)
    monkeypatch.setattr(rows_module, "available_memory", lambda: 1000)
    monkeypatch.setattr(rows_module, "_LARGE", 2000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(rows_module.SpillWarning, match="kept in"):
        run = bouncy.sample(MODEL, progress=False, **QUICK, keep=keep)
    assert isinstance(run._growth.rows.array("log_prob").base, np.memmap)
    assert different(run, whole) == []
    twin = copy.copy(run)
    assert len(list(tmp_path.glob("bouncy-*"))) == 1
    run.extend(draws=3)
    del run
    gc.collect()
    assert not list(tmp_path.glob("bouncy-*")), "it belongs to the run"
    monkeypatch.undo()
    assert different(twin, whole) == []
    assert (twin.extend(draws=20).draws[:, :40] == whole.draws).all()


def test_chains_that_are_left_keep_their_draws_on_disk(tmp_path, monkeypatch):
    """Catches files that are removed with the rows of all chains, when one chain fails and the others go on."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    whole = bouncy.sample(MODEL, progress=False, **QUICK)
    monkeypatch.setattr(rows_module, "available_memory", lambda: 1000)
    with pytest.warns(rows_module.SpillWarning):
        run = bouncy.sample(MODEL, progress=False, **QUICK)
    run._growth.drop({1})
    run._forget()
    gc.collect()
    assert (run.draws == whole.draws[[0, 2]]).all()
