"""The demo runs, agrees with the exact answers, and leaves a picture."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"
# For each clock: 10 means and 5 pairs of the model, 2 averages of the lattice.
ROWS = 10 + 5 + 2
# The largest z of 10, 45, 64 and 128 numbers for each clock is printed too.
NUMBERS = 2 * (2 + 10 + 45 + 64 + 128)
LIMIT = 5.0


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_agrees_with_exact_answers_and_draws(demo, tmp_path, capsys):
    """Catches a demo that does not run, and estimates off by five standard errors (false alarms: 3e-4, seed fixed)."""
    out = tmp_path / "new" / "demo.png"
    demo.main(["--draws", "800", "--side", "8", "--out", str(out)])
    text = capsys.readouterr().out
    assert NUMBERS * 2 * norm.sf(LIMIT) < 3e-4
    rows = [[float(number) for number in re.findall(r"[+-]\d+\.\d+", line)] for line in text.splitlines()]
    rows = np.array([row for row in rows if len(row) == 5])  # exact, then estimate and z for each clock
    assert rows.shape == (ROWS, 5)
    assert abs(rows[:, [2, 4]]).max() < LIMIT
    assert abs(rows[:, [1, 3]] - rows[:, [0]]).max() < 0.1
    largest = [float(number) for number in re.findall(r"largest \|z\| = (\d+\.\d+)", text)]
    assert len(largest) == 8
    assert max(largest) < LIMIT
    rates = [float(number) for number in re.findall(r"(\d+\.\d) million attempted flips per CPU second", text)]
    assert len(rates) == 4
    assert min(rates) > 0.1
    assert str(out) in text
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 50_000


def test_error_of_a_trace_knows_its_correlations(demo, rng):
    """Catches an error bar from single draws: an AR(1) trace with coefficient 0.9 has one 4.4 times as large.

    The truth is that of 400 independent runs; a standard error off by 15 % is seen at 4 standard deviations.
    """
    n, chains, draws, memory = 400, 4, 2000, 0.9
    noise = rng.standard_normal((n, chains, draws)) * np.sqrt(1 - memory**2)
    traces = np.empty_like(noise)
    traces[:, :, 0] = rng.standard_normal((n, chains))
    for t in range(1, draws):
        traces[:, :, t] = memory * traces[:, :, t - 1] + noise[:, :, t]
    means, errors, batches = np.array([demo.trace_mean(trace) for trace in traces]).T
    np.testing.assert_allclose(means, traces.mean(axis=(1, 2)))
    assert abs(np.sqrt(np.mean(errors**2)) / means.std() - 1) < 0.15
    assert set(batches) == {chains * demo.BATCHES}
