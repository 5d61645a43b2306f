"""The generator is xoshiro256++ bit for bit, and the variates made from it have their laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from bouncy._compile import kernel
from bouncy._random import exponential, fill_normal, fill_sphere, new_state, next_bits, uniform
from helpers.statistics import chi_square_test, distribution_test, z_test

# The reference implementation of D. Blackman and S. Vigna (prng.di.unimi.it) with the state {1, 2, 3, 4}.
PUBLISHED = [
    41943041,
    58720359,
    3588806011781223,
    3591011842654386,
    9228616714210784205,
    9973669472204895162,
    14011001112246962877,
    12406186145184390807,
    15849039046786891736,
    10450023813501588000,
]
N = 400_000


@kernel
def many_bits(state, out):
    for i in range(out.size):
        out[i] = next_bits(state)


@kernel
def many_uniforms(state, out):
    for i in range(out.size):
        out[i] = uniform(state)


@kernel
def many_exponentials(state, out):
    for i in range(out.size):
        out[i] = exponential(state)


@kernel
def many_normals(state, out):
    for i in range(out.shape[0]):
        fill_normal(state, out[i])


@kernel
def many_directions(state, out):
    for i in range(out.shape[0]):
        fill_sphere(state, out[i])


@pytest.fixture
def state(seed):
    return new_state(np.random.SeedSequence([seed, 256]))


def drawn(function, state, shape, dtype=np.float64):
    out = np.empty(shape, dtype)
    function(state, out)
    return out


# --- bits -------------------------------------------------------------------------------------------------------------


def test_published_vectors_compiled():
    """Catches any slip in the generator: a wrong rotation still looks random to statistical tests."""
    bits = drawn(many_bits, np.array([1, 2, 3, 4], np.uint64), len(PUBLISHED), np.uint64)
    assert bits.tolist() == PUBLISHED


def test_published_vectors_interpreted():
    """Catches arithmetic that depends on whether it is compiled: then the oracle would see other random numbers."""
    state = np.array([1, 2, 3, 4], np.uint64)
    with np.errstate(over="ignore"):
        assert [int(next_bits(state)) for _ in PUBLISHED] == PUBLISHED


def test_interpreted_variates_are_the_compiled_ones(seed):
    """Catches a variate that is made differently in interpreted code, to the last bit but one of the logarithm."""
    first, second = (new_state(np.random.SeedSequence(seed)) for _ in range(2))
    compiled = np.concatenate([drawn(many_exponentials, first, 50), *drawn(many_directions, first, (4, 5))])
    out = np.empty(5)
    with np.errstate(over="ignore"):
        interpreted = [exponential(second) for _ in range(50)]
        for _ in range(4):
            fill_sphere(second, out)
            interpreted += out.tolist()
    np.testing.assert_allclose(interpreted, compiled, rtol=1e-14)
    assert first.tolist() == second.tolist()


# --- uniform and exponential variates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"), [([0, 0, 0, 0], 2.0**-53), ([2**64 - 1, 0, 0, 1], 1.0)], ids=["all zeros", "all ones"]
)
def test_ends_of_the_unit_interval(state, expected):
    """Catches a uniform number that can be 0: its logarithm would be infinite and a chain would wait for ever."""
    state = np.array(state, np.uint64)
    assert drawn(many_uniforms, state.copy(), 1)[0] == expected
    assert drawn(many_exponentials, state.copy(), 1)[0] == -math.log(expected)


def test_uniform_has_53_fair_bits(state):
    """Catches coarse uniforms, such as 10 random bits, and bits that stick.

    Fair bits by z-test, alpha 1e-6 over all bits; sees a bit that is one with probability 0.5 +- 0.0072.
    """
    scaled = drawn(many_uniforms, state, N) * 2.0**53
    integers = scaled.astype(np.int64)
    assert np.array_equal(integers, scaled)
    assert integers.min() >= 1
    assert integers.max() <= 2**53
    # Among 4e5 of 2^53 values a repetition has probability 1e-5.
    assert np.unique(integers).size == N
    bits = ((integers - 1)[:, None] >> np.arange(53)) & 1
    z_test(bits.mean(axis=0), 0.5, standard_error=0.5 / math.sqrt(N), detect=0.0072).check()


def test_uniform_law(state):
    """Catches a uniform that is not uniform. Kolmogorov-Smirnov, alpha 1e-6, sees a distance of 0.008."""
    distribution_test(drawn(many_uniforms, state, N), lambda u: u, detect=0.008).check()


def test_successive_uniforms_are_independent(state):
    """Catches numbers that repeat or follow each other. Chi-square on pairs, alpha 1e-6, sees a variation of 0.02."""
    pairs = drawn(many_uniforms, state, (2 * N)).reshape(N, 2)
    cells = np.minimum((pairs * 8).astype(np.int64), 7)
    counts = np.bincount(cells[:, 0] * 8 + cells[:, 1], minlength=64)
    chi_square_test(counts, np.full(64, 1 / 64), detect=0.02).check()


def test_exponential_law(state):
    """Catches a wrong rate or a cut tail. Kolmogorov-Smirnov, alpha 1e-6, sees a distance of 0.008; the tail by eye."""
    draws = drawn(many_exponentials, state, N)
    distribution_test(draws, lambda x: -np.expm1(-x), detect=0.008).check()
    # The largest of n has the law log n + Gumbel: outside (log n - 3, log n + 15) with probability 3e-7.
    assert math.log(N) - 3 < draws.max() < math.log(N) + 15


# --- normals and directions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_normal_law(state, d):
    """Catches a wrong normal, at odd lengths too, where one of a pair is thrown away. Alpha 1e-6, sees 0.009."""
    draws = drawn(many_normals, state, (N, d))
    distribution_test(draws, special.ndtr, detect=0.009).check()


def test_normals_of_one_call_are_independent(state):
    """Catches the dependence within a pair of the polar method. Law of |x|^2 and of products, alpha 1e-6 each."""
    draws = drawn(many_normals, state, (N, 5))
    distribution_test(np.sum(draws**2, axis=1), lambda x: stats.chi2.cdf(x, 5), detect=0.008).check()
    upper = np.triu_indices(5, 1)
    z_test(draws[:, upper[0]] * draws[:, upper[1]], 0.0, detect=0.02).check()


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100])
def test_directions_have_length_one(state, d):
    """Catches a velocity that is not normalised."""
    draws = drawn(many_directions, state, (1000, d))
    np.testing.assert_allclose(np.sum(draws**2, axis=1), 1.0, rtol=1e-14)


def test_direction_in_one_dimension_is_a_sign(state):
    """Catches a sign that is not fair. z-test, alpha 1e-6, sees a probability of 0.5 +- 0.007."""
    draws = drawn(many_directions, state, (N, 1))
    assert set(np.unique(draws)) == {-1.0, 1.0}
    z_test(draws, 0.0, detect=0.0145).check()


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 10])
def test_direction_law(state, d):
    """Catches a normalised cube in place of a sphere, or a component that is left out.

    Law of each v_i^2, which is Beta(1/2, (d-1)/2), and E sum v^4 = 3/(d+2); alpha 1e-6 each. The cube changes the
    second by 0.02 to 0.1.
    """
    draws = drawn(many_directions, state, (N, d))
    some = draws[: 4 * N // d] ** 2
    distribution_test(some, lambda x: special.betainc(0.5, (d - 1) / 2, x), detect=0.014).check()
    z_test(np.sum(draws**4, axis=1), 3 / (d + 2), detect=0.005).check()
    upper = np.triu_indices(d, 1)
    z_test(draws[:, upper[0]] * draws[:, upper[1]], 0.0, detect=0.01).check()
    z_test(draws, 0.0, detect=0.02).check()


# --- streams ----------------------------------------------------------------------------------------------------------


def test_spawned_streams_share_nothing(seed):
    """Catches chains with the same seed, or streams that overlap: no 64-bit output may occur twice in 8 x 10^5."""
    streams = [new_state(child) for child in np.random.SeedSequence(seed).spawn(8)]
    bits = np.array([drawn(many_bits, stream, 100_000, np.uint64) for stream in streams])
    # Two of 8e5 random 64-bit numbers agree with probability 2e-8.
    assert np.unique(bits).size == bits.size


def test_spawned_streams_are_uncorrelated(seed):
    """Catches streams that move together. z-test on products, alpha 1e-6, sees a correlation of 0.02."""
    streams = [new_state(child) for child in np.random.SeedSequence(seed).spawn(8)]
    u = math.sqrt(12) * (np.array([drawn(many_uniforms, stream, 200_000) for stream in streams]) - 0.5)
    upper = np.triu_indices(8, 1)
    z_test((u[upper[0]] * u[upper[1]]).T, 0.0, detect=0.03).check()


def test_states_are_fixed_by_the_seed():
    """Catches a change of the seeding, which would change every byte of every result."""
    state = new_state(np.random.SeedSequence(1711))
    assert state.dtype == np.uint64
    assert state.shape == (4,)
    np.testing.assert_array_equal(state, new_state(np.random.SeedSequence(1711)))
    assert not np.array_equal(state, new_state(np.random.SeedSequence(1712)))
