"""Runs in NetCDF and zarr files, which other tools read as draws in ArviZ's layout.

Beside the groups of ArviZ there is a group `bouncy` with all other arrays of a run and its header. Both kinds of files
are written and read by xarray. A digest of every byte is checked before anything is handed to it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import stat
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._memory import available_memory
from bouncy.results.arviz import posterior_name
from bouncy.storage.archive import check_array, check_spec, specify
from bouncy.storage.atomic import atomic_directory, atomic_file
from bouncy.workers.within import PARAMETER

if TYPE_CHECKING:
    import xarray

    from bouncy.results.run import Run

Arrays = dict[str, NDArray[Any]]

_GROUP = "bouncy"
_NEEDED = {".nc": ("xarray", "h5netcdf", "h5py"), ".zarr": ("xarray", "zarr")}
# End of a NetCDF file: what stands behind the image, which readers of HDF5 pass over.
_TRAILER = b"\nbouncy blake2b "
_DIGEST_BYTES = 32
_BLOCK = 1 << 20
# The same in version 0.1.
_OLD_TRAILER = b"\nbouncy sha256 "
_OLD = "it was written by version 0.1 of bouncy, which this version cannot read"
# Files of a zarr directory: metadata, and the digests of all others.
_METADATA, _DIGESTS = "zarr.json", "digests.json"
# Codecs that are accepted: none of them runs code of others.
_CODECS = {"bytes", "gzip", "vlen-utf8", "zstd", "crc32c"}


def write(run: Run, header: dict[str, Any], arrays: Arrays, path: str, overwrite: bool) -> None:
    """Write a run, given its header and arrays, to a file of the kind that the suffix says."""
    suffix = _require(path)
    xarray = importlib.import_module("xarray")
    tree = run.to_arviz()
    places = _places(run, header)
    text = json.dumps({**header, "places": places, "arrays": specify(arrays)})
    ours = {name: array for name, array in arrays.items() if name not in places and array.size}
    variables = {name: (_axes(array.shape), array) for name, array in ours.items()}
    tree[_GROUP] = xarray.DataTree(xarray.Dataset(variables, attrs={"header": text}))
    # Spins take a byte and have a bit of information; floats do not get much smaller.
    packed = [place for name, place in places.items() if arrays[name].dtype == np.int8]
    (_write_netcdf if suffix == ".nc" else _write_zarr)(tree, path, overwrite, packed)


def read(path: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a run; raise `ValueError` for anything else."""
    suffix = _require(path)
    xarray = importlib.import_module("xarray")
    if suffix == ".nc":
        _check_netcdf(path)
        _check_links(path)
    else:
        _check_zarr(path)
    options = {"engine": "h5netcdf"} if suffix == ".nc" else {"engine": "zarr", "zarr_format": 3, "consolidated": True}
    try:
        with xarray.open_datatree(path, decode_cf=False, **options) as tree:
            return _arrays_of(tree)
    except ValueError:
        raise
    except Exception as error:  # whatever xarray and the libraries below it raise
        raise ValueError(f"xarray cannot read it ({type(error).__name__}: {error})") from error


def _arrays_of(tree: xarray.DataTree) -> tuple[dict[str, Any], Arrays]:
    header = _parsed("its header", str(tree[_GROUP].attrs["header"]))
    if not isinstance(header, dict) or not all(isinstance(header.get(name), dict) for name in ("arrays", "places")):
        raise ValueError("its header does not list arrays")
    places = header.pop("places")
    specs = {name: check_spec(name, entry) for name, entry in header.pop("arrays").items()}
    if sum(spec.nbytes for spec in specs.values()) > available_memory():
        raise ValueError("its arrays are larger than the available memory")
    arrays: Arrays = {}
    for name, spec in specs.items():
        if not spec.nbytes:
            arrays[name] = np.empty(spec.shape, spec.dtype)
            continue
        variable = tree[str(places.get(name, f"{_GROUP}/{name}"))]
        if variable.shape != spec.shape or variable.dtype != np.dtype(spec.dtype):
            raise ValueError(f"the array {name!r:.60} has the type {variable.dtype} and the shape {variable.shape}")
        arrays[name] = np.ascontiguousarray(variable.values)
        check_array(name, spec, arrays[name])
    return header, arrays


def _require(path: str) -> str:
    """Return the suffix of a path, after a look whether the packages for it are installed."""
    suffix = os.path.splitext(path.rstrip(os.sep))[1].lower()
    for name in _NEEDED[suffix]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f"{suffix} files need {name}: install it with  pip install 'bouncy[storage]'") from error
    return suffix


def _places(run: Run, header: dict[str, Any]) -> dict[str, str]:
    """Return where the rows that ArviZ knows are in the tree (`group/name`), by the names of arrays."""
    variable = "s" if run.target.kind == "spins" else "x"
    known = {"log_prob": "sample_stats/lp", "magnetisation": "sample_stats/magnetisation"}
    known |= {"draws": f"posterior/{variable}"} if run.draws.shape[1] else {}
    for parameter in run.parameters:
        known[PARAMETER + parameter] = f"posterior/{posterior_name(parameter, variable)}"
    labels = [entry["label"] for entry in header["rows"]]
    return {f"rows.{k}": known[label] for k, label in enumerate(labels) if label in known}


def _axes(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return names of the axes of an array: arrays of one length share them."""
    return tuple(f"axis{k}_{size}" for k, size in enumerate(shape))


# NetCDF


def _write_netcdf(tree: xarray.DataTree, path: str, overwrite: bool, packed: list[str]) -> None:
    """Write a tree; the variables at the places `packed` are compressed.

    The image is made in memory: on a disk that is full, the HDF5 library would end the process.
    """
    encoding: dict[str, Any] = {}
    for place in packed:
        group, name = place.split("/")
        encoding.setdefault(f"/{group}", {})[name] = {"zlib": True, "complevel": 1, "shuffle": False}
    image = tree.to_netcdf(engine="h5netcdf", encoding=encoding)
    with atomic_file(path, overwrite) as file:
        file.write(image)
        file.write(_TRAILER + hashlib.blake2b(image, digest_size=_DIGEST_BYTES).hexdigest().encode())


def _check_netcdf(path: str) -> None:
    """Raise unless a file ends in the digest of what is before it."""
    if not os.path.isfile(path):
        raise ValueError("it is not a file")
    length = len(_TRAILER) + 2 * _DIGEST_BYTES
    left = os.path.getsize(path) - length
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
        trailer = file.read(length)
    if _OLD_TRAILER in trailer:
        raise ValueError(_OLD)
    if not trailer.startswith(_TRAILER):
        raise ValueError("it does not end as a file that `run.save` wrote: it was cut short, or is something else")
    if trailer != _TRAILER + digest.hexdigest().encode():
        raise ValueError("its checksum is wrong: it was damaged, or changed after it was saved")


def _check_links(path: str) -> None:
    """Raise where a file refers to other files, whose content HDF5 would take for its own."""
    import h5py

    def look(group: Any, outermost: bool) -> None:
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r:.60} is a link to another place")
            item = group[name]
            if isinstance(item, h5py.Group):
                if not outermost:
                    raise ValueError(f"it has a group {name!r:.60} inside of another one")
                look(item, False)
            elif isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                raise ValueError(f"the array {name!r:.60} is in another file")

    try:
        with h5py.File(path, "r") as file:
            look(file, True)
    except (KeyError, OSError, RuntimeError) as error:
        raise ValueError(f"h5py cannot read it ({error})") from error


# zarr


def _write_zarr(tree: xarray.DataTree, path: str, overwrite: bool, packed: list[str]) -> None:
    """Write a tree; the variables at the places `packed` are compressed, chain by chain."""
    import zarr
    from zarr.codecs import GzipCodec

    encoding: dict[str, Any] = {}
    for group, node in tree.children.items():
        for name, variable in node.data_vars.items():
            small = f"{group}/{name}" in packed
            chunks = (1, *variable.shape[1:]) if small else variable.shape
            codecs = [GzipCodec(level=1)] if small else None
            encoding.setdefault(f"/{group}", {})[name] = {"chunks": chunks, "compressors": codecs}
    with (
        atomic_directory(path, overwrite, _METADATA) as folder,
        zarr.config.set({"array.write_empty_chunks": True}),
        warnings.catch_warnings(),
    ):
        # Metadata in one place is what xarray looks for first, though the format does not mention it yet.
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        tree.to_zarr(folder, mode="w", zarr_format=3, consolidated=True, encoding=encoding)
        digests = {name: _file_digest(os.path.join(folder, name)) for name in _files(folder)}
        with open(os.path.join(folder, _DIGESTS), "w", encoding="utf-8") as file:
            json.dump(digests, file)


def _check_zarr(path: str) -> None:
    """Raise unless a directory has just the files that were written to it, and names no codec of others."""
    if not os.path.isdir(path):
        raise ValueError("it is not a directory")
    found = _files(path)
    if _DIGESTS not in found and f"{_GROUP}/{_METADATA}" in found:
        raise ValueError(_OLD)
    if _DIGESTS not in found:
        raise ValueError(f"it has no {_DIGESTS}: it is not what `run.save` wrote")
    digests = _parsed(_DIGESTS, _text(os.path.join(path, _DIGESTS)))
    if not isinstance(digests, dict) or digests.keys() != found - {_DIGESTS}:
        raise ValueError("files are missing or were added")
    for name, digest in digests.items():
        if _file_digest(os.path.join(path, name)) != digest:
            raise ValueError(f"the checksum of {name} is wrong: it was damaged, or changed after it was saved")
        if os.path.basename(name) == _METADATA:
            _check_codecs(name, _parsed(name, _text(os.path.join(path, name))))


def _check_codecs(name: str, content: Any) -> None:
    """Raise unless metadata name only codecs that are known to be harmless, at any depth."""
    if isinstance(content, list):
        for item in content:
            _check_codecs(name, item)
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key == "codecs":
            codecs = value if isinstance(value, list) else [value]
            named = [codec.get("name") if isinstance(codec, dict) else codec for codec in codecs]
            if not set(map(str, named)) <= _CODECS:
                known = ", ".join(sorted(_CODECS))
                raise ValueError(f"{name} names the codecs {named!r:.60}; expected some of {known}")
        if key != "attributes":
            _check_codecs(name, value)


def _files(folder: str) -> set[str]:
    """Return the names of all files below a folder; raise where something is neither a file nor a folder."""
    found = set()
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ValueError(f"{os.path.relpath(path, folder)} is a link to another place")
        found |= {os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/") for name in files}
    return found


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _file_digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()
