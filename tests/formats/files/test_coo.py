"""COO files against dimod's own reader and writer, and malformed ones (deterministic)."""

import io

import dimod
import numpy as np
import pytest
from dimod.serialization import coo
from hypothesis import given, settings
from hypothesis import strategies as st

from bouncy.enumeration import states
from bouncy.formats.files import ModelFileError, as_coo, load_model, save_model
from bouncy.formats.files._source import Source
from bouncy.targets.mrf import MRF

UNEVEN = [1e-7, -3.25e-12, 1.0, 1234.0625, 0.0, 1e-3]


def energies(target):
    """Return -log p of all states, in the order of `states`."""
    return -target.log_prob(states(target.d))


def energies_by_dimod(bqm, labels):
    """Return dimod's energies of all states, in the order of `states` over these labels."""
    spins = states(len(labels))
    samples = spins if bqm.vartype is dimod.SPIN else (spins + 1) // 2
    return bqm.energies((samples, list(labels)))


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
@pytest.mark.parametrize("number", range(8))
def test_what_dimod_writes_is_read(tmp_path, vartype, number, rng):
    """Catches another sign, a factor 2 in the pairs, labels in another order than reported, and gaps in them filled."""
    labels = sorted(rng.choice(10**6, 5, replace=False).tolist())
    linear = {u: rng.normal() for u in labels}
    quadratic = {(u, v): rng.normal() for u in labels for v in labels if u < v and rng.random() < 0.6}
    text = coo.dumps(dimod.BinaryQuadraticModel(linear, quadratic, 0.0, vartype), vartype_header=True)
    path = tmp_path / "a.coo"
    path.write_text(text)
    target = load_model(path)
    assert target.labels == tuple(labels)
    assert np.allclose(energies(target), energies_by_dimod(coo.loads(text), labels), rtol=0, atol=1e-12)
    hot = load_model(path, temperature=2.0)
    assert np.allclose(2 * energies(hot), energies(target), rtol=0, atol=1e-12)


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_dimod_reads_what_is_written(tmp_path, vartype):
    """Catches numbers with exponents, which dimod leaves out in silence, and sites without terms."""
    M = np.zeros((5, 5))
    M[np.triu_indices(4, 1)] = UNEVEN
    target = MRF(M + M.T, [1e-9, 0.5, 0.0, 2e2, 0.0], offset=1.5, labels=[7, 3, 11, 0, 5])
    path = tmp_path / "a.coo"
    save_model(target, path, vartype=vartype)
    with path.open() as file:
        bqm = coo.load(file)
    assert set(bqm.variables) == set(target.labels)
    assert bqm.vartype.name == vartype
    # the constant is in a comment that dimod passes over
    difference = energies(target) - energies_by_dimod(bqm, target.labels)
    assert np.allclose(difference, difference[0], rtol=0, atol=1e-11)
    if vartype == "SPIN":
        assert bqm.linear == dict(zip(target.labels, target.r, strict=True))
        assert all(bqm.get_quadratic(7, v) == M[0, k] for k, v in [(1, 3), (2, 11), (3, 0)])


def test_terms_on_the_same_pair_add_up_as_in_dimod(tmp_path):
    """Catches a term that replaces another, and a reader for which u v and v u differ."""
    text = "0 1 1\n1 0 2\n0 0 3\n0 0 0.5\n"
    (tmp_path / "a.coo").write_text(text)
    target = load_model(tmp_path / "a.coo", vartype="SPIN")
    bqm = coo.loads(text, vartype="SPIN")
    assert np.array_equal(energies(target), energies_by_dimod(bqm, (0, 1)))


def test_files_that_do_not_declare_their_terms_may_end_without_a_newline():
    """Catches files of other programs refused for lack of a comment that only we write."""
    assert load_text("0 1 1\n0 0 2.5", vartype="SPIN").r.tolist() == [2.5, 0.0]


def load_text(text, **options):
    content = text if isinstance(text, bytes) else text.encode()
    return as_coo.load(Source("a.coo", io.BytesIO(content), len(content), 2**20), **options)


def test_comments_blank_lines_and_headers_are_found_anywhere():
    """Catches a header that only counts on the first line, and comments taken for terms."""
    target = load_text("\n# made by hand\n  0   1\t2.5 \n\n # vartype: SPIN\n# offset=-1.5\n1 1 +1e-2\n")
    assert np.array_equal(target.M, [[0, 2.5], [2.5, 0]])
    assert np.array_equal(target.r, [0, 0.01])
    assert target.offset == 1.5


@pytest.mark.parametrize("vartype", ["SPIN", dimod.SPIN])
def test_without_a_header_the_vartype_must_be_given(vartype):
    """Catches a guess at the vartype, which would change the model."""
    with pytest.raises(ModelFileError, match="pass vartype='SPIN'"):
        load_text("0 1 1\n")
    assert load_text("0 1 1\n", vartype=vartype).M[0, 1] == 1
    with pytest.raises(ModelFileError, match="line 1: vartype is BINARY here, but SPIN before"):
        load_text("# vartype=BINARY\n0 1 1\n", vartype=vartype)


@pytest.mark.parametrize("vartype", ["spin", 1, "ISING"])
def test_wrong_arguments_are_not_errors_of_the_file(vartype):
    """Catches an error that sends the user to the file when the call was wrong."""
    with pytest.raises(ValueError, match="vartype must be 'SPIN'") as caught:
        load_text("0 1 1\n", vartype=vartype)
    assert type(caught.value) is ValueError
    with pytest.raises(ValueError, match="temperature must be") as caught:
        load_text("0 1 1\n", vartype="SPIN", temperature=0)
    assert type(caught.value) is ValueError


MALFORMED = {
    "two entries": ("0 1\n", 1, "expected 'u v bias', got 2 entries: '0 1'"),
    "four entries": ("0 1 2\n0 1 2 3\n", 2, "got 4 entries"),
    "comment behind": ("0 1 2\n\n0 1 2 # no\n", 3, "got 5 entries"),
    "negative label": ("0 1 2\n0 -1 2\n", 2, "expected an integer >= 0, got '-1'"),
    "fractional label": ("0 1.0 2\n", 1, "expected an integer >= 0, got '1.0'"),
    "label in words": ("a b 2\n", 1, "expected an integer >= 0, got 'a'"),
    "huge label": (f"0 {10**18} 2\n", 1, r"below 10\^18"),
    "absurd label": (f"0 {'9' * 10**4} 2\n", 1, r"below 10\^18, got '9{40}'\.\.\."),
    "nan": ("0 1 nan\n", 1, "expected a finite number, got 'nan'"),
    "infinity": ("0 1 2\n0 1 -inf\n", 2, "finite number, got '-inf'"),
    "overflow": ("0 1 2\n0 1 1e999\n", 2, "finite number, got '1e999'"),
    "underscore": ("0 1 1_0\n", 1, "finite number, got '1_0'"),
    "hexadecimal": ("0 1 0x10\n", 1, "finite number, got '0x10'"),
    "digits of others": ("0 ١ 2\n".encode(), 1, r"got '\\\\xd9\\\\xa1'"),
    "control": (b"0 1 2\n0 1 \x00\n", 2, "finite number"),
    "old line ends": (b"0 1 2\r0 1 3\r", 1, "got 6 entries"),
    "unknown vartype": ("0 1 2\n# vartype=INTEGER\n", 2, "must be SPIN or BINARY, got 'INTEGER'"),
    "two vartypes": ("# vartype=SPIN\n\n# vartype=BINARY\n", 3, "vartype is BINARY here, but SPIN before"),
    "two offsets": ("# offset=1\n# offset=1\n0 0 1\n", 2, "a second time"),
    "offset in words": ("0 0 1\n# offset=one\n", 2, "finite number, got 'one'"),
    "two counts": ("# terms=1\n# terms=1\n0 0 1\n", 2, "gives terms a second time"),
    "count in words": ("# terms=-1\n0 0 1\n", 1, "an integer >= 0, got '-1'"),
    "fewer than declared": ("# terms=3\n0 0 1\n0 1 2\n", None, "has 2 terms, but a comment declares terms=3: .* trunc"),
    "more than declared": ("0 0 1\n0 1 2\n# terms=1\n", None, "has 2 terms, but .* comment should be removed"),
    "last line cut": ("# terms=2\n0 0 1\n0 1 2", None, "does not end with a newline, but a comment declares terms=2"),
    "no terms": ("# vartype=SPIN\n\n", None, "holds no terms"),
    "sums overflow": ("0 1 1e308\n0 1 1e308\n", None, "overflows a float64"),
}


@pytest.mark.parametrize(("text", "line", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_lines_are_named(text, line, problem):
    """Catches lines that are left out in silence, as dimod does, and errors without the line."""
    with pytest.raises(ModelFileError, match=problem) as caught:
        load_text(text, vartype=None if b"vartype" in (text if isinstance(text, bytes) else text.encode()) else "SPIN")
    assert caught.value.line == line


def test_the_line_of_an_error_deep_in_a_file_is_exact():
    """Catches a count of lines that forgets comments, blank lines or blocks."""
    lines = ["# vartype=SPIN", "", *(f"{k} {k + 1} 0.5" for k in range(30_000))]
    lines[20_000] = "1 2 O.5"
    with pytest.raises(ModelFileError, match=r"line 20001: .* got 'O\.5'"):
        load_text("\n".join(lines))


LINES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 99), st.integers(0, 99), st.floats(allow_nan=False, allow_infinity=False)).map(
            lambda term: "{} {} {!r}".format(*term)
        ),
        st.text("0123456789+-.eE \t\n", max_size=12),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(lines=LINES)
def test_the_fast_reader_agrees_with_the_careful_one(lines):
    """Catches text that numpy reads and the careful reader refuses, or the other way, and numbers that differ."""
    text = "\n".join(lines).encode()
    try:
        careful = as_coo._read_carefully(Source("a.coo", io.BytesIO(), 0, 1), text)
    except ModelFileError:
        assert not text.strip() or as_coo._read_quickly(text) is None
    else:
        if text.strip():
            assert np.array_equal(as_coo._read_quickly(text), careful)


def test_labels_that_are_not_integers_are_refused_or_replaced(tmp_path):
    """Catches names that are dropped without asking."""
    target = MRF([[0.0, 1.0], [1.0, 0.0]], labels=["a", "b"])
    with pytest.raises(ValueError, match=r"labels\[0\] = 'a'; pass renumber=True"):
        save_model(target, tmp_path / "a.coo")
    save_model(target, tmp_path / "a.coo", renumber=True)
    assert load_model(tmp_path / "a.coo").labels == (0, 1)
