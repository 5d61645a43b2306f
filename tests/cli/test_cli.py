"""The command line: what it prints, what it returns, and that a warm cache is warm."""

import os
import signal
import subprocess
import sys
import time
import warnings
from types import ModuleType

import click
import pytest

import bouncy
from bouncy import _compile
from bouncy.cli import main as cli
from bouncy.cli import warmup
from bouncy.clocks import every_clock
from bouncy.piecewise.targets import specialised
from bouncy.run.interrupts import Interrupts
from bouncy.samplers import ClusterSampler, names, registry
from bouncy.samplers.contract import PathSampler
from bouncy.targets import examples

QUICK = ["warmup", "--sampler", "metropolis", "--target", "mrf-dense", "--pairs", "none"]


@pytest.fixture
def failing(monkeypatch):
    """Add a command `fail` that raises an error, or calls a function."""

    def install(what):
        @click.command()
        def command():
            if isinstance(what, Exception):
                raise what
            what()

        module = ModuleType("bouncy.cli.fail")
        module.command = command
        monkeypatch.setattr(cli, "modules", lambda package: (module,))

    return install


def _bouncy(*arguments, **environment):
    """Run the command line in a process of its own, with warnings as errors."""
    code = "from bouncy.cli.main import main; main(prog_name='bouncy')"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_version(invoke):
    """Catches a version that is not that of the package."""
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output == f"bouncy {bouncy.__version__}\n"


def test_help_lists_the_commands_found_in_files(invoke):
    """Catches a command that has a file but cannot be called, and modules that are listed as commands."""
    result = invoke("--help")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.output.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    assert listed == [
        "completion", "convert", "exact", "logz", "plot", "reproduce", "resume", "sample", "summary", "warmup",
    ]  # fmt: skip


def test_help_does_not_import_numba():
    """Catches slow imports at the top of a command's file."""
    code = (
        "import sys; from bouncy.cli.main import main; main(['--help'], standalone_mode=False); print([*sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1]
    assert "'bouncy.cli.warmup'" in modules
    assert "'numba'" not in modules


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "No such command 'nothing'.\n"),
        (["covert"], "No such command 'covert'. Did you mean 'convert'?"),
        (["warmup", "--sampler", "x"], "--sampler is 'x'; expected one of: bps-exponential, bps-gaussian"),
        (["warmup", "--sampler", "gibs"], "Did you mean 'gibbs'?"),
        (["warmup", "--target", "x"], "--target is 'x'; expected one of: custom-flip-cost, "),
        (["warmup", "--pairs", "x"], "--pairs is 'x'; expected one of: all, edges, none"),
        (["warmup", "--wrong"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_code_2(invoke, arguments, message):
    """Catches wrong usage that passes, or that does not say what was expected."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("d is 0"), "Error: d is 0\n"),
        (ValueError("d is\n  0"), "Error: d is 0\n"),
        (MemoryError(), "Error: MemoryError\n"),
        (FileNotFoundError(2, "No such file or directory", "x.npz"), "Error: x.npz: No such file or directory\n"),
    ],
)
def test_errors_end_with_code_1_and_no_traceback(invoke, failing, error, message):
    """Catches a traceback, or an empty line, in the place of a message."""
    failing(error)
    result = invoke("fail")
    assert result.exit_code == 1
    assert result.stderr == message


def test_debug_shows_the_traceback(invoke, failing):
    """Catches an option without effect."""
    failing(ValueError("d is 0"))
    assert isinstance(invoke("--debug", "fail").exception, ValueError)


def test_warnings_are_one_line(invoke, failing):
    """Catches warnings with a file name and a line of our sources in the middle of a user's terminal."""

    def warn():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("chains\n  disagree", UserWarning, stacklevel=1)

    failing(warn)
    result = invoke("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Warning: chains disagree\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signals_end_with_their_code(invoke, failing, name):
    """Catches a request to stop that is lost, is taken for an error, or leaves its handler behind."""
    number = getattr(signal, name)
    before = signal.getsignal(number)
    failing(lambda: (signal.raise_signal(number), time.sleep(60)))
    result = invoke("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (128 + number, "", "Interrupted.\n")
    assert signal.getsignal(number) is before


def test_sigterm_calls_the_handler_of_ctrl_c(invoke, failing):
    """Catches a sampler with its own handler of Ctrl-C that SIGTERM ends without calling it."""

    def work():
        heard = []
        before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGINT, before)
        click.echo(heard)

    failing(work)
    assert invoke("fail").stdout == "[<Signals.SIGINT: 2>]\n"


def test_a_second_ctrl_c_ends_the_command(invoke, failing):
    """Catches a run that saves its results after one Ctrl-C and cannot be stopped by another."""

    def work():
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            click.echo(interrupts.seen)
            signal.raise_signal(signal.SIGINT)
            time.sleep(60)

    failing(work)
    result = invoke("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "True\n", "Interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no masks of signals")
def test_sigterm_interrupts_a_process_that_ignores_ctrl_c(invoke, failing):
    """Catches a job that ignores Ctrl-C and cannot be interrupted by SIGTERM, or that no longer ignores Ctrl-C."""

    def work():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # what samplers look for
        click.echo("ignored")
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        failing(work)
        result = invoke("fail")
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout) == (143, "ignored\n")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_sigterm_twice_within_half_a_second_counts_once(invoke, failing):
    """Catches `timeout`, which signals a process and its group, losing results that are being written."""

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGTERM)
            click.echo("written")

    failing(work)
    assert invoke("fail").stdout == "written\n"


def test_a_closed_pipe_is_no_error():
    """Catches `bouncy ... | head` that ends with a traceback or an error message."""
    reading, writing = os.pipe()
    os.close(reading)
    code = "from bouncy.cli.main import main; main(['completion', 'zsh'])"
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b""


@pytest.mark.slow
def test_warmup_fills_the_cache_that_a_run_then_uses(tmp_path):
    """Catches a warm-up that compiles for other types than a user's run, which then compiles again."""
    cache = tmp_path / "cache"
    done = _bouncy(*QUICK, NUMBA_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    (directory,) = cache.iterdir()
    assert done.stdout == f"1 combination is ready in {directory}\n"
    assert done.stderr == ""
    warm = _contents(directory)
    assert any("bouncy.workers.kernel.advance" in name for name in warm)
    script = """
import bouncy
target = bouncy.MRF.random(40, seed=0)
run = bouncy.sample(target, "metropolis", chains=3, draws=50, warmup=20, thin=2).extend(7)
run.mean, run.diagnostics
bouncy.sample(target, "metropolis", draws=5, keep="means").diagnostics
bouncy.exact(bouncy.MRF.random(4))
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)})
    assert _contents(directory) == warm


def _contents(directory):
    """Return the files of a directory and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}


def test_warmup_without_a_cache_is_an_error(invoke, monkeypatch):
    """Catches a build step that reports success although every process will compile again."""
    monkeypatch.setattr(_compile, "_stopped", True)
    monkeypatch.setattr(warmup, "_use", lambda *combination: None)
    result = invoke(*QUICK)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: nothing was kept")


@pytest.mark.slow
def test_warmup_knows_all_combinations(invoke, monkeypatch):
    """Catches a combination of sampler, target and recorder that is left out."""
    used = set()
    monkeypatch.setattr(warmup, "_use", lambda target, *names: used.add((type(target), target.d, *names)))
    monkeypatch.setattr(warmup, "_cache_directory", lambda: "here")
    spins = len({*names()} - {"auto", "metropolis-swap"}) * sum(
        2 + (build().edges() is not None) for build in examples().values()
    )
    spins += 3 * len(names(ClusterSampler))
    builds = [build() for build in specialised().values()]
    kinds = [entry.sampler for entry in registry(PathSampler) if entry.name != "auto"]
    paths = 2 * sum(sampler.accepts(target) for sampler in kinds for target in builds)
    assert invoke("warmup").output == f"{spins + paths} combinations are ready in here\n"
    assert {pairs for *_, pairs in used} == {"all", "edges", "none"}


@pytest.mark.slow
def test_warmup_compiles_everything(tmp_path):
    """Catches a combination of sampler and target that does not compile, or gets loops of its own without need.

    Recorders of pairs are data of the same loops, and other tests use them all.
    """
    done = _bouncy("warmup", "--pairs", "none", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (directory,) = tmp_path.iterdir()
    # Whatever the number of targets, there are three kinds of views: dense, sparse, and by address.
    tolls, views = 3, 3
    assert len(list(directory.glob("bouncy.workers.kernel.advance.*"))) == tolls * views
    assert len(list(directory.glob("bouncy.clocks.by_address._fill_at.*"))) == len(every_clock())
