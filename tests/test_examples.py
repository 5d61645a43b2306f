"""The examples in docstrings and on the pages of the documentation run and print what they say."""

import doctest
import importlib
import pkgutil
import re
import runpy
import textwrap
from pathlib import Path

import matplotlib as mpl
import pytest

import bouncy

ROOT = Path(__file__).parents[1]
# What PyMC needs is tested in an environment of its own.
MODULES = sorted({module.name for module in pkgutil.walk_packages(bouncy.__path__, "bouncy.")} - {"bouncy.pymc"})


# Modules whose examples compile what nothing else needs.
COMPILING = ("bouncy.targets.custom", "bouncy.workers.within", "bouncy.experiments.published", "bouncy.samplers.auto",
             "bouncy.samplers.metropolis_swap")  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(m, marks=[pytest.mark.slow] * (m in COMPILING)) for m in MODULES])
def test_docstrings(name):
    """Catches an example that no longer runs, and a module that cannot be imported by itself."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


# Pages with Python code. Those with commands are run by cli/test_docs.py, that about clusters by run/test_executors.py.
PAGES = {
    str(page.relative_to(ROOT)): text
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "```python\n" in (text := page.read_text()) and "$ bouncy " not in text and page.name != "cluster.md"
}

# Something that a page prints.
PRINTED = {
    "README.md": "log prob: ess",
    "docs/index.md": "log prob: ess",
    "docs/targets.md": "probability",
    "docs/regression.md": "probability",
    "docs/constraints.md": "probability",
    "docs/continuous.md": "probability",
    "docs/density.md": "probability",
    "docs/results.md": "spin 3",
    "docs/long-runs.md": "until_se",
    "docs/lanes.md": "(64, 500, 1024)",
    "docs/hard-targets.md": "round trips",
    "docs/ferromagnets.md": "are frustrated",
}


# Pages that compile many functions are left to the long tests; what they show has tests of its own.
LONG = (
    "docs/constraints.md",
    "docs/continuous.md",
    "docs/ferromagnets.md",
    "docs/density.md",
    "docs/hard-targets.md",
    "docs/samplers.md",
    "docs/targets.md",
    "docs/regression.md",
)


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES])
def test_pages(page, tmp_path, monkeypatch, capsys):
    """Catches a page whose code fails for a newcomer: its Python blocks run one after the other."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL):
        exec(compile(textwrap.dedent(block), page, "exec"), namespace)
    assert PRINTED.get(page, "") in capsys.readouterr().out


def test_lanes(tmp_path, capsys):
    """Catches an example that no longer runs, and a picture that shows correlations where there are none."""
    example = runpy.run_path(str(ROOT / "examples" / "lanes.py"))
    run = example["main"](small=True, out=tmp_path / "lanes.png")
    _, ratio, error = example["shares"](run)
    assert (abs(ratio - 1.0) < 6.0 * error).all()
    assert (tmp_path / "lanes.png").stat().st_size > 10_000
    assert "log p" in capsys.readouterr().out


THEORY = ROOT / "docs" / "theory.md"
DRAWN = sorted(re.findall(r"\(images/theory/(\w+)\.svg\)", THEORY.read_text()))


def test_theory_has_its_pictures():
    """Catches a picture that the page shows and nobody drew, or one that was drawn and is not shown."""
    assert sorted(path.stem for path in (ROOT / "docs" / "images" / "theory").iterdir()) == DRAWN
    assert (ROOT / "docs" / "images" / "particle.gif").stat().st_size < 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_theory_is_drawn(name, tmp_path, monkeypatch):
    """Catches a picture that can no longer be drawn, or an exchange of clusters that changes log p."""
    mpl.use("Agg")
    monkeypatch.syspath_prepend(ROOT / "examples")
    out = runpy.run_path(str(ROOT / "examples" / "theory.py"))["draw"](name, tmp_path)
    assert out.stat().st_size > 10_000


@pytest.mark.slow
def test_animation_is_drawn(tmp_path, monkeypatch):
    """Catches an animation that can no longer be made."""
    mpl.use("Agg")
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(ROOT / "examples" / "theory.py"))["animate"](tmp_path / "particle.gif", frames=6)
    assert (tmp_path / "particle.gif").read_bytes().startswith(b"GIF89a")


def test_public_names_exist():
    """Catches a name that is announced but cannot be imported."""
    for name in bouncy.__all__:
        assert getattr(bouncy, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        bouncy.nothing  # noqa: B018
