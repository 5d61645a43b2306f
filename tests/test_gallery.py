"""The scripts of the gallery run without a warning, and read as a gallery needs them."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bouncy

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))
# PyMC has an environment of its own, in which tests/test_pymc.py runs its script.
EXECUTED = [path for path in SCRIPTS if path.name != "plot_pymc.py"]
# Public modules, by the names under which a user reaches them; what they announce is public.
MODULES = {"bouncy": bouncy, "bouncy.plots": bouncy.plots, "bouncy.testing": bouncy.testing}
names = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


def test_there_are_scripts():
    """Catches a gallery that has moved, so that nothing below is tested, and a script without a picture on the site."""
    assert len(SCRIPTS) >= 12
    assert all(path.name.startswith("plot_") for path in SCRIPTS)  # sphinx-gallery runs these alone
    assert "Gallery" in (GALLERY / "GALLERY_HEADER.rst").read_text()


@names
def test_script_reads_as_a_page(path):
    """Catches a script that a gallery cannot show: without a title, text between its blocks, or a picture."""
    text = path.read_text()
    title, line, blank, first = ast.get_docstring(ast.parse(text)).splitlines()[:4]
    assert set(line) == {"="}
    assert len(line) == len(title) <= 70
    assert not blank
    assert first
    assert len(re.findall(r"^# %%$", text, re.MULTILINE)) >= 3
    assert "plt.show()" in text


@names
def test_script_uses_public_names_alone(path):
    """Catches a script that shows what a user cannot rely on: names with an underscore, or of inner modules."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("bouncy"):
            assert node.module == "bouncy.pymc"
        if isinstance(node, ast.Import):
            assert not any(name.name.startswith("bouncy.") for name in node.names)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
            holder = MODULES.get(ast.unparse(node.value))
            assert holder is None or node.attr in holder.__all__ or f"bouncy.{node.attr}" in MODULES


@pytest.mark.slow
@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_script_runs(path, tmp_path):
    """Catches a script that fails, warns, leaves files behind, or prints nothing."""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg is non-interactive", str(path)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout
    assert not list(tmp_path.iterdir())
