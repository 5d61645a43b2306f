"""Medians, ratios and their intervals."""

import math

import numpy as np
import pytest

from bouncy.experiments.analysis import (
    FEWEST_RUNS,
    Bar,
    Cell,
    Ratio,
    _draw_resamples,
    _resample_median,
    compare,
    find_winner,
    group,
    summarise,
)
from conftest import base_seed
from experiments.made_up import levels, make
from helpers.statistics import coverage_test


def by_run(values):
    return dict(enumerate(map(float, values)))


def test_group_assigns_every_error_to_its_cell_and_bar():
    """Catches bars or cells that are mixed up, and runs that overwrite each other."""
    settings, rows = make("figure1", lambda edition, sampler, estimator, sigma_M, sigma_r: sigma_M + sigma_r)
    grouped = group(rows)
    assert list(grouped) == [Cell("figure1", *cell) for cell in settings.cells]
    assert sum(len(errors) for bars in grouped.values() for errors in bars.values()) == len(rows)
    for row in rows:
        cell, bar = Cell(row.figure, row.sigma_M, row.sigma_r), Bar(row.edition, row.sampler, row.estimator)
        assert grouped[cell][bar][row.run] == row.mse


def test_order_of_bars_does_not_depend_on_the_order_of_rows():
    """Catches figures whose bars change places with the order in which runs were finished."""
    _, rows = make("figure2", levels(), runs=1)
    first, second = group(rows), group(rows[::-1])
    assert [list(bars) for bars in first.values()] == [list(bars) for bars in second.values()]
    bars = list(next(iter(first.values())))
    assert bars[:3] == [Bar("published", name, how) for name, how in (
        ("bps-exponential", "path"), ("bps-gaussian", "path"), ("hmc", "ends"))]  # fmt: skip
    assert [bar.estimator for bar in bars if bar[:2] == ("ours", "hmc")] == ["ends", "path", "conditional"]


def test_summary_is_median_and_quartiles():
    """Catches means in place of medians, and whiskers that are not quartiles."""
    assert summarise(by_run([1, 2, 3, 4, 1000])) == (3.0, 2.0, 4.0, 5)


def test_ratio_of_proportional_errors_is_exact():
    """Catches resamples that are not the same for both: proportional errors have the same ratio in each of them."""
    errors = np.random.default_rng(1).lognormal(size=30)
    ratio = compare(by_run(errors), [by_run(2 * errors)])
    assert (ratio.value, ratio.low, ratio.high, ratio.runs) == (2.0, 2.0, 2.0, 30)
    assert ratio.side == 1


def test_ratio_is_that_of_the_best_rival():
    """Catches a comparison with the first or the worst rival instead of the best."""
    errors = np.random.default_rng(1).lognormal(size=30)
    ratio = compare(by_run(errors), [by_run(3 * errors), by_run(0.5 * errors), by_run(2 * errors)])
    assert (ratio.value, ratio.low, ratio.high, ratio.side) == (0.5, 0.5, 0.5, -1)


def test_best_rival_is_chosen_anew_in_each_resample():
    """Catches an interval that treats the best of several rivals as if it had been known in advance."""
    rng = np.random.default_rng(2)
    errors, first, second = (by_run(rng.lognormal(size=30)) for _ in range(3))
    both, alone = compare(errors, [first, second]), [compare(errors, [rival]) for rival in (first, second)]
    assert both.value == min(ratio.value for ratio in alone)
    assert both.low <= min(ratio.low for ratio in alone)
    assert both.high < min(ratio.high for ratio in alone)


@pytest.mark.parametrize("runs", [1, 2, 9, 30])
def test_medians_of_resamples_are_those_of_numpy(runs):
    """Catches a median that is off by a rank, for an odd or an even number of runs, or with ties."""
    values = np.random.default_rng(4).integers(8, size=runs).astype(float)
    counts = _draw_resamples(runs, 50)
    expected = [np.median(np.repeat(values, counts[:, k])) for k in range(50)]
    np.testing.assert_array_equal(_resample_median(tuple(values), 50), expected)


def test_only_common_runs_are_compared():
    """Catches ratios of medians over different models, when a run is missing."""
    ratio = compare({1: 1.0, 2: 2.0, 3: 1e9}, [{1: 2.0, 2: 4.0, 4: 1e-9}])
    assert (ratio.value, ratio.runs) == (2.0, 2)
    assert compare({1: 1.0}, [{2: 1.0}]) is None


def test_few_runs_decide_nothing():
    """Catches verdicts from runs so few that winning all of them is chance."""
    few, enough = by_run(np.ones(FEWEST_RUNS - 1)), by_run(np.ones(FEWEST_RUNS))
    twice = {run: 2.0 for run in enough}
    assert compare(few, [twice]).side == 0
    assert compare(enough, [twice]).side == 1


@pytest.mark.parametrize(
    ("top", "bottom", "value"), [(0.0, 0.0, 1.0), (1.0, 0.0, math.inf), (0.0, 1.0, 0.0), (math.nan, 1.0, math.nan)]
)
def test_errors_of_zero_and_nan_have_a_ratio(top, bottom, value):
    """Catches warnings or crashes on an estimate that is exact, and a verdict from one that is not a number."""
    ratio = compare(by_run([bottom] * 10), [by_run([top] * 10)])
    assert ratio.value == value or (math.isnan(value) and math.isnan(ratio.value))
    assert ratio.side == {1.0: 0, math.inf: 1, 0.0: -1}.get(value, 0)


@pytest.mark.parametrize(("low", "high", "side"), [(1.0, 2.0, 0), (0.5, 1.0, 0), (1.01, 2, 1), (0.5, 0.99, -1)])
def test_interval_that_touches_one_is_undecided(low, high, side):
    """Catches a tie that is counted for or against a claim."""
    assert Ratio(1.0, low, high, 30).side == side


@pytest.mark.slow
def test_interval_covers_the_true_ratio():
    """Catches intervals that are too narrow or too wide.

    The percentile bootstrap of a ratio of medians is not exact at 30 runs: it covers about 96 % for a nominal 95 %, and
    92.5 to 98.5 % is required. False-alarm rate 1e-6; a coverage that is off by 0.06 would be seen.
    """
    rng = np.random.default_rng([base_seed(), 7])
    covered = []
    for _ in range(2500):
        errors, rival = (by_run(level * rng.lognormal(size=30)) for level in (1, 2))
        ratio = compare(errors, [rival], resamples=400)
        covered.append(ratio.low <= 2 <= ratio.high)
    outcome = coverage_test(np.array(covered), 0.95, 0.925, 0.985, detect=0.06)
    assert outcome.passed, str(outcome)


def test_winner_has_the_smallest_median_and_its_lead():
    """Catches a caption that names the wrong sampler or leaves out how far ahead it is."""
    bars = {Bar("ours", name, "path"): by_run([level] * 10) for name, level in (("gibbs", 3), ("hmc", 1), ("x", 2))}
    winner = find_winner(bars)
    assert (winner.bar.sampler, winner.second.sampler, winner.lead.value) == ("hmc", "x", 2.0)
    alone = find_winner({Bar("ours", "hmc", "ends"): by_run([1.0])})
    assert (alone.second, alone.lead) == (None, None)
