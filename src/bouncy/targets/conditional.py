"""Conditional means E[s_i | the other spins] from the costs of single flips."""

from __future__ import annotations

from bouncy._compile import helper
from bouncy._dispatch import implements
from bouncy.targets.contract import conditional_means, flip_cost

# tanh(40 / 2) equals 1 to the last bit.
_SATURATED = 40.0


def implement_by_costs(view_type: type) -> None:
    """Give the conditional means of a view by asking for the cost of each flip."""
    implements(conditional_means, view_type)(_conditional_means)


def _conditional_means(view, s, costs, out):
    for i in range(s.size):
        costs[i] = flip_cost(view, s, i)
    means_from_costs(costs, s, out)


@helper
def means_from_costs(costs, s, out):
    """Write E[s_i | rest] = s_i tanh(c_i / 2) into `out`, c_i the cost of flipping site i.

    `costs` and `out` may be longer than s; what lies beyond is finite in `costs` and of no meaning in `out`.

    tanh(c/2) is (e^c - 1)/(e^c + 1), with e^c as the 16th power of the Pade approximant P(x)/P(-x) of e^x, x = c/16.
    Unlike a call of the mathematical library this is plain arithmetic, so the loop is vectorised; its absolute error is
    below 1e-12.
    """
    for i in range(costs.size):
        x = max(-_SATURATED, min(_SATURATED, costs[i])) * (1.0 / 16.0)
        x2 = x * x
        even = 1680.0 + x2 * (180.0 + x2)
        odd = x * (840.0 + 20.0 * x2)
        up, down = even + odd, even - odd
        up *= up
        down *= down
        up *= up
        down *= down
        up *= up
        down *= down
        up *= up
        down *= down
        out[i] = (up - down) / (up + down)
    for i in range(s.size):
        out[i] *= s[i]
