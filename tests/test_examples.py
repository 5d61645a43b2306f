"""The examples in docstrings and in the README run and print what they say."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import matplotlib as mpl
import pytest

import bouncy

README = Path(__file__).parents[1] / "README.md"
# What PyMC needs is tested in an environment of its own.
MODULES = sorted({module.name for module in pkgutil.walk_packages(bouncy.__path__, "bouncy.")} - {"bouncy.pymc"})


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    """Catches an example that no longer runs, and a module that cannot be imported by itself."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_readme(tmp_path, monkeypatch, capsys):
    """Catches a README whose code fails for a newcomer: its Python blocks run one after the other."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    assert "rhat" in capsys.readouterr().out


def test_public_names_exist():
    """Catches a name that is announced but cannot be imported."""
    for name in bouncy.__all__:
        assert getattr(bouncy, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        bouncy.nothing  # noqa: B018
