"""Plots show the numbers they are given, and the path is that of the sampler."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot

import bouncy
from bouncy._random import new_state
from bouncy.plots import plot_errors, plot_lattice, plot_marginals, plot_path, plot_signs, style, trace
from bouncy.plots.trajectory import Event
from bouncy.samplers import registry
from helpers import literal

AUGMENTATIONS = ["gaussian", "exponential"]
KINDS = {
    literal.CROSSED: Event.CROSSING,
    literal.REFUSED: Event.REFUSAL,
    literal.BOUNCED: Event.BOUNCE,
    literal.REFRESHED: Event.REFRESHMENT,
}


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(5, sigma_M=0.5, sigma_r=0.2, seed=1)


@pytest.fixture(scope="module")
def path(target):
    return trace(target, bouncy.BPS("gaussian", refreshment=0.5), duration=150.0, seed=3)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def _line(ax, label):
    """Return x and y of the one line with a label."""
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line.get_xdata(), line.get_ydata()


# The path


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_path_is_that_of_the_literal_algorithm(target, augmentation):
    """Catches a corner at the wrong time, of the wrong kind, or missing: two turns between walls, a refused flip."""
    sampler = bouncy.BPS(augmentation, refreshment=2.0)
    sweep_time = sampler.clock.sweep_time(target.d)
    found = trace(target, sampler, duration=30 * sweep_time, seed=3, initial=np.ones(target.d))
    clock_seed, toll_seed = np.random.SeedSequence(3).spawn(1)[0].spawn(2)[1].spawn(2)
    expected = literal.literal_bps(
        target.M,
        target.r,
        augmentation,
        clock_state=new_state(clock_seed),
        toll_state=new_state(toll_seed),
        refreshment_rate=sampler.refreshment / sweep_time,
        duration=30 * sweep_time,
    )
    assert set(expected.kind) == set(KINDS), "the run must be long enough to see every kind of event"
    assert list(found.kind[1:-1]) == [KINDS[kind] for kind in expected.kind]
    assert list(found.site[1:-1]) == list(expected.site)
    np.testing.assert_allclose(found.time[1:-1], expected.time, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.y[-1], expected.y, rtol=0, atol=1e-8)
    assert (found.s[-1] == expected.s).all()
    assert (found.time[0], found.time[-1]) == (0.0, expected.end)


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_path_is_that_of_the_first_chain_of_a_run(target, augmentation):
    """Catches a tracer that seeds, pays or flips in another way than the compiled loop."""
    name = f"bps-{augmentation}"
    sweep_time = bouncy.BPS(augmentation).clock.sweep_time(target.d)
    found = trace(target, name, duration=20 * sweep_time, seed=8)
    run = bouncy.sample(target, name, chains=1, draws=19, warmup=0, seed=8)
    for k, draw in enumerate(run.draws[0]):
        before = np.searchsorted(found.time, (k + 1) * sweep_time) - 1
        assert (found.s[before] == draw).all(), f"at the end of sweep {k + 1}"


def test_particle_moves_at_speed_one_on_its_side_of_the_walls(path):
    """Catches a position with the sign or the size of another moment."""
    length = np.sqrt((np.diff(path.y, axis=0) ** 2).sum(axis=1))
    np.testing.assert_allclose(length, np.diff(path.time), rtol=0, atol=1e-10)
    assert (path.y * path.s >= 0).all()
    at_wall = path.site >= 0
    assert (path.y[at_wall, path.site[at_wall]] == 0).all()
    changed = (np.diff(path.s, axis=0) != 0).sum(axis=1)
    assert (changed == (path.kind[1:] == Event.CROSSING)).all()


def test_path_of_zero_length_is_its_start(target):
    """Catches a loop that steps before it looks at the time."""
    point = trace(target, duration=0.0, seed=0)
    assert list(point.kind) == [Event.START, Event.END]
    assert (point.y[0] == point.y[1]).all()


@pytest.mark.parametrize(("duration", "error"), [(-1.0, ValueError), (np.nan, ValueError), ("long", TypeError)])
def test_bad_duration_is_named(target, duration, error):
    """Catches a loop that never ends because its goal is not a number."""
    with pytest.raises(error, match="duration must be a finite number >= 0"):
        trace(target, duration=duration)


# Plots of the path


def test_plot_path_shows_the_corners_and_their_kinds(path):
    """Catches swapped coordinates, a kind of event under another's mark, and walls that are not in view."""
    ax = plot_path(path, 1, 3)
    x, y = _line(ax, "bps-gaussian")
    assert (x == path.y[:, 1]).all()
    assert (y == path.y[:, 3]).all()
    for kind, mark in style.EVENT_MARKS.items():
        expected = [k for k in range(path.time.size) if path.kind[k] == kind and path.site[k] in (-1, 1, 3)]
        assert expected, f"the path must show every kind of event, but has no {kind.name}"
        np.testing.assert_array_equal(_line(ax, mark["label"]), path.y[expected][:, [1, 3]].T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$y_{1}$", "$y_{3}$")
    assert ax.lines[0].get_xdata()[0] == 0.0
    assert ax.lines[1].get_ydata()[0] == 0.0
    assert sorted(text.get_text() for text in ax.texts) == ["(+, +)", "(+, −)", "(−, +)", "(−, −)"]


def test_plot_signs_steps_where_the_spins_change(path):
    """Catches steps drawn before their time, a spin in the row of another, and unmarked refusals."""
    ax = plot_signs(path, (4, 0))
    steps = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    assert len(steps) == 2
    ticks = dict(zip((text.get_text() for text in ax.get_yticklabels()), ax.get_yticks(), strict=True))
    for line, site in zip(steps, (4, 0), strict=True):
        assert (line.get_xdata() == path.time).all()
        levels = [ticks[f"$s_{{{site}}}={s:+d}$"] for s in path.s[:, site]]
        np.testing.assert_allclose(line.get_ydata(), levels)
    refused = [line for line in ax.lines if line.get_label() == style.EVENT_MARKS[Event.REFUSAL]["label"]]
    assert sum(line.get_xdata().size for line in refused) == sum(
        path.kind[k] == Event.REFUSAL and path.site[k] in (0, 4) for k in range(path.time.size)
    )


# Plots of results


@pytest.fixture(scope="module")
def run(target):
    return bouncy.sample(target, "bps-exponential", chains=2, draws=200, seed=0)


def test_plot_marginals_shows_estimates_over_exact_values(target, run):
    """Catches swapped axes, bars of one standard error instead of a 95 % interval, and pairs counted twice."""
    exact = bouncy.exact(target)
    ax = plot_marginals(run, exact)
    means, pairs = ax.containers
    assert [c.get_label() for c in ax.containers] == [
        "$E[s_i]$, bps-exponential",
        "$E[s_i s_j]$, bps-exponential",
    ]
    points, _, (bars,) = means
    np.testing.assert_array_equal(points.get_xdata(), exact.mean)
    np.testing.assert_array_equal(points.get_ydata(), run.mean)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends.T, run.interval("mean", 0.95))
    i, j = np.triu_indices(target.d, k=1)
    np.testing.assert_array_equal(pairs[0].get_xdata(), exact.pair_mean[i, j])
    np.testing.assert_array_equal(pairs[0].get_ydata(), run.pair_mean[i, j])
    assert points.get_color() == style.colour_of("bps-exponential")


def test_plot_errors_shows_differences(target, run):
    """Catches a difference with the wrong sign, and new axes where some were given."""
    exact = bouncy.exact(target)
    _, ax = pyplot.subplots()
    assert plot_errors(run, exact, ax, shift=0.5) is ax
    points = ax.containers[0][0]
    np.testing.assert_array_equal(points.get_xdata(), exact.mean + 0.5)
    np.testing.assert_array_equal(points.get_ydata(), run.mean - exact.mean)


def test_plot_marginals_shows_the_pairs_that_were_recorded():
    """Catches plots that need all pairs: here only the bonds of a ring are known, and then none."""
    ring = bouncy.MRF.ising(5, coupling=0.3)
    exact = bouncy.exact(ring)
    run = bouncy.sample(ring, chains=2, draws=100, pairs="edges", seed=0)
    pairs = plot_marginals(run, exact).containers[1][0]
    bonds = [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    np.testing.assert_array_equal(pairs.get_xdata(), [exact.pair_mean[bond] for bond in bonds])
    np.testing.assert_array_equal(pairs.get_ydata(), [run.pair_mean[bond] for bond in bonds])
    run = bouncy.sample(ring, chains=2, draws=100, pairs="none", seed=0)
    assert len(plot_marginals(run, exact).containers) == 1


def test_plot_lattice_shows_the_state_in_place():
    """Catches a transposed or flipped image: the one spin that is up is at row 1, column 2."""
    lattice = bouncy.MRF.ising((3, 4), coupling=0.3)
    s = -np.ones((3, 4), np.int8)
    s[1, 2] = 1
    ax = plot_lattice(lattice, s.ravel())
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), s)
    assert image.origin == "upper"
    np.testing.assert_allclose(image.cmap(image.norm(1)), matplotlib.colors.to_rgba(style.SPIN_COLOURS[1]))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["$s_i=-1$", "$s_i=+1$"]


def test_plot_lattice_refuses_what_it_cannot_show(target):
    """Catches an obscure error from matplotlib for a model without a lattice, a cube, and a batch of states."""
    with pytest.raises(ValueError, match=r"lattice shape None; expected two sides"):
        plot_lattice(target, np.ones(5))
    with pytest.raises(ValueError, match=r"lattice shape \(2, 2, 2\); expected two sides"):
        plot_lattice(bouncy.MRF.ising((2, 2, 2)), np.ones(8))
    with pytest.raises(ValueError, match=r"s has shape \(3, 4\); expected one state of shape \(4,\)"):
        plot_lattice(bouncy.MRF.ising((2, 2)), np.ones((3, 4)))


# Style


def test_every_named_sampler_has_a_colour_of_its_own():
    """Catches a new sampler that is drawn in grey or in the colour of another."""
    colours = {entry.name: entry.colour for entry in registry()}
    assert {name: style.colour_of(name) for name in colours} == colours
    assert len({*colours.values(), style.GREY}) == len(colours) + 1
    assert style.colour_of("a user's own") == style.GREY


def test_without_matplotlib_the_extra_is_named():
    """Catches an import of matplotlib at import time, and an error that does not say what to install."""
    script = """
import sys
sys.modules["matplotlib"] = None
import bouncy.plots
try:
    bouncy.plots.plot_signs(None)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plots need matplotlib, which is not installed; pip install 'bouncy[plots]'"
