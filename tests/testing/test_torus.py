"""Kaufman's formula agrees with enumeration and with a transfer matrix, and has the known limits beyond."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bouncy
from bouncy.testing import kaufman_torus

CRITICAL = math.log(1 + math.sqrt(2)) / 2


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (3, 4), (4, 3), (4, 4)])
@pytest.mark.parametrize("coupling", [0.001, 0.1, 0.3, CRITICAL - 1e-9, CRITICAL, CRITICAL + 1e-9, 0.6, 2.0, 10.0])
def test_torus_equals_enumeration(rows: int, columns: int, coupling: float) -> None:
    """Catches a wrong mode, a wrong sign of the zero mode on either side of criticality, a wrong derivative."""
    model = bouncy.MRF.ising((rows, columns), coupling)
    exact, torus = bouncy.exact(model), kaufman_torus(rows, columns, coupling)
    assert torus.log_z == pytest.approx(exact.log_z, rel=1e-12)
    assert torus.bond_mean == pytest.approx(exact.pair_mean[model.M.nonzero()].mean(), rel=1e-11)


def transfer_matrix(rows: int, columns: int, coupling: float) -> tuple[float, float]:
    """Return log Z and the bond mean by powers of the matrix T between the 2^columns states of two rows."""
    s = 1.0 - 2.0 * (np.arange(2**columns)[:, None] >> np.arange(columns) & 1)
    within = (s * np.roll(s, 1, axis=1)).sum(axis=1)
    bonds = s @ s.T + 0.5 * (within[:, None] + within)
    scale = coupling * bonds.max()
    T = np.exp(coupling * bonds - scale)
    others = np.linalg.matrix_power(T / T.sum(), rows - 1)
    log_z = rows * scale + (rows - 1) * math.log(T.sum()) + math.log((others * T).sum())
    return log_z, (others * T * bonds).sum() / (others * T).sum() / (2 * columns)


@pytest.mark.parametrize(("rows", "columns"), [(5, 8), (7, 6), (30, 8), (9, 9)])
@pytest.mark.parametrize("coupling", [0.05, 0.3, CRITICAL, 0.5, 1.5])
def test_torus_equals_transfer_matrix(rows: int, columns: int, coupling: float) -> None:
    """Catches an error that small lattices hide, in either of two independent methods."""
    torus = kaufman_torus(rows, columns, coupling)
    assert (torus.log_z, torus.bond_mean) == pytest.approx(transfer_matrix(rows, columns, coupling), rel=1e-11)


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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((2, 4, 0.3), ValueError, "rows must be an integer >= 3, got 2"),
        ((4, 4.0, 0.3), TypeError, "columns must be an integer >= 3, got 4.0"),
        ((4, 4, 0.0), ValueError, "coupling is 0; expected a number > 0"),
        ((4, 4, -0.1), ValueError, "coupling must be a finite number >= 0"),
        ((4, 4, math.nan), ValueError, "coupling must be a finite number >= 0"),
    ],
)
def test_bad_input_is_named(arguments, error, message) -> None:
    """Catches an argument that is quietly accepted and gives the answer of another model."""
    with pytest.raises(error, match=message):
        kaufman_torus(*arguments)
