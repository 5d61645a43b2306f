"""The pages of the documentation: links, names and commands that they mention exist."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

import bouncy
from bouncy.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for place in (".", "docs", "docs/reproduction", "benchmarks", "benchmarks/results")
    for page in (ROOT / place).glob("*.md")
)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def _anchors(page):
    """Return the anchors of the headings, by the rule of git hosts and of the site."""
    titles = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Catches a link or a picture that is broken where pages are read as plain files: no such file, no such heading."""
    path = ROOT / page
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.exists(), target
        assert not anchor or anchor in _anchors(linked), target


def test_the_reference_has_every_public_name():
    """Catches a public name that the reference leaves out, and one that it has and nobody can import."""
    listed = re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "reference.rst").read_text(), re.MULTILINE)
    public = set(bouncy.__all__) - {"__version__"}
    for name in ("plots", "testing", "piecewise", "experiments"):
        public |= {f"{name}.{part}" for part in getattr(bouncy, name).__all__}
    public |= {f"conjugate.{name}" for name, part in vars(bouncy.conjugate).items()
               if getattr(part, "__module__", "") == "bouncy.conjugate" and not name.startswith("_")}  # fmt: skip
    public |= {"dimod.BouncySampler", "pymc.BouncyBinary", "pymc.to_model"}  # need other packages
    assert len(listed) == len(set(listed))
    assert set(listed) == public


def _blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def _commands():
    """Yield each command that a page shows, as words, without what it prints."""
    for page in PAGES:
        for block in re.findall(
            r"^```(?:console|bash)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
        ):
            lines = block.splitlines()
            prompted = [line[2:] for line in lines if line.startswith("$ ")]
            for line in prompted or lines:
                words = shlex.split(line, comments=True)
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words = words[1:]
                if words:
                    yield words


def test_commands_exist():
    """Catches a page that names a command, an option, a target of make or an extra that does not exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    seen = set()
    for program, *words in _commands():
        seen.add(program)
        if program == "make":
            assert {word for word in words if "=" not in word} <= targets, words
        elif program == "pip":
            assert set(re.findall(r"\w+", "".join(re.findall(r"\[(.*?)\]", " ".join(words))))) <= extras, words
        elif program == "bouncy":
            command = main.get_command(click.Context(main), words[0])
            assert command is not None, words
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, words
    assert {"make", "pip", "bouncy"} <= seen


@pytest.mark.parametrize("page", PAGES)
def test_code_that_needs_other_packages_compiles(page):
    """Catches a slip in blocks that are not run, as they need JAX, PyMC or a cluster."""
    for block in _blocks(page, "py"):
        compile(block, page, "exec")
