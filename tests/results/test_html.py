"""What a notebook and `print` show of runs, ladders and targets."""

import base64
import io
import re

import matplotlib.image
import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy import _html
from bouncy.results.tempered import Ladder

LABELS = ["plain", "<script>alert(1)</script>", "last"]


@pytest.fixture(scope="module")
def run():
    """Return a run on three sites, one of which has the name of a program."""
    target = bouncy.MRF([[0.0, -0.5, 0.0], [-0.5, 0.0, 0.2], [0.0, 0.2, 0.0]], labels=LABELS)
    return bouncy.sample(target, chains=2, draws=400, seed=0)


def points_of(html):
    """Return the places of the points of a chart, (n, 2)."""
    return np.array(re.findall(r"M([\d.]+) ([\d.-]+)h0", html), dtype=float)


def pixels_of(html):
    """Return the picture in some HTML, (height, width, 4), from 0 to 1."""
    data = re.search(r"base64,([^\"]+)", html).group(1)
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(data)), "png")


def test_print_says_in_three_lines_whether_to_trust_a_run(run):
    """Catches a line that is missing, the error of another site, and an R-hat that is not the worst."""
    what, precision, trust = str(run).splitlines()
    assert what.startswith("bps-gaussian on MRF(d=3, dense, 2 pairs): 2 chains x 400 draws, ")
    worst = int(run.mean_se.argmax())
    assert f"{run.mean_se[worst]:.2g} (site {LABELS[worst]:.23}" in precision
    rhat = max(value for value in run.diagnostics["rhat"].values() if isinstance(value, float))
    assert f"worst R-hat {rhat:.4f}" in precision
    assert trust == "no warnings"
    assert len(repr(run).splitlines()) == 1


def test_print_shows_reasons_for_doubt():
    """Catches chains that disagree and look fine, on paper and in a notebook."""
    target = bouncy.MRF(-60.0 * (np.ones((3, 3)) - np.eye(3)), labels=["a", "b", "c"])
    with pytest.warns(bouncy.NoFlipWarning):
        stuck = bouncy.sample(target, chains=2, draws=20, initial=[[1, 1, 1], [-1, -1, -1]], seed=0)
    lines = str(stuck).splitlines()
    warnings = stuck.diagnostics["warnings"]
    assert len(lines) == 3
    assert "worst R-hat infinite (stuck)" in lines[1]
    assert lines[2] == f"{len(warnings)} warnings, see run.summary(): {warnings[0]}"
    shown, _, folded = stuck._repr_html_().partition("<details>")
    assert all(_html.escape(text) in shown and _html.escape(text) in folded for text in warnings)


def test_a_run_without_draws_can_be_shown():
    """Catches an error, or a made-up number, where nothing is known yet."""
    empty = bouncy.sample(bouncy.MRF.random(3, seed=0), chains=1, draws=1, warmup=1, seed=0)
    assert "no R-hat" in str(empty)
    assert "<details>" in empty._repr_html_()
    assert _html.chart("means", np.full(3, np.nan)) == ""


def test_names_are_escaped(run):
    """Catches a label or a title that a notebook would run as a program."""
    for html in (run._repr_html_(), run.target._repr_html_(), run.summary()._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
    assert "<b>" not in _html.chart("<b>", np.ones(1)) + _html.matrix('"><b>', np.ones((1, 1)))


def test_pictures_have_no_colours_of_a_page(run):
    """Catches text or a background that cannot be read in a dark theme."""
    html = run._repr_html_() + run.target._repr_html_()
    colours = set(re.findall(r'(?:fill|stroke|color)[=:]"?([^";]+)', html))
    assert colours == {"currentColor", f"rgb{_html._BLUE}"}
    assert "background" not in html


def test_points_of_a_chart_are_in_proportion():
    """Catches an axis upside down, a bar that ends elsewhere, and points that are left out."""
    html = _html.chart("three", np.array([0.0, 1.0, -1.0, np.nan]), np.full(4, -1.0), np.full(4, 3.0))
    x, y = points_of(html).T
    np.testing.assert_allclose(np.diff(x), x[1] - x[0])
    np.testing.assert_allclose((y - y[1]) / (y[0] - y[1]), [1.0, 0.0, 2.0], atol=0.05)
    bars = np.array(re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)(?=[M\"])", html), dtype=float)[-3:]
    np.testing.assert_allclose(bars, [[place, y[2], y[1] - 2 * (y[0] - y[1])] for place in x], atol=0.2)
    assert re.findall(r">(-?[\d.]+)</text>", html) == ["-1", "3"]
    many = _html.chart("many", np.arange(1000.0))
    assert len(points_of(many)) == 200
    assert "many, one in 5 of 1,000" in many


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_a_matrix_is_drawn(kind):
    """Catches a transposed picture, a sign in the wrong colour, and entries that are lost among many."""
    html = _html.matrix("M", kind([[0.0, -1.0, 0.5], [0.0, 0.0, 2.0]]))
    pixels = pixels_of(html)
    np.testing.assert_allclose(pixels[..., 3], [[0.0, 0.5, 0.25], [0.0, 0.0, 1.0]], atol=0.01)
    np.testing.assert_allclose(pixels[0, 1, :3] * 255, _html._BLUE, atol=1)
    np.testing.assert_allclose(pixels[1, 2, :3] * 255, _html._ORANGE, atol=1)
    large = np.zeros((1000, 1000))
    large[998, 3], large[999, 3] = 0.5, -1.0
    pixels = pixels_of(_html.matrix("M", kind(large)))
    assert pixels.shape[:2] == (143, 143)
    assert np.argwhere(pixels[..., 3]).tolist() == [[142, 0]]
    np.testing.assert_allclose(pixels[142, 0, :3] * 255, _html._BLUE, atol=1)


def test_targets_show_what_ties_their_sites():
    """Catches a kind of target that a notebook cannot show, and a picture of other couplings."""
    M = np.array([[0.0, -0.5], [-0.5, 0.0]])
    pixels = pixels_of(bouncy.MRF(M)._repr_html_())
    np.testing.assert_allclose(pixels[..., 3], [[0.0, 1.0], [1.0, 0.0]])
    pairs = bouncy.Polynomial({(0, 1): 1.0, (2,): 1.0}, vartype="SPIN")._repr_html_()
    np.testing.assert_allclose(pixels_of(pairs)[..., 3], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    form = pixels_of(bouncy.Gaussian([0.0, 0.0], cov=np.diag([1.0, 0.5]))._repr_html_())
    np.testing.assert_allclose(form[..., 3], [[0.5, 0.0], [0.0, 1.0]], atol=0.01)
    free = bouncy.MRF(np.zeros((9, 9)))._repr_html_()
    assert "9 sites: 0, 1, 2, 3, 4, 5, 6, 7, ..." in free
    assert not pixels_of(free)[..., 3].any()


def test_a_ladder_is_a_table_and_a_chart():
    """Catches a column that is missing, or chances of swaps on an axis that exaggerates them."""
    columns = {name: np.linspace(0.0, 1.0, 4) for name in ("b", "mean", "variance", "log_z", "flow")}
    columns["acceptance"] = np.array([0.25, 0.5, 0.75, np.nan])
    ladder = Ladder(columns, 1.5, np.array([7, 8]), 100, 1)
    html = ladder._repr_html_()
    assert re.findall(r"<th>(.*?)</th>", html) == str(ladder).splitlines()[0].split()
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", html)]
    assert rows == [line.split() for line in str(ladder).splitlines()[1:5]]
    assert re.findall(r">([\d.]+)</text>", html) == ["0", "1"]
    assert str(ladder).splitlines()[-1] in html
