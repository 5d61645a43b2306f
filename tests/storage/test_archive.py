"""Archives: equal content comes back, and whatever is not an archive is refused (deterministic, fixed seeds)."""

import hashlib
import json
import os
import struct
import zipfile
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bouncy.storage import archive as module
from bouncy.storage.archive import DTYPES, ArchiveError, read_archive, read_header, write_archive
from conftest import base_seed

HEADER = {"kind": "run", "seed": 2**70, "nan": float("nan"), "labels": ["a", None, "é"]}
ARRAYS = {
    "draws": np.arange(24, dtype=np.int8).reshape(2, 3, 4),
    "chain.0/sums": np.array([0.5, -np.inf, np.nan]),
    "count": np.array(7, np.uint64),
    "flags": np.array([True, False]),
    "none": np.zeros((0, 3)),
}


def packed(header=HEADER, arrays=ARRAYS):
    """Return the bytes of an archive."""
    file = BytesIO()
    write_archive(file, header, arrays)
    return file.getvalue()


def assert_equal(found, expected=(HEADER, ARRAYS)):
    """Compare headers and arrays, to the last bit and with their types and order."""
    assert repr(found[0]) == repr(expected[0])
    assert list(found[1]) == list(expected[1])
    for array, other in zip(found[1].values(), expected[1].values(), strict=True):
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes())


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
HEADERS = st.dictionaries(
    st.text().filter(lambda key: key != "arrays"), st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3))
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
MANY = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,9}", fullmatch=True),
    st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)),
    max_size=4,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=HEADERS, arrays=MANY)
def test_what_is_written_is_read(tmp_path, header, arrays):
    """Catches lost axes of empty and zero-dimensional arrays, NaNs with other bits, and another order."""
    path = tmp_path / "a"
    path.write_bytes(packed(header, arrays))
    assert_equal(read_archive(path), (header, arrays))
    assert repr(read_header(path)) == repr(header)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays=MANY)
def test_numpy_and_zipfile_alone_read_archives(tmp_path, arrays):
    """Catches an array header, a size or a checksum that only this package understands."""
    path = tmp_path / "a"
    path.write_bytes(packed(HEADER, arrays))
    with np.load(path, allow_pickle=False) as content:
        assert content.files == ["header.json", *arrays]
        for name, array in arrays.items():
            assert (content[name].dtype, content[name].shape) == (array.dtype, array.shape)
            assert content[name].tobytes() == array.tobytes()
        assert json.loads(content["header.json"])["seed"] == HEADER["seed"]
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None


def test_other_layouts_are_written_in_c_order_and_little_endian(tmp_path):
    """Catches bytes of a transposed, strided or big-endian array written as they lie in memory."""
    base = np.arange(24.0).reshape(4, 6)
    arrays = {"transposed": base.T, "strided": base[::2, ::-3], "big": base.astype(">f8"), "list": [1, 2]}
    (tmp_path / "a").write_bytes(packed({}, arrays))
    _, back = read_archive(tmp_path / "a")
    for name, array in back.items():
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.dtype.str in DTYPES
        assert np.array_equal(array, arrays[name])


def test_bytes_depend_on_the_content_alone():
    """Catches a date in the archive, which would make equal content differ by its checksum."""
    assert packed() == packed()


def test_arrays_are_not_copied(monkeypatch):
    """Catches a writer that holds a second copy of a large array."""
    array = np.arange(1000.0)
    seen = []
    raw = module._raw
    monkeypatch.setattr(module, "_raw", lambda found: seen.append(found) or raw(found))
    packed({}, {"a": array})
    assert seen
    assert all(found.ctypes.data == array.ctypes.data for found in seen)


REFUSED = {
    "objects": ({}, {"a": np.array([None])}, "dtype object"),
    "text": ({}, {"a": np.array(["b"])}, "dtype <U1"),
    "complex": ({}, {"a": np.zeros(2, complex)}, "dtype complex128"),
    "records": ({}, {"a": np.zeros(2, "i4,f8")}, "archives hold"),
    "many axes": ({}, {"a": np.zeros((1,) * 9)}, "9 axes"),
    "name": ({}, {"a b": np.zeros(1)}, "names of arrays"),
    "climbing name": ({}, {"../a": np.zeros(1)}, "names of arrays"),
    "no name": ({}, {"": np.zeros(1)}, "names of arrays"),
    "reserved": ({"arrays": 1}, {}, "must not have an entry 'arrays'"),
}


@pytest.mark.parametrize(("header", "arrays", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_the_reader_would_refuse_is_not_written(header, arrays, problem):
    """Catches an archive that can be written and never read again, and one that is begun before it is refused."""
    file = BytesIO()
    with pytest.raises(ValueError, match=problem):
        write_archive(file, header, {"first": np.zeros(3)} | arrays)
    assert file.getvalue() == b""


# Files that are not archives


def refused(path, content=None, problem=None):
    """Assert that a file is refused by name."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArchiveError, match=problem) as caught:
        read_archive(path)
    assert str(path) in str(caught.value)


def test_files_of_other_kinds_are_refused(tmp_path, rng):
    """Catches a wait for a named pipe, and errors of the system or of zipfile that do not name the file."""
    refused(tmp_path / "missing", None, "No such file")
    refused(tmp_path, None, "is a directory")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", None, "not a regular file")
    path = tmp_path / "a"
    refused(path, b"", "is empty")
    for content in (b"\0", b"PK", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), rng.bytes(1000), b"{}" * 100):
        refused(path, content)
        with pytest.raises(ArchiveError):
            read_header(path)
    np.savez(tmp_path / "b.npz", a=np.zeros(3))
    refused(tmp_path / "b.npz", None, "not an archive of bouncy")


def test_every_truncation_is_refused(tmp_path):
    """Catches a file that was cut while it was copied and is read as a shorter one."""
    content = packed()
    for length in range(len(content)):
        refused(tmp_path / "a", content[:length])


def accepted_or_refused(path, content):
    """Return whether damaged bytes are refused; those that are read must have the content of the undamaged ones."""
    path.write_bytes(content)
    try:
        found = read_archive(path)
    except ArchiveError:
        return True
    assert_equal(found)
    assert repr(read_header(path)) == repr(HEADER)
    return False


def test_flipped_bits_never_change_the_content(tmp_path):
    """Catches bytes that no digest covers: of 1000 flips, all are refused or are in what the reader does not use."""
    content = packed()
    rng = np.random.default_rng([base_seed(), 1])
    outcomes = []
    for place in rng.integers(0, len(content), 1000):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        outcomes.append(accepted_or_refused(tmp_path / "a", damaged))
    assert np.mean(outcomes) > 0.6  # the rest is in the zip directory, the dates and the CRCs


def test_moved_pieces_never_change_the_content(tmp_path):
    """Catches pieces that are there twice, in another order or not at all."""
    content = packed()
    rng = np.random.default_rng([base_seed(), 2])
    for _ in range(300):
        a, b, c, d = np.sort(rng.integers(0, len(content), 4))
        accepted_or_refused(tmp_path / "a", content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:])
        accepted_or_refused(tmp_path / "a", content[:a] + content[a:b] * 2 + content[b:])
        accepted_or_refused(tmp_path / "a", content[:a] + rng.bytes(int(b - a)) + content[b:])


# Forged archives, all digests of which are right


def npy(array):
    """Return the bytes of an .npy file."""
    file = BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=(1, 0))
    return file.getvalue()


def entry(array):
    """Return the header's entry for an array."""
    array = np.asarray(array)
    return [array.dtype.str, list(array.shape), module._digest(array.tobytes())]


def forged(specs, members, text=None, method=zipfile.ZIP_STORED):
    """Return an archive of any header and any members [(name, bytes)], with the right digest of the header."""
    text = json.dumps({"arrays": specs}).encode() if text is None else text
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.comment = hashlib.blake2b(text, digest_size=32).hexdigest().encode()
        for name, content in [("header.json", text), *members]:
            with archive.open(
                zipfile.ZipInfo(name) if method == zipfile.ZIP_STORED else name, "w", force_zip64=True
            ) as stream:
                stream.write(content)
    return file.getvalue()


A, B = np.arange(3.0), np.array([1, 2], np.int32)
BOTH = {"a": entry(A), "b": entry(B)}
a, b = (
    (f"{name}.npy", module._npy_prefix(module._Spec(array.dtype.str, array.shape, "")) + array.tobytes())
    for name, array in [("a", A), ("b", B)]
)


def test_the_forger_can_write_a_good_archive(tmp_path):
    """The refusals below would mean nothing if the forger's archives were refused for another reason."""
    (tmp_path / "a").write_bytes(forged(BOTH, [a, b]))
    assert_equal(read_archive(tmp_path / "a"), ({}, {"a": A, "b": B}))


MEMBERS = {
    "missing": (BOTH, [a], "no member 'b.npy'"),
    "swapped": (BOTH, [b, a], "member 'b.npy' where 'a.npy' should be"),
    "not named": ({"a": entry(A)}, [a, b], "members that its header does not name"),
    "not named, first": ({"b": entry(B)}, [a, b], "member 'a.npy' where 'b.npy' should be"),
    "twice": ({"a": entry(A)}, [a, a], "members that its header does not name"),
    "other content": (BOTH, [a, ("b.npy", a[1])], "'b' that is not an array of dtype <i4"),
    "other numbers": (BOTH, [a, ("b.npy", b[1][:-1] + b"\1")], "'b' does not have the digest"),
    "longer": (BOTH, [a, ("b.npy", b[1] + b"\0")], "'b' that is not an array of dtype <i4"),
    "shorter": (BOTH, [a, ("b.npy", b[1][:-1])], "'b' that is not an array of dtype <i4"),
    "no array": (BOTH, [a, ("b.npy", b"")], "'b' that is not an array of dtype <i4"),
    "raw array": (BOTH, [a, ("b", b[1])], "member 'b' where 'b.npy' should be"),
    "fortran order": (
        {"a": entry(np.ones((2, 3)))},
        [("a.npy", npy(np.asfortranarray(np.ones((2, 3)))))],
        "not an array",
    ),
    "not booleans": (
        {"a": ["|b1", [2], module._digest(b"\1\2")]},
        [("a.npy", module._npy_prefix(module._Spec("|b1", (2,), "")) + b"\1\2")],
        "other than 0 and 1",
    ),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("specs", "members", "problem"), MEMBERS.values(), ids=MEMBERS)
def test_members_that_contradict_the_header_are_refused(tmp_path, specs, members, problem):
    """Catches arrays taken for others, and archives that other programs read differently."""
    refused(tmp_path / "a", forged(specs, members), problem)


def spec(dtype="<f8", shape=(3,), digest=""):
    return {"a": [dtype, list(shape) if isinstance(shape, tuple) else shape, digest]}


HEADERS_WITH = {
    "no arrays": ({"arrays": None}, "does not list arrays"),
    "list": ({"arrays": []}, "does not list arrays"),
    "number": ({"arrays": {"a": 1}}, "does not give dtype, shape and digest"),
    "short": ({"arrays": {"a": ["<f8", [3]]}}, "does not give dtype, shape and digest"),
    "objects": ({"arrays": spec("|O")}, r"dtype '\|O'"),
    "text": ({"arrays": spec("<U4")}, "dtype '<U4'"),
    "void": ({"arrays": spec("|V99999999")}, "dtype"),
    "records": ({"arrays": spec([["x", "<f8"]])}, "dtype"),
    "big-endian": ({"arrays": spec(">f8")}, "dtype '>f8'"),
    "no dtype": ({"arrays": spec(None)}, "dtype None"),
    "negative": ({"arrays": spec(shape=(-1, -3))}, "impossible shape"),
    "many axes": ({"arrays": spec(shape=(1,) * 9)}, "impossible shape"),
    "absurd": ({"arrays": spec(shape=(2**40, 2**40))}, "impossible shape"),
    "absurd and empty": ({"arrays": spec(shape=(0, 2**40, 2**40))}, "impossible shape"),
    "digits": ({"arrays": spec(shape=(10**1000,))}, "impossible shape"),
    "fraction": ({"arrays": spec(shape=(3.0,))}, "impossible shape"),
    "flag": ({"arrays": spec(shape=(True,))}, "impossible shape"),
    "text as shape": ({"arrays": spec(shape="3")}, "impossible shape"),
    "climbing": ({"arrays": {"../../a": ["<f8", [3], ""]}}, "names an array"),
    "long name": ({"arrays": {"a" * 10**6: ["<f8", [3], ""]}}, "names an array"),
    "large": ({"arrays": spec(shape=(10**9,))}, "is truncated: its arrays would take 8000000000 bytes"),
    "large in parts": (
        {"arrays": {f"a{k}": ["<f8", [10], ""] for k in range(10)} | spec(shape=(200,))},
        "is truncated: its arrays would take 2400 bytes",
    ),
    "no digest": ({"arrays": spec(digest=None)}, "does not have the digest in the header"),
}


@pytest.mark.parametrize(("header", "problem"), HEADERS_WITH.values(), ids=HEADERS_WITH)
def test_forged_headers_are_refused(tmp_path, header, problem):
    """Catches memory that is taken because a header asks for it, and types that would be unpickled."""
    refused(tmp_path / "a", forged(None, [a], json.dumps(header).encode()), problem)


TEXTS = {
    "list": (b"[]", "not a JSON object"),
    "no JSON": (b"{", "not JSON"),
    "empty": (b"", "not JSON"),
    "not UTF-8": (b'{"arrays": {}, "a": "\xff"}', "not JSON"),
    "deep": (b'{"arrays": ' + b"[" * 10**5, "nested too deeply"),
    "endless integer": (b'{"arrays": {}, "a": ' + b"9" * 10**4 + b"}", "not JSON"),
}


@pytest.mark.parametrize(("text", "problem"), TEXTS.values(), ids=TEXTS)
def test_headers_that_are_not_objects_are_refused(tmp_path, text, problem):
    """Catches errors of json that come through, and a stack that overflows."""
    refused(tmp_path / "a", forged(None, [], text), problem)
    with pytest.raises(ArchiveError, match=problem):
        read_header(tmp_path / "a")


def test_members_that_are_compressed_or_encrypted_are_refused(tmp_path):
    """Catches a bomb: 64 MB of zeros in 64 kB."""
    zeros = np.zeros(8 * 10**6)
    member = ("a.npy", module._npy_prefix(module._Spec("<f8", zeros.shape, "")) + zeros.tobytes())
    content = forged({"a": entry(zeros)}, [member], method=zipfile.ZIP_DEFLATED)
    assert len(content) < 10**5
    refused(tmp_path / "a", content, "'header.json' that is compressed or encrypted")
    content = bytearray(forged(BOTH, [a, b]))
    content[content.index(b"b.npy") - 30 + 6] |= 1
    refused(tmp_path / "a", content, "'b.npy' that is compressed or encrypted")


def test_sizes_in_the_zip_records_are_not_trusted(tmp_path):
    """Catches memory taken, or bytes skipped, because the record in front of a member says so."""
    good = forged(BOTH, [a, b])
    for name in (b"header.json", b"a.npy"):
        at = good.index(name) + len(name) + 4
        for sizes in ((2**62, 2**62), (2**62, 10), (10, 10), (0, 0)):
            content = bytearray(good)
            content[at : at + 16] = struct.pack("<2Q", *sizes)
            refused(tmp_path / "a", content)


def test_arrays_beyond_the_available_memory_are_refused_before_they_are_allocated(tmp_path, monkeypatch):
    """Catches a sparse file of a terabyte on the disk that would take a terabyte of memory."""
    path = tmp_path / "a"
    path.write_bytes(packed())
    needed = sum(array.nbytes for array in ARRAYS.values())
    monkeypatch.setattr(module, "_JSON_EXPANSION", 0)
    monkeypatch.setattr(module, "available_memory", lambda: needed - 1)
    monkeypatch.setattr(module.np, "empty", lambda *_: pytest.fail("allocated"))
    refused(path, None, f"its arrays would take {needed} bytes of memory, of {needed - 1} available")
    monkeypatch.undo()
    monkeypatch.setattr(module, "available_memory", lambda: 1000)
    refused(path, None, "its header would take .* bytes of memory, of 1000 available")


class Trap:
    """Something that leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_opened(tmp_path):
    """Catches code in a file that is run by opening it."""
    trap = np.empty(1, object)
    trap[0] = Trap(tmp_path / "sprung")
    file = BytesIO()
    np.lib.format.write_array(file, trap, allow_pickle=True)
    for dtype in ("|O", "<i8"):
        refused(tmp_path / "a", forged({"a": [dtype, [1], ""]}, [("a.npy", file.getvalue())]))
    assert not (tmp_path / "sprung").exists()
