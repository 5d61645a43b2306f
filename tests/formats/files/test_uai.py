"""UAI files: networks written by hand with answers by brute force, evidence, and malformed files (deterministic)."""

import io
from itertools import product

import numpy as np
import pytest

from bouncy.formats.files import ModelFileError, as_uai, load_model, save_model
from bouncy.formats.files._source import Source
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF

# A pairwise network of three variables, with lines that end anywhere.
PAIRWISE = """MARKOV
3
2 2 2
4
1 0   2 0 1
2 2 1
0

2  1.0 3e0
4
 1 2
 4 .5
4  0.25 1 2 5e-1
1 2.5
"""

# Sprinkler: rain, sprinkler given rain, wet given sprinkler and rain. The probabilities are those of the textbook.
SPRINKLER = """c a comment
BAYES
3
2 2 2
3
1 0
2 0 1
3 1 0 2

2
 0.8 0.2

4
 0.6 0.4
 0.99 0.01

8
 1.0 0.0
 0.2 0.8
 0.1 0.9
 0.01 0.99
"""


def load_text(text, **options):
    content = text if isinstance(text, bytes) else text.encode()
    return as_uai.load(Source("a.uai", io.BytesIO(content), len(content), 2**20), **options)


def probabilities(target):
    """Return p of all states, an array with an axis of 2 for each variable, state 0 before state 1."""
    spins = np.array(list(product([-1, 1], repeat=target.d)))
    return np.exp(target.log_prob(spins)).reshape((2,) * target.d)


def test_a_file_of_others_may_end_without_a_newline():
    """Catches files of other programs refused for lack of an end that only we write."""
    assert np.array_equal(probabilities(load_text(PAIRWISE.rstrip())), probabilities(load_text(PAIRWISE)))


def test_a_pairwise_network_has_the_weights_of_its_tables():
    """Catches tables read in the wrong order of variables or states, and a constant that is lost."""
    target = load_text(PAIRWISE)
    assert type(target) is MRF
    a, ab, cb = [1.0, 3.0], [[1.0, 2.0], [4.0, 0.5]], [[0.25, 1.0], [2.0, 0.5]]
    expected = [[[a[x] * ab[x][y] * cb[z][y] * 2.5 for z in (0, 1)] for y in (0, 1)] for x in (0, 1)]
    assert np.allclose(probabilities(target), expected, rtol=1e-13, atol=0)


def test_a_bayesian_network_has_the_known_joint_probabilities():
    """Catches a child that is not taken for the last variable, and zeros that do not stay zeros."""
    target = load_text(SPRINKLER)
    assert type(target) is FactorGraph
    joint = probabilities(target)
    assert np.isclose(joint.sum(), 1, rtol=1e-13)
    assert joint[0, 0, 1] == 0  # wet grass without rain or sprinkler
    assert np.isclose(joint[1, 0, 1], 0.2 * 0.99 * 0.8)
    assert np.isclose(joint[1, :, 1].sum() / joint[:, :, 1].sum(), 0.3577, atol=5e-5)  # rain, given wet grass


@pytest.mark.parametrize("text", ["1 2 1", "1\n1 2 1\n", "1\n2\n1"])
def test_evidence_clamps_the_network(tmp_path, text):
    """Catches the two forms of evidence files taken for each other, and states 0/1 taken for spins."""
    (tmp_path / "a.uai.evid").write_text(text)
    joint = probabilities(load_text(SPRINKLER))
    given = load_text(SPRINKLER, evidence=tmp_path / "a.uai.evid")
    assert given.labels == (0, 1)
    assert np.allclose(probabilities(given), joint[:, :, 1], rtol=1e-13)


def test_no_evidence_changes_nothing(tmp_path):
    """Catches an empty set of evidence taken for a malformed one."""
    (tmp_path / "e").write_text("0")
    assert load_text(PAIRWISE, evidence=tmp_path / "e").d == 3


EVIDENCE = {
    "two sets": ("2\n1 0 1\n1 0 0\n0", 1, "expected 1 set of evidence, got 2"),
    "no such variable": ("1 3 1", 1, "from 0 to 2, got '3'"),
    "no such state": ("1 0 2", 1, "the state of variable 0: expected an integer from 0 to 1, got '2'"),
    "twice": ("2\n0 1\n0 1\n", 3, "variable 0 is observed more than once"),
    "short": ("3 0 1 1 1", 1, "the file ends where an observed variable should be"),
    "long": ("1 0 1\n1 1", 2, "expected nothing after the last observed variable, got '1'"),
    "all": ("3 0 1 1 1 2 1", None, "clamps all 3 sites"),
}


@pytest.mark.parametrize(("text", "line", "problem"), EVIDENCE.values(), ids=EVIDENCE)
def test_errors_in_evidence_name_its_own_file(tmp_path, text, line, problem):
    """Catches evidence that is half applied, and an error that names the network's file."""
    (tmp_path / "evidence").write_text(text)
    with pytest.raises(ModelFileError, match=problem) as caught:
        load_text(PAIRWISE, evidence=tmp_path / "evidence")
    assert caught.value.line == line
    assert caught.value.path == str(tmp_path / "evidence")


MALFORMED = {
    "unknown kind": ("FACTOR\n3", 1, "expected MARKOV or BAYES, got 'FACTOR'"),
    "kind alone": ("MARKOV\n", 1, "the file ends where the number of variables should be"),
    "no variables": ("MARKOV\n0\n0\n", 2, "at least 1, got 0"),
    "negative": ("MARKOV\n-1\n", 2, "expected an integer >= 0, got '-1'"),
    "fractional": ("MARKOV\n1.0\n", 2, "expected an integer >= 0, got '1.0'"),
    "absurd number": ("MARKOV\n999999999999999999\n2 2\n", 3, "ends where the number of states of variable 2"),
    "three states": ("MARKOV\n2\n2 3\n0\n", 3, "variable 1 has 3 states; only binary"),
    "one state": ("MARKOV\n2\n1 2\n0\n", 3, "variable 0 has 1 states; only binary"),
    "no such variable": ("MARKOV\n2\n2 2\n1\n2 0 2\n", 5, "a variable of function 0: .* from 0 to 1, got '2'"),
    "repeated variable": ("MARKOV\n2\n2 2\n1\n2 1 1\n", 5, "has the variable 1 more than once"),
    "large clique": ("MARKOV\n2\n2 2\n1\n21 0 1\n", 5, "function 0 has 21 variables; at most 20"),
    "wrong size": ("MARKOV\n2\n2 2\n1\n2 0 1\n\n3\n1 2 3\n", 7, "table of function 0 has 3 entries; expected 4"),
    "short table": ("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n1 2\n3\n\n", 9, "ends where entry 3 of the table of function 0"),
    "not a number": ("MARKOV\n1\n2\n1\n1 0\n2\n1\none", 8, "entry 1 of the table of function 0: .* got 'one'"),
    "negative entry": ("MARKOV\n1\n2\n1\n1 0\n2 -1\n1", 6, "entry 0 of .*: expected a number >= 0, got -1"),
    "nan": ("MARKOV\n1\n2\n1\n1 0\n2 nan 1", 6, "finite number, got 'nan'"),
    "infinite": ("MARKOV\n1\n2\n1\n1 0\n2 1e999 1", 6, "finite number, got '1e999'"),
    "all zeros": ("MARKOV\n1\n2\n1\n1 0\n2 0 0", 6, "is all zeros"),
    "more": ("MARKOV\n1\n2\n1\n1 0\n2 1 1\n\n7\n", 8, "expected nothing after the last of 1 tables, got '7'"),
    "two parents": ("BAYES\n2\n2 2\n2\n1 0\n1 0\n", 6, "functions 0 and 1 of a BAYES network are about variable 0"),
    "orphan": ("BAYES\n2\n2 2\n1\n1 0\n2 1 0", 5, "no function of the BAYES network is about variable 1"),
    "about nothing": ("BAYES\n1\n2\n1\n0\n1 1", 5, "has no variables"),
    "sums": ("BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2 .5 .5\n4 .5 .5 .6 .6", 8, "entries 2 and 3 of .* add up to 1, got 1.2"),
    "binary": (b"MARKOV\n1\n2\n\x00\xff\n", 4, r"got '\\x00\\\\xff'"),
}


@pytest.mark.parametrize(("text", "line", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_networks_are_named_by_line(text, line, problem):
    """Catches tables that slip by one word, memory asked for by a number in a file, and errors without the line."""
    with pytest.raises(ModelFileError, match=problem) as caught:
        load_text(text)
    assert caught.value.line == line


def test_a_network_without_functions_is_uniform():
    """Catches an unexplained error from an empty list of tables."""
    target = load_text("MARKOV\n2\n2 2\n0\n")
    assert np.array_equal(target.r, [0, 0])
    assert target.offset == 0


def test_the_last_table_of_ones_is_left_out():
    """Catches a graph that grows by a table whenever it is saved, and a table of a BAYES network that is lost."""
    graph = FactorGraph([((0, 1, 2), np.arange(1.0, 9.0).reshape(2, 2, 2))])
    for _ in range(2):
        file = io.BytesIO()
        as_uai.save(graph, file)
        assert file.getvalue().endswith(b"\n2\n1.0 1.0\n")
        graph = load_text(file.getvalue())
        assert len(graph.factors) == 1
    with pytest.raises(ModelFileError, match="add up to 1"):
        load_text("BAYES\n1\n2\n1\n1 0\n2 1 1")


def test_potentials_that_do_not_fit_are_refused(tmp_path):
    """Catches a coupling that is written as 0 or inf, which is read as a forbidden state or not at all."""
    with pytest.raises(ValueError, match=r"sites \(0, 1\) is exp\(-800\).*save as \.json"):
        save_model(MRF([[0.0, 800.0], [800.0, 0.0]]), tmp_path / "a.uai")
    assert list(tmp_path.iterdir()) == []


def test_labels_are_refused_or_replaced(tmp_path):
    """Catches names that are dropped without asking."""
    target = MRF(np.zeros((2, 2)), labels=["a", "b"])
    with pytest.raises(ValueError, match=r"cannot keep the labels \('a', 'b'\); pass renumber=True"):
        save_model(target, tmp_path / "a.uai")
    save_model(target, tmp_path / "a.uai", renumber=True)
    assert load_model(tmp_path / "a.uai").labels == (0, 1)
