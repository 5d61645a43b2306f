"""Pairs of sites: their law, their times, and that it leaves no trace where `fill` stops."""

from __future__ import annotations

import numpy as np
import pytest

from bouncy._random import new_state
from bouncy.clocks.contract import fill, started
from bouncy.clocks.pairs import ALONE, alias_table, new_pairing, new_scan
from conftest import base_seed
from helpers.compiled_clocks import fill_compiled, shift_compiled
from helpers.statistics import chi_square_test, distribution_test

SEED = base_seed()
N = 200_000
WEIGHT = np.array([1.0, 4.0, 0.5, 2.5])
# Sites 0 to 2 flip, 3 to 6 are in the table, 7 to 12 in blocks of three, two and one.
PAIRING = new_pairing(
    (0.2, 0.3),
    single=[0, 1, 2],
    table=([3, 4, 5, 3], [4, 5, 6, 6], WEIGHT),
    blocks=[np.array([9, 7, 8]), np.array([10, 12]), np.array([11])],
)


def clock(seed=0):
    return started(new_scan(13, PAIRING, new_state(np.random.SeedSequence([SEED, seed]))))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_alias_table_has_the_weights(n, rng):
    """Catches an alias that is dropped or counted twice: probabilities of entries to 1e-12."""
    weight = rng.gamma(0.3, size=n) + 1e-12
    cutoff, alias = alias_table(weight)
    found = np.zeros(n)
    for e in range(n):
        found[e] += cutoff[e] / n
        found[alias[e]] += (1.0 - cutoff[e]) / n
    np.testing.assert_allclose(found, weight / weight.sum() if n else weight, rtol=0, atol=1e-12)


def test_attempts_have_their_law():
    """Catches shares, weights or blocks that are not those asked for: sees a total variation of 0.02, alpha 1e-6."""
    times, sites = np.empty(2 * N), np.empty(2 * N, np.int32)
    assert fill_compiled(clock(), np.inf, times, sites) == (2 * N, False)
    assert np.array_equal(times[0::2], times[1::2])
    i, j = sites[0::2], sites[1::2]
    expected = np.zeros((13, 14))  # the last column is a flip
    expected[:3, 13] = 0.2 / 3
    for a, b, w in zip([3, 4, 5, 3], [4, 5, 6, 6], WEIGHT, strict=True):
        expected[a, b] = 0.3 * w / WEIGHT.sum()
    for block in ([9, 7, 8], [10, 12]):
        for a in block:
            for b in block:
                expected[a, b] = 0.5 / 6 / (len(block) - 1) * (a != b)
    expected[11, 11] = 0.5 / 6
    counts = np.bincount(i * 14 + np.where(j == ALONE, 13, j), minlength=13 * 14).reshape(13, 14)
    chi_square_test(counts, expected, detect=0.02).check()
    # d spins are tried per unit time: 1.8 of them in an attempt.
    gaps = np.diff(times[0::2]) * 13 / 1.8
    distribution_test(gaps, lambda x: -np.expm1(-x), detect=0.012, name="times between attempts").check()


@pytest.mark.parametrize("capacity", [2, 3, 64])
def test_where_it_stops_leaves_no_trace(capacity):
    """Catches an attempt that is lost, or cut in two, where a buffer is full or a time is reached."""
    times, sites = np.empty(4000), np.empty(4000, np.int32)
    n, reached = fill_compiled(clock(), 60.0, times, sites)
    assert reached
    assert n > 500
    found, running, stop = [], clock(), 0.7
    while stop < 60.0:
        reached = False
        while not reached:
            part, where = np.empty(capacity), np.empty(capacity, np.int32)
            m, reached = fill_compiled(running, min(stop, 60.0), part, where)
            found += where[:m].tolist()
        stop += 0.7
    m = len(found)
    assert m > n - 20
    assert found == sites[:m].tolist()


def test_compiled_and_interpreted_agree():
    """Catches arithmetic of 64 bits that Python does otherwise."""
    compiled, interpreted = (np.empty(200), np.empty(200, np.int32)), (np.empty(200), np.empty(200, np.int32))
    running = clock(1)
    fill_compiled(running, 5.0, *compiled)
    shift_compiled(running, 5.0)
    with np.errstate(over="ignore"):
        n, _ = fill(clock(1), 5.0, *interpreted)
    assert n > 10
    assert compiled[1][:n].tolist() == interpreted[1][:n].tolist()
    assert 0.0 < running.now[0] < 5.0
