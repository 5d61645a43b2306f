"""The example on the diabetes data, in a small version."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "diabetes.py"


@pytest.mark.slow
def test_diabetes(tmp_path, capsys):
    """Catches an example that no longer runs, or no longer finds what every analysis of these data finds."""
    pytest.importorskip("sklearn")
    mpl.use("Agg")
    example = runpy.run_path(str(EXAMPLE))
    spike, lasso = example["main"](small=True, out=tmp_path / "diabetes.png")
    assert (tmp_path / "diabetes.png").stat().st_size > 10_000
    assert len(set(spike.target.labels)) == 64
    at = [spike.target.labels.index(name) for name in ("bmi", "bp", "ltg")]
    assert spike.inclusion[at].min() > 0.9
    assert np.median(spike.inclusion) < 0.3
    assert lasso.mean[at].min() > 0.1
    assert spike.parameters["noise_scale"].shape == (4, 150)
    assert "bmi" in capsys.readouterr().out


def test_missing_data_are_explained(monkeypatch):
    """Catches an example that fails without saying what to install."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        runpy.run_path(str(EXAMPLE))["load"]()
