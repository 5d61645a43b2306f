"""Series and data frames: entries belong together by their labels, whatever order they come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bouncy
from bouncy._labels import align

SITES = ["a", "b", "c", "d"]
ORDERS = [[2, 0, 3, 1], [1, 2, 3, 0]]
M = np.array([[0.0, 0.5, -0.2, 0.1], [0.5, 0.0, 0.3, 0.7], [-0.2, 0.3, 0.0, -0.6], [0.1, 0.7, -0.6, 0.0]])
COV = M + 2.0 * np.eye(4)
R = np.array([0.4, -0.3, 0.2, 0.9])
X = np.array([[0.3, 1.0, -0.7, 0.1], [1.2, -0.4, 0.5, 0.9], [-0.8, 0.6, 0.2, -1.1],
              [0.5, 0.5, -1.3, 0.4], [1.1, -0.9, 0.8, 2.0], [0.0, 0.7, 0.4, -0.5]])  # fmt: skip
Y = X @ [1.0, 0.0, -0.5, 0.2] + np.array([0.1, -0.2, 0.3, 0.0, -0.1, 0.2])
ROWS = ["u", "v", "w", "x", "y", "z"]


def series(values, labels):
    return pd.Series(values, labels)


def frame(values, rows, columns):
    return pd.DataFrame(values, rows, columns)


# Each builds a target of four labelled variables: from series and frames of the values, or from the values alone.
TARGETS = {
    "mrf": lambda s, f: bouncy.MRF(f(M, SITES, SITES), s(R, SITES)),
    "ising": lambda s, f: bouncy.MRF.from_ising(s(R, SITES), f(np.triu(M), SITES, SITES)),
    "qubo": lambda s, f: bouncy.MRF.from_qubo(f(np.triu(COV), SITES, SITES)),
    "rbm": lambda s, f: bouncy.RBM(f(M[:2, 2:], SITES[:2], SITES[2:]), s(R[:2], SITES[:2]), s(R[2:], SITES[2:])),
    "selection": lambda s, f: bouncy.VariableSelection(
        f(X, ROWS, SITES),
        s(Y, ROWS),
        prior="independent",
        slab_scale=s(np.abs(R), SITES),
        inclusion=s([0.2, 0.4, 0.5, 0.7], SITES),
    ),
    "spike-slab": lambda s, f: bouncy.SpikeSlab(
        f(X, ROWS, SITES),
        s(Y, ROWS),
        inclusion=s([0.2, 0.4, 0.5, 0.7], SITES),
        slab_scale=s(np.abs(R), SITES),
        noise_scale=0.7,
    ),
    "lasso": lambda s, f: bouncy.BayesianLasso(
        f(X, ROWS, SITES), s(Y, ROWS), penalty=s(1.0 + R, SITES), noise_scale=0.7
    ),
    "gaussian": lambda s, f: bouncy.Gaussian(s(R, SITES), precision=f(COV, SITES, SITES)),
    "truncated": lambda s, f: bouncy.TruncatedGaussian(
        s(R, SITES), f(COV, SITES, SITES), lower=s(R - 1.0, SITES), upper=s(R + np.arange(1.0, 5.0), SITES)
    ),
    "mixed": lambda s, f: bouncy.MixedBinaryGaussian(
        f(M[:2, :2], SITES[:2], SITES[:2]),
        s(R[:2], SITES[:2]),
        precision=f(COV[2:, 2:], SITES[2:], SITES[2:]),
        linear=s(R[2:], SITES[2:]),
        coupling=f(M[:2, 2:], SITES[:2], SITES[2:]),
        lower=s([-2.0, -3.0], SITES[2:]),
        upper=s([5.0, 4.0], SITES[2:]),
    ),
}


def plain(values, *labels):
    return np.asarray(values)


def shuffled(seed):
    """Return makers of a series and of a frame with their entries in random orders, a new one for each."""
    generator = np.random.default_rng(seed)

    def shuffled_series(values, labels):
        order = generator.permutation(len(labels))
        return series(np.asarray(values)[order], [labels[k] for k in order])

    def shuffled_frame(values, rows, columns):
        found = frame(values, rows, columns)
        return found.iloc[generator.permutation(len(rows)), generator.permutation(len(columns))]

    return shuffled_series, shuffled_frame


def log_density(target, order):
    """Return log p at some states, given in the order of SITES."""
    if target.kind == "spins":
        states = bouncy.states(4)
    else:
        states = np.abs(np.random.default_rng(0).standard_normal((20, 4))) * 0.5
        spins = getattr(target, "spins", 0)
        states[:, :spins] = np.sign(np.random.default_rng(1).standard_normal((20, spins)))
    return target.log_prob(states[:, order])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(6))
def test_order_of_labels_does_not_matter(name, seed):
    """Catches entries that are taken by position though their labels say where they belong."""
    expected = log_density(TARGETS[name](plain, plain), [0, 1, 2, 3])
    assert np.isfinite(expected).any()
    target = TARGETS[name](*shuffled(seed))
    assert sorted(target.labels) == SITES
    found = log_density(target, [SITES.index(label) for label in target.labels])
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TARGETS)
def test_sites_are_in_the_order_of_the_first_argument(name):
    """Catches labels that come from another argument than the documentation says, or are put on other sites."""
    assert TARGETS[name](series, frame).labels == tuple(SITES)

    def backwards(values, rows, columns):
        return frame(values, rows, columns).iloc[::-1, ::-1]

    labels = TARGETS[name](lambda values, labels: series(values, labels).iloc[::-1], backwards).labels
    assert labels == (("b", "a", "d", "c") if name in ("rbm", "mixed") else tuple(SITES[::-1]))


@pytest.mark.parametrize("name", TARGETS)
def test_plain_arrays_have_no_labels(name):
    """Catches a plain array, or a frame that was never given an index, that is treated as if it had labels."""
    target = TARGETS[name](plain, plain)
    numbered = TARGETS[name](lambda v, _: pd.Series(v), lambda v, *_: pd.DataFrame(v))
    assert numbered.labels == target.labels == (("v0", "v1", "h0", "h1") if name == "rbm" else (0, 1, 2, 3))
    order = [0, 1, 2, 3]
    assert np.array_equal(log_density(numbered, order), log_density(target, order))


def test_an_index_is_matched_beside_one_that_is_merely_numbered():
    """Catches a series that was sorted by its values and is then read by position."""
    r = pd.Series(R).sort_values()
    assert r.index.tolist() != [0, 1, 2, 3]
    target = bouncy.MRF(pd.DataFrame(M), r)
    assert target.labels == (0, 1, 2, 3)
    assert np.array_equal(target.r, R)
    shuffled_columns = pd.DataFrame(M)[[2, 0, 1, 3]]
    assert np.array_equal(bouncy.MRF(shuffled_columns, R).M, M)


def test_labels_come_from_whatever_has_them():
    """Catches names that are lost because M is a plain array, and a numbered index that is taken for names."""
    assert bouncy.MRF(M, series(R, SITES)).labels == tuple(SITES)
    assert bouncy.MRF(pd.DataFrame(M), series(R, SITES)).labels == tuple(SITES)
    assert bouncy.MRF(frame(M, SITES, SITES), pd.Series(R)).labels == tuple(SITES)
    assert bouncy.Gaussian(0.0, cov=frame(COV, SITES, SITES)).labels == tuple(SITES)
    only_spins = bouncy.MixedBinaryGaussian(frame(M, SITES, SITES), precision=np.eye(2))
    assert only_spins.labels == (*SITES, 4, 5)


def test_explicit_labels_rename_in_the_order_of_the_index():
    """Catches `labels=` that is ignored beside an index, or that changes what is matched."""
    table, column = frame(M, SITES, SITES).iloc[ORDERS[0], ORDERS[1]], series(R, SITES)
    target = bouncy.MRF(table, column, labels=[1, 2, 3, 4])
    assert target.labels == (1, 2, 3, 4)
    assert np.array_equal(target.r, R[ORDERS[0]])
    assert bouncy.RBM(frame(M[:2, 2:], SITES[:2], SITES[2:]), labels=SITES[::-1]).labels == tuple(SITES[::-1])
    assert bouncy.Gaussian(column, 1.0, labels=[1, 2, 3, 4]).labels == (1, 2, 3, 4)
    lasso = bouncy.BayesianLasso(frame(X, ROWS, SITES), Y, penalty=column + 1.0, noise_scale=1.0, labels=[1, 2, 3, 4])
    assert lasso.labels == (1, 2, 3, 4)


MISMATCHES = {
    "missing": (["a", "b", "c", "e"], r"the index of r must have the same labels as the index of M: 'd' is missing"),
    "duplicate": (["a", "b", "b", "d"], r"got 'b' more than once in the index of r"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_labels_that_do_not_match_are_refused(case):
    """Catches entries that are dropped, or filled up, to make labels match."""
    labels, message = MISMATCHES[case]
    with pytest.raises(ValueError, match=message):
        bouncy.MRF(frame(M, SITES, SITES), series(R, labels))
    with pytest.raises(ValueError, match=message.replace("index of r", "columns of M")):
        bouncy.MRF(frame(M, SITES, labels), R)


def test_the_first_label_that_does_not_match_is_named():
    """Catches a message about another label, and shapes that are blamed where labels are wrong."""
    with pytest.raises(
        ValueError, match=r"the index of r must have the same labels as the index of M, got 'e' as well"
    ):
        bouncy.MRF(frame(M, SITES, SITES), series([1.0] * 6, ["a", "e", "b", "c", "d", "f"]))
    with pytest.raises(ValueError, match=r"the index of y must have the same labels as the index of X: 'w' is missing"):
        bouncy.BayesianLasso(frame(X, ROWS, SITES), series(Y[:2], ROWS[:2]), penalty=1.0, noise_scale=1.0)
    with pytest.raises(
        ValueError, match=r"the index of penalty must have the same labels as the columns of X: 'a' is missing"
    ):
        bouncy.BayesianLasso(frame(X, ROWS, SITES), Y, penalty=series(R, list("bcde")), noise_scale=1.0)
    with pytest.raises(ValueError, match=r"'a' more than once"):
        bouncy.MRF(frame(M, ["a", "a", "b", "c"], ["a", "a", "b", "c"]))


def test_rows_may_have_the_same_label_where_they_are_in_the_same_order():
    """Catches a bootstrap sample, whose rows come several times, that is refused though there is no doubt."""
    rows = ["u", "v", "v", "w", "u", "z"]
    target = bouncy.BayesianLasso(frame(X, rows, SITES), series(Y, rows), penalty=1.0, noise_scale=1.0)
    same = bouncy.BayesianLasso(X, Y, penalty=1.0, noise_scale=1.0)
    assert target.log_prob(R) == same.log_prob(R)
    with pytest.raises(ValueError, match=r"'v' more than once in the index of X"):
        bouncy.BayesianLasso(frame(X, rows, SITES), series(Y, rows[::-1]), penalty=1.0, noise_scale=1.0)


def test_updates_see_the_rows_that_the_target_sees():
    """Catches residuals of the noise that are computed from rows in another order."""
    draw = bouncy.conjugate.noise_scale(X, Y, shape=1.0, rate=1.0)
    matched = bouncy.conjugate.noise_scale(
        frame(X, ROWS, SITES).iloc[::-1], series(Y, ROWS).iloc[[*ORDERS[0], 4, 5]], shape=1.0, rate=1.0
    )
    found = [update(R, {}, np.random.default_rng(0)) for update in (draw, matched)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize("name", TARGETS)
def test_states_are_matched_to_the_sites(name):
    """Catches log p of a state whose entries are in another order than the sites, and a start in that order."""
    target = TARGETS[name](series, frame)
    spins = target.d if target.kind == "spins" else getattr(target, "spins", 0)
    state = np.array([1.0, -1.0, 1.0, 1.0]) if spins == 4 else np.array([1.0, 1.0, 0.3, 0.6])
    named = series(state, SITES)[["c", "a", "d", "b"]]
    assert target.log_prob(named) == target.log_prob(state)
    assert target.log_prob(named.to_frame().T).tolist() == [target.log_prob(state)]
    assert target.check_states("initial", named).tolist() == state.tolist()
    assert target.log_prob(pd.Series(state)) == target.log_prob(state)
    with pytest.raises(ValueError, match=r"the index of initial must have the same labels as .* 'b' is missing"):
        target.check_states("initial", named.rename({"b": "e"}))


def test_other_hyperparameters_are_matched_to_the_variables():
    """Catches the slab of one variable that becomes that of another when it is drawn anew."""
    slab, lasso = TARGETS["spike-slab"](series, frame), TARGETS["lasso"](series, frame)
    other = series(R + 1.0, SITES)[["c", "a", "d", "b"]]
    assert lasso.given(penalty=other).penalty.tolist() == (R + 1.0).tolist()
    assert slab.given(slab_scale=other).slab_scale.tolist() == (R + 1.0).tolist()
    assert slab.given(inclusion=other / 2.0).inclusion.tolist() == ((R + 1.0) / 2.0).tolist()


def test_arguments_in_order_are_passed_on_as_they_are():
    """Catches copies, and frames that have become arrays before the checks that name their columns."""
    table, column = frame(M, SITES, SITES), series(R, SITES)
    values, labels = align(("M", table, "site", "site"), ("r", column, "site"), ("x", [1.0], "site"))
    assert values[0] is table
    assert values[1] is column
    assert values[2] == [1.0]
    assert labels == {"site": tuple(SITES)}
