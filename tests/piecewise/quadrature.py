"""Exact moments of small piecewise targets, by Gauss-Legendre quadrature on each cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bouncy.piecewise.contract import PiecewiseTarget

Array = NDArray[np.float64]

# Nodes of each piece of a cell, and largest length of a piece in natural lengths, in three and in four dimensions.
FINE, COARSE = (8, 3.0), (6, 4.0)
# Length to which an infinite cell is cut.
REACH = 12.0


@dataclass(frozen=True)
class Exact:
    """Expectations under a target.

    Attributes
    ----------
    mean, covariance : (d,) and (d, d), of the values x
    cell : (n,) probability of each cell
    energy : expectation of U
    """

    mean: Array
    covariance: Array
    cell: Array
    energy: float


def integrate(target: PiecewiseTarget) -> Exact:
    """Return exact answers for a target of at most four coordinates."""
    potential, d = target.potential, target.d
    axes = [_axis(target, i) for i in range(d)]
    rows = np.stack([grid.ravel() for grid in np.meshgrid(*(axis[0] for axis in axes), indexing="ij")], axis=1)
    y = np.stack([grid.ravel() for grid in np.meshgrid(*(axis[1] for axis in axes), indexing="ij")], axis=1)
    weight = np.prod(np.stack(np.meshgrid(*(axis[2] for axis in axes), indexing="ij")), axis=0).ravel()
    cells = potential.cells
    x = cells.slope[rows] * y + cells.shift[rows]
    phi = cells.constant[rows] + y * (cells.tilt[rows] + 0.5 * cells.curvature[rows] * y)
    energy = 0.5 * np.sum(x * (potential.coupling @ x.T).T, axis=1) - x @ potential.linear + phi.sum(axis=1)
    p = weight * np.exp(-(energy - energy.min()))
    p /= p.sum()
    mean = p @ x
    centred = x - mean
    cell = np.zeros(cells.lower.size)
    for i in range(d):
        np.add.at(cell, rows[:, i], p)
    return Exact(mean, (p[:, None] * centred).T @ centred, cell, float(p @ energy))


def _axis(target: PiecewiseTarget, i: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Return cells, nodes and weights of one coordinate. Infinite cells are cut in pieces, so that peaks are met."""
    cells, scale = target.potential.cells, target.scale[i]
    own = slice(cells.first[i], cells.first[i + 1])
    ends = np.concatenate([cells.lower[own], cells.upper[own]])
    middle = ends[np.isfinite(ends)] if np.isfinite(ends).any() else np.zeros(1)
    n_nodes, piece = FINE if target.d <= 3 else COARSE
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
