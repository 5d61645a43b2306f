"""The linear-time sort puts every list of keys into order, also those for which it is not linear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bouncy._compile import kernel
from bouncy.clocks._sorting import sort_order

KEYS = st.lists(st.floats(-1.0, 1.0), max_size=50)
BUNCHED = st.lists(st.sampled_from([-1.0, np.nextafter(-1.0, 0), -0.0, 0.0, 1e-300, np.nextafter(1.0, 0), 1.0]))


@kernel
def sort_compiled(keys, order, buckets):
    sort_order(keys, order, buckets)


def sorted_by(function, keys):
    """Return the order found with dirty scratch, and check that nothing beyond it was written."""
    n = keys.size
    order, buckets = np.full(n + 3, -7, np.int32), np.full(n + 4, 99, np.int32)
    function(keys, order[:n], buckets[: n + 1])
    assert np.all(order[n:] == -7)
    assert np.all(buckets[n + 1 :] == 99)
    return order[:n]


def assert_sorts(function, keys):
    order = sorted_by(function, keys)
    np.testing.assert_array_equal(np.sort(order), np.arange(keys.size))
    np.testing.assert_array_equal(keys[order], np.sort(keys))


@given(KEYS | BUNCHED)
def test_any_keys(keys):
    """Catches keys at the ends of the interval or of a bucket that are lost, doubled or left out of order."""
    assert_sorts(sort_order, np.array(keys, np.float64))


@given(KEYS | BUNCHED)
def test_any_keys_compiled(keys):
    """Catches a difference between compiled and interpreted rounding of a key to its bucket."""
    assert_sorts(sort_compiled, np.array(keys, np.float64))


@pytest.mark.parametrize("n", [1, 2, 1000, 100_000])
def test_many_keys(n, rng):
    """Catches an insertion pass that is quadratic on keys that are spread evenly: 10^5 keys would take minutes."""
    assert_sorts(sort_compiled, rng.uniform(-1, 1, n))


@pytest.mark.parametrize("spread", [1e-3, 1e-12, 0.0])
def test_keys_in_one_bucket(spread, rng):
    """Catches a sort that relies on the keys being spread out."""
    assert_sorts(sort_compiled, 0.3 + spread * rng.uniform(-1, 1, 2000))


def test_equal_keys_keep_their_order():
    """Catches a sort that is not stable: sites with equal keys must be hit in a fixed order."""
    keys = np.tile([0.5, -0.5, 0.5, 1.0, -1.0], 20)
    np.testing.assert_array_equal(sorted_by(sort_order, keys), np.argsort(keys, kind="stable"))
