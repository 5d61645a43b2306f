"""The sides of a lattice, which npz and JSON keep beside a model that `MRF.ising` made."""

from __future__ import annotations

import math
from collections.abc import Sequence

# More sides than any lattice has, few enough that their product is quick to take.
_MOST_SIDES = 64


def is_lattice(sides: Sequence[int], d: int) -> bool:
    """Return whether `sides` are those of a lattice of d sites."""
    return 1 <= len(sides) <= _MOST_SIDES and min(sides) >= 1 and math.prod(sides) == d
