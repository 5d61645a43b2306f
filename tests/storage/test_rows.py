"""Rows that grow: thinned ones against a naive twin, those in files against those in memory, whatever goes wrong."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from bouncy.run.rows import Column, InFile, InMemory, Rows, SpillWarning, Thinned
from hypothesis import given
from hypothesis import strategies as st

from bouncy.run import rows as rows_module

LIKE = np.empty((0, 2))


class Naive(Column):
    """All rows of all chains, in lists."""

    def __init__(self, chains):
        self.rows = [[] for _ in range(chains)]

    @property
    def count(self):
        return np.array([len(rows) for rows in self.rows])

    def append(self, chain, rows):
        self.rows[chain] += rows.tolist()

    def cut(self, n):
        self.rows = [rows[:n] for rows in self.rows]

    def array(self):
        n = min(map(len, self.rows))
        return np.array([rows[:n] for rows in self.rows]).reshape(len(self.rows), n, *LIKE.shape[1:])

    def rows_of(self, chain):
        return np.array(self.rows[chain]).reshape(-1, *LIKE.shape[1:])


def fresh(n, state):
    """Return n rows that were never there before."""
    state[0] += n
    return np.arange(state[0] - n, state[0], dtype=float)[:, None] * np.array([1.0, -1.0])


# What is done with a column: rows are added to a chain, it is cut, written, read, or opened again.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.sampled_from(["cut"]), st.integers(0, 40), st.just(0)),
        st.tuples(st.sampled_from(["flush", "array", "reopen", "fail", "copy"]), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from([8, 100, 1 << 20]))
def test_files_hold_what_memory_holds(steps, waiting):
    """Catches rows that are lost, doubled or misplaced between memory and disk, in any order of events."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_WAITING", waiting)
        path, state = Path(place) / "a.rows", [0]
        column, memory, naive = InFile(path, 3, LIKE), InMemory(3, LIKE), Naive(3)
        for what, a, b in steps:
            if what == "append":
                added = fresh(b, state)
                for each in (column, memory, naive):
                    each.append(a, added)
            elif what == "cut":
                for each in (column, memory, naive):
                    each.cut(a)
            elif what == "flush":
                column.flush()
            elif what == "fail":
                _fail_to_flush(column, patch)
            elif what == "copy":
                assert (copy.deepcopy(column).array() == naive.array()).all()
            elif what == "reopen" and naive.count.min() == naive.count.max():
                column.flush()
                column = InFile.reopen(path, 3, LIKE, column.written, column.checksum)
            elif what == "array":
                assert (column.array() == naive.array()).all()
            assert (column.count == naive.count).all()
        assert column.array().tobytes() == memory.array().tobytes() == naive.array().tobytes()
        assert column.array().shape == naive.array().shape


def _fail_to_flush(column, patch):
    """Have a write fail after a part of it."""

    def full(self, block):
        with open(self.path, "r+b" if self.written else "wb") as file:
            file.seek(self._size(self.written))
            file.write(block.tobytes()[: block.nbytes // 2])
        raise OSError(28, "No space left on device")

    with patch.context() as own:
        own.setattr(InFile, "_write", full)
        with contextlib.suppress(OSError):  # or there is nothing to be written
            column.flush()
        column.array()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=25),
    st.one_of(st.none(), st.integers(0, 300)),
    st.sampled_from([2, 4, 8]),
)
def test_thinned_rows_are_every_so_many_of_all(steps, cut, most):
    """Catches a trace whose points are not evenly spaced, drift when it is thinned again, or differ between chains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MOST_POINTS", most)
        column, naive, state = Thinned(3, LIKE), Naive(3), [0]
        for chain, n in steps:
            added = fresh(n, state)
            column.append(chain, added)
            naive.append(chain, added)
            own = column.spacing_of(chain)
            assert len(naive.rows[chain]) // own <= most
            assert own == 1 or len(naive.rows[chain]) // (own // 2) > most, "it is thinned no sooner than needed"
        if cut is not None:
            column.cut(cut)
            naive.cut(cut)
        spacing = column.spacing
        assert spacing & (spacing - 1) == 0
        n = int(naive.count.min()) // spacing
        expected = naive.array()[:, spacing - 1 :: spacing]
        assert column.array().shape == (3, n, 2)
        assert (column.array() == expected[:, :n]).all()
        assert (column.count == naive.count).all()


@given(st.lists(st.integers(0, 30), max_size=20), st.sampled_from([2, 4]), st.integers(0, 19))
def test_rows_that_come_thinned_are_the_same(sizes, most, when):
    """Catches a chain that takes only every so many-th draw, and a trace that is then spaced unevenly or resumed so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MOST_POINTS", most)
        column, plain, state, step, total = Thinned(1, LIKE), Thinned(1, LIKE), [0], 1, 0
        for k, n in enumerate(sizes):
            added = fresh(n, state)
            plain.append(0, added)
            taken = [j for j in range(n) if (total + j + 1) % step == 0]
            column.append(0, added[taken], step)
            total, step = total + n, column.spacing_of(0)
            assert column.spacing == plain.spacing
            assert (column.array() == plain.array()).all()
            if k == when:
                again = Thinned(1, LIKE)
                again.restore(column.array(), column.spacing, int(column.count.min()))
                column = again


def test_damaged_rows_are_not_opened(tmp_path):
    """Catches a file that is shorter than it was, or of which a bit has changed."""
    column = InFile(tmp_path / "a.rows", 2, LIKE)
    for chain in range(2):
        column.append(chain, np.arange(20.0).reshape(10, 2))
    column.flush()
    content = column.path.read_bytes()
    InFile.reopen(column.path, 2, LIKE, 10, column.checksum)
    InFile.reopen(tmp_path / "none", 2, LIKE, 0, 0)
    column.path.write_bytes(content + b"more")
    assert (InFile.reopen(column.path, 2, LIKE, 10, column.checksum).array() == column.array()).all()
    column.path.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="319 bytes; expected at least 320 for 10 rows"):
        InFile.reopen(column.path, 2, LIKE, 10, column.checksum)
    column.path.write_bytes(content[:100] + b"\x01" + content[101:])
    with pytest.raises(ValueError, match="checksum of its first 10 rows"):
        InFile.reopen(column.path, 2, LIKE, 10, column.checksum)
    with pytest.raises(ValueError, match="bytes; expected at least"):
        InFile.reopen(column.path, 2, LIKE, 2**60, 0)


def test_rows_wait_while_there_is_no_space(tmp_path, monkeypatch):
    """Catches rows that are lost, a run that dies, or a warning for each of them, when a disk is full."""
    monkeypatch.setattr(rows_module, "_WAITING", 64)
    write = InFile._write

    def full(self, block):
        raise OSError(28, "No space left on device")

    column, naive, state = InFile(tmp_path / "a.rows", 1, LIKE), Naive(1), [0]
    monkeypatch.setattr(InFile, "_write", full)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(50):
            added = fresh(3, state)
            column.append(0, added)
            naive.append(0, added)
    assert [item.category for item in told] == [SpillWarning]
    assert "No space left on device) and wait in memory" in str(told[0].message)
    assert (column.array() == naive.array()).all()
    assert column.written == 0
    monkeypatch.setattr(InFile, "_write", write)
    for _ in range(50):
        added = fresh(3, state)
        column.append(0, added)
        naive.append(0, added)
    assert column.written > 150
    assert (column.array() == naive.array()).all()
    again = InFile.reopen(column.path, 1, LIKE, column.written, column.checksum)
    assert (again.array() == naive.array()).all()


def test_a_file_that_was_replaced_is_not_written_into(tmp_path):
    """Catches a hole where rows were: a file that was removed, and is made anew from its middle on."""
    column = InFile(tmp_path / "a.rows", 1, LIKE)
    column.append(0, np.ones((5, 2)))
    column.flush()
    for replace in (column.path.unlink, lambda: column.path.write_bytes(b"x")):
        replace()
        column.append(0, np.ones((1, 2)))
        with pytest.raises(OSError, match=r"No such file|has become shorter"):
            column.flush()
        assert (column._waiting[0][0] == 1.0).all()
    column.path.unlink()
    assert column.array().shape == (1, 7, 2)


@pytest.mark.parametrize("hold", [True, False])
def test_rows_need_their_name_only_if_they_are_many(tmp_path, hold, monkeypatch):
    """Catches a process that is out of files because a run of many chains holds all of its own."""
    monkeypatch.setattr(rows_module, "_MOST_HELD", 7 if hold else 6)
    templates = {"flip_site": np.empty(0), "flip_time": np.empty(0), "log_prob": np.empty(0)}
    rows = Rows(templates, 3, False, tmp_path)
    for place in range(3):
        rows.append(place, {name: np.arange(4.0) for name in templates})
    before = rows.array("log_prob")
    shutil.rmtree(tmp_path)
    if hold:
        assert (rows.array("log_prob") == before).all()
    else:
        with pytest.raises(FileNotFoundError):
            rows.array("log_prob")


def test_rows_of_some_chains(tmp_path):
    """Catches rows of the wrong chains, in memory or in files, when some chains fail."""
    templates = {"flip_site": np.empty(0), "log_prob": np.empty(0), "draws": np.empty((0, 2), np.int8)}
    for folder in (None, tmp_path):
        rows = Rows(templates, 3, False, folder)
        for place in range(3):
            block = {"flip_site": np.full(place + 1, place), "log_prob": np.full(4, place)}
            rows.append(place, block | {"draws": np.full((4, 2), place, np.int8)})
        left = rows.only([0, 2], ".2.rows")
        assert left.array("log_prob").tolist() == [[0.0] * 4, [2.0] * 4]
        assert left.array("flip_site.1").tolist() == [[2.0] * 3]
        assert left.array("draws")[1].tolist() == [[2, 2]] * 4
        twin = copy.deepcopy(left)
        twin.append(0, {"log_prob": np.ones(1)})
        assert left.array("log_prob").shape == (2, 4)
        assert twin.folder is None


def test_spilled_rows_stay_in_memory_where_there_is_no_folder_for_them(tmp_path, monkeypatch):
    """Catches a run that dies since neither memory nor disk have room to spare, as long as the memory still does."""
    monkeypatch.setattr(rows_module, "available_memory", lambda: 0)
    monkeypatch.setattr(rows_module, "_LARGE", 0)
    monkeypatch.setattr(rows_module, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    rows = Rows({"log_prob": np.empty(0)}, 1, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows.append(0, {"log_prob": np.arange(100.0)})
    assert rows.array("log_prob").tolist() == [list(range(100))]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(SpillWarning, match="GiB"):
        rows.append(0, {"log_prob": np.arange(10.0)})
    assert rows.array("log_prob").tolist() == [[*range(100), *range(10)]]
    assert len(list(tmp_path.glob("bouncy-*/log_prob.rows"))) == 1
