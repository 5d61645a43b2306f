"""log p of values: that of a run is that of its target, and both are what the cells say."""

from __future__ import annotations

from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

import bouncy
from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets import examples
from bouncy.piecewise.weights import log_masses
from bouncy.samplers import registry
from bouncy.samplers.contract import PathSampler
from conftest import base_seed
from piecewise.engine import random_start
from piecewise.quadrature import literal_log_prob
from piecewise.zoo import ZOO

QUICK = {"chains": 2, "draws": 60, "warmup": 20, "seed": base_seed(), "progress": False}
# Rounding of both sides, also where log p is near zero.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


class OfPotential(PiecewiseTarget):
    """A target of a user's own."""

    def __init__(self, potential: Potential) -> None:
        self.d, self._given = potential.cells.d, potential

    @cached_property
    def potential(self) -> Potential:
        return self._given

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return random_start(self._given.cells, generator)[0]


def folded() -> Potential:
    """Values that two cells have: x = |y|, where y is more often positive, and zero for |y| < 0.2."""
    cells = Cells.alike(
        2,
        [-np.inf, -0.2, 0.0, 0.2, np.inf],
        slope=[-2.0, 0.0, 0.0, 1.0],
        shift=[-0.4, 0.0, 0.0, -0.2],
        constant=[1.0, 0.2, -0.1, 0.0],
        tilt=[0.0, 1.0, 0.0, 0.3],
        curvature=[1.0, 0.0, 4.0, 0.5],
    )
    return Potential(np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([0.2, -0.1]), cells)


TARGETS = {
    **examples(),
    **{f"zoo-{name}": lambda build=build: OfPotential(build()) for name, build in {**ZOO, "folded": folded}.items()},
}


@cache
def target(name: str) -> PathTarget:
    return TARGETS[name]()


def _pairs() -> list[tuple[str, str]]:
    kinds = [kind for kind in registry(PathSampler) if kind.name != "auto"]  # which uses the others
    return [(name, kind.name) for name in TARGETS for kind in kinds if kind.sampler.accepts(target(name))]


every_pair = pytest.mark.parametrize(("name", "sampler"), _pairs())


@every_pair
def test_log_prob_of_a_run_is_that_of_its_target(name, sampler):
    """Catches log p of y instead of x: a slope, or the width of a cell that stands for one value, is left out.

    Also a constant that only one of both has, and cells of the same value that are not added up.
    """
    run = bouncy.sample(target(name), sampler, **QUICK)
    np.testing.assert_allclose(run.log_prob, run.target.log_prob(run.draws), **CLOSE)
    if not isinstance(run.target, PiecewiseTarget):
        return
    literal = [literal_log_prob(run.target.potential, x) for x in run.draws[0]]
    np.testing.assert_allclose(run.log_prob[0], literal, **CLOSE)
    assert np.isfinite(run.log_prob).all()


@pytest.mark.parametrize("name", ["spike-slab", "spike-slab-positive", "mixed-binary-gaussian", "zoo-folded"])
def test_every_way_to_run_has_the_same_log_prob(name, tmp_path):
    """Catches a trace of U where states are not kept, after a run has gone on, or in a file."""
    run = bouncy.sample(target(name), checkpoint=tmp_path / "c", **QUICK)
    longer = run.extend(draws=40, progress=False)
    resumed = bouncy.resume(tmp_path / "c", target(name), total_draws=120, progress=False)
    for each in (longer, resumed):
        np.testing.assert_allclose(each.log_prob, each.target.log_prob(each.draws), **CLOSE)
    resumed.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(bouncy.Run.load(tmp_path / "run.npz").log_prob, resumed.log_prob)


def test_means_alone_have_log_prob():
    """Catches a thinned trace that is another function of the state than the whole one."""
    options = {**QUICK, "draws": 40_000, "chains": 1}
    whole = bouncy.sample(target("spike-slab"), **options)
    means = bouncy.sample(target("spike-slab"), keep="means", **options)
    assert means.trace_spacing > 1
    kept = np.arange(means.log_prob.shape[1]) * means.trace_spacing + means.trace_spacing - 1
    np.testing.assert_array_equal(means.log_prob, whole.log_prob[:, kept])
    np.testing.assert_allclose(means.log_prob[0, :50], whole.target.log_prob(whole.draws[0, kept[:50]]), **CLOSE)


def test_a_block_of_a_scheme_has_log_prob_given_its_parameters():
    """Catches a slope or a mass of the first target that stays when the parameters have changed."""
    slab = target("spike-slab")
    scheme = bouncy.Within(
        lambda noise: slab.given(noise_scale=noise),
        {"noise": lambda x, parameters, generator: generator.uniform(0.4, 0.9)},
        {"noise": 0.6},
    )
    run = bouncy.sample(scheme, **QUICK)
    for noise, x, found in zip(run.parameters["noise"][1], run.draws[1], run.log_prob[1], strict=True):
        np.testing.assert_allclose(found, slab.given(noise_scale=float(noise)).log_prob(x), **CLOSE)


@pytest.mark.parametrize("name", ["zoo-folded", "zoo-spike-slab", "zoo-random-1-1"])
def test_log_prob_is_a_density(name):
    """Catches masses that are out of proportion to densities: together they are the integral of exp(-U), in d = 1."""
    potential = target(name).potential
    cells = potential.cells
    one = slice(0, int(cells.first[1]))
    rows = Cells(np.array([0, one.stop]), *(getattr(cells, field)[one] for field in
                 ("lower", "upper", "slope", "shift", "constant", "tilt", "curvature")))  # fmt: skip
    alone = OfPotential(Potential(potential.coupling[:1, :1], potential.linear[:1], rows))
    at = [(low, high) for low, high in zip(rows.lower, rows.upper, strict=True)]
    expected = sum(quad(lambda y: np.exp(-alone.potential.energy(np.array([y]))), *ends)[0] for ends in at)
    moves = rows.slope != 0.0
    ends = [rows.slope[row] * np.array(at[row]) + rows.shift[row] for row in np.flatnonzero(moves)]
    atoms = np.unique(rows.shift[~moves & (rows.constant < np.inf)])
    breaks = np.unique([*(x for pair in ends for x in pair), *atoms])
    smooth = sum(quad(lambda x: np.exp(alone.log_prob([x])), low, high)[0] for low, high in pairwise(breaks))
    assert smooth + np.exp(alone.log_prob(atoms[:, None])).sum() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((-0.3, 0.5, 0.0, 0.0), np.log(0.8)),
        ((0.0, np.inf, 0.0, 1.0), 0.5 * np.log(0.5 * np.pi)),
        ((-np.inf, np.inf, 3.0, 2.0), 9.0 / 4.0 + 0.5 * np.log(np.pi)),
        ((-np.inf, 2.0, -5.0, 0.0), 10.0 - np.log(5.0)),
        ((30.0, np.inf, 0.0, 1.0), log_ndtr(-30.0) + 0.5 * np.log(2.0 * np.pi)),
        ((0.0, 1.0, 0.0, 1e-14), 0.0),
        ((-20.0, 20.0, 0.0, -6.0), 1200.0 + np.log(2.0 / 120.0) + np.log1p(1 / 2400 + 3 / 2400**2 + 15 / 2400**3)),
        ((0.0, np.inf, 0.0, 0.0), np.inf),
        ((-np.inf, 0.0, 1.0, 0.0), np.inf),
    ],
)
def test_masses_of_cells(cell, expected):
    """Catches lost digits in flat, steep, far and infinite cells, and one of the two humps where phi bends down."""
    found = log_masses(*(np.full(3, number) for number in cell))
    assert found == pytest.approx(np.full(3, expected), rel=1e-12, abs=1e-13)
