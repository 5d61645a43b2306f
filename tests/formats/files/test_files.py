"""Choice of a format, checks before reading, and atomic writing (deterministic)."""

import os

import numpy as np
import pytest

from bouncy.formats.files import ModelFileError, load_model, save_model
from bouncy.formats.files._source import opened
from bouncy.targets.contract import Target
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial

SUFFIXES = ("npz", "json", "coo", "uai")


@pytest.fixture
def target():
    return MRF([[0.0, -1.0], [-1.0, 0.0]], 0.5)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_chooses_the_format_and_format_overrides_it(tmp_path, target, suffix):
    """Catches a format that is found under another's name, and case that matters."""
    for path in (tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix.upper()}"):
        save_model(target, path)
        assert load_model(str(path)).d == 2
    save_model(target, tmp_path / "plain.txt", format=suffix)
    assert load_model(tmp_path / "plain.txt", format=suffix).d == 2


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path, target):
    """Catches a guess at the content of a file, and a message that leaves the user to guess."""
    with pytest.raises(ValueError, match=r"'\.txt' is not one of a model file.*\.coo, \.json, \.npz, \.uai.*format="):
        save_model(target, tmp_path / "model.txt")
    with pytest.raises(ValueError, match="format must be one of 'coo', 'json', 'npz', 'uai' or None, got 'xml'"):
        load_model(tmp_path / "model.coo", format="xml")


def test_options_of_another_format_are_refused(tmp_path, target):
    """Catches an option that is ignored in silence because the format does not have it."""
    with pytest.raises(TypeError, match="writing the format 'npz' got an unknown option 'vartype'; it takes no opt"):
        save_model(target, tmp_path / "a.npz", vartype="SPIN")
    with pytest.raises(TypeError, match=r"reading the format 'coo' .* 'evidence'; it takes vartype, temperature"):
        load_model(tmp_path / "a.coo", evidence="b")


class Uniform(Target):
    """A target that no format knows."""

    d = 2

    def view(self):
        raise NotImplementedError


def test_a_target_that_a_format_cannot_express_is_refused_with_those_that_can(tmp_path):
    """Catches a target written as something else, and a file left behind by the refusal."""
    with pytest.raises(TypeError, match=r"must be MRF to be written in the format 'npz', got Polynomial; .* json"):
        save_model(Polynomial({(0, 1, 2): 1.0}), tmp_path / "a.npz")
    with pytest.raises(TypeError, match="got Uniform; no format can"):
        save_model(Uniform(), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [3, None, b"a.npz", "a\0.npz"])
def test_arguments_that_are_not_paths_are_refused(path, target):
    """Catches a file descriptor taken for a path, and an unexplained error of the system."""
    with pytest.raises(TypeError, match="path must be a path"):
        load_model(path)
    with pytest.raises(TypeError, match="path must be a path"):
        save_model(target, path)


# Reading


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_empty_and_special_files_are_refused_by_name(tmp_path, suffix):
    """Catches errors of the system, of zip or of json that do not say which file, and a wait for a named pipe."""
    (tmp_path / f"folder.{suffix}").mkdir()
    (tmp_path / f"empty.{suffix}").touch()
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    cases = {"missing": "No such file", "folder": "is a directory", "empty": "is empty", "pipe": "not a regular file"}
    for name, problem in cases.items():
        path = str(tmp_path / f"{name}.{suffix}")
        with pytest.raises(ModelFileError, match=problem) as caught:
            load_model(path)
        assert caught.value.path == path
        assert path in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_over_the_limit_is_not_read(tmp_path, target, suffix):
    """Catches a limit that is checked after reading, or not at all."""
    path = tmp_path / f"a.{suffix}"
    save_model(target, path)
    with pytest.raises(ModelFileError, match="over the limit of 10; pass max_bytes="):
        load_model(path, max_bytes=10)
    assert load_model(path, max_bytes=5000).d == 2
    with pytest.raises(ValueError, match="max_bytes"):
        load_model(path, max_bytes=0)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_garbage_is_refused(tmp_path, suffix, rng):
    """Catches an error of another type on bytes of no format."""
    path = tmp_path / f"a.{suffix}"
    for content in (b"\0", b"\xff\xfe\xff", b"PK\x03\x04", rng.bytes(1000), b" \n\t\n", b"\xef\xbb\xbf", b"{" * 10**5):
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            load_model(path, **({"vartype": "SPIN"} if suffix == "coo" else {}))


@pytest.mark.parametrize("suffix", ["json", "coo", "uai"])
def test_text_from_other_systems_is_read(tmp_path, target, suffix):
    """Catches a byte order mark or a carriage return taken for content."""
    path = tmp_path / f"a.{suffix}"
    save_model(target, path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_model(path).d == 2


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, target):
    """Catches a limit on the size that another program can get around."""
    path = tmp_path / "a.json"
    save_model(target, path)
    with opened(str(path), 2**20) as source:
        source.size -= 1  # as if the last byte had come later
        with pytest.raises(ModelFileError, match="grew while it was being read"):
            source.text()


# Writing


def test_a_file_that_exists_is_kept_unless_told_otherwise(tmp_path, target):
    """Catches a file that is overwritten by accident, or a refusal that has emptied it already."""
    path = tmp_path / "a.json"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"a\.json exists; pass overwrite=True"):
        save_model(target, path)
    assert path.read_text() == "precious"
    save_model(target, path, overwrite=True)
    assert load_model(path).d == 2
    with pytest.raises(TypeError, match="overwrite must be True or False"):
        save_model(target, path, overwrite=1)


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, target):
    """Catches a half-written file under the name of the model, and temporary files left behind."""
    path = tmp_path / "a.npz"
    path.write_text("precious")
    bad = MRF(np.zeros((2, 2)), labels=[0, b"no text"])
    with pytest.raises(TypeError, match="labels"):
        save_model(bad, path, overwrite=True)
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["a.npz"]
