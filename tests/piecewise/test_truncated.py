"""Densities exp(-tau y - kappa y^2 / 2) on intervals: moments against quadrature, draws against their law."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, isfinite, sqrt

import numpy as np
import pytest
from scipy.integrate import quad

from bouncy._compile import kernel
from bouncy._random import new_state
from bouncy.piecewise.truncated import draw, moments
from conftest import base_seed
from helpers.statistics import distribution_test

# tau, kappa, lower and upper end: normals, exponentials, uniforms, densities that bend up; far out, narrow, nearly
# flat, and ends that are the peak but for rounding.
CASES = [
    (-1e-17, 1.0, 0.0, inf), (1e-17, 1.0, 0.0, inf), (1e-17, 1.0, -inf, 0.0), (-1e-17, 2.0, 0.0, 3.0),
    (0.0, 1.0, -inf, inf), (0.5, 1.0, 0.0, inf), (-0.5, 1.0, 0.0, inf), (-6.0, 1.0, 0.0, inf), (-20.0, 2.0, 0.0, inf),
    (40.0, 1.0, 0.0, inf), (-40.0, 1.0, -inf, 0.0), (1e6, 1.0, 0.0, inf), (0.0, 1.0, 40.0, 41.0),
    (0.0, 1.0, -40.0, -38.0), (40.0, 1.0, 0.0, 1e-12), (0.0, 4.0, -1e-12, 1e-12), (0.0, 1.0, 2.0, 2.3),
    (0.0, 1.0, -0.2, 1.4), (0.0, 1.0, 0.0, 1.3), (-1.0, 4.0, -0.1, 3.0), (-3.0, 1.0, -1.0, 9.0),
    (-400.0, 10.0, 39.0, 45.0), (3.0, 0.0, 0.0, inf), (-3.0, 0.0, -inf, 2.0), (0.0, 0.0, 1.0, 3.0),
    (2.0, 0.0, 0.0, 1.0), (1e-9, 0.0, 0.0, 1.0), (0.0, 1e-20, -5.0, 5.0), (1.0, 1e-20, 0.0, inf),
    (0.3, -1.0, -1.0, 2.0), (0.0, -5.0, -3.0, 3.0), (5.0, -5.0, -3.0, 3.0), (-60.0, -5.0, -3.0, 3.0),
    (0.0, -1e-9, -1.0, 1.0), (0.0, -5.0, -30.0, 30.0), (2.0, -2.0, 0.0, 1.0), (0.0, -1.0, 0.0, 2.0),
]  # fmt: skip


def law(tau: float, kappa: float, lower: float, upper: float) -> tuple[float, float, float, float]:
    """Return what `moments` returns."""
    root = sqrt(max(kappa, 0.0))
    return moments(tau, kappa, root, 1.0 / root if root else inf, lower, upper)


@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_quadrature(case):
    """Catches digits that cancel in a tail or a narrow cell: everything is right to 1e-11, however far out."""
    tau, kappa, lower, upper = case
    peak, integral, mean, variance = law(*case)
    deviation = sqrt(variance)
    places = [peak + 0.5 * k * deviation for k in range(-90, 91)] + [mean + 0.5 * k * deviation for k in range(-90, 91)]
    inside = [min(max(place, lower), upper) for place in places]
    ends = sorted({place for place in [*inside, lower, upper] if isfinite(place)})

    def integrated(power: int, around: float) -> float:
        def density(y: float) -> float:
            return (y - around) ** power * exp(-(y - peak) * (tau + 0.5 * kappa * (y + peak)))

        return sum(quad(density, a, b, epsabs=0.0, epsrel=1e-12, full_output=True)[0] for a, b in pairwise(ends))

    assert lower <= peak <= upper
    assert integral == pytest.approx(integrated(0, peak), rel=1e-11)
    assert (mean - peak) == pytest.approx(integrated(1, peak) / integrated(0, peak), rel=1e-11, abs=1e-11 * deviation)
    assert variance == pytest.approx(integrated(2, mean) / integrated(0, peak), rel=1e-11)


@pytest.mark.parametrize("case", [(0.0, 0.0, 0.0, inf), (-1.0, 0.0, 0.0, inf), (0.0, 0.0, -inf, inf)])
def test_densities_without_a_bound_are_seen(case):
    """Catches a number that is made up where there is no proper density."""
    assert not law(*case)[1] < inf


@kernel
def _fill(state, tau, kappa, root, deviation, lower, upper, integral, out):
    for i in range(out.size):
        out[i] = draw(state, tau, kappa, root, deviation, lower, upper, integral)


@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_law(case):
    """Catches proposals of the wrong side, rate or acceptance. Alpha 1e-6, sees a distance of 0.05."""
    tau, kappa, lower, upper = case
    peak, integral, _, variance = law(*case)
    out, root = np.empty(10_000), sqrt(max(kappa, 0.0))
    state = new_state(np.random.SeedSequence([base_seed(), CASES.index(case)]))
    _fill(state, tau, kappa, root, 1.0 / root if root else inf, lower, upper, integral, out)
    assert ((out >= lower) & (out <= upper)).all()
    # In units of the width of the law, around its peak: y itself has no digits left in a narrow cell far out.
    scale = sqrt(variance)
    low, high = max((lower - peak) / scale, -60.0), min((upper - peak) / scale, 60.0)
    grid = np.linspace(low, high, 40_001)
    density = np.exp(-grid * scale * (tau + kappa * peak + 0.5 * kappa * scale * grid))
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    cdf = cumulative / cumulative[-1]
    distribution_test((out - peak) / scale, lambda z: np.interp(z, grid, cdf), detect=0.05).check()
