"""A Gaussian cut to a box, as particles know it that move by its covariance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import part

Array = NDArray[np.float64]


@part()
class Box(NamedTuple):
    """What does not change while a particle moves."""

    mean: Array  # (d,)
    scale: Array  # (d,) lengths in which coordinates are measured
    lower: Array  # (d,) ends of the box less the mean
    upper: Array  # (d,)
    covariance: Array  # (d, d)
    root: Array  # (d, d) upper triangular, root'root = covariance


@helper
def place_inside(box, y, x):
    """Write deviations from the mean, (d,), into x, given coordinates y; rounding must not lead out of the box."""
    for i in range(x.size):
        x[i] = min(max(y[i] * box.scale[i] - box.mean[i], box.lower[i]), box.upper[i])


@helper
def multiply_root(box, z, out):
    """Write root'z into `out`, which has the covariance of the Gaussian if z is standard normal."""
    for i in range(z.size):
        out[i] = 0.0
    for i in range(z.size):
        row, rest, factor = box.root[i, i:], out[i:], z[i]
        for k in range(row.size):
            rest[k] += factor * row[k]
