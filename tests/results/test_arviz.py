"""Runs in the layout of ArviZ."""

import json
import sys
from datetime import datetime

import numpy as np
import pytest

import bouncy

xarray = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def target():
    """Return five coupled spins with names."""
    return bouncy.MRF.random(5, seed=3, labels=["a", "b", "c", "d", "e"])


@pytest.fixture(scope="module")
def run(target):
    return bouncy.sample(target, bouncy.BPS(refreshment=0.2), draws=200, seed=0)


def test_dimensions_and_names(run):
    """Catches draws under wrong dimensions, and names of sites that are lost."""
    tree = run.to_arviz()
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert tree["posterior"]["s"].dims == ("chain", "draw", "site")
    assert tree["posterior"]["site"].values.tolist() == list(run.target.labels)
    assert set(tree["sample_stats"].data_vars) == {"lp", "magnetisation"}
    np.testing.assert_array_equal(tree["posterior"]["s"].sel(site="c"), run.draws[:, :, 2])


@pytest.mark.parametrize("group", ["/", "posterior", "sample_stats"])
def test_attributes_say_how_it_came_about(run, group):
    """Catches a tree from which a run cannot be repeated."""
    attributes = run.to_arviz()[group].attrs
    assert attributes["inference_library"] == "bouncy"
    assert attributes["inference_library_version"] == bouncy.__version__
    assert datetime.fromisoformat(attributes["created_at"]).tzinfo is not None
    assert json.loads(attributes["seed"]) == 0
    assert attributes["sampler"] == "bps-gaussian"
    assert json.loads(attributes["sampler_settings"]) == {"augmentation": "gaussian", "refreshment": 0.2}
    assert attributes["target"] == repr(run.target)
    assert len(attributes["target_fingerprint"]) == 32
    assert (attributes["warmup"], attributes["thin"]) == (run.warmup, 1)
    assert attributes["sampling_seconds"] == run.sampling_seconds
    assert attributes["numpy_version"] == np.__version__
    assert {"numba_version", "python_version"} <= set(attributes)
    assert all(type(value) in (str, int, float) for value in attributes.values())


@pytest.mark.parametrize("seed", [2**127 + 1, np.random.SeedSequence(2**100).spawn(1)[0]])
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_attributes_survive_files(target, seed, suffix, tmp_path):
    """Catches attributes that a format refuses or changes: seeds of 128 bits, seeds of a tree."""
    pytest.importorskip("h5netcdf")
    pytest.importorskip("zarr")
    tree = bouncy.sample(target, chains=1, draws=5, seed=seed).to_arviz()
    path = tmp_path / f"run.{suffix}"
    if suffix == "nc":
        tree.to_netcdf(path, engine="h5netcdf")
        again = xarray.open_datatree(path, engine="h5netcdf")
    else:
        tree.to_zarr(path, zarr_format=3, consolidated=False)
        again = xarray.open_datatree(path, engine="zarr", consolidated=False)
    with again:
        for group in ("/", "posterior", "sample_stats"):
            assert dict(again[group].attrs) == tree[group].attrs
        assert again["posterior"]["site"].values.tolist() == list(target.labels)


def test_means_alone(target, monkeypatch):
    """Catches a tree that needs states, or one whose traces are numbered as if none were left out."""
    monkeypatch.setattr("bouncy.storage.rows.MOST_POINTS", 32)
    run = bouncy.sample(target, chains=2, draws=117, seed=0, keep="means")
    tree = run.to_arviz()
    assert list(tree["posterior"].data_vars) == []
    assert tree["posterior"]["site"].size == 5
    assert tree["sample_stats"]["lp"].shape == (2, 29)
    assert tree["sample_stats"]["draw"].values.tolist() == list(range(3, 117, 4))


def test_parameters_do_not_hide_draws():
    """Catches a parameter called like the draws, or like a dimension, that takes their place."""
    scheme = bouncy.Within(
        lambda x, draw: bouncy.Gaussian([0.0, 0.0], cov=x**2 * np.eye(2)),
        {"x": lambda x, parameters, generator: 1.0, "draw": lambda x, parameters, generator: [1.0, 2.0]},
        {"x": 1.0, "draw": [1.0, 2.0]},
    )
    run = bouncy.sample(scheme, chains=1, draws=10, seed=0)
    tree = run.to_arviz()
    np.testing.assert_array_equal(tree["posterior"]["x"], run.draws)
    np.testing.assert_array_equal(tree["posterior"]["x_"], run.parameters["x"])
    assert tree["posterior"]["draw_"].shape == (1, 10, 2)


def test_labels_of_other_kinds_are_text():
    """Catches labels that xarray cannot index: tuples, large numbers, numbers beside text."""
    for labels in ([("a", 1), ("a", 2)], [2**70, 1], ["a", 1], [True, 0]):
        target = bouncy.MRF.random(2, seed=0, labels=labels)
        tree = bouncy.sample(target, chains=1, draws=5, seed=0).to_arviz()
        assert tree["posterior"]["site"].values.tolist() == [str(label) for label in labels]


def test_diagnostics_are_those_of_arviz(run):
    """Catches an ESS or R-hat that another program computes differently from the same draws."""
    stats = pytest.importorskip("arviz_stats.base").array_stats
    tree, axes = run.to_arviz(), {"chain_axis": 0, "draw_axis": 1}
    draws, log_prob = tree["posterior"]["s"].values, tree["sample_stats"]["lp"].values
    ess, rhat = run.diagnostics["ess"], run.diagnostics["rhat"]
    np.testing.assert_allclose(ess["sites"], stats.ess(draws, method="mean", **axes), rtol=1e-8)
    np.testing.assert_allclose(rhat["sites"], stats.rhat(draws, method="split", **axes), rtol=1e-10)
    np.testing.assert_allclose(ess["log_prob"], stats.ess(log_prob, method="bulk", **axes), rtol=1e-8)
    np.testing.assert_allclose(rhat["log_prob"], stats.rhat(log_prob, method="z_scale", **axes), rtol=1e-10)


def test_without_xarray_the_error_says_what_to_install(run, monkeypatch):
    """Catches a bare ModuleNotFoundError."""
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[arviz\]'"):
        run.to_arviz()
