"""The functions of targets in compiled loops, each run interpreted and compiled (layer L0, deterministic)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from bouncy._dispatch import state_arrays
from bouncy.targets import contract
from bouncy.targets.contract import conditional_means, flip_cost, init, log_prob, on_flip
from bouncy.targets.mrf import MRF

DIMENSIONS = (1, 2, 3, 7, 64, 1000)
STORAGES = {"dense": np.array, "sparse": sp.csr_array}
TOLERANCE = 1e-12
exhaustive = settings(derandomize=True, database=None, deadline=None, max_examples=50)


# Not the package's own decorator: its disk cache is for the package's sources, and tests must see every edit.
compiled = njit(error_model="numpy")


@compiled
def compiled_flip_cost(view, s, i):
    return flip_cost(view, s, i)


@compiled
def compiled_on_flip(view, s, i):
    on_flip(view, s, i)


@compiled
def compiled_conditional_means(view, s, out):
    conditional_means(view, s, out)


@compiled
def compiled_log_prob(view, s):
    return log_prob(view, s)


@compiled
def compiled_init(view, s):
    init(view, s)


INTERPRETED = contract
COMPILED = SimpleNamespace(
    flip_cost=compiled_flip_cost,
    on_flip=compiled_on_flip,
    conditional_means=compiled_conditional_means,
    log_prob=compiled_log_prob,
    init=compiled_init,
)


def flip(ask, view, s, i):
    """Flip a spin as the loop does."""
    s[i] = -s[i]
    ask.on_flip(view, s, i)


class Case:
    """A model with a state, and the slow answers in extended precision."""

    def __init__(self, M, r, s, storage):
        self.target = MRF(STORAGES[storage](M), r)
        self.M, self.r = np.asarray(M, np.longdouble), np.asarray(r, np.longdouble)
        self.s = np.array(s, dtype=np.int8)
        self.view = self.target.view()
        # the sum of the magnitudes that enter a field: what its rounding is relative to
        self.scale = np.abs(self.r) + np.abs(self.M).sum(axis=1)

    def log_prob(self, s):
        s = s.astype(np.longdouble)
        return -np.sum(s * self.r) - np.sum(s[:, None] * self.M * s[None, :]) / 2

    def flip_cost(self, i):
        flipped = self.s.copy()
        flipped[i] *= -1
        return self.log_prob(self.s) - self.log_prob(flipped)

    def fields(self):
        return self.r + np.sum(self.M * self.s.astype(np.longdouble), axis=1)

    def assert_fields(self):
        assert np.all(np.abs(self.view.h - self.fields()) <= TOLERANCE * self.scale)

    def assert_cost(self, cost, i):
        rounding_of_the_slow_answer = 10 * np.finfo(np.longdouble).eps * np.sum(self.scale)
        assert abs(cost - self.flip_cost(i)) <= TOLERANCE * 2 * self.scale[i] + rounding_of_the_slow_answer


def fixed_case(d, storage, seed=11):
    """Return a model with about half of its couplings zero, at most some eight per site when it is large."""
    rng = np.random.default_rng([seed, d])
    M = np.triu(rng.standard_normal((d, d)) * (rng.random((d, d)) < min(0.5, 8 / d)), 1)
    return Case(M + M.T, rng.standard_normal(d), rng.choice([-1, 1], d), storage)


# Interpreted loops over 1000 x 1000 entries would take minutes and show nothing that 64 sites do not.
@pytest.fixture(
    params=[(d, how) for d in DIMENSIONS for how in ("interpreted", "compiled") if (d, how) != (1000, "interpreted")]
)
def size_and_ask(request):
    d, how = request.param
    return d, INTERPRETED if how == "interpreted" else COMPILED


@pytest.fixture(params=list(STORAGES))
def case(request, size_and_ask):
    case = fixed_case(size_and_ask[0], request.param)
    size_and_ask[1].init(case.view, case.s)
    return case


def test_flip_cost_is_the_difference_of_log_prob(case, size_and_ask):
    """Would catch a wrong sign or factor of a flip's cost, or a field that forgets r or a neighbour."""
    d, ask = size_and_ask
    for i in {0, d // 2, d - 1}:
        case.assert_cost(ask.flip_cost(case.view, case.s, i), i)


def test_fields_follow_many_flips(case, size_and_ask):
    """Would catch one neighbour whose field misses a flip, and an `on_flip` that changes spins itself."""
    d, ask = size_and_ask
    expected = case.s.copy()
    for i in np.random.default_rng(7).integers(d, size=200):
        flip(ask, case.view, case.s, i)
        expected[i] *= -1
    assert np.array_equal(case.s, expected)
    case.assert_fields()
    ask.init(case.view, case.s)
    case.assert_fields()


def test_conditional_means_are_those_of_the_costs(case, size_and_ask):
    """Would catch a vector form of the cost that drifts apart from the scalar one, and a tanh with another argument."""
    d, ask = size_and_ask
    out = np.full(d, np.nan)
    ask.conditional_means(case.view, case.s, out)
    costs = np.array([ask.flip_cost(case.view, case.s, i) for i in range(d)])
    assert np.allclose(out, case.s * np.tanh(costs / 2), rtol=0, atol=1e-12)


def test_log_prob_of_the_view_is_that_of_the_target(case, size_and_ask):
    """Would catch a compiled log p with another constant, sign or counting of pairs than the public one."""
    ask = size_and_ask[1]
    bound = TOLERANCE * np.sum(case.scale)
    assert abs(ask.log_prob(case.view, case.s) - case.log_prob(case.s)) <= bound
    assert abs(case.target.log_prob(case.s) - case.log_prob(case.s)) <= bound


def test_init_overwrites_the_cache(case, size_and_ask):
    """Would catch an `init` that adds to stale fields."""
    case.view.h[:] = 1e10
    size_and_ask[1].init(case.view, case.s)
    case.assert_fields()


def test_views_share_the_model_but_not_their_caches(case, size_and_ask):
    """Would catch chains in threads that write to each other's fields, or a copy of the model per chain."""
    d, ask = size_and_ask
    other, other_s = case.target.view(), -case.s
    ask.init(other, other_s)
    for _ in range(3):
        flip(ask, other, other_s, d - 1)
    case.assert_fields()
    caches = {id(array) for array in state_arrays(case.view)}
    for mine, theirs in zip(case.view, other, strict=True):
        if isinstance(mine, np.ndarray):
            assert np.shares_memory(mine, theirs) == (id(mine) not in caches and mine.size > 0)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_dense_and_sparse_agree(d):
    """Would catch one of the two storages of the same model going its own way."""
    dense, sparse = (fixed_case(d, storage) for storage in STORAGES)
    flips = np.random.default_rng(9).integers(d, size=100)
    for case in (dense, sparse):
        COMPILED.init(case.view, case.s)
        for i in flips:
            flip(COMPILED, case.view, case.s, i)
    assert np.array_equal(dense.s, sparse.s)
    assert np.all(np.abs(dense.view.h - sparse.view.h) <= TOLERANCE * dense.scale)
    bound = TOLERANCE * np.sum(dense.scale)
    assert abs(COMPILED.log_prob(dense.view, dense.s) - COMPILED.log_prob(sparse.view, sparse.s)) <= bound
    assert abs(dense.target.log_prob(dense.s) - sparse.target.log_prob(dense.s)) <= bound


@st.composite
def models(draw):
    """Draw couplings (zeros, ties and small numbers among them), fields, a state and a list of flips."""
    d = draw(st.integers(1, 7))
    number = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-100, 100, allow_subnormal=False))
    M = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            M[i, j] = M[j, i] = draw(number)
    r = [draw(number) for _ in range(d)]
    s = [draw(st.sampled_from([-1, 1])) for _ in range(d)]
    return M, r, s, draw(st.lists(st.integers(0, d - 1), max_size=20))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("ask", [INTERPRETED, COMPILED], ids=["interpreted", "compiled"])
@exhaustive
@given(model=models())
def test_any_small_model_keeps_the_contract(storage, ask, model):
    """Would catch a special value (zero, tie, lone site) that breaks cost, fields or log p along a list of flips."""
    M, r, s, flips = model
    case = Case(M, r, s, storage)
    ask.init(case.view, case.s)
    for i in flips:
        case.assert_cost(ask.flip_cost(case.view, case.s, i), i)
        flip(ask, case.view, case.s, i)
    case.assert_fields()
    assert abs(ask.log_prob(case.view, case.s) - case.log_prob(case.s)) <= TOLERANCE * np.sum(case.scale)


def test_one_compilation_serves_every_model_of_a_storage():
    """Would catch models whose arrays differ in type and so compile a loop once more."""

    @njit
    def first_cost(view, s):
        init(view, s)
        return flip_cost(view, s, 0)

    for storage in STORAGES.values():
        for M in (np.zeros((1, 1)), np.array([[0, 1], [1, 0]]), np.asfortranarray(MRF.random(3).M)):
            first_cost(MRF(storage(M), 1).view(), np.ones(len(M), np.int8))
    assert len(first_cost.signatures) == len(STORAGES)


def test_a_part_without_a_body_is_named():
    """Would catch a target that lacks a function and fails with an unreadable error."""
    with pytest.raises(TypeError, match=r"flip_cost is not implemented for dict .*DenseFields, .*SparseFields"):
        flip_cost({}, np.ones(1, np.int8), 0)
