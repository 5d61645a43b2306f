"""Files of named arrays: what is written comes back, and nothing that is not whole or not ours is read."""

from __future__ import annotations

import hashlib
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from bouncy.run import container
from bouncy.run.container import packed, unpacked

DTYPES = st.sampled_from([np.int8, np.uint8, np.bool_, np.int32, np.int64, np.uint32, np.uint64, np.float64])
ARRAYS = DTYPES.flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
HEADERS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "arrays"),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    max_size=4,
)


@given(HEADERS, st.dictionaries(st.text(max_size=8), ARRAYS, max_size=4))
def test_what_is_written_comes_back(tmp_path_factory, header, arrays):
    """Catches bytes in another order, shapes or types that are lost, and arrays without entries that cannot be read."""
    file = tmp_path_factory.getbasetemp() / "container"
    file.write_bytes(b"".join(packed(header, arrays)))
    found_header, found = unpacked(file)
    assert found_header == header
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.writeable


def test_order_in_memory_does_not_matter(tmp_path):
    """Catches the bytes of a transposed, strided or big-endian array taken as they lie in memory."""
    array = np.arange(12.0).reshape(3, 4)
    odd = {"t": array.T, "s": array[:, ::2], "b": array.astype(">f8"), "0": np.array(3)}
    (tmp_path / "file").write_bytes(b"".join(packed({}, odd)))
    _, found = unpacked(tmp_path / "file")
    assert all((found[name] == odd[name]).all() for name in odd)


def made(text: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a file with a header of any text, whose digest is right."""
    size = len(text) if length is None else length
    body = b"bouncy state 1\n" + size.to_bytes(8, "little") + text + data
    return body + hashlib.blake2b(body, digest_size=32).digest()


def table(*rows: object) -> bytes:
    return json.dumps({"arrays": rows}).encode()


HUGE = 2**47
BAD = {
    "no JSON": made(b"{"),
    "deep JSON": made(b"[" * 100_000),
    "long number": made(b'{"arrays": [], "x": ' + b"9" * 10_000 + b"}"),
    "no object": made(b"[1]"),
    "no text": made(b"\xff\xfe"),
    "no table": made(b"{}"),
    "table of nothing": made(b'{"arrays": null}'),
    "table is text": made(b'{"arrays": "abc"}'),
    "row is text": made(table("abc")),
    "row is short": made(table(["a", "<f8"])),
    "name is a number": made(table([1, "<f8", [0]])),
    "objects": made(table(["a", "|O", [1]]), bytes(8)),
    "text": made(table(["a", "<U4", [1]]), bytes(16)),
    "records": made(table(["a", [["x", "<f8"]], [1]]), bytes(8)),
    "half precision": made(table(["a", "<f2", [1]]), bytes(2)),
    "dtype with a size of its own": made(table(["a", "(1000000,)<f8", [1]]), bytes(8)),
    "shape is a number": made(table(["a", "<f8", 1]), bytes(8)),
    "negative": made(table(["a", "<f8", [-1]]), bytes(8)),
    "negative twice": made(table(["a", "<f8", [-1, -1]]), bytes(8)),
    "fraction": made(table(["a", "<f8", [1.0]]), bytes(8)),
    "true": made(table(["a", "<f8", [True]]), bytes(8)),
    "huge": made(table(["a", "<f8", [HUGE]]), bytes(8)),
    "overflow": made(table(["a", "<f8", [2**32, 2**32]]), bytes(8)),
    "overflow to nothing": made(table(["a", "<f8", [HUGE, HUGE, 2**47]]), bytes(8)),
    "huge and empty": made(table(["a", "<f8", [0, HUGE, HUGE, HUGE]])),
    "many sides": made(table(["a", "<f8", [2**40] * 100_000]), bytes(8)),
    "twice": made(table(["a", "<f8", [1]], ["a", "<f8", [1]]), bytes(16)),
    "too little": made(table(["a", "<f8", [2]]), bytes(8)),
    "too much": made(table(["a", "<f8", [1]]), bytes(9)),
    "long header": made(b"{}", b"", 1 << 40),
    "header beyond the end": made(b"{}", b"", 3),
    "length alone": made(b"", b"", 1),
    "nothing": b"",
    "first line alone": b"bouncy state 1\n",
    "other first line": b"bouncy state 2\n" + bytes(100),
    "zip": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name, tmp_path):
    """Catches a reader that executes, allocates or fails in another way on what a file merely claims."""
    (tmp_path / "file").write_bytes(BAD[name])
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"^(it|its|the array|\d+ bytes|cannot reshape|maximum|array is too big)"):
        unpacked(tmp_path / "file")
    assert tracemalloc.get_traced_memory()[1] < 50 * len(BAD[name]) + 2**20
    tracemalloc.stop()


@given(st.binary(max_size=120))
def test_any_header_is_refused_or_read(tmp_path_factory, text):
    """Catches an exception that is none of those that stand for a bad file."""
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(made(text))
    try:
        header, arrays = unpacked(file)
    except ValueError:
        return
    assert isinstance(header, dict)
    assert not arrays


def test_file_larger_than_memory_is_refused(tmp_path, monkeypatch):
    """Catches a file that is read although there is no room for it."""
    (tmp_path / "file").write_bytes(made(b'{"arrays": []}'))
    monkeypatch.setattr(container, "available_memory", lambda: 10)
    with pytest.raises(ValueError, match="more than there is memory"):
        unpacked(tmp_path / "file")
