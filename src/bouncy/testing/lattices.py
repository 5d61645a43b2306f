"""Exact answers for models too large to enumerate: torus, ring, tree, grid and complete graph.

Every function uses the sign convention of `MRF.ising`: p(s) ~ exp(sum coupling s_i s_j + sum field s_i), so a positive
coupling is ferromagnetic and `MRF(M, r)` has M = -coupling and r = -field. Sums are carried in log space or rescaled at
each step, so that neither a large lattice nor a strong coupling overflows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

Array = NDArray[np.float64]

# Above this coupling a torus differs from its two ground states by less than exp(-400).
_FROZEN_COUPLING = 50.0
# Largest exponent in a row weight of the transfer matrix: its square still fits in a float.
_LARGEST_EXPONENT = 300.0
_WIDEST_GRID = 12


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


@dataclass(frozen=True)
class RingMoments:
    """Exact answers on a ring of d sites.

    Attributes
    ----------
    mean : E[s_i], shape (d,).
    neighbour_mean : E[s_i s_{i+1}] with indices modulo d, shape (d,).
    pair_mean : E[s_i s_j], ones on the diagonal, shape (d, d).
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: Array
    neighbour_mean: Array
    pair_mean: Array
    log_z: float


@dataclass(frozen=True)
class TreeMoments:
    """Exact answers on a tree of d sites.

    Attributes
    ----------
    mean : E[s_i], shape (d,).
    edge_mean : E[s_i s_parent(i)] for i = 1 ... d-1, shape (d-1,).
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: Array
    edge_mean: Array
    log_z: float


@dataclass(frozen=True)
class GridMoments:
    """Exact answers on a grid of width x length sites.

    Attributes
    ----------
    mean : E[s_i], shape (width, length); `mean.ravel()` is in the order of `MRF.ising((width, length), ...)`.
    across_mean : E[s_{w,l} s_{w+1,l}], shape (width - 1, length), or (width, length) if periodic.
    along_mean : E[s_{w,l} s_{w,l+1}], shape (width, length - 1), or (width, length) if periodic.
    bond_mean : the average over all bonds; nan where there is none.
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: Array
    across_mean: Array
    along_mean: Array
    bond_mean: float
    log_z: float


@dataclass(frozen=True)
class CurieWeissMoments:
    """Exact answers on the complete graph, where all sites and all pairs are alike.

    Attributes
    ----------
    mean : E[s_i] of any site.
    pair_mean : E[s_i s_j] of any two different sites.
    log_z : log of the sum over states of the unnormalised probability.
    """

    mean: float
    pair_mean: float
    log_z: float


# --- torus ------------------------------------------------------------------------------------------------------------


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
    _require_integer("rows", rows, 3)
    _require_integer("columns", columns, 3)
    coupling = _finite_number("coupling", coupling)
    if coupling <= 0:
        raise ValueError(f"coupling is {coupling}; Kaufman's formula is used here for a ferromagnet: pass coupling > 0")
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


# --- ring -------------------------------------------------------------------------------------------------------------


def ring(couplings: ArrayLike, fields: ArrayLike) -> RingMoments:
    """Return the exact moments of p(s) ~ exp(sum_i J_i s_i s_{i+1} + sum_i f_i s_i) on a ring.

    Transfer matrices T_i[a, b] = exp(J_i a b + f_i a), multiplied in log space: with B_k[i] = T_i ... T_{i+k-1},
    P(s_i = a, s_{i+k} = b) is proportional to B_k[i][a, b] B_{d-k}[i+k][b, a]. Time and memory are O(d^2).

    Parameters
    ----------
    couplings : J_i between sites i and i+1 modulo d, shape (d,) with d >= 3, or a number.
    fields : f_i, shape (d,), or a number (not both may be numbers: one of them says what d is).
    """
    J, f = _couplings_and_fields(couplings, fields)
    d = J.size
    blocks, log_scale = _ring_blocks(J, f)
    once_round = np.stack([blocks[d, :, 0, 0], blocks[d, :, 1, 1]])
    pair_mean = np.eye(d)
    site = np.arange(d)
    for lag in range(1, d):
        other = (site + lag) % d
        joint = blocks[lag] + blocks[d - lag, other].transpose(0, 2, 1)
        pair_mean[site, other] = _pair_mean_of(joint)
    pair_mean = (pair_mean + pair_mean.T) / 2
    return RingMoments(
        mean=np.tanh((once_round[0] - once_round[1]) / 2),
        neighbour_mean=pair_mean[site, (site + 1) % d],
        pair_mean=pair_mean,
        log_z=float(np.logaddexp(once_round[0, 0], once_round[1, 0]) + log_scale[0]),
    )


def _couplings_and_fields(couplings: ArrayLike, fields: ArrayLike) -> tuple[Array, Array]:
    J, f = _finite_array("couplings", couplings), _finite_array("fields", fields)
    d = max(J.size, f.size)
    if J.shape not in ((), (d,)) or f.shape not in ((), (d,)):
        raise ValueError(f"couplings have shape {J.shape} and fields {f.shape}; expected (d,) for both, or one number")
    if d < 3:
        raise ValueError(f"the ring has d = {d} sites; expected at least 3 (shorter rings have double bonds)")
    return np.broadcast_to(J, d), np.broadcast_to(f, d)


def _ring_blocks(J: Array, f: Array) -> tuple[Array, Array]:
    """Return log B_k[i] less a constant, shape (d+1, d, 2, 2), and the constant left out of B_d[i], shape (d,)."""
    d = J.size
    spin = np.array([1.0, -1.0])
    step = J[:, None, None] * np.outer(spin, spin) + f[:, None, None] * spin[:, None]
    blocks = np.empty((d + 1, d, 2, 2))
    blocks[0] = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    log_scale = np.zeros(d)
    for k in range(d):
        following = step[(np.arange(d) + k) % d]
        product = np.logaddexp(
            blocks[k, :, :, :1] + following[:, :1, :],
            blocks[k, :, :, 1:] + following[:, 1:, :],
        )
        largest = product.max(axis=(1, 2))
        blocks[k + 1] = product - largest[:, None, None]
        log_scale += largest
    return blocks, log_scale


def _pair_mean_of(log_joint: Array) -> Array:
    """Return E[ab] for tables log P(a, b) of shape (n, 2, 2), unnormalised."""
    equal = np.logaddexp(log_joint[:, 0, 0], log_joint[:, 1, 1])
    different = np.logaddexp(log_joint[:, 0, 1], log_joint[:, 1, 0])
    return np.tanh((equal - different) / 2)


# --- tree -------------------------------------------------------------------------------------------------------------


def random_tree(d: int, seed: int | np.random.SeedSequence | np.random.Generator) -> NDArray[np.int64]:
    """Return the parents of a random recursive tree: parent[i] uniform on 0 ... i-1, parent[0] = -1, shape (d,).

    Examples
    --------
    >>> random_tree(5, seed=0)
    array([-1,  0,  1,  1,  2])
    """
    _require_integer("d", d, 1)
    parent = np.full(d, -1, dtype=np.int64)
    parent[1:] = np.random.default_rng(seed).integers(0, np.arange(1, d))
    return parent


def tree(parent: ArrayLike, couplings: ArrayLike, fields: ArrayLike) -> TreeMoments:
    """Return the exact moments of p(s) ~ exp(sum_i J_i s_i s_parent(i) + sum_i f_i s_i) on a tree.

    Belief propagation, leaves to root and back. With u the field on a site from below, summing it out gives its parent
    the field m = atanh(tanh J tanh u). Time and memory are O(d).

    Parameters
    ----------
    parent : shape (d,), parent[0] = -1 and 0 <= parent[i] < i.
    couplings : shape (d-1,), entry i-1 for the edge between i and parent[i], or a number.
    fields : f_i, shape (d,), or a number.
    """
    above = _parents(parent)
    d = len(above)
    J = [0.0, *_full("couplings", couplings, d - 1).tolist()]
    below = _full("fields", fields, d).tolist()
    message = [0.0] * d
    log_z = 0.0
    for i in range(d - 1, 0, -1):
        plus, minus = _log_2cosh(J[i] + below[i]), _log_2cosh(J[i] - below[i])
        message[i] = (plus - minus) / 2
        below[above[i]] += message[i]
        log_z += (plus + minus) / 2
    total = list(below)
    edge_mean = np.empty(d - 1)
    for i in range(1, d):
        rest = total[above[i]] - message[i]
        total[i] += _passed_on(J[i], rest)
        edge_mean[i - 1] = math.tanh(J[i] + _passed_on(below[i], rest))
    return TreeMoments(mean=np.tanh(total), edge_mean=edge_mean, log_z=log_z + _log_2cosh(below[0]))


def _parents(parent: ArrayLike) -> list[int]:
    array = np.asarray(parent)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"parent has shape {array.shape} and type {array.dtype}; expected integers of shape (d,)")
    if array[0] != -1:
        raise ValueError(f"parent[0] is {array[0]}; expected -1: site 0 is the root")
    wrong = np.flatnonzero((array[1:] < 0) | (array[1:] >= np.arange(1, array.size)))
    if wrong.size:
        i = int(wrong[0]) + 1
        raise ValueError(f"parent[{i}] is {array[i]}; expected 0 <= parent[i] < i: number parents before children")
    result: list[int] = array.tolist()
    return result


def _log_2cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x)))


def _passed_on(J: float, u: float) -> float:
    """Return atanh(tanh J tanh u) without overflow."""
    return (_log_2cosh(J + u) - _log_2cosh(J - u)) / 2


# --- grid -------------------------------------------------------------------------------------------------------------


def transfer_grid(width: int, length: int, coupling: float, field: float = 0.0, periodic: bool = False) -> GridMoments:
    """Return the exact moments of the Ising model on a width x length grid.

    The 2^width states of a column of sites are carried along the length; the matrix between two columns is a Kronecker
    power of a 2 x 2 matrix and is applied one site at a time. Open ends cost O(length width^2 2^width); a periodic
    grid starts from each column up to rotation and costs O(length 4^width).

    Parameters
    ----------
    width : 1 to 12 (3 to 12 if periodic).
    length : at least 1 (3 if periodic).
    coupling, field : uniform, of any sign, with width * (2 |coupling| + |field|) <= 300.
    periodic : in both directions.
    """
    smallest = 3 if periodic else 1
    _require_integer("width", width, smallest, _WIDEST_GRID)
    _require_integer("length", length, smallest)
    coupling, field = _finite_number("coupling", coupling), _finite_number("field", field)
    exponent = width * (2 * abs(coupling) + abs(field))
    if exponent > _LARGEST_EXPONENT:
        raise ValueError(
            f"width * (2 |coupling| + |field|) is {exponent:.6g}; expected at most {_LARGEST_EXPONENT:g}: "
            "beyond it the weights of one column do not fit in a float; use a narrower grid or a weaker coupling"
        )
    columns = _Columns(width, coupling, field, periodic)
    return _periodic_grid(columns, length) if periodic else _open_grid(columns, length)


class _Columns:
    """All states of a column of sites, their weights, and the step from one column to the next."""

    def __init__(self, width: int, coupling: float, field: float, periodic: bool) -> None:
        self.width = width
        self.coupling = coupling
        bits = (np.arange(2**width)[:, None] >> np.arange(width)) & 1
        self.spins = 1.0 - 2.0 * bits  # (2^width, width)
        following = np.roll(self.spins, -1, axis=1)
        bonds = width if periodic else width - 1
        self.across = (self.spins * following)[:, :bonds]
        self.log_weight = coupling * self.across.sum(axis=1) + field * self.spins.sum(axis=1)
        self.weight = np.exp(self.log_weight)
        # The step is divided by exp(|coupling| width); its logarithm is returned beside it wherever it matters.
        self.log_step_scale = abs(coupling) * width
        self.same = math.exp(coupling - abs(coupling))
        self.different = math.exp(-coupling - abs(coupling))

    def step(self, vector: Array, marked: int = -1) -> Array:
        """Return H v, H[a, b] = exp(coupling a.b), times a_w b_w if site w is marked; v is (..., 2^width)."""
        for site in range(self.width):
            different = -self.different if site == marked else self.different
            halves = vector.reshape(*vector.shape[:-1], -1, 2, 2**site)
            up, down = halves[..., 0, :], halves[..., 1, :]
            mixed = np.stack([self.same * up + different * down, different * up + self.same * down], axis=-2)
            vector = mixed.reshape(vector.shape)
        return vector


def _open_grid(columns: _Columns, length: int) -> GridMoments:
    forward = np.empty((length, columns.weight.size))
    log_z = 0.0
    for column in range(length):
        vector = columns.weight * columns.step(forward[column - 1]) if column else columns.weight
        scale = vector.sum()
        forward[column] = vector / scale
        log_z += math.log(scale) + (columns.log_step_scale if column else 0.0)
    # The grid read backwards is the same grid, so the sums over what lies to the right are the same vectors reversed.
    marginal = forward * forward[::-1] / columns.weight
    marginal /= marginal.sum(axis=1, keepdims=True)
    along = np.empty((columns.width, length - 1))
    if length > 1:
        left, right = forward[:-1], forward[-2::-1]
        normaliser = np.sum(left * columns.step(right), axis=1)
        for site in range(columns.width):
            along[site] = np.sum(left * columns.step(right, marked=site), axis=1) / normaliser
    return _grid_moments((marginal @ columns.spins).T, (marginal @ columns.across).T, along, log_z)


def _periodic_grid(columns: _Columns, length: int) -> GridMoments:
    start, multiplicity = _necklaces(columns.width)
    vector = np.zeros((start.size, columns.weight.size))
    vector[np.arange(start.size), start] = 1.0
    half_weight = np.exp(columns.log_weight / 2)
    log_scale = np.zeros(start.size)
    for _ in range(length - 1):
        vector = half_weight * columns.step(half_weight * vector)
        scale = vector.sum(axis=1)
        vector /= scale[:, None]
        log_scale += np.log(scale) + columns.log_step_scale
    # Close the ring: the last step must return to the column it started from.
    overlap = columns.spins[start] @ columns.spins.T
    closing = vector * half_weight * np.exp(columns.coupling * overlap - columns.log_step_scale)
    closed = closing.sum(axis=1)
    along = np.sum(closing * overlap, axis=1) / closed / columns.width
    log_closed = np.log(closed) + np.log(half_weight[start]) + log_scale + columns.log_step_scale + np.log(multiplicity)
    log_z = float(logsumexp(log_closed))
    probability = np.exp(log_closed - log_z)
    shape = (columns.width, length)
    return _grid_moments(
        np.full(shape, probability @ columns.spins[start].mean(axis=1)),
        np.full(shape, probability @ columns.across[start].mean(axis=1)),
        np.full(shape, probability @ along),
        log_z,
    )


def _grid_moments(mean: Array, across: Array, along: Array, log_z: float) -> GridMoments:
    bonds = across.size + along.size
    bond_mean = float((across.sum() + along.sum()) / bonds) if bonds else math.nan
    return GridMoments(mean, across, along, bond_mean, log_z)


def _necklaces(width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one column state of each class under rotation, and the size of the class."""
    state = np.arange(2**width)
    smallest = state.copy()
    for shift in range(1, width):
        rotated = (state >> shift) | ((state << (width - shift)) & (2**width - 1))
        smallest = np.minimum(smallest, rotated)
    return np.unique(smallest, return_counts=True)


# --- complete graph ---------------------------------------------------------------------------------------------------


def curie_weiss(d: int, coupling: float, field: float = 0.0) -> CurieWeissMoments:
    """Return the exact moments of p(s) ~ exp((coupling / d) sum_{i<j} s_i s_j + field sum_i s_i).

    A sum over the number k of sites at +1, with sum_{i<j} s_i s_j = ((2k - d)^2 - d) / 2. The phase transition of a
    large d is at coupling 1, field 0.
    """
    _require_integer("d", d, 2)
    coupling, field = _finite_number("coupling", coupling), _finite_number("field", field)
    k = np.arange(d + 1)
    total = 2.0 * k - d
    pairs = (total**2 - d) / 2
    log_weight = gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1) + coupling / d * pairs + field * total
    log_z = float(logsumexp(log_weight))
    probability = np.exp(log_weight - log_z)
    return CurieWeissMoments(
        mean=float(probability @ total) / d,
        pair_mean=float(probability @ pairs) / (d * (d - 1) / 2),
        log_z=log_z,
    )


# --- validation -------------------------------------------------------------------------------------------------------


def _require_integer(name: str, value: object, smallest: int, largest: int | None = None) -> None:
    expected = f"an integer >= {smallest}" if largest is None else f"an integer from {smallest} to {largest}"
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; expected {expected}")
    if value < smallest or (largest is not None and value > largest):
        raise ValueError(f"{name} is {value}; expected {expected}")


def _finite_number(name: str, value: float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; expected a finite number")
    return number


def _finite_array(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        first = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(array)))
        raise ValueError(f"{name} has {array[first]} at index {first}; expected finite numbers")
    return array


def _full(name: str, value: ArrayLike, size: int) -> Array:
    array = _finite_array(name, value)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} have shape {array.shape}; expected ({size},) or a number")
    return np.broadcast_to(array, size)
