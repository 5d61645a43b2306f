"""Keys end up in order, also those for which a sort in linear time is not linear, and few that are ranked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bouncy._compile import kernel
from bouncy.clocks._ranking import MOST_RANKED, rank_pairs
from bouncy.clocks._sorting import sort_order, sort_pairs

KEYS = st.lists(st.floats(-1.0, 1.0), max_size=50)
BUNCHED = st.lists(st.sampled_from([-1.0, np.nextafter(-1.0, 0), -0.0, 0.0, 1e-300, np.nextafter(1.0, 0), 1.0]))


@kernel
def sort_compiled(keys, order, buckets):
    sort_order(keys, order, buckets)


@kernel
def pairs_compiled(keys, labels, most, sorted_keys, sorted_labels, buckets):
    sort_pairs(keys, labels, most, sorted_keys, sorted_labels, buckets)


@kernel
def ranked_compiled(keys, labels, n, sorted_keys, sorted_labels):
    rank_pairs(keys, labels, n, sorted_keys, sorted_labels)


def ranked_interpreted(keys, labels, n, sorted_keys, sorted_labels):
    rank_pairs(keys, labels, n, sorted_keys, sorted_labels)


def pairs_order(keys, order, buckets):
    """Sort pairs of keys in [0, 1] and their numbers, into `order` and scratch of its own."""
    n = keys.size
    sorted_keys, buckets = np.full(n + 3, 99.0), np.full(3 * n + 4, 99, np.int32)
    pairs_compiled(keys, np.arange(n, dtype=np.int32), 1.0, sorted_keys[:n], order, buckets[: 3 * n + 1])
    np.testing.assert_array_equal(sorted_keys, [*keys[order], 99.0, 99.0, 99.0])
    assert np.all(buckets[3 * n + 1 :] == 99)


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
    assert_sorts(pairs_order, np.abs(np.array(keys, np.float64)))


@pytest.mark.parametrize("n", [1, 2, 1000, 100_000])
def test_many_keys(n, rng):
    """Catches an insertion pass that is quadratic on keys that are spread evenly: 10^5 keys would take minutes."""
    keys = rng.uniform(-1, 1, n)
    assert_sorts(sort_compiled, keys)
    assert_sorts(pairs_order, np.abs(keys))


@pytest.mark.parametrize("spread", [1e-3, 1e-12, 0.0])
def test_keys_in_one_bucket(spread, rng):
    """Catches a sort that relies on the keys being spread out."""
    keys = 0.3 + spread * rng.uniform(-1, 1, 2000)
    assert_sorts(sort_compiled, keys)
    assert_sorts(pairs_order, np.abs(keys))


def test_equal_keys_keep_their_order():
    """Catches a sort that is not stable: sites with equal keys must be hit in a fixed order."""
    keys = np.tile([0.5, -0.5, 0.5, 1.0, -1.0], 20)
    np.testing.assert_array_equal(sorted_by(sort_order, keys), np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(sorted_by(pairs_order, np.abs(keys)), np.argsort(np.abs(keys), kind="stable"))


@pytest.mark.parametrize("function", [ranked_compiled, ranked_interpreted])
@given(
    st.lists(st.floats(0.0, 1e300), max_size=MOST_RANKED) | st.lists(st.sampled_from([0.0, 0.5]), max_size=MOST_RANKED)
)
def test_any_few_keys(function, keys):
    """Catches few keys that are lost, doubled or left out of order, above all those that are equal."""
    n = len(keys)
    padded = np.full(-(-n // 16) * 16, 1e301)
    padded[:n] = keys
    sorted_keys, order = np.empty(padded.size), np.empty(padded.size, np.int32)
    function(padded, np.arange(padded.size, dtype=np.int32), n, sorted_keys, order)
    np.testing.assert_array_equal(np.sort(order[:n]), np.arange(n))
    np.testing.assert_array_equal(sorted_keys[:n], np.sort(padded[:n]))
    np.testing.assert_allclose(np.array(keys)[order[:n]], sorted_keys[:n], rtol=2e-14, atol=1e-300)
