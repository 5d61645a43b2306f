"""`bouncy sample` and `bouncy resume`: results of the functions, checks before the work, and nothing lost after it."""

import json
import re
import warnings

import numpy as np
import pytest

import bouncy
from bouncy.cli import _output
from bouncy.samplers import OF_SPINS, names
from conftest import base_seed

QUICK = ["--sampler", "metropolis", "--chains", 2, "--draws", 50, "--warmup", 10, "--seed", base_seed()]


def _sampled(target, draws=50):
    with warnings.catch_warnings():
        return bouncy.sample(
            target, "metropolis", chains=2, draws=draws, warmup=10, seed=base_seed(), progress=False
        ).summary()


def _timeless(content):
    """Return what a script reads, without what differs from one call to the next."""
    diagnostics = {name: value for name, value in content["diagnostics"].items() if "seconds" not in name}
    return {**content, "sampling_seconds": None, "diagnostics": diagnostics}


@pytest.fixture
def no_sampling(monkeypatch):
    """Let nothing be sampled."""

    def sample(*_, **__):
        raise AssertionError("work began before everything was checked")

    monkeypatch.setattr("bouncy._sample.sample", sample)


def test_json_is_the_summary_of_the_function(invoke, small):
    """Catches options that do not arrive, keys that change, and anything but JSON on standard output."""
    result = invoke("sample", "small.json", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert (content.pop("out"), content.pop("checkpoint")) == (None, None)
    assert _timeless(content) == _timeless(_sampled(small).to_dict())
    assert result.stderr == ""


def test_the_table_is_that_of_the_function(invoke, small):
    """Catches a table that misses lines, and notes on standard output."""
    result = invoke("sample", "small.json", *QUICK, "--out", "run.nc")
    assert result.exit_code == 0, result.output
    lines, expected = result.stdout.splitlines(), str(_sampled(small)).splitlines()
    assert lines[:1] + lines[2:] == expected[:1] + expected[2:]  # the second has a time
    assert result.stderr == "Saved to run.nc.\n"


@pytest.mark.parametrize("out", ["run.npz", "run.nc", "run.zarr"])
def test_runs_are_saved(invoke, small, out):
    """Catches a file that does not hold the run, and --force without effect."""
    first = json.loads(invoke("sample", "small.json", *QUICK, "--json", "--out", out).stdout)
    assert first["out"].endswith(out)
    assert bouncy.Run.load(out).draws.shape == (2, 50, 3)
    assert invoke("sample", "small.json", *QUICK, "--out", out).exit_code == 1
    assert invoke("sample", "small.json", *QUICK, "--draws", 60, "--out", out, "--force").exit_code == 0
    assert bouncy.Run.load(out).draws.shape == (2, 60, 3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--out", "there.nc"], 1, "there.nc exists; choose another name, or replace it with --force\n"),
        (["--out", "nowhere/run.nc"], 1, "there is no directory "),
        (["--out", "there.nc/run.nc"], 1, "there is no directory "),
        (["--out", "run.netcdf"], 2, "expected one of .nc, .npz, .zarr."),
        (["--out", "run.zar"], 2, "Did you mean '.zarr'?"),
        (["--checkpoint", "nowhere/work"], 1, "there is no directory "),
        (["--checkpoint", "others"], 1, "others holds other files; choose a new directory for checkpoints\n"),
        (["--checkpoint", "there.nc"], 2, "is a file"),
        (["--sampler", "gibs"], 2, "Did you mean 'gibbs'?"),
        (["--keep", "mean"], 2, "Did you mean 'means'?"),
        (["--chains", "0"], 2, "expected an integer >= 1, got 0"),
        (["--until-se", "nan"], 2, "expected a number above 0, got nan"),
    ],
)
def test_everything_is_checked_before_the_work(invoke, small, place, no_sampling, options, code, message):
    """Catches an hour of sampling that ends with a file that cannot be written."""
    (place / "there.nc").write_text("precious")
    (place / "others").mkdir()
    (place / "others" / "thesis.tex").write_text("precious")
    result = invoke("sample", "small.json", *options)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert (place / "there.nc").read_text() == "precious"


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        (["sample", "small.json"], "--every", "--checkpoint-every"),
        (["resume", "."], "--every", "--checkpoint-every"),
        (["resume", "."], "--draws", "--total-draws"),
        (["resume", "."], "--seconds", "--total-seconds"),
    ],
)
def test_the_old_name_of_an_option_tells_the_new_one(invoke, small, command, old, new):
    """Catches a script that is told of an option that it never gave, or an old name in the help."""
    result = invoke(*command, old, 5)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: No such option: {old}. Its name is now {new}.\n")
    shown = invoke(*command, "--help").output
    assert f" {new} " in shown
    assert f" {old} " not in shown


@pytest.mark.parametrize(("out", "package"), [("run.nc", "h5netcdf"), ("run.zarr", "zarr"), ("run.nc", "xarray")])
def test_missing_packages_are_reported_before_the_work(invoke, small, no_sampling, monkeypatch, out, package):
    """Catches an hour of sampling that ends with an ImportError."""
    monkeypatch.setattr(_output, "find_spec", lambda name: None if name == package else object())
    result = invoke("sample", "small.json", "--out", out)
    assert result.exit_code == 1
    assert f"writing {out} needs {package}; install with: pip install 'bouncy[" in result.stderr


@pytest.mark.parametrize("checkpoint", [None, "work"])
def test_a_run_that_cannot_be_saved_is_shown(invoke, small, monkeypatch, checkpoint):
    """Catches results that are lost because the disk is full at the end of a run."""

    def save(*_, **__):
        raise OSError(28, "No space left on device", "run.nc")

    options = [] if checkpoint is None else ["--checkpoint", checkpoint]
    with monkeypatch.context() as full:
        full.setattr(bouncy.SpinRun, "save", save)
        result = invoke("sample", "small.json", *QUICK, "--out", "run.nc", "--json", *options)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["out"] is None
    expected = "Error: the run could not be saved to run.nc: run.nc: No space left on device"
    if checkpoint is not None:
        expected += ". Nothing is lost: work has all of it, and bouncy resume work --out FILE saves it"
        assert invoke("resume", "work", "--out", "again.nc").exit_code == 0
        assert bouncy.Run.load("again.nc").draws.shape == (2, 50, 3)
    assert result.stderr == f"{expected}\n"


def test_resuming_needs_only_the_checkpoint(invoke, small, place):
    """Catches a model, an output path or a goal that must be given again to resume, and lost bytes."""
    assert invoke("sample", "small.json", *QUICK, "--checkpoint", "work", "--out", "run.nc").exit_code == 0
    (place / "small.json").unlink()
    refused = invoke("sample", "work/model.npz", *QUICK, "--checkpoint", "work")
    assert refused.stderr == (
        "Error: work holds a checkpoint: go on with `bouncy resume work`, or begin anew with --force\n"
    )
    longer = invoke("resume", "work", "--total-draws", 80, "--json")
    assert longer.exit_code == 0, longer.output
    content = json.loads(longer.stdout)
    assert content.pop("out") == str(place / "run.nc")
    assert content.pop("checkpoint") == str(place / "work")
    assert _timeless(content) == _timeless(_sampled(small, draws=80).to_dict())
    assert bouncy.Run.load("run.nc").draws.shape == (2, 80, 3)


def test_resuming_replaces_its_own_file_only(invoke, small, place):
    """Catches another file that is overwritten because it has the name of an earlier result."""
    assert invoke("sample", "small.json", *QUICK, "--checkpoint", "work", "--out", "run.nc").exit_code == 0
    (place / "run.nc").write_text("precious")
    refused = invoke("resume", "work", "--total-draws", 80)
    assert refused.exit_code == 1
    assert "run.nc exists" in refused.stderr
    assert (place / "run.nc").read_text() == "precious"
    assert invoke("resume", "work", "--total-draws", 80, "--out", "other.nc").exit_code == 0


def test_force_begins_a_checkpoint_anew(invoke, small, place):
    """Catches a directory that cannot be used again, or other files in it that are removed."""
    assert invoke("sample", "small.json", *QUICK, "--checkpoint", "work").exit_code == 0
    (place / "work" / "notes.txt").write_text("precious")
    again = invoke("sample", "small.json", *QUICK, "--draws", 60, "--checkpoint", "work", "--force", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["draws"] == 60
    assert (place / "work" / "notes.txt").read_text() == "precious"


def test_a_model_that_no_format_can_keep_is_read_again(invoke, place):
    """Catches a checkpoint of a clamped network that cannot be resumed."""
    (place / "net.uai").write_text("MARKOV\n3\n2 2 2\n1\n3 0 1 2\n\n8\n1 2 3 4 5 6 7 8\n")
    (place / "net.evid").write_text("1 2 1\n")
    assert invoke("sample", "net.uai", "--evidence", "net.evid", *QUICK, "--checkpoint", "work").exit_code == 0
    resumed = invoke("resume", "work", "--total-draws", 60, "--json")
    assert resumed.exit_code == 0, resumed.output
    assert json.loads(resumed.stdout)["draws"] == 60


def test_a_checkpoint_from_python_needs_its_model(invoke, small):
    """Catches a checkpoint of `bouncy.sample` that the command line cannot resume, or an unclear error."""
    bouncy.sample(small, "metropolis", chains=2, draws=50, seed=0, checkpoint="work", progress=False)
    result = invoke("resume", "work", "--total-draws", 60)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: work holds no model; pass its file, as in `bouncy resume work MODEL`, or ")
    assert invoke("resume", "work", "small.json", "--total-draws", 60).exit_code == 0
    bouncy.save_model(small, "work/model.npz")
    assert invoke("resume", "work", "--total-draws", 70).exit_code == 0


def test_another_model_is_refused(invoke, small, place):
    """Catches chains that continue on another model."""
    assert invoke("sample", "small.json", *QUICK, "--checkpoint", "work").exit_code == 0
    bouncy.save_model(bouncy.MRF(np.zeros((3, 3))), "other.npz")
    result = invoke("resume", "work", "other.npz", "--total-draws", 60)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_help_names_the_samplers(invoke):
    """Catches a sampler that the help does not list."""
    whole = re.sub(r"-\n +", "-", invoke("sample", "--help").output)  # lines may end at a hyphen
    shown = whole.replace(",", " ").replace(".", " ").split()
    assert set(names(OF_SPINS)) <= set(shown)
