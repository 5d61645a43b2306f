"""Plots of tempered runs show the ladder, the curves and the flow of the run, and refuse other runs."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot

import bouncy
from bouncy.plots import plot_curve, plot_flow, plot_ladder, style

FIELDS = (0.3, -0.2, 0.0, 0.1, 0.5)
PLOTS = [plot_ladder, plot_curve, plot_flow]


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(5, sigma_M=1.5, sigma_r=0.2, seed=1)


def tempered(target, **options):
    sampler = bouncy.Tempered(ladder=(0.0, 0.1, 0.35, 0.6, 1.0), **options)
    return bouncy.sample(target, sampler, chains=2, draws=300, seed=0)


@pytest.fixture(scope="module")
def run(target):
    return tempered(target)


def _axes(ax):
    """Return both axes of a picture, and see to it that all their labels are on the page."""
    ax.figure.canvas.draw()
    page = ax.figure.bbox
    assert len(ax.figure.axes) == 2
    for axes in ax.figure.axes:
        for text in (axes.xaxis.label, axes.yaxis.label):
            box = text.get_window_extent()
            assert page.x0 <= box.x0 <= box.x1 <= page.x1
            assert page.y0 <= box.y0 <= box.y1 <= page.y1
    return ax.figure.axes


def test_the_overview_has_the_ladder(run):
    """Catches an overview of a tempered run that says nothing of its ladder."""
    figure = run.plot()
    assert "Ladder" in [ax.get_title(loc="left") for ax in figure.axes]
    said = "\n".join(text.get_text() for ax in figure.axes for text in ax.texts)
    assert f"log Z {run.log_z:.4f}" in said
    assert f"{run.ladder.round_trips.sum():,} round trips" in said


# The ladder


def test_ladder_shows_refused_swaps_between_rungs(run):
    """Catches accepted swaps instead of refused ones, bars between the wrong rungs, and a barrier that starts late."""
    left, right = _axes(plot_ladder(run))
    refused = 1.0 - run.ladder["acceptance"][:-1]
    assert np.ptp(refused) > 0.05, "the bars must differ for the order to be seen"
    for patch in left.patches:
        np.testing.assert_array_equal(patch.get_data().values, refused)
        np.testing.assert_array_equal(patch.get_data().edges, [0.0, 0.1, 0.35, 0.6, 1.0])
    (marks,) = left.lines
    np.testing.assert_allclose(marks.get_xdata(), [0.05, 0.225, 0.475, 0.8])
    np.testing.assert_array_equal(marks.get_ydata(), refused)
    (line,) = right.lines
    np.testing.assert_array_equal(line.get_xdata(), run.ladder["b"])
    np.testing.assert_allclose(line.get_ydata(), [0.0, *(refused[:k].sum() for k in range(1, 5))])
    assert line.get_ydata()[-1] == pytest.approx(run.ladder.barrier)
    assert right.get_ylim()[1] > run.ladder.barrier
    assert right.get_ylabel() == f"barrier up to b, {run.ladder.barrier:.1f} in all"


# The curves


def test_curve_shows_energy_and_heat_capacity_with_bands(run):
    """Catches an energy of the wrong sign, a variance without b^2, swapped axes, and bands of one standard error."""
    b = [0.0, 0.2, 0.6, 0.9]
    curve = run.curve(b)
    squares = np.square(b)
    shown = [(-curve.mean, curve.mean_se), (squares * curve.variance, squares * curve.variance_se)]
    rungs = [-run.ladder["mean"], run.ladder["b"] ** 2 * run.ladder["variance"]]
    for ax, (y, error), dots in zip(_axes(plot_curve(run, b=b)), shown, rungs, strict=True):
        line, marks = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), b)
        np.testing.assert_array_equal(line.get_ydata(), y)
        np.testing.assert_array_equal(marks.get_xdata(), run.ladder["b"])
        np.testing.assert_array_equal(marks.get_ydata(), dots)
        (band,) = ax.collections
        vertices = band.get_paths()[0].vertices
        at = vertices[np.isclose(vertices[:, 0], 0.6), 1]
        assert 1.95 < np.ptp(at) / (2.0 * error[2]) < 2.2
        assert at.mean() == pytest.approx(y[2])


def test_curve_is_near_that_of_enumeration(run, target):
    """Catches a curve of V in place of log p, which is d log 2 higher under a uniform reference."""
    log_p = target.log_prob(bouncy.enumeration.states(5))
    energy, heat = (ax.lines[0] for ax in _axes(plot_curve(run)))
    for k in (0, 30, 60):
        b = energy.get_xdata()[k]
        p = np.exp(b * log_p - (b * log_p).max())
        p /= p.sum()
        curve = run.curve([b])
        assert abs(energy.get_ydata()[k] + p @ log_p) < 5 * curve.mean_se[0]
        variance = p @ log_p**2 - (p @ log_p) ** 2
        assert abs(heat.get_ydata()[k] - b**2 * variance) <= 5 * b**2 * curve.variance_se[0]


@pytest.mark.parametrize(
    ("reference", "what", "law"),
    [("uniform", r"[\log p]", "$p^{\\,b}$"), (FIELDS, r"[\log p - \log q]", r"$q^{1-b}\,p^{\,b}$")],
)
def test_curve_says_what_it_is_of(target, reference, what, law):
    """Catches axes that promise log p where the reference is not uniform."""
    left, right = _axes(plot_curve(tempered(target, reference=reference)))
    assert what in left.get_ylabel()
    assert what in right.get_ylabel()
    assert left.get_xlabel() == f"inverse temperature b of {law}"


# The flow


def test_flow_shows_shares_and_the_ideal(run):
    """Catches a share from the target, rungs by b, and an ideal line or round trips of another ladder."""
    ax = plot_flow(run)
    ideal, shown = ax.lines
    np.testing.assert_array_equal(shown.get_xdata(), np.arange(5))
    np.testing.assert_array_equal(shown.get_ydata(), run.ladder["flow"])
    assert shown.get_ydata()[0] == 1.0
    refused = 1.0 - run.ladder["acceptance"][:-1]
    trips = 1.0 / (2.0 + 2.0 * np.sum(refused / (1.0 - refused)))
    assert 0.02 < trips < 0.48
    assert list(ideal.get_xdata()) == [0, 4]
    np.testing.assert_allclose(ideal.get_ydata(), [1.0 - trips, trips])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert run.sampler.ladders == 6
    expected = round(2 * 6 * trips * run.ladder.scans)
    assert texts == [f"ideal, {expected} round trips", f"run, {run.ladder.round_trips.sum()} round trips"]
    assert shown.get_color() == style.colour_of("tempered")


def test_ideal_is_flat_where_no_swap_is_refused():
    """Catches an ideal from 1 to 0, which swaps by even and odd scans do not have: half of all states go down."""
    flat = bouncy.sample(bouncy.MRF(np.zeros((3, 3))), bouncy.Tempered(rungs=6), chains=2, draws=300, seed=0)
    ideal, shown = plot_flow(flat).lines
    np.testing.assert_allclose(ideal.get_ydata(), 0.5)
    np.testing.assert_allclose(shown.get_ydata()[1:-1], 0.5, atol=0.02)


# What cannot be drawn


@pytest.mark.parametrize("plot", PLOTS)
def test_other_runs_are_refused(plot, target):
    """Catches an obscure error for a run without a ladder, and an empty figure that is left behind."""
    spins = bouncy.sample(target, "gibbs", chains=2, draws=50, seed=0)
    continuous = bouncy.sample(bouncy.Gaussian(np.zeros(2), cov=1.0), chains=2, draws=50, seed=0)
    for other in (spins, continuous):
        with pytest.raises(ValueError, match="has no ladder of temperatures; expected a run of spins that 'tempered'"):
            plot(other)
    assert pyplot.get_fignums() == []


def test_short_runs_are_refused(target):
    """Catches a curve from too few draws, and axes that are made before."""
    short = bouncy.sample(target, "tempered", chains=2, draws=5, seed=0)
    with pytest.raises(ValueError, match="a curve needs 16 draws of each chain at least, and there are 5"):
        plot_curve(short)
    assert pyplot.get_fignums() == []
