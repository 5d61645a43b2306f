"""Exact answers on a periodic square lattice of any size, without a field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_count, check_nonnegative

Array = NDArray[np.float64]

# Above this coupling a torus differs from its two ground states by less than exp(-400).
_FROZEN_COUPLING = 50.0


@dataclass(frozen=True)
class TorusMoments:
    """Exact answers on a periodic square lattice without a field.

    Attributes
    ----------
    log_z : log of the sum over states of exp(coupling * sum of s_i s_j over bonds).
    bond_mean : E[s_i s_j] of any nearest-neighbour bond, averaged over the two directions.
    """

    log_z: float
    bond_mean: float


def kaufman_torus(rows: int, columns: int, coupling: float) -> TorusMoments:
    """Return log Z and the bond mean of the ferromagnet on a rows x columns torus.

    Kaufman's finite-lattice formula with its exact derivative in the coupling K:

        Z = (2 sinh 2K)^(mn/2) / 2 * [prod 2 cosh(m g_odd / 2) + prod 2 sinh(m g_odd / 2)
                                      + prod 2 cosh(m g_even / 2) + prod 2 sinh(m g_even / 2)],

    with m rows, n columns, cosh g_k = cosh 2K coth 2K - cos(pi k / n) and g_0 = 2K + log tanh K, which changes sign at
    the critical coupling log(1 + sqrt 2) / 2. A factor sinh(2K)^(1/2) is kept with each mode, which removes the
    cancellation at small K.

    Parameters
    ----------
    rows, columns : at least 3, so that no two sites share two bonds.
    coupling : positive.

    References
    ----------
    B. Kaufman, Phys. Rev. 76, 1232 (1949).

    Examples
    --------
    >>> round(kaufman_torus(16, 16, 0.3).bond_mean, 6)
    0.352266
    """
    rows, columns = check_count("rows", rows, 3), check_count("columns", columns, 3)
    coupling = check_nonnegative("coupling", coupling)
    if coupling == 0:
        raise ValueError("coupling is 0; expected a number > 0")
    sites = rows * columns
    if coupling > _FROZEN_COUPLING:
        return TorusMoments(log_z=2 * sites * coupling + math.log(2), bond_mean=1.0)
    odd = _torus_modes(rows, np.pi * np.arange(1, 2 * columns, 2) / columns, coupling)
    even = _torus_modes(rows, np.pi * np.arange(2, 2 * columns, 2) / columns, coupling)
    zero, side = _zero_mode(rows, coupling)
    terms = [_cosh_product(odd), _sinh_product(odd), _with_zero_mode(_cosh_product(even), zero, 1.0, 1.0)]
    terms.append(_with_zero_mode(_sinh_product(even), zero, -1.0, side))
    scale = max(term.log_scale for term in terms)
    total = sum(term.value * math.exp(term.log_scale - scale) for term in terms)
    slope = sum(term.slope * math.exp(term.log_scale - scale) for term in terms)
    return TorusMoments(
        log_z=(sites / 2 - 1) * math.log(2) + scale + math.log(total),
        bond_mean=slope / total / (2 * sites),
    )


class _Modes(NamedTuple):
    """2 cosh(m g / 2) sinh(2K)^(m/2) = exp(growth) (1 + decay), and with a minus for sinh; slopes are d/dK."""

    growth: Array
    growth_slope: Array
    decay: Array
    decay_slope: Array


class _Term(NamedTuple):
    """A number value * exp(log_scale) whose derivative in K is slope * exp(log_scale)."""

    log_scale: float
    value: float
    slope: float


def _torus_modes(rows: int, angle: Array, coupling: float) -> _Modes:
    """Return the modes with angle pi k / n different from 0."""
    S, C = math.sinh(2 * coupling), math.cosh(2 * coupling)
    # a = sinh(2K) cosh(g); a - S as a sum of two positive terms keeps its digits near criticality.
    a_minus_S = (1 - S) ** 2 + 2 * S * np.sin(angle / 2) ** 2
    a = a_minus_S + S
    root = np.sqrt(a_minus_S * (a + S))
    a_slope = 4 * S * C - 2 * C * np.cos(angle)
    g_slope = (a_slope - 2 * C * a / S) / root
    decay = (S / (a + root)) ** rows
    return _Modes(
        growth=rows / 2 * np.log(a + root),
        growth_slope=rows / 2 * (a_slope - 2 * C * S / (a + root)) / root,
        decay=decay,
        decay_slope=-rows * g_slope * decay,
    )


def _zero_mode(rows: int, coupling: float) -> tuple[_Modes, float]:
    """Return the mode k = 0 in terms of |g_0|, and the sign of g_0."""
    g = 2 * coupling + math.log(math.tanh(coupling))
    g_slope = 2 + 2 / math.sinh(2 * coupling)
    side = 1.0 if g > 0 else -1.0
    if side > 0:
        growth, growth_slope = math.log(2 * math.sinh(coupling) ** 2) + 2 * coupling, 2 / math.tanh(coupling) + 2
    else:
        growth, growth_slope = math.log(2 * math.cosh(coupling) ** 2) - 2 * coupling, 2 * math.tanh(coupling) - 2
    decay = math.exp(-rows * abs(g))
    parts = (rows / 2 * growth, rows / 2 * growth_slope, decay, -rows * side * g_slope * decay)
    return _Modes(*(np.array(part) for part in parts)), side


def _cosh_product(modes: _Modes) -> _Term:
    log_scale = np.sum(modes.growth + np.log1p(modes.decay))
    slope = np.sum(modes.growth_slope + modes.decay_slope / (1 + modes.decay))
    return _Term(float(log_scale), 1.0, float(slope))


def _sinh_product(modes: _Modes) -> _Term:
    log_scale = np.sum(modes.growth + np.log1p(-modes.decay))
    slope = np.sum(modes.growth_slope - modes.decay_slope / (1 - modes.decay))
    return _Term(float(log_scale), 1.0, float(slope))


def _with_zero_mode(term: _Term, zero: _Modes, sign: float, side: float) -> _Term:
    """Multiply a product by side * exp(growth) (1 + sign * decay), which may be zero: no logarithm of it is taken."""
    factor = 1 + sign * float(zero.decay)
    factor_slope = sign * float(zero.decay_slope) + float(zero.growth_slope) * factor
    return _Term(
        log_scale=term.log_scale + float(zero.growth),
        value=side * factor,
        slope=side * (term.slope * factor + factor_slope),
    )
