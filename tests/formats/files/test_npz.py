"""npz files: what is in them, and what is refused before anything is read (deterministic)."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest

from bouncy.formats.files import ModelFileError, load_model, save_model
from bouncy.targets.mrf import MRF

CSR = {"indptr": [0, 1, 2], "indices": [1, 0], "data": [0.5, 0.5]}


def test_a_file_made_by_numpy_alone_is_read(tmp_path):
    """Catches a reader that only knows our own writer: widths, order and optional members are the user's choice."""
    path = tmp_path / "a.npz"
    M = np.asfortranarray([[0, 2, 1], [2, 0, 0], [1, 0, 0]], dtype=">i2")
    np.savez_compressed(path, version=1, M=M, labels='["a", [1, "b"], null]')
    target = load_model(path)
    assert target.labels == ("a", (1, "b"), None)
    assert np.array_equal(target.M, M)
    assert np.array_equal(target.r, np.zeros(3))


def test_what_is_written_can_be_read_by_numpy_alone(tmp_path):
    """Catches members that only this package, or a pickle, can read."""
    path = tmp_path / "a.npz"
    save_model(MRF.ising(4, field=0.5), path)
    with np.load(path, allow_pickle=False) as content:
        assert sorted(content) == ["data", "indices", "indptr", "offset", "r", "shape", "version"]
        assert content["indptr"].tolist() == [0, 2, 4, 6, 8]


MALFORMED = {
    "no version": (dict(M=np.zeros((2, 2))), "version", "is missing"),
    "other version": (dict(version=2, M=np.zeros((2, 2))), "version", "is 2; this version of bouncy reads 1"),
    "no couplings": (dict(version=1, r=[0.0]), "indptr", "is missing; expected M or all of"),
    "both forms": (dict(version=1, M=np.zeros((2, 2)), data=[1.0]), "M", "is given together with data"),
    "unknown member": (dict(version=1, M=np.zeros((2, 2)), extra=1), None, "unknown member 'extra.npy'; known are"),
    "complex": (dict(version=1, M=np.zeros((2, 2), complex)), "M", "has the dtype complex128"),
    "flat": (dict(version=1, M=np.zeros(4)), "M", "has the shape"),
    "not square": (dict(version=1, M=np.zeros((2, 3))), None, "must be a square matrix"),
    "not symmetric": (dict(version=1, M=np.triu(np.ones((2, 2)), 1)), None, "must be symmetric"),
    "not finite": (dict(version=1, M=np.zeros((2, 2)), r=[0, np.nan]), None, r"r\[1\] = nan"),
    "infinite offset": (dict(version=1, M=np.zeros((2, 2)), offset=np.inf), None, "offset must be"),
    "text as numbers": (dict(version=1, M=np.zeros((2, 2)), r=["a", "b"]), "r", "has the dtype <U1"),
    "few fields": (dict(version=1, M=np.zeros((2, 2)), r=[1.0, 2.0, 3.0]), None, "r must be a scalar or have shape"),
    "no sites": (dict(version=1, M=np.zeros((0, 0))), None, "at least one site"),
    "no indptr": (dict(version=1, **(CSR | {"indptr": np.zeros(0, int)})), "indptr", "d \\+ 1 >= 2 entries"),
    "late start": (dict(version=1, **(CSR | {"indptr": [1, 1, 2]})), "indptr[0]", "must start at 0, got 1"),
    "falling": (
        dict(version=1, **(CSR | {"indptr": np.array([0, 3, 2], np.uint64)})),
        "indptr[2]",
        "must not decrease, got 2 after 3",
    ),
    "short": (dict(version=1, **(CSR | {"indptr": [0, 1, 1]})), "indptr", "must end at the 2 entries of data, got 1"),
    "outside": (dict(version=1, **(CSR | {"indices": [1, 2]})), "indices[1]", "a site from 0 to 1, got 2"),
    "negative": (dict(version=1, **(CSR | {"indices": [1, -1]})), "indices[1]", "a site from 0 to 1, got -1"),
    "huge": (
        dict(version=1, **(CSR | {"indices": np.array([1, 2**64 - 1], np.uint64)})),
        "indices[1]",
        "got 18446744073709551615",
    ),
    "different lengths": (dict(version=1, **(CSR | {"data": [1.0]})), "indices", "has 2 entries but data has 1"),
    "labels not JSON": (dict(version=1, M=np.zeros((2, 2)), labels="[1, 2"), "labels", "is not JSON"),
    "few labels": (dict(version=1, M=np.zeros((2, 2)), labels="[1]"), "labels", "each of the 2 sites, got 1"),
    "no list": (dict(version=1, M=np.zeros((2, 2)), labels='{"a": 1}'), "labels", "must be a list"),
    "object": (dict(version=1, M=np.zeros((2, 2)), labels='[1, {"a": 1}]'), "labels[1]", "must be text, a number or"),
    "nan": (dict(version=1, M=np.zeros((2, 2)), labels="[1, NaN]"), "labels[1]", "must be finite"),
    "equal labels": (dict(version=1, M=np.zeros((2, 2)), labels="[1, 1.0]"), None, "different from each other"),
    "deep labels": (
        dict(version=1, M=np.zeros((2, 2)), labels="[1, " + "[" * 99 + "]" * 99 + "]"),
        "labels[1]",
        "must",
    ),
    "abyss": (dict(version=1, M=np.zeros((2, 2)), labels="[" * 10**5), "labels", "is not JSON"),
    "lattice": (dict(version=1, M=np.zeros((2, 2)), shape=[2, 2]), "shape", "lattice of 2 sites"),
    "many sides": (dict(version=1, M=np.zeros((2, 2)), shape=np.full(10**5, 2**60)), "shape", "lattice of 2 sites"),
}


@pytest.mark.parametrize(("members", "field", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_members_are_named(tmp_path, members, field, problem):
    """Catches arrays that are used before they are checked, and errors that do not say which member is wrong."""
    path = tmp_path / "a.npz"
    np.savez(path, **members)
    with pytest.raises(ModelFileError, match=problem) as caught:
        load_model(path)
    assert caught.value.field == field
    assert str(path) in str(caught.value)


class Trap:
    """Something that leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["M", "labels", "version"])
def test_pickles_are_never_opened(tmp_path, name):
    """Catches code in a file that is run by opening it."""
    trap = np.empty((), object)
    trap[()] = Trap(tmp_path / "sprung")
    np.savez(tmp_path / "a.npz", **({"version": 1, "M": np.zeros((1, 1))} | {name: trap}))
    with pytest.raises(ModelFileError, match="would have to be unpickled"):
        load_model(tmp_path / "a.npz")
    assert not (tmp_path / "sprung").exists()


def npy(array):
    """Return the bytes of an array in a file of its own."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array))
    return file.getvalue()


def header(shape, descr="<f8"):
    """Return the bytes of an array's header without the array."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": descr})
    return file.getvalue()


def archive(path, members, method=zipfile.ZIP_STORED):
    """Write a zip archive of raw bytes."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)


def test_a_bomb_is_not_unpacked(tmp_path):
    """Catches an archive of a few kilobytes that fills the memory."""
    path = tmp_path / "a.npz"
    archive(path, {"version.npy": npy(1), "M.npy": header((2000, 2000)) + bytes(32_000_000)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ModelFileError, match=r"unpacks to 32000.* bytes, over the limit of 1000000"):
        load_model(path, max_bytes=10**6)


def test_a_directory_that_lies_about_a_size_is_refused(tmp_path):
    """Catches a bomb whose directory declares fewer bytes than there are."""
    path = tmp_path / "a.npz"
    archive(path, {"version.npy": npy(1), "M.npy": npy(np.zeros((50, 50)))}, zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    true_size = struct.pack("<I", len(npy(np.zeros((50, 50)))))
    while true_size in content:
        at = content.index(true_size)
        content[at : at + 4] = struct.pack("<I", len(header((50, 50))) + 8)
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="M: ") as caught:
        load_model(path)
    assert caught.value.field == "M"


DAMAGED = {
    "absurd shape": ({"M.npy": header((2**40, 2**40))}, "declares the shape"),
    "negative shape": ({"M.npy": header((-1, -8)) + bytes(64)}, "declares the shape"),
    "no header": ({"M.npy": b"no array"}, "is damaged"),
    "newer header": ({"M.npy": b"\x93NUMPY\x09\x00" + bytes(20)}, "is damaged"),
    "header that is code": (
        {"M.npy": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').getcwd()".ljust(32)},
        "is damaged",
    ),
    "not an array": ({"M.txt": b"1 2 3"}, "unknown member 'M.txt'"),
    "climbing name": ({"../M.npy": b""}, "unknown member"),
    "long name": ({"M" * 10**4 + ".npy": b""}, "unknown member 'M{40}'"),
}


@pytest.mark.parametrize(("members", "problem"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_arrays_are_refused(tmp_path, members, problem):
    """Catches memory asked for by a header, and errors of zipfile and numpy that do not name the file."""
    path = tmp_path / "a.npz"
    archive(path, {"version.npy": npy(1)} | members)
    with pytest.raises(ModelFileError, match=problem):
        load_model(path)


def test_a_member_that_is_there_twice_is_refused(tmp_path):
    """Catches archives that other programs read differently."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("M.npy", npy(np.zeros((1, 1))))
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("M.npy", npy(np.zeros((1, 1))))
    with pytest.raises(ModelFileError, match="more than once"):
        load_model(path)


def test_a_member_that_the_directory_hides_is_noticed(tmp_path):
    """Catches a damaged archive read as a model without fields, offset or labels, as zipfile sees no damage."""
    path = tmp_path / "a.npz"
    archive(path, {"version.npy": npy(1), "M.npy": npy(np.zeros((1, 1))), "r.npy": npy([2.0])})
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(b"PK\x01\x02"))
    hidden = len(content) - 22 - content.rindex(b"PK\x01\x02")
    content[entry + 32 : entry + 34] = struct.pack("<H", hidden)  # the last entry becomes a comment of the one before
    path.write_bytes(content)
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == ["version.npy", "M.npy"]
    with pytest.raises(ModelFileError, match="2 members were found where there should be 3"):
        load_model(path)


def test_unusual_packing_is_refused(tmp_path):
    """Catches the use of slow and rarely tested decompressors on untrusted bytes."""
    path = tmp_path / "a.npz"
    archive(path, {"version.npy": npy(1), "M.npy": npy(np.zeros((1, 1)))}, zipfile.ZIP_BZIP2)
    with pytest.raises(ModelFileError, match="stored or deflated"):
        load_model(path)
