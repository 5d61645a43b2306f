"""Descriptions of a run in plain Python objects: for JSON, for attributes of labelled arrays, for files."""

from __future__ import annotations

import functools
import inspect
import math
import platform
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

import bouncy
from bouncy._registry import modules
from bouncy.samplers.contract import NotErgodicWarning, PathSampler, Sampler

if TYPE_CHECKING:
    from bouncy.results.run import Run


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN becomes None, infinity and all other objects become text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def described_run(run: Run) -> dict[str, Any]:
    """Return what was run, and how it ended."""
    described = {
        "sampler": described_sampler(run.sampler),
        "target": repr(run.target),
        "seed": described_seed(run.seed),
        "chains": run.chains,
        "draws": run.draws_per_chain,
        "thin": run.thin,
        "warmup": run.warmup,
        "sampling_seconds": run.sampling_seconds,
    }
    return described | ending(run)


def ending(run: Run) -> dict[str, Any]:
    """Return why the run stopped, and whether it was done."""
    return {name: plain(getattr(run, name)) for name in ("stopped_by", "completed")}


def described_sampler(sampler: Any) -> dict[str, Any]:
    """Return the name, the class and all settings of a sampler."""
    names = [field.name for field in fields(sampler)] if is_dataclass(sampler) else []
    values = {name: getattr(sampler, name) for name in names}
    settings = {
        name: described_sampler(value) if isinstance(value, Sampler) else plain(value) for name, value in values.items()
    }
    return {"name": sampler.name, "class": type(sampler).__name__, "settings": settings}


def as_sampler(kind: str, described: dict[str, Any]) -> Any:
    """Return the sampler that was described, of spins or of paths.

    It must be one of ours: its class is looked up by name and never imported. `LookupError` where there is none.
    """
    base, home = (PathSampler, "bouncy.piecewise.samplers") if kind == "paths" else (Sampler, "bouncy.samplers")
    known = {
        item.__name__: item
        for module in modules(home)
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, base) and is_dataclass(item) and not inspect.isabstract(item)
    }
    if described["class"] not in known:
        raise LookupError(f"{described['class']!r:.60}")
    settings = {
        name: as_sampler(kind, value) if isinstance(value, dict) and "class" in value else value
        for name, value in described["settings"].items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotErgodicWarning)  # it was given when the run was made
        return known[described["class"]](**settings)


def described_seed(seed: int | np.random.SeedSequence) -> int | dict[str, Any]:
    """Return a seed as a number, or the arguments of a seed sequence."""
    if not isinstance(seed, np.random.SeedSequence):
        return int(seed)
    made_of = ("entropy", "spawn_key", "pool_size", "n_children_spawned")
    return {name: plain(getattr(seed, name)) for name in made_of}


def as_seed(described: int | dict[str, Any]) -> int | np.random.SeedSequence:
    """Return the seed that was described."""
    return described if isinstance(described, int) else np.random.SeedSequence(**described)


def origin() -> dict[str, Any]:
    """Return when, and by which versions, a run was made."""
    return {"created_at": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions()}


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    found = {name: version(name) for name in ("numpy", "numba")}
    return {"bouncy": bouncy.__version__, **found, "python": platform.python_version()}


def plain_label(label: Hashable) -> Any:
    """Return a label as JSON keeps it: numbers and text as they are, tuples as lists, anything else as its text."""
    if isinstance(label, tuple):
        return [plain_label(part) for part in label]
    return plain(label)


def counted(n: int, nouns: str) -> str:
    """Return a number with its noun, given in the plural."""
    noun = f"{nouns.removesuffix('ies')}y" if nouns.endswith("ies") else nouns.removesuffix("s")
    return f"{n:,} {nouns if n != 1 else noun}"
