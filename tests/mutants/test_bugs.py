"""Every planted bug still fits the sources, and names tests that exist."""

import re
from pathlib import Path

import pytest

from mutants.bugs import BUGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.number for bug in BUGS])
def test_every_planted_text_occurs_exactly_once(bug):
    """Would catch a change of the sources that leaves a bug unplantable, so that `make mutants` does not start."""
    for edit in bug.edits:
        source = (ROOT / "src" / "bouncy" / edit.file).read_text(encoding="utf-8")
        assert source.count(edit.old) == 1, f"{edit.file}: {edit.old}"
        assert edit.new != edit.old


@pytest.mark.parametrize("bug", BUGS, ids=[bug.number for bug in BUGS])
def test_the_tests_of_a_bug_exist(bug):
    """Would catch a test that was renamed, without which a bug counts as broken and not as caught."""
    assert bug.tests
    for test in bug.tests:
        file, _, name = test.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        # A whole file will do, too.
        assert not name or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", source, re.MULTILINE), test


def test_numbers_are_unique():
    """Would catch two bugs that share a directory."""
    assert len({bug.number for bug in BUGS}) == len(BUGS)
