"""The particle on a density of functions keeps its law (layer L2), and reaches it from afar (layer L3).

As `test_law.py` for quadratic potentials: independent flights from exact draws are compared with closed forms or
quadrature. The false-alarm rate is 1e-6 per assertion, and each assertion states with `detect` the error that it sees
with probability 0.999. The slow version has five times as many flights.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from conftest import base_seed
from helpers.replicates_density import Flights, fly
from helpers.replicates_piecewise import locate
from helpers.statistics import z_test
from piecewise.densities import LAWS, STAIRS, DensityLaw, law_of

pytestmark = pytest.mark.slow

SEED = base_seed()
QUICK, LONG = 40_000, 200_000
SWEEP_TIME, SWEEPS = 1.5, 4
DURATION = SWEEP_TIME * SWEEPS
REFRESHMENT_RATE = 0.5


@dataclass(frozen=True)
class Case:
    """Flights that started from exact draws, and the size of errors relative to those that a quick test sees."""

    law: DensityLaw
    starts: np.ndarray
    run: Flights
    size: float


# Laws that are similar to another one are left to the long tests. So are other ways to find events, which have tests of
# their own on single rays.
ALIKE = ("logistic", "logistic-thinned", "mixture", "mixture-by-differences", "student-1", "student-2", "laplace")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((name, n), id=f"{name}{suffix}", marks=marks)
        for n, suffix, marks in ((QUICK, "", ()), (LONG, "-long", pytest.mark.slow))
        for name in LAWS
        if n == LONG or name not in ALIKE
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    name, n = request.param
    law, number = law_of(name), zlib.crc32(name.encode())
    starts = law.draw(np.random.default_rng([SEED, 1, number]), n)
    run = fly(
        law.target,
        starts,
        sweep_time=SWEEP_TIME,
        n_sweeps=SWEEPS,
        refreshment_rate=REFRESHMENT_RATE,
        seed=np.random.SeedSequence([SEED, 2, number]),
    )
    return Case(law, starts, run, float(np.sqrt(QUICK / n)))


def test_time_averages(case: Case) -> None:
    """A: a piece of path that is dropped, a wrong event time or a wrong toll, biases means and products."""
    if case.law.mean is None or case.law.product is None:
        assert case.law.cell.size > case.law.d  # times in cells are tested instead
        return
    spread = np.sqrt(np.diag(case.law.product))
    size = 0.1 * case.size * np.outer(spread, spread)
    z_test(case.run.mean, case.law.mean, detect=0.05 * case.size * spread, name="means").check()
    z_test(case.run.product, case.law.product.ravel(), detect=size.ravel(), name="products").check()
    z_test(case.run.square, np.diag(case.law.product), detect=np.diag(size), name="squares").check()


def test_time_in_cells(case: Case) -> None:
    """A: time that is booked to the cell beside, or a cell that is entered too often."""
    cells = case.law.target.cells
    np.testing.assert_allclose(np.add.reduceat(case.run.cell, cells.first[:-1], axis=1), 1.0, rtol=1e-9)
    z_test(case.run.cell, case.law.cell, detect=0.02 * case.size, name="cells").check()


def test_final_state(case: Case) -> None:
    """B: a wrong jump, kink, climb, crossing or event time moves the law away from where it began."""
    for outcome in case.law.final(case.run.y, 0.03 * case.size):
        outcome.check()


def test_final_sides(case: Case) -> None:
    """B: a cell, or a side of a wall, that is remembered as another one than the particle is on."""
    target, y = case.law.target, case.run.y
    assert np.array_equal(case.run.row, locate(target.cells, y))
    for (n, c), side in zip(target.walls, case.run.side.T, strict=True):
        assert (side * (y @ n - c) > 0.0).all()
    assert np.isfinite(target.log_prob(y)).all()


def test_final_velocity(case: Case) -> None:
    """V: a reflection in another metric, or a refreshment of another law: v / scale is uniform on the sphere."""
    w, d, size = case.run.w, case.law.d, case.size
    np.testing.assert_allclose((w * w).sum(axis=1), 1.0, rtol=1e-12)
    z_test(w, 0.0, detect=0.05 * size, name="velocity").check()
    z_test(np.einsum("ni,nj->nij", w, w), np.eye(d) / d, detect=0.02 * size, name="products of w").check()
    z_test((w**4).sum(axis=1), 3 / (d + 2), detect=0.01 * size, name="sum of w^4").check()
    place = np.tanh(case.run.y / case.law.target.scale)
    z_test(w * place, 0.0, detect=0.04 * size, name="velocity times position").check()
    radial = (w * place).sum(axis=1) ** 2 - (place**2).sum(axis=1) / d
    if d > 1:  # else it is rounding
        z_test(radial, 0.0, detect=0.03 * size, name="radial speed").check()


def test_rates(case: Case) -> None:
    """R: bounces at E[v.grad U]_+, walls at speed times density, refreshments at their rate."""
    per_time = case.run.events / DURATION
    at_start = case.law.bounce_rates(case.starts)
    z_test(per_time[:, REFRESHMENTS], REFRESHMENT_RATE, detect=0.015 * case.size, name="refreshments").check()
    z_test(per_time[:, BOUNCES] - at_start, 0.0, detect=0.07 * case.size, name="bounces").check()
    z_test(per_time[:, HITS], case.law.hit_rate, detect=0.03 * case.size, name="wall hits").check()


def test_crossings_balance_jumps() -> None:
    """R: of the flux at an edge, the smaller density of its two sides is crossed from either side."""
    law, (edges, _) = law_of("staircase"), STAIRS
    starts = law.draw(np.random.default_rng([SEED, 3]), QUICK)
    run = fly(
        law.target, starts, sweep_time=1.5, n_sweeps=4, refreshment_rate=0.5, seed=np.random.SeedSequence([SEED, 4])
    )
    # On each side half of the flux comes, and min(p-, p+) of it passes.
    h = 1e-6
    log_prob = law.target.log_prob(np.stack([np.repeat(edges, 2) + np.tile([-h, h], 4), np.zeros(8)], axis=1))
    passed = 2.0 * np.exp(log_prob.reshape(4, 2).min(axis=1)) / np.exp(log_prob.reshape(4, 2)).sum(axis=1)
    per_edge = np.exp(log_prob.reshape(4, 2) + 0.5 * (0.8 * edges[:, None] / 0.6) ** 2).sum(axis=1)
    expected = law.hit_rate * (per_edge @ passed) / per_edge.sum()
    z_test(run.events[:, FLIPS] / DURATION, expected, detect=0.02, name="crossings").check()


CORNERS = {"student-2": 6.0, "mixture": 3.0, "polytope": 0.2, "oblique": 4.0, "staircase": 3.0, "logistic-thinned": 3.0}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ALIKE else []) for name in CORNERS]
)
def test_law_is_reached_from_the_corners(name: str) -> None:
    """L3: cells that are never entered or left, or a velocity that stays in a plane, tie the law to its start."""
    law = law_of(name)
    signs = np.random.default_rng([SEED, 5]).choice([-1.0, 1.0], (6_000, law.d))
    starts = CORNERS[name] * signs * np.linspace(0.8, 1.2, law.d)
    run = fly(
        law.target, starts, sweep_time=30.0, n_sweeps=2, refreshment_rate=0.5, seed=np.random.SeedSequence([SEED, 6])
    )
    for outcome in law.final(run.y, 0.1):
        outcome.check()


def test_a_wrong_gradient_is_seen() -> None:
    """Negative control: the tests of the law see flights on a density whose tilt is another one than the draws'."""
    law = law_of("double-well")
    starts = law.draw(np.random.default_rng([SEED, 7]), QUICK)
    other = law.target.given((1.5, 0.4))
    run = fly(other, starts, sweep_time=1.5, n_sweeps=4, refreshment_rate=0.5, seed=np.random.SeedSequence([SEED, 8]))
    assert any(abs(outcome.z) > 8 for outcome in law.final(run.y, 0.03))
