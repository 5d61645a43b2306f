"""A short text that tells one model from another, to see that a result belongs to the model at hand."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._samplable import Samplable
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.run.within import Within
from bouncy.targets.contract import Target, TargetError

_PROBES = 16
# Of these, starts of the target: where some states are impossible, random ones say little.
_STARTS = 4
# Digits that are compared: the rounding of another machine does not reach them.
_DIGITS = 10
_SEED = 20171102


def target_fingerprint(target: Samplable[Any]) -> str:
    """Return a hexadecimal digest of a model: its class, size and labels, and log p at sixteen fixed states.

    It is the same on every machine and in every process, takes sixteen evaluations of log p, and leaves all random
    generators as they are. For a `Within` it is that of the first target, with names and initial values of parameters.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy._fingerprint import target_fingerprint
    >>> same = [target_fingerprint(bouncy.MRF.random(5, seed=0)) for _ in range(2)]
    >>> same[0] == same[1] != target_fingerprint(bouncy.MRF.random(5, seed=1))
    True
    """
    text = json.dumps(_description(target), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _description(target: Any) -> dict[str, Any]:
    if isinstance(target, Within):
        values = {name: _rounded(value.ravel()) for name, value in target.initial.items()}
        return {"within": _description(target.first), "parameters": values, "sweeps": target.sweeps}
    probes = _probes(target)
    # Where a target chooses the states, moving both would leave log p as it is: so it also counts where they are.
    places = probes @ _spins(1, target.d)[0].astype(np.float64)
    return {
        "class": type(target).__name__,
        "d": target.d,
        "labels": _labels(target),
        "places": _rounded(places),
        "log_prob": _rounded(_log_probs(target, probes)),
    }


def _labels(target: Samplable[Any]) -> list[str]:
    """Return labels as text; none where sites are merely numbered."""
    if target._labels is None or target._labels == tuple(range(target.d)):
        return []
    return [_label(label) for label in target._labels]


def _label(label: Hashable) -> str:
    """Return the text of a label, or its class where the text is an address, which every process has its own of."""
    kind = type(label)
    return kind.__qualname__ if kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__ else str(label)


def _probes(target: Any) -> NDArray[Any]:
    """Return the states to look at, (16, d)."""
    generator = np.random.default_rng(_SEED)
    if isinstance(target, PiecewiseTarget):
        cells = target.potential.cells
        starts = [target.start(generator) for _ in range(_PROBES)]
        rows = [cells.locate(y) for y in starts]
        return np.array([cells.slope[row] * y + cells.shift[row] for y, row in zip(starts, rows, strict=True)])
    starts = [target.start(generator) for _ in range(_STARTS)]
    return np.concatenate([_spins(_PROBES - _STARTS, target.d), np.array(starts, np.int8)])


def _spins(n: int, d: int) -> NDArray[np.int8]:
    """Return spins, (n, d), from a stream of bits that no version of a library will change."""
    stream = hashlib.shake_256(b"bouncy").digest(-(-n * d // 8))
    bits = np.unpackbits(np.frombuffer(stream, np.uint8))[: n * d]
    return (2 * bits.astype(np.int8) - 1).reshape(n, d)


def _log_probs(target: Target | PiecewiseTarget, states: NDArray[Any]) -> NDArray[np.float64]:
    """Return log p of states, NaN where it fails."""
    try:
        return np.atleast_1d(target.log_prob(states))
    except TargetError:
        return np.array([_log_prob(target, state) for state in states])


def _log_prob(target: Target | PiecewiseTarget, state: NDArray[Any]) -> float:
    try:
        return float(target.log_prob(state))
    except TargetError:
        return math.nan


def _rounded(values: NDArray[np.float64]) -> list[str]:
    """Return numbers as text with ten digits of the largest of them, so that what cancels to nothing is zero."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    unit = 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0.0 else 1.0
    digits = [str(round(value / unit)) if math.isfinite(value) else str(value) for value in values.tolist()]
    return [*digits, f"{unit:.0e}"]
