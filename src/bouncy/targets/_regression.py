"""Reading the data and the priors of a regression: checks, centring, scaling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln

from bouncy._labels import Labels, align
from bouncy._validation import check_positive, check_real_array, entry, first_true

Array = NDArray[np.float64]

# Partners of a variable, and the power of their correlations by which they are tried (`benchmarks/selection.py`).
_PARTNERS, _POWER = 20, 4.0
# Variables whose correlations with all others are computed at a time.
_ROWS = 256
# A column that varies by less than this, relatively, is constant but for rounding.
_ROUNDING = 1e-12


class Data(NamedTuple):
    """What a regression is given: observations, names of the variables, and what belongs to each variable."""

    names: Labels | None
    X: Array  # (n, p)
    y: Array  # (n,)
    per_variable: list[Any]


def read_data(X: Any, y: Any, **per_variable: Any) -> Data:
    """Return X and y as float64 copies, rows matched by the index of X, and other arguments by its columns."""
    others = ((name, value, "variable") for name, value in per_variable.items())
    (X, y, *rest), named = align(("X", X, "row", "variable"), ("y", y, "row"), *others)
    design = _read_design(X)
    return Data(named["variable"], design, _read_response(y, design.shape[0]), rest)


def _read_design(X: Any) -> Array:
    """Return X, which may be a data frame, as a float64 copy, (n, p)."""
    is_frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    names = list(X.columns) if is_frame else None
    design = check_real_array("X", _frame_values(X.to_numpy(), names) if names else _without_booleans(X))
    if design.ndim != 2 or 0 in design.shape:
        raise ValueError(f"X must have shape (n, p), observations in rows, variables in columns, got {design.shape}")
    return design


def _without_booleans(X: Any) -> Any:
    return X.astype(np.float64) if isinstance(X, np.ndarray) and X.dtype == np.bool_ else X


def _frame_values(values: NDArray[Any], names: list[Hashable]) -> Any:
    """Return the values of a data frame, whose columns of numbers and booleans may have become objects together."""
    if values.dtype.kind != "O":
        return _without_booleans(values)
    columns = [np.array(values[:, j].tolist()) for j in range(values.shape[1])]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            raise TypeError(
                f"X must hold numbers, got column {name!r} with {column.flat[0]!r:.40}; code categories as 0/1 columns "
                "and fill in what is missing"
            )
    return np.column_stack([column.astype(np.float64) for column in columns])


def _read_response(y: ArrayLike, n: int) -> Array:
    """Return y as a float64 copy, (n,)."""
    response = check_real_array("y", y)
    if response.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one entry for each row of X, got shape {response.shape}")
    return response


def normalise(columns: Array, centre: bool, names: Sequence[str], remark: str) -> tuple[Array, Array]:
    """Return columns, (n, p), as rows of length 1, (p, n), centred if `centre`, and the lengths they had, (p,).

    A constant column raises an error with its name and the remark.
    """
    peak = np.abs(columns).max(axis=0)
    rows = np.array((columns / np.where(peak > 0, peak, 1.0)).T, order="C")  # no square of them can overflow
    if centre:
        rows -= rows.mean(axis=1, keepdims=True)
    at = first_true(np.abs(rows).max(axis=1) <= _ROUNDING)
    if at is not None:
        what = "constant, as the intercept is already" if centre else "zero everywhere"
        raise ValueError(f"{names[at[0]]} is {what}; {remark}")
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= length[:, None]
    with np.errstate(over="ignore"):
        total = peak * length
    at = first_true(~np.isfinite(total))
    if at is not None:
        raise ValueError(f"the norm of {names[at[0]]} must fit in a float64 but overflows; use other units")
    return rows, total


@dataclass(frozen=True)
class InclusionPrior:
    """log p(gamma) = by_size[k] + sum of log_odds over the k variables in the model.

    Attributes
    ----------
    probabilities : (p,) array
        Prior inclusion probability of each variable.
    log_odds : (p,) array
    by_size : (p + 1,) array
    beta : float or None
        b of the Beta(1, b) prior of one unknown probability; None if the probabilities are known.
    """

    probabilities: Array
    log_odds: Array
    by_size: Array
    beta: float | None = None

    def draw(self, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Return which variables are in a model drawn from the prior, (p,)."""
        chance = self.probabilities if self.beta is None else generator.beta(1.0, self.beta)
        included: NDArray[np.bool_] = generator.random(self.probabilities.size) < chance
        return included


def read_inclusion(inclusion: Any, expected_size: Any, p: int) -> InclusionPrior:
    """Return the prior that `inclusion` and `expected_size` describe together."""
    if expected_size is not None and not 0 < check_positive("expected_size", expected_size) < p:
        raise ValueError(f"expected_size must lie strictly between 0 and p = {p}, got {expected_size}")
    if isinstance(inclusion, str):
        if inclusion != "beta-binomial":
            raise ValueError(
                f"inclusion must be a probability, one for each variable or 'beta-binomial', got {inclusion!r:.60}"
            )
        return _beta_binomial(0.5 if expected_size is None else expected_size / p, p)
    if inclusion is None:
        return _known_probabilities(np.full(p, 0.5 if expected_size is None else expected_size / p))
    if expected_size is not None:
        raise ValueError(
            "inclusion and expected_size say the same thing: pass one of them, or inclusion='beta-binomial'"
        )
    return _known_probabilities(
        read_probabilities(inclusion, p, "one that always is kept in by target.clamp({label: +1})")
    )


def _beta_binomial(share: float, p: int) -> InclusionPrior:
    """Return the prior of a common probability with law Beta(1, b), b such that its mean 1/(1 + b) is `share`."""
    beta, k = (1.0 - share) / share, np.arange(p + 1)
    return InclusionPrior(np.full(p, share), np.zeros(p), betaln(1.0 + k, beta + p - k) - betaln(1.0, beta), beta)


def _known_probabilities(probabilities: Array) -> InclusionPrior:
    left_out = np.log1p(-probabilities)
    return InclusionPrior(
        probabilities, np.log(probabilities) - left_out, np.full(probabilities.size + 1, left_out.sum())
    )


def read_probabilities(inclusion: ArrayLike, p: int, kept_in: str) -> Array:
    """Return the prior inclusion probability of each variable, (p,); `kept_in` advises on those that are certain."""
    probabilities = check_real_array("inclusion", inclusion)
    if probabilities.shape not in ((), (p,)):
        raise ValueError(f"inclusion must be a number or have shape ({p},), got shape {probabilities.shape}")
    at = first_true((probabilities <= 0) | (probabilities >= 1))
    if at is not None:
        raise ValueError(
            f"inclusion must lie strictly between 0 and 1, got {entry('inclusion', at, probabilities[at])}; a variable "
            f"that is never in the model can be left out of X, {kept_in}"
        )
    return np.broadcast_to(probabilities, (p,)).copy()


def read_slab_scale(slab_scale: ArrayLike | None, p: int) -> Array:
    """Return the scale of each variable's slab, (p,)."""
    if slab_scale is None:
        raise ValueError(
            "prior='independent' needs slab_scale, the standard deviation of a coefficient in units of that of the "
            "noise (or, with noise_scale, in units of y); with columns of standard deviation 1 try slab_scale=1"
        )
    scale = check_real_array("slab_scale", slab_scale)
    if scale.shape not in ((), (p,)):
        raise ValueError(f"slab_scale must be a number or have shape ({p},), got shape {scale.shape}")
    at = first_true(scale <= 0)
    if at is not None:
        raise ValueError(f"slab_scale must be > 0, got {entry('slab_scale', at, scale[at])}")
    return np.broadcast_to(scale, (p,)).copy()


def correlated_pairs(columns: Array, correlations: Array) -> scipy.sparse.csr_array:
    """Return the weights with which pairs of variables are tried to replace each other, symmetric, (p, p).

    Each variable has the others that it is most correlated with as partners, in proportion to r^4, and is a partner of
    theirs. `columns`, (p, n), have correlations as their products; these may be given, (p, p), or not, (0, 0).
    """
    p = len(columns)
    most = min(_PARTNERS, p - 1)
    kept: list[tuple[NDArray[np.intp], NDArray[np.intp], Array]] = []
    for begin in range(0, p, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, p))
        r = np.abs(correlations[rows] if correlations.size else columns[rows] @ columns.T)
        r[np.arange(rows.size), rows] = -1.0
        partner = np.argpartition(-r, most - 1, axis=1)[:, :most] if most else np.empty((rows.size, 0), np.intp)
        kept.append((np.repeat(rows, most), partner.ravel(), np.take_along_axis(r, partner, axis=1).ravel()))
    i, j, r = (np.concatenate(column) for column in zip(*kept, strict=True))
    one_way = scipy.sparse.csr_array((pair_weight(r), (i, j)), shape=(p, p))
    return scipy.sparse.csr_array(one_way.maximum(one_way.T))


def pair_weight(r: Any) -> Any:
    """Return the weight of two variables with the correlation |r|."""
    return r**_POWER
