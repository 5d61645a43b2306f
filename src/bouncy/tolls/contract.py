"""A toll: the rule that accepts or refuses a flip."""

from __future__ import annotations

from bouncy._dispatch import generic

# Rules of samplers whose tolls do not change their clocks: a flip of cost c passes with probability 1 / max(1, e^c), or
# 1 / (1 + e^c). A lane compares a uniform number u by u (rule + e^c) < 1.
METROPOLIS, HEAT_BATH = 0.0, 1.0


@generic
def pay(toll, purse, cost, i):
    """Return whether a flip of site i passes at this cost, and the purse after it.

    The purse is one number that the loop keeps in a register between hits and saves in `toll.purse[0]`.
    """


@generic
def renew(toll):
    """Draw the state of the toll from its stationary law, independently of the past."""
