"""Figures show the medians they are given, in the sampler's colour, and nothing overlaps."""

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from bouncy.experiments.analysis import group, summarise
from bouncy.experiments.figures import draw_errors, draw_views
from bouncy.plots.style import colour_of
from experiments.made_up import BARS, levels, make, make_views

pytestmark = pytest.mark.slow

LEVEL = levels(bps_exponential=1, bps_gaussian=2, hmc=3, gibbs=4, metropolis=5)


def texts_of(figure):
    """Return the boxes of all texts that can be seen, in pixels."""
    FigureCanvasAgg(figure).draw()
    found = []
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found.append(axis.label)
        found += [text for text in ax.get_children() if isinstance(text, Text)]
    for legend in figure.legends:
        found += [*legend.get_texts(), legend.get_title()]
    return {text: text.get_window_extent() for text in found if text.get_visible() and text.get_text()}


@pytest.mark.parametrize(("name", "columns"), [("figure1", 2), ("figure2", 1)])
def test_every_bar_is_a_median_in_the_colour_of_its_sampler(name, columns):
    """Catches bars of the wrong height, colour or panel, and bars that are left out."""
    settings, rows = make(name, LEVEL)
    figure = draw_errors(rows, settings)
    assert len(figure.axes) == 2 * columns
    expected = {
        (edition, round(summarise(errors).median, 12), colour_of(bar.sampler))
        for bars in group(rows).values()
        for bar, errors in bars.items()
        for edition in [bar.edition]
    }
    drawn = {
        ("published" if k < columns else "ours", round(patch.get_height(), 12), to_hex(patch.get_edgecolor()))
        for k, ax in enumerate(figure.axes)
        for patch in ax.patches
    }
    assert drawn == expected
    cells = len(settings.cells)
    assert sum(len(ax.patches) for ax in figure.axes) == cells * sum(map(len, BARS.values()))
    assert all(ax.get_yscale() == "log" for ax in figure.axes)


@pytest.mark.parametrize(("top", "end"), [(1e-4, 1e-4), (1.0, 1.0), (100.0, 100.0), (1.01e-4, 1e-3), (9.9e-5, 1e-4)])
def test_axis_ends_at_the_first_power_of_ten_that_holds_all(top, end):
    """Catches an empty decade above a quartile that is itself a power of ten, and a whisker that is cut off."""
    settings, rows = make("figure2", LEVEL, runs=3)
    same = [row._replace(mse=top) for row in rows]
    for ax in draw_errors(same, settings).axes:
        assert ax.get_ylim()[1] == pytest.approx(end)


def test_whiskers_are_quartiles():
    """Catches error bars that are standard deviations or ranges, or that cannot be seen inside a black bar."""
    settings, rows = make("figure2", LEVEL, spread=1.0)
    ax, ours = draw_errors(rows, settings).axes
    expected = [
        summarise(errors)[1:3]
        for bars in group(rows).values()
        for bar, errors in bars.items()
        if bar.edition == "published"
    ]
    drawn = [line.get_ydata() for line in ax.lines if line.get_color() == "0.15"]
    np.testing.assert_allclose(drawn, expected)
    black = [summarise(bars["ours", "tempered", "path"]) for bars in group(rows).values()]
    inside = [line.get_ydata() for line in ours.lines if line.get_color() == "0.9"]
    np.testing.assert_allclose(inside, [(summary.low, summary.median) for summary in black])


@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_bars_do_not_overlap(name):
    """Catches bars that hide each other."""
    settings, rows = make(name, LEVEL)
    for ax in draw_errors(rows, settings).axes:
        edges = sorted((patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches)
        assert all(before[1] <= after[0] + 1e-12 for before, after in itertools.pairwise(edges))
        assert edges[0][0] >= -0.5
        assert edges[-1][1] <= ax.get_xlim()[1]


@pytest.mark.parametrize("name", ["figure1", "figure2", "views"])
def test_texts_are_large_enough_inside_the_picture_and_apart(name):
    """Catches labels that overlap, are cut off, or cannot be read at the width of a page."""
    figure = draw_views(make_views()) if name == "views" else draw_errors(*reversed(make(name, LEVEL)))
    boxes = texts_of(figure)
    assert figure.get_figwidth() * figure.dpi == pytest.approx(1200)
    width, height = figure.canvas.get_width_height()
    for text, box in boxes.items():
        assert text.get_fontsize() >= 9, text
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text
    for (one, first), (two, second) in itertools.combinations(boxes.items(), 2):
        assert not first.overlaps(second), f"{one.get_text()!r} and {two.get_text()!r} overlap"


def test_runs_that_are_there_are_counted():
    """Catches a label with more runs than were measured."""
    settings, rows = make("figure1", LEVEL, runs=7)
    (title,) = [
        legend.get_title().get_text() for legend in draw_errors(rows, settings).legends if legend.get_title().get_text()
    ]
    assert "median over 7 runs of 0.5 CPU s" in title
    uneven = [row for row in rows if row.run < 3 or row.sigma_M == 2]
    (title,) = [
        legend.get_title().get_text()
        for legend in draw_errors(uneven, settings).legends
        if legend.get_title().get_text()
    ]
    assert "median over 3 to 7 runs" in title


def test_few_cells_and_errors_of_zero_can_be_drawn():
    """Catches a crash or a warning in a short run, or where an estimate is exact."""
    settings, rows = make("figure1", LEVEL, runs=2)
    some = [row._replace(mse=0.0) if row.sampler == "hmc" else row for row in rows if row.sigma_r == 0]
    FigureCanvasAgg(draw_errors(some, settings)).draw()
    FigureCanvasAgg(draw_errors([row._replace(mse=0.0) for row in rows], settings)).draw()


def test_views_show_every_curve():
    """Catches a chain that is missing from a view, or on the wrong time axis."""
    views = make_views()
    figure = draw_views(views)
    assert len(figure.axes) == 6
    for row, edition in enumerate(("published", "ours")):
        curves = [view for view in views.curves if view.edition == edition]
        colours = [colour_of(view.sampler) for view in curves]
        autocorrelation, holding, magnetisation = figure.axes[3 * row : 3 * row + 3]
        lines = [line for line in autocorrelation.lines if len(line.get_xdata()) == 50]
        assert [line.get_color() for line in lines] == colours
        np.testing.assert_allclose(lines[0].get_xdata(), 0.1 * np.arange(50))
        assert [to_hex(patch.get_edgecolor()) for patch in holding.patches] == colours
        assert [line.get_color() for line in magnetisation.lines if len(line.get_xdata()) == 100] == colours


def test_holding_times_of_a_scan_fill_their_bins_evenly():
    """Catches a comb in the histogram of a sampler that flips at multiples of 1/d sweeps only."""
    views = make_views()
    steps = np.tile(np.arange(1, 401), 10) / views.d
    curves = [type(view)(**{**vars(view), "holding_times": steps}) for view in views.curves]
    figure = draw_views(type(views)(**{**vars(views), "curves": curves}))
    density = figure.axes[1].patches[0].get_data().values
    np.testing.assert_allclose(density[1:-2], density[1])


def test_chains_without_flips_can_be_drawn():
    """Catches a crash on a chain that never moved."""
    views = make_views()
    still = {"holding_times": np.array([]), "magnetisation": np.zeros(100), "autocorrelation": np.full(50, np.nan)}
    curves = [type(view)(**{**vars(view), **still}) for view in views.curves]
    FigureCanvasAgg(draw_views(type(views)(**{**vars(views), "curves": curves}))).draw()
