"""The page about the command line: its commands do what it shows."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
# Numbers depend on the machine, and where lines break on the terminal.
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e-\d+)?")


def _blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _words(text):
    return NUMBER.sub("#", text).split()


def test_commands_print_what_the_page_shows(invoke, place):
    """Catches a command, a column or a key that changed, or an example that fails for a newcomer."""
    for block in _blocks("python"):
        exec(compile(block, str(PAGE), "exec"), {})
    run = 0
    for block in _blocks("console"):
        if "^C" in block:  # see test_terminal.py
            continue
        for part in block.split("$ bouncy ")[1:]:
            command, _, shown = part.partition("\n")
            result = invoke(*shlex.split(command))
            assert _words(result.stdout + result.stderr) == _words(shown), command
            run += 1
    assert run >= 10


def test_the_page_has_every_command(invoke):
    """Catches a command that is not documented."""
    listed = invoke("--help").output.partition("Commands:\n")[2].partition("\n\n")[0]
    for line in listed.splitlines():
        assert f"`bouncy {line.split()[0]}" in PAGE.read_text()
