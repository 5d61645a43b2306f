"""Products of tables against their formula written out, Bayesian networks, walls, and every refusal by name."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bouncy
from bouncy.targets import factor_graph, incidence
from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF
from targets.walks import TOLERANCE, all_states, assert_log_prob, assert_walk, costs_along, random_spins

few = settings(max_examples=40)
SPRINKLER = {
    "rain": ((), [0.8, 0.2]),
    "sprinkler": (("rain",), [[0.6, 0.4], [0.99, 0.01]]),
    "wet": (("sprinkler", "rain"), [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
}


def formula(factors, labels):
    """Return log p as a function of one state: each table is looked up entry by entry."""

    def log_p(s):
        index = {label: int(spin > 0) for label, spin in zip(labels, s, strict=True)}
        entries = [np.asarray(table, float)[tuple(index[v] for v in variables)] for variables, table in factors]
        return -math.inf if 0.0 in entries else math.fsum(map(math.log, entries))

    return log_p


def random_factors(rng, d, n, largest, zeros=0.0):
    """Return n tables over 1 to `largest` different sites, a share of whose entries is zero; all +1 is possible."""
    factors = []
    for size in rng.integers(1, min(d, largest) + 1, n):
        table = np.exp(rng.standard_normal((2,) * size))
        table[rng.random(table.shape) < zeros] = 0.0
        table.flat[-1] = 1.0
        factors.append((tuple(rng.choice(d, size, replace=False).tolist()), table))
    return factors


# Values


def test_log_prob_is_the_formula(rng):
    """Would catch axes read in another order than the variables', or -1 and +1 exchanged."""
    factors = [((), 2.5), *random_factors(rng, 5, 8, 4, zeros=0.05)]
    t = FactorGraph(factors, d=5)
    assert_log_prob(t, formula(factors, range(5)), 10.0)
    with np.errstate(divide="ignore"):
        logs = [(variables, np.log(table)) for variables, table in factors]
    assert np.array_equal(FactorGraph(logs, d=5, log=True).log_prob(all_states(5)), t.log_prob(all_states(5)))


@pytest.mark.parametrize("d", [1, 2, 3, 7, 64, 300])
def test_costs_and_caches_follow_a_walk(d, rng):
    """Would catch a factor that misses a flip, or takes it for one of another of its variables."""
    factors = random_factors(rng, d, 2 * d, 5)
    t = FactorGraph(factors, d=d)
    assert_walk(t, formula(factors, range(d)), random_spins(rng, d), rng.integers(d, size=60), 5.0 * d)


def test_a_table_of_twenty_variables(rng):
    """Would catch strides that overflow, or a wrong order of axes that small tables cannot show."""
    table = rng.random((2,) * 20) + 0.1
    variables = rng.permutation(20).tolist()
    t = FactorGraph([(variables, table)], d=20)
    assert_walk(t, formula([(variables, table)], range(20)), random_spins(rng, 20), rng.integers(20, size=50), 10.0)


def test_walls_cost_infinity(rng):
    """Would catch NaN or a finite cost where the flipped state is impossible, with one zero factor or several."""
    not_both = [[1.0, 2.0], [3.0, 0.0]]
    t = FactorGraph([(("a", "b"), not_both), (("b", "a"), not_both), (("a",), [1.0, 2.0])])
    start = np.array([1, -1], np.int8)  # a = +1, b = -1
    assert costs_along(t, start, [1])[0] == math.inf
    assert t.log_prob([1, 1]) == -math.inf
    assert costs_along(t, start, [0, 1, 1, 0]) == pytest.approx(
        [math.log(3 * 2 * 2), -math.log(2 * 3), math.log(2 * 3), -math.log(12)]
    )


def test_a_zero_beside_a_finite_change_is_still_a_wall():
    """Would catch inf - inf: a flip that gains infinitely in no factor but is ruled out by one."""
    t = FactorGraph([((0,), [1e-300, 1.0]), ((0, 1), [[1.0, 1.0], [0.0, 1.0]]), ((0,), [1.0, 1e300])], d=2)
    assert costs_along(t, np.array([-1, -1], np.int8), [0])[0] == math.inf


@st.composite
def graphs(draw):
    """Draw tables with zeros, ties and extreme entries."""
    d = draw(st.integers(1, 4))
    number = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1e300]), st.floats(1e-6, 1e6))
    factors = []
    for _ in range(draw(st.integers(0, 5))):
        variables = draw(st.lists(st.integers(0, d - 1), max_size=3, unique=True))
        entries = [draw(number) for _ in range(2 ** len(variables))]
        entries[-1] = entries[-1] or 1.0
        factors.append((tuple(variables), np.reshape(entries, (2,) * len(variables))))
    return d, factors


@few
@given(model=graphs(), evidence=st.dictionaries(st.integers(0, 3), st.just(1), max_size=3))
def test_any_small_graph_means_its_formula(model, evidence):
    """Would catch a special entry or shape that breaks log p, what is read back, or what is left after clamping."""
    d, factors = model
    t = FactorGraph(factors, d=d)
    log_p = formula(factors, range(d))
    assert_log_prob(t, log_p, 5000.0)
    assert_log_prob(FactorGraph(t.factors, labels=t.labels, log=True), log_p, 5000.0)
    evidence = {site: spin for site, spin in evidence.items() if site < d}
    if len(evidence) < d:
        free = [i for i in range(d) if i not in evidence]
        assert_log_prob(t.clamp(evidence), lambda s: log_p(_put(d, free, s)), 5000.0)


def _put(d, free, s):
    """Return the state whose free spins are s and whose others are +1."""
    full = np.ones(d)
    full[free] = s
    return full


# Bayesian networks


def test_a_bayesian_network_is_normalised_and_answers_queries():
    """Would catch the node's axis taken for a parent's, and parents in another order than given."""
    t = FactorGraph.from_bayesian_network(SPRINKLER)
    assert t.labels == ("rain", "sprinkler", "wet")
    assert bouncy.exact(t).log_z == pytest.approx(0.0, abs=1e-14)
    joint = np.zeros((2, 2, 2))
    for rain, sprinkler, wet in itertools.product(range(2), repeat=3):
        joint[rain, sprinkler, wet] = (
            SPRINKLER["rain"][1][rain]
            * SPRINKLER["sprinkler"][1][rain][sprinkler]
            * SPRINKLER["wet"][1][sprinkler][rain][wet]
        )
    given = t.clamp({"wet": +1})
    rain = joint[1, :, 1].sum() / joint[:, :, 1].sum()
    assert bouncy.exact(given).mean[0] == pytest.approx(2 * rain - 1, rel=1e-13)
    assert bouncy.exact(given).log_z == pytest.approx(math.log(joint[:, :, 1].sum()), rel=1e-13)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"wet": (("rain",), [0.5, 0.5])}, ValueError, r"tables\['wet'\]\[1\] must have shape \(2, 2\)"),
        ({"wet": (("rain",), [[0.5, 0.5], [0.25, 0.5]])}, ValueError, r"that of 'wet', got the sum of .*\[1\] = 0.75"),
        ({"wet": ((), [1.5, -0.5])}, ValueError, r"must hold probabilities, got tables\['wet'\]\[1\]\[1\] = -0.5"),
        ({"wet": (("snow",), np.full((2, 2), 0.5))}, ValueError, "'wet' has the parent 'snow', which has no table"),
        ({"rain": (("wet",), np.full((2, 2), 0.5))}, ValueError, "has no cycles, got '.*' -> '"),
        ({"rain": (("rain",), np.full((2, 2), 0.5))}, ValueError, "has no cycles, got 'rain' -> 'rain'"),
        ({"wet": [0.5]}, TypeError, r"tables\['wet'\] must be a pair \(parents, table\)"),
        ({"wet": ("rain", np.full((2, 2), 0.5))}, TypeError, "the parents of 'wet' must be a tuple of labels"),
    ],
)
def test_a_table_that_is_no_conditional_probability_is_named(change, error, message):
    """Would catch a network that is silently not normalised, or is not one."""
    with pytest.raises(error, match=message):
        FactorGraph.from_bayesian_network({**SPRINKLER, **change})


def test_a_network_must_be_a_mapping():
    """Would catch a list of tables that is read as something else."""
    with pytest.raises(TypeError, match="tables must be a mapping"):
        FactorGraph.from_bayesian_network([((), [0.5, 0.5])])


# Conditioning and temperature


@pytest.mark.parametrize("evidence", [{0: 1}, {1: -1, 3: 1}, {0: -1, 2: -1, 4: 1}])
def test_clamping_keeps_log_prob_and_family(evidence, rng):
    """Would catch a table sliced along the wrong axis, or a factor that is lost once all its variables are known."""
    factors = random_factors(rng, 5, 10, 3)
    t = FactorGraph(factors, d=5)
    given = t.clamp(evidence)
    assert type(given) is FactorGraph
    full = np.zeros((2**given.d, 5))
    full[:, list(given.labels)] = all_states(given.d)
    full[:, list(evidence)] = list(evidence.values())
    np.testing.assert_allclose(given.log_prob(all_states(given.d)), t.log_prob(full), rtol=TOLERANCE, atol=TOLERANCE)


def test_impossible_evidence_is_refused_by_name():
    """Would catch a clamped target without any state, at which a sampler would hang or fail without a reason."""
    t = FactorGraph([(("a", "b"), [[1, 1], [1, 0]]), (("c",), [1, 1])])
    with pytest.raises(ValueError, match=r"probability zero: a factor rules out \{'a': 1, 'b': 1\}"):
        t.clamp({"a": 1, "b": 1})


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
def test_tempering_multiplies_log_prob_and_keeps_walls(beta):
    """Would catch 0 times infinity, or a wall that opens at beta = 0."""
    t = FactorGraph([((), 3.0), (("a", "b"), [[1.0, 2.0], [3.0, 0.0]])])
    hot = t.tempered(beta)
    assert type(hot) is FactorGraph
    assert hot.labels == ("a", "b")
    expected = [-math.inf if value == -math.inf else beta * value for value in t.log_prob(all_states(2))]
    np.testing.assert_allclose(hot.log_prob(all_states(2)), expected, rtol=1e-14)


# Markov random fields


@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_a_markov_random_field_survives_the_way_there_and_back(storage):
    """Would catch a sign, a pair counted twice, or a lost offset or label in either conversion."""
    random = MRF.random(5, sigma_M=0.7, sigma_r=0.5, seed=2)
    mrf = MRF(storage(random.M * (np.abs(random.M) > 0.2)), random.r, offset=0.7, labels=list("abcde"))
    t = FactorGraph.from_mrf(mrf)
    np.testing.assert_allclose(t.log_prob(all_states(5)), mrf.log_prob(all_states(5)), rtol=TOLERANCE, atol=TOLERANCE)
    back = t.to_mrf()
    np.testing.assert_allclose(sp.coo_array(back.M).toarray(), sp.coo_array(mrf.M).toarray(), atol=1e-14)
    np.testing.assert_allclose(back.r, mrf.r, atol=1e-14)
    assert back.offset == pytest.approx(0.7, abs=1e-13)
    assert back.labels == t.labels == tuple("abcde")


def test_pairwise_tables_become_a_markov_random_field(rng):
    """Would catch a table whose asymmetry is given to the wrong variable."""
    factors = [((), 1.7), *random_factors(rng, 6, 20, 2)]
    t = FactorGraph(factors, d=6)
    np.testing.assert_allclose(t.to_mrf().log_prob(all_states(6)), t.log_prob(all_states(6)), rtol=1e-12, atol=1e-12)


def test_large_sparse_graphs_stay_sparse():
    """Would catch a chain of 2000 sites that is turned into a dense matrix."""
    chain = FactorGraph([((i, i + 1), [[2, 1], [1, 2]]) for i in range(1999)])
    assert chain.to_mrf().is_sparse
    complete = FactorGraph([(pair, [[2, 1], [1, 2]]) for pair in itertools.combinations(range(20), 2)])
    assert not complete.to_mrf().is_sparse


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ((("a", "b", "c"), np.ones((2, 2, 2))), r"pairs only, got a factor of 3 variables, \('a', 'b', 'c'\)"),
        ((("a", "b"), [[1, 1], [1, 0]]), r"a factor with zeros, over \('a', 'b'\)"),
    ],
)
def test_what_no_markov_random_field_can_express_is_named(factor, message):
    """Would catch a conversion that drops a factor or turns a zero into a number."""
    with pytest.raises(ValueError, match=message):
        FactorGraph([factor]).to_mrf()
    with pytest.raises(TypeError, match="mrf must be a bouncy"):
        FactorGraph.from_mrf(factor)


# Starts


def test_starts_are_possible_and_differ(rng):
    """Would catch chains that start in an impossible state, or all in the same one."""
    order = [[1.0, 0.0], [1.0, 1.0]]  # (+1 after -1 is ruled out): d + 1 possible states of 2^d
    t = FactorGraph([((i, i + 1), order) for i in range(49)])
    starts = np.array([t.start(rng) for _ in range(20)])
    assert starts.dtype == np.int8
    assert np.all(np.isfinite(t.log_prob(starts)))
    assert len(np.unique(starts, axis=0)) > 1


def test_the_search_turns_back():
    """Would catch a search that only goes forward: the last site rules out what was chosen for the first two."""
    parity = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    factors = [((0, 1, 4), parity), ((2, 3, 4), 1 - parity), ((1, 2), np.eye(2)), ((0,), [1, 1]), ((3, 5), np.eye(2))]
    t = FactorGraph(factors, d=6)
    for seed in range(10):
        assert np.isfinite(t.log_prob(t.start(np.random.default_rng(seed))))


def test_contradictions_are_said_to_be_so(monkeypatch):
    """Would catch a search that hangs, or that returns an impossible state, where none is possible or none is found."""
    equal, different = np.eye(2), 1 - np.eye(2)
    t = FactorGraph([((0, 1), equal), ((1, 2), equal), ((0, 2), different)])
    with pytest.raises(ValueError, match="contradict each other"):
        t.start(np.random.default_rng(0))
    monkeypatch.setattr(factor_graph, "_SEARCH", 1)
    with pytest.raises(ValueError, match="in 4 steps; pass one as initial="):
        t.start(np.random.default_rng(0))


def test_starts_without_walls_are_uniform():
    """Would catch a needless search, or a start that ignores the generator."""
    t = FactorGraph([((i,), [1, 1]) for i in range(30)])
    a, b = (t.start(np.random.default_rng(seed)) for seed in (1, 1))
    assert np.array_equal(a, b)
    assert 0 < np.sum(a > 0) < 30


# Structure


def test_edges_join_what_shares_a_factor(monkeypatch):
    """Would catch pairs that are not recorded."""
    t = FactorGraph([((0, 2, 1), np.ones((2, 2, 2))), ((3,), [1, 2])])
    assert np.array_equal(t.edges().toarray(), [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    monkeypatch.setattr(incidence, "_MAX_PAIRS", 2)
    assert t.edges() is None


def test_what_is_read_back_cannot_change_the_model():
    """Would catch a table that is handed out, or kept, without a copy."""
    table = np.array([1.0, 2.0])
    t = FactorGraph([((0,), table)])
    table[:] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        t.factors[0][1][:] = 7.0
    assert t.log_prob([1]) == math.log(2)
    assert repr(t) == "FactorGraph(d=1, 1 factor of up to 1 variable)"


@pytest.mark.parametrize(
    ("factors", "options", "error", "message"),
    [
        (3, {}, TypeError, r"factors must be a sequence of \(variables, table\), got int"),
        ({("a",): [1, 1]}, {}, TypeError, "factors must be a sequence"),
        ([("a", [1, 1], 2)], {}, TypeError, r"factors\[0\] must be a pair"),
        ([("a", [1, 1])], {}, TypeError, r"the variables of factors\[0\] must be a tuple of labels .* got 'a'"),
        ([(([1],), [1, 1])], {}, TypeError, r"must be hashable, got \[1\]"),
        ([((0, 1, 0), np.ones((2, 2, 2)))], {}, ValueError, "got 0 more than once"),
        ([((0,), [1, 1]), ((0, 1), [1, 1])], {}, ValueError, r"factors\[1\]\[1\] must have shape \(2, 2\), .*\(2,\)"),
        ([((0,), [1, -2])], {}, ValueError, r"factors\[0\]\[1\]\[1\] = -2.0; pass log=True"),
        ([((0,), [1, math.nan])], {}, ValueError, r"factors\[0\]\[1\]\[1\] = nan"),
        ([((0,), [0, math.inf])], {"log": True}, ValueError, r"factors\[0\]\[1\]\[1\] = inf"),
        ([((0,), ["x", "y"])], {}, TypeError, r"factors\[0\]\[1\] must hold real numbers"),
        ([((0,), [0, 0])], {}, ValueError, r"factors\[0\]\[1\] gives every state the potential zero"),
        ([((), 0.0), ((0,), [1, 1])], {}, ValueError, r"factors\[0\]\[1\] gives every state the potential zero"),
        ([((0,), [-math.inf, -math.inf])], {"log": True}, ValueError, "gives every state the potential zero"),
        ([(tuple(range(21)), 1)], {}, ValueError, r"factors\[0\] has 21 variables, at most 20"),
        ([], {}, ValueError, "at least one site"),
        ([((5,), [1, 1])], {"d": 3}, ValueError, r"factors\[0\] names the site 5, .* 3 sites 0, 1, 2"),
        ([((0,), [1, 1])], {"log": 1}, TypeError, "log must be True or False"),
        ([((0,), [1e308, 0]), ((1,), [1e308, 0])], {"log": True}, ValueError, "overflows"),
    ],
)
def test_refusals_name_the_entry(factors, options, error, message):
    """Would catch input that is taken for something else, or an error that does not say what was wrong."""
    with pytest.raises(error, match=message):
        FactorGraph(factors, **options)
