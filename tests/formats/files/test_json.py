"""JSON documents: written by hand, laid out for reading, and malformed (deterministic)."""

import io
import json

import numpy as np
import pytest

from bouncy.formats.files import ModelFileError, as_json
from bouncy.formats.files._source import Source
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial
from bouncy.targets.rbm import RBM

HEAD = {"format": "bouncy-model", "version": 1}
FIELD = HEAD | {"kind": "mrf", "storage": "dense", "fields": [0.5, 0, -1], "couplings": [[0, 2, -1.5], [1, 0, 2]]}
TERMS = HEAD | {"kind": "polynomial", "vartype": "BINARY", "d": 3, "terms": [[[2, 0, 1], 1.5], [[], 2]]}
GRAPH = HEAD | {"kind": "factor-graph", "d": 2, "log": False, "factors": [[[1, 0], [1, 2, 0, 4]]]}
MACHINE = HEAD | {"kind": "rbm", "units": "spin", "W": [[1, 2], [3, 4]], "b": [5, 6], "c": [7, 8]}


def load_text(text, max_bytes=2**20):
    content = text if isinstance(text, bytes) else text.encode()
    return as_json.load(Source("a.json", io.BytesIO(content), len(content), max_bytes))


def load(document, **changes):
    """Return the target of a document with some fields changed; those changed to ... are left out."""
    content = {name: value for name, value in (document | changes).items() if value is not ...}
    return load_text(json.dumps(content))


def test_a_field_written_by_hand_is_read():
    """Catches another sign or a factor 2 in the couplings, and pairs that must be in one order."""
    target = load(FIELD, labels=["a", ["b", 1], None])
    assert target.labels == ("a", ("b", 1), None)
    assert np.array_equal(target.M, [[0, 2, -1.5], [2, 0, 0], [-1.5, 0, 0]])
    assert np.array_equal(target.r, [0.5, 0, -1])
    assert target.log_prob([1, 1, 1]) == -(0.5 - 1) - (-1.5 + 2)
    assert load(FIELD, storage="sparse").is_sparse


def test_other_kinds_written_by_hand_are_read():
    """Catches fields of one kind that end in the wrong argument."""
    assert load(TERMS).to_dict() == Polynomial({(0, 1, 2): 1.5, (): 2}, vartype="BINARY", d=3).to_dict()
    (scope, table) = load(GRAPH).factors[0]
    assert scope == (1, 0)
    assert np.array_equal(table, FactorGraph([((1, 0), [[1, 2], [0, 4]])], d=2).factors[0][1])
    machine = load(MACHINE)
    assert np.array_equal(machine.W, [[1, 2], [3, 4]])
    assert (machine.b.tolist(), machine.c.tolist(), machine.units) == ([5, 6], [7, 8], "spin")


def test_the_layout_has_one_row_to_a_line():
    """Catches a document of one long line, or with one number per line, which are hard to compare."""
    file = io.BytesIO()
    as_json.save(MRF([[0.0, -1.5], [-1.5, 0.0]], [0.1, 0.0]), file)
    assert file.getvalue().decode() == (
        '{\n  "format": "bouncy-model",\n  "version": 1,\n  "kind": "mrf",\n  "storage": "dense",\n  "offset": 0.0,\n'
        '  "fields": [0.1, 0.0],\n  "couplings": [\n    [0, 1, -1.5]\n  ]\n}\n'
    )


MALFORMED = {
    "other format": (FIELD, {"format": "bouncy"}, "format", "must be 'bouncy-model', got 'bouncy'"),
    "no format": (FIELD, {"format": ...}, "format", "is missing"),
    "newer version": (FIELD, {"version": 2}, "version", "is 2; this version of bouncy reads 1"),
    "true version": (FIELD, {"version": True}, "version", "is True"),
    "unknown kind": (FIELD, {"kind": "potts"}, "kind", "must be .*'mrf' or .*, got 'potts'"),
    "no kind": (FIELD, {"kind": ["mrf"]}, "kind", "got a list of 1"),
    "unknown field": (FIELD, {"colour": 1}, "'colour'", "is not a field here; known are .*couplings"),
    "storage": (FIELD, {"storage": "full"}, "storage", "must be 'dense' or 'sparse'"),
    "offset": (FIELD, {"offset": "1"}, "offset", "must be a number, got '1'"),
    "no fields": (FIELD, {"fields": ...}, "fields", "is missing"),
    "field no list": (FIELD, {"fields": 0}, "fields", "must be a list, got 0"),
    "field no number": (FIELD, {"fields": [0, None, 1]}, "fields[1]", "must be a number, got None"),
    "field a flag": (FIELD, {"fields": [0, 1, True]}, "fields[2]", "must be a number, got True"),
    "huge field": (FIELD, {"fields": [0, 10**400, 1]}, "fields[1]", "fits in a float64"),
    "no sites": (FIELD, {"fields": [], "couplings": []}, None, "at least one site"),
    "coupling no list": (FIELD, {"couplings": [[0, 1, 2.0], 3]}, "couplings[1]", "must be a list, got 3"),
    "short coupling": (FIELD, {"couplings": [[0, 1]]}, "couplings[0]", "must have 3 entries, got 2"),
    "site outside": (FIELD, {"couplings": [[0, 3, 1.0]]}, "couplings[0][1]", "from 0 to 2, got 3"),
    "site negative": (FIELD, {"couplings": [[-1, 2, 1.0]]}, "couplings[0][0]", "from 0 to 2, got -1"),
    "site fractional": (FIELD, {"couplings": [[0.0, 2, 1.0]]}, "couplings[0][0]", "from 0 to 2, got 0.0"),
    "value": (FIELD, {"couplings": [[0, 1, 1.0], [0, 2, "x"]]}, "couplings[1][2]", "must be a number, got 'x'"),
    "itself": (FIELD, {"couplings": [[0, 1, 1.0], [2, 2, 1.0]]}, "couplings[1]", "couples site 2 to itself"),
    "again": (FIELD, {"couplings": [[0, 1, 1.0], [0, 2, 1], [1, 0, 1.0]]}, "couplings[2]", "sites 1 and 0 again"),
    "lattice": (FIELD, {"lattice": [2, 2]}, "lattice", "a lattice of 3 sites"),
    "lattice of words": (FIELD, {"lattice": ["3"]}, "lattice", "a lattice of 3 sites"),
    "few labels": (FIELD, {"labels": ["a"]}, "labels", "each of the 3 sites, got 1"),
    "equal labels": (FIELD, {"labels": ["a", "b", "a"]}, None, "different from each other"),
    "label an object": (FIELD, {"labels": ["a", {}, "b"]}, "labels[1]", "must be text"),
    "overflow": (FIELD, {"couplings": [[0, 1, 1e308], [0, 2, 1e308]]}, None, "overflows"),
    "too dense": (FIELD, {"fields": [0] * 1000}, "fields", r"asks for about 8e\+06 bytes, over the limit of 1048576"),
    "vartype": (TERMS, {"vartype": "INTEGER"}, "vartype", "must be 'SPIN' or 'BINARY'"),
    "temperature": (TERMS, {"temperature": 0}, None, "temperature must be"),
    "d in words": (TERMS, {"d": "3"}, "d", "must be an integer >= 1, got '3'"),
    "d none": (TERMS, {"d": 0}, "d", "must be an integer >= 1, got 0"),
    "d absurd": (TERMS, {"d": 10**30}, "d", "asks for about 6.4e\\+31 bytes"),
    "term outside": (TERMS, {"terms": [[[0, 3], 1]]}, "terms[0][0][1]", "from 0 to 2, got 3"),
    "term repeats": (TERMS, {"terms": [[[0, 1, 0], 1]]}, "terms[0][0][2]", "is the site 0, which was named before"),
    "coefficient": (TERMS, {"terms": [[[0], []]]}, "terms[0][1]", "must be a number, got a list of 0"),
    "log": (GRAPH, {"log": 1}, "log", "must be True or False, got 1"),
    "null without log": (GRAPH, {"factors": [[[0], [None, 1]]]}, "factors[0][1][0]", "must be a number, got None"),
    "table size": (GRAPH, {"factors": [[[0, 1], [1, 2]]]}, "factors[0][1]", r"2\^2 entries, for 2 variables, got 2"),
    "negative": (GRAPH, {"factors": [[[0], [1, -1]]]}, None, "-1"),
    "all zeros": (GRAPH, {"factors": [[[0], [0, 0]]]}, None, "zero"),
    "few rows": (MACHINE, {"W": [[1, 2]]}, "W", "must have 2 entries, got 1"),
    "ragged": (MACHINE, {"W": [[1, 2], [3]]}, "W[1]", "must have 2 entries, got 1"),
    "weight": (MACHINE, {"W": [[1, 2], [3, {}]]}, "W[1][1]", "must be a number, got an object"),
}


@pytest.mark.parametrize(("document", "changes", "field", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_fields_are_named(document, changes, field, problem):
    """Catches values that are silently converted, fields that are ignored, and errors without the field."""
    with pytest.raises(ModelFileError, match=problem) as caught:
        load(document, **changes)
    assert caught.value.field == field


TEXTS = {
    "NaN": ('{"offset": NaN}', None, "NaN is not JSON"),
    "infinity": ('{"offset": -Infinity}', None, "-Infinity is not JSON"),
    "twice": ('{"format": 1, "format": 2}', None, "the field 'format' is there more than once"),
    "cut": ('{"format":\n "bouncy', 2, "is not JSON: Unterminated string"),
    "comma": ('{"a": 1,\n\n}', 3, "is not JSON"),
    "list": ("[1, 2]", None, "must hold an object, .* got a list of 2"),
    "deep": ("[" * 10**5, None, "is nested too deeply"),
    "deep objects": ('{"a":' * 10**5, None, "is nested too deeply"),
    "long integer": ('{"version": ' + "9" * 10**4 + "}", None, "4300 digits"),
    "latin": ('{"ä": 1}'.encode("latin-1"), None, "is not UTF-8"),
}


@pytest.mark.parametrize(("text", "line", "problem"), TEXTS.values(), ids=TEXTS)
def test_malformed_documents_are_refused(text, line, problem):
    """Catches what Python's parser lets through, and the errors that it raises."""
    with pytest.raises(ModelFileError, match=problem) as caught:
        load_text(text)
    assert caught.value.line == line


def test_labels_of_a_machine_may_be_left_out():
    """Catches labels that are lost or demanded where the kind has its own."""
    assert load(MACHINE).labels == RBM(np.zeros((2, 2))).labels
    assert load(MACHINE, labels=[3, 2, 1, 0]).labels == (3, 2, 1, 0)
