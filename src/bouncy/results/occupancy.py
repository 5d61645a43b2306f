"""Probabilities of intervals and quantiles, from the time that a path spent in bins and cells.

The distribution function is known at the ends of both. In between it is a monotone cubic through them (PCHIP). Values
that stand for a whole cell (zero in spike and slab, spins) are point masses and no matter of interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

Array = NDArray[np.float64]

_NO_CUTS = np.zeros((2, 0))
# Knots nearer than this share of a bin are one.
_SAME_PLACE = 1e-6


@dataclass(frozen=True)
class Atom:
    """A value of one coordinate with a probability of its own."""

    value: float
    mass: float


class Density(NamedTuple):
    """The law of one variable: a density in bins, and point masses; both together have the probability 1.

    What little lies beyond the bins is left out.
    """

    edges: Array  # (bins + 1,) ends of the bins, (0,) where the variable has point masses alone
    density: Array  # (bins,) probability of a bin divided by its width
    atoms: list[Atom]


class Occupancy:
    """The distribution of one coordinate.

    Parameters
    ----------
    low, high : float
        Ends of the bins; equal where the coordinate has none.
    bins : ndarray, shape (BINS + 2,)
        Probability below the bins, in each of them, and above.
    atoms : list of Atom
        Point masses.
    cuts : ndarray, shape (2, k), optional
        Places at which cells end, and the probability below each.
    """

    def __init__(self, low: float, high: float, bins: Array, atoms: list[Atom], cuts: Array = _NO_CUTS) -> None:
        self.low, self.high = low, high
        self._cuts = cuts
        self._atoms = sorted(atoms, key=lambda atom: atom.value)
        self._edges = np.linspace(low, high, bins.size - 1)
        self._bins = bins
        self._below = np.cumsum(bins[:-1])
        self._has_bins = high > low and bins.sum() > 0.0
        self._smooth: Callable[..., Any] = PchipInterpolator(*self._knots(cuts)) if self._has_bins else np.zeros_like

    def _knots(self, cuts: Array) -> tuple[Array, Array]:
        """Return where the distribution function is known, and its values: at the ends of bins, and at cuts."""
        places = np.concatenate([self._edges, cuts[0]])
        below = np.concatenate([self._below, cuts[1]])
        order = np.argsort(places, kind="stable")  # at equal places the end of a bin comes first
        places, below = places[order], np.maximum.accumulate(below[order])
        width = (self.high - self.low) / (self._edges.size - 1)
        apart = np.diff(places, prepend=-np.inf) > _SAME_PLACE * width
        inside = (places >= self.low) & (places <= self.high)
        return places[apart & inside], below[apart & inside]

    def below(self, x: float, inclusive: bool) -> float:
        """Return the probability of values below x, x itself included or not; NaN where the bins do not reach."""
        atoms = sum(atom.mass for atom in self._atoms if atom.value < x or (inclusive and atom.value == x))
        return atoms + self._continuous(x)

    def _continuous(self, x: float) -> float:
        if not self._has_bins:
            return 0.0
        if x < self.low:
            return 0.0 if self._bins[0] == 0.0 or x == -np.inf else np.nan
        if x > self.high:
            return float(self._bins.sum()) if self._bins[-1] == 0.0 or x == np.inf else np.nan
        return float(self._smooth(x))

    def shares(self, lower: float, upper: float) -> Array:
        """Return which share of the continuous part between two cuts lies between lower and upper, (k + 1,)."""
        whole = float(self._bins.sum())
        ends = np.concatenate([[0.0], self._cuts[1], [whole]])
        a, b = (self._continuous(x) for x in (lower, upper))
        a, b = 0.0 if np.isnan(a) else a, whole if np.isnan(b) else b
        inside, mass = np.diff(np.clip(ends, a, max(a, b))), np.diff(ends)
        return np.asarray(inside / np.where(mass > 0.0, mass, 1.0))

    def density(self, x: float) -> float:
        """Return the density of the continuous part at x."""
        if not self._has_bins or not self.low <= x <= self.high:
            return 0.0
        return max(float(self._smooth(x, 1)), 0.0)

    def in_bins(self) -> Density:
        """Return the density in the bins, and the point masses."""
        if not self._has_bins:
            return Density(np.zeros(0), np.zeros(0), self._atoms)
        return Density(self._edges, self._bins[1:-1] / np.diff(self._edges), self._atoms)

    def quantile(self, q: float) -> tuple[float, bool]:
        """Return the smallest x with probability q at or below it, and whether it is a point mass.

        NaN where it lies beyond the bins.
        """
        for atom in self._atoms:
            if self.below(atom.value, False) < q <= self.below(atom.value, True):
                return atom.value, True
        if not self._has_bins:
            return np.nan, False
        if self.below(self.low, True) > q or self.below(self.high, True) < q:
            return np.nan, False
        low, high = self.low, self.high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle, True) < q else (low, middle)
        return high, False


def share_of_bins(low: Array, high: Array, lower: Array, upper: Array, bins: int) -> Array:
    """Return the share of each bin, (d, bins + 2), that lies between lower and upper, all (d,)."""
    width = np.where(high > low, (high - low) / bins, 1.0)
    edges = low[:, None] + width[:, None] * np.arange(bins + 1)
    left = np.concatenate([np.full((low.size, 1), -np.inf), edges], axis=1)
    right = np.concatenate([edges, np.full((low.size, 1), np.inf)], axis=1)
    inside = np.minimum(right, upper[:, None]) - np.maximum(left, lower[:, None])
    with np.errstate(invalid="ignore"):
        share = np.where(np.isfinite(right - left), np.clip(inside / width[:, None], 0.0, 1.0), 0.0)
    share[:, 0] = lower == -np.inf
    share[:, -1] = upper == np.inf
    return share


def neighbours(low: Array, high: Array, x: Array, bins: int) -> list[tuple[Array, Array]]:
    """Return the ends of the bins that hold x, and how much x belongs to each, all (d,); x itself beyond the bins."""
    width = np.where(high > low, (high - low) / bins, 1.0)
    beyond = ~((low < x) & (x < high))
    place = np.where(beyond, 0.0, (np.where(beyond, low, x) - low) / width)
    first = np.floor(place)
    ends = [np.where(beyond, x, low + k * width) for k in (first, first + 1.0)]
    return [(ends[0], 1.0 - (place - first)), (ends[1], place - first)]
