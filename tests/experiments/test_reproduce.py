"""`reproduce` with made-up measurements: arguments, kept files, contents of the report."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import bouncy.experiments
from bouncy.experiments import report, reproduce, rerun, views
from bouncy.experiments.ledger import describe_machine
from experiments.in_process import make_up_measurements
from experiments.made_up import make_views


@pytest.fixture
def reports(monkeypatch):
    """Make up all measurements, and return a list to which the arguments of every report are added."""
    written = []
    make_up_measurements(monkeypatch)
    monkeypatch.setattr(views, "measure_views", made_up_views)
    monkeypatch.setattr(report, "write_report", lambda *arguments: written.append(arguments))
    return written


def made_up_views(settings, seed, *rest):
    return replace(make_views(), seed=seed)


def rerun_tiny(what, out, seed=2):
    return reproduce(what, version="tiny", out=out, seed=seed, progress=False)


def test_importing_the_function_is_cheap():
    """Catches compiled code or drawing that is loaded at import."""
    code = (
        "import sys, bouncy.experiments.settings; from bouncy.experiments import reproduce; "
        "assert not {'numba', 'matplotlib'} & {*sys.modules}, 'heavy'; print(reproduce.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "reproduce\n"
    assert dir(bouncy.experiments) == ["reproduce"]
    with pytest.raises(AttributeError, match=r"module 'bouncy\.experiments' has no attribute 'run'"):
        _ = bouncy.experiments.run


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"what": "figure3"}, ValueError, "what is 'figure3'; expected one of: all, figure1, figure2"),
        ({"what": "all", "seed": -1}, ValueError, "seed must be an integer >= 0, got -1"),
        ({"what": "all", "seed": 0.5}, TypeError, "seed must be an integer"),
        ({"what": "all", "workers": 0}, ValueError, "workers must be an integer >= 1, got 0"),
        ({"what": "all", "version": "x"}, ValueError, "version is 'x'; expected one of: paper, quick, tiny"),
    ],
)
def test_wrong_arguments_are_refused_at_once(tmp_path, arguments, error, message):
    """Catches a wrong argument that is noticed only after the runs."""
    with pytest.raises(error, match=message):
        reproduce(out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_missing_matplotlib_is_noticed_before_any_run(tmp_path, monkeypatch):
    """Catches half an hour of runs that ends without figures."""
    monkeypatch.setattr(rerun, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[plots\]'"):
        reproduce("figure1", version="tiny", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "version", "out"),
    [
        ({}, "paper", "bouncy-reproduction"),
        ({"quick": True}, "quick", "bouncy-reproduction-quick"),
        ({"version": "tiny"}, "tiny", "bouncy-reproduction-tiny"),
        ({"quick": True, "out": "here"}, "quick", "here"),
    ],
)
def test_versions(tmp_path, monkeypatch, reports, options, version, out):
    """Catches a quick run that is the full one, or two versions in one directory."""
    monkeypatch.chdir(tmp_path)
    assert reproduce("figure2", progress=False, **options) == Path(out) / "report.html"
    assert [path.name for path in tmp_path.iterdir()] == [out]
    ((directory, results, _, machine),) = reports
    assert directory == Path(out)
    (settings, rows) = results["figure2"]
    assert (settings.figure, settings.version) == ("figure2", version)
    assert {row.seed for row in rows} == {1711}
    assert machine == describe_machine()


def test_figures_run_one_after_the_other_stand_in_one_report(tmp_path, reports):
    """Catches a second figure that drops the first one from the report, or that changes its rows or their order."""
    rerun_tiny("figure2", tmp_path)
    rerun_tiny("figure1", tmp_path)
    rerun_tiny("all", tmp_path)
    second, first, both = (results for _, results, *_ in reports)
    assert list(second) == ["figure2"]
    assert list(first) == list(both) == ["figure1", "figure2"]
    assert [str(rows) for _, rows in first.values()] == [str(rows) for _, rows in both.values()]  # NaN is not NaN


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: rerun_tiny("figure2", out, seed=3), r"figure2\.csv was measured with seed = 3, but asked for is"),
        (
            lambda out: (rerun_tiny("figure2", out), (out / "figure2.json").unlink()),
            r"figure2\.csv cannot be continued",
        ),
        (
            lambda out: (rerun_tiny("figure2", out), (out / "figure2.csv").write_text("x")),
            r"figure2\.csv is damaged",
        ),
        (
            lambda out: (rerun_tiny("figure2", out), cut(out / "figure2.csv", 5)),
            r"figure2\.csv holds no complete run",
        ),
    ],
    ids=["seed", "origin", "damage", "unfinished"],
)
def test_a_figure_of_another_origin_is_left_out_with_a_warning(tmp_path, reports, damage, message):
    """Catches figures of different models in one report, and a figure that disappears silently."""
    damage(tmp_path)
    before = (tmp_path / "figure2.csv").read_bytes()
    with pytest.warns(UserWarning, match=f"The report is without figure2: .*{message}") as warned:
        rerun_tiny("figure1", tmp_path)
    assert warned[0].filename == __file__
    assert "\n" not in str(warned[0].message)
    assert list(reports[-1][1]) == ["figure1"]
    assert (tmp_path / "figure2.csv").read_bytes() == before


def cut(path, lines):
    """Leave the first lines of a file."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


def test_views_are_kept(tmp_path, reports, monkeypatch):
    """Catches views that are measured again with every report, or never, though they belong to another seed."""
    rerun_tiny("figure1", tmp_path)
    measured = []
    monkeypatch.setattr(views, "measure_views", lambda *asked: measured.append(asked) or made_up_views(*asked))
    rerun_tiny("figure2", tmp_path)
    assert not measured
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(tmp_path / "views.npz", other)
    rerun_tiny("figure1", other, seed=3)
    assert len(measured) == 1
    assert reports[-1][2].seed == 3
