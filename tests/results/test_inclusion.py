"""The table of posterior inclusion probabilities."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import bouncy
from bouncy.results.inclusion import InclusionTable


def table_of(probability, error=None, labels=None, warnings=()):
    """Return the table of a run that found these probabilities."""
    mean = 2.0 * np.asarray(probability) - 1.0
    error = np.full(mean.size, 0.01) if error is None else 2.0 * np.asarray(error)
    target = SimpleNamespace(labels=tuple(range(mean.size)) if labels is None else labels)
    report = {"warnings": list(warnings)}
    return InclusionTable(SimpleNamespace(mean=mean, mean_se=error, target=target, diagnostics=report))


def test_rows_are_sorted_and_keep_what_belongs_together():
    """Would catch names, probabilities and errors that are sorted apart, and errors of spins instead of indicators."""
    table = table_of([0.25, 1.0, 0.5], [0.125, 0.0, 0.25], ["a", "b", "c"])
    assert [tuple(row) for row in table] == [("b", 1.0, 0.0), ("c", 0.5, 0.25), ("a", 0.25, 0.125)]
    assert len(table) == 3
    assert table[-1].variable == "a"


def test_ties_stay_in_the_order_of_the_columns():
    """Would catch a table that looks different from run to run where many variables have probability 0 or 1."""
    assert [row.variable for row in table_of([0.5] * 40 + [1.0])] == [40, *range(40)]


def test_text_is_aligned_and_says_what_it_leaves_out():
    """Would catch columns that shift with the length of names, and hidden rows that nobody hears of."""
    table = table_of([0.9, *np.linspace(0.5, 0.3, 24)], [np.nan] + [0.001] * 24, ["a long name", *range(24)])
    head, first, *rest, last = str(table).splitlines()
    assert len(rest) == 19
    assert len({len(line) for line in (head, first, *rest)}) == 1
    assert first.split() == ["a", "long", "name", "0.9000", "unknown"]
    assert last == "... 5 more, none above 0.3348"
    assert repr(table) == str(table)
    assert len(str(table_of([0.5])).splitlines()) == 2


def test_data_frame():
    """Would catch a data frame whose index or columns are not those of the table."""
    pytest.importorskip("pandas")
    frame = table_of([0.25, 1.0], [0.125, 0.0], ["a", "b"]).to_frame()
    assert list(frame.index) == ["b", "a"]
    assert frame["probability"].tolist() == [1.0, 0.25]
    assert frame["standard_error"].tolist() == [0.0, 0.125]


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    """Would catch a bare ModuleNotFoundError, or pandas needed for a table that is only printed."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = table_of([0.5])
    str(table)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_frame()


def test_warnings_are_printed_below_the_table():
    """Would catch a table that is believed because it hides what the run has to say about its errors."""
    told = ["chains disagree", "1 of 5 sites never moved and are called constant"]
    text = str(table_of([0.0, 0.5], warnings=told))
    assert text.endswith("\nwarning: chains disagree")


def test_a_target_is_not_a_run():
    """Would catch an error that does not say what is expected."""
    with pytest.raises(TypeError, match=r"InclusionTable takes a run, as in .* got MRF"):
        InclusionTable(bouncy.MRF.random(3))


def test_coefficients_that_may_be_zero():
    """Catches means of coefficients that are taken for probabilities."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = 3.0 * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(40)
    target = bouncy.SpikeSlab(X, y, inclusion=0.2, slab_scale=3.0, noise_scale=0.5, labels=["a", "b", "c"])
    run = bouncy.sample(target, draws=300, seed=0, progress=False)
    table = bouncy.InclusionTable(run)
    assert table[0].variable == "b"
    assert table[0].probability == 1.0
    assert [row.probability for row in table] == sorted(run.inclusion, reverse=True)
