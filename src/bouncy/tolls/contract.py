"""A toll: the rule that accepts or refuses a flip."""

from __future__ import annotations

from bouncy._dispatch import generic


@generic
def pay(toll, purse, cost, i):
    """Return whether a flip of site i passes at this cost, and the purse after it.

    The purse is one number that the loop keeps in a register between hits and saves in `toll.purse[0]`.
    """


@generic
def renew(toll):
    """Draw the state of the toll from its stationary law, independently of the past."""
