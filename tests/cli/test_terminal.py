"""The command line as a person or a batch system meets it: in a terminal, interrupted, terminated, resumed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bouncy
from conftest import base_seed

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from cli.terminal import PATIENCE, Terminal

# More draws than anyone will wait for, none of which is kept.
ENDLESS = [
    "--sampler", "metropolis", "--chains", "2", "--warmup", "100", "--keep", "means", "--draws", "1000000000",
    "--seed", str(base_seed()),
]  # fmt: skip
OPTIONS = {"sampler": "metropolis", "chains": 2, "warmup": 100, "keep": "means", "seed": base_seed(), "progress": False}


def _command(*arguments):
    return [sys.executable, "-m", "bouncy", *map(str, arguments)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with a model, for which loops are compiled."""
    folder = tmp_path_factory.mktemp("work")
    bouncy.save_model(bouncy.MRF.random(10, seed=base_seed()), folder / "model.npz")
    bouncy.sample(bouncy.load_model(folder / "model.npz"), draws=10, **OPTIONS)
    return folder


def test_ctrl_c_returns_a_partial_run_and_resume_completes_it(folder):
    """Catches Ctrl-C that waits, loses what was found or does not say how to go on, and a resumed run that differs."""
    command = _command(
        "sample", "model.npz", *ENDLESS, "--checkpoint", "work", "--checkpoint-every", 0.1, "--out", "run.npz"
    )
    with Terminal(command, cwd=folder) as terminal:
        terminal.wait_for("sampling")
        terminal.press("\x03")
        assert terminal.wait() == 130, terminal.output
    shown = terminal.output.rpartition("\r")[2]
    assert "metropolis on MRF(d=10, dense, 45 pairs)\n2 chains x " in shown
    assert "Saved to run.npz.\n" in shown
    assert shown.endswith("To go on: bouncy resume work\n")
    assert "Traceback" not in terminal.output
    part = bouncy.Run.load(folder / "run.npz")
    assert not part.completed
    assert part.stopped_by == "interrupt"

    total = _draws(part) + 1000
    resumed = subprocess.run(
        _command("resume", "work", "--total-draws", total, "--json"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    content = json.loads(resumed.stdout)
    assert (content["draws"], content["completed"], content["stopped_by"]) == (total, True, "draws")
    assert content["out"] == str(folder / "run.npz")
    whole = bouncy.sample(bouncy.load_model(folder / "model.npz"), draws=total, **OPTIONS)
    _assert_equal(bouncy.Run.load(folder / "run.npz"), whole)


def _draws(run):
    return run.summary().to_dict()["draws"]


def _assert_equal(first, second):
    for name in ("log_prob", "mean", "mean_se", "pair_mean", "flips_per_site"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@pytest.mark.slow
def test_sigterm_saves_a_partial_run(folder):
    """Catches a batch system that loses a run, progress bars in log files, and JSON with something else beside it."""
    command = _command("sample", "model.npz", *ENDLESS, "--checkpoint", "job", "--checkpoint-every", 0.1, "--json")
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + PATIENCE
        while not (folder / "job" / "state-1.npz").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, errors
    content = json.loads(output)
    assert not content["completed"]
    assert content["draws"] < 1_000_000_000
    assert errors == "Interrupted: this is what the run had found by then. To go on: bouncy resume job\n"


@pytest.mark.slow
def test_the_width_of_the_terminal_is_used(folder):
    """Catches tables and help that are cut, or wrapped, where there is room for them."""
    for columns in (80, 120):
        with Terminal(_command("sample", "--help"), cwd=folder, columns=columns) as terminal:
            assert terminal.wait() == 0
        widest = max(map(len, terminal.output.splitlines()))
        assert min(columns, 100) - 15 < widest <= columns


@pytest.mark.slow
def test_first_use_says_that_it_compiles_and_can_be_interrupted(folder, tmp_path):
    """Catches seconds without a word when nothing is compiled yet, and a Ctrl-C that waits until all of it is."""
    command = _command("sample", "model.npz", *ENDLESS, "--sampler", "bps-exponential")
    with Terminal(command, cwd=folder, environment={"NUMBA_CACHE_DIR": str(tmp_path)}) as terminal:
        terminal.wait_for("compiling for a kind of model that is new here")
        terminal.press("\x03")
        assert terminal.wait() == 130, terminal.output
    assert terminal.output.replace("\r", "").endswith("Interrupted.\n")
    assert "Traceback" not in terminal.output
