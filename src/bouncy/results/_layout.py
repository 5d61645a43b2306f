"""What a saved run consists of: names, places, types and shapes of its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bouncy.piecewise.recorder import BINS

# The group of what only we understand, and its attributes.
GROUP = "bouncy"
ATTRIBUTES = ("header", "header_sha256")
GROUPS = {"posterior", "sample_stats", GROUP}
# Deflate makes nothing smaller than by this factor.
MOST_PACKED = 1032


class RunFileError(RuntimeError):
    """A file that is no saved run, is damaged, or was made to do harm."""


@dataclass(frozen=True)
class Member:
    """An array: where it is in the tree (`group/name`), its type, and its shape."""

    place: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise unless what was found has this type and shape."""
        if shape != self.shape or dtype != self.dtype or dtype.hasobject:
            raise RunFileError(
                f"{self.place} has the type {dtype} and the shape {shape}; expected {self.dtype} and {self.shape}"
            )


def axes(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return what the axes of an array of our own group are called: arrays of one length share them."""
    return tuple(f"axis{k}_{size}" for k, size in enumerate(shape))


def layout(header: dict[str, Any]) -> dict[str, Member]:
    """Return the arrays that a header promises, by name; those without entries are in no file."""
    sizes = header["sizes"]
    c, d, k = sizes["chains"], sizes["d"], sizes["traces"]
    spins = header["kind"] == "spins"
    found = {
        "draws": ("posterior/s" if spins else "posterior/x", "|i1" if spins else "<f8", (c, sizes["draws"], d)),
        "log_prob": ("sample_stats/lp", "<f8", (c, k)),
        "labels": ("bouncy/labels", "|u1", (sizes["labels"],)),
    }
    for item in header["parameters"]:
        found[f"parameter {item['name']}"] = (f"posterior/{item['variable']}", "<f8", (c, k, *item["shape"]))
    ours = _spins(sizes, header["pairs"]) if spins else _paths(sizes, header["pairs"])
    if spins:
        found["magnetisation"] = ("sample_stats/magnetisation", "<f8", (c, k))
    if header["keep"] == "path":
        n = sizes["flips"]
        ours |= {"flip_count": ("<i4", (c, sizes["path"])), "flip_time": ("<f8", (n,)), "flip_site": ("<i4", (n,))}
        ours["start"] = ("|i1", (c, d))
    found |= {name: (f"{GROUP}/{name}", dtype, shape) for name, (dtype, shape) in ours.items()}
    return {name: Member(place, np.dtype(dtype), shape) for name, (place, dtype, shape) in found.items()}


def _common(sizes: dict[str, int]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the arrays that all recorders and chains have."""
    c, d, slots = sizes["chains"], sizes["d"], sizes["slots"]
    return {
        "mean": ("<f8", (c, slots, d)),
        "events": ("<f8", (c, slots, 4)),
        "flips": ("<i8", (c, d)),
        "tally": ("<i8", (c, sizes["tally"])),
        "number": ("<i8", (c,)),
        "sweeps": ("<i8", (c,)),
        "cpu_seconds": ("<f8", (c,)),
    }


def _spins(sizes: dict[str, int], pairs: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the arrays of a recorder of spins, with those of its pairs."""
    c, d, slots = sizes["chains"], sizes["d"], sizes["slots"]
    found = {**_common(sizes), "path": ("<f8", (c, slots, d))}
    if pairs != "none":
        n = d * d if pairs == "all" else sizes["edges"]
        found |= {"pairs_path": ("<f8", (c, slots, n)), "pairs_mean": ("<f8", (c, slots, n))}
    if pairs == "edges":
        entries = (sizes["entries"],)
        found |= {"pairs_indptr": ("<i8", (d + 1,)), "pairs_indices": ("<i4", entries), "pairs_edge": ("<i4", entries)}
    return found


def _paths(sizes: dict[str, int], pairs: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the arrays of a recorder of paths, with its cells and those of its products."""
    c, d, slots, n = sizes["chains"], sizes["d"], sizes["slots"], sizes["cells"]
    found = {
        **_common(sizes),
        "square": ("<f8", (c, slots, d)),
        "cell": ("<f8", (c, slots, n)),
        "bin": ("<f8", (c, slots, d * (BINS + 2))),
        "extremes": ("<f8", (c, 2, d)),
        "low": ("<f8", (c, d)),
        "width": ("<f8", (c, d)),
        "cell_first": ("<i8", (d + 1,)),
    }
    found |= {f"cell_{name}": ("<f8", (n,)) for name in ("lower", "upper", "slope", "shift")}
    if pairs == "all":
        found["products"] = ("<f8", (c, slots, d * d))
    return found
