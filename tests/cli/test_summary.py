"""`bouncy summary` and `bouncy plot`: runs that were saved, and checkpoints."""

import json
import re

import matplotlib as mpl
import pytest

import bouncy
from bouncy.cli import _output
from bouncy.plots import KINDS
from conftest import base_seed

MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A directory with a run of a small lattice, as a file and as a checkpoint."""
    mpl.use("Agg")
    folder = tmp_path_factory.mktemp("saved")
    target = bouncy.MRF.ising((3, 3), coupling=0.2)
    bouncy.save_model(target, folder / "model.npz")
    run = bouncy.sample(target, "metropolis", chains=2, draws=100, keep="path", seed=base_seed(), progress=False)
    run.save(folder / "run.npz")
    bouncy.sample(target, "tempered", chains=2, draws=100, seed=base_seed(), progress=False).save(
        folder / "tempered.npz"
    )
    return folder, run


@pytest.fixture
def work(saved, monkeypatch):
    folder, run = saved
    monkeypatch.chdir(folder)
    return run


def test_the_summary_is_that_of_the_run(invoke, work):
    """Catches numbers that change between saving and reading, and keys that differ from those of `bouncy sample`."""
    text = invoke("summary", "run.npz")
    assert text.exit_code == 0, text.output
    assert text.stdout == f"{work.summary()}\n"
    assert json.loads(invoke("summary", "run.npz", "--json").stdout) == work.summary().to_dict()


def test_a_checkpoint_has_a_summary(invoke, small):
    """Catches a checkpoint of a running job that cannot be read."""
    options = ["--sampler", "metropolis", "--chains", 2, "--draws", 50, "--seed", base_seed(), "--json"]
    sampled = json.loads(invoke("sample", "small.json", *options, "--checkpoint", "work").stdout)
    result = invoke("summary", "work", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sites"] == sampled["sites"]


@pytest.mark.slow
def test_a_checkpoint_made_in_python_has_a_summary_and_pictures(invoke, place):
    """Catches a checkpoint that can be looked into only with its model, which Python does not keep beside it."""
    mpl.use("Agg")
    target = bouncy.MRF.ising((3, 3), coupling=0.2)
    run = bouncy.sample(target, "metropolis", chains=2, draws=100, seed=base_seed(), checkpoint="work")
    assert {path.suffix for path in (place / "work").iterdir()} <= {".npz", ".rows", ""}
    assert not (place / "work" / "model.npz").exists()
    result = invoke("summary", "work", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == run.summary().to_dict()
    for kind in ("run", "lattice"):
        result = invoke("plot", "work", "--kind", kind, "--out", f"{kind}.png")
        assert result.exit_code == 0, result.output
        assert (place / f"{kind}.png").read_bytes().startswith(MAGIC["png"])


@pytest.mark.parametrize("name", ["model.npz", "model.nc"])
def test_files_that_hold_no_run_are_refused(invoke, work, name):
    """Catches a traceback, or a summary of nothing, for a file of another kind."""
    result = invoke("summary", name)
    assert result.exit_code in (1, 2)
    assert re.search(r"^Error: .*model", result.stderr, re.MULTILINE)


def test_models_and_runs_are_told_apart(invoke, work):
    """Catches errors about damage alone where someone took a run for a model, which have the same suffix."""
    assert "is not an archive of bouncy but, say, a model" in invoke("summary", "model.npz").stderr
    assert "is no model but a saved run, say" in invoke("sample", "run.npz").stderr


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [pytest.param(name, marks=[pytest.mark.slow] * (name == "pdf")) for name in MAGIC])
def test_pictures_are_what_their_suffix_says(invoke, work, suffix, tmp_path):
    """Catches a picture in another format than that of its name."""
    out = tmp_path / f"run.{suffix}"
    result = invoke("plot", "run.npz", "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"Drawn to {out}.\n"
    assert out.read_bytes().startswith(MAGIC[suffix])


OF_LADDERS = ("ladder", "curve", "flow")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("density", "forest", "inclusion")])
def test_every_kind_can_be_drawn(invoke, work, kind, tmp_path):
    """Catches a kind of plot that the command line lists but cannot draw."""
    name = "tempered.npz" if kind in OF_LADDERS else "run.npz"
    result = invoke("plot", name, "--kind", kind, "--out", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    assert kind in " ".join(invoke("plot", "--help").output.replace(",", " ").replace(";", " ").split())


@pytest.mark.parametrize("kind", OF_LADDERS)
def test_pictures_of_ladders_need_one(invoke, work, kind, tmp_path):
    """Catches a traceback, or an empty file, for a run that is not tempered."""
    result = invoke("plot", "run.npz", "--kind", kind, "--out", tmp_path / "out.png")
    assert result.exit_code == 1
    assert "has no ladder of temperatures; expected a run of spins that 'tempered' sampled" in result.stderr
    assert not (tmp_path / "out.png").exists()


def test_what_is_drawn_can_be_chosen(invoke, work, tmp_path):
    """Catches a choice without effect, or one that is passed to a plot that has none."""
    drawn = {}
    for what in ("log_prob", "magnetisation", "4"):
        out = tmp_path / f"{what}.svg"
        assert invoke("plot", "run.npz", "--kind", "trace", "--what", what, "--out", out).exit_code == 0
        drawn[what] = out.read_bytes()
    assert len(set(drawn.values())) == 3
    wrong = invoke("plot", "run.npz", "--kind", "lattice", "--what", "log_prob", "--out", tmp_path / "x.svg")
    assert wrong.exit_code == 2
    assert "--what says nothing about --kind lattice; it does about autocorrelation, " in wrong.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--kind", "traces", "--out", "x.png"], 2, "Did you mean 'trace'?"),
        (["--out", "x.jpg"], 2, "expected one of .pdf, .png, .svg."),
        (["--out", "model.npz.png"], 1, "model.npz.png exists; choose another name, or replace it with --force"),
        (["--out", "nowhere/x.png"], 1, "there is no directory"),
        ([], 2, "Missing option '--out'"),
    ],
)
def test_everything_is_checked_before_the_work(invoke, work, monkeypatch, options, code, message):
    """Catches a picture that overwrites another, or is drawn and then lost."""
    open("model.npz.png", "w").close()
    monkeypatch.setattr(bouncy.Run, "load", None)
    result = invoke("plot", "run.npz", *options)
    assert result.exit_code == code
    assert message in result.stderr


def test_missing_matplotlib_is_reported(invoke, work, monkeypatch, tmp_path):
    """Catches an ImportError that does not name the extra."""
    monkeypatch.setattr(_output, "find_spec", lambda name: None)
    result = invoke("plot", "run.npz", "--out", tmp_path / "x.png")
    assert result.exit_code == 1
    assert "needs matplotlib; install with: pip install 'bouncy[plots]'" in result.stderr
