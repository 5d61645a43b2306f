"""Bugs that a sampler of this kind could have, each as a change of the sources, and the tests that must notice it.

A letter after the number tells apart the two clocks, the two storages or two readings of the same bug. Many of these
bugs leave the law of s exactly right, so that only the law of the clock or the rates of its events show them.

A file for each part of the package; `names.py` has what several of them need.
"""

from __future__ import annotations

from . import clocks, clusters, conditionals, densities, ladders, lanes, particles, points, runs, spins, swaps
from .names import Bug

BUGS: tuple[Bug, ...] = tuple(
    bug
    for part in (clocks, spins, swaps, clusters, lanes, ladders, particles, points, conditionals, densities, runs)
    for bug in part.BUGS
)
