"""Plots of runs on continuous targets show the numbers of the run."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot

import bouncy
from bouncy.plots import plot_density, plot_flight, plot_forest, plot_inclusion, style, trace, trace_flight
from helpers import literal

LABELS = ("a", "b", "c", "d")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    return X, X @ [0.0, 0.8, 0.2, 0.0] + rng.standard_normal(40)


@pytest.fixture(scope="module")
def run(data):
    X, y = data
    target = bouncy.SpikeSlab(X, y, inclusion=0.3, slab_scale=1.0, noise_scale=1.0, labels=LABELS)
    return bouncy.sample(target, chains=2, draws=400, seed=0)


def _stairs(ax):
    """Return what the first stairs of the axes show."""
    return next(patch for patch in ax.patches if hasattr(patch, "get_data")).get_data()


# The law of a variable


def test_density_and_point_masses_have_probability_one(run):
    """Catches a density that is not divided by the width of a bin, and a bin or point mass that is left out."""
    for label in LABELS:
        edges, density, (zero,) = run.density(label)
        i = run.index(label)
        outside = run.probability(upper=edges[0])[0][i] + run.probability(lower=edges[-1])[0][i]
        np.testing.assert_allclose(zero.mass, 1.0 - run.inclusion[i], atol=1e-9)
        np.testing.assert_allclose(density @ np.diff(edges) + zero.mass + outside, 1.0, atol=1e-9)


def test_density_is_that_of_the_probabilities(run):
    """Catches bins that are moved by one: the distribution function rises over a bin by what is in it."""
    edges, density, (zero,) = run.density("b")
    for k in range(15, 50):
        lower, upper = edges[k], edges[k + 1]
        expected = density[k] * (upper - lower) + zero.mass * (lower <= 0.0 <= upper)
        np.testing.assert_allclose(run.probability(lower, upper)[0][1], expected, atol=1e-9)


def test_variables_are_found_by_label_or_place(run):
    """Catches a label that is taken for a place, and a variable that does not exist shown as another one."""
    assert [run.index(label) for label in LABELS] == [0, 1, 2, 3]
    assert (run.index(2), run.index(-1)) == (2, 3)
    for wrong in ("z", 4, -5, 1.0):
        with pytest.raises(ValueError, match=r"variable is .*; expected a label \('a', ...\) or 0 to 3"):
            run.index(wrong)


# Plots


def test_plot_density_shows_bins_and_the_mass_at_zero(run):
    """Catches a bar whose height is no probability, a density of another variable, and bins cut off with their mass."""
    ax = plot_density(run, "b", label="mine", color="red")
    edges, density, (zero,) = run.density("b")
    values, ends, _ = _stairs(ax)
    first = int(np.flatnonzero(edges == ends[0])[0])
    np.testing.assert_array_equal(values, density[first : first + values.size])
    assert density.sum() * (1 - 3e-4) < values.sum() < density.sum() * (1 + 1e-9)
    (bar,) = ax.lines
    assert (bar.get_xdata() == 0.0).all()
    assert tuple(bar.get_ydata()) == (0.0, zero.mass)
    assert bar.get_transform() == ax.get_xaxis_transform(), "the height is a share of the axes"
    assert bar.get_label() == f"P(0) = {zero.mass:.3g}, mine"
    assert ax.get_xlabel() == "b"


def test_plot_density_leaves_room_for_a_second_run(run, data):
    """Catches axes that are frozen by the first run, so that the top of a higher density is cut off."""
    X, y = data
    lasso = bouncy.sample(bouncy.BayesianLasso(X, y, penalty=1.0, noise_scale=1.0), chains=2, draws=100, seed=0)
    ax = plot_density(run, "a")
    assert plot_density(lasso, 0, ax) is ax
    assert ax.get_ylim()[1] > lasso.density(0).density.max() > run.density("a").density.max()
    assert ax.get_ylim()[0] == 0.0


def test_plot_density_of_a_spin_is_two_bars():
    """Catches stairs for a variable that has no bins."""
    mixed = bouncy.MixedBinaryGaussian([[0.0]], 0.3, precision=[[1.0]], coupling=[[1.0]])
    spins = bouncy.sample(mixed, chains=2, draws=100, seed=0)
    ax = plot_density(spins, 0)
    assert not ax.patches
    assert [line.get_xdata()[0] for line in ax.lines] == [-1.0, 1.0]
    np.testing.assert_allclose(sum(line.get_ydata()[1] for line in ax.lines), 1.0)
    assert ax.get_ylabel() == "probability"


def test_plot_inclusion_sorts_and_shows_95_percent(run):
    """Catches labels in another order than the points, and bars of one standard error."""
    ax = plot_inclusion(run)
    (points, _, (bars,)) = ax.containers[-1]
    order = np.argsort(-run.inclusion)
    np.testing.assert_array_equal(points.get_xdata(), run.inclusion[order])
    assert [text.get_text() for text in ax.get_yticklabels()] == [LABELS[i] for i in order]
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends.T, np.array(run.interval("inclusion", 0.95))[:, order])
    assert points.get_color() == style.colour_of("gibbs")
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first row is on top"


def test_plot_inclusion_shows_the_variables_that_are_asked_for(run, data):
    """Catches spins of variable selection taken for probabilities, and a chosen order that is not kept."""
    X, y = data
    selection = bouncy.sample(bouncy.VariableSelection(X, y, labels=LABELS), chains=2, draws=100, seed=0)
    ax = plot_inclusion(run, ["d", "b"])
    assert plot_inclusion(selection, ["d", 1], ax, shift=0.3) is ax
    ours = [container for container in ax.containers if container.get_label().startswith(("gibbs", "bps"))]
    first, second = (container[0] for container in ours)
    np.testing.assert_array_equal(first.get_xdata(), run.inclusion[[3, 1]])
    np.testing.assert_array_equal(second.get_xdata(), (1 + selection.mean[[3, 1]]) / 2)
    np.testing.assert_allclose(second.get_ydata(), [0.3, 1.3])


def test_plot_forest_shows_quantiles_means_and_mass_at_zero(run):
    """Catches intervals of the slab alone, swapped ends, discs whose area is not the mass, and rows out of order."""
    ax = plot_forest(run, ["c", "a", "b"], label="spike and slab")
    rows = [2, 0, 1]
    outer, inner, discs = ax.collections
    for lines, levels in ((outer, [0.025, 0.975]), (inner, [0.25, 0.75])):
        segments = np.array(lines.get_segments())
        np.testing.assert_allclose(segments[:, :, 0].T, run.quantile(levels)[0][:, rows])
        np.testing.assert_array_equal(segments[:, 0, 1], [0, 1, 2])
    (means,) = [line for line in ax.lines if line.get_label() == "spike and slab"]
    np.testing.assert_array_equal(means.get_xdata(), run.mean[rows])
    areas = discs.get_sizes()
    np.testing.assert_allclose(areas / areas.sum(), (1 - run.inclusion[rows]) / (1 - run.inclusion[rows]).sum())
    assert (np.asarray(discs.get_offsets())[:, 0] == 0.0).all()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["c", "a", "b"]


def test_plot_forest_without_mass_at_zero_has_no_discs(data):
    """Catches discs of area zero in the legend of a lasso."""
    X, y = data
    lasso = bouncy.sample(bouncy.BayesianLasso(X, y, penalty=1.0, noise_scale=1.0), chains=2, draws=100, seed=0)
    assert len(plot_forest(lasso).collections) == 2


# The path of the particle


def test_trace_flight_is_the_literal_algorithm_from_the_start_that_is_asked_for():
    """Catches a start in values taken for coordinates, a particle that is too fast, and a seed that does not count."""
    t = np.arange(12.0)
    X = np.column_stack([np.sin(t), np.cos(2 * t)])
    target = bouncy.SpikeSlab(X, np.sin(t * t), inclusion=0.5, slab_scale=1.0, noise_scale=1.0)
    path = trace_flight(target, events=60, seed=4, initial=[0.3, 0.0])
    np.testing.assert_allclose(target.potential.cells.values(path.y[0]), [0.3, 0.0], atol=1e-15)
    speed = np.sqrt((path.speed / target.scale) ** 2 @ np.ones(2))
    rests = path.speed == 0.0
    np.testing.assert_allclose(speed[~rests.any(axis=1)], 1.0, atol=1e-9)
    assert (target.potential.cells.slope[[target.potential.cells.locate(y) for y in path.y]][rests] == 0.0).all()
    np.testing.assert_array_equal(path.y, trace_flight(target, events=60, seed=4, initial=[0.3, 0.0]).y)
    assert (path.y[1:] != trace_flight(target, events=60, seed=5, initial=[0.3, 0.0]).y[1:]).any()


def test_plot_flight_shows_jumps_into_points():
    """Catches a line from where a coefficient becomes zero to where it has ceased to be, across what it rests on."""
    target = bouncy.SpikeSlab(np.eye(4)[:, :2], [0.4, 0.2, 0.0, 0.0], inclusion=0.6, slab_scale=1.0, noise_scale=1.0)
    path = trace_flight(target, events=100, seed=1)
    line = {line.get_label(): line for line in plot_flight(target, path).lines}["bps"].get_xydata()
    expected = [path.y[0]]
    for k, y in enumerate(path.y[1:]):
        end = path.position(k, path.time[k + 1])
        expected += [y] if np.allclose(end, y) else [end, y]
    assert len(expected) > len(path.y) + 5
    np.testing.assert_allclose(line, expected, atol=1e-12)


def test_trace_of_spins_points_to_that_of_flights():
    """Catches an error from the compiler for a target of the other kind."""
    with pytest.raises(TypeError, match="got Gaussian; for continuous targets use trace_flight"):
        trace(bouncy.Gaussian([0.0, 0.0], cov=1.0), duration=1.0)


def test_plot_flight_shows_corners_walls_and_intervals():
    """Catches swapped coordinates, events under another's mark, walls that are missing or across the other axis."""
    box = bouncy.TruncatedGaussian([0.5, 0.0], cov=[[1.0, 0.8], [0.8, 1.0]], lower=[0.0, -np.inf], upper=[np.inf, 1.5])
    path = trace_flight(box, events=200, refreshment=1.2, seed=1)
    ax = plot_flight(box, path, 1, 0)
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["bps"].get_xydata(), path.y[:, [1, 0]])
    for kind, label in ((literal.REFUSED, "wall refused"), (literal.BOUNCED, "bounce")):
        np.testing.assert_array_equal(lines[label].get_xydata(), path.y[path.kind == kind][:, [1, 0]])
    assert [line.get_xdata()[0] for line in ax.lines if list(line.get_ydata()) == [0, 1]] == [1.5]
    assert [line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]] == [0.0]
    low, high = ax.get_xlim()
    assert low < path.y[:, 1].min() < 1.5 < high
    (density,) = ax.collections
    shown = np.asarray(density.get_array())
    assert shown.shape == (120, 120)
    assert shown[0, 60] == 0.0, "nothing is below the wall of the second axis"
    assert shown.max() == 1.0
