"""What Markov random fields have in common, whatever holds their couplings: the local fields h = r + Ms.

Of log p(s) = -s.r - s'Ms/2 everything but the update after a flip follows from s, r and h alone.
"""

from __future__ import annotations

from bouncy._dispatch import implements
from bouncy.targets.contract import flip_cost, flip_costs, log_prob


def implement_by_fields(view_type: type) -> None:
    """Give the costs of flips and the log-probability of a view that keeps `h` and `r`."""
    implements(flip_cost, view_type)(_flip_cost)
    implements(flip_costs, view_type)(_flip_costs)
    implements(log_prob, view_type)(_log_prob)


def _flip_cost(view, s, i):  # type: ignore[no-untyped-def]
    return -2.0 * s[i] * view.h[i]


def _flip_costs(view, s, out):  # type: ignore[no-untyped-def]
    for i in range(s.size):
        out[i] = -2.0 * s[i] * view.h[i]


def _log_prob(view, s):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(s.size):
        total += s[i] * (view.h[i] + view.r[i])
    return -0.5 * total
