"""Time at which a budget is spent, from which all event times follow.

Along a ray the potential of a piecewise-quadratic target is U(t) = U(0) + b t + c t^2 / 2 until the next wall. Climbing
costs the integral of [b + c t]_+, and the event comes when this equals the budget. The integral and its inverse are in
closed form for every sign of b and c.
"""

from __future__ import annotations

import math

from bouncy._compile import helper


@helper
def climbed(b, c, t):
    """Return the integral of [b + c x]_+ over 0 <= x <= t, for t >= 0."""
    end = b + c * t
    if b >= 0.0:
        if end >= 0.0:
            return t * (b + 0.5 * c * t)
        return -0.5 * b * (b / c)  # up to the top, and down again
    if end <= 0.0:
        return 0.0
    return 0.5 * end * (end / c)  # from the bottom


@helper
def time_to_spend(b, c, budget):
    """Return the t at which `climbed(b, c, t)` reaches the budget; inf if it never does.

    The root of b t + c t^2/2 = E is taken as 2E / (b + sqrt(b^2 + 2cE)), in which nothing cancels; with r^2 = 2|c|E,
    neither square is formed where it might overflow.
    """
    if b < 0.0:
        return math.sqrt(2.0 * budget) / math.sqrt(c) - b / c if c > 0.0 else math.inf
    square = b * b + 2.0 * budget * c
    if c >= 0.0 and 1e-200 < square < 1e200:
        root = math.sqrt(square)
    else:
        r = math.sqrt(2.0 * budget) * math.sqrt(abs(c))
        if c < 0.0 and r > b:  # the top of the hill is reached first
            return math.inf
        root = math.sqrt(b - r) * math.sqrt(b + r) if c < 0.0 else math.hypot(b, r)
    return 2.0 * (budget / (b + root)) if b + root > 0.0 else math.inf
