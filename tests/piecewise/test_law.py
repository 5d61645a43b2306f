"""The engine keeps the law of its target (layer L2), and reaches it from afar (layer L3).

Every test compares independent flights with closed forms or quadrature. The false-alarm rate is 1e-6 per assertion, and
each assertion states with `detect` the error that it sees with probability 0.999. A wrong reflection or refreshment
can leave the law of y right, so velocities and rates of events are tested as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from bouncy.clocks.contract import mean_speed
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
from bouncy.recorders.contract import BOUNCES, FLIPS, HITS, REFRESHMENTS
from conftest import base_seed
from helpers.replicates_piecewise import Flights, fly, locate
from helpers.statistics import z_test
from piecewise.laws import LAWS, Law

SEED = base_seed()
REPLICATES = 60_000
SWEEP_TIME, SWEEPS = 1.5, 5
DURATION = SWEEP_TIME * SWEEPS
REFRESHMENT_RATE = 0.5


@dataclass(frozen=True)
class Case:
    """Flights that started from exact draws."""

    law: Law
    starts: np.ndarray
    run: Flights

    @cached_property
    def x(self) -> np.ndarray:
        """Values at the end, (R, d)."""
        cells = self.law.potential.cells
        return cells.slope[self.run.row] * self.run.y + cells.shift[self.run.row]


@pytest.fixture(scope="module", params=LAWS)
def case(request: pytest.FixtureRequest) -> Case:
    law = LAWS[request.param]()
    starts = law.draw(np.random.default_rng([SEED, 1]), REPLICATES)
    run = fly(
        law.potential,
        starts,
        scale=law.scale,
        sweep_time=SWEEP_TIME,
        n_sweeps=SWEEPS,
        refreshment_rate=REFRESHMENT_RATE,
        seed=SEED,
        box=law.box,
    )
    return Case(law, starts, run)


def test_time_averages(case: Case) -> None:
    """A: a piece of path that is dropped or weighted wrongly, or a wrong toll, biases means and products."""
    spread = np.sqrt(np.diag(case.law.product))
    z_test(case.run.mean, case.law.mean, detect=0.04 * spread, name="means").check()
    size = np.outer(spread, spread)
    z_test(case.run.product, case.law.product.ravel(), detect=0.06 * size.ravel(), name="products").check()
    z_test(case.run.square, np.diag(case.law.product), detect=0.06 * np.diag(size), name="squares").check()


def test_time_in_cells(case: Case) -> None:
    """A: time that is booked to the cell beside, or a cell that is entered too often."""
    first = case.law.potential.cells.first
    groups = np.add.reduceat(case.run.cell, first[:-1], axis=1)
    np.testing.assert_allclose(groups, 1.0, rtol=1e-9)
    inside = np.zeros(case.run.cell.shape)
    cells = case.law.potential.cells
    np.put_along_axis(inside, locate(cells, case.starts), 1.0, axis=1)
    # The share of time less where it began has mean zero, and less variance than the share by itself.
    z_test(case.run.cell - inside, 0.0, detect=0.02, name="cells").check()


def test_final_state(case: Case) -> None:
    """B: a wrong jump, kink, climb or crossing moves the law away from where it began."""
    for outcome in case.law.final(case.run.y, case.x, 0.02):
        outcome.check()


def test_final_cells(case: Case) -> None:
    """B: a coordinate whose cell is not the one it lies in."""
    cells = case.law.potential.cells
    assert (cells.lower[case.run.row] <= case.run.y * (1 + 1e-12) + 1e-12).all()
    assert (cells.upper[case.run.row] >= case.run.y * (1 - 1e-12) - 1e-12).all()


def test_final_velocity(case: Case) -> None:
    """V: a reflection that is not one, or a refreshment of another law: v is uniform on the sphere for any y."""
    d = case.law.d
    v = np.linalg.solve(case.law.root.T, (case.run.v * (1.0 if case.law.in_metric else case.law.scale)).T).T
    np.testing.assert_allclose((v * v).sum(axis=1), 1.0, rtol=1e-12)
    z_test(v, 0.0, detect=0.04, name="velocity").check()
    z_test(np.einsum("ni,nj->nij", v, v), np.eye(d) / d, detect=0.02, name="products of v").check()
    z_test((v**4).sum(axis=1), 3 / (d + 2), detect=0.01, name="sum of v^4").check()
    scaled = case.run.y / case.law.scale
    z_test(v * scaled, 0.0, detect=0.06, name="velocity times position").check()
    z_test(((v * scaled).sum(axis=1)) ** 2 - (scaled**2).sum(axis=1) / d, 0.0, detect=0.15, name="radial speed").check()


def test_rates(case: Case) -> None:
    """R: bounces at E[v.g]_+, walls at speed times density, refreshments at their rate; a lost event is lost here."""
    per_time = case.run.events / DURATION
    at_start = case.law.bounce_rates(case.starts)
    paces = case.law.paces(case.starts)
    z_test(per_time[:, REFRESHMENTS] - REFRESHMENT_RATE * paces, 0.0, detect=0.01, name="refreshments").check()
    z_test(per_time[:, BOUNCES] - at_start, 0.0, detect=0.02, name="bounces").check()
    if case.law.hit_rate is not None:
        z_test(per_time[:, HITS], case.law.hit_rate, detect=0.02, name="wall hits").check()


@pytest.mark.parametrize("name", ["normal-1", "normal-2", "normal-5", "spins", "spins-exponential"])
def test_rates_in_closed_form(name: str) -> None:
    """R: the numbers of the literature: 1/sqrt(2 pi) bounces per unit time on N(0, I), sqrt(d) m1 / 2 for |y|."""
    law = LAWS[name]()
    starts = law.draw(np.random.default_rng([SEED, 2]), 20_000)
    exponential = name == "spins-exponential"
    expected = 0.5 * math.sqrt(law.d) * mean_speed(law.d) if exponential else 1 / math.sqrt(2 * math.pi)
    z_test(law.bounce_rates(starts), expected, detect=0.02).check()
    if name.startswith("spins"):
        target = MixedBinaryGaussian(np.zeros((3, 3)), augmentation="exponential" if exponential else "gaussian")
        assert target.rates[1] == pytest.approx(expected)
        factor = 1.0 if exponential else math.sqrt(2 / math.pi)
        assert target.rates[0] == pytest.approx(1.5 * mean_speed(3) * factor)


def test_crossings_are_flips_of_metropolis() -> None:
    """R: a spin in a field passes its wall with probability min(1, e^-jump), from either side equally often."""
    r = 0.4
    target = MixedBinaryGaussian([[0.0]], r)
    rng = np.random.default_rng([SEED, 3])
    s = np.where(rng.random(REPLICATES) < 1 / (1 + math.exp(2 * r)), 1.0, -1.0)
    starts = (s * np.abs(rng.standard_normal(REPLICATES)))[:, None]
    run = fly(target.potential, starts, scale=target.scale, sweep_time=1.5, n_sweeps=5, refreshment_rate=0.5, seed=SEED)
    hits, _ = target.rates
    low, high = 1 / (1 + math.exp(2 * r)), 1 / (1 + math.exp(-2 * r))
    accepted = low + high * math.exp(-2 * r)
    assert hits is not None
    z_test(run.events[:, FLIPS] / 7.5, accepted * hits, detect=0.01, name="crossings").check()


def overdispersed(law: Law, n: int) -> np.ndarray:
    """Return starts, (n, d), in the corners: far out, or at the ends of what is allowed."""
    cells, rng = law.potential.cells, np.random.default_rng([SEED, 4])
    low = np.maximum(cells.lower[cells.first[:-1]], -4.0)
    high = np.minimum(cells.upper[cells.first[1:] - 1], 4.0)
    return low + (0.02 + 0.96 * rng.integers(0, 2, (n, law.d))) * (high - low)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["normal-5", "quadrant", "quadrant-metric", "jump-kink-flat", "spike-slab", "points", "mixed", "mixed-exponential"],
)
def test_law_is_reached_from_the_corners(name: str) -> None:
    """L3: cells that are never entered or left, or a velocity that stays in a plane, tie the law to its start.

    A refreshment leaves 1 - 1/d of what |y|^2 differs from its mean: after 60 of them nothing is left.
    """
    law = LAWS[name]()
    cells = law.potential.cells
    starts = overdispersed(law, 12_000)
    times = {"sweep_time": 40.0, "n_sweeps": 3, "refreshment_rate": 0.5}
    run = fly(law.potential, starts, scale=law.scale, seed=SEED, box=law.box, **times)
    x = cells.slope[run.row] * run.y + cells.shift[run.row]
    for outcome in law.final(run.y, x, 0.06):
        outcome.check()


def test_no_refreshment_is_seen() -> None:
    """Negative control: on N(0, I) without refreshment the particle keeps its distance from the origin's plane."""
    law = LAWS["normal-5"]()
    starts = np.tile([0.1, 0.0, 0.0, 0.0, 0.0], (4_000, 1))
    run = fly(law.potential, starts, scale=law.scale, sweep_time=20.0, n_sweeps=3, refreshment_rate=0.0, seed=SEED)
    assert any(abs(outcome.z) > 20 for outcome in law.final(run.y, run.y, 0.1))


def test_a_flat_box_is_filled() -> None:
    """L3: without any potential only walls and refreshment mix: a start in a corner is forgotten."""
    potential = Potential(np.zeros((2, 2)), np.zeros(2), Cells.alike(2, [0.0, 1.0]))
    starts = np.full((8_000, 2), 0.01)
    run = fly(potential, starts, scale=np.ones(2), sweep_time=10.0, n_sweeps=3, refreshment_rate=1.0, seed=SEED)
    z_test(run.y, 0.5, detect=0.03, name="means").check()
    z_test(run.y**2, 1 / 3, detect=0.03, name="squares").check()
