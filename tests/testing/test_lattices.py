"""The exact answers agree with plain enumeration where both exist, and with each other and known limits beyond."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from bouncy.testing.lattices import curie_weiss, kaufman_torus, random_tree, ring, transfer_grid, tree

Array = NDArray[np.float64]
CRITICAL = math.log(1 + math.sqrt(2)) / 2


class Enumerated(NamedTuple):
    log_z: float
    mean: Array
    pair_mean: Array


def enumerate_states(couplings: Array, fields: Array) -> Enumerated:
    """Sum over all 2^d states of exp(sum_{i<j} J_ij s_i s_j + f.s), J symmetric with zero diagonal."""
    states = np.array(list(itertools.product([1.0, -1.0], repeat=fields.size)))
    log_weight = np.sum((states @ couplings) * states, axis=1) / 2 + states @ fields
    log_z = float(logsumexp(log_weight))
    p = np.exp(log_weight - log_z)
    return Enumerated(log_z, p @ states, (states * p[:, None]).T @ states)


def coupling_matrix(d: int, bonds: list[tuple[int, int]], couplings: list[float]) -> Array:
    J = np.zeros((d, d))
    for (i, j), coupling in zip(bonds, couplings, strict=True):
        J[i, j] += coupling
        J[j, i] += coupling
    return J


def grid_bonds(width: int, length: int, periodic: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the bonds across and along, each in C order of its first site."""
    site = np.arange(width * length).reshape(width, length)
    across, along = [], []
    for w, x in itertools.product(range(width), range(length)):
        if periodic or w + 1 < width:
            across.append((int(site[w, x]), int(site[(w + 1) % width, x])))
        if periodic or x + 1 < length:
            along.append((int(site[w, x]), int(site[w, (x + 1) % length])))
    return across, along


def enumerate_grid(width: int, length: int, coupling: float, field: float, periodic: bool) -> Enumerated:
    across, along = grid_bonds(width, length, periodic)
    bonds = across + along
    J = coupling_matrix(width * length, bonds, [coupling] * len(bonds))
    return enumerate_states(J, np.full(width * length, field))


def means_of(exact: Enumerated, bonds: list[tuple[int, int]]) -> Array:
    return np.array([exact.pair_mean[i, j] for i, j in bonds])


# --- torus ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (3, 4), (4, 3), (4, 4)])
@pytest.mark.parametrize("coupling", [0.001, 0.1, 0.3, CRITICAL - 1e-9, CRITICAL, CRITICAL + 1e-9, 0.6, 2.0, 10.0])
def test_torus_equals_enumeration(rows: int, columns: int, coupling: float) -> None:
    """Catches a wrong mode, a wrong sign of the zero mode on either side of criticality, a wrong derivative."""
    across, along = grid_bonds(rows, columns, periodic=True)
    exact = enumerate_grid(rows, columns, coupling, 0.0, periodic=True)
    torus = kaufman_torus(rows, columns, coupling)
    assert torus.log_z == pytest.approx(exact.log_z, rel=1e-13)
    assert torus.bond_mean == pytest.approx(means_of(exact, across + along).mean(), rel=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(5, 8), (7, 6), (8, 30), (10, 10)])
@pytest.mark.parametrize("coupling", [0.05, 0.3, CRITICAL, 0.5, 1.5])
def test_torus_equals_transfer_matrix(rows: int, columns: int, coupling: float) -> None:
    """Catches an error that small lattices hide, in either of two independent methods."""
    torus, grid = kaufman_torus(rows, columns, coupling), transfer_grid(rows, columns, coupling, periodic=True)
    assert torus.log_z == pytest.approx(grid.log_z, rel=1e-12)
    assert torus.bond_mean == pytest.approx(grid.bond_mean, rel=1e-11)


@pytest.mark.parametrize("coupling", [0.2, 0.44, CRITICAL, 0.7])
def test_torus_is_symmetric_in_rows_and_columns(coupling: float) -> None:
    """Catches rows and columns mixed up: the formula treats them differently, the lattice does not."""
    one, other = kaufman_torus(24, 7, coupling), kaufman_torus(7, 24, coupling)
    assert one.log_z == pytest.approx(other.log_z, rel=1e-13)
    assert one.bond_mean == pytest.approx(other.bond_mean, rel=1e-12)


@pytest.mark.parametrize("coupling", [0.3, 0.44, CRITICAL, 0.6])
def test_torus_bond_mean_is_the_derivative_of_log_z(coupling: float) -> None:
    """Catches a wrong derivative on lattices beyond the transfer matrix (five-point differences: 1e-9 here)."""
    h = 1e-3
    log_z = {k: kaufman_torus(64, 48, coupling + k * h).log_z for k in (-2, -1, 1, 2)}
    slope = (8 * (log_z[1] - log_z[-1]) - (log_z[2] - log_z[-2])) / (12 * h)
    # The fifth derivative of log Z grows with the lattice at criticality; elsewhere it is harmless.
    tolerance = 1e-5 if abs(coupling - CRITICAL) < 0.01 else 1e-8
    assert kaufman_torus(64, 48, coupling).bond_mean == pytest.approx(slope / (2 * 64 * 48), rel=tolerance)


@pytest.mark.parametrize("coupling", [1e-5, 1e-4, 1e-3])
def test_torus_keeps_its_digits_at_small_coupling(coupling: float) -> None:
    """Catches the cancellation of coth(2K) in the textbook form; E[s s'] = t + 2 t^3 + O(t^5), t = tanh K."""
    t = math.tanh(coupling)
    assert kaufman_torus(16, 16, coupling).bond_mean == pytest.approx(t + 2 * t**3, rel=max(1e-10, 10 * t**4))


def test_large_torus_approaches_onsager() -> None:
    """Catches overflow or lost digits on large lattices: E[s s'] at criticality tends to sqrt(1/2) like 1/size."""
    excess = [kaufman_torus(n, n, CRITICAL).bond_mean - math.sqrt(0.5) for n in (256, 512, 1024)]
    assert excess[0] / excess[1] == pytest.approx(2, rel=1e-3)
    assert excess[1] / excess[2] == pytest.approx(2, rel=1e-3)
    # Ferdinand and Fisher (1969): the excess is t2 t3 t4 / (t2 + t3 + t4) / n, Jacobi's theta constants at exp(-pi).
    t3 = math.pi**0.25 / math.gamma(0.75)
    t2 = t4 = t3 / 2**0.25
    assert excess[2] * 1024 == pytest.approx(t2 * t3 * t4 / (t2 + t3 + t4), rel=1e-4)


def test_torus_is_continuous_where_it_freezes() -> None:
    """Catches a jump between the formula and the frozen limit used at very strong coupling."""
    below, above = kaufman_torus(5, 6, 50.0), kaufman_torus(5, 6, 50.0 + 1e-9)
    assert below.log_z == pytest.approx(above.log_z, rel=1e-10)
    assert below.bond_mean == pytest.approx(above.bond_mean, rel=1e-14)
    assert kaufman_torus(16, 16, 1e300).bond_mean == 1.0


# --- ring -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 4, 7, 10])
def test_ring_equals_enumeration(d: int) -> None:
    """Catches a coupling or field attached to the wrong site, and the long way round forgotten."""
    rng = np.random.default_rng(d)
    J, f = rng.normal(size=d), rng.normal(size=d)
    exact = enumerate_states(coupling_matrix(d, [(i, (i + 1) % d) for i in range(d)], J.tolist()), f)
    result = ring(J, f)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(result.mean, exact.mean, atol=1e-13)
    np.testing.assert_allclose(result.pair_mean, exact.pair_mean, atol=1e-13)
    np.testing.assert_allclose(result.neighbour_mean, exact.pair_mean[range(d), np.roll(range(d), -1)], atol=1e-13)


def test_long_ring_has_the_closed_form() -> None:
    """Catches overflow at d = 1000: E[s_i s_{i+k}] = (t^k + t^(d-k)) / (1 + t^d), t = tanh J."""
    d, J = 1000, 2.5
    t = math.tanh(J)
    result = ring(np.full(d, J), 0.0)
    lag = np.arange(d)
    np.testing.assert_allclose(result.pair_mean[0], (t**lag + t ** (d - lag)) / (1 + t**d), rtol=1e-10)
    np.testing.assert_allclose(result.mean, 0, atol=1e-13)
    assert result.log_z == pytest.approx(d * math.log(2 * math.cosh(J)) + math.log1p(t**d), rel=1e-13)


def test_ring_survives_strong_frustration() -> None:
    """Catches underflow: with one negative bond among huge ones, each bond is broken one time in three."""
    result = ring([400.0, 400.0, -400.0], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(result.neighbour_mean, [1 / 3, 1 / 3, -1 / 3], atol=1e-12)
    assert result.log_z == pytest.approx(400 + math.log(6), rel=1e-13)


# --- tree -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 6, 10])
def test_tree_equals_enumeration(d: int) -> None:
    """Catches a message sent twice, a cavity field that keeps it, an edge joined to the wrong parent."""
    rng = np.random.default_rng(d)
    parent = random_tree(d, seed=d)
    J, f = rng.normal(size=d - 1), rng.normal(size=d)
    bonds = [(i, int(parent[i])) for i in range(1, d)]
    exact = enumerate_states(coupling_matrix(d, bonds, J.tolist()), f)
    result = tree(parent, J, f)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(result.mean, exact.mean, atol=1e-13)
    np.testing.assert_allclose(result.edge_mean, means_of(exact, bonds), atol=1e-13)


def test_deep_tree_needs_no_recursion() -> None:
    """Catches recursion or overflow on a path of 10^5 sites, where fieldless answers are products."""
    d, J = 100_000, 1.5
    result = tree(np.arange(d) - 1, J, 0.0)
    np.testing.assert_allclose(result.edge_mean, math.tanh(J), rtol=1e-12)
    assert result.log_z == pytest.approx(d * math.log(2) + (d - 1) * math.log(math.cosh(J)), rel=1e-11)


def test_cut_ring_is_a_path() -> None:
    """Catches a disagreement of belief propagation and transfer matrices on the same chain with fields."""
    d = 200
    rng = np.random.default_rng(5)
    J, f = rng.normal(size=d), rng.normal(size=d)
    J[-1] = 0.0
    round_way, path = ring(J, f), tree(np.arange(d) - 1, J[:-1], f)
    np.testing.assert_allclose(path.mean, round_way.mean, atol=1e-12)
    np.testing.assert_allclose(path.edge_mean, round_way.neighbour_mean[:-1], atol=1e-12)
    assert path.log_z == pytest.approx(round_way.log_z, rel=1e-12)


def test_tree_survives_strong_couplings() -> None:
    """Catches overflow of cosh: a rigid tree follows the sum of its fields."""
    result = tree([-1, 0, 0, 2], [1000.0, -1000.0, 1000.0], [0.3, 0.2, 0.1, 0.05])
    m = math.tanh(0.3 + 0.2 - 0.1 - 0.05)
    np.testing.assert_allclose(result.mean, [m, m, -m, -m], rtol=1e-10)
    np.testing.assert_allclose(result.edge_mean, [1, -1, 1])


def test_random_tree_is_uniform_over_earlier_sites() -> None:
    """Catches parents out of range, a seed without effect, and the last admissible parent never chosen."""
    parent = random_tree(2000, seed=1)
    assert parent[0] == -1
    assert np.all((parent[1:] >= 0) & (parent[1:] < np.arange(1, 2000)))
    np.testing.assert_array_equal(parent, random_tree(2000, seed=1))
    assert np.any(parent != random_tree(2000, seed=2))
    assert {int(random_tree(3, seed=k)[2]) for k in range(60)} == {0, 1}


# --- grid -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "length", "periodic"),
    [
        (1, 1, False),
        (1, 6, False),
        (5, 1, False),
        (2, 4, False),
        (3, 4, False),
        (3, 3, True),
        (3, 4, True),
        (4, 3, True),
    ],
)
@pytest.mark.parametrize(("coupling", "field"), [(0.44, 0.0), (0.3, 0.2), (-0.7, 0.1), (0.0, -0.5), (2.0, 0.01)])
def test_grid_equals_enumeration(width: int, length: int, periodic: bool, coupling: float, field: float) -> None:
    """Catches a wrong site order, a bond counted twice or left out, a scale lost from log Z."""
    across, along = grid_bonds(width, length, periodic)
    exact = enumerate_grid(width, length, coupling, field, periodic)
    grid = transfer_grid(width, length, coupling, field, periodic)
    assert grid.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(grid.mean.ravel(), exact.mean, atol=1e-13)
    np.testing.assert_allclose(grid.across_mean.ravel(), means_of(exact, across), atol=1e-13)
    np.testing.assert_allclose(grid.along_mean.ravel(), means_of(exact, along), atol=1e-13)
    if across or along:
        assert grid.bond_mean == pytest.approx(means_of(exact, across + along).mean(), abs=1e-13)
    else:
        assert math.isnan(grid.bond_mean)


def test_grid_turned_is_the_same_grid() -> None:
    """Catches width and length treated differently, on grids too large to enumerate."""
    one, other = transfer_grid(6, 9, 0.4, 0.05), transfer_grid(9, 6, 0.4, 0.05)
    assert one.log_z == pytest.approx(other.log_z, rel=1e-13)
    np.testing.assert_allclose(one.mean, other.mean.T, atol=1e-13)
    np.testing.assert_allclose(one.across_mean, other.along_mean.T, atol=1e-13)


def test_narrow_grid_is_a_chain() -> None:
    """Catches overflow along a long grid: width 1 is a path, solved by belief propagation."""
    grid, path = transfer_grid(1, 3000, 0.8, 0.1), tree(np.arange(3000) - 1, 0.8, 0.1)
    assert grid.log_z == pytest.approx(path.log_z, rel=1e-12)
    np.testing.assert_allclose(grid.mean[0], path.mean, atol=1e-12)
    np.testing.assert_allclose(grid.along_mean[0], path.edge_mean, atol=1e-12)


def test_strongest_admitted_grid_is_frozen() -> None:
    """Catches underflow at the edge of the admitted couplings, where an odd antiferromagnet is frustrated too."""
    ferromagnet = transfer_grid(12, 5, 12.5, periodic=True)
    assert ferromagnet.bond_mean == pytest.approx(1, abs=1e-12)
    assert ferromagnet.log_z == pytest.approx(2 * 60 * 12.5 + math.log(2), rel=1e-13)
    # Every ring of 5 has one broken bond at least: 3/5 of each direction is the best there is along the length.
    antiferromagnet = transfer_grid(12, 5, -12.5, periodic=True)
    np.testing.assert_allclose(antiferromagnet.along_mean, -3 / 5, atol=1e-9)


# --- complete graph ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize(("coupling", "field"), [(0.0, 0.3), (1.0, 0.0), (2.0, 0.1), (-1.5, 0.2)])
def test_curie_weiss_equals_enumeration(d: int, coupling: float, field: float) -> None:
    """Catches a factor two or d against d - 1 in the coupling."""
    exact = enumerate_states((np.ones((d, d)) - np.eye(d)) * coupling / d, np.full(d, field))
    result = curie_weiss(d, coupling, field)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    assert result.mean == pytest.approx(exact.mean[0], abs=1e-13)
    assert result.pair_mean == pytest.approx(exact.pair_mean[0, 1], abs=1e-13)


def test_large_curie_weiss_obeys_mean_field() -> None:
    """Catches overflow at d = 10^5, where E[s] solves m = tanh(coupling m + field) to 1/d."""
    result = curie_weiss(100_000, 1.2, 0.1)
    m = 1.0
    for _ in range(200):
        m = math.tanh(1.2 * m + 0.1)
    assert result.mean == pytest.approx(m, abs=1e-4)
    assert result.pair_mean == pytest.approx(m**2, abs=1e-4)
    free = curie_weiss(100_000, 0.0, 0.3)
    assert free.log_z == pytest.approx(100_000 * math.log(2 * math.cosh(0.3)), rel=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: kaufman_torus(2, 4, 0.3), ValueError, "rows is 2"),
        (lambda: kaufman_torus(4, 4.0, 0.3), TypeError, "columns is 4.0"),  # type: ignore[arg-type]
        (lambda: kaufman_torus(4, 4, 0.0), ValueError, "coupling > 0"),
        (lambda: kaufman_torus(4, 4, math.nan), ValueError, "finite"),
        (lambda: ring([1.0, 1.0], [0.0, 0.0]), ValueError, "d = 2"),
        (lambda: ring([1.0, 1.0, 1.0], [0.0, 0.0]), ValueError, "shape"),
        (lambda: ring([1.0, math.inf, 1.0], 0.0), ValueError, "inf at index"),
        (lambda: tree([0, 0], 1.0, 0.0), ValueError, "parent\\[0\\] is 0"),
        (lambda: tree([-1, 0, 2], 1.0, 0.0), ValueError, "parent\\[2\\] is 2"),
        (lambda: tree([-1.0, 0.0], 1.0, 0.0), ValueError, "integers"),
        (lambda: tree([-1, 0], [1.0, 1.0], 0.0), ValueError, "couplings have shape"),
        (lambda: random_tree(0, seed=0), ValueError, "d is 0"),
        (lambda: transfer_grid(13, 5, 0.3), ValueError, "from 1 to 12"),
        (lambda: transfer_grid(2, 5, 0.3, periodic=True), ValueError, "from 3 to 12"),
        (lambda: transfer_grid(12, 5, 13.0), ValueError, "at most 300"),
        (lambda: curie_weiss(1, 0.3), ValueError, "d is 1"),
    ],
)
def test_bad_input_is_named(call, error, message) -> None:
    """Catches an argument that is quietly accepted and gives the answer of another model."""
    with pytest.raises(error, match=message):
        call()
