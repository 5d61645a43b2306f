"""What a summary shows a person, a notebook, pandas and JSON."""

import json
import sys

import numpy as np
import pytest

import bouncy
from bouncy.results.ess import r_hat

STUCK = np.array([[1, 1, 1], [-1, -1, -1]])


@pytest.fixture(scope="module")
def run():
    """Return a run on three sites of which one never moves."""
    labels = ["plain", "<script>alert(1)</script>", ("a", 1)]
    target = bouncy.MRF(np.zeros((3, 3)), [0.1, 40.0, -0.2], labels=labels)
    return bouncy.sample(target, chains=2, draws=100, seed=0)


def sample_stuck(keep="draws"):
    """Return two chains that stay where they began, each in its own state."""
    target = bouncy.MRF(-60.0 * (np.ones((3, 3)) - np.eye(3)))
    with pytest.warns(bouncy.NoFlipWarning):
        return bouncy.sample(target, chains=2, draws=20, initial=STUCK, seed=0, keep=keep)


def test_a_summary_is_returned_and_not_printed(run, capsys):
    """Catches a summary that writes to standard output by itself."""
    summary = run.summary()
    assert capsys.readouterr().out == ""
    assert str(summary) == repr(summary)
    head = next(line for line in str(summary).splitlines() if "mean" in line).split()
    assert head == ["site", "mean", "se", "ess", "rhat", "flips"]


def test_one_of_a_kind_has_no_plural():
    """Catches "1 chains x 1 draws" and the like."""
    run = bouncy.sample(bouncy.MRF.random(2, seed=0), chains=1, draws=1, warmup=1, seed=0)
    text = str(run.summary())
    assert "1 chain x 1 draw, 1 sweep apart, after 1 sweep of warm-up" in text
    assert "1 batch is too few" in text


def test_a_constant_site_has_no_sample_size(run):
    """Catches ESS = N for a site that never moved, in any of the forms of a table."""
    summary = run.summary()
    row = next(line for line in str(summary).splitlines() if "script" in line).split()
    assert row[-3:] == ["constant", "-", "0"]
    frame = summary.to_frame()
    assert np.isnan(frame["ess"].iloc[1])
    assert summary.to_dict()["sites"][1]["ess"] is None


@pytest.mark.parametrize("keep", ["draws", "means"])
def test_stuck_chains_are_called_stuck(keep):
    """Catches an R-hat of 5e15, or a number that looks like one, where every chain keeps its own value."""
    text = str(sample_stuck(keep).summary())
    assert "each is stuck at a value of its own" in text
    assert "e+" not in text
    assert "3 of 3 sites never moved" in text
    assert ("stuck\n" in text.replace("          0", "")) == (keep == "draws")


def test_r_hat_of_stuck_chains_is_infinite():
    """Catches a variance of rounding errors: the mean of a hundred times 0.1 is not 0.1."""
    x = np.repeat([0.1, 0.7, 0.1], 100).reshape(3, 100)
    same = np.full((3, 100), 0.1)
    moving = np.tile([0.0, 1.0], 150).reshape(3, 100)
    found = r_hat(np.stack([x, same, moving], axis=2))
    assert found[0] == np.inf
    assert np.isnan(found[1])
    assert found[2] < 1.0


def test_html_escapes_labels(run):
    """Catches a label that a notebook would run as a program."""
    html = run.summary()._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 4


def test_labels_stay_on_their_line():
    """Catches a label that breaks the table."""
    labels = ["first\nsecond", "a label that is much longer than a column"]
    target = bouncy.MRF(np.zeros((2, 2)), [0.0, 40.0], labels=labels)
    text = str(bouncy.sample(target, chains=1, draws=20, seed=0).summary())
    assert r"first\nsecond" in text
    assert "a label that is much lo…" in text


def test_frame_has_all_sites():
    """Catches a frame cut to the rows that are printed, or with the numbers of other sites."""
    run = bouncy.sample(bouncy.MRF.random(30, seed=0), chains=2, draws=50, seed=0)
    frame = run.summary().to_frame()
    assert list(frame.columns) == ["mean", "se", "ess", "rhat", "flips"]
    assert list(frame.index) == list(range(30))
    np.testing.assert_array_equal(frame["mean"], run.mean)
    np.testing.assert_array_equal(frame["se"], run.mean_se)
    np.testing.assert_array_equal(frame["flips"], run.flips_per_site)
    np.testing.assert_array_equal(frame["ess"], run.diagnostics["ess"]["sites"])
    assert "10 more sites" in str(run.summary())


def test_frame_of_labels(run):
    """Catches a tuple among the labels that turns the index into a table of its own."""
    frame = run.summary().to_frame()
    assert list(frame.index) == list(run.target.labels)
    assert frame.index.name == "site"


def test_frame_of_a_continuous_run():
    """Catches a column that is missing or belongs to another quantity."""
    target = bouncy.SpikeSlab(np.eye(2), [0.3, -2.0], inclusion=0.5, slab_scale=2.0, noise_scale=1.0)
    run = bouncy.sample(target, chains=2, draws=100, seed=0)
    frame = run.summary().to_frame()
    assert list(frame.columns) == ["mean", "se", "sd", "5%", "95%", "inclusion", "ess", "rhat", "flips"]
    np.testing.assert_array_equal(frame["sd"] ** 2, np.sqrt(run.variance) ** 2)
    np.testing.assert_array_equal(frame["95%"], run.quantile(0.95)[0])
    np.testing.assert_array_equal(frame["inclusion"], run.inclusion)
    np.testing.assert_array_equal(frame["flips"], run.flips_per_site)


@pytest.mark.parametrize("seed", [3, np.random.SeedSequence(3).spawn(2)[1]])
def test_dict_is_json(seed):
    """Catches NaN, numpy numbers and other things that JSON does not know."""
    run = bouncy.sample(bouncy.MRF.random(3, seed=0), bouncy.BPS(refreshment=0.2), chains=1, draws=2, seed=seed)
    found = run.summary().to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["sampler"] == {
        "name": "bps-gaussian",
        "class": "BPS",
        "settings": {"augmentation": "gaussian", "refreshment": 0.2},
    }
    assert found["target"] == repr(run.target)
    assert [site["mean"] for site in found["sites"]] == run.mean.tolist()
    assert [site["se"] for site in found["sites"]] == [None if np.isnan(se) else se for se in run.mean_se]
    assert found["diagnostics"]["hits"] == run.diagnostics["hits"]
    assert found["warnings"] == run.diagnostics["warnings"]
    assert found["seed"] == (3 if seed == 3 else {**found["seed"], "entropy": 3, "spawn_key": [1]})


def test_dict_of_stuck_chains_is_json():
    """Catches an infinity, which JSON does not know either."""
    found = sample_stuck().summary().to_dict()
    json.dumps(found, allow_nan=False)
    assert found["sites"][0]["rhat"] == "inf"


def test_a_summary_stays_when_the_run_goes_on():
    """Catches a summary that looks at the run only when it is printed."""
    run = bouncy.sample(bouncy.MRF.random(3, seed=0), chains=1, draws=20, seed=0)
    summary = run.summary()
    before = str(summary), summary.to_dict()
    assert run.extend(draws=20).summary().to_dict() != before[1]
    assert (str(summary), summary.to_dict()) == before


def test_without_pandas_the_error_says_what_to_install(run, monkeypatch):
    """Catches a bare ModuleNotFoundError, or pandas needed for a table that is only printed."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    str(run.summary())
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[arviz\]'"):
        run.summary().to_frame()
