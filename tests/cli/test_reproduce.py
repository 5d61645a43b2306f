"""`bouncy reproduce`: what it prints, how it ends, and that Ctrl-C costs nothing that was finished."""

import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from bouncy.cli.main import main
from bouncy.experiments import reproduce
from bouncy.experiments.claims import judge
from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.runner import measure
from bouncy.experiments.settings import load


@pytest.fixture
def invoke():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(main, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.fixture
def tiny(monkeypatch):
    """Let every version be the smallest one."""
    views = reproduce.load_views
    monkeypatch.setattr(reproduce, "load", lambda figure, version: load(figure, "tiny"))
    monkeypatch.setattr(reproduce, "load_views", lambda version: views("tiny"))


def test_report_and_verdicts_are_printed(invoke, tiny, tmp_path):
    """Catches a run that ends without saying what it found and where."""
    out = tmp_path / "out"
    result = invoke("figure1", "--out", out, "--seed", 3, "--workers", 2)
    assert result.exit_code == 0, result.output
    *lines, last = result.output.splitlines()
    assert last == f"The report is {out / 'report.html'}"
    assert (out / "report.html").exists()
    settings = load("figure1", "tiny")
    assert lines == [verdict.line for verdict in judge({"figure1": (settings, measure(settings, out, 3))})]


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
    assert message in result.output


def test_other_settings_end_with_code_1(invoke, tiny, tmp_path):
    """Catches a directory of other runs that is overwritten, or an error without advice."""
    (tmp_path / "figure1.csv").write_text("")
    result = invoke("figure1", "--out", tmp_path)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {tmp_path / 'figure1.csv'} cannot be continued")
    assert "--out" in result.output


def test_missing_matplotlib_ends_with_code_1(invoke, tmp_path, monkeypatch):
    """Catches runs that start although their figures cannot be drawn."""
    monkeypatch.setattr(reproduce, "find_spec", lambda name: None)
    result = invoke("all", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.output.startswith("Error: the report needs matplotlib")
    assert not (tmp_path / "out").exists()


def test_defaults_are_those_of_the_function(invoke):
    """Catches a command and a function that do different things by default."""
    shown = " ".join(invoke("--help").output.split())
    assert f"[default: {reproduce.DEFAULT_OUT}]" in shown
    assert f"[default: {reproduce.DEFAULT_SEED};" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_interrupt_keeps_what_is_finished(tmp_path):
    """Catches Ctrl-C that loses finished runs, leaves processes behind, prints tracebacks or ends with another code."""
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
    begin = time.monotonic()
    output, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < 5.0
    assert process.returncode == 130, errors
    assert output == ""
    assert errors == f"Interrupted. What is finished is kept in {tmp_path}; the same command goes on from there.\n"
    assert (path.read_text().count("\n") - 1) % rows == 0
