"""What Markov random fields have in common, whatever holds their couplings: the local fields h = r + Ms.

Of log p(s) = offset - s.r - s'Ms/2 everything but the update after a flip follows from s, r and h alone.
"""

from __future__ import annotations

from bouncy._dispatch import implements
from bouncy.targets.conditional import implement_by_costs
from bouncy.targets.contract import failed, flip_cost, log_prob


def implement_by_fields(view_type: type) -> None:
    """Give the costs of flips and the log-probability of a view that keeps `h`, `r` and `offset`."""
    implements(flip_cost, view_type)(_flip_cost)
    implements(log_prob, view_type)(_log_prob)
    implements(failed, view_type)(_failed)
    implement_by_costs(view_type)


def _flip_cost(view, s, i):
    return -2.0 * s[i] * view.h[i]


def _log_prob(view, s):
    total = 0.0
    for i in range(s.size):
        total += s[i] * (view.h[i] + view.r[i])
    return view.offset - 0.5 * total


def _failed(view):
    return False
