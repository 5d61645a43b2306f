"""Restricted targets: allowed states, their probabilities, starts, evidence, temperature and conditional means."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bouncy
from bouncy._compile import kernel
from bouncy.targets.contract import conditional_means, init
from conftest import base_seed
from helpers.statistics import chi_square_test

SEED = base_seed()
MODEL = bouncy.MRF.random(6, sigma_M=0.5, sigma_r=0.4, seed=3)
TARGETS = {
    "sum": lambda: MODEL.fixed_sum(2),
    "sum-1": lambda: MODEL.fixed_sum(1),
    "none-up": lambda: MODEL.fixed_sum(0),
    "all-up": lambda: MODEL.fixed_sum(6),
    "one-hot": lambda: MODEL.one_hot([[4, 0, 2], [1, 3, 5]]),
    "one-hot-and-free": lambda: MODEL.one_hot([[4, 0, 2], [5]]),
    "one-spin": lambda: bouncy.MRF([[0.0]], [0.3]).fixed_sum(1),
    "clamped": lambda: MODEL.fixed_sum(3).clamp({1: +1, 4: -1}),
    "tempered": lambda: MODEL.one_hot([[0, 1, 2], [4, 5]]).tempered(0.5),
}
every_target = pytest.mark.parametrize("name", TARGETS)


@kernel
def _means(view, s, out):
    init(view, s)
    conditional_means(view, s, out)


def by_hand(target):
    """Return the states that the groups allow, and their probabilities, from the target without the constraint."""
    states = bouncy.states(target.d)
    allowed = np.ones(len(states), bool)
    for group, up in zip(target.constraint.groups, target.constraint.ups, strict=True):
        allowed &= (states[:, group] == 1).sum(axis=1) == up
    weight = np.exp(target._target.log_prob(states)) * allowed
    return states, weight / weight.sum()


@every_target
def test_exact_sums_over_allowed_states(name):
    """Catches a state that the walk leaves out, visits twice or gives the cache of another one, to 1e-12."""
    target = TARGETS[name]()
    states, p = by_hand(target)
    exact = bouncy.exact(target)
    np.testing.assert_allclose(exact.probabilities, p, atol=1e-13)
    np.testing.assert_allclose(exact.mean, p @ states, atol=1e-12)
    np.testing.assert_allclose(exact.pair_mean, (states * p[:, None]).T @ states, atol=1e-12)
    log_p = target.log_prob(states)
    assert np.array_equal(np.isfinite(log_p), p > 0)
    assert exact.log_z == pytest.approx(np.log(np.exp(log_p).sum()), abs=1e-12)
    assert np.exp(target.constraint.log_size) == pytest.approx((p > 0).sum())


def test_exact_goes_beyond_25_sites():
    """Catches a limit by the number of sites, where few states are allowed: by pairs, 30 sites with two up."""
    target = bouncy.MRF.random(30, sigma_M=0.3, seed=1)
    exact = bouncy.exact(target.fixed_sum(2))
    i, j = np.triu_indices(30, 1)
    s = np.full((i.size, 30), -1.0)
    s[np.arange(i.size), i] = s[np.arange(i.size), j] = 1.0
    p = np.exp(target.log_prob(s))
    np.testing.assert_allclose(exact.mean, p @ s / p.sum(), atol=1e-12)
    assert exact.probabilities is None
    with pytest.raises(ValueError, match=r"limited to 2\^25 of them, got 2\^27"):
        bouncy.exact(target.fixed_sum(15))


@every_target
def test_starts_are_uniform_on_allowed_states(name):
    """Catches a start that is not allowed, or one that is preferred: chi-square, sees a total variation of 0.1."""
    target = TARGETS[name]()
    generator = np.random.default_rng([SEED, 1])
    s = np.array([target.start(generator) for _ in range(4000)])
    assert s.dtype == np.int8
    counts = np.bincount((s > 0) @ (1 << np.arange(target.d)), minlength=2**target.d)
    _, p = by_hand(target)
    if (p > 0).sum() == 1:
        assert counts[p > 0] == 4000
    else:
        chi_square_test(counts, (p > 0) / (p > 0).sum(), detect=0.1).check()


@every_target
def test_conditional_means_have_the_mean_of_the_spins(name):
    """Catches means of moves that are not allowed, and a pairing that is biased: exact, for 8 pairings, to 1e-12.

    Products of sites of different groups, which pair means are made of, are exact as well.
    """
    target = TARGETS[name]()
    states, p = by_hand(target)
    view, out, group = target.view(), np.zeros(-(-target.d // 4) * 4), target.constraint.group_of
    apart = (group[:, None] != group) | (group < 0)
    for turn in range(8):
        found = np.zeros(states.shape)
        for k in np.flatnonzero(p):
            view.inside.turn[0] = turn
            s = states[k].copy()
            _means(view, s, out)
            assert np.array_equal(s, states[k])
            found[k] = out[: target.d]
        np.testing.assert_allclose(p @ found, p @ states, atol=1e-12)
        pairs, expected = (states * p[:, None]).T @ found, (states * p[:, None]).T @ states
        off = apart & ~np.eye(target.d, dtype=bool)
        np.testing.assert_allclose(pairs[off], expected[off], atol=1e-12)
        assert np.abs(found).max() <= 1.0
    if name in ("sum", "one-hot"):
        moved = (np.abs(found) < 1.0) & (p > 0)[:, None]
        assert moved.any(axis=0).all()  # not merely the spins themselves


def test_one_hot_means_are_those_given_the_other_groups():
    """Catches a softmax over the wrong costs: of three places of a group, given the other one, to 1e-12."""
    target = TARGETS["one-hot"]()
    states, p = by_hand(target)
    view, out = target.view(), np.zeros(8)
    for k in np.flatnonzero(p):
        _means(view, states[k].copy(), out)
        for group in target.constraint.groups:
            others = np.setdiff1d(np.arange(6), group)
            same = (states[:, others] == states[k, others]).all(axis=1)
            np.testing.assert_allclose(out[group], (p * same) @ states[:, group] / (p * same).sum(), atol=1e-12)


@pytest.mark.slow
def test_walls_have_plain_means():
    """Catches a mean by way of a state that is impossible: there the spins themselves are taken."""
    wall = bouncy.Custom(4, log_prob=lambda s: 0.3 * s[0] if s.sum() == 0 else -np.inf)
    for target in (wall.fixed_sum(2), wall.one_hot([[0, 1], [2, 3]])):
        view, out = target.view(), np.zeros(4)
        s = np.array([1, -1, -1, 1], np.int8)
        _means(view, s, out)
        assert out.tolist() == s.tolist()


def test_wrappers_keep_the_constraint():
    """Catches evidence or a temperature that opens other states, or is applied twice."""
    target = MODEL.one_hot([[4, 0, 2], [1, 3]])
    one = target.clamp({4: -1, 5: +1}).tempered(0.5)
    other = target.tempered(0.5).clamp({4: -1, 5: +1})
    np.testing.assert_allclose(bouncy.exact(one).probabilities, bouncy.exact(other).probabilities, atol=1e-13)
    assert one.labels == (0, 1, 2, 3)
    assert one.complete([1, -1, -1, 1]).tolist() == [1, -1, -1, 1, -1, 1]
    whole, given = bouncy.exact(target), bouncy.exact(target.clamp({4: -1}))
    states = bouncy.states(6)
    assert given.log_z - whole.log_z == pytest.approx(np.log(whole.probabilities[states[:, 4] < 0].sum()), abs=1e-12)
    assert target.clamp({4: 1, 0: -1, 2: -1, 1: 1, 3: -1}).constraint is None
    assert target.fingerprint != MODEL.one_hot([[4, 0, 2], [1, 5]]).fingerprint != MODEL.fingerprint
    twin = pickle.loads(pickle.dumps(target))
    assert twin.fingerprint == target.fingerprint
    assert np.array_equal(twin.log_prob(states), target.log_prob(states))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: MODEL.fixed_sum(7), ValueError, "k is 7; expected a number of spins [+]1 from 0 to d = 6"),
        (lambda: MODEL.fixed_sum(-1), ValueError, "k must be"),
        (lambda: MODEL.fixed_sum(2.5), TypeError, "k must be"),
        (lambda: MODEL.one_hot([]), ValueError, "groups is empty"),
        (lambda: MODEL.one_hot([[0], []]), ValueError, r"groups\[1\] is empty"),
        (lambda: MODEL.one_hot([[0, 9]]), ValueError, r"groups\[0\] names the site 9, which is not a label"),
        (lambda: MODEL.one_hot([[0, 1], [2, 1]]), ValueError, r"site 1 is in groups\[0\] and again in groups\[1\]"),
        (lambda: MODEL.one_hot(3), TypeError, "groups must be lists of labels"),
        (lambda: MODEL.one_hot([3, 4]), TypeError, "groups must be lists of labels"),
        (lambda: MODEL.fixed_sum(2).fixed_sum(2), ValueError, "is restricted already"),
        (lambda: MODEL.fixed_sum(1).clamp({0: 1, 1: 1}), ValueError, "sets 2 to [+]1, but 1 of them must be"),
        (
            lambda: bouncy.sample(MODEL.fixed_sum(1), initial=[1] * 6),
            ValueError,
            "initial must be allowed states, with 1",
        ),
    ],
)
def test_what_cannot_be_is_refused(build, error, message):
    """Catches a constraint that means nothing, and starts that break it."""
    with pytest.raises(error, match=message):
        build()


def test_restricted_models_come_back_from_json(tmp_path):
    """Catches a file that forgets a group, or reads one that cannot be."""
    named = bouncy.MRF(np.diag([0.3, 0.2], 1) + np.diag([0.3, 0.2], -1), labels=["a", "b", "c"])
    for target in (named.one_hot([["c", "a"]]), named.fixed_sum(2)):
        bouncy.save_model(target, tmp_path / "model.json", overwrite=True)
        again = bouncy.load_model(tmp_path / "model.json")
        assert again.constraint.description() == target.constraint.description()
        assert again.labels == target.labels
        assert np.array_equal(again.relaxed.M, target.relaxed.M)
        assert repr(again) == repr(target)
    text = (tmp_path / "model.json").read_text()
    for old, new in (
        ("[0, 1, 2]", "[0, 1, 1]"),
        ("[0, 1, 2]", "[]"),
        ('"ups": [2]', '"ups": [4]'),
        ('"ups": [2]', '"ups": []'),
    ):
        assert old in text
        (tmp_path / "bad.json").write_text(text.replace(old, new))
        with pytest.raises(bouncy.ModelFileError, match=r"groups|ups"):
            bouncy.load_model(tmp_path / "bad.json")
    with pytest.raises(TypeError, match="Custom cannot be written to JSON"):
        bouncy.save_model(bouncy.Custom(2, log_prob=lambda s: 0.0).fixed_sum(1), tmp_path / "custom.json")


def test_labels_name_groups():
    """Catches groups that are read as numbers of sites."""
    named = bouncy.MRF(np.zeros((3, 3)), labels=["a", "b", "c"]).one_hot([["c", "a"]])
    assert named.constraint.groups[0].tolist() == [2, 0]
    assert named.labels == ("a", "b", "c")
