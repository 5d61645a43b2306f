"""The table of posterior inclusion probabilities."""

import sys

import numpy as np
import pytest

import bouncy
from bouncy.results.inclusion import InclusionTable


def table_of(probability, error=None, labels=None, warnings=()):
    """Return the table of these probabilities."""
    probability = np.asarray(probability)
    error = np.full(probability.size, 0.01) if error is None else np.asarray(error)
    return InclusionTable(tuple(range(probability.size)) if labels is None else labels, probability, error, warnings)


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
    text = str(table_of([0.0, 0.5], warnings=["chains disagree", "1 of 5 sites never moved"]))
    assert text.endswith("\nwarning: chains disagree\nwarning: 1 of 5 sites never moved")


def regression(**options):
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = 3.0 * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(40)
    return X, y, {"labels": ["a", "b", "c"], **options}


def selection(**options):
    X, y, options = regression(**options)
    return bouncy.VariableSelection(X, y, **options)


def spike_slab():
    X, y, options = regression(inclusion=0.2, slab_scale=3.0, noise_scale=0.5)
    return bouncy.SpikeSlab(X, y, **options)


QUICK = {"chains": 2, "draws": 100, "seed": 0, "progress": False}


def test_coefficients_that_may_be_zero():
    """Catches means of coefficients that are taken for probabilities."""
    run = bouncy.sample(spike_slab(), draws=300, seed=0, progress=False)
    table = run.inclusion_table()
    assert table[0].variable == "b"
    assert table[0].probability == 1.0
    assert [row.probability for row in table] == sorted(run.inclusion, reverse=True)


def test_spins_that_select_variables():
    """Catches errors of spins instead of indicators, and variables that are clamped and still listed."""
    run = bouncy.sample(selection(), **QUICK)
    rows = {row.variable: row for row in run.inclusion_table()}
    assert [rows[name].probability for name in "abc"] == ((1.0 + run.mean) / 2.0).tolist()
    assert [rows[name].standard_error for name in "abc"] == (run.mean_se / 2.0).tolist()
    given = bouncy.sample(selection().clamp({"a": +1}).tempered(0.5), **QUICK)
    assert {row.variable for row in given.inclusion_table()} == {"b", "c"}


@pytest.mark.parametrize("build", [selection, spike_slab])
def test_loaded_runs_have_the_same_table(build, tmp_path):
    """Catches a table that needs the target, which a file does not hold."""
    run = bouncy.sample(build(), **QUICK)
    run.save(tmp_path / "run.npz")
    assert str(bouncy.Run.load(tmp_path / "run.npz").inclusion_table()) == str(run.inclusion_table())


@pytest.mark.slow
@pytest.mark.parametrize("around", [selection, spike_slab])
def test_a_block_of_a_scheme_has_a_table(around):
    """Catches a scheme that hides what its block is."""
    update = {"scale": lambda x, parameters, generator: 1.0}
    run = bouncy.sample(bouncy.Within(lambda scale: around(), update, {"scale": 1.0}), **QUICK)
    assert {row.variable for row in run.inclusion_table()} == {"a", "b", "c"}


@pytest.mark.parametrize(
    "target",
    [
        bouncy.MRF.random(3, seed=0),
        bouncy.Gaussian([0.0, 0.0], cov=1.0),
        bouncy.MixedBinaryGaussian([[0.0]], 0.2, precision=[[1.0]], coupling=[[0.5]]),
    ],
)
def test_other_runs_say_that_they_have_none(target, tmp_path):
    """Catches probabilities of variables that are in no model."""
    run = bouncy.sample(target, **QUICK)
    run.save(tmp_path / "run.npz")
    for each in (run, bouncy.Run.load(tmp_path / "run.npz")):
        with pytest.raises(TypeError, match=r"VariableSelection and SpikeSlab; this run is on (MRF|Gaussian|Mixed)"):
            each.inclusion_table()


def test_the_class_is_no_public_name():
    """Catches a user of an earlier version who has to search for what became of it."""
    with pytest.raises(AttributeError, match=r"no attribute 'InclusionTable'; use run.inclusion_table\(\)"):
        bouncy.InclusionTable  # noqa: B018
    assert "InclusionTable" not in dir(bouncy)
