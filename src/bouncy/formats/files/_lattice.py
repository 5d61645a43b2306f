"""Sides of the lattice of an `MRF.ising` model, which npz and JSON files keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

# More than any lattice has, and few enough for a quick product.
_MOST_SIDES = 64


def is_lattice(sides: Sequence[int], d: int) -> bool:
    """Return whether `sides` are those of a lattice of d sites."""
    return 1 <= len(sides) <= _MOST_SIDES and min(sides) >= 1 and math.prod(sides) == d
