"""Files that are damaged, or made to do harm, are refused by name and before anything happens."""

import contextlib
import hashlib
import json
import os
import pickle
import shutil

import numpy as np
import pytest
from results.saved_runs import everything, run_of

import bouncy
from bouncy.results import _netcdf

h5py = pytest.importorskip("h5py")
pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder with one run in both formats."""
    folder = tmp_path_factory.mktemp("saved")
    for suffix in ("nc", "zarr"):
        run_of("spins").save(folder / f"run.{suffix}")
    return folder


@pytest.fixture
def netcdf(saved, tmp_path):
    """Return a copy of the file."""
    return shutil.copy(saved / "run.nc", tmp_path / "run.nc")


@pytest.fixture
def zarr(saved, tmp_path):
    """Return a copy of the directory."""
    return shutil.copytree(saved / "run.zarr", tmp_path / "run.zarr")


def refused(path, words="cannot load"):
    """Check that a file is refused with an error that names it."""
    with pytest.raises(bouncy.RunFileError, match=words) as caught:
        bouncy.Run.load(path)
    assert str(path) in str(caught.value)


def same_or_refused(path, truth):
    """Check that a damaged file gives the same results or none."""
    with contextlib.suppress(bouncy.RunFileError):
        assert everything(bouncy.Run.load(path)) == truth


def reseal(path):
    """Give a changed file the checksum that one who means harm would give it."""
    with open(path, "r+b") as file:
        content = file.read()
        body = content[: content.rindex(_netcdf._TRAILER)] if _netcdf._TRAILER in content else content
        file.seek(0)
        file.truncate()
        file.write(body + _netcdf._TRAILER + hashlib.sha256(body).hexdigest().encode())


@contextlib.contextmanager
def changed(path):
    """Open a file to change it, and make its checksum right again."""
    with h5py.File(path, "r+") as file:
        yield file
    with open(path, "r+b") as file:  # what was the end may now be in the middle
        body = file.read()
        file.write(_netcdf._TRAILER + hashlib.sha256(body).hexdigest().encode())


def set_header(path, change):
    """Change the header of a directory and make its checksum right."""
    place = path / "bouncy" / "zarr.json"
    metadata = json.loads(place.read_text())
    header = json.loads(metadata["attributes"]["header"])
    change(header)
    text = json.dumps(header)
    metadata["attributes"] = {"header": text, "header_sha256": hashlib.sha256(text.encode()).hexdigest()}
    place.write_text(json.dumps(metadata))


def edit(place, change):
    """Change a file of JSON."""
    content = json.loads(place.read_text())
    change(content)
    place.write_text(json.dumps(content))


# Damage


def test_a_file_cut_short_is_refused(netcdf):
    """Catches a file that is believed though its end is missing: forty lengths, from nothing to all but a byte."""
    with open(netcdf, "rb") as file:
        content = file.read()
    for length in np.unique(np.linspace(0, len(content) - 1, 40).astype(int)):
        with open(netcdf, "wb") as file:
            file.write(content[:length])
        refused(netcdf)


def test_chunks_cut_short_are_refused(zarr):
    """Catches an array that is filled up with whatever was in memory."""
    truth = everything(run_of("spins"))
    for place in sorted(zarr.rglob("*")):
        if place.is_file():
            content = place.read_bytes()
            for length in {0, len(content) // 2, len(content) - 1}:
                place.write_bytes(content[:length])
                same_or_refused(zarr, truth)
            place.write_bytes(content)
    for place in [*zarr.glob("bouncy/*/c/0*"), zarr / "posterior/s/c/1/0/0"]:
        file = place if place.is_file() else next(item for item in sorted(place.rglob("*")) if item.is_file())
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        refused(zarr)
        file.write_bytes(content)


def test_flipped_bits_are_noticed_in_a_file(netcdf, seed):
    """Catches a damaged file that gives other results: two hundred bits, one at a time."""
    generator = np.random.default_rng([seed, 1])
    with open(netcdf, "rb") as file:
        content = bytearray(file.read())
    for _ in range(200):
        place, bit = int(generator.integers(len(content))), 1 << int(generator.integers(8))
        content[place] ^= bit
        with open(netcdf, "wb") as file:
            file.write(content)
        refused(netcdf)
        content[place] ^= bit


def test_flipped_bits_are_noticed_in_a_directory(zarr, seed):
    """Catches a damaged directory that gives other results: two hundred bits, in files that are read and others."""
    generator = np.random.default_rng([seed, 2])
    truth = everything(run_of("spins"))
    files = [place for place in sorted(zarr.rglob("*")) if place.is_file() and place.stat().st_size]
    for _ in range(200):
        file = files[int(generator.integers(len(files)))]
        content = bytearray(file.read_bytes())
        content[int(generator.integers(len(content)))] ^= 1 << int(generator.integers(8))
        before = file.read_bytes()
        file.write_bytes(content)
        same_or_refused(zarr, truth)
        file.write_bytes(before)
    assert everything(bouncy.Run.load(zarr)) == truth


def test_flipped_bits_behind_a_right_checksum(netcdf, seed):
    """Catches results that change though all arrays have a checksum of their own: bits of the arrays themselves."""
    generator = np.random.default_rng([seed, 3])
    for name in ("bouncy/mean", "bouncy/tally", "bouncy/flips", "posterior/s", "sample_stats/lp"):
        with changed(netcdf) as file:
            dataset = file[name]
            values = dataset[...]
            raw = values.reshape(-1).view(np.uint8)
            raw[generator.integers(raw.size)] ^= 1
            dataset[...] = values
        refused(netcdf, "checksum of its arrays")


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"CDF\x01" + bytes(200), b"PK\x03\x04" * 100])
def test_other_files_are_refused(content, tmp_path):
    """Catches a parser that is handed what is no run."""
    path = tmp_path / "run.nc"
    path.write_bytes(content)
    refused(path)
    reseal(path)
    refused(path)


def test_other_things_under_our_suffixes_are_refused(tmp_path, netcdf):
    """Catches a directory opened as a file, and a file opened as a directory."""
    (tmp_path / "folder.nc").mkdir()
    refused(tmp_path / "folder.nc", "is not a file")
    shutil.copy(netcdf, tmp_path / "file.zarr")
    refused(tmp_path / "file.zarr", "is not a directory")
    (tmp_path / "empty.zarr").mkdir()
    refused(tmp_path / "empty.zarr", r"zarr\.json is missing")


def test_netcdf_files_of_others_are_refused(tmp_path):
    """Catches a file of ArviZ that is taken for a run, with everything that estimates need missing."""
    run_of("spins").to_arviz().to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    refused(tmp_path / "other.nc", "does not end as one that")


# Harm


class Bomb:
    """Something whose unpickling would be seen."""

    def __reduce__(self):
        return os.mkdir, ("pickle-was-run",)


def test_pickles_in_old_zarr_are_never_read(tmp_path, monkeypatch):
    """Catches a store of zarr format 2, whose codecs may unpickle whatever they find."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "run.zarr"
    for group in ("", "bouncy", "posterior", "sample_stats"):
        (store / group).mkdir(exist_ok=True)
        (store / group / ".zgroup").write_text('{"zarr_format": 2}')
    array = store / "bouncy" / "mean"
    array.mkdir()
    described = {"shape": [1], "chunks": [1], "dtype": "|O", "fill_value": None, "order": "C", "compressor": None}
    described |= {"filters": [{"id": "pickle", "protocol": 5}], "zarr_format": 2}
    (array / ".zarray").write_text(json.dumps(described))
    (array / "0").write_bytes(pickle.dumps(np.array([Bomb()], dtype=object)))
    refused(store)
    assert not (tmp_path / "pickle-was-run").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}, "packed in an unknown way"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}, "packed in an unknown way"),
        ({"codecs": []}, "packed in an unknown way"),
        ({"data_type": "object"}, "the type 'object'"),
        ({"data_type": "float32"}, "the type 'float32'"),
        ({"data_type": "int64"}, "expected float64"),
        ({"shape": [2, 1 << 60, 3]}, "the shape"),
        ({"shape": "large"}, "the shape 'large'"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1]}}}, "cut into chunks"),
        ({"storage_transformers": [{"name": "x"}]}, "unknown places"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "../"}}}, "unknown places"),
        ({"zarr_format": 2}, "no array of zarr format 3"),
        ({"node_type": "group"}, "no array of zarr format 3"),
    ],
)
def test_arrays_that_are_something_else(zarr, change, words):
    """Catches metadata that is believed: codecs, types, shapes and places."""
    edit(zarr / "bouncy" / "mean" / "zarr.json", lambda found: found.update(change))
    refused(zarr, words)


def test_a_missing_chunk_is_not_filled_in(zarr):
    """Catches fill values in place of data."""
    edit(zarr / "bouncy" / "mean" / "zarr.json", lambda found: found.update(fill_value=7.0))
    shutil.rmtree(zarr / "bouncy" / "mean" / "c")
    refused(zarr, "is missing")


@pytest.mark.parametrize("place", ["bouncy/mean/c/0/0/0", "bouncy/mean", "bouncy", "posterior/s/c"])
def test_links_out_of_a_directory_are_refused(zarr, place, tmp_path):
    """Catches a store that reads other files of whoever opens it."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(zarr / place, elsewhere)
    (zarr / place).symlink_to(elsewhere)
    refused(zarr, "link to another place")


def test_gzip_bombs_are_refused(zarr):
    """Catches a chunk that unpacks to more than it should, and one that says it is more than it can be."""
    import zlib

    chunk = zarr / "posterior" / "s" / "c" / "0" / "0" / "0"
    packer = zlib.compressobj(wbits=31)
    chunk.write_bytes(packer.compress(bytes(10**6)) + packer.flush())
    refused(zarr)


@pytest.mark.parametrize("size", [1 << 40, 1 << 60, -1, 0, 2.5, None, True])
def test_absurd_sizes_are_refused(zarr, size):
    """Catches memory that is taken because a header asks for it."""
    right = (zarr / "bouncy" / "zarr.json").read_text()
    for name in ("d", "draws", "traces", "slots", "chains", "labels"):
        set_header(zarr, lambda header, name=name: header["sizes"].update({name: size}))
        refused(zarr)
        (zarr / "bouncy" / "zarr.json").write_text(right)


def test_absurd_shapes_in_both_places(zarr):
    """Catches a shape that is believed because header and metadata agree on it."""
    set_header(zarr, lambda header: header["sizes"].update(draws=1 << 40))
    whole = {"name": "regular", "configuration": {"chunk_shape": [1, 1 << 40, 3]}}
    edit(zarr / "posterior" / "s" / "zarr.json", lambda found: found.update(shape=[2, 1 << 40, 3], chunk_grid=whole))
    refused(zarr, "posterior/s should have 6597069766656 bytes")


def test_bombs_in_netcdf_are_refused(netcdf):
    """Catches an array of terabytes, of which nothing is in the file, that is allocated before it is looked at."""
    with changed(netcdf) as file:
        text = file["bouncy"].attrs["header"]
        header = json.loads(text)
        header["sizes"]["draws"] = 1 << 40
        text = json.dumps(header)
        file["bouncy"].attrs["header"] = text
        file["bouncy"].attrs["header_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        del file["posterior/s"]
        file["posterior"].create_dataset("s", (2, 1 << 40, 3), "i1", chunks=(1, 1024, 3), compression="gzip")
    refused(netcdf, "should have 6597069766656 bytes, but only 0")


def _external_link(file, outside):
    del file["bouncy/mean"]
    file["bouncy/mean"] = h5py.ExternalLink(str(outside), "/secret")


def _soft_link(file, outside):
    del file["bouncy/mean"]
    file["bouncy/mean"] = h5py.SoftLink("/bouncy/path")


def _group_link(file, outside):
    del file["sample_stats"]
    file["sample_stats"] = h5py.ExternalLink(str(outside), "/")


def _external_storage(file, outside):
    shape = file["bouncy/mean"].shape
    del file["bouncy/mean"]
    size = 8 * int(np.prod(shape))
    file["bouncy"].create_dataset("mean", shape, "f8", external=[(str(outside), 0, size)])


def _virtual(file, outside):
    shape = file["bouncy/mean"].shape
    del file["bouncy/mean"]
    virtual = h5py.VirtualLayout(shape, "f8")
    virtual[...] = h5py.VirtualSource(str(outside), "secret", shape)
    file["bouncy"].create_virtual_dataset("mean", virtual)


def _objects(file, outside):
    del file["bouncy/mean"]
    file["bouncy"].create_dataset("mean", data=np.array(["a", "b"], dtype=object), dtype=h5py.string_dtype())


def _floats(file, outside):
    values = file["bouncy/mean"][...]
    del file["bouncy/mean"]
    file["bouncy"].create_dataset("mean", data=values.astype(np.float32))


def _filtered(file, outside):
    values = file["bouncy/mean"][...]
    del file["bouncy/mean"]
    file["bouncy"].create_dataset("mean", data=values, compression="lzf", chunks=values.shape)


def _no_group(file, outside):
    del file["bouncy"]
    file["bouncy"] = np.zeros(3)


def _no_array(file, outside):
    del file["bouncy/mean"]
    file["bouncy"].create_group("mean")


def _missing(file, outside):
    del file["bouncy/flips"]


def _extra(file, outside):
    file["bouncy"]["more"] = np.zeros(3)


def _extra_group(file, outside):
    file.create_group("more")


def _long_attribute(file, outside):
    del file["bouncy"].attrs["header"]
    file["bouncy"].attrs["header"] = np.array(["a", "b"], dtype=object)


HARM = {
    _external_link: "link to another place",
    _soft_link: "link to another place",
    _group_link: "link to another place",
    _external_storage: "lies in another file",
    _virtual: "lies in another file",
    _objects: "has the type object",
    _floats: "has the type float32",
    _filtered: "packed in an unknown way",
    _no_group: "bouncy is no group",
    _no_array: "mean is no array",
    _missing: "no 'flips'",
    _extra: "an unexpected 'more'",
    _extra_group: "an unexpected 'more'",
    _long_attribute: "expected one text",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__.strip("_"))
def test_harm_in_netcdf_is_refused(netcdf, harm, tmp_path):
    """Catches links out of a file, data in other files, objects, wrong types, and members that are missing or extra."""
    outside = tmp_path / "outside.h5"
    with h5py.File(outside, "w") as file:
        file["secret"] = np.zeros((2, 8, 3))
    with changed(netcdf) as file:
        harm(file, outside)
    refused(netcdf, HARM[harm])


def test_members_of_a_directory_are_counted(zarr):
    """Catches members that are missing, and others that nobody expects."""
    (zarr / "bouncy" / "more").mkdir()
    refused(zarr, "an unexpected 'more'")
    (zarr / "bouncy" / "more").rmdir()
    (zarr / "more").mkdir()
    refused(zarr, "the file has an unexpected 'more'")
    (zarr / "more").rmdir()
    shutil.rmtree(zarr / "sample_stats")
    refused(zarr, "the file has no 'sample_stats'")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header.update(format="other"), "not that of a saved run"),
        (lambda header: header.update(version=2), "it is of version 2"),
        (lambda header: header.update(kind="other"), "expected one of spins, paths"),
        (lambda header: header.update(kind="paths"), "cannot load"),
        (lambda header: header.update(pairs="edges"), "cannot load"),
        (lambda header: header.update(pairs="none"), "an unexpected"),
        (lambda header: header.update(keep="path"), "cannot load"),
        (lambda header: header.update(seed=-1.5), "seed = -1.5"),
        (lambda header: header.update(seed={"entropy": [], "other": 1}), "cannot load"),
        (lambda header: header.pop("sweep_time"), "sweep_time = None"),
        (lambda header: header["sampler"].update({"class": "os.system"}), "does not have: 'os.system'"),
        (
            lambda header: header["sampler"].update(settings={"augmentation": "gaussian", "refreshment": -1.0}),
            "cannot load",
        ),
        (lambda header: header["sampler"].update(settings={"other": 1}), "cannot load"),
        (lambda header: header.update(parameters=[{"name": "../x", "variable": "x", "shape": []}]), "parameter '../x'"),
        (lambda header: header.update(parameters=[{"name": "x", "variable": "s", "shape": [1 << 50]}]), "whole number"),
        (lambda header: header["target"].update(shape=["a"]), "whole number"),
        (lambda header: header.update(sha256="0" * 64), "checksum of its arrays"),
    ],
)
def test_headers_are_not_believed(zarr, change, words):
    """Catches a header that is used before it is looked at."""
    set_header(zarr, change)
    refused(zarr, words)


def test_a_header_has_a_checksum(zarr):
    """Catches a header in which a number was changed by accident."""
    edit(zarr / "bouncy" / "zarr.json", lambda found: found["attributes"].update(header="{}"))
    refused(zarr, "checksum of its header")
    edit(zarr / "bouncy" / "zarr.json", lambda found: found["attributes"].pop("header"))
    refused(zarr)


def test_patterns_that_lead_astray_are_refused(tmp_path):
    """Catches indices beyond the end, with which compiled code would read memory that is not ours."""
    path = tmp_path / "run.zarr"
    for name, value in (("pairs_indices", 99), ("pairs_edge", -1), ("pairs_indptr", 10**9), ("tally", 10**6)):
        run_of("lattice").save(path, overwrite=True)
        chunk = next(item for item in sorted((path / "bouncy" / name / "c").rglob("*")) if item.is_file())
        dtype = "<i8" if name in ("pairs_indptr", "tally") else "<i4"
        values = np.frombuffer(chunk.read_bytes(), dtype).copy()
        values[...] = value
        chunk.write_bytes(values.tobytes())
        _reseal_arrays(path)
        refused(path)


def _reseal_arrays(path):
    """Give a changed directory the checksum of its arrays."""
    from bouncy.results._layout import layout

    from bouncy.results import _zarr, saving

    def change(header):
        with _zarr.opened(str(path)) as store:
            members = layout(header)
            empty = {name: np.empty(m.shape, m.dtype) for name, m in members.items() if not m.nbytes}
            arrays = {name: store.array(m) for name, m in members.items() if m.nbytes} | empty
        header["sha256"] = saving._digest(members, arrays)

    set_header(path, change)
