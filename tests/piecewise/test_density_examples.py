"""The examples of densities, in small versions, against quadrature, enumeration and rejection."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from conftest import base_seed

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_picture(path: Path) -> None:
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 30_000


def check_scores(estimate, truth, error) -> None:
    """Catches means that differ by eight errors (false alarms: 1e-6 for twenty batches or more)."""
    assert (np.abs(estimate - truth) / error).max() < 8.0


@pytest.mark.slow
def test_change_point_is_that_of_enumeration(tmp_path, capsys):
    """Catches an edge that is not crossed as it should be, by 0.05 in a log rate or half a year."""
    example = load("change_point")
    run = example.main(small=True, out=tmp_path / "new" / "picture.png", seed=base_seed())
    probability, mean = example.exact()
    assert probability.sum() == pytest.approx(1.0)
    check_scores(run.mean, mean, run.mean_se)
    assert (run.mean_se < [0.006, 0.006, 0.3]).all()
    assert "1891" in capsys.readouterr().out
    check_picture(tmp_path / "new" / "picture.png")


@pytest.mark.slow
def test_unmixing_stays_in_its_polytope(tmp_path, capsys):
    """Catches a face that is crossed, and shares that are not those of rejection, by 0.03."""
    example = load("unmixing")
    run, kept = example.main(small=True, out=tmp_path / "new" / "picture.png", seed=base_seed())
    assert run.draws.min() >= 0.0
    assert run.draws.sum(axis=2).max() <= 1.0
    error = np.hypot(run.mean_se, kept.draws[:, :-1].std(axis=0) / np.sqrt(len(kept.draws)))
    check_scores(run.mean, kept.draws[:, :-1].mean(axis=0), error)
    assert error.max() < 0.01
    assert "background" in capsys.readouterr().out
    check_picture(tmp_path / "new" / "picture.png")


@pytest.mark.slow
def test_quantile_regression_is_that_of_quadrature(tmp_path, capsys):
    """Catches a wall on the wrong side of a car, or a wrong update of the scale, by a tenth of a deviation."""
    example = load("quantile_regression")
    runs, exact = example.main(small=True, out=tmp_path / "new" / "picture.png", seed=base_seed())
    for run, truth in zip(runs, exact, strict=True):
        check_scores(run.mean, truth.mean, run.mean_se)
        assert (run.mean_se < 0.05 * truth.deviation).all()
        assert np.sqrt(run.variance) == pytest.approx(truth.deviation, rel=0.15)
    assert "at 15 mph" in capsys.readouterr().out
    check_picture(tmp_path / "new" / "picture.png")


@pytest.mark.slow
def test_monotone_risk_is_ordered(tmp_path, capsys):
    """Catches a draw beyond a wall, and coefficients that are not those of rejection, by half a deviation."""
    pytest.importorskip("sklearn")
    example = load("monotone_risk")
    free, ordered, kept = example.main(small=True, out=tmp_path / "new" / "picture.png", seed=base_seed())
    classes = slice(0, example.CLASSES)
    assert (np.diff(ordered.draws[..., classes]) >= 0.0).all()
    assert not (np.diff(free.draws[..., classes]) >= 0.0).all(axis=2).all()
    error = np.hypot(ordered.mean_se, kept.error)
    check_scores(ordered.mean, kept.mean, error)
    assert (error < 0.3 * np.sqrt(ordered.variance)).all()
    assert "rejection" in capsys.readouterr().out
    check_picture(tmp_path / "new" / "picture.png")


def test_missing_data_are_explained(monkeypatch):
    """Catches an example that fails without saying what to install."""
    example = load("monotone_risk")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        example.load()
