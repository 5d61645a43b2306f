"""Files and directories that are written whole or not at all (deterministic)."""

import os
import stat

import pytest

from bouncy.storage.atomic import atomic_directory, atomic_file


def write(path, content=b"new", overwrite=False):
    """Write a file."""
    with atomic_file(str(path), overwrite) as file:
        file.write(content)


def write_directory(path, content="new", overwrite=False):
    """Write a directory of two files, one of them the marker."""
    with atomic_directory(str(path), overwrite, "marker") as folder:
        for name in ("marker", "data"):
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)


def test_a_file_that_exists_is_kept_unless_told_otherwise(tmp_path):
    """Catches a file that is overwritten by accident, or a refusal that has emptied it already."""
    path = tmp_path / "a"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"a exists; pass overwrite=True"):
        write(path)
    assert path.read_text() == "precious"
    write(path, overwrite=True)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("existed", [True, False])
def test_a_failure_while_writing_leaves_the_old_file(tmp_path, existed):
    """Catches a half-written file under the final name, and temporary files left behind."""
    path = tmp_path / "a"
    if existed:
        path.write_text("precious")
    with pytest.raises(TypeError):
        write(path, "not bytes", overwrite=True)
    assert os.listdir(tmp_path) == ["a"] * existed
    assert not existed or path.read_text() == "precious"


def test_a_file_that_appears_while_writing_is_kept(tmp_path):
    """Catches a check for existing files that is made only once, before writing."""
    path = tmp_path / "a"
    with pytest.raises(FileExistsError, match="overwrite=True"), atomic_file(str(path), False):
        path.write_text("precious")
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_system_without_hard_links_will_do(tmp_path, monkeypatch):
    """Catches a writer that needs hard links, which not every file system has."""

    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


def test_the_file_has_the_permissions_of_any_other(tmp_path):
    """Catches a temporary file's private permissions on the result, which a group could not read."""
    write(tmp_path / "a")
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_a_symbolic_link_stays_a_link(tmp_path):
    """Catches a link that is replaced by a file, which leaves the file it points to as it was."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


def test_places_where_nothing_can_be_written_are_refused(tmp_path):
    """Catches an error that names the temporary file instead of what is wrong."""
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        write(tmp_path / "nowhere" / "a")
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        write_directory(tmp_path / "nowhere" / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError, match="not a regular file"):
        write(tmp_path / "folder", overwrite=True)


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Catches a file that a crash of the machine leaves empty under its final name."""
    calls = []
    for name in ("fsync", "link", "replace", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, name=name: (calls.append(name), real(*args))[1])
    write(tmp_path / "a")
    assert calls == ["fsync", "link", "fsync"]
    calls.clear()
    write(tmp_path / "a", overwrite=True)
    assert calls == ["fsync", "replace", "fsync"]
    calls.clear()
    write_directory(tmp_path / "d")
    assert calls == ["fsync", "fsync", "fsync", "rename", "fsync"]  # two files and their directory, then the name


def test_a_directory_is_replaced_only_by_its_kind(tmp_path):
    """Catches a slip of the hand that removes a directory of something else."""
    write_directory(tmp_path / "d")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        write_directory(tmp_path / "d", "newer")
    write_directory(tmp_path / "d", "newer", overwrite=True)
    assert (tmp_path / "d" / "data").read_text() == "newer"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me").touch()
    with pytest.raises(FileExistsError, match="holds no marker"):
        write_directory(tmp_path / "photos", overwrite=True)
    assert os.listdir(tmp_path / "photos") == ["me"]
    assert sorted(os.listdir(tmp_path)) == ["d", "photos"]


def test_a_failure_while_writing_leaves_the_old_directory(tmp_path):
    """Catches a directory that is removed before its successor is complete, and temporary ones left behind."""
    write_directory(tmp_path / "d")
    with pytest.raises(TypeError):
        write_directory(tmp_path / "d", b"not text", overwrite=True)
    assert (tmp_path / "d" / "data").read_text() == "new"
    assert os.listdir(tmp_path) == ["d"]
