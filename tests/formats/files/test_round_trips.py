"""Round trips through every format, for every kind of target (deterministic, by hypothesis)."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bouncy.formats.files import as_coo, as_json, as_npz, as_uai, load_model, save_model
from bouncy.formats.files._source import Source
from bouncy.targets.mrf import MRF
from formats.files.models import contents, dense, factor_graphs, mrfs, polynomials, rbms

few = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.integers(0, 10**12)


def written(form, target, **options):
    """Return the bytes that a format makes of a target."""
    file = io.BytesIO()
    form.save(target, file, **options)
    return file.getvalue()


def read(form, content, **options):
    """Return the target that a format makes of bytes."""
    return form.load(Source("memory", io.BytesIO(content), len(content), 2**28), **options)


def there_and_back(form, target, **options):
    return read(form, written(form, target, **options))


@few
@given(target=mrfs())
def test_npz_gives_back_every_bit(target):
    """Catches a lost label, offset, shape or storage, and numbers that change on the way."""
    assert contents(there_and_back(as_npz, target)) == contents(target)


@few
@given(target=st.one_of(mrfs(), polynomials(), factor_graphs(), rbms()))
def test_json_gives_back_every_bit(target):
    """Catches numbers written with too few digits, lost zeros of tables, terms in another order, and lost labels."""
    assert contents(there_and_back(as_json, target)) == contents(target)


@few
@given(target=mrfs(labels=NUMBERS))
def test_coo_gives_back_every_bit_of_spins(target):
    """Catches biases cut to six digits, pairs written twice, isolated sites dropped, and a constant that is lost."""
    back = there_and_back(as_coo, target)
    order = np.argsort(target.labels)
    assert back.labels == tuple(sorted(target.labels))
    assert np.array_equal(dense(back), dense(target)[np.ix_(order, order)])
    assert np.array_equal(back.r, target.r[order])
    assert back.offset == target.offset


@few
@given(target=mrfs(labels=NUMBERS), temperature=st.floats(0.1, 10))
def test_coo_keeps_the_law_in_other_variables_and_units(target, temperature):
    """Catches a temperature that multiplies where it should divide, and a wrong change between 0/1 and -1/+1."""
    content = written(as_coo, target, vartype="BINARY", temperature=temperature)
    back = read(as_coo, content, temperature=temperature)
    order = np.argsort(target.labels)
    assert np.allclose(dense(back), dense(target)[np.ix_(order, order)], rtol=1e-12, atol=1e-12)
    assert np.allclose(back.r, target.r[order], rtol=1e-12, atol=1e-12)
    assert np.isclose(back.offset, target.offset, rtol=1e-12, atol=1e-11)


@few
@given(target=mrfs())
def test_uai_keeps_the_law_of_a_field(target):
    """Catches transposed tables, a swapped sign of a state, and a constant that is lost, beyond the rounding of exp."""
    back = there_and_back(as_uai, MRF(target.M, target.r, offset=target.offset))
    assert type(back) is MRF
    assert np.allclose(dense(back), dense(target), rtol=1e-12, atol=1e-12)
    assert np.allclose(back.r, target.r, rtol=1e-12, atol=1e-12)
    assert np.isclose(back.offset, target.offset, rtol=1e-12, atol=1e-11)


@few
@given(target=factor_graphs())
def test_uai_keeps_the_tables_of_a_graph(target):
    """Catches tables in the wrong order of variables, zeros that become tiny numbers, and a constant that is lost."""
    back = read(as_uai, written(as_uai, target, renumber=True))
    states = np.stack(np.meshgrid(*[[0, 1]] * target.d, indexing="ij"), -1).reshape(-1, target.d)
    assert np.allclose(log_table(back, states), log_table(target, states), rtol=1e-12, atol=1e-11)


def log_table(target, states):
    """Return log p of all states by adding up table entries, or by the formula of a field."""
    if isinstance(target, MRF):
        return target.log_prob(2 * states - 1)
    total = np.zeros(len(states))
    for scope, table in target.factors:
        places = [target.labels.index(label) for label in scope]
        total += table[tuple(states[:, places].T)]
    return total


def test_npz_bytes_do_not_depend_on_when_they_are_written(tmp_path):
    """Catches a date or a random name in the archive, which would make equal models differ by their checksums."""
    for name in ("a.npz", "b.npz"):
        save_model(MRF.random(4), tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("suffix", ["npz", "json", "coo", "uai"])
def test_a_large_sparse_model_stays_sparse(tmp_path, suffix):
    """Catches a reader that makes a dense matrix on the way, or loses the pattern of a lattice."""
    target = MRF.ising((40, 30), coupling=0.25, field=0.5)
    path = tmp_path / f"lattice.{suffix}"
    save_model(target, path)
    back = load_model(path)
    assert back.is_sparse
    assert np.abs(back.M - target.M).max() < 1e-15
    assert np.abs(back.r - target.r).max() < 1e-14


def test_labels_of_numpy_become_those_of_python():
    """Catches labels such as numpy.int64(3), which json cannot write though they equal 3."""
    target = MRF(np.zeros((2, 2)), labels=[np.int64(3), np.str_("a")])
    assert there_and_back(as_json, target).labels == (3, "a")


@pytest.mark.parametrize("form", [as_npz, as_json])
@pytest.mark.parametrize("label", [frozenset([1]), SimpleNamespace, float("inf"), 1j, b"a"])
def test_labels_that_text_cannot_hold_are_refused(form, label):
    """Catches a label that would be pickled, or come back as something else."""
    with pytest.raises((TypeError, ValueError), match=r"labels\[1\] must be"):
        written(form, MRF(np.zeros((2, 2)), labels=[0, label]))
