"""Exact moments of small piecewise targets, by Gauss-Legendre quadrature on each cell, and their log p."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.potential import Potential

Array = NDArray[np.float64]

# Nodes of each piece of a cell, and largest length of a piece in natural lengths, in three and in four dimensions, and
# where jumps need not be at the ends of cells.
FINE, COARSE, OBLIQUE = (8, 3.0), (6, 4.0), (4, 0.1)
# Length to which an infinite cell is cut.
REACH = 12.0


@dataclass(frozen=True)
class Exact:
    """Expectations under a target.

    Attributes
    ----------
    mean, covariance : (d,) and (d, d), of the values x
    cell : (n,) probability of each cell
    log_prob : expectation of log p(x)
    """

    mean: Array
    covariance: Array
    cell: Array
    log_prob: float


def integrate(target: PathTarget) -> Exact:
    """Return exact answers for a target of at most four coordinates, a density with walls of two."""
    d = target.d
    axes = [_axis(target, i) for i in range(d)]
    rows = np.stack([grid.ravel() for grid in np.meshgrid(*(axis[0] for axis in axes), indexing="ij")], axis=1)
    y = np.stack([grid.ravel() for grid in np.meshgrid(*(axis[1] for axis in axes), indexing="ij")], axis=1)
    weight = np.prod(np.stack(np.meshgrid(*(axis[2] for axis in axes), indexing="ij")), axis=0).ravel()
    if not isinstance(target, PiecewiseTarget):
        log_prob = target.log_prob(y)
        return _expectations(target.cells.lower.size, rows, y, weight, -log_prob, log_prob)
    potential, cells = target.potential, target.cells
    x = cells.slope[rows] * y + cells.shift[rows]
    shapes = (cells.constant, cells.tilt, cells.curvature)
    phi = cells.constant[rows] + y * (cells.tilt[rows] + 0.5 * cells.curvature[rows] * y)
    energy = 0.5 * np.sum(x * (potential.coupling @ x.T).T, axis=1) - x @ potential.linear + phi.sum(axis=1)
    # Of a cell that stands for one value, log p has the integral of exp(-phi) instead of its value.
    still, part = cells.slope == 0.0, np.zeros(cells.lower.size)
    part[still] = [log(_mass(*row)) for row in np.stack([cells.lower, cells.upper, *shapes])[:, still].T.tolist()]
    part[~still] = -np.log(np.abs(cells.slope[~still]))
    log_prob = (part[rows] + np.where(still[rows], phi, 0.0)).sum(axis=1) - energy
    return _expectations(cells.lower.size, rows, x, weight, energy, log_prob)


def _expectations(
    cells: int, rows: NDArray[np.int64], x: Array, weight: Array, energy: Array, log_prob: Array
) -> Exact:
    """Return expectations under exp(-energy), (n,), of values x and log p at nodes in the cells `rows`, both (n, d)."""
    p = weight * np.exp(-(energy - energy.min()))
    p /= p.sum()
    mean = p @ x
    centred = x - mean
    cell = np.zeros(cells)
    for column in rows.T:
        np.add.at(cell, column, p)
    known = p > 0.0
    return Exact(mean, (p[:, None] * centred).T @ centred, cell, float(p[known] @ log_prob[known]))


def literal_log_prob(potential: Potential, x: Array) -> float:
    """Return log p(x) for x of shape (d,): the sum over all cells of each value, with masses by adaptive quadrature.

    Densities count only where no cell stands for the value as a whole.
    """
    cells = potential.cells
    total = float(potential.linear @ x - 0.5 * x @ (potential.coupling @ x))
    for i in range(cells.d):
        masses, densities = [], []
        for row in range(cells.first[i], cells.first[i + 1]):
            lower, upper, slope, shift, constant, tilt, curvature = (
                float(getattr(cells, name)[row])
                for name in ("lower", "upper", "slope", "shift", "constant", "tilt", "curvature")
            )
            if slope == 0.0 and shift == x[i]:
                masses.append(_mass(lower, upper, constant, tilt, curvature))
            elif slope != 0.0 and lower <= (y := (x[i] - shift) / slope) <= upper:
                densities.append(exp(-constant - tilt * y - 0.5 * curvature * y * y) / abs(slope))
        total += log(sum(masses or densities))
    return total


@cache
def _mass(lower: float, upper: float, constant: float, tilt: float, curvature: float) -> float:
    """Return the integral of exp(-phi) over a cell."""
    if constant == inf:
        return 0.0
    found: float = quad(
        lambda y: exp(-constant - tilt * y - 0.5 * curvature * y * y), lower, upper, epsabs=0.0, epsrel=1e-13
    )[0]
    return found


def _axis(target: PathTarget, i: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Return cells, nodes and weights of one coordinate. Infinite cells are cut in pieces, so that peaks are met."""
    cells, scale = target.cells, target.scale[i]
    own = slice(cells.first[i], cells.first[i + 1])
    ends = np.concatenate([cells.lower[own], cells.upper[own]])
    middle = ends[np.isfinite(ends)] if np.isfinite(ends).any() else np.zeros(1)
    n_nodes, piece = FINE if target.d <= 3 else COARSE
    if not isinstance(target, PiecewiseTarget):
        n_nodes, piece = OBLIQUE
    x, w = np.polynomial.legendre.leggauss(n_nodes)
    rows, nodes, weights = [], [], []
    for row in range(own.start, own.stop):
        low = max(cells.lower[row], middle.min() - REACH * scale)
        high = min(cells.upper[row], middle.max() + REACH * scale)
        edges = np.linspace(low, high, max(2, int(np.ceil((high - low) / (piece * scale))) + 1))
        half = 0.5 * np.diff(edges)[:, None]
        nodes.append((edges[:-1, None] + half * (1.0 + x)).ravel())
        weights.append((half * w).ravel())
        rows.append(np.full(nodes[-1].size, row))
    return np.concatenate(rows), np.concatenate(nodes), np.concatenate(weights)
