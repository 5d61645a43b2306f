"""Batches of equal length against a naive twin, which keeps every step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bouncy.recorders.batches import Batches, batch_length

MOST = st.integers(1, 8).map(lambda half: 2 * half)


def naive_length(n: int, most: int) -> int:
    """Return the length of batches after n steps, by adding up pairs one step after the other."""
    length, closed, steps = 1, 0, 0
    for _ in range(n):
        steps += 1
        if steps == length:
            closed, steps = closed + 1, 0
        if closed == most:
            closed, length = closed // 2, 2 * length
    return length


@given(MOST, st.integers(0, 500))
def test_length_is_that_of_batches_added_up_one_by_one(most, n):
    """Catches batches that are added up a step too late or too early."""
    assert batch_length(n, most) == naive_length(n, most)


@given(MOST, st.integers(0, 10**15))
def test_number_of_batches_stays_bounded(most, n):
    """Catches too many batches, which need memory, and too few, which make standard errors noisy."""
    length = batch_length(n, most)
    assert n // length < most
    assert n // length >= most // 2 or length == 1
    assert length & (length - 1) == 0, "a batch must end where two of half its length do"


def closed_batches(values: np.ndarray, most: int) -> Batches:
    """Return the closed batches of values, (n,), as a worker closes them."""
    batches, begin = Batches(most), 0
    for n in range(1, len(values) + 1):
        if n % batch_length(n - 1, most) == 0:
            batches.append({"sum": values[begin:n].sum(keepdims=True), "count": np.array([float(n - begin)])})
            begin = n
    return batches


@given(MOST, st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_batches_hold_consecutive_steps_of_equal_number(most, n, seed):
    """Catches a batch that is lost, added to the wrong neighbour, or of another length than the others."""
    values = np.random.default_rng(seed).integers(-99, 99, n).astype(float)  # sums of which are exact
    length = batch_length(n, most)
    closed = closed_batches(values, most).closed
    assert len(closed) == n // length
    assert [batch["count"][0] for batch in closed] == [length] * len(closed)
    expected = values[: len(closed) * length].reshape(len(closed), length).sum(axis=1)
    assert [batch["sum"][0] for batch in closed] == expected.tolist()


@pytest.mark.parametrize("more", [1, 3, 30])
def test_shared_batches_are_never_changed(more):
    """Catches a longer run that changes the batches of the shorter one: their arrays cannot be written to here."""
    batches = closed_batches(np.arange(11.0), 4)
    for batch in batches.closed:
        for array in batch.values():
            array.flags.writeable = False
    before, arrays = list(batches.closed), [array.copy() for batch in batches.closed for array in batch.values()]
    twins = [batches.copy(), batches.copy()]
    for twin in twins:
        for k in range(more):
            twin.append({"sum": np.array([float(k)]), "count": np.array([4.0])})
    assert all(a is b for a, b in zip(batches.closed, before, strict=True))
    assert [array.tolist() for batch in batches.closed for array in batch.values()] == [a.tolist() for a in arrays]
    first, second = ([batch["sum"].tolist() for batch in twin.closed] for twin in twins)
    assert first == second
