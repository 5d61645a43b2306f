"""Gibbs samplers of continuous variables, one coordinate at a time, that paths are measured against.

They keep products with the precision or the Gram matrix up to date, so that a draw costs one row, and use the compiler
flags and random numbers of the package. Normals beyond a bound are drawn by rejection, which is exact however far out
the bound is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from baselines import inlined
from numpy.typing import NDArray

from bouncy._compile import kernel
from bouncy._random import exponential, fill_normal, new_state, uniform

Array = NDArray[np.float64]

# Below this bound, normals are drawn until one lies above it; from it on, exponential proposals are refused less often.
_EXPONENTIAL_FROM = 0.45
# From this bound on, the hazard of a normal is a continued fraction; nearer, erfc loses no digits.
_FRACTION_FROM, _FRACTION_TERMS = 6.0, 20


class Orthant:
    """Coordinate Gibbs for N(0, P^-1) given x >= 0.

    Parameters
    ----------
    P : ndarray or scipy.sparse array, shape (d, d)
        Precision.
    seed : int
    conditional : bool
        Average E[x_i | all others] at each draw instead of x_i.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The present state.
    """

    def __init__(self, P: Any, seed: int, conditional: bool = False) -> None:
        self._P = P
        d = P.shape[0]
        self.x = 1.0 / np.sqrt(P.diagonal())
        self._sd = 1.0 / np.sqrt(P.diagonal())
        self._state = self.x, np.empty(d), np.empty(d), np.empty(1), new_state(np.random.SeedSequence(seed))
        self._conditional = conditional
        if scipy.sparse.issparse(P):
            rows = scipy.sparse.csr_array(P)
            self._matrix: Any = rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data
        else:
            self._matrix = np.ascontiguousarray(P)

    def average(self, sweeps: int) -> Array:
        """Go on for some sweeps and return the average of x over them, (d,)."""
        x, f, *_ = self._state
        f[:] = self._P @ x  # what rounding had built up is forgotten
        sums = np.zeros(x.size)
        loop = _orthant_sparse if isinstance(self._matrix, tuple) else _orthant_dense
        loop(self._matrix, self._sd, *self._state, sums, sweeps, self._conditional)
        return sums / sweeps


@kernel
def _orthant_dense(P, sd, x, f, z, spare, rng, sums, sweeps, conditional):
    """Draw every x_i given the others, with f = Px kept. Changes all arrays but P and sd; z and spare are scratch."""
    for _ in range(sweeps):
        fill_normal(rng, z)
        for i in range(x.size):
            change = _draw_coordinate(sd, x, f, z, spare, rng, sums, i, conditional)
            row = P[i]
            for j in range(x.size):
                f[j] += change * row[j]


@kernel
def _orthant_sparse(P, sd, x, f, z, spare, rng, sums, sweeps, conditional):
    """Do the same with the precision in CSR form."""
    indptr, indices, data = P
    for _ in range(sweeps):
        fill_normal(rng, z)
        for i in range(x.size):
            change = _draw_coordinate(sd, x, f, z, spare, rng, sums, i, conditional)
            for k in range(indptr[i], indptr[i + 1]):
                f[indices[k]] += change * data[k]


@inlined
def _draw_coordinate(sd, x, f, z, spare, rng, sums, i, conditional):
    """Draw x_i given the others, add what is averaged to `sums`, and return the change of x_i."""
    mean = x[i] - f[i] * sd[i] * sd[i]
    bound = -mean / sd[i]
    new = max(mean + sd[i] * normal_above(bound, z[i], spare, rng), 0.0)  # rounding must not lead out
    sums[i] += mean + sd[i] * hazard(bound) if conditional else new
    change = new - x[i]
    x[i] = new
    return change


@inlined
def normal_above(bound, z, spare, rng):
    """Return a standard normal given that it exceeds a bound; z is a standard normal to begin with (Robert 1995)."""
    if bound > _EXPONENTIAL_FROM:
        rate = 0.5 * (bound + math.sqrt(bound * bound + 4.0))
        while True:
            x = bound + exponential(rng) / rate
            if 2.0 * exponential(rng) > (x - rate) * (x - rate):
                return x
    while True:
        x = abs(z) if bound > 0.0 else z
        if x > bound:
            return x
        fill_normal(rng, spare)
        z = spare[0]


@inlined
def hazard(a):
    """Return E[z | z > a] for a standard normal z: its density at a over the probability beyond."""
    if a < _FRACTION_FROM:
        return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * a * a) / math.erfc(a * math.sqrt(0.5))
    tail = a
    for k in range(_FRACTION_TERMS, 0, -1):
        tail = a + k / tail
    return tail


class Slab(NamedTuple):
    """What the draw of a coefficient needs: for r = x_j'residual, log-odds constant + gain r^2, mean shrinkage r."""

    constant: Array  # (p,)
    gain: Array  # (p,)
    shrinkage: Array  # (p,)
    sd: Array  # (p,)


class Indicators:
    """Gibbs for spike and slab with a point mass at zero (George & McCulloch 1997, Kuo & Mallick 1998).

    Each variable's indicator is drawn with its coefficient integrated out, and then its coefficient, both given all
    other coefficients.

    Parameters
    ----------
    X : ndarray, shape (n, p)
        Variables, centred.
    y : ndarray, shape (n,)
        Response, centred.
    inclusion, slab_scale, noise_scale : float
    seed : int
    """

    def __init__(self, X: Array, y: Array, inclusion: float, slab_scale: float, noise_scale: float, seed: int) -> None:
        p = X.shape[1]
        self._gram, self._moment = X.T @ X, X.T @ y
        precision = self._gram.diagonal() / noise_scale**2 + slab_scale**-2
        odds = math.log(inclusion) - math.log1p(-inclusion) - math.log(slab_scale)
        self._slab = Slab(
            odds - 0.5 * np.log(precision),
            0.5 / (noise_scale**4 * precision),
            1.0 / (noise_scale**2 * precision),
            1.0 / np.sqrt(precision),
        )
        self._state = np.zeros(p), np.empty(p), np.empty(p), new_state(np.random.SeedSequence(seed))

    def average(self, sweeps: int) -> Array:
        """Go on for some sweeps and return averages, (4, p).

        The first two rows are indicators and coefficients, the others their expectations given everything else.
        """
        beta, f, *_ = self._state
        f[:] = self._moment - self._gram @ beta
        sums = np.zeros((4, beta.size))
        _draw_indicators(self._gram, self._slab, *self._state, sums, sweeps)
        return sums / sweeps


@kernel
def _draw_indicators(G, slab, beta, f, z, rng, sums, sweeps):
    """Draw all variables in turn, with f = X'(y - X beta) kept. Changes beta, f, z, rng and sums."""
    for _ in range(sweeps):
        fill_normal(rng, z)
        for j in range(beta.size):
            r = f[j] + G[j, j] * beta[j]
            probability = 1.0 / (1.0 + math.exp(-slab.constant[j] - slab.gain[j] * r * r))
            mean = slab.shrinkage[j] * r
            new = mean + slab.sd[j] * z[j] if uniform(rng) <= probability else 0.0
            sums[0, j] += new != 0.0
            sums[1, j] += new
            sums[2, j] += probability
            sums[3, j] += probability * mean
            change = new - beta[j]
            if change != 0.0:
                beta[j] = new
                row = G[j]
                for k in range(f.size):
                    f[k] -= change * row[k]
