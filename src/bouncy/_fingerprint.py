"""Fingerprints: short texts that tell one target from another, to see that a result belongs to the target at hand."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# States at which log p is compared.
PROBES = 16
# Digits that are compared: the rounding of another machine does not reach them.
_DIGITS = 10
_SEED = 20171102


def digest(description: dict[str, Any]) -> str:
    """Return a hexadecimal digest of a description.

    Examples
    --------
    >>> import bouncy
    >>> same = [bouncy.MRF.random(5, seed=0).fingerprint for _ in range(2)]
    >>> same[0] == same[1] != bouncy.MRF.random(5, seed=1).fingerprint
    True
    """
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:32]


def described(target: Any, probes: NDArray[Any]) -> dict[str, Any]:
    """Return class, size and labels of a target, and log p at some states, (n, d)."""
    # Where a target chooses the states, moving both would leave log p as it is: so it also counts where they are.
    places = probes @ fixed_spins(1, target.d)[0].astype(np.float64)
    return {
        "class": type(target).__name__,
        "d": target.d,
        "labels": _labels(target),
        "places": rounded(places),
        "log_prob": rounded(np.array([_log_prob(target, state) for state in probes])),
    }


def probe_generator() -> np.random.Generator:
    """Return a generator for the starts of targets that are looked at."""
    return np.random.default_rng(_SEED)


def fixed_spins(n: int, d: int) -> NDArray[np.int8]:
    """Return spins, (n, d), from a stream of bits that no version of a library will change."""
    stream = hashlib.shake_256(b"bouncy").digest(-(-n * d // 8))
    bits = np.unpackbits(np.frombuffer(stream, np.uint8))[: n * d]
    return (2 * bits.astype(np.int8) - 1).reshape(n, d)


def rounded(values: NDArray[np.float64]) -> list[str]:
    """Return numbers as text with ten digits of the largest of them, so that what cancels to nothing is zero."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    unit = 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0.0 else 1.0
    digits = [str(round(value / unit)) if math.isfinite(value) else str(value) for value in values.tolist()]
    return [*digits, f"{unit:.0e}"]


def _labels(target: Any) -> list[str]:
    """Return labels as text; none where sites are merely numbered."""
    if target.labels == tuple(range(target.d)):
        return []
    return [_label(label) for label in target.labels]


def _label(label: Hashable) -> str:
    """Return the text of a label, or its class where the text is an address, which differs between processes."""
    kind = type(label)
    return kind.__qualname__ if kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__ else str(label)


def _log_prob(target: Any, state: NDArray[Any]) -> float:
    """Return log p of a state, NaN where a function of the target fails."""
    from bouncy.targets.contract import TargetError

    try:
        return float(target.log_prob(state))
    except TargetError:
        return math.nan
