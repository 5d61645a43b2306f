"""Walk over the allowed states of a restricted target: the other half of `bouncy.exact`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper, kernel
from bouncy.targets.constraints import Constraint
from bouncy.targets.contract import failed, init, log_prob, on_flip, raise_failure

# States that NumPy sums over at a time.
_CHUNK = 1 << 14


class Groups(NamedTuple):
    """A constraint for compiled code."""

    members: NDArray[np.int64]
    ends: NDArray[np.int64]
    free: NDArray[np.int64]


def allowed_log_probs(
    view: Any, constraint: Constraint, steps_between_inits: int, large: float
) -> Iterator[tuple[NDArray[np.int8], NDArray[np.float64]]]:
    """Yield all allowed states, (n, d), and their log p, (n,), some thousand at a time.

    Caches are computed anew every so many states, and at each of them where |log p| is large.
    """
    groups = Groups(
        np.concatenate([*constraint.groups, []]).astype(np.int64),
        np.cumsum([0, *(group.size for group in constraint.groups)]),
        constraint.free,
    )
    s = np.full(constraint.d, -1, np.int8)
    for group, up in zip(constraint.groups, constraint.ups, strict=True):
        s[group[:up]] = 1
    more = True
    while more:
        rows, log_p, first = np.empty((_CHUNK, constraint.d), np.int8), np.empty(_CHUNK), s.copy()
        n, largest, more = _walk(view, groups, s, steps_between_inits, rows, log_p)
        if largest > large:
            s = first
            n, _, more = _walk(view, groups, s, 1, rows, log_p)
        raise_failure(view)
        yield rows[:n], log_p[:n]


@kernel
def _walk(view, groups, s, steps_between_inits, rows, log_p):
    """Write states from s on, and their log p; return how many, the largest finite |log p|, and whether there are more.

    s is then the next state. O(d) a state, besides what flips cost.
    """
    largest = 0.0
    for n in range(log_p.size):
        if n % steps_between_inits == 0:
            init(view, s)
        log_p[n] = log_prob(view, s)
        for i in range(s.size):
            rows[n, i] = s[i]
        if np.isfinite(log_p[n]):
            largest = max(largest, abs(log_p[n]))
        if failed(view) or not _move_on(view, groups, s):
            return n + 1, largest, False
    return log_p.size, largest, True


@helper
def _move_on(view, groups, s):
    """Go to the next state, like the wheels of a counter: groups, then free sites. Return whether there is one."""
    for g in range(groups.ends.size - 1):
        if _next_combination(view, groups.members[groups.ends[g] : groups.ends[g + 1]], s):
            return True
    for i in groups.free:
        _put(view, s, i, -s[i])
        if s[i] > 0:
            return True
    return False


@helper
def _next_combination(view, group, s):
    """Go to the next set of sites with spin +1 in lexicographic order; after the last comes the first, and False."""
    m = group.size - 2
    behind = 1 if group.size and s[group[-1]] > 0 else 0
    while m >= 0 and not (s[group[m]] > 0 and s[group[m + 1]] < 0):
        behind += s[group[m]] > 0
        m -= 1
    found = m >= 0
    if found:
        _put(view, s, group[m], -1)
        behind += 1
    for k in range(m + 1, group.size):
        _put(view, s, group[k], 1 if k <= m + behind else -1)
    return found


@helper
def _put(view, s, i, spin):
    if s[i] != spin:
        s[i] = spin
        on_flip(view, s, i)
