"""A run that is extended stays as it is, wherever its rows are, and can be extended again: branches share arrays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import bouncy
from bouncy import CheckpointError
from bouncy.storage import rows as rows_module
from storage.checkpoints import GAUSSIAN, go, plain, resume
from storage.comparing import different, everything


@pytest.fixture
def little_memory(tmp_path, monkeypatch):
    """Have draws go to files in a temporary folder at once."""
    monkeypatch.setattr(rows_module, "available_memory", lambda: 1000)
    monkeypatch.setattr(rows_module, "_LARGE", 2000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def _check_branches(run, **options):
    """Extend a run twice, and so the first of these; return all of them."""
    before = everything(run)
    one = run.extend(draws=20)
    after_one = everything(one)
    two = run.extend(draws=35)
    three, four = one.extend(draws=5), one.extend(draws=10)
    assert everything(run) == before
    assert everything(one) == after_one
    for branch, draws in ((one, 60), (two, 75), (three, 65), (four, 70)):
        branch = bouncy.results.as_run(branch._data)  # which has not read its rows yet
        assert different(branch, plain(draws=draws, **options)) == []
    return one, two, three, four


@pytest.mark.parametrize("options", [{}, {"keep": "means"}, {"keep": "path"}, {"target": GAUSSIAN}], ids=str)
def test_branches_of_a_run_in_memory(options):
    """Catches a longer run that writes into the rows or the batches of the one it continues, or of its sibling."""
    _check_branches(plain(**options), **options)


def test_branches_of_a_thinned_run(monkeypatch):
    """Catches a trace of constant memory that is thinned because a longer run, which shares it, is."""
    monkeypatch.setattr(rows_module, "MOST_POINTS", 16)
    run = plain(keep="means")
    assert run.trace_spacing == 4
    assert _check_branches(run, keep="means")[1].trace_spacing == 8
    assert run.trace_spacing == 4


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["draws", pytest.param("path", marks=pytest.mark.slow)])
def test_branches_of_a_run_in_temporary_files(keep, tmp_path, little_memory):
    """Catches two runs that write to one file, other bytes of draws on disk, and files that are never removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rows_module.SpillWarning)
        run = plain(keep=keep)
        assert isinstance(run._data.records.rows.array("log_prob").base, np.memmap)
        branches = _check_branches(run, keep=keep)
    folder = run._data.records.rows.folder
    assert folder.parent == tmp_path
    del run
    gc.collect()
    assert folder.exists(), "branches still need it"
    del branches
    gc.collect()
    assert not list(tmp_path.glob("bouncy-*"))


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_only_one_branch_goes_on_with_a_checkpoint(keep, tmp_path):
    """Catches a second branch that writes over the first, and a run that loses its rows to its branch."""
    run = go(tmp_path / "c", keep=keep)
    before = everything(run)
    one = run.extend(draws=20)
    with pytest.raises(CheckpointError, match="another run has gone on with this checkpoint"):
        run.extend(draws=35)
    assert everything(run) == before
    assert different(one, plain(draws=60, keep=keep)) == []
    three = one.extend(draws=10)
    assert everything(run) == before
    assert different(one, plain(draws=60, keep=keep)) == []
    assert different(three, resume(tmp_path / "c")) == []
    assert different(three, plain(draws=70, keep=keep)) == []


def test_draws_that_do_not_fit_the_memory_go_to_disk(tmp_path, monkeypatch, little_memory):
    """Catches a run that dies for lack of memory, and one that is not told to the user."""
    with pytest.warns(rows_module.SpillWarning, match="kept in"):
        run = plain()
    assert len(list(tmp_path.glob("bouncy-*"))) == 1
    monkeypatch.undo()
    assert different(run, plain()) == []


def test_chains_that_are_left_keep_their_draws_on_disk(little_memory):
    """Catches files that are removed with the rows of all chains, when one chain fails and the others go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rows_module.SpillWarning)
        whole, run = np.array(plain().draws), plain()
    left = run._data.records.only([0, 2], ".2.rows")
    del run
    gc.collect()
    assert (left.rows.array("draws") == whole[[0, 2]]).all()


MEMORY = """
    import resource
    import bouncy

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    target = bouncy.MRF.ising((1000, 1000), 0.3)
    run = bouncy.sample(target, chains=4, draws=1, warmup=1, keep="means", seed=0, progress=False)
    first = peak()
    longer = run.extend(draws=1, progress=False)
    print(first, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak differs")
def test_extension_of_a_large_run_needs_little_more_memory():
    """Catches states that are copied once more than needed: the peak grows by one copy of them, for the new run."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY)],
        env={**os.environ, "PYTHONPATH": str(Path(bouncy.__file__).parents[1])},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = map(int, done.stdout.split())
    assert second < 1.5 * first  # 1.0 and 1.3 GiB
