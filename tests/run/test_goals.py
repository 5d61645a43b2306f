"""Where a run ends: draws, seconds, standard errors, disagreement; what it needs for that."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest

import bouncy
from bouncy.recorders.tracked import Tracked
from bouncy.results.overlap import modes_of
from bouncy.run.endings import DisagreementWarning
from bouncy.run.goal import Goal, Verdict
from conftest import base_seed
from helpers.statistics import z_test

FREE = bouncy.MRF(np.zeros((3, 3)), r=[0.3, -0.2, 0.1])
# Two modes that no chain leaves.
STUCK = bouncy.MRF.ising((8, 8), coupling=1.0)
# Spins that no flip can part.
FROZEN = bouncy.MRF(np.array([[0.0, -1e6], [-1e6, 0.0]]))


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)


def _bytes(run):
    return [np.ascontiguousarray(x).tobytes() for x in (run.mean, run.mean_se, run.path_mean, run.log_prob, run.draws)]


# Which goal ends a run


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        ({"draws": 50}, "draws"),
        ({}, "draws"),
        ({"seconds": 0.01}, "seconds"),
        ({"until_se": 0.05}, "until_se"),
        ({"draws": 50, "seconds": 100.0, "until_se": 1e-4}, "draws"),
        ({"draws": 10**9, "seconds": 0.02, "until_se": 1e-7}, "seconds"),
        ({"draws": 10**9, "seconds": 100.0, "until_se": 0.05}, "until_se"),
    ],
)
def test_whichever_comes_first(target, goal, reason):
    """Catches a goal that is forgotten beside others, and a wrong reason for the end of a run."""
    run = bouncy.sample(target, chains=2, keep="means", seed=base_seed(), **goal)
    assert run.stopped_by == reason
    assert run.completed
    if reason == "draws":
        assert run.draws_per_chain == goal.get("draws", 1000)
    if reason == "until_se":
        assert run.mean_se.max() < 0.05


@pytest.mark.parametrize("name", ["draws", "seconds", "until_se"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "5", True, [1.0]])
def test_bad_goals_are_refused(target, name, value):
    """Catches a run that would never end, or end at once, because its goal was not checked."""
    with pytest.raises((TypeError, ValueError), match=name):
        bouncy.sample(target, **{name: value})
    run = bouncy.sample(target, chains=1, draws=10, seed=0)
    with pytest.raises((TypeError, ValueError), match=name):
        run.extend(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"se_of": "mean_se", "until_se": 0.1}, "expected one of mean, path_mean"),
        ({"se_of": 3, "until_se": 0.1}, "name of an estimate or a function"),
        ({"se_of": "pair_mean"}, "until_se"),
        ({"se_of": "pair_mean", "until_se": 0.1, "pairs": "none"}, "pairs are not recorded"),
    ],
)
def test_bad_estimates_are_refused(target, arguments, words):
    """Catches a run that goes by standard errors that do not exist."""
    with pytest.raises((TypeError, ValueError), match=words):
        bouncy.sample(target, **arguments)


@pytest.mark.parametrize("se_of", ["mean", "pair_mean", lambda s: s[:, 0] * s[:, 1]])
def test_precision_does_not_depend_on_threads(target, se_of):
    """Catches a look at the precision that depends on how chains were cut into slices."""
    options = {"chains": 3, "until_se": 0.02, "se_of": se_of, "seed": base_seed()}
    runs = [bouncy.sample(target, threads=n, **options) for n in (1, 2, 3)]
    assert runs[0].stopped_by == "until_se"
    assert _bytes(runs[0]) == _bytes(runs[1]) == _bytes(runs[2])


@pytest.mark.parametrize("chains", [1, 4, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("large", [False, True])
def test_seconds_are_kept_to(chains, large):
    """Catches slices that run past the end, and a warm-up that takes more than its fifth.

    Of 0.2 s, with room for a slice on a machine that is several times slower than it was a moment ago. Timing is that
    of the CPU, so that other processes matter little.
    """
    shape = (150, 150) if large else (2, 3)
    target = bouncy.MRF.ising(shape, coupling=0.4)
    bouncy.sample(target, chains=1, draws=1, warmup=0, seed=0)
    run = bouncy.sample(target, chains=chains, lanes=1, seconds=0.2, keep="means", seed=base_seed())
    spent = np.array([state["cpu_seconds"] for state in run._data.states])
    assert run.stopped_by == "seconds"
    assert 0.2 <= spent.mean() <= 0.35
    assert spent.max() <= 0.6
    assert run._data.warmup_seconds / chains <= 0.2 * 0.2 + 0.02


def test_extensions_have_goals_of_their_own(target):
    """Catches an extension that counts what was before as its own, or stops at the goal of before."""
    run = bouncy.sample(target, chains=2, draws=100, keep="means", seed=base_seed())
    longer = run.extend(seconds=0.05)
    assert longer.stopped_by == "seconds"
    assert 0.05 <= (longer._data.cpu_seconds - run._data.cpu_seconds) / 2 <= 0.2
    bound = 0.8 * longer.mean_se.max()
    precise = longer.extend(until_se=bound)
    assert precise.stopped_by == "until_se"
    assert precise.mean_se.max() < bound
    assert longer.draws_per_chain < precise.draws_per_chain < 20 * longer.draws_per_chain
    last = precise.extend(7)
    assert last.stopped_by == "draws"
    assert last.draws_per_chain == precise.draws_per_chain + 7


def test_extension_to_a_bound_that_holds_already(target):
    """Catches an extension that has to become longer although it is precise enough."""
    run = bouncy.sample(target, chains=4, draws=4000, warmup=100, keep="means", seed=base_seed())
    same = run.extend(until_se=0.5)
    assert same.stopped_by == "until_se"
    assert same.draws_per_chain == 4000
    with pytest.raises(ValueError, match="the function that the run began with"):
        run.extend(until_se=0.1, se_of=lambda s: s[:, 0])


# The rule itself


def test_looks_come_at_a_pace():
    """Catches looks so rare that runs become twice too long, or so frequent that an error bar is small by chance."""
    goal = Goal(until_se=0.1)
    looks = []
    for needed in (5.0, 1.4, 1.0, 1.02):
        assert goal.judge(Verdict(False, 1.0, needed, False), 1000, 1000) is None
        looks.append(goal.next_look)
    assert looks == [2000, 1400, 1100, 1100]
    assert goal.judge(Verdict(True, 0.01, 0.5, False), 1000, 1000) == "until_se"


def test_disagreement_must_last_to_end_a_run():
    """Catches a run that goes on for ever, one that is refused at once, and one that agreed in between."""
    apart, together = Verdict(False, 1.0, 2.0, True), Verdict(False, 1.0, 2.0, False)
    goal = Goal(until_se=0.1)
    assert goal.judge(apart, 100, 300) is None
    assert goal.judge(apart, 100, 199_999) is None
    assert goal.judge(apart, 100, 200_000) == "disagreement"
    assert goal.judge(together, 100, 250_000) is None
    assert goal.judge(apart, 100, 300_000) is None  # 16 times as long as when they were first seen to
    assert goal.judge(apart, 100, 4_799_999) is None
    assert goal.judge(apart, 100, 4_800_000) == "disagreement"


@pytest.mark.slow
@pytest.mark.parametrize("target", [STUCK, FROZEN], ids=["stuck", "frozen"])
def test_runs_that_cannot_become_precise_end(target):
    """Catches a run that never ends because its chains disagree, or cannot move at all."""
    initial = np.ones((2, target.d)) if target is FROZEN else np.outer([1, -1], np.ones(target.d))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = bouncy.sample(target, chains=2, until_se=0.1, keep="means", seed=base_seed(), initial=initial)
    assert run.stopped_by == "disagreement"
    assert run._data.sweeps < 500_000
    told = [str(w.message) for w in caught if w.category is DisagreementWarning]
    assert len(told) == 1
    assert "initial=" in told[0]
    assert ("never moved" in told[0]) == (target is FROZEN)


@pytest.mark.parametrize("bound", [0.05, 0.01])
def test_a_site_that_never_flips_neither_ends_a_run_nor_keeps_it_from_ending(bound):
    """Catches a run by `path_mean` that ends because of errors of zero, or never because an error is missing.

    The first site moves often and is soon known; the second never does, and one excursion of it that was missed must
    weigh less than the bound.
    """
    target = bouncy.MRF(np.zeros((2, 2)), [3.0, 40.0])
    run = bouncy.sample(target, "gibbs", chains=2, until_se=bound, se_of="path_mean", keep="means", seed=base_seed())
    assert run.stopped_by == "until_se"
    assert run.flips_per_site[1] == 0
    assert (run.path_mean_se < bound).all()
    assert 2.0 / bound < 2 * run.draws_per_chain < 2e5


def test_a_run_by_path_means_in_which_nothing_moves_ends():
    """Catches a run that waits for ever for the error of sites that cannot move."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = bouncy.sample(
            FROZEN, chains=2, until_se=1e-9, se_of="path_mean", keep="means", initial=np.ones(2), seed=0
        )
    assert run.stopped_by == "disagreement"
    assert (run.path_mean_se > 0.0).all()


def test_one_chain_is_enough_to_disagree():
    """Catches a test of chains that looks at their average alone: one of four sits elsewhere."""
    run = bouncy.sample(STUCK, chains=4, draws=400, seed=base_seed(), initial=np.outer([1, 1, 1, -1], np.ones(64)))
    assert run._disagreement().min() < 1e-6


@pytest.mark.slow
def test_chains_that_agree_are_rarely_said_to_disagree():
    """Catches a test with too many false alarms: 150 looks at chains that agree, of three sites each.

    Disagreement is claimed below 1e-4 for all sites, so that one false alarm has probability 1.5 %, two 0.01 %.
    """
    alarms = 0
    for k in range(30):
        run = bouncy.sample(FREE, chains=4, draws=64, keep="means", seed=base_seed() + k, threads=1)
        for _ in range(5):
            alarms += bool((run._disagreement() < 1e-4 / 3).any())
            run = run.extend(draws=64)
    assert alarms <= 1


@pytest.mark.slow
def test_recording_begins_anew_where_the_start_was_far_away():
    """Catches means that remember where the chains began: 30 standard deviations away, in a narrow valley.

    With the warm-up of 200 sweeps alone the bias is 0.14 standard deviations, known to 0.01, after four times as many
    draws. Beside the noise of the bound, 0.1, a bias of 0.25 must be seen.
    """
    c, s = np.cos(0.6), np.sin(0.6)
    along, across = np.array([-s, c]), np.array([c, s])
    target = bouncy.Gaussian(np.zeros(2), cov=1e4 * np.outer(along, along) + np.outer(across, across))
    found = []
    for k in range(24):
        # They take 20,000 draws at most; a run that remembers its start would take very many.
        options = {"until_se": 10.0, "draws": 100_000, "keep": "means", "threads": 1}
        run = bouncy.sample(target, "bps", chains=4, seed=base_seed() + k, initial=3000.0 * along, **options)
        assert run.stopped_by == "until_se"
        assert run._data.sweeps < 4.0 * run._data.recorded, "a new beginning must not cost more than it is worth"
        found.append(run.mean @ along / 100.0)
    z_test(np.array(found), 0.0, alpha=1e-5, detect=0.25).check()


def test_warmup_that_was_asked_for_stays(target):
    """Catches a recording that begins anew although the user has said how long the warm-up is."""
    run = bouncy.sample(target, chains=2, until_se=0.005, warmup=10, keep="means", seed=base_seed())
    assert run.warmup == 10


# Functions of states


def test_expectations_of_functions_are_means_of_draws(target):
    """Catches batches of draws that are counted wrongly, in one function or several at once."""
    run = bouncy.sample(target, chains=3, draws=777, seed=base_seed())
    states = run.draws.reshape(-1, 6)
    one, error = run.expect(lambda s: s[:, 0] * s[:, 1])
    assert one == pytest.approx((states[:, 0] * states[:, 1]).mean(), abs=1e-12)
    assert 0.0 < error < 0.1
    many, errors = run.expect(lambda s: s[:, :2].astype(float))
    assert many.shape == errors.shape == (2,)
    np.testing.assert_allclose(many, states[:, :2].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda s: s.sum(), "expected"),
        (lambda s: s[:3, 0], "one row for each state"),
        (lambda s: np.full(len(s), np.nan), "finite"),
        (lambda s: s[:, :, None] * 1.0, "expected"),
    ],
)
def test_bad_functions_are_refused(target, function, words):
    """Catches a function whose numbers do not belong to states, which would be averaged all the same."""
    run = bouncy.sample(target, chains=2, draws=20, seed=0)
    with pytest.raises(ValueError, match=words):
        run.expect(function)
    with pytest.raises(ValueError, match=words):
        bouncy.sample(target, chains=2, until_se=0.1, se_of=function, seed=0)


def test_expectations_need_draws(target):
    """Catches an empty mean where states were not kept, unless the run went by that very function."""
    first = lambda s: s[:, 0]  # noqa: E731
    run = bouncy.sample(target, chains=2, until_se=0.05, se_of=first, keep="means", seed=0)
    value, error = run.expect(first)
    assert abs(value - run.mean[0]) < 6 * math.hypot(error, run.mean_se[0])
    with pytest.raises(ValueError, match="keep='draws'"):
        run.expect(lambda s: s[:, 1])


def test_tracked_batches_hold_everything():
    """Catches a batch that is lost, counted twice or closed too early, however states arrive."""
    rng = np.random.default_rng(base_seed())
    values = rng.normal(size=(1000, 2))
    tracked = Tracked(lambda x: x, 2, 8)
    for part in np.split(values, np.sort(rng.integers(0, 1000, 40))):
        tracked.append([part, -part])
    assert tracked.count == 1000
    for k, sign in enumerate((1.0, -1.0)):
        closed = np.array([batch["f"] for batch in tracked.batches[k].closed])
        np.testing.assert_allclose(closed, sign * values[:896].reshape(7, 128, 2).sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(tracked.open[k], sign * values[896:].sum(axis=0), atol=1e-12)


# Memory


@pytest.mark.slow
def test_means_need_constant_memory(target):
    """Catches something that grows with the number of draws: ten times as many take no more memory."""

    def peak(draws):
        tracemalloc.start()
        bouncy.sample(target, chains=2, draws=draws, keep="means", seed=0, threads=1, warmup=0)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(100)
    small, large = peak(200_000), peak(2_000_000)
    assert large < small + 16e6, "32 bytes of each draw would be 58 MB more"


# Modes


def test_chains_in_mirror_images_give_a_warning():
    """Catches a report that calls chains in opposite modes good because their log p and pair means agree."""
    run = bouncy.sample(STUCK, chains=4, draws=200, seed=base_seed(), initial=np.outer([1, -1, 1, 1], np.ones(64)))
    report = run.diagnostics
    assert isinstance(report["rhat"]["abs_magnetisation"], float)
    assert report["rhat"]["abs_magnetisation"] < 1.1, "mirror images have the same |magnetisation|"
    assert report["overlap"]["within"] > 0.9
    assert report["overlap"]["between"] < 0.1
    assert any("mirror images" in text for text in report["warnings"])
    assert len(str(run.summary()).splitlines()) < 45


def test_chains_in_other_modes_give_a_warning():
    """Catches modes that are no mirror images of each other: half of the spins are turned."""
    J = np.zeros((12, 12))
    J[:6, :6] = J[6:, 6:] = -0.6
    np.fill_diagonal(J, 0.0)
    half = np.r_[np.ones(6), -np.ones(6)]
    run = bouncy.sample(bouncy.MRF(J), chains=2, draws=200, seed=base_seed(), initial=[np.ones(12), half])
    assert any("a part of the states" in text for text in run.diagnostics["warnings"])


@pytest.mark.slow
def test_chains_that_share_their_modes_give_no_warning(seed):
    """Catches overlaps that are compared without their noise: 100 runs, free, slow, or far from symmetric.

    Alarms have probability 1e-5 for a normal mean; 100 runs with an alarm rate of 1e-3 give one in ten times.
    """
    targets = [FREE, bouncy.MRF.ising((4, 4), coupling=0.35), bouncy.MRF.random(8, sigma_M=0.3, sigma_r=1.0, seed=1)]
    alarms = 0
    for k in range(100):
        run = bouncy.sample(targets[k % 3], chains=3, draws=300, seed=seed + k, threads=1)
        alarms += bool(modes_of(run.draws).apart)
    assert alarms == 0


def test_modes_need_something_to_compare(target):
    """Catches a failure of the report where there is one chain, or no draws."""
    assert bouncy.sample(target, chains=1, draws=50, seed=0).diagnostics["overlap"] is None
    means = bouncy.sample(target, chains=2, draws=50, seed=0, keep="means").diagnostics
    assert means["overlap"] is None
    assert isinstance(means["ess"]["abs_magnetisation"], float)
