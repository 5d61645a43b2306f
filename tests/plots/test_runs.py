"""Plots of runs show the numbers of the run, and say what they cannot show."""

from __future__ import annotations

import copy
import inspect
import itertools
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import scipy.sparse
from matplotlib import pyplot
from matplotlib.colors import to_hex
from scipy.signal import lfilter

import bouncy
from bouncy.plots import (
    KINDS,
    plot_autocorrelation,
    plot_errors,
    plot_holding_times,
    plot_lattice,
    plot_marginals,
    plot_overlap,
    plot_pairs,
    plot_rank,
    plot_run,
    plot_trace,
    style,
)
from bouncy.plots.autocorrelation import autocorrelation, chance
from bouncy.plots.holding_times import HoldingTimes, holding_times, survival_of
from bouncy.plots.ranks import rank_histogram
from bouncy.results.overlap import overlap, overlap_of
from bouncy.results.run import Run
from conftest import base_seed
from helpers.statistics import z_test


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(5, sigma_M=0.5, sigma_r=0.2, seed=1)


@pytest.fixture(scope="module")
def run(target):
    return bouncy.sample(target, "bps-exponential", chains=2, draws=200, seed=0)


@pytest.fixture(scope="module")
def other(target):
    return bouncy.sample(target, "bps-exponential", chains=2, draws=100, seed=1)


@pytest.fixture(scope="module")
def lattice_run():
    return bouncy.sample(bouncy.MRF.ising((3, 4), coupling=0.3), chains=2, draws=100, pairs="edges", seed=0)


@pytest.fixture(scope="module")
def path_run():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    y = X @ [0.0, 0.8, 0.2, 0.0] + rng.standard_normal(40)
    target = bouncy.SpikeSlab(X, y, inclusion=0.3, slab_scale=1.0, noise_scale=1.0, labels=("a", "b", "c", "d"))
    return bouncy.sample(target, chains=2, draws=400, seed=0)


@pytest.fixture(scope="module")
def tempered_run(target):
    return bouncy.sample(target, "tempered", chains=2, draws=100, seed=0)


class Made:
    """A run with the traces that are given, which took no sampling."""

    index = Run.index

    def __init__(self, log_prob, draws=None, labels=(0,), **others):
        self.log_prob = np.asarray(log_prob, dtype=np.float64)
        self.draws = np.ones((*self.log_prob.shape, len(labels)), np.int8) if draws is None else np.asarray(draws)
        self.magnetisation = self.draws.mean(axis=2) if self.draws.shape[1] else np.zeros(self.log_prob.shape)
        self.target = SimpleNamespace(labels=tuple(labels), d=len(labels))
        self.sampler = SimpleNamespace(name="gibbs", sweep_time=lambda d: 2.0)
        self.__dict__.update(others)


def _noise(seed, *shape, memory=0.0):
    """Return autoregressive noise with x_t = memory x_{t-1} + e_t along the last axis, after it has settled."""
    e = np.random.default_rng([base_seed(), seed]).standard_normal((*shape[:-1], shape[-1] + 200))
    return lfilter([1.0], [1.0, -memory], e, axis=-1)[..., 200:]


# Traces


def _pale_and_bold(ax):
    bold = [line for line in ax.lines if line.get_label().startswith("chain")]
    return [line for line in ax.lines if line not in bold], bold


def test_trace_shows_the_number_that_was_asked_for(run):
    """Catches a log p of the wrong sign, a magnetisation for its size, and a site in the place of another."""
    expected = {
        "log_prob": run.log_prob,
        "magnetisation": run.draws.mean(axis=2),
        "|magnetisation|": np.abs(run.draws.mean(axis=2)),
        3: run.draws[:, :, 3],
    }
    for what, values in expected.items():
        pale, _ = _pale_and_bold(plot_trace(run, what))
        np.testing.assert_allclose([line.get_ydata() for line in pale], values, atol=1e-12)
        np.testing.assert_array_equal(pale[0].get_xdata(), np.arange(200))


def test_trace_finds_labels_and_parameters():
    """Catches labels that are taken for places, and numbers beside the target that cannot be drawn."""
    draws = np.random.default_rng(0).choice([-1, 1], (2, 10, 2)).astype(np.int8)
    scale = np.arange(20.0).reshape(2, 10)
    made = Made(np.zeros((2, 10)), draws, labels=("left", "right"), parameters={"scale": scale})
    ax = plot_trace(made, "right")
    np.testing.assert_array_equal([line.get_ydata() for line in _pale_and_bold(ax)[0]], draws[:, :, 1])
    assert ax.get_ylabel() == "right"
    np.testing.assert_array_equal(_pale_and_bold(plot_trace(made, "scale"))[0][1].get_ydata(), scale[1])


def test_trace_counts_draws_that_were_not_kept():
    """Catches an axis in kept values: with every third draw kept, the last of 50 is draw 147."""
    ax = plot_trace(Made(_noise(0, 1, 50), trace_spacing=3))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), 3 * np.arange(50))
    assert ax.get_xlim() == (0, 147)


def test_bold_line_goes_through_means_of_stretches():
    """Catches means over the wrong draws, or drawn at the end of their stretch instead of its middle."""
    log_prob = np.arange(400.0)[None] ** 2
    (line,) = _pale_and_bold(plot_trace(Made(log_prob)))[1]
    np.testing.assert_allclose(line.get_ydata(), log_prob.reshape(40, 10).mean(axis=1))
    np.testing.assert_allclose(line.get_xdata(), np.arange(400.0).reshape(40, 10).mean(axis=1))


def test_long_trace_keeps_what_sticks_out():
    """Catches thinning that loses single draws, points out of order, and a picture of a million points."""
    log_prob = 1e-3 * _noise(1, 1, 100_000)
    log_prob[0, 12_345], log_prob[0, 77_777] = 5.0, -7.0
    line = plot_trace(Made(log_prob)).lines[0]
    x, y = line.get_xdata(), line.get_ydata()
    assert x.size <= 2000
    assert (np.diff(x) >= 0).all()
    np.testing.assert_array_equal(y, log_prob[0, x])
    assert {(12_345, 5.0), (77_777, -7.0)} <= set(zip(x.tolist(), y.tolist(), strict=True))


@pytest.mark.parametrize("chains", [1, 4, 16, 40])
def test_chains_can_be_told_apart(chains):
    """Catches two chains of one colour, a legend that runs off the page, and one where there is nothing to tell."""
    ax = plot_trace(Made(_noise(2, chains, 30)))
    bold = _pale_and_bold(ax)[1]
    assert len({to_hex(line.get_color()) for line in bold}) == chains
    named = [] if ax.get_legend() is None else [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == {1: [], 4: [f"chain {k}" for k in range(4)]}.get(chains, named)
    assert len(named) <= 16


def test_trace_says_what_it_cannot_show(run, path_run):
    """Catches an obscure error for a wrong name, a run without states or log p, and one that has just begun."""
    with pytest.raises(
        ValueError, match=r"what is 'enrgy'; expected 'log_prob', 'magnetisation', '\|magnetisation\|', or"
    ):
        plot_trace(run, "enrgy")
    with pytest.raises(ValueError, match="what is 'magnetisation', which only runs on spins have"):
        plot_trace(path_run, "magnetisation")
    with pytest.raises(ValueError, match="no states were kept; sample again with keep='draws'"):
        plot_trace(Made(_noise(0, 2, 9), np.ones((2, 0, 1), np.int8)), 0)
    log_prob = _noise(0, 2, 9)
    log_prob[1, 4] = np.nan
    with pytest.raises(ValueError, match="log_prob is nan at draw 4 of chain 1"):
        plot_trace(Made(log_prob))
    with pytest.raises(ValueError, match="the run has 3 draws per chain; expected at least 4"):
        plot_trace(Made(log_prob[:, :3]))
    assert pyplot.get_fignums() == []


# Ranks


def test_ties_are_broken_in_all_ways_at_once():
    """Catches ranks of ties that favour a chain: compares with the mean over all orders of five equal values."""
    values = np.array([[1.0, 2.0, 2.0, 5.0], [2.0, 0.0, 2.0, 2.0]])
    flat, tied = values.ravel(), np.flatnonzero(values.ravel() == 2.0)
    counts = np.zeros((2, 4))
    orders = list(itertools.permutations(range(tied.size)))
    for order in orders:
        broken = flat.copy()
        broken[tied] += 0.01 * np.array(order)
        rank = np.argsort(np.argsort(broken))
        for draw, r in enumerate(rank):
            counts[draw // 4, r // 2] += 1.0
    edges, ratio, _ = rank_histogram(values, bins=4)
    np.testing.assert_allclose(edges, [0, 2, 4, 6, 8])
    np.testing.assert_allclose(ratio, counts / len(orders))


def test_ranks_of_chains_without_overlap():
    """Catches ranks from the wrong end, and bars that are not divided by what is expected."""
    _, ratio, _ = rank_histogram(np.array([[5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]]), bins=2)
    np.testing.assert_array_equal(ratio, [[0.0, 2.0], [2.0, 0.0]])


def test_band_of_ranks_allows_for_memory():
    """Catches a band for independent draws, which a third of the bars would leave, and one that allows anything.

    The share of bars outside is 0.05 for a long chain. Its standard error over 40 replicates is below 0.008, so that
    the limits are 4 of them away from what was found over other seeds (0.064).
    """
    outside = []
    for x in _noise(3, 40, 4, 2000, memory=0.9):
        _, ratio, half_width = rank_histogram(x)
        outside.append((np.abs(ratio - 1.0) > half_width).mean())
    assert 0.03 < np.mean(outside) < 0.10


def test_chains_that_are_stuck_do_not_widen_the_band():
    """Catches an effective sample size over all chains, by which chains that disagree are all within chance."""
    x = _noise(4, 2, 2000, memory=0.5) + np.array([[0.0], [50.0]])
    _, ratio, half_width = rank_histogram(x)
    assert (np.abs(ratio - 1.0) == 1.0).all()
    assert half_width.max() < 0.3


def test_rank_plot_shows_the_histogram(run):
    """Catches bars in the lane of another chain, a line that is not where the bars are expected, or a missing band."""
    edges, ratio, half_width = rank_histogram(run.log_prob)
    ax = plot_rank(run)
    lines = sorted({float(line.get_ydata()[0]) for line in ax.lines}, reverse=True)
    unit = lines[1]
    np.testing.assert_allclose(lines, [1.0 + unit, unit])
    for k, bottom in enumerate((1.0, 0.0)):
        bars, band = ax.patches[4 * k], ax.patches[4 * k + 1]
        np.testing.assert_allclose((bars.get_data().values - bottom) / unit, ratio[k])
        np.testing.assert_array_equal(bars.get_data().edges, edges)
        assert bars.get_data().baseline == bottom
        assert to_hex(bars.get_facecolor()) == style.chain_colours(2)[k]
        np.testing.assert_allclose((band.get_data().values - bottom) / unit, 1.0 + half_width)
        np.testing.assert_allclose((band.get_data().baseline - bottom) / unit, np.maximum(1.0 - half_width, 0.0))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["chain 0", "chain 1"]


def test_single_chain_is_compared_with_itself():
    """Catches a flat picture of one chain, which has all ranks there are: this one has moved up half-way."""
    ax = plot_rank(Made(np.repeat([0.0, 1.0], 50)[None] + 1e-3 * _noise(5, 1, 100)), bins=2)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["first half", "second half"]
    first, second = (patch.get_data() for patch in (ax.patches[0], ax.patches[4]))
    assert first.values[1] == first.baseline
    assert second.values[0] == second.baseline


# Autocorrelation


def test_autocorrelation_is_that_of_its_definition():
    """Catches a wrapped-around transform, a mean or variance of each chain by itself, and a lag that is off by one."""
    x = _noise(6, 3, 17, memory=0.7) + np.array([[0.0], [1.0], [-1.0]])
    centred = x - x.mean()
    expected = [(centred[:, : 17 - k] * centred[:, k:]).mean() / (centred**2).mean() for k in range(17)]
    np.testing.assert_allclose(autocorrelation(x), expected, atol=1e-12)


def test_chance_grows_with_what_comes_before():
    """Catches a band for white noise: by hand, (1 + 2 sum of squares before) over the number of pairs of draws."""
    expected = 1.959964 * np.sqrt([0.0, 1.0 / 98, 1.5 / 96, 1.625 / 94])
    np.testing.assert_allclose(chance(np.array([1.0, 0.5, 0.25, 0.1]), 2, 50), expected, rtol=1e-6)


def test_autocorrelation_plot_shows_it(run):
    """Catches stems at the wrong lags, and an effective sample size that is not that of the diagnostics."""
    ax = plot_autocorrelation(run, max_lag=12)
    (line,) = [line for line in ax.lines if line.get_label().startswith("bps")]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(13))
    np.testing.assert_allclose(line.get_ydata(), autocorrelation(run.log_prob)[:13])
    assert line.get_label() == f"bps-exponential: {run.diagnostics['ess']['log_prob']:.0f} effective of 400 draws"
    (band,) = [c for c in ax.collections if hasattr(c, "get_paths") and "Fill" in type(c).__name__]
    top = band.get_paths()[0].vertices[:, 1].max()
    np.testing.assert_allclose(top, chance(autocorrelation(run.log_prob)[:13], 2, 200).max())


def test_lags_are_in_draws_and_reach_far_enough():
    """Catches lags in kept values, and a picture that ends before the chain has forgotten, or after half of it."""
    log_prob = _noise(7, 2, 2000, memory=0.95)
    line = plot_autocorrelation(Made(log_prob, trace_spacing=4)).lines[-1]
    lags = line.get_xdata()
    assert lags[1] == 4
    assert 4 * 100 < lags[-1] <= 4 * 1000
    assert plot_autocorrelation(Made(log_prob, trace_spacing=4), max_lag=40).lines[-1].get_xdata()[-1] == 40


def test_stuck_chains_stay_correlated():
    """Catches a mean of each chain by itself, which hides that chains sit in different places for ever."""
    log_prob = 0.1 * _noise(8, 2, 400) + [[-1.0], [1.0]]
    assert plot_autocorrelation(Made(log_prob), max_lag=200).lines[-1].get_ydata().min() > 0.95
    with pytest.raises(ValueError, match="log_prob is 3 in all draws of all chains; expected one that changes"):
        plot_autocorrelation(Made(np.full((2, 10), 3.0)))


# Holding times

FLIP = np.dtype([("time", "f8"), ("site", "i4")])


def _with_flips(*chains, duration, d=3):
    flips = tuple(np.array(events, dtype=FLIP) for events in chains)
    return Made(np.zeros((len(chains), 4)), labels=tuple("abcdefgh"[:d]), flips=flips, duration=duration)


def test_holding_times_by_hand():
    """Catches a first segment that is counted, a last one that is lost, mixed sites or chains, and units of the clock.

    A sweep of the made-up sampler takes 2 units. Site b never flips in the first chain, and site c in neither.
    """
    made = _with_flips([(1.0, 0), (4.0, 0), (9.0, 0)], [(2.0, 1), (3.0, 0), (6.0, 1)], duration=10.0)
    times = holding_times(made)
    assert sorted(times.ended) == [1.5, 2.0, 2.5]
    assert sorted(times.running) == [0.5, 2.0, 3.5]
    assert times.silent == 3
    only = holding_times(made, 1)
    assert (list(only.ended), list(only.running), only.silent) == ([2.0], [2.0], 1)


def test_survival_by_hand():
    """Catches censored times that count as flips, or leave the risk before their end: Kaplan and Meier by hand."""
    t, survival = survival_of(HoldingTimes(np.array([1.0, 2.0, 2.0, 4.0]), np.array([2.0, 3.0]), 0))
    np.testing.assert_array_equal(t, [1.0, 2.0, 4.0])
    np.testing.assert_allclose(survival, [5 / 6, 5 / 6 * 3 / 5, 0.0])


def test_survival_is_unbiased_in_short_recordings():
    """Catches segments cut by the ends of a recording that are dropped or counted in full.

    Holding times uniform on (0, 2), seen for a time of 3 that begins long after the first flip: P(T > 1) = 1/2. Without
    the last segments of all sites it would be 0.38, with the first ones 0.43, and 0.33 if the last ones were over.
    False alarms: 1e-6.
    """
    rng = np.random.default_rng([base_seed(), 9])
    found = []
    for _ in range(60):
        flips = np.cumsum(rng.uniform(0.0, 2.0, (400, 40)), axis=1) - 20.0
        seen = (flips > 0.0) & (flips < 3.0)
        events = sorted(zip(flips[seen], np.nonzero(seen)[0], strict=True))
        made = _with_flips(events, duration=3.0)
        made.target.d = 400
        t, survival = survival_of(holding_times(made))
        found.append(survival[np.searchsorted(t, 0.5, side="right") - 1])
    z_test(np.array(found), 0.5, detect=0.025).check()


def test_holding_time_plot_shows_the_curve():
    """Catches steps before their time, a curve that falls to nothing on a logarithmic scale, and a wrong rate."""
    made = _with_flips([(1.0, 0), (4.0, 0), (9.0, 0)], [(2.0, 1), (3.0, 0), (6.0, 1)], duration=10.0)
    ax = plot_holding_times(made)
    curve, straight = ax.lines
    assert curve.get_drawstyle() == "steps-post"
    t, survival = survival_of(holding_times(made))
    np.testing.assert_allclose(curve.get_xdata(), [0.0, *t, t[-1]])
    np.testing.assert_allclose(curve.get_ydata(), [1.0, *survival, survival[-1]])
    (_, x), (_, y) = straight.get_xdata(), straight.get_ydata()
    np.testing.assert_allclose(-np.log(y) / x, 3 / 12.0)
    assert ax.get_yscale() == "log"
    assert curve.get_label() == "all 3 sites, 3 holding times\n(no flip in 3 of 6 sites × chains)"
    ax = plot_holding_times(made, sites=["b", 0])
    assert [line.get_label() for line in ax.lines[::2]] == ["b, 1 holding times", "a, 2 holding times"]


def test_long_holding_curve_is_drawn_with_few_points():
    """Catches a picture of a million steps, and one that is off the curve."""
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.exponential(1.0, 20_000))
    made = _with_flips([(t, 0) for t in times], duration=times[-1] + 1.0, d=1)
    t, survival = survival_of(holding_times(made))
    line = plot_holding_times(made).lines[0]
    x, y = line.get_xdata(), line.get_ydata()
    assert x.size <= 2100
    at = np.searchsorted(t, x, side="right") - 1
    exact = np.where(at < 0, 1.0, survival[np.maximum(at, 0)])
    np.testing.assert_allclose(y[exact > 0.0], exact[exact > 0.0])
    assert x[-1] == t[-1]


def test_holding_times_say_what_is_missing(run):
    """Catches an obscure error for a run that has not kept its path, and for one without two flips of a site."""
    if not hasattr(run, "flips"):
        with pytest.raises(ValueError, match="sample again with keep='path'"):
            plot_holding_times(run)
    with pytest.raises(ValueError, match="sample again with keep='path'"):
        plot_holding_times(Made(np.zeros((1, 4)), flips=None))
    quiet = _with_flips([(1.0, 0)], duration=2.0)
    with pytest.raises(ValueError, match="no chain has two flips of any site, and so no holding time; run longer"):
        plot_holding_times(quiet)
    with pytest.raises(ValueError, match="no chain has two flips of 'c'"):
        plot_holding_times(quiet, sites=["c"])
    with pytest.raises(ValueError, match="sites is empty"):
        plot_holding_times(quiet, sites=[])
    assert pyplot.get_fignums() == []


# Pairs


def _image(ax):
    (image,) = ax.images
    return image


def _matrix(ax):
    """Return what a picture of a matrix shows, with NaN where it shows nothing."""
    return _image(ax).get_array().filled(np.nan)


def test_pairs_are_correlations_with_symmetric_colours(run):
    """Catches covariances for correlations, colours whose middle is not 0, and a diagonal that outshines the rest."""
    ax = plot_pairs(run)
    image = _image(ax)
    covariance = run.pair_mean - np.outer(run.mean, run.mean)
    expected = covariance / np.sqrt(np.outer(1 - run.mean**2, 1 - run.mean**2))
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(_matrix(ax)[off], expected[off])
    assert image.get_array().mask[~off].all()
    assert image.norm.vmax == -image.norm.vmin == np.abs(expected[off]).max()
    np.testing.assert_allclose(_matrix(plot_pairs(run, kind="mean"))[off], run.pair_mean[off])


def test_pairs_of_continuous_variables(path_run):
    """Catches correlations of spins on a continuous target, and means of products without the product of the means."""
    off = ~np.eye(4, dtype=bool)
    scale = np.sqrt(np.diag(path_run.covariance))
    ax = plot_pairs(path_run)
    np.testing.assert_allclose(_matrix(ax)[off], (path_run.covariance / np.outer(scale, scale))[off])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c", "d"]
    product = path_run.covariance + np.outer(path_run.mean, path_run.mean)
    np.testing.assert_allclose(_matrix(plot_pairs(path_run, kind="mean"))[off], product[off])


def test_pairs_that_were_not_recorded_are_grey(lattice_run):
    """Catches pairs without a record that are drawn as 0, and grey cells that nobody explains."""
    ax = plot_pairs(lattice_run)
    image = _image(ax)
    recorded = lattice_run.pair_mean.toarray() != 0.0
    np.testing.assert_array_equal(~np.ma.getmaskarray(image.get_array()), recorded)
    assert to_hex(image.cmap.get_bad()) == style.LIGHT
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["grey: pairs that were not recorded"]


def test_few_pairs_of_many_sites_have_dots():
    """Catches single cells that vanish between the pixels: two pairs of 150 sites, above and below the diagonal."""
    entries = scipy.sparse.coo_array(([0.5, 0.5, -0.2, -0.2], ([0, 3, 7, 149], [3, 0, 149, 7])), shape=(150, 150))
    made = Made(np.zeros((1, 4)), labels=range(150), pair_mean=entries.tocsr(), mean=np.zeros(150))
    dots = plot_pairs(made).collections[0]
    found = {(*xy, value) for xy, value in zip(dots.get_offsets().tolist(), dots.get_array(), strict=True)}
    assert found == {(3.0, 0.0, 0.5), (0.0, 3.0, 0.5), (149.0, 7.0, -0.2), (7.0, 149.0, -0.2)}


def test_pairs_of_a_site_that_never_moves_are_left_out():
    """Catches a division by the variance 0 of a constant site."""
    pair_mean = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]])
    made = Made(np.zeros((1, 4)), labels=range(3), pair_mean=pair_mean, mean=np.array([0.0, 0.5, 1.0]))
    ax = plot_pairs(made)
    np.testing.assert_array_equal(np.isnan(_matrix(ax)), [[1, 0, 1], [0, 1, 1], [1, 1, 1]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["grey: never moved"]


def test_pairs_say_what_is_missing(lattice_run):
    """Catches an obscure error for pairs that were not recorded, and for a kind that there is not."""
    quick = bouncy.sample(lattice_run.target, chains=2, draws=10, pairs="none", seed=0)
    with pytest.raises(ValueError, match=r"pair means were not recorded .* sample again with pairs='all'"):
        plot_pairs(quick)
    with pytest.raises(ValueError, match="kind is 'covariance'; expected 'correlation' or 'mean'"):
        plot_pairs(quick, kind="covariance")


# Marginals


def _errorbars(container):
    """Return points and the ends of horizontal and vertical bars, each (2, n) or None."""
    points, _, bars = container
    ends = {"x": None, "y": None}
    for collection in bars:
        segments = np.array(collection.get_segments())
        axis = 0 if (segments[:, 0, 1] == segments[:, 1, 1]).all() else 1
        ends["xy"[axis]] = segments[:, :, axis].T
    return points.get_xdata(), points.get_ydata(), ends["x"], ends["y"]


def test_marginals_against_another_run_have_bars_both_ways(run, other):
    """Catches swapped runs, and bars of the reference that are missing or those of the run."""
    ax = plot_marginals(run, other)
    x, y, across, up = _errorbars(ax.containers[0])
    np.testing.assert_array_equal(x, other.mean)
    np.testing.assert_array_equal(y, run.mean)
    np.testing.assert_allclose(across, other.interval("mean"))
    np.testing.assert_allclose(up, run.interval("mean"))
    i, j = np.triu_indices(5, k=1)
    x, y, across, up = _errorbars(ax.containers[1])
    np.testing.assert_array_equal(x, other.pair_mean[i, j])
    np.testing.assert_allclose(across, [end[i, j] for end in other.interval("pair_mean")])
    np.testing.assert_allclose(up, [end[i, j] for end in run.interval("pair_mean")])
    assert ax.get_xlabel() == "reference run of bps-exponential"


def test_marginals_compare_the_pairs_that_both_runs_have(lattice_run):
    """Catches pairs of one run beside other pairs of the other: here one has all pairs, the other some."""
    full = copy.copy(lattice_run)
    mean = np.linspace(-1.0, 1.0, 144).reshape(12, 12)
    full.__dict__ |= {"pair_mean": mean, "pair_mean_se": np.full((12, 12), 0.1)}
    x, y, _, _ = _errorbars(plot_marginals(lattice_run, full).containers[1])
    i, j = scipy.sparse.triu(lattice_run.pair_mean, 1).nonzero()
    assert set(zip(x, y, strict=True)) == set(zip(mean[i, j], lattice_run.pair_mean[i, j], strict=True))
    turned = _errorbars(plot_marginals(full, lattice_run).containers[1])
    np.testing.assert_array_equal(turned[:2], [y, x])


def test_marginals_against_means_from_elsewhere(run, path_run):
    """Catches an array that is not taken as it is, pairs that nobody gave, and the symbol of spins for variables."""
    for any_run, symbol in ((run, "s"), (path_run, "x")):
        means = np.linspace(-1, 1, any_run.target.d)
        ax = plot_marginals(any_run, means)
        (container,) = ax.containers
        x, y, across, up = _errorbars(container)
        np.testing.assert_array_equal(x, means)
        np.testing.assert_array_equal(y, any_run.mean)
        np.testing.assert_allclose(up, any_run.interval("mean"))
        assert across is None
        assert container.get_label() == f"$E[{symbol}_i]$, {any_run.sampler.name}"
        assert ax.get_xlabel() == "reference"


def test_marginals_without_reference_are_over_the_sites(path_run):
    """Catches means in another order, or bars of one standard error."""
    ax = plot_marginals(path_run)
    x, y, _, up = _errorbars(ax.containers[0])
    np.testing.assert_array_equal(x, np.arange(4))
    np.testing.assert_array_equal(y, path_run.mean)
    np.testing.assert_allclose(up, path_run.interval("mean"))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c", "d"]


def test_marginals_of_another_target_are_refused(run, path_run):
    """Catches a broadcast of one number over all sites, and runs on targets of different size."""
    with pytest.raises(ValueError, match=r"reference has means of shape \(4,\), the run \(5,\)"):
        plot_marginals(run, path_run)
    with pytest.raises(ValueError, match=r"reference has means of shape \(\), the run \(5,\)"):
        plot_marginals(run, 0.0)
    assert pyplot.get_fignums() == []


def test_errors_against_exact_answers_are_as_before(run, target):
    """Catches a comparison whose parts have changed places."""
    exact = bouncy.exact(target)
    points = plot_errors(run, exact).containers[1][0]
    i, j = np.triu_indices(5, k=1)
    np.testing.assert_array_equal(points.get_ydata(), run.pair_mean[i, j] - exact.pair_mean[i, j])


# Lattice


def test_lattice_of_a_run_is_one_of_its_draws(lattice_run):
    """Catches another chain or draw than was asked for; the last of the first chain otherwise."""
    np.testing.assert_array_equal(_image(plot_lattice(lattice_run)).get_array().ravel(), lattice_run.draws[0, -1])
    image = _image(plot_lattice(lattice_run, chain=1, draw=7))
    np.testing.assert_array_equal(image.get_array(), lattice_run.draws[1, 7].reshape(3, 4))
    given = -lattice_run.draws[0, -1]
    np.testing.assert_array_equal(_image(plot_lattice(lattice_run, given)).get_array().ravel(), given)


def test_lattice_says_what_is_missing(lattice_run, run, path_run):
    """Catches an obscure error for a draw that there is not, a run without a lattice, and a model without a state."""
    with pytest.raises(ValueError, match="chain is 2; expected 0 to 1"):
        plot_lattice(lattice_run, chain=2)
    with pytest.raises(ValueError, match="draw is -101; expected 0 to 99"):
        plot_lattice(lattice_run, draw=-101)
    with pytest.raises(TypeError, match="needs a state s"):
        plot_lattice(lattice_run.target)
    for without in (run, path_run):
        with pytest.raises(ValueError, match="lattice shape None; expected two sides"):
            plot_lattice(without)


# Overlaps


def test_overlaps_are_those_of_their_definition():
    """Catches a sum of bytes that overflows, a pair that is left out, and a chain compared with itself at lag 0."""
    rng = np.random.default_rng(0)
    s = rng.choice([-1, 1], (3, 20, 300)).astype(np.int8)
    s[1] = s[0]
    found = overlap_of(s)
    x = s.astype(np.float64)
    np.testing.assert_array_equal(found.pairs, [(0, 1), (0, 2), (1, 2)])
    expected = [(x[a] * x[b]).mean(axis=1) for a, b in found.pairs]
    np.testing.assert_allclose(found.between, expected)
    assert (found.between[0] == 1.0).all()
    assert 1 <= found.lag <= 10
    np.testing.assert_allclose(found.within, (x[:, : -found.lag] * x[:, found.lag :]).mean(axis=2))
    np.testing.assert_allclose(found.mean[0, 2], np.mean(expected[1]))
    np.testing.assert_array_equal(found.mean, found.mean.T)
    np.testing.assert_allclose(np.diag(found.mean), found.within.mean(axis=1))
    np.testing.assert_allclose(found.mean_between, np.mean(expected))


@pytest.mark.parametrize(("draws", "turned"), [(4000, False), (2000, True)])
def test_overlap_within_a_chain_is_of_draws_that_are_far_apart(draws, turned):
    """Catches a lag shorter than the memory of a chain: of spins that stay for 50 draws, it must be longer than that.

    Far apart, draws of one chain overlap as little as those of two: 0 with a standard deviation below 0.03. Spins that
    turn in nearly every draw remember as long, although their averages converge at once.
    """
    rng = np.random.default_rng([base_seed(), 10])
    steps = np.where((rng.random((2, draws, 200)) < 0.01) != turned, -1, 1).astype(np.int8)
    found = overlap_of(np.cumprod(steps, axis=1, dtype=np.int8))
    assert 100 < found.lag < 1000
    assert found.lag % found.spacing == 0
    assert found.between.shape[1] <= 2048
    assert abs(found.mean_within) < 0.15
    assert abs(found.mean_between) < 0.15


def test_overlap_shows_chains_in_mirror_images():
    """Catches what pair statistics cannot: all pairs of spins agree, and the chains are in opposite states."""
    rng = np.random.default_rng([base_seed(), 11])
    noise = np.where(rng.random((2, 500, 100)) < 0.01, -1, 1)
    made = Made(np.zeros((2, 500)), (noise * [[[1]], [[-1]]]).astype(np.int8), labels=range(100))
    found = overlap(made)
    assert found.mean_within > 0.9
    assert found.lag < 20, "with the distance between the chains in it, memory would last half of the run"
    assert found.mean_between < -0.9
    ax = plot_overlap(made)
    between, within = (patch.get_data() for patch in ax.patches)
    middles = 0.5 * (between.edges[1:] + between.edges[:-1])
    for shown, q in ((between, found.between), (within, found.within)):
        width = np.diff(shown.edges)
        np.testing.assert_allclose(shown.values @ width, 1.0)
        np.testing.assert_allclose(shown.values @ (width * middles), q.mean(), atol=0.03)
    (dots,) = [line for line in ax.lines if line.get_label() == "mean of a pair of chains"]
    np.testing.assert_allclose(dots.get_xdata(), [found.mean[0, 1]])


def test_bins_of_overlaps_hold_equally_many_values():
    """Catches bars that are high or low because more or fewer multiples of 2/d fall into them."""
    rng = np.random.default_rng(1)
    d = 130
    made = Made(np.zeros((4, 900)), rng.choice([-1, 1], (4, 900, d)).astype(np.int8), labels=range(d))
    edges = plot_overlap(made).patches[0].get_data().edges
    grid = -1.0 + 2.0 * np.arange(d + 1) / d
    held = np.histogram(grid, edges)[0]
    assert np.abs(grid[:, None] - edges).min() > 0.9 / d
    assert len(set(held)) == 1


def test_overlap_says_what_is_missing(path_run, run):
    """Catches overlaps of numbers, of a single chain, and of states that were not kept."""
    with pytest.raises(ValueError, match="overlaps are of spins, but the run is on a continuous target"):
        plot_overlap(path_run)
    with pytest.raises(ValueError, match="the run has 1 chain; expected at least 2 to compare"):
        overlap(Made(np.zeros((1, 10))))
    with pytest.raises(
        ValueError, match="kept 0 draws per chain, and overlaps need at least 4; sample with keep='draws'"
    ):
        overlap(Made(np.zeros((2, 10)), np.ones((2, 0, 1), np.int8)))
    assert pyplot.get_fignums() == []


# All kinds


def test_every_kind_can_be_called_with_a_run_alone():
    """Catches a kind that a command line cannot call: an argument without a default, or no place for axes."""
    for kind, function in KINDS.items():
        first, *others = inspect.signature(function).parameters.values()
        assert first.default is inspect.Parameter.empty, kind
        assert {p.name: p.default for p in others}["ax"] is None, kind
        assert all(p.default is not inspect.Parameter.empty for p in others), kind


def _refusal(kind, any_run, **options):
    """Return what a kind says about a run that it cannot draw, or None."""
    try:
        KINDS[kind](any_run, **options)
    except (ValueError, AttributeError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_on_the_given_axes_or_refuses(kind, run, lattice_run, path_run, tempered_run):
    """Catches a kind that draws elsewhere, leaves an empty figure behind, or fails with a message for nobody."""
    drawn = 0
    for any_run in (run, lattice_run, path_run, tempered_run):
        ax = pyplot.figure(0).subplots()
        refusal = _refusal(kind, any_run, ax=ax)
        assert pyplot.get_fignums() == [0]
        if refusal is None:
            assert ax.has_data()
            drawn += 1
        else:
            assert any(text in refusal for text in ("expected", "sample again", "no variable of", "overlaps are of"))
            assert _refusal(kind, any_run) == refusal
            assert pyplot.get_fignums() == [0], "an empty figure is left behind"
        pyplot.close("all")
    assert drawn or kind == "holding-times"


# The figure of a run


def _titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]


def test_figure_of_spins(run, target):
    """Catches a panel that is missing or of another quantity, diagnostics that are not those of the run, and settings
    that are changed for later figures."""
    settings = dict(matplotlib.rcParams)
    figure = plot_run(run)
    slowest = min(("log_prob", "magnetisation"), key=run.diagnostics["ess"].get)
    assert _titles(figure) == ["Trace of log_prob", f"Ranks of {slowest}", "Means", f"Autocorrelation of {slowest}",
                               "Overlap of chains", "Diagnostics"]  # fmt: skip
    written = "\n".join(text.get_text() for text in figure.axes[5].texts)
    assert f"{run.diagnostics['ess']['log_prob']:.0f}" in written
    assert f"{run.diagnostics['rhat']['worst_site']:.4f}" in written
    for warning in run.diagnostics["warnings"]:
        assert warning[:30] in written
    assert dict(matplotlib.rcParams) == settings
    assert figure.axes[0].get_title(loc="left")
    assert _titles(plot_run(run, bouncy.exact(target)))[2] == "Means against the reference"
    figure.canvas.draw()


def test_figure_of_continuous_variables(path_run):
    """Catches a figure that needs spins."""
    figure = plot_run(path_run)
    assert _titles(figure)[2] == "Posteriors"
    assert "Correlations" in _titles(figure)
    figure.canvas.draw()


@pytest.mark.slow
def test_figure_of_many_variables():
    """Catches rows that nobody can read: of 40 variables the 20 furthest from 0, the ends, are shown and said to be."""
    many = bouncy.sample(bouncy.Gaussian(np.linspace(-20, 20, 40), cov=1.0), chains=2, draws=50, seed=0)
    figure = plot_run(many)
    assert _titles(figure)[2] == "Posteriors of 20, furthest from 0"
    assert _titles(figure)[4].startswith("Trace of the slowest variable, ")
    shown = [text.get_text() for text in figure.axes[2].get_yticklabels()]
    assert shown == [str(i) for i in (*range(10), *range(30, 40))]


def test_figure_shows_what_there_is(target, lattice_run):
    """Catches a figure that fails for a run without states, with one chain, or on a target where nothing changes."""
    quick = {"chains": 2, "draws": 50, "seed": 0}
    assert "Correlations" in _titles(plot_run(bouncy.sample(target, "bps-exponential", keep="means", **quick)))
    bare = bouncy.sample(lattice_run.target, keep="means", pairs="none", **quick)
    assert "Trace of magnetisation" in _titles(plot_run(bare))
    single = bouncy.sample(target, "bps-exponential", chains=1, draws=50, seed=0)
    assert "Correlations" in _titles(plot_run(single))
    flat = bouncy.sample(bouncy.MRF(np.zeros((3, 3))), "bps-exponential", **quick)
    assert _titles(plot_run(flat))[0] == "Trace of magnetisation"
    with pytest.warns(bouncy.NoFlipWarning):
        alone = bouncy.sample(bouncy.MRF(np.zeros((3, 3)), 60.0), "bps-exponential", initial=[-1, -1, -1], **quick)
    assert _titles(plot_run(alone)) == ["Means", "Overlap of chains", "Diagnostics"]


@pytest.mark.slow
def test_many_warnings_fit_into_the_panel(run, monkeypatch):
    """Catches text that runs off the figure: what does not fit is said to be elsewhere."""
    report = {**run.diagnostics, "warnings": ["something went very wrong " * 6] * 30}
    monkeypatch.setitem(run.__dict__, "diagnostics", report)
    figure = plot_run(run)
    figure.canvas.draw()
    below = min(text.get_window_extent().y0 for text in figure.axes[5].texts)
    assert below >= 0
    assert figure.axes[5].texts[-1].get_text().endswith("more in run.diagnostics['warnings']")
