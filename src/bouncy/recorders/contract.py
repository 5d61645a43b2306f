"""What a recorder is: the part of a loop that keeps sums, counts and draws of a chain.

A recorder has an array `open_events`, (4,), to which the loop adds the numbers of hits, flips, bounces and
refreshments.
"""

from __future__ import annotations

from bouncy._dispatch import generic

# Columns of counted events.
HITS, FLIPS, BOUNCES, REFRESHMENTS = range(4)


@generic
def record_flip(recorder, s, i, t):
    """Account for a flip of site i, t after the sweep began; s is as before the flip."""


@generic
def record_sweep(recorder, target, s, sweep_time):
    """Account for the end of a sweep."""


@generic
def has_room(recorder):
    """Return whether another sweep can be recorded. Where it cannot, the loop returns and the recorder is emptied."""
