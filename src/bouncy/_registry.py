"""Finding the parts of the package by looking into its folders, so that a new part is a new file and nothing else."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType


@functools.cache
def modules(package: str) -> tuple[ModuleType, ...]:
    """Import and return the modules of a package, in alphabetical order."""
    path = importlib.import_module(package).__path__
    return tuple(importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path))
