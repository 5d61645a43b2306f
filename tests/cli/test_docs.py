"""Pages with commands: these do what the pages show."""

import re
import shlex
from pathlib import Path

import matplotlib as mpl
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page.name for page in sorted(DOCS.glob("*.md")) if "$ bouncy " in page.read_text()]
# Numbers depend on the machine, and where lines break on the terminal.
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e-\d+)?")


def _blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def _words(text):
    return NUMBER.sub("#", text).split()


def test_both_pages_are_found():
    """Catches a page whose code nothing runs any more."""
    assert PAGES == ["cli.md", "start.md"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page, invoke, place):
    """Catches a command, a column or a key that changed, or an example that fails for a newcomer."""
    mpl.use("Agg")
    namespace = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page, "exec"), namespace)
    run = 0
    for block in _blocks(page, "console"):
        if "^C" in block:  # see test_terminal.py
            continue
        for part in block.split("$ bouncy ")[1:]:
            command, _, shown = part.partition("\n")
            result = invoke(*shlex.split(command))
            assert _words(result.stdout + result.stderr) == _words(shown), command
            run += 1
    assert run >= {"cli.md": 10}.get(page, 1)


def test_the_page_has_every_command(invoke):
    """Catches a command that is not documented."""
    listed = invoke("--help").output.partition("Commands:\n")[2].partition("\n\n")[0]
    for line in listed.splitlines():
        assert f"`bouncy {line.split()[0]}" in (DOCS / "cli.md").read_text()
