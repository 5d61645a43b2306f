"""Variable selection: likelihoods against direct computations, the factor along flips, walls, starts, bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numba import njit
from scipy.integrate import quad
from scipy.special import betaln, gammaln
from scipy.stats import multivariate_normal

import bouncy
from bouncy.targets import _factored, variable_selection
from bouncy.targets.contract import conditional_means, flip_cost, init, log_prob, on_flip
from bouncy.targets.variable_selection import VariableSelection
from conftest import base_seed
from helpers.statistics import z_test

SEED = base_seed()
P = 12


def made_up(n=30, p=P, effects=(1.0, -0.7, 0.5), seed=3):
    """Return X, (n, p), with correlated columns of some mean, and y that the first few of them explain in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1)) + rng.standard_normal(p)
    return X, 2.0 + X[:, : len(effects)] @ effects + rng.standard_normal(n)


PRIORS = {
    "g": {"g": 20.0},
    "g, known noise": {"g": 20.0, "noise_scale": 0.8},
    "g, no intercept": {"g": 20.0, "intercept": False},
    "independent": {"prior": "independent", "slab_scale": np.linspace(0.5, 1.5, P)},
    "independent, known noise": {"prior": "independent", "slab_scale": 0.9, "noise_scale": 1.2},
    "independent, known noise, no intercept": {
        "prior": "independent", "slab_scale": 0.9, "noise_scale": 1.2, "intercept": False,
    },
}  # fmt: skip
every_prior = pytest.mark.parametrize("options", PRIORS.values(), ids=PRIORS)


# Slow answers


def direct_log_likelihood(X, y, model, g=None, slab_scale=None, noise_scale=None, intercept=True, prior="g"):
    """Return log p(y | gamma) from the law of y itself: normal with covariance sigma^2 (I + X B X'), B of the prior.

    The intercept is integrated out by a basis of what is orthogonal to it.
    """
    n = y.size
    X = X[:, model]
    if intercept:
        basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
        X, y = basis.T @ X, basis.T @ y
    if prior == "g":
        V = np.eye(y.size) + g * X @ np.linalg.inv(X.T @ X) @ X.T
    else:
        slab = np.broadcast_to(slab_scale, model.size)[model] / (1.0 if noise_scale is None else noise_scale)
        V = np.eye(y.size) + (X * slab**2) @ X.T
    half, square = y.size / 2, y @ np.linalg.solve(V, y)
    constant = -(math.log(n) if intercept else 0.0) / 2 - np.linalg.slogdet(V)[1] / 2
    if noise_scale is not None:
        return constant - half * math.log(2 * math.pi * noise_scale**2) - square / (2 * noise_scale**2)
    return constant + gammaln(half) - half * math.log(math.pi * square)


def precise_log_prob(X, y, model, inclusion, g=None, slab_scale=None, noise_scale=None, prior="g"):
    """Return log p(y, gamma) by Gram-Schmidt in extended precision, each projection made twice."""
    wide = np.longdouble
    X, y, inclusion = X.astype(wide), y.astype(wide), np.asarray(inclusion, wide)
    n, k = y.size, int(model.sum())
    m = n - 1
    X, y = X[:, model] - X[:, model].mean(axis=0), y - y.mean()
    sigma = wide(1 if noise_scale is None else noise_scale)
    rest, total = y.copy(), np.sum(y * y)
    if prior == "independent":
        slab = np.broadcast_to(np.asarray(slab_scale, wide), model.size)[model] / sigma
        X, rest = np.vstack([X, np.diag(1 / slab)]), np.concatenate([rest, np.zeros(k, wide)])
    basis, log_pivots = [], wide(0)
    for j in range(k):
        v = X[:, j].copy()
        for q in basis * 2:
            v -= q * np.sum(q * v)
        log_pivots += np.log(np.sum(v * v))
        basis.append(v / np.sqrt(np.sum(v * v)))
        for _ in range(2):
            rest -= basis[-1] * np.sum(basis[-1] * rest)
    unexplained = np.sum(rest * rest)
    if prior == "g":
        unexplained, penalty = (unexplained * g + total) / (1 + wide(g)), -k * np.log1p(wide(g)) / 2
    else:
        penalty = -np.sum(np.log(slab)) - log_pivots / 2
    if noise_scale is None:
        fit = gammaln(m / 2) - m * np.log(wide(np.pi)) / 2 - m * np.log(unexplained) / 2
    else:
        fit = -m * np.log(2 * wide(np.pi) * sigma**2) / 2 - unexplained / (2 * sigma**2)
    return penalty + fit - np.log(wide(n)) / 2 + np.sum(np.log(np.where(model, inclusion, 1 - inclusion)))


# Compiled access to a view; not the package's own decorator, whose disk cache is for the package's sources.


@njit(error_model="numpy")
def ask(view, s, i, results):
    """Write the cost of flipping site i, and log p before and after the flip, which is made."""
    results[0] = log_prob(view, s)
    results[1] = flip_cost(view, s, i)
    s[i] = -s[i]
    on_flip(view, s, i)
    results[2] = log_prob(view, s)


@njit(error_model="numpy")
def settle(view, s):
    init(view, s)
    return log_prob(view, s)


@njit(error_model="numpy")
def all_costs(view, s, costs):
    for i in range(s.size):
        costs[i] = flip_cost(view, s, i)


@njit(error_model="numpy")
def all_means(view, s, means):
    conditional_means(view, s, means)


class Walk:
    """A view that follows flips."""

    def __init__(self, target, model=()):
        self.view = target.view()
        self.s = np.full(target.d, -1, np.int8)
        self.s[list(model)] = 1
        self.log_prob = settle(self.view, self.s)

    def flip(self, i):
        """Flip a site and return log p before, the cost, and log p after."""
        results = np.empty(3)
        ask(self.view, self.s, i, results)
        return results

    def costs(self):
        costs = np.empty(self.s.size)
        all_costs(self.view, self.s, costs)
        return costs


# The likelihood


@pytest.mark.slow
@every_prior
def test_all_models_have_the_probability_of_the_direct_computation(options):
    """Would catch a wrong exponent, determinant, shrinkage or constant in any of the 4096 models, reached by flips."""
    X, y = made_up()
    inclusion = np.linspace(0.1, 0.6, P)
    target = VariableSelection(X, y, inclusion=inclusion, **options)
    models = bouncy.states(P) > 0
    prior = np.log(np.where(models, inclusion, 1 - inclusion)).sum(axis=1)
    expected = prior + [direct_log_likelihood(X, y, model, **options) for model in models]
    np.testing.assert_allclose(target.log_prob(bouncy.states(P)), expected, rtol=1e-11)
    exact = bouncy.exact(target)
    np.testing.assert_allclose(exact.probabilities, np.exp(expected - exact.log_z), rtol=1e-9)


def test_improper_priors_are_meant_literally():
    """Would catch a constant, or a power of sigma, that the direct computation has wrong in the same way."""
    X, y = made_up(n=6, p=2, effects=(1.0,))
    model = np.array([True, False])
    known = VariableSelection(X, y, prior="independent", slab_scale=0.7, noise_scale=0.9)
    V = 0.81 * np.eye(6) + 0.49 * np.outer(X[:, 0], X[:, 0])
    density = quad(lambda alpha: multivariate_normal(cov=V).pdf(y - alpha), -30, 30, epsabs=0, points=[y.mean()])[0]
    assert known.log_prob([1, -1]) - 2 * math.log(0.5) == pytest.approx(math.log(density), rel=1e-9)

    unknown = VariableSelection(X, y, prior="independent", slab_scale=0.7)

    def with_noise(log_variance):  # the density of log sigma^2 that belongs to 1/sigma^2 is 1
        sigma = math.exp(log_variance / 2)
        return math.exp(direct_log_likelihood(X, y, model, None, 0.7 * sigma, sigma, prior="independent"))

    density = quad(with_noise, -20, 30, epsabs=0, limit=200)[0]
    assert unknown.log_prob([1, -1]) - 2 * math.log(0.5) == pytest.approx(math.log(density), rel=1e-8)


def test_priors_of_inclusion():
    """Would catch a beta-binomial prior that is not a mixture of the others, or of another expected size."""
    X, y = made_up()
    states = bouncy.states(P)
    likelihood = VariableSelection(X, y, inclusion=0.5).log_prob(states) - P * math.log(0.5)
    sizes = (states > 0).sum(axis=1)
    uniform = VariableSelection(X, y, inclusion="beta-binomial").log_prob(states) - likelihood
    expected = [-math.log((P + 1) * math.comb(P, k)) for k in sizes]
    np.testing.assert_allclose(uniform, expected, atol=1e-9)
    sparse = VariableSelection(X, y, inclusion="beta-binomial", expected_size=3).log_prob(states) - likelihood
    weights = np.exp(sparse)
    assert weights.sum() == pytest.approx(1)
    assert weights @ sizes == pytest.approx(3)
    np.testing.assert_allclose(sparse, betaln(1 + sizes, 3 + P - sizes) - betaln(1, 3), atol=1e-9)
    given = VariableSelection(X, y, expected_size=3)
    assert np.array_equal(given.inclusion, np.full(P, 0.25))
    assert np.array_equal(given.log_prob(states), VariableSelection(X, y, inclusion=0.25).log_prob(states))


def test_units_do_not_matter_to_the_g_prior():
    """Would catch columns that are compared in the units they are given in, or not centred."""
    X, y = made_up()
    states = bouncy.states(P)[::7]
    factors = np.logspace(-150, 150, P)
    plain, scaled = VariableSelection(X, y), VariableSelection(X * factors, y)
    np.testing.assert_allclose(scaled.log_prob(states), plain.log_prob(states), rtol=1e-12)
    shifted = VariableSelection(X + 100 * np.arange(P), y - 50)
    np.testing.assert_allclose(shifted.log_prob(states), plain.log_prob(states), rtol=1e-11)


def test_default_g_is_the_benchmark():
    """Would catch a default that forgets one of the numbers of observations and variables."""
    X, y = made_up(n=40)
    assert VariableSelection(X, y).g == P**2
    assert VariableSelection(X[:, :3], y).g == 40


# The factor along flips

# Standard deviation of the difference of columns that are much alike, and the accuracy that is left.
CLOSENESS = {"independent columns": (1.0, 1e-12), "alike": (1e-2, 1e-10), "hardly different": (1e-4, 1e-5)}
WALKS = {
    "g": {"g": 100.0},
    "independent": {"prior": "independent", "slab_scale": 1.0},
    "known noise": {"prior": "independent", "slab_scale": 1.0, "noise_scale": 0.9},
}


@pytest.mark.parametrize("options", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize(("closeness", "tolerance"), CLOSENESS.values(), ids=CLOSENESS)
def test_costs_after_thousands_of_flips_are_those_of_extended_precision(options, closeness, tolerance):
    """Would catch a factor that drifts, by columns in very different units or nearly collinear ones at the latest."""
    n, p = 60, 30
    rng = np.random.default_rng([SEED, 1])
    X, y = made_up(n, p, seed=5)
    X[:, 5] = X[:, 4] + closeness * rng.standard_normal(n)
    X[:, 7] = X[:, 6] + X[:, 8] + closeness * rng.standard_normal(n)
    X *= rng.permutation(np.logspace(-6, 6, p))
    if "slab_scale" in options:
        options = {**options, "slab_scale": options["slab_scale"] / X.std(axis=0)}
    inclusion = rng.uniform(0.2, 0.6, p)
    walk = Walk(VariableSelection(X, y, inclusion=inclusion, **options))
    for step in range(3000):
        i = rng.integers(p)
        if walk.s[i] < 0 and rng.random() < np.mean(walk.s > 0):
            continue  # keeps models at about half of the variables
        before, cost, after = walk.flip(i)
        if step % 100 == 99:
            model = walk.s > 0
            expected_after = precise_log_prob(X, y, model, inclusion, **options)
            model[i] = not model[i]
            expected = precise_log_prob(X, y, model, inclusion, **options)
            assert abs(cost - (expected - expected_after)) <= tolerance * max(1, abs(cost))
            assert abs(before - expected) <= tolerance * abs(before)
            assert abs(after - expected_after) <= tolerance * abs(after)


@pytest.mark.parametrize("stored", [True, False], ids=["correlations stored", "not stored"])
def test_conditional_means_are_those_of_single_costs(stored, monkeypatch):
    """Would catch a variable that is skipped, or handed another's cost, where many are dealt with side by side."""
    X, y = made_up(n=40, p=75)
    X[:, 70] = X[:, 3] + X[:, 4]  # a wall among them
    if not stored:
        monkeypatch.setattr(variable_selection, "_CORRELATIONS_BYTES", 0)
    target = VariableSelection(X, y, expected_size=5)
    for model in ((), (0, 3, 4, 31, 32, 63, 74), range(0, 75, 2)):
        walk = Walk(target, model)
        costs = walk.costs()
        assert (model != (0, 3, 4, 31, 32, 63, 74)) or costs[70] == np.inf
        means = np.zeros(76)
        all_means(walk.view, walk.s, means)
        np.testing.assert_allclose(means[:75], walk.s * np.tanh(costs / 2), atol=1e-11)


def test_correlations_that_are_not_stored_are_computed(monkeypatch):
    """Would catch large problems that get other answers than small ones."""
    X, y = made_up()
    states = bouncy.states(P)[::5]
    for options in WALKS.values():
        stored = VariableSelection(X, y, **options).log_prob(states)
        monkeypatch.setattr(variable_selection, "_CORRELATIONS_BYTES", 0)
        np.testing.assert_allclose(VariableSelection(X, y, **options).log_prob(states), stored, rtol=1e-12)
        monkeypatch.undo()


# Walls


def collinear():
    """Return a target in which 0, 1 and 2 depend on each other, and 3 and 4 are the same but for units."""
    X, y = made_up(n=20, p=7)
    X[:, 2] = X[:, 0] - 3 * X[:, 1]
    X[:, 4] = 5 - 2 * X[:, 3]
    return VariableSelection(X, y, g=20.0)


def test_models_are_impossible_exactly_where_columns_depend_on_each_other():
    """Would catch walls that depend on the way a model is reached, or that let rounding in."""
    target = collinear()
    states = bouncy.states(7)
    model = states > 0
    impossible = model[:, :3].all(axis=1) | model[:, 3:5].all(axis=1)
    assert np.array_equal(target.log_prob(states) == -np.inf, impossible)
    assert np.array_equal(bouncy.exact(target).probabilities == 0, impossible)
    for s in states[~impossible]:
        walls = Walk(target, np.flatnonzero(s > 0)).costs() == np.inf
        flipped = [
            impossible[np.flatnonzero((states == np.where(np.arange(7) == i, -s, s)).all(axis=1))[0]] for i in range(7)
        ]
        assert np.array_equal(walls, flipped)


def test_variance_inflation_follows_flips():
    """Would catch a sum of variance inflation factors that drifts from that of the model, and a stale factor."""
    X, y = made_up(p=8)
    X[:, 5] = X[:, 4] + 1e-3 * X[:, 0] ** 2
    view, s = VariableSelection(X, y)._factored(), np.full(8, -1, np.int8)
    init(view, s)  # interpreted, as the tuple is not linked
    for i in np.random.default_rng([SEED, 4]).integers(8, size=150):
        s[i] = -s[i]
        on_flip(view, s, i)
        k = view.tally[_factored.SIZE]
        U, model = np.triu(view.U[:k, :k]), view.order[:k]
        C = view.correlations[np.ix_(model, model)]
        assert sorted(model) == list(np.flatnonzero(s > 0))
        np.testing.assert_allclose(U.T @ U, C, atol=1e-13)
        np.testing.assert_allclose(U.T @ view.u[:k], view.b[model], atol=1e-13)
        inflation = view.sums[_factored.INFLATION]
        assert inflation == pytest.approx(np.trace(np.linalg.inv(C)), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("difference", "possible"), [(0.01, False), (1.0, True)])
def test_nearly_collinear_models_are_impossible_in_every_order(difference, possible):
    """Would catch a wall on one way into a model and none on another, which would ruin detailed balance."""
    X, y = made_up(n=20, p=4, seed=8)
    # Of 0 and 1 one can explain the other but for 1e-8, with 2 but for 1e-12; of 2 they can explain it but for 1e-4.
    X[:, 1] = X[:, 0] + 1e-4 * (X[:, 2] + difference * X[:, 3])
    for order in itertools.permutations(range(3)):
        target = VariableSelection(X[:, order], y)
        assert np.isfinite(target.log_prob([1, 1, 1])) == possible
        for last in range(3):
            walk = Walk(target, [j for j in range(3) if j != last])
            assert np.isfinite(walk.log_prob)
            assert np.isfinite(walk.flip(last)[1]) == possible


def test_the_factor_recovers_from_an_impossible_model():
    """Would catch caches that stay broken after a flip through a wall, which enumeration makes and chains never do."""
    target = collinear()
    walk = Walk(target, [0, 1])
    assert walk.flip(2)[2] == -np.inf
    assert walk.costs()[0] < -1e50, "there must be a way out"
    assert walk.costs()[5] == np.inf
    assert walk.flip(5)[2] == -np.inf
    _, _, after = walk.flip(1)
    assert after == pytest.approx(float(target.log_prob(walk.s)), rel=1e-13)
    before, cost, after = walk.flip(6)
    assert cost == pytest.approx(before - after, rel=1e-10)


def test_the_independent_prior_does_not_mind_equal_columns():
    """Would catch a wall where the model is well defined."""
    X, y = made_up(n=20, p=4)
    X[:, 1] = X[:, 0]
    options = {"prior": "independent", "slab_scale": 3.0}
    both = np.array([True, True, False, False])
    target = VariableSelection(X, y, **options)
    expected = 4 * math.log(0.5) + direct_log_likelihood(X, y, both, **options)
    assert target.log_prob(2 * both - 1) == pytest.approx(expected, rel=1e-12)


def test_models_are_no_larger_than_they_can_be_or_may_be():
    """Would catch a factor that grows beyond its array, and a rank that forgets the intercept."""
    X, y = made_up(n=5, p=8)
    for options, largest in (({}, 4), ({"intercept": False}, 5), ({"max_size": 2}, 2)):
        target = VariableSelection(X, y, **options)
        assert target.max_size == largest
        sizes = (bouncy.states(8) > 0).sum(axis=1)
        assert np.array_equal(np.isfinite(target.log_prob(bouncy.states(8))), sizes <= largest)
        assert np.all(Walk(target, range(largest)).costs()[largest:] == np.inf)
        means = np.empty(8)
        walk = Walk(target, range(largest))
        all_means(walk.view, walk.s, means)
        assert np.array_equal(means[largest:], np.full(8 - largest, -1.0))
    wide = VariableSelection(X, y, prior="independent", slab_scale=1.0)
    assert np.isfinite(wide.log_prob(bouncy.states(8))).all()


# Sampling


def test_sampled_inclusion_is_that_of_enumeration():
    """Would catch a sampler and a target that do not understand each other, by an error of 0.03 in a probability."""
    X, y = made_up()
    target = VariableSelection(X, y, expected_size=3, labels=[f"x{j}" for j in range(P)])
    run = bouncy.sample(target, "bps-gaussian", chains=4, draws=4000, seed=SEED, pairs="none", progress=False)
    probability = (1 + bouncy.exact(target).mean) / 2
    table = {row.variable: row for row in run.inclusion_table()}
    estimates = np.array([table[f"x{j}"].probability for j in range(P)])
    errors = np.array([table[f"x{j}"].standard_error for j in range(P)])
    batches = run.diagnostics["batches"]
    z_test(estimates, probability, errors, degrees_of_freedom=batches - 1, detect=0.03).check()


@pytest.mark.slow
def test_a_thousand_variables_with_two_hundred_observations():
    """Would catch planted variables that are not found, chains that disagree, and flips of more than O(k^2)."""
    n, p, planted = 200, 1000, np.arange(0, 1000, 125)
    rng = np.random.default_rng([SEED, 2])
    X = rng.standard_normal((n, p))
    y = X[:, planted] @ np.array([1.0, -1.0, 0.8, 0.8, -0.8, 0.7, -0.7, 0.7]) + rng.standard_normal(n)
    target = VariableSelection(X, y, expected_size=10)
    runs = [bouncy.sample(target, "bps-gaussian", chains=2, draws=1000, seed=SEED + k, progress=False) for k in (0, 1)]
    tables = [run.inclusion_table() for run in runs]
    for run, table in zip(runs, tables, strict=True):
        assert {row.variable for row in list(table)[: planted.size]} == set(planted)
        assert table[planted.size - 1].probability > 0.9
        assert run.sampling_seconds / run.diagnostics["hits"] < 5e-6, "seconds for an attempted flip"
    gap = np.abs(runs[0].mean - runs[1].mean) / 2
    error = np.hypot(runs[0].mean_se, runs[1].mean_se) / 2
    # of 1000 differences, and 1e-4 for rare visits that a few batches cannot judge
    assert np.all(gap < 1e-4 + 8 * error)


@pytest.mark.parametrize("inclusion", [0.5, "beta-binomial", 0.001])
def test_chains_start_from_possible_models_that_differ(inclusion):
    """Would catch half of a thousand variables in a model of two hundred observations, where all would be stuck."""
    X, y = made_up(n=40, p=300)
    X[:, 150:] = X[:, :150]  # every variable twice
    target = VariableSelection(X, y, inclusion=inclusion)
    starts = [target.start(np.random.default_rng([SEED, k])) for k in range(20)]
    assert all(s.dtype == np.int8 and np.isfinite(target.log_prob(s)) for s in starts)
    assert max(np.sum(s > 0) for s in starts) <= 10
    assert len({s.tobytes() for s in starts}) > 1


def test_coefficients():
    """Would catch coefficients in the units of scaled columns, or that are not shrunk by the prior."""
    X, y = made_up()
    s = np.where(np.arange(P) < 3, 1, -1)
    centred, response = X[:, :3] - X[:, :3].mean(axis=0), y - y.mean()
    least_squares = np.linalg.lstsq(centred, response)[0]
    got = VariableSelection(X, y, g=4.0).coefficients(s)
    np.testing.assert_allclose(got, [*(0.8 * least_squares), *[0.0] * (P - 3)], rtol=1e-10)
    ridge = np.linalg.solve(centred.T @ centred + np.eye(3) * (0.5 / 2.0) ** 2, centred.T @ response)
    got = VariableSelection(X, y, prior="independent", slab_scale=2.0, noise_scale=0.5).coefficients(s)
    np.testing.assert_allclose(got[:3], ridge, rtol=1e-10)
    with pytest.raises(ValueError, match=r"one model of shape \(12,\), got shape \(2, 12\)"):
        VariableSelection(X, y).coefficients([s, s])
    with pytest.raises(ValueError, match="too large or rank-deficient"):
        VariableSelection(X, y, max_size=2).coefficients(s)


# Input


class Frame:
    """What is asked of a data frame."""

    def __init__(self, columns, values):
        self.columns, self._values = columns, np.asarray(values)

    def to_numpy(self):
        return self._values


def test_names_come_from_a_data_frame():
    """Would catch names that are lost, and columns of booleans that make all others objects."""
    X, y = made_up(p=3)
    target = VariableSelection(Frame(["a", "b", "c"], X), y)
    assert target.labels == ("a", "b", "c")
    assert VariableSelection(Frame(["a", "b", "c"], X), y, labels=[7, 8, 9]).labels == (7, 8, 9)
    assert VariableSelection(X, y).labels == (0, 1, 2)
    mixed = X.astype(object)
    mixed[:, 1] = [bool(value > 0) for value in X[:, 1]]
    numbers = np.column_stack([X[:, 0], X[:, 1] > 0, X[:, 2]])
    states = bouncy.states(3)
    expected = VariableSelection(numbers, y).log_prob(states)
    assert np.array_equal(VariableSelection(Frame(["a", "b", "c"], mixed), y).log_prob(states), expected)
    assert VariableSelection(X > 0, y).d == 3
    mixed[4, 2] = "many"
    with pytest.raises(TypeError, match="column 'c'"):
        VariableSelection(Frame(["a", "b", "c"], mixed), y)
    with pytest.raises(ValueError, match="'a' more than once"):
        VariableSelection(Frame(["a", "b", "a"], X), y)


def test_pandas():
    """Would catch a stand-in for a data frame that pandas does not behave like."""
    pandas = pytest.importorskip("pandas")
    X, y = made_up(p=3)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(d=X[:, 0] > 0)
    target = VariableSelection(frame, pandas.Series(y))
    assert target.labels == ("a", "b", "c", "d")
    plain = VariableSelection(np.column_stack([X, X[:, 0] > 0]), y)
    assert np.array_equal(target.log_prob(bouncy.states(4)), plain.log_prob(bouncy.states(4)))
    frame.loc[2, "b"] = np.nan
    with pytest.raises(ValueError, match=r"X\[2, 1\] = nan|column 'b'"):
        VariableSelection(frame, y)


def test_data_are_copied():
    """Would catch a target that changes when the user's arrays do, or that changes them."""
    X, y = made_up(p=3)
    kept_X, kept_y = X.copy(), y.copy()
    target = VariableSelection(X, y)
    before = target.log_prob(bouncy.states(3))
    assert np.array_equal(X, kept_X)
    assert np.array_equal(y, kept_y)
    X *= 2
    y += X[:, 0]
    assert np.array_equal(target.log_prob(bouncy.states(3)), before)


GOOD = made_up(n=10, p=3)
BAD = {
    "NaN in X": ({"X": np.where(np.eye(10, 3) > 0, np.nan, 1.0)}, ValueError, r"X\[0, 0\] = nan"),
    "X of one dimension": ({"X": np.ones(10)}, ValueError, r"shape \(n, p\).*got \(10,\)"),
    "X without columns": ({"X": np.ones((10, 0))}, ValueError, r"got \(10, 0\)"),
    "text": ({"X": [["a"]] * 10}, TypeError, "X must hold real numbers"),
    "y too short": ({"y": np.ones(9)}, ValueError, r"y must have shape \(10,\).*got shape \(9,\)"),
    "infinite y": ({"y": [np.inf] + [0.0] * 9}, ValueError, r"y\[0\] = inf"),
    "constant y": ({"y": np.full(10, 0.1)}, ValueError, "y is constant.*nothing to explain"),
    "constant column": ({"X": GOOD[0] * [1, 0, 1] + 0.3}, ValueError, "column 1 of X is constant.*leave it out"),
    "zero column": ({"X": GOOD[0] * [1, 0, 1], "intercept": False}, ValueError, "column 1 of X is zero everywhere"),
    "few rows": ({"X": GOOD[0][:2], "y": GOOD[1][:2]}, ValueError, "at least 3 rows, got 2"),
    "huge": ({"X": np.sign(GOOD[0]) * [1, 1.7e308, 1]}, ValueError, "column 1 of X must fit"),
    "prior": ({"prior": "zellner"}, ValueError, "'g' or 'independent', got 'zellner'"),
    "g": ({"g": 0.0}, ValueError, "g must be a finite number > 0, got 0.0"),
    "g of the other prior": ({"prior": "independent", "slab_scale": 1, "g": 2.0}, ValueError, "g belongs to prior='g'"),
    "slab of the other prior": ({"slab_scale": 1.0}, ValueError, "slab_scale belongs to prior='independent'"),
    "no slab": ({"prior": "independent"}, ValueError, "needs slab_scale.*try slab_scale=1"),
    "negative slab": ({"prior": "independent", "slab_scale": [1, -1, 1]}, ValueError, r"slab_scale\[1\] = -1"),
    "slabs": ({"prior": "independent", "slab_scale": [1, 1]}, ValueError, r"shape \(3,\), got shape \(2,\)"),
    "tiny slab": ({"prior": "independent", "slab_scale": [1, 5e-324, 1]}, ValueError, r"slab_scale\[1\] = 5e-324"),
    "noise": ({"noise_scale": -1.0}, ValueError, "noise_scale must be a finite number > 0, got -1.0"),
    "tiny noise": ({"noise_scale": 1e-200}, ValueError, "must fit in a float64, got noise_scale = 1e-200"),
    "never": ({"inclusion": [0.5, 0.0, 0.5]}, ValueError, r"inclusion\[1\] = 0.0.*clamp"),
    "always": ({"inclusion": 1.0}, ValueError, "inclusion = 1.0"),
    "probabilities": ({"inclusion": [0.5, 0.5]}, ValueError, r"shape \(3,\), got shape \(2,\)"),
    "word": ({"inclusion": "uniform"}, ValueError, "'beta-binomial', got 'uniform'"),
    "all": ({"expected_size": 3}, ValueError, "strictly between 0 and p = 3, got 3"),
    "both": ({"expected_size": 1, "inclusion": 0.5}, ValueError, "pass one of them"),
    "intercept": ({"intercept": 1}, TypeError, "intercept must be True or False"),
    "largest": ({"max_size": 0}, ValueError, "max_size must be an integer >= 1, got 0"),
    "labels": ({"labels": ["a", "b"]}, ValueError, "3 sites, got 2 labels"),
}


@pytest.mark.parametrize(("arguments", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_by_name(arguments, error, message):
    """Would catch input that is taken for something else, or an error that does not say where and what to do."""
    X, y = arguments.pop("X", GOOD[0]), arguments.pop("y", GOOD[1])
    with pytest.raises(error, match=message):
        VariableSelection(X, y, **arguments)
