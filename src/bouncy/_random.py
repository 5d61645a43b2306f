"""Random numbers inside compiled loops: xoshiro256++ (Blackman & Vigna 2019) on a `uint64[4]` state.

Thirty-two bytes of state, the same stream on every platform, and about six times faster inside a kernel than a NumPy
`Generator`. Every function changes its `state` in place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper

_ULP = 2.0**-53


def new_state(seed: np.random.SeedSequence) -> NDArray[np.uint64]:
    """Return the generator state that a seed sequence stands for, shape (4,)."""
    return np.asarray(seed.generate_state(4, np.uint64), dtype=np.uint64)


@helper
def _rotate_left(x, k):  # type: ignore[no-untyped-def]
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@helper
def next_bits(state):  # type: ignore[no-untyped-def]
    """Return the next 64 random bits."""
    result = _rotate_left(state[0] + state[3], 23) + state[0]
    t = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = _rotate_left(state[3], 45)
    return result


@helper
def uniform(state):  # type: ignore[no-untyped-def]
    """Return a uniform number in (0, 1], a multiple of 2^-53."""
    return (np.int64(next_bits(state) >> np.uint64(11)) + 1) * _ULP


@helper
def exponential(state):  # type: ignore[no-untyped-def]
    """Return an Exp(1) variate."""
    return -math.log(uniform(state))


@helper
def fill_normal(state, out):  # type: ignore[no-untyped-def]
    """Fill `out` with independent standard normals (Marsaglia's polar method)."""
    n = out.size
    i = 0
    while i < n:
        a = 2.0 * uniform(state) - 1.0
        b = 2.0 * uniform(state) - 1.0
        q = a * a + b * b
        if 0.0 < q < 1.0:
            scale = math.sqrt(-2.0 * math.log(q) / q)
            out[i] = a * scale
            if i + 1 < n:
                out[i + 1] = b * scale
            i += 2


@helper
def fill_sphere(state, out):  # type: ignore[no-untyped-def]
    """Fill `out` with a uniformly distributed unit vector."""
    norm = 0.0
    while norm == 0.0:
        fill_normal(state, out)
        square = 0.0
        for i in range(out.size):
            square += out[i] * out[i]
        norm = math.sqrt(square)
    for i in range(out.size):
        out[i] /= norm
