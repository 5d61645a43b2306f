"""Event times along rays by inversion: the positive variation of U up to the returned time is the budget.

The variation is computed from the formula of U by itself: U is followed on a fine grid, its turning points are found by
bisection of the derivative in closed form, and its ascents are added up. Nothing is shared with the search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

import bouncy
from bouncy import Density
from conftest import base_seed
from helpers.replicates_density import first_bounces
from helpers.statistics import distribution_test
from piecewise.densities import law_of, without_gradient

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

# Relative error of the budget, beside the rounding of U.
CLOSE, CLOSE_BY_DIFFERENCES, ROUNDING = 1e-8, 1e-6, 1e-13


class Shape(NamedTuple):
    """A potential of one variable.

    Attributes
    ----------
    U, slope : in closed form.
    a : its parameter.
    starts : where rays start, to both sides.
    convex : whether U is convex.
    """

    U: Curve
    slope: Curve
    a: float
    starts: tuple[float, ...]
    convex: bool = False


SHAPES = {
    "parabola": Shape(lambda t: 0.5 * t * t, lambda t: t, 0.0, (-3.0, 0.0, 1e-8, 2.0), True),
    "quartic": Shape(lambda t: 0.25 * t**4, lambda t: t**3, 0.0, (-2.0, 0.0, 1e-3, 1.0), True),
    "wells": Shape(lambda t: 2.0 * (t * t - 1) ** 2, lambda t: 8.0 * t * (t * t - 1), 2.0, (-1.6, -1.0, 0.0, 0.3)),
    "waves": Shape(
        lambda t: 0.01 * t * t + 1.5 * np.cos(3 * t), lambda t: 0.02 * t - 4.5 * np.sin(3 * t), 1.5, (-5.0, 0.0, 0.5)
    ),
    "heavy tail": Shape(
        lambda t: 2.0 * np.log1p(t * t / 3), lambda t: 4.0 * t / (3.0 + t * t), 0.0, (-40.0, -1.0, 0.0)
    ),
    "stiff": Shape(lambda t: 5e5 * t * t, lambda t: 1e6 * t, 1e6, (-1.0, 0.0, 1e-4), True),
    "valley": Shape(
        lambda t: np.logaddexp(200 * t, -200 * t), lambda t: 200.0 * np.tanh(200.0 * t), 200.0, (-1.0, 0.0), True
    ),
    "exponential": Shape(lambda t: np.exp(3.0 * t) - t, lambda t: 3.0 * np.exp(3.0 * t) - 1.0, 3.0, (-2.0, 0.0), True),
    "plateau": Shape(
        lambda t: 3.0 / (1.0 + np.exp(-8.0 * t)) + 0.02 * t * t,
        lambda t: 6.0 / np.cosh(4.0 * t) ** 2 + 0.04 * t,
        3.0,
        (-4.0, -0.5, 1.0),
    ),
}
NUMBERS = {name: float(number) for number, name in enumerate([*SHAPES, "ripples"])}


def shape_log_prob(y, data):
    t, kind, a = y[0], data[0], data[1]
    if kind == 0.0:
        return -0.5 * t * t
    if kind == 1.0:
        return -0.25 * t**4
    if kind == 2.0:
        return -a * (t * t - 1.0) ** 2
    if kind == 3.0:
        return -0.01 * t * t - a * np.cos(3.0 * t)
    if kind == 4.0:
        return -2.0 * np.log1p(t * t / 3.0)
    if kind == 5.0:
        return -0.5 * a * t * t
    if kind == 6.0:
        return -np.logaddexp(a * t, -a * t)
    if kind == 7.0:
        return t - np.exp(a * t)
    if kind == 8.0:
        return -a / (1.0 + np.exp(-8.0 * t)) - 0.02 * t * t
    return -0.5 * t * t - a * np.cos(20.0 * t)


def shape_gradient(y, out, data):
    t, kind, a = y[0], data[0], data[1]
    if kind == 0.0:
        out[0] = -t
    elif kind == 1.0:
        out[0] = -(t**3)
    elif kind == 2.0:
        out[0] = -4.0 * a * t * (t * t - 1.0)
    elif kind == 3.0:
        out[0] = -0.02 * t + 3.0 * a * np.sin(3.0 * t)
    elif kind == 4.0:
        out[0] = -4.0 * t / (3.0 + t * t)
    elif kind == 5.0:
        out[0] = -a * t
    elif kind == 6.0:
        out[0] = -a * np.tanh(a * t)
    elif kind == 7.0:
        out[0] = 1.0 - a * np.exp(a * t)
    elif kind == 8.0:
        out[0] = -2.0 * a / np.cosh(4.0 * t) ** 2 - 0.04 * t
    else:
        out[0] = -t + 20.0 * a * np.sin(20.0 * t)


def wells_bound(y, v, horizon, data):
    """Bound the slope of the two wells by its largest size within reach."""
    reach = np.abs(y[0]) + np.abs(v[0]) * horizon
    return 4.0 * data[1] * reach * (reach * reach + 1.0) * np.abs(v[0])


@cache
def line(kind: str) -> Density:
    """Return the density of all shapes: with a gradient, convex too, without one, or thinned."""
    start = (0.0, 0.0)
    if kind == "differences":
        return without_gradient(1, shape_log_prob, data=start)
    options = {"smooth": {}, "convex": {"convex": True}, "thinned": {"bound": wells_bound}}[kind]
    return Density(1, shape_log_prob, shape_gradient, data=start, **options)


def density_of(name: str, kind: str) -> Density:
    return line(kind).given((NUMBERS[name], SHAPES[name].a if name in SHAPES else 0.05))


def ascents(shape: Shape, start: float, speed: float, time: float) -> float:
    """Return the positive variation of U from `start` on, at a speed, over a time."""
    end = start + speed * time
    grid = np.linspace(start, end, 8_001)
    slope = shape.slope(grid)
    turns = [
        optimize.brentq(lambda t: float(shape.slope(np.float64(t))), grid[k], grid[k + 1], xtol=1e-13, maxiter=500)
        for k in np.flatnonzero(np.sign(slope[:-1]) * np.sign(slope[1:]) < 0.0)
    ]
    values = shape.U(np.array([start, *turns, *grid[slope == 0.0], end]))
    order = np.argsort(np.array([start, *turns, *grid[slope == 0.0], end]) * np.sign(speed), kind="stable")
    return float(np.maximum(np.diff(values[order]), 0.0).sum())


def budgets(n: int) -> Array:
    """Return budgets of all sizes, and those that come up."""
    rng = np.random.default_rng(base_seed())
    return np.concatenate([10.0 ** np.linspace(-4, 1.3, n), rng.exponential(size=n)])


def rays(shape: Shape, n: int) -> tuple[Array, Array, Array]:
    """Return starts and velocities, (R, 1), and budgets, (R,)."""
    rows = [(start, speed, E) for start in shape.starts for speed in (1.0, -1.0, 0.3) for E in budgets(n)]
    starts, speeds, sizes = np.array(rows).T
    return starts[:, None], speeds[:, None], sizes


def assert_spent(shape: Shape, target: Density, tolerance: float, n: int, end: float = np.inf) -> int:
    """Compare ascents with budgets, and return the number of rays that bounced."""
    starts, v, sizes = rays(shape, n)
    found = first_bounces(target, starts, v, sizes, end=end)
    for k, E in enumerate(sizes):
        start, speed, time = starts[k, 0], v[k, 0], found.time[k]
        spent = ascents(shape, start, speed, time)
        highest = max(abs(shape.U(np.float64(start))), abs(shape.U(np.float64(start + speed * time))))
        slack = tolerance * E + ROUNDING * highest
        where = f"from {start} at {speed} with budget {E}: {spent} spent at {time}"
        assert found.bounced[k] == (time < end), where
        assert abs(spent - (E - found.left[k])) <= slack, where
        assert found.left[k] >= 0.0, where
        assert found.U[k] == pytest.approx(shape.U(np.float64(start + speed * time)), rel=1e-9, abs=1e-9)
    return int(found.bounced.sum())


@pytest.mark.parametrize("name", SHAPES)
def test_the_budget_is_spent_at_the_returned_time(name):
    """Catches a turning point that is overlooked, a descent that is counted or refunded, an event a little off."""
    shape = SHAPES[name]
    assert assert_spent(shape, density_of(name, "smooth"), CLOSE, 8) > 0


@pytest.mark.parametrize("name", [name for name in SHAPES if SHAPES[name].convex])
def test_the_budget_is_spent_where_steps_have_no_middle(name):
    """Catches a shortcut for convex potentials that takes another minimum, or none."""
    assert assert_spent(SHAPES[name], density_of(name, "convex"), CLOSE, 6) > 0


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("stiff", "valley")])
def test_the_budget_is_spent_without_a_gradient(name):
    """Catches differences across the wrong points: of U itself six digits are left of the budget, and more of U."""
    assert assert_spent(SHAPES[name], density_of(name, "differences"), CLOSE_BY_DIFFERENCES, 4) > 0


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("end", [1e-3, 2.5])
def test_what_is_left_at_the_end_of_a_ray(name, end):
    """Catches a budget that is not paid, or paid twice, up to a wall, a refreshment or the end of a sweep."""
    kinds = ["smooth", "convex"] if SHAPES[name].convex else ["smooth"]
    for kind in kinds:
        assert_spent(SHAPES[name], density_of(name, kind), CLOSE, 3, end)


def test_a_ray_in_pieces_spends_the_same_budget():
    """Catches a budget, U or slope that is not that of the end of a ray, so that the end of a sweep matters."""
    for name, shape in SHAPES.items():
        target = density_of(name, "smooth")
        starts, v, sizes = rays(shape, 2)
        whole = first_bounces(target, starts, v, sizes, end=15.0)
        time, y, left = np.zeros(sizes.size), starts.copy(), sizes.copy()
        flies = np.ones(sizes.size, bool)
        for _ in range(40):
            piece = first_bounces(target, y[flies], v[flies], left[flies], end=0.375)
            time[flies] += piece.time
            y[flies] += v[flies] * piece.time[:, None]
            left[flies] = piece.left
            flies[flies] = ~piece.bounced
        height = np.abs(shape.U(starts[:, 0])) + np.abs(shape.U(y[:, 0]))
        slack = (1e-8 * sizes + ROUNDING * height) / np.maximum(np.abs(whole.slope), 1e-9) + 1e-12 * whole.time
        assert (flies == ~whole.bounced).all(), name
        assert (np.abs(time - whole.time) <= slack).all(), name


def test_a_kink_that_is_not_named_is_found():
    """Catches a search that ends with an error, or jumps over the kink: the climb begins at it."""

    def log_prob(y):
        return -np.abs(y[0] - 0.1)

    def gradient(y, out):
        out[0] = -np.sign(y[0] - 0.1)

    target = Density(1, log_prob, gradient)
    sizes = budgets(20)
    starts, v = np.full((40, 1), -1.0), np.ones((40, 1))
    found = first_bounces(target, starts, v, sizes)
    np.testing.assert_allclose(found.time, 1.1 + sizes, rtol=1e-6)


@pytest.mark.parametrize("name", ["mixture", "logistic", "student-2", "oblique"])
def test_rays_in_two_dimensions(name):
    """Catches a slope that leaves out a coordinate, or a point that is not on the ray: ascents on a grid of log p."""
    law = law_of(name)
    rng = np.random.default_rng([base_seed(), 1])
    starts, v = law.draw(rng, 12), rng.standard_normal((12, 2))
    # Rays end before their first wall.
    end = 0.5 if name == "oblique" else 3.0
    if name == "oblique":
        n, c = law.target.walls[0]
        starts, v = starts[starts @ n < c], v[starts @ n < c]
        v -= np.outer(np.maximum(v @ n, 0.0), n) / (n @ n) * (1 + 1e-6)
    sizes = rng.exponential(size=len(starts))
    found = first_bounces(law.target, starts, v, sizes, end=end)
    for k, time in enumerate(found.time):
        path = starts[k] + np.linspace(0.0, time, 40_001)[:, None] * v[k]
        spent = np.maximum(-np.diff(law.target.log_prob(path)), 0.0).sum()
        assert spent == pytest.approx(sizes[k] - found.left[k], rel=1e-6, abs=1e-8)


def test_thinned_times_have_the_law_of_the_budget():
    """Catches a share of the bound that is inverted, a window that is skipped or not asked again: spent ~ Exp(1).

    False alarms 1e-6, sees a distance of 0.05.
    """
    shape, n = SHAPES["wells"], 10_000
    target = density_of("wells", "thinned")
    for start, speed in ((-1.6, 1.0), (0.3, 1.0), (0.0, -0.3)):
        found = first_bounces(
            target, np.full((n, 1), start), np.full((n, 1), speed), np.full(n, np.nan), end=30.0, seed=base_seed()
        )
        assert found.bounced.all()
        inside = np.linspace(0.0, found.time.max(), 20_001)
        climbed = np.append(0.0, np.cumsum(np.maximum(np.diff(shape.U(start + speed * inside)), 0.0)))
        spent = np.interp(found.time, inside, climbed)
        distribution_test(spent, stats.expon.cdf, detect=0.05, name="spent").check()
        assert (found.evaluations[:, 2] > 0).all()


def test_a_bound_may_be_zero_for_a_while():
    """Catches a division by a bound of zero, and a horizon that does not grow where nothing can happen."""

    def log_prob(y):
        return -max(y[0] - 50.0, 0.0)

    def gradient(y, out):
        out[0] = -1.0 if y[0] > 50.0 else 0.0

    def bound(y, v, horizon):
        return np.abs(v[0]) if y[0] + v[0] * horizon > 50.0 else 0.0

    target = Density(1, log_prob, gradient, bound=bound)
    n = 5_000
    found = first_bounces(target, np.zeros((n, 1)), np.ones((n, 1)), np.full(n, np.nan), end=200.0, seed=base_seed())
    distribution_test(found.time - 50.0, stats.expon.cdf, detect=0.07, name="after the plain").check()
    assert found.evaluations[:, 2].max() < 100


def test_rays_on_a_normal_take_few_evaluations():
    """Catches a search that takes many more evaluations than it needs: it is the cost of the sampler."""
    shape = SHAPES["parabola"]
    for kind, most in (("smooth", 14.0), ("convex", 9.0)):
        found = first_bounces(density_of("parabola", kind), *rays(shape, 30))
        assert found.evaluations[:, 0].mean() < most
        assert (found.evaluations[:, 0] == found.evaluations[:, 1]).all()


@pytest.mark.parametrize("convex", [False, True])
def test_a_jump_is_an_error(convex):
    """Catches jumps that no step notices, or a search without an end; a single long step may hide a small jump."""

    def log_prob(y):
        return -0.5 * y[0] * y[0] - (0.8 if y[0] > 0.5 else 0.0)

    def gradient(y, out):
        out[0] = -y[0]

    target = Density(1, log_prob, gradient, convex=convex)
    starts = np.random.default_rng(base_seed()).normal(size=(100, 1))
    with pytest.raises(bouncy.TargetError, match=r"jumps|not convex") as failure:
        first_bounces(target, starts, np.ones((100, 1)), np.full(100, 1.0))
    assert failure.value.state.shape == (1,)
    if not convex:
        assert failure.value.state[0] == pytest.approx(0.5, abs=1e-6)


def test_ripples_are_overlooked_rarely():
    """Catches steps that are trusted although U has turned a hundred times, which three points may fail to show.

    Ripples of a hundredth of the variation are what a search by steps can overlook: here in one ray of fifty.
    """
    shape = Shape(lambda t: 0.5 * t * t + 0.05 * np.cos(20 * t), lambda t: t - np.sin(20 * t), 0.05, (-3.0, -0.2, 0.1))
    starts, v, sizes = rays(shape, 40)
    found = first_bounces(density_of("ripples", "smooth"), starts, v, sizes)
    spent = np.array([ascents(shape, *row) for row in zip(starts[:, 0], v[:, 0], found.time, strict=True)])
    assert (np.abs(spent / sizes - 1.0) > 1e-8).mean() < 0.05
