"""Completion in a shell: the scripts, and what they are told."""

import os
import subprocess
import sys

import pytest

from bouncy.samplers import names


def _complete(line, directory):
    """Return what bash would be told to complete the last word of a line with."""
    words = line.split(" ")
    environment = {"_BOUNCY_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from bouncy.cli.main import main; main(prog_name='bouncy')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        env={**os.environ, **environment},
    )
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_those_that_click_makes(invoke, shell):
    """Catches a script for another program or variable than the one that is installed."""
    script = invoke("completion", shell).stdout
    assert f"_BOUNCY_COMPLETE={shell}_complete" in script
    assert "bouncy" in script
    assert script == invoke("completion", env={"SHELL": f"/usr/bin/{shell}"}).stdout


def test_an_unknown_shell_is_refused(invoke):
    """Catches a script for a shell that the user does not have."""
    result = invoke("completion", env={"SHELL": "/bin/tcsh"})
    assert result.exit_code == 2
    assert "say for which shell: bash, zsh, fish" in result.stderr
    assert "Did you mean 'fish'?" in invoke("completion", "fishy").stderr


def test_words_are_completed(tmp_path):
    """Catches arguments that Tab knows nothing about: commands, samplers, plots and files."""
    assert _complete("bouncy sam", tmp_path) == ["plain,sample"]
    assert _complete("bouncy sample model.npz --sampler ", tmp_path) == [f"plain,{name}" for name in sorted(names())]
    assert _complete("bouncy sample mod", tmp_path) == ["file,mod"]
    assert "plain,trace" in _complete("bouncy plot run.nc --kind tr", tmp_path)
