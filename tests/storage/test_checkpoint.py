"""The folder of a checkpoint: one writer at a time, other models refused, and what happens when it goes away."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest

import bouncy
from bouncy import CheckpointError, CheckpointWarning
from bouncy.storage.archive import read_header
from bouncy.storage.checkpoint import Checkpoint
from storage.checkpoints import GAUSSIAN, MODEL, QUICK, contents, go, plain, resume, sparse
from storage.comparing import different
from storage.resumed import slow_motion

# Files that go away


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_draws_outlive_their_folder(keep, tmp_path):
    """Catches results that are lost when a temporary folder, in which the checkpoint was, is removed."""
    run = go(tmp_path / "c", keep=keep)
    shutil.rmtree(tmp_path / "c")
    assert different(run, plain(keep=keep)) == []
    with pytest.raises(CheckpointError, match="no such folder"):
        run.extend(draws=5)


def test_folder_that_vanishes_costs_the_checkpoint_alone(tmp_path):
    """Catches a run that dies, or loses draws, with the folder that it is written to."""

    def remove(seen):
        if seen.stage == "sampling" and seen.chains[0].draws > 20:
            shutil.rmtree(tmp_path / "c", ignore_errors=True)

    with slow_motion(), pytest.warns(CheckpointWarning, match="could not be written"):
        run = bouncy.sample(MODEL, checkpoint=tmp_path / "c", checkpoint_every=1e-9, progress=remove, **QUICK)
    assert different(run, plain()) == []


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
    assert run.extend(draws=5).draws.shape == (3, 45, 6)
    assert not any((tmp_path / "b").iterdir())
    monkeypatch.chdir(tmp_path / "a")
    again = bouncy.resume(Path("c"), MODEL, total_draws=60, progress=move)
    assert again.draws.shape == (3, 60, 6)
    assert not any((tmp_path / "b").iterdir())


# One writer at a time


def test_existing_checkpoint_is_refused_and_left_as_it_is(tmp_path):
    """Catches a second `sample` that overwrites hours of work."""
    go(tmp_path / "c")
    before = contents(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"already.*bouncy\.resume"):
        go(tmp_path / "c")
    assert contents(tmp_path / "c") == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="not a folder"):
        go(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_last_two_generations_are_kept(tmp_path):
    """Catches a generation that is written over the one before, so that a damaged file leaves nothing."""
    go(tmp_path / "c")
    generations = [read_header(file)["generation"] for file in (tmp_path / "c").glob("state-?.npz")]
    assert sorted(generations) == [1, 2], "when it begins, and when it ends"
    resume(tmp_path / "c")
    generations = [read_header(file)["generation"] for file in (tmp_path / "c").glob("state-?.npz")]
    assert sorted(generations) == [3, 4]


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
    assert different(resume(tmp_path / "c"), plain()) == []


def test_run_does_not_write_over_what_another_has_done(tmp_path):
    """Catches an older run that is extended and puts its state in place of that of one which has gone on since."""
    old = go(tmp_path / "c")
    new = resume(tmp_path / "c", total_draws=60)
    with pytest.raises(CheckpointError, match="another run has gone on"):
        old.extend(draws=5)
    assert old.draws.shape[1] == 40
    assert different(resume(tmp_path / "c"), new) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_lock_ends_with_its_process_even_if_that_has_children(tmp_path):
    """Catches workers that were forked, outlive the run that was killed, and keep its checkpoint locked."""
    script = f"""
        import os, signal, sys, time, bouncy
        from bouncy.storage.checkpoint import Checkpoint
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


@pytest.mark.slow
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
def test_folder_that_cannot_be_written_is_refused_before_sampling():
    """Catches a run of hours that finds out at its first checkpoint that it cannot write one."""
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which other users cannot reach
        place = Path(name)
        place.chmod(0o755)
        go(place / "old")
        for folder in (place / "new", place / "old"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o555)

        def attempt():
            assert not os.access(place / "new", os.W_OK), "this file system knows no permissions"
            for begin in (lambda: go(place / "new"), lambda: go(place / "new" / "deeper")):
                with pytest.raises(CheckpointError, match=r"cannot be (written to|made)"):
                    begin()
            with pytest.raises(CheckpointError, match="cannot be written to"):
                resume(place / "old")
            with pytest.raises(OSError, match="Permission denied"):
                bouncy.Run.load(place / "old").save(place / "new" / "run.npz")

        _as_nobody(attempt)


def _as_nobody(work):
    """Do some work in a child that has no more rights than others."""
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


# Other models


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
    before = contents(tmp_path / "c")
    with pytest.raises(CheckpointError, match=words):
        resume(tmp_path / "c", target, **options)
    assert contents(tmp_path / "c") == before
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
