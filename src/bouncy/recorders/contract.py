"""What a recorder is: the part of a loop that keeps sums, counts and draws of a chain.

A recorder has an array `open_events`, to which the loop adds the numbers of hits, flips, bounces and refreshments, and
an array `due`, (1,), the number of attempts until conditional means are recorded again. Under a clock that never looks
at them spins follow p after any number of attempts, so that means need not be recorded at regular times. After every d
attempts their errors are smaller: where flips are seldom refused, d attempts of a Gaussian billiard turn s into nearly
-s, and what is odd in s cancels.
"""

from __future__ import annotations

from bouncy._dispatch import generic

# Columns of counted events.
HITS, FLIPS, BOUNCES, REFRESHMENTS, MEANS = range(5)
# So many attempts are never made: means are recorded at the end of the sweep.
SWEEP_END = 2**62


@generic
def record_flip(recorder, s, i, t):
    """Account for a flip of site i, t after the sweep began; s is as before the flip."""


@generic
def record_means(recorder, target, s):
    """Add the conditional means to the open batch, and say when they are due again."""


@generic
def record_sweep(recorder, target, s, sweep_time):
    """Account for the end of a sweep."""


@generic
def has_room(recorder):
    """Return whether another sweep can be recorded. Where it cannot, the loop returns and the recorder is emptied."""
