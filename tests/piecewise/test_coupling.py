"""Products with the coupling matrix against numpy, dense and sparse, with entries of u that are zero."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from bouncy.piecewise.coupling import Dense, Sparse, add_columns, as_coupling, diagonal, multiply, subtract_columns
from conftest import base_seed

STORAGES = {"dense": lambda A: A, "sparse": scipy.sparse.csr_array, "unsorted": lambda A: scipy.sparse.coo_array(A)}
every_storage = pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)


def symmetric(rng: np.random.Generator, d: int) -> np.ndarray:
    """Return a symmetric matrix, (d, d), about half of whose entries are zero."""
    A = rng.standard_normal((d, d)) * (rng.random((d, d)) < 0.4)
    return A + A.T


@every_storage
@given(
    d=st.integers(1, 13),
    zeros=st.sampled_from(["none", "some", "first", "last", "all"]),
    label=st.integers(0, 2**32 - 1),
)
def test_products(storage, d, zeros, label):
    """Catches a row that is dropped, taken twice or paired with the factor of its neighbour when u has zeros."""
    rng = np.random.default_rng([base_seed(), label])
    A, u = symmetric(rng, d), rng.standard_normal(d)
    masks = {"none": [], "some": rng.random(d) < 0.5, "first": slice(0, -(-d // 2)), "last": slice(d // 2, d)}
    u[masks.get(zeros, slice(None))] = 0.0
    out = np.full(d, np.nan)
    multiply(as_coupling(storage(A)), u, out)
    np.testing.assert_allclose(out, A @ u, rtol=1e-12, atol=1e-12)


@every_storage
@given(d=st.integers(1, 13), label=st.integers(0, 2**32 - 1))
def test_columns(storage, d, label):
    """Catches a column that is added to the wrong vector, with the wrong factor, or without its diagonal."""
    rng = np.random.default_rng([base_seed(), label])
    A, f, q = symmetric(rng, d), rng.standard_normal(d), rng.standard_normal(d)
    i, alpha, beta = int(rng.integers(d)), *rng.standard_normal(2)
    expected = f + alpha * A[:, i], q + beta * A[:, i]
    coupling = as_coupling(storage(A))
    add_columns(coupling, i, alpha, f, beta, q)
    np.testing.assert_allclose((f, q), expected, rtol=1e-12, atol=1e-12)
    assert diagonal(coupling, i) == A[i, i]


def test_storage_is_kept():
    """Catches a sparse matrix that is made dense, or entries of one place that are not added up."""
    twice = scipy.sparse.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    coupling = as_coupling(twice)
    assert isinstance(coupling, Sparse)
    np.testing.assert_array_equal(coupling.diagonal, [3.0, 5.0])
    np.testing.assert_array_equal(coupling.indptr, [0, 1, 2])
    assert isinstance(as_coupling(np.eye(2)), Dense)
    empty = as_coupling(scipy.sparse.csr_array((3, 3)))
    out = np.full(3, np.nan)
    multiply(empty, np.ones(3), out)
    np.testing.assert_array_equal(out, np.zeros(3))


@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 6])
def test_columns_are_subtracted(storage, n):
    """Catches columns that are left out where they do not come in fours."""
    rng = np.random.default_rng(n)
    A = rng.standard_normal((7, 7))
    A += A.T
    who, factors, out = rng.permutation(7), rng.standard_normal(7), np.full(7, np.nan)
    subtract_columns(as_coupling(storage(A)), 2, who, factors, n, out)
    np.testing.assert_allclose(out, A[2] - factors[:n] @ A[who[:n]], atol=1e-12)
