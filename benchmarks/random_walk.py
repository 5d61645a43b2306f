"""Random-walk Metropolis, compiled and tuned: the sampler that needs nothing of a density but its values."""

from __future__ import annotations

import math

import numpy as np
from continuous import Array
from densities import Density
from numba import njit

from bouncy._random import exponential, fill_normal, new_state

# What a random walk in several dimensions should accept (Roberts, Gelman & Gilks 1997).
_ACCEPTANCE = 0.25
_TUNING_ROUNDS, _TUNING_STEPS = 40, 500


class RandomWalk:
    """A chain with normal proposals, whose widths are those of the coordinates in a pilot run times a tuned factor.

    Parameters
    ----------
    density : Density
    log_prob : callable
        Its log p, compiled by numba. Chains that share it share the compiled loop.
    seed : int
    """

    def __init__(self, density: Density, log_prob: object, seed: int) -> None:
        self._log_prob, self._data = log_prob, density.data
        self._y, self._new, self._z = density.start.copy(), np.empty(density.d), np.empty(density.d)
        self._rng = new_state(np.random.SeedSequence(seed))
        self._width = np.full(density.d, 0.1)
        for _ in range(3):  # the widths of a pilot run with bad widths are bad ones
            self._width *= self._tune()
            mean, square = self.average(max(20_000, 400 * density.d**2))  # a walk mixes in O(d) steps at best
            self._width = np.sqrt(square - mean**2)
        self._width *= self._tune()

    def average(self, steps: int) -> Array:
        """Go on for some steps, each of which evaluates log p once, and return averages of y and y^2, (2, d)."""
        return self._walk(self._width, steps)[1] / steps

    def _tune(self) -> float:
        """Return the factor at which as many proposals are accepted as should be."""
        log_factor = 0.0
        for k in range(_TUNING_ROUNDS):
            accepted, _ = self._walk(self._width * math.exp(log_factor), _TUNING_STEPS)
            log_factor += (accepted / _TUNING_STEPS - _ACCEPTANCE) * 4.0 / math.sqrt(k + 1.0)
        return math.exp(log_factor)

    def _walk(self, width: Array, steps: int) -> tuple[int, Array]:
        sums = np.zeros((2, self._y.size))
        state = self._y, self._new, self._z, self._rng
        return _walk(self._log_prob, self._data, width, *state, sums, steps), sums


@njit(nogil=True, error_model="numpy")
def _walk(log_prob, data, width, y, new, z, rng, sums, steps):
    """Take some steps from y, add y and y^2 to `sums`, and return how many proposals were accepted.

    Changes all arrays but `width`; `new` and `z` are scratch.
    """
    present, accepted = log_prob(y, data), 0
    for _ in range(steps):
        fill_normal(rng, z)
        for i in range(y.size):
            new[i] = y[i] + width[i] * z[i]
        proposed = log_prob(new, data)
        if present - proposed < exponential(rng):
            y[:] = new
            present = proposed
            accepted += 1
        for i in range(y.size):
            sums[0, i] += y[i]
            sums[1, i] += y[i] * y[i]
    return accepted
