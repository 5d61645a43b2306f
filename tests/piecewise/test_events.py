"""Event times by inversion: climbing up to the returned time spends the budget, for slopes and budgets of every size.

The climb is computed in exact rational arithmetic, so that nothing is left to the tolerance of a reference.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.integrate import quad

from bouncy.piecewise.events import climbed, time_to_spend

# Relative error of a few roundings.
ROUNDING = Fraction(1, 10**14)
SIZES = st.builds(lambda digits, exponent: digits * 10.0**exponent, st.floats(1.0, 10.0), st.integers(-300, 299))
USUAL = st.floats(1e-3, 1e3)
SIGNED = st.one_of(st.just(0.0), SIZES, SIZES.map(lambda x: -x), USUAL, USUAL.map(lambda x: -x))
BUDGETS = st.one_of(SIZES, USUAL)
REPRESENTABLE = (1e-300, 1e300)


def comparable(b: float, c: float, ratio: float) -> tuple[float, float, float]:
    """Return slope, curvature and a budget of the size of b^2 / c, where every term of the root matters."""
    budget = abs(b) * (abs(b) / abs(c)) * ratio if c else ratio
    return b, c, min(max(budget, REPRESENTABLE[0]), REPRESENTABLE[1])


CASES = st.one_of(st.tuples(SIGNED, SIGNED, BUDGETS), st.builds(comparable, SIGNED, SIGNED, USUAL))


def exact_climb(b: float, c: float, t: Fraction) -> Fraction:
    """Return the integral of [b + c x]_+ over 0 <= x <= t, without rounding."""
    b, c = Fraction(b), Fraction(c)
    low, high = Fraction(0), t
    if b < 0 or b + c * t < 0:
        if c == 0 or (b <= 0 and b + c * t <= 0):
            return Fraction(0)
        zero = -b / c
        low, high = (zero, t) if c > 0 else (low, zero)
    return (high - low) * (b + c * (low + high) / 2)


def hill(b: float, c: float) -> Fraction | None:
    """Return the largest possible climb; None if there is no limit."""
    if c > 0 or (c == 0 and b > 0):
        return None
    return Fraction(b) ** 2 / (-2 * Fraction(c)) if b > 0 else Fraction(0)


@given(CASES)
@example((0.0, 0.0, 1.0))
@example((0.0, 1.0, 1.0))
@example((-0.0, 1.0, 1.0))
@example((-1.0, 2.0, 0.5))
@example((1.0, 0.0, 1.0))
@example((1.0, -0.5, 1.0))  # exactly the top
@example((1.0, -1e-300, 1.0))
@example((-1e-300, 1e300, 1e-300))
@example((-1.0, 1e-300, 1e300))
@example((1e300, 1e300, 1e-300))
def test_the_budget_is_spent_at_the_returned_time(case):
    """Catches a root that cancels, takes the wrong branch, overflows on the way, or misses that a hill is too low."""
    b, c, budget = case
    t = time_to_spend(b, c, budget)
    E, top = Fraction(budget), hill(b, c)
    if top is not None and top < E * (1 - ROUNDING):
        assert t == math.inf
    elif top is not None and t == math.inf:
        assert top <= E * (1 + ROUNDING)
    elif t == math.inf or not REPRESENTABLE[0] <= t <= REPRESENTABLE[1]:
        at = Fraction(REPRESENTABLE[0] if t < 1.0 else REPRESENTABLE[1])
        assert exact_climb(b, c, at) > E if t < 1.0 else exact_climb(b, c, at) < E
    else:
        assert exact_climb(b, c, Fraction(t) * (1 - ROUNDING)) <= E * (1 + ROUNDING)
        assert exact_climb(b, c, Fraction(t) * (1 + ROUNDING)) >= E * (1 - ROUNDING)


@given(SIGNED, SIGNED, SIZES)
@example(0.0, 0.0, 1.0)
@example(1.0, -1.0, 1.0)
@example(1.0, -1.0, 2.0)
@example(-1.0, 1.0, 1.0)
def test_the_climb_is_that_of_exact_arithmetic(b, c, t):
    """Catches a wrong case of the integral: climbing, over the top, down alone, through the bottom."""
    got = climbed(b, c, t)
    low, high = (exact_climb(b, c, Fraction(t) * (1 + error)) for error in (-ROUNDING, ROUNDING))
    if high * (1 + ROUNDING) >= Fraction(REPRESENTABLE[1]):
        assert got >= REPRESENTABLE[1] * 0.99
    else:
        assert math.isfinite(got)
        slack = Fraction(REPRESENTABLE[0])
        assert low * (1 - ROUNDING) - slack <= Fraction(got) <= high * (1 + ROUNDING) + slack


@given(USUAL | USUAL.map(lambda x: -x), USUAL | USUAL.map(lambda x: -x), USUAL)
def test_climbing_for_the_time_to_spend_gives_back_the_budget(b, c, budget):
    """Catches two functions of which each is right for another rate. Descending first, digits of t are lost to it."""
    t = time_to_spend(b, c, budget)
    assume(t < math.inf)
    lost = abs(b) / math.sqrt(2 * c * budget) if b < 0 else 0.0
    assert climbed(b, c, t) == pytest.approx(budget, rel=1e-13 * (1 + lost))


@given(SIGNED, SIGNED, BUDGETS, BUDGETS)
def test_more_budget_lasts_longer(b, c, first, second):
    """Catches a branch of the root that joins its neighbour at the wrong place."""
    small, large = sorted((first, second))
    assert time_to_spend(b, c, small) <= time_to_spend(b, c, large) * (1 + 1e-15)


@pytest.mark.parametrize("b", [-2.0, -0.1, 0.0, 0.3, 5.0])
@pytest.mark.parametrize("c", [-3.0, -0.2, 0.0, 0.4, 7.0])
def test_the_climb_is_the_integral_of_the_rate(b, c):
    """Catches an exact reference that is itself wrong: numerical quadrature of [b + c t]_+ knows no cases."""
    kink = [-b / c] if c else None
    for t in (0.05, 1.0, 4.0):
        integral, _ = quad(lambda x: max(b + c * x, 0.0), 0.0, t, points=kink, epsabs=1e-12)
        assert climbed(b, c, t) == pytest.approx(integral, abs=1e-10)
        assert float(exact_climb(b, c, Fraction(t))) == pytest.approx(integral, abs=1e-10)


def test_budgets_are_exponential_along_a_path():
    """Catches a rate that is off by a factor: the first event of rate [b + ct]_+ has the survival function e^-climb."""
    budgets = -np.log1p(-(np.arange(1000) + 0.5) / 1000)
    times = np.array([time_to_spend(-1.0, 2.0, budget) for budget in budgets])
    survival = np.exp([-climbed(-1.0, 2.0, t) for t in times])
    np.testing.assert_allclose(survival, 1 - (np.arange(1000) + 0.5) / 1000, rtol=1e-12)
