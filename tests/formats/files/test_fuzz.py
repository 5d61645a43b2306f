"""Damaged files are refused or are models: no other error, no hang (deterministic, fixed seeds)."""

import io

import numpy as np
import pytest

from bouncy.formats.files import ModelFileError, as_coo, as_json, as_npz, as_uai
from bouncy.formats.files._source import Source
from bouncy.targets.contract import Target
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial
from conftest import base_seed
from formats.files.models import contents

DENSE = MRF(
    [[0.0, -1.5, 0.25], [-1.5, 0.0, 1e-3], [0.25, 1e-3, 0.0]], [0.5, 0.0, -1.0], offset=2.0, labels=["a", 1, None]
)
SPARSE = MRF.ising((2, 3), field=0.5)
GRAPH = FactorGraph([((0, 1, 2), np.arange(8.0).reshape(2, 2, 2)), ((1,), [0.5, 2.0])])
CASES = {
    "npz-dense": (as_npz, DENSE),
    "npz-sparse": (as_npz, SPARSE),
    "json-mrf": (as_json, DENSE),
    "json-polynomial": (as_json, Polynomial({(0, 1, 2): -1.0, (1,): 0.5})),
    "json-graph": (as_json, GRAPH),
    "coo": (as_coo, SPARSE),
    "uai-mrf": (as_uai, SPARSE),
    "uai-graph": (as_uai, GRAPH),
}
FLIPS = 400


def outcome(form, content):
    """Return the model that bytes hold, or None where they are refused; any other error fails the test."""
    try:
        target = form.load(Source("damaged", io.BytesIO(content), len(content), 2**20))
    except ModelFileError:
        return None
    assert isinstance(target, Target)
    assert target.d == len(target.labels) >= 1
    return target


def whole(case):
    form, target = CASES[case]
    file = io.BytesIO()
    form.save(target, file)
    return form, file.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_truncated_files_are_refused_or_the_same_model(case):
    """Catches a last number that lost digits, and errors of zip, json or numpy that come through."""
    form, content = whole(case)
    expected = contents(outcome(form, content))
    for length in {*range(1, len(content), max(1, len(content) // 300)), *range(len(content) - 100, len(content))}:
        target = outcome(form, content[:length])
        assert target is None or contents(target) == expected


@pytest.mark.parametrize("case", CASES)
def test_files_with_flipped_bytes_are_refused_or_models(case):
    """Catches errors of other kinds, endless loops, and memory without bound, on bytes that are slightly wrong."""
    form, content = whole(case)
    rng = np.random.default_rng([base_seed(), sorted(CASES).index(case)])
    for _ in range(FLIPS):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        outcome(form, bytes(damaged))


@pytest.mark.parametrize("case", CASES)
def test_files_with_shuffled_pieces_are_refused_or_models(case):
    """Catches what flips of single bytes do not make: numbers that grow, parts that are there twice or not at all."""
    form, content = whole(case)
    rng = np.random.default_rng([base_seed(), 100 + sorted(CASES).index(case)])
    for _ in range(FLIPS // 2):
        a, b, c, d = np.sort(rng.integers(0, len(content), 4))
        outcome(form, content[:a] + content[c:d] + content[a:b] + content[c:])
        outcome(form, content[:a] + content[a:b] * 3 + content[b:])
        outcome(form, content[:a] + b"9" * int(rng.integers(1, 30)) + content[a:])


@pytest.mark.parametrize("case", ["npz-dense", "npz-sparse"])
def test_flipped_bytes_of_an_archive_do_not_change_the_model(case):
    """Catches a reader that leaves the archive's checksums unread: a model with wrong numbers would be used."""
    form, content = whole(case)
    target = CASES[case][1]
    rng = np.random.default_rng([base_seed(), 200])
    for place in rng.permutation(len(content))[:FLIPS]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        back = outcome(form, bytes(damaged))
        assert back is None or contents(back) == contents(target)
