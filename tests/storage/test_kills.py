"""Processes that are killed, and disks that are full: what was written last is whole, and the run goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import bouncy
from bouncy import CheckpointWarning
from conftest import base_seed
from storage.checkpoints import go, plain, resume
from storage.comparing import different


def _killed(folder, kills, calls):
    folder.mkdir(exist_ok=True)
    script = Path(__file__).with_name("killed.py")
    source = Path(bouncy.__file__).parents[1]
    places = os.pathsep.join([str(source), str(script.parents[1])])
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": places}
    command = [sys.executable, str(script), str(folder), str(base_seed()), str(kills), str(calls)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{kills} kills" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("kills", "calls"), [(6, 12), pytest.param(120, 40, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_killed_runs_lose_no_more_than_an_interval(kills, calls, tmp_path):
    """Catches a moment at which a kill leaves no generation, one that is not whole, or one that leads elsewhere."""
    _killed(tmp_path, kills, calls)


# Full disks


NO_SPACE = """
    import resource, shutil, sys, warnings
    from pathlib import Path
    import bouncy
    from bouncy import CheckpointWarning
    from bouncy.storage import rows
    from storage.comparing import different
    from storage.resumed import slow_motion

    TARGET = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
    folder, keep = Path(sys.argv[1]), sys.argv[2]
    options = dict(chains=2, warmup=20, draws=3300, seed=1, keep=keep, threads=1)
    whole = bouncy.sample(TARGET, progress=False, **options)
    bouncy.sample(TARGET, checkpoint=folder, progress=False, **{**options, "draws": 3000})
    state = max(file.stat().st_size for file in folder.glob("state-?.npz"))
    largest = max([file.stat().st_size for file in folder.glob("*.rows")], default=0)

    assert state < largest, (state, largest)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def begin():
        shutil.rmtree(folder)
        bouncy.sample(TARGET, checkpoint=folder, progress=False, **{**options, "draws": 3000})

    # (a) states cannot be written, (b) rows cannot grow
    for size in (state // 2, largest + 10):
        limit(size)
        with warnings.catch_warnings(record=True) as told, slow_motion():
            warnings.simplefilter("always")
            run = bouncy.resume(folder, TARGET, total_draws=3150, checkpoint_every=1e-9, progress=False)
        assert told and {item.category for item in told} <= {CheckpointWarning, rows.SpillWarning}, told
        assert any("could not be written" in str(item.message) for item in told), told
        assert not list(folder.glob("*.part"))
        assert run.log_prob.shape[1] == 3150 and run.stopped_by == "draws"
        assert (run.log_prob == whole.log_prob[:, :3150]).all()
        assert keep == "means" or (run.draws == whole.draws[:, :3150]).all()
        # there is space again
        limit(resource.RLIM_INFINITY)
        run = run.extend(draws=10)
        again = bouncy.resume(folder, TARGET, total_draws=3160, progress=False)
        assert different(run, again) == []
        assert (run.log_prob == whole.log_prob[:, :3160]).all()
        begin()
        # what was there before the disk was full is still usable
        limit(size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bouncy.resume(folder, TARGET, total_draws=3100, checkpoint_every=1e-9, progress=False)
        limit(resource.RLIM_INFINITY)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert different(bouncy.resume(folder, TARGET, total_draws=3300, progress=False), whole) == []
        begin()
        print("well")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize("keep", ["draws", pytest.param("path", marks=pytest.mark.slow)])
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
            run = go(place / "c", checkpoint_every=1e-9, chains=2, draws=3000, keep="path")
        whole = plain(chains=2, draws=3000, keep="path")
        assert different(run, whole) == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)  # it is as full as before
            assert different(resume(place / "c"), whole) == []
        del run
    finally:
        # Even if rows are still mapped: what is left of a mount would be in the way of later tests.
        subprocess.run(["umount", "--lazy", str(place)], check=False)
