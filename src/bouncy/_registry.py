"""Parts of the package, found by looking into its folders: a new part is a new file and nothing else."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@functools.cache
def modules(package: str) -> tuple[ModuleType, ...]:
    """Import and return the modules of a package, in alphabetical order."""
    path = importlib.import_module(package).__path__
    return tuple(importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path))


def named_classes(package: str) -> dict[str, str]:
    """Return {class: module} of the classes named after their files, such as FactorGraph in factor_graph.py.

    The files are read, not imported, and those that begin with an underscore are left out.
    """
    return {
        name: f"{package}.{file.stem}"
        for folder in _folders(package)
        for file in sorted(Path(folder).glob("[!_]*.py"))
        for name in _CLASS.findall(file.read_text("utf-8"))
        if name.lower() == file.stem.replace("_", "")
    }


def _folders(package: str) -> Iterable[str | Path]:
    if package in sys.modules:
        return sys.modules[package].__path__
    return [Path(__file__).parent.joinpath(*package.split(".")[1:])]
