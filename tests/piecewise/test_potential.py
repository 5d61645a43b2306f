"""Potentials: gradient, jumps, scaling, and the way from coordinates to values and back."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse

from bouncy.piecewise.potential import Cells, Potential, new_view
from conftest import base_seed
from piecewise.engine import random_start
from piecewise.zoo import ZOO

every_potential = pytest.mark.parametrize("build", ZOO.values(), ids=ZOO)


def points(potential: Potential, n: int = 20) -> list[np.ndarray]:
    rng = np.random.default_rng(base_seed())
    return [random_start(potential.cells, rng)[0] for _ in range(n)]


@every_potential
def test_gradient(build):
    """Catches a gradient that misses a term or the slope of its cell: U is quadratic, so differences are exact."""
    potential = build()
    step = 1e-3
    for y in points(potential):
        for i in range(y.size):
            e = step * np.eye(y.size)[i]
            difference = (potential.energy(y + e) - potential.energy(y - e)) / (2 * step)
            assert potential.gradient(y)[i] == pytest.approx(difference, rel=1e-8, abs=1e-8)


@every_potential
def test_energy_is_the_formula(build):
    """Catches a cell that gives a coordinate the value or the phi of another."""
    potential = build()
    cells = potential.cells
    A = potential.coupling.toarray() if scipy.sparse.issparse(potential.coupling) else potential.coupling
    for y in points(potential):
        x, phi = np.empty(y.size), 0.0
        for i in range(y.size):
            (row,) = (r for r in range(cells.first[i], cells.first[i + 1]) if cells.lower[r] < y[i] < cells.upper[r])
            x[i] = cells.slope[row] * y[i] + cells.shift[row]
            phi += cells.constant[row] + cells.tilt[row] * y[i] + cells.curvature[row] * y[i] ** 2 / 2
        np.testing.assert_allclose(cells.values(y), x, rtol=1e-14)
        expected = 0.5 * x @ A @ x - potential.linear @ x + phi
        assert potential.energy(y) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@every_potential
def test_dense_and_sparse_agree(build):
    """Catches a potential that depends on how its matrix is stored."""
    potential = build()
    A = potential.coupling.toarray() if scipy.sparse.issparse(potential.coupling) else potential.coupling
    dense = Potential(A, potential.linear, potential.cells)
    sparse = Potential(scipy.sparse.csr_array(A), potential.linear, potential.cells)
    for y in points(potential):
        assert dense.energy(y) == pytest.approx(sparse.energy(y), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(dense.gradient(y), sparse.gradient(y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dense.natural_scale(), sparse.natural_scale())


@every_potential
def test_energy_is_infinite_outside(build):
    """Catches an outermost end that is finite and yet no wall."""
    potential = build()
    cells = potential.cells
    for i in range(cells.d):
        for row, end, outward in ((cells.first[i], cells.lower, -1.0), (cells.first[i + 1] - 1, cells.upper, 1.0)):
            y = points(potential, 1)[0]
            y[i] = end[row] + 1e-6 * outward if np.isfinite(end[row]) else 1e3 * outward
            assert np.isfinite(potential.energy(y)) == (np.isinf(end[row]) and cells.constant[row] < np.inf)


@every_potential
def test_jumps_are_differences_of_energy(build):
    """Catches a jump of the wrong sign or edge, or without the term A dx^2/2: U is computed in full on both sides."""
    potential = build()
    scale = np.linspace(0.5, 2.0, potential.cells.d)
    cells, view = potential.cells, new_view(potential, scale)
    A = np.asarray(potential.coupling.diagonal())
    for y in points(potential, 5):
        for i in range(cells.d):
            for row in range(cells.first[i], cells.first[i + 1] - 1):
                y_below, y_above = y.copy(), y.copy()
                y_above[i] = cells.upper[row]
                y_below[i] = np.nextafter(cells.upper[row], -np.inf)
                x = cells.values(y_below)
                force = (potential.coupling @ x - potential.linear)[i]
                dx = view.x_jump[row]
                jump = view.phi_jump[row] + dx * (force + 0.5 * A[i] * dx)
                with np.errstate(invalid="ignore"):
                    expected = potential.energy(y_above) - potential.energy(y_below)
                np.testing.assert_allclose(jump, expected, rtol=1e-9, atol=1e-9)


@every_potential
def test_scaling_leaves_energy_and_values_alone(build):
    """Catches a field of the cells that is scaled with the wrong power of the length."""
    potential = build()
    scale = np.random.default_rng(base_seed()).uniform(0.2, 5.0, potential.cells.d)
    scaled = Potential(potential.coupling, potential.linear, potential.cells.scaled(scale))
    for y in points(potential):
        assert scaled.energy(y / scale) == pytest.approx(potential.energy(y), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(scaled.cells.values(y / scale), potential.cells.values(y), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(scaled.gradient(y / scale), scale * potential.gradient(y), rtol=1e-11, atol=1e-11)


@every_potential
def test_the_natural_scale_makes_the_steepest_second_derivative_one(build):
    """Catches a length that leaves some coordinates much slower than others."""
    potential = build()
    cells = potential.cells.scaled(potential.natural_scale())
    diagonal = np.asarray(potential.coupling.diagonal())
    for i in range(cells.d):
        rows = slice(cells.first[i], cells.first[i + 1])
        steepest = (cells.slope[rows] ** 2 * diagonal[i] + cells.curvature[rows]).max()
        assert steepest == pytest.approx(1.0) or steepest <= 0.0


@every_potential
def test_values_come_back_from_coordinates(build):
    """Catches a value that is looked for in the wrong cell, or whose cell is never found."""
    cells = build().cells
    for y in points(build()):
        x = cells.values(y)
        back, rows = cells.coordinates(x)
        np.testing.assert_allclose(cells.slope[rows] * back + cells.shift[rows], x, rtol=1e-12, atol=1e-12)
        assert ((cells.lower[rows] <= back) & (back <= cells.upper[rows])).all()


def test_a_value_that_stands_for_a_cell_is_put_where_phi_is_smallest():
    """Catches a chain that starts in the far end of a flat cell, or outside of it."""
    cells = Cells.alike(1, [-2.0, -1.0, 1.0, 3.0], slope=0.0, shift=[-1.0, 0.0, 1.0], tilt=[1.0, 0.0, -2.0],
                        curvature=[0.0, 0.0, 1.0])  # fmt: skip
    assert cells.coordinates(np.array([-1.0]))[0] == [-2.0]
    assert cells.coordinates(np.array([0.0]))[0] == [0.0]
    assert cells.coordinates(np.array([1.0]))[0] == [2.0]
    with pytest.raises(ValueError, match=r"no cell of coordinate 0 has the value 0\.5"):
        cells.coordinates(np.array([0.5]))


def test_edges_must_increase():
    """Catches a cell that is empty or turned around, which the engine could never leave."""
    with pytest.raises(ValueError, match="edges must increase"):
        Cells.alike(2, [0.0, 0.0, 1.0])


def test_groups_are_joined_in_order():
    """Catches rows of a later group that are counted from the beginning."""
    first = Cells.alike(2, [-np.inf, 0.0, np.inf], shift=[1.0, 2.0])
    second = Cells.alike(1, [0.0, 1.0], shift=3.0)
    joined = Cells.joined([first, Cells.alike(0, [0.0, 1.0]), second])
    np.testing.assert_array_equal(joined.first, [0, 2, 4, 5])
    np.testing.assert_array_equal(joined.shift, [1.0, 2.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(joined.locate(np.array([-1.0, 0.0, 0.5])), [0, 3, 4])


def test_a_jump_that_is_rounding_is_zero():
    """Catches a continuous potential whose particle pays for 1e-17 at each kink and may even be turned back."""
    edge = 0.1 + 0.2
    cells = Cells.alike(1, [-np.inf, edge, np.inf], constant=[0.0, edge * 0.7 - edge * 0.4], tilt=[0.7, 0.4])
    view = new_view(Potential(np.eye(1), np.zeros(1), cells), np.array([3.0]))
    assert view.phi_jump[0] == 0.0
    assert np.isnan(view.phi_jump[1])


def test_every_view_has_one_type():
    """Catches an array that cannot be written to, for which numba would compile every loop once more."""
    types = set()
    for d in (1, 2):
        A = np.eye(d)
        A.flags.writeable = False
        cells = Cells.alike(d, [-np.inf, 0.0, np.inf], tilt=[-1.0, 1.0])
        types.add(numba.typeof(new_view(Potential(A, np.zeros(d), cells), np.ones(d))))
    assert len(types) == 1
