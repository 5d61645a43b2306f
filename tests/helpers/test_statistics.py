"""The statistical tests have the error rates they claim, in both directions.

Rates are counted over repeats and compared with the binomial law: the false-alarm rate of each check below is 1e-6.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helpers.statistics import (
    POWER,
    Outcome,
    UnderpoweredTest,
    chi_square_test,
    coverage_test,
    distribution_test,
    z_test,
)

Array = NDArray[np.float64]
SEED = int(os.environ.get("BOUNCY_TEST_SEED", "1711"))
REPEATS = 800
ALPHA = 0.01


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng([SEED, *request.node.name.encode()])


def count_failures(test: Callable[[], Outcome]) -> int:
    return sum(not test().passed for _ in range(REPEATS))


def assert_rate_at_most(failures: int, rate: float) -> None:
    assert failures <= stats.binom.isf(1e-6, REPEATS, rate)


def assert_rate_is(failures: int, rate: float) -> None:
    """A rate of 0.01 is told from 0.04 and from 0.0005 with 1500 repeats."""
    assert stats.binom.ppf(5e-7, REPEATS, rate) <= failures <= stats.binom.isf(5e-7, REPEATS, rate)


def assert_power(failures: int) -> None:
    assert_rate_at_most(REPEATS - failures, 1 - POWER)


# --- means ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("replicates", "columns"), [(4, 1), (12, 5), (200, 3)])
def test_z_test_false_alarms(rng: np.random.Generator, replicates: int, columns: int) -> None:
    """Catches normal thresholds used with few replicates (40 times too many alarms at 4), or no Bonferroni."""
    failures = count_failures(lambda: z_test(rng.normal(2.0, 3.0, size=(replicates, columns)), 2.0, alpha=ALPHA))
    assert_rate_is(failures, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [6, 20, 500])
def test_z_test_power(rng: np.random.Generator, replicates: int) -> None:
    """Catches a stated detectable bias that is too small, or so large that it is useless."""
    score = z_test(np.zeros(1), 0.0, 1.0, degrees_of_freedom=replicates - 1.0, alpha=ALPHA).detectable
    bias = score / math.sqrt(replicates)

    def biased(size: float) -> Outcome:
        return z_test(rng.normal(size, 1.0, size=(replicates, 1)), 0.0, alpha=ALPHA)

    assert_power(count_failures(lambda: biased(bias)))
    assert_rate_at_most(count_failures(lambda: biased(bias / 4)), 0.9)


def test_z_test_catches_a_planted_bias(rng: np.random.Generator) -> None:
    """Catches the worst coordinate being named wrongly: a bias of 0.02 in one of six means of 3e5 signs."""
    signs = np.where(rng.random((300_000, 6)) < 0.5, -1, 1).astype(np.int8)
    z_test(signs, np.zeros(6), detect=0.02).check()
    shifted = np.zeros(6)
    shifted[4] = 0.02
    outcome = z_test(signs, shifted, detect=0.02, name="means")
    assert not outcome.passed
    assert outcome.index == (4,)
    with pytest.raises(
        AssertionError, match=r"means failed: at \(4\) observed .* expected 0.02, z = -.* threshold 5.2"
    ):
        outcome.check()


def test_z_test_keeps_the_shape_of_pairs() -> None:
    """Catches a flattened index, and spins summed in eight bits."""
    samples = np.ones((1000, 3, 3), dtype=np.int8)
    samples[:, 0, 2] = np.where(np.arange(1000) % 2, 1, -1)
    assert z_test(samples, samples.mean(axis=0)).z == 0
    expected = np.ones((3, 3))
    outcome = z_test(samples, expected)
    assert outcome.index == (0, 2)
    assert outcome.observed == 0
    assert outcome.expected == 1


def test_z_test_of_constant_columns() -> None:
    """Catches 0/0: a frozen column is right or wrong with certainty, and rounding is not bias."""
    samples = np.full((50, 3), 0.1)
    assert z_test(samples, 0.1).z == 0
    assert z_test(samples, 0.1 * (1 + 1e-15)).z == 0
    wrong = z_test(samples, [0.1, 0.1, 0.2])
    assert wrong.z == -math.inf
    assert wrong.index == (2,)
    assert wrong.detectable == 0
    rounded = 1 - 1e-16 * np.arange(50.0)
    assert z_test(rounded, 1.0).z == 0
    assert z_test(1e-30 * samples, 2e-31).passed is False


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_z_test_fails_on_bad_values(bad: float) -> None:
    """Catches a nan that passes because it exceeds nothing."""
    samples = np.arange(20.0).reshape(10, 2) % 3
    samples[3, 1] = bad
    assert not z_test(samples, samples[:, 0].mean()).passed
    assert not z_test([0.0, bad], 0.0, standard_error=1.0).passed


def test_z_test_asserts_its_power() -> None:
    """Catches a test that passes because it cannot see anything."""
    samples = np.where(np.arange(100) % 2, 1.0, -1.0)
    z_test(samples, 0.0, detect=1.0)
    with pytest.raises(UnderpoweredTest, match=r"error of 0.01 .* smallest that would be is 0.9"):
        z_test(samples, 0.0, detect=0.01)
    with pytest.raises(UnderpoweredTest, match=r"at \(1,\)"):
        z_test([0.0, 0.0], 0.0, [0.1, 0.1], detect=[1.0, 0.5])
    assert issubclass(UnderpoweredTest, AssertionError)


def test_z_test_of_estimates() -> None:
    """Catches a standard error or its degrees of freedom being ignored."""
    assert z_test([1.0, 2.0], [1.0, 1.0], [0.1, 0.5]).z == pytest.approx(2.0)
    assert z_test(7.0, 1.0, 1.0).index == ()
    assert not z_test([6.0], 0.0, 1.0).passed
    few = z_test([6.0], 0.0, 1.0, degrees_of_freedom=5)
    assert few.passed
    assert few.z == pytest.approx(stats.norm.isf(stats.t.sf(6.0, 5)))


def test_extreme_scores_stay_finite_and_ordered() -> None:
    """Catches underflow of the p-value: planted bugs are ranked by z far beyond 1e-300."""
    t = np.array([10.0, 30.0, 37.0, 38.0, 100.0, 1000.0])
    for degrees in (11.0, 300.0, 300_000.0):
        z = [z_test([x], 0.0, 1.0, degrees_of_freedom=degrees).z for x in t]
        assert np.all(np.isfinite(z))
        assert np.all(np.diff(z) > 0)
    assert z[3] == pytest.approx(38.0, rel=2e-3)


# --- frequencies of states --------------------------------------------------------------------------------------------

PROBABILITIES = np.array([0.3, 0.22, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02])


def test_chi_square_false_alarms(rng: np.random.Generator) -> None:
    """Catches wrong degrees of freedom or a threshold of the wrong side."""

    def draw() -> Outcome:
        return chi_square_test(rng.multinomial(5000, PROBABILITIES), PROBABILITIES, alpha=ALPHA)

    assert_rate_is(count_failures(draw), ALPHA)


def test_chi_square_false_alarms_with_pooled_cells(rng: np.random.Generator) -> None:
    """Catches pooling that looks at the counts: 64 cells of about 2 draws each are joined to groups of 5 or more."""
    p = rng.dirichlet(np.full(64, 5.0))
    failures = count_failures(lambda: chi_square_test(rng.multinomial(128, p), p, alpha=ALPHA))
    assert_rate_at_most(failures, 1.6 * ALPHA)


def test_chi_square_power_in_the_worst_direction(rng: np.random.Generator) -> None:
    """Catches a stated total variation that some shift of that size escapes: mass moved between two halves."""
    n = 5000
    upper = np.array([True, False, True, False, False, False, False, True])  # probability 0.5
    size = chi_square_test(n * PROBABILITIES, PROBABILITIES, alpha=ALPHA).detectable
    shifted = PROBABILITIES * np.where(upper, 1 + 2 * size, 1 - 2 * size)
    assert np.abs(shifted - PROBABILITIES).sum() / 2 == pytest.approx(size)

    def draw() -> Outcome:
        return chi_square_test(rng.multinomial(n, shifted), PROBABILITIES, alpha=ALPHA)

    assert_power(count_failures(draw))


def test_chi_square_names_the_worst_cell(rng: np.random.Generator) -> None:
    """Catches a cell named after pooling and sorting instead of before."""
    counts = rng.multinomial(100_000, PROBABILITIES).reshape(2, 4)
    counts[1, 2] += 400
    outcome = chi_square_test(counts, PROBABILITIES.reshape(2, 4), detect=0.02)
    assert outcome.index == (1, 2)
    assert outcome.observed > outcome.expected == 0.03
    with pytest.raises(AssertionError, match=r"chi-square test failed: at \(1, 2\)"):
        outcome.check()


def test_chi_square_edges() -> None:
    """Catches a draw in an impossible cell that is dropped, a lone group, and underflow of the p-value."""
    assert chi_square_test([5, 5, 0], [0.5, 0.5, 0.0]).passed
    impossible = chi_square_test([500, 500, 1], [0.5, 0.5, 0.0])
    assert impossible.z == math.inf
    assert impossible.index == (2,)
    single = chi_square_test([3, 1], [0.5, 0.5])
    assert single.z == 0
    assert single.detectable == math.inf
    with pytest.raises(UnderpoweredTest):
        chi_square_test([3, 1], [0.5, 0.5], detect=0.1)
    # Two cells: the statistic is the square of a normal score.
    for shift in (100, 1500, 20_000):
        z = chi_square_test([50_000 + shift, 50_000 - shift], [0.5, 0.5]).z
        assert z == pytest.approx(2 * shift / math.sqrt(100_000), rel=1e-4)


def test_chi_square_states_how_inexact_it_is() -> None:
    """Catches a docstring with too low false-alarm rates of small cells (two cells, exact binomials)."""
    n, factor = 10_000_000, {5: 70, 10: 20, 50: 5, 200: 2}
    for expected, stated in factor.items():
        p = expected / n
        reach = math.sqrt(stats.chi2.isf(1e-6, 1) * expected * (1 - p))
        rate = stats.binom.sf(math.floor(expected + reach), n, p) + stats.binom.cdf(
            math.ceil(expected - reach) - 1, n, p
        )
        assert stated / 3 < rate / 1e-6 < stated


# --- continuous laws --------------------------------------------------------------------------------------------------


def exponential_cdf(x: Array) -> Array:
    return -np.expm1(-x)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(50,), (400, 3)])
def test_distribution_false_alarms(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    """Catches the distance taken on one side only, or no Bonferroni over columns."""
    failures = count_failures(lambda: distribution_test(rng.exponential(size=shape), exponential_cdf, alpha=ALPHA))
    assert_rate_is(failures, ALPHA)


def test_distribution_power(rng: np.random.Generator) -> None:
    """Catches a stated distance that is not seen: a mixture moves mass from the top to the bottom of a uniform law."""
    n = 400
    size = distribution_test(np.linspace(0, 1, n), lambda x: x, alpha=ALPHA).detectable

    def moved() -> Outcome:
        u = rng.random(n)
        return distribution_test(np.where(u > 1 - size, u - (1 - size), u), lambda x: x, alpha=ALPHA)

    assert_power(count_failures(moved))


def test_distribution_catches_a_coarse_variate(rng: np.random.Generator) -> None:
    """Catches a test blind to atoms, or that names the wrong column: exponential variates from a 6-bit uniform."""
    n = 500_000
    distribution_test(rng.exponential(size=n), exponential_cdf, detect=0.01).check()
    two_columns = np.stack([rng.exponential(size=n), -np.log(rng.integers(1, 65, size=n) / 64)], axis=1)
    outcome = distribution_test(two_columns, exponential_cdf)
    assert outcome.index == (1,)
    with pytest.raises(AssertionError, match=r"Kolmogorov-Smirnov test failed: at \(1\)"):
        outcome.check()


def test_distribution_edges() -> None:
    """Catches nan draws that pass, underflow of the p-value, and a weak test that is not refused."""
    assert not distribution_test([0.1, math.nan, 0.5], lambda x: x).passed
    assert 100 < distribution_test(np.full(100_000, 0.5), lambda x: x).z < 1000
    with pytest.raises(UnderpoweredTest):
        distribution_test(np.linspace(0, 1, 100), lambda x: x, detect=0.01)


# --- intervals --------------------------------------------------------------------------------------------------------


def test_coverage_false_alarms(rng: np.random.Generator) -> None:
    """Catches a band tighter than stated: alarms stay below alpha, and a smaller sample is refused."""
    failures = count_failures(lambda: coverage_test(rng.random(2000) < 0.95, 0.95, 0.93, 0.965, alpha=ALPHA))
    assert_rate_at_most(failures, 1.2e-3)
    with pytest.raises(UnderpoweredTest, match=r"2000 independent intervals .* leave"):
        coverage_test(rng.random(2000) < 0.95, 0.95, 0.93, 0.965)


@pytest.mark.parametrize("side", [-1, 1])
def test_coverage_power(rng: np.random.Generator, side: int) -> None:
    """Catches intervals too narrow or too wide by the stated amount that pass."""
    size = coverage_test(np.arange(6000) % 20 > 0, 0.95, 0.93, 0.965).detectable
    assert size < 0.035
    failures = count_failures(lambda: coverage_test(rng.random(6000) < 0.95 + side * size, 0.95, 0.93, 0.965))
    assert_power(failures)


def test_coverage_discounts_dependent_columns(rng: np.random.Generator) -> None:
    """Catches 50 copies of one interval counted as 50 intervals, and independent ones discounted away."""
    hit = rng.random((1000, 1)) < 0.95
    with pytest.raises(UnderpoweredTest):
        coverage_test(np.repeat(hit, 50, axis=1), 0.95, 0.93, 0.965)
    assert coverage_test(rng.random((1000, 50)) < 0.95, 0.95, 0.93, 0.965, detect=0.025).passed


def test_coverage_edges_of_the_band_pass() -> None:
    """Catches a band whose ends are lost to rounding."""
    for rate, passed in [(9300, True), (9650, True), (9299, False), (9651, False)]:
        outcome = coverage_test(np.arange(10_000) < rate, 0.95, 0.93, 0.965)
        assert outcome.passed is passed
        assert outcome.observed == rate / 10_000


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: z_test([[1.0]], 0.0), "at least 2 replicates"),
        (lambda: z_test(np.ones((5, 2)), [1.0, 1.0, 1.0]), "expected has shape"),
        (lambda: z_test([1.0], 0.0, -1.0), "standard_error has -1.0"),
        (lambda: z_test(np.ones(5), 1.0, degrees_of_freedom=3), "given standard_error"),
        (lambda: z_test(np.ones(5), 1.0, alpha=0.0), "alpha is 0.0"),
        (lambda: chi_square_test([1, 2], [0.5, 0.25]), "sum to 0.75"),
        (lambda: chi_square_test([1, 2], [1.5, -0.5]), "least is -0.5"),
        (lambda: chi_square_test([1, 2], [0.5, 0.25, 0.25]), "one shape"),
        (lambda: chi_square_test([0.5, 2], [0.5, 0.5]), "integers"),
        (lambda: chi_square_test([1, 2], [0.5, 0.5], smallest_expected=0), "smallest_expected is 0"),
        (lambda: distribution_test([], lambda x: x), "shape \\(0,\\)"),
        (lambda: distribution_test([0.5, 0.1], lambda x: 0.5), "cdf returned shape"),
        (lambda: coverage_test([True, False], 0.95, 0.96, 0.97), "low < nominal"),
        (lambda: coverage_test([0.5, 0.7], 0.95, 0.9, 0.97), "booleans"),
    ],
)
def test_bad_input_is_named(call: Callable[[], Outcome], message: str) -> None:
    """Catches an argument that is quietly accepted and weakens the test."""
    with pytest.raises(ValueError, match=message):
        call()
