"""Model files: `bouncy.load_model` and `bouncy.save_model`. Each format is a module of this folder, found by itself.

The module of a format declares

- `NAME`, the value of `format=`, and `SUFFIXES`, its file name suffixes, with their dots;
- `MAX_BYTES`, the default limit on the size of a file;
- `TARGETS`, the classes it can express;
- `load(source, **options)`, which returns a target or raises `source.error(...)`, see `_source.py`;
- `save(target, file, **options)`, which writes to a binary file.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bouncy._registry import modules
from bouncy._validation import check_count, check_flag, check_path
from bouncy.formats.files._source import ModelFileError, opened
from bouncy.storage.atomic import atomic_file
from bouncy.targets.contract import Target

__all__ = ["ModelFileError", "load_model", "save_model"]


def load_model(
    path: str | os.PathLike[str], *, format: str | None = None, max_bytes: int | None = None, **options: Any
) -> Target:
    """Read a target from a file. Nothing in a file is ever executed: no format holds pickles.

    Parameters
    ----------
    path : path
        The suffix decides on the format: `.npz`, `.json`, `.coo` (dimod's text format) or `.uai`.
    format : str, optional
        `"npz"`, `"json"`, `"coo"` or `"uai"`, for a file with another suffix.
    max_bytes : int, optional
        Refuse files that are larger, packed or unpacked. Every format has a default.
    **options
        vartype : "SPIN" or "BINARY"
            coo: vartype of a file without a header that gives it.
        temperature : float
            coo: the file holds energies E, and p ~ exp(-E / temperature); 1 by default.
        evidence : path
            uai: a file of observed variables, to which the target is clamped.

    Returns
    -------
    Target
        Of the class that was saved; a `FactorGraph` from a `.uai` file that is not pairwise and positive.

    Raises
    ------
    ModelFileError
        If the file cannot be read. It names the line or the field.

    Examples
    --------
    >>> import bouncy, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "pair.coo")
    ...     _ = path.write_text("# vartype=SPIN\\n0 0 0.5\\n0 1 -1.0\\n")
    ...     bouncy.load_model(path, temperature=2.0)
    MRF(d=2, dense, 1 pair)
    """
    place = check_path(path)
    chosen = _choose(place, format)
    _check_options(chosen.NAME, "reading", chosen.load, options)
    limit = chosen.MAX_BYTES if max_bytes is None else check_count("max_bytes", max_bytes)
    with opened(place, limit) as source:
        target: Target = chosen.load(source, **options)
        return target


def save_model(
    target: Target, path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False, **options: Any
) -> None:
    """Write a target to a file, whole or not at all: a crash leaves no half-written file under its name.

    Parameters
    ----------
    target : Target
        An `MRF` in any format; other classes in those that can express them.
    path : path
        The suffix decides on the format, as in `load_model`.
    format : str, optional
        `"npz"`, `"json"`, `"coo"` or `"uai"`, for a file with another suffix.
    overwrite : bool
        Replace a file that exists.
    **options
        vartype : "SPIN" or "BINARY"
            coo: vartype of the file, "SPIN" by default.
        temperature : float
            coo: the file holds the energy E = -temperature log p; 1 by default.
        renumber : bool
            coo, uai: write 0, 1, ... in place of labels that the format cannot keep.

    Notes
    -----
    npz and json give back the same bits. So does coo with the vartype "SPIN"; uai holds potentials, exp(-M_ij s_i s_j),
    and "BINARY" other sums of the couplings, so that their numbers come back with rounding errors.

    Examples
    --------
    >>> import bouncy, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ring.npz")
    ...     bouncy.save_model(bouncy.MRF.ising(5), path)
    ...     bouncy.load_model(path)
    MRF(d=5, sparse, 5 pairs, lattice 5)
    """
    place = check_path(path)
    chosen = _choose(place, format)
    _check_target(target, chosen)
    _check_options(chosen.NAME, "writing", chosen.save, options)
    with atomic_file(place, check_flag("overwrite", overwrite)) as file:
        chosen.save(target, file, **options)


def _formats() -> dict[str, ModuleType]:
    found = [module for module in modules(__name__) if hasattr(module, "SUFFIXES")]
    return {module.NAME: module for module in found}


def _choose(path: str, name: str | None) -> ModuleType:
    """Return the module of the format with this name or, without a name, of the format with the path's suffix."""
    formats = _formats()
    if name is not None:
        if name not in formats:
            raise ValueError(f"format must be one of {', '.join(map(repr, formats))} or None, got {name!r:.60}")
        return formats[name]
    suffix = os.path.splitext(path)[1].lower()
    for module in formats.values():
        if suffix in module.SUFFIXES:
            return module
    known = ", ".join(sorted(suffix for module in formats.values() for suffix in module.SUFFIXES))
    raise ValueError(
        f"{path}: the suffix {suffix!r} is not one of a model file; known are {known}. "
        f"Rename the file or pass format= ({', '.join(map(repr, formats))})"
    )


def _check_options(name: str, doing: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Raise unless all options are keyword arguments of the function that reads or writes the format."""
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            takes = ", ".join(known) if known else "no options"
            raise TypeError(f"{doing} the format {name!r} got an unknown option {option!r}; it takes {takes}")


def _check_target(target: Target, chosen: ModuleType) -> None:
    if type(target) in chosen.TARGETS:
        return
    able = [name for name, module in _formats().items() if type(target) in module.TARGETS]
    kinds = " or ".join(kind.__name__ for kind in chosen.TARGETS)
    instead = f"formats that can: {', '.join(able)}" if able else "no format can"
    raise TypeError(
        f"target must be {kinds} to be written in the format {chosen.NAME!r}, got {type(target).__name__}; {instead}"
    )
