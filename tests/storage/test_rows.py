"""Rows that grow: thinned ones against a naive twin, those in files against those in memory, whatever goes wrong."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bouncy.storage import rows as rows_module
from bouncy.storage.rows import InFile, InMemory, Rows, SpillWarning, Thinned

LIKE = np.empty((0, 2))


class Fresh:
    """Rows of some chains that were never there before, and all of them so far."""

    def __init__(self, chains):
        self.all = np.zeros((chains, 0, 2))

    def block(self, n):
        chains, count = self.all.shape[:2]
        place = np.arange(count, count + n, dtype=float)
        block = np.stack([(1000.0 * k + place)[:, None] * np.array([1.0, -1.0]) for k in range(chains)])
        self.all = np.concatenate([self.all, block], axis=1)
        return block


# What is done with a column: rows are added to it, it is written, read, opened again, or shared.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["flush", "array", "reopen", "fail", "branch"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from([8, 100, 1 << 20]))
def test_files_hold_what_memory_holds(steps, waiting):
    """Catches rows that are lost, doubled or misplaced between memory and disk, in any order of events."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_WAITING", waiting)
        path, fresh = Path(place) / "a.rows", Fresh(3)
        column, memory, twins = InFile(path, 3, LIKE), InMemory(3, LIKE), []
        for what, n in steps:
            if what == "append":
                block = fresh.block(n)
                column.append(block)
                memory.append(block)
            elif what == "flush":
                column.flush()
            elif what == "fail":
                _fail_to_flush(column, patch)
            elif what == "branch":
                twins += [_branch(each, fresh.all, n) for each in (column, memory)]
            elif what == "reopen":
                column.flush()
                column = InFile.reopen(column.path, 3, LIKE, column.written, column.checksum)
            elif what == "array":
                assert column.array().tobytes() == fresh.all.tobytes()
            assert column.count == fresh.all.shape[1]
        assert column.array().tobytes() == memory.array().tobytes() == fresh.all.tobytes()
        assert column.array().shape == memory.array().shape == fresh.all.shape
        for twin, rows in twins:
            assert twin.array().tobytes() == rows


def _branch(column, rows, n):
    """Have a twin grow, and the column see nothing of it; return the twin, and its bytes."""
    twin = column.shared()
    twin.append(np.full((3, n, 2), -7.0))
    assert twin.array()[:, : rows.shape[1]].tobytes() == rows.tobytes()
    assert (twin.array()[:, rows.shape[1] :] == -7.0).all()
    assert twin.array().shape[1] == rows.shape[1] + n
    assert column.array().tobytes() == rows.tobytes()
    return twin, twin.array().tobytes()


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


@given(st.lists(st.integers(0, 40), max_size=25), st.sampled_from([2, 4, 8]))
def test_thinned_rows_are_every_so_many_of_all(sizes, most):
    """Catches a trace whose points are not evenly spaced, or drift when it is thinned again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MOST_POINTS", most)
        column, fresh = Thinned(3, LIKE), Fresh(3)
        for n in sizes:
            column.append(fresh.block(n), 1)
            total, spacing = fresh.all.shape[1], column.spacing
            assert total // spacing <= most
            assert spacing == 1 or total // (spacing // 2) > most, "it is thinned no sooner than needed"
            assert spacing & (spacing - 1) == 0
            assert column.array().tobytes() == fresh.all[:, spacing - 1 :: spacing].tobytes()
            assert column.count == total


@given(st.lists(st.integers(0, 30), max_size=20), st.sampled_from([2, 4]), st.integers(0, 19))
def test_rows_that_come_thinned_are_the_same(sizes, most, when):
    """Catches a chain that takes only every so many-th draw, and a trace that is then spaced unevenly or resumed so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MOST_POINTS", most)
        column, plain, fresh, step, total = Thinned(1, LIKE), Thinned(1, LIKE), Fresh(1), 1, 0
        for k, n in enumerate(sizes):
            block = fresh.block(n)
            plain.append(block, 1)
            column.append(block[:, [j for j in range(n) if (total + j + 1) % step == 0]], step)
            total, step = total + n, column.spacing
            assert column.spacing == plain.spacing
            assert (column.array() == plain.array()).all()
            if k == when:
                column = Thinned.of(column.array(), column.spacing, column.count)


def test_a_branch_of_thinned_rows_leaves_the_others_alone():
    """Catches a trace that is thinned because a longer run, which shares it, has become too long."""
    column = Thinned(1, LIKE)
    column.append(Fresh(1).block(10), 1)
    before = column.array().copy()
    twin = column.shared()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MOST_POINTS", 4)
        twin.append(Fresh(1).block(6), 1)
    assert (twin.spacing, twin.count) == (4, 16)
    assert (column.spacing, column.count) == (1, 10)
    assert (column.array() == before).all()


def test_damaged_rows_are_not_opened(tmp_path):
    """Catches a file that is shorter than it was, or of which a bit has changed."""
    column = InFile(tmp_path / "a.rows", 2, LIKE)
    column.append(np.arange(40.0).reshape(2, 10, 2))
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

    column, fresh = InFile(tmp_path / "a.rows", 1, LIKE), Fresh(1)
    monkeypatch.setattr(InFile, "_write", full)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(50):
            column.append(fresh.block(3))
    assert [item.category for item in told] == [SpillWarning]
    assert "No space left on device) and wait in memory" in str(told[0].message)
    assert (column.array() == fresh.all).all()
    assert column.written == 0
    monkeypatch.setattr(InFile, "_write", write)
    for _ in range(50):
        column.append(fresh.block(3))
    assert column.written > 150
    assert (column.array() == fresh.all).all()
    again = InFile.reopen(column.path, 1, LIKE, column.written, column.checksum)
    assert (again.array() == fresh.all).all()


def test_a_file_that_was_replaced_is_not_written_into(tmp_path):
    """Catches a hole where rows were: a file that was removed, and is made anew from its middle on."""
    column = InFile(tmp_path / "a.rows", 1, LIKE)
    column.append(np.ones((1, 5, 2)))
    column.flush()
    for replace in (column.path.unlink, lambda: column.path.write_bytes(b"x")):
        replace()
        column.append(np.ones((1, 1, 2)))
        with pytest.raises(OSError, match=r"No such file|has become shorter"):
            column.flush()
        assert (column._waiting[0] == 1.0).all()
    column.path.unlink()
    assert column.array().shape == (1, 7, 2)


def test_a_column_that_shares_its_file_moves_to_its_own(tmp_path):
    """Catches rows of two runs in one file: both continue a third, and the first of them keeps its file."""
    column = InFile(tmp_path / "a.rows", 1, LIKE)
    column.append(np.ones((1, 5, 2)))
    one, two = column.shared(), column.shared()
    one.append(np.full((1, 3, 2), 2.0))
    one.flush()
    two.append(np.full((1, 4, 2), 3.0))
    two.flush()
    assert one.path == column.path != two.path
    for twin, value, n in ((column, 1.0, 5), (one, 2.0, 8), (two, 3.0, 9)):
        assert twin.array().shape == (1, n, 2)
        assert (twin.array()[:, :5] == 1.0).all()
        assert (twin.array()[:, 5:] == value).all()
        again = InFile.reopen(twin.path, 1, LIKE, twin.written, twin.checksum)
        assert (again.array() == twin.array()).all()


@pytest.mark.parametrize("mapped", [True, False])
def test_rows_need_their_name_only_if_they_are_many(tmp_path, mapped, monkeypatch):
    """Catches a process that is out of files because a run of many chains keeps all of its own mapped."""
    monkeypatch.setattr(rows_module, "_MOST_MAPPED", 7 if mapped else 6)
    templates = {"flip_site": np.empty(0), "flip_time": np.empty(0), "log_prob": np.empty(0)}
    rows = Rows(templates, 3, False, tmp_path)
    rows.append([{name: np.arange(4.0) for name in templates}] * 3)
    before = rows.array("log_prob")
    shutil.rmtree(tmp_path)
    if mapped:
        assert (rows.array("log_prob") == before).all()
    else:
        with pytest.raises(FileNotFoundError):
            rows.array("log_prob")


def test_rows_of_some_chains(tmp_path):
    """Catches rows of the wrong chains, in memory or in files, when some chains fail."""
    templates = {"flip_site": np.empty(0), "log_prob": np.empty(0), "draws": np.empty((0, 2), np.int8)}
    for folder in (None, tmp_path):
        rows = Rows(templates, 3, False, folder)
        rows.append(
            [
                {"flip_site": np.full(k + 1, k), "log_prob": np.full(4, k), "draws": np.full((4, 2), k, np.int8)}
                for k in range(3)
            ]
        )
        left = rows.moved(folder, ".2.rows", [0, 2])
        assert left.array("log_prob").tolist() == [[0.0] * 4, [2.0] * 4]
        assert left.array("flip_site.1").tolist() == [[2.0] * 3]
        assert left.array("draws")[1].tolist() == [[2, 2]] * 4
        twin = left.shared()
        twin.append([{name: np.ones((1, *like.shape[1:]), like.dtype) for name, like in templates.items()}] * 2)
        assert left.array("log_prob").shape == (2, 4)
        assert twin.array("log_prob").shape == (2, 5)


def test_spilled_rows_stay_in_memory_where_there_is_no_folder_for_them(tmp_path, monkeypatch):
    """Catches a run that dies since neither memory nor disk have room to spare, as long as the memory still does."""
    monkeypatch.setattr(rows_module, "available_memory", lambda: 0)
    monkeypatch.setattr(rows_module, "_LARGE", 0)
    monkeypatch.setattr(rows_module, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    rows = Rows({"log_prob": np.empty(0)}, 1, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows.append([{"log_prob": np.arange(100.0)}])
    assert rows.array("log_prob").tolist() == [list(range(100))]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(SpillWarning, match="GiB"):
        rows.append([{"log_prob": np.arange(10.0)}])
    assert rows.array("log_prob").tolist() == [[*range(100), *range(10)]]
    assert len(list(tmp_path.glob("bouncy-*/log_prob.rows"))) == 1
