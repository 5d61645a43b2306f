"""Angles of many points at once, in vectorised arithmetic."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from bouncy._compile import helper

# arctan(u) / u as a polynomial in u^2 for |u| <= 1, with an error below 1e-12.
_ARCTAN = tuple(
    Chebyshev.interpolate(lambda x: np.arctan(np.sqrt(x)) / np.sqrt(x), 13, domain=[0, 1])
    .convert(kind=Polynomial)
    .coef.tolist()
)


@helper
def fill_angles(x, y, out):
    """Write the angle of each point (x, y), y >= 0, into `out`: between 0 and pi, and 0 for the origin.

    With u = (y - |x|) / (y + |x|) the angle of (|x|, y) is pi/4 + arctan u. Plain arithmetic that can be vectorised.
    """
    for i in range(x.size):
        size = y[i] + abs(x[i])
        u = (y[i] - abs(x[i])) / (size if size > 0.0 else 1.0)
        square = u * u
        # Written out: a loop over the coefficients would not be vectorised over the sites.
        fourth = square * square
        eighth = fourth * fourth
        low = (_ARCTAN[0] + _ARCTAN[1] * square) + (_ARCTAN[2] + _ARCTAN[3] * square) * fourth
        middle = (_ARCTAN[4] + _ARCTAN[5] * square) + (_ARCTAN[6] + _ARCTAN[7] * square) * fourth
        high = (_ARCTAN[8] + _ARCTAN[9] * square) + (_ARCTAN[10] + _ARCTAN[11] * square) * fourth
        ratio = low + eighth * (middle + eighth * (high + eighth * (_ARCTAN[12] + _ARCTAN[13] * square)))
        angle = max(0.25 * pi + u * ratio, 0.0) if size > 0.0 else 0.0
        out[i] = angle if x[i] >= 0.0 else pi - angle
