"""Couplings that results need for control variates, as arrays that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

# Systems of equations of so many variables are solved however they are coupled; larger ones up to the second number,
# where few are coupled with each: so many, beside itself.
_ANY, _LARGEST, _NEIGHBOURS = 1024, 4096, 8
# Names under which the matrix is kept.
_PARTS = ("indptr", "indices", "data")


def can_control(A: Any) -> bool:
    """Return whether equations with these couplings, a matrix or None if there are none, are solved at once."""
    if A is None:
        return False
    d: int = A.shape[0]
    return d <= _ANY or (d <= _LARGEST and isinstance(A, scipy.sparse.csr_array) and A.nnz <= (_NEIGHBOURS + 1) * d)


def pack_couplings(A: Any) -> dict[str, NDArray[Any]]:
    """Return couplings that can serve as controls, without their diagonal, as arrays by name; others as nothing."""
    if not can_control(A):
        return {}
    matrix = scipy.sparse.coo_array(A)
    apart = matrix.row != matrix.col
    rows = scipy.sparse.csr_array((matrix.data[apart], (matrix.row[apart], matrix.col[apart])), shape=matrix.shape)
    types = np.int64, np.int32, np.float64
    return {f"couplings.{name}": getattr(rows, name).astype(dtype) for name, dtype in zip(_PARTS, types, strict=True)}


def unpack_couplings(arrays: Mapping[str, NDArray[Any]]) -> scipy.sparse.csr_array | None:
    """Return the couplings among some arrays by name, or None if there are none."""
    if "couplings.data" not in arrays:
        return None
    indptr, indices, data = (arrays[f"couplings.{name}"] for name in _PARTS)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(indptr.size - 1, indptr.size - 1))


def without_couplings(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the other arrays."""
    return {name: array for name, array in arrays.items() if not name.startswith("couplings.")}
