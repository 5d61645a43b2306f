"""Conversion from and to QUBOs, E(x) = sum_ij Q_ij x_i x_j + offset, x_i = 0/1."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._labels import Labels, align, check_labels
from bouncy._validation import check_finite, check_positive
from bouncy.formats._terms import (
    assemble,
    check_pairs,
    energy_terms,
    index_of,
    label_pairs,
    off_diagonal,
    read_matrix,
    read_pairs,
)
from bouncy.targets.mrf import MRF

# Sums of terms below this fraction of the sum of their absolute values are rounding errors.
_ROUNDING = 2.0**-48


def from_qubo(Q: Any, temperature: float = 1.0, offset: float = 0.0) -> MRF:
    """Return the MRF p ~ exp(-E(x)/temperature) of a QUBO, over the spins s = 2 x - 1.

    E(x) = sum_ij Q_ij x_i x_j + offset = x'Qx + offset: every entry is one term, whatever triangle it is in, and the
    diagonal is linear. The constant is kept, so that `log_prob` is -E(x)/temperature.

    Parameters
    ----------
    Q : mapping {(u, v): value}, or (d, d) array-like or scipy.sparse
        Coefficients. (u, v) and (v, u) add up. The labels of an array are 0 to d - 1, those of a data frame the ones of
        its index, which its columns must have, too.
    temperature : float
        Finite, > 0.
    offset : float
        Constant part of the energy.

    Returns
    -------
    MRF
        Its `labels` are in the order of first appearance. Couplings are stored sparsely where a flip is then cheaper.

    Examples
    --------
    >>> from bouncy.formats.qubo import from_qubo
    >>> model = from_qubo({("a", "a"): -1.0, ("a", "b"): 3.0})
    >>> model.labels
    ('a', 'b')
    >>> model.log_prob([[-1, -1], [1, -1], [1, 1]])  # x = 00, 10, 11
    array([ 0.,  1., -2.])
    """
    temperature, constant = check_positive("temperature", temperature), check_finite("offset", offset)
    (Q,), named = align(("Q", Q, "site", "site"))
    index, matrix = _read(Q, named["site"])
    K, linear, constant = spin_form(off_diagonal(matrix), matrix.diagonal(), constant)
    return assemble(index, K, linear, constant, temperature)


def to_qubo(mrf: MRF, temperature: float = 1.0) -> tuple[dict[tuple[Hashable, Hashable], float], float]:
    """Return (Q, offset) with log p = -E(x)/temperature, E(x) = sum_ij Q_ij x_i x_j + offset, x = (1 + s)/2.

    Q begins with an entry (u, u) for every label u, in the order of the model; each pair that is coupled follows once.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.formats.qubo import to_qubo
    >>> to_qubo(bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]], r=0.5))
    ({(0, 0): 3.0, (1, 1): 3.0, (0, 1): -4.0}, -2.0)
    """
    h, i, j, J, offset = energy_terms(mrf, temperature)
    with np.errstate(over="ignore", invalid="ignore"):
        # s = 2x - 1: h s = 2h x - h and J s s' = 4J x x' - 2J x - 2J x' + J
        diagonal = _cleared(2 * h - 2 * _per_site(i, j, J, mrf.d), 2 * abs(h) + 2 * _per_site(i, j, abs(J), mrf.d))
        pairs = 4 * J
        constant = float(offset - h.sum() + J.sum())
    if not (np.isfinite(diagonal).all() and np.isfinite(pairs).all() and np.isfinite(constant)):
        raise ValueError(f"energies at temperature {temperature:g} overflow a float64; use a lower temperature")
    Q = {(label, label): value for label, value in zip(mrf.labels, diagonal.tolist(), strict=True)}
    Q.update(zip(label_pairs(mrf.labels, i, j), pairs.tolist(), strict=True))
    return Q, constant


def spin_form(K: Any, linear: NDArray[np.float64], offset: float) -> tuple[Any, NDArray[np.float64], float]:
    """Return the terms (K, linear, offset) over spins of E(x) = sum_i linear_i x_i + sum_ij K_ij x_i x_j + offset.

    With x = (1 + s)/2, x x' = (1 + s + s' + s s')/4. K is an ndarray or a `csr_array` with zero diagonal.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        coupled = K / 4
        fields = linear / 2 + coupled.sum(axis=0) + coupled.sum(axis=1)
        size = abs(linear) / 2 + abs(coupled).sum(axis=0) + abs(coupled).sum(axis=1)
        constant = float(offset + linear.sum() / 2 + coupled.sum())
    return coupled, _cleared(fields, size), constant


def _read(Q: Any, labels: Labels | None) -> tuple[dict[Any, int], Any]:
    """Return the number of each label and the matrix of terms, an ndarray or a `csr_array`."""
    if isinstance(Q, Mapping):
        check_pairs("Q", Q)
        index = index_of(chain.from_iterable(Q))
        return index, read_pairs("Q", Q, index)
    matrix = read_matrix("Q", Q)
    d = matrix.shape[0]
    return index_of(range(d) if labels is None else check_labels(labels, d)), matrix


def _per_site(
    i: NDArray[np.integer], j: NDArray[np.integer], values: NDArray[np.float64], d: int
) -> NDArray[np.float64]:
    """Return the sum over pairs at each site, (d,)."""
    sums = np.zeros(d)
    np.add.at(sums, i, values)
    np.add.at(sums, j, values)
    return sums


def _cleared(sums: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums, with those set to 0 that are zero up to rounding.

    Terms often cancel exactly, in a maximum cut for example; the rounding error that remains is not a weak field.
    """
    return np.where(abs(sums) <= _ROUNDING * sizes, 0.0, sums)
