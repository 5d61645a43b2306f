"""Arithmetic over lanes: the exponential function, random numbers and products of matrices."""

import math

import numpy as np
import pytest
from scipy.special import erfcx

from bouncy._lane_loop import WIDTH, padded
from bouncy._random import new_state, next_bits
from bouncy._vector import DRAWN, STEP
from helpers.lanes import (
    Numbers,
    beginnings,
    exp_of,
    increase_below,
    product,
    products,
    rests,
    rough_power_of,
    scaled_tail_of,
    single_tanh_half_of,
    uniforms,
    vector_exp_of,
)

LARGEST = 700.0


@pytest.fixture(params=[exp_of, vector_exp_of])
def exp(request):
    def values(x):
        out = np.empty_like(x)
        request.param(x, out)
        return out

    return values


# --- tails of the normal distribution ---------------------------------------------------------------------------------


def test_tails_are_those_of_scipy(rng):
    """Catches a coefficient that is off, near zero and far out: sees an error of 1e-14."""
    z = np.concatenate([np.linspace(0.0, 8.0, 801), 10.0 ** rng.uniform(-12.0, 3.0, 1000)])
    out = np.empty_like(z)
    scaled_tail_of(z, out)
    np.testing.assert_allclose(out, 0.5 * erfcx(z / math.sqrt(2.0)), rtol=1e-11, atol=1e-14)


# --- the exponential function -----------------------------------------------------------------------------------------


def test_exp_is_that_of_math(exp, rng):
    """Catches a coefficient, a rounding or an exponent that is off: sees a relative error of 2e-15, over all numbers.

    Next to k log 2 / 2 another power of two is taken, and next to 0 everything rests on the first coefficients.
    """
    halves = np.arange(-2018, 2019) * (0.5 * math.log(2.0))
    near = (halves[:, None] + np.linspace(-1e-9, 1e-9, 7)).ravel()
    small = np.array([sign * 10.0**-k for k in range(1, 20) for sign in (1, -1)])
    x = np.concatenate([[0.0, -0.0, 1.0, -LARGEST, LARGEST], near, small, rng.uniform(-LARGEST, LARGEST, 40_000)])
    expected = np.array([math.exp(number) for number in x])
    assert np.abs(exp(x) / expected - 1.0).max() < 2e-15
    assert exp(np.zeros(1))[0] == pytest.approx(1.0, rel=1e-15)


def test_exp_ends_at_its_largest_numbers(exp):
    """Catches numbers that overflow, or come back from the other end: such a cost would pass, and must not."""
    far = np.array([700.0001, 709.9, 1e3, 1e6, 1e18, 1e300, np.inf])
    np.testing.assert_array_equal(exp(far), exp(np.full(far.size, LARGEST)))
    np.testing.assert_array_equal(exp(-far), exp(np.full(far.size, -LARGEST)))
    assert exp(-far).min() > 0.0


def singles(function, x):
    """Return values of a function of float32, and what it is of, in double precision."""
    x = np.asarray(x, np.float32)
    row = np.zeros(padded(x.size), np.float32)
    row[: x.size] = x
    out = np.empty_like(row)
    function(row, out)
    return out[: x.size].astype(float), x.astype(float)


def test_rough_power(rng):
    """Catches an error that is larger than what the lanes in doubt are found by.

    Next to k + 1/2 another power of two is taken.
    """
    near = (np.arange(-50, 51)[:, None] * 0.5 + np.linspace(-1e-4, 1e-4, 7)).ravel()
    found, x = singles(rough_power_of, np.concatenate([[0.0, -0.0], near, rng.uniform(-25.0, 25.0, 40_000)]))
    assert np.abs(found / 2.0**x - 1.0).max() < 4e-6
    found, x = singles(rough_power_of, [120.0, 121.0, 1e30, np.inf, -120.0, -121.0, -1e30, -np.inf])
    np.testing.assert_allclose(found, 2.0 ** np.clip(x, -120.0, 120.0), rtol=4e-6)


def test_single_tanh_half(rng):
    """Catches digits that are lost where a conditional mean is small."""
    small = [sign * 10.0**-k for k in range(1, 20) for sign in (1, -1)]
    found, x = singles(single_tanh_half_of, np.concatenate([small, rng.uniform(-40.0, 40.0, 40_000)]))
    assert np.abs(found / np.tanh(x / 2.0) - 1.0).max() < 4e-7
    assert singles(single_tanh_half_of, [0.0, 1e30, -1e30])[0].tolist() == [0.0, 1.0, -1.0]


@pytest.mark.parametrize("lanes", [6, WIDTH, 13, 2 * WIDTH, 3 * WIDTH, 8 * WIDTH + 1])
def test_loops_visit_each_lane_once(lanes):
    """Catches lanes that a loop over blocks leaves out or visits twice, and comparisons that are counted wrongly."""
    row = np.arange(lanes, dtype=np.float32)
    assert increase_below(row, 5.0) == 5
    np.testing.assert_array_equal(row, np.arange(lanes) + 1.0)


# --- random numbers ---------------------------------------------------------------------------------------------------


def new_states(seed, width):
    return np.array([new_state(child) for child in np.random.SeedSequence(seed).spawn(width)]).T.copy()


def literal(state, n):
    """Return the next n words of a generator, (4,)."""
    with np.errstate(over="ignore"):
        return [int(next_bits(state)) for _ in range(n)]


@pytest.mark.parametrize("width", [WIDTH, 3 * WIDTH])
def test_numbers_are_those_of_the_generator_of_each_lane(seed, width):
    """Catches a lane that draws from another one's generator, and any slip in a step, bit for bit.

    Beginnings are the first 23 bits of each half of a word; numbers half a step of 2^-52 above that of its first 52.
    """
    states = new_states(seed, width)
    own = [states[:, k].copy() for k in range(width)]
    for _ in range(20):
        begun, whole = np.empty((DRAWN, width), np.float32), np.empty(width)
        beginnings(states, begun)
        uniforms(states, whole)
        words = [literal(state, DRAWN // 2 + 1) for state in own]
        halves = [[half >> 9 for word in row[:-1] for half in (word >> 32, word % 2**32)] for row in words]
        assert (begun.T / STEP).tolist() == halves
        assert whole.tolist() == [(2 * (row[-1] >> 12) + 1) * 2.0**-53 for row in words]
        assert states.T.tolist() == [state.tolist() for state in own]


def test_rests_of_numbers(seed):
    """Catches a rest that moves the generator, or is not uniform: alpha 2e-7 each, sees 0.03 in its mean."""
    states = new_states(seed, 4096)
    begun, rest = np.empty((DRAWN, 4096), np.float32), np.empty(4096)
    beginnings(states, begun)
    drawn = states.copy()
    for row in begun:
        rests(states, row, rest)
        assert (states == drawn).all()
        assert rest.tolist()[:20] == [Numbers(states[:, k])._rest(int(row[k] / STEP)) for k in range(20)]
        assert abs(rest.mean() - 0.5) < 5.2 * np.sqrt(1 / 12 / 4096)
        assert abs(np.corrcoef(rest, row)[0, 1]) < 5.2 / np.sqrt(4096)


def test_numbers_are_neither_0_nor_1():
    """Catches a number at an end: 0 passes at any cost, and 1 is refused where a flip costs nothing."""
    states = np.zeros((4, 2), np.uint64)
    states[0, 1], states[3, 1] = 2**64 - 1, 1  # the next bits are all ones
    out = np.empty(2)
    uniforms(states, out)
    assert out.tolist() == [2.0**-53, 1.0 - 2.0**-53]


# --- products of matrices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [WIDTH, 2 * WIDTH])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 11])
def test_products_of_matrices(rows, width, rng):
    """Catches rows or lanes that are left out or added twice; small integers, whose sums have no rounding."""
    matrix = rng.integers(-8, 9, (20, rows)).astype(float)
    for n in range(21):
        who = rng.integers(0, 20, 20).astype(np.int32)
        factors = rng.integers(-8, 9, (20, width)).astype(float)
        out = rng.integers(-8, 9, (rows, width)).astype(float)
        expected = out + matrix[who[:n]].T @ factors[:n]
        products(out, matrix, who, n, factors)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("width", [WIDTH, 2 * WIDTH])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_product_of_a_row(d, width, rng):
    """Catches the product with a column, or of a part of the row, where that of one row is asked for."""
    matrix = rng.integers(-8, 9, (d, d)).astype(float)
    for n in range(21):
        who = rng.integers(0, d, 20).astype(np.int32)
        factors = rng.integers(-8, 9, (20, width)).astype(float)
        i, out = int(rng.integers(d)), rng.integers(-8, 9, (1, width)).astype(float)
        expected = out[0] + matrix[i, who[:n]] @ factors[:n]
        product(out, matrix, i, who, n, factors)
        np.testing.assert_array_equal(out[0], expected)


@pytest.mark.parametrize(("lanes", "row"), [(1, 8), (7, 8), (8, 8), (9, 16), (64, 64), (65, 72)])
def test_rows_have_room_for_their_lanes(lanes, row):
    """Catches a row that is shorter than its lanes, or no multiple of what is worked on together."""
    assert padded(lanes) == row
