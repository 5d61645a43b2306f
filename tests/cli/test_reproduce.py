"""`bouncy reproduce`: what it prints, how it ends, and that Ctrl-C costs nothing that was finished."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from bouncy.cli.main import main
from bouncy.experiments import report, rerun, views
from bouncy.experiments.claims import judge
from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.runner import measure
from bouncy.experiments.settings import DEFAULT_OUT, DEFAULT_SEED, load, load_views
from experiments.in_process import make_up_measurements
from experiments.made_up import make_views
from helpers.command_line import new_runner

FILES = [
    "figure1.csv", "figure1.json", "figure1.png", "figure2.csv", "figure2.json", "figure2.png",
    "report.html", "report.md", "views.npz", "views.png",
]  # fmt: skip


@pytest.fixture
def invoke():
    runner = new_runner()
    return lambda *arguments: runner.invoke(main, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.fixture
def tiny(monkeypatch):
    """Let every version be the smallest one."""
    monkeypatch.setattr(rerun, "load", lambda figure, version: load(figure, "tiny"))
    monkeypatch.setattr(rerun, "load_views", lambda version: load_views("tiny"))


@pytest.mark.slow
def test_from_start_to_report(invoke, tiny, tmp_path):
    """Catches parts that do not fit together: files missing or left over, verdicts not printed, times not equal."""
    out = tmp_path / "new" / "place"
    result = invoke("all", "--out", out, "--seed", 3, "--workers", 2)
    assert result.exit_code == 0, result.output
    *lines, last = result.output.splitlines()
    assert last == f"The report is {out / 'report.html'}"
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert all((out / name).stat().st_size > 200 for name in FILES)
    both = {name: (load(name, "tiny"), measure(load(name, "tiny"), out, 3)) for name in ("figure1", "figure2")}
    assert lines == [verdict.line for verdict in judge(both)]
    for settings, rows in both.values():
        _check_times(settings, rows)
        _check_errors(settings, rows)


def _check_times(settings, rows):
    """Catch a contender that is given twice the time of others.

    A virtual machine counts what others take from it as time of ours, so that a single run may seem to take any time;
    all runs of a contender do not. The pilot of tempered chains takes longer than these runs.
    """
    for contender in CONTENDERS:
        names = [(contender.edition, contender.sampler, estimator) for estimator in contender.estimators]
        used = [row.cpu_seconds for row in rows if (row.edition, row.sampler, row.estimator) in names]
        assert settings.seconds <= min(used)
        assert contender.sampler == "tempered" or min(used) < 2 * settings.seconds


def _check_errors(settings, rows):
    """Catch moments of another model or estimator.

    How far a chain gets depends on the machine, so the bound on an error is what that many attempted flips allow. The
    estimator that makes the least of them looks at one state in 6.5 sweeps: variances of 6.5 d/hits for means and for
    pairs, up to twice as much in one run, and seven times as much is allowed.
    """
    assert len(rows) == settings.runs * len(settings.cells) * sum(len(c.estimators) for c in CONTENDERS)
    assert all(0 < row.flips <= row.hits for row in rows)
    for row in rows:
        if row.sigma_M == min(settings.sigma_M):
            assert row.mse < 100 * settings.d / row.hits


def test_figures_run_one_after_the_other(invoke, tiny, tmp_path, monkeypatch):
    """Catches a figure that disappears from the report, or from the verdicts, when the other one is run."""
    make_up_measurements(monkeypatch)
    monkeypatch.setattr(views, "measure_views", lambda settings, seed, *rest: replace(make_views(), seed=seed))
    for drawing in ("draw_errors", "draw_views"):  # what takes longest, and has tests of its own
        monkeypatch.setattr(report, drawing, lambda *shown: Figure(figsize=(1, 1)))
    assert invoke("figure1", "--out", tmp_path).exit_code == 0
    second = invoke("figure2", "--out", tmp_path)
    assert second.exit_code == 0
    assert second.stderr == ""
    text = (tmp_path / "report.md").read_text()
    assert "figure1.png" in text
    assert "figure2.png" in text
    assert invoke("all", "--out", tmp_path).stdout == second.stdout
    (tmp_path / "figure1.json").write_text("{}")
    third = invoke("figure2", "--out", tmp_path)
    assert third.exit_code == 0
    assert third.stderr.startswith(f"The report is without figure1: {tmp_path / 'figure1.csv'} was measured with")
    assert third.stderr.count("\n") == 1
    assert "figure1.png" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["figure3"], "'figure3' is not one of 'figure1', 'figure2', 'all'"),
        (["all", "--seed", -1], "-1 is not in the range"),
        (["all", "--workers", 0], "0 is not in the range"),
        (["all", "--out", __file__], "is a file"),
    ],
)
def test_wrong_usage_ends_with_code_2(invoke, arguments, message):
    """Catches wrong usage that passes, or that does not say what was expected."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_other_settings_end_with_code_1(invoke, tiny, tmp_path):
    """Catches a directory of other runs that is overwritten, or an error without advice."""
    (tmp_path / "figure1.csv").write_text("")
    result = invoke("figure1", "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'figure1.csv'} cannot be continued")
    assert "--out" in result.stderr


def test_missing_matplotlib_ends_with_code_1(invoke, tmp_path, monkeypatch):
    """Catches runs that start although their figures cannot be drawn."""
    monkeypatch.setattr(rerun, "find_spec", lambda name: None)
    result = invoke("all", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: the report needs matplotlib")
    assert not (tmp_path / "out").exists()


def test_defaults_are_those_of_the_function(invoke):
    """Catches a command and a function that do different things by default."""
    shown = " ".join(invoke("--help").output.split())
    assert f"{DEFAULT_OUT['paper']}, or {DEFAULT_OUT['quick']} with --quick" in shown
    assert f"[default: {DEFAULT_SEED};" in shown


@pytest.mark.parametrize(("options", "version"), [([], "paper"), (["--quick"], "quick")])
def test_each_version_has_a_directory_of_its_own(invoke, monkeypatch, options, version):
    """Catches a full run that is refused because a quick one came before, and an interrupt that names no directory."""
    asked = []

    def interrupted(what, **options):
        asked.append((what, options))
        raise KeyboardInterrupt

    monkeypatch.setattr(rerun, "run", interrupted)
    result = invoke("figure1", *options)
    assert result.exit_code == 130
    assert f"kept in {DEFAULT_OUT[version]};" in result.stderr
    ((what, given),) = asked
    assert what == "figure1"
    assert (given["quick"], given["out"], given["seed"]) == (version == "quick", DEFAULT_OUT[version], DEFAULT_SEED)


def test_help_tells_how_a_command_can_end():
    """Catches an exit code that scripts cannot know of."""
    shown = " ".join(new_runner().invoke(main, ["--help"]).output.split())
    assert "1 on an error, 2 on wrong usage, 130 when interrupted, 143 when terminated." in shown


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
@pytest.mark.slow
def test_interrupt_keeps_what_is_finished(tmp_path):
    """Catches Ctrl-C that loses finished runs, waits for the others, leaves processes behind or prints tracebacks."""
    code = "from bouncy.cli.main import main; main(prog_name='bouncy')"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, "reproduce", "figure1", "--quick", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    path = tmp_path / "figure1.csv"
    rows = sum(len(contender.estimators) for contender in CONTENDERS)
    while process.poll() is None and not (path.exists() and path.read_text().count("\n") > 2 * rows):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    try:
        output, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 130, errors
    assert output == ""
    assert errors == f"Interrupted. What is finished is kept in {tmp_path}; the same command goes on from there.\n"
    finished, unfinished = divmod(path.read_text().count("\n") - 1, rows)
    settings = load("figure1", "quick")
    assert unfinished == 0
    assert 2 <= finished < settings.runs * len(settings.cells)
