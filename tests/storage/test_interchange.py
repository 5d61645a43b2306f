"""NetCDF and zarr files that are damaged, or made to do harm, are refused by name and before anything happens."""

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import warnings
import zlib

import numpy as np
import pytest

import bouncy
from bouncy.storage import interchange
from storage.checkpoints import go
from storage.comparing import everything
from storage.saved_runs import run_of

h5py = pytest.importorskip("h5py")
pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder with one run in all formats, and a checkpoint."""
    folder = tmp_path_factory.mktemp("saved")
    for suffix in ("npz", "nc", "zarr"):
        run_of("spins").save(folder / f"run.{suffix}")
    go(folder / "checkpoint")
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


def reseal(path):
    """Give a changed NetCDF file the digest that someone who means harm would give it."""
    with open(path, "rb") as file:
        body = file.read().partition(interchange._TRAILER)[0]
    digest = hashlib.blake2b(body, digest_size=32).hexdigest().encode()
    with open(path, "wb") as file:
        file.write(body + interchange._TRAILER + digest)


@contextlib.contextmanager
def changed(path):
    """Open a NetCDF file to change it, and make its digest right again."""
    with h5py.File(path, "r+") as file:
        yield file
    with open(path, "rb") as file:  # what was the end may now be in the middle
        body = file.read()
    with open(path, "ab") as file:
        file.write(interchange._TRAILER + hashlib.blake2b(body, digest_size=32).hexdigest().encode())


def edit(zarr, name, change):
    """Change a file of JSON in a zarr directory, the copy of it in the consolidated metadata too, and the digests."""
    content = json.loads((zarr / name).read_text())
    change(content)
    (zarr / name).write_text(json.dumps(content))
    root = json.loads((zarr / "zarr.json").read_text())
    if name != "zarr.json":
        root["consolidated_metadata"]["metadata"][name.removesuffix("/zarr.json")] = content
        (zarr / "zarr.json").write_text(json.dumps(root))
    reseal_zarr(zarr)


def reseal_zarr(zarr):
    """Make the digests of a changed zarr directory right."""
    digests = {name: interchange._file_digest(str(zarr / name)) for name in interchange._files(str(zarr))}
    digests.pop("digests.json", None)
    (zarr / "digests.json").write_text(json.dumps(digests))


# Damage


def test_a_file_cut_short_is_refused(netcdf):
    """Catches a file that is believed though its end is missing: forty lengths, from nothing to all but a byte."""
    with open(netcdf, "rb") as file:
        content = file.read()
    for length in np.unique(np.linspace(0, len(content) - 1, 40).astype(int)):
        with open(netcdf, "wb") as file:
            file.write(content[:length])
        refused(netcdf)


@pytest.mark.slow
def test_files_of_a_directory_cut_short_or_missing_are_refused(zarr):
    """Catches an array that is filled up, and a coordinate, a trace or metadata that are not covered by a digest."""
    files = [place for place in sorted(zarr.rglob("*")) if place.is_file()]
    names = {place.relative_to(zarr).as_posix() for place in files}
    assert {"zarr.json", "posterior/chain/zarr.json", "sample_stats/lp/c/0/0", "posterior/site/c/0"} <= names
    for place in files:
        content = place.read_bytes()
        for length in {0, len(content) // 2, max(len(content) - 1, 0)}:
            place.write_bytes(content[:length])
            refused(zarr)
        place.unlink()
        refused(zarr)
        place.write_bytes(content)
    bouncy.Run.load(zarr)
    (zarr / "more").write_text("")
    refused(zarr, "files are missing or were added")


def test_flipped_bits_in_coordinates_traces_and_metadata_are_noticed(zarr, seed):
    """Catches a file of a directory whose bytes no digest covers: each of them, one bit at a time."""
    generator = np.random.default_rng([seed, 2])
    for place in [place for place in sorted(zarr.rglob("*")) if place.is_file() and place.stat().st_size]:
        before = place.read_bytes()
        content = bytearray(before)
        content[int(generator.integers(len(content)))] ^= 1 << int(generator.integers(8))
        place.write_bytes(content)
        refused(zarr)
        place.write_bytes(before)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_damage_is_refused_or_changes_nothing(cases, saved, tmp_path, seed):
    """Catches damage that gives other results or an unclear error: cut, flipped, exchanged or zeroed bytes.

    Over files of all formats and checkpoints.
    """
    generator = np.random.default_rng([seed, 4])
    places = [saved / name for name in ("run.npz", "run.nc", "run.zarr", "checkpoint")]
    truth = [everything(bouncy.Run.load(place)) for place in places]
    refusals = 0
    for case in range(cases):
        which = case % len(places)
        copy = tmp_path / places[which].name
        (shutil.copytree if places[which].is_dir() else shutil.copy)(places[which], copy)
        files = [file for file in (sorted(copy.rglob("*")) if copy.is_dir() else [copy]) if file.is_file()]
        file = files[int(generator.integers(len(files)))]
        file.write_bytes(_damaged(bytearray(file.read_bytes()), generator))
        with warnings.catch_warnings():
            warnings.simplefilter("error", bouncy.CheckpointWarning)  # an older generation is used
            try:
                found = everything(bouncy.Run.load(copy))
            except (bouncy.RunFileError, bouncy.CheckpointError, bouncy.CheckpointWarning):
                refusals += 1
            else:
                assert found == truth[which], f"case {case}: {file}"
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink()
    assert refusals > cases // 2


def _damaged(content, generator):
    if not content:
        return b"x"
    begin = int(generator.integers(len(content)))
    end = begin + int(generator.integers(1, 100))
    way = int(generator.integers(4))
    if way == 0:
        return content[:begin]
    if way == 1:
        content[begin] ^= 1 << int(generator.integers(8))
    elif way == 2:
        content[begin:end] = bytes(len(content[begin:end]))
    else:
        content[begin:end] = content[begin:end][::-1]
    return content


@pytest.mark.slow
def test_digests_of_arrays_are_compared(netcdf, seed):
    """Catches results that change though the digest of the file is right: bits of the arrays themselves."""
    generator = np.random.default_rng([seed, 3])
    for name in ("bouncy/open.mean", "bouncy/total.flips", "posterior/s", "sample_stats/lp"):
        with changed(netcdf) as file:
            values = file[name][...]
            raw = values.reshape(-1).view(np.uint8)
            raw[generator.integers(raw.size)] ^= 1
            file[name][...] = values
        refused(netcdf, "does not have the digest in the header")


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
    refused(tmp_path / "empty.zarr", r"no digests\.json")


def test_netcdf_files_of_others_are_refused(tmp_path):
    """Catches a file of ArviZ that is taken for a run, with everything that estimates need missing."""
    run_of("spins").to_arviz().to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    refused(tmp_path / "other.nc", "does not end as a file that")


# Version 0.1


def _old_header():
    return json.dumps({"format": "bouncy run", "version": 1, "kind": "spins", "sha256": "0" * 64})


def test_netcdf_files_of_version_0_1_are_refused_by_name(tmp_path):
    """Catches an old file that is said to be damaged."""
    path = tmp_path / "run.nc"
    with h5py.File(path, "w") as file:
        file.create_group("bouncy").attrs["header"] = _old_header()
    body = path.read_bytes()
    path.write_bytes(body + b"\nbouncy sha256 " + hashlib.sha256(body).hexdigest().encode())
    refused(path, r"version 0\.1")


def test_zarr_directories_of_version_0_1_are_refused_by_name(tmp_path):
    """Catches an old directory that is said to be damaged."""
    path = tmp_path / "run.zarr"
    for group in ("", "bouncy", "posterior"):
        attributes = {"header": _old_header(), "header_sha256": "0" * 64} if group == "bouncy" else {}
        (path / group).mkdir()
        (path / group / "zarr.json").write_text(
            json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes})
        )
    refused(path, r"version 0\.1")


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
    array = store / "bouncy" / "open.mean"
    array.mkdir()
    described = {"shape": [1], "chunks": [1], "dtype": "|O", "fill_value": None, "order": "C", "compressor": None}
    described |= {"filters": [{"id": "pickle", "protocol": 5}], "zarr_format": 2}
    (array / ".zarray").write_text(json.dumps(described))
    (array / "0").write_bytes(pickle.dumps(np.array([Bomb()], dtype=object)))
    reseal_zarr(store)
    refused(store)
    assert not (tmp_path / "pickle-was-run").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]},
        {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
        {"codecs": []},
        {"codecs": 3},
        {"codecs": [3]},
        {"data_type": "object"},
        {"data_type": "float32"},
        {"data_type": "int64"},
        {"shape": [2, 1 << 60, 3]},
        {"shape": "large"},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1]}}},
        {"zarr_format": 2},
        {"node_type": "group"},
    ],
)
def test_arrays_that_are_something_else_are_refused(zarr, change):
    """Catches metadata that is believed: codecs, types, shapes and places."""
    edit(zarr, "bouncy/open.mean/zarr.json", lambda found: found.update(change))
    refused(zarr)


def test_codecs_of_others_are_never_looked_up(zarr):
    """Catches a store that says which code is to unpack it."""
    edit(zarr, "posterior/s/zarr.json", lambda found: found.update(codecs=[{"name": "numcodecs.pickle"}]))
    refused(zarr, "names the codecs .*pickle")


def test_a_missing_chunk_is_not_filled_in(zarr):
    """Catches fill values in place of data."""
    edit(zarr, "bouncy/open.mean/zarr.json", lambda found: found.update(fill_value=7.0))
    shutil.rmtree(zarr / "bouncy" / "open.mean" / "c")
    reseal_zarr(zarr)
    refused(zarr, "digest in the header")


@pytest.mark.parametrize("place", ["bouncy/open.mean/c/0/0", "bouncy/open.mean", "bouncy", "posterior/s/c"])
def test_links_out_of_a_directory_are_refused(zarr, place, tmp_path):
    """Catches a store that reads other files of the user who opens it."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(zarr / place, elsewhere)
    (zarr / place).symlink_to(elsewhere)
    refused(zarr, "link to another place")


def test_chunks_that_unpack_to_something_else_are_refused(zarr):
    """Catches a chunk that unpacks to more than it should."""
    packer = zlib.compressobj(wbits=31)
    (zarr / "posterior/s/c/0/0/0").write_bytes(packer.compress(bytes(10**6)) + packer.flush())
    reseal_zarr(zarr)
    refused(zarr)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "null", '{"zarr.json": 3}', "{"])
def test_digests_that_are_no_table_are_refused(zarr, text):
    """Catches a list of digests that is used before it is looked at."""
    (zarr / "digests.json").write_text(text)
    refused(zarr)


def _set_header(zarr, change):
    """Change the header of a directory and make all digests right."""

    def change_attribute(found):
        header = json.loads(found["attributes"]["header"])
        change(header)
        found["attributes"]["header"] = json.dumps(header)

    edit(zarr, "bouncy/zarr.json", change_attribute)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header.update(format="other"), "not a saved run"),
        (lambda header: header.update(version=7), "in format 7"),
        (lambda header: header.update(arrays=None), "does not list arrays"),
        (lambda header: header.update(places=[]), "does not list arrays"),
        (lambda header: header["places"].update({"labels": "posterior"}), "cannot load"),
        (lambda header: header["places"].update({"open.mean": "../../x"}), "cannot load"),
        (lambda header: header["places"].update({"open.mean": "bouncy/open.path"}), "cannot load"),
        (lambda header: header["arrays"]["open.mean"].__setitem__(1, [1 << 50, 8]), "larger than the available memory"),
        (lambda header: header["arrays"]["open.mean"].__setitem__(1, [3]), "has the type"),
        (lambda header: header["arrays"]["open.mean"].__setitem__(0, "|O"), "the dtype"),
        (lambda header: header["arrays"].update({"open.mean": 3}), "does not give dtype"),
        (lambda header: header["arrays"].pop("open.mean"), "'open.mean' is missing"),
    ],
)
def test_headers_are_not_believed(zarr, change, words):
    """Catches a header that is used before it is looked at."""
    _set_header(zarr, change)
    refused(zarr, words)


def _external_link(file, outside):
    del file["bouncy/open.mean"]
    file["bouncy/open.mean"] = h5py.ExternalLink(str(outside), "/secret")


def _soft_link(file, outside):
    del file["bouncy/open.mean"]
    file["bouncy/open.mean"] = h5py.SoftLink("/bouncy/open.path")


def _group_link(file, outside):
    del file["sample_stats"]
    file["sample_stats"] = h5py.ExternalLink(str(outside), "/")


def _external_storage(file, outside):
    shape = file["bouncy/open.mean"].shape
    del file["bouncy/open.mean"]
    file["bouncy"].create_dataset("open.mean", shape, "f8", external=[(str(outside), 0, 8 * int(np.prod(shape)))])


def _virtual(file, outside):
    shape = file["bouncy/open.mean"].shape
    del file["bouncy/open.mean"]
    virtual = h5py.VirtualLayout(shape, "f8")
    virtual[...] = h5py.VirtualSource(str(outside), "secret", shape)
    file["bouncy"].create_virtual_dataset("open.mean", virtual)


def _cycle(file, outside):
    file["bouncy/again"] = file["bouncy"]


def _objects(file, outside):
    del file["bouncy/open.mean"]
    file["bouncy"].create_dataset("open.mean", data=np.array(["a", "b"], dtype=object), dtype=h5py.string_dtype())


def _floats(file, outside):
    values = file["bouncy/open.mean"][...]
    del file["bouncy/open.mean"]
    file["bouncy"].create_dataset("open.mean", data=values.astype(np.float32))


def _no_group(file, outside):
    del file["bouncy"]
    file["bouncy"] = np.zeros(3)


def _no_array(file, outside):
    del file["bouncy/open.mean"]
    file["bouncy"].create_group("open.mean")


def _missing(file, outside):
    del file["bouncy/total.flips"]


def _long_attribute(file, outside):
    del file["bouncy"].attrs["header"]
    file["bouncy"].attrs["header"] = np.array(["a", "b"], dtype=object)


HARM = {
    _external_link: "link to another place",
    _soft_link: "link to another place",
    _group_link: "link to another place",
    _external_storage: "is in another file",
    _virtual: "is in another file",
    _cycle: "inside of another",
    _objects: "cannot load",
    _floats: "cannot load",
    _no_group: "cannot load",
    _no_array: "cannot load",
    _missing: "cannot load",
    _long_attribute: "cannot load",
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__.strip("_"))
def test_harm_in_netcdf_is_refused(netcdf, harm, tmp_path):
    """Catches links out of a file, data in other files, objects, wrong types, and members that are missing."""
    outside = tmp_path / "outside.h5"
    with h5py.File(outside, "w") as file:
        file["secret"] = np.zeros((2, 3))
    with changed(netcdf) as file:
        harm(file, outside)
    refused(netcdf, HARM[harm])


@pytest.mark.parametrize(("name", "value"), [("pairs.indices", 99), ("pairs.edge", -1), ("pairs.indptr", 10**9)])
def test_patterns_that_lead_astray_are_refused(name, value, tmp_path):
    """Catches indices beyond the end, with which compiled code would read memory that is not ours."""
    from storage.forged import rewrite

    path = tmp_path / "run.npz"
    run_of("lattice").save(path)
    rewrite(path, lambda header, arrays: arrays[f"constant.{name}"].fill(value))
    refused(path, r"pairs")
