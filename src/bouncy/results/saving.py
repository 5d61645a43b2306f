"""Runs to files and back: the tree of ArviZ, and beside it everything that estimates are computed from.

A file holds arrays of numbers and one header in JSON. The header has a checksum of its own and one of all arrays. What
it promises (`_layout.py`) is compared with what is there before anything is allocated, and nothing is ever executed.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_flag, check_path
from bouncy.results import _netcdf, _zarr
from bouncy.results._layout import GROUP, GROUPS, Member, RunFileError, axes, layout
from bouncy.results._packing import pack
from bouncy.results._unpacking import check_header, give_target, unpack
from bouncy.results.run import Run

Arrays = dict[str, NDArray[Any]]

_FORMATS = {".nc": _netcdf, ".zarr": _zarr}
_NEEDED = {".nc": ("xarray", "h5netcdf", "h5py"), ".zarr": ("xarray", "zarr")}


def save_run(run: Run, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a run; see `Run.save`."""
    place, overwrite = check_path(path), check_flag("overwrite", overwrite)
    chosen = _format_of(place, "save")
    xarray = importlib.import_module("xarray")
    header, arrays = pack(run)
    members = layout(header)
    stored = {name: member for name, member in members.items() if member.nbytes}
    text = json.dumps({**header, "sha256": _digest(members, arrays)}, allow_nan=False)
    attributes = {"header": text, "header_sha256": _text_digest(text)}
    ours = {name: (axes(member.shape), arrays[name]) for name, member in stored.items() if _is_ours(member)}
    tree = run.to_arviz()
    tree[GROUP] = xarray.DataTree(xarray.Dataset(ours, attrs=attributes))
    # Spins take a byte and have a bit of information; floats do not get much smaller.
    packed = [member.place for member in stored.values() if member.dtype == np.int8 and not _is_ours(member)]
    chosen.write(tree, place, overwrite, packed)


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a folder, and not one of a format of ours."""
    place = check_path(path)
    return os.path.isdir(place) and os.path.splitext(place.rstrip(os.sep))[1].lower() not in _FORMATS


def load_run(path: str | os.PathLike[str], target: Any) -> Run:
    """Read a run; see `Run.load`."""
    place = check_path(path)
    chosen = _format_of(place, "load")
    if not os.path.lexists(place):
        raise FileNotFoundError(f"there is no {place}")
    try:
        run = unpack(*_read(chosen, place))
    except RunFileError as error:
        raise RunFileError(f"cannot load {place}: {error}") from None
    except Exception as error:  # whatever a file that was made up may lead to
        raise RunFileError(f"cannot load {place}: it is damaged ({type(error).__name__}: {error})") from error
    if target is not None:
        give_target(run, target)
    return run


def _read(chosen: Any, place: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and all arrays of a file, checked."""
    with chosen.opened(place) as store:
        attributes = store.attributes()
        text = attributes["header"]
        if _text_digest(text) != attributes["header_sha256"]:
            raise RunFileError("the checksum of its header is wrong; it was damaged")
        header = check_header(json.loads(text))
        members = layout(header)
        stored = {name: member for name, member in members.items() if member.nbytes}
        _check_names("the file", store.groups(), GROUPS)
        ours = [member for member in stored.values() if _is_ours(member)]
        _check_names(GROUP, store.members(), {member.place.split("/")[1] for member in ours} | store.extra(ours))
        arrays = {name: store.array(member) for name, member in stored.items()}
    arrays |= {name: np.empty(member.shape, member.dtype) for name, member in members.items() if not member.nbytes}
    if _digest(members, arrays) != header["sha256"]:
        raise RunFileError("the checksum of its arrays is wrong; it was damaged")
    return header, arrays


def _format_of(place: str, doing: str) -> ModuleType:
    """Return the module of the format that the suffix stands for, after looking whether it can be used."""
    suffix = os.path.splitext(place)[1].lower()
    if suffix not in _FORMATS:
        raise ValueError(f"cannot {doing} {place}: the suffix is {suffix!r}; expected .nc (NetCDF) or .zarr (zarr)")
    # A directory of zarr is read without the help of others.
    needed = _NEEDED[suffix] if doing == "save" else {".nc": ("h5py",), ".zarr": ()}[suffix]
    for name in needed:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f"{suffix} files need {name}: install it with  pip install 'bouncy[storage]'") from error
    return _FORMATS[suffix]


def _is_ours(member: Member) -> bool:
    return member.place.startswith(f"{GROUP}/")


def _check_names(where: str, found: set[str], expected: set[str]) -> None:
    if found != expected:
        told = [f"no {name!r}" for name in sorted(expected - found)[:1]]
        told += [f"an unexpected {name!r:.60}" for name in sorted(found - expected)[:1]]
        raise RunFileError(f"{where} has {' and '.join(told)}")


def _digest(members: dict[str, Member], arrays: Arrays) -> str:
    """Return a checksum of all arrays, with their names and shapes."""
    digest = hashlib.sha256()
    for name in sorted(members):
        digest.update(json.dumps([name, members[name].dtype.str, members[name].shape]).encode())
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
