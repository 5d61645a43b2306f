"""Potentials that are quadratic on each cell of an axis-aligned partition, of which all targets here are made.

Each coordinate y_i lies in one of its cells, and there stands for the value x_i = a y_i + c, with a and c those of the
cell. With A symmetric,

    U(y) = x'A x / 2 - b.x + sum_i phi_i(y_i),    phi = constant + tilt y + curvature y^2 / 2 on each cell.

A Gaussian has one cell per coordinate (a = 1), a truncated one has ends that are walls, a lasso has a tilt that changes
at zero. A spin is a coordinate with two cells and a = 0, x = -1 or +1; a coefficient that may be zero has a cell with
a = 0 between two with a = 1. So a new target needs no compiled code: it consists of A, b and its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._dispatch import part
from bouncy._memory import read_only
from bouncy._validation import first_true
from bouncy.piecewise.coupling import Dense, Matrix, Sparse, as_coupling
from bouncy.piecewise.points import ways_out
from bouncy.piecewise.spikes import WINDOW, Spikes, arranged
from bouncy.piecewise.visits import expected_shares, visits_of
from bouncy.piecewise.weights import log_masses

Array = NDArray[np.float64]

# A jump of x or phi at a wall that is smaller than this, relative to the two values, is rounding.
_ROUNDING = 1e-13
# A coupling that differs from its transpose by more than this, relatively, is not symmetric.
_SKEW = 1e-10


@dataclass(frozen=True)
class Cells:
    """The cells of all coordinates, one row each, those of a coordinate beside each other and in order.

    Attributes
    ----------
    first : ndarray of int64, shape (d + 1,)
        Rows first[i] to first[i + 1] belong to coordinate i.
    lower, upper : ndarray, shape (n,)
        Ends of each cell. The outermost ends of a coordinate are walls that are never crossed, where they are finite.
    slope, shift : ndarray, shape (n,)
        a and c of the value x = a y + c.
    constant, tilt, curvature : ndarray, shape (n,)
        Of phi; a constant of +inf makes a cell that is never entered.
    """

    first: NDArray[np.int64]
    lower: Array
    upper: Array
    slope: Array
    shift: Array
    constant: Array
    tilt: Array
    curvature: Array

    def __post_init__(self) -> None:
        n = self.lower.size
        for field in fields(self)[1:]:
            if getattr(self, field.name).shape != (n,):
                raise ValueError(f"{field.name} must have one entry for each of {n} cells, shape ({n},)")
        if self.first[0] != 0 or self.first[-1] != n or not (np.diff(self.first) > 0).all():
            raise ValueError(
                f"first must rise from 0 to the number of cells, {n}, with at least one cell for each step"
            )
        bad = first_true(~(self.lower < self.upper))
        if bad is not None:
            raise ValueError(f"edges must increase, got a cell from {self.lower[bad]} to {self.upper[bad]}")
        inner = np.setdiff1d(np.arange(n - 1), self.first[1:-1] - 1, assume_unique=True)
        if not (self.upper[inner] == self.lower[inner + 1]).all():
            raise ValueError(
                "the cells of a coordinate must follow one another: the upper end of one is the lower of the next"
            )
        for field in fields(self):
            object.__setattr__(self, field.name, read_only(getattr(self, field.name)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments, so that the arrays are read-only wherever it arrives."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def alike(
        cls,
        d: int,
        edges: ArrayLike,
        *,
        slope: ArrayLike = 1.0,
        shift: ArrayLike = 0.0,
        constant: ArrayLike = 0.0,
        tilt: ArrayLike = 0.0,
        curvature: ArrayLike = 0.0,
    ) -> Cells:
        """Return d coordinates with equally many cells each.

        Parameters
        ----------
        d : int
            Number of coordinates.
        edges : array_like, shape (cells + 1,) or (d, cells + 1)
            Ends of the cells, increasing, the outermost included.
        slope, shift, constant, tilt, curvature : array_like
            Broadcast to (d, cells).

        Examples
        --------
        >>> spins = Cells.alike(3, [-np.inf, 0.0, np.inf], slope=0.0, shift=[-1.0, 1.0], curvature=1.0)
        >>> spins.first.tolist()
        [0, 2, 4, 6]
        """
        ends = np.broadcast_to(np.asarray(edges, dtype=np.float64), (d, np.shape(edges)[-1]))
        cells = ends.shape[1] - 1
        rows = [
            np.broadcast_to(np.asarray(row, dtype=np.float64), (d, cells)).ravel()
            for row in (ends[:, :-1], ends[:, 1:], slope, shift, constant, tilt, curvature)
        ]
        return cls(np.arange(d + 1) * cells, *rows)

    @classmethod
    def joined(cls, groups: Sequence[Cells]) -> Cells:
        """Return the coordinates of several groups, one group after the other."""
        starts = np.cumsum([0, *(group.first[-1] for group in groups)])
        first = np.concatenate([[0], *(group.first[1:] + start for group, start in zip(groups, starts, strict=False))])
        names = [field.name for field in fields(cls) if field.name != "first"]
        return cls(first, *(np.concatenate([getattr(group, name) for group in groups]) for name in names))

    @property
    def d(self) -> int:
        return self.first.size - 1

    @cached_property
    def log_scale(self) -> Array:
        """Part of log p(x) that depends on the cell alone, (n,): -log|a| - constant, or the logarithm of its mass."""
        moves = self.slope != 0.0
        masses = ~moves & (self.constant < np.inf)  # a cell that is never entered has none
        scale = np.zeros(moves.size)
        scale[moves] = -np.log(np.abs(self.slope[moves]))
        scale[masses] = log_masses(*(row[masses] for row in (self.lower, self.upper, self.tilt, self.curvature)))
        return scale - self.constant

    def locate(self, y: Array) -> NDArray[np.int64]:
        """Return the row of the cell of each coordinate of y, (d,); on an edge, that of the cell above it."""
        rows = self.first[:-1].copy()
        for i in range(self.d):
            own = slice(self.first[i], self.first[i + 1])
            rows[i] += int(np.searchsorted(self.upper[own][:-1], y[i], side="right"))
        return rows

    def coordinates(self, x: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return coordinates y that stand for the values x, and the rows of their cells, all (d,).

        If a whole cell stands for a value, y is its point of smallest phi, even if an end of a neighbouring cell has
        the same value. A value that no cell has raises `ValueError`.
        """
        y, rows = np.empty(self.d), np.empty(self.d, np.int64)
        for i in range(self.d):
            rows_of_i = range(self.first[i], self.first[i + 1])
            for row in sorted(rows_of_i, key=lambda row: self.slope[row] != 0.0):
                y[i] = self._coordinate(row, x[i])
                if self.lower[row] <= y[i] <= self.upper[row] and self.constant[row] < np.inf:
                    rows[i] = row
                    break
            else:
                raise ValueError(f"no cell of coordinate {i} has the value {x[i]}")
        return y, rows

    def _coordinate(self, row: int, x: float) -> float:
        """Return the y at which a y + c of a cell is x, inside the cell or not; NaN if there is none."""
        if self.slope[row] != 0.0:
            return float((x - self.shift[row]) / self.slope[row])
        if self.shift[row] != x:
            return float("nan")
        lower, upper, tilt, bend = self.lower[row], self.upper[row], self.tilt[row], self.curvature[row]
        if bend > 0.0:
            lowest = -tilt / bend
        elif tilt == 0.0:
            lowest = 0.0
        else:
            lowest = lower if tilt > 0.0 else upper
        return float(min(max(lowest, lower), upper))

    def values(self, y: Array) -> Array:
        """Return x of y, both (d,)."""
        rows = self.locate(y)
        x: Array = self.slope[rows] * y + self.shift[rows]
        return x

    def scaled(self, scale: Array) -> Cells:
        """Return the cells of the coordinates y / scale."""
        own = np.repeat(scale, np.diff(self.first))
        return replace(
            self,
            lower=self.lower / own,
            upper=self.upper / own,
            slope=self.slope * own,
            tilt=self.tilt * own,
            curvature=self.curvature * own**2,
        )


@dataclass(frozen=True)
class Potential:
    """U(y) = x'A x / 2 - b.x + sum_i phi_i(y_i), as described above.

    Attributes
    ----------
    coupling : ndarray or csr_array, shape (d, d)
        A, symmetric.
    linear : ndarray, shape (d,)
        b.
    cells : Cells
        The values x and the functions phi.
    """

    coupling: Matrix
    linear: Array
    cells: Cells

    def __post_init__(self) -> None:
        A, d = self.coupling, self.cells.d
        if A.shape != (d, d) or self.linear.shape != (d,):
            raise ValueError(
                f"coupling and linear must have shapes {(d, d)} and {(d,)} for {d} coordinates, got {A.shape} and "
                f"{self.linear.shape}"
            )
        size: Any = abs(A)
        difference: Any = abs(A - A.T)
        largest, skew = float(size.max()), float(difference.max())
        if not np.isfinite(largest) or not np.isfinite(self.linear).all():
            raise ValueError("coupling and linear must be finite")
        if skew > _SKEW * largest:
            raise ValueError(
                f"coupling must be symmetric; it differs from its transpose by {skew:.3g}. Use (A + A.T) / 2"
            )
        object.__setattr__(self, "_writable", A)
        for name in ("coupling", "linear"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments, so that the arrays are read-only wherever it arrives."""
        return type(self), (self.coupling, self.linear, self.cells)

    def shared_coupling(self) -> Dense | Sparse:
        """Return A for compiled loops, which all views of a dense one share; nothing may write to it."""
        # Read-only arrays have another numba type, for which loops would be compiled again.
        return as_coupling(self._writable)  # type: ignore[attr-defined]

    def energy(self, y: Array) -> float:
        """Return U(y) for y of shape (d,), in O(d^2); +inf outside the outermost ends."""
        cells, rows = self.cells, self.cells.locate(y)
        if (y < cells.lower[rows]).any() or (y > cells.upper[rows]).any():
            return np.inf
        x = cells.slope[rows] * y + cells.shift[rows]
        phi = cells.constant[rows] + cells.tilt[rows] * y + 0.5 * cells.curvature[rows] * y**2
        return float(0.5 * x @ (self.coupling @ x) - self.linear @ x + phi.sum())

    def gradient(self, y: Array) -> Array:
        """Return the gradient of U at y, both (d,), in the cells that y lies in."""
        cells, rows = self.cells, self.cells.locate(y)
        x = cells.slope[rows] * y + cells.shift[rows]
        force = self.coupling @ x - self.linear
        gradient: Array = cells.slope[rows] * force + cells.tilt[rows] + cells.curvature[rows] * y
        return gradient

    def natural_scale(self) -> Array:
        """Return a length for each coordinate, (d,): the smallest 1 / sqrt(second derivative) among its cells.

        In these units the potential is equally steep along all coordinates.
        """
        first = self.cells.first
        stiffness = self.cells.slope**2 * np.repeat(self.diagonal(), np.diff(first)) + self.cells.curvature
        steepest = np.maximum.reduceat(stiffness, first[:-1])
        return 1.0 / np.sqrt(np.where(steepest > 0.0, steepest, 1.0))

    def diagonal(self) -> Array:
        """Return the diagonal of A, (d,)."""
        return np.asarray(self.coupling.diagonal(), dtype=np.float64)


@part()
class View(NamedTuple):
    """A potential as compiled loops use it, in scaled coordinates."""

    coupling: Dense | Sparse
    linear: Array  # (d,)
    first: NDArray[np.int64]  # (d + 1,)
    lower: Array  # (n,) and so on: the cells
    upper: Array
    slope: Array
    shift: Array
    constant: Array
    tilt: Array
    curvature: Array
    x_jump: Array  # (n,) jump of x at the upper end of a cell
    phi_jump: Array  # (n,) jump of phi; NaN at the outermost end
    way_out: Array  # (n,) the lower of the jumps of phi on the ways out of a point; NaN of cells that are crossed
    log_scale: Array  # (n,) of the cells before coordinates are scaled, which changes no density of x
    stiffness: Array  # (n,) second derivative of U along the coordinate
    root: Array  # (n,) its square root, 0 where it is negative
    deviation: Array  # (n,) one over that
    log_still: Array  # (n,) logarithm of the mass of a cell that stands for one value; 0 for others
    diagonal: Array  # (d,) of A
    kind: NDArray[np.int64]  # (d,) see below
    halves: Array  # (d, 5) what the law of a coordinate on a half-line depends on, see `_half_lines`
    spikes: Spikes  # coordinates that are normal or at a point


# Kinds of coordinates, by their law given the others: any, with values that neither jump nor rest, on one half-line, or
# a normal beside a point mass, whose three cells are its two sides with the point between them.
ANY, LINE, HALF_LINE, SPIKED = range(4)
# Masses of a point and its normal that differ by more than this, as a logarithm, are left to sums of logarithms.
_SIMILAR = 300.0


def new_view(potential: Potential, scale: Array) -> View:
    """Return a potential in the coordinates y / scale."""
    cells = potential.cells.scaled(scale)
    jumps = jumps_of(cells)
    # Writable arrays: read-only ones have another numba type, for which loops would be compiled again.
    rows = {field.name: np.require(getattr(cells, field.name), requirements=["C", "W"]) for field in fields(Cells)}
    coupling, linear, log_scale = potential.shared_coupling(), potential.linear.copy(), potential.cells.log_scale
    own = np.repeat(np.arange(cells.d), np.diff(cells.first))
    stiffness = cells.slope**2 * potential.diagonal()[own] + cells.curvature
    log_still = np.where(cells.slope == 0.0, log_scale - np.log(scale)[own], 0.0)
    root = np.sqrt(np.maximum(stiffness, 0.0))
    with np.errstate(divide="ignore"):
        deviation = 1.0 / root
    kind = kinds_of(potential)
    diagonal = potential.diagonal().copy()  # that of a dense matrix cannot be written to
    return View(
        coupling,
        linear,
        **rows,
        x_jump=jumps[0],
        phi_jump=jumps[1],
        way_out=ways_out(cells, *jumps),
        log_scale=log_scale,
        stiffness=stiffness,
        root=root,
        deviation=deviation,
        log_still=log_still,
        diagonal=diagonal,
        kind=kind,
        halves=_half_lines(cells, kind, diagonal),
        spikes=_spikes(potential, kind, coupling),
    )


def kinds_of(potential: Potential) -> NDArray[np.int64]:
    """Return the kind of each coordinate, (d,)."""
    cells = potential.cells
    stiffness = cells.slope**2 * np.repeat(potential.diagonal(), np.diff(cells.first)) + cells.curvature
    kinds, first, count = np.full(cells.d, ANY), cells.first[:-1], np.diff(cells.first)
    same = np.full(cells.d, True)
    possible = (cells.slope != 0.0) & (cells.constant < np.inf)
    for name in ("slope", "shift"):
        least, most = (find.reduceat(getattr(cells, name), first) for find in (np.minimum, np.maximum))
        same &= least == most
    kinds[same & (cells.slope[first] != 0.0)] = LINE
    half = possible & (np.isfinite(cells.lower) != np.isfinite(cells.upper)) & (stiffness >= 0.0)
    kinds[(count == 1) & half[first]] = HALF_LINE
    (three,) = np.nonzero(count == 3)
    left, point, right = first[three], first[three] + 1, first[three] + 2
    spiked = possible[left] & (stiffness[left] > 0.0) & (cells.slope[point] == 0.0) & (cells.constant[point] < np.inf)
    for name in ("slope", "constant"):
        spiked &= getattr(cells, name)[left] == getattr(cells, name)[right]
    for row in (left, point, right):
        spiked &= (cells.tilt[row] == 0.0) & (cells.curvature[row] == 0.0)
    spiked &= (cells.lower[left] == -np.inf) & (cells.upper[right] == np.inf)
    for row, ends in ((left, cells.upper), (right, cells.lower)):
        spiked &= (cells.slope[row] > 0.0) & (cells.slope[row] * ends[row] + cells.shift[row] == cells.shift[point])
    three = three[spiked]
    kinds[three[np.abs(log_odds(potential, three)) < _SIMILAR]] = SPIKED
    return kinds


def _half_lines(cells: Cells, kind: NDArray[np.int64], A: Array) -> Array:
    """Return what the law of a coordinate on a half-line depends on, (d, 5), and zeros for others.

    At a distance t from its end the value is end + a t, and -log density has the slope offset + a g there, with g as in
    `expectations.py`, and the curvature kappa: (offset, a, end, sqrt(kappa), 1 / sqrt(kappa)).
    """
    (half,) = np.nonzero(kind == HALF_LINE)
    row, halves = cells.first[half], np.zeros((kind.size, 5))
    slope, shift, kappa = cells.slope[row], cells.shift[row], cells.slope[row] ** 2 * A[half] + cells.curvature[row]
    upwards = cells.upper[row] == np.inf
    start, away = np.where(upwards, cells.lower[row], cells.upper[row]), np.where(upwards, 1.0, -1.0)
    offset = away * (slope * A[half] * shift + cells.tilt[row] + kappa * start)
    with np.errstate(divide="ignore"):
        halves[half] = np.stack([offset, away * slope, slope * start + shift, np.sqrt(kappa), 1.0 / np.sqrt(kappa)], 1)
    return halves


def log_odds(potential: Potential, spiked: NDArray[np.int64]) -> Array:
    """Return the logarithm of the mass of a point over that of the normal beside it, whose mean is at the point."""
    left = potential.cells.first[spiked]
    log_scale, A = potential.cells.log_scale, potential.diagonal()[spiked]
    odds: Array = log_scale[left + 1] - log_scale[left] - 0.5 * np.log(2.0 * np.pi / A)
    return odds


def _spikes(potential: Potential, kind: NDArray[np.int64], coupling: Dense | Sparse) -> Spikes:
    """Return the coordinates that are normal or at a point, with those first that are probably beside it."""
    (spiked,) = np.nonzero(kind == SPIKED)
    A, point, odds = potential.diagonal(), np.zeros(kind.size), np.zeros(kind.size)
    point[spiked] = potential.cells.shift[potential.cells.first[spiked] + 1]
    odds[spiked] = np.exp(log_odds(potential, spiked))
    shares = np.zeros(kind.size)
    if spiked.size > WINDOW:
        shares = expected_shares(coupling, potential.linear.copy(), A.copy(), point, odds)
    order, visits, times = visits_of(shares[spiked], WINDOW)
    order, place = spiked[order], np.zeros(kind.size, np.int64)
    place[order] = np.arange(order.size)
    A, odds = A[order], odds[order]
    constants = arranged(np.stack([A, point[order], 1.0 / A, 1.0 / np.sqrt(A), odds, 1.0 / odds]))
    return Spikes(constants, order, place, visits, times)


def jumps_of(cells: Cells) -> tuple[Array, Array]:
    """Return the jumps of x and of phi at the upper end of each cell, (n,) each; NaN at the outermost ends."""
    with np.errstate(invalid="ignore"):  # at infinite ends, whose jumps are never used
        x = [cells.slope * end + cells.shift for end in (cells.upper, cells.lower)]
        size = [np.abs(cells.slope * end) + np.abs(cells.shift) for end in (cells.upper, cells.lower)]
        phi = [cells.constant + end * (cells.tilt + 0.5 * cells.curvature * end) for end in (cells.upper, cells.lower)]
        return _jump(x, size, cells.first), _jump(phi, np.abs(phi), cells.first)


def _jump(ends: Any, sizes: Any, first: NDArray[np.int64]) -> Array:
    """Return the jump at the upper end of each row, 0 if it is rounding; NaN at the outermost ends.

    Both arguments are pairs of arrays, (n,), at upper and at lower ends: values, and how large their terms are.
    """
    jump: Array = np.append(ends[1][1:], np.nan) - ends[0]
    # Infinite jumps are not below an infinite bound.
    jump[np.abs(jump) < _ROUNDING * (np.append(sizes[1][1:], np.nan) + sizes[0])] = 0.0
    jump[first[1:] - 1] = np.nan
    return jump
