"""bouncy: binary distributions sampled with the Binary Bouncy Particle Sampler.

Names are imported on first use: numba and scipy are not needed to ask for the version. `__init__.pyi` lists the public
names for type checkers and for this module alike. A class of a target or sampler that is named after its file, such as
FactorGraph in targets/factor_graph.py, is public without being listed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from typing import Any

# Folders of parts whose classes are public.
_PARTS = ("bouncy.targets", "bouncy.piecewise.targets", "bouncy.samplers")
# Names of earlier versions, and what stands in their place.
_REPLACED = {"InclusionTable": "run.inclusion_table()"}
# Modules that need another package, and so are not in `dir`: help() imports all that is.
_EXTRAS = ("dimod", "pymc")


@functools.cache
def _modules() -> dict[str, str]:
    """Return {public name: its module} of the names in `__init__.pyi`; a module of this package is in "bouncy"."""
    stub = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
    found = re.findall(r"^from ([\w.]+) import (\w+) as", stub, re.MULTILINE)
    return {name: module for module, name in found}


def _named_parts() -> dict[str, str]:
    from bouncy._registry import named_classes

    return {name: module for package in _PARTS for name, module in named_classes(package).items()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("bouncy")
        except PackageNotFoundError:  # a checkout that is not installed
            return "unknown"
    if name == "__all__":
        names = {name for name, module in _modules().items() if module != "bouncy"}
        return sorted({*names, *_named_parts(), "__version__"})
    module = _modules().get(name) or (None if name.startswith("_") else _named_parts().get(name))
    if module == "bouncy":
        return importlib.import_module(f"bouncy.{name}")
    if module is not None:
        return getattr(importlib.import_module(module), name)
    instead = f"; use {_REPLACED[name]}" if name in _REPLACED else ""
    raise AttributeError(f"module 'bouncy' has no attribute {name!r}{instead}")


def __dir__() -> list[str]:
    modules = {name for name, module in _modules().items() if module == "bouncy"}
    return [*__getattr__("__all__"), *sorted(modules.difference(_EXTRAS))]
