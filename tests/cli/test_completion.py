"""Completion in a shell: the scripts, and the completions that they get."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import get_completion_class

from bouncy.cli.main import main
from bouncy.samplers import OF_SPINS, names


def _complete(*words):
    """Return what a shell would be told to complete the last word with."""
    shell = get_completion_class("bash")(main, {}, "bouncy", "_BOUNCY_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


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


def test_words_are_completed():
    """Catches arguments that Tab does not complete: commands, samplers, plots and files."""
    assert _complete("sam") == [("plain", "sample")]
    assert _complete("sample", "model.npz", "--sampler", "") == [("plain", name) for name in names(OF_SPINS)]
    assert _complete("sample", "model.npz", "--keep", "p") == [("plain", "path")]
    assert _complete("sample", "mod") == [("file", "mod")]
    assert _complete("plot", "run.npz", "--kind", "tr") == [("plain", "trace")]


def test_the_environment_variable_asks_for_completions():
    """Catches an environment variable that is not read, so that Tab runs the command instead."""
    environment = {"_BOUNCY_COMPLETE": "bash_complete", "COMP_WORDS": "bouncy conv", "COMP_CWORD": "1"}
    code = "from bouncy.cli.main import main; main(prog_name='bouncy')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    assert done.stdout == "plain,convert\n"
